"""Messages and their parts: the JSON form of the original program, streaming, and what other programs write."""

from __future__ import annotations

import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from timeleap import (
    AudioURLPart,
    ContentPart,
    ImageURLPart,
    Message,
    TextPart,
    ThinkPart,
    ToolCall,
    ToolCallPart,
    UnknownPart,
    VideoURLPart,
    system,
)

CALL = ToolCall(id="c1", function=ToolCall.FunctionBody(name="read", arguments='{"path":"a.py"}'))
CALL_JSON = {"type": "function", "id": "c1", "function": {"name": "read", "arguments": '{"path":"a.py"}'}}


@pytest.mark.parametrize(
    ("message", "dumped"),
    [
        (Message(role="user", content="hi"), {"role": "user", "content": "hi"}),
        (Message(role="user", content=[TextPart(text="hi")]), {"role": "user", "content": "hi"}),
        (Message(role="user", content=TextPart(text="hi")), {"role": "user", "content": "hi"}),
        (Message(role="assistant", content=[]), {"role": "assistant", "content": []}),
        (
            Message(role="user", content=[TextPart(text="a"), TextPart(text="b")]),
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ),
        (
            Message(role="assistant", content=ThinkPart(think="hm")),
            {"role": "assistant", "content": [{"type": "think", "think": "hm", "encrypted": None}]},
        ),
        (
            Message(role="user", content=ImageURLPart(image_url=ImageURLPart.ImageURL(url="u", id="1"))),
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "id": "1"}}]},
        ),
        (
            Message(role="user", content=AudioURLPart(audio_url=AudioURLPart.AudioURL(url="u"))),
            {"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "u", "id": None}}]},
        ),
        (
            Message(role="user", content=VideoURLPart(video_url=VideoURLPart.VideoURL(url="u"))),
            {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "u", "id": None}}]},
        ),
        (
            Message(role="assistant", content="", tool_calls=[CALL], name="bot", partial=True),
            {"role": "assistant", "name": "bot", "content": "", "tool_calls": [CALL_JSON], "partial": True},
        ),
        (
            Message(role="tool", content="out", tool_call_id="c1"),
            {"role": "tool", "content": "out", "tool_call_id": "c1"},
        ),
    ],
)
def test_the_json_form(message: Message, dumped: dict[str, object]) -> None:
    assert message.model_dump(exclude_none=True) == dumped
    assert Message.model_validate(dumped) == message
    assert Message.from_record(dumped) == message
    assert json.loads(message.model_dump_json(exclude_none=True)) == dumped


def test_the_order_of_the_fields_is_the_original_s() -> None:
    message = Message(role="assistant", content="x", tool_calls=[CALL], tool_call_id="t", name="n", partial=False)
    assert list(message.model_dump()) == ["role", "name", "content", "tool_calls", "tool_call_id", "partial"]
    assert list(message.model_dump()["tool_calls"][0]) == ["type", "id", "function", "extras"]


def test_content_none_means_no_content() -> None:
    assert Message.model_validate({"role": "assistant", "content": None}).content == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "boss", "content": "x"},
        {"role": "user"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"text": "no type"}]},
        {"role": "user", "content": [{"type": 5}]},
        {"role": "user", "content": [{"type": "text"}]},
    ],
)
def test_validation_refuses_what_is_no_message_and_a_log_is_read_all_the_same(wrong: dict[str, object]) -> None:
    with pytest.raises((ValidationError, TypeError)):
        Message.model_validate(wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        message = Message.from_record(wrong)
        assert message.role == wrong["role"]
        assert isinstance(message.content, list)
        assert repr(message)
        assert message == Message.from_record(wrong)


def test_reading_a_log_keeps_all_that_can_be_told() -> None:
    record = {
        "role": "critic",
        "name": "c",
        "content": [{"type": "text", "text": "a"}, {"type": "text"}, "b", 7, {"type": "chart", "rows": [1]}],
        "tool_calls": [CALL_JSON, {"id": 5}],
        "tool_call_id": "t",
        "partial": True,
    }
    message = Message.from_record(record)
    assert str(message.role) == "critic"
    assert (message.name, message.tool_call_id, message.partial) == ("c", "t", True)
    assert message.tool_calls == [CALL]
    assert message.extract_text("|") == "a|b"
    chart = message.content[4]
    assert isinstance(chart, UnknownPart)
    assert chart.model_dump() == {"type": "chart", "rows": [1]}
    assert Message.from_record({"role": "x", "content": {"type": "text", "text": "t"}}).extract_text() == "t"
    assert Message.from_record({"role": "x", "name": 5}).name is None


def test_a_call_without_arguments_is_read_as_it_was_meant() -> None:
    call = ToolCall(id="c", function=ToolCall.FunctionBody(name="f", arguments=None))
    message = Message(role="assistant", content="x", tool_calls=[call])
    written = json.loads(message.model_dump_json(exclude_none=True))
    assert "arguments" not in written["tool_calls"][0]["function"]
    assert Message.from_record(written) == message


def test_a_part_of_an_unknown_type_survives_a_round_trip() -> None:
    record = {"role": "user", "content": [{"type": "quote", "source": {"page": 3}, "text": "not a text part"}]}
    message = Message.model_validate(record)
    assert message.model_dump(exclude_none=True) == record
    assert message.extract_text() == ""


def test_parts_of_our_users_are_found_by_their_type() -> None:
    class CitationPart(ContentPart):
        type: str = "test-citation"
        source: str

    message = Message.model_validate({"role": "user", "content": [{"type": "test-citation", "source": "RFC 8259"}]})
    assert message.content == [CitationPart(source="RFC 8259")]
    assert message.model_dump()["content"] == [{"type": "test-citation", "source": "RFC 8259"}]
    assert CitationPart.model_validate({"source": "x"}).source == "x"


def test_a_part_needs_a_type() -> None:
    with pytest.raises(ValueError, match="`type`"):

        class _NoTypePart(ContentPart):
            pass

    with pytest.raises(ValueError, match="`type`"):

        class _NumberPart(ContentPart):
            type: int = 5  # type: ignore[assignment]


def test_merging_streamed_pieces() -> None:
    text = TextPart(text="a")
    assert text.merge_in_place(TextPart(text="b"))
    assert not text.merge_in_place(ThinkPart(think="c"))
    assert text.text == "ab"

    think = ThinkPart(think="a")
    assert think.merge_in_place(ThinkPart(think="b"))
    assert not think.merge_in_place(text)
    assert think.merge_in_place(ThinkPart(think="c", encrypted="sig"))
    assert not think.merge_in_place(ThinkPart(think="d"))
    assert (think.think, think.encrypted) == ("abc", "sig")

    call = ToolCall(id="1", function=ToolCall.FunctionBody(name="f", arguments=None))
    assert call.merge_in_place(ToolCallPart(arguments_part='{"a"'))
    assert call.merge_in_place(ToolCallPart(arguments_part=":1}"))
    assert call.merge_in_place(ToolCallPart())
    assert not call.merge_in_place(text)
    assert call.function.arguments == '{"a":1}'

    piece = ToolCallPart()
    assert piece.merge_in_place(ToolCallPart(arguments_part="x"))
    assert piece.merge_in_place(ToolCallPart(arguments_part="y"))
    assert not piece.merge_in_place(call)
    assert piece.arguments_part == "xy"

    assert not ImageURLPart(image_url=ImageURLPart.ImageURL(url="u")).merge_in_place(text)


def test_text_of_a_message() -> None:
    message = Message(role="user", content=[TextPart(text="a"), ThinkPart(think="x"), TextPart(text="b")])
    assert message.extract_text() == "ab"
    assert message.extract_text(sep="\n") == "a\nb"


def test_system_text() -> None:
    assert system("CHECKPOINT 0") == TextPart(text="<system>CHECKPOINT 0</system>")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab日 ", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab日 ", max_size=5), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "critic"])},
    optional={
        "content": JSON
        | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "think", "x"]), "text": JSON})),
        "name": JSON,
        "tool_calls": JSON | st.just([CALL_JSON]),
        "tool_call_id": JSON,
        "partial": JSON,
    },
)


@given(RECORDS)
def test_whatever_a_log_holds_becomes_a_message(record: dict[str, object]) -> None:
    message = Message.from_record(record)
    assert message.role == record["role"]
    assert all(isinstance(part, ContentPart) for part in message.content)
    try:
        strict = Message.model_validate(record)
    except (ValidationError, TypeError):
        return
    assert strict == message
