"""Params and results of compaction: `context/compact`, what goes before it, and what a client is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import Count, MutationParams, Opt, Params, Positive, ReadShape, SessionParams, Shape
from timeleap_protocol.limits import MAX_PIN_CHARACTERS, MAX_PINS
from timeleap_protocol.messages import MessageObject
from timeleap_protocol.shapes import ContextSummary, Head

Pins = Annotated[list[Annotated[str, Field(min_length=1, max_length=MAX_PIN_CHARACTERS)]], Field(max_length=MAX_PINS)]


class CompactParams(MutationParams):
    """`context/compact`."""

    dry_run: Opt[bool] = None
    """Say what would happen, and change nothing; the summariser is asked all the same. Default: false."""
    max_preserved_messages: Opt[Positive] = None
    """User and assistant messages at the end that stay as they are. Default: the session's setting."""
    custom_instruction: Opt[str] = None
    """What the summary should pay attention to."""
    summarizer: Opt[Literal["auto", "client", "server", "builtin"]] = None
    """Default: `auto`."""
    summary: Opt[str] = None
    """A summary the caller has made; nobody else is asked then."""
    pins: Opt[Pins] = None
    """Strings that the summary must have in it, beside the session's (`context/setPins`): what it lacks is added to it."""


class SetPinsParams(MutationParams):
    """`context/setPins`."""

    pins: Pins
    """All of them; they take the place of those set before."""


class PrepareCompactionParams(SessionParams):
    """`context/prepareCompaction`."""

    max_preserved_messages: Opt[Positive] = None
    custom_instruction: Opt[str] = None


class SummarizeParams(Params):
    """`context/summarize`, sent to a client that declared it can."""

    session_id: str
    system_prompt: str
    """What the model is told it is."""
    prompt: MessageObject
    """The one message to summarise."""
    custom_instruction: Opt[str] = None


class FactTally(Shape):
    """What became of the facts of one kind."""

    found: Count
    """In the messages that go."""
    kept: Count
    """Of these still there, in the summary or in the messages that stay."""
    lost: list[str]
    """The first of the others."""


class Scorecard(Shape):
    """What a compaction keeps and what it loses, as far as it can be told by looking for words."""

    paths: FactTally
    """Files."""
    identifiers: FactTally
    """Names in code."""
    errors: FactTally
    """Error messages."""
    todos: FactTally
    """What the agent said was left to do."""
    constraints: FactTally
    """The user's demands."""


class PinsReport(Shape):
    """What became of the pins."""

    kept: Count
    """How many the summary had in it by itself."""
    added: list[str]
    """Those that were put behind it, word for word."""


class CompactResult(Head):
    """What a compaction did, or (dry run) would do."""

    compacted: bool
    reason: Opt[str] = None
    """Why not, where `compacted` is false."""
    timeline_id: Opt[str] = None
    """The timeline the log before it became."""
    summary: Opt[str] = None
    removed_messages: Count
    preserved_messages: Count
    token_count_before: Count
    """Pending tokens included."""
    token_count_after: Count
    context: ContextSummary
    """After it."""
    summarizer: Opt[Literal["caller", "client", "server", "builtin"]] = None
    """Who made the summary."""
    scorecard: Opt[Scorecard] = None
    """Absent where no summary was made."""
    pins: Opt[PinsReport] = None
    """Absent where there are no pins."""


class SetPinsResult(Head):
    """The pins now in force."""

    pins: list[str]


class PrepareCompactionResult(ReadShape):
    """What a summariser would be asked."""

    system_prompt: str
    prompt: MessageObject | None
    """Null when there is nothing to compact."""
    preserved_from: Count
    """Index of the first message that would stay; 0 when there is nothing to compact."""


class SummarizeUsage(Shape):
    """What a summary cost, in tokens."""

    input: Count
    output: Count


class SummarizeResult(Shape):
    """A client's summary."""

    summary: str
    usage: Opt[SummarizeUsage] = None
