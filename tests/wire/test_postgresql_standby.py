"""While no primary answers, what is asked to be read may be answered by a standby, if the URL says so: it is marked, and
never less than this process has answered before."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.holding import wait_until
from tests.support.machines import Serve
from tests.support.postgresql import Cluster, replicated_cluster
from tests.support.server import Launch, Message, Server
from tests.support.session import Session, assistant, user

from timeleap.errors import InvalidInputError
from timeleap_postgresql.database import Database
from timeleap_protocol.methods import ANSWERED

pytestmark = pytest.mark.long

SOON = "?connect_timeout=2"
READ = f"{SOON}&timeleap_read=standby"
EXPORTED = "exported.md"
READS: dict[str, dict[str, Any]] = {
    "session/open": {"access": "readOnly"},
    "session/list": {},
    "session/latest": {},
    "session/getState": {},
    "session/listTrash": {},
    "session/listAudit": {},
    "session/verify": {},
    "session/search": {"query": "one"},
    "session/storage": {},
    "session/export": {"format": "markdown", "path": EXPORTED, "overwrite": True},
    "context/listUsage": {},
    "context/listCheckpoints": {},
    "context/getHistory": {},
    "context/getRecords": {},
    "context/listTimelines": {},
    "context/prepareCompaction": {},
    "context/search": {"query": "one"},
    "context/diff": {"from": {"timelineId": "context_1"}, "to": {}},
    "context/at": {"index": 0},
}
OF_THE_STORE = {"session/list", "session/latest", "session/listTrash", "session/search"}


@pytest.fixture
def cluster() -> Iterator[tuple[Cluster, Cluster]]:
    with replicated_cluster() as servers:
        yield servers


@pytest.fixture
def url(cluster: tuple[Cluster, Cluster]) -> str:
    primary, standby = cluster
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://timeleap@{hosts}/{primary.new_database().rpartition('/')[2]}"


def filled(server: Server, name: str) -> Session:
    """A session with a checkpoint and a timeline."""
    session = Session.open(server, name)
    session.append(user("one"), assistant("two"))
    session.checkpoint()
    session.say("three")
    session.call("context/updateTokenCount", tokenCount=7)
    session.call("context/revertTo", checkpointId=0)
    session.checkpoint()
    return session


def read(server: Server, name: str, method: str, folder: Path) -> Message:
    """Ask one of `READS`, of a session that is open."""
    params = dict(READS[method])
    if "path" in params:
        params["path"] = str(folder / EXPORTED)
    return dict(server.call(method, **({} if method in OF_THE_STORE else {"sessionId": name}), **params))


def replayed(primary: Cluster, standby: Cluster) -> None:
    """Wait until the standby shows what the primary has."""
    last = primary.query("SELECT pg_current_wal_lsn()")
    wait_until(lambda: standby.query(f"SELECT pg_last_wal_replay_lsn() >= '{last}'::pg_lsn") == "t")


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_reads_are_answered_by_a_standby_and_marked_until_it_is_promoted(
    serve: Serve, cluster: tuple[Cluster, Cluster], url: str, tmp_path: Path, how: signal.Signals
) -> None:
    primary, standby = cluster
    assert set(READS) == {name for name, row in ANSWERED.items() if row.stale}
    plain, reader = serve(url + SOON), serve(url + READ)
    filled(plain, "unopened")
    filled(plain, "s")
    session = Session.open(reader, "s")
    assert session.state["path"] == f"{url.replace('timeleap@', '')}#s"
    for method in READS.keys() - {"session/open"}:
        assert "stale" not in read(reader, "s", method, tmp_path), method
    replayed(primary, standby)
    primary.signal(how)
    error = plain.refuse("context/getHistory", sessionId="s")
    assert (error["code"], error["data"]["retryable"]) == (4005, True)
    # A session that was not open here.
    found = reader.call("session/open", sessionId="unopened", access="readOnly", create=False)
    assert (found["stale"], found["access"]) == (True, "readOnly")
    for method in READS.keys() - {"session/open"} if how == signal.SIGKILL else {"context/getHistory", "session/list"}:
        assert read(reader, "s", method, tmp_path)["stale"] is True, method
        assert read(reader, "unopened", method, tmp_path)["stale"] is True, method
    assert session.texts() == ["one", "two"]
    changes: list[tuple[str, dict[str, Any]]] = [
        ("context/appendMessage", {"message": user("four")}),
        ("context/undo", {}),
        ("context/appendMessage", {"message": user("one"), "requestId": "r"}),
        ("session/isApproved", {"action": "a"}),
        ("session/setTitle", {"title": "T"}),
    ]
    # Each waits for a server that hangs until it is given up; one that is gone says so at once.
    for method, params in changes if how == signal.SIGKILL else changes[:2]:
        error = session.refuse(method, **params)
        assert (error["code"], error["data"]["retryable"]) == (4005, True), method
        assert error["data"]["reason"] in ("unreachable", "lost"), method
    standby.promote()
    session.append(user("four"), requestId="again")
    wait_until(lambda: "stale" not in reader.call("session/list"))
    for method in READS.keys() - {"session/open"}:
        assert "stale" not in read(reader, "s", method, tmp_path), method
    assert session.texts() == ["one", "two", "four"]
    if how == signal.SIGSTOP:
        primary.signal(signal.SIGKILL)  # woken up to be stopped, it would first serve all who have tried to connect


def test_a_standby_that_is_behind_does_not_unsay_what_was_answered(
    serve: Serve, cluster: tuple[Cluster, Cluster], url: str
) -> None:
    primary, standby = cluster
    server, other = serve(url + READ), serve(url)
    session = filled(server, "s")
    for name in ("gone", "back"):
        Session.open(server, name).call("session/close")
    server.call("session/delete", sessionId="back")
    replayed(primary, standby)
    standby.query("SELECT pg_wal_replay_pause()")
    wait_until(lambda: standby.query("SELECT pg_get_wal_replay_pause_state()") == "paused")
    session.say("three")
    server.call("session/delete", sessionId="gone")
    server.call("session/undelete", sessionId="back")
    Session.open(server, "made").say("one")
    server.call("session/close", sessionId="made")
    Session.open(other, "elsewhere")
    primary.signal(signal.SIGKILL)
    history = session.call("context/getHistory")
    assert history["stale"] is True
    assert [message["message"]["content"] for message in history["messages"]] == ["one", "two", "three"]
    listed = server.call("session/list")
    assert listed["stale"] is True
    assert {s["sessionId"]: s["messageCount"] for s in listed["sessions"]} == {"s": 3, "made": 1, "back": 0}
    trash = server.call("session/listTrash")
    assert trash["stale"] is True
    assert [s["sessionId"] for s in trash["sessions"]] == ["gone"]
    made = Session.open(server, "made", access="readOnly", create=False)
    assert made.state["stale"] is True
    assert made.texts() == ["one"]
    # Nobody here knows whether there is such a session, and that there is none would be said without a mark.
    for name in ("elsewhere", "nobody"):
        error = server.refuse("session/open", sessionId=name, access="readOnly", create=False)
        # As the first read found it, which may have been on its way to the primary.
        assert (error["code"], error["data"]["reason"]) in ((4005, "unreachable"), (4005, "lost"))
        assert server.refuse("session/storage", sessionId=name)["code"] == 4005
    standby.promote()
    session.say("four")
    assert session.texts() == ["one", "two", "three", "four"]
    assert "elsewhere" in {s["sessionId"] for s in server.call("session/list")["sessions"]}


def test_a_store_on_a_standby_alone_can_be_read(serve: Serve, cluster: tuple[Cluster, Cluster], url: str) -> None:
    primary, standby = cluster
    filled(serve(url), "s")
    replayed(primary, standby)
    reader = serve(standby.url(url.rpartition("/")[2]) + READ)
    assert reader.call("session/open", sessionId="s", access="readOnly")["stale"] is True
    assert reader.refuse("session/open", sessionId="s2")["data"]["reason"] == "readOnly"


def test_a_command_says_that_its_answer_may_lack_the_newest_changes(
    serve: Serve, cluster: tuple[Cluster, Cluster], url: str, tmp_path: Path
) -> None:
    primary, standby = cluster
    filled(serve(url), "s")
    replayed(primary, standby)
    cli = Cli(tmp_path / "home", {"TIMELEAP_STORE": url + READ})
    said = "No primary of the store answers: this is what a standby has, and it may lack the newest changes."
    reads = (["sessions"], ["log", "s"], ["show", "s"], ["state", "s"], ["search", "s", "one"], ["at", "s", "0"])
    for command in reads:
        assert cli.run(*command).err == "", command
    before = cli.json("state", "s")
    primary.signal(signal.SIGKILL)
    for command in reads:  # several requests each, of which it is said once
        ran = cli.run(*command)
        assert (ran.out != "", ran.err.count(said)) == (True, 1), command
    ran = cli.run("sessions", "--json")
    assert [session["sessionId"] for session in ran.lines()] == ["s"]
    assert json.loads(ran.err) == {"notice": {"stale": True, "message": said}}
    assert (before.get("stale"), cli.json("state", "s")["stale"]) == (None, True)
    standby.promote()
    cli.run("append", "s", "--role", "user", "four")
    assert cli.run("sessions").err == ""


@pytest.mark.parametrize(
    "value", ["primary", "", "Standby", "standby%00", "no&timeleap_read=standby", "standby&timeleap_read="]
)
def test_another_value_of_the_parameter_is_refused_and_says_what_is_allowed(tmp_path: Path, value: str) -> None:
    store = f"postgresql://somebody:secret@nowhere.invalid/db?timeleap_read={value}"
    server = Server(Launch(tmp_path / "home", "lsp", args=["--store", store]))
    server.initialize()
    error = server.refuse("session/list")
    assert error["code"] == -32602
    assert "timeleap_read of the URL can only be standby" in error["message"]
    assert "secret" not in str(error)
    server.dispose()


def test_the_parameter_is_taken_off_the_url_and_the_store_stays_the_same() -> None:
    plain = Database("postgresql://u:p?w@a,b:5433/db?application_name=x&connect_timeout=7")
    for text in (
        "postgresql://u:p?w@a,b:5433/db?timeleap_read=standby&application_name=x&connect_timeout=7",
        "postgresql://u:p?w@a,b:5433/db?application_name=x&connect_timeout=7&timeleap_read=standby",
        "postgresql://u:p?w@a,b:5433/db?application_name=x&%74imeleap_read=st%61ndby&connect_timeout=7",
    ):
        database = Database(text)
        assert database.reads_standby
        assert (database.label, database._options) == (plain.label, plain._options)
    assert not plain.reads_standby
    assert Database("postgresql://a/db?timeleap_read=standby")._options == Database("postgresql://a/db")._options
    with pytest.raises(InvalidInputError, match="not a PostgreSQL URL"):
        Database("postgresql://a/db?timeleap_reads=standby")
