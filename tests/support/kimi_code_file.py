"""A session of kimi-code, written as that program writes it: the journal of its main agent, and what stands beside."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

from tests.support.agent_file import AgentFile

BEGUN = 1_795_946_589_000
"""Milliseconds since 1970 of the first record; each is a second after the one before."""


class KimiCodeFile(AgentFile):
    """Attributes:
    lines: Number of lines so far, without blank ones.
    begun: Milliseconds since 1970 of the first record.
    """

    def __init__(self, home: Path, workspace: str = "/shop", agent: str = "main", session: str | None = None) -> None:
        self.agent, self.begun = agent, BEGUN
        self.lines = self._steps = 0
        super().__init__(home / "sessions", workspace, session or f"session_{uuid.uuid4()}")
        self.notes(title=None)
        self.record("metadata", protocol_version="1.5", created_at=BEGUN)
        bound = {"modelAlias": "fake", "profileName": "agent", "thinkingEffort": "off", "disallowedTools": []}
        bound["activeToolNames"] = ["Read", "Bash"]
        self.record("profile.bind", **bound, systemPrompt="You are Kimi.")

    def place(self) -> Path:
        digest = hashlib.sha256(self.workspace.encode()).hexdigest()[:12]
        folder = self.folder / f"wd_{Path(self.workspace).name}_{digest}"
        return folder / self.session_id / "agents" / self.agent / "wire.jsonl"

    def notes(self, **members: Any) -> None:
        """What stands beside the agents."""
        folder = self.path.parents[2]
        agents = {"main": {"homedir": str(self.path.parent), "type": "main"}}
        known = {"id": self.session_id, "version": 2, "cwd": self.workspace, "agents": agents, "custom": {}}
        times = {"createdAt": BEGUN, "updatedAt": BEGUN, "archived": False, "isCustomTitle": False}
        made = {name: value for name, value in {**known, **times, **members}.items() if value is not None}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "state.json").write_text(json.dumps(made))

    def record(self, kind: str, **members: Any) -> int:
        """Write a record; returns its line."""
        self.write({"type": kind, "agentId": self.agent, "time": self.begun + 1000 * self.lines, **members})
        self.lines += 1
        return self.lines

    def said(self, role: str, text: str, origin: dict[str, Any] | None = None, **members: Any) -> int:
        content = members.pop("content", [{"type": "text", "text": text}])
        message = {"role": role, "content": content, "toolCalls": [], **members}
        if origin is not None:
            message["origin"] = origin
        return self.record("context.append_message", message=message)

    def asks(self, text: str, **origin: Any) -> str:
        """A prompt; returns its id."""
        prompt = f"msg_{uuid.uuid4().hex}"
        self.record("turn.prompt", input=[{"type": "text", "text": text}], origin={"kind": "user"}, promptId=prompt)
        self.said("user", text, {"kind": "user", **origin}, id=prompt)
        return prompt

    def reminds(self, text: str, **origin: Any) -> int:
        reminder = f"<system-reminder>\n{text}\n</system-reminder>"
        return self.said("user", reminder, {"kind": "injection", "variant": "date_change", **origin})

    def event(self, kind: str, **members: Any) -> int:
        return self.record("context.append_loop_event", event={"type": kind, **members})

    def begins(self) -> str:
        """A step of the program; returns its id."""
        self._steps += 1
        step = str(uuid.uuid4())
        self.event("step.begin", uuid=step, turnId="0", step=self._steps)
        return step

    def ends(self, step: str, reason: str = "end_turn") -> None:
        usage = {"inputOther": 11, "output": 3, "inputCacheRead": 0, "inputCacheCreation": 0}
        self.event("step.end", uuid=step, turnId="0", step=self._steps, finishReason=reason, usage=usage)

    def piece(self, step: str, text: str, kind: str = "text") -> None:
        self.event("content.part", uuid=str(uuid.uuid4()), stepUuid=step, part={"type": kind, kind: text})

    def calls(self, step: str, call: str) -> None:
        given = {"command": "ls"}
        self.event("tool.call", uuid=str(uuid.uuid4()), stepUuid=step, toolCallId=call, name="Bash", args=given)

    def gets(self, call: str, text: str) -> None:
        self.event("tool.result", parentUuid=str(uuid.uuid4()), toolCallId=call, result={"output": text})

    def says(self, text: str) -> None:
        """An answer in a step of its own."""
        step = self.begins()
        self.piece(step, text)
        self.ends(step)

    def turn(self, number: int) -> None:
        self.asks(f"question {number}")
        self.says(f"answer {number}")
