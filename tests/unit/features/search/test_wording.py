"""The text of a message, and places in it counted in UTF-16 units."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeleap.features.search.pattern import utf16_length, utf16_length_of_bytes
from timeleap.features.search.search import excerpt, text_of

# What is hard to count: one unit, two units, marks that join others, and what looks like the beginning of something.
CHARACTERS = st.sampled_from('aé\u0301\u200d中😀👩🏽\U0010ffff\uffff\u2028 \n\x00"\\/')
TEXTS = st.text(st.one_of(CHARACTERS, st.characters(exclude_categories=["Cs"])), max_size=60)


def units(text: str) -> list[bytes]:
    """The UTF-16 units of a text, the slow way."""
    raw = text.encode("utf-16-le")
    return [raw[at : at + 2] for at in range(0, len(raw), 2)]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"role": "user", "content": "plain"}, "plain"),
        ({"role": "user"}, ""),
        ({"role": "user", "content": None}, ""),
        ({"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}, "onetwo"),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "think", "think": "hm"},
                    {"type": "text", "text": "said"},
                    {"type": "image_url", "image_url": {"url": "data:..."}},
                    {"type": "text", "text": 5},
                ],
                "tool_calls": [
                    {"id": "1", "function": {"name": "read", "arguments": '{"path": "a"}'}},
                    {"id": "2", "function": {"name": "stop", "arguments": None}},
                    "no call",
                ],
            },
            'said\nhm\nread\n{"path": "a"}\nstop',
        ),
        ({"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "go"}}]}, "\ngo"),
        ({"role": "user", "content": "half \ud83d of a pair"}, "half \ufffd of a pair"),
        ({"role": "user", "content": "a pair in halves: \ud83d\ude00"}, "a pair in halves: 😀"),
        ({"role": "user", "content": 5, "tool_calls": {}}, ""),
    ],
)
def test_the_text_of_a_message(record: dict[str, Any], text: str) -> None:
    assert text_of(record) == text


@settings(deadline=None)
@given(TEXTS)
def test_units_are_counted_as_the_slow_way_counts_them(text: str) -> None:
    assert utf16_length(text) == len(units(text)) == utf16_length_of_bytes(text.encode())


@settings(deadline=None)
@given(TEXTS, st.data())
def test_units_of_bytes_add_up_wherever_they_are_cut(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    cut = data.draw(st.integers(0, len(encoded)))
    assert utf16_length_of_bytes(encoded[:cut]) + utf16_length_of_bytes(encoded[cut:]) == utf16_length(text)


@settings(deadline=None)
@given(TEXTS.filter(bool), st.data(), st.integers(1, 40))
def test_an_excerpt_is_a_piece_of_the_text_with_the_beginning_of_the_span(
    text: str, data: st.DataObject, size: int
) -> None:
    first = data.draw(st.integers(0, len(text) - 1))
    last = data.draw(st.integers(first + 1, len(text)))
    span = utf16_length(text[:first]), utf16_length(text[:last])
    start, piece = excerpt(text, span, size)
    assert units(text)[start : start + utf16_length(piece)] == units(piece)
    assert start <= span[0] < start + utf16_length(piece)
    assert utf16_length(piece) <= size + 2
    piece.encode()  # no character was cut in two
