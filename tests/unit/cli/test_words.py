from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from timeleap.cli.formatting import ago, cell, clock, count, gist, one_line, safe, size

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "a\rb", "\x07", "\x9b31m", "\u202egnp.exe", "\u2028", "\u200f", "\ud800", "\x7f"]
)
def test_nothing_a_terminal_would_obey_gets_through(text):
    shown = safe(text)
    shown.encode()
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    assert "\u202e" not in shown
    assert "\\" in shown


def test_line_feeds_tabs_and_other_scripts_stay():
    assert safe("a\n\tb ü 漢 🙂") == "a\n\tb ü 漢 🙂"


def test_one_line_is_one_line_of_that_width():
    assert one_line("a\n\nb\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


@pytest.mark.parametrize("text", ["=1+1", "+x", "-rm", "@SUM(A1)"])
def test_a_cell_is_never_a_formula(text):
    assert cell(text) == "'" + text


@pytest.mark.parametrize(
    ("value", "shown"), [(-5, "-5"), ("-1.5", "-1.5"), (None, ""), ("a\tb\nc", "a b c"), (True, "True")]
)
def test_a_cell_keeps_numbers_and_has_no_tabs(value, shown):
    assert cell(value) == shown


def test_counts_have_their_plural_and_groups():
    assert [count(n, "message") for n in (0, 1, 2, 1234)] == ["0 messages", "1 message", "2 messages", "1,234 messages"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (12_345, "12.3 KB"),
        (450_000_000, "450 MB"),
        (5 * 10**12, "5000 GB"),
    ],
)
def test_sizes(number, shown):
    assert size(number) == shown


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        (timedelta(seconds=1), "1 second ago"),
        (timedelta(seconds=59), "59 seconds ago"),
        (timedelta(minutes=3), "3 minutes ago"),
        (timedelta(hours=23), "23 hours ago"),
        (timedelta(days=30), "30 days ago"),
        (-timedelta(seconds=5), "0 seconds ago"),
    ],
)
def test_how_long_ago(before, shown):
    assert ago((NOW - before).isoformat(), NOW) == shown


def test_times_that_are_unknown_or_odd_do_no_harm():
    assert ago(None) == ago("") == clock(None) == ""
    assert ago("long ago\x1b") == clock("long ago\x1b") == "long ago\\x1b"
    assert ago("2020-01-02T00:00:00Z", NOW).startswith("2020-01-0")
    assert clock("2020-01-02T00:00:00Z").startswith("2020-01-0")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ({"content": "a\nb"}, "a b"),
        ({"content": [{"type": "think", "think": "x"}, {"type": "text", "text": "said"}]}, "said"),
        ({"content": [], "tool_calls": [{"function": {"name": "ls"}}, {"function": {"name": "cat"}}]}, "calls ls, cat"),
        ({"content": [{"type": "image_url"}]}, "[image_url]"),
        ({"content": None}, "(empty)"),
        ({}, "(empty)"),
        ({"content": [5], "tool_calls": [7]}, "calls "),
    ],
)
def test_the_gist_of_a_message(message, shown):
    assert gist(message, 40) == shown.strip()
