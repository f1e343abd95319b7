"""`context/replaceMessage`: another message in the place of one, and `context/diff` over two sessions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.matching import HEAD, at_least
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user


def calling(*ids: str) -> Message:
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ids]
    return {"role": "assistant", "content": "calling", "tool_calls": calls}


def result(of: str, content: str = "done") -> Message:
    return {"role": "tool", "content": content, "tool_call_id": of}


@pytest.fixture
def session(shared: Server) -> Session:
    return Session.open(shared)


def replace(session: Session, index: int, message: Message, **params: Any) -> Message:
    done: Message = session.call("context/replaceMessage", messageIndex=index, message=message, **params)
    return done


def test_what_came_after_it_is_set_aside_as_one_step(session: Session) -> None:
    for number in range(3):
        session.checkpoint()
        session.append(user(f"question {number}"), assistant(f"answer {number}"))
        session.call("context/updateTokenCount", tokenCount=100 * (number + 1))
    before = session.log_bytes()
    told = replace(session, 2, user("another question"), dryRun=True)
    assert session.log_bytes() == before and session.timelines() == []
    done = replace(session, 2, user("another question"))
    assert session.texts() == ["question 0", "answer 0", "another question"]
    assert done == {
        "head": HEAD,
        "timelineId": "context_1",
        "removed": {"messages": 3, "checkpoints": 1, "tokens": 200},
        "firstIndex": 2,
        "context": session.get_state()["context"],
    }
    assert {**told["context"], "logBytes": 0} == {**done["context"], "logBytes": 0}
    assert session.timelines()[0]["reason"] == "revert"
    undone = session.call("context/undo")
    assert session.log_bytes() == before and [step["kind"] for step in undone["steps"]] == ["revert"]
    session.call("context/redo")
    assert session.texts()[-1] == "another question"


def test_windows_are_told_and_a_repeat_is_answered(session: Session) -> None:
    session.say("a", "b")
    pending = session.start("context/replaceMessage", messageIndex=0, message=user("c"), requestId="r")
    done = pending.result()
    [told] = [m["params"] for m in pending.heard() if m["method"] == "context/didChange"]
    assert told == at_least({"kind": "reverted", "messageIndex": 0, "removed": done["removed"]})
    again = replace(session, 0, user("c"), requestId="r")
    assert again == {**done, "duplicate": True} and session.texts() == ["c"]


def test_the_same_bytes_change_nothing(session: Session) -> None:
    session.say("a", "b")
    head = session.head
    done = replace(session, 1, user("b"))
    assert (done["head"], session.head, session.timelines()) == (head, head, [])
    assert done["context"]["canUndo"] == 0


@pytest.mark.parametrize("index", [2, 50])
def test_there_has_to_be_a_message(session: Session, index: int) -> None:
    session.say("a", "b")
    error = session.refuse("context/replaceMessage", messageIndex=index, message=user("x"))
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["messageIndex"])
    assert session.texts() == ["a", "b"]


@pytest.mark.parametrize("message", [{"content": "x"}, {"role": "_x", "content": ""}, {"role": "user", "content": 5}])
def test_a_bad_message_is_refused_as_in_an_append(session: Session, message: Message) -> None:
    session.say("a")
    error = session.refuse("context/replaceMessage", messageIndex=0, message=message)
    assert error["code"] == -32602 and error["data"]["errors"][0]["loc"][0] == "message"


def test_a_stale_head_changes_nothing(session: Session) -> None:
    session.say("a")
    stale = session.head
    session.say("b")
    for dry in (True, False):
        params = {"messageIndex": 0, "message": user("x"), "expectedHead": stale, "dryRun": dry}
        assert session.refuse("context/replaceMessage", **params)["code"] == -32801


def test_a_result_takes_the_place_of_a_result(session: Session) -> None:
    session.append(user("go"), calling("a", "b"), result("a"), result("b"), user("end"))
    done = replace(session, 3, result("b", "other"))
    assert "toolExchange" not in done and session.history()[-1] == result("b", "other")
    done = replace(session, 2, result("a", "other"))
    assert done["toolExchange"] == {"index": 1, "openCalls": ["b"], "healed": False}
    error = session.refuse("context/replaceMessage", messageIndex=2, message=result("c"))
    assert error["code"] == -32602 and "no tool call c waits" in error["message"]


def test_amid_an_exchange_it_says_so_or_heals(session: Session) -> None:
    session.append(user("go"), calling("a"), result("a"), user("end"))
    told = replace(session, 2, user("stop"), dryRun=True)
    assert told["toolExchange"] == {"index": 1, "openCalls": ["a"], "healed": False}
    done = replace(session, 2, user("stop"), heal=True)
    assert (done["firstIndex"], done["toolExchange"]["healed"], session.texts()) == (1, True, ["go", "stop"])
    for form in ("openai", "anthropic"):
        losses = session.call("context/getHistory", format=form)["losses"]
        assert not {"openCall", "orphanResult", "order"} & {loss["kind"] for loss in losses}


# Two sessions side by side


def point(session: Session | None = None, **place: Any) -> Message:
    return {**place, **({} if session is None else {"sessionId": session.id})}


def test_two_forks_have_their_past_in_common(session: Session, shared: Server) -> None:
    session.say(*(f"m{number}" for number in range(6)))
    made = session.checkpoint()
    fork = Session(shared, session.call("session/fork", checkpointUid=made["uid"]))
    session.say("here")
    fork.say("there", "and on")
    found = session.call("context/diff", **{"from": point()}, to=point(fork))
    assert (found["common"], found["removedCount"], found["addedCount"]) == (6, 1, 2)
    assert [entry["message"]["content"] for entry in found["added"]] == ["there", "and on"]
    turned = session.call("context/diff", **{"from": point(fork)}, to=point())
    assert (turned["common"], turned["removed"], turned["added"]) == (6, found["added"], found["removed"])
    fork.call("session/close")
    closed = session.call("context/diff", **{"from": point()}, to=point(fork))
    assert closed == found
    at = session.call("context/diff", **{"from": point()}, to=point(fork, checkpointUid=made["uid"]))
    assert (at["common"], at["addedCount"]) == (6, 0)


def test_pages_go_on_with_the_states_of_the_first(session: Session, shared: Server) -> None:
    other = Session.open(shared)
    session.say("a", "b")
    other.say("c", "d")
    sides = {"from": point(), "to": point(other)}
    page = session.call("context/diff", **sides, limit=1)
    other.say("e")
    texts = []
    while "nextCursor" in page:
        page = session.call("context/diff", **sides, limit=1, cursor=page["nextCursor"])
        texts += [entry["message"]["content"] for entry in (*page["removed"], *page["added"])]
    assert texts == ["b", "c", "d"]
    page = session.call("context/diff", **sides, limit=1)
    other.call("context/clear")
    assert session.refuse("context/diff", **sides, cursor=page["nextCursor"])["code"] == -32801


def test_the_other_session_has_to_be_there(session: Session) -> None:
    for name, code in (("nobody", 4001), ("../x", 4010)):
        error = session.refuse("context/diff", **{"from": {}}, to={"sessionId": name})
        assert error["code"] == code
