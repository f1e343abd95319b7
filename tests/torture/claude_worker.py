"""Runs Claude Code through its Agent SDK; runs in the Python that has the SDK, and is asked over standard input.

A request is a line of JSON, and so is its answer. The environment of this process is that of Claude Code.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
    SystemMessage,
    UserMessage,
)

SESSIONS: dict[str, ClaudeSDKClient] = {}
PATIENCE = float(os.environ.get("PATIENCE", "120"))


async def allow(_tool: str, _arguments: dict[str, Any], _context: object) -> PermissionResultAllow:
    """Whatever is asked for."""
    return PermissionResultAllow()


async def open_session(key: str, cwd: str, cli: str, resume: str | None) -> str:
    """Start the program for a session."""
    client = ClaudeSDKClient(
        ClaudeAgentOptions(
            cwd=cwd,
            cli_path=cli,
            resume=resume,
            enable_file_checkpointing=True,
            extra_args={"replay-user-messages": None},
            can_use_tool=allow,
            permission_mode="acceptEdits",
            setting_sources=[],
            model="claude-sonnet-4-5",
        )
    )
    await client.connect()
    SESSIONS[key] = client
    return ""


async def turn(key: str, prompt: str) -> dict[str, str]:
    """One turn; returns the prompt's id, the session's, and what went wrong."""
    client = SESSIONS[key]
    told = {"uuid": "", "session": "", "error": ""}
    await client.query(prompt)
    async for message in client.receive_response():
        if isinstance(message, UserMessage) and message.uuid and not told["uuid"]:
            told["uuid"] = message.uuid
        elif isinstance(message, SystemMessage) and message.subtype == "init":
            told["session"] = message.data["session_id"]
        elif isinstance(message, ResultMessage) and message.is_error:
            told["error"] = f"the turn failed: {message}"
    return told


async def rewind(key: str, uuid: str) -> str:
    """The files go back to before a prompt."""
    await SESSIONS[key].rewind_files(uuid)
    return ""


async def kill() -> str:
    """kill -9 of every program; the sessions have to be opened again."""
    for client in SESSIONS.values():
        process = client._transport._process  # the SDK has no word for it
        os.kill(process.pid, signal.SIGKILL)
    SESSIONS.clear()
    return ""


ACTIONS: dict[str, Any] = {"open": open_session, "turn": turn, "rewind": rewind, "kill": kill}


async def answer(line: bytes) -> None:
    """Carry out one request."""
    request = json.loads(line)
    number = request.pop("number")
    action = ACTIONS[request.pop("do")]
    try:
        reply = {"result": await asyncio.wait_for(action(**request), PATIENCE)}
    except Exception as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({"number": number, **reply}), flush=True)


async def main() -> None:
    """Answer until the input ends; a request need not wait for the one before it, so that a kill can come in between."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(line))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    os._exit(0)  # the programs end when their input does


asyncio.run(main())
