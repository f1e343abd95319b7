"""Approvals of a session that two stores on one database have open, as two machines would."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.plain_shapes import PLAIN
from tests.support.postgresql import shared_cluster

from timeleap.errors import (
    ApprovalNotPendingError,
    OverloadedError,
    ReadOnlyError,
    StorageFailureError,
)
from timeleap.features.approvals.questions import ApprovalQuestion
from timeleap.features.approvals.seal import KeyRing
from timeleap.features.approvals.store_approvals import in_files
from timeleap.features.approvals.switches import is_approved, set_afk, set_auto_approve, set_yolo
from timeleap.sessions.participants import Answer
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause, Event, Mutation
from timeleap.store.store import SessionStore
from timeleap_postgresql import shared_requests
from timeleap_postgresql.shared_requests import SharedApprovalRequests
from timeleap_postgresql.shared_seals import in_database

Json = dict[str, Any]
PATIENCE = 60.0


class Machine:
    """A store on the database, and the session `s` that is open in it."""

    def __init__(self, session: Session, store: SessionStore, name: str) -> None:
        self.session, self.store, self.name = session, store, name
        self.told: list[Event] = []
        session.listen(self.told.append)
        self.stopped = False

    @property
    def requests(self) -> SharedApprovalRequests:
        requests: Any = self.session.approval_requests
        return requests  # type: ignore[no-any-return]

    async def ask(self, action: str = "run", request_id: str | None = None, **question: Any) -> Answer:
        """Ask, and return what is waited for."""
        answer = await self.ask_at_once(action, request_id, **question)
        assert isinstance(answer, asyncio.Future)
        return answer

    async def ask_at_once(self, action: str = "run", request_id: str | None = None, **question: Any) -> Any:
        """Ask, and return whatever comes at once."""
        guard = Mutation(None, request_id, "approval/request", "f" * 16, self.cause)
        return await self.requests.ask(ApprovalQuestion(action, **question), guard)

    @property
    def cause(self) -> Cause:
        return Cause(client=self.name)

    async def decide(self, approval_id: str, decision: Any = "approve", reason: str | None = None) -> None:
        await self.requests.decide(approval_id, decision, reason, self.cause)

    @property
    def pending(self) -> list[str]:
        return [pending.approval_id for pending in self.requests.pending]

    def heard(self, kind: str) -> list[Json]:
        return [event.members for event in self.told if event.kind == kind]

    async def shown(self) -> str:
        """Wait for a question, and return its id."""
        await until(lambda: self.pending)
        return self.pending[-1]

    async def stop(self) -> None:
        """Close it."""
        if not self.stopped:
            self.stopped = True
            await self.store.aclose()


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


@pytest.fixture
def url() -> str:
    return shared_cluster().new_database()


@pytest.fixture
async def machine(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Opens the session `s` on another machine."""
    monkeypatch.setattr(shared_requests, "LOOK_SECONDS", 0.02)
    machines: list[Machine] = []

    async def start(name: str, key: str | None = "all.key") -> Machine:
        parts = in_database(
            url, tmp_path / name, None if key is None else tmp_path / key, in_files(tmp_path / f"{name}.key")
        )
        assert parts.home is not None
        store = SessionStore(parts.home, approvals=parts.approvals, shapes=PLAIN, backing=parts.backing)
        machines.append(Machine((await store.open("s")).session, store, name))
        return machines[-1]

    yield start
    for started in machines:
        await started.stop()


def execute(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement in the database, as somebody who goes around the store."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, list(values))  # type: ignore[call-overload]
        return list(cursor.fetchall()) if cursor.description else []


def questions(url: str) -> int:
    return int(execute(url, "SELECT count(*) FROM timeleap_approval WHERE name LIKE 'a%%'")[0][0])


# Asking and deciding


async def test_asked_here_and_decided_there(machine: Any, url: str) -> None:
    a, b = await machine("a"), await machine("b")
    answer = await a.ask(request_id="r", description="rm -r build")
    shown = await b.shown()
    await b.decide(shown, "reject", "no")
    result = await answer
    assert (result["decision"], result["reason"], result["decidedBy"]["client"]) == ("reject", "no", "b")
    await until(lambda: questions(url) == 0 and all(window.heard("approvalResolved") for window in (a, b)))
    for window in (a, b):
        (asked,), (end,) = window.heard("approvalRequested"), window.heard("approvalResolved")
        assert asked["approval"]["description"] == "rm -r build"
        assert (end["decision"], end["reason"]) == ("reject", "no")
    assert await b.ask_at_once(request_id="r", description="rm -r build") == {**result, "duplicate": True}
    with pytest.raises(ApprovalNotPendingError):
        await a.decide(shown)


async def test_the_same_request_joins_the_question_here_and_elsewhere(machine: Any) -> None:
    a, b = await machine("a"), await machine("b")
    first = await a.ask(request_id="r")
    second, third = await a.ask(request_id="r"), await b.ask(request_id="r")
    shown = await b.shown()
    assert len(b.pending) == 1
    await a.requests.stop_waiting(second, "cancelled")
    assert second.cancelled()
    assert a.pending == [shown]
    await a.requests.stop_waiting(first, "cancelled")
    assert b.pending == [shown]
    await a.decide(shown)
    assert (await third)["decision"] == "approve"
    await b.requests.stop_waiting(third, "timedOut")  # the decision came first
    assert (await third)["decision"] == "approve"


async def test_the_last_who_waits_ends_it(machine: Any, url: str) -> None:
    a, b = await machine("a"), await machine("b")
    answer = await a.ask()
    await b.shown()
    await a.requests.stop_waiting(answer, "timedOut")
    await a.requests.stop_waiting(answer, "timedOut")
    await until(lambda: b.heard("approvalResolved"))
    assert [end["decision"] for end in b.heard("approvalResolved")] == ["timedOut"]
    assert questions(url) == 0
    assert await a.requests.ends(["x"]) == []
    a.requests.leave_open(answer)


async def test_a_session_that_is_closed_gives_up_what_was_asked_there(machine: Any, url: str) -> None:
    a, b = await machine("a"), await machine("b")
    answer = await a.ask()
    await b.shown()
    await a.stop()
    assert answer.cancelled()
    await until(lambda: not b.pending)
    assert questions(url) == 0
    with pytest.raises(ReadOnlyError):
        await a.ask()


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_question_whose_asking_is_under_way_at_the_end_is_given_up(
    machine: Any, url: str, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    a = await machine("a")
    begun, go_on, ask_at_turn = asyncio.Event(), asyncio.Event(), a.requests._ask_at_turn

    async def slowly(*given: Any) -> Any:
        answer = await ask_at_turn(*given)
        begun.set()
        await go_on.wait()
        return answer

    monkeypatch.setattr(a.requests, "_ask_at_turn", slowly)
    asking = asyncio.create_task(a.ask())
    await begun.wait()
    ending = asyncio.create_task(a.session.shut())
    await until(lambda: a.session.transactions.closed)
    go_on.set()
    answer = await asking
    await ending
    if deleted:
        await a.store.delete("s")
    await until(answer.cancelled)
    assert questions(url) == 0


async def test_too_many_questions_are_refused(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_requests, "MAX_PENDING", 2)
    a = await machine("a")
    for _ in range(2):
        await a.ask()
    with pytest.raises(OverloadedError):
        await a.ask()


async def test_what_cannot_be_stored_is_not_asked(machine: Any, url: str) -> None:
    a = await machine("a")
    execute(url, "ALTER TABLE timeleap_approval RENAME TO elsewhere")
    with pytest.raises(StorageFailureError):
        await a.ask(request_id="r")
    assert a.pending == []
    execute(url, "ALTER TABLE elsewhere RENAME TO timeleap_approval")
    answer = await a.ask(request_id="r")
    execute(url, "ALTER TABLE timeleap_approval RENAME TO elsewhere")
    with pytest.raises(StorageFailureError):
        await a.requests.stop_waiting(answer, "cancelled")
    assert answer.cancelled()
    assert questions_of(a) == 1
    execute(url, "ALTER TABLE elsewhere RENAME TO timeleap_approval")
    await until(lambda: questions_of(a) == 0)  # at the next look


def questions_of(machine: Machine) -> int:
    return len(machine.pending)


async def test_what_could_not_be_given_up_is_given_up_at_the_end(machine: Any, url: str) -> None:
    a = await machine("a")
    answer = await a.ask()
    a.requests._finished.add("a-of-another-life")
    await a.stop()
    assert answer.cancelled()
    assert questions(url) == 0


async def test_questions_of_a_process_that_is_gone_are_cancelled(
    machine: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_requests, "GONE_SECONDS", 0.2)
    a, b = await machine("a"), await machine("b")
    await a.ask()
    shown = await b.shown()
    body = json.loads(bytes(execute(url, "SELECT body FROM timeleap_approval WHERE name = %s", shown)[0][0]))
    body["askers"] = ["00000000"]  # nobody has that lock
    alter(url, shown, json.dumps(body).encode())
    await moved_on(b, url)
    await until(lambda: questions(url) == 0 and b.heard("approvalResolved"))
    assert [end["decision"] for end in b.heard("approvalResolved")] == ["cancelled"]


async def test_rows_that_come_and_go_without_a_word_are_told(machine: Any, url: str) -> None:
    """As after a lost connection, when what was announced of some changes is not known any more."""
    a, b = await machine("a"), await machine("b")
    answer = await a.ask()
    shown = await b.shown()
    ((body,),) = execute(url, "SELECT body FROM timeleap_approval WHERE name = %s", shown)
    other = "a" + "0" * 16
    twin = json.loads(bytes(body))
    twin["pending"]["approval_id"] = other
    execute(url, "INSERT INTO timeleap_approval VALUES ('s', %s, %s)", other, json.dumps(twin).encode())
    execute(url, "INSERT INTO timeleap_approval VALUES ('s', 'anything', 'that is none')")
    execute(url, "DELETE FROM timeleap_approval WHERE name = %s", shown)
    await moved_on(a, url)
    await until(lambda: b.pending == [other] and answer.cancelled() and b.heard("approvalResolved"))
    assert [asked["approval"]["approvalId"] for asked in b.heard("approvalRequested")] == [shown, other]
    assert [end["approvalId"] for end in b.heard("approvalResolved")] == [shown]


def alter(url: str, name: str, body: bytes) -> None:
    execute(url, "UPDATE timeleap_approval SET body = %s WHERE name = %s", body, name)


async def moved_on(machine: Machine, url: str) -> None:
    """Have every process take the rows over."""
    execute(url, "UPDATE timeleap_session SET version = version + 1, approvals = version + 1 WHERE id = 's'")
    await machine.session.set_title("another")


async def test_a_value_that_is_redacted_is_in_no_question(machine: Any, url: str) -> None:
    a, b = await machine("a"), await machine("b")
    first = await a.ask(request_id="hunter2", description="echo hunter2", detail={"command": "hunter2"})
    await a.ask(action="other")
    await b.shown()

    async def work() -> None:
        b.requests.redact(lambda text: text.replace("hunter2", "[redacted]"))
        a.requests.redact(lambda text: text.replace("hunter2", "[redacted]"))

    await b.requests._step(work)
    await until(lambda: "[redacted]" in str(a.requests.pending[0].question.description))
    rows = execute(url, "SELECT body FROM timeleap_approval")
    assert not [body for (body,) in rows if b"hunter2" in bytes(body)]
    await b.decide(a.pending[0])
    assert (await first)["decision"] == "approve"


# What is approved without asking


async def test_what_is_switched_on_answers_what_waits_and_what_is_asked(machine: Any) -> None:
    a, b = await machine("a"), await machine("b")
    waiting, other = await a.ask("run"), await a.ask("read")
    await until(lambda: len(b.pending) == 2)
    await set_auto_approve(b.session, "run", True)
    assert (await waiting)["automatic"] is True
    assert (await a.ask_at_once("run", "r"))["automatic"] is True
    assert (await b.ask_at_once("run", "r"))["duplicate"] is True
    await b.decide(await a.shown(), "approveForSession")
    assert (await other)["decision"] == "approveForSession"
    assert is_approved(a.session, "read")[0] is True
    await set_auto_approve(a.session, "run", True)  # as it is already
    await set_afk(a.session, True)
    assert (await b.ask_at_once("write"))["decision"] == "reject"


async def test_approved_for_the_session_covers_what_else_waits(machine: Any) -> None:
    a, b = await machine("a"), await machine("b")
    answers = [await a.ask(), await a.ask()]
    await until(lambda: len(b.pending) == 2)
    await b.decide(b.pending[0], "approveForSession")
    decided = await asyncio.gather(*answers)
    assert sorted(result["decision"] for result in decided) == ["approve", "approveForSession"]
    late = await machine("late")
    assert is_approved(late.session, "run")[0] is True


@pytest.mark.parametrize("key", [None, "missing", "another"])
async def test_without_the_stores_key_nothing_is_approved(machine: Any, tmp_path: Path, key: str | None) -> None:
    a = await machine("a")
    await set_yolo(a.session, True)
    if key == "another":
        (tmp_path / key).write_text("f" * 64)
    b = await machine("b", key)
    assert is_approved(b.session, "run")[0] is False
    assert [warning["kind"] for warning in b.session.warnings] == ["approvalSealBroken"]
    with pytest.raises(ReadOnlyError):
        await set_afk(b.session, True)
    await set_yolo(b.session, False)
    await until(lambda: not is_approved(a.session, "run")[0])
    answer = await a.ask()
    shown = await b.shown()
    with pytest.raises(ReadOnlyError):
        await b.decide(shown)
    await b.decide(shown, "reject")
    assert (await answer)["decision"] == "reject"


async def test_a_machine_without_a_key_believes_nothing_that_needs_one_and_asks(machine: Any) -> None:
    a = await machine("a", None)
    with pytest.raises(ReadOnlyError):
        await set_yolo(a.session, True)
    answer = await a.ask()
    await a.decide(await a.shown())
    assert (await answer)["decision"] == "approve"


async def test_files_from_an_earlier_time_switch_nothing_on(machine: Any, url: str) -> None:
    a = await machine("a")
    await set_yolo(a.session, True)
    files = execute(url, "SELECT name, body FROM timeleap_document WHERE session = 's'")
    rows = execute(url, "SELECT name, body FROM timeleap_approval WHERE session = 's'")
    await set_yolo(a.session, False)
    await a.session.set_title("T")
    for restored in ((), rows):
        for name, body in files:
            execute(url, "UPDATE timeleap_document SET body = %s WHERE name = %s", body, name)
        for name, body in restored:
            alter(url, name, bytes(body))
        execute(url, "UPDATE timeleap_document SET version = (SELECT version + 1 FROM timeleap_session WHERE id = 's')")
        await moved_on(a, url)
        assert is_approved(a.session, "run")[0] is False
        assert [warning["kind"] for warning in a.session.warnings] == ["approvalSealBroken"]
    await set_yolo(a.session, True)
    assert is_approved((await machine("b")).session, "run")[0] is True


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_decision_without_its_seal_approves_nothing(machine: Any, url: str, decision: str) -> None:
    a = await machine("a")
    await set_auto_approve(a.session, "x", True)  # from now on the store has a key
    answer = await a.ask()
    shown = await a.shown()
    body = json.loads(bytes(execute(url, "SELECT body FROM timeleap_approval WHERE name = %s", shown)[0][0]))
    body["result"] = {"decision": decision, "decidedBy": {"at": "2026-01-01T00:00:00.000Z"}, "automatic": False}
    alter(url, shown, json.dumps(body).encode())
    await moved_on(a, url)
    if decision == "reject":
        assert (await answer)["decision"] == "reject"
    else:
        await until(answer.cancelled)
        assert "approvalSealBroken" in [warning["kind"] for warning in a.session.warnings]


async def test_another_key_that_was_set_meanwhile_counts(machine: Any, tmp_path: Path) -> None:
    a, b = await machine("a", "one.key"), await machine("b", "two.key")
    await a.session.set_title("T")
    await b.session.set_title("T")
    KeyRing(tmp_path / "two.key").require()
    await set_yolo(a.session, True)
    with pytest.raises(ReadOnlyError):
        await set_yolo(b.session, True)
    assert is_approved(a.session, "run")[0] is True


async def test_a_session_that_is_deleted_elsewhere_ends_what_is_asked(machine: Any) -> None:
    a, b = await machine("a"), await machine("b")
    answer = await a.ask()
    await b.shown()
    await b.store.delete("s")
    await until(answer.cancelled)
    assert a.session.deleted
