"""Reading a file of Codex as it grows: what its import reads, as it is written, and what cannot be read is passed over."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.codex_file import CodexFile, message
from tests.unit.agents.mirrors.reading import losses, messages, records, texts
from tests.unit.features.transfer.arrivals import arrived

from timeleap.errors import StorageFailureError
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.folders import look
from timeleap_agents.mirrors.growing_file import FileReplacedError
from timeleap_agents.mirrors.steps import Step


@pytest.fixture
def file(tmp_path: Path) -> CodexFile:
    """A session of one turn."""
    made = CodexFile(tmp_path / "sessions")
    made.turn(1)
    return made


@pytest.fixture
def log(file: CodexFile) -> CodexLog:
    """The same, read."""
    made = CodexLog(file.path)
    made.read()
    return made


def said_in(log: CodexLog, steps: Sequence[Step]) -> list[Any]:
    return [each["content"] for each in messages(log, steps)]


TURN = ["question 1", "answer 1"]
TURN3 = ["question 3", "answer 3"]


def test_what_is_added_is_read_and_nothing_twice(file: CodexFile, log: CodexLog) -> None:
    assert texts(log) == TURN
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert texts(log) == [*TURN, "question 2", "answer 2"]


def test_a_line_waits_at_every_byte_until_its_record_is_whole(file: CodexFile, log: CodexLog) -> None:
    for byte in file.line_of("response_item", message("user", "grüße"))[:-2]:
        file.write_bytes(bytes([byte]))
        log.read()
        assert len(log.steps()) == 3
    file.write_bytes(b"}")
    assert texts(log) == [*TURN, "grüße"]
    file.write_bytes(b"\n")
    assert texts(log) == [*TURN, "grüße"]
    assert losses(log) == []


def test_each_line_is_what_the_import_makes_of_it(tmp_path: Path, file: CodexFile, log: CodexLog) -> None:
    file.asks("<environment_context>x</environment_context>")
    file.calls("call-1")
    file.event("token_count", info={"last_token_usage": {"total_tokens": 1200}})
    file.gets("call-1", "done")
    file.asks("question 2")
    came = arrived(tmp_path, *map(json.loads, file.path.read_text().splitlines()))
    assert [(record["role"], record.get("content")) for record in records(log)] == [
        (record["role"], record.get("content")) for record in came.records()
    ]


def test_the_folder_is_in_the_first_line_and_titles_are_elsewhere(file: CodexFile, log: CodexLog) -> None:
    start = CodexLog(file.path)
    start.read_start()
    assert (start.workspace, start.session_id, start.steps()) == ("file:///shop", file.session_id, [])
    assert (log.title, log.version) == (None, (0, 169, 0))


def test_a_session_in_which_nothing_is_said_is_none_yet(tmp_path: Path) -> None:
    log = CodexLog(CodexFile(tmp_path).path)
    log.read()
    assert log.steps() == []


def test_turns_that_are_taken_back_go_and_are_an_earlier_conversation(file: CodexFile, log: CodexLog) -> None:
    file.turn(2)
    file.turn(3)
    file.event("thread_rolled_back", num_turns=2)
    file.turn(4)
    before = log.steps()
    assert texts(log) == [*TURN, "question 4", "answer 4"]
    assert log.steps()[: len(before)] == before
    assert [len(each.steps) for each in log.earlier()] == [7]


def test_what_a_compaction_replaced_is_there_again_when_that_is_taken_back(file: CodexFile, log: CodexLog) -> None:
    history = [message("user", "question 0"), message("assistant", "in short"), message("user", "go on")]
    file.write("compacted", {"message": "", "replacement_history": history})
    file.says("answer")
    assert texts(log) == ["question 0", "in short", "go on", "answer"]
    file.asks("question 2")
    file.event("thread_rolled_back", num_turns=1)
    assert texts(log) == ["question 0", "in short", "go on", "answer"]
    file.turn(3)
    file.event("thread_rolled_back", num_turns=2)
    assert texts(log) == []
    said = [said_in(log, each.steps) for each in log.earlier()]
    assert said[1:] == [["question 0", "in short", "go on", "answer", *more] for more in (["question 2"], TURN3)]


def test_a_summary_alone_stands_behind_the_prompts_and_is_none(file: CodexFile, log: CodexLog) -> None:
    file.write("compacted", {"message": "In short."})
    assert [record["role"] for record in records(log)] == ["_system_prompt", "_checkpoint", "user", "user"]
    assert texts(log) == ["question 1", "In short."]
    file.turn(2)
    file.event("thread_rolled_back", num_turns=2)
    assert texts(log) == []


def test_more_was_left_than_becomes_timelines(monkeypatch: pytest.MonkeyPatch, file: CodexFile) -> None:
    monkeypatch.setattr("timeleap_agents.mirrors.codex_thread.MAX_BRANCHES", 2)
    log = CodexLog(file.path)
    for number in range(4):
        file.turn(number)
        file.event("thread_rolled_back", num_turns=1)
    log.read()
    assert len(log.earlier()) == 2


def test_a_fork_repeats_facts_of_what_it_was_forked_from(file: CodexFile, log: CodexLog) -> None:
    file.begin(id="parent", cwd="/elsewhere", cli_version="9.9.9", base_instructions={"text": "Of the parent."})
    assert texts(log) == TURN
    assert (log.session_id, log.workspace, log.version) == (file.session_id, "file:///shop", (0, 169, 0))


BAD_LINES = {
    "a torn line that another writer goes on behind": (b'{"type": "response_it\n', "1 lines are no JSON objects"),
    "a run of NULs": (bytes(100_000) + b"\n", "1 lines are no JSON objects"),
    "no text": (b"\xff\xfe\xfd\n", "1 lines are no JSON objects"),
    "deep nesting": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "1 lines are no JSON objects"),
    "a kind that is not known": (b'{"type": "dream", "payload": {}}\n', "1 records of the type dream are not known"),
    "a record without a type": (b"{}\n", "1 records are of no known kind"),
    "an item that is not known": (b'{"type": "response_item", "payload": {"type": "dream"}}\n', "1 items of the type dream have no place in a session"),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "loss"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_what_cannot_be_read_is_counted_and_passed_over(file: CodexFile, log: CodexLog, bad: bytes, loss: str) -> None:
    file.write_bytes(bad)
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert losses(log) == [loss]


BAD_PAYLOADS: list[tuple[str, Any]] = [
    ("session_meta", {"id": [], "cwd": 5, "cli_version": "9" * 100, "timestamp": {}}),
    ("response_item", {"type": "message", "role": "user", "content": [None, 5, {}, {"type": 5}]}),
    ("response_item", {"type": "message", "role": [], "content": 5}),
    ("response_item", {"type": "summary", "text": 5}),
    ("response_item", {"type": "function_call_output", "output": {"content": 5}}),
    ("event_msg", {"type": "token_count", "info": {"last_token_usage": {"total_tokens": "many"}}}),
    ("event_msg", {"type": "thread_rolled_back", "num_turns": True}),
    ("event_msg", {"type": "thread_rolled_back", "num_turns": 1 << 70}),
    ("compacted", {"replacement_history": [None, 5, {}]}),
    ("compacted", {"message": 5}),
]


@pytest.mark.parametrize(("kind", "payload"), BAD_PAYLOADS, ids=str)
def test_members_of_any_form_fail_nothing(file: CodexFile, log: CodexLog, kind: str, payload: Any) -> None:
    file.write(kind, payload)
    file.turn(2)
    assert texts(log)[-2:] == ["question 2", "answer 2"]


def test_a_message_of_32_mib_and_halves_of_surrogate_pairs_are_read(file: CodexFile, log: CodexLog) -> None:
    file.says("x" * (31 << 20))
    file.asks("half \ud83d of a pair")
    long, half = texts(log)[2:]
    assert (len(long), half) == (31 << 20, "half ? of a pair")


CHANGES = {
    "shorter": lambda data: data[:-10],
    "another end": lambda data: data[:-5] + b"xxxx\n",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_is_not_what_was_read_is_said_to_be_another(file: CodexFile, log: CodexLog, change: Any) -> None:
    file.path.write_bytes(change(file.path.read_bytes()))
    with pytest.raises(FileReplacedError):
        log.read()


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path, file: CodexFile) -> None:
    fifo, link = tmp_path / "fifo.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(fifo)
    link.symlink_to(file.path)
    for path in (fifo, link, tmp_path):
        with pytest.raises(StorageFailureError):
            CodexLog(path).read()


def test_only_rollouts_of_the_days_folders_are_found(file: CodexFile) -> None:
    day = file.path.parent
    for other in (day / "notes.jsonl", day / "rollout-x.json"):
        other.write_bytes(b"")
    (day / "deeper").mkdir()
    (day / "deeper" / "rollout-x.jsonl").write_bytes(b"")
    found = look("codex", file.folder)
    assert list(found.files) == [str(file.path)]
    assert found.problems == []
