"""Approvals of a session in a database: asked on one machine, decided on another; one key for all machines."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from tests.support.approvals import REQUESTED, RESOLVED, WANTED, ask, asked, decide, pending, resolved, told
from tests.support.postgresql import replicated_cluster
from tests.support.scene import settle, until
from tests.support.server import PATIENCE, Launch, Message, Server
from tests.support.session import Session
from tests.wire.test_failover import take_over, url_of

from timeleap_postgresql.migrations import MIGRATIONS

Machine = Callable[..., Session]
SECRET = "hunter2-hunter2"


@pytest.fixture
def machine(tmp_path: Path, url: str) -> Any:
    """Opens the session `s` in a server as if on a machine of its own, with the key that all of them have."""
    servers: list[Server] = []

    def start(name: str, *, key: Path | str | None = tmp_path / "all.key", store: str = url) -> Session:
        env = {"TIMELEAP_KEY_FILE": "" if key is None else str(key)}
        launch = Launch(tmp_path / f"machine{len(servers)}" / "home", "lsp", args=["--store", store], env=env)
        server = Server(launch)
        servers.append(server)
        server.initialize(clientInfo={"name": name}, capabilities=WANTED)
        return Session.open(server, "s")

    yield start
    for server in servers:
        server.dispose()


def execute(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement in the database, as somebody who goes around the server."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, list(values))
        return cursor.fetchall() if cursor.description else []


def questions(url: str) -> int:
    """Rows of approvals that were asked."""
    return int(execute(url, "SELECT count(*) FROM timeleap_approval WHERE name LIKE 'a%%'")[0][0])


def approval(session: Session) -> Message:
    """The approvals in force."""
    return dict(session.get_state()["approval"])


# Asking and deciding


@pytest.mark.parametrize("with_id", [True, False])
def test_asked_on_one_machine_and_decided_on_another(machine: Machine, url: str, with_id: bool) -> None:
    a, b, c = machine("a"), machine("b"), machine("c")
    head, params = a.head, {"requestId": "r"} if with_id else {}
    request = ask(a, description="rm -r build", detail={"n": 1.5, "ü": [None]}, toolCallId="t", **params)
    shown = asked(b)
    assert (shown["action"], shown["description"], shown["client"]) == ("run command", "rm -r build", "a")
    assert pending(a) == pending(b) == pending(c) == [shown]
    assert decide(b, shown["approvalId"], "reject", reason="no") == {}
    answer = request.result()
    assert (answer["decision"], answer["reason"], answer["decidedBy"]["client"]) == ("reject", "no", "b")
    for window in (a, b, c):
        resolved(window, shown["approvalId"])
        (requested,), (end,) = told(window, REQUESTED), told(window, RESOLVED)
        assert requested["approval"] == shown
        assert (end["decision"], end["reason"], end["cause"]) == ("reject", "no", {"client": "b"})
        assert pending(window) == []
    assert a.head == head
    assert c.refuse("approval/respond", approvalId=shown["approvalId"], decision="approve")["code"] == 4026
    entries = c.call("session/listAudit")["entries"]
    assert [(entry["client"], entry["to"]) for entry in entries] == [("b", "reject"), ("a", "pending")]
    until(lambda: questions(url) == 0)
    if with_id:
        again = ask(c, description="rm -r build", detail={"n": 1.5, "ü": [None]}, toolCallId="t", **params).result()
        assert again == {**answer, "duplicate": True}


def test_one_of_many_decisions_counts(machine: Machine) -> None:
    windows = [machine(name) for name in "abcd"]
    for _ in range(5):
        since = [len(window.server.received) for window in windows]
        request = ask(windows[0])
        approval_id = asked(windows[0], since[0])["approvalId"]
        for window, count in zip(windows, since, strict=True):
            asked(window, count)
        decisions = ["approve", "reject", "reject", "approve"]
        tries = [
            window.start("approval/respond", approvalId=approval_id, decision=decision)
            for window, decision in zip(windows, decisions, strict=True)
        ]
        won = [at for at, attempt in enumerate(tries) if "error" not in attempt.reply()]
        assert len(won) == 1
        assert request.result()["decision"] == decisions[won[0]]
        for window, count in zip(windows, since, strict=True):
            resolved(window, approval_id, count)
            assert [end["decision"] for end in told(window, RESOLVED, count)] == [decisions[won[0]]]


def test_the_same_request_on_two_machines_is_one_question(machine: Machine, url: str) -> None:
    a, b, c = machine("a"), machine("b"), machine("c")
    first = ask(a, requestId="r")
    shown = asked(c)
    second = ask(b, requestId="r")
    until(lambda: len(execute(url, "SELECT 1 FROM timeleap_change WHERE session = 's'")) >= 3)
    a.server.kill()
    assert pending(c) == [shown]
    decide(c, shown["approvalId"])
    assert second.result()["decision"] == "approve"
    assert len(told(c, REQUESTED)) == 1
    del first


def test_time_over_and_taken_back(machine: Machine, url: str) -> None:
    a, b = machine("a"), machine("b")
    late = ask(a, timeout=0.2)
    first = asked(b)["approvalId"]
    assert late.error()["code"] == 4027
    assert resolved(b, first)["decision"] == "timedOut"
    since = len(b.server.received)
    request = ask(a)
    second = asked(b, since)["approvalId"]
    a.server.notify("$/cancelRequest", id=request.id)
    assert request.error()["code"] == -32800
    assert resolved(b, second)["decision"] == "cancelled"
    assert b.refuse("approval/respond", approvalId=second, decision="approve")["code"] == 4026
    assert pending(a) == pending(b) == []
    assert questions(url) == 0


@pytest.mark.long
def test_what_a_killed_process_asked_is_cancelled_and_never_approved(machine: Machine, url: str) -> None:
    a, b, c = machine("a"), machine("b"), machine("c")
    ask(a, requestId="r")
    approval_id = asked(b)["approvalId"]
    a.server.kill()
    for window in (b, c):
        assert resolved(window, approval_id)["decision"] == "cancelled"
        assert len(told(window, RESOLVED)) == 1
        assert window.refuse("approval/respond", approvalId=approval_id, decision="approve")["code"] == 4026
    assert questions(url) == 0
    assert [entry["to"] for entry in b.call("session/listAudit")["entries"]] == ["cancelled", "pending"]
    again = ask(c, requestId="r")
    until(lambda: len(told(b, REQUESTED)) == 2)
    decide(b, approval_id)
    assert again.result()["decision"] == "approve"


def test_a_session_that_is_deleted_elsewhere_ends_what_is_asked(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    request = ask(a)
    asked(b)
    b.call("session/delete")
    assert request.error()["code"] in (-32800, 4001, 4013)


# What is approved without asking


def test_yolo_afk_and_actions_count_on_every_machine(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    waiting = ask(a)
    approval_id = asked(b)["approvalId"]
    done = b.call("session/setYolo", yolo=True, requestId="y")
    assert (done["approval"]["yolo"], done["approval"]["sealed"]) == (True, True)
    assert waiting.result()["automatic"] is True
    assert resolved(a, approval_id)["decision"] == "approve"
    assert a.call("session/setYolo", yolo=True, requestId="y")["duplicate"] is True
    assert approval(a) == approval(b) == done["approval"]
    assert ask(a).result()["automatic"] is True
    a.call("session/setYolo", yolo=False)
    a.call("session/setAfk", afk=True)
    assert ask(b).result()["reason"] == "afk"
    b.call("session/setAfk", afk=False)
    b.call("session/setAutoApprove", action="read", enabled=True)
    assert a.call("session/isApproved", action="read") == {"approved": True, "reason": "autoApprove"}
    since = len(b.server.received)
    other = ask(a, action="write")
    decide(b, asked(b, since)["approvalId"], "approveForSession")
    assert other.result()["decision"] == "approveForSession"
    assert approval(machine("late"))["autoApproveActions"] == ["read", "write"]


@pytest.mark.parametrize("key", [None, "missing", "another"])
def test_without_the_stores_key_approvals_are_off(machine: Machine, tmp_path: Path, key: str | None) -> None:
    a = machine("a")
    a.call("session/setYolo", yolo=True)
    path = None if key is None else tmp_path / key
    if key == "another":
        (tmp_path / key).write_text("f" * 64)
    b = machine("b", key=path)
    assert approval(b)["yolo"] is False
    (warning,) = b.get_state()["warnings"]
    assert warning["kind"] == "approvalSealBroken"
    assert "TIMELEAP_KEY_FILE" in warning["message"]
    for method, params in (
        ("session/setYolo", {"yolo": True}),
        ("session/setAfk", {"afk": True}),
        ("session/setAutoApprove", {"action": "x", "enabled": True}),
    ):
        error = b.refuse(method, **params)
        assert (error["code"], error["data"]["reason"]) == (4004, "approvalKey")
        assert "TIMELEAP_KEY_FILE" in error["message"]
    assert approval(a)["yolo"] is True
    a.call("session/setYolo", yolo=False)
    request = ask(a)
    approval_id = asked(b)["approvalId"]
    assert b.refuse("approval/respond", approvalId=approval_id, decision="approve")["code"] == 4004
    decide(b, approval_id, "reject")
    assert request.result()["decision"] == "reject"
    if path is not None and key == "missing":
        assert not path.exists()


def test_where_no_machine_has_a_key_questions_are_answered_all_the_same(machine: Machine) -> None:
    a, b = machine("a", key=None), machine("b", key=None)
    assert a.refuse("session/setYolo", yolo=True)["code"] == 4004
    request = ask(a)
    decide(b, asked(b)["approvalId"])
    assert request.result()["decision"] == "approve"


def test_the_key_may_be_named_in_the_configuration(machine: Machine, tmp_path: Path, url: str) -> None:
    machine("a").call("session/setYolo", yolo=True)
    home = tmp_path / "configured" / "home"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(f'keyFile = "{tmp_path / "all.key"}"\n')
    server = Server(Launch(home, "lsp", args=["--store", url], env={"TIMELEAP_KEY_FILE": ""}))
    try:
        server.initialize()
        assert approval(Session.open(server, "s"))["yolo"] is True
    finally:
        server.dispose()


def test_yolo_may_be_switched_off_without_a_key(machine: Machine) -> None:
    a = machine("a")
    a.call("session/setYolo", yolo=True)
    b = machine("b", key=None)
    assert b.call("session/setYolo", yolo=False)["approval"]["yolo"] is False
    assert approval(a)["yolo"] is False
    assert a.call("session/setYolo", yolo=True)["approval"]["yolo"] is True


# Rows that were altered


def moved_on(url: str) -> None:
    """Have every process take the rows over."""
    execute(url, "UPDATE timeleap_session SET version = version + 1, approvals = version + 1 WHERE id = 's'")
    execute(url, "UPDATE timeleap_document SET version = (SELECT version FROM timeleap_session WHERE id = 's')")


def test_a_row_that_was_altered_switches_nothing_on(machine: Machine, url: str) -> None:
    a = machine("a")
    a.call("session/setAutoApprove", action="read", enabled=True)
    body = execute(url, "SELECT body FROM timeleap_document WHERE name = 'state.json'")[0][0]
    forged = bytes(body).replace(b'"yolo": false', b'"yolo": true').replace(b'"yolo":false', b'"yolo":true')
    assert forged != bytes(body)
    execute(url, "UPDATE timeleap_document SET body = %s WHERE name = 'state.json'", forged)
    moved_on(url)
    for window in (a, machine("b")):
        assert approval(window)["yolo"] is False
        assert window.call("session/isApproved", action="x")["approved"] is False
        assert [warning["kind"] for warning in window.get_state()["warnings"]] == ["approvalSealBroken"]
    assert a.call("session/setYolo", yolo=True)["approval"]["yolo"] is True


@pytest.mark.parametrize("with_approvals", [True, False])
def test_rows_from_an_earlier_time_switch_nothing_on(machine: Machine, url: str, with_approvals: bool) -> None:
    """The files alone, as a program that writes a working copy could have it; or all rows, where this machine knows."""
    a = machine("a")
    a.call("session/setYolo", yolo=True)
    files = execute(url, "SELECT name, body FROM timeleap_document WHERE session = 's'")
    rows = execute(url, "SELECT name, body FROM timeleap_approval WHERE session = 's'")
    a.call("session/setYolo", yolo=False)
    assert approval(a)["yolo"] is False
    for name, body in files:
        execute(url, "UPDATE timeleap_document SET body = %s WHERE name = %s", body, name)
    for name, body in rows if with_approvals else ():
        execute(url, "UPDATE timeleap_approval SET body = %s WHERE name = %s", body, name)
    moved_on(url)
    assert approval(a)["yolo"] is False
    if not with_approvals:
        assert approval(machine("b"))["yolo"] is False
    assert a.call("session/setYolo", yolo=True)["approval"]["yolo"] is True
    assert approval(machine("c"))["yolo"] is True


def test_a_decision_that_somebody_wrote_into_the_row_does_not_count(machine: Machine, url: str) -> None:
    a, b = machine("a"), machine("b")
    a.call("session/setAutoApprove", action="x", enabled=True)  # from now on the store has a key
    request = ask(a)
    asked(b)
    forged = '{"decision": "approve", "decidedBy": {"at": "2026-01-01T00:00:00.000Z"}, "automatic": false}'
    execute(
        url,
        "UPDATE timeleap_approval SET body = convert_to(jsonb_set(convert_from(body, 'utf8')::jsonb, '{result}',"
        " %s::jsonb)::text, 'utf8') WHERE name LIKE 'a%%'",
        forged,
    )
    moved_on(url)
    a.say("so that it is taken over")
    assert request.error()["code"] == -32800
    assert "approvalSealBroken" in [warning["kind"] for warning in a.get_state()["warnings"]]


def test_a_redacted_text_goes_from_what_waits(machine: Machine, url: str) -> None:
    a, b = machine("a"), machine("b")
    request = ask(a, description=f"echo {SECRET}", detail={"command": SECRET}, requestId="r")
    asked(b)
    a.say(SECRET)
    b.call("session/redact", value=SECRET)
    (shown,) = pending(a)
    assert (shown["description"], shown["detail"]) == ("echo [redacted]", {"command": "[redacted]"})
    held = execute(url, "SELECT 1 FROM timeleap_approval WHERE position(%s::bytea in body) > 0", SECRET.encode())
    assert held == []
    decide(b, shown["approvalId"])
    assert request.result()["decision"] == "approve"
    settle([a, b])


# Other schemas, other servers


@pytest.mark.no_tables
def test_who_may_use_a_store_of_the_second_schema_may_use_its_approvals(machine: Machine, url: str) -> None:
    user, reader = f'User "{url[-8:]}"', f"reader{url[-8:]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE timeleap_schema (version int NOT NULL)")
        connection.execute("INSERT INTO timeleap_schema VALUES (2)")
        for migration in MIGRATIONS[:2]:
            connection.execute(migration)
        line = '{"role":"user","content":"kept"}\n'
        for statement in (
            "INSERT INTO timeleap_session (id, folded, version, live, messages) VALUES ('s', 's', 1, 1, 1)",
            f"INSERT INTO timeleap_log (session, name, length) VALUES ('s', 'context.jsonl', {len(line)})",
            f"INSERT INTO timeleap_piece VALUES (1, 0, '{line}')",
        ):
            connection.execute(statement)  # type: ignore[call-overload]
        identifier = psycopg.sql.Identifier(user), psycopg.sql.Identifier(reader)
        for text in (
            "CREATE ROLE {} LOGIN; CREATE ROLE {}",
            "GRANT SELECT ON timeleap_schema TO {}, {}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON timeleap_session, timeleap_log TO {}; GRANT SELECT ON timeleap_log TO {}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON timeleap_piece, timeleap_change TO {}; GRANT SELECT ON timeleap_piece TO {}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON timeleap_document TO {}; GRANT SELECT ON timeleap_document TO {}, PUBLIC",
        ):
            connection.execute(psycopg.sql.SQL(text).format(*identifier))  # type: ignore[arg-type]
    assert machine("owner").texts() == ["kept"]
    granted = execute(
        url,
        "SELECT grantee, privilege_type FROM information_schema.role_table_grants"
        " WHERE table_name = 'timeleap_approval' AND grantee <> current_user",
    )
    every = [(user, right) for right in ("SELECT", "INSERT", "UPDATE", "DELETE")]
    assert sorted(granted) == sorted([*every, (reader, "SELECT"), ("PUBLIC", "SELECT")])
    theirs = url.replace("timeleap@", f"{quote(user)}@")
    a, b = machine("a", store=theirs), machine("b", store=theirs)
    request = ask(a)
    decide(b, asked(b)["approvalId"], "approveForSession")
    assert request.result()["decision"] == "approveForSession"
    assert approval(a)["autoApproveActions"] == ["run command"]
    until(lambda: questions(url) == 0)


class Office:
    """A machine that asks all the time, and others that decide, each always the same.

    Attributes:
        answers: By request id: the decision that was answered.
        acknowledged: By approval's id: those who were told that theirs counts.
    """

    def __init__(self, asker: Session, deciders: dict[str, Session]) -> None:
        self.answers: dict[str, Message] = {}
        self.acknowledged: dict[str, list[str]] = {}
        self._problems: list[BaseException] = []
        self._asking, self._deciding = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(work, *given), daemon=True)
            for work, *given in [
                (self._ask, asker),
                *((self._decide, window, decision) for decision, window in deciders.items()),
            ]
        ]
        for thread in self._threads:
            thread.start()

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more questions are answered."""
        wanted = len(self.answers) + count
        until(lambda: self._problems or len(self.answers) >= wanted)
        assert not self._problems, self._problems

    def stop(self) -> None:
        """Have what is asked answered, and end."""
        for event, threads in ((self._asking, self._threads[:1]), (self._deciding, self._threads[1:])):
            event.set()
            for thread in threads:
                thread.join(PATIENCE)
                assert not thread.is_alive()
        assert not self._problems, self._problems

    def _run(self, work: Callable[..., None], *given: Any) -> None:
        try:
            work(*given)
        except BaseException as problem:
            self._problems.append(problem)

    def _ask(self, session: Session) -> None:
        number = 0
        while not self._asking.is_set():
            number += 1
            name, reply = f"r{number}", Message()
            while "result" not in reply:
                time.sleep(0.02)
                reply = ask(session, description=name, requestId=name).reply()
                assert "result" in reply or _goes_on(reply["error"])
            self.answers[name] = reply["result"]

    def _decide(self, session: Session, decision: str) -> None:
        while not self._deciding.is_set():
            time.sleep(0.02)
            listed = session.start("approval/list").reply()
            assert "result" in listed or _goes_on(listed["error"])
            for each in listed.get("result", {}).get("approvals", []):
                if each["action"] == "held":
                    continue
                answer = {"approvalId": each["approvalId"], "decision": decision}
                reply = session.start("approval/respond", **answer).reply()
                if "result" in reply:
                    self.acknowledged.setdefault(each["description"], []).append(decision)
                else:
                    assert reply["error"]["code"] == 4026 or _goes_on(reply["error"])


def _goes_on(error: Message) -> bool:
    """True of an error after which a request is asked again."""
    return error["code"] in (4005, 4012) and error["data"]["retryable"] is True


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "seed"),
    [
        (signal.SIGKILL, 1),
        *((how, seed) for how in (signal.SIGKILL, signal.SIGSTOP) for seed in (2, 3)),
    ],
)
def test_a_failover_loses_no_question_and_turns_no_decision(machine: Machine, how: signal.Signals, seed: int) -> None:
    rng = random.Random(seed)
    with replicated_cluster() as (primary, standby):
        store = url_of(primary, standby, database=primary.new_database().rpartition("/")[2])
        a, b, c = (machine(name, store=store) for name in "abc")
        a.call("session/setAutoApprove", action="read", enabled=True)
        held = ask(a, action="held")
        held_id = asked(c)["approvalId"]
        office = Office(a, {"approve": b, "reject": c})
        office.wait_for_more(rng.randint(2, 12))
        take_over(primary, standby, how, rng)
        office.wait_for_more(5)
        if how == signal.SIGSTOP:
            primary.signal(signal.SIGCONT)  # it takes itself for the primary still
            office.wait_for_more(5)
        office.stop()
        assert [each["approvalId"] for each in pending(c)] == [held_id]
        decide(b, held_id)
        assert held.result()["decision"] == "approve"
        late = machine("late", store=store)
        assert late.call("session/isApproved", action="read")["approved"] is True
        assert pending(late) == []
        check_decisions(office, [a, b, c])


def check_decisions(office: Office, windows: list[Session]) -> None:
    """What was acknowledged to who decided is what was answered, is in the audit, and every window heard it, all once."""
    for name, decisions in office.acknowledged.items():
        assert decisions == [office.answers[name]["decision"]], name
    # Of a decision whose outcome nobody could say for so long its maker was not told.
    assert len(office.answers) - len(office.acknowledged) <= len(windows)
    expected = Counter(answer["decision"] for answer in office.answers.values()) + Counter(["approve"])
    for window in windows:
        until(lambda window=window: len(told(window, RESOLVED)) >= expected.total())
        assert Counter(end["decision"] for end in told(window, RESOLVED)) == expected
        shown = [each["approval"]["approvalId"] for each in told(window, REQUESTED)]
        assert len(shown) == len(set(shown)) == expected.total()
    entries, cursor = list[Message](), dict[str, Any]()
    while not entries or cursor:
        page = windows[0].call("session/listAudit", limit=100, **cursor)
        entries += page["entries"]
        cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
    said = Counter(entry["to"] for entry in entries if entry["field"] == "approval")
    assert said == expected + Counter(pending=expected.total())
