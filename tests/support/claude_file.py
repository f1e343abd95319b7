"""A session file of Claude Code, written as that program writes it: one record a line, each naming the one before it."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.agent_file import CREATED, AgentFile


class ClaudeFile(AgentFile):
    """Attributes:
    last: The uuid of the last record.
    passes: Each record is a second later than the one before.
    """

    def __init__(self, folder: Path, workspace: str = "/shop", name: str | None = None) -> None:
        super().__init__(folder, workspace, name)
        self.last: str | None = None
        self.passes = False
        self._written = 0

    def place(self) -> Path:
        return self.folder / self.workspace.replace("/", "-") / f"{self.session_id}.jsonl"

    def record(self, kind: str, **members: Any) -> dict[str, Any]:
        """A record that follows the last one, not written yet."""
        self._written += self.passes
        time = datetime.fromisoformat(CREATED) + timedelta(seconds=self._written)
        made: dict[str, Any] = {"parentUuid": self.last, "isSidechain": False, "type": kind, "uuid": str(uuid.uuid4())}
        made |= {
            "sessionId": self.session_id,
            "cwd": self.workspace,
            "version": "2.1.330",
            "timestamp": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **members,
        }
        self.last = made["uuid"]
        return made

    def write(self, *records: dict[str, Any]) -> str:
        """Write records; returns the uuid of the last."""
        super().write(*records)
        return str(records[-1].get("uuid"))

    def asks(self, text: str, **members: Any) -> str:
        return self.write(self.record("user", message={"role": "user", "content": text}, **members))

    def says(self, text: str, **members: Any) -> str:
        return self._answers({"type": "text", "text": text}, **members)

    def calls(self, call: str, **members: Any) -> str:
        return self._answers({"type": "tool_use", "id": call, "name": "Bash", "input": {}}, **members)

    def gets(self, call: str, text: str, **members: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        return self.write(self.record("user", message={"role": "user", "content": [block]}, **members))

    def _answers(self, block: dict[str, Any], **members: Any) -> str:
        message = {"role": "assistant", "id": f"msg_{uuid.uuid4()}", "content": [block]}
        return self.write(self.record("assistant", message=message, **members))

    def turn(self, number: int) -> None:
        """A prompt and its answer."""
        self.asks(f"question {number}")
        self.says(f"answer {number}")
