"""A session file of Gemini CLI, written as that program writes it: messages, what changes of them, what is taken back."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from tests.support.agent_file import CREATED, AgentFile


class GeminiFile(AgentFile):
    """Attributes:
    ids: Of the messages, in their order.
    """

    def __init__(self, folder: Path, workspace: str = "/shop") -> None:
        super().__init__(folder, workspace)
        (folder / "shop" / ".project_root").write_text(workspace)
        self.ids: list[str] = []
        facts = {"sessionId": self.session_id, "projectHash": "f" * 64, "startTime": CREATED, "lastUpdated": CREATED}
        self.write({**facts, "kind": "main"})
        self.write({"$set": {"messages": [message("user", [{"text": "<session_context>\nx\n</session_context>"}])]}})

    def place(self) -> Path:
        return self.folder / "shop" / "chats" / f"session-2026-11-20T10-00-{self.session_id[:8]}.jsonl"

    def says(self, kind: str, content: Any, **members: Any) -> dict[str, Any]:
        said = message(kind, content, **members)
        self.ids.append(said["id"])
        self.write(said, {"$set": {"lastUpdated": CREATED}})
        return said

    def asks(self, text: str, timestamp: str = CREATED) -> None:
        self.says("user", [{"text": text}], timestamp=timestamp)

    def calls(self, call: str, text: str = "") -> None:
        """A call, noted once more when its tool has run, as the program does."""
        said = self.says("gemini", text, tokens={"total": 14})
        noted = {"id": call, "name": "run_shell_command", "args": {"command": "ls"}, "status": "success"}
        self.write({**said, "toolCalls": [noted]})

    def gets(self, call: str, text: str) -> None:
        response = {"id": call, "name": "run_shell_command", "response": {"output": text}}
        self.says("user", [{"functionResponse": response}])

    def turn(self, number: int) -> None:
        """A prompt and its answer, with what else the program notes."""
        self.asks(f"question {number}")
        self.says("gemini", f"answer {number}", tokens={"total": 14})

    def goes_back(self, prompts: int) -> None:
        """To before the last so many messages."""
        self.write({"$rewindTo": self.ids[-prompts]})
        del self.ids[-prompts:]


def message(kind: str, content: Any, **members: Any) -> dict[str, Any]:
    return {"id": str(uuid.uuid4()), "timestamp": CREATED, "type": kind, "content": content, **members}
