"""A server process, spoken to with as little code in between as possible: raw pipes, blocking reads, frames made beforehand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.child import Child

TIMELEAP = (sys.executable, "-m", "timeleap", "serve")
BARE_PYGLS = (
    sys.executable,
    "-c",
    "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()",
)
ECHO_PYGLS = (
    sys.executable,
    "-c",
    (
        "from pygls.lsp.server import LanguageServer\n"
        "server = LanguageServer('bare', '1')\n"
        "server.feature('echo')(lambda params: params.text)\n"
        "server.start_io()"
    ),
)

LEAST = (sys.executable, str(Path(__file__).with_name("least.py")))
"""The least a process can do; arguments: a file, `--synced`."""

EDGE = (sys.executable, "-m", "benchmarks.edge")
"""The protocol edge of ours over the least that keeps the guarantees; argument: a file."""

HEADER = b"Content-Length: "
PIPE = 1 << 20
"""Bytes that a pipe to or from a server may hold, so that 64 large requests never wait for room."""

GREETING: dict[str, Any] = {"capabilities": {}, "processId": None, "rootUri": None}
"""What `initialize` is sent, to a server of either kind."""


class Server(Child):
    """A child process that is sent requests with LSP framing, which both kinds understand."""

    def __init__(self, command: tuple[str, ...], *arguments: str) -> None:
        super().__init__([*command, *arguments], stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        if sys.platform == "linux":
            import fcntl

            for fd in (self._to, self._from):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)
        self._id = 0
        self._buffer = bytearray(4 * PIPE)  # what was read, and room for more: page faults of ours are not measured
        self._filled = 0
        bytes(4 * PIPE)  # nor those of what is made of it: glibc keeps twice the largest block that was freed

    @classmethod
    def timeleap(cls, home: Path, *arguments: str) -> Self:
        """A server of ours that has been initialised."""
        server = cls(TIMELEAP, "--home", str(home), *arguments)
        server.request("initialize", {"capabilities": {}})
        return server

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def output(self) -> int:
        """The descriptor that replies come from."""
        return self._from

    def wait_until_freed(self) -> None:
        """Wait until the process has closed the logs that have no name any more: it does that behind its replies, and it
        is not to slow the case that comes next."""
        held = Path(f"/proc/{self.pid}/fd")
        while held.exists() and any(map(_is_nameless_log, held.iterdir())):
            time.sleep(0.01)

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
        replies = [json.loads(reply) for reply in self.exchange(self.frames(method, each))]
        results = []
        for number, reply in enumerate(replies, first):
            if reply.get("id") != number:
                raise RuntimeError(f"an answer out of turn: {reply}")
            if "error" in reply:
                raise RuntimeError(reply["error"])
            results.append(reply["result"])
        return results

    def frames(self, method: str, each: Sequence[dict[str, Any]]) -> list[bytes]:
        """Requests as they go over the wire, to be sent (as often as one likes) by `exchange`."""
        made = []
        for params in each:
            self._id += 1
            body = json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}).encode()
            made.append(HEADER + b"%d\r\n\r\n" % len(body) + body)
        return made

    def exchange(self, frames: Sequence[bytes], in_flight: int | None = None) -> list[bytes]:
        """Send requests and read their replies, as bytes; notifications are passed over.

        Args:
            frames: The requests.
            in_flight: How many may be unanswered at any time; None for all.
        """
        at_once = len(frames) if in_flight is None else in_flight
        self.send(b"".join(frames[:at_once]))
        sent, replies = at_once, list[bytes]()
        while len(replies) < len(frames):
            known = len(replies)
            replies += [body for body in self.read() if b'"method":' not in body[:40]]
            if sent < len(frames) and (more := len(replies) - known):
                self.send(b"".join(frames[sent : sent + more]))
                sent += more
        return replies

    def answered(self, frames: Sequence[bytes], in_flight: int) -> None:
        """The same, where nothing of the results is wanted but that there are no errors among them."""
        for reply in self.exchange(frames, in_flight):
            if b'"error":' in reply[:60]:
                raise RuntimeError(reply)

    def delays(self, frames: Sequence[bytes], meanwhile: Callable[[], bytes] | None) -> Iterator[float]:
        """Send requests, each after the reply to the one before; yields the seconds that each took.

        Args:
            frames: The requests.
            meanwhile: Gives the frame of another request, one of which is being carried out all the time.
        """
        pending: int | None = None
        for frame in frames:
            if pending is None and meanwhile is not None:
                pending = self._sent(meanwhile())
            started = time.perf_counter()
            number, replied = self._sent(frame), False
            while not replied:
                for reply in map(json.loads, self.read()):
                    if reply.get("id") == number:
                        yield time.perf_counter() - started
                        replied = True
                    elif reply.get("id") == pending:
                        pending = None
                    if "error" in reply:
                        raise RuntimeError(reply["error"])
        while pending is not None:
            if any(json.loads(body).get("id") == pending for body in self.read()):
                pending = None

    def _sent(self, frame: bytes) -> int:
        """Send a frame of ours; returns its request's id."""
        self.send(frame)
        return int(json.loads(frame.partition(b"\r\n\r\n")[2])["id"])

    def send(self, data: bytes) -> None:
        """Write bytes, all of them."""
        while data:
            data = data[os.write(self._to, data) :]

    def read(self) -> list[bytes]:
        """Wait for messages; returns the bodies of all that one read brought to their end, of none at times."""
        buffer = self._buffer
        if self._filled == len(buffer):
            buffer += bytes(len(buffer))
        with memoryview(buffer) as view:
            count = os.readv(self._from, [view[self._filled :]])
        if not count:
            raise RuntimeError("the server went away")
        self._filled += count
        filled, at, bodies = self._filled, 0, []
        while (end := buffer.find(b"\r\n\r\n", at, filled)) >= 0:
            # The length is the first header of both kinds of servers.
            start = end + 4
            stop = start + int(buffer[at + len(HEADER) : buffer.index(b"\r", at)])
            if stop > filled:
                break
            with memoryview(buffer) as view:
                bodies.append(bytes(view[start:stop]))
            at = stop
        if at:
            buffer[: filled - at] = buffer[at:filled]
            self._filled -= at
        return bodies


def _is_nameless_log(descriptor: Path) -> bool:
    try:
        there = descriptor.stat()
    except OSError:  # closed meanwhile
        return False
    return there.st_nlink == 0 and there.st_size > 0


def first_open(home: Path, params: dict[str, Any], idle: float = 0) -> float:
    """Seconds that the first open takes in a server that was greeted just before, or so many seconds ago."""
    server = Server(TIMELEAP, "--home", str(home))
    server.request("initialize", GREETING)
    time.sleep(idle)
    started = time.perf_counter()
    server.request("session/open", params)
    taken = time.perf_counter() - started
    server.kill()
    return taken
