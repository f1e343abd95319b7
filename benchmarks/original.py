"""The original program beside ours: a child process in its own Python that does an operation and says how long it took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.child import Child
from tests.interop.prepare import original_python

WORKER = Path(__file__).with_name("original_worker.py")


class Original(Child):
    """One child process; what it measures is its own work, without the way to it and back."""

    def __init__(self) -> None:
        super().__init__([str(original_python()), str(WORKER)], text=True)

    def restore(self, log: Path) -> float:
        """Seconds to restore a context."""
        return float(self._ask(do="restore", path=str(log)))

    def revert(self, log: Path, checkpoint: int) -> float:
        """Seconds to revert a restored context to before a checkpoint."""
        return float(self._ask(do="revert", path=str(log), checkpoint=checkpoint))

    def append(self, log: Path, messages: list[dict[str, Any]]) -> float:
        """Seconds to append messages, one after the other."""
        return float(self._ask(do="append", path=str(log), messages=messages))

    def hold(self, log: Path) -> None:
        """Restore a context and keep it."""
        self._ask(do="hold", path=str(log))

    def _ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the original program went away")
        return json.loads(answer)
