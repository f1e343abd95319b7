"""A server process, spoken to with as little code in between as possible."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

TIMELEAP = (sys.executable, "-m", "timeleap", "serve")
BARE_PYGLS = (
    sys.executable,
    "-c",
    "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()",
)


class Server:
    """A child process that is sent one request at a time, with LSP framing, which both kinds understand."""

    def __init__(self, command: tuple[str, ...], *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._id = 0

    @classmethod
    def timeleap(cls, home: Path) -> Self:
        """A server of ours that has been initialised."""
        server = cls(TIMELEAP, "--home", str(home))
        server.request("initialize", {"capabilities": {}})
        return server

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and wait for its result; notifications are passed over."""
        self._id += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()
        while True:
            reply = self._read()
            if reply.get("id") == self._id:
                if "error" in reply:
                    raise RuntimeError(reply["error"])
                return reply["result"]

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()

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
