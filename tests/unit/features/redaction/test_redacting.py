"""What a redaction does to a session's files, those in the trash included, whatever stands in them."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.leftovers import holders
from tests.unit.sessions.worlds import Json, World, asked, heard, kinds, records, texts

from timeleap.errors import HeadConflictError, InvalidInputError, SessionLockedError, StorageFailureError
from timeleap.features.approvals.switches import set_auto_approve
from timeleap.features.redaction import matchers, redact_files
from timeleap.features.redaction.matchers import ExpressionMatcher, Matcher, TextMatcher
from timeleap.features.redaction.redact_files import is_in
from timeleap.features.redaction.redaction import (
    RedactionRequest,
    plan_in_trash,
    plan_redact,
    redact,
    redact_in_trash,
)
from timeleap.rpc.errors import to_wire
from timeleap.sessions.kernel import rewrites
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation, PendingDMail
from timeleap.storage.owner_lock import SessionLock

SECRET = 'se"cret/7'


def order(needle: str | Matcher = SECRET, replacement: str = "*", *trash: Path) -> RedactionRequest:
    return RedactionRequest(TextMatcher([needle]) if isinstance(needle, str) else needle, replacement, lambda: trash)


async def taken_out(session: Session, what: RedactionRequest, guard: Mutation | None = None) -> Json:
    return await redact(session, what, lambda one: {"head": one.head, "finds": one.finds}, guard or Mutation())


def said(text: str, role: str = "user", **more: Any) -> Json:
    return {"role": role, "content": text, **more}


async def test_a_plan_changes_nothing_and_says_the_same(world: World) -> None:
    session = await world.session(title=SECRET)
    await session.append([said(SECRET), said("x")])
    await session.clear()
    before, head = world.tree(), session.head
    planned = await plan_redact(session, order())
    assert (world.tree(), session.head) == (before, head)
    told = heard(session)
    done = await taken_out(session, order())
    assert [(one.name, one.occurrences) for one in done["finds"]] == [
        (one.name, one.occurrences) for one in planned.finds
    ]
    assert kinds(told) == ["redacted", "titleChanged"] and session.facts.title == "*"
    assert holders(world.home, value=SECRET) == []


async def test_only_state_beside_the_log_leaves_the_head(world: World) -> None:
    session = await world.session(title=SECRET)
    await session.append([said("x")])
    head, told = session.head, heard(session)
    await taken_out(session, order())
    assert session.head == head and kinds(told) == ["titleChanged"]


async def test_a_stale_head_and_a_repeat_change_nothing(world: World) -> None:
    session = await world.session()
    await session.append([said(SECRET)])
    with pytest.raises(HeadConflictError):
        await taken_out(session, order(), Mutation(expected_head="another"))
    render = lambda one: {"head": one.head, "occurrences": one.total(lambda find: find.occurrences)}  # noqa: E731
    guard = asked("r", "session/redact")
    first = await redact(session, order(), render, guard)
    assert await redact(session, order(), render, guard) == {**first, "duplicate": True}
    with pytest.raises(InvalidInputError):
        await redact(session, order("x"), render, asked("r", "session/redact", "other"))
    again = await world.reopened()
    assert (await redact(again, order(), render, guard))["occurrences"] == 0, "not known any more, and harmless"


async def test_neither_memory_nor_marks_remember(world: World) -> None:
    session = await world.session()
    guard = asked("put", "session/putSubagent", "0123456789abcdef")
    await session.put_subagent("s", SECRET, guard)
    await session.append([said("first"), said(SECRET)], asked("batch", fingerprint="fedcba9876543210"))
    await session.append([said("other")], asked("alone", fingerprint="00000000ffffffff"))
    await taken_out(session, order())
    assert (await session.put_subagent("s", SECRET, guard))["dynamicSubagents"][0]["systemPrompt"] == "*"
    stored = b"".join(world.tree().values())
    assert b"0123456789abcdef" not in stored and b"fedcba9876543210" not in stored
    assert b"00000000ffffffff" in stored, "it was not made of what went"
    assert (await session.append([said("first"), said(SECRET)], asked("batch", fingerprint="fedcba9876543210")))[
        "duplicate"
    ]
    # By the contract it matches any params all the same: every id that was known at the redaction does.
    assert (await session.append([said("x")], asked("alone", fingerprint="1")))["duplicate"]


async def test_the_trash_keeps_its_request_ids(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await world.session("gone")
    await session.append([said(SECRET)], asked("appended"))
    with monkeypatch.context() as patched:
        patched.setattr(rewrites, "result", lambda _, head, *more: {"head": head, "note": SECRET})
        await session.clear(guard=asked("cleared", "context/clear"))
    await world.store.delete("gone")
    (_, _, trashed), *_ = world.store.home.trashed()
    assert len(holders(trashed, value=SECRET)) == 2
    other = await world.session("gone")
    await other.append([said("x")])
    await taken_out(other, order(SECRET, "*", trashed))
    assert holders(world.home, value=SECRET) == []
    await world.store.delete("gone")
    last = other
    for _ in range(2):  # the newest first
        await world.store.trash.undelete("gone")
        last = await world.session("gone")
        count = last.engine.state.messages
        if count:
            await world.store.delete("gone")
            trashed_now = [path for _, _, path in world.store.home.trashed()]
            newest = max(trashed_now, key=lambda path: path.name)
            newest.rename(newest.with_name("other~" + newest.name.partition("~")[2]))
    assert (await last.clear(guard=asked("cleared", "context/clear")))["note"] == "*"
    assert (await last.append([said(SECRET)], asked("appended")))["duplicate"] and texts(last) == []


async def test_a_session_in_the_trash_that_is_in_use_is_left_alone(world: World) -> None:
    await (await world.session("s1", title=SECRET)).append([said(SECRET)])
    await world.store.delete("s1")
    (_, _, trashed), *_ = world.store.home.trashed()
    session = await world.session()
    lock = SessionLock(trashed / "context.jsonl")
    await lock.acquire("hold")
    with pytest.raises(SessionLockedError):
        await taken_out(session, order(SECRET, "*", trashed))
    lock.release()
    assert holders(trashed, value=SECRET)
    with pytest.raises(StorageFailureError):
        await taken_out(session, order(SECRET, "*", trashed.with_name("gone")))
    await taken_out(session, order(SECRET, "*", trashed))
    assert holders(trashed, value=SECRET) == []


async def test_a_session_in_the_trash_is_redacted_once_a_request_id(world: World) -> None:
    await (await world.session("s1", title=SECRET)).append([said(SECRET), said("x")])
    await world.store.delete("s1")
    (_, _, trashed), *_ = world.store.home.trashed()
    planned = await plan_in_trash(trashed, order(), None)
    assert sum(one.occurrences for one in planned.finds) == 2 and holders(trashed, value=SECRET)
    with pytest.raises(HeadConflictError):
        await plan_in_trash(trashed, order(), "0" * 32)
    forgotten: list[str] = []
    guard = asked("r", "session/redact")

    async def taken() -> Json:
        return await redact_in_trash(
            trashed,
            order(),
            lambda one: {"head": one.head, "files": len(one.finds)},
            guard,
            lambda redactor: forgotten.append(redactor.clean(SECRET)),
        )

    first = await taken()
    assert first["files"] == 2 and first["head"] != planned.head and holders(trashed, value=SECRET) == []
    assert await taken() == {**first, "duplicate": True} and forgotten == ["*"]


async def test_files_of_every_kind(world: World) -> None:
    session = await world.session()
    await session.append([said("x")])
    folder = world.path()
    escaped = json.dumps(SECRET)[1:-1]
    (folder / "context.jsonl.3").write_text(json.dumps(said(SECRET)) + "\n")
    (folder / "context.jsonl.quarantine-1-x").write_text(
        f'{{"role":"user","content":"{escaped}","_tl":{{"b":"1","r":"x","h":"0123456789abcdef","m":"appendMess'
    )
    (folder / f"notes {SECRET[:2]}.bin").write_bytes(b"\xff\x00" + SECRET.encode() + b"\xfe\n" + escaped.encode())
    (folder / "state.damaged-1-x.json").write_text(f'{{"custom_title": "{escaped}"')
    (folder / "pretty.json").write_text(json.dumps({"a": {SECRET: [SECRET]}, "b": 1.50}, indent=3))
    (folder / "deep").mkdir()
    (folder / "deep" / "wire.jsonl").write_text(json.dumps({"type": "x", "payload": json.dumps([SECRET])}) + "\n")
    (folder / "elsewhere").symlink_to("/etc/passwd")
    done = await taken_out(session, order())
    assert len(done["finds"]) == 6 and {one.kind for one in done["finds"]} == {"timeline", "quarantine", "other"}
    assert holders(folder, value=SECRET) == []
    assert b"0123456789abcdef" not in (folder / "context.jsonl.quarantine-1-x").read_bytes()
    assert (folder / f"notes {SECRET[:2]}.bin").read_bytes() == b"\xff\x00*\xfe\n*"
    assert json.loads((folder / "pretty.json").read_text()) == {"a": {"*": ["*"]}, "b": 1.5}
    assert '"b": 1.5\n' in (folder / "pretty.json").read_text()
    assert [one.timeline_id for one in session.engine.timelines()] == ["context.jsonl.3"]


async def test_what_is_ours_keeps_its_meaning(world: World) -> None:
    """Words that also stand in our own files: in names of members, ids, numbers, seals."""
    session = await world.session(title="a title of 1")
    await session.append([said("1 user")])
    await set_auto_approve(session, "read", True)
    checkpoint = (await session.checkpoint("one", False))["checkpoint"]
    await session.send_dmail("a title", checkpoint_id=0)
    await session.clear()
    uid, epoch = session.meta.uid, session.meta.epoch
    for word in (
        "1",
        "title",
        "uid",
        "user",
        "context",
        "revert",
        "clear",
        "read",
        uid[:4],
        checkpoint["uid"][:3],
        "e",
    ):
        await taken_out(session, order(word, "~"))
    again = await world.reopened()
    assert again.meta.uid == uid and again.meta.epoch > epoch
    assert [(one.timeline_id, one.facts.reason, one.messages) for one in again.engine.timelines()] == [
        ("context_1", "clear", 1)
    ]
    assert again.warnings == [] and again.engine.verify() == []
    assert again.facts.title == "a ~ of ~"


async def test_a_pending_dmail_stays_pending(world: World) -> None:
    folder = world.home / "sessions" / "s1"
    folder.mkdir(parents=True)
    (folder / "context.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in [said(SECRET), {"role": "_checkpoint", "id": 0}, said("x")])
    )
    session = await world.session()
    await session.send_dmail(f"not {SECRET}", checkpoint_id=0)
    before = session.facts.pending_dmail
    assert before is not None and before.checkpoint_uid.startswith("o0-")
    await taken_out(session, order())
    assert session.facts.pending_dmail == PendingDMail(0, before.checkpoint_uid, "not *")
    assert (await world.reopened()).facts.pending_dmail == session.facts.pending_dmail


async def test_a_request_that_made_the_session_can_be_repeated(world: World) -> None:
    guard = asked("made", "session/open", "0123456789abcdef")
    session = await world.session("s1", title=SECRET, guard=guard)
    await taken_out(session, order())
    world.store.ledger.forget_fingerprints("s1")
    assert not any(b"0123456789abcdef" in data for data in world.tree().values())
    assert (await world.store.open("s1", title=SECRET, guard=guard)).duplicate


async def test_what_is_split_over_parts(world: World) -> None:
    session = await world.session()
    parts = [{"type": "text", "text": text} for text in (SECRET[:3], SECRET[3:])]
    await session.append([{"role": "user", "content": parts}])
    done = await taken_out(session, order())
    assert [(one.occurrences, one.split) for one in done["finds"]] == [(1, 1)]
    (record,) = records(session)
    assert [part["text"] for part in record["content"]] == ["*", ""]


async def test_other_sessions_are_only_looked_at(world: World) -> None:
    session = await world.session()
    await session.append([said(json.dumps({"a": SECRET}))])
    before = world.tree()
    from timeleap.features.redaction.redactor import Redactor

    assert is_in(world.path(), Redactor(TextMatcher([SECRET]), "*"))
    assert not is_in(world.path(), Redactor(TextMatcher(["nothing"]), "*"))
    assert is_in(world.path(), Redactor(ExpressionMatcher('cret.[0-9]"'), "*"))
    assert world.tree() == before


ALPHABET = 'abc"\\/\n é😀7'
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=10)
PARTS = st.lists(st.builds(lambda text: {"type": "text", "text": text}, TEXTS), min_size=1, max_size=3)
ARGUMENTS = st.dictionaries(TEXTS, TEXTS | st.integers(0, 99), max_size=2).map(json.dumps)
MESSAGES = st.one_of(
    st.builds(said, TEXTS | PARTS | ARGUMENTS),
    st.builds(
        lambda text: said(
            "x", "assistant", tool_calls=[{"type": "function", "id": "c", "function": {"name": "f", "arguments": text}}]
        ),
        ARGUMENTS,
    ),
    st.builds(lambda text: said("x", extra={text: [text, json.dumps([text])]}), TEXTS),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(MESSAGES, min_size=1, max_size=3)),
        st.tuples(st.just("checkpoint"), TEXTS),
        st.tuples(st.just("prompt"), TEXTS),
        st.tuples(st.just("title"), TEXTS),
        st.tuples(st.just("clear"), st.none()),
    ),
    max_size=6,
)
# Not of hexadecimal digits alone: times and ids that stay may hold these by chance.
VALUES = st.text(st.sampled_from('bc"/\né😀7'), min_size=3, max_size=5).filter(
    lambda value: not set(value) <= set("bc7")
)


async def _history(folder: Path, steps: list[Any], value: str) -> None:
    world = World(folder, durability="os")
    try:
        session = await world.session(title=value)
        await session.append([said(f"{value}"), said(json.dumps({"a": value}))], asked("first"))
        for number, (kind, what) in enumerate(steps):
            guard = asked(f"r{number}")
            if kind == "append":
                await session.append(what, guard)
            elif kind == "checkpoint":
                await session.checkpoint(what, False, asked(f"r{number}", "context/checkpoint"))
            elif kind == "prompt":
                await session.set_system_prompt(what)
            elif kind == "title":
                await session.set_title(what, asked(f"r{number}", "session/setTitle"))
            else:
                await session.clear(guard=asked(f"r{number}", "context/clear"))
        lines = [
            session.engine.state.lines,
            *(session.engine.timeline(one.timeline_id).state.lines for one in session.engine.timelines()),
        ]
        done = await taken_out(session, order(value, "|"))
        left = [path for path in holders(world.home, value=value, raw='"' not in value) if not path.endswith(".idx")]
        assert not left or sum(one.kept for one in done["finds"]), left
        session = await world.reopened()
        assert lines == [
            session.engine.state.lines,
            *(session.engine.timeline(one.timeline_id).state.lines for one in session.engine.timelines()),
        ]
        assert session.warnings == [] and session.engine.verify() == []
        again = await plan_redact(session, order(value, "|"))
        assert again.total(lambda one: one.occurrences) == 0
    finally:
        await world.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, VALUES)
def test_nothing_is_left_of_any_value_after_any_history(steps: list[Any], value: str) -> None:
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else None) as folder:
        asyncio.run(_history(Path(folder), steps, value))


@pytest.mark.parametrize("undone", [True, False])
async def test_the_trash_keeps_what_can_be_undone_but_no_fingerprint_of_it(world: World, undone: bool) -> None:
    session = await world.session()
    await session.append([{"role": "user", "content": SECRET}])
    await session.append([{"role": "user", "content": "two"}])
    await session.revert(message_index=1)
    if undone:  # redo has a fingerprint, too
        await session.undo()
    assert ("next" in world.json("timeleap.json")["undo"]) is True
    await world.store.delete("s1")
    other = await world.session()
    (_, _, trashed), *_ = world.store.home.trashed()
    await taken_out(other, order(SECRET, "*", trashed))
    member = json.loads((trashed / "timeleap.json").read_text())["undo"]
    assert "chain" not in json.dumps(member)
    assert len(member["undo"]) == (0 if undone else 1)
    await world.store.delete("s1")
    while True:  # the older one of the two
        await world.store.trash.undelete("s1")
        back = (await world.store.open("s1", create=False)).session
        if back.engine.timelines():
            break
        await back.aclose()
        shutil.rmtree(back.path)
    assert (back.summary().can_undo, back.summary().can_redo) == (0 if undone else 1, 0)


def test_a_file_too_large_to_redact_stays_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact_files, "MAX_FILE", 10)
    (tmp_path / "audit.jsonl").write_bytes(b"x" * 10)
    assert redact_files.read_whole(tmp_path / "audit.jsonl") == b"x" * 10
    (tmp_path / "audit.jsonl").write_bytes(b"x" * 11)
    with pytest.raises(StorageFailureError) as caught:
        redact_files.read_whole(tmp_path / "audit.jsonl")
    assert to_wire(caught.value)["data"]["retryable"] is False


async def test_what_looks_like_a_secret_goes_and_is_counted_by_its_rule(world: World) -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    session = await world.session()
    await session.append([said(f"with {token}"), said("nothing here"), said(f"again {token}")])
    done = await redact(session, RedactionRequest(None, "*"), lambda one: {"head": one.head, "rules": one.rules})
    assert sum(done["rules"].values()) >= 1
    assert holders(world.home, value=token) == []
    assert texts(session)[1] == "nothing here"


def test_without_the_scanner_secrets_are_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matchers, "_scanners", [])
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'timeleap\[redact\]'"):
        matchers.load_rules()
