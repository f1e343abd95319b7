"""The protocol edge of ours over the least append that keeps the guarantees (`least.Guarded`). Run as a script.

It says what a server reaches that has our event loop, frames, ids, order and replies, and behind them nothing but one straight
function: what ours does beyond it is of the service, its sessions and their store. Argument: the log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from benchmarks.least import Guarded

from timeleap.call import Call, Client
from timeleap.cli.serve import run
from timeleap.rpc.stdio import claim

Then = Callable[[Any, BaseException | None], None]


class Appending:
    """A service that takes appends to one log alone. What arrives in one read is written together.

    Args:
        log: The file.
    """

    def __init__(self, log: str) -> None:
        self._end = Guarded(log, os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND))
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes] = []
        self._waiting: list[tuple[dict[str, Any] | None, dict[str, Any], Then]] = []

    async def initialize(self, client: Client, options: dict[str, Any]) -> list[str]:
        """Take any client."""
        del client, options
        return []

    def capabilities(self) -> dict[str, Any]:
        """None."""
        return {}

    def begin(self, method: str, params: Any, call: Call, then: Then) -> None:
        """Append a message; write where it is the last that has arrived, then tell and answer all of them."""
        del method
        line = self._encode(params.message)
        told, result = self._end.append(params.message, line + b"\n", params.request_id, params.expected_head)
        self._waiting.append((told, result, then))
        if told is not None:
            self._lines.append(line)
        if call.followed:
            return
        if self._lines:
            self._end.write(b"\n".join([*self._lines, b""]), synced=False)
        for told, result, answer in self._waiting:
            if told is not None:
                call.client.notify("context/didChange", told)
            answer(result, None)
        self._lines.clear()
        self._waiting.clear()

    async def handle(self, method: str, params: Any, call: Call) -> Any:
        """Nothing else is done."""
        raise NotImplementedError(method)

    async def disconnect(self, client: Client) -> None:
        """Nothing is kept of a client."""

    async def aclose(self) -> None:
        """Nothing is open but the files, which the process closes."""


if __name__ == "__main__":
    descriptors = claim()
    service = Appending(sys.argv[1])
    sys.exit(run(lambda: service, descriptors))
