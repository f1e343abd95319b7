"""The linear storages: the original's bytes, the role decides what a line is, anything of the right shape will do."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from pathlib import Path

import pytest

from timeleap import Context, JsonlLinearStorage, LinearContext, LinearStorage, MemoryLinearStorage, Message, ToolCall
from timeleap.errors import AlreadyRestoredError

HISTORY = [Message(role="user", content="abc"), Message(role="assistant", content="def")]


def test_a_context_in_memory() -> None:
    context = LinearContext(storage=MemoryLinearStorage())
    assert context.history == []
    assert context.token_count == 0

    async def run() -> None:
        for message in HISTORY:
            await context.add_message(message)
        await context.mark_token_count(128)
        await context.mark_token_count(64)

    asyncio.run(run())
    assert context.history == HISTORY
    assert context.token_count == 64


def test_a_context_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    context = LinearContext(JsonlLinearStorage(path=path))

    async def run() -> object:
        for message in HISTORY:
            await context.add_message(message)
        return context.history

    assert asyncio.run(run()) == HISTORY
    assert context.history == HISTORY
    assert path.read_text() == '{"role":"user","content":"abc"}\n{"role":"assistant","content":"def"}\n'


async def test_the_bytes_are_those_of_the_original(tmp_path: Path) -> None:
    call = ToolCall(id="1", function=ToolCall.FunctionBody(name="f", arguments="{}"))
    async with JsonlLinearStorage(str(tmp_path / "a.jsonl")) as storage:
        await storage.append_message(Message(role="assistant", content=[], tool_calls=[call]))
        await storage.append_message(Message(role="user", content="中文 \x7f \U0001f600\n"))
        await storage.mark_token_count(123)
    assert (tmp_path / "a.jsonl").read_text(encoding="utf-8") == (
        '{"role":"assistant","content":[],"tool_calls":[{"type":"function","id":"1",'
        '"function":{"name":"f","arguments":"{}"}}]}\n'
        '{"role":"user","content":"中文 \x7f \U0001f600\\n"}\n'
        '{"role":"_usage","token_count":123}\n'
    )


async def test_restore(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with JsonlLinearStorage(path) as storage:
        await storage.restore()
        assert storage.messages == []
        assert not path.exists()
        await storage.append_message(HISTORY[0])
        await storage.mark_token_count(5)
        await storage.append_message(HISTORY[1])
    async with JsonlLinearStorage(path) as storage:
        assert (storage.messages, storage.token_count) == ([], 0)
        await storage.restore()
        assert (storage.messages, storage.token_count) == (HISTORY, 5)
        with pytest.raises(RuntimeError) as caught:
            await storage.restore()
        assert isinstance(caught.value, AlreadyRestoredError)


async def test_the_role_decides_what_a_line_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        {"role": "user", "content": "a message about token_count", "token_count": 9},
        {"role": "_usage", "token_count": 7},
        {"role": "_checkpoint", "id": 0},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "damaged\n\n")
    async with JsonlLinearStorage(path) as storage:
        await storage.restore()
        assert len(storage.messages) == 1
        assert storage.token_count == 7


async def test_without_restore_it_shows_what_it_wrote_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"role":"user","content":"old"}\n{"role":"_usage","token_count":3}\n')
    async with JsonlLinearStorage(path) as storage:
        await storage.append_message(HISTORY[0])
        assert (storage.messages, storage.token_count) == (HISTORY[:1], 0)
        await storage.mark_token_count(9)
        assert storage.token_count == 9
        with pytest.raises(RuntimeError):
            await storage.restore()
    assert len(path.read_text().splitlines()) == 4


async def test_what_has_no_exact_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with JsonlLinearStorage(path) as storage:
        with pytest.raises(ValueError, match="surrogates"):
            await storage.append_message(Message(role="user", content="\udc80"))
        assert storage.messages == []
    assert not path.exists() or path.read_bytes() == b""


async def test_many_tasks(tmp_path: Path) -> None:
    async with JsonlLinearStorage(tmp_path / "a.jsonl") as storage:
        context = LinearContext(storage)
        await asyncio.gather(*(context.add_message(Message(role="user", content=str(n))) for n in range(50)))
        assert sorted(int(message.extract_text()) for message in context.history) == list(range(50))
    async with await Context.load(tmp_path / "a.jsonl") as other:
        assert other.history == context.history


async def test_anything_of_the_right_shape_is_a_storage() -> None:
    class Reversed:
        """A storage of somebody else's."""

        def __init__(self) -> None:
            self.messages: list[Message] = []
            self.token_count = 0

        async def append_message(self, message: Message) -> None:
            self.messages.insert(0, message)

        async def mark_token_count(self, token_count: int) -> None:
            self.token_count = token_count

    storage = Reversed()
    for kind in (storage, MemoryLinearStorage(), JsonlLinearStorage("unused.jsonl")):
        assert isinstance(kind, LinearStorage)
    assert not isinstance(object(), LinearStorage)
    context = LinearContext(storage)
    for message in HISTORY:
        await context.add_message(message)
    assert context.history == HISTORY[::-1]


async def test_the_history_is_a_live_view(tmp_path: Path) -> None:
    async with JsonlLinearStorage(tmp_path / "a.jsonl") as storage:
        context = LinearContext(storage)
        assert isinstance(storage, MemoryLinearStorage)
        history = context.history
        await context.add_message(HISTORY[0])
        await context.mark_token_count(3)
        await context.add_message(HISTORY[1])
        assert context.history is history, "one view, as the original's list"
        assert copy.deepcopy(context.history) == pickle.loads(pickle.dumps(context.history)) == HISTORY


@pytest.mark.parametrize("stored", ["memory", "jsonl"])
async def test_changing_what_the_history_hands_out_changes_nothing_that_is_kept(tmp_path: Path, stored: str) -> None:
    path = tmp_path / "a.jsonl"
    storage = MemoryLinearStorage() if stored == "memory" else JsonlLinearStorage(path)
    context = LinearContext(storage)
    await context.add_message(Message(role="user", content="said"))
    history = context.history
    history[0].content = []
    for message in history:
        message.content = []
    assert context.history == [Message(role="user", content="said")]
    if isinstance(storage, JsonlLinearStorage):
        await storage.aclose()


async def test_the_list_follows_what_others_write(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    async with JsonlLinearStorage(path) as storage, Context(path) as other:
        await other.append_message(HISTORY)
        await storage.restore()
        history = storage.messages
        assert history == HISTORY
        first = history[0]
        await other.checkpoint(add_user_message=False)
        await other.append_message(HISTORY[0])
        assert storage.messages == [*HISTORY, HISTORY[0]]
        assert storage.messages[0] is first, "what was read once is not read again"
        await storage.append_message(HISTORY[1])
        assert storage.messages == other.history == [*HISTORY, *HISTORY]
        await other.revert_to(0)
        await other.append_message(Message(role="user", content="another way"))
        assert storage.messages is history
        assert history == other.history == [*HISTORY, Message(role="user", content="another way")]


async def test_a_second_restore_says_what_the_original_says(tmp_path: Path) -> None:
    async with JsonlLinearStorage(tmp_path / "a.jsonl") as storage:
        await storage.append_message(HISTORY[0])
        with pytest.raises(RuntimeError) as caught:
            await storage.restore()
        assert str(caught.value) == "The storage is already modified"
