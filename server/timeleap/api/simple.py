"""Compaction by a model, with the original's interface: `SimpleCompaction`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel

from timeleap.api.message import ContentPart, Message, TextPart, ToolCallPart, estimate_text_tokens
from timeleap.errors import CompactionFailedError
from timeleap.features.compaction import prepare as compaction


class TokenUsage(BaseModel):
    """The cost of a model's answer, in tokens."""

    input_other: int
    """Input that was neither read from nor written to a cache."""
    output: int
    input_cache_read: int = 0
    input_cache_creation: int = 0

    @property
    def input(self) -> int:
        """All input."""
        return self.input_other + self.input_cache_read + self.input_cache_creation

    @property
    def total(self) -> int:
        """Input and output."""
        return self.input + self.output


class StreamedMessage(Protocol):
    """An answer as it arrives: an async iterable of parts; the properties are complete at its end."""

    def __aiter__(self) -> AsyncIterator[Any]: ...

    @property
    def id(self) -> str | None: ...

    @property
    def usage(self) -> Any: ...


class ChatProvider(Protocol):
    """A model that answers."""

    async def generate(self, system_prompt: str, tools: Sequence[Any], history: Sequence[Any]) -> StreamedMessage:
        """Begin an answer to `history`."""
        ...


class LLM(Protocol):
    """The part of a model that `SimpleCompaction.compact` uses: its provider."""

    @property
    def chat_provider(self) -> ChatProvider: ...


class CompactionResult(NamedTuple):
    """The result of a compaction."""

    messages: Sequence[Message]
    usage: TokenUsage | None
    """The cost of the summary; None if no model was called."""
    trace_id: str | None = None

    @property
    def estimated_token_count(self) -> int:
        """Tokens of the new history: of the summary what the model counted, of the rest an estimate from its text."""
        if self.usage is None or not self.messages:
            return estimate_text_tokens(self.messages)
        return int(self.usage.output) + estimate_text_tokens(self.messages[1:])


class SimpleCompaction:
    """Keeps the last messages and has a model summarise those before them.

    Args:
        max_preserved_messages: How many user and assistant messages are kept as they are.
    """

    class PrepareResult(NamedTuple):
        """The message for the summariser (None: there is nothing to compact), and the messages that stay."""

        compact_message: Message | None
        to_preserve: Sequence[Message]

    def __init__(self, max_preserved_messages: int = 2) -> None:
        self.max_preserved_messages = max_preserved_messages

    def prepare(self, messages: Sequence[Message], *, custom_instruction: str = "") -> PrepareResult:
        """Part a history into what is summarised and what stays.

        Args:
            messages: The history.
            custom_instruction: An instruction of the user's for the summary; empty for none.
        """
        records = [message.model_dump(exclude_none=True) for message in messages]
        start = compaction.preserved_from(records, self.max_preserved_messages)
        if start == 0:
            return self.PrepareResult(None, messages)
        prompt = compaction.prompt_message(records[:start], custom_instruction)
        return self.PrepareResult(Message.model_validate(prompt), list(messages[start:]))

    async def compact(self, messages: Sequence[Message], llm: LLM, *, custom_instruction: str = "") -> CompactionResult:
        """Have the older messages summarised.

        Args:
            messages: The history.
            llm: The model; it is offered no tools.
            custom_instruction: An instruction of the user's for the summary; empty for none.

        Returns:
            The new history, or the old one if there is nothing to compact.

        Raises:
            CompactionFailedError: The model wrote no text.
            Exception: Whatever the model's provider raises.
        """
        prompt, to_preserve = self.prepare(messages, custom_instruction=custom_instruction)
        if prompt is None:
            return CompactionResult(to_preserve, None)
        stream = await llm.chat_provider.generate(compaction.SUMMARISER_SYSTEM_PROMPT, [], [prompt])
        parts = [part for part in await _collect(stream) if part.type != "think"]
        if not any(isinstance(part, TextPart) and part.text.strip() for part in parts):
            raise CompactionFailedError("the model returned no summary; the history is unchanged")
        preface = Message.model_validate(compaction.summary_message("")).content[0]
        summary = Message(role="user", content=[preface, *parts])
        return CompactionResult([summary, *to_preserve], stream.usage, getattr(stream, "trace_id", None))


async def _collect(stream: StreamedMessage) -> list[ContentPart]:
    """The content parts of a streamed answer, each put together from its pieces.

    Pieces may be of another library's classes (the original's, for one): they merge among themselves, and what they
    come to is read from their JSON form. Tool calls are not content; none was offered.
    """
    whole: list[Any] = []
    async for piece in stream:
        if not whole or not whole[-1].merge_in_place(piece):
            whole.append(piece)
    return [_as_part(part) for part in whole if _is_content(part)]


def _is_content(part: Any) -> bool:
    if isinstance(part, ContentPart):
        return True
    return (
        not isinstance(part, ToolCallPart) and isinstance(getattr(part, "type", None), str) and part.type != "function"
    )


def _as_part(part: Any) -> ContentPart:
    if isinstance(part, ContentPart):
        return part
    return Message.model_validate({"role": "user", "content": [part.model_dump()]}).content[0]
