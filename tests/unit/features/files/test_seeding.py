"""First snapshots made from the user's repository: right whatever it says, own after it, and nothing of it is changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.features.files.conftest import Opener, git, go_back, put
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import FilesBusyError
from timeleap.features.files import folder_list, seed, snapshot
from timeleap.features.files.git import Git
from timeleap.features.files.records import Control, FilesConfig
from timeleap.features.files.roots import Root
from timeleap.features.files.seed import UnseededError, read_index
from timeleap.features.files.stored import repositories
from timeleap.features.files.tree import FileTree


@pytest.fixture(autouse=True)
def _folders_are_listed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of large trees are; the other tests of files, whose trees are small, do without."""
    monkeypatch.setattr(snapshot, "_MANY", 0)


def committed(root: Path, *, packed: bool = True) -> None:
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    if packed:
        git(root, "repack", "-adq")


def same_again(tree: FileTree, root: Path) -> None:
    """Change everything there is; a restore brings it all back."""
    before = whole_tree(root)
    taken = tree.snapshot()
    assert taken.skipped == ()
    for path in before:
        if path != ".git" and (root / path).is_file() and not (root / path).is_symlink():
            (root / path).write_bytes(b"changed")
    go_back(tree, taken.snapshot_id)
    assert whole_tree(root) == before


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were given to git to be hashed, by call."""
    counts: list[int] = []
    original = Git.run

    def run(self: Git, *command: str, **how: object) -> bytes:
        if "--add" in command:
            counts.append(bytes(how["stdin"]).count(b"\0"))  # type: ignore[call-overload]
        return original(self, *command, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", run)
    return counts


def test_what_the_users_repository_has_is_not_hashed_again(tree: FileTree, root: Path, hashed: list[int]):
    put(root, a="1", d__b="2", c="3")
    committed(root)
    put(root, c="changed", new="4")
    tree.snapshot()
    assert hashed == [2]
    same_again(tree, root)


def test_snapshots_stand_without_the_users_repository(tree: FileTree, root: Path):
    put(root, a="1", d__b="2")
    committed(root)
    taken = tree.snapshot().snapshot_id
    shutil.rmtree(root / ".git")
    put(root, a="x", d__b="x")
    go_back(tree, taken)
    assert ((root / "a").read_text(), (root / "d/b").read_text()) == ("1", "2")


def test_nothing_of_the_users_repository_changes(tree: FileTree, root: Path):
    put(root, a="1", d__b="2")
    committed(root)
    put(root, a="staged")
    git(root, "add", "a")
    put(root, a="stashed")
    git(root, "stash", "-q")
    put(root, a="staged")
    git(root, "add", "a")
    before = whole_tree(root / ".git"), whole_tree(root / ".git/refs", times=True), (root / ".git/index").stat()
    same_again(tree, root)
    after = whole_tree(root / ".git"), whole_tree(root / ".git/refs", times=True), (root / ".git/index").stat()
    assert after[:2] == before[:2]
    assert after[2].st_mtime_ns == before[2].st_mtime_ns


def test_what_is_only_staged_outlives_the_users_gc(tree: FileTree, root: Path):
    put(root, a="1")
    committed(root)
    put(root, a="staged and never committed")
    git(root, "add", "a")
    taken = tree.snapshot().snapshot_id
    git(root, "reset", "-q", "--hard")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "-q", "--prune=now")
    go_back(tree, taken)
    assert (root / "a").read_text() == "staged and never committed"


def test_line_ends_filters_keywords_and_encodings_are_kept_as_they_are_on_disk(tree: FileTree, root: Path):
    (root / "rot.sh").write_text("#!/bin/sh\ntr a-z n-za-m\n")
    git(root, "init", "-q")
    for name in ("clean", "smudge"):
        git(root, "config", f"filter.rot.{name}", "tr a-z n-za-m")
    put(
        root,
        _gitattributes="*.crlf text eol=crlf\n*.rot filter=rot\n*.id ident\n*.u16 text working-tree-encoding=UTF-16\n",
    )
    put(root, a_crlf="1\r\n2\r\n", b_rot="same size", c_id="$Id$\n", d_u16="text".encode("utf-16"))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    git(root, "checkout", "-q", "-f", ".")
    same_again(tree, root)


def test_conversions_that_only_the_users_settings_ask_for_are_seen(tree: FileTree, root: Path):
    put(root, a_txt="1\r\n2\r\n")
    git(root, "init", "-q")
    git(root, "-c", "core.autocrlf=input", "add", "-A")
    same_again(tree, root)


def test_hidden_and_sparse_entries_are_not_believed(tree: FileTree, root: Path):
    put(root, a="1", b="1", d__c="1")
    committed(root)
    git(root, "update-index", "--assume-unchanged", "a")
    git(root, "update-index", "--skip-worktree", "b")
    put(root, a="2", b="2")
    same_again(tree, root)


def test_entries_to_be_added_and_conflicts_are_not_believed(tree: FileTree, root: Path):
    put(root, a="1")
    committed(root)
    put(root, later="x")
    git(root, "add", "-N", "later")
    same_again(tree, root)


def test_a_split_index_is_not_believed(tree: FileTree, root: Path):
    put(root, a="1", b="2")
    committed(root)
    git(root, "update-index", "--split-index")
    put(root, c="3")
    git(root, "add", "c")
    same_again(tree, root)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_indexes_of_all_versions_are_read(root: Path, version: str):
    put(root, a="1", aa__b="22", aa__bb="333", z="")
    committed(root)
    git(root, "update-index", f"--index-version={version}")
    entries = read_index((root / ".git/index").read_bytes())
    assert (entries.paths, entries.sizes) == ([b"a", b"aa/b", b"aa/bb", b"z"], [1, 2, 3, 0])
    assert entries.oids[0] == hashlib.sha1(b"blob 1\x001").digest()


@pytest.mark.parametrize("cut", [0, 11, 40, 75, -25])
def test_a_damaged_index_is_no_seed(root: Path, cut: int):
    put(root, a="1", b="2")
    committed(root)
    data = (root / ".git/index").read_bytes()
    with pytest.raises(UnseededError):
        read_index(data[:cut] + b"\xff" * 40)


def test_a_garbled_index_and_head_do_no_harm(tree: FileTree, root: Path):
    put(root, a="1")
    committed(root)
    (root / ".git/index").write_bytes(b"garbage" * 100)
    (root / ".git/HEAD").write_text("garbage")
    same_again(tree, root)


def test_lost_objects_of_the_user_do_no_harm(tree: FileTree, root: Path):
    put(root, a="1", d__b="2")
    committed(root)
    shutil.rmtree(root / ".git/objects/pack")
    same_again(tree, root)


def test_a_damaged_pack_of_the_user_does_no_harm(tree: FileTree, root: Path):
    put(root, a=os.urandom(3000), d__b="2")
    committed(root)
    (pack,) = (root / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o600)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF
    pack.write_bytes(bytes(data))
    same_again(tree, root)


def test_a_folder_within_a_repository_follows_its_ignore_files(open_tree: Opener, root: Path):
    put(root, _gitignore="/part/ignored/\n*.log\n", part__a="1", part__ignored__x="mine", part__y_log="mine")
    committed(root)
    tree = open_tree(folder=root / "part")
    taken = tree.snapshot().snapshot_id
    put(root, part__a="2", part__ignored__x="still mine", part__y_log="still mine")
    assert [change.path for change in tree.changes(taken, None)] == ["a"]


def test_a_worktree_is_a_root_like_any(open_tree: Opener, root: Path, tmp_path: Path, hashed: list[int]):
    put(root, a="1", b="2")
    committed(root)
    git(root, "worktree", "add", "-q", str(tmp_path / "other"))
    tree = open_tree(folder=tmp_path / "other")
    tree.snapshot()
    assert hashed == []
    same_again(tree, tmp_path / "other")


def test_submodules_are_kept_with_their_contents(tree: FileTree, root: Path, tmp_path: Path):
    module = tmp_path / "module"
    put(module, m="1")
    committed(module)
    put(root, a="1")
    committed(root)
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "sub")
    git(root, "commit", "-qm", "sub")
    before = whole_tree(root)
    taken = tree.snapshot().snapshot_id
    put(root, sub__m="2", sub__new="3")
    go_back(tree, taken)
    assert whole_tree(root) == before


def test_many_loose_objects_are_borrowed_and_owned_in_the_background(
    tree: FileTree, open_tree: Opener, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(seed, "LOOSE", 1)
    put(root, a="1", d__b="2")
    committed(root, packed=False)
    begun: list[Root] = []
    monkeypatch.setattr("timeleap.features.files.tree.pack_in_background", begun.append)
    taken = tree.snapshot().snapshot_id
    (repository,) = (home / "files").iterdir()
    assert "alternate" in (repository / "origin.json").read_text()
    thread = seed.pack_in_background(begun[0])
    assert thread is not None
    thread.join(60)
    assert "alternate" not in (repository / "origin.json").read_text()
    shutil.rmtree(root / ".git")
    put(root, a="x")
    go_back(open_tree(), taken)
    assert (root / "a").read_text() == "1"


def test_a_file_that_grows_takes_little_room(tree: FileTree, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(seed, "MOST_LOOSE_BYTES", 1 << 20)
    content = os.urandom(100_000).hex()
    for number in range(40):
        put(root, log=content + f"\nline {number}")
        tree.snapshot()
        for thread in list(seed._running.values()):
            thread.join(60)
    assert tree.usage().bytes < 15 * len(content)
    assert len(tree.read(tree.snapshots()[-1].snapshot_id, b"log").content) == len(content) + 7


def test_snapshots_that_are_removed_take_no_room(tree: FileTree, root: Path):
    put(root, small="1")
    first = tree.snapshot().snapshot_id
    put(root, large=os.urandom(1_000_000))
    second = tree.snapshot().snapshot_id
    put(root, large=None)
    third = tree.snapshot().snapshot_id
    tree.remove([second, "f99-000000000000"])
    assert [found.snapshot_id for found in tree.snapshots()] == [third, first]
    assert tree.usage().bytes < 500_000
    put(root, small="2")
    go_back(tree, first)
    assert (root / "small").read_text() == "1"
    tree.remove(snapshot.snapshot_id for snapshot in tree.snapshots())
    assert tree.usage().snapshots == 0
    assert tree.snapshot().changed == 0


def test_what_another_window_removed_meanwhile_is_stored_again(open_tree: Opener, root: Path):
    put(root, a="1")
    first = open_tree().snapshot().snapshot_id
    tree = open_tree()
    put(root, a="2")
    tree.snapshot()
    open_tree().remove([first])
    put(root, a="1")
    again = tree.snapshot().snapshot_id
    put(root, a="3")
    go_back(tree, again)
    assert (root / "a").read_text() == "1"


def test_nothing_is_packed_while_something_is_removed_for_good(
    tree: FileTree, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("timeleap.features.files.repository.WAIT_SECONDS", 0.05)
    put(root, a=os.urandom(seed.MOST_LOOSE_BYTES + 1))
    tree.snapshot()
    for thread in list(seed._running.values()):
        thread.join(60)
    put(root, a=os.urandom(seed.MOST_LOOSE_BYTES + 1))
    monkeypatch.setattr("timeleap.features.files.tree.pack_in_background", lambda root: None)
    tree.snapshot()
    (repository,) = repositories(home)
    (other,) = repositories(home)
    with repository.lock(), pytest.raises(FilesBusyError):
        seed.pack(other)


HOLDER = """
import sys
from pathlib import Path
from timeleap.features.files.stored import repositories
(repository,) = repositories(Path(sys.argv[1]))
with repository.lock(), repository.packing():
    print("packing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def packing(tree: FileTree, root: Path, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that packs until its stdin ends."""
    put(root, a="1")
    tree.snapshot()
    command = [sys.executable, "-c", HOLDER, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "packing\n"
        yield process
        process.kill()


def test_a_snapshot_waits_for_the_packing_of_another_process(
    tree: FileTree, packing: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("timeleap.features.files.repository.WAIT_SECONDS", 0.05)
    looks, waited = list[float](), threading.Event()

    def cancelled() -> bool:
        looks.append(time.monotonic())
        if looks[-1] - looks[0] > 0.2:
            waited.set()
        return False

    with ThreadPoolExecutor() as pool:
        taking = pool.submit(tree.snapshot, Control(cancelled=cancelled))
        assert waited.wait(60)
        packing.communicate("", timeout=60)
        assert taking.result(60).changed == 0


def test_packing_that_was_killed_makes_nobody_wait(
    tree: FileTree, home: Path, packing: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
):
    packing.kill()
    packing.wait(60)
    tree.snapshot()
    monkeypatch.setattr("timeleap.features.files.repository.WAIT_SECONDS", 0.05)
    (repository,) = repositories(home)
    with repository.lock(), pytest.raises(FilesBusyError):
        tree.snapshot()


@pytest.mark.parametrize("place", [".git/info/attributes", "d/.gitattributes", "d/e/.gitattributes"])
def test_attributes_from_any_place_have_the_file_read_again(tree: FileTree, root: Path, place: str, hashed: list[int]):
    """The filter keeps the length, so that only the attribute says that git's content is another one."""
    put(root, d__e__x="1", g="1")
    git(root, "init", "-q")
    git(root, "config", "filter.upper.clean", "tr a-z A-Z")
    (root / place).write_text("*.f filter=upper\n")
    (root / "d/e/x.f").write_text("abc")
    os.utime(root / "d/e/x.f", (1_600_000_000, 1_600_000_000))  # else git compares its content anyway
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    taken = tree.snapshot()
    assert tree.read(taken.snapshot_id, b"d/e/x.f").content == b"abc"
    assert hashed


def test_attributes_that_only_the_index_has_count(tree: FileTree, root: Path):
    put(root, f="abc", _gitattributes="f filter=upper\n")
    os.utime(root / "f", (1_600_000_000, 1_600_000_000))
    git(root, "init", "-q")
    git(root, "config", "filter.upper.clean", "tr a-z A-Z")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    (root / ".gitattributes").unlink()
    assert tree.read(tree.snapshot().snapshot_id, b"f").content == b"abc"


def test_an_attributes_file_elsewhere_counts(tree: FileTree, root: Path, tmp_path: Path):
    put(root, f="abc")
    os.utime(root / "f", (1_600_000_000, 1_600_000_000))
    (tmp_path / "mine").write_text("f filter=upper\n")
    git(root, "init", "-q")
    git(root, "config", "filter.upper.clean", "tr a-z A-Z")
    git(root, "config", "core.attributesFile", str(tmp_path / "mine"))
    git(root, "add", "-A")
    assert tree.read(tree.snapshot().snapshot_id, b"f").content == b"abc"


def test_the_users_own_attributes_count(tree: FileTree, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    put(root, f="abc")
    put(tmp_path, git__attributes="f filter=upper\n")
    os.utime(root / "f", (1_600_000_000, 1_600_000_000))
    git(root, "init", "-q")
    git(root, "config", "filter.upper.clean", "tr a-z A-Z")
    git(root, "add", "-A")
    assert tree.read(tree.snapshot().snapshot_id, b"f").content == b"abc"


def test_a_content_that_only_the_users_history_has_becomes_ours(tree: FileTree, root: Path):
    put(root, a="old", b="1")
    committed(root)
    put(root, a="newer")
    git(root, "commit", "-qam", "newer")
    git(root, "repack", "-adq")
    put(root, a="old")
    taken = tree.snapshot().snapshot_id
    shutil.rmtree(root / ".git")
    put(root, a="changed", b="2")
    go_back(tree, taken)
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("old", "1")


def test_permissions_of_seeded_files_are_kept_whatever_ignored_ones_have(tree: FileTree, root: Path, home: Path):
    put(root, _gitignore="*.o", d__a="1", d__b="2", **{f"d__{number}_o": "3" for number in range(9)})
    committed(root)
    for path in (root / "d").glob("*.o"):
        path.chmod(0o600)
    (root / "d/b").chmod(0o640)
    taken = tree.snapshot().snapshot_id
    (commit,) = repositories(home)[0].snapshots("s1")
    assert repositories(home)[0].git.text("cat-file", "blob", f"{commit.oid}:details").count('"d/') == 1
    (root / "d/b").chmod(0o644)
    go_back(tree, taken)
    assert (root / "d/b").stat().st_mode & 0o777 == 0o640


def test_even_what_we_write_ourselves_is_ours_if_the_user_has_it(root: Path, home: Path, open_tree: Opener):
    put(root, a="1", d__b="2")
    committed(root)
    elsewhere = home.with_name("elsewhere")
    elsewhere.mkdir()
    FileTree.open(elsewhere, root, "s1", FilesConfig()).snapshot()
    shutil.copytree(repositories(elsewhere)[0].path / "objects", root / ".git/objects", dirs_exist_ok=True)
    tree = open_tree()
    taken = tree.snapshot().snapshot_id
    shutil.rmtree(root / ".git")
    git(repositories(home)[0].path, "fsck", "--connectivity-only", "--strict")
    put(root, a="3", d__b=None)
    go_back(tree, taken)
    assert ((root / "a").read_text(), (root / "d/b").read_text()) == ("1", "2")


def test_what_only_the_first_snapshot_of_other_settings_borrowed_becomes_ours_too(
    open_tree: Opener, root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(seed, "LOOSE", 0)
    monkeypatch.setattr("timeleap.features.files.tree.pack_in_background", lambda _root: None)
    put(root, a="1", b_log="2")
    committed(root, packed=False)
    tree = open_tree()
    taken = tree.snapshot().snapshot_id
    git(root, "repack", "-adq")
    open_tree(exclude=("*.log",)).snapshot()
    shutil.rmtree(root / ".git")
    put(root, a="3", b_log="4")
    go_back(open_tree(), taken)
    assert ((root / "a").read_text(), (root / "b.log").read_text()) == ("1", "2")


def details_of(tree: FileTree, home: Path) -> tuple[str, str]:
    """A first snapshot's tree and the document that goes with it."""
    taken = tree.snapshot().snapshot_id
    (repository,) = repositories(home)
    shown = git(repository.path, "cat-file", "-p", "refs/timeleap/s1/1:details")
    return taken, shown


def entangled(root: Path, outside: Path) -> None:
    """A committed tree with all that a folder can hold; since then a folder of it became a link."""
    put(root, a__b__file="1", c="2", d__e="3", gone__x="4", outer__x="5")
    (root / "d/link").symlink_to("../c")
    (root / b"odd\xff".decode("utf-8", "surrogateescape")).mkdir()
    (root / b"odd\xff/na\nme".decode("utf-8", "surrogateescape")).write_text("6")
    (root / "c").chmod(0o640)
    committed(root)
    shutil.rmtree(root / "gone")
    os.mkfifo(root / "d/fifo")
    (root / "new/empty").mkdir(parents=True)
    (root / "a").rename(outside / "a")
    (root / "a").symlink_to(outside / "a")


@pytest.mark.skipif(os.name != "posix", reason="makes names and files that only POSIX has")
@pytest.mark.parametrize("way", ["in this process", "no process"])
def test_folders_are_the_same_whoever_lists_them(
    open_tree: Opener, root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
):
    (tmp_path / "outside").mkdir()
    entangled(root, tmp_path / "outside")
    ahead = details_of(open_tree(), home)
    shutil.rmtree(home)
    home.mkdir()
    if way == "no process":
        monkeypatch.setattr(folder_list, "__file__", "/nowhere.py")
    else:
        monkeypatch.setattr(snapshot, "_MANY", 1000)
    snapshot._listings_of_roots.clear()
    assert details_of(open_tree(), home) == ahead
    assert '"d/fifo":"special"' in ahead[1].replace(" ", "")
