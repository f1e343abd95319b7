"""Words that a damaged file has in one place alone are read from there, or their loss is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.claude_histories import write_state
from tests.support.codex_file import CodexFile
from tests.support.kimi_code_file import KimiCodeFile
from tests.support.pi_file import PiFile
from tests.support.said import Said, said
from tests.unit.agents.mirrors.reading import losses, messages, said_anywhere

from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.growing_file import Conversation
from timeleap_agents.mirrors.kimi_code_log import KimiCodeLog
from timeleap_agents.mirrors.pi_log import PiLog


def queued(file: ClaudeFile, text: str, **members: Any) -> None:
    write_state(file, {"type": "queue-operation", "sessionId": file.session_id, "content": text, **members})


ENQUEUED: dict[str, Any] = {"operation": "enqueue"}
ABSORBED: dict[str, Any] = {"operation": "remove", "reason": "absorbed_mid_turn"}


def read(log: Conversation) -> list[Said]:
    log.read()
    return said(messages(log))


@pytest.fixture
def claude(tmp_path: Path) -> ClaudeFile:
    made = ClaudeFile(tmp_path / "projects")
    made.passes = True
    made.asks("question 1")
    made.calls("call_1")
    return made


def test_a_prompt_whose_way_into_the_queue_is_torn_is_read_where_it_left_it(claude: ClaudeFile) -> None:
    claude.gets("call_1", "done")
    queued(claude, "and the tests?", **ABSORBED)
    claude.says("answer 1")
    assert read(ClaudeLog(claude.path))[-2:] == [("user", "and the tests?"), ("assistant", "answer 1")]


@pytest.mark.parametrize("order", ["before", "behind"])
def test_a_prompt_that_left_the_queue_for_a_record_of_its_own_is_read_once(claude: ClaudeFile, order: str) -> None:
    claude.gets("call_1", "done")
    attachment = {"type": "queued_command", "commandMode": "prompt", "prompt": "and the tests?"}
    if order == "behind":
        queued(claude, "and the tests?", **ABSORBED)
    claude.write(claude.record("attachment", attachment=attachment))
    if order == "before":
        queued(claude, "and the tests?", **ABSORBED)
    claude.says("answer 1")
    assert read(ClaudeLog(claude.path))[-2:] == [("user", "and the tests?"), ("assistant", "answer 1")]


def test_a_prompt_in_the_queue_counts_as_heard_where_the_next_prompt_follows_it(claude: ClaudeFile) -> None:
    queued(claude, "and the tests?", **ENQUEUED)
    claude.gets("call_1", "done")
    queued(claude, "and the tests?", **ABSORBED)
    claude.asks("question 2")  # the answer between them is torn
    assert read(ClaudeLog(claude.path))[-2:] == [("user", "and the tests?"), ("user", "question 2")]


@pytest.mark.parametrize("later", ["go on with b", "do not go", "going"])
def test_a_prompt_in_the_queue_is_not_taken_for_a_part_of_a_later_one(claude: ClaudeFile, later: str) -> None:
    queued(claude, "go", **ENQUEUED)
    claude.gets("call_1", "done")
    queued(claude, "go", **ABSORBED)
    claude.says("answer 1")
    claude.asks(later)
    claude.says("answer 2")
    assert [text for _, text in read(ClaudeLog(claude.path))[-4:]] == ["go", "answer 1", later, "answer 2"]


def test_several_prompts_of_the_queue_in_one_record_are_read_once(claude: ClaudeFile) -> None:
    for text in ("go", "go on\nwith b"):
        queued(claude, text, **ENQUEUED)
    claude.gets("call_1", "done")
    for _ in range(2):
        queued(claude, "", operation="dequeue")
    claude.asks("go\ngo on\nwith b")
    claude.asks("go")
    claude.says("answer 1")
    texts = [text for _, text in read(ClaudeLog(claude.path))[-3:]]
    assert texts == ["go\ngo on\nwith b", "go", "answer 1"]


def test_prompts_that_were_taken_back_are_told(claude: ClaudeFile) -> None:
    for text in ("go", "stop"):
        queued(claude, text, **ENQUEUED)
    queued(claude, "stop")  # a torn operation says nothing
    queued(claude, "go", operation="remove")
    claude.gets("call_1", "done")
    queued(claude, "stop", **ABSORBED)
    claude.says("answer 1")
    log = ClaudeLog(claude.path)
    assert [text for _, text in read(log)[-2:]] == ["stop", "answer 1"]
    assert losses(log) == ["1 prompts were taken back before they were heard"]


def test_a_summary_whose_followers_are_torn_is_a_timeline(claude: ClaudeFile) -> None:
    claude.gets("call_1", "done")
    kept = claude.says("answer 1")
    boundary = claude.record("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=kept)
    summary = claude.record("user", message={"role": "user", "content": "in short"}, isCompactSummary=True)
    boundary["compactMetadata"] = {"preservedMessages": {"anchorUuid": summary["uuid"], "uuids": [kept]}}
    claude.write(boundary, summary)
    claude.last = None
    claude.turn(2)
    log = ClaudeLog(claude.path)
    log.read()
    assert ("user", "in short") in said_anywhere(log, said)


def test_messages_for_the_screen_alone_are_told(claude: ClaudeFile) -> None:
    claude.gets("call_1", "done")
    claude.says("an advertisement", isVirtual=True)
    log = ClaudeLog(claude.path)
    assert "an advertisement" not in [text for _, text in read(log)]
    assert losses(log) == ["1 messages were for the screen alone: the program does not send them"]


def lone_claude(folder: Path) -> Conversation:
    """A result without a call in a branch that was left."""
    file = ClaudeFile(folder)
    first = file.asks("question 1")
    file.gets("call_1", "done")
    file.last = first
    file.says("answer 1")
    return ClaudeLog(file.path)


def lone_codex(folder: Path) -> Conversation:
    file = CodexFile(folder)
    file.turn(1)
    file.asks("question 2")
    file.gets("call_1", "done")
    file.event("thread_rolled_back", num_turns=1)
    file.turn(3)
    return CodexLog(file.path)


def lone_pi(folder: Path) -> Conversation:
    file = PiFile(folder)
    first = file.asks("question 1")
    file.gets("call_1", "done")
    file.last = first
    file.says("answer 1")
    return PiLog(file.path)


def lone_kimi_code(folder: Path) -> Conversation:
    file = KimiCodeFile(folder)
    file.turn(1)
    file.asks("question 2")
    file.gets("call_1", "done")
    file.record("agent.switched", branch="b1", base={"branch": "main", "line": 2}, legacyUndoLine=-1)
    file.turn(3)
    return KimiCodeLog(file.path)


@pytest.mark.parametrize("made", [lone_claude, lone_codex, lone_pi, lone_kimi_code])
def test_results_whose_call_is_torn_are_told_wherever_they_stand(
    tmp_path: Path, made: Callable[[Path], Conversation]
) -> None:
    log = made(tmp_path)
    read(log)
    assert losses(log) == ["1 results go with no call of the conversation"]


def test_answers_in_events_of_codex_alone_are_told(tmp_path: Path) -> None:
    file = CodexFile(tmp_path)
    file.turn(1)
    file.event("agent_message", message="answer 1")
    file.event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "answer 1"}]})
    log = CodexLog(file.path)
    read(log)
    assert losses(log) == []
    file.event("agent_message", message="answer 2")
    file.event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "answer 2"}]})
    read(log)
    assert losses(log) == ["1 answers stand in events alone"]
    file.says("answer 2")
    read(log)
    assert losses(log) == []


@pytest.mark.parametrize("kind", ["turn.prompt", "turn.steer"])
def test_prompts_in_notes_of_turns_of_kimi_code_alone_are_told(tmp_path: Path, kind: str) -> None:
    file = KimiCodeFile(tmp_path)
    file.turn(1)
    said = [{"type": "text", "text": "question 2"}]
    file.record(kind, input=said, origin={"kind": "user"}, promptId="p2")
    log = KimiCodeLog(file.path)
    read(log)
    assert losses(log) == ["1 prompts stand in notes of turns alone"]
    file.said("user", "question 2", {"kind": "user", "inTurn": kind == "turn.steer"}, id="p2")
    read(log)
    assert losses(log) == []


def test_an_edit_of_pi_whose_entry_is_torn_is_told(tmp_path: Path) -> None:
    file = PiFile(tmp_path)
    file.turn(1)
    answer = file.last
    file.entry("context_edit", targetId=answer, replacement={"content": "answer, shorter"})
    log = PiLog(file.path)
    assert read(log)[-1] == ("assistant", "answer, shorter")
    assert log.earlier() and losses(log) == []
    file.write_bytes(json.dumps({"type": "context_edit", "id": "e2", "parentId": file.last, "targetId": "torn",
                                 "replacement": {"content": "other words"}}).encode() + b"\n")  # fmt: skip
    read(log)
    log.earlier()
    assert losses(log) == ["1 edits are of entries that are not in the conversation"]


def test_former_words_of_an_answer_in_a_branch_that_was_left_are_a_timeline(claude: ClaudeFile) -> None:
    claude.gets("call_1", "done")
    claude.says("answer 1")
    first = claude.whole_records()[-1]
    claude.last = None
    claude.turn(2)
    again = {**first["message"], "content": [{"type": "text", "text": "other words"}]}
    claude.write({**first, "message": again})  # and the record that said so first is torn
    claude.turn(3)
    log = ClaudeLog(claude.path)
    log.read()
    assert {("assistant", "answer 1"), ("assistant", "other words")} <= said_anywhere(log, said)
