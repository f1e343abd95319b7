"""Cursors: what goes in comes out, and nothing else is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeleap.errors import InvalidInputError
from timeleap.service import cursors
from timeleap.service.paging import Span


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.booleans(), st.none() | st.text())
def test_a_cursor_gives_back_its_position(start: int, stop: int, newest_first: bool, timeline_id: str | None):
    span = Span("s", timeline_id, "0.1", start, start + stop + 1, newest_first)
    cursor = span.cursor("context/getHistory")
    assert cursor is not None
    assert cursors.decode_cursor(cursor, "context/getHistory", Span) == span


@pytest.mark.parametrize(
    "made_up", ["", "x", "!!!", "e30", "eyJvZiI6IDN9", "\u00e9", cursors.encode_cursor("else", done=1)]
)
def test_what_is_no_cursor_of_the_listing_is_refused(made_up: str):
    with pytest.raises(InvalidInputError, match="unknown cursor"):
        cursors.cursor_offset(made_up, "context/listUsage")


def test_a_negative_offset_is_refused():
    with pytest.raises(InvalidInputError):
        cursors.cursor_offset(cursors.encode_cursor("x", done=-1), "x")


def test_the_last_page_has_no_cursor():
    assert cursors.cursor_after(5, 5, "x") is None
    again = cursors.cursor_after(4, 5, "x")
    assert again is not None
    assert cursors.cursor_offset(again, "x") == 4


@given(st.binary())
def test_nothing_made_up_breaks_the_reader(data: bytes):
    with pytest.raises(InvalidInputError) as caught:
        cursors.cursor_offset(data.decode("latin-1"), "x")
    assert caught.value.data["errors"][0]["loc"] == ["cursor"]
