"""The original program as the interop tests use it: a child process that runs its classes on our files."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.interop.prepare import original_python

WORKER = Path(__file__).with_name("original_worker.py")
PATIENCE = 60.0
"""Seconds an answer may take before the child is ended; it imports a large program first."""

Json = dict[str, Any]
Step = tuple[str, Any]


class OriginalError(Exception):
    """The original program raised; the message is the name of its error and what it said."""


@dataclass(frozen=True)
class State:
    """What a context holds, in a form both sides can tell."""

    history: list[Json]
    token_count: int
    token_count_with_pending: int
    n_checkpoints: int
    system_prompt: str | None


class Original:
    """One child process; its methods wait for its answer."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process: subprocess.Popen[str] | None = None

    def restore(self, log: Path) -> State:
        """What a fresh context of the original restores from a log."""
        return _state(self._ask(do="restore", path=str(log)))

    def perform(self, log: Path, steps: Sequence[Step]) -> State:
        """Do operations on one context of the original (see `step` in the worker), and say what it holds then."""
        return _state(self._ask(do="steps", path=str(log), steps=list(steps)))

    def write_linear(self, log: Path, messages: list[Json], token_count: int) -> None:
        """Have its `JsonlLinearStorage` write messages and a token count."""
        self._ask(do="linear", path=str(log), messages=messages, tokenCount=token_count)

    def load_state(self, session_dir: Path) -> Json:
        """The fields of the session state it loads."""
        found: Json = self._ask(do="loadState", path=str(session_dir))
        return found

    def save_state(self, session_dir: Path, state: Json) -> None:
        """Have it save a session state."""
        self._ask(do="saveState", path=str(session_dir), state=state)

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE)
            self._process.stdout.close()

    def _ask(self, **request: Any) -> Any:
        if self._process is None:
            self._process = self._start()
        child = self._process
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(request) + "\n")
        child.stdin.flush()
        reply = json.loads(_line(child.stdout, child))
        if "error" in reply:
            raise OriginalError(reply["error"])
        return reply["ok"]

    def _start(self) -> subprocess.Popen[str]:
        # Its own home: it writes logs and settings, and must not see the user's. No byte of it reaches our output.
        environment = {**os.environ, "HOME": str(self._home), "USERPROFILE": str(self._home), "PYTHONUTF8": "1"}
        return subprocess.Popen(
            [str(original_python()), str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env=environment,
        )


def _line(stream: IO[str], child: subprocess.Popen[str]) -> str:
    watchdog = threading.Timer(PATIENCE, child.kill)
    watchdog.start()
    try:
        line = stream.readline()
    finally:
        watchdog.cancel()
    if not line:
        raise OriginalError("the original program ended without an answer")
    return line


def _state(found: Json) -> State:
    return State(
        history=found["history"],
        token_count=found["tokenCount"],
        token_count_with_pending=found["tokenCountWithPending"],
        n_checkpoints=found["nCheckpoints"],
        system_prompt=found["systemPrompt"],
    )
