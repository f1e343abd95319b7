"""The original program reads what we write, and we read what it writes: the released one, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.interop.agreement import assert_agree
from tests.interop.original import Json, Original, OriginalError, Step
from tests.support.server import Launch, Server
from tests.support.session import Session

from timeleap import (
    Context,
    JsonlLinearStorage,
    Message,
    SessionState,
    ToolCall,
    load_session_state,
    save_session_state,
)
from timeleap.features.compaction.prepare import summary_message
from timeleap.storage.record import checkpoint_record, classify, message_record, system_prompt_record, usage_record

pytestmark = pytest.mark.interop

TEXTS = [
    "plain",
    "",
    "你好，世界",
    "\u2028\u2029\x85 line ends that are none",
    '\x00\x1f\x7f\\"',
    "\U0001f600\ufeff",
    "a\nb\r\nc",
]


def say(role: str, content: Any, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


RICH: list[Json] = [
    *[say("user", text) for text in TEXTS],
    say("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    say("assistant", [{"type": "think", "think": "hm", "encrypted": "sig"}, {"type": "text", "text": "x"}]),
    say("user", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "id": "1"}}]),
    say("user", [{"type": "audio_url", "audio_url": {"url": "u"}}, {"type": "video_url", "video_url": {"url": "v"}}]),
    say("assistant", [], tool_calls=[
        {"type": "function", "id": "c1", "function": {"name": "f", "arguments": '{"é": 1}'}, "extras": {"n": [1, None]}},
        {"type": "function", "id": "c2", "function": {"name": "g", "arguments": ""}},
    ]),
    say("tool", "result", tool_call_id="c1"),
    say("system", "note", name="n"),
    say("assistant", "partly", partial=True),
]  # fmt: skip


async def perform(log: Path, steps: list[Step]) -> None:
    """The steps of the original's worker on our `Context`."""
    async with Context(log) as context:
        for name, value in steps:
            match name:
                case "restore":
                    await context.restore()
                case "append":
                    messages = [Message.model_validate(message) for message in value]
                    await context.append_message(messages if len(messages) > 1 else messages[0])
                case "checkpoint":
                    await context.checkpoint(add_user_message=value)
                case "usage":
                    await context.update_token_count(value)
                case "revert":
                    await context.revert_to(value)
                case "clear":
                    await context.clear()
                case "prompt":
                    await context.write_system_prompt(value)


def every_operation() -> list[Step]:
    return [
        ("prompt", "You are 助手."),
        *[("append", [message]) for message in RICH],
        ("checkpoint", False),
        ("usage", 100),
        ("append", [say("user", "b" * 41)]),
        ("checkpoint", True),
        ("append", [say("assistant", "c")]),
        ("revert", 1),
        ("checkpoint", True),
        ("checkpoint", False),
        ("append", [say("user", "d")]),
        ("revert", 2),
        ("prompt", "Another one, before all that."),
        ("usage", 7),
        ("clear", None),
        ("append", [say("user", "anew")]),
        ("checkpoint", True),
        ("revert", 0),
    ]


async def test_after_every_operation_both_wrote_the_same_bytes_and_read_the_same(
    original: Original, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    steps = every_operation()
    for count in range(1, len(steps) + 1):
        for folder in (ours, theirs):
            for file in folder.iterdir():
                file.unlink()
        await perform(ours / "c.jsonl", steps[:count])
        last = original.perform(theirs / "c.jsonl", steps[:count])
        assert (ours / "c.jsonl").read_bytes() == (theirs / "c.jsonl").read_bytes(), steps[count - 1]
        state = await assert_agree(original, ours / "c.jsonl")
        assert state.history == last.history
        # It rounds at every append, we once over the sum.
        assert abs(state.token_count_with_pending - last.token_count_with_pending) <= count


async def test_the_timelines_hold_what_its_rotated_files_hold(original: Original, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    steps = [step for step in every_operation() if step != ("prompt", "Another one, before all that.")]
    await perform(ours / "c.jsonl", steps)
    original.perform(theirs / "c.jsonl", steps)
    rotated = {file.name: file.read_bytes() for file in theirs.glob("c*.jsonl")}
    assert {file.name: file.read_bytes() for file in ours.glob("c*.jsonl")} == rotated
    assert len(rotated) == 5


async def test_a_batch_of_ours(original: Original, tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    await perform(log, [("append", RICH), ("checkpoint", True), ("append", RICH[:3]), ("usage", 5)])
    assert b'"_tl"' in log.read_bytes()
    state = await assert_agree(original, log)
    assert len(state.history) == len(RICH) + 4
    original.perform(log, [("restore", None), ("append", [say("user", "theirs")]), ("revert", 0)])
    state = await assert_agree(original, log)
    assert state.history == [Message.model_validate(one).model_dump(mode="json", exclude_none=True) for one in RICH]


async def test_taking_turns_on_one_file(original: Original, tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    turns: list[list[Step]] = [
        [("prompt", "p"), ("append", [say("user", "1")]), ("checkpoint", True)],
        [("restore", None), ("append", [say("assistant", "2")]), ("usage", 9), ("checkpoint", False)],
        [("restore", None), ("append", [say("user", "3")]), ("checkpoint", False), ("append", [say("user", "4")])],
        [("restore", None), ("revert", 2)],
        [("restore", None), ("append", [say("user", "5")]), ("revert", 1), ("checkpoint", True)],
        [("restore", None), ("clear", None), ("append", [say("user", "6")])],
    ]
    for number, steps in enumerate(turns * 2):
        if number % 2:
            original.perform(log, steps)
        else:
            await perform(log, steps)
        await assert_agree(original, log)


async def test_records_with_what_only_we_know(original: Original, tmp_path: Path) -> None:
    tl = {"u": "c0-0123456789ab", "l": "label 标签", "t": "2026-01-02T03:04:05.678Z", "r": "r1", "h": "00", "m": "cp"}
    records = [
        message_record(say("user", "a", x_unknown={"deep": [1, 2.5, None]}), {"r": "r0", "h": "1"}),
        checkpoint_record(0, tl),
        usage_record(5, {"r": "r2"}, style="compact"),
        classify(b'{"role":"_note","content":"","_tl":{"m":"x"}}'),
        message_record(say("assistant", [{"type": "text", "text": "b", "annotations": []}])),
        checkpoint_record(1, {"u": "c1-0"}),
    ]
    log = tmp_path / "context.jsonl"
    log.write_bytes(b"".join(record.body + b"\n" for record in records))
    state = await assert_agree(original, log)
    assert (len(state.history), state.n_checkpoints, state.token_count) == (2, 2, 5)
    original.perform(log, [("restore", None), ("revert", 1)])
    kept = [*records[:3], records[4]]  # it opens a log with a control record it does not know, but drops that record
    assert log.read_bytes() == b"".join(record.body + b"\n" for record in kept), "it keeps our key"


async def test_a_compacted_log(original: Original, tmp_path: Path) -> None:
    messages = [message_record(summary_message("概要")), *map(message_record, RICH[-6:])]
    estimate = sum(message.value for message in messages) // 4
    checkpoint = checkpoint_record(0, {"u": "c0-0", "l": "compacted", "t": "2026-01-02T03:04:05.678Z"})
    records = [system_prompt_record("p"), checkpoint, *messages, usage_record(estimate)]
    log = tmp_path / "context.jsonl"
    log.write_bytes(b"".join(record.body + b"\n" for record in records))
    state = await assert_agree(original, log)
    assert (len(state.history), state.n_checkpoints, state.system_prompt) == (7, 1, "p")
    assert state.token_count == state.token_count_with_pending > 0


DAMAGED = [
    b'{"role":"assistant","content":"unterminated',
    b"not json",
    b"[1, 2]",
    b'"text"',
    b"17",
    b'{"oops": 1}',
    b'{"role": null, "content": "x"}',
    b'{"role": "_usage", "token_count": "many"}',
    b'{"role": "_usage"}',
    b'{"role": "_checkpoint", "id": 1.5}',
    b'{"role": "_system_prompt", "content": null}',
    b'{"role": "boss", "content": "x"}',
    b'{"role": "user", "content": 5}',
    b'{"role": "user", "content": [{"type": "text"}]}',
    b'{"role": "user", "content": "x", "tool_calls": [{"id": 1}]}',
    b"",
    b"  \t",
    b'{"role":"assistant","content":"\xe4\xb8',
]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
async def test_damaged_lines(original: Original, tmp_path: Path, damaged: bytes) -> None:
    good = [json.dumps(one).encode() for one in (
        {"role": "_system_prompt", "content": "p"}, say("user", "a"), {"role": "_checkpoint", "id": 0}, say("user", "b"),
        {"role": "_usage", "token_count": 5}, say("user", "cdefg"), {"role": "_checkpoint", "id": 1},
    )]  # fmt: skip
    log = tmp_path / "context.jsonl"
    log.write_bytes(b"\n".join([damaged, *good[:3], damaged, *good[3:], damaged]) + b"\n")
    state = await assert_agree(original, log)
    assert (len(state.history), state.n_checkpoints, state.token_count) == (3, 2, 5)
    await perform(log, [("restore", None), ("append", [say("user", "after")]), ("checkpoint", True)])
    state = await assert_agree(original, log)
    assert state.n_checkpoints == 3
    await perform(log, [("restore", None), ("revert", 1)])
    state = await assert_agree(original, log)
    assert [message["content"] for message in state.history] == ["a", "b", "cdefg"]


async def test_a_torn_tail(original: Original, tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    log.write_bytes(json.dumps(say("user", "a")).encode() + b'\n{"role":"assistant","content":"ha')
    await assert_agree(original, log)
    await perform(log, [("restore", None), ("append", [say("user", "b")])])
    state = await assert_agree(original, log)
    assert [message["content"] for message in state.history] == ["a", "b"]


async def test_what_the_original_cannot_open_opens_here(original: Original, tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    log.write_text(
        json.dumps(say("user", [{"type": "chart", "rows": []}])) + "\n" + json.dumps(say("user", "b")) + "\n"
    )
    with pytest.raises(OriginalError):
        original.restore(log)
    async with await Context.load(log) as context:
        assert [message.extract_text() for message in context.history] == ["", "b"]


async def test_real_sessions_compacted_and_back(original: Original, tmp_path: Path, session_file: Path) -> None:
    before = session_file.read_bytes()
    log = tmp_path / "context.jsonl"
    log.write_bytes(before)
    server = Server(Launch(tmp_path / "home", "ndjson"))
    try:
        server.initialize()
        session = Session.open(server, path=str(tmp_path), access="write")
        pins = ["a pin", "另一个"]
        result = session.call("context/compact", summarizer="builtin", pins=pins)
        assert result["compacted"] is True
        compacted = await assert_agree(original, log)
        assert len(compacted.history) == result["preservedMessages"] + 1
        assert compacted.token_count == result["tokenCountAfter"]
        session.call("context/restoreTimeline", timelineId=result["timelineId"])
        assert log.read_bytes() == before
        await assert_agree(original, log)
        await assert_agree(original, tmp_path / "context_2.jsonl")
    finally:
        server.dispose()


async def test_real_sessions(original: Original, tmp_path: Path, session_file: Path) -> None:
    log = tmp_path / "context.jsonl"
    log.write_bytes(session_file.read_bytes())
    state = await assert_agree(original, log)
    await perform(log, [("restore", None), ("revert", state.n_checkpoints // 2), ("append", [say("user", "other")])])
    reverted = await assert_agree(original, log)
    assert 0 < len(reverted.history) <= len(state.history)


async def test_the_linear_storage(original: Original, tmp_path: Path) -> None:
    messages = [one for one in RICH if one.get("partial") is None]
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    async with JsonlLinearStorage(ours) as storage:
        for message in messages:
            await storage.append_message(Message.model_validate(message))
        await storage.mark_token_count(77)
    original.write_linear(theirs, messages, 77)
    assert ours.read_bytes() == theirs.read_bytes()
    await assert_agree(original, ours)
    async with JsonlLinearStorage(theirs) as storage:
        await storage.restore()
        assert storage.messages == [Message.model_validate(message) for message in messages]
        assert storage.token_count == 77


async def test_what_the_original_wrote_and_cannot_read_is_read_here(original: Original, tmp_path: Path) -> None:
    call = {"type": "function", "id": "c", "function": {"name": "f", "arguments": None}}
    log = tmp_path / "context.jsonl"
    original.perform(log, [("append", [say("assistant", "x", tool_calls=[call])])])
    assert original.restore(log).history == []
    async with await Context.load(log) as context:
        assert context.history == [Message.model_validate(say("assistant", "x", tool_calls=[call]))]


CONTENT = st.text(max_size=12) | st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=6))
    | st.builds(lambda text: {"type": "think", "think": text, "encrypted": None}, st.text(max_size=6)),
    max_size=3,
)
CALLS = st.none() | st.lists(
    st.builds(
        lambda name, arguments: ToolCall(
            id="c", function=ToolCall.FunctionBody(name=name, arguments=arguments)
        ).model_dump(),
        st.text(max_size=4),
        st.text(max_size=6),
    ),
    max_size=2,
)
MESSAGES = st.builds(
    lambda role, content, calls: say(role, content, tool_calls=calls),
    st.sampled_from(["user", "assistant", "tool", "system"]),
    CONTENT,
    CALLS,
)
STEPS = st.lists(
    st.tuples(st.just("append"), st.lists(MESSAGES, min_size=1, max_size=1))
    | st.tuples(st.just("checkpoint"), st.booleans())
    | st.tuples(st.just("usage"), st.integers(0, 2**40))
    | st.tuples(st.just("prompt"), st.text(max_size=8))
    | st.just(("clear", None))
    | st.just(("revert", 0)),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
async def test_any_sequence_of_operations(original: Original, tmp_path: Path, steps: list[Step]) -> None:
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    # So that every operation is possible: the original fails halfway through where there is no file or no checkpoint.
    possible: list[Step] = [("append", [say("user", "first")]), ("checkpoint", False)]
    for step in steps:
        possible.append(step)
        if step[0] in ("clear", "revert"):
            possible.append(("checkpoint", False))
    await perform(folder / "ours.jsonl", possible)
    original.perform(folder / "theirs.jsonl", possible)
    assert (folder / "ours.jsonl").read_bytes() == (folder / "theirs.jsonl").read_bytes()
    await assert_agree(original, folder / "ours.jsonl")


# Session state


def test_our_state_in_the_original(original: Original, tmp_path: Path) -> None:
    state = SessionState.model_validate(
        {
            "approval": {"yolo": True, "afk": True, "auto_approve_actions": ["b", "a"]},
            "custom_title": "标题",
            "archived": True,
            "archived_at": 5.5,
            "todos": [{"title": "t", "status": "done"}],
            "dynamic_subagents": [{"name": "n", "system_prompt": "s"}],
            "future": {"x": 1},
        }
    )
    save_session_state(state, tmp_path)
    theirs = original.load_state(tmp_path)
    theirs["approval"]["auto_approve_actions"].sort()
    ours = state.model_dump(mode="json")
    assert theirs == {name: value for name, value in ours.items() if name not in ("dynamic_subagents", "future")}


def test_the_state_of_the_original_here(original: Original, tmp_path: Path) -> None:
    document = {
        "version": 1,
        "approval": {"yolo": True, "afk": False, "auto_approve_actions": ["a"]},
        "additional_dirs": ["/srv"],
        "custom_title": "t",
        "plan_mode": True,
        "plan_slug": "slug",
        "todos": [{"title": "t", "status": "pending"}],
    }
    original.save_state(tmp_path, document)
    written = (tmp_path / "state.json").read_bytes()
    state = load_session_state(tmp_path)
    assert {name: state.model_dump(mode="json")[name] for name in document} == document
    save_session_state(state, tmp_path)
    assert (tmp_path / "state.json").read_bytes() == written
