"""Sessions that Codex has packed (`.jsonl.zst`): they are the sessions that they were, and damage is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from backports import zstd
from tests.support.codex_file import CodexFile

from timeleap.errors import CorruptedError, StorageFailureError, TimeleapError, TooLargeError
from timeleap_agents.importing.recognition import recognised
from timeleap_agents.mirrors import packed_files
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.folders import look, mirror_id, session_key
from timeleap_agents.mirrors.vault import packing
from timeleap_agents.mirrors.vault.kept_file import KeptFile
from timeleap_agents.mirrors.vault.notes import read_notes

FACTS: Final[dict[int, int]] = {zstd.CompressionParameter.content_size_flag: 0}


@pytest.fixture
def file(tmp_path: Path) -> CodexFile:
    made = CodexFile(tmp_path / "sessions")
    for number in range(1, 40):
        made.turn(number)
    return made


def _packed(file: CodexFile, data: bytes) -> Path:
    path = file.path.with_name(f"{file.path.name}.zst")
    path.write_bytes(data)
    file.path.unlink()
    return path


def _in_frames(data: bytes) -> bytes:
    """Two frames, with one between them that is to be skipped."""
    half = len(data) // 2
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    return zstd.compress(data[:half]) + skipped + zstd.compress(data[half:])


@pytest.mark.parametrize("pack", [zstd.compress, _in_frames, lambda data: zstd.compress(data, options=FACTS)])
def test_a_packed_file_is_the_session_that_it_was(file: CodexFile, pack: Callable[[bytes], bytes]) -> None:
    plain = CodexLog(file.path)
    plain.read()
    key, mirror = session_key("codex", file.path), mirror_id("codex", file.path)
    path = _packed(file, pack(file.path.read_bytes()))
    packed = CodexLog(path)
    packed.read()
    assert packed.steps() and [step.key for step in packed.steps()] == [step.key for step in plain.steps()]
    assert (packed.file.end, packed.file.fingerprint) == (plain.file.end, plain.file.fingerprint)
    assert (session_key("codex", path), mirror_id("codex", path)) == (key, mirror)
    assert (packed.title, packed.workspace, packed.updated_at) == (plain.title, plain.workspace, plain.updated_at)
    assert list(look("codex", file.folder).files) == [str(path)]
    assert recognised(path) == "codex"


def test_a_file_that_is_being_packed_is_listed_once(file: CodexFile) -> None:
    file.path.with_name(f"{file.path.name}.zst").write_bytes(zstd.compress(file.path.read_bytes())[:-9])
    assert list(look("codex", file.folder).files) == [str(file.path)]


def _wide(data: bytes) -> bytes:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27, **FACTS}
    packer = zstd.ZstdCompressor(options=options)
    return packer.compress(data) + packer.flush()


DAMAGE: Final[dict[str, tuple[Callable[[bytes], bytes], str]]] = {
    "cut short": (lambda data: zstd.compress(data)[:-20], "ends in the middle"),
    "cut within the first frame's head": (lambda data: zstd.compress(data)[:5], "ends in the middle"),
    "the second frame is cut short": (lambda data: _in_frames(data)[:-20], "ends in the middle"),
    "other bytes behind it": (lambda data: zstd.compress(data) + b"more of it", "cannot be unpacked"),
    "no packed file": (lambda data: data, "cannot be unpacked"),
    "a bit is wrong": (
        lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})[:-1] + b"\0",
        "cannot be unpacked",
    ),
    "it asks for too much memory": (_wide, "cannot be unpacked"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_told_and_the_next_one_is_read(file: CodexFile, name: str) -> None:
    damage, said = DAMAGE[name]
    data = file.path.read_bytes()
    path = _packed(file, damage(data))
    with pytest.raises(CorruptedError, match=said):
        CodexLog(path).read()
    path.write_bytes(zstd.compress(data))
    log = CodexLog(path)
    log.read()
    assert log.steps()


def test_a_bomb_is_not_unpacked(file: CodexFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "MOST_UNPACKED", 10 << 20)
    path = _packed(file, zstd.compress(bytes(64 << 20)))
    assert path.stat().st_size < 10_000
    with pytest.raises(TooLargeError, match="more than 10485760 bytes"):
        CodexLog(path).read()


def test_an_empty_file_says_nothing(file: CodexFile) -> None:
    log = CodexLog(_packed(file, b""))
    log.read()
    assert not log.steps()


def test_without_the_library_it_is_said_how_to_get_it(file: CodexFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _packed(file, zstd.compress(file.path.read_bytes()))
    monkeypatch.setattr(packed_files, "part", lambda _: None)
    with pytest.raises(StorageFailureError, match=r"timeleap\[zstd\]"):
        recognised(path)
    found = look("codex", file.folder)
    assert not found.files
    assert found.problems == ["1 sessions are packed (.zst) and not read: pip install 'timeleap[zstd]'"]


def test_no_more_than_a_few_files_stay_unpacked(tmp_path: Path) -> None:
    paths = [tmp_path / f"rollout-{number}.jsonl.zst" for number in range(3 * packed_files.HELD)]
    for number, path in enumerate(paths):
        path.write_bytes(zstd.compress(b"%d" % number * 1000))
    for _ in range(2):
        for number, path in enumerate(paths):
            assert packed_files.file_at(path).pread(0, 1 << 20) == b"%d" % number * 1000
    assert len(packed_files._held) <= packed_files.HELD


def test_what_is_kept_goes_on_when_the_file_is_packed(file: CodexFile, tmp_path: Path) -> None:
    directory = tmp_path / "mirror"
    directory.mkdir()
    data = file.path.read_bytes()
    kept = KeptFile(directory, durable=False)
    kept.keep(file.path)
    path = _packed(file, zstd.compress(data))
    kept.keep(path)
    (generation,) = read_notes(directory)
    assert generation.ended is None
    assert generation.path == str(file.path)
    assert b"".join(packing.blocks(directory, generation)) == data


def test_a_link_to_a_packed_file_is_not_followed(file: CodexFile) -> None:
    path = _packed(file, zstd.compress(file.path.read_bytes()))
    link = path.with_name("rollout-link.jsonl.zst")
    os.symlink(path, link)
    with pytest.raises(TimeleapError):
        CodexLog(link).read()
