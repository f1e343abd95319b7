"""A folder of Claude Code's sessions to measure with: the same on every machine, in the shape of real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.corpus import messages

KINDS = 8
"""Conversations that differ; the other sessions say the same under other ids."""
MESSAGES = 210
"""Of a session, which makes about a megabyte."""
STARTED = "2026-11-20T10:00:00.000Z"
_NUMBER = "00000000"


def write_claude_folder(folder: Path, sessions: int) -> int:
    """Write so many sessions of about a megabyte each, twenty in a project's folder; returns their bytes."""
    texts = ["\n".join(map(_line, _records(kind, MESSAGES + kind))) + "\n" for kind in range(KINDS)]
    total = 0
    for number in range(sessions):
        path = folder / f"-project-{number // 20}" / f"{number:08x}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = texts[number % KINDS].replace(_NUMBER, f"{number:08x}").encode()
        path.write_bytes(data)
        total += len(data)
    return total


def write_claude_session(path: Path, messages: int) -> None:
    """Write one session of so many messages."""
    path.write_text("\n".join(map(_line, _records(0, messages))) + "\n", "utf-8")


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _records(kind: int, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, message in enumerate(messages(count)):
        record: dict[str, Any] = {
            "parentUuid": found[-1]["uuid"] if found else None,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/somebody/project",
            "sessionId": f"{_NUMBER}-0000-4000-8000-000000000000",
            "version": "2.1.330",
            "gitBranch": "main",
            "type": "assistant" if message["role"] == "assistant" else "user",
            "message": _said(message, number),
            "uuid": f"{_NUMBER}-{number:04x}-4000-8000-{kind:012x}",
            "timestamp": STARTED,
        }
        found.append(record)
    return found


def _said(message: dict[str, Any], number: int) -> dict[str, Any]:
    content = message["content"]
    if message["role"] == "user":
        return {"role": "user", "content": content}
    if message["role"] == "tool":
        return {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}],
        }
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": "Read",
            "input": {"file_path": f"/home/somebody/project/{number}.py"},
        }
        for call in message["tool_calls"]
    ]
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": 900,
        "cache_read_input_tokens": 14_000 + number,
        "output_tokens": 300,
    }
    return {
        "model": "claude-opus-4-5",
        "id": f"msg_{number:024d}",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": content}, *calls],
        "stop_reason": "tool_use",
        "usage": usage,
    }
