"""Small files beside a log: lines, locks, leftovers."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.sessions.documents import audit as audit_file
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.shapes import Cause
from timeleap.storage import lock
from timeleap.storage.durable import OpenFile


def test_lines_are_appended_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    files.append_lines(path, [{"a": "ü\u2028"}])
    files.append_lines(path, [{"b": 1}, {"c": 2}])
    assert files.read_lines(path).documents == [{"a": "ü\u2028"}, {"b": 1}, {"c": 2}]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"tor')
    files.append_lines(path, [{"b": 1}])
    assert files.read_lines(path).documents == [{"a": 1}, {"b": 1}]


def test_a_write_that_fails_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    files.append_lines(path, [{"a": 1}])
    before = path.read_bytes()

    def fail(_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(OpenFile, "sync", fail)
    with pytest.raises(OSError, match="Input/output"):
        files.append_lines(path, [{"b": 1}])
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["timeleap.json", "state.json", "requests.jsonl"])
def test_a_file_that_cannot_be_read_now_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    path.write_text('{"uid":"u"}\n')
    read = OpenFile.pread

    def fail(file: OpenFile, offset: int, size: int) -> bytes:
        if file.path == path:
            raise OSError(5, "Input/output error")
        return read(file, offset, size)

    monkeypatch.setattr(OpenFile, "pread", fail)
    replacing: dict[str, Callable[[], object]] = {
        "timeleap.json": lambda: Meta(tmp_path, "owner").write({"title": "t"}),
        "state.json": lambda: StateFile(tmp_path).write({"custom_title": "t"}),
        "requests.jsonl": lambda: files.move_aside(path),
    }
    with pytest.raises(StorageFailureError, match="is not replaced"):
        replacing[name]()
    assert path.read_text() == '{"uid":"u"}\n'
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_what_cannot_be_read_has_no_lines(tmp_path: Path) -> None:
    assert files.read_lines(tmp_path / "missing").documents == []
    os.mkfifo(tmp_path / "fifo")
    assert files.read_lines(tmp_path / "fifo").documents == []


def test_an_audit_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailureError):
        Audit(tmp_path / "gone").record(Cause(), "yolo", False, True)


def test_an_audit_that_grows_too_large_keeps_its_newest_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "MAX_BYTES", 20_000)
    monkeypatch.setattr(audit_file, "KEPT_BYTES", 10_000)
    audit = Audit(tmp_path)
    questions = [
        audit_file.entry(Cause(), audit_file.FIELD, None, "pending", approvalId=f"a{number:016x}", action="run")
        for number in range(3)
    ]
    end = audit_file.entry(Cause(), audit_file.FIELD, "pending", "approve", approvalId=f"a{1:016x}", action="run")
    audit.append([*questions, end])
    sizes: list[int] = []
    for number in range(1000):
        if number == 500:
            audit.path.write_bytes(audit.path.read_bytes() + b"no json }\n")
        audit.record(Cause("r", "c"), f"autoApprove:{number}", False, True)
        sizes.append(audit.path.stat().st_size)
        if number == 501:
            assert b"no json }\n" in audit.path.read_bytes()
    assert max(sizes) <= 20_000 and sum(one < before for before, one in itertools.pairwise(sizes)) > 5
    found = audit.read().documents
    assert found[:2] == [questions[0], questions[2]]  # what is open, once
    numbers = [int(one["field"].partition(":")[2]) for one in found[2:]]
    assert numbers == list(range(numbers[0], 1000)) and len(numbers) > 80
    assert sorted(one.name for one in tmp_path.iterdir()) == ["audit.jsonl"]
    audit.append([{**end, "approvalId": one["approvalId"]} for one in (questions[0], questions[2])])
    for number in range(300):
        audit.record(Cause("r", "c"), f"autoApprove:{number}", False, True)
    assert not [one for one in audit.read().documents if one["field"] == audit_file.FIELD]


def test_an_audit_that_cannot_be_cut_is_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(audit_file, "MAX_BYTES", 100)
    monkeypatch.setattr(audit_file, "atomic_write", fail)
    for number in range(5):
        Audit(tmp_path).record(Cause(), str(number), False, True)
    assert [one["field"] for one in Audit(tmp_path).read().documents] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("name", ["state.json", "timeleap.json", "requests.jsonl"])
def test_of_a_file_that_is_damaged_again_and_again_the_newest_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    others = [
        f"{path.stem}.damaged-1{path.suffix}",
        f"other.damaged-1780000000-ab12{path.suffix}",
        f"{name}.damaged-1780000000-ab12",
    ]
    for other in others:
        (tmp_path / other).write_text("not ours")
    time = 1_780_000_000.0
    for number in range(15):
        monkeypatch.setattr(clock, "now", lambda number=number: time + number // 2)
        path.write_text(str(number))
        os.utime(path, (number, number))  # as a clock of file times without ticks would have it
        files.move_aside(path)
        path.unlink(missing_ok=True)
    kept = [one for one in tmp_path.iterdir() if one.name not in others]
    assert sorted(int(one.read_text()) for one in kept) == list(range(15 - files.MAX_KEPT_ASIDE, 15))
    monkeypatch.setattr(clock, "now", lambda: time - 1000)  # the clock was set back
    path.write_text("the newest")
    assert files.move_aside(path).read_text() == "the newest"
    assert len([*tmp_path.iterdir()]) == len(others) + files.MAX_KEPT_ASIDE + (
        name in [one.name for one in tmp_path.iterdir()]
    )
    assert all((tmp_path / other).read_text() == "not ours" for other in others)


def test_one_process_at_a_time_holds_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys; from pathlib import Path; from timeleap.storage import lock\n"
        "with lock.locked(Path(sys.argv[1])):\n print('held', flush=True); sys.stdin.readline()"
    )
    path = tmp_path / "file.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "held\n"
    monkeypatch.setattr(lock, "LOCK_SECONDS", 0.05)
    with pytest.raises(TimeoutError), lock.locked(path):
        raise AssertionError
    child.communicate("\n")
    with lock.locked(path):
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
