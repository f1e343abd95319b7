"""The other end of an owner's socket, spoken to in raw bytes: what a sidecar that misbehaves would send and leave unread."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.framing import Decoder, Framing, dumps, frame, loads
from tests.support.server import PATIENCE, Message


def endpoint(session: Path) -> Message:
    """How the owner of the session in that directory says it is reached."""
    record = json.loads((session / ".context.jsonl.lock").read_bytes())
    return dict(record["endpoint"])


class Peer:
    """A connection to an owner. It reads only when it is asked to."""

    def __init__(self, session: Path, framing: Framing = "ndjson") -> None:
        self._framing = framing
        self._decoder = Decoder(framing)
        self._endpoint = endpoint(session)
        self._unread: list[Message] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(self._endpoint["address"])
        self._ids = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._socket.close()

    def greet(self, **params: Any) -> Message:
        """`initialize` with the owner's token; returns the result."""
        options = {"token": self._endpoint["token"]}
        result = self.call("initialize", **{"initializationOptions": options, **params})
        self.send({"jsonrpc": "2.0", "method": "initialized"})
        return dict(result)

    def send(self, message: Any) -> None:
        """Write one message."""
        self.send_bytes(frame(dumps(message), self._framing))

    def send_bytes(self, data: bytes) -> None:
        """Write raw bytes."""
        self._socket.sendall(data)

    def call(self, method: str, **params: Any) -> Any:
        """Send a request, pass over what comes before its reply; returns the result."""
        self._ids += 1
        self.send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        while (message := self.receive()) is not None:
            if message.get("id") == self._ids:
                assert "result" in message, message
                return message["result"]
        raise AssertionError(f"the owner closed the connection instead of answering {method}")

    def receive(self) -> Message | None:
        """The next message, or None at the end of the connection."""
        while not self._unread:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._unread += [loads(body) for body in self._decoder.feed(data)]
        return self._unread.pop(0)

    def rest(self) -> list[Message]:
        """All messages to the end of the connection."""
        messages = []
        while (message := self.receive()) is not None:
            messages.append(message)
        return messages
