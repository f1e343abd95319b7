"""The built-in summary keeps what matters: at least four fifths of what was listed by hand, in a quarter of the length."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import matters

from timeleap.features.compaction.summary import MIN_TOKENS, SHARE, summarise
from timeleap.message_text import CHARS_PER_TOKEN

LEAST = 0.8


def test_most_of_what_matters_is_kept(session_file: Path) -> None:
    listed, removed = matters.items(session_file), matters.removed(session_file)
    summary = summarise(removed)
    size = len(matters.shown(removed)) // CHARS_PER_TOKEN
    assert len(summary) <= max(MIN_TOKENS, size * SHARE) * CHARS_PER_TOKEN
    kept = matters.kept(listed, summary)
    lost = [one["what"] for one in listed if one not in kept]
    assert len(kept) >= LEAST * len(listed), f"lost: {lost}"


def test_the_lists_ask_for_nothing_that_is_not_there(session_file: Path) -> None:
    listed = matters.items(session_file)
    text = matters.shown(matters.removed(session_file)).replace('\\"', '"')
    assert len(listed) >= 10
    assert matters.kept(listed, text) == listed


@pytest.mark.parametrize("limit", [0, 100, 1000])
def test_the_baseline_keeps_to_its_length(limit: int) -> None:
    many = [{"role": "user", "content": f"first {number}.\nmiddle\nlast {number}."} for number in range(50)]
    text = matters.ends(many, limit)
    assert len(text) <= limit
    assert ("last 49" in text) == (limit > 0)
