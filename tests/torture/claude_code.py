"""Claude Code, driven through its Agent SDK: `rewind_files` to a prompt."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.torture.agent import PATIENCE, TOOLS, Agent, AskedConversation, Conversation, Outcome, used_space
from tests.torture.fake_model import FakeModel

PYTHON = TOOLS / "python" / "bin" / "python"
WORKER = Path(__file__).with_name("claude_worker.py")


class ClaudeCode(Agent):
    """The program that comes with the SDK, one process a session."""

    name = "Claude Code"
    how = "`ClaudeSDKClient(enable_file_checkpointing=True)` of claude-agent-sdk 0.2.187; `rewind_files(prompt)`"

    def __init__(self, home: Path, user: Path, model: FakeModel, prefix: Sequence[str] = ()) -> None:
        super().__init__(home, user, model, prefix)
        self._worker: subprocess.Popen[str] | None = None
        self._numbers = itertools.count(1)
        self._replies: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self.conversations: list[_Conversation] = []

    @classmethod
    def program(cls) -> Path:
        """The binary."""
        return next((TOOLS / "python").glob("lib/python3*/site-packages/claude_agent_sdk/_bundled/claude"))

    @classmethod
    def version(cls) -> str:
        told = subprocess.run([cls.program(), "--version"], capture_output=True, text=True, check=True).stdout
        return told.split()[0]

    def open(self, folder: Path) -> Conversation:
        conversation = _Conversation(self, folder)
        self.conversations.append(conversation)
        return conversation

    def kill(self) -> None:
        self.ask("kill")
        for conversation in self.conversations:
            conversation.running = False

    def close(self) -> None:
        if self._worker is not None:
            assert self._worker.stdin is not None
            self._worker.stdin.close()
            self._worker.wait(PATIENCE)
            assert self._worker.stdout is not None
            self._worker.stdout.close()

    def stored(self) -> int:
        return used_space(self.home / "file-history")

    def environment(self) -> dict[str, str]:
        off = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
        return {
            **super().environment(),
            **dict.fromkeys((*off, "DISABLE_ERROR_REPORTING"), "1"),
            "CLAUDE_CONFIG_DIR": str(self.home),
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "none",
            "PATIENCE": str(PATIENCE),
        }

    def cli(self) -> str:
        """What the SDK starts: the binary, under the prefix if there is one."""
        if not self.prefix:
            return str(self.program())
        script = self.user / "claude"
        script.write_text(f'#!/bin/sh\nexec {" ".join(self.prefix)} {self.program()} "$@"\n')
        script.chmod(0o700)
        return str(script)

    def ask(self, do: str, **request: Any) -> Any:
        """One request to the worker.

        Raises:
            RuntimeError: What the SDK raised.
        """
        if self._worker is None:
            self._worker = subprocess.Popen(
                [PYTHON, WORKER], env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            threading.Thread(target=self._read, args=(self._worker,), daemon=True).start()
        number = next(self._numbers)
        assert self._worker.stdin is not None
        self._worker.stdin.write(json.dumps({"number": number, "do": do, **request}) + "\n")
        self._worker.stdin.flush()
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._replies, PATIENCE + 10):
                raise RuntimeError(f"no answer to {do}")
            reply = self._replies.pop(number)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["result"]

    def _read(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            reply = json.loads(line)
            with self._arrived:
                self._replies[reply["number"]] = reply
                self._arrived.notify_all()


class _Conversation(AskedConversation):
    names: ClassVar[dict[str, str]] = {
        "shell": "Bash", "read": "Read", "write": "Write", "edit": "Edit",
        "path": "file_path", "old": "old_string", "new": "new_string",
    }  # fmt: skip

    def __init__(self, agent: ClaudeCode, folder: Path) -> None:
        super().__init__(folder, agent.model)
        self._agent = agent
        self._key = str(len(agent.conversations))
        self._session: str | None = None
        self._undone = 0
        self.running = False

    def ask(self, prompt: str) -> str | None:
        self._started()
        try:
            reply = self._agent.ask("turn", key=self._key, prompt=prompt)
        except RuntimeError as error:
            return str(error)
        self.prompts += [reply["uuid"]] if reply["uuid"] else []
        self._session = reply["session"] or self._session
        return reply["error"] or None

    def undo(self, turns: int = 1) -> Outcome:
        self._undone = turns
        try:
            self._started()
            self._agent.ask("rewind", key=self._key, uuid=self.prompts[-turns])
        except RuntimeError as error:
            return Outcome(False, str(error))
        return Outcome(True)

    def redo(self) -> Outcome:
        """A later prompt can be gone to, where there is one."""
        if self._undone < 2:
            return Outcome(False, "a rewind cannot be taken back")
        return self.undo(1)

    def _started(self) -> None:
        if not self.running:
            self._agent.ask(
                "open", key=self._key, cwd=str(self.folder), cli=self._agent.cli(), resume=self._session
            )  # fmt: skip
            self.running = True
