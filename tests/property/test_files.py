"""Random trees and edits: a restore gives back what was there, and its undo what was there before it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.unit.features.files.conftest import go_back
from tests.unit.features.files.test_bundle import GOOD, TOP, arrived, exported, record, written
from tests.unit.features.files.test_bundle import NAMES as NAMES_OF_EXPORT
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import CorruptedError
from timeleap.features.files import bundle
from timeleap.features.files.records import Control, FilesConfig
from timeleap.features.files.tree import FileTree

pytestmark = pytest.mark.long  # each example is an undo of a tree of files

NAMES = st.sampled_from([b"a", b"b", b"A", b"c d", b"\xff", b"e\nf", "ü".encode(), b"*", b"-x", b"git~1"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
CONTENTS = st.binary(max_size=4) | st.just(b"x" * 5000)
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o664, 0o700, 0o444])
EDITS = st.lists(
    st.tuples(st.just("file"), PATHS, CONTENTS, MODES)
    | st.tuples(st.just("link"), PATHS, NAMES)
    | st.tuples(st.just("folder"), PATHS, st.sampled_from([0o755, 0o700]))
    | st.tuples(st.just("remove"), PATHS)
    | st.tuples(st.just("mode"), PATHS, MODES),
    max_size=8,
)


QUICK = settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""Each example takes some forty processes of git: none is made smaller."""


def apply(root: bytes, edit: tuple[Any, ...]) -> None:
    """Do one edit as a shell would; whatever is in the way goes."""
    kind, name, *how = edit
    path = root + b"/" + name
    if kind == "mode":
        if os.path.isfile(path) and not os.path.islink(path):
            os.chmod(path, how[0])
        return
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    if kind == "remove":
        return
    parent = root
    for part in name.split(b"/")[:-1]:
        parent += b"/" + part
        if not os.path.isdir(parent) or os.path.islink(parent):
            if os.path.lexists(parent):
                os.unlink(parent)
            os.mkdir(parent)
    if kind == "file":
        with open(path, "wb") as file:
            file.write(how[0])
        os.chmod(path, how[1])
    elif kind == "link":
        os.symlink(how[0], path)
    else:
        os.mkdir(path, how[0])


@contextmanager
def place() -> Iterator[tuple[Path, FileTree]]:
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder, "project"), Path(folder, "store")
        root.mkdir()
        home.mkdir()
        yield root, FileTree.open(home, root, "s1", FilesConfig())


def states_of(root: Path, tree: FileTree, turns: list[list[tuple[Any, ...]]]) -> list[tuple[str, dict[str, Any]]]:
    """Make the edits turn by turn: each turn's snapshot, and the tree then."""
    states: list[tuple[str, dict[str, Any]]] = []
    for turn in turns:
        for edit in turn:
            apply(os.fsencode(root), edit)
        states.append((tree.snapshot().snapshot_id, whole_tree(root)))
    return states


@QUICK
@given(st.lists(EDITS, min_size=2, max_size=3), st.integers(0, 2))
def test_restores_and_their_undo_are_exact(turns: list[list[tuple[Any, ...]]], chosen: int) -> None:
    with place() as (root, tree):
        states = states_of(root, tree, turns)
        target, then = states[chosen % len(states)]
        restored = go_back(tree, target)
        assert whole_tree(root) == then
        go_back(tree, restored.before)
        assert whole_tree(root) == states[-1][1]


@QUICK
@given(EDITS, EDITS, PATHS)
def test_a_restore_of_a_part_changes_that_part_only(
    first: list[tuple[Any, ...]], second: list[tuple[Any, ...]], part: bytes
) -> None:
    with place() as (root, tree):
        for edit in first:
            apply(os.fsencode(root), edit)
        target = tree.snapshot().snapshot_id
        then = whole_tree(root)
        for edit in second:
            apply(os.fsencode(root), edit)
        now = whole_tree(root)
        restored = go_back(tree, target, paths=[part])
        after = whole_tree(root)
        text = part.decode("utf-8", "surrogateescape")
        apart = {path for path in (now.keys() | then.keys()) if not related(path, text)}
        assert {path: after.get(path) for path in apart} == {path: now.get(path) for path in apart}
        if restored.kept == 0:
            inside = {path for path in (after.keys() | then.keys()) if path == text or path.startswith(text + "/")}
            files = {path for path in inside if path not in folders(then)}
            assert {path: after.get(path) for path in files} == {path: then.get(path) for path in files}
        go_back(tree, restored.before)
        assert whole_tree(root) == now


@QUICK
@given(st.lists(EDITS, min_size=1, max_size=3))
def test_every_snapshot_goes_along_with_an_archive(turns: list[list[tuple[Any, ...]]]) -> None:
    with place() as (root, tree):
        states = states_of(root, tree, turns)
        new = arrived(root.parent, exported(tree, root.parent / "export"))
        for taken, then in states:
            go_back(new, taken)
            assert whole_tree(root.parent / "there") == then


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 21), st.integers(1, 255)), min_size=1, max_size=3))
def test_a_pack_with_other_bytes_is_taken_or_refused_and_nothing_else(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD[:-20])
    for at, bits in changes:
        data[at] ^= bits
    with place() as (root, _):
        packed = bytes(data) + hashlib.sha1(data).digest()
        written(root.parent / "export", packed, record(TOP))
        with suppress(CorruptedError):
            bundle.check(root.parent / "store", root.parent / "export", [root.as_uri()], Control())
        assert sorted(path.name for path in (root.parent / "export").iterdir()) == sorted(NAMES_OF_EXPORT)


def related(path: str, part: str) -> bool:
    return path == part or path.startswith(part + "/") or part.startswith(path + "/")


def folders(tree: dict[str, tuple[object, ...]]) -> set[str]:
    return {path for path, entry in tree.items() if entry[0] == 0o040000}
