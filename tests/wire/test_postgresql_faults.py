"""A database that refuses, or goes away in the middle of a change: the error says so, nothing is lost, and the next request
works."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.machines import Serve, machines
from tests.support.mostly_long import mostly_long
from tests.support.postgresql import Cluster, private_cluster, replicated_cluster, shared_cluster
from tests.support.server import Server
from tests.support.session import Session, assistant, user

from timeleap_postgresql import database
from timeleap_protocol.methods import ANSWERED

Call = tuple[str, dict[str, Any]]

BEFORE: list[Call] = [
    ("context/setSystemPrompt", {"systemPrompt": "p"}),
    ("context/appendMessage", {"message": user("one")}),
    ("context/checkpoint", {}),
    ("context/appendMessage", {"messages": [user("two"), assistant("three")]}),
]
"""What the session is before each of the changes."""
REVERT: Call = ("context/revertTo", {"checkpointId": 0})
MAIL: Call = ("context/sendDMail", {"message": "m", "checkpointId": 0})
CHANGES: dict[str, tuple[dict[str, Any], list[Call]]] = {
    "session/putSubagent": ({"name": "a", "systemPrompt": "be a"}, []),
    "session/removeSubagent": ({"name": "a"}, [("session/putSubagent", {"name": "a", "systemPrompt": "be a"})]),
    "session/setTitle": ({"title": "T"}, []),
    "session/setWorkspace": ({"workspace": "/tmp"}, []),
    "session/fork": ({"newSessionId": "f"}, []),
    "session/setYolo": ({"yolo": True}, []),
    "session/setAutoApprove": ({"action": "run", "enabled": True}, []),
    "session/setAfk": ({"afk": True}, []),
    "session/prune": ({"timelineIds": ["context_1"]}, [REVERT]),
    "session/archive": ({}, []),
    "session/unarchive": ({}, [("session/archive", {})]),
    "context/appendMessage": ({"message": user("once")}, []),
    "context/updateTokenCount": ({"tokenCount": 7}, []),
    "context/setSystemPrompt": ({"systemPrompt": "another"}, []),
    "context/checkpoint": ({"label": "c"}, []),
    "context/revertTo": ({"checkpointId": 0}, []),
    "context/clear": ({}, []),
    "context/restoreTimeline": ({"timelineId": "context_1"}, [REVERT]),
    "context/undo": ({}, [REVERT]),
    "context/redo": ({}, [REVERT, ("context/undo", {})]),
    "context/compact": ({"summarizer": "builtin", "maxPreservedMessages": 1}, []),
    "context/fold": ({"from": {"messageIndex": 0}, "to": {"messageIndex": 1}, "summary": "s"}, []),
    "context/replaceMessage": ({"messageIndex": 0, "message": user("another")}, []),
    "context/setPins": ({"pins": ["keep this"]}, []),
    "context/sendDMail": (MAIL[1], []),
    "context/deliverDMail": ({}, [MAIL]),
    "context/cancelDMail": ({}, [MAIL]),
}
OF_THE_STORE: dict[str, tuple[dict[str, Any], list[Call]]] = {
    "session/delete": ({}, []),
    "session/undelete": ({}, [("session/delete", {})]),
    "session/purge": ({}, [("session/delete", {})]),
    "session/redact": ({"value": "two"}, []),
}
"""The same of those that move a session, remove it, or keep nothing of the request."""
TRIED_ELSEWHERE = {
    "session/open",  # by `test_an_open_that_is_cut_off_is_done_once`
    "session/import",  # makes a session as `session/open` does
    "session/merge",  # needs a second session; appends as `context/appendMessage` does
    "session/repair",  # changes a damaged log only, of which the database has none
}
NO_SPACE = "RAISE EXCEPTION 'could not extend file: No space left on device'"
FAULTS = {
    "ended": ("PERFORM pg_terminate_backend(pg_backend_pid())", "lost", True),
    "full": (
        f"{NO_SPACE} USING ERRCODE = '53100', HINT = 'Check free disk space.'",
        "full",
        False,
    ),
    "slow": ("PERFORM pg_sleep(60)", "timeout", True),
}
"""What happens in the database in the middle of a change, and the reason and `retryable` that are answered."""


class Fault:
    """Something that happens in a database whenever a change is noted, while it is switched on."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        """The store must have its tables."""
        self._cluster = cluster
        self._name = name
        cluster.execute(
            "CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
            "CREATE FUNCTION fault_of_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';"
            "CREATE TRIGGER fault BEFORE INSERT ON timeleap_change FOR EACH ROW EXECUTE FUNCTION fault()",
            name,
        )

    def happens(self, statement: str) -> None:
        """From now on this does; nothing, if it is empty."""
        # Looking for the outcome of a change may note that it is none: that is not to be the one that fails.
        done = f"IF NEW.token NOT LIKE 'not %' THEN {statement}; END IF;" if statement else ""
        body = f"BEGIN {done} RETURN NEW; END"
        self._cluster.execute(
            f"CREATE OR REPLACE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $${body}$$;"
            "CREATE OR REPLACE FUNCTION fault_of_row() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN {statement and f'{statement};'} RETURN OLD; END$$",
            self._name,
        )

    @contextmanager
    def during(self, statement: str) -> Iterator[None]:
        """Meanwhile this does."""
        self.happens(statement)
        try:
            yield
        finally:
            self.happens("")


def test_every_method_that_changes_a_session_is_tried() -> None:
    changing = {name for name, row in ANSWERED.items() if row.mutates and not row.needs_directory}
    assert changing <= {*CHANGES, *OF_THE_STORE, *TRIED_ELSEWHERE}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server, Fault]]:
    """Two servers on a database in which something may happen; each test has a session of its own there."""
    url = shared_cluster().new_database()
    with machines(tmp_path_factory.mktemp("faulty")) as start:
        impatient, other = start(f"{url}?options=-c%20statement_timeout%3D500"), start(url)
        other.call("session/list")  # which makes the tables
        yield impatient, other, Fault(shared_cluster(), url.rpartition("/")[2])


@pytest.mark.parametrize("method", mostly_long(name for name in CHANGES if not ANSWERED[name].needs_directory))
def test_a_fault_in_the_middle_of_a_change(faulty: tuple[Server, Server, Fault], method: str) -> None:
    params, before = CHANGES[method]
    *servers, fault = faulty
    a, b = (Session.open(server, method.replace("/", "-")) for server in servers)
    for name, given in [*BEFORE, *before]:
        a.call(name, **given)
    records, state = a.records(), a.get_state()
    for kind, (statement, reason, retryable) in FAULTS.items():
        with fault.during(statement):
            error = a.refuse(method, **params, requestId="r")
        assert error["code"] == 4005, (kind, error)
        assert (error["data"]["reason"], error["data"]["retryable"]) == (reason, retryable), (kind, error)
        assert "outcome" not in error["data"]
        if kind == "full":
            assert error["message"].endswith("could not extend file: No space left on device; nothing was changed")
        assert a.records() == b.records() == records, kind
        assert b.get_state() == {**state, "access": "owner"}, kind
    result = a.call(method, **params, requestId="r")
    assert "duplicate" not in result
    assert b.call(method, **params, requestId="r") == {**result, "duplicate": True}
    assert a.records() == b.records()
    assert a.call("session/verify")["ok"] is True


@pytest.mark.parametrize("method", mostly_long(OF_THE_STORE))
def test_a_fault_in_the_middle_of_a_change_of_the_store(serve: Serve, url: str, method: str) -> None:
    params, before = OF_THE_STORE[method]
    a, b = serve(f"{url}?options=-c%20statement_timeout%3D500"), serve(url)
    session = Session.open(a, "s")
    for name, given in BEFORE:
        session.call(name, **given)
    session.call("session/close")
    for name, given in before:
        session.call(name, **given)
    cluster, database_name = shared_cluster(), url.rpartition("/")[2]
    fault = Fault(cluster, database_name)
    cluster.execute(
        "CREATE TRIGGER fault BEFORE DELETE ON timeleap_session FOR EACH ROW EXECUTE FUNCTION fault_of_row()",
        database_name,
    )

    def seen() -> list[Any]:
        return [
            [(each["sessionId"], each["messageCount"]) for each in b.call(listing)["sessions"]]
            for listing in ("session/list", "session/listTrash")
        ]

    there = seen()
    for kind, (statement, reason, retryable) in FAULTS.items():
        fault.happens(statement)
        error = session.refuse(method, **params, requestId="r")
        fault.happens("")
        assert error["code"] == 4005, (kind, error)
        assert (error["data"]["reason"], error["data"]["retryable"]) == (reason, retryable), (kind, error)
        assert seen() == there, kind
    result = session.call(method, **params, requestId="r")
    assert "duplicate" not in result
    left = Session.open(b, "s", create=False).texts() if method in ("session/undelete", "session/redact") else None
    assert left in (None, ["one", "two", "three"], ["one", "[redacted]", "three"])
    assert (seen() == there) is (method == "session/redact")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 24 MiB, which PostgreSQL may use."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs the right to mount")
    with tempfile.TemporaryDirectory() as folder:  # not below what only its owner may enter, as a test's own folder is
        Path(folder).chmod(0o755)
        disk = Path(folder) / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=777", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount")
        try:
            yield disk
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.long  # a cluster of its own
def test_a_disk_of_the_server_that_is_full(serve: Serve, small_disk: Path) -> None:
    with private_cluster() as cluster:
        place = small_disk / "data"
        place.mkdir()
        shutil.chown(place, cluster.directory.owner())
        cluster.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
        cluster.execute("CREATE DATABASE small TABLESPACE small")
        a, b = (Session.open(serve(cluster.url("small")), "s") for _ in range(2))
        a.checkpoint()
        cluster.execute("CHECKPOINT")  # a new database's files have holes until then, which reading it may fill
        ballast = small_disk / "ballast"
        ballast.write_bytes(os.urandom(2 << 20))
        kept, error, text = [], None, ""
        for number in range(100):
            text = base64.b64encode(os.urandom(300_000)).decode()  # which is stored as it is
            reply = a.start("context/appendMessage", message=user(text), requestId=f"r{number}").reply()
            if "error" in reply:
                error = reply["error"]
                break
            kept.append(text)
        assert error is not None
        assert (error["code"], error["data"]["reason"], error["data"]["retryable"]) == (4005, "full", False)
        assert a.texts() == b.texts() == kept
        ballast.unlink()
        again = a.append(user(text), requestId=f"r{len(kept)}")
        assert "duplicate" not in again
        a.say("room again")
        assert b.texts() == a.texts() == [*kept, text, "room again"]
        b.call("context/revertTo", checkpointId=0)
        assert a.texts() == []
        assert a.call("session/verify")["ok"] is True


def test_an_open_that_is_cut_off_is_done_once(serve: Serve, url: str) -> None:
    server, other = serve(url), serve(url)
    Session.open(server, "first")
    fault = Fault(shared_cluster(), url.rpartition("/")[2])
    for statement, reason, _ in list(FAULTS.values())[:2]:
        fault.happens(statement)
        error = server.refuse("session/open", sessionId="s", title="T")
        assert (error["code"], error["data"]["reason"]) == (4005, reason)
        fault.happens("")
        assert [each["sessionId"] for each in other.call("session/list")["sessions"]] == ["first"]
    assert Session.open(server, "s", title="T").state["title"] == "T"
    assert Session.open(other, "s").state["title"] == "T"


def test_a_wrong_password_is_said_and_not_shown(serve: Serve) -> None:
    with private_cluster() as cluster:
        rules = cluster.directory / "pg_hba.conf"
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        cluster.execute("SELECT pg_reload_conf()")
        cluster.execute("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right'")
        name = cluster.new_database().rpartition("/")[2]
        for password in ("hidden", ""):
            server = serve(cluster.url(name, "guarded", password))
            error = server.refuse("session/open", sessionId="s")
            assert (error["code"], error["data"]["reason"]) == (4005, "authentication")
            assert error["data"]["retryable"] is False
            assert "hidden" not in json.dumps(error) + server.stderr()
        Session.open(serve(cluster.url(name, "guarded", "right")), "s").say("one")


@pytest.mark.long
def test_a_standby_alone_takes_no_changes(serve: Serve) -> None:
    with replicated_cluster() as (primary, standby):
        name = primary.new_database().rpartition("/")[2]
        Session.open(serve(primary.url(name)), "s").say("one")
        error = serve(standby.url(name)).refuse("session/open", sessionId="s")
        while error["data"]["reason"] == "authentication":  # the standby has the new database, but not applied it yet
            error = serve(standby.url(name)).refuse("session/open", sessionId="s")
        assert (error["code"], error["data"]["reason"], error["data"]["retryable"]) == (4005, "readOnly", False)


def test_a_newer_schema_is_noticed_when_connections_are_made_again(serve: Serve, url: str) -> None:
    cluster, name = shared_cluster(), url.rpartition("/")[2]
    session = Session.open(serve(url), "s")
    session.say("one")
    cluster.execute("UPDATE timeleap_schema SET version = version + 1", name)
    ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    cluster.execute(ended)
    reasons = set()
    while "newerSchema" not in reasons:
        reasons.add(session.refuse("session/setTitle", title="T")["data"]["reason"])
    assert reasons <= {"lost", "newerSchema"}
    cluster.execute("UPDATE timeleap_schema SET version = version - 1", name)
    session.say("two")
    assert session.texts() == ["one", "two"]


@pytest.mark.parametrize("years", [-30, 30])
def test_a_clock_that_is_wrong(serve: Serve, url: str, years: int) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    shared_cluster().execute(
        "CREATE FUNCTION skew() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        f" NEW.changed := NEW.changed + make_interval(years => {years} * (NEW.version % 2)::int); RETURN NEW; END$$;"
        "CREATE TRIGGER skew BEFORE UPDATE ON timeleap_session FOR EACH ROW EXECUTE FUNCTION skew()",
        url.rpartition("/")[2],
    )
    for number in range(3):
        a.say(f"a{number}")
        b.say(f"b{number}")
        a.checkpoint()
        b.call("session/setTitle", title=f"T{number}")
    b.call("context/revertTo", checkpointId=1)
    a.call("context/undo")
    assert a.records() == b.records()
    assert a.texts() == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert a.get_state()["title"] == b.get_state()["title"] == "T2"


HOSTILE = ["'; DROP TABLE timeleap_session; --", '"$$\\%s%(id)s{}', "\0\x01", "\u2028\U0001f600é" * 2000]


@pytest.mark.parametrize("text", HOSTILE, ids=["sql", "quotes", "controls", "unicode"])
def test_hostile_values_are_values(serve: Serve, url: str, text: str) -> None:
    a, b = serve(url), serve(url)
    session = Session.open(a, "s")
    for method, params in (
        ("session/setTitle", {"title": text}),
        ("context/appendMessage", {"message": user(text), "requestId": text[:100]}),
        ("context/checkpoint", {"label": text}),
        ("context/sendDMail", {"message": text, "checkpointId": 0}),
    ):
        reply = session.start(method, **params).reply()
        assert "result" in reply or reply["error"]["code"] in (-32602, 4011), reply
    other = Session.open(b, "s")
    assert other.records() == session.records()
    assert other.get_state()["title"] == session.get_state()["title"]
    for method in ("session/open", "session/getState", "session/fork"):
        error = a.refuse(method, sessionId=text)
        assert error["code"] in (4001, 4010, -32602), error
    session.say("still there")
    other.say("and here")
    assert other.texts()[-2:] == ["still there", "and here"]


@pytest.mark.parametrize("table", ["timeleap_document", "timeleap_log"])
def test_a_row_names_no_file_outside_of_its_session(serve: Serve, url: str, table: str, tmp_path: Path) -> None:
    outside = str(tmp_path / "outside")
    names = ["../../outside", outside, "..", ".", "", ".context.jsonl.idx", "a\\b"]
    a = serve(url)
    for session_id in ("other", *map("s{}".format, range(len(names)))):
        Session.open(a, session_id).say("one")
    with psycopg.connect(url) as connection:
        for number, name in enumerate(names):
            if table == "timeleap_log":
                statement = "INSERT INTO timeleap_log (session, name, length) VALUES (%s, %s, 0)"
            else:
                statement = "INSERT INTO timeleap_document VALUES (%s, %s, 1000, 'x')"
            connection.execute(statement, [f"s{number}", name])
        connection.execute("UPDATE timeleap_session SET version = version + 1 WHERE id LIKE 's_'")
    for server in (a, serve(url)):
        for number, name in enumerate(names):
            error = server.refuse("session/reload" if server is a else "session/open", sessionId=f"s{number}")
            assert error["code"] in (4005, 4014), (name, error)
        Session.open(server, "other").say("two")
    assert list(tmp_path.rglob("*outside*")) == []


def test_ids_that_differ_in_case_only_are_one(serve: Serve, url: str) -> None:
    server = serve(url)
    Session.open(server, "Session").say("one")
    error = server.refuse("session/fork", sessionId="Session", newSessionId="sESSION")
    assert error["code"] == 4016


def test_no_statement_is_built_from_values() -> None:
    folder = Path(database.__file__).parent
    statements = [
        (path.name, ast.unparse(call.args[0]), call.args[0])
        for path in folder.glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and "execute" in call.func.attr
    ] + [
        (path.name, ast.unparse(call), call.args[1])
        for path in folder.glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Statement"
    ]
    assert len(statements) > 22
    assert {path.name for path in folder.glob("*.py") if re.search(r"send_(prepare|query)", path.read_text())} == {
        "servers.py"  # whose statements are those
    }
    built = [
        (name, text)
        for name, text, argument in statements
        if not (
            isinstance(argument, ast.Constant)
            or (isinstance(argument, ast.Name) and (argument.id.isupper() or argument.id == "migration"))
            or text == "sql.SQL('LISTEN {}').format(sql.Identifier(CHANNEL))"
            or (name, text) == ("servers.py", "query")  # passed on by a method that overrides
        )
    ]
    assert not built
