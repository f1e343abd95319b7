"""Strangers around a session's socket: who knocks without knowing how, and who pretends to own a session."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.framing import Decoder, dumps, frame, loads
from tests.support.server import PATIENCE, Message, runtime_directory

NOBODY = 65534

Answers = Mapping[str, Any]
"""What an impostor answers, by method: a result; bytes, written as they are; or a function that gets the `Wire` and the
request. To what stands in none it says nothing."""


def record_of(session: Path) -> Message:
    """The owner's record of the session in that directory."""
    return dict(json.loads((session / ".context.jsonl.lock").read_bytes()))


class Knock:
    """A connection to a socket, of bytes."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._socket.close()

    def say(self, data: bytes) -> Self:
        """Write as much as is taken."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)
        return self

    def end(self) -> Self:
        """Say that nothing more will come."""
        self._socket.shutdown(socket.SHUT_WR)
        return self

    def answered(self, seconds: float) -> bool:
        """Whether something comes, or the other end closes, within that time."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def answer(self) -> bytes:
        """All that comes until the other end closes; fails if it does not."""
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := self._socket.recv(1 << 16):
                received += data
        return received


class Wire:
    """One connection to an impostor."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._decoder = Decoder("lsp")

    def send(self, message: Any) -> None:
        """Write one message."""
        self.send_bytes(frame(dumps(message), "lsp"))

    def reply(self, request: Message, result: Any) -> None:
        """Answer a request."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Message, error: Any) -> None:
        """Answer a request with an error."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def notify(self, method: str, params: Any) -> None:
        """Write a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send_bytes(self, data: bytes) -> None:
        """Write bytes."""
        self._connection.sendall(data)

    def close(self) -> None:
        """Hang up."""
        self._connection.shutdown(socket.SHUT_RDWR)

    def messages(self) -> list[Message]:
        """What came; empty at the end of the connection."""
        while data := self._connection.recv(1 << 16):
            if found := [loads(body) for body in self._decoder.feed(data)]:
                return found
        return []


class Impostor:
    """Owns a session as far as its lock says, and listens where the record says; but is no Timeleap.

    Args:
        session: The session's directory.
        answers: What is answered.
        endpoint: Members of the record's `endpoint` that shall be others.

    Attributes:
        heard: All that was asked, of all connections.
        address: Where it listens.
        token: What its record has.
    """

    def __init__(self, session: Path, answers: Answers, **endpoint: Any) -> None:
        self.heard: list[Message] = []
        self.token = "f" * 64
        self._answers = answers
        self._connections: list[socket.socket] = []
        self._serving: list[threading.Thread] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self.address = str(Path(tempfile.mkdtemp(dir=runtime_directory()), "i.sock"))
        self._listening.bind(self.address)
        self._listening.listen()
        known = {"address": self.address, "token": self.token, "protocolVersion": 1}
        self._lock = Lock(session, endpoint={**known, **endpoint})
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.vanish()

    def become(self, **members: Any) -> None:
        """Have other members in the record."""
        self._lock.write(**members)

    def vanish(self) -> None:
        """Free the lock, hang up on everybody. Idempotent."""
        self._lock.free()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        _join(self._accepting)  # first: nobody is let in any more who would not be hung up on
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._serving:
            _join(thread)
        for each in (self._listening, *self._connections):
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._connections.append(connection)
                self._serving.append(threading.Thread(target=self._serve, args=[Wire(connection)], daemon=True))
                self._serving[-1].start()

    def _serve(self, wire: Wire) -> None:
        with contextlib.suppress(OSError):
            if "connected" in self._answers:
                self._act(wire, self._answers["connected"], {})
            while messages := wire.messages():
                for message in messages:
                    self.heard.append(message)
                    method = message.get("method")
                    if isinstance(method, str) and method in self._answers:
                        self._act(wire, self._answers[method], message)

    def _act(self, wire: Wire, answer: Any, message: Message) -> None:
        if callable(answer):
            answer(wire, message)
        elif isinstance(answer, bytes):
            wire.send_bytes(answer)
        else:
            wire.reply(message, answer)


def _join(thread: threading.Thread) -> None:
    thread.join(PATIENCE)
    assert not thread.is_alive(), "somebody still speaks to the impostor"


class Lock:
    """A session's lock, held the way Timeleap holds it; in it a record that may be anything.

    Args:
        session: The session's directory.
        text: The whole record. Default: one as it should be.
        **members: Members of that one that shall be others; None leaves them out.
    """

    def __init__(self, session: Path, text: bytes | None = None, **members: Any) -> None:
        import fcntl

        self._file = (session / ".context.jsonl.lock").open("r+b", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": "2026-01-01T00:00:00.000Z"}
        self._record: Message = {**owner, "mode": "hold"}
        self.write(text, **members)

    def write(self, text: bytes | None = None, **members: Any) -> None:
        """Have another record."""
        self._record.update(members)
        told = {name: value for name, value in self._record.items() if value is not None}
        self._file.seek(0)
        self._file.truncate(0)
        self._file.write(dumps(told) if text is None else text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.free()

    def free(self) -> None:
        """Free it. Idempotent."""
        self._file.close()


_STRANGER = """
import socket, sys
caller = socket.socket(socket.AF_UNIX)
caller.settimeout(20)
caller.connect(sys.argv[1])
received = b""
try:
    caller.sendall(sys.stdin.buffer.read())
    while data := caller.recv(4096):
        received += data
except ConnectionError:
    pass
sys.stdout.buffer.write(received)
"""


def as_another_user(address: str, data: bytes) -> bytes:
    """Connect as another user's process, say `data`; returns what came until the other end closed. Needs root."""
    command = ["/usr/bin/env", "python3", "-c", _STRANGER, address]
    done = subprocess.run(command, user=NOBODY, cwd="/", input=data, capture_output=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


_TRAP = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("listening", flush=True)
connection, _ = listening.accept()
received = b""
while data := connection.recv(4096):
    received += data
print(received, flush=True)
"""


@contextlib.contextmanager
def trap_of_another_user(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user that listens at `place`, and writes down what the first who connects says.

    Its file and directory pass for ours: only the system can tell whose process it is. Needs root.
    """
    place.parent.mkdir(mode=0o700)
    os.chown(place.parent, NOBODY, NOBODY)
    command = ["/usr/bin/env", "python3", "-c", _TRAP, str(place)]
    with subprocess.Popen(command, user=NOBODY, cwd="/", stdout=subprocess.PIPE) as trap:
        try:
            assert trap.stdout is not None
            assert trap.stdout.readline() == b"listening\n"
            for path in (place, place.parent):
                os.chown(path, os.geteuid(), os.getegid())
            yield trap
        finally:
            trap.kill()
