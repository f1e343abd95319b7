"""Measuring side by side: every case gets its turn in every round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Measured:
    """The seconds that one case took in each round."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of all rounds, in seconds."""
        return statistics.median(self.seconds)

    def over(self, other: Measured) -> float:
        """How many times as long as `other` this took: the median of the rounds' own ratios."""
        return statistics.median(mine / its for mine, its in zip(self.seconds, other.seconds, strict=True))


def interleaved(title: str, cases: Mapping[str, Callable[[], float | None]], *, rounds: int) -> dict[str, Measured]:
    """Run all cases in turn, `rounds` times after one round to warm up, and print how they compare with the first.

    Args:
        title: What is measured.
        cases: What to run, by name. One that returns a number has taken its time itself: seconds.
        rounds: How often.
    """
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            started = time.perf_counter()
            told = case()
            if number:
                taken[name].append(time.perf_counter() - started if told is None else told)
    measured = {name: Measured(name, tuple(seconds)) for name, seconds in taken.items()}
    _print(title, list(measured.values()))
    return measured


def _print(title: str, results: list[Measured]) -> None:
    table = Table(title=f"{title} ({len(results[0].seconds)} rounds)")
    for heading in ("case", "median", "best", f"times {results[0].name}"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for each in results:
        table.add_row(
            each.name,
            f"{each.median * 1e3:.2f} ms",
            f"{min(each.seconds) * 1e3:.2f} ms",
            f"{each.over(results[0]):.2f}",
        )
    console = Console(stderr=True)
    console.print(table, width=max(console.width, 120), soft_wrap=True)
