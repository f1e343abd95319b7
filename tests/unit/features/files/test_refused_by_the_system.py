"""Files and folders that the system lets nobody change, or see: an error names them, and nothing of a restore stays."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, go_back, put
from tests.unit.features.files.test_restore import changed_by_an_agent, lived_in
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import StorageFailureError
from timeleap.features.files import disk, root_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs descriptors of folders")


def refusing(patch: pytest.MonkeyPatch, step: str, at: int) -> Callable[[], int]:
    """Have the system refuse one call of a kind that changes something below a folder: the `at`-th."""
    calls = [0]
    module = disk if step == "replace_at" else os
    real = getattr(module, step)

    def call(*args: object, **how: object) -> object:
        changes = step != "open" or (len(args) > 1 and isinstance(args[1], int) and args[1] & os.O_CREAT)
        if changes and (how.get("dir_fd") is not None or step == "replace_at"):
            calls[0] += 1
            if calls[0] == at:
                raise PermissionError(1, os.strerror(1))
        return real(*args, **how)

    patch.setattr(module, step, call)
    return lambda: calls[0]


@contextmanager
def says_what_file() -> Iterator[None]:
    try:
        yield
    except StorageFailureError as error:
        told = error.message + str(error.data)
        if ".timeleap" in told or error.data["errno"] != "EPERM":
            raise AssertionError(told) from error
        raise


@pytest.mark.parametrize("step", ["open", "mkdir", "unlink", "symlink", "replace_at"])
def test_a_restore_that_is_refused_leaves_all_as_it_was(
    open_tree: Opener, root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    lived_in(root)
    taken = open_tree().snapshot().snapshot_id
    changed_by_an_agent(root)
    worked = whole_tree(root)
    for at in range(1, 100):
        with monkeypatch.context() as patch:
            made = refusing(patch, step, at)
            with suppress(StorageFailureError), says_what_file():
                go_back(open_tree(), taken, on_conflict="overwrite")
        if made() < at:
            break
        if whole_tree(root) != worked:
            break  # a refusal that does not matter
    assert not list(root.rglob(".timeleap*"))


@pytest.mark.parametrize("where", ["the folder", "the program"])
def test_a_folder_that_may_not_be_read_is_not_called_missing(
    open_tree: Opener, root: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    put(root, a="1")
    tree = open_tree()
    tree.snapshot()
    inode = root.stat().st_ino

    def refused(path: object, *args: object, **how: object) -> int:
        if where == "the folder" and path == root:
            raise PermissionError(13, os.strerror(13))
        return opened(path, *args, **how)  # type: ignore[arg-type]

    opened = os.open
    monkeypatch.setattr(os, "open", refused)
    if where == "the program":
        monkeypatch.setattr(
            "subprocess.Popen", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, os.strerror(13)))
        )
    with pytest.raises(StorageFailureError) as caught:
        tree.snapshot()
    assert str(root) in caught.value.message and "/proc" not in str(caught.value.data)
    assert caught.value.data["errno"] == "EACCES"
    assert (root.stat().st_ino, stat.S_ISDIR(root.stat().st_mode), root_folder.HELD) == (inode, True, True)
