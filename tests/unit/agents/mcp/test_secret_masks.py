"""What a model is shown holds no secret, nor a part of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.secrets import TABLE, written

from timeleap_agents.mcp.secret_masks import SecretMask, without_cut_word
from timeleap_protocol.secret_masks import MASK

SECRET = "glpat-Xk3Pq9rT2vLm8NzYw4Bd"


@pytest.fixture(scope="module")
def mask(tmp_path_factory: pytest.TempPathFactory) -> SecretMask:
    return SecretMask(tmp_path_factory.mktemp("rules"))


@pytest.mark.parametrize("cut", range(4, len(SECRET)))
def test_a_piece_that_begins_or_ends_within_a_secret_holds_nothing_of_it(cut: int) -> None:
    mask = SecretMask(Path())
    assert mask.masked_excerpt(f"{SECRET[-cut:]} was the key", [SECRET]) == f"{MASK} was the key"
    assert mask.masked_excerpt(f"the key is {SECRET[:cut]}", [SECRET]) == f"the key is {MASK}"
    assert mask.masked_excerpt(SECRET[1:cut], [SECRET]) == MASK


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        f"use {SECRET} then",
        {"content": [{"type": "text", "text": f"use {SECRET}"}]},
        {"arguments": json.dumps({"command": f"login {SECRET}"})},
        {f"{SECRET}": f"{SECRET}"},
        [f"half \ud800 {SECRET}"],
    ],
)
def test_secrets_are_masked_wherever_they_stand(mask: SecretMask, value: Any) -> None:
    masked = json.dumps(mask.masked(value))
    assert SECRET not in masked
    assert MASK in masked


@pytest.mark.slow
def test_what_is_no_secret_stays(mask: SecretMask) -> None:
    value = {"text": "The cause is in names.py, line 12.", "count": 3, "more": [None, True]}
    assert mask.masked(value) == value


def test_the_last_word_of_a_text_that_was_cut_is_left_out() -> None:
    assert without_cut_word("short text", 120) == "short text"
    assert without_cut_word(f"the key is {SECRET[:9]}", 20) == "the key is ..."
    assert without_cut_word(SECRET[:20], 20) == " ..."


@pytest.mark.slow
def test_the_table_holds_for_a_model_too(mask: SecretMask) -> None:
    shown = [written(text) for text, secret in TABLE["masked"] if written(secret) in mask.masked(written(text))]
    assert shown == []


@pytest.mark.slow
def test_the_rules_take_nothing_for_a_secret_that_the_table_says_is_none(mask: SecretMask) -> None:
    texts = [written(text) for text in TABLE["unmasked"]]
    assert [text for text in texts if mask.masked(text) != text] == []


@pytest.mark.parametrize(("text", "shown"), TABLE["repeatedly"])
def test_a_model_is_shown_no_repeated_password(mask: SecretMask, text: str, shown: str) -> None:
    assert mask.masked(text) == shown
    assert mask.masked([text, {"text": text}]) == [shown, {"text": shown}]


def test_short_passwords_are_masked_where_they_stand(mask: SecretMask) -> None:
    assert mask.masked({"text": "password=hunter2 and more"}) == {"text": f"password={MASK} and more"}


def test_a_password_that_is_a_word_is_masked_only_in_its_place(mask: SecretMask) -> None:
    value = {"text": "letmein, said password=letmein", "password": "letmein"}
    assert mask.masked(value) == {"text": f"letmein, said password={MASK}", "password": MASK}
