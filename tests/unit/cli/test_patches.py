"""Patches for people: those of difflib, and quick whatever the text."""

from __future__ import annotations

import difflib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.growth import PATHOLOGICAL

from timeleap.cli.patches import unified_lines

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=20)


@given(LINES, LINES)
def test_a_patch_leads_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    patch = list(unified_lines(before, after, "old", "new"))
    if before == after:
        assert patch == []
        return
    assert patch[:2] == ["--- old", "+++ new"]
    left, place = list(before), 0
    made: list[str] = []
    for line in patch[2:]:
        if line.startswith("@@"):
            start = line.split()[1][1:].split(",")
            begin = int(start[0]) - (0 if start[1:] == ["0"] else 1)
            made += left[place:begin]
            place = begin
        elif line[0] in " -":
            assert left[place] == line[1:]
            made += [line[1:]] if line[0] == " " else []
            place += 1
        else:
            made.append(line[1:])
    assert made + left[place:] == after


def test_a_small_change_is_shown_as_difflib_shows_it() -> None:
    before = [str(number) for number in range(50)]
    after = [*before[:20], "new", *before[21:40], *before[41:]]
    assert list(unified_lines(before, after, "a", "b")) == list(
        difflib.unified_diff(before, after, "a", "b", lineterm="")
    )


def _hostile() -> list[tuple[list[str], list[str]]]:
    shuffled = [str(number % 150) for number in range(30_000)]
    random.Random(1).shuffle(shuffled)
    one, other = ([f"{kind}{number}" if number % 2 else str(number) for number in range(30_000)] for kind in "jk")
    pairs = [(shuffled, shuffled[::-1]), (one, other)]
    pairs += [([unit] * 30_000, [unit, "x"] * 15_000) for unit in PATHOLOGICAL[:3]]
    return pairs


@pytest.mark.parametrize(("before", "after"), _hostile(), ids=lambda lines: f"{len(lines)}")
def test_hostile_text_costs_no_more_than_its_length(before: list[str], after: list[str]) -> None:
    begun = time.process_time()
    assert list(unified_lines(before, after, "a", "b"))
    assert time.process_time() - begun < 30  # of the processor; difflib alone takes minutes
