"""kill -9 of a real process at every durable step: the lock is free at once, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from tests.crash.storage.checker import complaints
from tests.crash.storage.recorder import Recorder
from tests.crash.storage.states import State
from tests.crash.storage.workloads import prepare, run
from tests.support import figures
from tests.support.forked import run_program
from tests.support.mostly_long import mostly_long

from timeleap.storage import durable

STORAGE = Path(durable.__file__).parent
POINTS = sorted(
    {name for file in STORAGE.glob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', file.read_text())}
)
ELSEWHERE = {
    "recovery.unlink",
    "recovery.before_cut",
    "recovery.after_cut",
    "replace.declared",
    "replace.set_aside",
    "revise.closed_built",
}
CHILD = "from tests.crash.storage import child; child.main()"
WORK = ("append", "batch", "checkpoint", "revert", "append", "undo", "redact")

pytestmark = pytest.mark.crash


def killed(log: Path, armed: str, names: tuple[str, ...] = WORK) -> list[str]:
    """Work in a child until it dies; what it said."""
    ended = run_program(CHILD, str(log), *names, timeout=180, TIMELEAP_FAILPOINTS=armed)
    assert ended.code == -signal.SIGKILL, f"{armed} was not passed: {ended.out}{ended.err}"
    figures.count(kills=1)
    return ended.out.split()


@pytest.mark.parametrize("point", mostly_long(name for name in POINTS if name not in ELSEWHERE))
async def test_killed_at_a_failpoint(tmp_path: Path, point: str) -> None:
    (tmp_path / "clean").mkdir()
    (tmp_path / "killed").mkdir()
    await prepare(tmp_path / "clean" / "context.jsonl")
    expected = await run(tmp_path / "clean" / "context.jsonl", WORK, Recorder(tmp_path / "clean"))
    log = tmp_path / "killed" / "context.jsonl"
    await prepare(log)
    said = killed(log, f"{point}=kill")
    state = State(point, 0, {}, {}, said.count("start"), said.count("ack"))
    assert await complaints(log, state, expected) == []


@pytest.mark.parametrize("point", ["recovery.before_cut", "recovery.after_cut", "recovery.unlink"])
async def test_killed_while_it_recovers_from_a_kill(tmp_path: Path, point: str) -> None:
    (tmp_path / "clean").mkdir()
    (tmp_path / "killed").mkdir()
    await prepare(tmp_path / "clean" / "context.jsonl")
    expected = await run(tmp_path / "clean" / "context.jsonl", WORK, Recorder(tmp_path / "clean"))
    log = tmp_path / "killed" / "context.jsonl"
    await prepare(log)
    if point == "recovery.unlink":
        os.link(log, log.parent / "context_1.jsonl")
    else:
        with log.open("ab") as file:
            file.write(b'{"role":"user","cont')
    assert killed(log, f"{point}=kill") == []
    assert await complaints(log, State(point, 0, {}, {}, 0, 0), expected) == []


def test_every_failpoint_is_tried() -> None:
    assert set(POINTS) >= ELSEWHERE
    assert len(POINTS) > 12
    assert durable.HOLD_OPEN
