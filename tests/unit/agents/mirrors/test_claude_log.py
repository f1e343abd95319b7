"""Reading a file of Claude Code as it grows: what is whole is read once, what cannot be read is passed over."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.unit.agents.mirrors.reading import losses, messages

from timeleap.errors import StorageFailureError
from timeleap.storage.log_values import LogState
from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.folders import MAX_FILES, FolderNotes, look
from timeleap_agents.mirrors.growing_file import FileReplacedError
from timeleap_agents.mirrors.record_list import RecordList


@pytest.fixture
def file(tmp_path: Path) -> ClaudeFile:
    """A session of one turn."""
    made = ClaudeFile(tmp_path / "projects")
    made.turn(1)
    return made


@pytest.fixture
def log(file: ClaudeFile) -> ClaudeLog:
    """The same, read."""
    made = ClaudeLog(file.path)
    made.read()
    return made


def texts(log: ClaudeLog) -> list[Any]:
    log.read()
    return [message["content"] for message in messages(log)]


TURN = ["question 1", "answer 1"]


def test_what_is_added_is_read_and_nothing_twice(file: ClaudeFile, log: ClaudeLog) -> None:
    assert texts(log) == TURN
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert texts(log) == [*TURN, "question 2", "answer 2"]


def test_a_line_waits_at_every_byte_until_its_record_is_whole(file: ClaudeFile, log: ClaudeLog) -> None:
    line = json.dumps(file.record("user", message={"role": "user", "content": "grüße"}), ensure_ascii=False).encode()
    for byte in line[:-1]:
        file.write_bytes(bytes([byte]))
        log.read()
        assert len(log.steps()) == 2
    file.write_bytes(line[-1:])
    assert texts(log)[2:] == ["grüße"]
    file.write_bytes(b"\n")
    assert texts(log) == [*TURN, "grüße"]
    assert losses(log) == []


BAD_LINES = {
    "a torn line that another writer goes on behind": (b'{"type": "user", "mess\n', "1 lines are no JSON objects"),
    "a run of NULs": (bytes(100_000) + b"\n", "1 lines are no JSON objects"),
    "a number": (b"1\n", "1 lines are no JSON objects"),
    "no text": (b"\xff\xfe\xfd\n", "1 lines are no JSON objects"),
    "deep nesting": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "1 lines are no JSON objects"),
    "a kind that is not known": (b'{"type": "dream"}\n', "1 records of the type dream are none of the conversation"),
    "a record without a type": (b"{}\n", "1 records of the type None are none of the conversation"),
}


@pytest.mark.parametrize(("bad", "loss"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_what_cannot_be_read_is_counted_and_passed_over(
    file: ClaudeFile, log: ClaudeLog, bad: bytes, loss: str
) -> None:
    file.write_bytes(bad)
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert losses(log) == [loss]


BAD_MEMBERS: list[dict[str, Any]] = [
    {"message": None},
    {"message": 5},
    {"message": {"content": None}},
    {"message": {"content": [None, 5, {}, {"type": 5}, {"type": "tool_result"}]}},
    {"timestamp": 5, "cwd": [], "version": "2.x", "sessionId": 7},
    {"version": "9" * 100},
    {"parentUuid": 5},
]


@pytest.mark.parametrize("members", BAD_MEMBERS, ids=str)
def test_members_of_any_form_fail_nothing(file: ClaudeFile, log: ClaudeLog, members: dict[str, Any]) -> None:
    record = file.record("user", message={"role": "user", "content": "x"})
    file.write({**record, **members})
    log.read()
    messages(log)


def test_a_message_of_32_mib_and_halves_of_surrogate_pairs_are_read(file: ClaudeFile, log: ClaudeLog) -> None:
    file.says("x" * (31 << 20))
    file.asks("half \ud83d of a pair")
    long, half = texts(log)[2:]
    assert (len(long), half) == (31 << 20, "half ? of a pair")


def test_results_of_calls_at_once_leave_the_conversation_as_it_is(file: ClaudeFile, log: ClaudeLog) -> None:
    first = file.calls("call-1")
    second = file.calls("call-2")
    seen = [texts(log)]
    for call, parent in (("call-1", first), ("call-2", second)):
        file.gets(call, f"result of {call}", parentUuid=parent)
        seen.append(texts(log))
    file.says("both done")
    seen.append(texts(log))
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(seen))
    assert seen[-1][-3:] == ["result of call-1", "result of call-2", "both done"]


def test_two_writers_of_one_file_are_two_branches(file: ClaudeFile, log: ClaudeLog) -> None:
    end = file.last
    file.asks("of one", parentUuid=end)
    assert texts(log) == [*TURN, "of one"]
    file.asks("of the other", parentUuid=end)
    assert texts(log) == [*TURN, "of the other"]


def test_a_sub_agents_session_is_gone_on_with_as_a_session_of_its_own(file: ClaudeFile) -> None:
    agent = ClaudeFile(file.folder, name="agent-1")
    agent.path = file.path.with_suffix("") / "subagents" / "workflows" / "wf_1" / "agent-1.jsonl"
    agent.path.parent.mkdir(parents=True)
    agent.asks("look into it", isSidechain=True, agentId="1")
    agent.says("I looked", isSidechain=True, agentId="1")
    log = ClaudeLog(agent.path)
    log.read()
    made = log.continuation(log.steps())
    assert made.path.parent == file.path.parent, "the program looks for it nowhere else"
    assert [(each["isSidechain"], "agentId" in each) for each in made.records] == [(False, False)] * 2


def test_what_the_program_says_in_the_persons_name_has_no_checkpoint(file: ClaudeFile, log: ClaudeLog) -> None:
    file.asks("a reminder", isMeta=True)
    file.calls("call-1")
    file.gets("call-1", "done")
    log.read()
    records = RecordList(log.file.left_out, LogState())
    list(log.write(log.steps(), records))
    assert [made.label for made in records.made] == ["question 1"]


BY_NO_PERSON: dict[str, dict[str, Any]] = {
    "a session told by its mark": {"text": "said by another session", "origin": {"kind": "peer", "from": "x"}},
    "a channel": {"text": '<channel source="x">y</channel>', "origin": {"kind": "channel", "server": "x"}},
    "an origin that is not known": {"text": "x", "origin": {"kind": "unclassified"}},
    **{f"<{tag}>": {"text": f'<{tag} from="x">\ny\n</{tag}>'} for tag in (
        "cross-session-message", "artifact-room-event", "task_notification", "tick", "repl-output", "fork-boilerplate",
    )},
}  # fmt: skip


@pytest.mark.parametrize("said", BY_NO_PERSON.values(), ids=BY_NO_PERSON.keys())
def test_what_other_sessions_and_services_say_is_no_prompt(tmp_path: Path, said: dict[str, Any]) -> None:
    file = ClaudeFile(tmp_path / "projects")
    file.asks(**said)
    file.turn(1)
    log = ClaudeLog(file.path)
    log.read()
    records = RecordList(log.file.left_out, LogState())
    list(log.write(log.steps(), records))
    assert [made.label for made in records.made] == ["question 1"]
    assert log.first_prompt == "question 1"
    assert texts(log)[0] == said["text"]


CHANGES = {
    "shorter": lambda data: data[:-10],
    "another end": lambda data: data[:-5] + b"xxxx\n",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_is_not_what_was_read_is_said_to_be_another(file: ClaudeFile, log: ClaudeLog, change: Any) -> None:
    file.path.write_bytes(change(file.path.read_bytes()))
    with pytest.raises(FileReplacedError):
        log.read()


def test_a_fingerprint_tells_whether_the_beginning_is_the_same(file: ClaudeFile, log: ClaudeLog) -> None:
    end, fingerprint = log.file.end, log.file.fingerprint
    file.turn(2)
    log.read()
    assert log.file.begins_with(end, fingerprint)
    assert not log.file.begins_with(end, "0" * 32)
    assert not log.file.begins_with(log.file.end + 1, fingerprint)
    assert not log.file.begins_with(-1, fingerprint)


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path, file: ClaudeFile) -> None:
    fifo, link = tmp_path / "fifo.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(fifo)
    link.symlink_to(file.path)
    for path in (fifo, link, tmp_path):
        with pytest.raises(StorageFailureError):
            ClaudeLog(path).read()


def test_only_ordinary_files_of_sessions_are_found(tmp_path: Path, file: ClaudeFile) -> None:
    os.mkfifo(file.path.with_name("fifo.jsonl"))
    file.path.with_name("notes.txt").write_bytes(b"")
    (file.path.parent / "deeper").mkdir()
    (file.path.parent / "deeper" / "x.jsonl").write_bytes(b"")
    found = look("claude-code", file.folder)
    assert (list(found.files), found.problems) == ([str(file.path)], [])
    assert len(found.files) < MAX_FILES


def test_more_files_than_are_followed_are_said(monkeypatch: pytest.MonkeyPatch, file: ClaudeFile) -> None:
    ClaudeFile(file.folder, "/other").turn(1)
    monkeypatch.setattr("timeleap_agents.mirrors.folders.MAX_FILES", 1)
    found = look("claude-code", file.folder)
    assert (len(found.files), found.problems) == (1, ["there are more than 1 files: the others are left out"])


NOTES = [b"", b"{", b"[]", b'{"files": 5}', b'{"files": {"x": 5}}', b'{"files": {"x": [1, 2]}}', b"[" * 100_000]


@pytest.mark.parametrize("damaged", NOTES)
def test_damaged_notes_are_none(tmp_path: Path, file: ClaudeFile, damaged: bytes) -> None:
    notes = FolderNotes(tmp_path / "home", "claude-code", file.folder)
    files = look("claude-code", file.folder).files
    (tmp_path / "home").mkdir()
    notes.write(files)
    assert notes.read() == files
    (path,) = (tmp_path / "home" / "mirrors").iterdir()
    path.write_bytes(damaged)
    assert notes.read() == {}
