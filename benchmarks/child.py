"""A child process that is measured."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
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
