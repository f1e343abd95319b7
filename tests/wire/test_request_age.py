"""Which request ids are known: the newest 1 000 by age, wherever they are kept; and a fork's ids are its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.mostly_long import mostly_long
from tests.support.server import Server
from tests.support.session import Session, user

MANY = 1010


def append_many(session: Session, count: int, prefix: str = "a") -> None:
    """Append messages with request ids, without waiting in between."""
    started = [
        session.start("context/appendMessage", message=user(f"{prefix}{n}"), requestId=f"{prefix}{n}")
        for n in range(count)
    ]
    for one in started:
        one.result()


def is_known(session: Session, method: str, request_id: str, **params: Any) -> bool:
    return bool(session.call(method, **params, requestId=request_id).get("duplicate", False))


CHANGES: dict[str, dict[str, Any]] = {
    "context/revertTo": {"checkpointId": 0},
    "context/clear": {},
    "context/restoreTimeline": {"timelineId": "context_1"},
    "session/setYolo": {"yolo": True},
    "context/sendDMail": {"checkpointId": 0, "message": "note"},
    "session/setTitle": {"title": "T"},
    "context/checkpoint": {"label": "c"},
}


@pytest.mark.long
@pytest.mark.parametrize("crash", [False, True])
def test_a_thousand_appends_make_no_younger_request_forgotten(start: StartServer, crash: bool) -> None:
    server = start(options={"durability": "os"})
    session = Session.open(server, "s")
    append_many(session, MANY)
    session.call("context/clear")
    session.call("context/restoreTimeline", timelineId="context_1")
    session.call("context/checkpoint")
    for method, params in CHANGES.items():
        assert not is_known(session, method, method, **params), method
        session.call("context/checkpoint")
        session.say("work since")
    if crash:
        server.kill()
        session = Session.open(start(), "s")
    log = session.log_bytes()
    for method, params in CHANGES.items():
        assert is_known(session, method, method, **params), method
    assert session.log_bytes() == log
    for n in range(MANY - 1, MANY - 950, -100):
        assert is_known(session, "context/appendMessage", f"a{n}", message=user(f"a{n}"))


@pytest.mark.parametrize("crash", [False, True])
def test_the_oldest_beyond_a_thousand_are_forgotten(start: StartServer, crash: bool) -> None:
    server = start(options={"durability": "os"})
    session = Session.open(server, "s")
    session.call("session/setTitle", title="first", requestId="t0")
    append_many(session, 998)
    session.call("session/setTitle", title="last", requestId="t1")
    if crash:
        server.kill()
        session = Session.open(start(), "s")
    assert is_known(session, "session/setTitle", "t0", title="first")
    session.call("session/setTitle", title="one more", requestId="t2")
    assert not is_known(session, "session/setTitle", "t0", title="first")
    assert is_known(session, "session/setTitle", "t1", title="last")
    assert is_known(session, "context/appendMessage", "a1", message=user("a1"))
    assert not is_known(session, "context/appendMessage", "a0", message=user("a0"))


def test_what_stands_in_timelines_keeps_its_age(start: StartServer) -> None:
    session = Session.open(start(options={"durability": "os"}), "s")
    append_many(session, 300, "a")
    session.call("context/clear", requestId="clear a")
    append_many(session, 300, "b")
    session.call("context/restoreTimeline", timelineId="context_1", requestId="restore a")
    append_many(session, 397, "c")
    for name in ("a1", "a299", "b0", "b299", "c0", "c396"):
        assert is_known(session, "context/appendMessage", name, message=user(name)), name
    assert is_known(session, "context/clear", "clear a")
    append_many(session, 300, "d")
    for name in ("b0", "b299", "c0", "d0"):
        assert is_known(session, "context/appendMessage", name, message=user(name)), name
    assert is_known(session, "context/restoreTimeline", "restore a", timelineId="context_1")
    assert is_known(session, "context/appendMessage", "a299", message=user("a299"))
    assert not is_known(session, "context/appendMessage", "a298", message=user("a298"))


def to_and_fro(session: Session) -> None:
    cleared = session.call("context/clear")
    session.call("context/restoreTimeline", timelineId=cleared["timelineId"])


def back(session: Session) -> None:
    session.call("context/revertTo", checkpointId=0)
    session.call("context/restoreTimeline", timelineId=session.timelines()[0]["timelineId"])


def compacted(session: Session) -> None:
    session.call("context/compact", summary="s", maxPreservedMessages=1)
    session.call("context/restoreTimeline", timelineId=session.timelines()[0]["timelineId"])


@pytest.mark.parametrize("move", mostly_long([to_and_fro, back, compacted], every=3))
@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_fork_knows_none_of_its_parents_ids(start: StartServer, move: Any, crash: bool, depth: int) -> None:
    server = start()
    session = Session.open(server, "p0")
    long = " word" * 200
    for n in range(5):
        session.call("context/appendMessage", message=user(f"m{n}{long}"), requestId=f"r{n}")
        session.call("context/checkpoint", requestId=f"c{n}")
    for n in range(depth):
        server.call("session/fork", sessionId=f"p{n}", newSessionId=f"p{n + 1}")
        session = Session.open(server, f"p{n + 1}")
        own = {"message": user(f"own {n}"), "requestId": f"own {n}"}
        assert "duplicate" not in session.call("context/appendMessage", **own)
    move(session)
    if crash:
        server.kill()
        session = Session.open(start(), session.id)
    own = {"message": user(f"own {depth - 1}"), "requestId": f"own {depth - 1}"}
    assert session.call("context/appendMessage", **own)["duplicate"] is True
    move(session)
    names = [f"r{n}" for n in range(5)] + [f"own {n}" for n in range(depth - 1)]
    for name in names:
        before = len(session.history())
        assert not is_known(session, "context/appendMessage", name, message=user(f"{name} anew"))
        assert len(session.history()) == before + 1


def test_a_parents_timeline_put_into_a_fork_brings_no_ids(start: StartServer) -> None:
    server = start()
    parent = Session.open(server, "p")
    parent.call("context/appendMessage", message=user("x"), requestId="r")
    server.call("session/fork", sessionId="p", newSessionId="f")
    fork = Session.open(server, "f")
    (fork.path / "context_7.jsonl").write_bytes(parent.log.read_bytes())
    fork.call("context/restoreTimeline", timelineId="context_7")
    assert not is_known(fork, "context/appendMessage", "r", message=user("x"))


def test_what_a_prune_removes_takes_no_ids_along(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.checkpoint()
    session.call("context/appendMessage", message=user("x"), requestId="r")
    done = session.call("context/revertTo", checkpointId=0, requestId="revert")
    session.call("session/prune", timelineIds=[done["timelineId"]])
    for _ in range(2):
        assert is_known(session, "context/appendMessage", "r", message=user("x"))
        assert is_known(session, "context/revertTo", "revert", checkpointId=0)
        server.kill()
        server = start()
        session = Session.open(server, "s")


@pytest.mark.parametrize("lost", ["missing", "damaged"])
def test_a_lost_timeleap_json_takes_no_ids_of_the_log_along(start: StartServer, lost: str) -> None:
    server = start()
    session = Session.open(server, "s")
    session.call("context/appendMessage", message=user("x"), requestId="r")
    server.kill()
    notes = session.path / "timeleap.json"
    notes.unlink() if lost == "missing" else notes.write_bytes(b"{nonsense")
    server = start()
    session = Session.open(server, "s")
    assert is_known(session, "context/appendMessage", "r", message=user("x"))
    session.call("context/appendMessage", message=user("y"), requestId="later")
    server.kill()
    session = Session.open(start(), "s")
    for name, text in (("r", "x"), ("later", "y")):
        assert is_known(session, "context/appendMessage", name, message=user(text))


def unnumbered(session: Session) -> None:
    """Make of a session what a release left that gave requests no numbers."""
    log = session.log.read_text().splitlines()
    records = [json.loads(line) for line in log]
    for record in records:
        for name in ("s", "o", "g"):
            record.get("_tl", {}).pop(name, None)
    session.log.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in records))
    for path in (session.path / "requests.jsonl", session.path / "timeleap.json"):
        if not path.exists():
            continue
        many = [json.loads(line) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else []
        notes = json.loads(path.read_text()) if path.suffix == ".json" else {}
        notes.pop("requestsMarked", None)
        for one in many + notes.get("journal", {}).get("requests", []):
            for name in ("s", "b", "n"):
                one.pop(name, None)
        text = "".join(json.dumps(one) + "\n" for one in many) if many else json.dumps(notes)
        path.write_text(text)
    (session.path / ".context.jsonl.idx").unlink()


def test_the_ids_of_an_earlier_release_go_on_being_known(start: StartServer) -> None:
    server = start(options={"durability": "os"})
    session = Session.open(server, "s")
    append_many(session, 500)
    for n in range(20):
        session.call("session/setTitle", title=str(n), requestId=f"t{n}")
    server.kill()
    unnumbered(session)
    session = Session.open(start(options={"durability": "os"}), "s")
    append_many(session, 470, "b")
    for n in range(20):
        assert is_known(session, "session/setTitle", f"t{n}", title=str(n))
    for n in (0, 499):
        assert is_known(session, "context/appendMessage", f"a{n}", message=user(f"a{n}"))


def test_a_fork_of_an_earlier_release_keeps_its_ids_and_only_them(start: StartServer) -> None:
    server = start()
    parent = Session.open(server, "p")
    parent.call("context/appendMessage", message=user("x"), requestId="theirs")
    server.call("session/fork", sessionId="p", newSessionId="f")
    fork = Session.open(server, "f")
    fork.call("context/appendMessage", message=user("y"), requestId="own")
    server.kill()
    unnumbered(fork)
    for _ in range(2):
        server = start()
        fork = Session.open(server, "f")
        to_and_fro(fork)
        assert is_known(fork, "context/appendMessage", "own", message=user("y"))
        server.kill()
    fork = Session.open(start(), "f")
    assert not is_known(fork, "context/appendMessage", "theirs", message=user("x"))


def test_redaction_leaves_ids_known_without_their_fingerprints(server: Server) -> None:
    session = Session.open(server)
    session.call("session/setTitle", title="t", requestId="beside it")
    session.call("context/appendMessage", message=user("hunter2"), requestId="holds it")
    session.call("context/clear", requestId="clear")
    session.call("session/redact", value="hunter2")
    head = session.head
    assert is_known(session, "context/appendMessage", "holds it", message=user("any other"))
    assert is_known(session, "session/setTitle", "beside it", title="any other")
    assert is_known(session, "context/clear", "clear", keepSystemPrompt=False)
    assert session.head == head
    session.call("context/appendMessage", message=user("later"), requestId="later")
    assert session.refuse("context/appendMessage", message=user("other"), requestId="later")["code"] == -32602
