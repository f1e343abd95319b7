"""The original program beside ours: a child process in its own Python that does an operation and says how long it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.child import Worker
from tests.interop.prepare import original_python

WORKER = Path(__file__).with_name("original_worker.py")


class Original(Worker):
    """One child process; what it measures is its own work, without the way to it and back."""

    def __init__(self) -> None:
        super().__init__(original_python(), WORKER)

    def restore(self, log: Path) -> float:
        """Seconds to restore a context."""
        return float(self.ask(do="restore", path=str(log)))

    def revert(self, log: Path, checkpoint: int) -> float:
        """Seconds to revert a restored context to before a checkpoint."""
        return float(self.ask(do="revert", path=str(log), checkpoint=checkpoint))

    def append(self, log: Path, messages: list[dict[str, Any]]) -> float:
        """Seconds to append messages, one after the other."""
        return float(self.ask(do="append", path=str(log), messages=messages))

    def turns(self, log: Path, steps: list[tuple[str, Any]]) -> float:
        """Seconds to write steps of kind `message`, `checkpoint` and `usage`, one after the other."""
        return float(self.ask(do="turns", path=str(log), steps=steps))

    def dump(self, messages: list[dict[str, Any]]) -> float:
        """Seconds to make one JSON text of the models of messages."""
        return float(self.ask(do="dump", messages=messages))

    def hold(self, log: Path) -> None:
        """Restore a context and keep it."""
        self.ask(do="hold", path=str(log))
