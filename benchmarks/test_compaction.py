"""How much of what matters does the built-in summary keep, beside the first and last sentences of the newest messages?"""

from __future__ import annotations

import pytest
from tests.conftest import session_files
from tests.support import matters

from timeleap.features.compaction.summary import summarise
from timeleap.message_text import CHARS_PER_TOKEN

pytestmark = pytest.mark.bench

LEAST = 0.8


def test_the_built_in_summary_keeps_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[str, int, int, float, float]] = []
    for file in session_files():
        listed, removed = matters.items(file), matters.removed(file)
        summary = summarise(removed)
        baseline = matters.ends(removed, len(summary))
        shares = [len(matters.kept(listed, text)) / len(listed) for text in (summary, baseline)]
        sizes = [len(text) // CHARS_PER_TOKEN for text in (matters.shown(removed), summary)]
        rows.append((file.stem, sizes[0], sizes[1], shares[0], shares[1]))
    with capsys.disabled():
        print(f"\n{'session':40}{'tokens':>8}{'summary':>9}{'kept':>7}{'ends':>7}")
        for name, size, short, kept, plain in rows:
            print(f"{name:40}{size:8}{short:9}{kept:7.0%}{plain:7.0%}")
    assert all(kept >= LEAST and kept > plain for _, _, _, kept, plain in rows)
