"""Times the session stores of other agent frameworks. Executed by the Python of `.tools/peers`.

Reads one JSON request a line from standard input (`peer`, `path` of a database to be made, `messages` to append one after
the other), writes the seconds that the appends took on a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

# The answers have the real standard output to themselves: frameworks print.
_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

Message = dict[str, Any]


async def _openai_agents(path: str, messages: list[Message]) -> float:
    from agents.memory.sqlite_session import SQLiteSession

    session = SQLiteSession("bench", path)
    started = time.perf_counter()
    for message in messages:
        await session.add_items([message])
    taken = time.perf_counter() - started
    session.close()
    return taken


async def _google_adk(path: str, messages: list[Message]) -> float:
    from google.adk.events.event import Event
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.genai.types import Content, Part

    service = SqliteSessionService(path)
    session = await service.create_session(app_name="bench", user_id="user", session_id="bench")
    contents = []
    for message in messages:
        role = "user" if message["role"] == "user" else "model"
        contents.append((message["role"], Content(role=role, parts=[Part(text=message["content"])])))
    started = time.perf_counter()
    for author, content in contents:
        await service.append_event(session, Event(author=author, invocation_id="bench", content=content))
    return time.perf_counter() - started


async def _langgraph(path: str, messages: list[Message]) -> float:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
        config: Any = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
        history: list[Message] = []
        started = time.perf_counter()
        for step, message in enumerate(messages):
            # As the graph does after each step: a checkpoint with the channel's value so far.
            history = [*history, message]
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": history}
            checkpoint["channel_versions"] = {"messages": step + 1}
            config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {"messages": step + 1})
        return time.perf_counter() - started


PEERS: dict[str, Callable[[str, list[Message]], Coroutine[Any, Any, float]]] = {
    "openai-agents": _openai_agents,
    "google-adk": _google_adk,
    "langgraph": _langgraph,
}


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        seconds = asyncio.run(PEERS[request["peer"]](request["path"], request["messages"]))
        print(json.dumps(seconds), file=_ANSWERS, flush=True)


main()
