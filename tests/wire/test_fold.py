"""`context/fold`: a summary, or nothing, in the place of a range of messages."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.matching import A_STRING, HEAD, at_least, containing
from tests.support.scene import Two
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user

PREFACE = "<system>Previous context has been compacted. Here is the compaction output:</system>"


def calling(*ids: str) -> Message:
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ids]
    return {"role": "assistant", "content": "calling", "tool_calls": calls}


def result(of: str) -> Message:
    return {"role": "tool", "content": f"result of {of}", "tool_call_id": of}


@pytest.fixture
def session(shared: Server) -> Session:
    return Session.open(shared)


@pytest.fixture
def turns(session: Session) -> Session:
    """Five turns, a checkpoint before each, a token count behind each."""
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    for number in range(5):
        session.checkpoint(label=f"turn {number}")
        session.append(user(f"question {number} " + "x" * 400), assistant(f"answer {number} " + "y" * 400))
        session.call("context/updateTokenCount", tokenCount=250 * (number + 1))
    return session


def uids(session: Session) -> list[str]:
    return [entry["uid"] for entry in session.call("context/listCheckpoints", order="asc")["checkpoints"]]


def at(index: int) -> Message:
    return {"messageIndex": index}


def lines(session: Session) -> list[bytes]:
    return session.log_bytes().splitlines()


def sent(session: Session, form: str) -> list[str]:
    """The kinds of what a body of that form cannot say of the history."""
    body = session.call("context/getHistory", format=form)
    return [loss["kind"] for loss in body["losses"]]


# What it puts where


@pytest.mark.parametrize("drop", [False, True])
def test_what_stands_before_and_behind_keeps_its_bytes(turns: Session, drop: bool) -> None:
    before, history, names = lines(turns), turns.history(), uids(turns)
    how: Message = {"drop": True} if drop else {"summary": "All is well."}
    context = turns.get_state()["context"]
    result = turns.call("context/fold", **{"from": at(2)}, to=at(6), **how)
    made = [] if drop else [{"role": "user", "content": [{"type": "text", "text": PREFACE},
                                                         {"type": "text", "text": "All is well."}]}]  # fmt: skip
    assert turns.history() == [*history[:2], *made, *history[6:]]
    after = lines(turns)
    # Of the lines between the first message and the last the checkpoint and the token counts go, too.
    assert after[:6] == before[:6] and after[-len(before[14:]) - 1 : -1] == before[14:]
    assert uids(turns) == [names[0], names[1], *names[3:]]
    remaining = turns.history()
    text = sum(len(part) for message in remaining for part in texts_of(message))
    assert result == {
        "head": HEAD,
        "compacted": True,
        "timelineId": "context_1",
        **({} if drop else {"summary": "All is well."}),
        "removedMessages": 4,
        "preservedMessages": 6,
        "tokenCountBefore": context["tokenCountWithPending"],
        "tokenCountAfter": text // 4,
        "context": turns.get_state()["context"],
        "folded": {"from": 2, "to": 6, "messages": 4},
        **({} if drop else {"summarizer": "caller", "scorecard": at_least({"paths": at_least({"found": 0})})}),
    }
    assert turns.get_state()["context"] == at_least(
        {"tokenCount": text // 4, "tokenCountWithPending": text // 4, "systemPrompt": "be kind"}
    )
    assert turns.timelines()[0] == at_least({"reason": "fold", "timelineId": "context_1"})


def texts_of(message: Message) -> list[str]:
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def test_undo_and_redo_bring_back_every_byte(turns: Session) -> None:
    before = turns.log_bytes()
    turns.call("context/fold", **{"from": at(1)}, to=at(9), summary="In short.")
    folded = turns.log_bytes()
    undone = turns.call("context/undo")
    assert (turns.log_bytes(), undone["steps"]) == (before, [{"kind": "fold", "timelineId": A_STRING}])
    turns.call("context/redo")
    assert turns.log_bytes() == folded


@pytest.mark.parametrize("how", [{"drop": True}, {"summary": "Short."}], ids=["drop", "summary"])
def test_a_dry_run_says_what_would_be(turns: Session, how: Message) -> None:
    before = turns.log_bytes()
    told = turns.call("context/fold", **{"from": at(3)}, to=at(7), dryRun=True, **how)
    assert turns.log_bytes() == before and turns.timelines() == []
    done = turns.call("context/fold", **{"from": at(3)}, to=at(7), **how)
    assert told.pop("head") != done.pop("head") and done.pop("timelineId") == "context_1"
    sizes = [result["context"].pop("logBytes") for result in (told, done)]
    assert told == done and abs(sizes[0] - sizes[1]) < 100


def test_windows_are_told_of_it(turns: Session) -> None:
    pending = turns.start("context/fold", **{"from": at(0)}, to=at(2), drop=True, requestId="r")
    done = pending.result()
    [told] = [m["params"] for m in pending.heard() if m["method"] == "context/didChange"]
    assert told == {
        "sessionId": turns.id,
        "head": done["head"],
        "kind": "folded",
        "cause": at_least({"requestId": "r"}),
        "timelineId": "context_1",
        "removed": {"messages": 2, "checkpoints": 0, "tokens": 1250 - done["tokenCountAfter"]},
        "folded": done["folded"],
        "context": done["context"],
    }
    again = turns.call("context/fold", **{"from": at(0)}, to=at(2), drop=True, requestId="r")
    assert again == {**done, "duplicate": True}


def test_request_ids_behind_a_fold_are_still_known(session: Session) -> None:
    session.say("a", "b")
    first = session.append(user("c"), user("d"), requestId="batch")
    marked = session.call("context/checkpoint", requestId="mark")
    session.call("context/fold", **{"from": at(0)}, to=at(1), drop=True)
    for _ in range(2):
        again = session.append(user("c"), user("d"), requestId="batch")
        assert again == {**first, "duplicate": True, "head": session.head}
        assert session.call("context/checkpoint", requestId="mark")["checkpoint"] == marked["checkpoint"]
        session = session.reopen(session.server)
    assert session.texts() == ["b", "c", "d"]


def test_a_batch_that_is_cut_through_is_no_torn_one(session: Session, shared: Server) -> None:
    session.append(*[user(f"m{number}") for number in range(6)])
    session.append(*[user(f"n{number}") for number in range(3)])
    session.call("context/fold", **{"from": at(2)}, to=at(4), drop=True)
    expected = ["m0", "m1", "m4", "m5", "n0", "n1", "n2"]
    assert session.texts() == expected
    session.call("session/close")
    assert session.reopen(shared).texts() == expected
    assert session.call("session/verify")["ok"] is True


def test_checkpoints_at_the_ends_stay_and_those_between_go(turns: Session) -> None:
    names = uids(turns)
    done = turns.call(
        "context/fold", **{"from": {"checkpointUid": names[1]}}, to={"checkpointUid": names[3]}, drop=True
    )
    assert (uids(turns), done["folded"]) == (
        [names[0], names[1], names[3], names[4]],
        {"from": 2, "to": 6, "messages": 4},
    )
    turns.call("context/revertTo", checkpointUid=names[3])
    assert len(turns.history()) == 2


def test_checkpoints_of_the_original_program_keep_their_uids(session: Session, shared: Server) -> None:
    session.say("a", "b")
    session.call("session/close")
    session.put_log(session.log_bytes() + b'{"role": "_checkpoint", "id": 0}\n{"role":"user","content":"c"}\n')
    session = session.reopen(shared)
    [name] = uids(session)
    session.call("context/fold", **{"from": at(0)}, to=at(1), drop=True)
    assert uids(session) == [name]
    session.call("context/undo")
    assert uids(session) == [name] and b"_tl" not in session.log_bytes()


def test_the_system_prompt_stays_and_opaque_records_go(session: Session) -> None:
    session.append(user("a"), {"record": {"role": "_mode", "content": "", "mode": 1}}, user("b"))
    session.call("context/setSystemPrompt", systemPrompt="be brief")
    session.append(user("c"), {"record": {"role": "_mode", "content": "", "mode": 2}}, user("d"))
    session.call("context/fold", **{"from": at(0)}, to=at(3), drop=True)
    assert session.get_state()["context"]["systemPrompt"] == "be brief"
    assert [line["role"] for line in session.lines()] == ["_system_prompt", "_mode", "user", "_usage"]
    assert session.lines()[1]["mode"] == 2


def test_a_pending_dmail_whose_checkpoint_goes_is_dropped_and_told(turns: Session) -> None:
    turns.call("context/sendDMail", checkpointUid=uids(turns)[2], message="x")
    pending = turns.start("context/fold", **{"from": at(2)}, to=at(6), drop=True)
    pending.result()
    told = [(m["params"]["kind"], m["params"].get("pendingDMail")) for m in pending.heard()]
    assert told == [("folded", None), ("dmailChanged", None)]
    assert turns.get_state()["pendingDMail"] is None
    turns.call("context/sendDMail", checkpointUid=uids(turns)[2], message="x")
    turns.call("context/fold", **{"from": at(0)}, to=at(1), drop=True)
    assert turns.get_state()["pendingDMail"] is not None


def test_everything_may_go(turns: Session) -> None:
    turns.call("context/fold", **{"from": at(0)}, to=at(10), drop=True)
    assert turns.history() == [] and turns.get_state()["context"] == at_least({"tokenCount": 0, "canUndo": 1})
    turns.call("context/undo")
    turns.call("context/fold", **{"from": at(0)}, to=at(10), summary="x")
    assert [texts_of(message)[-1] for message in turns.history()] == ["x"]


def test_an_earlier_summary_can_be_folded_again(turns: Session) -> None:
    turns.call("context/compact", summary="First.", maxPreservedMessages=4)
    done = turns.call("context/fold", **{"from": at(0)}, to=at(3), summary="Both.")
    assert [texts_of(message)[-1][:6] for message in turns.history()] == ["Both.", "questi", "answer"]
    assert done["folded"] == {"from": 0, "to": 3, "messages": 3}


# Summaries


def test_the_built_in_summariser_reads_the_range_alone(turns: Session) -> None:
    done = turns.call("context/fold", **{"from": at(2)}, to=at(4), pins=["keep me"], summarizer="builtin")
    assert "question 1" in done["summary"] and "question 0" not in done["summary"]
    assert done == at_least({"summarizer": "builtin", "pins": {"kept": 0, "added": ["keep me"]}})
    assert "keep me" in str(turns.history()[2])


def test_a_summary_that_makes_it_longer_is_not_used(turns: Session) -> None:
    before = turns.log_bytes()
    done = turns.call("context/fold", **{"from": at(2)}, to=at(4), summary="x" * 50_000)
    assert done == at_least(
        {"compacted": False, "reason": containing("longer"), "folded": {"from": 2, "to": 4, "messages": 2}}
    )
    assert turns.log_bytes() == before


def test_a_client_that_cannot_summarise_is_no_summariser(turns: Session) -> None:
    error = turns.refuse("context/fold", **{"from": at(2)}, to=at(4), summarizer="client")
    assert error["code"] == 4006 and turns.timelines() == []


# Tool calls


@pytest.mark.parametrize(
    ("start", "stop", "widened"),
    [
        *((2, 3, (1, 4)), (3, 4, (1, 4)), (1, 2, (1, 4)), (0, 2, (0, 4)), (0, 1, (0, 1)), (1, 4, (1, 4))),
        *((4, 6, (4, 7)), (3, 6, (1, 7)), (6, 8, (5, 8)), (7, 8, (7, 8)), (2, 6, (1, 7))),
    ],
)
def test_a_tool_call_is_never_parted_from_its_result(
    session: Session, start: int, stop: int, widened: tuple[int, int]
) -> None:
    session.append(
        user("go"), calling("a", "b"), result("b"), result("a"), user("and"), calling("a"), result("a"), user("end")
    )
    history = session.history()
    if (start, stop) != widened:
        error = session.refuse("context/fold", **{"from": at(start)}, to=at(stop), drop=True, strict=True)
        assert (error["code"], [bad["loc"] for bad in error["data"]["errors"]]) == (-32602, [["to"]])
        assert f"messages {widened[0]} to {widened[1]}" in error["message"]
    done = session.call("context/fold", **{"from": at(start)}, to=at(stop), drop=True)
    first, end = widened
    assert done["folded"] == {"from": first, "to": end, "messages": end - first}
    assert session.history() == [*history[:first], *history[end:]]
    for form in ("openai", "anthropic"):
        assert not {"openCall", "orphanResult", "order"} & set(sent(session, form))


def test_interleaved_calls_go_together(session: Session) -> None:
    session.append(user("go"), calling("a"), calling("b"), result("a"), result("b"), user("end"))
    done = session.call("context/fold", **{"from": at(4)}, to=at(5), drop=True)
    assert done["folded"] == {"from": 1, "to": 5, "messages": 4}


def test_a_call_that_still_waits_for_its_result_cannot_go(session: Session) -> None:
    session.append(user("go"), calling("a", "b"), result("a"))
    for start, stop in ((1, 2), (2, 3), (0, 3)):
        error = session.refuse("context/fold", **{"from": at(start)}, to=at(stop), drop=True)
        assert error["code"] == -32602 and "still to come (b)" in error["message"]
    session.call("context/fold", **{"from": at(0)}, to=at(1), drop=True)
    session.append(result("b"))
    session.call("context/fold", **{"from": at(0)}, to=at(1), drop=True)
    assert session.history() == []


# Bad input


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"from": at(3), "to": at(3)}, "to"),
        ({"from": at(5), "to": at(3)}, "to"),
        ({"from": at(0), "to": at(11)}, "to"),
        ({"from": at(11), "to": at(12)}, "from"),
        ({"from": at(10), "to": at(10)}, "to"),
        ({"from": at(0), "to": at(2), "summary": "x"}, "drop"),
        ({"from": at(0), "to": at(2), "summarizer": "auto"}, "drop"),
    ],
)
def test_a_bad_range_says_what_is_wrong(turns: Session, params: dict[str, Any], place: str) -> None:
    before = turns.log_bytes()
    error = turns.refuse("context/fold", **{"drop": True, **params})
    assert (error["code"], [bad["loc"] for bad in error["data"]["errors"]]) == (-32602, [[place]])
    assert turns.log_bytes() == before


@pytest.mark.parametrize(
    "place", [{}, {"messageIndex": -1}, {"messageIndex": 0, "checkpointUid": "c0-0"}, {"index": 1}, 3]
)
def test_a_place_is_one_of_two(turns: Session, place: Any) -> None:
    assert turns.refuse("context/fold", **{"from": place}, to=at(2), drop=True)["code"] == -32602
    unknown = {"checkpointUid": "c0-0123456789ab"}
    assert turns.refuse("context/fold", **{"from": unknown}, to=at(2), drop=True)["code"] == 4002


def test_a_stale_head_changes_nothing(turns: Session) -> None:
    stale = turns.head
    turns.say("more")
    for dry in (False, True):
        error = turns.refuse("context/fold", **{"from": at(0)}, to=at(2), drop=True, expectedHead=stale, dryRun=dry)
        assert error["code"] == -32801
    assert turns.timelines() == []


def test_in_the_attached_window_as_in_the_owners(two: Two) -> None:
    two.owner.say("a", "b", "c")
    two.attached.call("context/fold", **{"from": at(1)}, to=at(2), drop=True)
    assert two.owner.texts() == ["a", "c"]
    two.owner.call("context/undo")
    assert two.attached.texts() == ["a", "b", "c"]
