"""Runs the original program's classes on files, for the interop tests. Executed by the original's own Python.

Reads one JSON request a line from standard input, writes one JSON answer a line: `{"ok": ...}` or `{"error": ...}`.
The state of a context is told the same way in every answer: see `describe`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from kimi_cli.session_state import SessionState, load_session_state, save_session_state
from kimi_cli.soul.context import Context
from kosong.contrib.context.linear import JsonlLinearStorage
from kosong.message import Message


def describe(context: Context) -> dict[str, Any]:
    return {
        "history": [message.model_dump(mode="json", exclude_none=True) for message in context.history],
        "tokenCount": context.token_count,
        "tokenCountWithPending": context.token_count_with_pending,
        "nCheckpoints": context.n_checkpoints,
        "systemPrompt": context.system_prompt,
    }


async def step(context: Context, name: str, value: Any) -> None:
    """One operation on a context, named as in the tests."""
    match name:
        case "restore":
            await context.restore()
        case "append":
            messages = [Message.model_validate(message) for message in value]
            await context.append_message(messages if len(messages) > 1 else messages[0])
        case "checkpoint":
            await context.checkpoint(add_user_message=value)
        case "usage":
            await context.update_token_count(value)
        case "revert":
            await context.revert_to(value)
        case "clear":
            await context.clear()
        case "prompt":
            await context.write_system_prompt(value)
        case _:
            raise ValueError(f"unknown step {name}")


async def answer(request: dict[str, Any]) -> Any:
    """Do what one request asks for."""
    path = Path(request["path"])
    match request["do"]:
        case "restore":
            context = Context(path)
            restored = await context.restore()
            return {"restored": restored, **describe(context)}
        case "steps":
            context = Context(path)
            for name, value in request["steps"]:
                await step(context, name, value)
            return describe(context)
        case "linear":
            storage = JsonlLinearStorage(path)
            for message in request["messages"]:
                await storage.append_message(Message.model_validate(message))
            await storage.mark_token_count(request["tokenCount"])
            storage._get_file().flush()
            return None
        case "loadState":
            return load_session_state(path).model_dump(mode="json")
        case "saveState":
            save_session_state(SessionState.model_validate(request["state"]), path)
            return None
        case other:
            raise ValueError(f"unknown request {other}")


def main() -> None:
    for line in sys.stdin:
        try:
            reply = {"ok": asyncio.run(answer(json.loads(line)))}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
