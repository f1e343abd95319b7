"""Request ids: a mutating request can be sent again, whatever happened to its reply (G8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.compacting import compact
from tests.support.mostly_long import mostly_long
from tests.support.plain_shapes import PLAIN
from tests.unit.sessions.worlds import ANSWER, USER, World, asked, heard, run_child, texts

from timeleap.errors import HeadConflictError, InvalidInputError
from timeleap.features.approvals.switches import set_yolo
from timeleap.features.compaction.decisions import CompactionPlan
from timeleap.features.compaction.prepare import summary_message
from timeleap.service import paging
from timeleap.sessions import request_table
from timeleap.sessions.appends import submit
from timeleap.sessions.documents.request_file import REMEMBERED, RequestFile
from timeleap.sessions.kernel.append_records import decide_usage
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation
from timeleap.storage.log_values import LogState

Call = Callable[[Session, Mutation], Awaitable[dict[str, Any]]]

MUTATORS: dict[str, Call] = {
    "context/appendMessage": lambda s, g: s.append([USER, ANSWER, USER], g),
    "context/updateTokenCount": lambda s, g: s.update_token_count(7, g),
    "context/setSystemPrompt": lambda s, g: s.set_system_prompt("p", g),
    "context/checkpoint": lambda s, g: s.checkpoint("c", True, g),
    "context/revertTo": lambda s, g: s.revert(checkpoint_id=1, guard=g),
    "context/clear": lambda s, g: s.clear(True, g),
    "context/restoreTimeline": lambda s, g: s.restore_timeline("context_1", g),
    "context/compact": lambda s, g: compact(
        s, CompactionPlan(s.head, s.engine.state.messages - 1, summary_message("s"), "s"), g
    ),
    "context/sendDMail": lambda s, g: s.send_dmail("note", checkpoint_id=1, guard=g),
    "context/cancelDMail": lambda s, g: s.cancel_dmail(g),
    "context/deliverDMail": lambda s, g: s.deliver_dmail(g),
    "session/setYolo": lambda s, g: set_yolo(s, True, g),
    "session/setTitle": lambda s, g: s.set_title("t", g),
    "session/putSubagent": lambda s, g: s.put_subagent("a", "b", g),
    "session/archive": lambda s, g: s.archive(g),
}
WAITING = {"context/cancelDMail", "context/deliverDMail"}


async def prepared(world: World, method: str) -> Session:
    """A session on which every mutator works: checkpoints 0 and 1, a timeline, a token count."""
    session = await world.session()
    await session.append([USER])
    await session.clear()
    for number in range(2):
        await session.checkpoint(str(number), False)
        await session.append([{"role": "user", "content": "a long question " * 30}])
    await session.update_token_count(900)
    if method in WAITING:
        await session.send_dmail("note", checkpoint_id=1)
    return session


def facts(session: Session) -> Any:
    engine = session.engine
    return (
        engine.read(0, engine.state.lines),
        len(engine.timelines()),
        session.facts.title,
        session.facts.archived,
        session.facts.subagents,
        session.facts.pending_dmail,
        session.facts.approval,
    )


def plain(result: dict[str, Any]) -> Any:
    """A result as JSON gives it back, without what a repeat may change."""
    return {key: value for key, value in json.loads(json.dumps(result)).items() if key not in ("head", "duplicate")}


@pytest.mark.parametrize("method", MUTATORS)
async def test_a_repeat_is_answered_and_not_done_again(world: World, method: str) -> None:
    session = await prepared(world, method)
    call = MUTATORS[method]
    first = await call(session, asked("r1", method, expected_head=session.head))
    assert "duplicate" not in first
    after, told = facts(session), heard(session)
    again = await call(session, asked("r1", method, expected_head="stale"))
    assert again == {**again, "duplicate": True, "head": session.head}
    assert plain(again) == plain(first)
    assert facts(session) == after
    assert told == []


@pytest.mark.parametrize("method", MUTATORS)
async def test_a_repeat_after_a_restart_is_answered_the_same(world: World, method: str) -> None:
    session = await prepared(world, method)
    call = MUTATORS[method]
    first = await call(session, asked("r1", method))
    after = facts(session)
    session = await world.reopened()
    again = await call(session, asked("r1", method))
    assert again["duplicate"] is True
    assert again["head"] == session.head
    assert plain(again) == plain(first)
    assert facts(session) == after


@pytest.mark.parametrize("method", MUTATORS)
async def test_the_same_id_for_another_request_is_refused(world: World, method: str) -> None:
    session = await prepared(world, method)
    call = MUTATORS[method]
    await call(session, asked("r1", method, "one"))
    after = facts(session)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="requestId"):
            await call(session, asked("r1", method, "two"))
        assert facts(session) == after
        session = await world.reopened()


async def test_a_failed_request_is_not_remembered(world: World) -> None:
    session = await world.session()
    with pytest.raises(HeadConflictError):
        await session.append([USER], asked("r", expected_head="stale"))
    assert "duplicate" not in await session.append([USER], asked("r"))


async def test_two_of_one_id_under_way_are_done_once(world: World) -> None:
    session = await world.session()
    results = await asyncio.gather(*(session.append([USER], asked("r")) for _ in range(5)))
    assert [one.get("duplicate", False) for one in results] == [False, True, True, True, True]
    assert session.engine.state.messages == 1
    results = await asyncio.gather(*(session.clear(guard=asked("c", "context/clear")) for _ in range(3)))
    assert [one.get("duplicate", False) for one in results] == [False, True, True]
    assert len(session.engine.timelines()) == 1


async def test_the_second_of_one_id_is_done_if_the_first_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await world.session()
    from timeleap.storage import durable

    durable.arm("append.before_write@1=raise:ENOSPC")
    try:
        results = await asyncio.gather(
            session.append([USER], asked("r")), session.append([USER], asked("r")), return_exceptions=True
        )
    finally:
        durable.arm("")
    assert isinstance(results[0], OSError)
    assert isinstance(results[1], dict)
    assert session.engine.state.messages == 1


def told(session: Session, request: Mutation, tokens: int = 7) -> list[Any]:
    """The end of an append that no coroutine waits for."""
    ends: list[Any] = []
    decide = partial(decide_usage, tokens)
    assert submit(session.transactions, decide, request, lambda result, error: ends.append(error or result))
    return ends


async def test_of_two_told_appends_of_one_id_the_second_gets_the_answer_of_the_first(world: World) -> None:
    session = await world.session()
    request = asked("r", "context/updateTokenCount")
    ends = [told(session, request), told(session, request)]
    await session.at_turn(lambda: None)
    await session.at_turn(lambda: None)
    (first,), (second,) = ends
    assert second == {**first, "duplicate": True}
    assert session.engine.state.usages == 1
    other = told(session, asked("r", "context/updateTokenCount", "other"))
    await session.at_turn(lambda: None)
    assert isinstance(other[0], InvalidInputError)


async def test_a_told_append_that_waited_for_another_of_its_id_is_refused_after_the_end(world: World) -> None:
    session = await world.session()
    request = asked("r", "context/updateTokenCount")
    first, second = told(session, request), told(session, request)
    session.transactions.closed = True
    await session.engine.at_turn(lambda: None)
    session.transactions.closed = False
    assert [type(each[0]).__name__ for each in (first, second)] == ["dict", "SessionNotOpenError"]
    assert session.engine.state.usages == 1


async def test_an_append_that_is_cancelled_while_it_waits_does_nothing_and_its_id_is_free(world: World) -> None:
    session = await world.session()
    gate = asyncio.Event()

    async def job(_: LogState) -> None:
        await gate.wait()

    ahead = asyncio.create_task(session.engine.run(job))
    waiting = asyncio.create_task(session.append([USER], asked("r")))
    await asyncio.sleep(0)
    waiting.cancel()
    gate.set()
    await ahead
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert session.engine.state.messages == 0
    assert "duplicate" not in await session.append([USER], asked("r"))


async def test_ids_of_a_group_whose_write_fails_are_each_tried_alone(world: World) -> None:
    session = await world.session()
    from timeleap.storage import durable

    durable.arm("append.before_write@1=raise:ENOSPC")
    try:
        results = await asyncio.gather(*(session.append([USER], asked(f"r{n}")) for n in range(3)))
    finally:
        durable.arm("")
    assert [one.get("duplicate", False) for one in results] == [False, False, False]
    assert session.engine.state.messages == 3


async def test_ids_of_removed_records_are_still_known(world: World) -> None:
    session = await world.session(auto_checkpoint="turn")
    first = await session.append([USER, ANSWER, USER], asked("kept"))
    gone = await session.append([ANSWER, ANSWER], asked("gone"))
    await session.revert(checkpoint_id=1)
    for restart in (False, True, True):
        if restart:
            session = await world.reopened()
        assert plain(await session.append([], asked("kept"))) == plain(first)
        assert plain(await session.append([], asked("gone"))) == plain(gone)
        await session.clear()
    assert texts(session) == []


async def test_a_table_that_was_loaded_follows_the_records_through_a_rewrite(world: World) -> None:
    session = await world.session()
    await session.checkpoint("c", False)
    first = await session.append([USER, ANSWER], asked("gone"))
    session = await world.reopened()
    await session.update_token_count(5, asked("loads the table", "context/updateTokenCount"))
    await session.revert(checkpoint_id=0)
    for _ in range(4):
        await session.update_token_count(7)
    assert plain(await session.append([], asked("gone"))) == plain(first)


async def test_a_checkpoint_before_what_is_delivered_is_shown_the_same_when_asked_again(world: World) -> None:
    session = await world.session()
    await session.checkpoint("here", False)
    made = await session.checkpoint("there", False)
    await session.send_dmail("Look in the drawer.", checkpoint_uid=made["checkpoint"]["uid"])
    first = await session.deliver_dmail(guard=asked("r", "context/deliverDMail"))
    assert first["context"]["checkpoints"][0]["preview"]
    session = await world.reopened()
    assert plain(await session.deliver_dmail(guard=asked("r", "context/deliverDMail"))) == plain(first)


@pytest.mark.parametrize(
    ("where", "back"),
    [
        ("a batch that is cut through loses its marks", {"message_index": 1}),
        ("damaged lines are left out, and uids of the original's checkpoints change", {"checkpoint_id": 1}),
    ],
)
async def test_an_answer_made_again_tells_of_the_log_as_it_became(world: World, where: str, back: Any) -> None:
    if "damaged" in where:
        lines = (USER, {"role": "_checkpoint", "id": 0}, ANSWER, {"role": "_checkpoint", "id": 1}, USER)
        world.path().mkdir(parents=True)
        log = "".join(json.dumps(one) + "\n" for one in lines)
        (world.path() / "context.jsonl").write_text("{damaged\n" + log)
    session = await world.session()
    if "batch" in where:
        await session.append([USER, ANSWER, USER])
    events = heard(session)
    first = await session.revert(**back, guard=asked("r1", "context/revertTo"))
    shown = session.summary()
    assert first["context"] == PLAIN.summary(shown)
    told = [one.members["context"] for one in events if "removed" in one.members]
    assert told == [PLAIN.summary(shown)]
    for reopened in (False, True):
        session = await world.reopened() if reopened else session
        again = await session.revert(**back, guard=asked("r1", "context/revertTo"))
        assert plain(again) == plain(first)


async def test_an_id_reaches_from_one_mutator_into_the_rewrite_behind_it(world: World) -> None:
    session = await world.session()
    results = await asyncio.gather(
        session.append([USER], asked("a")),
        session.clear(guard=asked("b", "context/clear")),
        session.append([USER], asked("a")),
        session.clear(guard=asked("b", "context/clear")),
    )
    assert [one.get("duplicate", False) for one in results] == [False, False, True, True]
    session = await world.reopened()
    assert (await session.append([USER], asked("a")))["duplicate"] is True
    assert texts(session) == []


async def test_the_last_thousand_are_remembered(world: World) -> None:
    session = await world.session()
    await asyncio.gather(*(session.append([USER], asked(f"r{n}")) for n in range(REMEMBERED + 5)))
    session = await world.reopened()
    assert (await session.append([USER], asked("r5")))["duplicate"] is True
    assert "duplicate" not in await session.append([USER], asked("r4"))


async def test_the_file_of_ids_is_bounded(tmp_path: Path) -> None:
    file = RequestFile(tmp_path)
    for start in range(0, 4000, 500):
        file.append([{"r": f"r{n}", "h": "f", "m": "clear", "v": {"head": "x"}} for n in range(start, start + 500)])
        assert len(file.path.read_text().splitlines()) <= 2 * REMEMBERED
    again = RequestFile(tmp_path)
    assert again.read()[-1].request_id == "r3999"
    assert len(again.numbers()) >= REMEMBERED


async def test_damaged_lines_in_the_file_of_ids_cost_only_themselves(world: World) -> None:
    session = await world.session()
    await session.set_title("a", asked("one", "session/setTitle"))
    await session.set_title("b", asked("two", "session/setTitle"))
    await session.set_title("c", asked("three", "session/setTitle"))
    await world.close()
    file = world.path() / "requests.jsonl"
    file.write_bytes(b'\xff\n{"r":1}\n[]\n' + file.read_bytes() + b'{"r":"tor')
    session = await world.reopened()
    for name in ("one", "two", "three"):
        assert (await session.set_title("x", asked(name, "session/setTitle")))["duplicate"] is True
    await session.set_title("d", asked("four", "session/setTitle"))
    await session.set_title("e", asked("five", "session/setTitle"))
    session = await world.reopened()
    assert (await session.set_title("x", asked("four", "session/setTitle")))["duplicate"] is True


async def test_a_forks_ids_are_its_own(world: World) -> None:
    session = await world.session(auto_checkpoint="turn")
    await session.append([USER, ANSWER], asked("1"))
    await session.checkpoint("c", False)
    fork = (await world.store.fork("s1", new_session_id="s2")).session
    assert "duplicate" not in await fork.append([USER], asked("1", fingerprint="other"))
    await fork.revert(checkpoint_id=0)
    assert "duplicate" not in await fork.append([USER], asked("2"))
    fork = await world.reopened("s2")
    assert (await fork.append([USER], asked("2")))["duplicate"] is True
    assert (await fork.append([USER], asked("1", fingerprint="other")))["duplicate"] is True


@pytest.mark.parametrize("origin", [[], {}, 5])
async def test_a_record_whose_origin_is_no_text_is_none_of_the_sessions_own(world: World, origin: Any) -> None:
    world.path().mkdir(parents=True)
    marks = {"r": "r", "h": "h", "m": "appendMessage", "s": 1, "o": origin, "g": "1.0"}
    (world.path() / "context.jsonl").write_text(json.dumps({**USER, "_tl": marks}) + "\n")
    session = await world.session()
    await session.set_title("t", asked("creates the file", "session/setTitle"))
    session = await world.reopened()
    assert "duplicate" not in await session.append([USER], asked("r"))


@pytest.mark.parametrize("request_id", ["r1", "timeleap:0123456789ab.7"])
async def test_a_page_of_what_requests_wrote_parses_none_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch, request_id: str
) -> None:
    """Each message of a client that gives ids carries marks: to parse them took three times as long as the page."""
    session = await world.session()
    await session.append([USER], asked(request_id))
    await session.append([USER, ANSWER], asked(f"{request_id}2"))
    monkeypatch.delattr(paging, "read_tl")
    shown, _ = paging.page(session.engine, paging.Span("s1", None, "", 0, 3, newest_first=False), 3, 1 << 20)
    entries = json.loads(b"".join(shown.entries.pieces))
    assert [entry["message"] for entry in entries] == [USER, USER, ANSWER]
    assert [entry["meta"].get("requestId") for entry in entries] == [request_id, f"{request_id}2", None]
    assert len({entry["meta"].get("batchId") for entry in entries}) == 2


async def test_what_a_revert_notes_of_the_requests_that_go_is_no_summary(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Summaries are not stored: to make a thousand of them took longer than the revert."""
    session = await world.session()
    await session.checkpoint(None, False)
    first = [await session.append([USER, ANSWER], asked(f"r{number}")) for number in range(3)]
    monkeypatch.delattr(request_table, "read_spans")
    await session.revert(checkpoint_id=0)
    for _ in range(2):
        again = [await session.append([USER, ANSWER], asked(f"r{number}")) for number in range(3)]
        assert [plain(result) for result in again] == [plain(result) for result in first]
        session = await world.reopened()


async def test_a_repeat_of_messages_reads_no_checkpoint_among_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be damaged; the answer does not tell of it."""
    session = await world.session()
    first = await session.append([USER, {"checkpoint": {}}, ANSWER], asked("r"))
    monkeypatch.delattr(request_table, "read_checkpoint")
    again = await session.append([USER, {"checkpoint": {}}, ANSWER], asked("r"))
    assert plain(again) == plain(first) and again["duplicate"] is True


CHILD = """
import asyncio, json, sys
from pathlib import Path
from timeleap.features.approvals.store_approvals import in_files
from timeleap.sessions.shapes import Mutation
from timeleap.store.store import SessionStore
from tests.unit.sessions.test_requests import MUTATORS
from tests.support.plain_shapes import PLAIN

async def main(home, method):
    store = SessionStore(Path(home), shapes=PLAIN, approvals=in_files())
    session = (await store.open("s1")).session
    guard = Mutation(request_id="r1", method=method, fingerprint="f")
    result = await MUTATORS[method](session, guard)
    print(json.dumps(result))

asyncio.run(main(*sys.argv[1:]))
"""

POINTS = {
    "context/appendMessage": ["append.before_write", "append.after_write", "append.after_sync"],
    "context/checkpoint": ["append.after_write", "append.after_sync"],
    "context/updateTokenCount": ["append.after_write"],
    "context/setSystemPrompt": ["append.after_write"],
    "session/setYolo": [
        "approvals.after_audit",
        "approvals.after_seal",
        "approvals.after_state",
        "approvals.after_revision",
    ],
    "session/setTitle": ["state.after_state", "state.after_meta"],
    "session/putSubagent": ["state.after_state", "state.after_meta"],
    "session/archive": ["state.after_state", "state.after_meta"],
    "context/sendDMail": ["state.after_meta"],
    "context/cancelDMail": ["state.after_meta"],
}
REWRITES = ["context/revertTo", "context/clear", "context/restoreTimeline", "context/compact", "context/deliverDMail"]
REWRITE_POINTS = ["replace.built", "session.prepared", "replace.linked", "replace.renamed", "replace.done"]
CRASHES = [(method, point) for method, points in POINTS.items() for point in points] + [
    (method, point) for method in REWRITES for point in REWRITE_POINTS
]


@pytest.mark.crash
@pytest.mark.parametrize(("method", "point"), mostly_long(CRASHES))
async def test_killed_anywhere_a_request_sent_again_is_done_exactly_once(world: World, method: str, point: str) -> None:
    await prepared(world, method)
    await world.close()
    assert run_child(CHILD, str(world.home), method, failpoints=f"{point}=kill", key_file=world.key_file) == -9
    session = await world.reopened()
    once = await MUTATORS[method](session, asked("r1", method))
    done = facts(session)
    assert (await MUTATORS[method](session, asked("r1", method)))["duplicate"] is True
    session = await world.reopened()
    again = await MUTATORS[method](session, asked("r1", method))
    assert again["duplicate"] is True
    assert plain(again) == plain(once)
    assert facts(session) == done
    assert comparable(done) == await undisturbed(world, method)
    assert [one["kind"] for one in session.warnings] in ([], ["recovered"])


@pytest.mark.crash
async def test_a_name_that_another_program_gave_meanwhile_proves_nothing(world: World) -> None:
    """The journal of a rewrite that was cut short names a timeline; the original makes one of that name."""
    session = await prepared(world, "context/clear")
    assert len(session.engine.timelines()) == 1
    await world.close()
    assert run_child(
        CHILD, str(world.home), "context/clear", failpoints="session.prepared=kill", key_file=world.key_file
    )
    log = world.path() / "context.jsonl"
    log.rename(world.path() / "context_2.jsonl")
    log.write_bytes((world.path() / "context_2.jsonl").read_bytes())
    with (world.path() / "context_2.jsonl").open("a") as file:
        file.write(json.dumps(USER) + "\n")
    session = await world.reopened()
    assert "duplicate" not in await session.clear(guard=asked("r1", "context/clear"))


@pytest.mark.crash
async def test_killed_while_the_journal_is_moved_both_requests_are_known(world: World) -> None:
    session = await prepared(world, "context/clear")
    await session.set_title("old", asked("r0", "session/setTitle"))
    await world.close()
    assert run_child(
        CHILD, str(world.home), "context/clear", failpoints="requests.after_append=kill", key_file=world.key_file
    )
    session = await world.reopened()
    assert (await session.set_title("x", asked("r0", "session/setTitle")))["duplicate"] is True
    assert "duplicate" not in await session.clear(guard=asked("r1", "context/clear"))
    session = await world.reopened()
    assert (await session.set_title("x", asked("r0", "session/setTitle")))["duplicate"] is True
    assert (await session.clear(guard=asked("r1", "context/clear")))["duplicate"] is True


async def test_large_records_and_damaged_ones_do_not_hide_the_ids_of_others(world: World) -> None:
    session = await world.session()
    for number in range(5):
        await session.append([{"role": "user", "content": "x" * (1 << 20)}], asked(f"big{number}"))
    await session.append([USER], asked("small"))
    await world.close()
    log = world.path() / "context.jsonl"
    data = bytearray(log.read_bytes())
    data[(1 << 20) // 2] = 0
    session = await world.session()
    await session.append([USER], asked("last"))
    await world.close()
    rest = log.read_bytes()[len(data) :]
    log.write_bytes(bytes(data) + rest)
    session = await world.reopened()
    for name in ("big1", "big4", "small", "last"):
        assert (await session.append([USER], asked(name)))["duplicate"] is True


async def undisturbed(world: World, method: str) -> Any:
    """What the request comes to where nobody is killed."""
    other = World(world.home.parent / "undisturbed")
    session = await prepared(other, method)
    await MUTATORS[method](session, asked("r1", method))
    found = comparable(facts(session))
    await other.close()
    return found


def comparable(found: Any) -> Any:
    """`facts` without what differs from one run to the next: uids, times, batch ids."""
    log, timelines, title, archived, subagents, dmail, approval = found
    parsed = [json.loads(line) for line in log]
    stripped = [{key: value for key, value in record.items() if key != "_tl"} for record in parsed]
    note = dmail and (dmail.checkpoint_id, dmail.message)
    return stripped, timelines, title, archived, subagents, note, (approval.yolo, approval.actions)
