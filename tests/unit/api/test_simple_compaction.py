"""`SimpleCompaction`: the original's interface, with any provider that streams parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from timeleap import (
    AudioURLPart,
    CompactionResult,
    ContentPart,
    ImageURLPart,
    Message,
    SimpleCompaction,
    TextPart,
    ThinkPart,
    TokenUsage,
    ToolCall,
    ToolCallPart,
    VideoURLPart,
)
from timeleap.errors import CompactionFailedError
from timeleap.features.compaction.prepare import COMPACT, SUMMARISER_SYSTEM_PROMPT

CALL = ToolCall(id="c1", function=ToolCall.FunctionBody(name="read", arguments="{}"))


def say(role: Any, text: str) -> Message:
    return Message(role=role, content=[TextPart(text=text)])


HISTORY = [say("user", "q1"), say("assistant", "a1"), say("user", "q2"), say("assistant", "a2")]


class Stream:
    """A provider's answer in pieces."""

    def __init__(self, pieces: Sequence[Any], usage: TokenUsage | None = None) -> None:
        self.pieces = pieces
        self.usage = usage
        self.id = "m1"
        self.trace_id = "t1"

    async def __aiter__(self) -> AsyncIterator[Any]:
        for piece in self.pieces:
            yield piece


class Provider:
    """A model that always says the same, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *pieces: Any, usage: TokenUsage | None = None) -> None:
        self.stream = Stream(pieces, usage)
        self.asked: list[tuple[str, list[Any], list[Message]]] = []

    async def generate(self, system_prompt: str, tools: Sequence[Any], history: Sequence[Any]) -> Stream:
        self.asked.append((system_prompt, list(tools), list(history)))
        return self.stream


def llm(provider: Provider) -> Any:
    return SimpleNamespace(chat_provider=provider, max_context_size=200_000)


@pytest.mark.parametrize("history", [[], HISTORY[:1], HISTORY[:2]])
async def test_too_few_messages_are_left_alone(history: list[Message]) -> None:
    compaction = SimpleCompaction(max_preserved_messages=2)
    assert compaction.prepare(history) == SimpleCompaction.PrepareResult(compact_message=None, to_preserve=history)
    provider = Provider(TextPart(text="never asked"))
    assert await compaction.compact(history, llm(provider)) == CompactionResult(messages=history, usage=None)
    assert provider.asked == []


def test_nothing_to_preserve_means_nothing_to_compact() -> None:
    assert SimpleCompaction(max_preserved_messages=0).prepare(HISTORY).compact_message is None


def test_prepare_parts_the_history() -> None:
    history = [say("system", "note"), *HISTORY]
    history[1].content.append(ThinkPart(think="hidden"))
    prompt, kept = SimpleCompaction().prepare(history)
    assert prompt == Message(
        role="user",
        content=[
            TextPart(text="## Message 1\nRole: system\nContent:\n"),
            TextPart(text="note"),
            TextPart(text="## Message 2\nRole: user\nContent:\n"),
            TextPart(text="q1"),
            TextPart(text="## Message 3\nRole: assistant\nContent:\n"),
            TextPart(text="a1"),
            TextPart(text="\n" + COMPACT),
        ],
    )
    assert kept == history[3:]
    history[1].content.pop()


def test_media_is_not_shown_but_kept_in_what_stays() -> None:
    media = [
        ImageURLPart(image_url=ImageURLPart.ImageURL(url="data:IMG")),
        AudioURLPart(audio_url=AudioURLPart.AudioURL(url="data:AUD")),
        VideoURLPart(video_url=VideoURLPart.VideoURL(url="data:VID")),
    ]
    seen = Message(role="user", content=[TextPart(text="look"), *media])
    prompt, kept = SimpleCompaction(max_preserved_messages=1).prepare([seen, say("assistant", "ok"), seen])
    assert prompt is not None
    assert all(isinstance(part, TextPart) for part in prompt.content)
    assert "data:" not in prompt.extract_text()
    assert kept == [seen]


def test_the_user_s_wish() -> None:
    prompt, _ = SimpleCompaction().prepare([say("user", "q0"), *HISTORY], custom_instruction="keep the database")
    assert prompt is not None
    last = prompt.content[-1]
    assert isinstance(last, TextPart)
    assert last.text.startswith("\n" + COMPACT)
    assert "keep the database" in last.text


def test_a_tool_call_is_kept_with_its_result() -> None:
    asking = Message(role="assistant", content=[], tool_calls=[CALL])
    answer = Message(role="tool", content="r", tool_call_id="c1")
    history = [say("user", "q"), asking, say("user", "hurry"), answer, say("assistant", "done")]
    prompt, kept = SimpleCompaction().prepare(history)
    assert prompt is not None
    assert kept == history[1:]


async def test_compact() -> None:
    usage = TokenUsage(input_other=1000, output=150, input_cache_read=20, input_cache_creation=3)
    pieces = [ThinkPart(think="hm"), ThinkPart(think="m"), TextPart(text="sum"), TextPart(text="mary"), CALL]
    provider = Provider(*pieces, ToolCallPart(arguments_part="x"), usage=usage)
    history = [*HISTORY[:2], say("user", "a" * 80), say("assistant", "b" * 9)]
    result = await SimpleCompaction().compact(history, llm(provider), custom_instruction="briefly")

    preface = TextPart(text="<system>Previous context has been compacted. Here is the compaction output:</system>")
    assert result.messages == [Message(role="user", content=[preface, TextPart(text="summary")]), *history[2:]]
    assert result.usage == usage
    assert result.trace_id == "t1"
    assert result.estimated_token_count == 150 + 89 // 4

    [(system_prompt, tools, asked)] = provider.asked
    assert system_prompt == SUMMARISER_SYSTEM_PROMPT
    assert tools == []
    assert asked == [SimpleCompaction().prepare(history, custom_instruction="briefly").compact_message]


@pytest.mark.parametrize("pieces", [[], [TextPart(text=" \n")], [ThinkPart(think="only thoughts")], [CALL]])
async def test_an_empty_summary_is_refused(pieces: list[Any]) -> None:
    with pytest.raises(CompactionFailedError):
        await SimpleCompaction().compact(HISTORY, llm(Provider(*pieces)))


async def test_the_provider_s_errors_are_passed_on() -> None:
    class Broken(Provider):
        async def generate(self, *_: Any) -> Stream:  # type: ignore[override]
            raise ConnectionError("no network")

    with pytest.raises(ConnectionError):
        await SimpleCompaction().compact(HISTORY, llm(Broken()))


async def test_parts_of_another_library_are_taken_over() -> None:
    class TheirText:
        """A text part as another library models it."""

        type = "text"

        def __init__(self, text: str) -> None:
            self.text = text

        def merge_in_place(self, other: Any) -> bool:
            if not isinstance(other, TheirText):
                return False
            self.text += other.text
            return True

        def model_dump(self) -> dict[str, Any]:
            return {"type": "text", "text": self.text}

    class TheirCall:
        type = "function"

        def merge_in_place(self, other: Any) -> bool:
            return False

    result = await SimpleCompaction().compact(HISTORY, llm(Provider(TheirText("a"), TheirText("b"), TheirCall())))
    assert result.messages[0].content[1:] == [TextPart(text="ab")]
    assert all(isinstance(part, ContentPart) for part in result.messages[0].content)


def test_the_estimate_without_a_model() -> None:
    history = [
        Message(role="user", content=[TextPart(text="a" * 40), ThinkPart(think="t" * 400)]),
        say("user", "b" * 3),
    ]
    assert CompactionResult(messages=history, usage=None).estimated_token_count == 43 // 4
    assert CompactionResult(messages=[], usage=None).estimated_token_count == 0
    assert CompactionResult(messages=[], usage=TokenUsage(input_other=1, output=9)).estimated_token_count == 0


def test_token_usage() -> None:
    usage = TokenUsage(input_other=1, output=2, input_cache_read=30, input_cache_creation=400)
    assert (usage.input, usage.total) == (431, 433)
