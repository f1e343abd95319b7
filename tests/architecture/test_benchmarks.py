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
        ("10", [8.0, 9.5, 9.9], False),
        ("10", [8.0, 9.5, 10.1], True),
        ("4", [2.6, 2.7, 3.0], False),
        ("4", [2.4, 2.7, 3.0], True),
    ],
)
def test_a_row_fails_where_all_of_its_noise_misses_the_must(key: str, values: list[float], holds: bool) -> None:
    assert Result.of(BY_KEY[key], values).holds is holds


def test_a_row_that_misses_is_explained_by_its_limit_and_the_parts_that_were_measured() -> None:
    row, other = BY_KEY["10"], BY_KEY["10-64"]
    parts = [Part("the pipe", 30e-6, "the way"), Part("storage", 10e-6, "crashes")]
    missed = Result.of(row, [row.must / 2] * 7, limit=row.must * 2, parts=parts)
    text = report.page({"10": missed, "10-64": Result.of(other, [other.must] * 7, parts=parts)}, [])
    assert "limit 20x, which reaches the must" in text
    assert "| the pipe | 30 us | 75% | the way |" in text
    assert "| sum | 40 us |" in text
    assert "### Row 10-64" not in text, "it holds"


def took(*seconds: float) -> Measured:
    return Measured("", seconds)


@pytest.mark.parametrize(("seconds", "holds"), [((1.30, 1.29, 1.28), False), ((1.30, 1.29, 1.24), True)])
def test_a_must_that_is_a_share_is_judged_by_what_was_possible_in_the_same_run(
    seconds: tuple[float, ...], holds: bool
) -> None:
    share = results.share(took(*seconds), took(1, 1, 1))
    found = results.against(BY_KEY["1"], took(*seconds), took(9, 9, 9), share=share, edge=9.0)
    assert found.holds is holds
    assert "≥ 0.8 of edge" in report.page({"1": found}, [])
    assert "of the edge (" in str(found)


def test_a_row_whose_share_was_not_measured_does_not_hold() -> None:
    assert not Result.of(BY_KEY["1"], [100.0] * 3).holds


def test_what_a_python_process_cannot_reach_is_no_must() -> None:
    shares = {row.key: (row.share_of, row.must) for row in ROWS if row.share_of is not None}
    of_edge = dict.fromkeys(["1", "2", "3", *(f"5-{name}" for name in NAMES)], ("edge", 0.80))
    assert shares == {**of_edge, **dict.fromkeys(["9", "11"], ("limit", 0.60))}


def test_runs_of_the_same_sources_are_told_and_others_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    row = BY_KEY["10"]

    def run(sources: str, value: float) -> Result:
        monkeypatch.setattr(results, "measured_sources", lambda: sources)
        results.keep(Result.of(row, [value] * 7))
        return results.results()["10"]

    run("of before", 9)
    assert run("these", 8).earlier == []
    run("these", 14)
    assert run("these", 15).runs == [(8, False), (14, True), (15, True)]
    assert "| 2 of 3 (8x, 14x) |" in report.page(results.results(), [])
    assert run("these", 16).runs == [(14, True), (15, True), (16, True)], "three are enough"
    run("", 7)
    assert run("", 8).earlier == [], "sources that are not committed"


def test_a_limit_with_the_guarantees_is_told() -> None:
    row = BY_KEY["10"]
    missed = Result.of(row, [row.must / 2] * 7, limit=row.must * 2, guarded=row.must * 1.2, edge=row.must * 0.9)
    text = report.page({"10": missed}, [])
    assert "with the guarantees 12x, enough; behind the protocol edge 9x, short of it; ours 5x" in text
    assert "| ≥ 10 | 16 | 9x | 12x | 20x |" in text


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
    shares = (0.7, 0.8, 0.9)
    found = [Result.of(row, [row.must * 0.9, row.must, row.must * 1.2], share=shares) for row in ROWS]
    curve = {1_000: 0.001, 1_000_000: 0.002}
    for picture in (
        plots.rows(found),
        plots.bars("One <append>", {"ours": 1e-5, "theirs": 1e-2}, "ours"),
        plots.growth("Growth", {"open": curve, "page": curve}),
    ):
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
