"""A session of pi, written as that program writes it: entries that each name the one before."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from tests.support.agent_file import CREATED, AgentFile

USAGE = {"input": 11, "output": 3, "cacheRead": 100, "cacheWrite": 20, "totalTokens": 134, "cost": {"total": 0}}


class PiFile(AgentFile):
    """Attributes:
    last: The id of the entry that the next one stands behind.
    """

    def __init__(self, folder: Path, workspace: str = "/shop", name: str | None = None) -> None:
        self.last: str | None = None
        super().__init__(folder, workspace, name)
        header = {"type": "session", "version": 3, "id": self.session_id, "timestamp": CREATED, "cwd": workspace}
        self.write(header)

    def place(self) -> Path:
        folder = f"--{self.workspace.lstrip('/').replace('/', '-')}--"
        return self.folder / folder / f"2026-11-20T10-00-00-000Z_{self.session_id}.jsonl"

    def entry(self, kind: str, /, **members: Any) -> str:
        """Add an entry behind the last one; returns its id."""
        made = {"type": kind, "id": uuid.uuid4().hex[:8], "parentId": self.last, "timestamp": CREATED, **members}
        self.write(made)
        self.last = made["id"]
        return str(made["id"])

    def said(self, role: str, content: Any, **members: Any) -> str:
        return self.entry("message", message={"role": role, "content": content, "timestamp": 1795946400000, **members})

    def asks(self, text: str) -> str:
        return self.said("user", [{"type": "text", "text": text}])

    def answers(self, *content: Any, stop: str = "stop") -> str:
        return self.said(
            "assistant", list(content), stopReason=stop, usage=USAGE, provider="fake", model="fake", api="x"
        )

    def says(self, text: str) -> str:
        return self.answers({"type": "text", "text": text})

    def calls(self, *calls: str) -> str:
        given = {"command": "ls"}
        return self.answers(
            *({"type": "toolCall", "id": call, "name": "bash", "arguments": given} for call in calls), stop="toolUse"
        )

    def gets(self, call: str, text: str) -> str:
        return self.said(
            "toolResult", [{"type": "text", "text": text}], toolCallId=call, toolName="bash", isError=False
        )

    def turn(self, number: int) -> None:
        self.asks(f"question {number}")
        self.says(f"answer {number}")
