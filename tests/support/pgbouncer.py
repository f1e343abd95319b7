"""A pgbouncer of the tests' own in front of a PostgreSQL server of theirs; the system's is never touched."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.support.postgresql import free_port
from tests.support.server import PATIENCE

from timeleap.cli import private_cluster as servers

INSTALL_POOLER = "apt-get install pgbouncer"
"""What installs the program on Debian and Ubuntu."""


def pgbouncer() -> str:
    """The program. Skips the test where it is not installed."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip(f"pgbouncer is not installed: {INSTALL_POOLER}")
    return program


class Pooler:
    """A running pgbouncer.

    Attributes:
        port: On 127.0.0.1.
    """

    def __init__(self, program: str, folder: Path, store: str, mode: str, settings: dict[str, str]) -> None:
        self.port = free_port()
        self._program, self._folder, self._settings = program, folder, settings
        self._store = conninfo_to_dict(store)
        self._process: subprocess.Popen[bytes] | None = None
        self.start(mode)

    @property
    def url(self) -> str:
        """Of the store's database, through it."""
        password = ":secret" if self._settings.get("auth_type") == "md5" else ""
        return f"postgresql://{self._store['user']}{password}@127.0.0.1:{self.port}/{self._store['dbname']}"

    def start(self, mode: str) -> None:
        """Start it (again), in a mode."""
        self._configure(mode)
        # As root it refuses to run.
        self._process = subprocess.Popen(
            [self._program, "-q", str(self._folder / "ini")],
            user=servers._owner(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError((self._folder / "log").read_text())

    def stop(self) -> None:
        """Stop it at once, with all connections through it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def command(self, text: str) -> list[tuple[object, ...]]:
        """Say something on its console, such as PAUSE."""
        console = f"postgresql://{self._store['user']}@127.0.0.1:{self.port}/pgbouncer"
        with psycopg.connect(console, autocommit=True, prepare_threshold=None) as connection:
            cursor = psycopg.ClientCursor(connection)
            cursor.execute(text)  # type: ignore[arg-type]  # nothing of it comes from outside
            return cursor.fetchall() if cursor.description else []

    def _configure(self, mode: str) -> None:
        user, port = self._store["user"], self._store["port"]
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(self._folder / "users"),
            "admin_users": str(user),
            "logfile": str(self._folder / "log"),
            "pool_mode": mode,
            **self._settings,
        }
        (self._folder / "users").write_text(f'"{user}" "secret"\n')
        (self._folder / "ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={port}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items())
        )


@contextmanager
def pooler(store: str, mode: str, **settings: str) -> Iterator[Pooler]:
    """A pgbouncer in front of the server of a store, gone at the end."""
    program = pgbouncer()
    folder = Path(tempfile.mkdtemp(prefix="tlpgb-"))
    try:
        if (owner := servers._owner()) is not None:
            shutil.chown(folder, owner)
        made = Pooler(program, folder, store, mode, settings)
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
