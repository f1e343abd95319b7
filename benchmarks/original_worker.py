"""Times the original program's classes. Executed by the original's own Python.

Reads one JSON request a line from standard input, writes the seconds it took on a line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from kimi_cli.soul.context import Context
from kosong.message import Message


async def _timed(request: dict[str, Any]) -> float:
    if request["do"] == "dump":
        models = [Message.model_validate(message) for message in request["messages"]]
        started = time.perf_counter()
        json.dumps([model.model_dump() for model in models])
        return time.perf_counter() - started
    context = Context(Path(request["path"]))
    if request["do"] == "append":
        messages = [Message.model_validate(message) for message in request["messages"]]
        started = time.perf_counter()
        for message in messages:
            await context.append_message(message)
        return time.perf_counter() - started
    if request["do"] == "turns":
        steps = [
            (kind, Message.model_validate(value) if kind == "message" else value) for kind, value in request["steps"]
        ]
        started = time.perf_counter()
        for kind, value in steps:
            if kind == "message":
                await context.append_message(value)
            elif kind == "usage":
                await context.update_token_count(value)
            else:
                await context.checkpoint(add_user_message=False)
        return time.perf_counter() - started
    started = time.perf_counter()
    await context.restore()
    if request["do"] == "revert":
        started = time.perf_counter()
        await context.revert_to(request["checkpoint"])
    return time.perf_counter() - started


async def _held(path: Path) -> Context:
    context = Context(path)
    await context.restore()
    gc.collect()
    return context


def main() -> None:
    """Answer requests until the input ends."""
    held = []
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "hold":
            held.append(asyncio.run(_held(Path(request["path"]))))
            print(0, flush=True)
        else:
            print(json.dumps(asyncio.run(_timed(request))), flush=True)


main()
