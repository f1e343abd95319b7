"""Reading a file of Gemini CLI as it grows: what it says, once, however often the program notes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.gemini_file import GeminiFile, message
from tests.unit.agents.mirrors.reading import losses, records, texts

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap_agents.mirrors.folders import look, usual_folder
from timeleap_agents.mirrors.gemini_log import GeminiLog
from timeleap_agents.mirrors.growing_file import FileReplacedError

CONTEXT = "<session_context>\nx\n</session_context>"
TURN = [CONTEXT, "question 1", "answer 1"]


@pytest.fixture
def file(tmp_path: Path) -> GeminiFile:
    """A session of one turn."""
    made = GeminiFile(tmp_path / "tmp")
    made.turn(1)
    return made


@pytest.fixture
def log(file: GeminiFile) -> GeminiLog:
    """The same, read."""
    made = GeminiLog(file.path)
    made.read()
    return made


def test_what_is_added_is_read_and_nothing_twice(file: GeminiFile, log: GeminiLog) -> None:
    assert texts(log) == TURN
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert texts(log) == [*TURN, "question 2", "answer 2"]


def test_a_line_waits_at_every_byte_until_its_record_is_whole(file: GeminiFile, log: GeminiLog) -> None:
    for byte in file.line(message("user", "grüße"))[:-2]:
        file.write_bytes(bytes([byte]))
        log.read()
        assert len(log.steps()) == 3
    file.write_bytes(b"}")
    assert texts(log) == [*TURN, "grüße"]
    file.write_bytes(b"\n")
    assert texts(log) == [*TURN, "grüße"]
    assert losses(log) == []


def test_a_prompt_has_a_checkpoint_and_what_the_program_says_has_none(file: GeminiFile, log: GeminiLog) -> None:
    file.asks("<hook_context>x</hook_context>")
    file.says("info", "shown, and not sent")
    labels = [record["_tl"]["l"] for record in records(log) if record["role"] == "_checkpoint"]
    assert labels == ["question 1"]
    assert {"role": "_usage", "token_count": 14} in records(log)


def test_a_message_that_is_noted_once_more_only_adds_its_calls(file: GeminiFile, log: GeminiLog) -> None:
    said = file.says("gemini", "Let me look.", thoughts=[{"subject": "Look", "description": "first"}])
    log.read()
    before = log.steps()
    calls = [{"id": f"call-{number}", "name": "ls", "args": {"n": number}} for number in (1, 2)]
    file.write({**said, "toolCalls": calls})
    log.read()
    assert log.open_calls(log.steps()) == {"call-1", "call-2"}
    file.gets("call-1", "one")
    file.gets("call-2", "two")
    *_, text, first, second, one, two = records(log)
    assert [step.key for step in log.steps()][: len(before)] == [step.key for step in before]
    assert [part["type"] for part in text["content"]] == ["think", "text"]
    arguments = [each["tool_calls"][0]["function"]["arguments"] for each in (first, second)]
    assert arguments == ['{"n": 1}', '{"n": 2}']
    assert (one, two["content"]) == ({"role": "tool", "content": "one", "tool_call_id": "call-1"}, "two")
    assert log.open_calls(log.steps()) == set()


def test_all_that_is_said_again_in_another_form_is_the_same(file: GeminiFile, log: GeminiLog) -> None:
    """As the program does where a session is gone on with: calls in the content, a result with the id of its call."""
    said = file.says("gemini", "", tokens={"total": 14})
    file.write({**said, "toolCalls": [{"id": "call-1", "name": "ls", "args": {}}]})
    file.gets("call-1", "one")
    file.says("gemini", "done")
    log.read()
    before = [step.key for step in log.steps()]
    (context, asked, answered), response = before[:3], {"id": "call-1", "name": "ls", "response": {"output": "one"}}
    ids = [context.split(".")[0], asked.split(".")[0], answered.split(".")[0]]
    again = [
        {"id": ids[0], "type": "user", "content": [{"text": CONTEXT}]},
        {"id": ids[1], "type": "user", "content": [{"text": "question 1"}]},
        {"id": ids[2], "type": "gemini", "content": [{"text": "answer 1"}]},
        {"id": said["id"], "type": "gemini", "content": [{"functionCall": {"id": "call-1", "name": "ls", "args": {}}}]},
        {"id": said["id"], "type": "user", "content": [{"functionResponse": response}]},
        {"id": file.ids[-2], "type": "user", "content": [{"functionResponse": response}]},
        {"id": file.ids[-1], "type": "gemini", "content": [{"text": "done"}]},
    ]
    file.write({"$set": {"messages": again[:1]}}, {"$set": {"messages": again}})
    log.read()
    assert [step.key for step in log.steps()] == before
    assert log.earlier() == []
    file.turn(2)
    assert texts(log)[-3:] == ["done", "question 2", "answer 2"]


def test_what_is_taken_back_goes_and_is_an_earlier_conversation(file: GeminiFile, log: GeminiLog) -> None:
    file.turn(2)
    file.goes_back(2)
    file.turn(3)
    assert texts(log) == [*TURN, "question 3", "answer 3"]
    assert [len(each.steps) for each in log.earlier()] == [5]
    file.write({"$rewindTo": "nothing of that id"})
    assert texts(log) == []


def test_what_is_summed_up_is_an_earlier_conversation(file: GeminiFile, log: GeminiLog) -> None:
    file.write({"$set": {"messages": [message("user", "in short")], "summary": "About shares"}})
    assert texts(log) == ["in short"]
    assert [len(each.steps) for each in log.earlier()] == [3]
    assert log.title == "About shares"


def test_the_folder_stands_beside_it(file: GeminiFile, log: GeminiLog) -> None:
    start = GeminiLog(file.path)
    start.read_start()
    assert (start.workspace, start.steps()) == ("file:///shop", [])
    assert (log.session_id, log.title, log.version) == (file.session_id, None, (0,))


def test_a_note_of_the_folder_that_is_a_link_a_fifo_or_none_is_not_read(file: GeminiFile, tmp_path: Path) -> None:
    note = file.folder / "shop" / ".project_root"
    (tmp_path / "secret").write_text("/secret")
    for replace in (
        lambda: note.symlink_to(tmp_path / "secret"),
        lambda: os.mkfifo(note),
        lambda: note.write_text("x"),
    ):
        note.unlink()
        replace()
        log = GeminiLog(file.path)
        assert (texts(log), log.workspace) == (TURN, None)


def test_a_session_in_which_nothing_is_said_is_none_yet(tmp_path: Path) -> None:
    log = GeminiLog(GeminiFile(tmp_path).path)
    log.read()
    assert log.steps() == []


BAD_LINES = {
    "a torn line that another writer goes on behind": (b'{"id": "us\n', "1 lines are no JSON objects"),
    "a run of NULs": (bytes(100_000) + b"\n", "1 lines are no JSON objects"),
    "no text": (b"\xff\xfe\xfd\n", "1 lines are no JSON objects"),
    "deep nesting": (b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "1 lines are no JSON objects"),
    "a record of no kind": (b"{}\n", "1 records are of no known kind"),
}


@pytest.mark.parametrize(("bad", "loss"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_what_cannot_be_read_is_counted_and_passed_over(
    file: GeminiFile, log: GeminiLog, bad: bytes, loss: str
) -> None:
    file.write_bytes(bad)
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]
    assert losses(log) == [loss]


BAD_RECORDS: list[Any] = [
    {"$set": 5},
    {"$set": {"messages": 5}},
    {"$set": {"sessionId": 5, "projectHash": [], "summary": {}}},
    {"$rewindTo": 5},
    {"id": "x", "type": ["user"], "content": "x"},
    {
        "id": "x" * 1000,
        "type": "user",
        "content": [None, 5, {}, {"text": 5}, {"functionResponse": 5}, {"inlineData": 5}],
    },
    {"id": "x", "type": "gemini", "content": 5, "toolCalls": [None, 5, {}, {"id": 5}, {"id": ""}], "tokens": 5},
    {"id": "x", "type": "gemini", "content": {"functionCall": {"id": "y" * 1000}}, "thoughts": [5]},
    {"sessionId": "again", "messages": {}},
]


@pytest.mark.parametrize("record", BAD_RECORDS, ids=str)
def test_members_of_any_form_fail_nothing(file: GeminiFile, log: GeminiLog, record: Any) -> None:
    file.write(record)
    file.turn(2)
    assert texts(log) == [*TURN, "question 2", "answer 2"]


def test_parts_of_any_form_are_written(file: GeminiFile, log: GeminiLog) -> None:
    half = "half \ud83d of a pair"
    file.says("user", ["look", {"inlineData": {"mimeType": "image/png", "data": "AA=="}}])
    file.write(
        {"id": half, "type": "gemini", "content": half, "toolCalls": [{"id": half, "name": half, "args": {half: 1}}]}
    )
    calls: list[dict[str, Any]] = [{"id": call, "name": "ls", "args": {}} for call in ("call-2", "call-3")]
    file.write({"id": "more", "type": "gemini", "content": "", "toolCalls": calls})
    file.gets(half, half)
    file.says("user", [{"functionResponse": {"id": "call-2", "response": {"error": "no"}}}])
    file.says("user", [{"functionResponse": {"id": "call-3", "response": [1]}}])
    look, said, called, _, _, got, refused, listed = records(log)[-8:]
    assert [part["type"] for part in look["content"]] == ["text", "image_url"]
    assert (said["content"], called["tool_calls"][0]["id"]) == ("half ? of a pair",) * 2
    assert (got["content"], got["tool_call_id"]) == ("half ? of a pair",) * 2
    assert (refused["content"], listed["content"]) == ("no", "[1]")


def test_a_message_of_32_mib_is_read(file: GeminiFile, log: GeminiLog) -> None:
    file.says("gemini", "x" * (31 << 20))
    assert len(texts(log)[-1]) == 31 << 20


def test_a_file_that_is_not_what_was_read_is_said_to_be_another(file: GeminiFile, log: GeminiLog) -> None:
    file.path.write_bytes(file.path.read_bytes()[:-10])
    with pytest.raises(FileReplacedError):
        log.read()


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path, file: GeminiFile) -> None:
    fifo, link = tmp_path / "fifo.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(fifo)
    link.symlink_to(file.path)
    for path in (fifo, link, tmp_path):
        with pytest.raises(StorageFailureError):
            GeminiLog(path).read()


def test_only_the_sessions_of_projects_are_found(file: GeminiFile, monkeypatch: pytest.MonkeyPatch) -> None:
    chats = file.path.parent
    former, of_subagent = chats / "session-x.json", chats / "parent" / "0la501.jsonl"
    (chats / "parent").mkdir()
    for other in (former, of_subagent, chats / "notes.jsonl", chats / "parent" / "notes.txt"):
        other.write_bytes(b"")
    assert set(look("gemini", file.folder).files) == set(map(str, (file.path, former, of_subagent)))
    monkeypatch.setenv("GEMINI_CLI_HOME", "/elsewhere")
    assert usual_folder("gemini") == Path("/elsewhere/.gemini/tmp")


# Going on


def test_a_session_that_goes_on_says_each_message_once_under_an_id_of_its_own(file: GeminiFile, log: GeminiLog) -> None:
    said = file.says("gemini", "")
    call = {"functionCall": {"id": "call-1", "name": "ls", "args": {}}}
    file.write({**said, "content": [call]})
    file.write({"id": said["id"], "type": "user", "content": [{"functionResponse": {"id": "call-1", "response": {}}}]})
    file.turn(2)
    log.read()
    made = log.continuation(log.steps()[:5])
    facts, *lines = made.records
    assert made.command == ("gemini", "--resume", facts["sessionId"])
    assert made.path.name.endswith(f"-{facts['sessionId'][:8]}.jsonl")
    assert facts["projectHash"] == "f" * 64
    assert [line["type"] for line in lines] == ["user", "user", "gemini", "gemini", "user"]
    assert len({line["id"] for line in lines}) == 5


def test_a_call_that_is_not_kept_is_left_out_of_its_message(file: GeminiFile, log: GeminiLog) -> None:
    file.calls("call-1", "Let me look.")
    log.read()
    *_, last = log.continuation(log.steps()[:-1]).records
    assert (last["content"], last["toolCalls"]) == ("Let me look.", [])


def test_a_file_that_does_not_say_of_which_project_it_is_is_not_gone_on_with(file: GeminiFile) -> None:
    file.path.write_bytes(b"".join(file.path.read_bytes().splitlines(keepends=True)[1:]))
    log = GeminiLog(file.path)
    log.read()
    with pytest.raises(InvalidInputError, match="project"):
        log.continuation(log.steps())
