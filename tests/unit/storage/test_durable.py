"""The primitives: modes, links, FIFOs, short reads and writes, locks."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import get_ident

import pytest
from tests.crash.storage.faults import FaultyOs, faults
from tests.crash.storage.system import stand_in_for_os

from timeleap.errors import StorageFailureError
from timeleap.storage import durable
from timeleap.storage import lock as locks
from timeleap.storage.durable import OpenFile
from timeleap.storage.lock import FileLock


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("umask")
def test_files_and_directories_are_private_whatever_the_umask(tmp_path: Path) -> None:
    durable.make_directory(tmp_path / "a" / "b")
    durable.make_directory(tmp_path / "a" / "b")
    assert {mode(tmp_path / "a"), mode(tmp_path / "a" / "b")} == {0o700}
    durable.create_exclusive(tmp_path / "new")
    temporary = durable.open_temporary(tmp_path, "log")
    durable.atomic_write(tmp_path / "atomic", b"x")
    lock = FileLock(tmp_path / "lock")
    assert lock.try_acquire()
    created = OpenFile(tmp_path / "created", writable=True, create=True)
    for path in (tmp_path / "new", temporary.path, tmp_path / "atomic", tmp_path / "lock", created.path):
        assert mode(path) == 0o600, path
    lock.release()


def test_the_mode_of_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch(mode=0o644)
    path.chmod(0o644)
    OpenFile(path, writable=True, create=True)
    assert mode(path) == 0o644


@pytest.mark.parametrize("kind", ["link", "dangling link", "directory", "fifo", "device"])
@pytest.mark.parametrize("writable", [False, True])
def test_what_is_no_regular_file_is_refused_without_blocking(tmp_path: Path, kind: str, writable: bool) -> None:
    path = tmp_path / "context.jsonl"
    match kind:
        case "link":
            (tmp_path / "target").write_text("secret")
            path.symlink_to(tmp_path / "target")
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case _:
            path = Path("/dev/null")
    with pytest.raises(StorageFailureError, match="must be a regular file, but is a"):
        OpenFile(path, writable=writable, create=writable)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("what", ["link", "fifo"])
def test_a_file_swapped_at_the_last_moment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / "context.jsonl"
    if what == "link":
        (tmp_path / "target").write_text("secret")
        path.symlink_to(tmp_path / "target")
    else:
        os.mkfifo(path)
    monkeypatch.setattr(durable, "_mode_of", lambda _: None)
    with pytest.raises(StorageFailureError, match="must be a regular file"):
        OpenFile(path)


def test_a_missing_file_and_an_existing_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OpenFile(tmp_path / "none")
    durable.create_exclusive(tmp_path / "one")
    with pytest.raises(FileExistsError):
        durable.create_exclusive(tmp_path / "one")
    assert durable.status(tmp_path / "none") is None
    assert not durable.is_regular(tmp_path / "none")
    assert durable.list_directory(tmp_path / "none") == []
    durable.remove_file(tmp_path / "none")


def test_positions_lengths_and_the_end(tmp_path: Path) -> None:
    file = OpenFile(tmp_path / "log", writable=True, appending=True, create=True)
    assert file.append(b"hello") == 5
    assert file.append(bytearray(b" world")) == 11
    assert file.pread(3, 4) == b"lo w"
    assert file.pread(9, 100) == b"ld"
    assert file.pread(50, 1) == b""
    file.truncate(5)
    assert file.status().size == 5
    file.forget_cached()
    file.sync()
    file.close()
    file.close()


def test_short_reads_and_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stingy:
        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def write(self, fd: int, data: memoryview) -> int:
            return os.write(fd, data[:3])

        def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
            return os.pwrite(fd, data[:3], offset)

        def pread(self, fd: int, size: int, offset: int) -> bytes:
            return os.pread(fd, min(size, 3), offset)

    file = OpenFile(tmp_path / "log", writable=True, appending=True, create=True)
    other = OpenFile(tmp_path / "other", writable=True, create=True)
    stand_in_for_os(monkeypatch, Stingy())
    assert file.append(b"0123456789") == 10
    assert file.pread(1, 8) == b"12345678"
    other.pwrite(b"abcdefgh", 2)
    assert other.pread(0, 99) == b"\0\0abcdefgh"


@pytest.mark.parametrize("way", ["in the kernel", "refused by the kernel", "not in the kernel"])
def test_copying_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    source = OpenFile(tmp_path / "source", writable=True, create=True)
    source.pwrite(os.urandom(3_000_000), 0)
    target = OpenFile(tmp_path / "target", writable=True, create=True)
    target.pwrite(b"begin", 0)
    with faults(errno.EXDEV, 1, onwards=True, calls=("copy_file_range",)) as faulty:
        if way == "in the kernel":
            faulty.heal()
        elif way == "not in the kernel":
            monkeypatch.delattr(os, "copy_file_range")
        source.copy_to(target, 5, 2_500_000)
    assert target.pread(0, 9_000_000) == b"begin" + source.pread(5, 2_500_000)
    with pytest.raises(OSError, match="shorter"):
        source.copy_to(target, 2_999_999, 2)


def test_a_copy_that_fails_in_the_kernel_fails(tmp_path: Path) -> None:
    source = OpenFile(tmp_path / "source", writable=True, create=True)
    source.pwrite(b"abc", 0)
    target = OpenFile(tmp_path / "target", writable=True, create=True)
    with faults(errno.EIO, 1, calls=("copy_file_range",)), pytest.raises(OSError, match="Input"):
        source.copy_to(target, 0, 3)


def test_an_atomic_write_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / ".state"
    durable.atomic_write(path, b"old")
    first = 1
    while True:
        with faults(errno.ENOSPC, first) as faulty:
            try:
                durable.atomic_write(path, b"new", durable=True)
            except OSError:
                assert path.read_bytes() in (b"old", b"new")
        if not faulty.failed:
            break
        left = [one for one in tmp_path.iterdir() if one != path]
        assert left == [] or faulty.failed == ["unlink"]
        durable.atomic_write(path, b"old", durable=False)
        first += 1
    assert first > 5
    assert path.read_bytes() == b"new"


def test_links_are_exclusive_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert durable.link_exclusive(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").write_text("c")
    with pytest.raises(FileExistsError):
        durable.link_exclusive(tmp_path / "a", tmp_path / "c")
    assert (tmp_path / "b").read_text() == "a"


@pytest.mark.parametrize(
    "name", ["EPERM", "EACCES", "EINVAL", "EIO", "ENOSYS", "EOPNOTSUPP", "EMLINK", "EXDEV", "ENOTTY"]
)
def test_systems_without_links_say_so_in_many_ways(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_text("a")
    with faults(getattr(errno, name), 1, calls=("link",)):
        assert not durable.link_exclusive(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("name", ["ENOSPC", "EROFS", "ENOENT", "ENAMETOOLONG"])
def test_an_error_that_the_other_way_would_meet_too_is_no_lack_of_links(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_text("a")
    with (
        faults(getattr(errno, name), 1, calls=("link",)),
        pytest.raises(OSError, match=os.strerror(getattr(errno, name))),
    ):
        durable.link_exclusive(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("code", [errno.EEXIST, errno.EIO])
def test_a_link_that_was_made_though_an_error_was_reported_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real = os.link

    def link(source: Path, target: Path, **options: bool) -> None:
        real(source, target, **options)
        raise OSError(code, os.strerror(code))

    (tmp_path / "a").write_text("a")
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "supports_follow_symlinks", {link, *os.supports_follow_symlinks})
    assert durable.link_exclusive(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("name", ["EPERM", "EOPNOTSUPP", "EINVAL", "EROFS", "ENOSYS"])
def test_modes_that_cannot_be_set_are_told_once_where_others_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.setattr(durable.modes_refused, "message", None)

    def refuse(*_: object) -> None:
        raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))

    monkeypatch.setattr(os, "chmod", refuse)
    monkeypatch.setattr(os, "fchmod", refuse)
    durable.make_directory(tmp_path / "private")  # as it should be, though nothing could be set
    durable.create_exclusive(tmp_path / "file").close()
    assert durable.modes_refused.message is None
    (tmp_path / "open").write_text("x")
    os.umask(os.umask(0o022))
    for _ in range(2):
        monkeypatch.setattr(os, "stat", lambda _: os.stat_result((0o40755, *[0] * 9)))
        durable.set_mode(tmp_path / "open", 0o600, tmp_path / "open")
    assert "does not let modes be set" in str(durable.modes_refused.message)
    assert len([one for one in caplog.records if "modes" in one.message]) == 1


def test_no_file_gets_the_descriptor_of_a_standard_stream(tmp_path: Path) -> None:
    code = (
        "import os, sys; [os.close(number) for number in range(3)]\n"
        "from pathlib import Path; from timeleap.storage import durable; from timeleap.storage.lock import FileLock\n"
        "kept = [durable.create_exclusive(Path(sys.argv[1], str(number))) for number in range(4)]\n"
        "lock = FileLock(Path(sys.argv[1], 'lock')); assert lock.try_acquire()\n"
        "for number in range(3):\n"
        "    try: os.write(number, b'printed')\n"
        "    except OSError: pass\n"
        "    else: os._exit(1)\n"
        "os._exit(0 if not FileLock(Path(sys.argv[1], 'lock')).try_acquire() else 2)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {**dict.fromkeys("0123", b""), "lock": b""}


def test_directories_that_cannot_be_synced_are_no_failure(tmp_path: Path) -> None:
    with faults(errno.EINVAL, 1, calls=("fsync",)):
        durable.sync_directory(tmp_path)
    with faults(errno.EIO, 1, calls=("fsync",)), pytest.raises(OSError, match="Input"):
        durable.sync_directory(tmp_path)


def test_a_file_that_is_not_held_open_is_refused_when_another_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "HOLD_OPEN", False)
    path = tmp_path / "log"
    file = OpenFile(path, writable=True, appending=True, create=True)
    file.append(b"abc")
    assert file.pread(0, 9) == b"abc"
    assert len(os.listdir("/proc/self/fd")) == len(os.listdir("/proc/self/fd"))
    durable.atomic_write(path, b"another")
    with pytest.raises(OSError, match="another file"):
        file.pread(0, 9)


def test_a_lock_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert two.read() == b""
    assert one.try_acquire()
    assert one.held
    one.write(b"a long record")
    one.write(b"mine")
    assert not two.try_acquire()
    assert not two.held
    assert two.read() == b"mine"
    one.release()
    one.release()
    assert two.try_acquire()
    two.release()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    real = locks._try_lock
    removed = False

    def remove_once(fd: int) -> bool:
        nonlocal removed
        if not removed:
            path.unlink()
            removed = True
        return real(fd)

    monkeypatch.setattr(locks, "_try_lock", remove_once)
    lock = FileLock(path)
    assert lock.try_acquire()
    assert path.exists()
    assert not FileLock(path).try_acquire()
    lock.release()


@pytest.mark.crash
def test_what_is_changed_before_and_after_is_told_apart_by_its_time(tmp_path: Path) -> None:
    log, before, after = tmp_path / "log", tmp_path / "before", tmp_path / "after"
    for round_ in range(50):
        for path in (before, log):
            path.write_text(f"{round_}")
        while not durable.set_change_time_apart(log):
            continue
        after.write_text(f"{round_}")
        assert before.stat().st_ctime_ns <= log.stat().st_mtime_ns < after.stat().st_ctime_ns


def test_a_time_that_cannot_be_set_is_not_waited_for(tmp_path: Path) -> None:
    assert durable.set_change_time_apart(tmp_path / "missing")


def test_a_killed_process_frees_its_lock_at_once(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from timeleap.storage.lock import FileLock\n"
        "lock = FileLock(Path(sys.argv[1])); print(lock.try_acquire(), flush=True); time.sleep(60)"
    )
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "True\n"
        assert not FileLock(path).try_acquire()
        child.kill()
        child.wait()
    lock = FileLock(path)
    assert lock.try_acquire()
    lock.release()


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_lock_that_cannot_be_taken_leaks_nothing(tmp_path: Path, first: int) -> None:
    lock = FileLock(tmp_path / "lock")
    before = len(os.listdir("/proc/self/fd"))
    with faults(errno.EIO, first, calls=("open", "fstat", "lstat")) as faulty:
        try:
            taken = lock.try_acquire()
        except OSError:
            taken = False
    assert isinstance(faulty, FaultyOs)
    if taken:
        lock.release()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("size", "named"), [(9 << 20, False), (9 << 20, True), (1 << 20, False)])
def test_a_large_file_without_a_name_is_closed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, named: bool
) -> None:
    close, closed = os.close, SimpleQueue[tuple[int, int]]()
    file = OpenFile(tmp_path / "log", writable=True, create=True)
    fd = file._fd
    file.truncate(size)
    if not named:
        durable.remove_file(file.path)

    def told(which: int) -> None:
        close(which)
        closed.put((which, get_ident()))

    monkeypatch.setattr(os, "close", told)
    del file
    while (found := closed.get(timeout=60))[0] != fd:
        pass
    assert (found[1] != get_ident()) == (size > 8 << 20 and not named)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_file_that_is_closed_twice_during_an_access_is_closed_after_it(tmp_path: Path) -> None:
    file = OpenFile(tmp_path / "log", writable=True, create=True)
    with durable._Access(file) as descriptor:
        file.close()
        file.close()
        os.fstat(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
