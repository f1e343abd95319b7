"""After a redaction known request ids match any params, wherever they are kept; ids that come later do not."""

from __future__ import annotations

import json

import pytest
from tests.support.fixtures import StartServer
from tests.support.mostly_long import mostly_long
from tests.support.scene import settle, until
from tests.support.server import Message, Server
from tests.support.session import Session, user

SECRET = "hunter2"


def with_ids(server: Server) -> Session:
    """A session with ids in the log, in a timeline, and in files."""
    session = Session.open(server, "a")
    session.append(user("went"), requestId="set aside")
    session.call("context/clear", requestId="cleared")
    session.append(user(SECRET), requestId="held it")
    session.append(user("harmless"), requestId="held nothing")
    session.call("session/setTitle", title="T", requestId="titled")
    return session


KNOWN = ("set aside", "held it", "held nothing")


def repeated(session: Session, request_id: str) -> bool:
    """Whether a request with other params is answered as a repeat of that id."""
    before = session.texts()
    answer = session.append(user("other params"), requestId=request_id)
    return bool(answer.get("duplicate")) and session.texts() == before


def conflicts(session: Session, request_id: str) -> bool:
    """Whether an append with other params under that id is refused."""
    error: Message = session.refuse("context/appendMessage", message=user("again"), requestId=request_id)
    return error["code"] == -32602 and "requestId" in error["message"]


def reopened(start: StartServer, session: Session) -> Session:
    session.server.kill()
    return Session.open(start(), session.id, create=False)


def redacted(session: Session, kind: str) -> Session:
    """The session after a redaction, of the live session or in the trash."""
    if kind == "live":
        session.call("session/redact", value=SECRET, requestId="redaction")
        return session
    session.call("session/delete")
    (one,) = session.server.call("session/listTrash")["sessions"]
    session.server.call("session/redact", sessionId="a", deletedAt=one["deletedAt"], value=SECRET)
    session.server.call("session/undelete", sessionId="a")
    return Session.open(session.server, "a", create=False)


@pytest.mark.parametrize("restarts", mostly_long([0, 1, 2], every=3, first=1))
@pytest.mark.parametrize("kind", ["live", "trash"])
def test_known_ids_match_any_params_and_later_ones_do_not(start: StartServer, kind: str, restarts: int) -> None:
    session = with_ids(start())
    assert conflicts(session, "held nothing")
    session = redacted(session, kind)
    for _ in range(restarts):
        session = reopened(start, session)
    assert [one for one in KNOWN if not repeated(session, one)] == []
    assert session.call("session/setTitle", title="U", requestId="titled")["duplicate"]
    session.append(user("new"), requestId="later")
    session.call("session/setTitle", title="V", requestId="later title")
    for _ in range(2):
        assert conflicts(session, "later") and conflicts(session, "later title")
        assert repeated(session, "held nothing")
        session = reopened(start, session)


def test_a_rewrite_after_a_redaction_leaves_them_so(start: StartServer) -> None:
    session = with_ids(start())
    session.call("session/redact", value=SECRET)
    session.append(user("new"), requestId="later")
    session.call("context/clear")
    session = reopened(start, session)
    assert repeated(session, "held nothing") and conflicts(session, "later")
    session.call("context/undo")
    assert repeated(session, "held nothing") and conflicts(session, "later")


def test_in_another_window_as_well(start: StartServer) -> None:
    owner = start()
    session = with_ids(owner)
    attached = Session.open(start(at=owner.home), "a")
    attached.call("session/redact", value=SECRET)
    assert repeated(attached, "held nothing") and repeated(session, "held nothing")
    session.append(user("new"), requestId="later")
    assert conflicts(attached, "later")


def test_the_ids_of_a_fork_are_its_own(start: StartServer) -> None:
    session = with_ids(start())
    session.call("session/redact", value=SECRET)
    session.server.call("session/fork", sessionId="a", newSessionId="b")
    fork = Session.open(session.server, "b", create=False)
    fork.append(user("first"), requestId="held nothing")
    assert conflicts(fork, "held nothing")
    assert conflicts(reopened(start, fork), "held nothing")


def test_an_approval_that_waits_loses_its_fingerprint_too(start: StartServer) -> None:
    session = Session.open(start(), "a")
    session.append(user(SECRET))
    first = session.start("approval/request", action="run", detail={"password": SECRET}, requestId="ask")
    until(lambda: session.call("approval/list")["approvals"])
    (pending,) = session.call("approval/list")["approvals"]
    session.call("session/redact", value=SECRET)
    second = session.start("approval/request", action="other params", requestId="ask")
    settle([session])
    session.call("approval/respond", approvalId=pending["approvalId"], decision="approve")
    assert first.result()["decision"] == second.result()["decision"] == "approve"
    (line,) = json.loads(session.file_bytes("timeleap.json"))["journal"]["requests"]
    assert (line["r"], line["h"]) == ("ask", "")
    again = reopened(start, session).call("approval/request", action="third", requestId="ask")
    assert again["duplicate"] and again["decision"] == "approve"


@pytest.mark.parametrize("number", [1 << 53, 1 << 40])
def test_a_number_that_is_too_high_says_nothing_of_later_ids(start: StartServer, number: int) -> None:
    session = with_ids(start())
    session.server.kill()
    document = json.loads(session.file_bytes("timeleap.json"))
    session.put_file("timeleap.json", json.dumps({**document, "requestsRedacted": number}).encode())
    session = Session.open(start(), "a")
    session.append(user("new"), requestId="later")
    session.append(user("newer"), requestId="latest")
    for _ in range(2):
        assert conflicts(session, "later") and conflicts(session, "latest")
        session = reopened(start, session)
    session.append(user("newest"), requestId="last")
    assert session.texts()[-3:] == ["new", "newer", "newest"]


@pytest.mark.parametrize("number", [-1, 1 << 54, "7", None, 1.5, True])
def test_a_number_that_is_none_counts_as_no_redaction(start: StartServer, number: object) -> None:
    session = with_ids(start())
    session.server.kill()
    document = json.loads(session.file_bytes("timeleap.json"))
    session.put_file("timeleap.json", json.dumps({**document, "requestsRedacted": number}).encode())
    session = Session.open(start(), "a")
    assert [one["kind"] for one in session.get_state()["warnings"]] == ["metaDamaged"]
    assert conflicts(session, "held nothing") and conflicts(session, "held it")
