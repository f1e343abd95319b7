"""PostgreSQL servers in a temporary directory, by PostgreSQL's own programs; the system's server is never touched."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import psutil

INSTALL = "apt-get install postgresql"
"""Command that installs the programs on Debian and Ubuntu."""
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "shared_buffers": "16MB",
    "max_connections": "200",
}


class ClusterFailedError(Exception):
    """A program of PostgreSQL is missing, or has failed; its output is the message."""


@dataclass
class Cluster:
    """A running server.

    Attributes:
        directory: Its data.
        port: On 127.0.0.1.
    """

    directory: Path
    port: int

    @property
    def running(self) -> bool:
        """True if it was started and not stopped."""
        return (self.directory / "postmaster.pid").exists()

    def url(self, database: str = "postgres", user: str = "timeleap", password: str = "") -> str:
        """The URL of a database."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def query(self, statement: str) -> str:
        """The rows that a statement gives, a line each. Raises ClusterFailedError."""
        return _run("psql", "-X", "-A", "-t", "-q", "-d", self.url(), "-c", statement).strip()

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        self._control("stop", "-m", "immediate")

    def start(self) -> None:
        """Start it (again)."""
        self._control("start", "-o", f"-p {self.port}", "-l", str(self.directory.parent / "log"))

    def promote(self) -> None:
        """Let a standby take over."""
        self._control("promote")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes: SIGKILL is as if its machine was gone, SIGSTOP as if that hung."""
        lines = (self.directory / "postmaster.pid").read_text().splitlines()
        postmaster = psutil.Process(int(lines[0]))
        # The postmaster first, so that it starts no more of them.
        for process in (postmaster, *postmaster.children()):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        if number == signal.SIGKILL:
            (self.directory / "postmaster.pid").unlink()

    def standby(self, name: str) -> Self:
        """A new, running standby of this server."""
        directory = self.directory.parent / name
        other = type(self)(directory, free_port())
        _run("pg_basebackup", "-d", self.url(), "-D", str(directory), "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with open(directory / "postgresql.auto.conf", "a", encoding="ascii") as file:
            file.write(f"primary_conninfo = '{self.url()}?application_name={name}'\n")
        other.start()
        return other

    def wait_for_synchronous(self, name: str) -> None:
        """Answer no commit from now on before the standby of that name has it."""
        self.query(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        self.query("SELECT pg_reload_conf()")
        while "sync" not in self.query("SELECT sync_state FROM pg_stat_replication").split():
            time.sleep(0.05)

    def end(self) -> None:
        """Stop it, also where its processes were stopped by a signal."""
        if self.running:
            with suppress(psutil.NoSuchProcess):
                self.signal(signal.SIGCONT)
            self.stop()

    def _control(self, *arguments: str) -> None:
        _run("pg_ctl", "-D", str(self.directory), "-w", *arguments)


C = TypeVar("C", bound=Cluster)


@functools.cache
def programs() -> Path | None:
    """The directory of PostgreSQL's own programs; None where it is not installed."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else max(found).parent if found else None


@contextmanager
def private_cluster(kind: type[C]) -> Iterator[C]:
    """A new server, gone with its data, and that of its standbys, at the end. Raises ClusterFailedError."""
    if programs() is None:
        raise ClusterFailedError(f"PostgreSQL is not installed: {INSTALL}")
    folder = Path(tempfile.mkdtemp(prefix="tlpg-"))
    try:
        if (owner := _owner()) is not None:
            shutil.chown(folder, owner)
        cluster = kind(folder / "data", free_port())
        _run("initdb", "-D", str(cluster.directory), "-U", "timeleap", "--auth=trust", "-E", "UTF8", "--no-sync")
        settings = "".join(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())
        with open(cluster.directory / "postgresql.auto.conf", "a", encoding="ascii") as file:
            file.write(settings)
        cluster.start()
        try:
            yield cluster
        finally:
            for data in folder.iterdir():
                if data.is_dir():
                    Cluster(data, 0).end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port on 127.0.0.1 on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _owner() -> str | None:
    """Whom the server must run as, where that is not who we are: it refuses to run as root."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd

    with suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return None


def _run(program: str, *arguments: str) -> str:
    directory = programs()
    assert directory is not None
    # The output goes to a file: a server that kept our pipe open would keep us from reading to its end.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        code = subprocess.run(
            [str(directory / program), *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd="/",
            user=_owner(),
            check=False,
        ).returncode
        output.seek(0)
        text = output.read()
    if code:
        raise ClusterFailedError(f"{program}: {text.strip()}")
    return text
