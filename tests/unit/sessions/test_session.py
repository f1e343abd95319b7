"""One open session: what mutators do, in what order, and whom they tell."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.compacting import compact
from tests.support.plain_shapes import PLAIN
from tests.support.turns import until
from tests.unit.sessions.worlds import ANSWER, USER, World, asked, heard, kinds, records, run_child, texts

from timeleap.errors import (
    CheckpointNotFoundError,
    DMailPendingError,
    HeadConflictError,
    InvalidInputError,
    NoPendingDMailError,
    ReadOnlyError,
    TimelineNotFoundError,
)
from timeleap.features.approvals.switches import set_yolo
from timeleap.features.compaction.decisions import CompactionPlan
from timeleap.features.compaction.prepare import summary_message
from timeleap.sessions.documents.warnings import recovered
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause, Event, Mutation


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_append_says_where_the_messages_are_and_what_they_weigh(world: World) -> None:
    session = await world.session()
    told = heard(session)
    await session.append([user("a" * 40)])
    done = await session.append([user("b" * 41), ANSWER], Mutation(cause=Cause(None, "ed")))
    assert done == {
        "head": session.head,
        "firstIndex": 1,
        "messageCount": 3,
        "tokenCountWithPending": (40 + 41 + 14) // 4,
        "shouldCompact": False,
    }
    last = told[-1]
    assert (last.kind, last.members) == ("messagesAppended", {"firstIndex": 1, "count": 2})
    assert (last.head, last.cause.client) == (session.head, "ed")


async def test_nothing_to_append_is_refused(world: World) -> None:
    session = await world.session()
    with pytest.raises(InvalidInputError):
        await session.append([])
    assert session.engine.state.lines == 0


async def test_one_bad_message_keeps_the_whole_batch_out(world: World) -> None:
    session = await world.session()
    told = heard(session)
    with pytest.raises(InvalidInputError):
        await session.append([USER, {"role": "user", "content": "x", "_tl": {}}])
    assert session.engine.state.lines == 0
    assert told == []


async def test_events_come_after_the_record_is_on_disk_and_before_the_method_returns(world: World) -> None:
    session = await world.session()
    seen: list[str] = []
    session.listen(lambda event: seen.append((session.path / "context.jsonl").read_text()))
    await session.append([USER])
    assert len(seen) == 1
    assert "Where is the file?" in seen[0]


async def test_a_listener_that_fails_does_not_undo_anything(world: World, caplog: pytest.LogCaptureFixture) -> None:
    session = await world.session()

    def broken(_: Event) -> None:
        raise RuntimeError("no")

    session.listen(broken)
    told = heard(session)
    await session.append([USER])
    assert kinds(told) == ["messagesAppended"]
    assert "listener" in caplog.text
    assert "Where is the file?" not in caplog.text


async def test_whoever_stops_listening_hears_nothing_more(world: World) -> None:
    session = await world.session()
    told: list[Event] = []
    stop = session.listen(told.append)
    stop()
    stop()
    await session.append([USER])
    assert told == []


async def test_checkpoints_are_numbered_and_described(world: World) -> None:
    session = await world.session()
    told = heard(session)
    await session.append([USER])
    await session.update_token_count(123)
    done = await session.checkpoint("before", True)
    made = done["checkpoint"]
    assert (made["id"], made["label"], made["messageCount"], made["tokenCount"]) == (0, "before", 1, 123)
    assert made["preview"] == "<system>CHECKPOINT 0</system>"
    assert session.find_checkpoint(id=0) == session.find_checkpoint(uid=made["uid"])
    assert session.find_checkpoint(id=0).preview == made["preview"]
    assert kinds(told) == ["messagesAppended", "tokenCountUpdated", "checkpointCreated", "messagesAppended"]
    assert (await session.checkpoint(None, False))["checkpoint"]["id"] == 1
    assert texts(session) == ["Where is the file?", "<system>CHECKPOINT 0</system>"]


async def test_a_preview_has_120_characters(world: World) -> None:
    session = await world.session()
    await session.checkpoint("x", False)
    assert session.find_checkpoint(id=0).preview is None
    await session.append(
        [{"role": "user", "content": [{"type": "text", "text": "é" * 100}, {"type": "text", "text": "z" * 100}]}]
    )
    assert session.find_checkpoint(id=0).preview == "é" * 100 + "z" * 20


async def test_uids_are_never_used_again(world: World) -> None:
    session = await world.session()
    seen = set()
    for _ in range(4):
        seen.add((await session.checkpoint(None, False))["checkpoint"]["uid"])
        await session.revert(checkpoint_id=0)
    assert len(seen) == 4
    assert all(uid.startswith("c0-") for uid in seen)


async def test_records_of_the_original_get_uids_made_of_their_past(world: World) -> None:
    await world.close()
    uids = []
    for past in ("one", "two"):
        folder = world.home.parent / past
        folder.mkdir()
        lines = [{"role": "user", "content": past}, {"role": "_checkpoint", "id": 0}]
        (folder / "context.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for _ in range(2):
            store = await world.restart()
            opened = await store.open(path=folder, access="read")
            uids.append(opened.session.find_checkpoint(id=0).uid)
            for index in folder.glob(".*.idx"):
                index.unlink()
    assert uids[0] == uids[1]
    assert uids[2] == uids[3]
    assert uids[0] != uids[2]
    assert uids[0].startswith("o0-")


async def test_the_system_prompt_of_the_time_comes_back_with_a_revert(world: World) -> None:
    session = await world.session(system_prompt="first")
    await session.checkpoint(None, False)
    done = await session.set_system_prompt("second")
    assert done == {"head": session.head}
    assert session.summary().system_prompt == "second"
    await session.revert(checkpoint_id=0)
    assert session.summary().system_prompt == "first"


async def test_revert_counts_what_it_removes_its_checkpoint_included(world: World) -> None:
    session = await world.session()
    told = heard(session)
    await session.append([USER])
    await session.update_token_count(50)
    first = (await session.checkpoint("a", False))["checkpoint"]
    await session.append([ANSWER, USER])
    await session.update_token_count(90)
    await session.checkpoint("b", False)
    imagined = await session.revert(checkpoint_id=0, dry_run=True)
    done = await session.revert(checkpoint_uid=first["uid"])
    assert done["removed"] == {"messages": 2, "checkpoints": 2, "tokens": 40}
    assert done["timelineId"] == "context_1"
    assert done["context"]["messageCount"] == 1
    assert done["context"]["tokenCount"] == 50
    assert imagined["removed"] == told[-1].members["removed"]
    assert imagined["context"] == told[-1].members["context"]
    event = told[-1]
    assert event.kind == "reverted"
    assert (event.members["checkpointId"], event.members["checkpointUid"]) == (0, first["uid"])
    assert session.engine.timelines()[0].facts.reason == "revert"


@pytest.mark.parametrize("wrong", [{"checkpoint_id": 5}, {"checkpoint_id": -1}, {"checkpoint_uid": "c0-000000000000"}])
async def test_a_revert_to_nowhere_changes_nothing(world: World, wrong: dict[str, Any]) -> None:
    session = await world.session()
    await session.checkpoint(None, False)
    head = session.head
    with pytest.raises(CheckpointNotFoundError):
        await session.revert(**wrong)
    with pytest.raises(CheckpointNotFoundError):
        await session.revert(**wrong, dry_run=True)
    assert session.head == head
    assert session.engine.timelines() == []


async def test_with_two_records_of_one_id_the_first_is_meant_as_in_the_original(world: World) -> None:
    folder = world.home.parent / "foreign"
    folder.mkdir()
    lines = [{"role": "_checkpoint", "id": 0}, user("a"), {"role": "_checkpoint", "id": 0}, user("b")]
    (folder / "context.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    session = (await world.store.open(path=folder, access="write")).session
    found = session.checkpoints(session.engine, 0, 10)
    assert len({one.uid for one in found}) == 2
    assert session.find_checkpoint(uid=found[1].uid) == replace(found[1], summary=None)
    await session.revert(checkpoint_id=0)
    assert texts(session) == []


async def test_clear_keeps_the_system_prompt_if_asked_to(world: World) -> None:
    session = await world.session(system_prompt="you are")
    told = heard(session)
    await session.append([USER])
    await session.checkpoint(None, False)
    imagined = await session.clear(True, dry_run=True)
    done = await session.clear(True)
    assert done["removed"] == {"messages": 1, "checkpoints": 1, "tokens": 0}
    assert records(session) == [{"role": "_system_prompt", "content": "you are"}]
    assert imagined["context"] == told[-1].members["context"]
    await session.clear(False)
    assert records(session) == []
    assert session.summary().system_prompt is None


async def test_a_restore_brings_the_very_bytes_back_and_may_remove_less_than_nothing(world: World) -> None:
    session = await world.session()
    await session.append([USER, ANSWER])
    before = (session.path / "context.jsonl").read_bytes()
    await session.clear(False)
    imagined = await session.restore_timeline("context_1", dry_run=True)
    done = await session.restore_timeline("context_1")
    assert done["removed"] == {"messages": -2, "checkpoints": 0, "tokens": 0}
    assert imagined["removed"]["messages"] == -2
    assert imagined["context"]["messageCount"] == 2
    assert (session.path / "context.jsonl").read_bytes() == before
    assert [one.facts.reason for one in session.engine.timelines()] == ["clear"]  # the empty log makes none
    with pytest.raises(TimelineNotFoundError):
        await session.restore_timeline("context_9")
    with pytest.raises(TimelineNotFoundError):
        await session.restore_timeline("../s2/context", dry_run=True)


async def test_dry_runs_change_nothing_on_disk(world: World) -> None:
    session = await world.session(system_prompt="p")
    await session.append([USER, ANSWER])
    await session.checkpoint("x", False)
    await session.append([USER])
    await session.send_dmail("note", checkpoint_id=0)
    await session.clear()
    await session.restore_timeline("context_1")
    await session.checkpoint("y", False)
    await session.send_dmail("note", checkpoint_id=1)
    before, head = world.tree(), session.head
    await session.revert(checkpoint_id=0, dry_run=True)
    await session.clear(dry_run=True)
    await session.restore_timeline("context_1", dry_run=True)
    outcome = await session.deliver_dmail(dry_run=True)
    plan = CompactionPlan(session.head, 1, summary_message("short"), "short")
    await compact(session, plan, dry_run=True)
    assert "timelineId" not in outcome
    assert outcome["head"] == head == session.head
    assert world.tree() == before


async def test_a_dry_run_tells_what_the_run_then_does(world: World) -> None:
    session = await world.session(system_prompt="p")
    for number in range(60):
        await session.checkpoint(str(number), True)
    told = heard(session)
    imagined = await session.revert(checkpoint_id=55, dry_run=True)
    await session.revert(checkpoint_id=55)
    assert imagined["context"] == told[-1].members["context"] == PLAIN.summary(session.summary())
    assert len(imagined["context"]["checkpoints"]) == 50
    assert imagined["context"]["checkpointsOmitted"] == 5
    assert imagined["context"]["checkpoints"][-1]["id"] == 54


async def test_a_revert_into_the_middle_of_a_batch_survives_a_restart(world: World) -> None:
    session = await world.session(auto_checkpoint="turn")
    await session.append([user("one"), ANSWER, user("two"), ANSWER])
    await session.revert(checkpoint_id=1)
    assert texts(session) == ["one", "In the drawer."]
    session = await world.reopened()
    assert texts(session) == ["one", "In the drawer."]
    assert recovered(session.engine) is None


async def test_every_turn_begins_with_a_checkpoint_if_wanted(world: World) -> None:
    session = await world.session(auto_checkpoint="turn")
    told = heard(session)
    await session.append([user("first  question\nwith lines"), user("and more")])
    await session.append([ANSWER, user("x" * 80), ANSWER])
    found = session.checkpoints(session.engine, 0, 10)
    assert [one.label for one in found] == ["first question with lines", "x" * 59 + "…"]
    assert [one.message_count for one in found] == [0, 3]
    assert kinds(told) == ["checkpointCreated", "messagesAppended", "checkpointCreated", "messagesAppended"]
    assert {event.head for event in told[:2]} == {told[0].head}
    created = told[0]
    first = replace(found[0], summary={"kind": "prompt", "text": "first question with lines", "messages": 2})
    assert (created.kind, created.members) == ("checkpointCreated", {"checkpoint": first.wire()})
    session = await world.reopened()
    assert session.facts.auto_checkpoint == "turn"
    await session.append([user("y")])
    assert session.engine.state.checkpoints == 3
    session = await world.reopened(auto_checkpoint="off")
    await session.append([ANSWER, user("z")])
    assert session.engine.state.checkpoints == 3


async def test_a_stale_expected_head_changes_nothing(world: World) -> None:
    session = await world.session()
    old = session.head
    await session.append([USER])
    with pytest.raises(HeadConflictError) as caught:
        await session.append([USER], Mutation(expected_head=old))
    assert caught.value.data["head"] == session.head
    with pytest.raises(HeadConflictError):
        await session.set_title("t", Mutation(expected_head=old))
    with pytest.raises(HeadConflictError):
        await session.clear(guard=Mutation(expected_head=old))
    with pytest.raises(HeadConflictError):
        await set_yolo(session, True, Mutation(expected_head=old))
    assert session.engine.state.messages == 1
    assert session.facts.title is None
    assert not session.facts.approval.yolo


async def test_of_two_appends_under_way_with_one_expected_head_the_second_fails(world: World) -> None:
    session = await world.session()
    guard = Mutation(expected_head=session.head)
    results = await asyncio.gather(session.append([USER], guard), session.append([USER], guard), return_exceptions=True)
    assert isinstance(results[0], dict)
    assert isinstance(results[1], HeadConflictError)
    assert session.engine.state.messages == 1


async def test_state_changes_leave_the_head_alone(world: World) -> None:
    session = await world.session()
    head = session.head
    await session.set_title("t", Mutation(expected_head=head))
    await set_yolo(session, True, Mutation(expected_head=head))
    await session.put_subagent("a", "b", Mutation(expected_head=head))
    await session.append([USER], Mutation(expected_head=head))


async def test_what_is_asked_for_together_takes_effect_and_is_told_in_order(world: World) -> None:
    session = await world.session()
    told = heard(session)
    await asyncio.gather(
        session.append([user("1")]),
        session.checkpoint("c", False),
        session.set_title("t"),
        session.append([user("2")]),
        session.revert(checkpoint_id=0),
        session.append([user("3")]),
        session.archive(),
        session.append([user("4")]),
    )
    assert texts(session) == ["1", "3", "4"]
    assert kinds(told) == [
        "messagesAppended",
        "checkpointCreated",
        "titleChanged",
        "messagesAppended",
        "reverted",
        "messagesAppended",
        "archived",
        "messagesAppended",
    ]


async def test_a_request_cancelled_before_its_turn_does_nothing(world: World) -> None:
    session = await world.session()
    told = heard(session)
    gate = asyncio.Event()

    async def hold(_: object) -> None:
        await gate.wait()

    holding = asyncio.create_task(session.engine.run(hold))
    await asyncio.sleep(0)
    attempts = [
        asyncio.create_task(session.append([user("2")], asked("r"))),
        asyncio.create_task(session.clear(guard=asked("c", "context/clear"))),
        asyncio.create_task(session.set_title("t", asked("t", "session/setTitle"))),
    ]
    await asyncio.sleep(0)
    for attempt in attempts:
        attempt.cancel()
    gate.set()
    await holding
    for attempt in attempts:
        with pytest.raises(asyncio.CancelledError):
            await attempt
    assert (texts(session), session.facts.title, told) == ([], None, [])
    assert session.engine.timelines() == []
    assert "duplicate" not in await session.append([user("2")], asked("r"))


async def test_a_request_cancelled_under_way_is_finished_and_returns_its_result(world: World) -> None:
    session = await world.session()
    told = heard(session)
    task = asyncio.create_task(session.set_title("t"))
    while session.facts.title is None and not list(session.path.glob("state.json")):
        await asyncio.sleep(0)
    task.cancel()
    assert await task == {"head": session.head}
    assert session.facts.title == "t"
    assert kinds(told) == ["titleChanged"]


async def test_a_reader_changes_nothing(world: World) -> None:
    await world.session()
    session = await world.reopened(access="read")
    assert session.access == "readOnly"
    for attempt in (
        session.append([USER]),
        session.clear(),
        session.set_title("t"),
        set_yolo(session, True),
        session.send_dmail("x", checkpoint_id=0),
    ):
        with pytest.raises(ReadOnlyError):
            await attempt
    assert await session.at_turn(lambda: session.summary().message_count) == 0


async def test_a_dmail_waits_is_delivered_once_and_leaves_the_note(world: World) -> None:
    session = await world.session()
    told = heard(session)
    await session.append([USER])
    await session.checkpoint("here", False)
    await session.append([ANSWER])
    with pytest.raises(NoPendingDMailError):
        await session.deliver_dmail()
    with pytest.raises(NoPendingDMailError):
        await session.cancel_dmail()
    with pytest.raises(CheckpointNotFoundError):
        await session.send_dmail("note", checkpoint_id=7)
    done = await session.send_dmail("do not </system> open it", checkpoint_id=0)
    assert done["pendingDMail"]["checkpointId"] == 0
    with pytest.raises(DMailPendingError):
        await session.send_dmail("another", checkpoint_id=0)
    session = await world.reopened()
    told = heard(session)
    assert session.facts.pending_dmail is not None
    imagined = await session.deliver_dmail(dry_run=True)
    done = await session.deliver_dmail()
    assert done["removed"] == {"messages": 0, "checkpoints": 0, "tokens": 0}
    assert done["checkpoint"]["id"] == 0
    assert imagined["context"]["messageCount"] == done["context"]["messageCount"] == 2
    note = texts(session)[1]
    assert note.startswith("<system>")
    assert note.endswith("</system>")
    assert note.count("</system>") == 1
    assert "open it" in note
    assert kinds(told) == ["dmailDelivered", "dmailChanged"]
    assert session.facts.pending_dmail is None
    assert (await world.reopened()).facts.pending_dmail is None


async def test_a_revert_that_removes_its_checkpoint_drops_the_dmail(world: World) -> None:
    session = await world.session()
    await session.checkpoint("0", False)
    await session.checkpoint("1", False)
    await session.send_dmail("note", checkpoint_id=1)
    told = heard(session)
    await session.checkpoint("2", False)
    await session.revert(checkpoint_id=2)
    assert session.facts.pending_dmail is not None
    await session.revert(checkpoint_id=1)
    assert session.facts.pending_dmail is None
    assert kinds(told)[-2:] == ["reverted", "dmailChanged"]
    await session.restore_timeline(session.engine.timelines()[0].timeline_id)
    assert session.facts.pending_dmail is None
    assert (await world.reopened()).facts.pending_dmail is None


@pytest.mark.crash
async def test_a_dmail_whose_checkpoint_was_removed_just_before_a_crash_stays_dropped(world: World) -> None:
    session = await world.session()
    await session.checkpoint("0", False)
    await session.send_dmail("note", checkpoint_id=0)
    await world.close()
    assert run_child(CLEAR, str(world.home), failpoints="replace.done=kill", key_file=world.key_file) == -9
    session = await world.reopened()
    assert session.facts.pending_dmail is None
    await session.restore_timeline("context_1")
    assert (await world.reopened()).facts.pending_dmail is None


CLEAR = """
import asyncio, sys
from pathlib import Path
from timeleap.store.store import SessionStore

async def main(home):
    session = (await SessionStore(Path(home)).open("s1")).session
    await session.clear()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_dmail_can_be_taken_back(world: World) -> None:
    session = await world.session()
    await session.checkpoint("0", False)
    await session.send_dmail("note", checkpoint_id=0)
    told = heard(session)
    assert await session.cancel_dmail() == {"head": session.head}
    assert kinds(told) == ["dmailChanged"]
    assert (await world.reopened()).facts.pending_dmail is None


async def compactable(world: World) -> Session:
    session = await world.session(system_prompt="sys")
    for number in range(4):
        await session.checkpoint(str(number), False)
        await session.append(
            [user(f"question {number} " + "q" * 400), {"role": "assistant", "content": f"answer {number}"}]
        )
    await session.update_token_count(5000)
    return session


async def test_compaction_writes_the_log_the_contract_names(world: World) -> None:
    session = await compactable(world)
    told = heard(session)
    last = (await session.append([user("and now?")], asked("r1")))["firstIndex"]
    plan = CompactionPlan(session.head, last - 1, summary_message("we talked"), "we talked")
    imagined = await compact(session, plan, dry_run=True)
    done = await compact(session, plan)
    assert [record["role"] for record in records(session)] == [
        "_system_prompt",
        "_checkpoint",
        "user",
        "assistant",
        "user",
        "_usage",
    ]
    assert records(session)[2]["content"][0]["text"].startswith("<system>Previous context has been compacted.")
    assert records(session)[-2] == user("and now?")
    assert b'"_tl"' not in session.engine.read(4, 5)[0]
    made = session.find_checkpoint(id=0)
    assert made.label == "compacted"
    assert session.summary().n_checkpoints == 1
    assert done["compacted"] is True
    assert (done["removedMessages"], done["preservedMessages"]) == (7, 2)
    assert done["tokenCountBefore"] == 5002
    assert done["tokenCountAfter"] == session.engine.state.token_count == imagined["tokenCountAfter"]
    assert imagined["context"]["messageCount"] == done["context"]["messageCount"] == 3
    assert kinds(told) == ["messagesAppended", "compacted"]
    assert session.engine.timelines()[0].facts.reason == "compact"


async def test_what_was_appended_while_the_summary_was_made_is_preserved(world: World) -> None:
    session = await compactable(world)
    plan = CompactionPlan(session.head, 6, summary_message("s"), "s")
    await session.append([user("meanwhile")])
    await compact(session, plan)
    assert texts(session)[1:] == ["question 3 " + "q" * 400, "answer 3", "meanwhile"]


async def test_a_rewrite_while_the_summary_was_made_refuses_it(world: World) -> None:
    session = await compactable(world)
    plan = CompactionPlan(session.head, 6, summary_message("s"), "s")
    await session.revert(checkpoint_id=3)
    head = session.head
    with pytest.raises(HeadConflictError) as caught:
        await compact(session, plan)
    assert caught.value.data["head"] == head == session.head


async def test_a_summary_that_makes_it_longer_is_refused(world: World) -> None:
    session = await world.session()
    await session.append([user("a"), ANSWER])
    head = session.head
    plan = CompactionPlan(head, 1, summary_message("s" * 1000), "s" * 1000)
    assert (await compact(session, plan, dry_run=True))["compacted"] is False
    done = await compact(session, plan, asked("r", "context/compact"))
    assert done["compacted"] is False
    assert "longer" in done["reason"]
    assert session.head == head
    assert session.engine.timelines() == []
    nothing = await compact(session, CompactionPlan(head, 0, summary_message("s"), "s"))
    assert nothing["compacted"] is False
    assert (await compact(session, plan, asked("r", "context/compact")))["duplicate"] is True


async def test_subagents_keep_their_order_and_are_where_the_original_looks(world: World) -> None:
    session = await world.session()
    told = heard(session)
    await session.put_subagent("zoe", "1")
    await session.put_subagent("adam", "2")
    done = await session.put_subagent("zoe", "3")
    assert [(one["name"], one["systemPrompt"]) for one in done["dynamicSubagents"]] == [("zoe", "3"), ("adam", "2")]
    assert world.json("state.json")["dynamic_subagents"] == [
        {"name": "zoe", "system_prompt": "3"},
        {"name": "adam", "system_prompt": "2"},
    ]
    await session.remove_subagent("nobody")
    assert kinds(told) == ["subagentsChanged"] * 3
    await session.remove_subagent("zoe")
    # Newer releases of the original drop the field when they save.
    state = world.json("state.json")
    del state["dynamic_subagents"]
    world.put_json("state.json", state)
    session = await world.reopened()
    assert [one.name for one in session.facts.subagents] == ["adam"]


async def test_title_and_archive_flag_are_where_the_original_looks(world: World) -> None:
    session = await world.session(title="old")
    assert session.facts.title == "old"
    told = heard(session)
    await session.set_title("neu ☃")
    await session.archive()
    state = world.json("state.json")
    assert state["custom_title"] == "neu ☃"
    assert state["archived"] is True
    assert state["archived_at"] > 1_700_000_000
    await session.unarchive()
    state = world.json("state.json")
    assert (state["archived"], state["archived_at"]) == (False, None)
    assert kinds(told) == ["titleChanged", "archived", "unarchived"]


async def test_what_other_programs_write_into_the_state_meanwhile_is_kept(world: World) -> None:
    session = await world.session()
    await session.set_title("mine")
    state = world.json("state.json")
    world.put_json(
        "state.json", {**state, "custom_title": "theirs", "todos": [{"title": "t", "status": "pending"}], "new": 1}
    )
    await session.archive()
    state = world.json("state.json")
    assert state["custom_title"] == "theirs"
    assert state["todos"] == [{"title": "t", "status": "pending"}]
    assert state["new"] == 1
    assert state["archived"] is True


async def test_a_log_changed_by_a_program_that_takes_no_lock_is_taken_over_by_reload(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    told = heard(session)
    log = session.path / "context.jsonl"
    with log.open("a") as file:
        file.write(json.dumps(ANSWER) + "\n")
    await until(lambda: told)
    assert kinds(told) == ["external"]
    head = session.head
    await session.reload()
    assert session.head != head
    assert texts(session) == ["Where is the file?", "In the drawer."]
    await session.append([USER])


async def test_a_torn_tail_is_reported(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    await world.close()
    with (world.path() / "context.jsonl").open("a") as file:
        file.write('{"role": "user", "conte')
    session = await world.reopened()
    event = recovered(session.engine)
    assert event is not None
    assert event.members["cutBytes"] == 23
    assert event.members["quarantined"][0]["reason"] == "tornTail"
    assert [one["kind"] for one in session.warnings] == ["recovered"]


async def test_repair_takes_damaged_lines_out_and_keeps_them_in_a_timeline(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    await world.close()
    log = world.path() / "context.jsonl"
    log.write_bytes(b"not json\n" + log.read_bytes())
    session = await world.reopened()
    assert [one["kind"] for one in session.warnings] == ["damagedRecord"]
    told = heard(session)
    done = await session.repair()
    assert done["removedLines"] == 1
    assert kinds(told)[-1] == "external"
    assert session.warnings == []
    assert records(session) == [USER]
    assert (session.path / f"{done['timelineId']}.jsonl").read_bytes().startswith(b"not json\n")


async def test_a_negative_token_count_is_refused(world: World) -> None:
    session = await world.session()
    with pytest.raises(InvalidInputError, match="-1"):
        await session.update_token_count(-1)
    assert session.engine.state.lines == 0


async def test_the_summary_shows_the_newest_50_checkpoints(world: World) -> None:
    session = await world.session()
    for number in range(53):
        await session.checkpoint(str(number), False)
    summary = session.summary()
    assert [one.label for one in summary.checkpoints] == [str(number) for number in range(3, 53)]
    assert summary.checkpoints_omitted == 3
    assert summary.n_checkpoints == 53
    newest = session.checkpoints(session.engine, 52, 2, newest_first=True)
    assert [one.id for one in newest] == [52, 51]
    assert session.checkpoints(session.engine, 99, 2) == []


async def test_a_session_without_its_log_but_with_timelines_opens_and_says_so(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    await session.clear()
    await world.close()
    (world.path() / "context.jsonl").unlink()
    session = await world.reopened()
    assert [one["kind"] for one in session.warnings] == ["logMissing"]
    await session.restore_timeline("context_1")
    assert texts(session) == ["Where is the file?"]
    assert session.warnings == []


async def test_the_head_survives_a_restart_and_the_loss_of_the_index(world: World, tmp_path: Path) -> None:
    session = await world.session()
    await session.append([USER])
    await session.clear()
    await session.append([USER])
    head = session.head
    session = await world.reopened()
    assert session.head == head
    await world.close()
    for index in world.path().glob(".*.idx"):
        index.unlink()
    assert (await world.reopened()).head == head
