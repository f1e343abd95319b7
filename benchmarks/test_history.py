"""What does a page of history cost, beside dumping the same models, or building it of objects; and anywhere in a log?"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest
from benchmarks.conftest import Judge
from benchmarks.corpus import messages, write_session
from benchmarks.measure import interleaved
from benchmarks.original import Original
from benchmarks.parts import Part, crc32
from benchmarks.server import Server

pytestmark = pytest.mark.bench

MESSAGES = 20_000
PAGE = 500
MEGABYTE = 1000
"""Messages, of such a size that their page has one."""
SIZE = 0.21
BLOCK = 128
"""Lines that are compared at once where they were compared one by one before."""


@pytest.mark.rows("11")
def test_a_page_of_a_megabyte(
    tmp_path: Path, server: Server, least: Callable[..., Server], original: Original, judge: Judge
) -> None:
    said = messages(MEGABYTE, size=SIZE)
    log = write_session(tmp_path / "plain", MEGABYTE, size=SIZE)
    lines = log.read_bytes().splitlines(keepends=True)
    blocks = [b"".join(lines[start : start + BLOCK]) for start in range(0, len(lines), BLOCK)]
    text, ends = memoryview(log.read_bytes()), list(accumulate(map(len, lines)))
    places = [
        (end - len(line), end - 1) for line, end in zip(lines, ends, strict=True) if not line.startswith(b'{"role": "_')
    ]
    plain, doing_least = server.open(log)["sessionId"], least(log)
    server.request("session/open", {"sessionId": "marked"})
    for number, message in enumerate(said):
        server.request("context/appendMessage", {"sessionId": "marked", "message": message, "requestId": f"r{number}"})
    asked = {"limit": MEGABYTE, "maxBytes": 8 << 20}

    def page(session: str) -> None:
        (reply,) = server.exchange(server.frames("context/getHistory", [{"sessionId": session, **asked}]))
        assert len(reply) > 1_000_000

    def plain_lines() -> None:
        (reply,) = doing_least.exchange(doing_least.frames("context/getHistory", [{"limit": 2 * MEGABYTE}]))
        assert len(reply) > 1_000_000  # all lines, as they stand in the log, without what ours says of each

    def compare() -> None:
        for block in blocks:
            crc32(block)

    def put_behind_indexes() -> None:
        parts: list[bytes | memoryview] = [
            *(b'},{"index":%d,"message":\n\n' * len(places) % tuple(range(len(places)))).split(b"\n")
        ]
        parts[1::2] = [text[begin:end] for begin, end in places]
        b"".join(parts)

    for session in (plain, "marked"):
        assert len(server.request("context/getHistory", {"sessionId": session, **asked})["messages"]) == MEGABYTE
    measured = interleaved(
        f"A page of {MEGABYTE} messages",
        {
            "dump the models": lambda: original.dump(said),
            "timeleap": lambda: page(plain),
            "timeleap, each with a request id": lambda: page("marked"),
            "the least": plain_lines,
            "checksums": compare,
            "number": put_behind_indexes,
        },
        rounds=25,
    )
    assert measured["timeleap, each with a request id"].over(measured["timeleap"]) <= 2
    ours, way = measured["timeleap"], measured["the least"].median
    compared, numbered = measured["checksums"].median, measured["number"].median
    parts = [
        Part("read the log, send it through the pipe into the client", way, "the least process has it, too"),
        Part("compare blocks of lines with checksums", compared, "what is not what was written is never history"),
        Part("cut the messages out, put each behind its index", numbered, "control records are left out"),
        Part(
            "the rest",
            max(0.0, ours.median - way - compared - numbered),
            "entries found and checked, kind and flags of each line, order of requests",
        ),
    ]
    judge("11", ours, measured["dump the models"], least=measured["the least"], parts=parts)


def test_a_page_of_history(tmp_path: Path, server: Server) -> None:
    log = write_session(tmp_path / "session", MESSAGES, size=0.2)
    session = server.open(log)["sessionId"]
    lines = [line for line in log.read_bytes().splitlines() if b'"role": "_' not in line]

    def page(start: int) -> None:
        asked = {"sessionId": session, "from": start, "to": start + PAGE, "limit": PAGE}
        assert len(server.request("context/getHistory", asked)["messages"]) == PAGE

    def plainly() -> None:
        made = [{"index": at, "message": json.loads(line)} for at, line in enumerate(lines[:PAGE])]
        json.loads(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"messages": made}}))

    measured = interleaved(
        f"A page of {PAGE} messages of {MESSAGES}",
        {
            "read and write it as objects": plainly,
            "timeleap, the first": lambda: page(0),
            "timeleap, in the middle": lambda: page(MESSAGES // 2),
            "timeleap, the last": lambda: page(MESSAGES - PAGE),
        },
        rounds=15,
    )
    first, last = measured["timeleap, the first"], measured["timeleap, the last"]
    assert last.over(first) <= 2
    assert first.over(measured["read and write it as objects"]) <= 2
