"""What docs/postgresql.md tells administrators to type does what it says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]
from tests.support.machines import Serve
from tests.support.pgbouncer import pgbouncer
from tests.support.postgresql import INSTALL, Cluster, free_port, programs
from tests.support.server import Refused
from tests.support.session import Session

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "postgresql.md").read_text(encoding="utf-8")
PROGRAMS = (
    "initdb",
    "pg_ctl",
    "psql",
    "pg_basebackup",
    "pg_dump",
    "pg_restore",
    "createdb",
    "mkdir",
    "touch",
    "pgbouncer",
)
"""What makes files that the server must own."""


def blocks(language: str) -> list[str]:
    """The page's blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


TABLES = ("session", "log", "piece", "document", "change")
SET_UP, PROMOTE, DUMP, ARCHIVE, RECOVER, POOLER = blocks("bash")


class Administrator:
    """Types what the page says, in a folder of its own, on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {port: free_port() for port in (5433, 5434, 5435, 6432)}
        commands = folder / "bin"
        commands.mkdir()
        # A server of PostgreSQL refuses to run as root.
        account = "runuser -u postgres -- " if os.geteuid() == 0 else ""
        for name in PROGRAMS:
            program = programs() and Path(str(programs())) / name
            found = program if program and program.exists() else shutil.which(name)
            lasting = " --no-sync" if name in ("initdb", "pg_basebackup") else ""  # no machine stops meanwhile
            (commands / name).write_text(f'#!/bin/sh\nexec {account}{shlex.quote(str(found))}{lasting} "$@"\n')
            (commands / name).chmod(0o755)
        if account:
            shutil.chown(folder, "postgres")
        self._path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])

    def type(self, text: str) -> str:
        """Run lines; returns what they print."""
        ports = {str(port): str(free) for port, free in self.ports.items()}
        text = re.sub(
            "|".join(ports), lambda port: ports[port[0]], text
        )  # at once: a free port may have another one in it
        with tempfile.TemporaryFile("w+") as output:  # a server that was started keeps it open
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=self.folder,
                env={**os.environ, "PATH": self._path, "HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            )
            output.seek(0)
            said = output.read()
        assert done.returncode == 0, said
        return said

    def cluster(self, name: str, port: int) -> Cluster:
        """One of the servers that were started."""
        return Cluster(self.folder / name, self.ports[port])

    def url(self, user: str, *ports: int, database: str = "timeleap") -> str:
        hosts = ",".join(f"127.0.0.1:{self.ports[port]}" for port in ports)
        return f"postgresql://{user}@{hosts}/{database}"

    def grant(self) -> None:
        """Give the role of the processes the rights of the page."""
        with psycopg.connect(self.url("owner", 5433, 5434) + "?target_session_attrs=read-write") as connection:
            connection.execute(blocks("sql")[0])  # type: ignore[arg-type]  # it is ours


@pytest.fixture
def administrator() -> Iterator[Administrator]:
    if programs() is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    folder = Path(tempfile.mkdtemp(prefix="tlpg-"))
    folder.chmod(0o755)
    made = Administrator(folder)
    try:
        yield made
    finally:
        for name in ("base", "db2", "db1"):
            made.cluster(name, 5433).end()
        shutil.rmtree(folder)


def test_the_lines_of_the_page_set_up_a_standby_that_takes_over(administrator: Administrator, serve: Serve) -> None:
    administrator.type(SET_UP)
    administrator.grant()
    assert len(SET_UP.splitlines()) <= 10
    [read] = re.findall(r"\?timeleap_read=\w+", PAGE)
    session = Session.open(serve(administrator.url("timeleap", 5433, 5434) + read), "s")
    session.say("on both")
    with psycopg.connect(administrator.url("owner", 5433)) as connection:
        standby = connection.execute("SELECT application_name, sync_state FROM pg_stat_replication").fetchall()
    assert standby == [("db2", "quorum")]
    administrator.cluster("db1", 5433).stop()
    assert session.call("context/getHistory")["stale"] is True
    administrator.type(PROMOTE)
    session.append({"role": "user", "content": "on the standby"}, requestId="r")
    assert session.texts() == ["on both", "on the standby"]


def test_the_rights_of_the_page_are_enough_and_are_needed(administrator: Administrator, serve: Serve) -> None:
    administrator.type(SET_UP)
    owner, url = administrator.url("owner", 5433), administrator.url("timeleap", 5433)
    error = serve(url).refuse("session/open", sessionId="s")
    assert (error["code"], error["data"]["reason"]) == (4005, "rights")
    administrator.grant()
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    a.say("one")
    a.checkpoint()
    a.say("two")
    b.call("context/revertTo", checkpointId=0)
    a.call("context/undo")
    assert b.texts() == ["one", "two"]
    a.call("session/fork", title="copy")
    a.call("session/redact", value="two")
    a.call("session/delete")
    assert len(b.server.call("session/purge", sessionId="s")["purged"]) == 1
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (
            "DROP TABLE timeleap_piece",
            "CREATE TABLE more (x int)",
            "UPDATE timeleap_schema SET version = 9",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)  # type: ignore[call-overload]
    server = serve(url)
    rights = ["UPDATE ON timeleap_session", *(f"INSERT ON timeleap_{table}" for table in TABLES)]
    with psycopg.connect(owner, autocommit=True) as connection:
        for number, right in enumerate(rights):
            connection.execute(f"REVOKE {right} FROM timeleap")  # type: ignore[call-overload]
            with pytest.raises(Refused) as refused:
                Session.open(server, f"t{number}").say("three")
            assert refused.value.error["data"]["reason"] == "rights", right
            connection.execute(f"GRANT {right} TO timeleap")  # type: ignore[call-overload]
    Session.open(server, "t").say("three")


def test_the_pooler_of_the_page_is_used_with_the_way_past_it(administrator: Administrator, serve: Serve) -> None:
    pgbouncer()
    administrator.type(SET_UP)
    administrator.grant()
    try:
        assert "0 sessions" in administrator.type(POOLER)
        [way] = set(re.findall(r"\?timeleap_direct=127\.0\.0\.1:5433", PAGE))
        past = way.replace("5433", str(administrator.ports[5433]))
        a, b = (Session.open(serve(administrator.url("timeleap", 6432) + past), "s") for _ in range(2))
        head = a.append({"role": "user", "content": "one"})["head"]
        b.server.wait_for(lambda message: message.get("params", {}).get("head") == head)
        error = serve(administrator.url("timeleap", 6432)).refuse("session/open", sessionId="s")
        assert error["data"]["reason"] == "pooler"
    finally:
        pid = administrator.folder / "pgbouncer.pid"
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_backups_of_the_page_come_back(administrator: Administrator, serve: Serve) -> None:
    administrator.type(SET_UP)
    administrator.grant()
    url = administrator.url("timeleap", 5433)
    session = Session.open(serve(url), "s")
    session.say("one")
    session.checkpoint()
    session.say("two")
    session.call("context/revertTo", checkpointId=0)
    said = administrator.type(DUMP)
    assert "1 session" in said, said
    restored = Session.open(serve(administrator.url("owner", 5433, database="restored")), "s")
    assert restored.texts() == ["one"]
    restored.call("context/undo")
    assert restored.texts() == ["one", "two"]
    administrator.type(ARCHIVE)
    session.append({"role": "user", "content": "kept"}, requestId="kept")
    with psycopg.connect(administrator.url("owner", 5433), autocommit=True) as connection:
        connection.execute("SELECT pg_create_restore_point('before')")
        session.append({"role": "user", "content": "a mistake"}, requestId="mistake")
        segment = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
        archived: Any = None
        while archived is None or archived[0] is None or archived[0] < segment[0]:  # type: ignore[index]
            archived = connection.execute("SELECT last_archived_wal FROM pg_stat_archiver").fetchone()
    administrator.type(RECOVER)
    assert Session.open(serve(administrator.url("owner", 5435)), "s").texts() == ["one", "kept"]
    assert session.texts() == ["one", "kept", "a mistake"]


def test_the_compose_file_says_the_same_as_the_lines() -> None:
    compose = yaml.safe_load(blocks("yaml")[0])
    primary, standby = compose["services"]["db1"], compose["services"]["db2"]
    assert primary["image"] == standby["image"]
    assert {port for service in (primary, standby) for port in service["ports"]} == {"5433:5432", "5434:5432"}
    shell, option, script = standby["command"]
    assert (shell, option) == ("bash", "-c")
    setting = compose["configs"][primary["configs"][0]["source"]]["content"]
    for text in (script, setting):
        # Compose makes one dollar of two; what is left has to be the shell's.
        assert "$" not in text.replace("$$", "")
        subprocess.run(["bash", "-n", "-c", text.replace("$$", "$")], check=True)
    name = re.search(r"application_name=(\w+)", script)
    assert name and f"ANY 1 ({name[1]})" in SET_UP
    assert f"user={primary['environment']['POSTGRES_USER']}" in script
    assert f"host replication {primary['environment']['POSTGRES_USER']} all scram-sha-256" in setting
    assert set(compose["volumes"]) == {
        volume.split(":")[0] for service in (primary, standby) for volume in service["volumes"]
    }
