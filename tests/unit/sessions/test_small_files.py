"""Small files beside a log: lines, locks, leftovers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from timeleap.errors import StorageFailureError
from timeleap.sessions import files, lines
from timeleap.sessions.audit import Audit
from timeleap.sessions.outcomes import Cause
from timeleap.storage.durable import OpenFile


def test_lines_are_appended_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines.append(path, [{"a": "ü\u2028"}])
    lines.append(path, [{"b": 1}, {"c": 2}])
    assert lines.read(path) == [{"a": "ü\u2028"}, {"b": 1}, {"c": 2}]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"tor')
    lines.append(path, [{"b": 1}])
    assert lines.read(path) == [{"a": 1}, {"b": 1}]


def test_a_write_that_fails_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    lines.append(path, [{"a": 1}])
    before = path.read_bytes()

    def fail(_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(OpenFile, "sync", fail)
    with pytest.raises(OSError, match="Input/output"):
        lines.append(path, [{"b": 1}])
    assert path.read_bytes() == before


def test_what_cannot_be_read_has_no_lines(tmp_path: Path) -> None:
    assert lines.read(tmp_path / "missing") == []
    os.mkfifo(tmp_path / "fifo")
    assert lines.read(tmp_path / "fifo") == []


def test_an_audit_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(StorageFailureError):
        Audit(tmp_path).record(Cause(), "yolo", False, True)


def test_one_process_at_a_time_holds_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys; from pathlib import Path; from timeleap.sessions import files\n"
        "with files.locked(Path(sys.argv[1])):\n print('held', flush=True); sys.stdin.readline()"
    )
    path = tmp_path / "lock"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "held\n"
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.05)
    with pytest.raises(TimeoutError), files.locked(path):
        raise AssertionError
    child.communicate("\n")
    with files.locked(path):
        assert path.exists()


def test_documents_come_back_as_they_were(tmp_path: Path) -> None:
    document = {"a": "ü", "b": [1, 2.5, None], "c": "\ud800"}
    files.write_document(tmp_path / "x.json", document)
    assert files.read_document(tmp_path / "x.json").members == document
    files.write_document(tmp_path / "x.json", {"a": "ü"})
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == json.dumps({"a": "ü"}, indent=2, ensure_ascii=False)
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_a_document_that_cannot_be_written_or_moved_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailureError):
        files.write_document(tmp_path / "missing" / "x.json", {})
    with pytest.raises(StorageFailureError):
        files.move_aside(tmp_path / "missing.json")
