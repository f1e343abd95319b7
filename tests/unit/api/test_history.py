"""The lazy history: a list to its users, a range of the log underneath."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from timeleap import Context, Message
from timeleap.api import log_view
from timeleap.api.log_view import History
from timeleap.storage.record import decode_json


def say(text: str) -> Message:
    return Message(role="user", content=text)


def write(path: Path, count: int, *, control: bool = True) -> list[Message]:
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps({"role": "user", "content": str(number)}) + "\n")
            if control:
                file.write(json.dumps({"role": "_checkpoint", "id": number}) + "\n")
    return [say(str(number)) for number in range(count)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "context.jsonl"


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 300])
async def test_it_equals_the_list(log: Path, count: int) -> None:
    expected = write(log, count)
    async with await Context.load(log) as context:
        history = context.history
        assert isinstance(history, Sequence)
        assert history == expected
        assert expected == history
        assert list(history) == expected
        assert list(reversed(history)) == expected[::-1]
        assert len(history) == count
        assert bool(history) is bool(expected)
        assert history == context.history
        assert history != [*expected, say("more")]
        assert history != expected[:-1] or not expected
        others: list[object] = ["text", tuple(expected), None]
        assert all(history != other for other in others)


async def test_indexes_and_slices(log: Path) -> None:
    expected = write(log, 200)
    async with await Context.load(log) as context:
        history = context.history
        for index in (0, 1, 64, 199, -1, -200):
            assert history[index] == expected[index]
        for index in (200, -201):
            with pytest.raises(IndexError):
                history[index]
        for part in (slice(None), slice(5), slice(-3, None), slice(3, 190), slice(None, None, -1), slice(190, 3, -7),
                     slice(1, 200, 3), slice(9, 4), slice(500, 600)):  # fmt: skip
            assert history[part] == expected[part], part


SLICES = st.slices(70)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(), max_size=70), SLICES)
def test_slices_of_anything(numbers: list[int], part: slice) -> None:
    messages = [say(str(number)) for number in numbers]
    assert History(lambda: messages)[part] == messages[part]


async def test_searching(log: Path) -> None:
    write(log, 70)
    async with await Context.load(log) as context:
        history = context.history
        assert say("69") in history
        assert say("70") not in history
        assert history.index(say("65")) == 65
        assert history.count(say("3")) == 1
        with pytest.raises(ValueError):  # noqa: PT011
            history.index(say("x"))


async def test_adding_lists(log: Path) -> None:
    expected = write(log, 3)
    more = [say("more")]
    async with await Context.load(log) as context:
        history = context.history
        assert isinstance(history, History)
        assert history + more == expected + more
        assert more + history == more + expected
        assert [*history, *more] == expected + more


async def test_it_is_read_only(log: Path) -> None:
    write(log, 3)
    async with await Context.load(log) as context:
        for name in ("append", "extend", "clear", "pop", "__setitem__", "__delitem__"):
            assert not hasattr(context.history, name)
        with pytest.raises(TypeError):
            hash(context.history)


async def test_its_text(log: Path) -> None:
    expected = write(log, 21)
    async with await Context.load(log) as context:
        assert (
            repr(context.history)
            == "[" + ", ".join([*map(repr, expected[:10]), "<1 more>", *map(repr, expected[11:])]) + "]"
        )
        await context.revert_to(20)
        await context.revert_to(19)
        assert repr(context.history) == repr(expected[:20])


async def test_it_follows_every_change(log: Path) -> None:
    expected = write(log, 5)
    async with await Context.load(log) as context:
        history = context.history
        await context.append_message(say("new"))
        assert history == [*expected, say("new")]
        await context.revert_to(2)
        assert history == expected[:3]
        await context.append_message(say("other"))
        assert history == [*expected[:3], say("other")]
        await context.clear()
        assert history == []


async def test_iterating_while_it_grows(log: Path) -> None:
    write(log, 2)
    async with await Context.load(log) as context:
        seen = []
        for message in context.history:
            seen.append(message.extract_text())
            if len(seen) == 1:
                await context.append_message(say("late"))
        assert seen == ["0", "1", "late"]


async def test_a_message_that_is_not_looked_at_is_not_parsed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(log, 1000)
    parsed: list[bytes] = []

    def watch(line: bytes) -> object:
        parsed.append(line)
        return decode_json(line)

    monkeypatch.setattr(log_view, "decode_json", watch)
    async with await Context.load(log) as context:
        history = context.history
        assert len(history) == 1000
        assert history[500] == say("500")
        assert len(parsed) == 1
        history[10:13]
        assert len(parsed) == 4
        assert next(iter(history)) == say("0")
        assert len(parsed) <= 4 + 64
        before = len(parsed)
        taken = history[500]
        assert len(parsed) == before, "kept for the next look"
        taken.content = []
        assert history[500] == say("500"), "a message taken from it is a copy"


async def test_the_cache_is_bounded(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_view, "CACHE_BYTES", 100_000)
    expected = write(log, 500)
    async with await Context.load(log) as context:
        history = context.history
        assert isinstance(history, History)
        assert history == expected
        assert history == expected
        assert 10 < len(history._cache) < 50
        assert history._cached_bytes == sum(len(body) + 2_000 for _, body in history._cache) <= 100_000
        history[0]
        first = next(reversed(history._cache))
        for index in range(1, 500):
            history[index]
            history[0]
            assert next(reversed(history._cache)) == first, "what is looked at again and again stays"


async def test_equal_messages_are_different_objects(log: Path) -> None:
    async with Context(log) as context:
        await context.append_message(say("same"))
        await context.append_message(say("same"))
        assert context.history[0] == context.history[1]
        assert context.history[0] is not context.history[1]


async def test_the_past_of_another_log_is_not_shown(log: Path) -> None:
    async with Context(log) as context:
        await context.checkpoint(add_user_message=False)
        await context.append_message(say("a"))
        assert context.history[0] == say("a")
        await context.revert_to(0)
        await context.append_message(say("b"))
        assert context.history[0] == say("b")


async def test_large_messages_are_read_one_by_one(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_view, "_CHUNK_BYTES", 10)
    expected = write(log, 20)
    async with await Context.load(log) as context:
        assert list(context.history) == expected


async def test_copies_are_lists(log: Path) -> None:
    expected = write(log, 70)
    async with await Context.load(log) as context:
        history = context.history
        for made in (copy.copy(history), copy.deepcopy(history), pickle.loads(pickle.dumps(history)), history[:]):
            assert type(made) is list
            assert made == expected
        again = copy.deepcopy({"before": history, "after": history})
        assert again["before"] is again["after"], "shared in the copy where it was shared before"
        changed = copy.deepcopy(history)
        changed[0].content[0].text = "changed"  # type: ignore[attr-defined]
        assert history[0] == expected[0]


async def test_a_validator_may_take_it_as_a_sequence(log: Path) -> None:
    expected = write(log, 3)
    async with await Context.load(log) as context:
        taken = TypeAdapter(Sequence[Message]).validate_python(context.history)
        assert taken == expected
        assert taken[1:] == expected[1:]
        assert TypeAdapter(list[Message]).validate_python(context.history) == expected
