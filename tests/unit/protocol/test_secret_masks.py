"""The table of what looks like a secret: what is masked by it, what is not, and what hostile text costs.

The extension runs the same cases (client-vscode/test/unit/secrets.test.ts).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from tests.support.growth import PATHOLOGICAL, grows_too_fast
from tests.support.secrets import TABLE, written

from timeleap_protocol.secret_masks import MASK, SecretMasks, is_named_secret, mask_secrets, secret_spans

KEY: Final = f"ghp_{('aB3' * 12)}"


def found_in(text: str) -> list[str]:
    return [text[start:end] for start, end in secret_spans(text)]


@pytest.mark.parametrize(("text", "secret"), TABLE["masked"])
def test_a_secret_is_found_and_nothing_around_it(text: str, secret: str) -> None:
    assert found_in(written(text)) == [written(secret)]


@pytest.mark.parametrize("before", ["said: ", "first\n", 'x = "', "(", "`", "\x1b[31m ", "| ", "é "])
def test_a_secret_is_found_whatever_stands_before_it(before: str) -> None:
    missed = [
        text
        for text, secret in TABLE["masked"]
        if written(secret) not in "\n".join(found_in(f"{before}{written(text)}"))
        and not text.startswith(("[", "-", "password: 1"))
    ]
    # On a line of its own only: a word after a colon in a sentence is none.
    assert [text for text in missed if not re.match(r"(?:token|password|secret_key_base)[: ]", text)] == []


@pytest.mark.parametrize("text", TABLE["unmasked"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert found_in(written(text)) == []


@pytest.mark.parametrize(("text", "shown"), TABLE["repeatedly"])
def test_what_stood_in_the_place_of_a_password_is_masked_elsewhere_if_it_is_no_common_word(
    text: str, shown: str
) -> None:
    assert mask_secrets(text)[0] == shown
    assert mask_secrets(shown)[0] == shown


@pytest.mark.parametrize(("value", "shown"), [("hunter2", MASK), ("letmein", "letmein"), ("postgres", "postgres")])
def test_a_secret_of_another_text_is_masked_whichever_comes_first(value: str, shown: str) -> None:
    for told in (f"password={value}", {"db_password": value}, [{"arguments": json.dumps({"password": value})}]):
        masks = SecretMasks()
        masks.learn(told)
        assert masks.value({"text": f"({value})", "more": [f"{value} {value}s"]}) == {
            "text": f"({shown})",
            "more": [f"{shown} {value}s"],
        }


def test_thousands_of_secrets_and_repeats_take_linear_time() -> None:
    assert not grows_too_fast(lambda text: secret_spans(text, [f"hunter{n}" for n in range(5000)]), "hunter2 ")
    assert not grows_too_fast(secret_spans, "password='hunter2' ")
    lines = iter(range(1 << 20))
    assert not grows_too_fast(secret_spans, "".join(f"password=hunter{next(lines)}\n" for _ in range(500)))


def test_a_second_run_finds_nothing_more() -> None:
    for text, _ in TABLE["masked"]:
        once, count = mask_secrets(written(text))
        assert (count, mask_secrets(once)) == (1, (once, 0))


@pytest.mark.parametrize(
    "unit",
    [
        *PATHOLOGICAL,
        *(
            'password"="',
            "token=a1",
            "token=a\n",
            "token='a",
            'token="a',
            "-token=a",
            "token=\n\n",
            "token\\\\",
            "pass",
        ),
        *(
            "://a:",
            "Bearer a",
            "authorization: ",
            "Cookie: a=b",
            "-.",
            "eyJ",
            "-eyJ",
            ".eyJaaaaaaaaaa",
            "-sk-a",
            "SG.a",
        ),
        *("-----BEGIN PRIVATE KEY-----", f"-----BEGIN PRIVATE KEY-----\n{'a' * 20}\n", "PRIVATE KEY", "mysql -u "),
        *("xoxb-1-", "AKIA", "${", "key: <", "?sig=a", "1:AA", "--token ", "x login a password ", "aB3"),
    ],
)
def test_twice_the_text_is_not_four_times_the_work(unit: str) -> None:
    assert not grows_too_fast(secret_spans, unit)


@pytest.mark.parametrize(
    ("value", "masked", "count"),
    [
        ({"password": "letmein", "note": "letmein"}, {"password": MASK, "note": "letmein"}, 1),
        ({"text": f"use {KEY}"}, {"text": f"use {MASK}"}, 1),
        ([{"a": [KEY, KEY]}, None, 3, True], [{"a": [MASK, MASK]}, None, 3, True], 2),
        ({KEY: "x"}, {MASK: "x"}, 1),
        ({"arguments": '{"password": "hunter2"}'}, {"arguments": f'{{"password": "{MASK}"}}'}, 1),
        (
            {"password": "${VAR}", "token": None, "tokenCount": 3},
            {"password": "${VAR}", "token": None, "tokenCount": 3},
            0,
        ),
        ({"url": "data:image/png;base64," + "aB3" * 999}, {"url": "data:image/png;base64," + "aB3" * 999}, 0),
    ],
)
def test_a_json_value_is_masked_and_counted(value: Any, masked: Any, count: int) -> None:
    masks = SecretMasks()
    assert masks.value(value) == masked
    assert masks.count == count


def test_a_text_that_was_cut_shows_no_part_of_a_secret() -> None:
    masks = SecretMasks()
    for length in range(10, len(KEY)):
        cut = f"use the key {KEY[:length]}…"
        assert masks.short_value({"text": cut, "calls": [cut]}) == {"text": "use the key …", "calls": ["use the key …"]}
    assert masks.short_text("a short text") == "a short text"
    assert masks.short_text("a text that was cut …") == "a text that was cut …"
    assert masks.short_text("a text that was c…") == "a text that was c…"
    assert masks.short_text(f"the key {KEY} …") == f"the key {MASK} …"


def test_the_name_of_a_member_makes_its_value_a_secret() -> None:
    assert is_named_secret("db_password", "letmein")
    assert not is_named_secret("passwordHint", "the usual one")
    assert not is_named_secret("text", "letmein")
