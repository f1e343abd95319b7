"""Values of sessions: plain and frozen, without I/O and without wire names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

AutoCheckpoint = Literal["off", "turn", "step"]
Access = Literal["owner", "readOnly"]
Decision = Literal["approve", "approveForSession", "reject"]
Resolution = Literal["approve", "approveForSession", "reject", "cancelled", "timedOut"]
Summarizer = Literal["caller", "client", "server", "builtin"]
"""Who made a summary; `caller`: it was handed in."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Origin of a change; events carry it.

    Attributes:
        request_id: The request id of the contract, where the request had one.
        client: Name of the client program.
    """

    request_id: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class Mutation:
    """The circumstances of one mutating request.

    Attributes:
        expected_head: The change is made only if this is still the head.
        request_id: A repeat of a known id is answered from the table and changes nothing.
        method: The method's wire name.
        fingerprint: 16 hexadecimal digits over method and parameters; tells a repeat from a reused id.
        earlier: What earlier releases made of the same request.
        cause: Goes into the events.
        again: A process asks again on its own, whose client has asked once: a repeat is answered as the first was.
    """

    expected_head: str | None = None
    request_id: str | None = None
    method: str = ""
    fingerprint: str = ""
    cause: Cause = Cause()
    again: bool = False
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point of the log to come back to.

    Attributes:
        id: The number of the record; the next one is last + 1, and it restarts after a revert.
        uid: Never reused in a session.
        label: What the user or the server called it.
        created_at: ISO-8601 UTC; None for records of the original program.
        message_count: Messages before it.
        token_count: Token count at it, without pending.
        preview: The first 120 characters of the next message's text.
    """

    id: int
    uid: str
    label: str | None
    created_at: str | None
    message_count: int
    token_count: int
    preview: str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The facts of a log that fit on a screen.

    Attributes:
        checkpoints: The newest 50, oldest first.
        checkpoints_omitted: How many older ones there are.
        n_checkpoints: The id the next checkpoint will have.
        timelines: Number of earlier logs kept.
        can_undo: How many steps can be undone.
        can_redo: How many can be redone.
    """

    message_count: int
    token_count: int
    token_count_with_pending: int
    n_checkpoints: int
    checkpoints: tuple[Checkpoint, ...]
    checkpoints_omitted: int
    system_prompt: str | None
    log_bytes: int
    timelines: int
    can_undo: int = 0
    can_redo: int = 0


@dataclass(frozen=True, slots=True)
class Approval:
    """The approvals to run without asking.

    Attributes:
        actions: Approved by name, sorted.
        sealed: True if the stored values carry a valid seal; without one nothing is ever on.
        changed_at: ISO-8601 UTC of the last change.
        changed_by: Name of the client that asked for it.
    """

    yolo: bool = False
    afk: bool = False
    actions: tuple[str, ...] = ()
    sealed: bool = False
    changed_at: str | None = None
    changed_by: str | None = None

    @property
    def anything_on(self) -> bool:
        """True if any action runs without asking."""
        return self.yolo or self.afk or bool(self.actions)


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """The action that an approval is asked for.

    Attributes:
        action: Kind of action; automatic approvals match it.
        description: The action in detail, for a person.
        detail: The same for a program that can show more. In memory only.
        tool_call_id: The tool call that waits for it.
    """

    action: str
    description: str | None = None
    detail: dict[str, Any] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A question that waits for a decision; `client` is the name of the program that asks."""

    approval_id: str
    question: ApprovalQuestion
    requested_at: str
    client: str | None = None


@dataclass(frozen=True, slots=True)
class Subagent:
    """A sub-agent that was defined while the session ran."""

    name: str
    system_prompt: str


@dataclass(frozen=True, slots=True)
class PendingDMail:
    """A note to an earlier self that waits to be delivered; `sender` is the session it came from, if another."""

    checkpoint_id: int
    checkpoint_uid: str
    message: str
    sender: str | None = None


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a fork came from."""

    session_id: str
    checkpoint_uid: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds a session's lock."""

    pid: int
    host: str
    since: str


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a list shows it.

    Attributes:
        damaged: Why part of it could not be read; None in good order.
        deleted_at: ISO-8601 UTC; only in the trash.
    """

    session_id: str
    title: str | None
    path: Path
    workspace: str | None
    created_at: str
    updated_at: str
    archived: bool
    message_count: int
    token_count: int
    parent: Parent | None = None
    owner: Owner | None = None
    damaged: str | None = None
    deleted_at: str | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of a listing; `next_cursor` is None on the last one."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the past a session keeps: the newest timelines up to both limits, never less than one."""

    max_timelines: int = 50
    max_timeline_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class FactTally:
    """Numbers of facts of one kind that were found and kept, and the first of the lost facts themselves."""

    found: int
    kept: int
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The facts of each kind, kept and lost.

    Attributes:
        paths: Files.
        identifiers: Names in code.
        errors: Error messages.
        todos: What the agent said was left to do.
        constraints: The user's demands.
    """

    paths: FactTally
    identifiers: FactTally
    errors: FactTally
    todos: FactTally
    constraints: FactTally


@dataclass(frozen=True, slots=True)
class Review:
    """Review of a summary.

    Attributes:
        summarizer: Its author.
        scorecard: Kept and lost facts.
        pins: Texts it had to contain.
        pins_added: Those of them that were appended to it.
    """

    summarizer: Summarizer
    scorecard: Scorecard
    pins: tuple[str, ...] = ()
    pins_added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """A compaction that was worked out on the log as it was at `head`.

    Attributes:
        head: The head it was worked out on. Appends since are preserved too; a rewrite since makes the plan void.
        preserved_from: Index of the first message that stays; those before it are what `message` stands for.
        message: The summary as a user message in its JSON form, the contract's preface first.
        summary: The summary's text, as the result shows it.
        summary_tokens: Tokens of `message` as the summarising model counted them; None = estimate.
        review: What there is to say of the summary.
        calls: Ids of the tool calls that go; a result of theirs that has arrived since would be orphaned.
        replaced_tokens: An estimate of what goes, tool calls and results included.
    """

    head: str
    preserved_from: int
    message: dict[str, Any]
    summary: str
    summary_tokens: int | None = None
    review: Review | None = None
    calls: frozenset[str] = frozenset()
    replaced_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A tool exchange that the end of a log stands in the middle of: models refuse such a history.

    Attributes:
        index: The message that makes the calls; where it is healed, the first message that went for it.
        calls: Ids of the calls without a result.
        healed: The log was cut back to before it.
    """

    index: int
    calls: tuple[str, ...]
    healed: bool = False


StepKind = Literal["revert", "clear", "compact", "restore", "dmail"]


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A step that can be undone or redone.

    Attributes:
        kind: What it is.
        timeline_id: The timeline with the log that undoing (redoing) it brings back; None: an empty log.
    """

    kind: StepKind
    timeline_id: str | None
