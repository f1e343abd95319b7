"""Listening and connecting on this machine: a socket in the runtime directory, on Windows a named pipe.

asyncio's own way to listen removes a socket that lies at the path, binds with the umask's mode and accepts everything that
comes; its way to connect takes "the queue is full" for "connected". Hence the socket is bound, accepted from and
connected here, and asyncio gets it then.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from timeleap.rpc import runtime
from timeleap.rpc.runtime import UnsafeError

log = logging.getLogger(__name__)

Make = Callable[[], asyncio.Protocol]
P = TypeVar("P", bound=asyncio.Protocol)

BACKLOG: Final = 1024
"""Connections that may wait to be accepted; the system may cut that down."""

_AT_ONCE: Final = 64  # accepted before others get their turn
_NO_ROOM_SECONDS: Final = 1.0  # between two attempts to accept where descriptors or memory are short
_QUEUE_FULL_SECONDS: Final = 0.02  # between two attempts to connect to one who does not accept
_NAMES: Final = 8  # tried, should some be taken
_PIPES: Final = "\\\\.\\pipe\\timeleap-"


class Listening:
    """An open listener, the result of `listen`.

    Args:
        address: Where to connect to: an absolute path, or the name of a pipe.
        stop: Ends it.
    """

    def __init__(self, address: str, stop: Callable[[], None]) -> None:
        self.address: Final = address
        self._stop: Callable[[], None] | None = stop

    def close(self) -> None:
        """Accept nobody any more and remove the socket's file. Connections stay. Idempotent."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


if sys.platform == "win32":

    async def listen(make: Make, environ: Mapping[str, str]) -> Listening:
        """Listen for connections of our own user's processes; each gets a protocol from `make`.

        Raises:
            OSError: The pipe cannot be made.
        """
        del environ  # pipes lie in no directory
        address = f"{_PIPES}{os.getpid()}-{secrets.token_hex(8)}"
        # The first instance of a pipe fails where the name is taken, and only its maker may write to it.
        [server] = await _proactor().start_serving_pipe(make, address)
        return Listening(address, server.close)

    async def connect(address: str, make: Callable[[], P], timeout: float) -> tuple[asyncio.Transport, P]:  # noqa: ASYNC109
        """Connect to a process of our own user.

        Args:
            address: What `Listening.address` said there.
            make: Makes the protocol.
            timeout: Seconds.

        Raises:
            UnsafeError: The address is not one of ours: it may lead to another machine.
            OSError: Nobody listens there, or they do not accept in time (`TimeoutError`).
        """
        if not address.startswith(_PIPES) or "\\" in address.removeprefix(_PIPES):
            raise UnsafeError("the address is not that of a pipe of ours")
        async with asyncio.timeout(timeout):
            transport, protocol = await _proactor().create_pipe_connection(make, address)
        return transport, protocol

    def has_left(transport: asyncio.Transport) -> bool:
        """True if the peer has disconnected; a pipe does not tell before it is read empty."""
        del transport
        return False

    def _proactor() -> Any:  # the stubs know these methods for streams only
        loop = asyncio.get_running_loop()
        if not isinstance(loop, asyncio.ProactorEventLoop):
            raise OSError(errno.ENOTSUP, "this event loop knows no pipes")
        return loop

else:

    async def listen(make: Make, environ: Mapping[str, str]) -> Listening:
        """Listen for connections of our own user's processes; each gets a protocol from `make`.

        Raises:
            UnsafeError: There is no directory where that is safe; the message names each that was considered.
        """
        door = runtime.first_usable(environ, lambda directory: _Door(directory, make))
        return Listening(str(door.path), door.close)

    async def connect(address: str, make: Callable[[], P], timeout: float) -> tuple[asyncio.Transport, P]:  # noqa: ASYNC109
        """Connect to a process of our own user. Not a byte is sent before it is known to be one.

        Args:
            address: What `Listening.address` said there.
            make: Makes the protocol.
            timeout: Seconds.

        Raises:
            UnsafeError: What is there is not to be trusted.
            OSError: Nobody listens there (`ConnectionRefusedError`, `FileNotFoundError`), or they do not accept in
                time (`TimeoutError`).
        """
        runtime.check_socket(Path(address))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(timeout):
                await _reach(sock, address)
                if not runtime.peer_is_us(sock):
                    raise UnsafeError("a process of another user listens at the address")
                return await asyncio.get_running_loop().create_unix_connection(make, sock=sock)
        except BaseException:
            sock.close()
            raise

    def has_left(transport: asyncio.Transport) -> bool:
        """True if the peer has disconnected, though data it sent before may still be unread."""
        try:
            os.write(transport.get_extra_info("socket").fileno(), b"")
        except ConnectionError:
            return True
        return False

    async def _reach(sock: socket.socket, address: str) -> None:
        while True:
            try:
                sock.connect(address)
            except BlockingIOError:
                await asyncio.sleep(_QUEUE_FULL_SECONDS)
            except OSError as error:
                if error.errno != errno.EISCONN:
                    raise
                return  # it was under way when we asked before
            else:
                return

    class _Door:
        """A listening socket in `directory`, and whom it lets in."""

        def __init__(self, directory: Path, make: Make) -> None:
            self._make = make
            self._loop = asyncio.get_running_loop()
            self._admissions: set[asyncio.Task[None]] = set()
            self._pause: asyncio.TimerHandle | None = None
            self._warned = False
            runtime.sweep(directory)
            self._socket, self.path = _bound(directory)
            self._identity = _identity(self.path)
            self._loop.add_reader(self._socket, self._accept)

        def close(self) -> None:
            """Accept nobody any more; remove the file, unless it is another one by now."""
            self._loop.remove_reader(self._socket)
            if self._pause is not None:
                self._pause.cancel()
            if _identity(self.path) == self._identity:
                self.path.unlink(missing_ok=True)
            self._socket.close()

        def _accept(self) -> None:
            for _ in range(_AT_ONCE):
                try:
                    connection, _ = self._socket.accept()
                except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                    return
                except OSError as error:
                    self._rest(error)
                    return
                if runtime.peer_is_us(connection):
                    self._admit(connection)
                else:
                    connection.close()
                    self._warn("closed a connection of another user's process")

        def _admit(self, connection: socket.socket) -> None:
            connection.setblocking(False)
            admission = self._loop.create_task(self._hand_over(connection))
            self._admissions.add(admission)
            admission.add_done_callback(self._admissions.discard)

        async def _hand_over(self, connection: socket.socket) -> None:
            try:
                if self._socket.fileno() < 0:
                    raise ConnectionAbortedError  # closed meanwhile
                await self._loop.connect_accepted_socket(self._make, connection)
            except OSError:
                connection.close()
            except BaseException:
                connection.close()
                raise

        def _rest(self, error: OSError) -> None:
            """Accept nobody for a while: who waits keeps the socket readable, and the loop would spin."""
            self._warn(f"cannot accept connections for now: {error.strerror}")
            self._loop.remove_reader(self._socket)
            self._pause = self._loop.call_later(_NO_ROOM_SECONDS, self._loop.add_reader, self._socket, self._accept)

        def _warn(self, message: str) -> None:
            if not self._warned:  # nobody else decides how much we log
                log.warning("%s", message)
            self._warned = True

    def _bound(directory: Path) -> tuple[socket.socket, Path]:
        """A listening socket under a new name; what lies in `directory` is left alone.

        Raises:
            OSError: No socket can be made there.
        """
        for _ in range(_NAMES):
            path = directory / runtime.socket_name()
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                sock.bind(str(path))
                path.chmod(0o600)  # whatever the umask; nobody can connect before `listen`
                sock.listen(BACKLOG)
            except OSError as error:
                sock.close()
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return sock, path
        raise OSError(errno.EADDRINUSE, "every name that was tried is taken")

    def _identity(path: Path) -> tuple[int, int] | None:
        try:
            found = path.lstat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
