"""`Context`: the original's behaviour and bytes, with guarantees it did not have."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from timeleap import (
    CompactionResult,
    Context,
    JsonlLinearStorage,
    Message,
    TextPart,
    TokenUsage,
    estimate_text_tokens,
    should_auto_compact,
    system,
)
from timeleap.errors import (
    AlreadyRestoredError,
    CheckpointNotFoundError,
    RotationUnavailableError,
    StorageFailureError,
    TimeleapError,
)
from timeleap.storage import log_files

Json = dict[str, Any]


def say(role: Any, text: str) -> Message:
    return Message(role=role, content=[TextPart(text=text)])


def record(role: str, text: str) -> Json:
    return {"role": role, "content": text}


def write(path: Path, records: Sequence[Json | str]) -> bytes:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(data)
    return data


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def texts(context: Context) -> list[str]:
    return [message.extract_text() for message in context.history]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


FULL: list[Json] = [
    {"role": "_system_prompt", "content": "prompt"},
    record("user", "before"),
    {"role": "_usage", "token_count": 42},
    {"role": "_checkpoint", "id": 0},
    record("assistant", "between"),
    {"role": "_checkpoint", "id": 1},
    record("user", "after"),
]

# Restoring


async def test_a_new_context_has_nothing_and_touches_nothing(log: Path) -> None:
    context = Context(file_backend=log)
    assert context.file_backend == log
    assert context.history == []
    assert (context.token_count, context.token_count_with_pending, context.n_checkpoints) == (0, 0, 0)
    assert context.system_prompt is None
    assert list(log.parent.iterdir()) == []


@pytest.mark.parametrize("there", [True, False])
async def test_nothing_to_restore(log: Path, there: bool) -> None:
    if there:
        log.touch()
    context = Context(str(log))
    assert await context.restore() is False
    assert await context.restore() is False, "nothing was taken over, so it may be tried again"
    assert log.exists() is there
    assert context.history == []


async def test_restore_takes_over_everything(log: Path) -> None:
    write(log, FULL)
    async with Context(log) as context:
        assert await context.restore() is True
        assert context.history == [say("user", "before"), say("assistant", "between"), say("user", "after")]
        assert (context.token_count, context.n_checkpoints, context.system_prompt) == (42, 2, "prompt")
        assert context.token_count_with_pending == 42 + len("betweenafter") // 4


async def test_restore_writes_nothing(log: Path) -> None:
    data = write(log, [*FULL, '{"role":"user","content":"torn'])[:-1]
    log.write_bytes(data)
    log.chmod(0o644)
    before = log.stat()
    async with await Context.load(log) as context:
        assert len(context.history) == 3
        assert context.system_prompt == "prompt"
    assert log.read_bytes() == data
    assert (log.stat().st_mtime_ns, log.stat().st_mode) == (before.st_mtime_ns, before.st_mode)
    assert [path.name for path in log.parent.iterdir()] == [log.name]


async def test_a_second_restore_is_refused(log: Path) -> None:
    write(log, FULL)
    async with await Context.load(log) as context:
        with pytest.raises(RuntimeError) as caught:
            await context.restore()
        assert isinstance(caught.value, AlreadyRestoredError)
        assert str(caught.value) == "The context storage is already modified"
        assert len(context.history) == 3


async def test_restoring_after_an_append_is_refused(log: Path) -> None:
    write(log, FULL)
    async with Context(log) as context:
        await context.append_message(say("user", "new"))
        with pytest.raises(RuntimeError):
            await context.restore()


async def test_load(log: Path) -> None:
    assert (await Context.load(log)).history == []
    write(log, FULL)
    async with await Context.load(str(log)) as context:
        assert len(context.history) == 3


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"role":"assistant","content":"unterminated',
        b'{"role":"assistant","content":"\xe4\xb8',
        b"not json",
        b"[1]",
        b'"text"',
        b'{"oops": 1}',
        b'{"role": 5}',
        b'{"role": "_usage", "token_count": "many"}',
        b'{"role": "_checkpoint", "id": null}',
        b'{"role": "_system_prompt", "content": 5}',
        b"",
        b"   ",
    ],
)
@pytest.mark.parametrize("last", [True, False])
async def test_a_damaged_line_is_skipped_and_left_out_of_a_new_log(log: Path, damaged: bytes, last: bool) -> None:
    good = [json.dumps(one).encode() for one in (record("user", "a"), {"role": "_checkpoint", "id": 0})]
    log.write_bytes(b"\n".join([good[0], damaged, good[1], *([damaged] if last else [])]) + b"\n")
    async with await Context.load(log) as context:
        assert texts(context) == ["a"]
        assert (context.token_count, context.n_checkpoints, context.system_prompt) == (0, 1, None)
        await context.append_message(say("user", "b"))
        assert texts(context) == ["a", "b"]
        await context.revert_to(0)
        assert lines(log) == [record("user", "a")]


async def test_messages_the_original_cannot_read_are_shown(log: Path) -> None:
    write(log, [record("critic", "c"), {"role": "user", "content": [{"type": "chart", "rows": [1]}]}, {"role": "user"}])
    async with await Context.load(log) as context:
        assert [str(message.role) for message in context.history] == ["critic", "user", "user"]
        assert context.history[1].content[0].model_dump() == {"type": "chart", "rows": [1]}


async def test_records_of_newer_programs_are_kept_and_ignored(log: Path) -> None:
    write(log, [record("user", "a"), {"role": "_meta", "content": "", "x": 1}, {"role": "_checkpoint", "id": 0}])
    async with await Context.load(log) as context:
        assert texts(context) == ["a"]
        await context.revert_to(0)
    assert lines(log)[1] == {"role": "_meta", "content": "", "x": 1}


# The bytes on disk


async def test_the_bytes_are_those_of_the_original(log: Path) -> None:
    async with Context(log) as context:
        await context.write_system_prompt("You are 助手.\n")
        await context.append_message(say("user", "你好 \x00\t\x7f \U0001f600"))
        await context.checkpoint(add_user_message=True)
        await context.checkpoint(False)
        await context.append_message([Message(role="assistant", content=[])])
        await context.update_token_count(1472)
    assert log.read_text(encoding="utf-8").splitlines() == [
        '{"role": "_system_prompt", "content": "You are \\u52a9\\u624b.\\n"}',
        '{"role":"user","content":"你好 \\u0000\\t\x7f \U0001f600"}',
        '{"role": "_checkpoint", "id": 0}',
        '{"role":"user","content":"<system>CHECKPOINT 0</system>"}',
        '{"role": "_checkpoint", "id": 1}',
        '{"role":"assistant","content":[]}',
        '{"role": "_usage", "token_count": 1472}',
    ]


async def test_several_messages_are_one_batch(log: Path) -> None:
    async with Context(log) as context:
        await context.append_message([say("user", "a"), say("assistant", "b")])
        await context.append_message([])
        assert texts(context) == ["a", "b"]
    written = lines(log)
    assert [{key: one[key] for key in ("role", "content")} for one in written] == [
        record("user", "a"),
        record("assistant", "b"),
    ]
    assert [(one["_tl"]["i"], one["_tl"]["n"]) for one in written] == [(0, 2), (1, 2)]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
async def test_the_log_is_private(log: Path) -> None:
    async with Context(log) as context:
        await context.append_message(say("user", "secret"))
    assert log.stat().st_mode & 0o777 == 0o600


# Appending


async def test_an_append_is_on_disk_when_it_returns(log: Path) -> None:
    async with Context(log) as context:
        for number in range(5):
            await context.append_message(say("user", str(number)))
            assert [one["content"] for one in lines(log)] == [str(n) for n in range(number + 1)]
        assert texts(context) == ["0", "1", "2", "3", "4"]


async def test_what_cannot_be_stored_changes_nothing(log: Path) -> None:
    async with Context(log) as context:
        await context.append_message(say("user", "a"))
        before = log.read_bytes()
        with pytest.raises(ValueError, match="surrogates"):
            await context.append_message([say("user", "fine"), say("user", "\ud800")])
        with pytest.raises(ValueError, match="reserved"):
            await context.append_message(Message.model_construct(role="_usage", content=[]))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not an integer below"):
            await context.update_token_count(2**70)
        assert log.read_bytes() == before
        assert texts(context) == ["a"]


async def test_memory_and_disk_agree_after_an_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Context(log) as context:
        await context.append_message(say("user", "a"))

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        from timeleap.storage import durable

        with monkeypatch.context() as patch:
            patch.setattr(durable.OpenFile, "append", fail)
            with pytest.raises(OSError, match="space") as caught:
                await context.append_message(say("user", "b"))
            assert isinstance(caught.value, StorageFailureError)
        assert texts(context) == ["a"]
        assert (await Context.load(log)).history == context.history
        await context.append_message(say("user", "c"))
        assert texts(context) == ["a", "c"]


async def test_concurrent_tasks_lose_and_mix_nothing(log: Path) -> None:
    async def work(context: Context, name: str) -> None:
        for number in range(10):
            await context.append_message([say("user", f"{name}{number}"), say("assistant", f"{name}{number}!")])
            await context.checkpoint(add_user_message=True)
            await context.update_token_count(number)

    async with Context(log) as context:
        await asyncio.gather(*(work(context, name) for name in "abcd"))
        shown = texts(context)
        assert context.n_checkpoints == 40
        assert (await Context.load(log)).history == context.history
    for name in "abcd":
        assert [text for text in shown if text[0] == name and text[-1] != "!"] == [f"{name}{n}" for n in range(10)]
    for place, text in enumerate(shown):
        if text[0] in "abcd" and text[-1] != "!":
            assert shown[place + 1] == text + "!", "a batch is in one piece"
    ids = [one["id"] for one in lines(log) if one["role"] == "_checkpoint"]
    assert ids == list(range(40))
    told = [text for text in shown if "CHECKPOINT" in text]
    assert told == [f"<system>CHECKPOINT {number}</system>" for number in range(40)]
    for before, after in zip(lines(log), lines(log)[1:], strict=False):
        if before["role"] == "_checkpoint":
            assert after["content"] == f"<system>CHECKPOINT {before['id']}</system>"


# Objects on one file


async def test_an_object_that_restored_nothing_shows_what_it_wrote_itself(log: Path) -> None:
    write(log, FULL)
    async with Context(log) as context:
        await context.append_message([say("user", "x" * 8)])
        await context.update_token_count(7)
        await context.append_message(say("tool", "y" * 8))
        await context.checkpoint(add_user_message=True)
        assert texts(context) == ["x" * 8, "y" * 8, "<system>CHECKPOINT 2</system>"]
        assert context.token_count == 7
        assert context.token_count_with_pending == 7 + (8 + len("<system>CHECKPOINT 2</system>")) // 4
        assert context.n_checkpoints == 3, "the file has two already: an id is not given twice"
        await context.write_system_prompt("new")
        assert context.system_prompt == "new"
        assert len(context.history) == 3
        assert lines(log)[0]["content"] == "new"
        assert [one["content"] for one in lines(log) if one["role"] in ("user", "assistant", "tool")] == [
            "before", "between", "after", "x" * 8, "y" * 8, "<system>CHECKPOINT 2</system>",
        ]  # fmt: skip
        await context.revert_to(2)
        assert texts(context) == ["before", "between", "after", "x" * 8, "y" * 8], "it read the log for that"


async def test_an_object_that_restored_nothing_knows_no_older_checkpoint(log: Path) -> None:
    write(log, FULL)
    async with Context(log) as context:
        with pytest.raises(ValueError, match="does not exist"):
            await context.revert_to(0)


async def test_objects_on_one_file_share_the_order_of_things(log: Path) -> None:
    async with Context(log) as first, Context(str(log)) as second, JsonlLinearStorage(log) as third:
        await first.append_message(say("user", "1"))
        await second.restore()
        await second.append_message(say("user", "2"))
        await third.restore()
        await third.append_message(say("user", "3"))
        await first.checkpoint(add_user_message=False)
        await second.checkpoint(add_user_message=False)
        assert texts(first) == texts(second) == ["1", "2", "3"]
        assert third.messages == first.history
        assert first.n_checkpoints == second.n_checkpoints == 2
        await second.revert_to(0)
        await first.append_message(say("user", "4"))
        assert texts(first) == texts(second) == ["1", "2", "3", "4"]
    assert [one["content"] for one in lines(log)] == ["1", "2", "3", "4"]


async def test_a_link_and_its_target_are_one_file(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder, target_is_directory=True)
    async with Context(folder / "c.jsonl") as first, Context(link / "c.jsonl") as second:
        await asyncio.gather(*(c.append_message(say("user", "x")) for c in (first, second, first, second)))
    assert len(lines(folder / "c.jsonl")) == 4


async def test_what_another_program_wrote_is_not_lost(log: Path) -> None:
    async with await Context.load(log) as context:
        await context.append_message(say("user", "ours"))
        with log.open("a") as file:
            file.write(json.dumps(record("user", "theirs")) + "\n")
        await context.append_message(say("user", "ours again"))
        assert texts(context) == ["ours", "theirs", "ours again"]


async def test_a_new_object_sees_what_another_program_wrote_meanwhile(log: Path) -> None:
    async with Context(log) as first:
        await first.append_message(say("user", "ours"))
        with log.open("a") as file:
            file.write(json.dumps(record("user", "theirs")) + "\n")
        async with await Context.load(log) as second:
            assert texts(second) == ["ours", "theirs"]
        log.unlink()
        async with await Context.load(log) as third:
            assert texts(third) == []


def test_an_object_may_be_used_in_one_event_loop_after_another(log: Path) -> None:
    context = Context(log)
    asyncio.run(context.append_message(say("user", "a")))
    asyncio.run(context.checkpoint(add_user_message=False))
    assert texts(context) == ["a"], "and outside of any"
    asyncio.run(context.append_message(say("user", "b")))
    asyncio.run(context.revert_to(0))
    assert texts(context) == ["a"]
    asyncio.run(context.aclose())


async def test_a_closed_context_can_be_read_and_opens_again_to_write(log: Path) -> None:
    write(log, FULL)
    context = await Context.load(log)
    await context.aclose()
    await context.aclose()
    assert len(context.history) == 3
    assert context.system_prompt == "prompt"
    await context.append_message(say("user", "more"))
    assert texts(context)[-1] == "more"
    await context.aclose()


async def test_a_context_nobody_closes_leaves_nothing_behind(log: Path) -> None:
    async def use() -> None:
        await (await Context.load(log)).append_message(say("user", "a"))

    await use()
    gc.collect()
    assert not log_files._engines
    async with await Context.load(log) as context:
        await use()
        gc.collect()
        await context.append_message(say("user", "b"))
        assert texts(context) == ["a", "a", "b"]
    assert not log_files._engines


async def test_first_uses_at_the_same_time(log: Path) -> None:
    write(log, FULL)
    async with Context(log) as context:
        await asyncio.gather(*(context.append_message(say("user", str(n))) for n in range(20)))
        assert sorted(texts(context), key=int) == [str(n) for n in range(20)]
        assert len(lines(log)) == len(FULL) + 20


# Checkpoints, revert, clear


async def test_checkpoints(log: Path) -> None:
    async with Context(log) as context:
        await context.checkpoint(add_user_message=False)
        assert (context.n_checkpoints, len(context.history)) == (1, 0)
        await context.checkpoint(add_user_message=True)
        assert context.n_checkpoints == 2
        assert context.history == [Message(role="user", content=[system("CHECKPOINT 1")])]


async def test_revert_removes_the_checkpoint_and_all_after_it(log: Path) -> None:
    old = write(log, FULL)
    async with await Context.load(log) as context:
        await context.revert_to(1)
        assert texts(context) == ["before", "between"]
        assert (context.n_checkpoints, context.token_count, context.system_prompt) == (1, 42, "prompt")
        assert lines(log) == FULL[:5]
        assert (log.parent / "context_1.jsonl").read_bytes() == old

        await context.revert_to(0)
        assert lines(log) == FULL[:3]
        assert (context.n_checkpoints, texts(context)) == (0, ["before"])
        assert lines(log.parent / "context_2.jsonl") == FULL[:5]

        await context.checkpoint(add_user_message=False)
        assert context.n_checkpoints == 1, "ids go on from what is left"
        assert lines(log)[-1] == {"role": "_checkpoint", "id": 0}


@pytest.mark.parametrize("checkpoint_id", [-1, 2, 99])
async def test_an_unknown_checkpoint_changes_nothing(log: Path, checkpoint_id: int) -> None:
    old = write(log, FULL)
    async with await Context.load(log) as context:
        with pytest.raises(ValueError, match="does not exist") as caught:
            await context.revert_to(checkpoint_id)
        assert isinstance(caught.value, CheckpointNotFoundError)
        assert len(context.history) == 3
        assert log.read_bytes() == old
        assert not list(log.parent.glob("context_*"))


async def test_a_negative_id_is_no_checkpoint_even_if_the_file_has_it(log: Path) -> None:
    write(log, [record("user", "a"), {"role": "_checkpoint", "id": -1}, {"role": "_checkpoint", "id": 0}])
    async with await Context.load(log) as context:
        with pytest.raises(ValueError, match="does not exist"):
            await context.revert_to(-1)
        assert texts(context) == ["a"]


async def test_a_gap_in_the_ids_is_no_checkpoint(log: Path) -> None:
    write(log, [record("user", "a"), {"role": "_checkpoint", "id": 5}, record("user", "b")])
    async with await Context.load(log) as context:
        assert context.n_checkpoints == 6
        with pytest.raises(ValueError, match="does not exist"):
            await context.revert_to(3)
        assert texts(context) == ["a", "b"]
        await context.revert_to(5)
        assert texts(context) == ["a"]


async def test_of_two_checkpoints_with_one_id_the_first_counts(log: Path) -> None:
    mark = {"role": "_checkpoint", "id": 0}
    write(log, [record("user", "a"), mark, record("user", "b"), mark, record("user", "c")])
    async with await Context.load(log) as context:
        await context.revert_to(0)
        assert texts(context) == ["a"]


async def test_clear(log: Path) -> None:
    old = write(log, FULL)
    async with await Context.load(log) as context:
        await context.clear()
        assert context.history == []
        assert (context.token_count, context.token_count_with_pending, context.n_checkpoints) == (0, 0, 0)
        assert context.system_prompt is None
        assert log.read_bytes() == b""
        assert (log.parent / "context_1.jsonl").read_bytes() == old
        await context.append_message(say("user", "anew"))
        assert texts(context) == ["anew"]
        assert await Context(log).restore()


async def test_clear_works_without_restore_and_without_a_file(log: Path) -> None:
    old = write(log, FULL)
    async with Context(log) as context:
        await context.clear()
        assert log.read_bytes() == b""
        assert (log.parent / "context_1.jsonl").read_bytes() == old
    async with Context(log.parent / "none.jsonl") as context:
        await context.clear()
        assert context.history == []


async def test_without_a_directory_there_is_no_name_to_set_aside(tmp_path: Path) -> None:
    async with Context(tmp_path / "missing" / "context.jsonl") as context:
        with pytest.raises(RuntimeError) as caught:
            await context.clear()
        assert isinstance(caught.value, RotationUnavailableError)
        with pytest.raises(StorageFailureError):
            await context.append_message(say("user", "x"))
        assert context.history == []
    assert not (tmp_path / "missing").exists()


async def test_revert_in_a_directory_that_is_gone(log: Path) -> None:
    folder = log.parent / "folder"
    folder.mkdir()
    write(folder / "c.jsonl", FULL)
    async with await Context.load(folder / "c.jsonl") as context:
        folder.rename(log.parent / "elsewhere")
        with pytest.raises(RuntimeError):
            await context.revert_to(0)


async def test_a_failed_revert_changes_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from timeleap.storage import durable

    old = write(log, FULL)
    async with await Context.load(log) as context:

        def fail(*_: object) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(durable, "replace_file", fail)
            with pytest.raises(TimeleapError):
                await context.revert_to(0)
        assert log.read_bytes() == old
        assert len(context.history) == 3
        assert context.n_checkpoints == 2
        await context.revert_to(0)
        assert texts(context) == ["before"]


# The system prompt


async def test_the_system_prompt_of_a_new_log(log: Path) -> None:
    async with Context(log) as context:
        await context.write_system_prompt("p")
        assert context.system_prompt == "p"
        await context.append_message(say("user", "a"))
    assert lines(log) == [{"role": "_system_prompt", "content": "p"}, record("user", "a")]


async def test_the_system_prompt_goes_before_what_is_there(log: Path) -> None:
    old = write(log, [record("user", "a"), "", "damaged", {"role": "_checkpoint", "id": 0}])
    async with await Context.load(log) as context:
        await context.write_system_prompt("p")
        assert context.system_prompt == "p"
        assert texts(context) == ["a"]
        assert context.n_checkpoints == 1
    assert lines(log) == [
        {"role": "_system_prompt", "content": "p"},
        record("user", "a"),
        {"role": "_checkpoint", "id": 0},
    ]
    assert (log.parent / "context_1.jsonl").read_bytes() == old


async def test_the_last_system_prompt_is_in_force(log: Path) -> None:
    write(
        log,
        [{"role": "_system_prompt", "content": "1"}, record("user", "a"), {"role": "_system_prompt", "content": "2"}],
    )
    async with await Context.load(log) as context:
        assert context.system_prompt == "2"
        await context.write_system_prompt("0")
        assert context.system_prompt == "2", "as in the original, whose log reads the same"
        await context.replace_system_prompt("only")
        assert context.system_prompt == "only"
    assert lines(log) == [{"role": "_system_prompt", "content": "only"}, record("user", "a")]


# Token counts


async def test_pending_tokens(log: Path) -> None:
    async with Context(log) as context:
        await context.append_message(say("user", "a" * 400))
        assert (context.token_count, context.token_count_with_pending) == (0, 100)
        await context.append_message([say("user", "x" * 3), say("assistant", "y" * 3)])
        assert context.token_count_with_pending == 406 // 4
        await context.update_token_count(5000)
        assert (context.token_count, context.token_count_with_pending) == (5000, 5000)
        tool = say("tool", "b" * 800)
        await context.append_message(tool)
        assert context.token_count_with_pending == 5000 + estimate_text_tokens([tool])
        assert (await Context.load(log)).token_count_with_pending == 5200
        await context.clear()
        assert context.token_count_with_pending == 0


async def test_revert_counts_anew(log: Path) -> None:
    write(log, [record("user", "q"), {"role": "_usage", "token_count": 5000}, record("assistant", "a" * 12),
                {"role": "_checkpoint", "id": 0}, record("tool", "x" * 4000), {"role": "_checkpoint", "id": 1}])  # fmt: skip
    async with await Context.load(log) as context:
        await context.append_message(say("user", "extra " * 50))
        await context.revert_to(1)
        assert (context.token_count, context.token_count_with_pending) == (5000, 5000 + 4012 // 4)
        await context.revert_to(0)
        assert context.token_count_with_pending == 5003


async def test_pending_tokens_trigger_a_compaction(log: Path) -> None:
    async with Context(log) as context:
        await context.update_token_count(840_000)
        await context.append_message(say("tool", "x" * 60_000))
        limits: Any = {"trigger_ratio": 0.85, "reserved_context_size": 50_000}
        assert not should_auto_compact(context.token_count, 1_000_000, **limits)
        assert should_auto_compact(context.token_count_with_pending, 1_000_000, **limits)


# What it survives


async def test_a_torn_tail_is_never_glued_to(log: Path) -> None:
    log.write_bytes(json.dumps(record("user", "a")).encode() + b'\n{"role":"assistant","content":"half')
    async with await Context.load(log) as context:
        assert texts(context) == ["a"]
        await context.append_message(say("user", "b"))
        assert texts(context) == ["a", "b"]
    assert lines(log) == [record("user", "a"), record("user", "b")]


async def test_real_sessions(session_file: Path, tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    log.write_bytes(session_file.read_bytes())
    records = lines(log)
    messages = [one for one in records if not one["role"].startswith("_")]
    async with await Context.load(log) as context:
        assert context.history == [Message.model_validate(one) for one in messages]
        ids = [one["id"] for one in records if one["role"] == "_checkpoint"]
        counts = [one["token_count"] for one in records if one["role"] == "_usage"]
        assert context.n_checkpoints == (ids[-1] + 1 if ids else 0)
        assert context.token_count == (counts[-1] if counts else 0)
        middle = ids[len(ids) // 2]
        await context.revert_to(middle)
        assert context.n_checkpoints == middle
    assert log.read_bytes() == session_file.read_bytes()[: log.stat().st_size]


async def test_the_result_of_a_compaction_is_appended_as_it_is(log: Path) -> None:
    messages = [say("user", "summary"), say("assistant", "kept")]
    async with Context(log) as context:
        await context.append_message(CompactionResult(messages, TokenUsage(input_other=9, output=3)))
        assert context.history == messages
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
async def test_a_context_goes_over_a_fork(tmp_path: Path) -> None:
    """The threads and tasks behind it are not in the new process, which opens the log again."""
    context = Context(tmp_path / "log.jsonl")
    await context.append_message(Message(role="user", content="parent"))
    await context.checkpoint(False)
    await context.revert_to(0)  # by the thread

    async def work() -> None:
        await context.append_message(Message(role="user", content="child"))
        await context.checkpoint(False)
        await context.append_message(Message(role="user", content="gone"))
        await context.revert_to(0)
        await context.append_message(Message(role="user", content="last"))
        await context.aclose()

    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # another than that of the test run
        signal.alarm(60)
        asyncio._set_running_loop(None)
        try:
            asyncio.run(work())
        except BaseException as error:
            (tmp_path / "error").write_text(repr(error))
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, (tmp_path / "error").read_text() if (tmp_path / "error").exists() else "it hangs"
    again = await Context.load(tmp_path / "log.jsonl")
    assert "child" in str(list(again.history))
    assert "gone" not in str(list(again.history))
    await context.append_message(Message(role="user", content="parent again"))
    assert "parent again" in (tmp_path / "log.jsonl").read_text()
    assert '"child"' in (tmp_path / "log.jsonl").read_text()
