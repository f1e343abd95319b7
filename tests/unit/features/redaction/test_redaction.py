"""Something is taken out of texts however JSON spells it, and every other byte stays."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from timeleap.errors import InvalidInputError
from timeleap.features.redaction.matchers import ExpressionMatcher, TextMatcher
from timeleap.features.redaction.redactor import MAX_NESTING, RedactedText, Redactor, record_form
from timeleap.storage.log_values import RecordKind
from timeleap.storage.record import classify

SECRET = 'p"ä\\s/😀'


def line(text: str, *words: str) -> RedactedText:
    return Redactor(TextMatcher(words or (SECRET,)), "[redacted]").json(text, record_form)


def nested(value: Any, depth: int) -> str:
    return value if depth == 0 else json.dumps({"arguments": nested(value, depth - 1)}, ensure_ascii=depth % 2 == 0)


@pytest.mark.parametrize("depth", range(MAX_NESTING))
def test_json_within_strings_however_deep(depth: int) -> None:
    text = json.dumps({"role": "user", "content": nested(f"a {SECRET} b", depth)})
    done = line(text)
    assert done == RedactedText(json.dumps({"role": "user", "content": nested("a [redacted] b", depth)}), 1, 0)


@pytest.mark.parametrize(
    "spelling",
    [
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(SECRET).replace("/", "\\/").replace("\\ud83d\\ude00", "\\uD83D\\uDE00"),
        '"' + "".join(f"\\u{ord(char):04x}" for char in SECRET[:-1]) + '\\ud83d\\ude00"',
    ],
)
def test_every_spelling_of_a_string(spelling: str) -> None:
    text = '{ "role" :"user","content":["%s",  1.50e2 ,"\\u0041%s\\/é"],"role":"user"}'
    assert line(text % (spelling[1:-1], spelling[1:-1])) == RedactedText(text % ("[redacted]", "[redacted]"), 2, 0)


def test_what_is_put_in_is_escaped_as_often_as_it_must_be() -> None:
    text = json.dumps({"role": "user", "content": nested("x secret y", 3)})
    done = Redactor(TextMatcher(["secret"]), '"ü\\').json(text, record_form)
    assert done.text == json.dumps({"role": "user", "content": nested('x "ü\\ y', 3)}) or json.loads(done.text)
    content = json.loads(done.text)["content"]
    for _ in range(3):
        content = json.loads(content)["arguments"]
    assert content == 'x "ü\\ y'


def test_an_escape_is_no_occurrence() -> None:
    text = json.dumps({"role": "user", "content": "\nab", "tool": json.dumps({"x": "\nab \\nab"})})
    done = line(text, "nab")
    assert json.loads(json.loads(done.text)["tool"]) == {"x": "\nab \\[redacted]"}
    assert done.occurrences == 1 and json.loads(done.text)["content"] == "\nab"


def test_what_gives_a_record_its_form_stays_and_is_counted() -> None:
    record = {
        "role": "user",
        "content": [{"type": "text", "text": "text"}, {"type": "other", "user": "user"}],
        "tool_calls": [
            {"type": "function", "id": "user", "function": {"name": "text", "arguments": '{"role": "user"}'}}
        ],
        "extra": {"role": "user", "user": [7, 17, "text"]},
        "_tl": {"l": "user", "m": "user"},
    }
    done = line(json.dumps(record), "user", "text", "7")
    changed = json.loads(done.text)
    assert changed == {
        "role": "user",
        "content": [{"type": "text", "text": "[redacted]"}, {"type": "other", "[redacted]": "[redacted]"}],
        "tool_calls": [
            {
                "type": "function",
                "id": "[redacted]",
                "function": {"name": "[redacted]", "arguments": '{"role": "[redacted]"}'},
            }
        ],
        "extra": {"role": "[redacted]", "[redacted]": ["[redacted]", "1[redacted]", "[redacted]"]},
        "_tl": {"l": "[redacted]", "m": "user"},
    }
    assert done.kept == 4 and done.occurrences == 12


def test_members_stay_apart_whose_names_become_the_same() -> None:
    inner = {"a sk-1 b": 1, "a * b": 2, "a sk-2 b": {"sk-3": 3}, "sk-4": 4, "sk-5": 5, "* 2": 6, "x": 7}
    text = json.dumps({"role": "user", "content": "x", "arguments": json.dumps(inner), "sk-1": 1, "sk-2": 2})
    done = Redactor(ExpressionMatcher(r"sk-\d"), "*").json(text, record_form)
    after = json.loads(done.text, object_pairs_hook=lambda pairs: pairs)
    assert after == [
        ("role", "user"),
        ("content", "x"),
        ("arguments", after[2][1]),
        ("*", 1),
        ("* 2", 2),
    ]
    assert list(json.loads(after[2][1]).items()) == [
        *(("a * 2 b", 1), ("a * b", 2), ("a * 3 b", {"*": 3}), ("*", 4), ("* 3", 5), ("* 2", 6), ("x", 7)),
    ]
    assert done.occurrences == 7


@pytest.mark.parametrize("name", ["role", "content", "tool_calls", "_tl"])
def test_no_member_becomes_one_that_gives_a_record_its_form(name: str) -> None:
    text = json.dumps({"role": "user", "content": "x", "hunter2": "assistant"})
    done = Redactor(TextMatcher(["hunter2"]), name).json(text, record_form)
    assert json.loads(done.text) == {"role": "user", "content": "x", f"{name} 2": "assistant"}


@pytest.mark.parametrize("needle", [TextMatcher(["2", "sk"]), ExpressionMatcher(r"sk-\w|[\d_]")])
def test_what_keeps_names_apart_is_not_what_is_taken_out(needle: TextMatcher | ExpressionMatcher) -> None:
    done = Redactor(needle, "*").json(json.dumps({"sk-a": True, "sk-b": False}))
    assert not needle.spans(done.text) and list(json.loads(done.text).values()) == [True, False]


def test_ten_thousand_names_that_become_the_same() -> None:
    text = json.dumps({f"sk-{number}": number for number in range(10_000)})
    done = Redactor(ExpressionMatcher(r"sk-\d+"), "*").json(text)
    assert len(json.loads(done.text)) == done.occurrences == 10_000


def test_a_string_that_must_go_goes_whatever_it_is() -> None:
    text = '{"role":"user","content":"secret","_tl":{"r":"1","h":"0123456789abcdef"}}'
    done = Redactor(TextMatcher(["secret"]), "*").json(text, record_form, ("_tl", "h"))
    assert done == RedactedText('{"role":"user","content":"*","_tl":{"r":"1","h":""}}', 1, 0)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"it is {SECRET}.", "it is *."),
        (f"print({json.dumps(SECRET)}) # {SECRET}", 'print("*") # *'),
        ("he said: " + json.dumps(json.dumps({"a": SECRET})) + ' "', 'he said: "{\\"a\\": \\"*\\"}" "'),
        (f'one\n{json.dumps({"a": SECRET})}\n{{"broken": "{SECRET}', 'one\n{"a": "*"}\n{"broken": "*'),
        ("", ""),
    ],
)
def test_text_that_is_no_json(text: str, left: str) -> None:
    assert Redactor(TextMatcher([SECRET]), "*").text(text).text == left


def test_the_longest_of_words_that_overlap() -> None:
    done = Redactor(TextMatcher(["ab", "abc", "bcd"]), "*").text("abcd ab bcd")
    assert (done.text, done.occurrences) == ("*d * *", 3)


def test_an_expression() -> None:
    redactor = Redactor(ExpressionMatcher(r"sk-[a-z0-9]+|ü+"), "*")
    assert redactor.text("😀 üü sk-abc9 😀ü").text == "😀 * * 😀*"
    text = json.dumps({"role": "tool", "content": json.dumps({"key": "sk-1"}), "x": "\ud800ü"})
    done = redactor.json(text, record_form)
    assert (
        json.loads(done.text) == {"role": "tool", "content": '{"key": "*"}', "x": "\ud800*"} and done.occurrences == 2
    )


def test_a_bad_expression_is_refused_without_repeating_it() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        ExpressionMatcher("hunter2(")
    assert "hunter2" not in f"{refusal.value} {refusal.value.data}"
    assert refusal.value.data["errors"][0]["loc"] == ["pattern"]


def test_an_expression_that_explodes_elsewhere_takes_no_time() -> None:
    begin = time.monotonic()
    done = Redactor(ExpressionMatcher("(a*)*b"), "*").text("a" * 200_000)
    assert done.occurrences == 0
    assert Redactor(TextMatcher(["a"]), "b").text("a\\" * 200_000).occurrences == 200_000
    assert time.monotonic() - begin < 60


def test_an_expression_too_large_for_a_text_is_refused_not_passed_over() -> None:
    with pytest.raises(InvalidInputError):
        Redactor(ExpressionMatcher("(?:[ab]{1,30}c){1,30}"), "*").text("ab" * 2_000_000)


TEXTS = st.text(st.sampled_from('ab"\\/nut0061é😀\n{}[]:, '), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2000) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3) | inner.map(json.dumps),
    max_leaves=8,
)


def strings(value: Any, depth: int = MAX_NESTING) -> list[str]:
    """All strings of a value, those of JSON in strings included."""
    if isinstance(value, str):
        try:
            inner = json.loads(value, strict=False) if depth and value.lstrip()[:1] in ("{", "[", '"') else None
        except ValueError:
            inner = None
        return [value] if inner is None else strings(inner, depth - 1)
    if isinstance(value, dict):
        return [found for pair in value.items() for one in pair for found in strings(one, depth)]
    if isinstance(value, list):
        return [found for one in value for found in strings(one, depth)]
    return [str(value)] if isinstance(value, int) and not isinstance(value, bool) else []


@given(VALUES, st.text(st.sampled_from('ab"\\/nu06é😀'), min_size=1, max_size=3), st.booleans())
@example(json.dumps([[None, "é"]]), "u", False)
def test_nothing_is_left_of_any_value_in_any_record(extra: Any, word: str, ascii_only: bool) -> None:
    text = json.dumps({"role": "user", "content": "x", "extra": extra}, ensure_ascii=ascii_only)
    done = Redactor(TextMatcher([word]), "|").json(text, record_form)
    after = json.loads(done.text)
    assert classify(done.text.encode()).kind == RecordKind.MESSAGE
    assert (after.pop("role"), after.pop("content")) == ("user", "x")
    assert not any(word in one for one in strings(after))
    if done.occurrences == 0:
        assert done.text == text


@given(VALUES, st.booleans())
def test_what_does_not_hold_it_keeps_every_byte(extra: Any, ascii_only: bool) -> None:
    text = json.dumps({"role": "user", "extra": extra}, ensure_ascii=ascii_only, indent=1)
    assert Redactor(TextMatcher(["zz"]), "|").json(text) == RedactedText(text)
    assert TextMatcher(["zz"]).may_be_in(text.encode()) in (False, True)


@given(VALUES, st.text(st.sampled_from('ab"\\/nu06é😀'), min_size=1, max_size=3), st.booleans())
def test_the_quick_look_misses_nothing(extra: Any, word: str, ascii_only: bool) -> None:
    text = json.dumps({"role": "user", "extra": extra}, ensure_ascii=ascii_only)
    if Redactor(TextMatcher([word]), "|").json(text).occurrences:
        assert TextMatcher([word]).may_be_in(text.encode())
