"""Values of sessions, plain and frozen, and their form in the members of the contract: what the journal keeps of a
change, what its request is answered with, and what listeners are told.

All three are one form, made by the session in the step that makes the change: so a repeat is answered word for word,
whichever process and release is asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from timeleap.json_value import Json
from timeleap.message_text import checkpoint_name, should_compact, span_name
from timeleap.storage.log_values import Appended
from timeleap.summaries.log_spans import NewSpans

_log = logging.getLogger(__name__)

AutoCheckpoint = Literal["off", "turn", "step"]
Access = Literal["owner", "readOnly"]
Decision = Literal["approve", "approveForSession", "reject"]
Unanswered = Literal["cancelled", "timedOut"]
Resolution = Literal[Decision, Unanswered]
StepKind = Literal["revert", "clear", "compact", "fold", "restore", "dmail"]

CONTEXT = "context/didChange"
SESSION = "session/didChange"
RECOVERED = "session/didRecover"
WARNING = "session/warning"
APPROVAL_REQUESTED = "approval/didRequest"
APPROVAL_RESOLVED = "approval/didResolve"
MESSAGES_APPENDED: Final = "messagesAppended"
SYSTEM_PROMPT_SET: Final = "systemPromptSet"
COUNT_UPDATED: Final = "tokenCountUpdated"
NOTHING_KEPT: Final[Mapping[str, Any]] = MappingProxyType({})


# Names of members: our code has names of its own, which are spelled here as files and the wire have them


class _Names(dict[str, str]):
    """Names of members by ours; each is made once."""

    def __missing__(self, name: str) -> str:
        first, *others = name.split("_")
        return self.setdefault(name, first + "".join(other.title() for other in others))


_NAMES = _Names(pending_dmail="pendingDMail")


def camel_case(name: str) -> str:
    """The name of a member as JSON has it; one without an underscore is that already."""
    return _NAMES[name]


def json_members(**members: Any) -> Json:
    """A JSON object of these members."""
    return {_NAMES[name]: value for name, value in members.items()}


def set_members(**members: Any) -> Json:
    """A JSON object of those members that are not None."""
    return {_NAMES[name]: value for name, value in members.items() if value is not None}


# Requests, and what listeners are told of them


class Cause(Struct, frozen=True):
    """Origin of a change; events carry it."""

    request_id: str | None = None  # that of the contract, where the request had one
    client: str | None = None  # name of the client program

    def wire(self) -> Json:
        return set_members(request_id=self.request_id, client=self.client)


class Mutation(Struct, frozen=True):
    """The circumstances of one mutating request."""

    expected_head: str | None = None  # the change is made only if this is still the head
    request_id: str | None = None  # a repeat of a known id is answered from the table and changes nothing
    method: str = ""  # its wire name
    fingerprint: str = ""  # 16 hexadecimal digits over method and parameters; tells a repeat from a reused id
    cause: Cause = Cause()  # goes into the events
    again: bool = (
        False  # a process asks again on its own, whose client has asked once: a repeat is answered as the first
    )
    earlier: Callable[[], tuple[str, ...]] = tuple  # gives the fingerprints that earlier releases made of the request
    followed: bool = False  # more changes are about to be asked for: an append may wait to be written with them


@lru_cache(256)
def unguarded(method: str, client: str | None, followed: bool) -> Mutation:
    """The circumstances of a request with no id that expects no head: the same for many."""
    return Mutation(method=method, cause=Cause(client=client), followed=followed)


class Event(Struct, frozen=True):
    """Event for listeners, after a change is durable and before its method returns, in the order of the changes."""

    kind: str  # of change, or of warning
    head: str  # after it
    members: Json = {}  # the notification's own
    method: str = SESSION  # the notification's
    cause: Cause = Cause()  # empty where no request asked for it


class Listeners:
    """Callbacks that are told of every event."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Event], None]] = []

    def add(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Tell `callback` from now on; returns what ends that."""
        self.callbacks.append(callback)

        def stop() -> None:
            if callback in self.callbacks:
                self.callbacks.remove(callback)

        return stop

    def tell(self, *events: Event) -> None:
        """Tell all of them, in this order."""
        for event in events:
            for callback in tuple(self.callbacks):
                try:
                    callback(event)
                except Exception:
                    # What is done is done: a listener that fails must not make it look undone to the one who asked.
                    _log.exception("a listener failed at %s", event.kind)


# The log


class Checkpoint(Struct, frozen=True):
    """A point of the log to come back to."""

    id: int  # the number of the record; the next one is last + 1, and it restarts after a revert
    uid: str  # never reused in a session
    label: str | None  # what the user or the server called it
    created_at: str | None  # ISO-8601 UTC; None for records of the original program
    message_count: int  # messages before it
    token_count: int  # at it, without pending
    preview: str | None  # the first 120 characters of the next message's text
    kept: Mapping[str, Any] = NOTHING_KEPT  # by key: what companions keep of the state at it, or why they do not
    summary: Json | None = None  # `SpanSummary` of the contract: what happened after it, where that was looked at

    def wire(self) -> Json:
        """`Checkpoint` of the contract."""
        return {
            **set_members(
                id=self.id,
                uid=self.uid,
                label=self.label,
                created_at=self.created_at,
                message_count=self.message_count,
                token_count=self.token_count,
                preview=self.preview,
            ),
            **self.kept,
            **set_members(summary=self.summary, name=checkpoint_name(self.label, self.preview, self.summary)),
        }


class Past(Struct, frozen=True):
    """Counts of states to go back to: earlier logs, steps to undo and to redo."""

    timelines: int
    can_undo: int = 0
    can_redo: int = 0


class Summary(Struct, frozen=True):
    """The facts of a log that fit on a screen."""

    message_count: int
    token_count: int
    token_count_with_pending: int
    n_checkpoints: int  # the id the next checkpoint will have
    checkpoints: tuple[Checkpoint, ...]  # the newest 50, oldest first
    checkpoints_omitted: int  # how many older ones there are
    system_prompt: str | None
    log_bytes: int
    timelines: int  # how many earlier logs are kept
    can_undo: int = 0  # steps
    can_redo: int = 0


class HistoryStep(Struct, frozen=True):
    """A step that can be undone or redone."""

    kind: StepKind
    timeline_id: str | None  # the timeline with the log that undoing (redoing) it brings back; None: an empty log
    kept: Mapping[str, str] = NOTHING_KEPT  # by key: what companions kept of the state with that log

    def wire(self) -> Json:
        return set_members(kind=self.kind, timeline_id=self.timeline_id)


class Exchange(Struct, frozen=True):
    """A tool exchange that the end of a log stands in the middle of: models refuse such a history."""

    index: int  # the message that makes the calls; where it is healed, the first message that went for it
    calls: tuple[str, ...]  # ids of the calls without a result
    healed: bool = False  # the log was cut back to before it

    def wire(self) -> Json:
        return json_members(index=self.index, open_calls=list(self.calls), healed=self.healed)


class Retention(Struct, frozen=True):
    """How much of the past a session keeps: the newest timelines up to both limits, never less than one."""

    max_timelines: int = 50
    max_timeline_bytes: int = 2 << 30


def appended_events(
    done: Appended,
    made: Sequence[Checkpoint],
    told: tuple[str, Json] | None,
    cause: Cause,
    span: Json | None = None,
) -> list[Event]:
    """Events of an append that made checkpoints; `span` is `ChangedSpan` of the contract."""
    head, before, after = done.head, done.before.messages, done.after.messages
    if not made and told is None:  # as nearly all are
        added = set_members(first_index=before, count=after - before, span=span)
        return [Event(MESSAGES_APPENDED, head, added, CONTEXT, cause)]
    found = [Event("checkpointCreated", head, {"checkpoint": made.wire()}, CONTEXT, cause) for made in made]
    changed = {} if span is None else {"span": span}
    if told is not None:
        kind, members = told
        found.append(Event(kind, head, {**members, **changed} if members else members, CONTEXT, cause))
    if after > before or not found:  # opaque records alone change the head, too
        members = {**json_members(first_index=before, count=after - before), **changed}
        found.append(Event(MESSAGES_APPENDED, head, members, CONTEXT, cause))
    return found


def told(checkpoints: Sequence[Checkpoint], spans: Sequence[Json]) -> list[Checkpoint]:
    """Checkpoints, each with what happened after it."""
    return [replace(checkpoint, summary=span) for checkpoint, span in zip(checkpoints, spans, strict=True)]


def changed_span(
    made: Sequence[Checkpoint], spans: NewSpans | None, uid: str | None, *, asked_for: bool
) -> tuple[Sequence[Checkpoint], Json | None]:
    """The checkpoints of an append, and the newest span after it (`ChangedSpan` of the contract), with what happened in
    them. One that was `asked_for` is told as it is answered: what follows it tells of itself."""
    if spans is None:
        return made, None
    name = span_name(spans.newest) or None
    span = set_members(checkpoint_uid=uid, summary=spans.newest, name=name) if uid else None
    return made if asked_for or not made else told(made, spans.made), span


class Budget(Struct, frozen=True):
    """The model's window, in tokens, and when a context is due for compaction."""

    max_context_size: int | None = None  # None: never suggest compaction
    reserved_context_size: int = 0  # for the answer; counts only if less than half the window
    trigger_ratio: float = 1.0  # part of the window that may be used

    def should_compact(self, tokens: int) -> bool:
        """True if a context of so many tokens is due for compaction."""
        ratio, reserved = self.trigger_ratio, self.reserved_context_size
        return should_compact(tokens, self.max_context_size, trigger_ratio=ratio, reserved_context_size=reserved)

    def wire(self) -> Json:
        """`budget` of the contract."""
        return json_members(
            max_context_size=self.max_context_size,
            reserved_context_size=self.reserved_context_size,
            trigger_ratio=self.trigger_ratio,
        )


class AppendResult(Struct, frozen=True, rename="camel"):
    """The result of appended messages; a struct, since each append makes one."""

    head: str
    first_index: int
    message_count: int
    token_count_with_pending: int
    should_compact: bool


class Shapes:
    """The forms that depend on the budget."""

    def __init__(self, budget: Budget = Budget()) -> None:  # noqa: B008  (frozen)
        self.budget = budget

    def summary(self, summary: Summary) -> Json:
        """`ContextSummary` of the contract."""
        return json_members(
            message_count=summary.message_count,
            token_count=summary.token_count,
            token_count_with_pending=summary.token_count_with_pending,
            n_checkpoints=summary.n_checkpoints,
            checkpoints=[checkpoint.wire() for checkpoint in summary.checkpoints],
            checkpoints_omitted=summary.checkpoints_omitted,
            system_prompt=summary.system_prompt,
            log_bytes=summary.log_bytes,
            timelines=summary.timelines,
            can_undo=summary.can_undo,
            can_redo=summary.can_redo,
            should_compact=self.budget.should_compact(summary.token_count_with_pending),
        )

    def appended(self, done: Appended) -> Json:
        """The result of appended messages: where they are, and what they make of the log."""
        after = done.after
        tokens = after.token_count_with_pending
        due = self.budget.max_context_size is not None and self.budget.should_compact(tokens)
        result: Json = to_builtins(AppendResult(done.head, done.before.messages, after.messages, tokens, due))
        return result


# Approvals


class Approval(Struct, frozen=True):
    """The approvals to run without asking."""

    yolo: bool = False
    afk: bool = False
    actions: tuple[str, ...] = ()  # approved by name, sorted
    sealed: bool = False  # the stored values carry a valid seal; without one nothing is ever on
    changed_at: str | None = None  # ISO-8601 UTC
    changed_by: str | None = None  # name of the client that asked for it

    @property
    def anything_on(self) -> bool:
        """True if any action runs without asking."""
        return self.yolo or self.afk or bool(self.actions)

    def wire(self) -> Json:
        """`Approval` of the contract."""
        return set_members(
            yolo=self.yolo,
            afk=self.afk,
            auto_approve_actions=list(self.actions),
            sealed=self.sealed,
            changed_at=self.changed_at,
            changed_by=self.changed_by,
        )


# What else stands beside the log


class Subagent(Struct, frozen=True):
    """A sub-agent that was defined while the session ran."""

    name: str
    system_prompt: str

    def wire(self) -> Json:
        return json_members(name=self.name, system_prompt=self.system_prompt)


class PendingDMail(Struct, frozen=True, rename="camel"):
    """A note to an earlier self that waits to be delivered; `sender` is the session it came from, if another."""

    checkpoint_id: int
    checkpoint_uid: str
    message: str
    sender: str | None = field(default=None, name="fromSessionId")

    def wire(self) -> Json:
        return set_members(
            checkpoint_id=self.checkpoint_id,
            checkpoint_uid=self.checkpoint_uid,
            message=self.message,
            from_session_id=self.sender,
        )


class Parent(Struct, frozen=True, rename="camel"):
    """Where a fork came from."""

    session_id: str
    checkpoint_uid: str | None = None

    def wire(self) -> Json:
        return set_members(session_id=self.session_id, checkpoint_uid=self.checkpoint_uid)


class Owner(Struct, frozen=True):
    """The process that holds a session's lock."""

    pid: int
    host: str
    since: str


class Source(Struct, frozen=True):
    """Source of a session in another program: the `kind` of program, its `key` of the conversation, and of a mirror
    the `path` of the program's file."""

    kind: str
    key: str
    path: str | None = None

    def wire(self, live: bool | None = None) -> Json:
        """`source` of the contract; `live`: whether a process has the mirror open."""
        if self.path is None:
            live = None
        return set_members(kind=self.kind, key=self.key, path=self.path, live=live)


class SessionInfo(Struct, frozen=True):
    """A session as a list shows it."""

    session_id: str
    title: str | None
    path: Path | str
    workspace: str | None
    created_at: str
    updated_at: str
    archived: bool
    message_count: int
    token_count: int
    token_count_with_pending: int | None = None  # None: not known without reading the log
    parent: Parent | None = None
    owner: Owner | None = None
    damaged: str | None = None  # why part of it could not be read
    deleted_at: str | None = None  # ISO-8601 UTC; only in the trash
    source: Source | None = None

    def wire(self) -> Json:
        """`SessionInfo` of the contract."""
        owner = self.owner
        return {
            **json_members(session_id=self.session_id, title=self.title, path=str(self.path)),
            **set_members(
                workspace=self.workspace,
                created_at=self.created_at,
                updated_at=self.updated_at,
                archived=self.archived,
                message_count=self.message_count,
                token_count=self.token_count,
                token_count_with_pending=self.token_count_with_pending,
                parent=self.parent and self.parent.wire(),
                owner=owner and json_members(pid=owner.pid, host=owner.host, since=owner.since),
                source=self.source and self.source.wire(owner is not None),
                deleted_at=self.deleted_at,
                damaged=self.damaged,
            ),
        }


class SessionPage(Struct, frozen=True):
    """A page of a listing; `next_cursor` is None on the last one."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class Effect(msgspec.Struct, rename="camel", omit_defaults=True):
    """A change that was made by a request which is asked again: what one process tells another of it."""

    request_id: str
    before: str  # the head before it; empty where it is not known
    head: str  # right after it
    told: Sequence[tuple[str, str, Mapping[str, Any]]] | None = None
    """Its notifications: method, kind of change and the members that are its own; None: not known."""
