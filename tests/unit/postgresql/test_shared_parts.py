"""Files of a working copy that begin as others do, without having those bytes a second time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.support.mostly_long import mostly_long

from timeleap.storage import durable
from timeleap.storage.durable import OpenFile
from timeleap_postgresql import shared_parts
from timeleap_postgresql.shared_parts import SharedParts


@pytest.fixture
def parts(tmp_path: Path) -> SharedParts:
    return SharedParts(tmp_path / "parts")


def made(path: Path, data: bytes = b"") -> OpenFile:
    """A new file."""
    file = OpenFile(path, writable=True, new=True)
    file.pwrite(data, 0)
    return file


def begun(parts: SharedParts, source: OpenFile, path: Path, size: int, rest: bytes = b"") -> OpenFile:
    """A new file that has the first bytes of another one, and some of its own."""
    file = made(path)
    assert parts.begin_as(source, file, 0, size)
    file.pwrite(rest, size)
    return file


def content(path: Path) -> bytes:
    file = OpenFile(path)
    return file.pread(0, file.status().size + 1)


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


BIG = bytes(range(256)) * 4096


def test_a_file_has_the_beginning_of_another_one_without_its_bytes(tmp_path: Path, parts: SharedParts) -> None:
    first = made(tmp_path / "first", BIG)
    second = begun(parts, first, tmp_path / "second", len(BIG) - 100, b"end")
    assert content(tmp_path / "second") == second.pread(0, len(BIG)) == BIG[:-100] + b"end"
    assert second.pread(len(BIG) - 102, 4) == BIG[-102:-100] + b"en"
    assert second.status().size == len(BIG) - 97
    assert on_disk(tmp_path / "second") <= 8192
    copied = made(tmp_path / "copied", b"#")
    second.copy_to(copied, 10, len(BIG) - 107)
    assert content(tmp_path / "copied") == b"#" + content(tmp_path / "second")[10:]


def test_what_is_written_or_cut_off_is_the_files_own(tmp_path: Path, parts: SharedParts) -> None:
    first = made(tmp_path / "first", b"0123456789")
    second = begun(parts, first, tmp_path / "second", 10)
    second.pwrite(b"##", 3)
    assert content(tmp_path / "second") == b"012##56789"
    second.truncate(7)
    second.pwrite(b"end", 7)
    assert second.pread(0, 20) == content(tmp_path / "second") == b"012##56end"
    assert content(tmp_path / "first") == b"0123456789"


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_file_stays_whole_when_another_one_goes(tmp_path: Path, parts: SharedParts, name: str) -> None:
    first = made(tmp_path / "first", BIG)
    files = [begun(parts, first, tmp_path / f"{number}", len(BIG) - number, b"own") for number in range(1, 4)]
    begun(parts, files[0], tmp_path / "second", len(BIG), b"more")
    last = begun(parts, OpenFile(tmp_path / "second"), tmp_path / "last", len(BIG) + 2)
    before = {path.name: content(path) for path in tmp_path.iterdir() if path.is_file() and path.name != name}
    times = {name: (tmp_path / name).stat().st_mtime_ns for name in before}
    (tmp_path / name).unlink()
    parts.sweep()
    assert {name: content(tmp_path / name) for name in before} == before
    assert last.pread(0, 2 * len(BIG)) == before["last"]
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in before} == times
    assert sum(on_disk(tmp_path / name) for name in before) < 2 * len(BIG)


def test_what_goes_is_gone_also_where_others_begin_with_it(tmp_path: Path, parts: SharedParts) -> None:
    first = made(tmp_path / "first", b"public" * 1000 + b"secret")
    begun(parts, first, tmp_path / "second", 6000)
    (tmp_path / "first").unlink()
    parts.sweep()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()] == []
    assert (tmp_path / "second").read_bytes() == b"public" * 1000


def test_nothing_is_copied_where_all_is_still_needed(
    tmp_path: Path, parts: SharedParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(tmp_path / "first", BIG)
    begun(parts, first, tmp_path / "second", 100)
    begun(parts, first, tmp_path / "third", len(BIG))
    with monkeypatch.context() as patch:
        patch.delattr(durable, "copy_bytes")
        (tmp_path / "first").unlink()
        parts.sweep()
    assert content(tmp_path / "third") == BIG
    (tmp_path / "third").unlink()
    parts.sweep()
    assert (tmp_path / "second").read_bytes() == BIG[:100]
    (tmp_path / "second").unlink()
    parts.sweep()
    assert list((tmp_path / "parts").iterdir()) == []


def test_an_open_file_reads_on_when_it_is_gone(tmp_path: Path, parts: SharedParts) -> None:
    second = begun(parts, made(tmp_path / "first", BIG), tmp_path / "second", len(BIG) - 5, b"own")
    reader = OpenFile(tmp_path / "second")
    for name in ("first", "second"):
        (tmp_path / name).unlink()
    parts.sweep()
    assert list((tmp_path / "parts").iterdir()) == []
    assert reader.pread(0, len(BIG)) == second.pread(0, len(BIG)) == BIG[:-5] + b"own"


def test_another_file_with_the_inode_of_one_that_shared_is_read_as_it_is(tmp_path: Path, parts: SharedParts) -> None:
    second = begun(parts, made(tmp_path / "first", b"first"), tmp_path / "second", 5)
    for path in (tmp_path / "parts").iterdir():
        path.unlink()
    second.pwrite(b"other", 0)  # what another one with its inode has
    assert content(tmp_path / "second") == b"other"
    parts.clear()


def test_a_file_of_many_parts_has_the_small_ones_itself(
    tmp_path: Path, parts: SharedParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_parts, "MOST_PARTS", 4)
    file, expected = made(tmp_path / "0", BIG), BIG
    for number in range(1, 20):
        file = begun(parts, file, tmp_path / f"{number}", len(expected), b"%d" % number)
        expected += b"%d" % number
        assert content(tmp_path / f"{number}") == expected
        assert len(shared_parts._known[file.identity].parts) <= 4
        assert on_disk(tmp_path / f"{number}") <= 16384


def test_where_files_have_one_name_each_nothing_is_shared(
    tmp_path: Path, parts: SharedParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "link_exclusive", lambda *_: False)
    file = made(tmp_path / "second")
    assert not parts.begin_as(made(tmp_path / "first", b"first"), file, 0, 5)
    assert file.status().size == 0


@pytest.mark.parametrize("seed", mostly_long(range(30)))
def test_files_are_what_copies_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(shared_parts, "MOST_PARTS", 5)
    chance, parts = random.Random(seed), SharedParts(tmp_path / "parts")
    made(tmp_path / "0", BIG[:3000])
    expected, opened = {"0": BIG[:3000]}, {"0": OpenFile(tmp_path / "0")}
    for number in range(1, 120):
        name = chance.choice(sorted(expected))
        match chance.randrange(6):
            case 0 | 1:
                size = chance.randrange(1, len(expected[name]) + 1)
                rest = chance.randbytes(chance.randrange(50))
                source = chance.choice([opened[name], OpenFile(tmp_path / name)])
                opened[f"{number}"] = begun(parts, source, tmp_path / f"{number}", size, rest)
                expected[f"{number}"] = expected[name][:size] + rest
            case 2:
                rest = chance.randbytes(40)
                OpenFile(tmp_path / name, writable=True).pwrite(rest, len(expected[name]))
                expected[name] += rest
            case 3 if len(expected) > 1:
                (tmp_path / name).unlink()
                del expected[name], opened[name]
            case 4:
                parts.sweep()
            case _:
                opened[name] = OpenFile(tmp_path / name)
        assert {name: content(tmp_path / name) for name in expected} == expected
        assert {name: file.pread(0, 9000) for name, file in opened.items()} == expected


@pytest.mark.parametrize(
    ("parts", "others", "same"),
    [
        ([(1, 0, 10)], [(1, 0, 10)], 10),
        ([(1, 0, 10)], [(1, 0, 7), (2, 7, 5)], 7),
        ([(1, 0, 10), (2, 10, 5)], [(1, 0, 10), (2, 10, 3), (3, 13, 9)], 13),
        ([(1, 0, 10), (2, 10, 5)], [(1, 0, 10), (3, 10, 5)], 10),
        ([(1, 0, 10)], [(2, 0, 10)], 0),
        ([], [(2, 0, 10)], 0),
    ],
)
def test_logs_begin_with_the_same_bytes_as_far_as_these_are_stored_once(
    parts: shared_parts.Segments, others: shared_parts.Segments, same: int
) -> None:
    assert shared_parts.common_beginning(parts, others) == shared_parts.common_beginning(others, parts) == same
