"""Listening and connecting on this machine, with real sockets and processes."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest
from tests.support.holding import PATIENCE
from tests.support.turns import Clock, idle, until

from timeleap.attach import sockets
from timeleap.attach.sockets import Listening, UnsafeError, connect, listen

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets; pipes have no files and no modes")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)

NOBODY = 65534


@pytest.fixture
def directory() -> Iterator[Path]:
    """A runtime directory that is not made yet, with a path that leaves room for a socket's name."""
    above = Path(mkdtemp(prefix="tl-", dir="/tmp"))
    yield above / "run"
    subprocess.run(["rm", "-rf", above], check=True)


class Talk(asyncio.Protocol):
    """One end of a connection; remembers what it was told."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.data = b""
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def hang_up(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Host:
    """Listens; keeps the protocols it made."""

    def __init__(self, directory: Path) -> None:
        self.environ = {sockets.DIRECTORY_VARIABLE: str(directory)}
        self.guests: list[Talk] = []
        self.listening: Listening

    def make(self) -> Talk:
        self.guests.append(Talk())
        return self.guests[-1]

    @property
    def path(self) -> Path:
        return Path(self.listening.address)


@asynccontextmanager
async def hosting(directory: Path) -> AsyncIterator[Host]:
    host = Host(directory)
    host.listening = await listen(host.make, host.environ)
    try:
        yield host
    finally:
        host.listening.close()
        for guest in host.guests:
            guest.hang_up()
        await asyncio.sleep(0)


# Listening


async def test_two_processes_ends_talk(directory: Path) -> None:
    async with hosting(directory) as host:
        transport, caller = await connect(host.listening.address, Talk, PATIENCE)
        caller.say(b"hello")
        await until(lambda: host.guests and host.guests[0].data == b"hello")
        host.guests[0].say(b"welcome")
        await until(lambda: caller.data == b"welcome")
        transport.close()
        await until(lambda: host.guests[0].lost)


@pytest.mark.parametrize("umask", [0, 0o777])
async def test_the_socket_is_ours_alone_whatever_the_umask(directory: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        async with hosting(directory) as host:
            assert host.path.parent == directory
            assert host.path.is_socket()
            assert host.path.lstat().st_mode & 0o7777 == 0o600
            assert directory.lstat().st_mode & 0o7777 == 0o700
            transport, _ = await connect(host.listening.address, Talk, PATIENCE)
            transport.abort()
    finally:
        os.umask(before)


async def test_the_name_tells_the_process_and_passes_for_one_to_sweep(directory: Path) -> None:
    async with hosting(directory) as host:
        name = sockets._NAME.fullmatch(host.path.name)
        assert name is not None
        assert int(name[1]) == os.getpid()


async def test_closing_ends_listening_and_leaves_connections(directory: Path) -> None:
    async with hosting(directory) as host:
        transport, caller = await connect(host.listening.address, Talk, PATIENCE)
        await until(lambda: host.guests)
        host.listening.close()
        host.listening.close()
        assert not list(directory.iterdir())
        with pytest.raises(FileNotFoundError):
            await connect(host.listening.address, Talk, PATIENCE)
        caller.say(b"still here")
        await until(lambda: host.guests[0].data == b"still here")
        transport.abort()


async def test_closing_removes_no_file_but_its_own(directory: Path) -> None:
    async with hosting(directory) as host:
        host.path.rename(directory / "moved")
        host.path.write_text("another's")
        host.listening.close()
        assert host.path.read_text() == "another's"


async def test_who_is_not_let_in_before_the_closing_is_not_let_in_after_it(directory: Path) -> None:
    async with hosting(directory) as host:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(host.listening.address)
            host.listening.close()
            await idle()
            assert not host.guests
            caller.setblocking(False)
            with pytest.raises(ConnectionResetError):
                caller.recv(1)


async def test_who_is_being_let_in_at_the_closing_is_not(directory: Path) -> None:
    async with hosting(directory) as host:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(host.listening.address)
            # A round of the loop runs what was asked for, then what came in: so this closes right after the accepting.
            loop.call_soon(loop.call_soon, host.listening.close)
            await idle()
            assert not host.guests
            caller.setblocking(False)
            assert caller.recv(1) == b""


async def test_it_can_listen_again_with_the_same_descriptor(directory: Path) -> None:
    for _ in range(3):
        async with hosting(directory) as host:
            transport, _ = await connect(host.listening.address, Talk, PATIENCE)
            await until(lambda: host.guests)
            transport.abort()


@pytest.mark.parametrize("plant", [Path.touch, lambda path: path.symlink_to("/dev/null"), os.mkfifo, Path.mkdir])
async def test_what_lies_at_its_path_is_left_there(directory: Path, plant, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir(mode=0o700)
    names = [f"{os.getpid()}-00000000.sock", f"{os.getpid()}-00000000.sock", f"{os.getpid()}-11111111.sock"]
    planted = directory / names[0]
    plant(planted)
    before = planted.lstat()
    queue = ["length", *names]
    monkeypatch.setattr(sockets, "socket_name", lambda: queue.pop(0))
    async with hosting(directory) as host:
        assert host.path == directory / names[2]
        after = planted.lstat()
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


async def test_a_live_socket_at_its_path_stays_its_owners(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hosting(directory) as first:
        monkeypatch.setattr(sockets, "socket_name", lambda: first.path.name)
        with pytest.raises(UnsafeError, match="every name that was tried is taken"):
            await listen(Talk, first.environ)
        transport, _ = await connect(first.listening.address, Talk, PATIENCE)
        await until(lambda: first.guests)
        transport.abort()


def left_by_the_dead(directory: Path) -> Path:
    """The path of a socket whose process is gone."""
    directory.mkdir(mode=0o700)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    left = directory / f"{child.pid}-0123abcd.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    return left


async def test_it_sweeps_soon_after_it_listens(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_SWEEP_SECONDS", 0.01)
    left = left_by_the_dead(directory)
    async with hosting(directory) as host:
        await until(lambda: not left.exists())
        assert list(directory.iterdir()) == [host.path]


async def test_it_sweeps_when_it_closes_before(directory: Path) -> None:
    left = left_by_the_dead(directory)
    async with hosting(directory):
        assert left.exists()  # nobody waits for that when a session is opened
    assert not left.exists()


async def test_a_directory_where_no_socket_can_be_made_is_passed_over(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bind(sock: socket.socket, address: str) -> None:
        if str(directory) in address:
            raise OSError(errno.EOPNOTSUPP, "no sockets on this file system")
        original(sock, address)

    original = socket.socket.bind
    other = directory.with_name("other")
    other.mkdir()
    directory.mkdir(mode=0o700)
    monkeypatch.setattr(socket.socket, "bind", bind)
    listening = await listen(Talk, {"XDG_RUNTIME_DIR": str(directory), "TMPDIR": str(other)})
    listening.close()
    assert Path(listening.address).parent.parent == other
    with pytest.raises(UnsafeError, match=rf"{directory} cannot be used \(no sockets on this file system\)"):
        await listen(Talk, {sockets.DIRECTORY_VARIABLE: str(directory)})


async def test_an_unsafe_directory_is_not_listened_in(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o755)
    with pytest.raises(UnsafeError, match="is open to other users"):
        await listen(Talk, {sockets.DIRECTORY_VARIABLE: str(directory)})
    assert not list(directory.iterdir())


async def test_two_hundred_who_come_at_once_are_all_let_in(directory: Path) -> None:
    async with hosting(directory) as host:
        callers = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        try:
            for caller in callers:
                caller.connect(host.listening.address)  # while nobody accepts: the loop is ours
            await until(lambda: len(host.guests) == 200)
        finally:
            for caller in callers:
                caller.close()


async def test_without_descriptors_it_waits_and_goes_on(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    async with hosting(directory) as host:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(host.listening.address)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                await idle()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert not host.guests
            assert [record.getMessage() for record in caplog.records] == [
                f"cannot accept connections for now: {os.strerror(errno.EMFILE)}"
            ]
            await clock.advance(sockets._NO_ROOM_SECONDS - 0.1)
            assert not host.guests
            await clock.advance(0.2)
            assert len(host.guests) == 1


async def test_without_descriptors_it_can_still_be_closed(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    async with hosting(directory) as host:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(host.listening.address)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                await idle()
                host.listening.close()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await clock.advance(2 * sockets._NO_ROOM_SECONDS)
            assert not host.guests
            assert {record.name for record in caplog.records} == {"timeleap.attach.sockets"}, (
                "asyncio had something to say"
            )


async def test_a_protocol_that_cannot_be_made_costs_only_its_connection(directory: Path) -> None:
    failures = [OSError(), OSError()]
    guests: list[Talk] = []

    def make() -> Talk:
        if failures:
            raise failures.pop()
        guests.append(Talk())
        return guests[-1]

    listening = await listen(make, {sockets.DIRECTORY_VARIABLE: str(directory)})
    _, first = await connect(listening.address, Talk, PATIENCE)
    _, second = await connect(listening.address, Talk, PATIENCE)
    await until(lambda: first.lost and second.lost)
    _, third = await connect(listening.address, Talk, PATIENCE)
    await until(lambda: guests)
    assert not third.lost
    third.hang_up()
    listening.close()
    await until(lambda: guests[0].lost)


# Another user

STRANGER = """
import socket, sys
caller = socket.socket(socket.AF_UNIX)
caller.connect(sys.argv[1])
try:
    caller.sendall(b"let me in")
    answer = caller.recv(10)
except OSError:
    answer = b""
print(answer)
"""


@as_root
async def test_another_users_connection_is_closed_at_once(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(directory) as host:
        directory.parent.chmod(0o755)
        directory.chmod(0o755)  # opened up after the start
        host.path.chmod(0o666)
        for _ in range(3):
            stranger = await asyncio.create_subprocess_exec(
                "/usr/bin/env", "python3", "-c", STRANGER, host.listening.address,
                stdout=subprocess.PIPE, user=NOBODY,
            )  # fmt: skip
            out, _ = await asyncio.wait_for(stranger.communicate(), PATIENCE)
            assert out.strip() == b"b''"
        assert not host.guests
        told = [record.getMessage() for record in caplog.records]
        assert told == ["closed a connection of another user's process"], "once: they do not decide how much we log"
        directory.chmod(0o700)
        transport, _ = await connect(host.listening.address, Talk, PATIENCE)
        await until(lambda: host.guests)
        transport.abort()


@as_root
async def test_nothing_is_sent_to_another_users_process(directory: Path) -> None:
    """It listens at an address that passes every look at files: the socket was given to us, the directory closed."""
    directory.parent.chmod(0o755)
    directory.mkdir()
    directory.chmod(0o777)
    path = directory / "theirs.sock"
    program = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("ready", flush=True)
connection, _ = listening.accept()
print(connection.recv(100))
"""
    stranger = await asyncio.create_subprocess_exec(
        "/usr/bin/env", "python3", "-c", program, path, stdout=subprocess.PIPE, user=NOBODY
    )
    assert stranger.stdout is not None
    assert await asyncio.wait_for(stranger.stdout.readline(), PATIENCE) == b"ready\n"
    directory.chmod(0o700)
    os.chown(path, os.geteuid(), -1)

    def make() -> Talk:
        raise AssertionError("a protocol was made")

    with pytest.raises(UnsafeError, match="a process of another user listens"):
        await connect(str(path), make, PATIENCE)
    out, _ = await asyncio.wait_for(stranger.communicate(), PATIENCE)
    assert out.strip() == b"b''"


# Connecting


async def test_nobody_there(directory: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await connect(str(directory / "a.sock"), Talk, PATIENCE)
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory / "a.sock"))
    with pytest.raises(ConnectionRefusedError):
        await connect(str(directory / "a.sock"), Talk, PATIENCE)


async def test_another_kind_of_socket_is_an_error_of_the_system(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(directory / "a.sock"))
        with pytest.raises(OSError, match="type"):
            await connect(str(directory / "a.sock"), Talk, PATIENCE)


async def test_what_is_unsafe_is_not_connected_to(directory: Path) -> None:
    async with hosting(directory) as host:
        directory.chmod(0o750)
        with pytest.raises(UnsafeError, match="is open to other users"):
            await connect(host.listening.address, Talk, PATIENCE)
        directory.chmod(0o700)
        link = directory / "link.sock"
        link.symlink_to(host.path)
        with pytest.raises(UnsafeError, match="is a link"):
            await connect(str(link), Talk, PATIENCE)
        await idle()
        assert not host.guests


async def test_one_who_accepts_nobody_is_waited_for_only_so_long(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    path = directory / "full.sock"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        try:
            for caller in waiting:
                caller.setblocking(False)
                caller.connect_ex(str(path))
            with pytest.raises((TimeoutError, ConnectionRefusedError)):  # macOS refuses
                await connect(str(path), Talk, 0.2)
            connecting = asyncio.create_task(connect(str(path), Talk, PATIENCE))
            await idle()
            if not connecting.done():
                accepted, _ = busy.accept()
                transport, _ = await connecting
                transport.write(b"there is room again")
                transport.close()
                accepted.close()
                busy.accept()[0].close()
            else:
                assert isinstance(connecting.exception(), ConnectionRefusedError)
        finally:
            for caller in waiting:
                caller.close()


def test_to_serve_is_not_slowed_down_by_what_only_a_second_process_needs() -> None:
    program = "import sys, timeleap.cli.serve; print([name for name in sys.modules if name.startswith('timeleap.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "timeleap.cli.serve" in done.stdout
    assert "timeleap.attach.sockets" not in done.stdout
