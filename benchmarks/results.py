"""What was measured of each row: its median, how sure that is, whether it holds; kept for the report.

The noise is measured in the run itself: the interval in which the median of all possible rounds lies with 95 %, from the
order of the rounds alone (no distribution is assumed). A row fails where that whole interval is on the wrong side of
its must.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from benchmarks.measure import Measured
from benchmarks.parts import Part
from benchmarks.rows import BY_KEY, Row

FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "benchmarks"
"""Where results are kept, one file a row or curve; git ignores it."""

RUNS = 3
"""How many runs of the same sources are told of."""

DOUBT = 0.07
"""How likely at most the median lies outside its interval: seven rounds and more reach 5 %, five no better than 6.25 %."""


@dataclass(frozen=True)
class Result:
    """What one run found of a row.

    Attributes:
        key: Of the row.
        value: The median of the rounds, in the row's unit.
        low: Where the interval of the median begins.
        high: Where it ends.
        rounds: How many.
        ours: Median seconds of an operation on our side, None where no time was taken.
        peer: Median seconds of the peer.
        note: What else is to be said of it.
        limit: What a process that does the least there is to do reached in the same run, where that was measured.
        guarded: What the least process that keeps the guarantees reached in the same run, where that was measured.
        edge: What that reached behind our protocol edge, in the same run.
        share: Of a row that is judged by it (`Row.share_of`): which share of the possible speed ours has; where the
            interval of that median begins, the median, and where the interval ends.
        parts: Where the time of one of ours goes, by measurements of the same run.
        when: The day, UTC.
        sources: Which state of the sources was measured.
        earlier: The runs before of the same sources, the newest last: the median of each, and whether the row held.
    """

    key: str
    value: float
    low: float
    high: float
    rounds: int
    ours: float | None = None
    peer: float | None = None
    note: str = ""
    limit: float | None = None
    guarded: float | None = None
    edge: float | None = None
    share: tuple[float, float, float] | None = None
    parts: Sequence[Part] = ()
    when: str = ""
    sources: str = ""
    earlier: Sequence[tuple[float, bool]] = ()

    @classmethod
    def of(cls, row: Row, values: Sequence[float], **more: Any) -> Self:
        """From the values of the rounds."""
        low, high = interval(values)
        when = datetime.now(UTC).strftime("%Y-%m-%d")
        return cls(row.key, statistics.median(values), low, high, len(values), when=when, **more)

    @property
    def row(self) -> Row:
        """What it was measured for."""
        return BY_KEY[self.key]

    @property
    def holds(self) -> bool:
        """True if the must is not missed by more than the noise. A row without its share was not measured for its must."""
        low, _, high = self.judged
        return self.row.met_by(high if self.row.sense == "at least" else low)

    @property
    def judged(self) -> tuple[float, float, float]:
        """The values that are compared with the must: where the interval begins, the median, where the interval ends."""
        if self.row.share_of is None:
            return self.low, self.value, self.high
        return self.share or (0.0, 0.0, 0.0)

    @property
    def reached(self) -> float:
        """How many times as good as its must it is: 1 just holds."""
        row, (_, median, _) = self.row, self.judged
        return median / row.must if row.sense == "at least" else row.must / median

    @property
    def runs(self) -> list[tuple[float, bool]]:
        """All runs of the same sources, this as the last: the median of each, and whether the row held."""
        return [*self.earlier, (self.value, self.holds)]

    def __str__(self) -> str:
        row = self.row
        unit = "x" if row.unit == "times" else f" {row.unit}"
        verdict = "holds" if self.holds else "MISSED"
        found = f"{self.value:.3g}{unit} ({self.low:.3g} to {self.high:.3g})"
        if row.share_of is not None:
            low, median, high = self.judged
            found += f", {median:.2f} of the {row.share_of} ({low:.2f} to {high:.2f})"
        return f"row {row.key}, {row.question}: {found}, must {row.sense} {row.must:g}, aim {row.aim:g}: {verdict}"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median lies with 95 %: between the two values that so many binomial tails cut off."""
    ranked, count = sorted(values), len(values)
    cut, tail = 0, 2 / 2**count
    while (tail := tail + math.comb(count, cut + 1) / 2 ** (count - 1)) <= DOUBT:
        cut += 1
    return ranked[cut], ranked[count - 1 - cut]


def against(
    row: Row,
    ours: Measured,
    peer: Measured,
    per: int = 1,
    **more: Any,
) -> Result:
    """The ratio of two cases of one run, in the row's direction: how many times as fast, or how many times as long.

    `per` is how many operations a case does: the seconds that are kept are those of one; `more` are members of the result.
    """
    slow, fast = (peer, ours) if row.sense == "at least" else (ours, peer)
    ratios = [mine / its for mine, its in zip(slow.seconds, fast.seconds, strict=True)]
    times = {"ours": ours.median / per, "peer": peer.median / per}
    return Result.of(row, ratios, **times, **more)


def share(ours: Measured, possible: Measured) -> tuple[float, float, float]:
    """The share of the possible speed that ours has: where the interval of its median begins, the median, and the end."""
    shares = [best / mine for best, mine in zip(possible.seconds, ours.seconds, strict=True)]
    low, high = interval(shares)
    return low, statistics.median(shares), high


def keep(result: Result) -> None:
    """Write a row's result, in the place of that of the run before; of the same sources, its median is kept with it."""
    sources = measured_sources()
    before = results().get(result.key)
    earlier = before.runs[1 - RUNS :] if before is not None and before.sources == sources != "" else []
    _write(f"row-{result.key}.json", asdict(replace(result, sources=sources, earlier=earlier)))


@functools.cache
def measured_sources() -> str:
    """The state of all that a measurement depends on; empty where git does not have it, or not as it is."""
    folders = ["server", "protocol", "benchmarks"]
    try:
        changed = _git("status", "--porcelain", *folders)
        return "" if changed else " ".join(_git("rev-parse", *(f"HEAD:{folder}" for folder in folders)).split())
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=FOLDER.parents[1], capture_output=True, text=True, check=True
    ).stdout.strip()


def keep_curve(name: str, points: Mapping[str, Mapping[int, float]]) -> None:
    """Write how something grows: for each case the seconds by number of messages."""
    _write(f"curve-{name}.json", points)


def results() -> dict[str, Result]:
    """The results that are kept, by the keys of their rows."""
    read = [json.loads(file.read_text("utf-8")) for file in sorted(FOLDER.glob("row-*.json"))]
    found = [Result(**{**kept, **_lists(kept)}) for kept in read]
    return {result.key: result for result in found if result.key in BY_KEY}


def _lists(kept: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "parts": [Part(**part) for part in kept.get("parts", ())],
        "earlier": [(value, holds) for value, holds in kept.get("earlier", ())],
        "share": None if kept.get("share") is None else tuple(kept["share"]),
    }


def curves() -> dict[str, dict[str, dict[int, float]]]:
    """The curves that are kept: by name and case, seconds by number of messages."""
    found = {}
    for file in sorted(FOLDER.glob("curve-*.json")):
        cases = json.loads(file.read_text("utf-8"))
        name = file.stem.removeprefix("curve-")
        found[name] = {case: {int(at): value for at, value in points.items()} for case, points in cases.items()}
    return found


def _write(name: str, content: Mapping[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / name).write_text(json.dumps(content, indent=1), "utf-8")
