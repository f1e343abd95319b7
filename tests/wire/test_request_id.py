"""`requestId`: a repeat is answered and changes nothing, also over a crash (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import containing
from tests.support.mostly_long import mostly_long
from tests.support.server import Server
from tests.support.session import Session, user
from tests.wire.operations import OPERATIONS, Operation, prepare

from timeleap_protocol.methods import METHODS


def everything(session: Session) -> tuple[Any, ...]:
    return session.log_bytes(), session.get_state(), session.timelines()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_repeat_gets_the_stored_result_and_changes_nothing(session: Session, operation: Operation) -> None:
    prepare(session)
    operation.before(session)
    first = session.call(operation.method, **operation.params, requestId="again")
    after = everything(session)
    repeat = session.call(operation.method, **operation.params, requestId="again")
    assert repeat == {**first, "duplicate": True}
    assert everything(session) == after


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_repeat_later_gets_the_stored_result_with_the_present_head(session: Session, operation: Operation) -> None:
    prepare(session)
    operation.before(session)
    first = session.call(operation.method, **operation.params, requestId="again")
    session.say("meanwhile")
    repeat = session.call(operation.method, **operation.params, requestId="again", expectedHead="stale")
    assert repeat == {**first, "duplicate": True, "head": session.head}


@pytest.mark.parametrize("operation", [op for op in OPERATIONS if op.other], ids=str)
def test_with_other_params_it_is_refused(session: Session, operation: Operation) -> None:
    prepare(session)
    operation.before(session)
    session.call(operation.method, **operation.params, requestId="again")
    after = everything(session)
    error = session.refuse(operation.method, **operation.other, requestId="again")
    assert error["code"] == -32602 and error["message"] == containing("requestId")
    assert everything(session) == after


def test_with_another_method_it_is_refused(session: Session) -> None:
    session.call("context/checkpoint", requestId="again")
    assert session.refuse("context/clear", requestId="again")["code"] == -32602
    assert session.get_state()["context"]["nCheckpoints"] == 1


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=0), ids=str)
def test_a_repeat_after_kill_9_is_answered_and_not_repeated(start: StartServer, operation: Operation) -> None:
    first = start()
    session = Session.open(first, "s")
    prepare(session)
    operation.before(session)
    result = session.call(operation.method, **operation.params, requestId="again")
    after = everything(session)
    first.kill()
    again = Session.open(start(), "s")
    assert again.call(operation.method, **operation.params, requestId="again") == {**result, "duplicate": True}
    assert everything(again) == after
    if operation.other:
        assert again.refuse(operation.method, **operation.other, requestId="again")["code"] == -32602


def of_an_earlier_release(path: Path, method: str, params: dict[str, Any]) -> None:
    """Put the fingerprint that earlier releases made of a request in the place of the present one in a file."""
    row = METHODS[method]
    read = row.read_params(params)
    text, (before,) = path.read_text("utf-8"), row.earlier_fingerprints(read)
    assert before != row.fingerprint(read) and row.fingerprint(read) in text
    path.write_text(text.replace(row.fingerprint(read), before), "utf-8")


def test_a_repeat_of_what_an_earlier_release_did_is_answered(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    asked = {"sessionId": "s", "message": {**user("é"), "score": 1e-05}, "requestId": "r"}
    result = first.call("context/appendMessage", **asked)
    first.kill()
    of_an_earlier_release(session.log, "context/appendMessage", asked)
    for index in session.path.glob(".*.idx"):
        index.unlink()
    again = Session.open(start(), "s")
    repeat = again.server.call("context/appendMessage", **asked)
    assert repeat == {**result, "duplicate": True, "head": again.head}
    assert again.texts() == ["é"]
    assert again.refuse("context/appendMessage", message=user("é"), requestId="r")["code"] == -32602


def test_a_session_that_an_earlier_release_made_is_not_made_again(start: StartServer) -> None:
    first = start()
    asked: dict[str, Any] = {"title": "é", "requestId": "r", "create": True}
    session = Session.open(first, **asked)
    first.kill()
    for path in (session.path / "timeleap.json", first.home / "requests.jsonl"):
        of_an_earlier_release(path, "session/open", asked)
    second = start()
    assert Session.open(second, **asked).id == session.id
    error = second.refuse("session/open", **{**asked, "title": "e"})
    assert error["code"] == -32602


def test_only_successes_are_stored(session: Session) -> None:
    assert session.refuse("context/revertTo", checkpointId=0, requestId="r")["code"] == 4002
    session.checkpoint()
    assert "duplicate" not in session.call("context/revertTo", checkpointId=0, requestId="r")
    assert (
        session.refuse("context/appendMessage", message=user("x"), expectedHead="stale", requestId="s")["code"]
        == -32801
    )
    assert "duplicate" not in session.call("context/appendMessage", message=user("y"), requestId="s")


def test_dry_runs_are_not_stored(session: Session) -> None:
    session.checkpoint()
    session.call("context/revertTo", checkpointId=0, dryRun=True, requestId="r")
    assert "duplicate" not in session.call("context/revertTo", checkpointId=0, requestId="r")
    assert session.get_state()["context"]["nCheckpoints"] == 0


def test_tokens_and_meta_are_no_part_of_the_request(session: Session) -> None:
    session.call("context/appendMessage", message=user("x"), requestId="r", _meta={"try": 1}, workDoneToken="a")
    again = session.call("context/appendMessage", message=user("x"), requestId="r", _meta={"try": 2}, workDoneToken="b")
    assert again["duplicate"] is True
    assert session.texts() == ["x"]


def test_request_ids_of_one_session_mean_nothing_in_another(server: Server, session: Session) -> None:
    other = Session.open(server)
    for each in (session, other):
        assert "duplicate" not in each.call("context/appendMessage", message=user("x"), requestId="shared")


def test_pipelined_repeats_take_effect_once(session: Session) -> None:
    pendings = [session.start("context/appendMessage", message=user("x"), requestId="r") for _ in range(50)]
    results = [pending.result() for pending in pendings]
    assert [result.get("duplicate", False) for result in results] == [False] + [True] * 49
    assert session.texts() == ["x"]


@pytest.mark.long
def test_the_last_thousand_survive_a_restart(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    for pending in [
        session.start("context/appendMessage", message=user(str(n)), requestId=f"r{n}") for n in range(600)
    ]:
        pending.result()
    for pending in [session.start("session/setTitle", title=str(n), requestId=f"t{n}") for n in range(400)]:
        pending.result()
    first.kill()
    again = Session.open(start(), "s")
    for pending in [again.start("context/appendMessage", message=user(str(n)), requestId=f"r{n}") for n in range(600)]:
        assert pending.result()["duplicate"] is True
    for pending in [again.start("session/setTitle", title=str(n), requestId=f"t{n}") for n in range(400)]:
        assert pending.result()["duplicate"] is True
    assert again.get_state()["context"]["messageCount"] == 600


def test_request_ids_outlive_the_removal_of_their_records(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    session.checkpoint()
    appended = session.call("context/appendMessage", message=user("x"), requestId="gone")
    session.call("context/revertTo", checkpointId=0)
    again = session.call("context/appendMessage", message=user("x"), requestId="gone")
    assert again == {**appended, "duplicate": True, "head": session.head}
    first.kill()
    later = Session.open(start(), "s")
    assert later.call("context/appendMessage", message=user("x"), requestId="gone")["duplicate"] is True
    assert later.history() == []


@pytest.mark.parametrize("crash", [False, True])
def test_creation_takes_one_too(start: StartServer, crash: bool) -> None:
    server = start()
    creation = {"title": "T", "systemPrompt": "p", "requestId": "create"}
    first = server.call("session/open", **creation)
    Session(server, first).say("x")
    if crash:
        server.kill()
        server = start()
    again = server.call("session/open", **creation)
    assert (again["sessionId"], again["duplicate"]) == (first["sessionId"], True)
    assert again["head"] == server.call("session/getState", sessionId=first["sessionId"])["head"]
    assert len(server.call("session/list")["sessions"]) == 1
    assert Session(server, again).texts() == ["x"]
    assert server.refuse("session/open", **{**creation, "title": "U"})["code"] == -32602


@pytest.mark.parametrize("crash", [False, True])
def test_a_fork_takes_one_too(start: StartServer, crash: bool) -> None:
    server = start()
    session = Session.open(server, "s")
    session.say("x")
    first = session.call("session/fork", requestId="fork")
    if crash:
        server.kill()
        server = start()
        session = Session.open(server, "s")
    again = session.call("session/fork", requestId="fork")
    assert (again["sessionId"], again["duplicate"]) == (first["sessionId"], True)
    assert len(server.call("session/list")["sessions"]) == 2
    assert session.refuse("session/fork", requestId="fork", title="U")["code"] == -32602


@pytest.mark.parametrize("value", [1, [], ""])
def test_a_request_id_is_a_string(session: Session, value: Any) -> None:
    error = session.refuse("context/appendMessage", message=user("x"), requestId=value)
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["requestId"]]
    assert session.history() == []
