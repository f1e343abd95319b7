"""Lines read all at once are those read one by one, whatever is in the file; so are pages of messages made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_storage_scan import LINES, scanned
from tests.support.memory_engine import MemoryFile

from timeleap.errors import CorruptedError
from timeleap.rpc.codec import encode
from timeleap.service.paging import Span, page
from timeleap.storage.log_values import Entry, RecordFlag, RecordKind, Row
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import SENDER, as_sent, classify, message_record, read_tl, strict_json

LENIENT = [
    b'{"role":"user","content":"a\tb"}',
    b'{"role":"user","content":"\\ud800"}',
    b'{"role":"user","content":"","name":"x","_tl":{"r":"\\ud800"}}',
    b'{"role":"user","content":NaN}',
    b'{"role":"user","content":"broken}',
    b'{"role":"user","content":"cut",}',
    b'{"role":"user","content":"\xff"}',
    b'{"role":"user","content":"a"} {"role":"user","content":"a"}',
]
WORDS = st.sampled_from(["r1", "timeleap:7", "", 'a"b', "\\", "é", "\n"]) | st.text(max_size=5)
MARKS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {}, optional={"a": st.just(1), "r": WORDS, SENDER: WORDS, "z": st.integers()}
)
REQUEST = st.fixed_dictionaries({"r": WORDS, "h": WORDS, "m": WORDS, "s": st.integers(1), "o": WORDS, "g": WORDS})
BATCH = st.fixed_dictionaries({"b": WORDS, "i": st.integers(0, 3), "n": st.integers(1, 4)})
OURS = st.builds(
    lambda content, marks, batch: message_record({"role": "user", **content}, {**marks, **batch}).body,
    st.fixed_dictionaries({}, optional={"content": WORDS}),
    MARKS | REQUEST,
    BATCH | st.just({}),
)
MOVED = st.sampled_from(
    [
        b'{"_tl":{"r":"1","a":1},"role":"user","content":null}',
        b'{"role":"user","content":"x","_tl":{"r":7}}',
        b'{"role":"user","content":"x","_tl":{"r":null,"b":"y"}}',
        b'{"role":"user","content":"x","_tl":{"r":"1"} }',
        b'{"role":"user","content":"x","_tl":5}',
        b'{"role":"user","content":[",\\"_tl\\":{"],"_tl":{"f":"s","b":"y","i":0,"n":1}}  ',
    ]
)
RECORDS = st.lists(st.one_of(LINES, st.sampled_from(LENIENT), OURS, MOVED), min_size=1, max_size=12)


def one_by_one(content: bytes, entries: list[Entry]) -> list[tuple[int, RecordKind, int, bytes]] | int:
    """The lines as their entries say, each looked at by itself; or the first that is not what was written."""
    found = []
    for entry in entries:
        line = content[entry.offset : entry.offset + entry.length]
        if crc32(line) != entry.crc:
            return entry.line
    for entry in entries:
        body = content[entry.offset : entry.offset + entry.length].removesuffix(b"\n")
        record = classify(body)
        if record.kind == RecordKind.DAMAGED and entry.kind != RecordKind.DAMAGED:
            return entry.line
        body = strict_json(body) if record.flags & RecordFlag.LENIENT else body
        before = entry.state.messages - (entry.kind == RecordKind.MESSAGE)
        found.append((entry.line, entry.kind, before, body))
    return found


@settings(max_examples=300, deadline=None)
@given(lines=RECORDS, quick=st.booleans(), data=st.data())
def test_lines_are_those_that_were_written(lines: list[bytes], quick: bool, data: st.DataObject) -> None:
    content = bytearray(b"\n".join(lines) + b"\n" * data.draw(st.integers(0, 1)))
    found, store = scanned(bytes(content), quick=quick)
    count = found.state.lines
    if count and data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(b'\n"{x'))
    log = StoredLog(Path("context.jsonl"), MemoryFile(bytes(content)), store, found.state)
    for _ in range(2):  # what was found of a line the first time is remembered
        start = data.draw(st.integers(0, count))
        stop = data.draw(st.integers(start, count))
        expected = one_by_one(bytes(content), log.entries(start, stop))
        if isinstance(expected, int):
            with pytest.raises(CorruptedError) as caught:
                log.rows(start, stop)
            assert caught.value.data["line"] == expected
            continue
        rows = log.rows(start, stop)
        assert [(row.line, row.kind, row.messages_before, row.body) for row in rows] == expected
        assert [row.flags for row in rows] == [entry.flags & 0xFF for entry in log.entries(start, stop)]


def entry_of(row: Row, *, meta: bool) -> Any:
    """A message as the contract has it, made of objects."""
    index, body = row.messages_before, row.body
    if not row.flags & RecordFlag.HAS_TL:
        return {"index": index, "message": msgspec.Raw(body)}
    tl = read_tl(body)
    named = {"requestId": tl.get("r"), "batchId": tl.get("b"), "fromSessionId": tl.get(SENDER)}
    named = {name: value for name, value in named.items() if value is not None}
    made = {"index": index, "message": msgspec.Raw(as_sent(body))}
    return {**made, "meta": named} if meta and named else made


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(st.one_of(OURS, MOVED, st.sampled_from(LENIENT[:4]), LINES), min_size=1, max_size=12),
    newest_first=st.booleans(),
    limit=st.integers(1, 8),
    most=st.integers(1, 400),
    meta=st.booleans(),
)
def test_a_page_is_what_its_messages_are_one_by_one(
    lines: list[bytes], newest_first: bool, limit: int, most: int, meta: bool
) -> None:
    content = b"".join(line + b"\n" for line in lines)
    found, store = scanned(content, quick=False)
    log = StoredLog(Path("context.jsonl"), MemoryFile(content), store, found.state)
    every = [row for row in log.rows(0, found.state.lines) if row.kind == RecordKind.MESSAGE]
    span, pages = Span("s", None, "0", 0, len(every), newest_first), []
    while span.start < span.stop:
        got, span = page(log, span, limit, most, meta=meta)
        assert 1 <= got.messages <= limit
        pages.append((got, every[-got.messages :] if newest_first else every[: got.messages]))
        del every[-got.messages if newest_first else 0 : None if newest_first else got.messages]
        assert got.messages == 1 or sum(len(row.body) + 1 for row in pages[-1][1]) <= most
    assert not every
    for got, rows in pages:
        ordered = rows[::-1] if newest_first else rows
        assert json.loads(encode(got.entries)) == json.loads(encode([entry_of(row, meta=meta) for row in ordered]))
