"""Write `docs/reliability.md` from what the last run of `make torture` counted: `python -m tests.torture.reliability SHARE`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.faults import outcomes
from tests.faults.faults import ROOT, all_faults
from tests.support.figures import counted

from timeleap.version import __version__

PAGE: Final = ROOT / "docs" / "reliability.md"
FIGURES: Final = ROOT / ".cache" / "figures.jsonl"


@dataclass(frozen=True)
class Guarantee:
    """A promise of the README.

    Attributes:
        title: As the README has it, without the full stop.
        how: How it is tested.
        tests: Where these tests are.
    """

    title: str
    how: str
    tests: tuple[str, ...]


GUARANTEES: Final = {
    "durable": Guarantee(
        "A reply means it is on disk",
        "Each call that changes a file is recorded while a session works. From the recording follows every state that a power "
        "failure may leave: writes that were not synced are there, not there, or there in part. Each such state is opened, and "
        "has to hold what was acknowledged.",
        ("tests/crash/storage",),
    ),
    "atomic": Guarantee(
        "All or nothing",
        "The same states, after every operation, every pair and every three of them; `kill -9` at each step of each operation; "
        "and each call of the operating system made to fail, once and for good.",
        ("tests/crash/storage", "tests/crash/wire"),
    ),
    "past": Guarantee(
        "Nothing is lost by going back",
        "Random histories of appends, reverts, undos, compactions and restarts, compared with a model of a few lines after every "
        "step; a timeline comes back byte for byte.",
        ("tests/property",),
    ),
    "files": Guarantee(
        "Files go back with the conversation",
        "Whole folders are compared, with links, permissions and times, after an agent's turn was undone, and after a kill at each "
        "step of that. [How other programs do the same](undo-torture.md).",
        ("tests/torture", "tests/crash/files", "tests/unit/features/files"),
    ),
    "one-writer": Guarantee(
        "One writer per session, many windows",
        "Several processes work on one session at once, owners are killed, stopped and closed meanwhile; from what each process was "
        "answered a checker looks for one order of all requests that explains every answer. The same for a database whose primary "
        "is lost.",
        ("tests/crash/wire", "tests/wire/test_linearizability.py", "tests/wire/test_failover.py"),
    ),
    "repeat": Guarantee(
        "Safe to repeat",
        "After each kill the request is sent again under its id, twice: it has taken effect once.",
        ("tests/crash/wire", "tests/property/test_request_ids.py"),
    ),
    "head": Guarantee(
        "No surprises",
        "Requests with an expected head race each other in one process and in several: one of them wins, and the others are refused "
        "without a trace.",
        ("tests/wire/test_expected_head.py", "tests/wire/test_attach.py"),
    ),
    "approvals": Guarantee(
        "No file switches approvals on",
        "Every file of a session is edited, copied and exchanged, processes without the token or of another user connect, and notes "
        "try to pass for the system's words.",
        ("tests/unit/features/approvals", "tests/wire/test_attach_bad_input.py"),
    ),
    "damage": Guarantee(
        "Damage is contained",
        "Each bit of a log and of its index is flipped, each small file gets any content, each line any bytes, each request any "
        "nonsense: it is reported, nothing else is lost, and the next request works.",
        ("tests/property/test_storage_scan.py", "tests/property/test_small_files.py", "tests/wire/test_hostile.py"),
    ),
    "cost": Guarantee(
        "Cost follows use",
        "Times and memory are measured for logs of all lengths and judged by how they grow: [performance](performance.md). Clients "
        "that read nothing, or send without end, are slowed down or let go.",
        ("benchmarks", "tests/unit/rpc"),
    ),
}

ROWS: Final = {
    "crash_states": "states that a crash may leave, each opened and compared",
    "bad_crash_states": "of these not as promised",
    "kills": "processes killed with `kill -9`",
    "failed_calls": "calls of the operating system made to fail",
    "histories": "random histories compared with a model",
    "linearizability_runs": "runs of several processes in which one order of all requests was looked for",
    "linearizability_requests": "requests in these runs",
    "failovers": "databases whose primary was lost under load",
    "hostile_inputs": "hostile inputs: flipped bits, damaged files, requests that are none",
}

INTRODUCTION: Final = """\
# What the promises rest on

`make torture` writes this page: how each promise of the [README](../README.md#what-you-can-rely-on) is tested, what its last run counted, and
for small faults that were put into the source on purpose, which test fails because of each.
"""

FAULTS: Final = """\
## What would catch a fault

{caught} of {all} faults are caught. Each is one small change of the source that breaks a promise (`tests/faults/faults.toml`). It is made in
a copy, and the tests that should notice it are run there: at least one has to fail. One that no test catches is mended by a new test. Without
a fault all of them pass.
"""


def page(figures: Counter[str], share: float) -> str:
    """The page, of what a run counted that did a share of all."""
    return "\n".join([INTRODUCTION, *_promises(), *_figures(figures, share), *_faults()]) + "\n"


def _promises() -> Iterator[str]:
    faults = Counter(fault.guarantee for fault in all_faults())
    yield "## How each promise is tested\n"
    for key, guarantee in GUARANTEES.items():
        places = ", ".join(f"[{place}](../{place})" for place in guarantee.tests)
        yield f"- **{guarantee.title}.** {guarantee.how} {faults[key]} faults below break it. ({places})"
    yield ""


def _figures(figures: Counter[str], share: float) -> Iterator[str]:
    done = "all of the programme" if share >= 1 else f"{share:.0%} of the programme"
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    yield f"## The last run\n\nVersion {__version__}, {day}, on {os.cpu_count()} processors: {done}.\n\n| | |\n|---|---|"
    for name, words in ROWS.items():
        yield f"| {words} | {f'{figures[name]:,}'.replace(',', ' ')} |"
    yield ""


def _faults() -> Iterator[str]:
    kept = {fault: outcomes.kept(fault) for fault in all_faults()}
    yield FAULTS.format(caught=sum(bool(failed) for failed in kept.values()), all=len(kept))
    for key, guarantee in GUARANTEES.items():
        yield f"### {guarantee.title}\n\n| with this fault ... | in | fails |\n|---|---|---|"
        for fault, failed in kept.items():
            if fault.guarantee == key:
                test = f"`{failed[0].partition('[')[0]}`" if failed else "**no test**"
                yield f"| {fault.breaks} | `{fault.file}` | {test} |"
        yield ""


def main() -> None:
    """Write the page, if every fault was tried by now."""
    share = float(sys.argv[1])
    untried = [fault.name for fault in all_faults() if outcomes.kept(fault) is None]
    if untried:
        print(f"{len(untried)} seeded faults were not tried yet: {PAGE.name} stays as it is (`make torture` tries all)")
        return
    figures = counted(Path(FIGURES))
    PAGE.write_text(page(figures, share), "utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {figures['bad_crash_states']} of {figures['crash_states']} crash states are bad")


if __name__ == "__main__":
    main()
