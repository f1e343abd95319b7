#!/usr/bin/env python3
"""An agent loop whose memory is a Timeleap session, spoken to over the wire with `timeleap.client`.

    python examples/agent_loop.py                     a session in a temporary store
    python examples/agent_loop.py FOLDER              in a store that stays

The model is scripted, so that the example needs no key and always does the same; put a call of your provider into
`ScriptedModel.reply` and the rest stays as it is. What the loop shows:

- a checkpoint before each turn, written by the server (`autoCheckpoint: "turn"`);
- one append a model reply, and one for all results of its tool calls: a batch is in the log whole or not at all;
- the model's own token count recorded after each reply, and compaction before the next one when the server says it is time;
- approvals asked before a tool does harm, decided in another window, where the person says "always" or why not;
- going back to before a turn that the person did not like;
- a tool by which the model goes back itself: it leaves a note to its earlier self (a D-Mail), and the loop takes it there;
- news from a sub-agent, which has a session of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from timeleap import BackToTheFuture, DenwaRenji, DenwaRenjiError, DMail, Message
from timeleap.client import AsyncSession, AsyncTimeleap
from timeleap_protocol.approval import ApprovalRequest, Decision

Record = dict[str, Any]

LOGS = {f"/srv/logs/application-2026-10-{day:02}.log": 270 + 40 * day for day in range(1, 32)}  # megabytes by path

TURNS = ["The disk is nearly full. Why?", "Delete the logs, please.", "Now write me a poem about it."]
LAST_TURN = "And who writes so many logs?"


def calls(call_id: str, tool: str, **arguments: str) -> Record:
    """An assistant's message that asks for one tool call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "id": call_id, "function": function}],
    }


def says(text: str) -> Record:
    """An assistant's message that ends its turn."""
    return {"role": "assistant", "content": text}


@dataclass
class Reply:
    """What a provider returns: a message, and how many tokens it read for it."""

    message: Record
    input_tokens: int


class ScriptedModel:
    """Says the same things in the same order, whatever it is told."""

    def __init__(self) -> None:
        self._script: Iterator[Record] = iter(
            [
                calls("1", "run_command", command="du -m /srv/logs/*"),
                says("A month of logs under /srv/logs takes 28 GB. Shall I delete them?"),
                calls("2", "delete_files", pattern="/srv/logs/application-2026-10-*.log"),
                calls("3", "run_command", command="du -m /srv/logs/*"),
                says("Done: the logs of October are gone and the disk is half empty."),
                says("O logs, you grew from day to day ..."),
                calls("4", "run_command", command="journalctl --all"),
                calls("5", "send_dmail", checkpoint_id="2", message="Not in the journal. Ask lsof."),
                calls("6", "run_command", command="lsof +D /srv/logs"),
                says("The backup does, at every file it copies."),
            ]
        )

    def reply(self, history: list[Record]) -> Reply:
        """The next line of the script. A provider would be sent `history` here, and report its tokens."""
        return Reply(next(self._script), input_tokens=len(json.dumps(history)) // 4)


class Agent:
    """The loop: the model speaks, tools run, everything that happens is in the session before the next step."""

    def __init__(self, session: AsyncSession, model: ScriptedModel) -> None:
        self._session = session
        self._model = model
        self._logs = dict(LOGS)
        self._full = False
        self._microwave = DenwaRenji()  # holds the note that the model sends to its earlier self

    async def turn(self, request: str) -> None:
        """Work on one request of the person until the model has no more tool calls."""
        print(f"person: {request}")
        await self._append({"role": "user", "content": request})
        await self._session.checkpoint("before the answer")
        while True:
            try:
                if await self._step():
                    return
            except BackToTheFuture as leap:
                note = leap.messages[0].extract_text()
                await self._session.send_dmail(leap.checkpoint_id, note)
                await self._session.deliver_dmail()
                self._full = False
                print(f"        (back at checkpoint {leap.checkpoint_id}, where the note is)")

    async def _step(self) -> bool:
        """One reply of the model and the tools it calls; returns whether that ends the turn.

        Raises:
            BackToTheFuture: The model wants to have taken another way.
        """
        if self._full:
            # Not as soon as it is full: a compaction takes away the checkpoint that a note may be meant for.
            compacted = await self._session.compact()
            print(f"        (compacted: {compacted.token_count_before} -> {compacted.token_count_after} tokens)")
        reply = self._model.reply(await self._session.history())
        await self._append(reply.message)
        await self._session.update_token_count(reply.input_tokens)
        tool_calls = reply.message.get("tool_calls", [])
        if not tool_calls:
            print(f"model:  {reply.message['content']}")
            return True
        await self._append(*[await self._run(call) for call in tool_calls])
        if (mail := self._microwave.fetch_pending_dmail()) is not None:
            raise BackToTheFuture(mail.checkpoint_id, [Message(role="user", content=mail.message)])
        return False

    async def _append(self, *messages: Record) -> None:
        self._full = (await self._session.append(*messages)).should_compact

    async def _run(self, call: Record) -> Record:
        name = call["function"]["name"]
        arguments = json.loads(call["function"]["arguments"])
        if name == "send_dmail":
            result = await self._send_dmail(**arguments)
        elif arguments.get("command", "").startswith("du"):
            result = "\n".join(f"{size} {path}" for path, size in self._logs.items()) or "no files"
        elif name == "run_command":
            result = "backup 4711" if arguments["command"].startswith("lsof") else "many lines of no use"
        else:
            result = await self._delete(call["id"], **arguments)
        print(f"tool:   {name} -> {result.splitlines()[0]}")
        return {"role": "tool", "tool_call_id": call["id"], "content": result}

    async def _send_dmail(self, checkpoint_id: str, message: str) -> str:
        """The tool's answer is read only if the note cannot be sent: else there is nobody left to read it."""
        self._microwave.set_n_checkpoints((await self._session.state()).context.n_checkpoints)
        try:
            self._microwave.send_dmail(DMail(message=message, checkpoint_id=int(checkpoint_id)))
        except DenwaRenjiError as error:
            return f"error: {error}"
        return "sent"

    async def _delete(self, call_id: str, pattern: str) -> str:
        """Ask first: whichever window of the session answers, or the session itself where the person said "always"."""
        detail = {"files": len(self._logs), "pattern": pattern}
        asked = await self._session.request_approval(
            "delete files", description=f"delete {pattern}", detail=detail, tool_call_id=call_id
        )
        if asked.decision == "reject":
            return f"The person did not allow it: {asked.reason or 'no reason given'}"
        deleted = "\n".join(f"deleted {path}" for path in self._logs)
        self._logs.clear()
        return deleted


def person(approval: ApprovalRequest) -> Decision:
    """What the person answers in another window; in a terminal `timeleap approvals --watch` asks instead."""
    print(f'        (approval asked for "{approval.action}", {approval.description}: always)')
    return "approveForSession"


async def main(home: str) -> None:
    """Three turns, of which the last one is taken back; a fourth, in which the model changes its mind; news."""
    # A window this small is full after a few messages; leave the options out and nothing is ever compacted.
    # The agent asks for approvals and never decides: its own connection would be refused.
    options = {"maxContextSize": 1005, "reservedContextSize": 100, "approvals": "ask"}
    async with AsyncTimeleap(home=home, options=options, name="agent-loop") as client:
        opening = {"title": "Full disk", "systemPrompt": "You look after a server.", "autoCheckpoint": "turn"}
        async with client.session(**opening) as session:
            agent = Agent(session, ScriptedModel())
            async with AsyncTimeleap(home=home, name="window") as other, other.session(session.id) as window:
                window.on_approval(person)
                for request in TURNS:
                    await agent.turn(request)

            checkpoints = await session.checkpoints()
            print("checkpoints: " + " | ".join(each.label or "?" for each in checkpoints))
            reverted = await session.revert_to(next(each for each in checkpoints if each.label == TURNS[-1]))
            print(
                f"The last turn is taken back: {reverted.removed.messages} messages are in timeline {reverted.timeline_id}"
            )
            await agent.turn(LAST_TURN)
            async with client.session(title="Sub-agent") as helper:
                arrival = await helper.send_note(session.id, "The backup is quiet now: I have lowered its log level.")
            print(f"A sub-agent's note is message {arrival.index}")
            state = await session.state()
            print(f"approved without asking: {', '.join(state.approval.auto_approve_actions)}")
            print(f"timelines: {', '.join(each.reason for each in await session.timelines())}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(folder))
