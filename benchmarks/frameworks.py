"""Session stores of other agent frameworks beside ours, in a Python of their own that `make bench` prepares."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from benchmarks.child import Worker

PYTHON: Final = Path(__file__).resolve().parents[1] / ".tools" / "peers" / "bin" / "python"
NAMES: Final = ("openai-agents", "google-adk", "langgraph")


class Frameworks(Worker):
    """One child process; what it measures is the stores' own work, without the way to it and back."""

    def __init__(self) -> None:
        if not PYTHON.exists():
            raise RuntimeError("the peers are not installed: `make bench` does it")
        super().__init__(PYTHON, Path(__file__).parent / "peers" / "worker.py")

    def append(self, peer: str, database: Path, messages: list[dict[str, Any]]) -> float:
        """Seconds to append messages, one after the other, to a new session in a new database."""
        return float(self.ask(peer=peer, path=str(database), messages=messages))
