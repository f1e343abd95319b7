"""Real directories, files, sockets and processes: what is trusted in the runtime directory."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp

import pytest

from timeleap.attach import sockets as runtime
from timeleap.attach.sockets import UnsafeError, check_socket, first_usable, peer_is_us, sweep

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="named pipes lie in no directory")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")

NOBODY = 65534


def runtime_directory(environ: Mapping[str, str]) -> Path:
    return first_usable(environ, lambda directory: directory)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a path that leaves room for a socket's name; pytest's own are too long."""
    directory = Path(mkdtemp(prefix="tl-", dir="/tmp"))
    yield directory
    subprocess.run(["rm", "-rf", directory], check=True)


@pytest.fixture
def ours(short: Path) -> Path:
    directory = short / "run"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for sock in opened:
        sock.close()


def bound(path: Path, sockets: list[socket.socket], *, listening: bool = True) -> Path:
    sock = socket.socket(socket.AF_UNIX)
    sockets.append(sock)
    sock.bind(str(path))
    if listening:
        sock.listen()
    return path


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o7777


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


# Which directory


def test_the_directory_that_was_chosen_is_made_for_us_alone(short: Path) -> None:
    before = os.umask(0)
    try:
        assert runtime_directory({runtime.DIRECTORY_VARIABLE: str(short / "run")}) == short / "run"
    finally:
        os.umask(before)
    assert mode(short / "run") == 0o700


def test_no_umask_closes_it_to_ourselves(short: Path) -> None:
    before = os.umask(0o777)
    try:
        runtime_directory({runtime.DIRECTORY_VARIABLE: str(short / "run")})
    finally:
        os.umask(before)
    assert mode(short / "run") == 0o700


def test_it_is_never_open_to_others_for_a_moment(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    monkeypatch.setattr(Path, "chmod", lambda path, _: found.append(mode(path)))
    before = os.umask(0)
    try:
        runtime_directory({runtime.DIRECTORY_VARIABLE: str(short / "run")})
    finally:
        os.umask(before)
    assert found == [0o700]


def test_the_chosen_one_is_before_all_others(short: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(short), "TMPDIR": str(short), runtime.DIRECTORY_VARIABLE: str(short / "run")}
    assert runtime_directory(environ) == short / "run"
    assert sorted(path.name for path in short.iterdir()) == ["run"]


def test_an_unusable_chosen_one_is_not_replaced_by_another(short: Path) -> None:
    (short / "run").mkdir()
    (short / "run").chmod(0o755)
    environ = {"XDG_RUNTIME_DIR": str(short), "TMPDIR": str(short), runtime.DIRECTORY_VARIABLE: str(short / "run")}
    with pytest.raises(UnsafeError, match=rf"{short}/run is open to other users \(its mode is 0755\)"):
        runtime_directory(environ)
    assert mode(short / "run") == 0o755, "it was repaired"
    assert sorted(path.name for path in short.iterdir()) == ["run"]


@pytest.mark.parametrize("empty", [{}, {runtime.DIRECTORY_VARIABLE: ""}])
def test_then_comes_the_one_of_the_login_session(short: Path, empty: dict[str, str]) -> None:
    assert runtime_directory({"XDG_RUNTIME_DIR": str(short), **empty}) == short / "timeleap"
    assert mode(short / "timeleap") == 0o700


@pytest.mark.parametrize("runtime_dir", [None, "", "relative/run", "/nonexistent/run", "/dev/null"])
def test_then_the_one_for_temporary_files(
    short: Path, runtime_dir: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(short)
    (short / "relative" / "run").mkdir(parents=True)
    environ = {"TMPDIR": str(short)} | ({} if runtime_dir is None else {"XDG_RUNTIME_DIR": runtime_dir})
    assert runtime_directory(environ) == short / f"timeleap-{os.geteuid()}"
    assert not list((short / "relative" / "run").iterdir())


def test_a_name_too_long_for_a_socket_is_passed_over(short: Path) -> None:
    long = short / ("x" * 80)
    long.mkdir()
    environ = {"XDG_RUNTIME_DIR": str(long), "TMPDIR": str(short)}
    assert runtime_directory(environ) == short / f"timeleap-{os.geteuid()}"
    with pytest.raises(UnsafeError, match=r"bytes too long for the path of a socket"):
        runtime_directory({runtime.DIRECTORY_VARIABLE: str(long)})
    assert not list(long.iterdir())


def test_the_longest_directory_that_passes_has_room_for_a_socket(short: Path, sockets: list[socket.socket]) -> None:
    directory = short
    for length in range(20, 100):
        candidate = short / ("y" * length)
        try:
            directory = runtime_directory({runtime.DIRECTORY_VARIABLE: str(candidate)})
        except UnsafeError:
            break
    assert len(directory.name) > 20
    bound(directory / runtime.socket_name(), sockets)


def test_all_that_is_wrong_is_told_at_once(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (short / "timeleap").mkdir(mode=0o777)
    (short / "timeleap").chmod(0o777)
    (short / f"timeleap-{os.geteuid()}").write_text("")
    candidates = runtime._candidates
    # without /tmp, which would do
    monkeypatch.setattr(runtime, "_candidates", lambda environ: list(candidates(environ))[:2])
    with pytest.raises(UnsafeError) as caught:
        runtime_directory({"XDG_RUNTIME_DIR": str(short), "TMPDIR": str(short)})
    text = str(caught.value)
    assert f"{short}/timeleap is open to other users" in text
    assert f"{short}/timeleap-{os.geteuid()} is not a directory" in text
    assert f"Set {runtime.DIRECTORY_VARIABLE}" in text


def link_to_ours(path: Path) -> None:
    target = path.with_name("target")
    target.mkdir(mode=0o700)
    path.symlink_to(target)


def dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def plain_file(path: Path) -> None:
    path.write_text("")


def open_to_the_group(path: Path) -> None:
    path.mkdir()
    path.chmod(0o710)


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def closed_to_us(path: Path) -> None:
    path.mkdir(mode=0o500)


def of_another_user(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, NOBODY, NOBODY)


UNSAFE = [
    (link_to_ours, "is a link"),
    (dangling_link, "is a link"),
    (plain_file, "is not a directory"),
    (open_to_the_group, "is open to other users"),
    (open_to_all, "is open to other users"),
    (closed_to_us, "is closed to ourselves"),
    pytest.param(of_another_user, "belongs to another user", marks=as_root),
]


@pytest.mark.parametrize(("plant", "words"), UNSAFE)
def test_an_unsafe_directory_is_passed_over_and_left_alone(short: Path, plant, words: str) -> None:
    plant(short / "timeleap")
    before = (short / "timeleap").lstat()
    environ = {"XDG_RUNTIME_DIR": str(short), "TMPDIR": str(short)}
    assert runtime_directory(environ) == short / f"timeleap-{os.geteuid()}"
    with pytest.raises(UnsafeError, match=words):
        runtime_directory({runtime.DIRECTORY_VARIABLE: str(short / "timeleap")})
    after = (short / "timeleap").lstat()
    assert (after.st_mode, after.st_uid, after.st_ino) == (before.st_mode, before.st_uid, before.st_ino)
    assert not (short / "nowhere").exists()


@as_root
def test_none_is_made_in_a_directory_of_another_user(short: Path) -> None:
    of_another_user(short / "theirs")
    with pytest.raises(UnsafeError, match=f"{short}/theirs belongs to another user"):
        runtime_directory({runtime.DIRECTORY_VARIABLE: str(short / "theirs" / "run")})
    assert not list((short / "theirs").iterdir())
    (short / "theirs").chmod(0o1777)  # as /tmp is
    runtime_directory({runtime.DIRECTORY_VARIABLE: str(short / "theirs" / "run")})
    assert mode(short / "theirs" / "run") == 0o700


def test_names_no_file_can_have_are_a_reason_like_others() -> None:
    with pytest.raises(UnsafeError, match="null"):
        runtime_directory({runtime.DIRECTORY_VARIABLE: "/tmp/a\0b"})


# What lies at an address


def test_a_socket_of_ours_passes(ours: Path, sockets: list[socket.socket]) -> None:
    check_socket(bound(ours / "a.sock", sockets))


def test_what_is_not_there_is_not_found(ours: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_socket(ours / "a.sock")
    with pytest.raises(FileNotFoundError):
        check_socket(ours / "gone" / "a.sock")


@pytest.mark.parametrize(("plant", "words"), UNSAFE)
def test_a_socket_in_an_unsafe_directory_does_not_pass(
    short: Path, plant, words: str, sockets: list[socket.socket]
) -> None:
    plant(short / "run")
    if (short / "run").is_dir():
        bound(short / "run" / "a.sock", sockets)
    with pytest.raises(UnsafeError, match=f"{short}/run {words}"):
        check_socket(short / "run" / "a.sock")


def test_a_link_or_a_file_or_a_fifo_in_its_place_does_not_pass(ours: Path, sockets: list[socket.socket]) -> None:
    bound(ours / "real.sock", sockets)
    (ours / "link.sock").symlink_to(ours / "real.sock")
    (ours / "dangling.sock").symlink_to(ours / "nowhere")
    (ours / "file.sock").write_text("")
    os.mkfifo(ours / "fifo.sock")
    (ours / "directory.sock").mkdir()
    for name, words in [
        ("link.sock", "is a link where a socket should be"),
        ("dangling.sock", "is a link where a socket should be"),
        ("file.sock", "is no socket"),
        ("fifo.sock", "is no socket"),
        ("directory.sock", "is no socket"),
    ]:
        with pytest.raises(UnsafeError, match=f"{name} in {ours} {words}"):
            check_socket(ours / name)


@as_root
def test_a_socket_of_another_user_does_not_pass(ours: Path, sockets: list[socket.socket]) -> None:
    path = bound(ours / "a.sock", sockets)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(UnsafeError, match=r"belongs to another user \(uid 65534"):
        check_socket(path)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "not an absolute path"),
        ("run/a.sock", "not an absolute path"),
        ("{}/a\0.sock", "not a path"),
        ("{}\0/a.sock", "not a path"),
        ("{}/\ud800.sock", "not a path"),
        ("{}/" + "x" * 110, "too long"),
    ],
)
def test_what_is_no_address_does_not_pass(ours: Path, address: str, words: str) -> None:
    with pytest.raises(UnsafeError, match=words):
        check_socket(Path(address.format(ours)))


# Sweeping


def test_sockets_of_dead_processes_are_swept(ours: Path, sockets: list[socket.socket]) -> None:
    left = bound(ours / f"{dead_pid()}-0123abcd.sock", sockets)
    sockets.pop().close()
    sweep(ours)
    assert not left.exists()


def test_nothing_else_is(ours: Path, sockets: list[socket.socket]) -> None:
    dead = dead_pid()
    bound(ours / f"{os.getpid()}-00000000.sock", sockets, listening=False)  # alive, between bind and listen
    bound(ours / f"{dead}-11111111.sock", sockets)  # answers, whatever its pid looks like from here
    full = bound(ours / f"{dead}-22222222.sock", sockets, listening=False)
    sockets[-1].listen(0)
    for _ in range(2):  # more than its queue takes: it answers nobody for now
        waiting = socket.socket(socket.AF_UNIX)
        waiting.setblocking(False)
        waiting.connect_ex(str(full))
        sockets.append(waiting)
    for name in ("1-0.sock", "-1-01234567.sock", f"{dead}-0123abcd.sock.bak", "99999999999-01234567.sock", "notes"):
        bound(ours / name, sockets)
        sockets.pop().close()
    (ours / f"{dead}-33333333.sock").write_text("a file")
    (ours / f"{dead}-44444444.sock").symlink_to(ours / "notes")
    (ours / f"{dead}-55555555.sock").mkdir()
    os.mkfifo(ours / f"{dead}-66666666.sock")
    before = sorted(path.name for path in ours.iterdir())
    sweep(ours)
    assert sorted(path.name for path in ours.iterdir()) == before


def test_a_process_that_was_killed_leaves_what_the_next_sweeps(ours: Path) -> None:
    program = f"""
import os, socket, sys, time
sock = socket.socket(socket.AF_UNIX)
sock.bind({str(ours)!r} + f"/{{os.getpid()}}-deadbeef.sock")
sock.listen()
print("ready", flush=True)
time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    sweep(ours)
    assert len(list(ours.iterdir())) == 1, "it lives"
    child.kill()
    child.wait()
    child.stdout.close()
    sweep(ours)
    assert not list(ours.iterdir())


@as_root
def test_a_directory_that_is_not_safe_is_not_swept(short: Path, sockets: list[socket.socket]) -> None:
    (short / "run").mkdir()
    left = bound(short / "run" / f"{dead_pid()}-0123abcd.sock", sockets)
    sockets.pop().close()
    (short / "run").chmod(0o755)
    sweep(short / "run")
    assert left.is_socket()
    sweep(short / "absent")


# The other end


def test_both_ends_know_each_other(ours: Path, sockets: list[socket.socket]) -> None:
    path = bound(ours / "a.sock", sockets)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        accepted, _ = sockets[0].accept()
        with accepted:
            assert peer_is_us(caller)
            assert peer_is_us(accepted)


@as_root
def test_another_users_process_is_known_at_both_ends(short: Path, sockets: list[socket.socket]) -> None:
    short.chmod(0o777)
    path = bound(short / "ours.sock", sockets)
    path.chmod(0o777)
    program = """
import socket, sys
caller = socket.socket(socket.AF_UNIX)
caller.connect(sys.argv[1])
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[2])
listening.listen()
print("ready", flush=True)
sys.stdin.read()
"""
    theirs = short / "theirs.sock"
    command = ["/usr/bin/env", "python3", "-c", program, str(path), str(theirs)]
    with subprocess.Popen(command, user=NOBODY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        accepted, _ = sockets[0].accept()
        with accepted, socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(theirs))
            assert not peer_is_us(accepted)
            assert not peer_is_us(caller)


class Told:
    """A socket of which the system tells the given credentials."""

    def __init__(self, data: bytes | None) -> None:
        self.data = data

    def getsockopt(self, *_: int) -> bytes:
        if self.data is None:
            raise OSError
        return self.data


@pytest.mark.parametrize("data", [None, b"", b"abc"])
def test_credentials_that_cannot_be_read_are_not_ours(data: bytes | None) -> None:
    assert not peer_is_us(Told(data))  # type: ignore[arg-type]


def test_the_user_is_found_in_credentials_as_macos_has_them() -> None:
    rest = struct.pack("h16I", 1, *range(16))
    assert runtime._uid_in_xucred(struct.pack("II", 0, 501) + rest) == 501
    with pytest.raises(OSError, match="unknown version"):
        runtime._uid_in_xucred(struct.pack("II", 1, 501) + rest)
    with pytest.raises(struct.error):
        runtime._uid_in_xucred(b"")
