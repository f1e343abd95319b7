"""The bytes of a file as they are kept: a generation for each life of what was read, whatever happens to the file."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.sessions.worlds import run_child

from timeleap.errors import CorruptedError
from timeleap_agents.mirrors.vault import kept_file, packing
from timeleap_agents.mirrors.vault.kept_file import KeptFile
from timeleap_agents.mirrors.vault.notes import NOTES_NAME, read_notes

FIRST, MORE = b'{"one": 1}\n' * 2000, b'{"two": 2}\n' * 10


class Kept:
    """A file that is kept."""

    def __init__(self, folder: Path) -> None:
        self.path, self.directory = folder / "session.jsonl", folder / "mirror"
        self.directory.mkdir()
        self.path.write_bytes(FIRST)
        self.kept = KeptFile(self.directory)

    def keep(self, *, again: bool = False) -> None:
        """Keep what there is; `again`: by a process that has just begun."""
        if again:
            self.kept = KeptFile(self.directory)
        self.kept.keep(self.path)

    def told(self) -> list[tuple[str | None, bytes]]:
        """Why each generation has ended, and its bytes."""
        return [(each.ended, self.read(each.number)) for each in read_notes(self.directory)]

    def read(self, number: int) -> bytes:
        (generation,) = (each for each in read_notes(self.directory) if each.number == number)
        return b"".join(packing.blocks(self.directory, generation))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    made = Kept(tmp_path)
    made.keep()
    return made


def append(kept: Kept, data: bytes = MORE) -> None:
    with kept.path.open("ab") as file:
        file.write(data)


def replaced(kept: Kept, data: bytes) -> None:
    other = kept.path.with_name("other")
    other.write_bytes(data)
    other.replace(kept.path)


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_grows_is_one_generation(kept: Kept, again: bool) -> None:
    for _ in range(3):
        append(kept)
        append(kept, b'{"torn')
        kept.keep(again=again)
    assert kept.told() == [(None, kept.path.read_bytes())]


CHANGES: dict[str, tuple[Callable[[Kept], object], str, bytes]] = {
    "cut": (lambda kept: os.truncate(kept.path, 100), "truncated", FIRST[:100]),
    "emptied": (lambda kept: os.truncate(kept.path, 0), "truncated", b""),
    "rewritten shorter": (lambda kept: kept.path.write_bytes(b"{}\n"), "rewritten", b"{}\n"),
    "rewritten as long": (lambda kept: kept.path.write_bytes(FIRST[::-1]), "rewritten", FIRST[::-1]),
    "rewritten longer": (lambda kept: kept.path.write_bytes(b"{}\n" + FIRST), "rewritten", b"{}\n" + FIRST),
    "one byte": (lambda kept: kept.path.write_bytes(b"[" + FIRST[1:]), "rewritten", b"[" + FIRST[1:]),
    "replaced shorter": (lambda kept: replaced(kept, b"{}\n"), "replaced", b"{}\n"),
    "replaced longer": (lambda kept: replaced(kept, FIRST[::-1] + MORE), "replaced", FIRST[::-1] + MORE),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_what_was_read_ends_it(kept: Kept, change: str, again: bool) -> None:
    make, why, after = CHANGES[change]
    make(kept)
    kept.keep(again=again)
    assert kept.told() == [(why, FIRST), (None, after)]
    kept.kept.pack()
    assert kept.told() == [(why, FIRST), (None, after)], "compressed it says the same"
    assert sorted(os.listdir(kept.directory)) == [NOTES_NAME, "kept_1.xz", "kept_2.bytes"]
    first = read_notes(kept.directory)[0]
    assert (first.bytes, first.sha256) == (len(FIRST), hashlib.sha256(FIRST).hexdigest())


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_was_moved_or_copied_and_grown_goes_on(kept: Kept, again: bool) -> None:
    replaced(kept, FIRST + MORE)
    kept.keep(again=again)
    kept.path = kept.path.rename(kept.path.with_name("moved.jsonl"))
    append(kept)
    kept.keep(again=again)
    assert kept.told() == [(None, FIRST + MORE + MORE)]
    assert read_notes(kept.directory)[0].path == str(kept.path)


def test_what_is_gone_ends_and_what_comes_back_begins_anew(kept: Kept) -> None:
    kept.path.unlink()
    assert kept.kept.end("gone")
    assert not kept.kept.end("gone") or kept.told() == [("gone", FIRST)]
    kept.path.write_bytes(FIRST)
    kept.keep()
    assert kept.told() == [("gone", FIRST), (None, FIRST)]


def test_numbers_are_not_used_twice(kept: Kept) -> None:
    kept.path.write_bytes(b"{}\n")
    kept.keep()
    kept.kept.pack()
    (kept.directory / "kept_2.bytes").unlink()
    (kept.directory / "kept_1.xz").unlink()
    kept.keep(again=True)
    assert [each.number for each in read_notes(kept.directory)] == [3]


class KilledError(BaseException):
    """Nothing that comes after it is done."""


def _keep_and_pack(kept: Kept) -> None:
    kept.keep(again=True)
    kept.kept.pack()


STEPS = ["begun", "appended", "ended", "packing", "packed"]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_loses_nothing(kept: Kept, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        if step == "begun":
            patched.setattr(KeptFile, "_append", die)
        elif step in ("appended", "ended"):
            patched.setattr(kept_file, "write_notes", die)
        elif step == "packing":
            patched.setattr(packing, "replace_file", die)
        else:
            patched.setattr(kept_file, "failpoint", die)
        if step == "appended":
            append(kept)
            replaced(kept, kept.path.read_bytes())  # another inode, which the notes are to name
        else:
            kept.path.write_bytes(FIRST[::-1])
        with pytest.raises(KilledError):
            _keep_and_pack(kept)
    kept.keep(again=True)
    kept.kept.pack()
    told = kept.told()
    assert told[-1] == (None, kept.path.read_bytes())
    if step != "appended":
        assert told[0][1] == FIRST
        assert "kept_1.xz" in os.listdir(kept.directory)


def test_without_notes_the_files_say_what_there_is(kept: Kept) -> None:
    kept.path.write_bytes(b"{}\n")
    kept.keep()
    kept.kept.pack()
    (kept.directory / NOTES_NAME).write_text("{")
    assert kept.told() == [("replaced", FIRST), (None, b"{}\n")]
    kept.keep(again=True)
    assert kept.told() == [("replaced", FIRST), (None, b"{}\n")]


@pytest.mark.parametrize("damage", ["cut", "turned"])
def test_a_damaged_generation_is_told(kept: Kept, damage: str) -> None:
    kept.path.write_bytes(b"{}\n")
    kept.keep()
    kept.kept.pack()
    packed = kept.directory / "kept_1.xz"
    data = packed.read_bytes()
    packed.write_bytes(data[:-20] if damage == "cut" else data[:30] + b"\xff\x00" + data[32:])
    with pytest.raises(CorruptedError, match="damaged"):
        kept.read(1)


def test_ended_generations_of_text_take_a_quarter(tmp_path: Path) -> None:
    chance = random.Random(7)
    words = [f"{chance.getrandbits(40):x}" for _ in range(2000)]
    text = "".join(
        f'{{"uuid": "{chance.getrandbits(128):x}", "text": "{" ".join(chance.choices(words, k=150))}"}}\n'
        for _ in range(300)
    )
    kept = Kept(tmp_path)
    kept.path.write_text(text)
    kept.keep()
    kept.path.unlink()
    kept.kept.end("gone")
    kept.kept.pack()
    assert (kept.directory / "kept_1.xz").stat().st_size < 0.25 * len(text)


def test_packing_stops_when_the_process_has_other_things_to_do(kept: Kept) -> None:
    kept.path.write_bytes(b"{}\n")
    kept.keep()
    kept.kept.pack(lambda: True)
    assert sorted(os.listdir(kept.directory)) == [NOTES_NAME, "kept_1.bytes", "kept_2.bytes"]
    assert kept.told()[0] == ("rewritten", FIRST)


PACK = """
import sys
from pathlib import Path
from timeleap_agents.mirrors.vault.kept_file import KeptFile

KeptFile(Path(sys.argv[1])).pack()
"""


def test_killed_while_it_packs_every_byte_is_there(kept: Kept) -> None:
    replaced(kept, MORE)
    kept.keep()
    before = kept.told()
    assert run_child(PACK, str(kept.directory), failpoints="vault.packed=kill") == -9
    assert kept.told() == before
    assert run_child(PACK, str(kept.directory)) == 0
    assert kept.told() == before
    assert [bool(each.packed) for each in read_notes(kept.directory)] == [bool(ended) for ended, _ in before]
