"""Summaries read from a log, and the newest one as messages are appended: always the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeleap.sessions import past
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import CONTEXT, Event
from timeleap.storage import reader, record
from timeleap.storage.log_values import LogState, RecordKind
from timeleap.storage.reader import LogReader, StoredLog
from timeleap.store.store import SessionStore
from timeleap.summaries import log_spans
from timeleap.summaries.log_spans import SpanTally

Json = dict[str, Any]

CALL = {"type": "function", "id": "1", "function": {"name": "bash", "arguments": '{"command": "pytest"}'}}
MESSAGES: list[Json] = [
    {"role": "user", "content": "a prompt"},
    {"role": "assistant", "content": "text"},
    {"role": "assistant", "content": "Let me.", "tool_calls": [CALL]},
    {"role": "tool", "content": "1 failed", "tool_call_id": "1"},
    {"role": "tool", "content": "1 passed", "tool_call_id": "1"},
    {"role": "user", "content": "x" * 300},
    {"role": "assistant", "content": "y" * 900},
]
APPEND = st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(st.just("append"), APPEND)
    | st.tuples(st.sampled_from(["checkpoint", "usage", "undo", "redo", "clear", "compact"]), st.none())
    | st.tuples(st.sampled_from(["revert", "cut"]), st.integers(0, 9)),
    max_size=14,
)


def from_scratch(log: LogReader, end: LogState | None = None) -> list[Json]:
    """The summary of every span, each line read by itself."""
    end = end or log.state
    found: list[Json] = []
    for ordinal in range(end.checkpoints):
        line = log.line_of_checkpoint(ordinal)
        stop = log.line_of_checkpoint(ordinal + 1) if ordinal + 1 < end.checkpoints else end.lines
        begin = log.entries(line, line + 1)[0].state
        tally = SpanTally(begin.last_role)
        for entry in log.entries(line + 1, stop):
            if entry.kind is RecordKind.MESSAGE and (wanted := tally.wants(entry.length)):
                tally.take(log.read(entry.line, entry.line + 1)[0][:wanted], entry.role, whole=wanted == entry.length)
        after = log.entries(stop - 1, stop)[0].state
        tokens = after.token_count - begin.token_count if after.usages > begin.usages else None
        found.append(tally.wire(after.messages - begin.messages, tokens))
    return found


class Window:
    """What one window has heard of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.newest: Json | None = None
        session.listen(self._hear)

    def _hear(self, event: Event) -> None:
        if event.method != CONTEXT:
            return
        if "context" in event.members:
            checkpoints = event.members["context"]["checkpoints"]
            self.newest = checkpoints[-1]["summary"] if checkpoints else None
        elif event.kind == "checkpointCreated":
            self.newest = {"kind": "empty", "text": "", "messages": 0}
        elif "span" in event.members:
            assert event.members["span"]["checkpointUid"] == self.session.summary().checkpoints[-1].uid
            self.newest = event.members["span"]["summary"]

    def check(self) -> None:
        expected = from_scratch(self.session.engine)
        assert [one.summary for one in self.session.checkpoints(self.session.engine, 0, 1000)] == expected
        assert [one.summary for one in self.session.summary().checkpoints] == expected[-50:]
        assert self.newest == (expected[-1] if expected else None)


async def carry_out(session: Session, step: str, given: Any) -> None:
    engine = session.engine
    if step == "append":
        await session.append(given)
    elif step == "checkpoint":
        await session.checkpoint()
    elif step == "usage":
        await session.update_token_count(engine.state.messages * 7)
    elif step == "revert" and engine.state.checkpoints:
        line = engine.line_of_checkpoint(given % engine.state.checkpoints)
        await session.revert(checkpoint_uid=past.uid_at(engine, line))
    elif step == "cut" and engine.state.messages:
        await session.revert(message_index=given % engine.state.messages)
    elif step in ("undo", "redo"):
        if getattr(session.transactions.past(), f"can_{step}"):
            await getattr(session, step)()
    elif step == "clear":
        await session.clear()


@pytest.mark.parametrize("auto", ["off", "turn", "step"])
@settings(deadline=None, max_examples=40)
@given(steps=STEPS)
def test_what_was_told_is_what_a_fresh_look_says(
    tmp_path_factory: pytest.TempPathFactory, auto: Any, steps: Any
) -> None:
    async def main(home: Path) -> None:
        store = SessionStore(home, durability="os")
        session = (await store.open("s", create=True, access="write", auto_checkpoint=auto)).session
        window = Window(session)
        for step, argument in steps:
            await carry_out(session, step, argument)
            window.check()
        await store.aclose()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_spans, "READ_BYTES", 2000)  # so that long spans are met
        patch.setattr(log_spans, "READ_MESSAGES", 6)
        asyncio.run(main(tmp_path_factory.mktemp("home")))


def written(path: Path, *records: Json) -> Path:
    folder = path / "foreign"
    folder.mkdir()
    (folder / "context.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


async def opened(tmp_path: Path, *records: Json) -> tuple[SessionStore, Session]:
    return await opened_as_it_stands(tmp_path, written(tmp_path, *records))


async def opened_as_it_stands(tmp_path: Path, folder: Path) -> tuple[SessionStore, Session]:
    store = SessionStore(tmp_path / "home")
    return store, (await store.open(path=folder, access="write")).session


class Reads:
    """Counts what is read of logs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.lines = self.bytes = self.calls = 0
        lines, entries, pread = StoredLog.lines, StoredLog.entries, StoredLog.pread

        def counted_lines(log: StoredLog, start: int, stop: int) -> Any:
            self.calls += 1
            self.lines += stop - start
            return lines(log, start, stop)

        def counted_entries(log: StoredLog, start: int, stop: int) -> Any:
            self.lines += stop - start
            return entries(log, start, stop)

        def counted_bytes(log: StoredLog, offset: int, size: int) -> bytes:
            self.calls += 1
            self.bytes += size
            return pread(log, offset, size)

        patch.setattr(StoredLog, "lines", counted_lines)
        patch.setattr(StoredLog, "entries", counted_entries)
        patch.setattr(StoredLog, "pread", counted_bytes)


async def test_appends_read_nothing_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, session = await opened(tmp_path, {"role": "_checkpoint", "id": 0}, *MESSAGES)
    told: list[Event] = []
    session.listen(told.append)
    await session.append([MESSAGES[0]])
    reads = Reads(monkeypatch)
    for number in range(20):
        await session.append([MESSAGES[number % len(MESSAGES)]])
    assert told[-1].members["span"]["summary"]["messages"] == len(MESSAGES) + 21
    assert reads.calls == 0
    await store.aclose()


async def test_nothing_is_worked_out_where_nobody_listens_or_there_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, session = await opened(tmp_path, {"role": "user", "content": "x"})
    taken: list[Json] = []
    monkeypatch.setattr(SpanTally, "take_message", lambda _, message: taken.append(message))
    stop = session.listen(lambda _: None)
    await session.append([MESSAGES[0]])
    stop()
    await session.checkpoint()
    await session.append([MESSAGES[0]])
    assert not taken
    session.listen(lambda _: None)
    await session.append([MESSAGES[1]])
    assert len(taken) == 2  # that one, and the one before it, which nobody heard of
    await store.aclose()


async def test_a_page_of_checkpoints_is_read_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many: list[Json] = [
        record for number in range(300) for record in ({"role": "_checkpoint", "id": number}, *MESSAGES[:4])
    ]
    store, session = await opened(tmp_path, *many)
    reads = Reads(monkeypatch)
    found = session.checkpoints(session.engine, 250, 100, newest_first=True)
    assert [one.id for one in found] == list(range(250, 150, -1))
    assert reads.calls <= 2 and reads.lines <= 520
    assert reads.bytes < session.engine.state.length / 2
    assert {one.summary["errors"] for one in found if one.summary} == {1}
    await store.aclose()


async def test_of_a_long_span_only_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long: list[Json] = [{"role": "assistant", "content": f"{number}"} for number in range(5000)]
    records: list[Json] = [{"role": "_checkpoint", "id": 0}, *long, {"role": "_checkpoint", "id": 1}, *MESSAGES[:1]]
    store, session = await opened(tmp_path, *records)
    reads = Reads(monkeypatch)
    first, second = session.checkpoints(session.engine, 0, 2)
    assert first.summary and (first.summary["text"], first.summary["messages"]) == ("0", 5000)
    assert second.summary and second.summary["text"] == "a prompt"
    assert reads.lines < 3 * log_spans.READ_MESSAGES
    assert reads.bytes < session.engine.state.length / 4
    await store.aclose()


async def test_a_line_is_decoded_once_to_be_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is strict JSON is found out when it goes into a reply as it is: a log of another program does not say."""
    records: list[Json] = [{"role": "_checkpoint", "id": 0}, *MESSAGES, {"role": "_checkpoint", "id": 1}, *MESSAGES]
    decoded: list[bytes] = []
    monkeypatch.setattr(reader, "classify", lambda line: pytest.fail(f"parsed besides: {line!r}"))

    def counted(line: bytes) -> Any:
        decoded.append(bytes(line))
        return record.decode_strictly(line)

    monkeypatch.setattr(log_spans, "decode_strictly", counted)
    store, session = await opened(tmp_path, *records)
    first, second = session.summary().checkpoints
    assert first.summary == second.summary and first.preview == second.preview == "a prompt"
    assert len(decoded) == len(set(decoded)) * 2 == len(MESSAGES) * 2
    await store.aclose()


async def test_a_page_ends_before_it_reads_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"role": "user", "content": "x" * 1000}
    many: list[Json] = [record for number in range(10) for record in ({"role": "_checkpoint", "id": number}, large)]
    store, session = await opened(tmp_path, *many)
    monkeypatch.setattr(log_spans, "PAGE_BYTES", 3000)
    monkeypatch.setattr(log_spans, "READ_BYTES", 1100)
    assert log_spans.spans_of_page(session.engine, 9, 10, True) == 2
    assert log_spans.spans_of_page(session.engine, 0, 10, False) == 2
    monkeypatch.setattr(log_spans, "PAGE_BYTES", 10)
    assert log_spans.spans_of_page(session.engine, 9, 10, True) == 1
    await store.aclose()


async def test_what_only_the_original_reads_is_told_as_the_log_shows_it(tmp_path: Path) -> None:
    folder = written(tmp_path)
    lines = [
        b'{"role": "_checkpoint", "id": 0}\n{"role": "user", "content": "a\tprompt"}\n',
        b'{"role": "_checkpoint", "id": 1}\n{"role": "user", "content": "half \\ud800 a pair", "weight": NaN}\n',
    ]
    (folder / "context.jsonl").write_bytes(b"".join(lines))
    store, session = await opened_as_it_stands(tmp_path, folder)
    found = session.checkpoints(session.engine, 0, 10)
    assert [each.summary and each.summary["text"] for each in found] == ["a prompt", "half \ufffd a pair"]
    assert [each.summary for each in found] == from_scratch(session.engine)
    bare = [past.read_checkpoint(session.engine, session.engine.line_of_checkpoint(number)) for number in (0, 1)]
    assert [each.preview for each in found] == [each.preview for each in bare] == ["a\tprompt", "half ? a pair"]
    await store.aclose()


async def test_damaged_lines_are_left_out_and_the_rest_is_told(tmp_path: Path) -> None:
    folder = written(
        tmp_path, {"role": "_checkpoint", "id": 0}, *MESSAGES[:3], {"role": "_checkpoint", "id": 1}, MESSAGES[0]
    )
    lines = (folder / "context.jsonl").read_bytes().splitlines(keepends=True)
    lines[2:2] = [b"{broken\n", b'{"role":"user","content":"\x00"}\n', b'{"role":"user","content":"a\\ud800b"}\n']
    (folder / "context.jsonl").write_bytes(b"".join(lines))
    store, session = await opened_as_it_stands(tmp_path, folder)
    found = session.checkpoints(session.engine, 0, 10)
    assert [one.summary and one.summary["kind"] for one in found] == ["prompt", "prompt"]
    assert [one.summary for one in found] == from_scratch(session.engine)
    await store.aclose()
    log = bytearray((folder / "context.jsonl").read_bytes())
    at = log.rindex(b"a prompt")
    session = (await store.open(path=folder, access="write")).session
    await session.catch_its_turn()
    log[at] ^= 1
    (folder / "context.jsonl").write_bytes(log)  # under its feet: the index says so
    told = session.checkpoints(session.engine, 1, 1)[0]
    assert told.summary == {"kind": "empty", "text": "", "messages": 1} and told.preview is None
    await store.aclose()
