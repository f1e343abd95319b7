#!/usr/bin/env python3
"""An agent loop whose memory is a Timeleap session, spoken to over the wire with `timeleap.client`.

    python examples/agent_loop.py                     a session in a temporary store
    python examples/agent_loop.py FOLDER              in a store that stays

The model is scripted, so that the example needs no key and always does the same; put a call of your provider into
`ScriptedModel.reply` and the rest stays as it is. What the loop shows:

- a checkpoint before each turn, written by the server (`autoCheckpoint: "turn"`);
- one append a model reply, and one for all results of its tool calls: a batch is in the log whole or not at all;
- the model's own token count recorded after each reply, and compaction as soon as the server says it is time;
- approvals asked before a tool does harm, and remembered when the person says "always";
- going back to before a turn that the person did not like.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from timeleap.client import AsyncSession, AsyncTimeleap

Message = dict[str, Any]

LOGS = {f"/srv/logs/app-2026-10-{day:02}.log": 270 + 40 * day for day in range(1, 32)}  # megabytes by path

TURNS = ["The disk is nearly full. Why?", "Delete the logs, please.", "Now write me a poem about it."]


def calls(call_id: str, tool: str, **arguments: str) -> Message:
    """An assistant's message that asks for one tool call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "id": call_id, "function": function}],
    }


def says(text: str) -> Message:
    """An assistant's message that ends its turn."""
    return {"role": "assistant", "content": text}


@dataclass
class Reply:
    """What a provider returns: a message, and how many tokens it read for it."""

    message: Message
    input_tokens: int


class ScriptedModel:
    """Says the same things in the same order, whatever it is told."""

    def __init__(self) -> None:
        self._script: Iterator[Message] = iter(
            [
                calls("1", "run_command", command="du -m /srv/logs/*"),
                says("A month of logs under /srv/logs takes 28 GB. Shall I delete them?"),
                calls("2", "delete_files", pattern="/srv/logs/app-2026-10-*.log"),
                calls("3", "run_command", command="du -m /srv/logs/*"),
                says("Done: the logs of October are gone and the disk is half empty."),
                says("O logs, you grew from day to day ..."),
            ]
        )

    def reply(self, history: list[Message]) -> Reply:
        """The next line of the script. A provider would be sent `history` here, and report its tokens."""
        return Reply(next(self._script), input_tokens=len(json.dumps(history)) // 4)


class Agent:
    """The loop: the model speaks, tools run, everything that happens is in the session before the next step."""

    def __init__(self, session: AsyncSession, model: ScriptedModel) -> None:
        self._session = session
        self._model = model
        self._logs = dict(LOGS)

    async def turn(self, request: str) -> None:
        """Work on one request of the person until the model has no more tool calls."""
        print(f"person: {request}")
        await self._append({"role": "user", "content": request})
        while True:
            reply = self._model.reply(await self._session.history())
            await self._append(reply.message)
            await self._session.update_token_count(reply.input_tokens)
            tool_calls = reply.message.get("tool_calls", [])
            if not tool_calls:
                print(f"model:  {reply.message['content']}")
                return
            await self._append(*[await self._run(call) for call in tool_calls])

    async def _append(self, *messages: Message) -> None:
        appended = await self._session.append(*messages)
        if appended.should_compact:
            done = await self._session.compact()
            print(f"        (compacted: {done.token_count_before} -> {done.token_count_after} tokens)")

    async def _run(self, call: Message) -> Message:
        name = call["function"]["name"]
        if name == "run_command":
            result = "\n".join(f"{size} {path}" for path, size in self._logs.items()) or "no files"
        elif await self._allowed("delete files"):
            result = "\n".join(f"deleted {path}" for path in self._logs)
            self._logs.clear()
        else:
            result = "The person did not allow it."
        print(f"tool:   {name} -> {result.splitlines()[0]}")
        return {"role": "tool", "tool_call_id": call["id"], "content": result}

    async def _allowed(self, action: str) -> bool:
        """Ask the session, then the person, who answers "always" here: the next time nobody is asked."""
        if await self._session.is_approved(action):
            return True
        print(f'        (approval asked for "{action}": always)')
        await self._session.set_auto_approve(action, True)
        return True


async def main(home: str) -> None:
    """Three turns; the last one is taken back."""
    # A window this small is full after a few messages; leave the options out and nothing is ever compacted.
    options = {"maxContextSize": 800, "reservedContextSize": 100}
    async with AsyncTimeleap(home=home, options=options, name="agent-loop") as client:
        opening = {"title": "Full disk", "systemPrompt": "You look after a server.", "autoCheckpoint": "turn"}
        async with client.session(**opening) as session:
            agent = Agent(session, ScriptedModel())
            for request in TURNS:
                await agent.turn(request)

            checkpoints = await session.checkpoints()
            print("checkpoints: " + " | ".join(each.label or "?" for each in checkpoints))
            reverted = await session.revert_to(checkpoints[-1])
            print(
                f"The last turn is taken back: {reverted.removed.messages} messages are in timeline {reverted.timeline_id}"
            )
            state = await session.state()
            print(f"approved without asking: {', '.join(state.approval.auto_approve_actions)}")
            print(f"timelines: {', '.join(each.reason for each in await session.timelines())}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(folder))
