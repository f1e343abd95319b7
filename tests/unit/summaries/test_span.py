"""The summary of a span, whatever its messages hold."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeleap.message_text import MOST_CHARACTERS, SUMMARY_PREFACE, plain_line
from timeleap.sessions.kernel.append_records import dmail_text, note_text
from timeleap.storage.log_values import Role
from timeleap.summaries.log_spans import MOST_CALLS, MOST_FILES, READ_BYTES, READ_MESSAGES, SpanTally
from timeleap.summaries.outcome import is_failure

Json = dict[str, Any]
ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def assistant(content: Any, *calls: tuple[str, Any]) -> Json:
    made = [
        {"type": "function", "id": f"call {number}", "function": {"name": name, "arguments": given}}
        for number, (name, given) in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": made} if made else {})}


def result(content: Any, call: int = 0, **more: Any) -> Json:
    return {"role": "tool", "content": content, "tool_call_id": f"call {call}", **more}


def tally(*messages: Any, follows: Role = Role.NONE) -> SpanTally:
    found = SpanTally(follows)
    for message in messages:
        record = message if isinstance(message, bytes) else json.dumps(message).encode()
        role = ROLES.get(str(message.get("role")), Role.OTHER) if isinstance(message, dict) else Role.OTHER
        wanted = found.wants(len(record))
        if wanted:
            found.take(record[:wanted], role, whole=wanted == len(record))
    return found


def summary(*messages: Any, follows: Role = Role.NONE) -> Json:
    return tally(*messages, follows=follows).wire(len(messages), None)


def call_of(*calls: tuple[str, Any]) -> Json:
    made: Json = summary(assistant("x", *calls))["calls"][0]
    return made


# kinds


def test_nothing_is_empty() -> None:
    assert summary() == {"kind": "empty", "text": "", "messages": 0}
    assert summary(user("")) == {"kind": "empty", "text": "", "messages": 1}
    assert summary(user("<system>CHECKPOINT 3</system>"))["kind"] == "empty"


def test_the_first_prompt_counts_and_no_words_of_programs() -> None:
    by_program = user("<system-reminder>x</system-reminder>"), user("<environment_context>\n</environment_context>")
    found = summary(*by_program, user("first"), assistant("a", ("run", "{}")), user("second"))
    assert (found["kind"], found["text"]) == ("prompt", "first")


def test_a_compaction_and_a_note_come_before_what_follows_them() -> None:
    compacted = user(
        [{"type": "text", "text": f"<system>{SUMMARY_PREFACE}</system>"}, {"type": "text", "text": "## All\n"}]
    )
    assert summary(compacted, user("on"))["kind"] == "compacted"
    assert summary(compacted)["text"] == "All"
    for text in (dmail_text("try *that*"), dmail_text("try *that*", "other"), note_text("try *that*", "other")):
        assert summary(user(text), assistant("a", ("run", "{}")))["kind"] == "dmail"
        assert summary(user(text))["text"] == "try that"


def test_calls_without_a_prompt_and_text_without_calls() -> None:
    assert summary(assistant("Let me.", ("bash", '{"command":"ls"}')))["text"] == "bash ls"
    assert summary(assistant("Let me.")) == {"kind": "text", "text": "Let me.", "messages": 1}
    assert summary(result("a late result"))["text"] == "a late result"
    assert summary(user([{"type": "image_url", "image_url": {}}]))["text"] == "[image_url]"
    assert summary(assistant([{"type": "think", "think": "hm"}]))["text"] == "hm"


def test_commands_of_an_agent_without_tools_are_calls_once_a_terminal_has_answered() -> None:
    said = assistant("We run it.\n```\npython solve.py 1\n```")
    assert summary(said)["kind"] == "text"
    found = summary(said, user("Traceback (most recent call last):\nValueError: x\nbash-$"))
    assert found == {
        "kind": "calls",
        "text": "python solve.py 1",
        "errors": 1,
        "messages": 2,
        "calls": [{"name": "python", "argument": "solve.py 1", "failed": True}],
    }
    assert summary(assistant("<command>\nls\n</command>"), user("a\nbash-$"))["calls"] == [{"name": "ls"}]
    assert summary(user("Solve it.\nbash-$"))["kind"] == "prompt"
    assert summary(user("printed\nbash-$"), follows=Role.ASSISTANT)["kind"] == "text"
    assert summary(said, user("thank you"))["kind"] == "prompt"


# calls


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"text": "x", "path": "a.py"}', "a.py"),
        ({"file_path": "a.py", "old_string": "x"}, "a.py"),
        ('{"command": ["bash", "-lc", "pytest -q"], "workdir": "/x"}', "pytest -q"),
        ('{"command": ["git", "status"]}', "git status"),
        ('{"query": "two\\nlines"}', "two lines"),
        ('{"zz": 1, "unknown": "shown"}', "1"),
        ('{"input": "*** Begin Patch\\n*** Update File: src/a.py\\n@@"}', "src/a.py"),
        ('{"path": "broken.py", "text": "cut o', "broken.py"),
        ('{"command": "echo \\"x\\"', 'echo "x"'),
        ("no JSON at all", "no JSON at all"),
        ('"text"', "text"),
        ('{"path": "\\u202egnp.exe"}', "gnp.exe"),
        ("[" * 100_000, "[" * 199 + "…"),
    ],
)
def test_the_argument_that_tells_most(arguments: Any, expected: str) -> None:
    assert call_of(("tool", arguments))["argument"] == expected


@pytest.mark.parametrize("arguments", ["{}", "", "null", None, "{", '{"path": ""}', '{"a": [1, {}]}', 7])
def test_a_call_without_an_argument_that_tells_anything(arguments: Any) -> None:
    assert call_of(("tool", arguments)).get("argument", "") in ("", "{", "null")


def test_calls_and_files_are_bounded_and_the_failed_ones_counted_all() -> None:
    many = [("edit", json.dumps({"path": f"{number}.py"})) for number in range(1000)]
    found = summary(assistant("", *many), *(result("Error: no", number) for number in range(0, 1000, 10)))
    assert (len(found["calls"]), found["moreCalls"], len(found["files"])) == (MOST_CALLS, 980, MOST_FILES)
    assert found["errors"] == 100
    assert [bool(call.get("failed")) for call in found["calls"]] == [number % 10 == 0 for number in range(20)]
    assert len(found["text"]) <= MOST_CHARACTERS and found["text"].startswith("edit 0.py; edit 1.py; ")


def test_a_summary_that_was_handed_out_does_not_change() -> None:
    found = tally(assistant("", ("run", "{}")))
    before = found.wire(1, None)
    as_text = json.dumps(before)
    record = json.dumps(result("Error: x")).encode()
    found.wants(len(record))
    found.take(record, Role.TOOL)
    assert json.dumps(before) == as_text
    assert found.wire(2, None)["calls"] == [{"name": "run", "failed": True}]


def test_an_id_that_is_used_again_means_the_nearest_call_before() -> None:
    first, second = assistant("", ("a", "{}")), assistant("", ("b", "{}"))
    found = summary(first, result("Error: x"), second, result("fine"))
    assert found["calls"] == [{"name": "a", "failed": True}, {"name": "b"}]


# failures


@pytest.mark.parametrize(
    "content",
    [
        "<system>ERROR: Tool execution failed</system>",
        [{"type": "text", "text": "<system>ERROR: no such tool</system>"}, {"type": "text", "text": "output"}],
        "<tool_use_error>File has not been read yet</tool_use_error>",
        "Error: ENOENT",
        "Exit code: 2\nWall time: 1 s\nOutput:\nall fine",
        "Process exited with code 1",
        '{"output": "x", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}',
        '{"error": "rate limited"}',
        '{"success": false}',
        "Traceback (most recent call last):\n  File x\nKeyError: 'a'",
        "tests/test_a.py F\n1 failed, 3 passed in 0.12s",
        "bash: foo: command not found",
        "Your proposed edit has introduced new syntax error(s). Retry.\n1:import x\n2:y",
    ],
)
def test_a_result_that_says_that_its_call_failed(content: Any) -> None:
    assert is_failure(result(content))


@pytest.mark.parametrize(
    "content",
    [
        "ok",
        "",
        None,
        [],
        7,
        "<system>Command executed successfully.</system>",
        "Exit code: 0\nOutput:\n1 failed",
        '{"output": "Error: x", "metadata": {"exit_code": 0}}',
        '{"error": null, "result": 1}',
        "4 passed, 0 failed in 1s",
        "1:import x\n2:raise ValueError(x)",
        "the error handling was improved\nall of it",
    ],
)
def test_a_result_that_does_not(content: Any) -> None:
    assert not is_failure(result(content))


def test_a_flag_counts_more_than_words() -> None:
    assert is_failure(result("all fine", is_error=True))
    assert is_failure(result([{"type": "tool_result", "is_error": True, "content": "x"}]))
    assert not is_failure(result("Error: that is the text of a file", isError=False))


def test_what_reads_files_shows_words_of_failure_without_failing() -> None:
    shown = "class LoginError(Exception):\n    pass\nLoginError: x"
    for name, arguments in (
        ("read_file", '{"path": "a"}'),
        ("Grep", '{"pattern": "Error"}'),
        ("bash", '{"command": "cat a"}'),
    ):
        assert "failed" not in summary(assistant("", (name, arguments)), result(shown))["calls"][0]
    assert summary(assistant("", ("bash", '{"command": "pytest"}')), result(shown))["calls"][0]["failed"]


# hostile messages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\n\n- **bold** and __also bold__\n- `code`\n", "Title bold and also bold code"),
        ("> quoted\n1. *one* _two_ ~~three~~", "quoted one two three"),
        ('see [the page](http://x/a_(b) "t") ![alt](data:x)', "see the page alt"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("snake_case a*b __init__.py 2 * 3 * 4 src/**", "snake_case a*b __init__.py 2 * 3 * 4 src/**"),
        ("a\x00b\x1b[31mred\x07\u202eevil\u2028line\u200b", "a b [31mred evil line"),
        ("שלום עולם", "שלום עולם"),
        ("\ud800 half", "\ufffd half"),
        ("---\n===", ""),
    ],
)
def test_a_text_on_one_line_without_marks(text: str, expected: str) -> None:
    assert plain_line(text) == expected


@pytest.mark.parametrize(
    "text", ["x" * 10_000_000, "word " * 2_000_000, "😀" * 5_000_000, " \n" * 5_000_000 + "x", "`" * 10**7]
)
def test_ten_megabytes_are_cut_and_not_read(text: str) -> None:
    found = summary(user(text), assistant("done"))
    assert found["kind"] in ("prompt", "text")
    assert len(found["text"].encode("utf-16-le")) // 2 <= MOST_CHARACTERS
    assert found["messages"] == 2


def test_of_a_record_beyond_the_bound_the_beginning_is_told() -> None:
    escaped = 'caf\u00e9 \\ "quoted" \U0001f600 ' * (READ_BYTES // 20)
    assert summary(user(escaped))["text"].startswith('café \\ "quoted" 😀')
    assert summary(user([{"type": "text", "text": "a" * (READ_BYTES + 1)}]))["kind"] == "prompt"
    assert summary(b'{"content":7,"role":"user","x":"' + b"y" * READ_BYTES + b'"}')["kind"] == "empty"


def test_beyond_the_bounds_messages_are_only_counted() -> None:
    found = summary(*([assistant("a", ("run", "{}"))] * (READ_MESSAGES + 100)))
    assert (found["messages"], found["moreCalls"]) == (READ_MESSAGES + 100, READ_MESSAGES - MOST_CALLS)


@pytest.mark.parametrize(
    "record",
    [b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b'{"role":7}', b'{"role":"user","content":[[],7,null,{"type":7}]}',
     b'{"role":"assistant","content":null,"tool_calls":[7,null,{},{"function":7},{"function":{"name":7,"arguments":7}}]}',
     b'{"role":"tool","tool_call_id":7,"content":{"a":1}}', b"[" * 100_000,
     b'{"role":"assistant","content":[{"type":"tool_use","name":"edit","input":{"path":"a"},"id":"1"}]}'],
)  # fmt: skip
def test_what_is_no_sound_message_does_no_harm(record: bytes) -> None:
    found = summary(record, user("after"))
    assert found["messages"] == 2
    json.dumps(found)


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["role", "content", "type", "text", "think", "tool_calls", "id", "function", "name", "arguments", "tool_call_id",
         "input", "is_error", "path", "command"]
    ), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system", "x"])},
        optional={"content": ANYTHING, "tool_calls": ANYTHING, "tool_call_id": ANYTHING, "is_error": ANYTHING},
    ),
    max_size=6,
)


@settings(deadline=None)
@given(MESSAGES)
def test_any_json_gives_a_summary_of_its_shape(messages: list[Json]) -> None:
    found = summary(*messages)
    assert json.loads(json.dumps(found)) == found
    assert len(found["text"].encode("utf-16-le", "strict")) // 2 <= MOST_CHARACTERS
    assert not re.search("[\x00-\x1f\u2028\u202e]", found["text"])
    assert len(found.get("calls", [])) <= MOST_CALLS and len(found.get("files", [])) <= MOST_FILES
    assert (found["kind"] == "empty") <= (found["text"] == "")
