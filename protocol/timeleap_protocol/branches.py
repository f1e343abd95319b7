"""Params and results of bringing branches home: `context/fold`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from timeleap_protocol.base import Choice, Count, MutationParams, NullIsAbsent, Opt, Shape
from timeleap_protocol.compaction import CompactResult, Pins


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
