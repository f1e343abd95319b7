"""A session file of Claude Code, written as that program writes it: one record a line, each naming the one before it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

CREATED = "2026-11-20T10:00:00.000Z"


class ClaudeFile:
    """Attributes:
    folder: Where the program keeps its sessions.
    path: The file.
    last: The uuid of the last record.
    """

    def __init__(self, folder: Path, workspace: str = "/shop", name: str | None = None) -> None:
        self.session_id = name or str(uuid.uuid4())
        self.folder, self.workspace = folder, workspace
        self.path = folder / workspace.replace("/", "-") / f"{self.session_id}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.last: str | None = None

    def record(self, kind: str, **members: Any) -> dict[str, Any]:
        """A record that follows the last one, not written yet."""
        made: dict[str, Any] = {"parentUuid": self.last, "isSidechain": False, "type": kind, "uuid": str(uuid.uuid4())}
        made |= {
            "sessionId": self.session_id,
            "cwd": self.workspace,
            "version": "2.1.330",
            "timestamp": CREATED,
            **members,
        }
        self.last = made["uuid"]
        return made

    def write(self, record: dict[str, Any]) -> str:
        """Write a record; returns its uuid."""
        self.write_bytes(json.dumps(record).encode() + b"\n")
        return str(record.get("uuid"))

    def write_bytes(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

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
