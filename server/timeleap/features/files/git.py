"""Runs git, on our own repositories; the only caller of the program.

Nothing of the user's settings may change what it does: variables, system and global files are shut out, and so are
hooks, monitors and filters. Every end of it is judged: a command that failed yields nothing.
"""

from __future__ import annotations

import atexit
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Generic, TypeVar
from weakref import WeakSet

from timeleap.errors import CancelledError, CorruptedError, FilesUnavailableError, StorageFailureError
from timeleap.features.files.records import Control
from timeleap.features.files.root_folder import RootFolder, unreadable

OLDEST: Final = (2, 36)
"""The first version that can be told to sync what it writes (core.fsync)."""

DEADLINE: Final = 120.0
"""Seconds that a command may take; one that goes through a whole repository, `PACKING`, and one that asks for settings,
`ASKING`. What they read may be a pipe or a disk that never answers."""
PACKING: Final = 600.0
ASKING: Final = 4.0

_POLL_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 1.0
_LARGEST_DATA: Final = 1 << 30
"""Bytes of memory for a command that reads files of patterns: git reads these whole."""
_BLOCK: Final = 1 << 20
_POSIX: Final = os.name == "posix"
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_SETTINGS: Final = (
    "core.fsync=all,-index", "core.fsyncMethod=batch", "gc.auto=0", "maintenance.auto=false", "core.fsmonitor=false",
    "core.untrackedCache=false", "core.splitIndex=false", f"core.hooksPath={os.devnull}", "core.autocrlf=false",
    "core.safecrlf=false", "core.quotePath=false", "core.ignoreCase=false", "core.precomposeUnicode=false",
    f"core.fileMode={str(_POSIX).lower()}", f"core.symlinks={str(_POSIX).lower()}", "core.protectHFS=false",
    f"core.protectNTFS={str(not _POSIX).lower()}", "index.threads=true", "advice.ignoredHook=false",
    "submodule.recurse=false", "protocol.allow=never", "core.logAllRefUpdates=false",
)  # fmt: skip
_BUS_ERROR: Final = getattr(signal, "SIGBUS", 0)
_UNSTABLE: Final = (b"unstable object source data", b"short read while indexing", b"file changed while")
_Result = TypeVar("_Result")
_NO_SPACE: Final = ((b"No space left on device", "ENOSPC"), (b"Disk quota exceeded", "EDQUOT"))


class GitError(Exception):
    """A git command failed; `code` is the one it ended with, `stderr` what it said."""

    def __init__(self, command: str, code: int, stderr: bytes) -> None:
        super().__init__(f"git {command} ended with {code}")
        self.command = command
        self.code = code
        self.stderr = stderr

    @property
    def is_of_changing_file(self) -> bool:
        """True if a file was written or cut while it was read (git maps it: where it is cut the system ends git)."""
        return self.code == -_BUS_ERROR or any(said in self.stderr for said in _UNSTABLE)

    def as_damage(self, path: Path) -> CorruptedError:
        said = self.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        message = f"the repository of snapshots {path} cannot be used (git {self.command}): {''.join(said)[:200]}"
        return CorruptedError(message, path=str(path))


@cache
def check_version(path: str | None) -> None:
    """Raises FilesUnavailableError if there is no git on `path` (the value of PATH) or only one older than `OLDEST`."""
    wanted = ".".join(map(str, OLDEST))
    try:
        process = _started(["git", "--version"], _environment(), None)
        said, _ = _communicate(process, "--version", b"", None, 5 * ASKING)
    except StorageFailureError as error:
        raise FilesUnavailableError(f"{error.message}: no files are kept without it", reason="noGit") from error
    except OSError as error:
        message = f"there is no git program: install git {wanted} or newer to keep the workspace's files"
        raise FilesUnavailableError(message, reason="noGit") from error
    version = re.search(rb"(\d+)\.(\d+)", said)
    if process.returncode or version is None or (int(version[1]), int(version[2])) < OLDEST:
        named = said.decode("utf-8", "replace").strip()[:100] or "git does not run"
        raise FilesUnavailableError(f"{named}: to keep the workspace's files takes git {wanted}", reason="noGit")


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("GIT_")}
    return {
        **kept,
        **{f"GIT_{role}_NAME": "timeleap" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "timeleap@localhost" for role in ("AUTHOR", "COMMITTER")},
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # a repository's own settings may allow those that run programs
        "LC_ALL": "C",
    }


_running: Final[WeakSet[subprocess.Popen[bytes]]] = WeakSet()


def _started(arguments: list[str], environment: dict[str, str], place: str | None) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=place,
        start_new_session=True,
    )  # fmt: skip
    _running.add(process)
    return process


@atexit.register
def _end_all() -> None:
    """Leave no process behind: one may wait for a pipe, and nobody for it."""
    for process in list(_running):
        if process.returncode is None:
            _signal(process, _KILL)


class Git:
    """Git with a repository of ours and a working tree.

    Attributes:
        alternate: An object folder of somebody else's from which objects may be read; None for none.
        excludes_file: The user's own ignore file for all repositories; None for that of git's default place.
        control: Ends the commands that are given none of their own.
    """

    def __init__(
        self, repository: Path, root: Path, *, settings: Sequence[str] = (), folder: RootFolder | None = None
    ) -> None:
        """`folder`: that of the root, through which git works while somebody holds it."""
        self.repository = repository
        self.root = root
        self._folder = folder or RootFolder(root, None)
        self.alternate: str | None = None
        self.excludes_file: str | None = None
        self.control = Control()
        self._settings = [part for setting in (*_SETTINGS, *settings) for part in ("-c", setting)]

    @property
    def place(self) -> str:
        """A path that leads to the root wherever it was moved, while it is held."""
        return self._folder.place

    @contextmanager
    def under(self, control: Control) -> Iterator[None]:
        """Have commands end once `control` says that nobody waits any more."""
        before, self.control = self.control, control
        try:
            yield
        finally:
            self.control = before

    def start(
        self,
        *command: str,
        index: Path | None = None,
        root: Path | str | None = None,
        repository: Path | None = None,
        borrowing: bool = True,
    ) -> subprocess.Popen[bytes]:
        """A process of git, the first of a group of its own.

        Args:
            command: Of git.
            index: In the place of the repository's own.
            root: The folder that it works in. None: the repository's, for a command that is to read nothing of the
                workspace (many read a `.gitattributes` where they work, whatever that is).
            repository: In the place of ours.
            borrowing: With the alternate's objects.
        """
        environment = _environment()
        environment["GIT_DIR"] = str(repository or self.repository)
        place = str(root or self.repository)
        environment["GIT_WORK_TREE"] = "."  # where it works: the folder may have another path by now
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        if borrowing and self.alternate is not None:
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = self.alternate
        excludes = [] if self.excludes_file is None else ["-c", f"core.excludesFile={self.excludes_file}"]
        if repository is None:
            excludes += ["-c", f"core.attributesFile={os.devnull}"]
        arguments = ["git", *self._settings, *excludes, *command]
        try:
            return _started(arguments, environment, place)
        except FileNotFoundError as error:
            if not Path(place).is_dir():
                if root is None:
                    raise GitError(command[0], 0, b"its folder is gone") from error
                message = f"the folder {self.root} is gone: no snapshot of its files can be taken"
                raise FilesUnavailableError(message, reason="rootMissing") from error
            raise FilesUnavailableError("there is no git program any more", reason="noGit") from error
        except PermissionError as error:
            raise unreadable(self.root, error) from error

    def run(
        self,
        *command: str,
        stdin: bytes = b"",
        control: Control | None = None,
        index: Path | None = None,
        root: Path | None = None,
        repository: Path | None = None,
        borrowing: bool = True,
        accepted: tuple[int, ...] = (0,),
        looking: bool = False,
        deadline: float | None = None,
    ) -> bytes:
        """The output of a command; `looking`: it works in the workspace and reads what that holds, as does one that
        writes an index (it looks again at files of which the times tell nothing); `deadline`: in seconds.

        Raises:
            GitError: It ended with a code that is not `accepted`.
            StorageFailureError: The disk is full, or the command did not end in time; the process was ended.
            CancelledError: `control`, or that of `under`, says so; the process was ended.
        """
        place = self._folder.place if looking and root is None else root
        process = self.start(*command, index=index, root=place, repository=repository, borrowing=borrowing)
        if looking:
            _limit_memory(process)
        output, errors = _communicate(process, command[0], stdin, control or self.control, deadline or DEADLINE)
        if process.returncode < 0 and index is not None:
            index.with_name(f"{index.name}.lock").unlink(missing_ok=True)  # the system ended it, and it left its lock
        if process.returncode not in accepted:
            raise self.failure(command[0], process.returncode, errors)
        return output

    def failure(self, command: str, code: int, stderr: bytes) -> GitError | StorageFailureError:
        """The error for a command that ended with `code`."""
        for said, name in _NO_SPACE:
            if said in stderr:
                message = f"cannot store a snapshot (git {command}): {said.decode()}"
                return StorageFailureError(message, path=str(self.repository), errno=name)
        return GitError(command, code, stderr)

    def text(self, *command: str, stdin: bytes = b"", index: Path | None = None, looking: bool = False) -> str:
        """The output of a command, an object's name for instance, without its line end."""
        return self.run(*command, stdin=stdin, index=index, looking=looking).decode("ascii").strip()

    def blobs(self) -> BlobReader:
        return BlobReader(self, self.control)

    def sizes(self, oids: Sequence[str]) -> dict[str, int]:
        """The sizes of those of the objects that exist."""
        if not oids:
            return {}
        told = self.batch_sizes("\n".join(dict.fromkeys(oids)).encode()).decode("ascii")
        lines = (line.partition(" ") for line in told.splitlines())
        return {name: int(size) for name, _, size in lines if size != "missing"}

    def batch_sizes(self, asked: bytes) -> bytes:
        """Lines of names and sizes of objects, in the order of the lines in which they are `asked` for."""
        return self.run("cat-file", "--buffer", "--batch-check=%(objectname) %(objectsize)", stdin=asked)


def _communicate(
    process: subprocess.Popen[bytes], command: str, stdin: bytes, control: Control | None, deadline: float
) -> tuple[bytes, bytes]:
    until = time.monotonic() + deadline

    def go_on() -> None:
        if control is not None and control.cancelled():
            raise _cancelled()
        if time.monotonic() > until:
            raise _late(command, deadline)

    try:
        go_on()
        return _piped_through(process, stdin, go_on) if _POSIX else _fed(process, stdin, go_on)
    except BaseException:
        end(process)
        raise


def _cancelled() -> CancelledError:
    return CancelledError("cancelled while the workspace's files were looked at; nothing was written")


def _late(command: str, deadline: float) -> StorageFailureError:
    message = f"git {command} did not end in {deadline:.0f} seconds: a disk or a pipe it reads does not answer"
    return StorageFailureError(message, errno="ETIMEDOUT")


def _piped_through(process: subprocess.Popen[bytes], stdin: bytes, go_on: Callable[[], None]) -> tuple[bytes, bytes]:
    """Feed a process its input and return its output, without threads and without waiting for its end in steps."""
    feed, output, errors = map(_piped, (process.stdin, process.stdout, process.stderr))
    read: dict[IO[bytes], list[bytes]] = {output: [], errors: []}
    left, asked = memoryview(stdin), time.monotonic()
    with selectors.PollSelector() as selector, feed, output, errors:
        selector.register(output, selectors.EVENT_READ)
        selector.register(errors, selectors.EVENT_READ)
        if left:
            os.set_blocking(feed.fileno(), False)
            selector.register(feed, selectors.EVENT_WRITE)
        else:
            feed.close()
        while selector.get_map():
            ready = selector.select(_POLL_SECONDS)
            if not ready or time.monotonic() > asked + _POLL_SECONDS:
                go_on()
                asked = time.monotonic()
            for key, _ in ready:
                stream = key.fileobj
                if stream is feed:
                    left = _given(feed, left)
                    if not left:
                        selector.unregister(feed)
                        feed.close()
                elif stream is output or stream is errors:
                    if block := os.read(key.fd, _BLOCK):
                        read[output if stream is output else errors].append(block)
                    else:
                        selector.unregister(stream)
    process.wait()
    return b"".join(read[output]), b"".join(read[errors])


def _given(feed: IO[bytes], left: memoryview) -> memoryview:
    """Write as much of the input as fits and return the rest; nothing is left where nobody reads it any more."""
    try:
        return left[os.write(feed.fileno(), left[:_BLOCK]) :]
    except BlockingIOError:
        return left
    except OSError:
        return left[:0]  # a process that has ended reads no more, and its code says why


def _fed(process: subprocess.Popen[bytes], stdin: bytes, go_on: Callable[[], None]) -> tuple[bytes, bytes]:
    """Feed a process and return its output on systems that cannot wait for pipes."""
    # `communicate` does not send on, after a timeout, what did not fit into the pipe before.
    pipe, process.stdin = _piped(process.stdin), None
    feeding = Parallel(lambda: _feed(pipe, stdin))
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=_POLL_SECONDS)
            go_on()
    except BaseException:
        end(process)
        raise
    finally:
        feeding.wait()


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started: asked first, so that it removes its lock files."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    _end_now(process)


def _end_now(process: subprocess.Popen[bytes]) -> None:
    _signal(process, _KILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if _POSIX:
            os.killpg(process.pid, number)
        else:
            process.kill()


def _limit_memory(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):  # it has ended, or has a lower limit already
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (_LARGEST_DATA, _LARGEST_DATA))


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError), pipe:  # a process that has ended reads no more, and its code says why
        pipe.write(data)


class BlobReader:
    """Reads contents of blobs, and of trees, by one process, one after the other.

    A thread ends the process when nobody wants it any more, or when an answer takes longer than `DEADLINE`.
    """

    def __init__(self, git: Git, control: Control) -> None:
        self._git = git
        self._control = control
        self._process = git.start("cat-file", "--batch")
        self._asked_at: float | None = None
        self._ended_for: CancelledError | StorageFailureError | None = None
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="timeleap-blobs", daemon=True)
        self._watcher.start()

    def __enter__(self) -> BlobReader:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watcher.join()
        _end_now(self._process)

    def copy(self, oid: str, write: Callable[[bytes], object], kind: str = "blob") -> int:
        """Hand the object's content to `write` in blocks, and return its length in bytes.

        Raises:
            CorruptedError: There is no such object.
            StorageFailureError: Git ended, or did not answer in time.
            CancelledError: Nobody wants it any more.
        """
        header = self._asked(oid)
        if len(header) != 3 or header[1] != kind.encode():
            path = self._git.repository
            raise CorruptedError(f"the repository of snapshots {path} has lost a file's content", path=str(path))
        total = left = int(header[2])
        while left:
            block = self._read(min(left, _BLOCK))
            write(block)
            left -= len(block)
        self._read(1)
        return total

    def _asked(self, oid: str) -> list[bytes]:
        stdin, stdout = _piped(self._process.stdin), _piped(self._process.stdout)
        with self._watched():
            stdin.write(oid.encode() + b"\n")
            stdin.flush()
            header = stdout.readline()
            if not header.endswith(b"\n"):
                raise self._failure()
        return header.split()

    def _read(self, size: int) -> bytes:
        with self._watched():
            block = _piped(self._process.stdout).read(size)
            if not block:
                raise self._failure()
        return block

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self._asked_at = time.monotonic()
        try:
            yield
        except OSError as error:
            raise self._failure() from error
        finally:
            self._asked_at = None

    def _failure(self) -> CancelledError | StorageFailureError:
        path = str(self._git.repository)
        return self._ended_for or StorageFailureError("git cat-file ended early", path=path, errno="EIO")

    def _watch(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            asked_at = self._asked_at
            if asked_at is None:
                continue
            if self._control.cancelled():
                self._ended_for = _cancelled()
            elif time.monotonic() > asked_at + DEADLINE:
                self._ended_for = _late("cat-file", DEADLINE)
            else:
                continue
            _signal(self._process, _KILL)
            return

    def beginning(self, oid: str, size: int) -> bytes:
        """The first `size` bytes of a blob."""
        blocks: list[bytes] = []

        def keep(block: bytes) -> None:
            if not blocks:
                blocks.append(block[:size])

        self.copy(oid, keep)
        return b"".join(blocks)


def _piped(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "started with pipes"
    return stream


def quiet_query(
    root: Path,
    *command: str,
    settings: Sequence[str] = (),
    settings_of_user: bool = False,
    control: Control | None = None,
    deadline: float | None = None,
) -> bytes:
    """The output of a command that only reads, in the user's own repository at `root`.

    Args:
        root: A folder.
        command: Of git.
        settings: In the place of the repository's own.
        settings_of_user: With what the user has set for all repositories.
        control: Says when nobody waits any more.
        deadline: Seconds that it may take, if not `ASKING`.

    Raises:
        GitError: It failed; that of a folder without a repository, too.
        StorageFailureError: It did not end in time.
        CancelledError: `control` says so.
    """
    environment = _environment()
    if settings_of_user:
        for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"):
            del environment[name]
            if name in os.environ:
                environment[name] = os.environ[name]
    safe = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", *settings)
    arguments = ["git", *(part for setting in safe for part in ("-c", setting)), *command]
    process = _started(arguments, environment, str(root))
    _limit_memory(process)
    output, errors = _communicate(process, command[0], b"", control, deadline or ASKING)
    if process.returncode:
        raise GitError(command[0], process.returncode, errors)
    return output


class Parallel(Generic[_Result]):
    """Calls that run at the same time; `result` waits for one of them and raises what it raised."""

    def __init__(self, *calls: Callable[[], _Result]) -> None:
        self._results: dict[int, _Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._threads = [threading.Thread(target=self._run, args=pair, daemon=True) for pair in enumerate(calls)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int, call: Callable[[], _Result]) -> None:
        try:
            self._results[number] = call()
        except BaseException as error:
            self._errors[number] = error

    def wait(self) -> None:
        """Return when all have ended, however they did."""
        for thread in self._threads:
            thread.join()

    def result(self, number: int = 0) -> _Result:
        self._threads[number].join()
        if number in self._errors:
            raise self._errors[number]
        return self._results[number]


def parsed_objects(output: bytes) -> list[tuple[str, str, bytes] | None]:
    """Names, kinds and contents of what `cat-file --batch` was asked for, in its order; None for what there is not."""
    found: list[tuple[str, str, bytes] | None] = []
    offset = 0
    while offset < len(output):
        end = output.index(b"\n", offset)
        header = output[offset:end].decode("ascii").split(" ")
        if len(header) != 3:
            found.append(None)
            offset = end + 1
        else:
            offset = end + 1 + int(header[2])
            found.append((header[0], header[1], output[end + 1 : offset]))
            offset += 1
    return found


def joined(paths: Iterable[bytes]) -> bytes:
    """Paths as git reads them with `-z`."""
    return b"".join(path + b"\0" for path in paths)


def split(output: bytes) -> list[bytes]:
    """Split the output of git with `-z`."""
    return output.split(b"\0")[:-1]
