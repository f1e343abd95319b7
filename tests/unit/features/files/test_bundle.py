"""Snapshots that go with an archive: what is honest arrives as it was; of a stranger's nothing is taken that could do harm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.packs import BLOB, COMMIT, REF_DELTA, Made, blob, delta, pack, tree
from tests.unit.features.files.conftest import Opener, go_back, put
from tests.unit.features.files.test_restore import changed_by_an_agent, lived_in
from tests.unit.features.files.whole_tree import whole_tree

from timeleap.errors import CancelledError, CorruptedError, FilesUnavailableError, InvalidInputError, TooLargeError
from timeleap.features.files import bundle, compare
from timeleap.features.files.records import Control, FilesConfig, SnapshotBudget
from timeleap.features.files.tree import FileTree

Json = dict[str, Any]
Objects = list[Made]
NAMES = ("snapshots.json", "snapshots_1.pack")
DETAILS = blob(b"{}")
A = blob(b"a")


def exported(made: FileTree, place: Path) -> Path:
    """The files of an export."""
    place.mkdir()
    records, left = made.write_pack(place / NAMES[1], Control())
    bundle.write_document(place, {"mode": "checkpoint"}, [{"folder": "f", "pack": NAMES[1], "snapshots": records}])
    assert left == []
    return place


def arrived(tmp_path: Path, place: Path, name: str = "there", session: str = "s2") -> FileTree:
    """The files of a session that was imported into a folder."""
    folder, home = tmp_path / name, tmp_path / "store of another"
    folder.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    bundle.check(home, place, [folder.as_uri()], Control())
    found = FileTree.open(home, folder, session, FilesConfig())
    found.take_pack(place / NAMES[1], bundle.read_document(place)["roots"][0]["snapshots"])
    return found


# What is honest


def test_every_snapshot_arrives_as_it_was(open_tree: Opener, root: Path, tmp_path: Path) -> None:
    made, states = open_tree(), list[object]()
    for change in (lived_in, changed_by_an_agent, _odd_names, lambda folder: (folder / "last").write_bytes(b"\0\xff")):
        change(root)
        states.insert(0, whole_tree(root))
        made.snapshot(label="ä\n", checkpoint_uid=f"c{len(states)}")
    new = arrived(tmp_path, exported(made, tmp_path / "export"))
    assert new.snapshots() == made.snapshots()
    for taken, state in zip(made.snapshots(), states, strict=True):
        go_back(new, taken.snapshot_id)
        assert whole_tree(tmp_path / "there") == state


def _odd_names(root: Path) -> None:
    for name in (b"caf\xe9", b"new\nline", b"git~1", b" blank ", b"-rf", b"*", b'"', "ü".encode()):
        (Path(os.fsdecode(os.fsencode(root) + b"/" + name))).write_bytes(name)


def test_the_same_content_is_the_same_bytes_however_it_is_stored(open_tree: Opener, root: Path, tmp_path: Path) -> None:
    made = open_tree()
    for text in ("a" * 5000, "a" * 5000 + "b", "c"):
        put(root, a_txt=text, b__c="c")
        made.snapshot()
    first = exported(made, tmp_path / "first")
    repository = next((tmp_path / "store/files").iterdir())
    subprocess.run(["git", "-C", repository, "-c", "pack.compression=1", "repack", "-adqF", "--depth=1"], check=True)
    (repository / "origin.json").write_text("{}")
    again = exported(open_tree(), tmp_path / "again")
    other = exported(arrived(tmp_path, first), tmp_path / "other")
    for name in NAMES:
        assert (first / name).read_bytes() == (again / name).read_bytes() == (other / name).read_bytes()


def test_only_what_the_session_needs_goes_along(open_tree: Opener, root: Path, tmp_path: Path) -> None:
    put(root, secret="x" * 100)
    open_tree("other").snapshot()
    put(root, secret=None, a_txt="a")
    made = open_tree()
    made.snapshot()
    new = arrived(tmp_path, exported(made, tmp_path / "export"))
    listed = new._git.run("cat-file", "--batch-all-objects", "--batch")
    assert b"x" * 100 not in listed


def test_borrowed_objects_are_copied_before_they_go_along(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeleap.features.files.seed.LOOSE", 0)  # then they are copied later
    monkeypatch.setattr("timeleap.features.files.tree.pack_in_background", lambda _: None)
    put(root, a_txt="a", b_txt="b")
    for command in (("init", "-q"), ("add", "."), ("-c", "user.name=u", "-c", "user.email=e", "commit", "-qm", "x")):
        subprocess.run(["git", *command], cwd=root, check=True)
    made = open_tree()
    made.snapshot()
    assert made._git.alternate is not None
    place = exported(made, tmp_path / "export")
    assert made._git.alternate is None
    new = arrived(tmp_path, place)
    go_back(new, new.snapshots()[0].snapshot_id)
    assert (tmp_path / "there/a.txt").read_text() == "a"


def test_a_snapshot_that_no_import_would_take_is_left_out_and_said(
    open_tree: Opener, root: Path, tmp_path: Path
) -> None:
    made = open_tree()
    put(root, a_txt="a")
    good = made.snapshot()
    (root / "back\\slash").write_text("only here")
    bad = made.snapshot()
    (tmp_path / "export").mkdir()
    records, left = made.write_pack(tmp_path / "export" / NAMES[1], Control())
    assert [record["number"] for record in records] == [1]
    assert left == [f"snapshot {bad.snapshot_id} is left out: it has the unusable name 'back\\\\slash'"]
    bundle.write_document(
        tmp_path / "export", {"mode": "off"}, [{"folder": "f", "pack": NAMES[1], "snapshots": records}]
    )
    assert [each.snapshot_id for each in arrived(tmp_path, tmp_path / "export").snapshots()] == [good.snapshot_id]


@pytest.mark.parametrize("others", [0, 2])
def test_rights_that_let_others_run_a_file_as_its_owner_do_not_come_along(
    open_tree: Opener, root: Path, tmp_path: Path, others: int
) -> None:
    put(root, x_sh="x")
    for number in range(others):  # then the file's permissions are not the usual ones
        put(root, **{f"y{number}": "y"})
        (root / f"y{number}").chmod(0o755)
    (root / "x.sh").chmod(0o6755)
    (root / "shared").mkdir()
    (root / "shared").chmod(0o2775)
    made = open_tree()
    made.snapshot()
    new = arrived(tmp_path, exported(made, tmp_path / "export"))
    go_back(new, new.snapshots()[0].snapshot_id)
    modes = [(tmp_path / "there" / name).stat().st_mode & 0o7777 for name in ("x.sh", "shared")]
    assert modes == [0o755, 0o2775]


def test_taken_in_twice_is_taken_in_once(open_tree: Opener, root: Path, tmp_path: Path) -> None:
    put(root, a_txt="a")
    made = open_tree()
    made.snapshot()
    place = exported(made, tmp_path / "export")
    first = arrived(tmp_path, place)
    refs = sorted((tmp_path / "store of another").rglob("refs/**/*"))
    arrived(tmp_path, place)
    assert sorted((tmp_path / "store of another").rglob("refs/**/*")) == refs
    assert len(arrived(tmp_path, place, session="s3").snapshots()) == len(first.snapshots()) == 1


def test_more_than_there_is_room_for_is_refused(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = open_tree()
    for text in "abc":
        put(root, a_txt=text)
        made.snapshot()
    place = exported(made, tmp_path / "export")
    monkeypatch.setattr(bundle, "BUDGET", SnapshotBudget(snapshots=5))
    arrived(tmp_path, place)
    with pytest.raises(TooLargeError, match="has 3 snapshots, and 3 would be imported"):
        arrived(tmp_path, place, session="s3")
    monkeypatch.setattr(bundle, "BUDGET", SnapshotBudget(bytes=5))
    arrived(tmp_path, place, session="s3")  # takes nothing that is not there
    put(root, a_txt="d")
    made.snapshot()
    with pytest.raises(TooLargeError, match="more than 5 bytes"):
        arrived(tmp_path, exported(made, tmp_path / "more"), session="s4")


def test_the_newest_go_along_where_there_are_more_than_an_archive_takes(
    open_tree: Opener, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_SNAPSHOTS", 2)
    made = open_tree()
    for _ in range(3):
        made.snapshot()
    records, left = made.write_pack(tmp_path / "x.pack", Control())
    assert ([record["number"] for record in records], len(left)) == ([3, 2], 1)


def test_a_check_that_nobody_wants_any_more_ends(open_tree: Opener, root: Path, tmp_path: Path) -> None:
    made = open_tree()
    made.snapshot()
    place = exported(made, tmp_path / "export")
    with pytest.raises(CancelledError):
        bundle.check(tmp_path / "store", place, [root.as_uri()], Control(cancelled=lambda: True))
    assert sorted(path.name for path in place.iterdir()) == sorted(NAMES)


# What is not


def record(top: Made | str, details: Made | str = DETAILS, **changes: Any) -> Json:
    named = {"tree": top, "details": details}
    oids = {name: found if isinstance(found, str) else found.oid for name, found in named.items()}
    return {"number": 1, **oids, "createdAt": 1.5, "changed": 0, "ms": 0, **changes}


def written(place: Path, packed: bytes, *records: Json, **document: Any) -> Path:
    place.mkdir()
    (place / NAMES[1]).write_bytes(packed)
    roots = [{"folder": "f", "pack": NAMES[1], "snapshots": list(records)}]
    (place / NAMES[0]).write_text(json.dumps({"settings": {"mode": "off"}, "roots": roots, **document}))
    return place


def refuse(tmp_path: Path, place: Path, match: str) -> None:
    """It is refused, and nothing of it is left; neither is anything where it was to go."""
    home, folder = tmp_path / "store", tmp_path / "project"
    before = whole_tree(place)
    with pytest.raises(CorruptedError, match=match):
        bundle.check(home, place, [folder.as_uri()], Control())
    assert whole_tree(place) == before
    assert list(home.iterdir()) == list(folder.iterdir()) == []
    opened = FileTree.open(home, folder, "s1", FilesConfig())
    with pytest.raises(CorruptedError, match=match):
        opened.take_pack(place / NAMES[1], bundle.read_document(place)["roots"][0]["snapshots"])
    assert opened.snapshots() == []
    assert list(home.glob("files/*/work-*")) == list(home.glob("files/*/objects/pack/*")) == []


def of_one(mode: str, name: bytes, entry: Made) -> tuple[Made, Objects]:
    top = tree((mode, name, entry))
    return top, [top, entry, DETAILS]


SPELLINGS = (
    b".git",
    b".GIT",
    b".git ",
    b".git. .",
    b".git::$INDEX_ALLOCATION",
    b".g\xe2\x80\x8cit",
    b"\xef\xbb\xbf.git",
)


@pytest.mark.parametrize("name", [*SPELLINGS, b"..", b".", b"", b"a/b", b"/a", b"a\\b", b"..\\a", b"x" * 256])
def test_names_that_lead_elsewhere(tmp_path: Path, root: Path, home: Path, name: bytes) -> None:
    for number, (mode, entry) in enumerate((("100644", A), ("120000", A), ("40000", tree(("100644", b"a", A))))):
        top, objects = of_one(mode, name, entry)
        place = written(tmp_path / f"export{number}", pack([*objects, *([A] if mode == "40000" else [])]), record(top))
        refuse(tmp_path, place, "unusable name") if number == 0 else refused_again(tmp_path, place)


def refused_again(tmp_path: Path, place: Path) -> None:
    with pytest.raises(CorruptedError, match="unusable name"):
        bundle.check(tmp_path / "store", place, [(tmp_path / "project").as_uri()], Control())


@pytest.mark.parametrize("name", [b"git~1", b".gitignore", b".gitmodules", b".gitx", b"x.git", b"...", b"\xff\n"])
def test_names_that_only_look_like_it_are_taken(tmp_path: Path, root: Path, home: Path, name: bytes) -> None:
    top, objects = of_one("120000", name, A)
    place = written(tmp_path / "export", pack(objects), record(top))
    assert bundle.check(home, place, [root.as_uri()], Control())["roots"] == [root.as_uri()]


@pytest.mark.parametrize("mode", ["160000", "100664", "040000", "40755", "0", "", "100600", "60000"])
def test_modes_that_no_snapshot_has(tmp_path: Path, root: Path, home: Path, mode: str) -> None:
    top, objects = of_one(mode, b"a", A)
    refuse(tmp_path, written(tmp_path / "export", pack(objects), record(top)), "neither a file, a link nor a folder")


def _bomb() -> tuple[Made, Objects]:
    made = [A]
    for _ in range(8):
        below = made[-1]
        kind = "100644" if below is A else "40000"
        made.append(tree(*((kind, b"%02d" % number, below) for number in range(10))))
    return made[-1], [*made[::-1], DETAILS]


def _deep() -> tuple[Made, Objects]:
    made = [tree(("100644", b"a" * 200, A))]
    for _ in range(20):
        made.append(tree(("40000", b"b" * 200, made[-1])))
    return made[-1], [*made[::-1], A, DETAILS]


def _trees() -> dict[str, tuple[Made, Objects, str]]:
    inner = tree(("100644", b"a", A))
    found = {
        "not sorted": tree(("100644", b"b", A), ("100644", b"a", A)),
        "the same twice": tree(("100644", b"a", A), ("100644", b"a", A)),
        "a file and a folder": tree(("100644", b"a", A), ("100644", b"a.b", A), ("40000", b"a", inner)),
    }
    cases = {name: (top, [top, A, DETAILS], "unusable name") for name, top in found.items()}
    cases["a file and a folder"][1].insert(1, inner)
    for name, top in {
        "a file that is not there": tree(("100644", b"b", "1" * 40)),
        "a folder that is not there": tree(("40000", b"b", "1" * 40)),
        "a folder that is a file": tree(("40000", b"b", A)),
        "a file that is a folder": tree(("100644", b"b", inner)),
    }.items():
        cases[name] = (top, [top, A, inner, DETAILS], "lacks the object")
    cases["cut"] = (cut := Made(2, inner.content[:-1]), [cut, A, DETAILS], "neither a file")
    cases["no end of the name"] = (cut := Made(2, b"100644 aaaaaaaa"), [cut, DETAILS], "neither a file")
    for name, target in {"link to nothing": b"", "link with NUL": b"a\0b", "endless link": b"a" * 4096}.items():
        cases[name] = (*of_one("120000", b"l", blob(target)), "a link that no system can have")
    cases["as many files as one likes"] = (*_bomb(), "more than 1000000 files")
    cases["endless path"] = (*_deep(), "a path of more than")
    return cases


@pytest.mark.parametrize("name", _trees())
def test_trees_that_no_snapshot_has(tmp_path: Path, root: Path, home: Path, name: str) -> None:
    top, objects, why = _trees()[name]
    refuse(tmp_path, written(tmp_path / "export", pack(objects), record(top)), why)


def test_trees_of_too_many_bytes(tmp_path: Path, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top, objects = of_one("100644", b"a", A)
    place = written(tmp_path / "export", pack(objects), record(top))
    monkeypatch.setattr(compare, "MAX_TREES", len(top.content))
    bundle.check(home, place, [root.as_uri()], Control())
    monkeypatch.setattr(compare, "MAX_TREES", len(top.content) - 1)
    refuse(tmp_path, place, "folders of more than")


BAD_DETAILS = (b"", b"[]", b"{", b"[" * 100_000, b'{"modes":{"a/.git ":1}}', b'{"folders":{"a\\\\b":493}}')


@pytest.mark.parametrize("content", BAD_DETAILS)
def test_details_that_are_none(tmp_path: Path, root: Path, home: Path, content: bytes) -> None:
    top = tree(("100644", b"a", A))
    place = written(tmp_path / "export", pack([top, A, blob(content)]), record(top, blob(content)))
    refuse(tmp_path, place, "details that are not of their form")


def test_details_that_are_too_long(tmp_path: Path, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MAX_DETAILS", 1)
    top, objects = of_one("100644", b"a", A)
    refuse(tmp_path, written(tmp_path / "export", pack(objects), record(top)), "details that are too long")


TOP = tree(("100644", b"a", A))
PLAIN = [TOP, A, DETAILS]
GOOD = pack(PLAIN)
ZEROS = blob(bytes(1 << 16))
CLAIM = len(ZEROS.packed)  # bytes from the object before to a delta


def _chain() -> bytes:
    """51 deltas, each on the one before it."""
    made = [blob(b"a")]
    for _ in range(51):
        made.append(delta(1, 1, len(made[-1].packed), [b"\x90\x01"]))
    return pack([*PLAIN[::2], *made])


PACKS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "no pack"),
    "another version": (GOOD.replace(b"PACK\0\0\0\2", b"PACK\0\0\0\3"), "no pack"),
    "another program's": (b"PK" * 100, "no pack"),
    "more objects than there may be": (pack(PLAIN, 1_000_001), "has 1000001 objects"),
    "fewer objects than it says": (pack(PLAIN, 4), "."),
    "more objects than it says": (pack(PLAIN, 2), "has more in it than its objects"),
    "cut": (GOOD[:-40], "."),
    "something behind it": (GOOD + b"x", "has more in it than its objects"),
    "a commit": (pack([*PLAIN, Made(COMMIT, b"tree x\n")]), "neither a file nor a folder"),
    "a delta by name": (pack([*PLAIN, Made(REF_DELTA, b"\1\1\x90\1", bytes(20))]), "neither a file nor a folder"),
    "a delta without a base": (pack([*PLAIN, delta(1, 1, 3)]), "without its base"),
    "deltas on deltas": (_chain(), "too many of them"),
    "an object longer than it says": (pack([*PLAIN, Made(BLOB, b"x" * 50, said=49)]), "longer than it says"),
    "an object shorter than it says": (pack([*PLAIN, Made(BLOB, b"x" * 50, said=51)]), "shorter than it says"),
    "an object that is no object": (GOOD.replace(A.packed, A.packed[:1] + b"xxxxxxxxx"), "cannot be unpacked"),
    "wrong checksum": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "cannot be read"),
    "a number without an end": (pack([*PLAIN, Made(BLOB, b"", b"\xff" * 20, said=1 << 70)]), "too long"),
    "a large object": (pack([*PLAIN, Made(BLOB, b"", said=(256 << 20) + 1)]), "unpacks to more than"),
    "a delta that makes a large object": (pack([*PLAIN, ZEROS, delta(1 << 16, 1 << 40, CLAIM)]), "unpacks to more"),
    "a delta that is not what it says": (pack([*PLAIN, ZEROS, delta(1 << 16, 5, CLAIM)]), "cannot be read"),
    "more than is needed": (pack([*PLAIN, blob(b"hidden")]), "more in it than its snapshots need"),
}


@pytest.mark.parametrize("name", PACKS)
def test_packs_that_no_export_writes(tmp_path: Path, root: Path, home: Path, name: str) -> None:
    packed, why = PACKS[name]
    refuse(tmp_path, written(tmp_path / "export", packed, record(TOP)), why)


def test_large_objects_are_refused_before_git_makes_them(
    tmp_path: Path, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("git has read it")

    monkeypatch.setattr("timeleap.features.files.git.Git.run", made)
    packed, _ = PACKS["a delta that makes a large object"]
    with pytest.raises(CorruptedError, match="unpacks to more"):
        bundle.check(home, written(tmp_path / "export", packed, record(TOP)), [root.as_uri()], Control())


def test_many_large_objects(tmp_path: Path, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = [delta(1 << 16, 1 << 16, CLAIM)]
    for _ in range(3):
        copies.append(delta(1 << 16, 1 << 16, len(copies[-1].packed)))
    monkeypatch.setattr(bundle, "MAX_CONTENT", 4 << 16)
    place = written(tmp_path / "export", pack([*PLAIN, ZEROS, *copies]), record(TOP))
    refuse(tmp_path, place, "unpacks to more than")


def _with(name: str, value: object) -> Callable[[Json], object]:
    return lambda document: document["roots"][0]["snapshots"][0].update({name: value})


DOCUMENTS: dict[str, Callable[[Json], object]] = {
    "no roots": lambda document: document.pop("roots"),
    "roots that are none": lambda document: document.update(roots={}),
    "no settings": lambda document: document.update(settings=[]),
    "a mode that is none": lambda document: document.update(settings={"mode": "always"}),
    "a pattern of two lines": lambda document: document.update(settings={"mode": "off", "exclude": ["a\nb"]}),
    "a snapshot twice": lambda document: document["roots"][0]["snapshots"].append(record(TOP)),
    "too many": lambda document: document["roots"][0].update(
        snapshots=[record(TOP, number=number) for number in range(1, 202)]
    ),
    "another file": lambda document: document["roots"][0].update(pack="../../x.pack"),
    "no file": lambda document: document["roots"][0].pop("pack"),
    **{
        f"{name} {value!r}": _with(name, value)
        for name, value in (
            *(("number", 0), ("number", 10**8), ("number", "1"), ("tree", "x" * 40), ("tree", A.oid[:12])),
            *(("details", None), ("createdAt", -1), ("createdAt", 1 << 40), ("createdAt", "now"), ("ms", -1)),
            *(("label", 3), ("label", "\ud800"), ("checkpointUid", "x" * 201), ("changed", 1.5)),
        )
    },
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_records_that_no_export_writes(tmp_path: Path, root: Path, home: Path, name: str) -> None:
    place = written(tmp_path / "export", GOOD, record(TOP))
    document = json.loads((place / NAMES[0]).read_text())
    DOCUMENTS[name](document)
    (place / NAMES[0]).write_text(json.dumps(document))
    with pytest.raises(CorruptedError, match=r"snapshots\.json"):
        bundle.check(home, place, [root.as_uri()], Control())
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b"3", b" " * (17 << 20)])
def test_documents_that_are_none(tmp_path: Path, root: Path, home: Path, content: bytes) -> None:
    place = written(tmp_path / "export", GOOD, record(TOP))
    (place / NAMES[0]).write_bytes(content)
    with pytest.raises(CorruptedError, match=r"snapshots\.json"):
        bundle.check(home, place, [root.as_uri()], Control())


@pytest.mark.parametrize("link", [False, True])
def test_a_pack_that_is_not_there(tmp_path: Path, root: Path, home: Path, link: bool) -> None:
    place = written(tmp_path / "export", GOOD, record(TOP))
    (place / NAMES[1]).rename(tmp_path / "elsewhere")
    if link:
        (place / NAMES[1]).symlink_to(tmp_path / "elsewhere")
    refuse(tmp_path, place, "is missing")


@pytest.mark.parametrize(
    ("folders", "error"),
    [
        (lambda root: [], InvalidInputError),
        (lambda root: [root.as_uri()] * 2, InvalidInputError),
        (lambda root: ["http://x/y"], InvalidInputError),
        (lambda root: ["file:///"], FilesUnavailableError),
        (lambda root: [(root / "nowhere").as_uri()], FilesUnavailableError),
    ],
)
def test_folders_that_cannot_be_it(
    tmp_path: Path, root: Path, home: Path, folders: Callable[[Path], list[str]], error: type[Exception]
) -> None:
    place = written(tmp_path / "export", GOOD, record(TOP))
    with pytest.raises(error):
        bundle.check(home, place, folders(root), Control())
    assert list(home.iterdir()) == []
