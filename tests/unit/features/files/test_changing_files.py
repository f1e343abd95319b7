"""Files that somebody writes, cuts, removes or exchanges while a snapshot reads them: the snapshot is taken all the same."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, go_back, put

from timeleap.features.files.git import Git, GitError
from timeleap.features.files.tree import FileTree

UNSTABLE = b"fatal: confused by unstable object source data"
CUT = b"error: short read while indexing b\nerror: b: failed to insert into database\nfatal: Unable to process path b"


class Busy:
    """A git that fails as long as it is to read a file which somebody writes.

    Attributes:
        times: How often it still fails.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: bytes, times: int, error: GitError) -> None:
        self.times, self.event = times, lambda: None
        self._path, self._error = path, error
        real = Git.run

        def run(git: Git, *command: str, stdin: bytes = b"", **how: object) -> bytes:
            if "--add" in command and self._path in stdin.split(b"\0") and self.times:
                self.times -= 1
                self.event()
                raise self._error
            return real(git, *command, stdin=stdin, **how)  # type: ignore[arg-type]

        monkeypatch.setattr(Git, "run", run)


ERRORS = [
    GitError("update-index", 128, UNSTABLE),
    GitError("update-index", 128, CUT),
    GitError("update-index", -7, b""),
]


@pytest.mark.skipif(os.name != "posix", reason="signals have other numbers")
@pytest.mark.parametrize("error", ERRORS, ids=["written", "cut", "ended by the system"])
@pytest.mark.parametrize("many", [1, 30])
def test_a_file_that_is_written_for_a_moment_is_read_again(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch, error: GitError, many: int
) -> None:
    put(root, b="1", **{f"f{number}": str(number) for number in range(many)})
    Busy(monkeypatch, b"b", 2, error)
    taken = tree.snapshot()
    assert taken.skipped == ()
    put(root, b="2")
    go_back(tree, taken.snapshot_id)
    assert (root / "b").read_text() == "1"


@pytest.mark.skipif(os.name != "posix", reason="signals have other numbers")
@pytest.mark.parametrize("error", ERRORS, ids=["written", "cut", "ended by the system"])
@pytest.mark.parametrize("known", [True, False])
def test_a_file_that_is_written_all_the_time_is_skipped_by_name_and_left_alone(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch, error: GitError, known: bool
) -> None:
    put(root, a="1", c="1")
    put(root, **({"b": "0"} if known else {}))
    tree.snapshot()
    put(root, b="1", a="2", c="2")
    busy = Busy(monkeypatch, b"b", 1000, error)
    taken = tree.snapshot()
    assert [(each.path, each.reason) for each in taken.skipped] == [("b", "changing")]
    busy.times = 0
    put(root, a="3", b="3", c=None)
    go_back(tree, taken.snapshot_id)
    assert [(root / name).read_text() for name in "abc"] == ["2", "3", "2"]


def test_another_failure_of_git_is_not_taken_for_that(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, b="1")
    Busy(monkeypatch, b"b", 1000, GitError("update-index", 128, b"fatal: unable to write index"))
    with pytest.raises(Exception, match="unable to write index"):
        tree.snapshot()


def cut(path: Path) -> None:
    os.truncate(path, 0)


def close(path: Path) -> None:
    path.chmod(0)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere")


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and permissions")
@pytest.mark.parametrize("event", [cut, Path.unlink, close, to_folder, to_pipe, to_link])
def test_a_file_that_is_exchanged_while_it_is_read_stops_nothing(
    tree: FileTree, root: Path, monkeypatch: pytest.MonkeyPatch, event: Callable[[Path], None]
) -> None:
    put(root, a="1", b="1" * 100_000, c="1")
    busy = Busy(monkeypatch, b"b", 1, GitError("update-index", 128, b"fatal: Unable to process path b"))
    busy.event = lambda: event(root / "b")
    taken = tree.snapshot()
    put(root, a="2", c=None)
    go_back(tree, taken.snapshot_id)
    assert [(root / name).read_text() for name in "ac"] == ["1", "1"]


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Somebody writes a file again and again."""
    done, generator = threading.Event(), random.Random(1)

    def write() -> None:
        while not done.is_set():
            with suppress(FileNotFoundError), path.open("r+b") as file:  # while its folder is elsewhere
                file.seek(generator.randrange(1 << 20))
                file.write(generator.randbytes(1000))
                file.truncate(generator.randrange(1 << 20, 2 << 20))

    path.write_bytes(generator.randbytes(2 << 20))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def test_while_a_large_file_is_written_the_others_are_saved(open_tree: Opener, root: Path) -> None:
    with written(root / "busy"):
        for number in range(4):
            put(root, a=str(number))
            taken = open_tree().snapshot()
            assert {(each.path, each.reason) for each in taken.skipped} <= {("busy", "changing")}
    put(root, a="other")
    go_back(open_tree(), open_tree().snapshots()[0].snapshot_id)
    assert (root / "a").read_text() == "3"
