"""Which modules of ours a server enters for one request."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support import holding
from tests.support.server import Server

_TRACER = """
import os, signal, sys, threading

entered, count = set(), 0

def profile(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and not code.co_filename.startswith("<"):  # made by dataclasses
        entered.add(frame.f_globals.get("__name__", ""))

def dump(number, frame):
    global count
    names = sorted(name for name in entered if name.startswith("timeleap."))
    entered.clear()
    count += 1
    path = os.path.join(os.environ["TRACE_DIRECTORY"], str(count))
    with open(path + ".part", "w") as file:
        file.write("\\n".join(names))
    os.replace(path + ".part", path)

signal.signal(signal.SIGUSR1, dump)
threading.setprofile(profile)
sys.setprofile(profile)
"""


class EnteredModules:
    """A server started with `env` tells in which modules functions were called."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "sitecustomize.py").write_text(_TRACER)
        self._directory = directory
        self._dumps = 0
        self.env = {"PYTHONPATH": str(directory), "TRACE_DIRECTORY": str(directory)}

    def since_last_time(self, server: Server) -> set[str]:
        """The modules entered since this was asked last."""
        self._dumps += 1
        os.kill(server.process.pid, signal.SIGUSR1)
        dump = self._directory / str(self._dumps)
        holding.wait_until(dump.exists)
        return set(dump.read_text().split())
