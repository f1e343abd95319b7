"""`timeleap COMMAND` as a child process, as a user or a script runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.server import runtime_directory

PATIENCE = 60.0
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
        """Run a command to its end; fails if its exit code is another than `code`, or if it shows a traceback."""
        process = self.start(*args, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL)
        try:
            out, err = process.communicate(input, PATIENCE)
        finally:
            process.kill()
        assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in err, err
        return Ran(process.returncode, out, err)

    def json(self, *args: str, input: str | None = None, code: int = 0) -> Any:
        """The document a command prints with `--json`."""
        return self.run(*args, "--json", input=input, code=code).json()
