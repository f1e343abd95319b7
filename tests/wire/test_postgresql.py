"""Sessions in a database: several processes on one session, none of which owns it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import holding
from tests.support.machines import Serve
from tests.support.postgresql import Cluster, private_cluster, shared_cluster, stored_rows
from tests.support.server import Launch, Message, Server
from tests.support.session import Session, assistant, user

from timeleap.client import AsyncTimeleap
from timeleap.errors import SessionNotFoundError
from timeleap_postgresql.database import Database
from timeleap_postgresql.store_rows import move, remove
from timeleap_protocol.methods import ANSWERED


def heard(server: Server, kind: str) -> Message:
    """The notification of that kind, when it has come."""
    return server.wait_for(lambda message: message.get("params", {}).get("kind") == kind)


def has_head(head: str, message: Message) -> bool:
    """True of a notification that gives that head."""
    return bool(message.get("params", {}).get("head") == head)


def test_two_processes_write_to_one_session_and_both_own_it(serve: Serve, url: str) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    assert (a.state["access"], b.state["access"]) == ("owner", "owner")
    assert a.state["head"] == b.state["head"]
    a.say("one")
    b.say("two")
    a.say("three")
    b.say("four")
    b.call("context/checkpoint")
    a.say("five")
    assert a.texts() == ["one", "two", "three", "four", "five"]
    b.call("context/revertTo", checkpointId=0)
    a.say("six")
    assert a.texts() == ["one", "two", "three", "four", "six"]
    head = b.append(assistant("seven"))["head"]
    a.call("context/appendMessage", message=user("eight"), expectedHead=head)


def test_a_session_lies_at_the_url_of_the_store_without_user_and_password(serve: Serve) -> None:
    cluster = shared_cluster()
    url = cluster.new_database()
    name = url.rpartition("/")[2]
    server = serve(cluster.url(name, password="hidden"))
    place = f"postgresql://127.0.0.1:{cluster.port}/{name}#s"
    assert Session.open(server, "s").state["path"] == place
    assert [session["path"] for session in server.call("session/list")["sessions"]] == [place]


async def test_two_python_clients_share_a_session_by_the_url_of_the_store(tmp_path: Path, url: str) -> None:
    def client(machine: str) -> AsyncTimeleap:
        return AsyncTimeleap(home=tmp_path / machine, store=url)

    async with client("a") as a, client("b") as b, a.session("s") as ours, b.session("s") as theirs:
        assert (ours.opened.access, theirs.opened.access) == ("owner", "owner")
        await ours.append("from a")
        await theirs.append("from b")
        assert [message["content"] for message in await ours.history()] == ["from a", "from b"]


def test_what_others_change_is_heard_and_seen(serve: Serve, url: str) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    head = a.append(user("one"), requestId="r1")["head"]
    told = heard(b.server, "messagesAppended")["params"]
    assert (told["head"], told["firstIndex"], told["count"]) == (head, 0, 1)
    assert told["cause"] == {"requestId": "r1", "client": "client1"}
    assert b.texts() == ["one"]
    a.call("session/setTitle", title="T", requestId="r2")
    told = heard(b.server, "titleChanged")["params"]
    assert (told["title"], told["cause"]["requestId"]) == ("T", "r2")
    assert b.get_state()["title"] == "T"
    a.checkpoint()
    a.call("context/revertTo", checkpointId=0, requestId="r3")
    told = heard(b.server, "reverted")["params"]
    assert (told["cause"], told["head"]) == ({"requestId": "r3", "client": "client1"}, b.head)


def test_everything_is_heard_once_and_in_one_order(serve: Serve, url: str) -> None:
    sessions = [Session.open(serve(url), "s") for _ in range(3)]
    asked = [
        session.start("context/appendMessage", message=user(f"{number}"), requestId=f"{at}-{number}")
        for number in range(20)
        for at, session in enumerate(sessions)
    ]
    heads = [pending.result()["head"] for pending in asked]
    orders = []
    for session in sessions:
        for head in heads:
            session.server.wait_for(partial(has_head, head))
        told = [
            message["params"] for message in session.server.received if message.get("method") == "context/didChange"
        ]
        assert {each["kind"] for each in told} == {"messagesAppended"}
        orders.append([each["cause"]["requestId"] for each in told])
    assert len(orders[0]) == len(set(orders[0])) == 60
    assert orders[0] == orders[1] == orders[2]
    assert len({tuple(session.texts()) for session in sessions}) == 1


def test_a_read_sees_what_another_process_has_done_before_it_hears_of_it(serve: Serve, url: str) -> None:
    name = url.rpartition("/")[2]
    shared_cluster().execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
    shared_cluster().execute("CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE sql AS ''", name)
    writer, reader = (Session.open(serve(url), "s") for _ in range(2))
    head = writer.head
    for number in range(20):
        head = writer.append(user(f"{number}"))["head"]
        assert reader.texts()[number:] == [f"{number}"]
        assert reader.head == head
        writer, reader = reader, writer
    uid = writer.checkpoint()["uid"]
    assert [each["uid"] for each in reader.call("context/listCheckpoints")["checkpoints"]] == [uid]
    timeline = writer.call("context/revertTo", checkpointId=0)["timelineId"]
    assert [each["timelineId"] for each in reader.timelines()] == [timeline]
    assert reader.refuse("context/appendMessage", message=user("x"), expectedHead=head)["code"] == -32801
    reader.call("context/appendMessage", message=user("x"), expectedHead=writer.head)


def test_many_writers_all_come_through(serve: Serve, url: str) -> None:
    sessions = [Session.open(serve(url), "s") for _ in range(3)]
    asked = [
        session.start("context/appendMessage", message=user(f"{at} {number}"))
        for number in range(100)
        for at, session in enumerate(sessions)
    ]
    indices = [pending.result()["firstIndex"] for pending in asked]
    assert sorted(indices) == list(range(300))
    texts = sessions[0].texts()
    assert [texts[index] for index in indices] == [f"{at} {number}" for number in range(100) for at in range(3)]


def test_an_expected_head_of_before_anothers_change_is_refused(serve: Serve, url: str) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    head = a.state["head"]
    now = a.append(user("one"))["head"]
    error = b.refuse("context/appendMessage", message=user("two"), expectedHead=head)
    assert (error["code"], error["data"]["head"]) == (-32801, now)
    b.call("context/appendMessage", message=user("two"), expectedHead=now)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("context/appendMessage", {"message": user("once")}),
        ("context/checkpoint", {"label": "once"}),
        ("context/revertTo", {"checkpointId": 0}),
        ("session/setTitle", {"title": "once"}),
    ],
)
def test_a_repeat_on_another_machine_is_not_done_twice(
    serve: Serve, url: str, method: str, params: dict[str, Any]
) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    a.checkpoint()
    first = a.call(method, **params, requestId="r")
    again = b.call(method, **params, requestId="r")
    assert again == {**first, "duplicate": True}
    assert (a.head, a.records()) == (b.head, b.records())


def test_undo_of_what_another_machine_did(serve: Serve, url: str) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    a.say("one")
    a.checkpoint()
    a.say("two")
    b.call("context/revertTo", checkpointId=0)
    assert b.texts() == ["one"]
    head = a.call("context/undo")["head"]
    b.server.wait_for(partial(has_head, head))
    assert b.texts() == a.texts() == ["one", "two"]
    assert [each["timelineId"] for each in a.timelines()] == [each["timelineId"] for each in b.timelines()]
    timeline = b.timelines()[-1]["timelineId"]
    assert a.texts(timelineId=timeline) == b.texts(timelineId=timeline)


def test_a_revert_stores_nothing_that_is_stored_already(serve: Serve, url: str) -> None:
    session = Session.open(serve(url), "s")
    session.say("kept " * 10_000)
    session.checkpoint()
    session.say("gone " * 10_000)
    name = url.rpartition("/")[2]

    def stored() -> int:
        return int(str(shared_cluster().execute("SELECT sum(length(body)) FROM timeleap_piece", name)[0][0]))

    before = stored()
    session.call("context/revertTo", checkpointId=0)
    session.call("context/undo")
    session.call("context/redo")
    assert stored() == before
    assert len(session.timelines()) >= 1


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="what a process has written is told on Linux only")
def test_to_take_over_what_another_process_took_back_costs_the_same_at_any_length(serve: Serve, url: str) -> None:
    here, there = serve(url), serve(url)
    written: dict[str, dict[int, int]] = {}
    for length in (1_000, 20_000):
        session = Session.open(here, f"of-{length}")
        for start in range(0, length, 1_000):
            session.append(*(user(f"{number:05} {'x' * 60}") for number in range(start, start + 1_000)))
        session.checkpoint()
        session.append(user("gone"))
        other = session.reopen(there)
        checkpoint = session.get_state()["context"]["nCheckpoints"] - 1
        for name, (method, params) in {
            "revert": ("context/revertTo", {"checkpointId": checkpoint}),
            "undo": ("context/undo", {}),
            "revert again": ("context/revertTo", {"checkpointId": checkpoint}),
        }.items():
            before = bytes_written(there)
            session.call(method, **params)
            assert other.head == session.head
            written.setdefault(name, {})[length] = bytes_written(there) - before
        assert other.texts() == [f"{number:05} {'x' * 60}" for number in range(length)]
        other.say("on")
        assert session.texts()[-2:] == [f"{length - 1:05} {'x' * 60}", "on"]
        assert other.records() == session.records()
        assert other.call("session/verify")["ok"] and session.call("session/verify")["ok"]
    for name, by_length in written.items():
        assert by_length[20_000] - by_length[1_000] < 64 << 10, (name, by_length)


def bytes_written(server: Server) -> int:
    """All that a process has given to the system to write, to files, clients and the database."""
    (counted,) = re.findall(r"^wchar: (\d+)$", Path(f"/proc/{server.process.pid}/io").read_text(), re.MULTILINE)
    return int(counted)


def test_what_was_acknowledged_outlives_the_process(serve: Serve, url: str) -> None:
    first = serve(url)
    session = Session.open(first, "s", title="T")
    session.say("one", "two")
    session.checkpoint(label="c")
    first.kill()
    other = serve(url)
    listed = other.call("session/list")["sessions"]
    assert [(each["sessionId"], each["title"], each["messageCount"]) for each in listed] == [("s", "T", 2)]
    again = Session.open(other, "s")
    assert again.texts() == ["one", "two"]
    assert again.call("session/verify")["ok"] is True


def test_a_fork_and_its_origin(serve: Serve, url: str) -> None:
    a, b = serve(url), serve(url)
    Session.open(a, "s").say("one")
    fork = Session(b, b.call("session/fork", sessionId="s", newSessionId="f"))
    fork.say("two")
    assert Session.open(a, "f").texts() == ["one", "two"]
    assert a.refuse("session/fork", sessionId="s", newSessionId="F")["code"] == 4016
    assert a.refuse("session/open", sessionId="../f")["code"] == 4010
    assert a.refuse("session/open", sessionId="none", create=False)["code"] == 4001


@pytest.mark.parametrize(("method", "params"), [("session/open", {"title": "T"}), ("session/fork", {"sessionId": "s"})])
def test_a_session_is_made_once_by_a_request_that_two_machines_get(
    serve: Serve, url: str, method: str, params: dict[str, Any]
) -> None:
    a, b = serve(url), serve(url)
    Session.open(a, "s").say("one")
    made = a.call(method, **params, requestId="r")
    again = b.call(method, **params, requestId="r")
    assert (again["sessionId"], again["duplicate"]) == (made["sessionId"], True)
    assert len(b.call("session/list")["sessions"]) == 2
    assert b.call(method, **params)["sessionId"] != made["sessionId"]


def test_a_session_that_is_not_open_is_found(serve: Serve, url: str) -> None:
    a, b = serve(url), serve(url)
    Session.open(a, "s").say("one")
    assert b.call("session/getState", sessionId="s")["context"]["messageCount"] == 1
    assert b.refuse("context/getHistory", sessionId="s")["code"] == 4013
    assert b.refuse("context/getHistory", sessionId="t")["code"] == 4001


def test_methods_that_the_store_does_not_do_say_so(serve: Serve, url: str) -> None:
    session = Session.open(serve(url), "s")
    for method, why in (("files/list", "on the disk of one machine"), ("files/snapshot", "on the disk of one machine")):
        error = session.refuse(method)
        assert why in error["message"]
        data = {"kind": "notSupportedByStore", "retryable": False, "method": method}
        assert (error["code"], error["data"]) == (4028, data)
    session.say("still there")


def test_the_methods_that_the_store_does_not_do_are_announced(tmp_path: Path, url: str) -> None:
    for store, kind in ((url, "postgresql"), (str(tmp_path / "d"), "directory")):
        server = Server(Launch(tmp_path / kind / "home", "lsp", args=["--store", store]))
        try:
            told = server.initialize(clientInfo={"name": "c"})["capabilities"]["experimental"]["timeleap"]["store"]
        finally:
            server.dispose()
        refused = sorted(row.name for row in ANSWERED.values() if row.needs_directory) if kind == "postgresql" else []
        reasons = told.pop("reasons", {})
        assert told == {"kind": kind, "unsupported": refused}
        assert sorted(reasons) == refused
        assert all(ANSWERED[name].needs_directory == reason for name, reason in reasons.items())
        assert {name.partition("/")[0] for name in refused} <= {"files", "bridge"}


# What goes wrong


@pytest.mark.long
def test_while_the_database_is_away_requests_say_so_and_then_go_on(serve: Serve) -> None:
    with private_cluster() as cluster:
        url = cluster.new_database()
        a, b = (Session.open(serve(url), "s") for _ in range(2))
        a.say("one")
        cluster.stop()
        for method, params in (
            ("context/appendMessage", {"message": user("lost")}),
            ("session/setTitle", {"title": "lost"}),
            ("context/checkpoint", {}),
        ):
            error = a.refuse(method, **params)
            assert (error["code"], error["data"]["retryable"]) == (4005, True)
            assert error["data"]["reason"] in ("lost", "unreachable")
            assert error["data"]["store"] == url.replace("timeleap@", "")
        cluster.start()
        a.say("two")
        assert a.get_state()["title"] is None
        b.say("three")
        assert b.texts() == ["one", "two", "three"]


def test_a_server_starts_without_its_database(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = serve(f"postgresql://timeleap:hidden@127.0.0.1:{port}/none")
    error = server.refuse("session/open", sessionId="s")
    assert (error["code"], error["data"]["reason"], error["data"]["retryable"]) == (4005, "unreachable", True)
    assert "hidden" not in json.dumps(error)
    assert server.refuse("session/list")["data"]["reason"] == "unreachable"


def test_wrong_roles_and_schemas_are_named(serve: Serve, url: str) -> None:
    cluster, name = shared_cluster(), url.rpartition("/")[2]

    def reason(store: str) -> tuple[str, bool]:
        error = serve(store).refuse("session/open", sessionId="s")
        assert error["code"] == 4005
        return error["data"]["reason"], error["data"]["retryable"]

    assert reason(cluster.url(name, user="nobody")) == ("authentication", False)
    cluster.execute(f"CREATE ROLE guest{name} LOGIN")
    assert reason(cluster.url(name, user=f"guest{name}")) == ("rights", False)
    Session.open(serve(url), "s").say("one")
    assert reason(cluster.url(name, user=f"guest{name}")) == ("rights", False)
    cluster.execute(f"ALTER ROLE guest{name} SET default_transaction_read_only = on")
    assert reason(cluster.url(name, user=f"guest{name}")) == ("readOnly", False)
    cluster.execute("UPDATE timeleap_schema SET version = version + 1", name)
    assert reason(url) == ("newerSchema", False)


def test_a_running_server_leaves_a_store_alone_that_a_newer_release_has_changed(serve: Serve, url: str) -> None:
    name = url.rpartition("/")[2]
    session, other = Session.open(serve(url), "s"), serve(url)
    session.say("one")
    Session.open(other, "deleted").call("session/close")
    shared_cluster().execute("UPDATE timeleap_schema SET version = version + 1", name)
    for server, method, params in (
        (session.server, "context/appendMessage", {"sessionId": "s", "message": user("lost")}),
        (session.server, "context/checkpoint", {"sessionId": "s"}),
        (session.server, "context/getHistory", {"sessionId": "s"}),
        (session.server, "session/setTitle", {"sessionId": "s", "title": "lost"}),
        (other, "session/open", {"sessionId": "s"}),
        (other, "session/open", {"sessionId": "new"}),
        (other, "session/fork", {"sessionId": "s"}),
        (other, "session/delete", {"sessionId": "deleted"}),
        (other, "session/list", {}),
    ):
        error = server.refuse(method, **params)
        assert (error["code"], error["data"].get("reason")) == (4005, "newerSchema"), method
    shared_cluster().execute("UPDATE timeleap_schema SET version = version - 1", name)
    session.say("two")
    assert session.texts() == ["one", "two"]
    assert session.get_state()["title"] is None
    assert {each["sessionId"] for each in other.call("session/list")["sessions"]} == {"s", "deleted"}


def test_a_session_that_is_not_open_is_looked_for_without_holding_up_others(serve: Serve, url: str) -> None:
    server = serve(url)
    Session.open(server, "s").call("session/close")
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE timeleap_session")
        slow = server.start("context/getHistory", sessionId="s")
        server.call("rpc.discover")
        holder.rollback()
    assert slow.error()["code"] == 4013


def test_a_fork_of_a_given_id_is_made_once_by_a_request_that_two_machines_get(serve: Serve, url: str) -> None:
    a, b = serve(url), serve(url)
    Session.open(a, "s").say("one")
    made = a.call("session/fork", sessionId="s", newSessionId="f", requestId="r")
    again = b.call("session/fork", sessionId="s", newSessionId="f", requestId="r")
    assert again == {**made, "duplicate": True}
    assert b.refuse("session/fork", sessionId="s", newSessionId="f", requestId="other")["code"] == 4016
    assert b.refuse("session/fork", sessionId="s", newSessionId="f")["code"] == 4016
    assert {each["sessionId"] for each in b.call("session/list")["sessions"]} == {"s", "f"}


@pytest.mark.parametrize(
    ("method", "params"),
    [("context/appendMessage", {"message": user("once")}), ("session/setTitle", {"title": "once"})],
)
@pytest.mark.parametrize(
    ("options", "reason"), [("lock_timeout%3D200", "busy"), ("statement_timeout%3D500", "timeout")]
)
def test_a_change_that_waits_too_long_says_so(
    serve: Serve, url: str, method: str, params: dict[str, Any], options: str, reason: str
) -> None:
    session = Session.open(serve(f"{url}?options=-c%20{options}"), "s")
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM timeleap_session FOR UPDATE")
        error = session.refuse(method, **params, requestId="r")
        assert (error["code"], error["data"]["reason"], error["data"]["retryable"]) == (4005, reason, True)
    assert "duplicate" not in session.call(method, **params, requestId="r")
    session.say("after")


class CuttingProxy:
    """Passes bytes on to a database until a connection sends what commits: that is passed on, its answer is not.

    Args:
        told: What must have been sent before: else a connection may be cut that happens to commit something else.
    """

    def __init__(self, cluster: Cluster, told: bytes = b"") -> None:
        self._target, self._told = ("127.0.0.1", cluster.port), told
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            silent = threading.Event()
            asking = threading.Thread(target=self._pump, args=(client, server, silent, True), daemon=True)
            asking.start()
            self._pump(server, client, silent, False)
            asking.join()

    def _pump(self, source: socket.socket, sink: socket.socket, silent: threading.Event, asks: bool) -> None:
        begun = False
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self._told in data:
                    self._told = b""
                begun = begun or b"BEGIN" in data
                commits = b"COMMIT" if begun else b'"version":'
                begun = begun and b"COMMIT" not in data and b"ROLLBACK" not in data
                if asks and self.cuts and not self._told and commits in data:
                    self.cuts -= 1
                    silent.set()
                if not asks and silent.is_set():
                    break  # the database has answered: it is done
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("method", "params"),
    [("context/appendMessage", {"message": user("once")}), ("session/setTitle", {"title": "once"})],
)
def test_a_commit_whose_answer_is_lost_is_looked_up(
    serve: Serve, url: str, method: str, params: dict[str, Any]
) -> None:
    cluster = shared_cluster()
    proxy = CuttingProxy(cluster, b"once")
    try:
        session = Session.open(serve(url.replace(str(cluster.port), str(proxy.port))), "s")
        session.say("before")
        proxy.cuts = 1
        head = session.call(method, **params)["head"]
        assert proxy.cuts == 0
        other = Session.open(serve(url), "s")
        assert other.state["head"] == head
        assert other.texts().count("once") == (method == "context/appendMessage")
        session.say("after")
    finally:
        proxy.close()


def test_a_move_to_the_trash_whose_answer_is_lost_is_looked_up(serve: Serve, url: str) -> None:
    cluster = shared_cluster()
    server = serve(url)
    Session.open(server, "s").say("kept")
    server.call("session/close", sessionId="s")
    proxy = CuttingProxy(cluster)
    database = Database(url.replace(str(cluster.port), str(proxy.port)))
    try:
        for before, after in (("s", "s~1"), ("s~1", "s")):
            with database.connection():
                proxy.cuts = 1
            move(database, before, after, b"{}")
            assert proxy.cuts == 0
            with pytest.raises(SessionNotFoundError):
                move(database, before, after, b"{}")
        assert Session.open(server, "s").texts() == ["kept"]
    finally:
        database.close()
        proxy.close()


def test_a_removal_for_good_whose_answer_is_lost_is_done_once(serve: Serve, url: str) -> None:
    cluster, server = shared_cluster(), serve(url)
    Session.open(server, "s").say("gone")
    server.call("session/close", sessionId="s")
    proxy = CuttingProxy(cluster)
    database = Database(url.replace(str(cluster.port), str(proxy.port)))
    try:
        move(database, "s", "s~1", b"{}")
        proxy.cuts = 1
        assert remove(database, ["s~1", "s~2"]) == {"s~1"}
        assert proxy.cuts == 0
        assert remove(database, ["s~1"]) == set()
    finally:
        database.close()
        proxy.close()


@pytest.mark.long
def test_a_commit_of_which_nobody_knows_is_said_to_be_unknown(serve: Serve) -> None:
    with private_cluster() as cluster:
        url = cluster.new_database()
        proxy = CuttingProxy(cluster, b"once")
        session = Session.open(serve(url.replace(str(cluster.port), str(proxy.port))), "s")
        proxy.cuts = 1 << 30
        asked = session.start("context/appendMessage", message=user("once"), requestId="r")
        holding.wait_until(lambda: proxy.cuts < 1 << 30)
        proxy.close()
        error = asked.error()
        assert (error["code"], error["data"]["outcome"], error["data"]["reason"]) == (4005, "unknown", "lost")
        other = Session.open(serve(url), "s")
        assert other.call("context/appendMessage", message=user("once"), requestId="r")["duplicate"] is True
        assert other.texts() == ["once"]


# Whole stores


def run(*words: str, code: int = 0) -> Any:
    """What a command answers to machines."""
    done = subprocess.run(
        [sys.executable, "-m", "timeleap", "--json", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done
    return json.loads((done.stdout if code == 0 else done.stderr).splitlines()[-1])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hidden@db/x", "postgresql://me:***@db/x"),
        ("postgresql://me:hid:den@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("postgresql://me@db/x?password=hidden&sslmode=require", "postgresql://me@db/x?password=***&sslmode=require"),
        ("postgresql://db/x", "postgresql://db/x"),
    ],
)
def test_no_password_is_shown_with_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, shown: str
) -> None:
    monkeypatch.setenv("TIMELEAP_STORE", url)
    assert run("--home", str(tmp_path), "config", "show")["store"]["value"] == shown
    assert run("--home", str(tmp_path), "config", "set", "store", url) == {"store": shown}
    assert url in (tmp_path / "config.toml").read_text()


def test_the_database_of_a_test_that_has_ended_is_as_a_new_one_or_is_not_used_again(serve: Serve) -> None:
    cluster = shared_cluster()
    url = cluster.store()
    server = serve(url)
    session = Session.open(server, "s")
    session.append(user("kept"), requestId="r")
    session.call("context/clear")
    session.call("session/setYolo", yolo=True)
    Session.open(server, "t").call("session/delete", requestId="d")
    assert b"kept" in stored_rows(url)
    server.kill()
    cluster.give_back(url)
    assert cluster.store() == url
    columns = 9
    assert len(stored_rows(url).split(b"\n")) == columns + 1, "the row of the store itself, and the version"
    server = serve(url)
    assert [server.call(f"session/{name}")["sessions"] for name in ("list", "listTrash")] == [[], []]
    assert "duplicate" not in Session.open(server, "s").append(user("another"), requestId="r")
    server.kill()
    cluster.execute("CREATE FUNCTION more() RETURNS void LANGUAGE sql AS ''", url.rpartition("/")[2])
    cluster.give_back(url)
    assert cluster.store() != url


@pytest.mark.no_tables
def test_init_and_check(url: str) -> None:
    assert run("store", "check", url, code=1)["error"]["data"]["reason"] == "rights"
    assert run("store", "init", url)["before"] == 0
    assert run("store", "init", url)["before"] == run("store", "check", url)["version"]


def test_a_copy_there_and_back_has_the_same_bytes(serve: Serve, url: str, tmp_path: Path) -> None:
    home = tmp_path / "from" / "home"
    session = Session.open(serve(str(home)), "s", title="T", systemPrompt="p")
    session.say("one")
    session.checkpoint()
    session.append(user("two"), assistant("three"), requestId="r")
    session.call("context/revertTo", checkpointId=0)
    session.say("four")
    session.call("session/setYolo", yolo=True)
    head, records = session.head, session.records()
    session.call("session/close")
    assert run("store", "copy", str(home), url)["sessions"] == ["s"]
    assert run("store", "copy", str(home), url, code=1)["error"]["code"] == 4016
    inside = Session.open(serve(url), "s")
    assert (inside.head, inside.state["title"], inside.state["approval"]["yolo"]) == (head, "T", False)
    assert inside.append(user("two"), assistant("three"), requestId="r")["duplicate"] is True
    inside.call("context/undo")
    inside.call("context/redo")
    run("store", "copy", url, str(tmp_path / "to"))
    back = tmp_path / "to" / "sessions" / "s"
    before = home / "sessions" / "s"
    for name in ("context.jsonl", "context_1.jsonl"):
        assert (back / name).read_bytes() == (before / name).read_bytes()
    again = Session.open(serve((tmp_path / "to").as_uri()), "s")
    assert again.records() == records
    assert run("store", "check", url)["damaged"] == []


def test_check_finds_a_log_that_lacks_bytes(serve: Serve, url: str) -> None:
    Session.open(serve(url), "s").say("one")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE timeleap_piece SET body = substr(body, 2)")
    assert run("store", "check", url, code=1)["error"]["code"] == 4014


def test_working_copies_of_a_killed_process_are_swept(serve: Serve, url: str, tmp_path: Path) -> None:
    home = tmp_path / "one" / "home"
    servers = []
    for _ in range(2):
        server = Server(Launch(home, "lsp", args=["--store", url]))
        servers.append(server)
        server.initialize(clientInfo={"name": "c"})
        Session.open(server, "s").say("one")
        copies = [path.name for path in (home / "copies").iterdir() if path.is_dir()]
        assert len(copies) == 1
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    for server in servers:
        server.dispose()
    shutil.rmtree(home)
