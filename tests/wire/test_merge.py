"""`session/merge`: what another session has found, as a summary behind a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.matching import HEAD, at_least
from tests.support.scene import Two
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user


@pytest.fixture
def session(shared: Server) -> Session:
    session = Session.open(shared, title="Fix dates")
    session.append(user("question " + "x" * 400), assistant("answer " + "y" * 400))
    return session


@pytest.fixture
def branch(session: Session, shared: Server) -> Session:
    """A fork with two messages of its own."""
    made = session.checkpoint()
    fork = Session(shared, session.call("session/fork", checkpointUid=made["uid"], title="Try tabs"))
    fork.append(user("try tabs " + "t" * 300), assistant("tabs work in src/dates.py"))
    return fork


def merge(session: Session, branch: Session, **params: Any) -> Message:
    done: Message = session.call("session/merge", **{"from": branch.id, **params})
    return done


def test_a_checkpoint_and_one_message_are_appended(session: Session, branch: Session) -> None:
    before, there = session.history(), branch.log_bytes()
    pending = session.start("session/merge", **{"from": branch.id}, summary="Tabs work.")
    done = pending.result()
    origin = {"sessionId": branch.id, "head": branch.head, "messages": 2}
    assert done == {
        "head": HEAD,
        "checkpoint": at_least({"label": f"before merging Try tabs ({branch.id})", "messageCount": 2}),
        "firstIndex": 2,
        "from": origin,
        "summary": "Tabs work.",
        "summarizer": "caller",
        "scorecard": at_least({"paths": {"found": 1, "kept": 0, "lost": ["src/dates.py"]}}),
    }
    [*rest, message] = session.history()
    assert rest == before and message["role"] == "user"
    said, summary = (part["text"] for part in message["content"])
    assert summary == "Tabs work." and branch.id in said and "2 messages" in said and branch.head in said
    kinds = [m["params"]["kind"] for m in pending.heard() if m["method"] == "context/didChange"]
    assert kinds == ["checkpointCreated", "merged", "messagesAppended"]
    told = next(m["params"] for m in pending.heard() if m["params"].get("kind") == "merged")
    assert told == at_least(
        {"firstIndex": 2, "from": origin, "checkpoint": at_least({"uid": done["checkpoint"]["uid"]})}
    )
    assert branch.log_bytes() == there
    session.call("context/revertTo", checkpointUid=done["checkpoint"]["uid"])
    assert session.history() == before


def test_a_dry_run_changes_nothing(session: Session, branch: Session) -> None:
    before = session.log_bytes()
    told = merge(session, branch, summarizer="builtin", dryRun=True)
    assert session.log_bytes() == before and "tabs" in told["summary"]
    done = merge(session, branch, summarizer="builtin")
    for name in ("firstIndex", "from", "summary", "scorecard"):
        assert told[name] == done[name]


def test_the_same_head_is_merged_once_while_the_merge_stands(session: Session, branch: Session, shared: Server) -> None:
    done = merge(session, branch, summary="Tabs work.")
    for params in ({"summary": "Tabs work."}, {"summary": "other"}, {"requestId": "r"}, {"requestId": "r"}):
        again = merge(session, branch, **params)
        assert again == {**done, "duplicate": True, "head": session.head}
    session.call("session/close")
    session = session.reopen(shared)
    again = merge(session, branch, summary="x")
    # Labels are those of then; what follows a checkpoint by now tells of itself.
    same = {name: value for name, value in done.items() if name not in ("checkpoint", "head")}
    assert {**again, **same} == again and again["duplicate"] is True
    assert again["checkpoint"]["uid"] == done["checkpoint"]["uid"]
    session.call("context/revertTo", checkpointUid=done["checkpoint"]["uid"])
    second = merge(session, branch, summary="again")
    assert second["summary"] == "again" and "duplicate" not in second and len(session.history()) == 3
    branch.say("more")
    third = merge(session, branch, summary="more")
    assert third["from"]["messages"] == 3 and len(session.history()) == 4


def test_a_repeat_by_request_id(session: Session, branch: Session) -> None:
    done = merge(session, branch, summary="Tabs work.", requestId="r")
    again = merge(session, branch, summary="Tabs work.", requestId="r")
    assert again == {**done, "duplicate": True, "head": session.head}
    error = session.refuse("session/merge", **{"from": branch.id}, summary="Other.", requestId="r")
    assert error["code"] == -32602


def test_where_it_begins(session: Session, branch: Session, shared: Server) -> None:
    whole = merge(session, branch, since={"messageIndex": 0}, summary="All.")
    assert whole["from"]["messages"] == 4
    other = Session.open(shared)
    other.say("question", "alone")
    assert merge(session, other, summary="Alone.")["from"]["messages"] == 2
    # The child gets what its parent has found since.
    back = merge(branch, session, summary="Home.")
    assert back["from"]["messages"] == len(session.history()) - 2
    sibling = Session(shared, session.call("session/fork", checkpointId=0))
    sibling.say("sibling")
    assert merge(branch, sibling, summary="Sibling.")["from"]["messages"] == 1


def test_pins_of_both_hold(session: Session, branch: Session) -> None:
    session.call("context/setPins", pins=["never main"])
    branch.call("context/setPins", pins=["tabs only"])
    done = merge(session, branch, summary="Tabs work: tabs only.")
    assert done["pins"] == {"kept": 1, "added": ["never main"]} and "never main" in done["summary"]


def test_what_cannot_be_merged_says_why(session: Session, branch: Session, shared: Server) -> None:
    def refused(**params: Any) -> Message:
        return session.refuse("session/merge", **{"from": branch.id, "summary": "s", **params})

    before = session.log_bytes()
    itself = refused(**{"from": session.id})
    assert (itself["code"], itself["data"]["errors"][0]["loc"]) == (-32602, ["from"])
    assert refused(**{"from": "nobody"})["code"] == 4001
    assert refused(**{"from": "../x"})["code"] == 4010
    assert refused(since={"messageIndex": 4})["code"] == -32602
    assert refused(since={"messageIndex": 50})["code"] == -32602
    assert refused(since={"checkpointUid": "c0-0123456789ab"})["code"] == 4002
    assert refused(summary=" ")["code"] == 4006
    assert refused(summary="x" * 5000)["code"] == 4006
    assert refused(summary=None, summarizer="client")["code"] == 4006
    stale = session.refuse("session/merge", **{"from": branch.id}, summary="s", expectedHead="1.0.0-00000000")
    assert stale["code"] == -32801
    assert refused(**{"from": "nobody"}, expectedHead="1.0.0-00000000", dryRun=True)["code"] == -32801
    branch.call("session/delete")
    assert refused()["code"] == 4001
    assert session.log_bytes() == before


def test_nothing_new_is_said(session: Session, shared: Server) -> None:
    fork = Session(shared, session.call("session/fork"))
    error = session.refuse("session/merge", **{"from": fork.id}, summary="s")
    assert error["code"] == -32602 and "nothing new" in error["message"]


def test_in_the_attached_window(two: Two) -> None:
    two.owner.say("a")
    other = Session.open(two.owner.server)
    other.say("found it")
    done = two.attached.call("session/merge", **{"from": other.id}, summary="Found.")
    assert done["firstIndex"] == 1 and two.owner.history()[-1] == two.attached.history()[-1]
    assert two.owner.server.heard("context/didChange", kind="merged")["from"]["sessionId"] == other.id
