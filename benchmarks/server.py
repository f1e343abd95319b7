"""A server process, spoken to with as little code in between as possible."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.child import Child

TIMELEAP = (sys.executable, "-m", "timeleap", "serve")
BARE_PYGLS = (
    sys.executable,
    "-c",
    "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()",
)


class Server(Child):
    """A child process that is sent one request at a time, with LSP framing, which both kinds understand."""

    def __init__(self, command: tuple[str, ...], *arguments: str) -> None:
        super().__init__([*command, *arguments], stderr=subprocess.DEVNULL)
        self._id = 0

    @classmethod
    def timeleap(cls, home: Path, *arguments: str) -> Self:
        """A server of ours that has been initialised."""
        server = cls(TIMELEAP, "--home", str(home), *arguments)
        server.request("initialize", {"capabilities": {}})
        return server

    def open(self, log: Path) -> dict[str, Any]:
        """Open the session that a log belongs to, wherever it lies, to write; returns its state."""
        state: dict[str, Any] = self.request("session/open", {"path": str(log.parent), "access": "write"})
        return state

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and wait for its result; notifications are passed over."""
        return self.requests(method, [params])[0]

    def requests(self, method: str, each: Sequence[dict[str, Any]]) -> list[Any]:
        """Send several requests at once and wait for all results, which come in this order."""
        first = self._id + 1
        self._id += len(each)
        frames = []
        for number, params in enumerate(each, first):
            body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
            frames.append(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join(frames))
        self._process.stdin.flush()
        return [self._result(number) for number in range(first, self._id + 1)]

    def _result(self, number: int) -> Any:
        while (reply := self._read()).get("id") != number:
            if reply.get("method") is None:
                raise RuntimeError(f"an answer out of turn: {reply}")
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["result"]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline()) != b"\r\n":
            if not line:
                raise RuntimeError("the server went away")
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message
