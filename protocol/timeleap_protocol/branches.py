"""Params and results of bringing branches home: `context/fold`, `context/replaceMessage`, `session/merge`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from timeleap_protocol.base import Choice, Count, MutationParams, NullIsAbsent, Opt, SessionId, Shape
from timeleap_protocol.compaction import CompactResult, Pins, PinsReport, Scorecard
from timeleap_protocol.context import RewriteResult
from timeleap_protocol.files import RestoreChoice
from timeleap_protocol.messages import NewMessageObject
from timeleap_protocol.shapes import Checkpoint, Head, MergedFrom


class LogPlace(Choice, NullIsAbsent):
    """A place between two messages of the present log."""

    alternatives = (("message_index",), ("checkpoint_uid",))

    model_config = ConfigDict(extra="forbid")

    message_index: Opt[Count] = None
    """The place before this message; the number of messages is the end."""
    checkpoint_uid: Opt[str] = None
    """The place of this checkpoint."""


class FoldParams(MutationParams):
    """`context/fold`."""

    from_: LogPlace = Field(alias="from")
    """Where the range begins."""
    to: LogPlace
    """Where it ends: the message there stays."""
    drop: Opt[bool] = None
    """Put nothing in its place. Default: false."""
    strict: Opt[bool] = None
    """Refuse a range that would part a tool call from its result, instead of widening it. Default: false."""
    dry_run: Opt[bool] = None
    """Say what would happen, and change nothing; the summariser is asked all the same. Default: false."""
    custom_instruction: Opt[str] = None
    """What the summary should pay attention to."""
    summarizer: Opt[Literal["auto", "client", "server", "builtin"]] = None
    """Default: `auto`."""
    summary: Opt[str] = None
    """A summary the caller has made; nobody else is asked then."""
    pins: Opt[Pins] = None
    """Strings that the summary must have in it, beside the session's (`context/setPins`): what it lacks is added to it."""


class FoldedRange(Shape):
    """The messages that were folded, by their indexes before that; `to` stays."""

    from_: Count = Field(alias="from")
    to: Count
    messages: Count
    """How many they were."""


class FoldResult(CompactResult):
    """What a fold did, or (dry run) would do."""

    folded: FoldedRange
    """The range as it was taken: widened where it would have parted a tool call from its result."""


class ReplaceMessageParams(RestoreChoice, MutationParams):
    """`context/replaceMessage`."""

    message_index: Count
    """The message that goes, with all after it."""
    message: NewMessageObject
    """The message that takes its place."""
    heal: Opt[bool] = None
    """Go back further where the log would stand in the middle of a tool exchange: to before its calls. Default: false."""
    dry_run: Opt[bool] = None
    """Say what would happen, and change nothing. Default: false."""


class ReplaceMessageResult(RewriteResult):
    """What replacing a message did, or (dry run) would do."""

    first_index: Count
    """Index of the new message."""


class SessionMergeParams(MutationParams):
    """`session/merge`."""

    from_: SessionId = Field(alias="from")
    """The session whose messages are summed up; it stays as it is."""
    since: Opt[LogPlace] = None
    """Where in that session to begin. Default: where it was forked off, or else its beginning."""
    summary: Opt[str] = None
    """A summary the caller has made; nobody else is asked then."""
    summarizer: Opt[Literal["auto", "client", "server", "builtin"]] = None
    """Default: `auto`."""
    custom_instruction: Opt[str] = None
    """What the summary should pay attention to."""
    dry_run: Opt[bool] = None
    """Say what would happen, and change nothing; the summariser is asked all the same. Default: false."""


class MergeResult(Head):
    """What a merge did, or (dry run) would do."""

    checkpoint: Checkpoint
    """The one before the summary."""
    first_index: Count
    """Index of the message with the summary."""
    from_: MergedFrom = Field(alias="from")
    summary: str
    summarizer: Opt[Literal["caller", "client", "server", "builtin"]] = None
    """Who made the summary."""
    scorecard: Opt[Scorecard] = None
    pins: Opt[PinsReport] = None
    """Absent where neither session has pins."""
