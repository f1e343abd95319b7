"""Params and results of looking into the past: `context/search`, `context/diff` and `context/at`."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from timeleap_protocol.base import (
    Choice,
    Count,
    NullIsAbsent,
    Opt,
    PageParams,
    Positive,
    ReadShape,
    SessionId,
    SessionParams,
    Shape,
)
from timeleap_protocol.limits import MAX_QUERY
from timeleap_protocol.shapes import Checkpoint, IndexedMessage, Range

Query = Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]


class _FindParams(PageParams):
    """Base of the params of searches."""

    query: Query
    """What is looked for; with `regex` a regular expression in RE2's syntax."""
    regex: Opt[bool] = None
    """Whether `query` is a regular expression. Default: false."""
    ignore_case: Opt[bool] = None
    """Whether `a` is `A`. Default: false."""
    timelines: Opt[bool] = None
    """Whether to search timelines too. Default: true."""
    distinct: Opt[bool] = None
    """Leave out of a timeline the messages that a log searched before begins with too. Default: false."""
    excerpts: Opt[bool] = None
    """Whether each match shows the text around its first range. Default: false."""


class SearchParams(_FindParams, SessionParams):
    """`context/search`."""


class SessionSearchParams(_FindParams):
    """`session/search`."""


class DiffPoint(Choice, NullIsAbsent):
    """One side of a comparison: a checkpoint, a timeline, or (empty) the present."""

    alternatives = (("checkpoint_uid",), ("timeline_id",))
    must_choose = False

    model_config = ConfigDict(extra="forbid")

    checkpoint_uid: Opt[str] = None
    """The state before this checkpoint; of the present log or, where that has none of the uid, of a timeline."""
    timeline_id: Opt[str] = None
    """The state at the end of this timeline."""
    session_id: Opt[SessionId] = None
    """A state of this session of the store. Default: the session of the request."""


class DiffParams(PageParams, SessionParams):
    """`context/diff`."""

    from_: DiffPoint = Field(alias="from")
    to: DiffPoint
    max_bytes: Opt[Positive] = None
    """End the page before it is larger; at least one message comes. Default: 4 MiB."""


class AtParams(Choice, SessionParams):
    """`context/at`."""

    alternatives = (("index",), ("time",))

    index: Opt[Count] = None
    """The moment right after this message was added; this or `time`."""
    time: Opt[str] = None
    """The moment a clock showed this time: ISO-8601 with its offset from UTC."""
    timeline_id: Opt[str] = None
    """In this timeline. Default: for `index` the live log, for `time` the log that was the live one then."""


class Excerpt(Shape):
    """A piece of a message's text."""

    start: Count
    """Its place in the text, in UTF-16 units."""
    text: str


class Match(Shape):
    """A message that matches a search."""

    index: Count
    timeline_id: Opt[str] = None
    """Absent for the live log."""
    ranges: list[Range]
    """Start and end of each match, in UTF-16 units of the message's text."""
    more_ranges: Opt[bool] = None
    """Present where the message has more than the 1000 ranges that are listed."""
    excerpt: Opt[Excerpt] = None
    """The text around the first range."""


class SessionMatch(Match):
    """A message that matches a search over the store."""

    session_id: str


class Unread(Shape):
    """What a search could not look at, and why."""

    timeline_id: Opt[str] = None
    """Absent for the live log."""
    message: str


class SessionUnread(Unread):
    """What a search over the store could not look at, and why."""

    session_id: str


class SearchResult(ReadShape):
    """Matches in one session."""

    matches: list[Match]
    next_cursor: Opt[str] = None
    unread: Opt[list[Unread]] = None
    """What of this page's part was damaged or could not be read."""


class SessionSearchResult(ReadShape):
    """Matches over the store."""

    matches: list[SessionMatch]
    next_cursor: Opt[str] = None
    unread: Opt[list[SessionUnread]] = None
    """What of this page's part was damaged or could not be read."""


class DiffTokens(Shape):
    """Token counts of the two sides of a comparison."""

    from_: Count = Field(alias="from")
    to: Count


class ContextState(Shape):
    """What a context amounted to at a moment of its past."""

    message_count: Count
    checkpoint_count: Count
    """Checkpoint records up to then."""
    token_count: Count
    system_prompt: str | None


class DiffStates(Shape):
    """The states of the two sides of a comparison."""

    from_: ContextState = Field(alias="from")
    to: ContextState


class DiffResult(ReadShape):
    """How two states of a context differ."""

    common: Count
    """Messages that both begin with."""
    removed: list[IndexedMessage]
    """Of `from`, after those."""
    added: list[IndexedMessage]
    """Of `to`, after those; they come when all of `removed` have come."""
    removed_count: Count
    """How many there are on all pages together."""
    added_count: Count
    tokens: DiffTokens
    state: DiffStates
    next_cursor: Opt[str] = None


class AtResult(ReadShape):
    """A moment of the past."""

    timeline_id: Opt[str] = None
    """The timeline that holds it; absent for the live log."""
    checkpoint: Checkpoint | None
    """The last checkpoint before it."""
    next_checkpoint: Checkpoint | None
    """The first checkpoint after it."""
    state: ContextState
    """With the message; or, for a `time` after the last change of its log, at the end of that. For any other `time` at
    `checkpoint`: what came between it and `nextCheckpoint` bears no time."""
