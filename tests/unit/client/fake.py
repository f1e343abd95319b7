"""How tests start clients of the fake server, and look at what it was told."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timeleap.client import Restarts

SCRIPT = Path(__file__).with_name("fake_server.py")
QUICK = Restarts(limit=3, delay=0.01, longest=0.05, stable=10.0)


@dataclass
class Fake:
    """One fake server's home, over all its restarts."""

    home: Path

    def args(self, *rules: tuple[str, int | str, str], start: list[str] | None = None, **more: Any) -> dict[str, Any]:
        """Arguments for a client of it."""
        env = {"FAKE_RULES": json.dumps(rules), "FAKE_START": json.dumps(start or []), **more.pop("env", {})}
        standard = {"home": self.home, "command": [sys.executable, str(SCRIPT)], "env": env, "restarts": QUICK}
        return {**standard, **more}

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """The messages it was sent, in order; only those of the methods if some are given."""
        return [message for message in self._lines("journal.jsonl") if not methods or message.get("method") in methods]

    def params(self, method: str) -> list[dict[str, Any]]:
        """The params of all requests of a method."""
        return [message["params"] for message in self.told(method)]

    @property
    def effects(self) -> list[dict[str, Any]]:
        """The params of what took effect."""
        return [message["params"] for message in self._lines("effects.jsonl")]

    @property
    def starts(self) -> int:
        """How often it was started."""
        return len(self._lines("starts"))

    @property
    def exits(self) -> list[Any]:
        """How those that ended by themselves ended."""
        return self._lines("exits")

    def _lines(self, name: str) -> list[Any]:
        file = self.home / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
