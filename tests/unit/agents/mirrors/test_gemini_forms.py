"""Files of Gemini CLI of all its forms, wherever they lie: documents, lines, those of sub-agents, and whose project it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.gemini_file import GeminiFile, message
from tests.unit.agents.mirrors.reading import messages
from tests.unit.features.transfer.arrivals import Arrived

from timeleap.errors import CorruptedError
from timeleap.features.transfer.importing import take_in
from timeleap.sessions.transaction import NOBODY
from timeleap_agents.mirrors.folders import is_subagent, mirror_id, parent_of, session_key
from timeleap_agents.mirrors.gemini_log import GeminiLog

FACTS = {"sessionId": "s1", "projectHash": "f" * 64, "startTime": "2026-03-01T10:00:00.000Z", "lastUpdated": "2026-03-01T11:00:00.000Z"}  # fmt: skip
SAID = [
    message("user", [{"text": "<session_context>x</session_context>"}], timestamp="2026-03-01T10:00:01.000Z"),
    message("user", "hello", timestamp="2026-03-01T10:00:02.000Z"),
    message(
        "gemini", "I look.", timestamp="2026-03-01T10:00:03.000Z",
        toolCalls=[
            {"id": "c1", "name": "ls", "args": {}, "result": [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.py"}}}]},
            {"id": "c2", "name": "ls", "args": {}, "result": "b.py"},
            {"id": "c3", "name": "ls", "args": {}},
        ],
    ),
    message("info", "shown, and not sent"),
    message("gemini", "There it is.", timestamp="2026-03-01T10:00:04.000Z"),
]  # fmt: skip
LOG = [
    ("user", "<session_context>x</session_context>"), ("user", "hello"), ("assistant", "I look."), ("call", "c1"),
    ("call", "c2"), ("call", "c3"), ("tool", "a.py"), ("tool", "b.py"), ("assistant", "There it is."),
]  # fmt: skip


def said(found: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    made: list[tuple[str, Any]] = []
    for each in found:
        calls = each.get("tool_calls")
        made += [("call", call["id"]) for call in calls] if calls else [(each["role"], each["content"])]
    return made


def imported(path: Path, directory: Path) -> Arrived:
    directory.mkdir()
    for _ in take_in(path, None, directory, NOBODY):
        pass
    return Arrived(directory)


@pytest.mark.parametrize("form", ["document", "one line", "lines"])
def test_each_form_is_read_and_imported_alike(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("session-x.jsonl" if form == "lines" else "session-x.json")
    whole = {**FACTS, "messages": SAID}
    if form == "lines":
        path.write_text("".join(json.dumps(record) + "\n" for record in (FACTS, *SAID)))
    else:
        path.write_text(json.dumps(whole, indent=2 if form == "document" else None))
    log = GeminiLog(path)
    log.read()
    assert said(messages(log)) == LOG
    assert (log.session_id, log.first_prompt) == ("s1", "hello")
    assert (log.created_at, log.updated_at) == (FACTS["startTime"], "2026-11-20T10:00:00.000Z")
    came = imported(path, tmp_path / "imported")
    assert said(came.messages()) == LOG
    assert [mark["l"] for mark in came.marks()] == ["hello"]
    assert came.notes["importedFrom"]["sessionId"] == "s1"
    assert came.notes["createdAt"] == FACTS["startTime"]


def test_a_document_that_grows_is_another_file_and_one_cut_short_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "session-x.json"
    path.write_text(json.dumps({**FACTS, "messages": SAID}, indent=2))
    path.write_text(path.read_text()[:-30])
    with pytest.raises(CorruptedError, match="cut short or damaged"):
        GeminiLog(path).read()


def test_a_session_that_went_on_in_lines_is_the_same_session(tmp_path: Path) -> None:
    former, present = tmp_path / "session-x.json", tmp_path / "session-x.jsonl"
    former.write_text(json.dumps({**FACTS, "messages": SAID}, indent=2))
    present.write_text("".join(json.dumps(record) + "\n" for record in (FACTS, *SAID)))
    assert session_key("gemini", former) == session_key("gemini", present) == "s1"
    assert GeminiLog.present_of([former, present]) == present


def test_sub_agents_stand_below_their_session(tmp_path: Path) -> None:
    main = GeminiFile(tmp_path / "tmp")
    main.turn(1)
    below = main.path.parent / main.session_id / "0la501.jsonl"
    below.parent.mkdir()
    below.write_text("".join(json.dumps(record) + "\n" for record in ({**FACTS, "kind": "subagent"}, *SAID)))
    assert (session_key("gemini", below), is_subagent("gemini", str(below))) == (f"{main.session_id}/s1", True)
    assert parent_of("gemini", below) == mirror_id("gemini", main.path)
    assert (parent_of("gemini", main.path), is_subagent("gemini", str(main.path))) == (None, False)
    log = GeminiLog(below)
    log.read()
    assert log.workspace == "file:///shop"


@pytest.mark.parametrize("by", ["name", "hash", "hash as the folder's name"])
def test_the_registry_names_the_project_of_a_folder_without_a_note(tmp_path: Path, by: str) -> None:
    digest = hashlib.sha256(b"/home/ada/shop").hexdigest()
    names = {"name": "shop", "hash": "elsewhere", "hash as the folder's name": digest}
    path = tmp_path / "tmp" / names[by] / "chats" / "session-x.jsonl"
    path.parent.mkdir(parents=True)
    (tmp_path / "projects.json").write_text(json.dumps({"projects": {"/other": "other", "/home/ada/shop": "shop"}}))
    facts = {**FACTS, "projectHash": digest if by == "hash" else "f" * 64}
    path.write_text("".join(json.dumps(record) + "\n" for record in (facts, *SAID)))
    log = GeminiLog(path)
    log.read()
    assert log.workspace == "file:///home/ada/shop"


@pytest.mark.parametrize("registry", ["", "[]", "{}", '{"projects": 5}', '{"projects": {"relative": "shop"}}'])
def test_a_registry_of_any_form_fails_nothing(tmp_path: Path, registry: str) -> None:
    path = tmp_path / "tmp" / "shop" / "chats" / "session-x.jsonl"
    path.parent.mkdir(parents=True)
    (tmp_path / "projects.json").write_text(registry)
    path.write_text("".join(json.dumps(record) + "\n" for record in (FACTS, *SAID)))
    log = GeminiLog(path)
    log.read()
    assert log.workspace is None


def test_commands_to_the_program_are_no_prompts_and_paths_are(tmp_path: Path) -> None:
    file = GeminiFile(tmp_path / "tmp")
    for text in ("/help", "/chat save x", "?", "/home/ada/shop.py is slow", "why?"):
        file.asks(text)
    file.says("user", "look at --- Content from a.py ---", displayContent="look at @a.py")
    came = imported(file.path, tmp_path / "imported")
    assert [mark["l"] for mark in came.marks()] == ["/home/ada/shop.py is slow", "why?", "look at @a.py"]


def test_other_words_under_one_id_keep_the_former_as_a_timeline(tmp_path: Path) -> None:
    file = GeminiFile(tmp_path / "tmp")
    file.turn(1)
    answer = file.says("gemini", "first words")
    file.write({**answer, "content": "first words, and more"}, {**answer, "content": "other words"})
    file.turn(2)
    log = GeminiLog(file.path)
    log.read()
    assert said(messages(log))[-3:] == [("assistant", "other words"), ("user", "question 2"), ("assistant", "answer 2")]
    (left,) = log.earlier()
    assert said(messages(log, left.steps))[-1] == ("assistant", "first words, and more")
