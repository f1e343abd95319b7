"""A way to a server on which bytes get lost, as behind a firewall that has forgotten a connection or drops packets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class _Pair:
    """A connection and the one behind it."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._ends = near, far
        self.swallowed: set[str] = set()
        for way, source, target in (("out", near, far), ("back", far, near)):
            threading.Thread(target=self._pass_on, args=(way, source, target), daemon=True).start()

    def _pass_on(self, way: str, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if way not in self.swallowed:
                    target.sendall(data)
        if way not in self.swallowed:  # of a lost end nobody hears, either
            self.close()

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Way:
    """Listens on a port and passes everything on to another one.

    Attributes:
        port: On 127.0.0.1.
        blocked: New connections are taken, and nothing is passed on over them.
        delay: Seconds until a new connection is passed on.
    """

    def __init__(self, target: int) -> None:
        self.blocked, self.delay = False, 0.0
        self._target = target
        self._pairs: list[_Pair] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                time.sleep(self.delay)
                pair = _Pair(near, socket.create_connection(("127.0.0.1", self._target)))
                if self.blocked:
                    pair.swallowed |= {"out", "back"}
                self._pairs.append(pair)

    def swallow(self, *ways: str) -> None:
        """From now on nothing of what is sent `out`, or comes `back`, arrives over the connections that there are."""
        for pair in self._pairs:
            pair.swallowed |= set(ways)

    def close(self) -> None:
        """End everything."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for pair in self._pairs:
            pair.close()


@contextmanager
def way_to(port: int) -> Iterator[Way]:
    """Such a way to a port, for a block."""
    way = Way(port)
    try:
        yield way
    finally:
        way.close()
