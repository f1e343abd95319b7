"""Sockets between the processes of one user of this machine: one in the runtime directory, on Windows a named pipe.

A process that can put a file into that directory could pretend to be the owner of a session, and one that can connect
to a socket in it could try tokens. So both ends check the same things, each time: the directory is ours, 0700 and no
link; what lies at the address is a socket of ours; and once connected, the system says that the other end is ours as
well (`peer_is_us`), which also holds if somebody exchanged files between the checks and the connecting. What is unsafe
is never repaired: who made it so may have had a reason, or may be at work. Named pipes need none of this: the system
keeps other users out of them.

asyncio's own way to listen removes a socket that lies at the path, binds with the umask's mode and accepts everything
that comes; its way to connect takes "the queue is full" for "connected". Hence the socket is bound, accepted from and
connected here, and asyncio gets it then.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import secrets
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)

Make = Callable[[], asyncio.Protocol]
P = TypeVar("P", bound=asyncio.Protocol)
T = TypeVar("T")

DIRECTORY_VARIABLE: Final = "TIMELEAP_RUNTIME_DIR"

_LONGEST: Final = 107 if sys.platform == "linux" else 103  # bytes of a socket's path, without the NUL at its end
_NAME: Final = re.compile(r"([1-9][0-9]{0,9})-[0-9a-f]{8}\.sock")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

BACKLOG: Final = 1024
"""Connections that may wait to be accepted; the system may cut that down."""

_AT_ONCE: Final = 64  # accepted before others get their turn
_NO_ROOM_SECONDS: Final = 1.0  # between two attempts to accept where descriptors or memory are short
_QUEUE_FULL_SECONDS: Final = 0.02  # between two attempts to connect to one who does not accept
_SWEEP_SECONDS: Final = 1.0  # from when we listen to when sockets of dead processes are looked for
_NAMES: Final = 8  # tried, should some be taken
_PIPES: Final = "\\\\.\\pipe\\timeleap-"


class UnsafeError(Exception):
    """Something must not be trusted; the message says what, and why."""


def first_usable(environ: Mapping[str, str], use: Callable[[Path], T]) -> T:
    """The result of `use` for the first directory for sockets that is safe (made, 0700, if it is absent) and works.

    Candidates: `TIMELEAP_RUNTIME_DIR` if it is set, and then no other; else `timeleap` in `XDG_RUNTIME_DIR`, else
    `timeleap-<uid>` in the directory for temporary files.

    Raises:
        UnsafeError: There is none; the message names each and what is wrong with it.
    """
    reasons: list[str] = []
    for directory in dict.fromkeys(_candidates(environ)):
        try:
            _prepare(directory)
            return use(directory)
        except UnsafeError as error:
            reasons.append(str(error))
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            reasons.append(f"{directory} cannot be used ({_words(error)})")
    advice = f"Set {DIRECTORY_VARIABLE} to a directory that only you can use (`mkdir -m 700`)."
    raise UnsafeError(f"no directory for sockets is safe: {'; '.join(reasons)}. {advice}")


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    chosen = environ.get(DIRECTORY_VARIABLE)
    if chosen:
        yield Path(chosen)
        return
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime, "timeleap")
    # Not `tempfile.gettempdir`: it tries directories by writing into them, and costs start-up time.
    for temporary in (environ.get("TMPDIR"), "/tmp"):  # noqa: S108 - below it, a directory of our own
        if temporary:
            yield Path(temporary, f"timeleap-{_our_uid()}")


def _prepare(directory: Path) -> None:
    if not directory.is_absolute():
        raise UnsafeError(f"{directory} is not an absolute path")
    excess = len(os.fsencode(directory / socket_name())) - _LONGEST
    if excess > 0:
        raise UnsafeError(f"{directory} is {excess} bytes too long for the path of a socket")
    try:
        directory.lstat()
    except FileNotFoundError:
        _make(directory)
    _check_directory(directory)


def _make(directory: Path) -> None:
    above = directory.parent.stat()
    # `sudo` keeps XDG_RUNTIME_DIR: what root made there, its user could neither use nor remove, but exchange.
    if above.st_uid != _our_uid() and not above.st_mode & stat.S_ISVTX:
        raise UnsafeError(f"{directory} cannot be made: {directory.parent} belongs to another user")
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        return  # another process was faster; the directory is checked in any case
    with suppress(PermissionError):  # some mounts take no modes; which it has is looked at in any case
        directory.chmod(0o700)  # whatever the umask took away


def _check_directory(directory: Path) -> None:
    found = directory.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeError(f"{directory} is a link")
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeError(f"{directory} is not a directory")
    if found.st_uid != _our_uid():
        raise UnsafeError(f"{directory} belongs to another user (uid {found.st_uid}, and we are {_our_uid()})")
    if mode & _OTHERS:
        raise UnsafeError(f"{directory} is open to other users (its mode is {mode:04o})")
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        raise UnsafeError(f"{directory} is closed to ourselves (its mode is {mode:04o})")


def socket_name() -> str:
    """A name for a socket of this process; another one each time."""
    return f"{os.getpid()}-{secrets.token_hex(4)}.sock"


def check_socket(path: Path) -> None:
    """See that `path` is a socket of ours in a directory of ours, before connecting to it.

    Raises:
        UnsafeError: It is not, or no socket can have such a path.
        OSError: There is no such file (`FileNotFoundError`), or it cannot be looked at.
    """
    try:
        if not path.is_absolute():
            raise UnsafeError("the address of the socket is not an absolute path")
        if len(os.fsencode(path)) > _LONGEST:
            raise UnsafeError("the address of the socket is too long for one")
        _check_directory(path.parent)
        found = path.lstat()
    except ValueError as error:
        raise UnsafeError("the address of the socket is not a path") from error
    place = f"{path.name} in {path.parent}"
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeError(f"{place} is a link where a socket should be")
    if not stat.S_ISSOCK(found.st_mode):
        raise UnsafeError(f"{place} is no socket")
    if found.st_uid != _our_uid():
        raise UnsafeError(f"{place} belongs to another user (uid {found.st_uid}, and we are {_our_uid()})")


def sweep(directory: Path) -> None:
    """Remove the sockets that dead processes left; nothing else, and nothing in doubt.

    That nobody answers is not enough: nobody does either between the binding of a socket and the listening. Nor is a
    pid that is dead: it may be one of another container that has this directory too.
    """
    try:
        left = [path for path in directory.iterdir() if (name := _NAME.fullmatch(path.name)) and _is_dead(int(name[1]))]
    except OSError:
        return
    for path in left:
        with suppress(OSError, UnsafeError):
            check_socket(path)
            if _is_refused(path):
                path.unlink()


def _is_dead(pid: int) -> bool:
    if sys.platform == "win32":
        return False  # there, signal 0 would end it; nothing is swept either, for pipes leave nothing behind
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # another user's, or no pid at all
    return False


def _is_refused(path: Path) -> bool:
    if sys.platform == "win32":
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)  # one who is too busy to accept would keep us waiting
        return caller.connect_ex(str(path)) == errno.ECONNREFUSED


def peer_is_us(sock: socket.socket) -> bool:
    """True if the process that listens or connected at the other end of a connected socket is of our user.

    Where the system does not tell, the permissions of the directory have to do.
    """
    try:
        uid = _peer_uid(sock)
    except (OSError, struct.error):
        return False  # it hung up already, or the system is not what we know
    return uid is None or uid == _our_uid()


if sys.platform == "linux":

    def _peer_uid(sock: socket.socket) -> int | None:
        credentials = struct.Struct("iII")  # struct ucred: pid, uid, gid
        _, uid, _ = credentials.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
        return int(uid)

else:

    def _peer_uid(sock: socket.socket) -> int | None:
        option = getattr(socket, "LOCAL_PEERCRED", None)  # macOS, FreeBSD
        return None if option is None else _uid_in_xucred(sock.getsockopt(0, option, 128))  # 0 is SOL_LOCAL


def _uid_in_xucred(data: bytes) -> int:
    version, uid = struct.unpack_from("II", data)
    if version != 0:
        raise OSError(errno.EPROTO, "unknown version of struct xucred")
    return int(uid)


def _our_uid() -> int:
    if sys.platform == "win32":
        return 0
    return os.geteuid()


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class Listening:
    """An open listener."""

    def __init__(self, address: str, stop: Callable[[], None]) -> None:
        self.address: Final = address  # where to connect to: an absolute path, or the name of a pipe
        self._stop: Callable[[], None] | None = stop

    def close(self) -> None:
        """Accept nobody any more and remove the socket's file. Connections stay. Idempotent."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


async def listen(make: Make, environ: Mapping[str, str]) -> Listening:
    """Listen for connections of our own user's processes; each gets a protocol from `make`.

    Raises:
        UnsafeError: There is no directory where that is safe; the message names each that was considered.
        OSError: The pipe cannot be made (Windows).
    """
    if sys.platform == "win32":
        address = f"{_PIPES}{os.getpid()}-{secrets.token_hex(8)}"
        # The first instance of a pipe fails where the name is taken, and only its maker may write to it.
        [server] = await _proactor().start_serving_pipe(make, address)
        return Listening(address, server.close)
    door = first_usable(environ, lambda directory: _Door(directory, make))
    return Listening(str(door.path), door.close)


async def connect(address: str, make: Callable[[], P], timeout: float) -> tuple[asyncio.Transport, P]:  # noqa: ASYNC109
    """Connect to a process of our own user. Not a byte is sent before it is known to be one.

    Raises:
        UnsafeError: What is there is not to be trusted; a pipe's address may lead to another machine.
        OSError: Nobody listens there (`ConnectionRefusedError`, `FileNotFoundError`), or they do not accept in
            time (`TimeoutError`).
    """
    if sys.platform == "win32":
        if not address.startswith(_PIPES) or "\\" in address.removeprefix(_PIPES):
            raise UnsafeError("the address is not that of a pipe of ours")
        async with asyncio.timeout(timeout):
            return await _proactor().create_pipe_connection(make, address)
    check_socket(Path(address))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(timeout):
            await _reach(sock, address)
            if not peer_is_us(sock):
                raise UnsafeError("a process of another user listens at the address")
            return await asyncio.get_running_loop().create_unix_connection(make, sock=sock)
    except BaseException:
        sock.close()
        raise


def has_left(transport: asyncio.Transport) -> bool:
    """True if the peer has disconnected, though data it sent before may still be unread."""
    if sys.platform == "win32":
        return False  # a pipe does not tell before it is read empty
    try:
        os.write(transport.get_extra_info("socket").fileno(), b"")
    except ConnectionError:
        return True
    return False


def _proactor() -> Any:  # the stubs know its methods for streams only
    loop = asyncio.get_running_loop()
    if sys.platform != "win32" or not isinstance(loop, asyncio.ProactorEventLoop):
        raise OSError(errno.ENOTSUP, "this event loop knows no pipes")
    return loop


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
        self._socket, self.path = _bound(directory)
        self._identity = _identity(self.path)
        # Not now: who opens a session waits for this.
        self._sweep: asyncio.TimerHandle | None = self._loop.call_later(_SWEEP_SECONDS, self._sweep_once)
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Accept nobody any more; remove the file, unless it is another one by now."""
        self._sweep_once()
        self._loop.remove_reader(self._socket)
        if self._pause is not None:
            self._pause.cancel()
        if _identity(self.path) == self._identity:
            with suppress(OSError):  # the folder was mounted read-only meanwhile, say: the next look sweeps it up
                self.path.unlink(missing_ok=True)
        self._socket.close()

    def _sweep_once(self) -> None:
        due, self._sweep = self._sweep, None
        if due is not None:
            due.cancel()
            sweep(self.path.parent)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            if peer_is_us(connection):
                connection.setblocking(False)
                admission = self._loop.create_task(self._hand_over(connection))
                self._admissions.add(admission)
                admission.add_done_callback(self._admissions.discard)
            else:
                connection.close()
                self._warn("closed a connection of another user's process")

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
        path = directory / socket_name()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.bind(str(path))
            with suppress(PermissionError):  # a mount that takes no modes; the directory keeps others out
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
