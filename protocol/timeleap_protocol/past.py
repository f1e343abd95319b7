"""Params and results of looking into the past: `context/search` and `context/diff`."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from timeleap_protocol.base import Choice, Count, Name, Opt, PageParams, SessionParams, Shape
from timeleap_protocol.shapes import IndexedMessage, Range


class SearchParams(PageParams, SessionParams):
    """`context/search`."""

    query: Name
    regex: Opt[bool] = None
    """Whether `query` is a regular expression. Default: false."""
    timelines: Opt[bool] = None
    """Whether to search timelines too. Default: true."""


class DiffPoint(Choice):
    """One side of a comparison: a checkpoint, a timeline, or (empty) the present."""

    alternatives = (("checkpoint_uid",), ("timeline_id",))
    must_choose = False

    model_config = ConfigDict(extra="forbid")

    checkpoint_uid: Opt[str] = None
    timeline_id: Opt[str] = None


class DiffParams(SessionParams):
    """`context/diff`."""

    from_: DiffPoint = Field(alias="from")
    to: DiffPoint


class Match(Shape):
    """A message that matches a search."""

    index: Count
    timeline_id: Opt[str] = None
    """Absent for the live log."""
    ranges: list[Range]
    """Start and end of each match, in UTF-16 units of the message's text."""


class SearchResult(Shape):
    """Matches in one session."""

    matches: list[Match]
    next_cursor: Opt[str] = None


class DiffTokens(Shape):
    """Token counts of the two sides of a comparison."""

    from_: Count = Field(alias="from")
    to: Count


class DiffResult(Shape):
    """How two states of a context differ."""

    common: Count
    """Messages that both begin with."""
    removed: list[IndexedMessage]
    added: list[IndexedMessage]
    tokens: DiffTokens
