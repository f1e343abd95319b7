"""A child process that is measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil


class Child:
    """A program, spoken to through its standard input and output."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)

    @property
    def memory(self) -> int:
        """Bytes that are resident."""
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()


class Worker(Child):
    """A child process that takes a JSON request a line, and answers each with a line of JSON."""

    def __init__(self, python: Path, script: Path) -> None:
        super().__init__([str(python), str(script)], text=True)

    def ask(self, **request: Any) -> Any:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that was asked went away")
        return json.loads(answer)
