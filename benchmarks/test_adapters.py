"""What do a Claude Agent SDK's session store of ours and its hooks cost, beside the SDK's own in memory and no hooks?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.child import Worker
from benchmarks.conftest import Judge
from benchmarks.measure import Measured, interleaved

pytestmark = pytest.mark.bench

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ROOT / ".tools" / "agents" / "python" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
MESSAGES: Final = 11_200
"""Of a session of 50 MB."""
BATCHES: Final = 100
PACE: Final = 2.0
"""Seconds that a model takes for an answer. Few are as fast; of a slower one's turns the hooks are a smaller part."""


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PACKAGES.is_dir(), "`make agents` installs the SDK"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(PACKAGES)]))
    monkeypatch.setenv("TIMELEAP_KEY_FILE", str(tmp_path / "key"))


@contextmanager
def _worker() -> Iterator[Worker]:
    worker = Worker(Path(sys.executable), ROOT / "benchmarks" / "claude_worker.py")
    try:
        yield worker
    finally:
        worker.kill()


def _ask(**request: Any) -> Any:
    """The answer of a process that is started for it: memory that another request has left would make it faster."""
    with _worker() as worker:
        return worker.ask(**request)


@pytest.mark.rows("34")
def test_a_long_session_is_loaded(tmp_path: Path, judge: Judge) -> None:
    folder = str(tmp_path)
    size = _ask(do="fill", folder=folder, messages=MESSAGES)
    cases = {name: lambda name=name: float(_ask(do=name, folder=folder)) for name in ("read", "load")}
    measured = interleaved(f"a session of {size / 1e6:.0f} MB", cases, rounds=9)
    judge("34", measured["load"], measured["read"], note=f"{size / 1e6:.0f} MB, {MESSAGES} entries")


@pytest.mark.rows("35")
def test_a_batch_is_appended(tmp_path: Path, judge: Judge) -> None:
    taken = _ask(do="append", folder=str(tmp_path), rounds=BATCHES)
    over = [1e3 * (ours - its) for ours, its in zip(taken["timeleap"], taken["memory"], strict=True)]
    judge("35", values=over, note="88 KB a batch, with a checkpoint for each of its five prompts")


@pytest.mark.rows("36")
def test_claude_code_is_resumed(tmp_path: Path, judge: Judge) -> None:
    taken = _ask(do="resume", folder=str(tmp_path), rounds=9)
    judge("36", _measured(taken, "timeleap"), _measured(taken, "memory"), note="a session of 1 MB, one turn in it")


@pytest.mark.rows("37")
def test_a_turn_with_hooks(tmp_path: Path, judge: Judge) -> None:
    taken = _ask(do="turns", folder=str(tmp_path), rounds=9, pace=PACE)
    judge("37", _measured(taken, "hooks"), _measured(taken, "none"), note="2 000 files")


def _measured(taken: dict[str, list[float]], name: str) -> Measured:
    return Measured(name, tuple(taken[name]))
