"""`context/undo`, `context/redo`, and `context/revertTo` with a message's index: back and forth, step by step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import HEAD, at_least
from tests.support.server import PATIENCE, Message
from tests.support.session import Session, assistant, user

from timeleap.storage.index import index_path


@pytest.fixture
def travelled(session: Session) -> Session:
    """Three messages, reverted to two and to one, and cleared: four states, three steps."""
    session.append(user("one"))
    session.append(assistant("two"))
    session.append(user("three"))
    session.call("context/revertTo", messageIndex=2)
    session.call("context/revertTo", messageIndex=1)
    session.call("context/clear")
    return session


def can(session: Session) -> tuple[int, int]:
    context = session.get_state()["context"]
    return context["canUndo"], context["canRedo"]


def changes(session: Session, kind: str) -> list[Message]:
    told = [m["params"] for m in session.server.received if m.get("method") == "context/didChange"]
    return [params for params in told if (params["sessionId"], params["kind"]) == (session.id, kind)]


# back and forth


def test_each_undo_goes_one_step_further_back_and_redo_forth_again(travelled: Session) -> None:
    assert can(travelled) == (3, 0)
    seen = [travelled.texts()]
    for _ in range(3):
        travelled.call("context/undo")
        seen.append(travelled.texts())
    assert seen == [[], ["one"], ["one", "two"], ["one", "two", "three"]]
    assert can(travelled) == (0, 3)
    for expected in (["one", "two"], ["one"], []):
        travelled.call("context/redo")
        assert travelled.texts() == expected
    assert can(travelled) == (3, 0)


def test_the_result_says_what_revert_says_and_the_steps(travelled: Session) -> None:
    result = travelled.call("context/undo")
    assert result == {
        "head": HEAD,
        "removed": {"messages": -1, "checkpoints": 0, "tokens": 0},
        "context": travelled.get_state()["context"],
        "steps": [{"kind": "clear", "timelineId": "context_3"}],
        "canUndo": 2,
        "canRedo": 1,
    }  # an empty log was set aside, which makes no timeline
    (told,) = changes(travelled, "undone")
    assert told == {
        "sessionId": travelled.id,
        "head": result["head"],
        "kind": "undone",
        "cause": told["cause"],
        "removed": result["removed"],
        "context": result["context"],
    }
    result = travelled.call("context/undo", steps=2)
    assert result["timelineId"] == "context_3"
    assert result["steps"] == [
        {"kind": "revert", "timelineId": "context_2"},
        {"kind": "revert", "timelineId": "context_1"},
    ]
    result = travelled.call("context/redo", steps=3)
    assert [step["kind"] for step in result["steps"]] == ["revert", "revert", "clear"]
    assert "timelineId" not in result["steps"][2]
    assert changes(travelled, "redone")[0]["timelineId"] == result["timelineId"] == "context_1"


def test_several_steps_are_one_change(travelled: Session) -> None:
    told = len(travelled.server.received)
    done = travelled.call("context/undo", steps=3)
    assert travelled.texts() == ["one", "two", "three"]
    assert done["removed"] == {"messages": -3, "checkpoints": 0, "tokens": 0}
    heard = [m for m in travelled.server.received[told:] if m.get("method") == "context/didChange"]
    assert [m["params"]["kind"] for m in heard] == ["undone"]


@pytest.mark.parametrize("direction", ["undo", "redo"])
def test_more_steps_than_there_are_is_refused_and_changes_nothing(travelled: Session, direction: str) -> None:
    before, state = travelled.log_bytes(), travelled.get_state()
    for dry in (None, True):
        error = travelled.refuse(f"context/{direction}", steps=4, **({} if dry is None else {"dryRun": dry}))
        assert error["code"] == 4018
        kind = f"nothingTo{direction.title()}"
        assert error["data"] == {"kind": kind, "retryable": False, "canUndo": 3, "canRedo": 0}
    assert (travelled.log_bytes(), travelled.get_state()) == (before, state)


@pytest.mark.parametrize("steps", [0, -1, 1.5, "1", 1 << 60])
def test_a_number_of_steps_is_a_number_from_one(travelled: Session, steps: Any) -> None:
    assert travelled.refuse("context/undo", steps=steps)["code"] == -32602


def test_a_dry_run_says_where_it_would_lead_and_changes_nothing(travelled: Session) -> None:
    before, state = travelled.log_bytes(), travelled.get_state()
    planned = travelled.call("context/undo", steps=2, dryRun=True)
    assert (travelled.log_bytes(), travelled.get_state()) == (before, state)
    assert planned["head"] == state["head"]
    done = travelled.call("context/undo", steps=2)
    assert planned == {**done, "head": state["head"]}


def test_an_expected_head_counts(travelled: Session) -> None:
    old = travelled.head
    travelled.call("context/undo")
    error = travelled.refuse("context/undo", expectedHead=old)
    assert (error["code"], error["data"]["head"]) == (-32801, travelled.head)
    travelled.call("context/undo", expectedHead=travelled.head)


def test_a_repeat_is_no_second_undo(travelled: Session) -> None:
    first = travelled.call("context/undo", requestId="u")
    again = travelled.call("context/undo", requestId="u")
    assert again == {**first, "duplicate": True}
    assert can(travelled) == (2, 1)
    assert travelled.refuse("context/redo", requestId="u")["code"] == -32602
    travelled.call("context/redo", requestId="r")
    assert travelled.call("context/redo", requestId="r")["duplicate"] is True
    assert can(travelled) == (3, 0)


# what belongs to the stacks


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.say("new"),
        lambda session: session.checkpoint(),
        lambda session: session.call("context/updateTokenCount", tokenCount=5),
        lambda session: session.call("context/setSystemPrompt", systemPrompt="p"),
    ],
    ids=["append", "checkpoint", "token count", "prompt"],
)
def test_any_other_change_of_the_log_ends_redo_and_only_that(
    travelled: Session, change: Callable[[Session], Any]
) -> None:
    travelled.call("context/undo", steps=2)
    change(travelled)
    assert can(travelled) == (1, 0)
    present = travelled.log_bytes()
    done = travelled.call("context/undo")
    assert travelled.texts() == ["one", "two", "three"]
    assert travelled.log_bytes(f"{done['timelineId']}.jsonl") == present
    travelled.call("context/redo")
    assert travelled.log_bytes() == present


def test_state_beside_the_log_ends_nothing(travelled: Session) -> None:
    travelled.call("context/undo")
    travelled.call("session/setTitle", title="T")
    travelled.call("session/setYolo", yolo=True)
    travelled.call("session/reload")
    assert can(travelled) == (2, 1)


def test_every_rewrite_can_be_undone(session: Session) -> None:
    session.checkpoint(label="start")
    session.append(*[user(f"message {number} " + "x" * 400) for number in range(6)])
    states = [session.log_bytes()]

    def step(method: str, **params: Any) -> None:
        session.call(method, **params)
        states.append(session.log_bytes())

    step("context/compact", summary="in short")
    step("context/restoreTimeline", timelineId="context_1")
    session.call("context/sendDMail", checkpointId=0, message="a note")
    step("context/deliverDMail")
    step("context/revertTo", checkpointId=0)
    session.say("something")
    states[-1] = session.log_bytes()
    step("context/clear")
    kinds = []
    for expected in reversed(states[:-1]):
        kinds += [one["kind"] for one in session.call("context/undo")["steps"]]
        assert session.log_bytes() == expected
    assert kinds == ["clear", "revert", "dmail", "restore", "compact"]
    assert session.call("context/redo", steps=5)["canUndo"] == 5
    assert session.log_bytes() == states[-1]


def test_a_step_that_changes_nothing_leaves_the_stacks_as_they_are(session: Session) -> None:
    session.call("context/clear")
    assert can(session) == (0, 0)
    session.say("a")
    session.call("context/revertTo", messageIndex=0)
    session.call("context/undo")
    head, told = session.head, session.call("context/restoreTimeline", timelineId="context_1")
    assert (told["head"], told["timelineId"], told["context"]["canRedo"]) == (head, "context_1", 1)
    assert can(session) == (0, 1)
    assert [one["timelineId"] for one in session.timelines()] == ["context_1"]


# how much is kept


@pytest.mark.long
def test_to_and_fro_sets_nothing_aside_twice_and_prunes_nothing(start: StartServer) -> None:
    server = start(options={"retention": {"maxTimelines": 4}})
    session = Session.open(server, "s")
    session.append(user("one"), user("two"), user("three"))
    session.call("context/revertTo", messageIndex=2)
    session.call("context/revertTo", messageIndex=1)
    ids = set()
    for _ in range(30):
        ids.add(session.call("context/undo")["timelineId"])
        ids.add(session.call("context/redo")["timelineId"])
        session.call("context/undo", steps=2)
        ids.add(session.call("context/redo", steps=2)["timelineId"])
    assert ids == {one["timelineId"] for one in session.timelines()}
    assert len(ids) == 3  # as many as there are different logs
    assert not [m for m in server.received if m.get("method") == "session/warning"]
    assert can(session) == (2, 0)
    files = sorted(path.name for path in session.path.glob("context_*.jsonl"))
    assert files == sorted(f"{name}.jsonl" for name in ids)


def test_a_log_that_was_set_aside_before_is_named_not_kept_twice(session: Session) -> None:
    for _ in range(3):
        session.say("the same")
        done = session.call("context/clear", keepSystemPrompt=False)
        assert done["timelineId"] == "context_1"
    assert len(session.timelines()) == 1
    assert can(session) == (3, 0)
    session.say("the same")
    again = session.call("context/undo")
    assert (again["timelineId"], can(session)) == ("context_1", (2, 0))  # it is what it was: nothing to redo


def test_heads_never_repeat(travelled: Session) -> None:
    heads = [travelled.head]
    for _ in range(5):
        heads.append(travelled.call("context/undo")["head"])
        heads.append(travelled.call("context/redo")["head"])
    assert len(set(heads)) == len(heads)


def test_a_pruned_timeline_ends_the_stack_and_that_is_told(start: StartServer) -> None:
    server = start(options={"retention": {"maxTimelines": 3}})
    session = Session.open(server, "s")
    done: Message = {}
    for number in range(5):
        session.say(str(number))
        done = session.call("context/clear")
    assert done["context"]["canUndo"] == 3
    session.server.call("session/getState", sessionId="s")
    warnings = [m["params"] for m in server.received if m.get("method") == "session/warning"]
    assert {one["kind"] for one in warnings} == {"timelinesPruned"}
    assert "3 steps can be undone" in warnings[-1]["message"]
    assert session.refuse("context/undo", steps=4)["data"] == at_least({"canUndo": 3})
    session.call("session/prune", timelineIds=["context_4"])
    assert can(session) == (1, 0)
    assert session.call("context/undo")["canUndo"] == 0
    assert session.texts() == ["4"]


def full(start: StartServer) -> Session:
    """A session with as many timelines as it may have, and work since."""
    server = start(options={"retention": {"maxTimelines": 3}})
    session = Session.open(server, "s")
    for number in range(3):
        session.say(str(number))
        session.call("context/clear")
    session.say("3")
    return session


def test_at_the_limit_of_timelines_undo_to_and_fro_loses_no_step(start: StartServer) -> None:
    session = full(start)
    for _ in range(3):
        seen = []
        for left in range(2, -1, -1):
            session.call("context/undo")
            seen += session.texts()
            assert can(session) == (left, 3 - left)
        assert seen == ["2", "1", "0"]
        assert session.call("context/redo", steps=2)["canUndo"] == 2
        session.call("context/redo")
        assert (session.texts(), can(session)) == (["3"], (3, 0))
    assert not [m for m in session.server.received if m.get("method") == "session/warning"]


def test_beyond_the_limit_the_oldest_timeline_goes_at_the_next_step(start: StartServer) -> None:
    session = full(start)
    session.call("context/undo")
    session.say("other")
    assert [one["timelineId"] for one in session.timelines()] == [f"context_{number}" for number in (4, 3, 2, 1)]
    session.call("context/clear")
    assert [one["timelineId"] for one in session.timelines()] == [f"context_{number}" for number in (5, 4, 3)]
    (warning,) = [m["params"] for m in session.server.received if m.get("method") == "session/warning"]
    assert (warning["kind"], "1 steps can be undone" in warning["message"]) == ("timelinesPruned", True)
    assert can(session) == (1, 0)


def test_at_the_limit_results_and_dry_runs_say_what_will_be_left(start: StartServer) -> None:
    session = full(start)
    session.checkpoint(label="here")
    session.server.call("session/fork", sessionId=session.id, newSessionId="child", checkpointId=0)
    steps: list[tuple[str, dict[str, Any]]] = [
        ("context/clear", {}),
        ("context/undo", {"steps": 2}),
        ("context/redo", {}),
        ("context/clear", {}),
        ("context/clear", {}),
        ("context/restoreTimeline", {}),
        ("context/clear", {}),
    ]
    for at, (method, more) in enumerate(steps):
        if method == "context/clear":
            session.say(f"work {at}")
        oldest = session.timelines()[-1]["timelineId"]
        params = {"timelineId": oldest} if method == "context/restoreTimeline" else more
        planned = session.call(method, **params, dryRun=True)["context"]
        done = session.call(method, **params)["context"]
        assert planned == done == session.get_state()["context"], (at, method)
        assert done["timelines"] == len(session.timelines())


# what they survive


@pytest.mark.parametrize("lost", [False, True], ids=["", "index lost"])
def test_they_survive_a_restart(start: StartServer, lost: bool) -> None:
    server = start()
    session = Session.open(server, "s")
    session.append(user("one"), user("two"), user("three"))
    session.call("context/revertTo", messageIndex=2)
    session.call("context/revertTo", messageIndex=1)
    session.call("context/undo")
    head = session.head
    server.kill()
    if lost:
        for log in session.path.glob("context*.jsonl"):
            index_path(log).unlink()
    again = Session.open(start(), "s")
    assert (can(again), again.head) == ((1, 1), head)
    assert again.call("context/redo")["canUndo"] == 2
    assert again.texts() == ["one"]
    again.call("context/undo", steps=2)
    assert again.texts() == ["one", "two", "three"]


def test_a_reader_sees_what_can_be_undone(start: StartServer) -> None:
    owner = Session.open(start(), "s")
    owner.append(user("one"), user("two"))
    reader = Session.open(start(), "s", access="readOnly")
    for _ in range(3):
        owner.call("context/revertTo", messageIndex=1)
        owner.call("context/undo")
        owner.call("context/redo")
        owner.call("context/undo")
        deadline = time.monotonic() + PATIENCE
        while (reader.head, can(reader)) != (owner.head, can(owner)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (reader.head, can(reader)) == (owner.head, can(owner))
    assert reader.refuse("context/undo")["data"]["kind"] == "readOnly"


def test_any_window_undoes_and_the_next_owner_knows(start: StartServer) -> None:
    owner = Session.open(start(), "s")
    owner.append(user("one"), user("two"), user("three"))
    window = Session.open(start(), "s")
    assert window.state["access"] == "attached"
    window.call("context/revertTo", messageIndex=2)
    owner.call("context/revertTo", messageIndex=1)
    done = window.call("context/undo", requestId="u")
    assert done["context"] == owner.get_state()["context"]
    owner.server.kill()
    assert window.call("context/redo")["canUndo"] == 2
    assert window.call("context/undo", steps=2)["canRedo"] == 2
    assert window.texts() == ["one", "two", "three"]
    assert window.call("context/undo", requestId="u")["duplicate"] is True


def test_a_fork_has_no_steps_of_its_own(travelled: Session) -> None:
    fork = travelled.server.call("session/fork", sessionId=travelled.id, newSessionId=f"{travelled.id}-fork")
    assert (fork["context"]["canUndo"], fork["context"]["canRedo"]) == (0, 0)


def test_a_redaction_keeps_undo_and_leaves_no_fingerprint(session: Session) -> None:
    session.append(user("the word is swordfish"), user("two"), user("three"))
    session.call("context/revertTo", messageIndex=2)
    session.call("context/revertTo", messageIndex=1)
    session.call("context/undo")
    before = json.loads((session.path / "timeleap.json").read_text())["undo"]
    assert "chain" in json.dumps(before)
    session.call("session/redact", value="swordfish")
    after = json.loads((session.path / "timeleap.json").read_text())["undo"]
    assert "chain" not in json.dumps(after) and "length" not in json.dumps(after)
    assert can(session) == (1, 0)
    session.call("context/undo")
    assert len(session.texts()) == 3 and "swordfish" not in session.log.read_text()


def test_a_session_of_an_earlier_release_can_undo_what_it_noted(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.append(user("one"), user("two"), user("three"))
    session.call("context/revertTo", messageIndex=2)
    session.call("context/revertTo", messageIndex=1)
    server.kill()
    file = session.path / "timeleap.json"
    members = json.loads(file.read_text())
    del members["undo"]
    file.write_text(json.dumps(members))
    again = Session.open(start(), "s")
    assert can(again) == (2, 0)
    assert again.call("context/undo", steps=2)["canRedo"] == 2
    assert again.texts() == ["one", "two", "three"]


@pytest.mark.parametrize(
    "member",
    [
        1,
        [],
        {"undo": 5, "redo": {}},
        {"undo": [{"kind": "revert", "timelineId": "../../x"}]},
        {"undo": [{"kind": "revert", "timelineId": ["context_1"]}, {"kind": 7}]},
        {"undo": [], "redo": [{"kind": "revert"}], "length": -1, "chain": "x"},
        {"undo": [], "next": {"timelineId": "context_1", "length": [], "chain": {}, "stacks": 3}},
        {"undo": [], "duplicate": {"timelineId": "context_1", "equals": "context_1"}},
        {"undo": [], "duplicate": {"timelineId": "context_1", "equals": ""}},
    ],
    ids=str,
)
def test_a_file_that_somebody_wrote_does_no_harm(start: StartServer, member: Any) -> None:
    server = start()
    session = Session.open(server, "s")
    session.say("one")
    session.call("context/clear")
    server.kill()
    file = session.path / "timeleap.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "undo": member}))
    again = Session.open(start(), "s")
    assert can(again) in ((0, 0), (1, 0))
    assert [one["timelineId"] for one in again.timelines()] == ["context_1"]
    again.say("two")
    again.call("context/clear")
    again.call("context/undo")
    assert again.texts() == ["two"]


def test_a_damaged_timeline_is_not_brought_back(travelled: Session) -> None:
    file = travelled.path / "context_3.jsonl"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    before = travelled.log_bytes()
    for params in ({"dryRun": True}, {}):
        assert travelled.refuse("context/undo", **params)["code"] == 4014
    assert (travelled.log_bytes(), can(travelled)) == (before, (3, 0))


# to a message


def test_a_revert_to_a_message_keeps_what_was_before_it_was_written(session: Session) -> None:
    session.call("context/setSystemPrompt", systemPrompt="p")
    session.append(user("a"))
    session.checkpoint(label="here")
    session.call("context/updateTokenCount", tokenCount=7)
    session.append(assistant("b"))
    session.append(user("c"))
    result = session.call("context/revertTo", messageIndex=1)
    assert [record["role"] for record in session.records()] == ["_system_prompt", "user", "_checkpoint", "_usage"]
    assert result["removed"] == {"messages": 2, "checkpoints": 0, "tokens": 0}
    (told,) = changes(session, "reverted")
    assert told["messageIndex"] == 1
    assert "checkpointId" not in told and "checkpointUid" not in told
    assert (told["timelineId"], told["removed"]) == ("context_1", result["removed"])


def test_a_batch_cut_through_at_a_message_loses_its_marks(session: Session) -> None:
    session.append(user("a"), user("b"), user("c"), requestId="batch")
    session.call("context/revertTo", messageIndex=2)
    assert not [line for line in session.lines() if {"b", "i", "n"} & set(line.get("_tl", {}))]
    session.call("session/close")
    again = session.reopen(session.server)
    assert again.texts() == ["a", "b"]
    assert again.append(user("a"), user("b"), user("c"), requestId="batch")["duplicate"] is True


@pytest.mark.parametrize("index", [3, 4, 1 << 40, -1, 0.5, "0"])
def test_an_index_out_of_range_is_refused(session: Session, index: Any) -> None:
    session.append(user("a"), user("b"), user("c"))
    before = session.log_bytes()
    for params in ({}, {"dryRun": True}):
        error = session.refuse("context/revertTo", messageIndex=index, **params)
        assert error["code"] == -32602
        assert [one["loc"] for one in error["data"]["errors"]] == [["messageIndex"]]
    assert session.log_bytes() == before


def test_there_is_one_way_to_say_where(session: Session) -> None:
    session.checkpoint()
    session.say("a")
    for wrong in ({}, {"messageIndex": 0, "checkpointId": 0}, {"messageIndex": 0, "checkpointUid": "c0-1"}):
        error = session.refuse("context/revertTo", **wrong)
        assert (error["code"], "messageIndex" in error["data"]["errors"][0]["msg"]) == (-32602, True)


def test_it_heals_as_other_reverts_do(session: Session) -> None:
    call = {"type": "function", "id": "c1", "function": {"name": "look", "arguments": "{}"}}
    session.append(user("a"))
    session.append({"role": "assistant", "content": "", "tool_calls": [call]})
    session.append({"role": "tool", "tool_call_id": "c1", "content": "x"})
    planned = session.call("context/revertTo", messageIndex=2, dryRun=True)
    assert planned["toolExchange"] == {"index": 1, "openCalls": ["c1"], "healed": False}
    healed = session.call("context/revertTo", messageIndex=2, heal=True)
    assert healed["toolExchange"]["healed"] is True
    assert session.texts() == ["a"]
