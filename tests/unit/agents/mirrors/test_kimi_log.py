"""Reading the log of kimi-cli as it grows: what it says, what stands beside it, and what cannot be read is passed over."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.kimi_code_file import KimiCodeFile
from tests.support.kimi_file import KimiFile
from tests.unit.agents.mirrors.reading import losses, records, texts

from timeleap import clock
from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.features.transfer.importing import take_in
from timeleap.sessions.transaction import NOBODY
from timeleap.storage.log_values import LogState
from timeleap_agents.mirrors.folders import is_subagent, look, mirror_id, parent_of, session_key
from timeleap_agents.mirrors.growing_file import FileReplacedError
from timeleap_agents.mirrors.kimi_log import KimiLog
from timeleap_agents.mirrors.record_list import RecordList

TURN = ["question 1", "answer 1"]


@pytest.fixture
def file(tmp_path: Path) -> KimiFile:
    """A session of one turn."""
    made = KimiFile(tmp_path / "share")
    made.turn(1)
    return made


@pytest.fixture
def log(file: KimiFile) -> KimiLog:
    """The same, read."""
    made = KimiLog(file.path)
    made.read()
    return made


def labels(log: KimiLog) -> list[Any]:
    return [record["_tl"]["l"] for record in records(log) if record["role"] == "_checkpoint"]


def test_what_is_added_is_read_and_nothing_twice(file: KimiFile, log: KimiLog) -> None:
    assert texts(log) == TURN
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert texts(log) == [*TURN, "question 2", "answer 2"]


def test_a_line_waits_at_every_byte_until_its_record_is_whole(file: KimiFile, log: KimiLog) -> None:
    for byte in file.line({"role": "user", "content": "grüße"})[:-2]:
        file.write_bytes(bytes([byte]))
        assert texts(log) == TURN
    file.write_bytes(b"}")
    assert texts(log) == [*TURN, "grüße"]
    file.write_bytes(b"\n")
    assert texts(log) == [*TURN, "grüße"]
    assert losses(log) == []


def test_prompt_usage_calls_and_results_are_as_they_were(file: KimiFile, log: KimiLog) -> None:
    file.calls("call-1")
    file.gets("call-1", "done")
    prompt, checkpoint, asked, said, usage, called, got = records(log)
    assert prompt == {"role": "_system_prompt", "content": "You are Kimi."}
    assert (checkpoint["_tl"]["l"], asked, said["content"]) == (
        "question 1",
        {"role": "user", "content": "question 1"},
        "answer 1",
    )
    assert (usage, called["tool_calls"][0]["id"]) == ({"role": "_usage", "token_count": 14}, "call-1")
    assert got == {"role": "tool", "content": "done", "tool_call_id": "call-1"}


SAID_BY_THE_PROGRAM = (
    "<system>CHECKPOINT 3</system>",
    "<system-reminder>\nx\n</system-reminder>",
    '<notification id="1" category="task">x</notification>',
    '<imported_context source="session x">\nx\n</imported_context>',
    "<uploaded_files>\n1. /x\n</uploaded_files>",
)


@pytest.mark.parametrize("text", SAID_BY_THE_PROGRAM)
def test_what_the_program_says_in_the_persons_name_has_no_checkpoint(file: KimiFile, log: KimiLog, text: str) -> None:
    file.asks(text)
    file.asks([{"type": "text", "text": text}])
    file.asks([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,"}}])
    assert labels(log) == ["question 1", "look"]
    assert len(texts(log)) == 5


def test_title_folder_and_version_stand_beside_it(file: KimiFile, log: KimiLog) -> None:
    assert (log.title, log.workspace, log.version, log.session_id) == (None, "file:///shop", (1, 10), file.session_id)
    file.notes("state.json", {"custom_title": "About \ud83d shares"})
    log.read()
    assert log.title == "About ? shares"
    start = KimiLog(file.path)
    start.read_start()
    assert (start.workspace, start.steps()) == ("file:///shop", [])


NOTES: list[Any] = [
    [],
    5,
    {"custom_title": 5},
    {"custom_title": " "},
    {"work_dirs": 5},
    {"work_dirs": [5, {"path": 5}, {}]},
    {"work_dirs": [{"path": "\ud800"}]},
]


@pytest.mark.parametrize("notes", NOTES, ids=str)
def test_notes_of_any_form_fail_nothing(file: KimiFile, notes: Any) -> None:
    file.notes("state.json", notes)
    file.notes("wire.jsonl", notes)
    (file.folder.parent / "kimi.json").write_text(json.dumps(notes))
    log = KimiLog(file.path)
    assert texts(log) == TURN
    assert (log.title, log.workspace, log.version) == (None, None, (0,))


def test_notes_that_are_links_fifos_or_too_long_are_not_read(file: KimiFile, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text('{"custom_title": "stolen"}')
    (file.path.parent / "state.json").symlink_to(tmp_path / "elsewhere.json")
    (file.path.parent / "wire.jsonl").unlink()
    os.mkfifo(file.path.parent / "wire.jsonl")
    known = file.folder.parent / "kimi.json"
    known.write_bytes(known.read_bytes() + b" " * (4 << 20))
    log = KimiLog(file.path)
    assert texts(log) == TURN
    assert (log.title, log.workspace, log.version) == (None, None, (0,))


def test_what_is_said_before_it_went_back_is_known_by_its_keys(file: KimiFile, log: KimiLog) -> None:
    file.turn(2)
    log.read()
    before = log.steps()
    file.goes_back(2)
    with pytest.raises(FileReplacedError):
        log.read()
    again = KimiLog(file.path)
    file.turn(7)
    assert texts(again) == [*TURN, "question 7", "answer 7"]
    common = [old.key == new.key for old, new in zip(before, again.steps(), strict=True)]
    assert common == [True] * 4 + [False] * 3
    (earlier,) = again.earlier()
    found = RecordList(again.file.left_out, LogState())
    assert list(again.write(earlier.steps, found)) == earlier.steps
    said = [json.loads(record.body) for record in found.records]
    assert [each["content"] for each in said if not each["role"].startswith("_")] == [*TURN, "question 2", "answer 2"]


def test_more_was_set_aside_than_becomes_timelines(monkeypatch: pytest.MonkeyPatch, file: KimiFile) -> None:
    monkeypatch.setattr("timeleap_agents.mirrors.kimi_log.MAX_BRANCHES", 2)
    for _ in range(4):
        file.goes_back(0)
        file.turn(1)
    assert len(KimiLog(file.path).earlier()) == 2


BAD_LINES = {
    "a torn line that another writer goes on behind": (b'{"role": "us\n', "1 lines are no JSON objects"),
    "a run of NULs": (bytes(100_000) + b"\n", "1 lines are no JSON objects"),
    "no text": (b"\xff\xfe\xfd\n", "1 lines are no JSON objects"),
    "deep nesting": (b'{"role":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "1 lines are no JSON objects"),
    "a record without a role": (b"{}\n", "1 records are of no known role"),
    "a role that is not known": (b'{"role": "dream", "content": "x"}\n', "1 records are of no known role"),
    "no number": (b'{"role": "user", "content": NaN}\n', "1 messages cannot be written exactly"),
}


@pytest.mark.parametrize(("bad", "loss"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_what_cannot_be_read_is_counted_and_passed_over(file: KimiFile, log: KimiLog, bad: bytes, loss: str) -> None:
    file.write_bytes(bad)
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert losses(log)[:1] == [loss]


BAD_RECORDS: list[Any] = [
    {"role": "_usage", "token_count": "many"},
    {"role": "_usage", "token_count": -1},
    {"role": "_checkpoint", "id": {}},
    {"role": "_system_prompt", "content": 5},
    {"role": "_checkpoint"},
    {"role": ["user"]},
]
BAD_MESSAGES: list[Any] = [
    {"role": "user"},
    {"role": "user", "content": 5},
    {"role": "user", "content": [None, 5, {"text": 5}], "_tl": {"u": "x"}},
    {"role": "assistant", "content": {}, "tool_calls": [5, {}, None]},
    {"role": "tool", "content": None, "tool_call_id": 5},
]


@pytest.mark.parametrize("record", BAD_RECORDS, ids=str)
def test_records_of_any_form_fail_nothing(file: KimiFile, log: KimiLog, record: Any) -> None:
    file.write(record)
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]


@pytest.mark.parametrize("record", BAD_MESSAGES, ids=str)
def test_messages_of_any_form_fail_nothing(file: KimiFile, log: KimiLog, record: Any) -> None:
    file.write(record)
    file.turn(2)
    assert len(records(log)) == 5 + (record["role"] != "tool") + 4  # that result goes with no call
    log.open_calls(log.steps())


@pytest.mark.parametrize("depth", [100, 400, 900, 2000, 20_000])
def test_nesting_of_any_depth_fails_nothing(file: KimiFile, log: KimiLog, depth: int) -> None:
    file.write_bytes(b'{"role": "user", "content": ' + b"[" * depth + b'"\\ud83d"' + b"]" * depth + b"}\n")
    file.turn(2)
    assert texts(log)[-2:] == ["question 2", "answer 2"]


def test_a_message_of_32_mib_and_halves_of_surrogate_pairs_are_read(file: KimiFile, log: KimiLog) -> None:
    file.says("x" * (31 << 20))
    file.asks("half \ud83d of a pair")
    long, half = texts(log)[2:]
    assert (len(long), half) == (31 << 20, "half ? of a pair")


def test_what_is_longer_than_is_kept_is_counted_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, file: KimiFile, log: KimiLog
) -> None:
    monkeypatch.setattr("timeleap_agents.mirrors.formats.conversion.MAX_RECORD", 1000)
    monkeypatch.setattr("timeleap_agents.mirrors.formats.conversion.MAX_LINE", 300_000)
    file.says("x" * 900)
    file.says("y" * 1000)  # as a record longer than that
    file.says("z" * 600_000)
    file.turn(2)
    assert texts(log) == [*TURN, "x" * 900, "question 2", "answer 2"]
    assert [loss.split(" ", 1)[1] for loss in losses(log)] == [
        "lines have more than 0 MiB",
        "messages have more than 0 MiB",
    ]


def test_a_session_in_which_nothing_is_said_is_none_yet(tmp_path: Path) -> None:
    file = KimiFile(tmp_path / "share")
    file.checkpoint()
    log = KimiLog(file.path)
    log.read()
    assert log.steps() == []


def test_only_the_live_logs_of_sessions_are_found(file: KimiFile) -> None:
    file.goes_back(0)
    for other in (file.folder / "x.jsonl", file.path.parents[1] / "old.jsonl", file.path.parent / "wire.jsonl"):
        other.write_bytes(b"")
    (file.path.parent / "subagents" / "a").mkdir(parents=True)
    (file.path.parent / "subagents" / "a" / "context.jsonl").write_bytes(b"")
    of_subagent = file.path.parent / "subagents" / "a" / "context.jsonl"
    found = look("kimi", file.folder)
    assert (set(found.files), found.problems) == ({str(file.path), str(of_subagent)}, [])
    assert (session_key("kimi", of_subagent), is_subagent("kimi", str(of_subagent))) == (f"{file.session_id}/a", True)
    assert parent_of("kimi", of_subagent) == mirror_id("kimi", file.path)


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path, file: KimiFile) -> None:
    fifo, link = tmp_path / "fifo.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(fifo)
    link.symlink_to(file.path)
    for path in (fifo, link, tmp_path):
        with pytest.raises(StorageFailureError):
            KimiLog(path).read()


def test_a_session_whose_folder_the_program_does_not_know_is_not_gone_on_with(file: KimiFile) -> None:
    (file.folder.parent / "kimi.json").unlink()
    log = KimiLog(file.path)
    log.read()
    with pytest.raises(InvalidInputError, match=r"kimi\.json"):
        log.continuation(log.steps())


def test_times_are_those_of_the_journal_of_events(file: KimiFile, log: KimiLog) -> None:
    events = [
        {"timestamp": 1_790_000_000.5, "message": {"type": "TurnBegin", "payload": {"user_input": "question 1"}}},
        {"timestamp": 1_790_000_060, "message": {"type": "TurnBegin", "payload": {"user_input": [{"type": "text", "text": "again"}]}}},
        {"timestamp": 1_790_000_120, "message": {"type": "SteerInput", "payload": {"user_input": "again"}}},
        {"timestamp": True, "message": {"type": "TurnBegin", "payload": {"user_input": "again"}}},
        {"timestamp": 1e300, "message": {"type": "TurnEnd", "payload": {}}},
        {"timestamp": 1_790_000_180, "message": {"type": "TurnEnd", "payload": {}}},
    ]  # fmt: skip
    with (file.path.parent / "wire.jsonl").open("a") as wire:
        wire.write("".join(json.dumps(event) + "\n" for event in events))
    file.asks("again")
    file.asks("again")
    times = [record["_tl"]["t"][14:19] for record in records(log) if record["role"] == "_checkpoint"]
    start = time.strftime("%M:%S", time.gmtime(1_790_000_000))
    assert times == [start, *(time.strftime("%M:%S", time.gmtime(1_790_000_000 + 60 * n)) for n in (1, 2))]
    assert [log.created_at, log.updated_at] == [clock.iso(1_790_000_000.5), clock.iso(1_790_000_180)]
    assert log.first_prompt == "question 1"


@pytest.mark.parametrize("form", [KimiFile, KimiCodeFile])
def test_a_session_that_gets_another_title_has_changed(tmp_path: Path, form: type[KimiFile | KimiCodeFile]) -> None:
    file = form(tmp_path / "home")
    kind = "kimi" if form is KimiFile else "kimi-code"
    sessions = tmp_path / "home" / "sessions"
    ((path, before),) = look(kind, sessions).files.items()
    folder = file.path.parent if form is KimiFile else file.path.parents[2]
    (folder / "state.json").write_text('{"title": "another", "custom_title": "another"}')
    os.utime(folder / "state.json", ns=(1 << 62, 1 << 62))
    assert look(kind, sessions).files[path] != before


def test_without_a_journal_the_times_are_those_of_the_file(file: KimiFile) -> None:
    (file.path.parent / "wire.jsonl").unlink()
    os.utime(file.path, (1_790_000_000, 1_790_000_000))
    log = KimiLog(file.path)
    log.read()
    assert log.created_at == log.updated_at == clock.iso(1_790_000_000)


def test_a_session_of_the_program_is_imported_as_it_is_mirrored(file: KimiFile, tmp_path: Path) -> None:
    file.asks("<system-reminder>x</system-reminder>")
    file.goes_back(0)
    file.turn(2)
    shown = records(KimiLog(file.path))
    for number, path in enumerate((file.path, file.path.parent)):
        (tmp_path / str(number)).mkdir()
        for _ in take_in(path, None, tmp_path / str(number), NOBODY):
            pass
        lines = (tmp_path / str(number) / "context.jsonl").read_text().splitlines()
        assert [json.loads(line)["role"] for line in lines] == [record["role"] for record in shown]
        assert len(list((tmp_path / str(number)).glob("context_*.jsonl"))) == 1
