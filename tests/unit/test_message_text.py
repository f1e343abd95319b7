"""The token estimate: a quarter of the characters of the text parts, rounded down once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timeleap import Message, TextPart, ThinkPart, ToolCall, estimate_text_tokens, message_text
from timeleap.features.compaction.sizes import text_length


def test_only_text_counts_and_it_is_rounded_once() -> None:
    call = ToolCall(id="1", function=ToolCall.FunctionBody(name="f", arguments="x" * 400))
    messages = [
        Message(role="user", content="abc"),
        Message(role="assistant", content=[ThinkPart(think="t" * 400), TextPart(text="d")], tool_calls=[call]),
        Message(role="assistant", content=[]),
    ]
    assert estimate_text_tokens(messages) == 1
    assert estimate_text_tokens(messages[:1]) == 0
    assert estimate_text_tokens([]) == 0


def test_characters_are_code_points() -> None:
    assert estimate_text_tokens([Message(role="user", content="时间跳跃")]) == 1
    assert text_length({"role": "user", "content": "🏠🏠"}) == 2


def test_what_is_no_text_counts_nothing() -> None:
    strange = [None, 5, {"text": "x"}, [1, {"type": "text"}, {"type": "text", "text": 5}, {"type": "x", "text": "y"}]]
    assert [text_length({"role": "user", "content": content}) for content in strange] == [0, 0, 0, 0]
    assert text_length({"role": "user"}) == 0


@given(st.lists(st.lists(st.text(max_size=9), max_size=3), max_size=6))
def test_both_forms_are_estimated_alike(contents: list[list[str]]) -> None:
    messages = [Message(role="user", content=[TextPart(text=text) for text in texts]) for texts in contents]
    expected = sum(len(text) for texts in contents for text in texts) // 4
    assert estimate_text_tokens(messages) == expected
    length = sum(text_length(message.model_dump()) for message in messages)
    assert length // message_text.CHARS_PER_TOKEN == expected


def cut_by_units(line: str, most: int) -> str:
    """The same in the words of UTF-16."""
    units = line.encode("utf-16-le")
    if len(units) <= 2 * most:
        return line
    kept = units[: 2 * (most - 1)].decode("utf-16-le", "ignore")
    words = kept.rpartition(" ")[0]
    return (words if len(words) > len(kept) * 2 // 3 else kept).rstrip() + "…"


@given(st.text(st.sampled_from("ab é文🙂🏠"), max_size=30), st.integers(1, 12))
def test_a_line_is_cut_by_its_utf_16_units(line: str, most: int) -> None:
    assert message_text.cut(line, most) == cut_by_units(line, most)


@given(st.text(st.sampled_from("ab \t\n\u200b文🙂\ud83d\ude42"), max_size=60), st.integers(1, 12))
def test_of_a_long_text_as_much_is_looked_at_as_shows(text: str, most: int) -> None:
    """Its beginning is enough where that fills the line, and only there."""
    whole = " ".join(message_text._CONTROL.sub(" ", message_text.without_halves(text)).split())
    assert message_text.one_line(text, most) == cut_by_units(whole, most)
