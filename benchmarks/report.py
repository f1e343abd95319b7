"""Write `docs/performance.md` and its pictures from the results that are kept: `python -m benchmarks.report`."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import plots, results
from benchmarks.results import Result
from benchmarks.rows import ROWS, Row
from tests.interop.prepare import VERSION as KIMI

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "performance.md"
PICTURES: Final = DOCS / "performance"

INTRODUCTION: Final = """\
# Performance

`make bench` writes this page. Each row is measured through the real process, beside its peer in the same run: both get
their turn in every round, and client, server and peer share one core; a database server has the others. What counts is the
ratio; seconds depend on the machine and on what else it does. Where a must depends on what a process in Python can reach on
the machine, it is a share of that, measured in the same run: at least 0.80 of the column "edge", else 0.60 of "limit". A row
holds if its must is not missed by more than the noise of the run itself, the interval in which the median lies with 95 %.
Nothing is switched off for it: locks, index, checksums, request ids and token counts are those of a normal server, and
"synced" is `fdatasync` before the reply.
"""

LIMITS: Final = """\
The column "limit" is what a process reaches, in the same run, that does the least there is to do (`benchmarks/least.py`):
read a frame, decode it, write the line, sync where that is asked, reply; without index, checksum, lock, request id, order,
notification or any other request. Of a revert it is copying and syncing the half that stays. No server reaches more than
the limit over a pipe by this interpreter on this machine. The column "guarded" is the same with the guarantees of
an append (`least.py --guarded`): request ids, the expected head, a look whether somebody else has written, checksum, index
entry, head and counts in the reply, a notification; in one straight function, for one session, one client and text only,
with nothing that could go wrong. No server in Python that keeps them reaches more. The column "edge"
is that function behind the protocol edge of ours (`benchmarks/edge.py`): event loop, frames, ids, order and replies, as row 10
measures them against a bare pygls server; behind it there is no session, no queue, no other client and no way to fail. Where
the time goes in ours is measured in the same run, too (`benchmarks/parts.py`): steps that any server has, each alone; the
guarantees and the edge as the differences between two of these processes; and what is left, shared out by the instructions of
Python's that each room of the server takes (`benchmarks/instructions.py`), which are the same on any machine.
"""

APPENDS: Final = (
    ("timeleap, written, 64 in flight", "2", "ours"),
    ("timeleap, synced, 64 in flight", "3", "ours"),
    ("timeleap, written, one at a time", "1", "ours"),
    ("timeleap, synced, one at a time", "4", "ours"),
    ("bare write + fdatasync", "4", "peer"),
    ("kimi-cli, in process, not synced", "1", "peer"),
    ("openai-agents SQLiteSession", "5-openai-agents", "peer"),
    ("google-adk SqliteSessionService", "5-google-adk", "peer"),
    ("langgraph SqliteSaver", "5-langgraph", "peer"),
)
"""The bars of the picture of appends: name, row and side."""


def page(found: Mapping[str, Result], drawn: Sequence[tuple[str, str]]) -> str:
    """The page.

    Args:
        found: The results by key.
        drawn: The pictures: file name and what is said below it.
    """
    days = " to ".join(
        sorted({max(result.when for result in found.values()), min(result.when for result in found.values())})
    )
    machine = f"{os.cpu_count()} cores ({platform.system()} {platform.machine()}), Python {platform.python_version()}"
    held = sum(result.holds for result in found.values())
    lines = [
        INTRODUCTION,
        f"Measured {days} on {machine}, kimi-cli {KIMI}; {held} of {len(found)} rows hold.\n",
    ]
    for name, said in drawn:
        lines += [f"![{said}](performance/{name})\n"]
    lines += [
        "## Rows\n",
        (
            "x: how many times as fast as the peer (at least), or how many times its time (at most). Times are of one operation."
            " Runs: in how many of the last runs of the same sources the row held, with the medians of those before.\n"
        ),
        "| # | what | against | measured | noise | runs | share | must | aim | edge | guarded | limit | ours | peer | |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        result = found.get(row.key)
        if result is None:
            cells = [
                str(row.number),
                row.question,
                row.peer,
                "not measured",
                "",
                "",
                "",
                _must(row),
                f"{row.aim:g}",
                *("",) * 6,
            ]
        else:
            cells = _cells(result)
        lines.append(f"| {' | '.join(cells)} |")
    missed = [result for result in found.values() if not all(holds for _, holds in result.runs)]
    if missed:
        lines += ["\n## Rows that miss their must, in one of these runs at least\n", LIMITS]
        for each in missed:
            lines += _profile(each)
    notes = [result for result in found.values() if result.note]
    if notes:
        lines += ["\n## Notes\n", *(f"- Row {result.key}: {result.note}." for result in notes)]
    lines += ["\nHow to add a row or a benchmark: [benchmarks/README.md](../benchmarks/README.md)."]
    return "\n".join(lines) + "\n"


def _profile(result: Result) -> list[str]:
    """Why a row misses its must: its limit, in words, and where the time goes, as it was measured."""
    row, lines = result.row, [f"### Row {result.key}: {result.row.question}\n"]
    if result.limit is not None:
        lines.append(
            f"{_verdict(result, result.limit)}; {_reached(result)}ours {plots.measured(result, result.value)}.\n"
        )
    why = row.profile or "not looked into yet"
    lines.append(f"{why[0].upper()}{why[1:]}.\n")
    if result.parts:
        whole = sum(part.seconds for part in result.parts)
        lines += ["| part | time | share | what it pays for |", "|---|---|---|---|"]
        lines += [
            f"| {part.name} | {_seconds(part.seconds)} | {part.seconds / whole:.0%} | {part.why} |"
            for part in result.parts
        ]
        lines += [f"| sum | {_seconds(whole)} | | |", ""]
    return lines


def _verdict(result: Result, limit: float) -> str:
    """How the must stands to the limit, which is the speed of a process that does the least."""
    row, measured = result.row, plots.measured(result, limit)
    if row.share_of is not None:
        return f"Must {row.must:g} of the {row.share_of}, limit {measured}"
    reaches = row.met_by(limit)
    verdict = "which reaches the must, so what ours does more is below" if reaches else "short of the must itself"
    return f"Must {row.must:g}, limit {measured}, {verdict}"


def _reached(result: Result) -> str:
    """How far the least process gets that keeps the guarantees, and how far behind the edge."""
    said = ""
    for name, reached in (("with the guarantees", result.guarded), ("behind the protocol edge", result.edge)):
        if reached is not None:
            verdict = ", enough" if result.row.met_by(reached) else ", short of it"
            said += f"{name} {plots.measured(result, reached)}{'' if result.row.share_of else verdict}; "
    return said


def _cells(result: Result) -> list[str]:
    row = result.row
    return [
        str(row.number),
        row.question,
        row.peer or "-",
        f"**{plots.measured(result, result.value)}**",
        f"{plots.measured(result, result.low)} to {plots.measured(result, result.high)}",
        _runs(result),
        "" if result.share is None else f"**{result.share[1]:.2f}** ({result.share[0]:.2f} to {result.share[2]:.2f})",
        _must(row),
        f"{row.aim:g}",
        "" if result.edge is None else plots.measured(result, result.edge),
        "" if result.guarded is None else plots.measured(result, result.guarded),
        "" if result.limit is None else plots.measured(result, result.limit),
        _seconds(result.ours),
        _seconds(result.peer),
        "holds" if result.holds else "**missed**",
    ]


def _must(row: Row) -> str:
    limit = "≥" if row.sense == "at least" else "≤"
    return f"{limit} {row.must:g}" + (f" of {row.share_of}" if row.share_of else "")


def _runs(result: Result) -> str:
    held = f"{sum(holds for _, holds in result.runs)} of {len(result.runs)}"
    return (
        f"{held} ({', '.join(plots.measured(result, value) for value, _ in result.earlier)})"
        if result.earlier
        else held
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def main() -> None:
    """Write the page and the pictures."""
    found = {row.key: result for row in ROWS if (result := results.results().get(row.key)) is not None}
    if not found:
        raise SystemExit("nothing is measured yet: `make bench` does it")
    PICTURES.mkdir(exist_ok=True)
    drawn = [("rows.svg", "Each row's ratio beside its must and aim")]
    (PICTURES / "rows.svg").write_text(plots.rows(list(found.values())), "utf-8")
    appends = {name: getattr(found[key], side) for name, key, side in APPENDS if key in found}
    if len(appends) == len(APPENDS):
        (PICTURES / "append.svg").write_text(plots.bars("One append", appends, "timeleap"), "utf-8")
        drawn.append(("append.svg", "One append beside those of others, in microseconds"))
    if (curves := results.curves()) and "growth" in curves:
        (PICTURES / "growth.svg").write_text(plots.growth("As the session grows", curves["growth"]), "utf-8")
    if (PICTURES / "growth.svg").exists():  # that of an earlier run stays
        drawn.append(("growth.svg", "What operations take as the session grows from 1 000 to 1 000 000 messages"))
    PAGE.write_text(page(found, drawn), "utf-8")
    print(
        f"{PAGE.relative_to(DOCS.parent)}: {len(found)} rows, {sum(not result.holds for result in found.values())} missed"
    )


if __name__ == "__main__":
    main()
