"""`timeleap COMMAND`, in this process or as one of its own.

A command takes a second of the processor when it has to load Python, itself and a server first. Most tests ask what it
says and does, not how it is started: those run it here, from `main` on, with its server in a thread. What depends on
processes (signals, pipes, terminals, the way from the shell) is started as one.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.inside import servers_inside
from tests.support.server import runtime_directory

from timeleap.__main__ import main
from timeleap.cli.command_table import TABLE
from timeleap.cli.parameters import Registered


def every_command() -> list[tuple[tuple[str, ...], Registered]]:
    """All commands, each with the words that name it."""
    found: list[tuple[tuple[str, ...], Registered]] = []
    for name, entry in TABLE.items():
        member = entry.load()
        if isinstance(member, Registered):
            found.append(((name,), member))
        else:
            found += [((name, each.name), each) for each in member.members if isinstance(each, Registered)]
    return found


PATIENCE = 240.0
"""Seconds after which a command that has not ended is a failure."""


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one JSON document it printed."""
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        """The JSON lines it printed."""
        return [json.loads(line) for line in self.out.splitlines()]


class Typed(str):
    """Input that somebody types at a terminal."""

    __slots__ = ()


@dataclass(frozen=True)
class Cli:
    """Runs commands on one store."""

    home: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """The environment of the commands: nothing of the user's own Timeleap in it."""
        private = self.home.parent / "user"
        private.mkdir(exist_ok=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIMELEAP_")}
        own = {
            "TIMELEAP_HOME": str(self.home),
            "TIMELEAP_KEY_FILE": str(private / "key"),
            "XDG_RUNTIME_DIR": str(runtime_directory()),
            "COLUMNS": "120",
        }
        return {**inherited, **own, **self.env}

    def start(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            self.argv(args),
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=self.environment(),
            **more,
        )

    def argv(self, args: Sequence[str]) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "timeleap", *args]

    def run(self, *args: str, input: str | None = None, code: int = 0) -> Ran:
        """Run a command in this process; fails if its exit code is another than `code`, or if it shows a traceback."""
        return self._here(args, input, code, seen=False)

    def terminal(self, *args: str, code: int | None = 0, input: str | None = None) -> Ran:
        """The same where its output is a terminal that knows colours."""
        return Cli(self.home, {"TERM": "xterm", **self.env})._here(args, input, code, seen=True)

    def _here(self, args: Sequence[str], input: str | None, code: int | None, *, seen: bool) -> Ran:
        typed = isinstance(input, Typed)
        stdin, stdout, stderr = _Stream(input or "", typed), _Stream("", seen), _Stream("", seen or typed)
        with ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, self.environment(), clear=True))
            for name, value in (
                ("argv", ["timeleap", *args]),
                ("stdin", stdin),
                ("stdout", stdout),
                ("stderr", stderr),
            ):
                stack.enter_context(mock.patch.object(sys, name, value))
            stack.enter_context(servers_inside())
            stack.callback(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
            ended = main()
        return _judged(Ran(ended, stdout.written, stderr.written), code)

    def execute(self, *args: str, input: str | None = None, code: int = 0) -> Ran:
        """The same as a process, from the shell's point of view."""
        process = self.start(*args, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL)
        try:
            out, err = process.communicate(input, PATIENCE)
        finally:
            process.kill()
        return _judged(Ran(process.returncode, out, err), code)

    def json(self, *args: str, input: str | None = None, code: int = 0) -> Any:
        """The document a command prints with `--json`."""
        return self.run(*args, "--json", input=input, code=code).json()


class _Stream(io.TextIOWrapper):
    def __init__(self, text: str, is_terminal: bool) -> None:
        self._bytes = io.BytesIO(text.encode())
        self._is_terminal = is_terminal
        super().__init__(self._bytes, encoding="utf-8", newline="", write_through=True)

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def written(self) -> str:
        return self._bytes.getvalue().decode()


def _judged(ran: Ran, code: int | None) -> Ran:
    assert code is None or ran.code == code, f"exit code {ran.code}\n{ran.out}\n{ran.err}"
    assert "Traceback" not in ran.err, ran.err
    return ran
