"""A session of kimi-cli, written as that program writes it: a log in a directory of its own, below one for each folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.support.agent_file import AgentFile


class KimiFile(AgentFile):
    """Its file is the live log."""

    def __init__(self, share: Path, workspace: str = "/shop") -> None:
        super().__init__(share / "sessions", workspace)
        known = {"work_dirs": [{"path": workspace, "kaos": "local", "last_session_id": self.session_id}]}
        (share / "kimi.json").write_text(json.dumps(known))
        self.notes("wire.jsonl", {"type": "metadata", "protocol_version": "1.10"})
        self._checkpoints = 0
        self.write({"role": "_system_prompt", "content": "You are Kimi."})

    def place(self) -> Path:
        return self.folder / hashlib.md5(self.workspace.encode()).hexdigest() / self.session_id / "context.jsonl"

    def notes(self, name: str, document: Any) -> None:
        """A file beside the log."""
        (self.path.parent / name).write_text(json.dumps(document) + "\n")

    @property
    def next_checkpoint(self) -> int:
        """The id of the next checkpoint."""
        return self._checkpoints

    def checkpoint(self) -> None:
        self.write({"role": "_checkpoint", "id": self._checkpoints})
        self._checkpoints += 1

    def asks(self, text: Any) -> None:
        self.checkpoint()
        self.write({"role": "user", "content": text})

    def says(self, text: str) -> None:
        self.write({"role": "assistant", "content": text}, {"role": "_usage", "token_count": 14})

    def calls(self, call: str) -> None:
        function = {"name": "Shell", "arguments": "{}"}
        self.write(
            {"role": "assistant", "content": [], "tool_calls": [{"type": "function", "id": call, "function": function}]}
        )

    def gets(self, call: str, text: str) -> None:
        self.write({"role": "tool", "content": text, "tool_call_id": call})

    def turn(self, number: int) -> None:
        """A prompt and its answer, with what else the program notes."""
        self.asks(f"question {number}")
        self.checkpoint()  # before each step of a turn
        self.says(f"answer {number}")

    def goes_back(self, checkpoint: int) -> None:
        """To before a checkpoint: the log is set aside, and its beginning written to a new one."""
        aside = self._set_aside()
        lines = aside.read_bytes().splitlines(keepends=True)
        end = lines.index(self.line({"role": "_checkpoint", "id": checkpoint}))
        self.path.write_bytes(b"".join(lines[:end]))
        self._checkpoints = checkpoint

    def begins_anew(self) -> None:
        """The log is set aside, and another one begins."""
        self._set_aside()
        self._checkpoints = 0
        self.write({"role": "_system_prompt", "content": "You are Kimi."})

    def _set_aside(self) -> Path:
        aside = self.path.with_name(f"context_{len(list(self.path.parent.glob('context_*.jsonl'))) + 1}.jsonl")
        self.path.rename(aside)
        return aside
