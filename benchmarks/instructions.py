"""How many calls and instructions of Python's an append takes in the server, room by room. Run as a script: it prints JSON.

The service runs in this process, without pipe and client, and is counted by the interpreter's own trace: the numbers are
the same on any machine, and at any load.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final

MESSAGES: Final = 96
WARM_UP: Final = 32
ROOMS: Final = ("rpc", "service", "sessions", "storage", "timeleap_protocol")


def counted(in_flight: int, durability: str, store: str = "") -> dict[str, tuple[float, float]]:
    """By room: calls and instructions of one append, counted in a process of its own; to a `store` that is no directory,
    if one is given."""
    command = [sys.executable, "-m", "benchmarks.instructions", str(in_flight), durability, store]
    root = Path(__file__).resolve().parents[1]
    found = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return {room: (calls, steps) for room, (calls, steps) in json.loads(found.stdout).items()}


class _Output(asyncio.Transport):
    """Takes replies, and says when there are as many as are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._replies = 0
        self._wanted = 0
        self._arrived = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._replies += bytes(data).count(b'"result":')
        if self._replies >= self._wanted:
            self._arrived.set()

    async def replies(self, count: int) -> None:
        """Wait for so many more replies than were waited for before."""
        self._wanted += count
        if self._replies < self._wanted:
            self._arrived.clear()
            await self._arrived.wait()

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""


class _Trace:
    """Counts by room."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> _Trace:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event in ("call", "opcode"):
            (self.calls if event == "call" else self.steps)[_room(frame.f_code.co_filename)] += 1
        return self

    def per(self, count: int) -> dict[str, tuple[float, float]]:
        """By room, of one of so many operations."""
        return {room: (self.calls[room] / count, self.steps[room] / count) for room in self.steps}


def _room(file: str) -> str:
    folders = Path(file).parts
    return next((room for room in ROOMS if room in folders), "the rest")


async def _count(in_flight: int, settings: dict[str, str], home: Path) -> dict[str, tuple[float, float]]:
    from benchmarks.corpus import messages

    from timeleap.cli.serve import make_service
    from timeleap.rpc.connection import Connection
    from timeleap_protocol.framing import Framing

    service, output, trace = make_service(home, {}, settings), _Output(), _Trace()
    connection = Connection(lambda: service)
    connection.connection_made(output)

    def frame(number: int, method: str, params: Any) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return Framing.LSP.wrap(body.encode())

    async def ask(frames: list[bytes]) -> None:
        connection.data_received(b"".join(frames))
        await output.replies(len(frames))

    await ask([frame(1, "initialize", {"capabilities": {}})])
    await ask([frame(2, "session/open", {"sessionId": "counted"})])
    made = [{"sessionId": "counted", "message": message} for message in messages(WARM_UP + MESSAGES)]
    appends = [frame(number, "context/appendMessage", params) for number, params in enumerate(made, 3)]
    for at in range(0, WARM_UP, in_flight):
        await ask(appends[at : min(at + in_flight, WARM_UP)])
    threading.settrace(trace)
    sys.settrace(trace)
    for at in range(WARM_UP, len(appends), in_flight):
        await ask(appends[at : at + in_flight])
    sys.settrace(None)
    connection.close_input()
    await connection.finished
    await service.aclose()
    found = trace.per(MESSAGES)
    found.pop("the rest", None)  # this script
    return found


def main() -> None:
    """Count and print."""
    in_flight, durability, store = int(sys.argv[1]), *sys.argv[2:]
    settings = {"durability": durability} | ({"store": store} if store else {})
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(_count(in_flight, settings, Path(folder)))))


if __name__ == "__main__":
    main()
