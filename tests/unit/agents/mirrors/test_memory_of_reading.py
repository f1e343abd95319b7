"""Memory that a reader holds of a session: what each further record takes, by the growth from N records to 2 N."""

from __future__ import annotations

import errno
import gc
import json
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.opencode_file import OpencodeFile

from timeleap.json_value import Json
from timeleap_agents.mirrors import growing_file, scratch
from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.formats import claude_nodes
from timeleap_agents.mirrors.gemini_log import GeminiLog
from timeleap_agents.mirrors.growing_file import Conversation
from timeleap_agents.mirrors.kimi_code_log import KimiCodeLog
from timeleap_agents.mirrors.kimi_log import KimiLog
from timeleap_agents.mirrors.opencode_log import OpencodeLog
from timeleap_agents.mirrors.pi_log import PiLog

RECORDS: Final = 1500
BYTES: Final[dict[str, float]] = {
    "claude-code": 20,
    "codex": 28,
    "gemini": 12,
    "kimi": 8,
    "kimi-code": 10,
    "opencode": 14,
    "pi": 14,
}
"""Bytes of each record in memory, at most, apart from what is put aside."""
PUT_ASIDE: Final = 1 << 11
"""Bytes from which on notes go to a file here, so that they do with few records, too."""


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


def _codex(number: int) -> Iterator[Json]:
    when = {"timestamp": "2026-11-20T10:00:00.000Z"}
    yield {
        **when,
        "type": "session_meta",
        "payload": {"id": str(uuid.uuid4()), "cwd": "/work", "cli_version": "0.169.0"},
    }
    for place in range(number):
        call = {"call_id": f"call_{uuid.UUID(int=place // 4)}"}
        items: list[Json] = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"do {place}"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I shall"}]},
            {"type": "function_call", "name": "shell", "arguments": "{}", **call},
            {"type": "function_call_output", "output": "done", **call},
        ]
        yield {
            **when,
            "timestamp": f"2026-11-20T10:{place // 60 % 60:02}:{place % 60:02}.000Z",
            "payload": items[place % 4],
        } | {"type": "response_item"}


def _gemini(number: int) -> Iterator[Json]:
    yield {"sessionId": str(uuid.uuid4()), "projectHash": "0" * 64, "kind": "main"}
    for place in range(number):
        kind = ("user", "gemini")[place % 2]
        when = f"2026-11-20T10:{place // 60 % 60:02}:{place % 60:02}.000Z"
        yield {"id": str(uuid.uuid4()), "timestamp": when, "type": kind, "content": f"{place} " + "words " * 200}


def _kimi(number: int) -> Iterator[Json]:
    for place in range(number):
        call = f"call_{uuid.UUID(int=place // 3)}"
        made = {"id": call, "type": "function", "function": {"name": "Shell", "arguments": "{}"}}
        messages: list[Json] = [
            {"role": "user", "content": f"do {place}"},
            {"role": "assistant", "content": "I shall", "tool_calls": [made]},
            {"role": "tool", "content": "done", "tool_call_id": call},
        ]
        yield messages[place % 3]


def _kimi_code(number: int) -> Iterator[Json]:
    yield {"type": "metadata", "protocol_version": "1.5"}
    for place in range(number):
        step, call = str(uuid.UUID(int=place // 6)), f"call_{uuid.UUID(int=place // 6)}"
        asked = {"role": "user", "content": [{"type": "text", "text": f"do {place}"}], "toolCalls": []}
        event: Json | None = [
            None,
            {"type": "step.begin", "uuid": step},
            {"type": "content.part", "stepUuid": step, "part": {"type": "text", "text": "I shall"}},
            {"type": "tool.call", "stepUuid": step, "toolCallId": call, "name": "Shell", "args": {}},
            {"type": "tool.result", "toolCallId": call, "result": {"output": "done"}},
            {"type": "step.end", "uuid": step, "usage": {"inputOther": 1, "output": 1}},
        ][place % 6]
        when = {"time": 1_764_000_000_000 + place}
        if event is None:
            yield {"type": "context.append_message", "message": {**asked, "origin": {"kind": "user"}}, **when}
        else:
            yield {"type": "context.append_loop_event", "event": event, **when}


def _pi(number: int) -> Iterator[Json]:
    yield {"type": "session", "version": 3, "id": str(uuid.uuid4()), "cwd": "/work"}
    before: str | None = None
    for place in range(number):
        call, made = f"call_{uuid.UUID(int=place // 3)}", uuid.uuid4().hex[:8]
        said = {"type": "toolCall", "id": call, "name": "bash", "arguments": {}}
        messages: list[Json] = [
            {"role": "user", "content": f"do {place}"},
            {"role": "assistant", "content": [said]},
            {"role": "toolResult", "toolCallId": call, "content": "done"},
        ]
        when = f"2026-11-20T10:{place // 60 % 60:02}:{place % 60:02}.000Z"
        yield {"type": "message", "id": made, "parentId": before, "timestamp": when, "message": messages[place % 3]}
        before = made


def _opencode(number: int) -> Iterator[Json]:
    for place in range(number // 2):
        yield {"turn": place}


def _written(path: Path, records: Iterator[Json]) -> Path:
    """Write these records into a session's file, or into its database."""
    if path.name.startswith("ses_"):
        file = OpencodeFile(path.parent.parent, name=path.name)
        file.connection.execute("BEGIN")
        for record in records:
            file.turn(record["turn"])
        file.connection.execute("COMMIT")
        file.close()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def _held(make: Callable[[Path], Conversation], path: Path) -> tuple[int, Any]:
    """Bytes that a reader holds when it has read a file, with what it says of it."""
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


FORMATS: Final = [
    ("claude-code", ClaudeLog, _claude, "{}.jsonl"),
    ("codex", CodexLog, _codex, f"rollout-2026-11-20T10-00-00-{uuid.UUID(int=1)}-{{}}.jsonl"),
    ("gemini", GeminiLog, _gemini, "session-{}.jsonl"),
    ("kimi", KimiLog, _kimi, "sessions/0/{}/context.jsonl"),
    ("kimi-code", KimiCodeLog, _kimi_code, "sessions/wd/{}/agents/main/wire.jsonl"),
    ("opencode", OpencodeLog, _opencode, "{}/opencode.db/ses_1"),
    ("pi", PiLog, _pi, "{}.jsonl"),
]


@pytest.mark.parametrize(("kind", "make", "records", "name"), FORMATS)
def test_each_record_takes_few_bytes(
    kind: str,
    make: Callable[[Path], Conversation],
    records: Callable[[int], Iterator[Json]],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scratch, "LEAST", PUT_ASIDE)
    monkeypatch.setattr(scratch, "HELD", PUT_ASIDE)
    monkeypatch.setattr(growing_file, "FRESH_LINES", 0)
    _held(make, _written(tmp_path / name.format("few"), records(RECORDS)))  # what is made once is none of a record's
    few, _ = _held(make, tmp_path / name.format("few"))
    many, (steps, _, _) = _held(make, _written(tmp_path / name.format("many"), records(2 * RECORDS)))
    assert len(steps) >= 1.2 * RECORDS
    assert (many - few) / RECORDS < BYTES[kind]


def _branching(number: int) -> Iterator[Json]:
    """Records of Claude Code of which some go on from an earlier one, and some repeat one."""
    made = list(_claude(number))
    for place, record in enumerate(made):
        if place % 40 == 39:
            record["parentUuid"] = made[place - 20]["uuid"]
        yield record
        if place % 60 == 59:
            yield made[place - 5]


@pytest.mark.parametrize("room", ["", "on no disk", "in no file"])
@pytest.mark.parametrize(
    ("kind", "make", "records", "name"), [*FORMATS, ("claude-code", ClaudeLog, _branching, "{}.jsonl")]
)
def test_notes_that_are_put_aside_say_what_those_in_memory_say(
    kind: str,
    make: Callable[[Path], Conversation],
    records: Callable[[int], Iterator[Json]],
    name: str,
    room: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del kind
    path = _written(tmp_path / name.format("one"), records(400))

    def said() -> tuple[Any, ...]:
        log = make(path)
        log.read()
        if path.is_file():
            with path.open("a") as file:
                file.write("\n")
        log.read()
        steps = list(log.steps())
        return steps, [list(each.steps) for each in log.earlier()], log.open_calls(steps), log.file.left_out.losses()

    expected = said()
    monkeypatch.setattr(scratch, "LEAST", 64)
    monkeypatch.setattr(scratch, "HELD", 64)
    monkeypatch.setattr(scratch, "STAGE", 16)
    monkeypatch.setattr(claude_nodes, "STAGE", 16)
    if room == "on no disk":
        monkeypatch.setattr("os.posix_fallocate", _fails)
    elif room:
        monkeypatch.setattr(scratch, "_temporary_file", _fails)
    assert said() == expected
    assert len(expected[0]) > 100


def _fails(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")
