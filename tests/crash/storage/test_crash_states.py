"""Every state a crash may leave, of every operation and every pair of them: enumerated, not thrown by dice."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.crash.storage.checker import complaints
from tests.crash.storage.recorder import Recording, recording
from tests.crash.storage.states import State, crash_states
from tests.crash.storage.workloads import LONG, PAIRS, SINGLES, TRIPLES, Expected, prepare, run, run_group
from tests.support import figures
from tests.support.torture import some

from timeleap.storage import durable
from timeleap.storage.jsonl import JsonlEngine


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory in memory where there is one: nothing here needs a disk."""
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else None) as name:
        yield Path(name)


async def enumerate_states(folder: Path, recorded: Recording, expected: Expected) -> list[str]:
    """Check every state; says what is wrong, and with which."""
    return await check(folder, recorded, crash_states(recorded), expected)


async def check_recoveries(folder: Path, recorded: Recording, states: list[State], expected: Expected) -> list[str]:
    """Crash again while a session is opened after a crash."""
    found: list[str] = []
    for number, state in enumerate(states):
        place = folder / f"recovery{number}"
        place.mkdir()
        state.materialise(place, recorded)
        log = place / "context.jsonl"
        before = log.read_bytes() if log.exists() else b""
        with recording(place) as recorder:
            await (await JsonlEngine.open(place / "context.jsonl")).aclose()
        second = [
            replace(
                again, started=state.started, acked=state.acked, log_before=before, how=f"{state.how}, then {again.how}"
            )
            for again in crash_states(recorder.recording)
        ]
        found += await check(folder, recorder.recording, second, expected)
        shutil.rmtree(place)
    return found


async def check(folder: Path, recorded: Recording, states: Iterable[State], expected: Expected) -> list[str]:
    """Check some states."""
    found: list[str] = []
    bad = number = 0
    for number, state in enumerate(states, 1):
        place = folder / f"state{number}"
        place.mkdir()
        state.materialise(place, recorded)
        wrong = await complaints(place / "context.jsonl", state, expected)
        found += [f"{_title(state, recorded)}: {text}" for text in wrong]
        bad += bool(wrong)
        shutil.rmtree(place)
    figures.count(crash_states=number, bad_crash_states=bad)
    return found


def _title(state: State, recorded: Recording) -> str:
    op = recorded.ops[state.at - 1] if state.at else None
    done = f"{op.kind} {op.name or op.inode}{' -> ' + op.other if op.other else ''}" if op else "nothing"
    return f"{state.how} after {state.at} ({done}), {state.acked} of {state.started} acknowledged"


async def record(folder: Path, names: tuple[str, ...]) -> tuple[Recording, Expected]:
    place = folder / "workload"
    place.mkdir()
    await prepare(place / "context.jsonl")
    with recording(place) as recorder:
        expected = await run(place / "context.jsonl", names, recorder)
    return recorder.recording, expected


@pytest.mark.parametrize(
    "names", [*SINGLES, *(pytest.param(pair, marks=pytest.mark.long) for pair in PAIRS)], ids="-".join
)
async def test_every_crash_state_of_one_and_two_operations(folder: Path, names: tuple[str, ...]) -> None:
    recorded, expected = await record(folder, names)
    assert await enumerate_states(folder, recorded, expected) == []


@pytest.mark.long
@pytest.mark.parametrize("first", ["append", "batch", *LONG])
@pytest.mark.parametrize("then", LONG)
async def test_every_crash_state_of_what_covers_several_blocks(folder: Path, first: str, then: str) -> None:
    recorded, expected = await record(folder, (first, then))
    states = list(crash_states(recorded))
    assert any("hole" in state.how for state in states)
    assert await check(folder, recorded, states, expected) == []
    assert await check_recoveries(folder, recorded, states[::9], expected) == []


@pytest.mark.parametrize("name", ["append", "batch", "clear", "compact"])
@pytest.mark.long
async def test_every_crash_state_of_the_first_operation_of_a_session(folder: Path, name: str) -> None:
    place = folder / "workload"
    place.mkdir()
    with recording(place) as recorder:
        expected = await run(place / "context.jsonl", (name, "append"), recorder)
    assert await enumerate_states(folder, recorder.recording, expected) == []


@pytest.mark.long
async def test_without_syncs_a_power_failure_loses_the_end_but_nothing_by_halves(folder: Path) -> None:
    place = folder / "workload"
    place.mkdir()
    await prepare(place / "context.jsonl")
    with recording(place) as recorder:
        expected = await run(place / "context.jsonl", ("append", "batch", "append", "batch"), recorder, "os")
    log = recorder.recording.names["context.jsonl"]
    states = [
        replace(state, how=f"power: the log ends at {cut}", files={**state.files, log: state.files[log][:cut]})
        for state in [*crash_states(recorder.recording, power=False)][-1:]
        for cut in range(len(recorder.recording.files[log]), len(state.files[log]) + 1)
    ]
    assert await check(folder, recorder.recording, states, expected) == []


@pytest.fixture
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without them: an intent record and two renames instead."""
    monkeypatch.setattr(durable, "link_exclusive", lambda *_: False)


@pytest.mark.long
@pytest.mark.parametrize(
    "names", [("revert",), ("clear",), ("undo",), ("append", "compact"), ("revert", "undo")], ids="-".join
)
@pytest.mark.usefixtures("no_hard_links")
async def test_every_crash_state_without_hard_links(folder: Path, names: tuple[str, ...]) -> None:
    recorded, expected = await record(folder, names)
    assert any(op.name.endswith(".intent") for op in recorded.ops)
    states = list(crash_states(recorded))
    assert await check(folder, recorded, states, expected) == []
    assert await check_recoveries(folder, recorded, states[::5], expected) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "names", [("redact",), ("append", "redact"), ("redact", "revert"), ("undo", "redact")], ids="-".join
)
async def test_every_crash_state_of_a_log_that_is_written_anew(folder: Path, names: tuple[str, ...]) -> None:
    recorded, expected = await record(folder, names)
    assert await enumerate_states(folder, recorded, expected) == []
    assert await check_recoveries(folder, recorded, [*crash_states(recorded)][::5], expected) == []


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is held open between two uses."""
    monkeypatch.setattr(durable, "HOLD_OPEN", False)


@pytest.mark.long
@pytest.mark.parametrize("names", [("append", "revert"), ("batch", "undo"), ("compact", "undo")], ids="-".join)
@pytest.mark.usefixtures("windows")
async def test_every_crash_state_where_files_are_not_held_open(folder: Path, names: tuple[str, ...]) -> None:
    recorded, expected = await record(folder, names)
    assert await enumerate_states(folder, recorded, expected) == []


@pytest.mark.long
@pytest.mark.parametrize("name", SINGLES, ids="-".join)
async def test_every_crash_state_of_the_recovery_from_a_crash(folder: Path, name: tuple[str, ...]) -> None:
    recorded, expected = await record(folder, name)
    states = [*crash_states(recorded)][::3]
    assert await check_recoveries(folder, recorded, states, expected) == []


@pytest.mark.torture
@pytest.mark.parametrize("names", some([*SINGLES, *PAIRS]), ids="-".join)
async def test_every_crash_state_of_every_recovery(folder: Path, names: tuple[str, ...]) -> None:
    recorded, expected = await record(folder, names)
    assert await check_recoveries(folder, recorded, list(crash_states(recorded)), expected) == []


@pytest.mark.torture
@pytest.mark.parametrize("names", some(TRIPLES), ids="-".join)
async def test_every_crash_state_of_three_operations(folder: Path, names: tuple[str, ...]) -> None:
    recorded, expected = await record(folder, names)
    assert await enumerate_states(folder, recorded, expected) == []


@pytest.mark.parametrize("size", [2, 5])
async def test_every_crash_state_of_a_group(folder: Path, size: int) -> None:
    place = folder / "workload"
    place.mkdir()
    await prepare(place / "context.jsonl")
    with recording(place) as recorder:
        expected = await run_group(place / "context.jsonl", size, recorder)
    assert sum(op.kind == "write" and b"group 0" in op.data for op in recorder.recording.ops) == 1, "one write"
    # A hole in the middle of several appends may leave later ones that are whole: asked for, if never acknowledged.
    states = crash_states(recorder.recording, holes=False)
    assert await check(folder, recorder.recording, states, expected) == []
