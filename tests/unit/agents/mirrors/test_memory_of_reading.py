"""Memory that a reader holds of a session: what each further record takes, by the growth from N records to 2 N."""

from __future__ import annotations

import gc
import json
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from timeleap.json_value import Json
from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.growing_file import Conversation

RECORDS: Final = 1500
BYTES: Final = 256
"""Of each record, at most: a file of a gigabyte has 250 000 records of 4 kB, which are to be held in 64 MB."""


def _claude(number: int) -> Iterator[Json]:
    """Prompts, answers of two records with a call, and results."""
    parent: str | None = None
    session = str(uuid.uuid4())
    for place in range(number):
        made, turn = str(uuid.uuid4()), place // 4
        contents: list[list[Json]] = [
            [{"type": "text", "text": f"do {turn}"}],
            [{"type": "text", "text": "I shall"}],
            [{"type": "tool_use", "id": f"toolu_{turn}", "name": "Bash", "input": {}}],
            [{"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "done"}],
        ]
        kind = "assistant" if place % 4 in (1, 2) else "user"
        message: Json = {"role": kind, "content": contents[place % 4]}
        if kind == "assistant":
            message["id"] = f"msg_{turn}"
        yield {
            "type": kind, "uuid": made, "parentUuid": parent, "sessionId": session, "cwd": "/work", "version": "2.1.330",
            "timestamp": f"2026-11-20T10:{place // 60 % 60:02}:{place % 60:02}.{place % 1000:03}Z", "message": message,
        }  # fmt: skip
        parent = made


def _held(make: Callable[[Path], Conversation], path: Path, records: Iterator[Json]) -> tuple[int, Any]:
    """Bytes that a reader holds when it has read these records, with what it says of them."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    gc.collect()
    tracemalloc.start()
    try:
        log = make(path)
        log.read()
        log.file.forget_fresh()
        said = log.steps(), log.earlier(), log
        gc.collect()
        return tracemalloc.get_traced_memory()[0], said
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("make", "records"), [(ClaudeLog, _claude)])
def test_each_record_takes_few_bytes(
    make: Callable[[Path], Conversation], records: Callable[[int], Iterator[Json]], tmp_path: Path
) -> None:
    few, _ = _held(make, tmp_path / "few.jsonl", records(RECORDS))
    many, (steps, _, _) = _held(make, tmp_path / "many.jsonl", records(2 * RECORDS))
    assert len(steps) >= 1.5 * RECORDS
    assert (many - few) / RECORDS < BYTES
