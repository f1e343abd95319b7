"""`context/revertTo` and `context/clear`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.matching import HEAD, at_least
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user


@pytest.fixture
def told(session: Session) -> Session:
    """Three turns, each with a checkpoint before it."""
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    for number in range(3):
        session.checkpoint(label=f"turn {number}")
        session.append(user(f"question {number}"), assistant(f"answer {number}"))
        session.call("context/updateTokenCount", tokenCount=10 * (number + 1))
    return session


def test_a_revert_removes_the_checkpoint_and_all_after_it(told: Session) -> None:
    before = told.log_bytes()
    state = told.get_state()
    result = told.call("context/revertTo", checkpointId=1)
    context = told.get_state()["context"]
    assert result == {
        "head": HEAD,
        "timelineId": "context_1",
        "removed": {"messages": 4, "checkpoints": 2, "tokens": 20},
        "context": context,
    }
    assert result["head"] == told.head != state["head"]
    assert context == at_least(
        {"messageCount": 2, "tokenCount": 10, "tokenCountWithPending": 10, "nCheckpoints": 1, "timelines": 1}
    )
    assert context["checkpoints"] == state["context"]["checkpoints"][:1]
    assert told.texts() == ["question 0", "answer 0"]
    after = told.log_bytes()
    assert before.startswith(after)
    assert told.log_bytes("context_1.jsonl") == before


def test_a_revert_by_uid_is_the_same(told: Session) -> None:
    uid = told.get_state()["context"]["checkpoints"][1]["uid"]
    assert told.call("context/revertTo", checkpointUid=uid)["removed"] == {
        "messages": 4,
        "checkpoints": 2,
        "tokens": 20,
    }


def test_a_revert_to_the_first_checkpoint_keeps_what_is_before_it(told: Session) -> None:
    result = told.call("context/revertTo", checkpointId=0)
    assert result["removed"] == {"messages": 6, "checkpoints": 3, "tokens": 30}
    assert told.records() == [at_least({"role": "_system_prompt", "content": "be kind"})]
    assert told.checkpoint()["id"] == 0


def test_ids_start_again_after_a_revert_and_uids_do_not(told: Session) -> None:
    old = told.get_state()["context"]["checkpoints"]
    told.call("context/revertTo", checkpointId=1)
    new = told.checkpoint(label="turn 1")
    assert new["id"] == 1
    assert new["uid"] not in {checkpoint["uid"] for checkpoint in old}
    assert told.refuse("context/revertTo", checkpointUid=old[1]["uid"])["code"] == 4002
    assert told.refuse("context/revertTo", checkpointUid=old[2]["uid"])["code"] == 4002


@pytest.mark.parametrize(
    "params", [{"checkpointId": 3}, {"checkpointId": -1}, {"checkpointId": 2**40}, {"checkpointUid": "x"}]
)
def test_an_unknown_checkpoint_changes_nothing(told: Session, params: dict[str, Any]) -> None:
    before, head = told.log.read_bytes(), told.head
    error = told.refuse("context/revertTo", **params)
    assert (error["code"], error["data"]["kind"]) == (4002, "checkpointNotFound")
    assert told.refuse("context/revertTo", **params, dryRun=True)["code"] == 4002
    assert (told.log.read_bytes(), told.head, told.timelines()) == (before, head, [])


@pytest.mark.parametrize(
    "params", [{}, {"checkpointId": 0, "checkpointUid": "x"}, {"checkpointId": "0"}, {"checkpointId": None}]
)
def test_exactly_one_of_id_and_uid(told: Session, params: dict[str, Any]) -> None:
    assert told.refuse("context/revertTo", **params)["code"] == -32602


def test_a_dry_run_tells_what_would_be_and_changes_nothing(told: Session) -> None:
    before, head, state = told.log.read_bytes(), told.head, told.get_state()
    planned = told.call("context/revertTo", checkpointId=1, dryRun=True)
    assert planned["head"] == head and "timelineId" not in planned
    assert (told.log.read_bytes(), told.get_state()) == (before, state)
    done = told.call("context/revertTo", checkpointId=1)
    assert planned["removed"] == done["removed"]
    assert {**planned["context"], "timelines": 1} == {**done["context"], "timelines": 1}


def test_a_revert_brings_back_the_token_count_of_that_time(session: Session) -> None:
    session.checkpoint()
    session.call("context/updateTokenCount", tokenCount=10)
    session.checkpoint()
    session.call("context/updateTokenCount", tokenCount=4)
    result = session.call("context/revertTo", checkpointId=1)
    assert result["removed"] == {"messages": 0, "checkpoints": 1, "tokens": -6}
    assert session.call("context/revertTo", checkpointId=0)["context"]["tokenCount"] == 0


def test_pending_tokens_after_a_revert_are_those_of_what_is_left(session: Session) -> None:
    session.say("x" * 40)
    session.checkpoint()
    session.say("y" * 4000)
    assert session.call("context/revertTo", checkpointId=0)["context"]["tokenCountWithPending"] == 10


def test_clear_keeps_the_system_prompt_unless_told_otherwise(told: Session) -> None:
    before = told.log.read_bytes()
    result = told.call("context/clear")
    context: Message = {
        "messageCount": 0,
        "tokenCount": 0,
        "tokenCountWithPending": 0,
        "nCheckpoints": 0,
        "checkpoints": [],
        "checkpointsOmitted": 0,
        "systemPrompt": "be kind",
        "logBytes": told.log.stat().st_size,
        "timelines": 1,
        "canUndo": 1,
        "canRedo": 0,
        "shouldCompact": False,
    }
    assert result == {
        "head": HEAD,
        "timelineId": "context_1",
        "removed": {"messages": 6, "checkpoints": 3, "tokens": 30},
        "context": context,
    }
    assert told.records() == [at_least({"role": "_system_prompt", "content": "be kind"})]
    assert (told.path / "context_1.jsonl").read_bytes() == before
    result = told.call("context/clear", keepSystemPrompt=False)
    assert (result["context"]["systemPrompt"], result["context"]["logBytes"], result["timelineId"]) == (
        None,
        0,
        "context_2",
    )
    assert told.log.read_bytes() == b""


def test_a_dry_clear_changes_nothing(told: Session) -> None:
    before, state = told.log.read_bytes(), told.get_state()
    planned = told.call("context/clear", dryRun=True)
    assert planned["removed"] == {"messages": 6, "checkpoints": 3, "tokens": 30} and "timelineId" not in planned
    assert planned["context"]["systemPrompt"] == "be kind"
    assert (told.log.read_bytes(), told.get_state()) == (before, state)


def test_the_session_goes_on_after_revert_and_clear(told: Session) -> None:
    told.call("context/revertTo", checkpointId=2)
    told.say("other question")
    told.call("context/clear")
    told.say("fresh")
    told.checkpoint()
    told.say("more")
    told.call("context/revertTo", checkpointId=0)
    assert told.texts() == ["fresh"]
    assert [timeline["timelineId"] for timeline in told.timelines()] == ["context_3", "context_2", "context_1"]


def test_the_marks_of_a_batch_cut_by_a_revert_do_no_harm(session: Session) -> None:
    session.append(user("a"), user("b"), user("c"))
    session.checkpoint()
    session.append(user("d"), user("e"))
    session.call("context/revertTo", checkpointId=0)
    session.call("session/close")
    assert session.reopen(session.server).texts() == ["a", "b", "c"]


def test_ids_of_a_log_of_the_original_with_gaps_and_repeats_find_the_first(server: Server) -> None:
    session = Session.open(server)
    session.call("session/close")
    lines = [
        b'{"role": "_checkpoint", "id": %d}\n{"role": "user", "content": "%d"}\n' % (i, n)
        for n, i in enumerate([0, 5, 5, 2])
    ]
    session.log.write_bytes(b"".join(lines))
    again = session.reopen(server)
    assert again.get_state()["context"]["nCheckpoints"] == 3
    assert again.refuse("context/revertTo", checkpointId=1)["code"] == 4002
    again.call("context/revertTo", checkpointId=5)
    assert again.texts() == ["0"]


def test_repeated_reverts_and_restores_lose_nothing(told: Session) -> None:
    original = told.log.read_bytes()
    for _ in range(5):
        timeline = told.call("context/revertTo", checkpointId=1)["timelineId"]
        told.say("elsewhere")
        told.call("context/restoreTimeline", timelineId=timeline)
        assert told.log.read_bytes() == original
    assert len(told.timelines()) == 2  # one for each of the logs that there were
