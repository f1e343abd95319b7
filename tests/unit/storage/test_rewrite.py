"""Replacements, timelines, forks, repair: what becomes of damaged lines, foreign files and strange names."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.repaired import repair
from tests.unit.storage.logs import always, count, hidden, keep, mark, names, restore, said, say, texts

from timeleap.errors import (
    CorruptedError,
    ExternallyModifiedError,
    SessionExistsError,
    StorageFailureError,
    TimelineNotFoundError,
)
from timeleap.storage import durable, intents, opened_log, rewrite, scan
from timeleap.storage.engine import replace_log
from timeleap.storage.index import HEADER_SIZE, index_path, open_index, peek
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.log_files import fork_log
from timeleap.storage.log_notes import MemoryNotes
from timeleap.storage.log_values import LogState, Replacement, TimelineFacts
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import message_record, usage_record


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


@pytest.fixture
async def engine(log: Path) -> AsyncGenerator[JsonlEngine]:
    opened = await JsonlEngine.open(log)
    yield opened
    await opened.aclose()


def line(text: str) -> bytes:
    return message_record({"role": "user", "content": text}).body + b"\n"


DAMAGED = b'{"role":"user","content":"bad\xff"}\n'


async def test_every_file_of_a_session_is_private(log: Path) -> None:
    old = os.umask(0)
    try:
        engine = await JsonlEngine.open(log)
        await say(engine, "a")
        await restore(engine, (await keep(engine, 0)).timeline_id)
        await engine.aclose()
        with log.open("ab") as file:
            file.write(b'{"torn')
        await (await JsonlEngine.open(log)).aclose()
    finally:
        os.umask(old)
    files = [*names(log.parent), *hidden(log.parent)]
    assert len(files) == 8
    assert {(log.parent / name).stat().st_mode & 0o777 for name in files} == {0o600}


async def test_a_log_and_its_timelines_never_share_a_file(engine: JsonlEngine) -> None:
    await say(engine, "a")
    reverted = await keep(engine, 1)
    await restore(engine, reverted.timeline_id)
    inodes = [(engine.path.parent / name).stat().st_ino for name in names(engine.path.parent)]
    assert len(set(inodes)) == len(inodes) == 3


async def test_damaged_lines_are_left_out_of_the_new_log_and_kept_in_the_timeline(log: Path) -> None:
    old = (
        line("a")
        + DAMAGED
        + line("b")
        + b"\n"
        + DAMAGED
        + b'{"role": "_usage", "token_count": 5}\n'
        + line("c")
        + b"nonsense\n"
    )
    log.write_bytes(old)
    engine = await JsonlEngine.open(log)
    assert len(engine.recovery.warnings) == 3
    done = await keep(engine, 8, said("d"))
    assert log.read_bytes() == line("a") + line("b") + b'\n{"role": "_usage", "token_count": 5}\n' + line("c") + line(
        "d"
    )
    assert texts(engine) == ["a", "b", "c", "d"]
    assert (engine.state.token_count, engine.state.pending_chars) == (5, 2)
    assert engine.damage() == engine.verify() == []
    assert (log.parent / f"{done.timeline_id}.jsonl").read_bytes() == old
    state, entries = engine.state, engine.entries(0, 9)
    await engine.aclose()
    index_path(log).unlink()
    again = await JsonlEngine.open(log)
    assert (again.state, again.entries(0, 9)) == (state, entries)
    await again.aclose()


async def test_a_kept_line_that_is_not_what_was_written_stops_the_replacement(engine: JsonlEngine) -> None:
    await say(engine, "aaaa")
    await say(engine, "bbbb")
    content = engine.path.read_bytes()
    with engine.path.open("r+b") as file:
        file.write(content.replace(b"aaaa", b"aaab"))
    with pytest.raises(CorruptedError, match="line 0") as caught:
        await keep(engine, 2)
    assert caught.value.data["offset"] == 0
    assert engine.timelines() == []
    await keep(engine, 0)
    assert names(engine.path.parent) == ["context.jsonl", "context_1.jsonl"]
    with pytest.raises(CorruptedError, match="context_1"):
        await restore(engine, "context_1")


async def test_a_kept_line_that_has_changed_is_refused_also_beside_damaged_ones(log: Path) -> None:
    log.write_bytes(DAMAGED + line("aaaa") + line("bbbb"))
    engine = await JsonlEngine.open(log)
    with log.open("r+b") as file:
        file.write(DAMAGED + line("aaab"))
    with pytest.raises(CorruptedError, match="line 1"):
        await keep(engine, 3)
    assert log.read_bytes() == DAMAGED + line("aaab") + line("bbbb")
    await engine.aclose()


@pytest.mark.parametrize(
    "content",
    [DAMAGED + line("a"), line("a") + b'{"torn', line("a") + b"\0\0\n", b'{"role":"_usage","token_count":"x"}\n'],
)
async def test_a_damaged_timeline_is_not_restored(engine: JsonlEngine, content: bytes) -> None:
    await say(engine, "live")
    before, head = sorted(os.listdir(engine.path.parent)), engine.head
    (engine.path.parent / "context_3.jsonl").write_bytes(content)
    with pytest.raises(CorruptedError):
        await restore(engine, "context_3")
    assert (texts(engine), engine.head) == (["live"], head)
    assert sorted(os.listdir(engine.path.parent)) == sorted([*before, "context_3.jsonl"])


async def test_a_long_timeline_is_compared_with_what_was_written(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_log, "SMALL", 10)
    for text in ("aaaa", "bbbb", *"cdefghijkl"):  # more than the last ones, at which every opening looks
        await say(engine, text)
    before = engine.path.read_bytes()
    kept = await keep(engine, 1)
    timeline = engine.path.parent / f"{kept.timeline_id}.jsonl"
    for spoilt in (before.replace(b"aaaa", b"aaab"), before.replace(b"bbbb", b"bb\xffb")):
        with timeline.open("r+b") as file:
            file.write(spoilt)
        with pytest.raises(CorruptedError, match="context_1"):
            await restore(engine, kept.timeline_id)
    with timeline.open("r+b") as file:
        file.write(before)
    await restore(engine, kept.timeline_id)
    assert engine.path.read_bytes() == before
    assert texts(engine) == ["aaaa", "bbbb", *"cdefghijkl"]
    assert engine.verify() == []


async def test_a_long_timeline_that_was_never_parsed_is_parsed_before_it_is_restored(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of what stands before the last token count a long log's opening sees only how it begins.
    log.write_bytes(line("a")[:-3] + b'\xff"}\n' + b'{"role": "_usage", "token_count": 1}\n')
    monkeypatch.setattr(opened_log, "SMALL", 10)
    engine = await JsonlEngine.open(log)
    kept = await keep(engine, 0)
    with pytest.raises(CorruptedError, match="context_1"):
        await restore(engine, kept.timeline_id)
    await engine.aclose()


async def test_a_long_timeline_is_parsed_only_when_it_is_first_restored(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(line("a") * 20 + b'{"role": "_usage", "token_count": 1}\n')
    monkeypatch.setattr(opened_log, "SMALL", 10)
    engine = await JsonlEngine.open(log)
    kept = await keep(engine, 0)
    timeline = log.parent / f"{kept.timeline_id}.jsonl"

    def parsed() -> bool:
        found = open_index(timeline, timeline.stat().st_ino, writable=False)
        assert found is not None
        return found[1]

    assert not parsed()
    await restore(engine, kept.timeline_id)
    assert parsed()
    await keep(engine, 0)
    monkeypatch.setattr(scan, "classify", None)
    monkeypatch.setattr(scan, "ordinary", None)
    await restore(engine, kept.timeline_id)
    assert log.read_bytes() == timeline.read_bytes()
    assert engine.verify() == []
    await engine.aclose()


@pytest.mark.parametrize("changed", [False, True])
async def test_a_restored_timeline_stands_for_the_log_until_somebody_changes_it(
    engine: JsonlEngine, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(engine, "aaaa")
    kept = await keep(engine, 0)
    timeline = engine.path.parent / f"{kept.timeline_id}.jsonl"
    await restore(engine, kept.timeline_id)
    before = names(engine.path.parent)
    if changed:
        timeline.write_bytes(timeline.read_bytes().replace(b"aaaa", b"aaab"))
        os.utime(timeline, ns=(1, 1))  # also where the clock of the file system is slow
    else:
        monkeypatch.setattr(rewrite, "same_bytes", lambda *_: False)
    done = await replace_log(engine, lambda _: Replacement(TimelineFacts("revert"), reuse=True))
    assert (done.timeline_id == kept.timeline_id) is not changed
    assert (names(engine.path.parent) == before) is not changed


async def test_an_incomplete_batch_is_not_restored(engine: JsonlEngine) -> None:
    await engine.append(always(said("a"), said("b")))
    first = engine.path.read_bytes().splitlines(keepends=True)[0]
    (engine.path.parent / "context_3.jsonl").write_bytes(first)
    with pytest.raises(CorruptedError):
        await restore(engine, "context_3")


async def test_a_timeline_the_original_cannot_read_is_restored_all_the_same(engine: JsonlEngine) -> None:
    content = b'{"role":"oracle","content":"x"}\n'
    (engine.path.parent / "context_3.jsonl").write_bytes(content)
    await restore(engine, "context_3")
    assert engine.path.read_bytes() == content
    assert [one.kind for one in engine.damage()] == ["notReadableByOriginal"]


async def test_an_empty_timeline_can_be_restored(engine: JsonlEngine) -> None:
    empty = await keep(engine, 0)
    await say(engine, "a")
    await restore(engine, empty.timeline_id)
    assert engine.state == LogState()


async def test_the_pending_characters_of_a_cut_log_are_known(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_bytes(
        line("a")
        + b'{"role": "_usage", "token_count": 5}\n'
        + line("abc")
        + line("d")
        + b'{"role": "_usage", "token_count": 6}\n'
    )
    monkeypatch.setattr(opened_log, "SMALL", 10)
    engine = await JsonlEngine.open(log)
    assert engine.entries(2, 3)[0].value == -1, "not looked at"
    assert engine.entries(2, 3)[0].state.pending_chars == -1
    assert engine.state_before(3).pending_chars == 3
    assert engine.state_before(4).pending_chars == 4
    assert engine.state_before(1).pending_chars == 1
    await keep(engine, 3)
    assert engine.state.pending_chars == 3
    assert engine.state.token_count == 5
    await engine.aclose()


async def test_a_batch_that_lost_a_member_to_damage_is_no_batch_in_the_new_log(log: Path) -> None:
    engine = await JsonlEngine.open(log)
    await engine.append(always(said("aaaa"), said("bbbb"), said("cccc")))
    await engine.aclose()
    log.write_bytes(log.read_bytes().replace(b"bbbb", b"bb\xffb"))
    engine = await JsonlEngine.open(log)
    await keep(engine, 3)
    assert log.read_bytes() == line("aaaa") + line("cccc")
    await engine.aclose()


async def test_an_intruder_among_the_timelines_is_not_overwritten(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(engine, "a")

    def clear() -> None:
        with engine.draft(Replacement(TimelineFacts("clear"))) as prepared:
            (engine.path.parent / "context_1.jsonl").write_bytes(line("theirs"))
            engine.commit(prepared)

    for links in (True, False):
        if not links:
            monkeypatch.setattr(durable, "link_exclusive", lambda *_: False)
            (engine.path.parent / "context_1.jsonl").unlink()
        with pytest.raises(ExternallyModifiedError):
            await engine.run(lambda _: engine.rewrite(clear), rewrites=True)
        assert (engine.path.parent / "context_1.jsonl").read_bytes() == line("theirs")
        assert texts(engine) == ["a"]
    await keep(engine, 0)
    assert names(engine.path.parent) == ["context.jsonl", "context_1.jsonl", "context_2.jsonl"]


async def test_a_log_replaced_while_ours_is_linked_is_noticed(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(engine, "a")
    real = durable.link_exclusive

    def replace_first(source: Path, target: Path) -> bool:
        durable.atomic_write(source, line("theirs"))
        return real(source, target)

    monkeypatch.setattr(durable, "link_exclusive", replace_first)
    with pytest.raises(ExternallyModifiedError):
        await keep(engine, 0)
    assert engine.path.read_bytes() == line("theirs")
    assert names(engine.path.parent) == ["context.jsonl"]


async def test_a_cleared_log_that_was_missing_is_there(log: Path) -> None:
    engine = await JsonlEngine.open(log, lock="per-write")
    done = await keep(engine, 0)
    assert log.read_bytes() == b""
    assert (log.parent / f"{done.timeline_id}.jsonl").read_bytes() == b""
    await engine.aclose()


async def test_an_index_that_proves_damaged_in_a_replacement_is_mended(engine: JsonlEngine) -> None:
    for i in range(5):
        await say(engine, str(i))
    index = index_path(engine.path)
    content = bytearray(index.read_bytes())
    content[HEADER_SIZE + 90] ^= 4
    with index.open("r+b") as file:
        file.write(content)
    await keep(engine, 4)
    assert texts(engine) == ["0", "1", "2", "3"]


# Timelines


async def test_timelines_of_all_kinds_are_listed_newest_first(engine: JsonlEngine) -> None:
    folder = engine.path.parent
    for name in ("context_2.jsonl", "context_10.jsonl", "context.jsonl.1", "context.jsonl.2"):
        (folder / name).write_bytes(line("a") + b'{"role":"_checkpoint","id":0}\n')
    for name in (
        "context_x.jsonl",
        "context_1.txt",
        "other_1.jsonl",
        "context.jsonl.bak",
        "context_.jsonl",
        "Context_1.jsonl",
    ):
        (folder / name).write_bytes(b"")
    (folder / "context_11.jsonl").mkdir()
    os.mkfifo(folder / "context_12.jsonl")
    (folder / "context_13.jsonl").symlink_to(folder / "context_2.jsonl")
    listed = engine.timelines()
    assert [one.timeline_id for one in listed] == ["context_10", "context_2", "context.jsonl.2", "context.jsonl.1"]
    assert {(one.messages, one.checkpoints, one.facts.reason) for one in listed} == {(1, 1, "unknown")}
    assert engine.timeline("context.jsonl.1").read(0, 1) == [line("a")[:-1]]
    for wrong in ("context_11", "context_12", "context_13"):
        with pytest.raises(StorageFailureError, match="must be a regular file"):
            engine.timeline(wrong)
        with pytest.raises(StorageFailureError):
            await restore(engine, wrong)
    done = await keep(engine, 0)
    assert done.timeline_id == "context_14", "no name is used that something has"
    await restore(engine, "context.jsonl.2")
    assert texts(engine) == ["a"]


async def test_the_live_log_under_a_timelines_name_is_no_timeline(log: Path) -> None:
    log.write_bytes(line("a"))
    os.link(log, log.parent / "context_1.jsonl")
    reader = await JsonlEngine.open(log, access="read")
    assert reader.timelines() == []
    assert reader.head.split(".")[1] == "0"
    with pytest.raises(TimelineNotFoundError):
        reader.timeline("context_1")
    await reader.aclose()
    engine = await JsonlEngine.open(log)
    assert names(log.parent) == ["context.jsonl"]
    os.link(log, log.parent / "context_1.jsonl")
    await keep(engine, 0)
    assert [one.timeline_id for one in engine.timelines()] == ["context_1"]
    await engine.aclose()


async def test_the_counts_of_a_foreign_timeline_are_found_once(
    engine: JsonlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = engine.path.parent / "context_4.jsonl"
    path.write_bytes(line("a") * 7)
    assert engine.timelines()[0].messages == 7
    assert peek(path) == engine.timeline("context_4").state
    scans: list[object] = []
    monkeypatch.setattr(rewrite, "load", lambda *_, **__: scans.append(1))
    assert engine.timelines()[0].messages == 7
    other = rewrite.Timelines(engine.path, MemoryNotes(), keep_index=False)
    assert other.listed()[0].messages == 7
    assert scans == []


async def test_a_reader_keeps_no_index_of_a_timeline(log: Path) -> None:
    (log.parent / "context_4.jsonl").write_bytes(line("a") + b"torn")
    reader = await JsonlEngine.open(log, access="read")
    assert reader.timelines()[0].messages == 1
    assert hidden(log.parent) == []
    await reader.aclose()


async def test_a_removed_number_is_remembered(log: Path) -> None:
    notes = MemoryNotes()
    engine = await JsonlEngine.open(log, notes=notes)
    done = await keep(engine, 0)
    head = engine.head
    engine.remove_timeline(done.timeline_id)
    assert hidden(log.parent) == [".context.jsonl.idx", ".context.jsonl.lock"]
    await engine.aclose()
    engine = await JsonlEngine.open(log, notes=notes)
    assert engine.head == head
    assert (await keep(engine, 0)).timeline_id == "context_2"
    await engine.aclose()


async def test_peeking_needs_an_index_that_covers_the_log(log: Path) -> None:
    assert peek(log) is None
    log.write_bytes(line("a"))
    assert peek(log) is None
    engine = await JsonlEngine.open(log)
    await say(engine, "b")
    assert peek(log) == engine.state
    await engine.aclose()
    with log.open("ab") as file:
        file.write(line("c"))
    assert peek(log) is None
    os.truncate(index_path(log), HEADER_SIZE + 3)
    assert peek(log) is None
    durable.atomic_write(log, line("a"))
    assert peek(log) is None


# Without hard links


async def test_a_leftover_intent_of_a_step_that_never_began_is_withdrawn(log: Path) -> None:
    log.write_bytes(line("a"))
    temporary = log.parent / ".context.jsonl.0123456789abcdef.tmp"
    temporary.write_bytes(line("b"))
    intents.declare_intent(log, log.parent / "context_1.jsonl", temporary)
    await (await JsonlEngine.open(log)).aclose()
    assert log.read_bytes() == line("a")
    assert not temporary.exists()
    assert not intents.intent_path(log).exists()


@pytest.mark.parametrize("new_log_is_there", [True, False])
async def test_a_step_cut_in_two_is_finished_or_undone(log: Path, new_log_is_there: bool) -> None:
    timeline, temporary = log.parent / "context_1.jsonl", log.parent / ".context.jsonl.0123456789abcdef.tmp"
    timeline.write_bytes(line("old"))
    if new_log_is_there:
        temporary.write_bytes(line("new"))
    intents.declare_intent(log, timeline, temporary)
    assert intents.intent_pending(log)
    follower = await JsonlEngine.open(log, access="read")
    assert not await follower.refresh()
    await follower.aclose()
    await (await JsonlEngine.open(log)).aclose()
    assert log.read_bytes() == (line("new") if new_log_is_there else line("old"))
    assert timeline.exists() == new_log_is_there


@pytest.mark.parametrize(
    "record",
    [
        *(b"", b"[]", b"{", b'{"timeline":5,"new":null}', b'{"timeline":"../x","new":"ABOVE/x"}', b'{"new":"a/b"}'),
        *(
            b'{"new":"../x"}',
            b'{"timeline":"x","new":"notes"}',
            b'{"timeline":"notes"}',
            b'{"new":".context.jsonl.idx"}',
        ),
    ],
)
async def test_a_damaged_intent_touches_nothing(log: Path, record: bytes) -> None:
    record = record.replace(b"ABOVE", bytes(log.parent.parent))
    log.write_bytes(line("a"))
    (log.parent / "notes").write_text("somebody's")
    (log.parent.parent / "x").write_text("x")
    intents.intent_path(log).write_bytes(record)
    await (await JsonlEngine.open(log)).aclose()
    assert log.read_bytes() == line("a")
    assert (log.parent.parent / "x").exists()
    log.unlink()
    index_path(log).unlink()
    intents.intent_path(log).write_bytes(record)
    await (await JsonlEngine.open(log)).aclose()
    assert log.read_bytes() == b""
    assert (log.parent / "notes").read_text() == "somebody's"
    assert (log.parent.parent / "x").read_text() == "x"


# Forks


async def test_a_fork_is_a_copy_of_the_first_lines(engine: JsonlEngine, tmp_path: Path) -> None:
    await say(engine, "a")
    await mark(engine)
    await engine.append(always(said("b"), said("c")))
    target = tmp_path / "fork" / "log.jsonl"
    target.parent.mkdir()
    state = fork_log(engine.view, 3, target)
    assert target.read_bytes() == b"".join(engine.path.read_bytes().splitlines(keepends=True)[:2]) + line("b")
    assert target.stat().st_mode & 0o777 == 0o600
    fork = await JsonlEngine.open(target)
    assert fork.state == state
    assert not fork.recovery.index_rebuilt
    await say(fork, "its own")
    assert texts(engine) == ["a", "b", "c"]
    await fork.aclose()
    with pytest.raises(SessionExistsError):
        fork_log(engine.view, 3, target)
    with pytest.raises(StorageFailureError):
        fork_log(engine.view, 3, tmp_path / "nowhere" / "log.jsonl")
    done = await keep(engine, 0)
    timeline = engine.timeline(done.timeline_id)
    assert isinstance(timeline, StoredLog)
    assert fork_log(timeline, 99, tmp_path / "whole.jsonl").messages == 3
    assert not [name for name in hidden(tmp_path) + hidden(target.parent) if name.endswith(".tmp")]


async def test_a_fork_of_a_damaged_log_is_refused_and_leaves_nothing(engine: JsonlEngine, tmp_path: Path) -> None:
    await say(engine, "aaaa")
    with engine.path.open("r+b") as file:
        file.write(b"[")
    (tmp_path / "fork").mkdir()
    with pytest.raises(CorruptedError):
        fork_log(engine.view, 1, tmp_path / "fork" / "log.jsonl")
    assert list((tmp_path / "fork").iterdir()) == []


# Repair


async def test_a_log_without_damage_is_left_as_it_is(log: Path) -> None:
    log.write_bytes(line("a") + b'{"role":"oracle","content":""}\n')
    done = await repair(log)
    assert (done.removed, done.timeline_id) == ((), None)
    assert log.read_bytes() == line("a") + b'{"role":"oracle","content":""}\n'


async def test_repair_leaves_out_what_is_damaged_and_keeps_the_old_log(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await JsonlEngine.open(log)
    await say(engine, "aaaa")
    await say(engine, "bbbb")
    await engine.append(always(usage_record(3)))
    await engine.aclose()
    old = log.read_bytes().replace(b"bbbb", b"bxbb") + DAMAGED + line("c") + b'{"torn'
    with log.open("r+b") as file:
        file.write(old)
    monkeypatch.setattr(opened_log, "SMALL", 10)
    done = await repair(log)
    assert [(one.kind, one.line) for one in done.removed] == [("checksumMismatch", 1), ("damagedRecord", 3)]
    assert done.recovery.cut_bytes == 6
    assert log.read_bytes() == line("aaaa") + b'{"role": "_usage", "token_count": 3}\n' + line("c")
    assert (log.parent / f"{done.timeline_id}.jsonl").read_bytes() == old[:-6]
    engine = await JsonlEngine.open(log)
    assert engine.verify() == list(engine.recovery.warnings) == []
    assert (engine.head, engine.state.token_count) == (done.head, 3)
    await count(engine, 5)
    await engine.aclose()
