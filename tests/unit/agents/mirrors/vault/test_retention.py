"""How much is kept, and of which nothing is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from timeleap_agents.mirrors.vault.kept_file import KeptFile
from timeleap_agents.mirrors.vault.notes import read_notes
from timeleap_agents.mirrors.vault.retention import enforce, is_excluded, remove_all

BODY = os.urandom(2000)


def mirror(home: Path, name: str, *, generations: int, gone: bool) -> Path:
    """A mirror with generations that have ended, of a file that is there or gone."""
    directory, file = home / "sessions" / name, home / f"{name}.jsonl"
    directory.mkdir(parents=True)
    source = {"kind": "claude-code", "key": name, "path": str(file)}
    (directory / "timeleap.json").write_text(json.dumps({"version": 1, "source": source}))
    kept = KeptFile(directory)
    for number in range(generations):
        file.write_bytes(bytes([number]) + BODY)
        kept.keep(file)
    if gone:
        file.unlink()
        kept.end("gone")
    kept.pack()
    return directory


def left(directory: Path) -> list[int]:
    return [each.number for each in read_notes(directory)]


def test_what_can_be_had_again_goes_first_and_the_last_of_what_is_gone_last(tmp_path: Path) -> None:
    there, gone = (
        mirror(tmp_path, "there", generations=3, gone=False),
        mirror(tmp_path, "gone", generations=2, gone=True),
    )
    assert enforce(tmp_path, 100_000) == []
    assert [(each.session_id, each.number) for each in enforce(tmp_path, 8000)] == [("there", 1), ("there", 2)]
    assert (left(there), left(gone)) == ([3], [1, 2])
    assert [(each.number, each.was_last) for each in enforce(tmp_path, 5000)] == [(1, False)]
    assert [(each.number, each.was_last) for each in enforce(tmp_path, 3000)] == [(2, True)]
    assert enforce(tmp_path, 0) == [], "the copy of a file that is there grows on"
    assert left(there) == [3]


def test_nothing_is_left_of_what_is_kept_no_more(tmp_path: Path) -> None:
    directory = mirror(tmp_path, "there", generations=2, gone=False)
    remove_all(directory)
    assert sorted(os.listdir(directory)) == ["timeleap.json"]


def test_a_folder_of_the_users_home_is_written_with_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert is_excluded(Path("/p/1.jsonl"), "/home/ada/secret/part", ["~/secret"])
    assert not is_excluded(Path("/p/1.jsonl"), "/home/ada/secrets", ["~/secret"])


@pytest.mark.parametrize(
    ("pattern", "excluded"),
    [
        ("/home/ada/secret", True),
        ("/home/ada/secret/", True),
        ("/home/ada", True),
        ("/home/ada/sec", False),
        ("*/-home-ada-*.jsonl", True),
        ("*secret*", True),
        ("/elsewhere", False),
    ],
)
def test_a_folder_or_a_pattern_excludes(pattern: str, excluded: bool) -> None:
    file = Path("/p/projects/-home-ada-secret/1.jsonl")
    assert is_excluded(file, "/home/ada/secret", [pattern]) is excluded
