"""A change of a session as a value: decided on its state, carried out by `timeleap.sessions.transaction`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, field

from timeleap.json_value import Json
from timeleap.sessions.kernel.session_view import SessionView, StateSnapshot
from timeleap.sessions.shapes import NOTHING_KEPT, Approval, Cause, Checkpoint, Exchange, HistoryStep
from timeleap.storage.log_values import LogState, NewRecord, Replacement
from timeleap.storage.reader import LogReader

RewriteKind = Literal[
    "reverted", "cleared", "compacted", "folded", "timelineRestored", "dmailDelivered", "undone", "redone", "external"
]


class ApprovalChange(Struct, frozen=True):
    """Approvals that are to be in force, and the difference as the audit is to show it."""

    after: Approval
    field: str
    old: Any
    new: Any


class LogRewrite(Struct, frozen=True):
    """A new log in the place of the present one, and what it amounts to.

    Attributes:
        kind: What listeners are told.
        replacement: What the engine is given.
        source: The log that the new one begins as.
        kept: The state of that where the beginning ends.
        removed: Messages, checkpoints and tokens that go; negative where a restore brings more back.
        target: The checkpoint a revert goes back to.
        made: The checkpoint it writes.
        later: Where it is only foretold: the checkpoints among its records that are not new.
        refused: Why it is not to be carried out.
        exchange: The tool exchange it would stop in the middle of.
        message_index: The message a revert goes back to.
        steps: What it undoes or redoes, in that order.
        answer: Members of the request's result, in the place of those of a revert.
        told: More members of what listeners are told.
        kept_there: By key: what companions kept of the state that it goes back to.
    """

    kind: RewriteKind
    replacement: Replacement
    source: LogReader
    kept: LogState
    removed: Json
    target: Checkpoint | None = None
    made: Checkpoint | None = None
    later: Sequence[Checkpoint] = ()
    refused: str | None = None
    exchange: Exchange | None = None
    message_index: int | None = None
    steps: tuple[HistoryStep, ...] | None = None
    answer: Json | None = None
    told: Json = field(default_factory=dict)
    kept_there: Mapping[str, Any] = NOTHING_KEPT


class Removal(Struct, frozen=True):
    """Timelines and quarantine files that go for good."""

    timeline_ids: tuple[str, ...]
    quarantine: tuple[str, ...]


class Erasure(Protocol):
    """Something that goes out of a session for good: lines, members and answers that hold it are rewritten without it."""

    async def carry_out(self, cause: Cause) -> None:
        """Take it out of the logs and of all that stands beside them."""

    def forget(self) -> None:
        """Take it out of what the session's parts have in memory."""

    def clean(self, text: str) -> str:
        """A text without it."""
        ...

    def done(self) -> tuple[Json, Json]:
        """The result, and the members of what listeners are told where the log has changed."""
        ...


Marks = Mapping[str, str | int]
"""Members of `_tl` for the request that asks; empty where it carries no id."""
NO_MARKS: Final[Marks] = MappingProxyType({})


class Change(Struct, frozen=True):
    """A step of a session. The parts stand in the order in which they become durable.

    Attributes:
        records: Records to append; the first carries the request's marks.
        approval: Approvals, put in force under their seal, with an entry in the audit.
        state: Members of `state.json`.
        meta: Members of `timeleap.json`, in one write with the journal line of the request.
        rewrite: A new log; what `timeleap.json` says of it is written before, and counts once it is in its place.
        removal: Timelines that go, once `timeleap.json` says so.
        erasure: Something that goes out of everything.
        facts: The state beside the log, which counts then; None: nothing of it is written.
        result: Members of the request's result beside the head; None: those of appended messages, or none.
        made: The checkpoints among the records.
        told: Kind and members of what listeners are told of the records beside checkpoints and messages.
        message: What a single record says, where that is at hand: then nobody has to decode it.
    """

    records: Sequence[NewRecord] = ()
    approval: ApprovalChange | None = None
    state: Mapping[str, Any] = {}
    meta: Mapping[str, Any] = {}
    rewrite: LogRewrite | None = None
    removal: Removal | None = None
    erasure: Erasure | None = None
    facts: StateSnapshot | None = None
    result: Mapping[str, Any] | None = None
    made: Sequence[Checkpoint] = ()
    told: tuple[str, Json] | None = None
    message: Mapping[str, Any] | None = None


NOTHING: Final = Change()

Decide = Callable[[SessionView], Change]
"""Decides at a request's turn. It may be called again, on another state."""
DecideAppend = Callable[[LogState, Marks], Change]
"""Decides what to append, on the state that it follows and with the marks of its request."""
