"""The rows of `benchmarks/rows.py`: each has a benchmark, and the page shows it; and the rule by which they are judged."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from benchmarks import plots, report, results
from benchmarks.frameworks import NAMES
from benchmarks.measure import Measured
from benchmarks.parts import STEPS, Part, of_append
from benchmarks.results import Result, interval
from benchmarks.rows import BY_KEY, ROWS
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs" / "performance.md").read_text("utf-8")


def test_keys_of_rows_are_unique() -> None:
    assert len(BY_KEY) == len(ROWS)


def test_the_page_shows_every_row() -> None:
    assert [row.key for row in ROWS if f"| {row.number} | {row.question} |" not in PAGE] == []


def test_marks_name_rows_that_exist_and_all_of_them() -> None:
    named = set()
    for file in (ROOT / "benchmarks").glob("test_*.py"):
        for mark in re.findall(r'mark\.rows\(([^)]*"[^)]*)\)', file.read_text("utf-8")):
            named |= {key for key in re.findall(r'"([^"{]+)"', mark) if not key.endswith("-")}
    assert named - BY_KEY.keys() == set()
    assert BY_KEY.keys() - named - {f"5-{name}" for name in NAMES} == set()


@pytest.mark.parametrize(
    ("count", "cut"),
    [(1, 0), (3, 0), (5, 0), (7, 0), (9, 1), (15, 3), (21, 5)],
)
def test_the_noise_is_what_the_order_of_the_rounds_says_of_their_median(count: int, cut: int) -> None:
    values = [float(number) for number in range(count)]
    assert interval(values[::-1]) == (cut, count - 1 - cut)


@pytest.mark.parametrize(
    ("key", "values", "holds"),
    [
        ("1", [2.0, 2.5, 2.9], False),
        ("1", [2.0, 2.5, 3.1], True),
        ("4", [2.6, 2.7, 3.0], False),
        ("4", [2.4, 2.7, 3.0], True),
    ],
)
def test_a_row_fails_where_all_of_its_noise_misses_the_must(key: str, values: list[float], holds: bool) -> None:
    assert Result.of(BY_KEY[key], values).holds is holds


def test_a_row_that_misses_is_explained_by_its_limit_and_the_parts_that_were_measured() -> None:
    row = BY_KEY["1"]
    parts = [Part("the pipe", 30e-6, "the way"), Part("storage", 10e-6, "crashes")]
    missed = Result.of(row, [row.must / 2] * 7, limit=row.must * 2, parts=parts)
    text = report.page({"1": missed, "2": Result.of(BY_KEY["2"], [BY_KEY["2"].must] * 7, parts=parts)}, [])
    assert "limit 6x, which reaches the must" in text
    assert "| the pipe | 30 us | 75% | the way |" in text
    assert "| sum | 40 us |" in text
    assert "### Row 2" not in text, "it holds"


def test_runs_of_the_same_sources_are_told_and_others_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    row = BY_KEY["1"]

    def run(sources: str, value: float) -> Result:
        monkeypatch.setattr(results, "measured_sources", lambda: sources)
        results.keep(Result.of(row, [value] * 7))
        return results.results()["1"]

    run("of before", 9)
    assert run("these", 2).earlier == []
    run("these", 4)
    assert run("these", 5).runs == [(2, False), (4, True), (5, True)]
    assert "| 2 of 3 (2x, 4x) |" in report.page(results.results(), [])
    assert run("these", 6).runs == [(4, True), (5, True), (6, True)], "three are enough"
    run("", 7)
    assert run("", 8).earlier == [], "sources that are not committed"


def test_a_limit_with_the_guarantees_is_told() -> None:
    row = BY_KEY["1"]
    missed = Result.of(row, [row.must / 2] * 7, limit=row.must * 2, guarded=row.must * 1.2, edge=row.must * 0.9)
    text = report.page({"1": missed}, [])
    assert "with the guarantees 3.6x, enough; behind the protocol edge 2.7x, short of it; ours 1.5x" in text
    assert "| ≥ 3 | 4 | 2.7x | 3.6x | 6x |" in text


def test_the_parts_of_an_append_are_its_measurements_and_sum_up_to_it() -> None:
    took = {"ours": 60, "least": 20, "guarded": 30, **dict.fromkeys(STEPS, 2)}
    run = {name: Measured(name, (seconds * 1e-6,) * 3) for name, seconds in took.items()}
    rooms = {"rpc": (10.0, 300.0), "sessions": (10.0, 300.0), "storage": (10.0, 100.0)}
    for together in (False, True):
        parts = of_append(run, ("ours", "least", "guarded"), 10e-6, 1, rooms, together=together)
        assert sum(part.seconds for part in parts) == pytest.approx(60e-6)
        assert [part.seconds for part in parts[-3:]] == pytest.approx([10e-6, 15e-6, 5e-6])
        assert all(part.why for part in parts)


def test_pictures_are_well_formed() -> None:
    found = [Result.of(row, [row.must * 0.9, row.must, row.must * 1.2]) for row in ROWS]
    curve = {1_000: 0.001, 1_000_000: 0.002}
    for picture in (
        plots.rows(found),
        plots.bars("One <append>", {"ours": 1e-5, "theirs": 1e-2}, "ours"),
        plots.growth("Growth", {"open": curve, "page": curve}),
    ):
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
