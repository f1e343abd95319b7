"""Would a provider accept a body? Judged by the types of the official libraries, and by what only its errors tell."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter

Json = dict[str, Any]


# Not at the top: each process of pytest-xdist imports all modules of tests, and these take more than a second.
@cache
def _openai_messages() -> Any:
    from openai.types.chat import ChatCompletionMessageParam

    return list[ChatCompletionMessageParam]


@cache
def _anthropic_messages() -> Any:
    from anthropic.types import MessageParam

    return list[MessageParam]


@cache
def _anthropic_blocks() -> Any:
    from anthropic import types

    block = Annotated[
        types.TextBlockParam
        | types.ImageBlockParam
        | types.ThinkingBlockParam
        | types.ToolUseBlockParam
        | types.ToolResultBlockParam,
        Field(discriminator="type"),
    ]
    return list[block]


def accepted(format: str, body: Json) -> Json:
    """The body, if the provider would accept it; else AssertionError or ValidationError."""
    (_openai if format == "openai" else _anthropic)(body)
    return body


@cache
def _adapter(type_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_, config=ConfigDict(extra="forbid"))


def _fits(type_: Any, value: Any) -> None:
    _exhaust(_adapter(type_).validate_python(value))


def _exhaust(value: Any) -> None:
    """Walk through what was validated: pydantic judges the members of an `Iterable` when they are asked for."""
    if isinstance(value, Mapping):
        for each in value.values():
            _exhaust(each)
    elif not isinstance(value, str) and hasattr(value, "__iter__"):
        for each in value:
            _exhaust(each)


def _openai(body: Json) -> None:
    assert set(body) == {"messages"}
    messages = body["messages"]
    assert messages, "[] is too short - 'messages'"
    _fits(_openai_messages(), messages)
    taken: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "an assistant message with 'tool_calls' must be followed by tool messages"
        assert message["content"] or message.get("tool_calls"), message
        for call in message.get("tool_calls", ()):
            assert 1 <= len(call["id"]) <= 40
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            assert call["id"] not in taken
            taken.add(call["id"])
            waiting.append(call["id"])
        assert re.fullmatch(r"[^\s<|\\/>]{1,64}", message.get("name", "x"))
    assert not waiting


def _anthropic(body: Json) -> None:
    assert set(body) <= {"system", "messages"}
    assert isinstance(body.get("system", "x"), str)
    assert body.get("system", "x").strip()
    messages = body["messages"]
    _fits(_anthropic_messages(), messages)
    for message in messages:
        _fits(_anthropic_blocks(), message["content"])
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], "a user first and last, in turns"
    taken: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        assert message["content"]
        assert message["role"] == "user" or message["content"][-1]["type"] != "thinking"
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting), "`tool_use` ids without `tool_result` blocks immediately after"
        assert all(block["type"] == "tool_result" for block in message["content"][: len(results)])
        waiting = []
        for block in message["content"]:
            _block(block, message["role"])
            if block["type"] == "tool_use":
                assert block["id"] not in taken
                taken.add(block["id"])
                waiting.append(block["id"])


def _block(block: Json, role: str) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), "text content blocks must contain non-whitespace text"
        case "tool_use":
            assert role == "assistant"
            assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["name"])
            assert isinstance(block["input"], dict)
        case "image":
            assert role == "user"
            source = block["source"]
            if source["type"] == "url":
                assert source["url"].startswith("https://")
            else:
                assert len(source["data"]) <= 5 * 1024 * 1024
                assert base64.b64decode(source["data"], validate=True)
        case "thinking":
            assert role == "assistant"
            assert block["signature"]
        case "tool_result":
            assert role == "user"
            for each in block.get("content", ()):
                assert each["type"] in {"text", "image"}
                _block(each, role)
        case other:
            raise AssertionError(other)
