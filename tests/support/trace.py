"""Which failpoints a server passes, and in which order: what there is to kill at."""

from __future__ import annotations

from pathlib import Path

_TRACER = """
import os
from timeleap.storage import durable

_file = os.open(os.environ["TRACE_FILE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
_original = durable.failpoint

def failpoint(name):
    os.write(_file, name.encode() + b"\\n")
    _original(name)

durable.failpoint = failpoint
"""


class Tracer:
    """A server started with `env` writes the name of each failpoint it passes to a file."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "sitecustomize.py").write_text(_TRACER)
        self._file = directory / "passed"
        self.env = {"PYTHONPATH": str(directory), "TRACE_FILE": str(self._file)}

    def passed(self) -> list[str]:
        """The names so far, in order."""
        return self._file.read_text().split() if self._file.exists() else []
