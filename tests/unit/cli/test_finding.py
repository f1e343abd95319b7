from __future__ import annotations

import pytest

from timeleap.cli.command import parse_age, parse_size
from timeleap.cli.inspect import _line, _moment
from timeleap.cli.terminal import UsageError


def line(text, *ranges, start=0, cut=None):
    excerpt = text if cut is None else cut
    found = _line({"ranges": [list(each) for each in ranges], "excerpt": {"start": start, "text": excerpt}})
    return found.plain, [text for text, style in found.parts if style]


def test_only_the_line_of_the_first_match_is_shown():
    assert line("one\ntwo three\nfour", (8, 13)) == ("two three", ["three"])


def test_ranges_are_counted_as_the_wire_counts_them():
    assert line("🎉🎉 two", (5, 8)) == ("🎉🎉 two", ["two"])
    assert line("", (105, 108), start=100, cut="🎉🎉 two") == ("🎉🎉 two", ["two"])


def test_several_matches_stand_out_and_one_beyond_the_excerpt_does_no_harm():
    assert line("a b a", (0, 1), (4, 5), (700, 701)) == ("a b a", ["a", "a"])


def test_a_long_line_is_cut_around_its_match():
    shown, hits = line("x" * 500 + "here" + "y" * 500, (500, 504))
    assert hits == ["here"]
    assert shown.startswith("…xxx")
    assert shown.endswith("yyy…")
    assert len(shown) < 120


def test_a_match_over_the_end_of_a_line_is_shown_on_one():
    assert line("one\ntwo", (2, 5)) == ("one two", ["e t"])


def test_nothing_of_a_message_commands_the_terminal():
    shown, hits = line("\x1b[2J evil", (0, 4))
    assert "\x1b" not in shown
    assert hits == ["\\x1b[2J"]


def test_a_moment_is_a_message_or_a_time():
    assert _moment("12") == {"index": 12}
    assert _moment("2026-05-01T10:00+02:00") == {"time": "2026-05-01T10:00:00+02:00"}
    assert _moment("2026-05-01")["time"][10:19] == "T00:00:00"
    assert len(_moment("2026-05-01T10:00")["time"]) == len("2026-05-01T10:00:00+00:00"), "local, with its offset"
    with pytest.raises(UsageError):
        _moment("-1")


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("20MB", 20_000_000), ("1.5 gb", 1_500_000_000), ("3k", 3000), ("7 B", 7)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5B", "20XB", "1e3"])
def test_no_sizes(text):
    with pytest.raises(UsageError):
        parse_size(text)


def test_ages_are_times_before_now():
    assert parse_age("2w") < parse_age("30h") < parse_age("5m") < parse_age("0m")
    assert parse_age("2026-05-01T10:00:00+00:00") == "2026-05-01T10:00:00+00:00"
    for text in ("soon", "30", "d", "-3d"):
        with pytest.raises(UsageError):
            parse_age(text)
