"""Entries as Claude Code writes them."""

from __future__ import annotations

from typing import Any

Entry = dict[str, Any]
KEY: dict[str, Any] = {"project_key": "-home-ada-shop", "session_id": "7d0c2f7e-0000-4000-8000-000000000001"}


def prompt(uuid: str, text: str, parent: str | None = None, **members: Any) -> Entry:
    said = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": said, **members}


def answer(uuid: str, parent: str, *blocks: Any, tokens: int = 0, **members: Any) -> Entry:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    message = {"role": "assistant", "content": content, "model": "m", "usage": {"input_tokens": tokens}}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message, **members}


def result(uuid: str, parent: str, text: str) -> Entry:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": False}
    said = {"role": "user", "content": [block]}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": said, "toolUseResult": {"stdout": text}}


def turn(number: int, parent: str | None = None) -> list[Entry]:
    """A turn of a prompt, a call, its result, an answer: uuids q1, c1, r1, a1 and so on."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": f"echo {number}"}}
    return [
        {"type": "queue-operation", "operation": "enqueue", "n": number},
        prompt(f"q{number}", f"question {number}", parent),
        answer(f"c{number}", f"q{number}", call, tokens=100 * number),
        result(f"r{number}", f"c{number}", str(number)),
        answer(f"a{number}", f"r{number}", f"answer {number}", tokens=100 * number + 1),
    ]
