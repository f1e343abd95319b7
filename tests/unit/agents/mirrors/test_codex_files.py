"""Sessions of Codex that are in several files: segments, forks, copies in the archive; and those of sub-agents."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.codex_file import CodexFile, Segment, message
from tests.unit.agents.mirrors.reading import messages

from timeleap.storage.log_values import LogState
from timeleap_agents.mirrors import codex_files
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.folders import is_subagent, look, mirror_id, parent_of, session_key
from timeleap_agents.mirrors.growing_file import Conversation
from timeleap_agents.mirrors.record_list import RecordList

ONE, TWO = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
SEGMENT, SECOND = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test looks at its folders itself."""
    monkeypatch.setattr(codex_files, "_looks", {})


def texts(log: Conversation, steps: Any = None) -> list[Any]:
    return [each["content"] for each in messages(log, steps)]


def read(path: Path) -> CodexLog:
    log = CodexLog(path)
    log.read()
    return log


@pytest.fixture
def first(tmp_path: Path) -> CodexFile:
    """A thread of three turns, 5 lines each, behind the line with its facts."""
    made = CodexFile(tmp_path / "sessions", name=ONE)
    for number in (1, 2, 3):
        made.turn(number)
    return made


TURN = [["question 1", "answer 1"], ["question 2", "answer 2"], ["question 3", "answer 3"], ["question 4", "answer 4"]]


def test_a_thread_that_went_back_goes_on_in_a_segment(first: CodexFile) -> None:
    segment = Segment(first, 6, ONE, SEGMENT)
    segment.turn(4)
    log = read(segment.path)
    assert texts(log) == [*TURN[0], *TURN[3]]
    assert [texts(log, each.steps) for each in log.earlier()] == [[*TURN[0], *TURN[1], *TURN[2]]]
    assert (log.session_id, log.first_prompt) == (ONE, "question 1")
    assert session_key("codex", segment.path) == session_key("codex", first.path) == ONE
    assert CodexLog.present_of([first.path, segment.path]) == segment.path
    assert set(CodexLog.files_of(first.path)) == {first.path, segment.path}
    assert [step.key for step in log.steps()][:3] == [step.key for step in read(first.path).steps()][:3]


def test_a_segment_goes_on_from_a_segment(first: CodexFile) -> None:
    segment = Segment(first, 6, ONE, SEGMENT)
    segment.turn(4)
    again = Segment(segment, None, ONE, SECOND)
    again.turn(2)
    log = read(again.path)
    assert texts(log) == [*TURN[0], *TURN[3], *TURN[1]]
    assert [texts(log, each.steps) for each in log.earlier()] == [[*TURN[0], *TURN[1], *TURN[2]]]


def test_a_fork_begins_with_a_part_of_another_thread(first: CodexFile) -> None:
    fork = Segment(first, 11, TWO, None, forked_from_id=ONE)
    fork.turn(4)
    log = read(fork.path)
    assert texts(log) == [*TURN[0], *TURN[1], *TURN[3]]
    assert log.earlier() == []
    assert (log.session_id, is_subagent("codex", str(fork.path))) == (TWO, False)


def test_a_fork_grows_and_goes_back_into_what_it_was_forked_from(first: CodexFile) -> None:
    fork = Segment(first, 11, TWO, None)
    log = read(fork.path)
    assert texts(log) == [*TURN[0], *TURN[1]]
    fork.turn(4)
    log.read()
    fork.event("thread_rolled_back", num_turns=2)
    log.read()
    assert texts(log) == TURN[0]
    assert [texts(log, each.steps) for each in log.earlier()] == [[*TURN[0], *TURN[1], *TURN[3]]]


@pytest.mark.parametrize("damage", ["gone", "of another form", "of itself", "of no thread"])
def test_a_base_that_cannot_be_had_costs_its_part_alone(first: CodexFile, damage: str) -> None:
    fork = Segment(first, 11, TWO, None)
    if damage == "gone":
        first.path.unlink()
    elif damage == "of another form":
        first.path.write_bytes(b"\0" * 1000)
    elif damage == "of itself":
        fork.path.write_bytes(fork.path.read_bytes().replace(ONE.encode(), TWO.encode()))
    else:
        fork.path.write_bytes(fork.path.read_bytes().replace(f'"{ONE}"'.encode(), b"5"))
    fork.turn(4)
    log = read(fork.path)
    assert texts(log) == TURN[3]
    told = any("parts of the conversation" in loss.message for loss in log.file.left_out.losses())
    assert told == (damage in ("gone", "of itself"))


def test_what_is_gone_on_with_is_one_file(first: CodexFile) -> None:
    segment = Segment(first, 6, ONE, SEGMENT)
    segment.turn(4)
    log = read(segment.path)
    made = log.continuation(log.steps())
    made.path.write_text("".join(json.dumps(record) + "\n" for record in made.records))
    facts = json.loads(made.path.read_text().splitlines()[0])["payload"]
    assert "history_base" not in facts
    again = read(made.path)
    assert texts(again) == texts(log)
    assert again.session_id == made.command[-1]


def test_an_archived_thread_is_found_and_is_the_same_session(first: CodexFile) -> None:
    archived = first.folder.parent / "archived_sessions" / first.path.name
    archived.parent.mkdir()
    before = mirror_id("codex", first.path)
    first.path.rename(archived)
    assert list(look("codex", first.folder).files) == [str(archived)]
    assert mirror_id("codex", archived) == before
    assert texts(read(archived))[:2] == TURN[0]


def test_the_name_of_a_thread_is_its_title(first: CodexFile) -> None:
    index = first.folder.parent / "session_index.jsonl"
    assert read(first.path).title is None
    lines: list[Any] = [{"id": ONE, "thread_name": "Former"}, {"id": TWO, "thread_name": "Other"}, 5, {"id": 5}]
    index.write_text(
        "".join(json.dumps(line) + "\n" for line in (*lines, {"id": ONE, "thread_name": "Shop"})) + "{torn"
    )
    assert read(first.path).title == "Shop"


def test_a_name_is_the_last_that_is_not_blank(first: CodexFile) -> None:
    names = [{"id": ONE, "thread_name": name} for name in ("Former", "Shop", "", " ", None)]
    index = first.folder.parent / "session_index.jsonl"
    index.write_text("".join(json.dumps(line) + "\n" for line in names))
    assert read(first.path).title == "Shop"


@pytest.mark.parametrize("time", [{"updated_at": "2099-11-20T10:00:00.123456Z"}, {"updated_at": "then"}, {}])
def test_a_thread_that_is_named_has_changed_and_no_other_has(first: CodexFile, time: dict[str, str]) -> None:
    other = CodexFile(first.folder, name=TWO)
    index = first.folder.parent / "session_index.jsonl"
    before = look("codex", first.folder).files
    index.write_text(json.dumps({"id": ONE, "thread_name": "Shop", **time}) + "\n")
    os.utime(index, ns=(1 << 62, 1 << 62))
    after = look("codex", first.folder).files
    assert after[str(first.path)] != before[str(first.path)]
    assert after[str(other.path)] == before[str(other.path)]


SOURCES = {
    "spawned": {"source": {"subagent": {"thread_spawn": {"parent_thread_id": ONE, "depth": 1}}}},
    "spawned, with its thread's id": {"source": {"subagent": {"other": "guardian"}}, "parent_thread_id": ONE},
    "forked": {"source": {"subagent": "review"}, "forked_from_id": ONE},
    "named": {"thread_source": "subagent", "session_id": ONE},
}


@pytest.mark.parametrize("facts", SOURCES.values(), ids=SOURCES.keys())
def test_sub_agents_stand_below_their_session_without_its_history(first: CodexFile, facts: dict[str, Any]) -> None:
    child = CodexFile(first.folder, name=TWO)
    child.path.unlink()
    child.begin(**facts)
    child.write_bytes(first.path.read_bytes())  # as earlier versions copied it
    child.asks("check the changelog")
    child.says("checked")
    assert parent_of("codex", child.path) == mirror_id("codex", first.path)
    assert is_subagent("codex", str(child.path))
    log = read(child.path)
    assert texts(log) == ["check the changelog", "checked"]
    assert log.first_prompt == "check the changelog"
    assert "6 items repeat the session that a sub-agent works for" in [
        loss.message for loss in log.file.left_out.losses()
    ]


def test_a_fork_that_a_person_made_is_no_sub_agent(first: CodexFile) -> None:
    fork = CodexFile(first.folder, name=TWO)
    fork.path.unlink()
    fork.begin(forked_from_id=ONE, source="cli", thread_source="user")
    fork.write_bytes(first.path.read_bytes())
    assert parent_of("codex", fork.path) is None
    assert texts(read(fork.path))[:2] == TURN[0]


def test_words_in_events_alone_are_read(tmp_path: Path) -> None:
    file = CodexFile(tmp_path, name=ONE)
    file.event("user_message", message="hello")
    file.event("item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": "hello"}]})
    log = CodexLog(file.path)
    log.read()
    assert log.steps() == []  # the items that say the same may be yet to come
    file.event("agent_message", message="hi there")
    log.read()
    assert texts(log) == ["hello", "hi there"]
    assert log.first_prompt == "hello"
    assert log.file.left_out.losses() == []
    made = log.continuation(log.steps())
    assert [record["payload"].get("role") for record in made.records][1:] == ["user", "assistant"]


def test_prompts_in_events_alone_are_told_where_others_are_items(first: CodexFile) -> None:
    first.event("user_message", message="question 3")
    assert read(first.path).file.left_out.losses() == []
    first.event("user_message", message="and the tests?")
    assert [loss.message for loss in read(first.path).file.left_out.losses()] == ["1 prompts stand in events alone"]


def picture(*texts: str) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": "<image name=[Image #1]>"}]
    parts += [{"type": "input_image", "image_url": "data:,"}, {"type": "input_text", "text": "</image>"}]
    return {
        "type": "message",
        "role": "user",
        "content": [*parts, *({"type": "input_text", "text": text} for text in texts)],
    }


def noted(author: str, text: str) -> dict[str, Any]:
    marks = {"content_item_metadata": [{"provenance": {"type": author}}]}
    return {**message("user", text), "internal_chat_message_metadata_passthrough": marks}


TAGS = (
    "codex_internal_context", "codex_delegation", "realtime_delegation", "heartbeat", "side_conversation",
    "agent_message_board_notification", "image_resize_notice", "current_time_reminder", "context_window_reminder",
)  # fmt: skip
"""Elements that Codex 0.169.0 puts into messages of the role `user`."""
PROMPTS = {
    "a picture first": (picture("what is this?"), "what is this?"),
    "a picture alone": (picture(), ""),
    "the editor's context": (message("user", "# Context from my IDE setup:\n\n## Open tabs\n- a.py\n\n## My request for Codex:\nfix it"), "fix it"),
    "files that were pasted": (message("user", "\n# Files mentioned by the user:\n\n## a.png: /tmp/a.png\n\n## My request for Codex:\nfix it"), "fix it"),
    "files, as newer versions put it": (message("user", "# Files mentioned by the user:\n\n## a.md: a.md\n\n## My request:\nfix it"), "fix it"),
    "the heading in a selection, too": (message("user", "# Selected text:\n## My request for Codex:\nold\n\n## My request for Codex:\nfix it"), "fix it"),
    "a browser": (message("user", "<in-app-browser-context source=\"x\">\n# In app browser:\n- a tab\n</in-app-browser-context>\n\n## My request:\nfix it"), "fix it"),
    "an editor's context alone": (message("user", "# Context from my IDE setup:\n\n## Open tabs\n- a.py\n"), None),
    "a person's own headings": (message("user", "# Plan\n\n## My request:\nnone"), "# Plan ## My request: none"),
    "what a person typed, whatever it looks like": (noted("user", "<environment_context> is what?"), "<environment_context> is what?"),
    "what the program wrote, whatever it looks like": (noted("harness", "Do go on."), None),
    "the environment": (message("user", "<environment_context>\n</environment_context>"), None),
    "instructions": (message("user", "# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>"), None),
    "an interruption": (message("user", "<turn_aborted>\nx\n</turn_aborted>"), None),
    "a command": (message("user", "<user_shell_command>\n<command>ls</command>\n</user_shell_command>"), None),
    "a sub-agent's end": (message("user", "<subagent_notification>{}</subagent_notification>"), None),
    "all that a session begins with": (
        message("user", "<recommended_plugins>\n- x\n</recommended_plugins>\n# AGENTS.md instructions for /shop\nx"), None,
    ),
    "a person's own element": (message("user", "<my_rules>short</my_rules> go"), "<my_rules>short</my_rules> go"),
    **{f"<{tag}>": (message("user", f'<{tag} source="x">\ny\n</{tag}>'), None) for tag in TAGS},
}  # fmt: skip


@pytest.mark.parametrize(("item", "words"), PROMPTS.values(), ids=PROMPTS.keys())
def test_a_prompt_is_what_a_person_typed(tmp_path: Path, item: dict[str, Any], words: str | None) -> None:
    file = CodexFile(tmp_path, name=ONE)
    file.write("response_item", item)
    file.says("answer")
    log = read(file.path)
    found = RecordList(log.file.left_out, LogState())
    list(log.write(log.steps(), found))
    assert len(found.made) == (words is not None)
    assert (log.first_prompt or "") == (words or "")


def parts(*texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": "user", "content": content}


CONTEXT = "<environment_context>\nx\n</environment_context>"
TURNS = {
    "words": (parts("go on"), True),
    "the environment": (parts(CONTEXT), False),
    "the environment with words beside it": (parts("go on", f"\n{CONTEXT}\n"), False),
    "the environment with words below it": (parts(f"{CONTEXT}\ngo on"), True),
    "the environment in capitals": (parts(CONTEXT.upper()), False),
    "instructions": (parts("# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>"), False),
    "instructions that end otherwise": (parts("# AGENTS.md instructions for /shop"), True),
    "a goal": (parts('<codex_internal_context source="user_goal">x</codex_internal_context>'), False),
    "an automation": (parts("<heartbeat>x</heartbeat>"), True),
    "a picture": (picture(), True),
    "what the program wrote, by its mark": (noted("harness", "Do go on."), True),
}


@pytest.mark.parametrize(("item", "counts"), TURNS.values(), ids=TURNS.keys())
def test_a_rollback_counts_what_the_program_counts(first: CodexFile, item: dict[str, Any], counts: bool) -> None:
    first.write("response_item", item)
    first.turn(4)
    first.event("thread_rolled_back", num_turns=2)
    assert texts(read(first.path)) == [*TURN[0], *TURN[1], *(TURN[2] if counts else [])]


def test_calls_and_results_of_any_kind_go_together_and_orphans_are_told(tmp_path: Path) -> None:
    file = CodexFile(tmp_path, name=ONE)
    file.asks("question 1")
    file.write("response_item", {"type": "tool_search_call", "call_id": "s1", "arguments": {"query": "x"}})
    file.write("response_item", {"type": "tool_search_output", "call_id": "s1", "tools": [{"name": "ls"}]})
    file.gets("never-called", "lost")
    file.calls("open")
    log = read(file.path)
    assert [each.get("tool_call_id") for each in messages(log)] == [None, None, "s1", None]
    assert log.open_calls(log.steps()) == {"open"}
    assert [loss.message for loss in log.file.left_out.losses()] == ["1 results go with no call of the conversation"]
    made = log.continuation(log.steps()[:4])
    assert "never-called" not in json.dumps(list(made.records))
    assert made.healed == ("1 results of calls that are not in the conversation are left out",)


def test_a_file_without_its_first_line_is_read_and_gone_on_with(first: CodexFile) -> None:
    lines = first.path.read_bytes().splitlines(keepends=True)
    first.path.write_bytes(lines[0][:40] + b"\n" + b"".join(lines[1:]))
    log = read(first.path)
    assert texts(log)[:2] == TURN[0]
    assert session_key("codex", first.path) == ONE
    made = log.continuation(log.steps())
    records = list(made.records)
    assert (records[0]["type"], records[0]["payload"]["cwd"]) == ("session_meta", "/shop")
    assert made.healed
