"""`timeleap` run by a process that has imported all of it, where a test needs a command to give to somebody else.

An SDK's client, or ours, starts what it is told to start. Loading the SDK of the Model Context Protocol takes two seconds of
processor time, a server a quarter of one. `command` gives a command of a few milliseconds in their stead: it hands its
streams, arguments and environment to a process that is ready, which forks, and ends as the fork ends.
"""

from __future__ import annotations

import atexit
import functools
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

_ROOT = Path(__file__).resolve().parents[2]
_LAUNCHER = Path(__file__).with_name("ready_launcher.py")
SDKS = _ROOT / ".tools" / "agents" / "python" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
"""Where the SDKs are that our own environment does not have."""


@functools.cache
def command() -> tuple[str, ...]:
    """What stands for `timeleap` in a command line; on a platform that cannot hand over descriptors, just that."""
    if not hasattr(socket, "send_fds"):
        return (sys.executable, "-m", "timeleap")
    folder = tempfile.TemporaryDirectory(prefix="tl-")
    address = str(Path(folder.name, "s"))
    path = [str(_ROOT), str(SDKS), os.environ.get("PYTHONPATH", "")]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ready_process", str(listener.fileno()), address],
            stdin=subprocess.PIPE,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            pass_fds=[listener.fileno()],
        )

    def end() -> None:
        process.communicate()  # it ends when nobody holds its input
        folder.cleanup()

    atexit.register(end)
    return launcher(address)


def launcher(address: str) -> tuple[str, ...]:
    """The command that has the process at `address` run `timeleap` with the arguments that follow."""
    return (sys.executable, "-I", "-S", str(_LAUNCHER), address)


@contextmanager
def clients_servers() -> Iterator[None]:
    """Clients that are made meanwhile start their servers in this way, unless they are told another."""
    with mock.patch("timeleap_client.raw.default_command", return_value=(*command(), "serve")):
        yield


if __name__ == "__main__":
    # For tests in another language: python -m tests.support.ready COMMAND..., which starts its servers by TIMELEAP_COMMAND.
    sys.exit(subprocess.call(sys.argv[1:], env={**os.environ, "TIMELEAP_COMMAND": " ".join((*command(), "serve"))}))
