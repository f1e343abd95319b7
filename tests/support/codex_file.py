"""A session file of Codex, written as that program writes it: `{timestamp, type, payload}` on each line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.agent_file import CREATED, AgentFile


class CodexFile(AgentFile):
    """It begins with the facts of the session."""

    def __init__(self, folder: Path, workspace: str = "/shop", name: str | None = None) -> None:
        super().__init__(folder, workspace, name)
        self.begin()

    def place(self) -> Path:
        return self.folder / "2026" / "11" / "20" / f"rollout-2026-11-20T10-00-00-{self.session_id}.jsonl"

    def begin(self, **members: Any) -> None:
        facts = {"id": self.session_id, "timestamp": CREATED, "cwd": self.workspace, "cli_version": "0.169.0"}
        self.write(
            "session_meta",
            {
                **facts,
                "originator": "codex_exec",
                "source": "exec",
                "base_instructions": {"text": "You are Codex."},
                **members,
            },
        )

    def write(self, kind: str, payload: Any, timestamp: str = CREATED) -> None:
        self.write_bytes(self.line_of(kind, payload, timestamp))

    def line_of(self, kind: str, payload: Any, timestamp: str = CREATED) -> bytes:
        return json.dumps({"timestamp": timestamp, "type": kind, "payload": payload}).encode() + b"\n"

    def asks(self, text: str, timestamp: str = CREATED) -> None:
        self.write("response_item", message("user", text), timestamp)

    def says(self, text: str, timestamp: str = CREATED) -> None:
        self.write("response_item", message("assistant", text), timestamp)

    def calls(self, call: str, timestamp: str = CREATED) -> None:
        payload = {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": call}
        self.write("response_item", payload, timestamp)

    def gets(self, call: str, text: str) -> None:
        self.write("response_item", {"type": "function_call_output", "call_id": call, "output": text})

    def event(self, kind: str, **members: Any) -> None:
        self.write("event_msg", {"type": kind, **members})

    def turn(self, number: int) -> None:
        """A prompt and its answer, with what else the program notes."""
        self.event("task_started", turn_id=f"turn-{number}")
        self.write("turn_context", {"cwd": self.workspace})
        self.asks(f"question {number}")
        self.says(f"answer {number}")
        self.event("task_complete", turn_id=f"turn-{number}")


class Segment(CodexFile):
    """A file in which a thread goes on from a part of another one."""

    def __init__(self, base: CodexFile, lines: int | None, name: str, segment: str | None, **facts: Any) -> None:
        self._segment = segment
        kept = base.path.read_bytes().splitlines(keepends=True)
        part = kept if lines is None else kept[:lines]
        base_id = getattr(base, "_segment", None) or base.session_id
        self.base = {"thread_id": base_id, "end_ordinal_exclusive": len(part), "end_byte_offset": len(b"".join(part))}
        self.facts = facts
        super().__init__(base.folder, base.workspace, name)

    def place(self) -> Path:
        plain = super().place()
        end = self.session_id if self._segment is None else f"{self.session_id}_{self._segment}"
        return plain.with_name(f"rollout-2026-11-21T10-00-00-{end}.jsonl")

    def begin(self, **members: Any) -> None:
        super().begin(history_base=self.base, **self.facts, **members)


def message(role: str, text: str) -> dict[str, Any]:
    """An item of the conversation."""
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "message", "role": role, "content": [part]}
