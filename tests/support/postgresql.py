"""A PostgreSQL server of the tests' own, in a temporary directory; the system's is never touched."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

INSTALL = "apt-get install postgresql"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "shared_buffers": "16MB",
    "max_connections": "200",
}


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

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{os.urandom(8).hex()}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """The rows that a statement gives."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]  # nothing of it comes from outside
            return cursor.fetchall() if cursor.description else []

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

    def standby(self, name: str) -> Cluster:
        """A new, running standby of this server."""
        directory = self.directory.parent / name
        other = Cluster(directory, free_port())
        _run("pg_basebackup", "-d", self.url(), "-D", str(directory), "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with open(directory / "postgresql.auto.conf", "a", encoding="ascii") as file:
            file.write(f"primary_conninfo = '{self.url()}?application_name={name}'\n")
        other.start()
        return other

    def end(self) -> None:
        """Stop it, also where its processes were stopped by a signal."""
        if self.running:
            with suppress(psutil.NoSuchProcess):
                self.signal(signal.SIGCONT)
            self.stop()

    def set(self, **settings: str) -> None:
        """Change settings of the running server."""
        for name, value in settings.items():
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")

    def _control(self, *arguments: str) -> None:
        _run("pg_ctl", "-D", str(self.directory), "-w", *arguments)


@functools.cache
def programs() -> Path | None:
    """The directory of PostgreSQL's own programs; None where it is not installed."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else max(found).parent if found else None


@functools.cache
def shared_cluster() -> Cluster:
    """The server of this process's tests, each of which has a database of its own there; it ends with the process."""
    stack = ExitStack()
    cluster = stack.enter_context(private_cluster())
    atexit.register(stack.close)
    return cluster


@contextmanager
def private_cluster() -> Iterator[Cluster]:
    """A new server, gone with its data, and that of its standbys, at the end. Skips the test where PostgreSQL is not installed."""
    if programs() is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    folder = Path(tempfile.mkdtemp(prefix="tlpg-"))
    try:
        if (owner := _owner()) is not None:
            shutil.chown(folder, owner)
        cluster = Cluster(folder / "data", free_port())
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


@contextmanager
def replicated_cluster() -> Iterator[tuple[Cluster, Cluster]]:
    """A server and its synchronous standby: what was committed on the one is on the other."""
    with private_cluster() as primary:
        standby = primary.standby("standby")
        primary.set(synchronous_standby_names="standby")
        while ("sync",) not in primary.execute("SELECT sync_state FROM pg_stat_replication"):
            time.sleep(0.05)
        yield primary, standby


def free_port() -> int:
    """A port on 127.0.0.1 on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _owner() -> str | None:
    """Whom the server must run as, where that is not who we are: it refuses to run as root."""
    return "postgres" if os.geteuid() == 0 and _exists("postgres") else None


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _command(program: str, *arguments: str) -> list[str]:
    directory = programs()
    assert directory is not None
    return [str(directory / program), *arguments]


def _run(program: str, *arguments: str) -> None:
    # Its log goes to a file: a server that kept our pipe open would keep us from reading to its end.
    with tempfile.TemporaryFile("w+") as output:
        code = subprocess.run(
            _command(program, *arguments),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd="/",
            user=_owner(),
            check=False,
        ).returncode
        output.seek(0)
        assert code == 0, f"{program}: {output.read()}"
