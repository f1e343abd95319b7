"""The shapes that several methods and notifications share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import Count, Int, JsonObject, Opt, Positive, ReadShape, SessionId, Shape, Timestamp
from timeleap_protocol.messages import MessageObject

TimelineReason = Literal["revert", "clear", "compact", "fold", "restore", "dmail", "import", "external", "unknown"]
Access = Literal["owner", "attached", "readOnly"]
Range = Annotated[list[Count], Field(min_length=2, max_length=2)]
"""Start and end, the end exclusive."""


FilesMode = Literal["off", "checkpoint", "turn"]


class FilesProblem(Shape):
    """Why something could not be done with the files of a session: an error of the protocol, in short."""

    kind: str
    message: str
    reason: Opt[str] = None
    """With `filesUnavailable`."""


class CheckpointFiles(Shape):
    """The snapshot of a checkpoint; or only `error`, where none could be taken."""

    snapshot: Opt[str] = None
    changed: Opt[Count] = None
    """Paths that differ from the snapshot before it; of a mirror from that of the checkpoint before."""
    skipped: Opt[Count] = None
    """Paths it could not take in; a restore leaves them alone."""
    ms: Opt[Count] = None
    """How long it took."""
    error: Opt[FilesProblem] = None


class FilesState(Shape):
    """The snapshots of a session's files, and the settings under which they are taken."""

    mode: FilesMode
    roots: list[str]
    """URIs of the folders."""
    snapshots: Count
    bytes: Count
    """What they take on disk, of all sessions below these roots."""
    exclude: Opt[list[str]] = None
    include_ignored: Opt[list[str]] = None
    max_file_bytes: Opt[Positive] = None
    """Absent while it is the default, as the others."""
    max_files: Opt[Positive] = None
    problem: Opt[FilesProblem] = None
    """Why no snapshot can be taken at present."""


SummaryKind = Literal["prompt", "calls", "text", "compacted", "dmail", "empty"]


class SummaryCall(Shape):
    """A tool call, in short."""

    name: str
    argument: Opt[str] = None
    """The telling one of its arguments: a path, a command, a query; at most 200 characters, on one line."""
    failed: Opt[bool] = None
    """Present, and true, where its result says so."""


class SpanSummary(Shape):
    """What happened between a checkpoint and the next one, or the end. Of a very long span only the beginning is read:
    `messages` and `tokens` are of all of it."""

    kind: SummaryKind
    """`prompt`: a person said something; `calls`: tools were called; `text`: the agent said something; `compacted`: it
    begins with the summary of a compaction; `dmail`: with a note of a later self, or of another session; `empty`:
    nothing was said."""
    text: Annotated[str, Field(max_length=200)]
    """In words, on one line, without marks of Markdown: the prompt or the note; else the calls; else the text."""
    calls: Opt[Annotated[list[SummaryCall], Field(max_length=20)]] = None
    """The first 20; absent where there are none."""
    more_calls: Opt[Count] = None
    """How many there are beside them."""
    files: Opt[Annotated[list[str], Field(max_length=20)]] = None
    """The first 20 paths that calls were given, each once."""
    errors: Opt[Count] = None
    """Results that say that their call failed; absent where there are none."""
    messages: Count
    tokens: Opt[Int] = None
    """By how much the token count grew; absent where none was reported in it."""


class MergedFrom(Shape):
    """Where a summary was merged from."""

    session_id: str
    head: str
    """The head that session had."""
    messages: Count
    """How many messages were summed up."""


class Checkpoint(Shape):
    """A named point of the log that can be reverted to."""

    id: Int
    """Counts up by one; starts again lower after a revert."""
    uid: str
    """Never used twice in a session."""
    label: Opt[str] = None
    created_at: Opt[Timestamp] = None
    """Absent for checkpoints the original program wrote."""
    message_count: Count
    """Messages before it."""
    token_count: Count
    """The token count at it."""
    preview: Opt[str] = None
    """The first 120 characters of the message that follows."""
    files: Opt[CheckpointFiles] = None
    """The files at it; absent where none were looked at."""
    summary: Opt[SpanSummary] = None
    """What happened after it, in `context/listCheckpoints`, in a `ContextSummary` and in notifications."""
    name: Opt[Annotated[str, Field(max_length=200)]] = None
    """The name that every program shows, beside `summary`: the label, else the span's: the call that failed, else the
    files that were edited, the first call, or what was said. A whole line; absent where nothing happened."""


class Timeline(Shape):
    """An earlier log of the session, set aside whole."""

    timeline_id: str
    file: str
    """Its file's name within the session's directory."""
    reason: TimelineReason
    """What set it aside."""
    created_at: Opt[Timestamp] = None
    """When it was set aside; absent where nobody noted it."""
    bytes: Count
    message_count: Count
    checkpoint_count: Count


class ContextSummary(Shape):
    """What a log amounts to."""

    message_count: Count
    token_count: Count
    """The model's last reported usage."""
    token_count_with_pending: Count
    """`tokenCount` and an estimate of what came after it."""
    n_checkpoints: Count
    """The id the next checkpoint will have."""
    checkpoints: list[Checkpoint]
    """The newest 50, oldest first."""
    checkpoints_omitted: Count
    """How many older ones are not listed."""
    system_prompt: str | None
    log_bytes: Count
    timelines: Count
    can_undo: Opt[Count] = None
    """How many steps `context/undo` can go back; absent where the server does not know the method."""
    can_redo: Opt[Count] = None
    """How many of them `context/redo` can take back."""
    should_compact: bool


class Budget(Shape):
    """When the context counts as full."""

    max_context_size: Positive | None
    """Tokens; null: no trigger."""
    reserved_context_size: Count
    trigger_ratio: float


class Approval(Shape):
    """What the user allowed to run unasked."""

    yolo: bool
    """Everything is approved."""
    afk: bool
    auto_approve_actions: list[str]
    """Sorted."""
    sealed: bool
    """Whether the state on disk carries a valid seal."""
    changed_at: Opt[Timestamp] = None
    changed_by: Opt[str] = None


class Subagent(Shape):
    """A sub-agent defined at run time."""

    name: str
    system_prompt: str


class PendingDMail(Shape):
    """A note to an earlier self that waits for delivery."""

    checkpoint_id: Int
    checkpoint_uid: str
    message: str
    from_session_id: Opt[str] = None
    """The session it came from, if not from this one."""


class Parent(Shape):
    """Where a forked session came from."""

    session_id: str
    checkpoint_uid: Opt[str] = None
    """Absent when the whole history was taken."""


class Owner(Shape):
    """The process that writes to a session."""

    pid: Int
    host: str
    since: Timestamp


class StateWarning(Shape):
    """Something worth knowing that stops nothing. Members beyond these depend on the kind."""

    kind: str
    message: str


class Loss(Shape):
    """Something an export or import could not carry over."""

    kind: str
    message: str


class KeptBytes(Shape):
    """Bytes that are kept of a program's file."""

    bytes: Count
    """Number of bytes of all generations together."""
    generations: Count
    file_gone: bool
    """The program's file is not there any more."""
    goes_at: Opt[Timestamp] = None
    """When the program's own clean-up will remove it, unless it is written to; absent where its settings say nothing of it."""


class Source(Shape):
    """What a session belongs to in another program."""

    kind: str
    """The kind of program."""
    key: str
    """Its key of the conversation."""
    path: Opt[str] = None
    """Of a mirror, which is read-only: the program's own file."""
    live: Opt[bool] = None
    """Of a mirror: a process follows the program's file at the moment."""
    kept: Opt[KeptBytes] = None
    """Bytes that are kept of the program's file, for a mirror in a list; absent where there are none."""


class SessionInfo(Shape):
    """A session in a list."""

    session_id: SessionId
    title: str | None
    path: str
    workspace: Opt[str] = None
    """URI."""
    created_at: Timestamp
    updated_at: Timestamp
    archived: bool
    message_count: Count
    token_count: Count
    token_count_with_pending: Opt[Count] = None
    """With an estimate of what came since the last count; absent where that is not known without reading the log."""
    parent: Opt[Parent] = None
    source: Opt[Source] = None
    owner: Opt[Owner] = None
    damaged: Opt[str] = None
    """Why its files cannot be read; absent where they can."""


class TrashedSession(SessionInfo):
    """A session in the trash."""

    deleted_at: Timestamp


class Head(Shape):
    """Base of results of mutating requests."""

    head: str
    """The log's head after the request."""
    duplicate: Opt[Literal[True]] = None
    """Present when this answers a repeated `requestId`; then nothing was changed and `head` is the present one."""


class SessionState(Head, ReadShape):
    """Everything about one session but its messages."""

    session_id: SessionId
    title: str | None
    path: str
    workspace: Opt[str] = None
    """URI."""
    source: Opt[Source] = None
    """The conversation of another program that it belongs to. With a `path` it is that program's read-only mirror."""
    archived: bool
    access: Access
    context: ContextSummary
    budget: Budget
    approval: Approval
    dynamic_subagents: list[Subagent]
    pending_dmail: PendingDMail | None = Field(alias="pendingDMail")
    pins: Opt[list[str]] = None
    """What no compaction may lose; absent where nothing is pinned."""
    files: Opt[FilesState] = None
    """The snapshots of its files; absent where the server knows nothing of files."""
    warnings: list[StateWarning]


class Removed(Shape):
    """How much a change of the log took away; negative where it brought something back."""

    messages: Int
    checkpoints: Int
    tokens: Int


class IndexedMessage(Shape):
    """A message and its place in the history."""

    index: Count
    message: MessageObject


class MessageMeta(Shape):
    """What is known about a message beside itself."""

    request_id: Opt[str] = None
    """Of the request that appended it."""
    batch_id: Opt[str] = None
    """The same for all messages that were appended as one step."""
    from_session_id: Opt[str] = None
    """The session that left this note, with `context/sendDMail`."""


class HistoryMessage(IndexedMessage):
    """A message of a history page."""

    meta: Opt[MessageMeta] = None


class Cause(Shape):
    """Whose request caused a notification; empty where none did."""

    request_id: Opt[str] = None
    client: Opt[str] = None
    """The `clientInfo.name` of the requesting connection."""


class Quarantined(Shape):
    """Bytes that were cut from a file, and why."""

    file: str
    """Where they are kept, relative to the session's directory."""
    offset: Count
    bytes: Count
    reason: str


class LogRecord(Shape):
    """A line of the log."""

    line: Count
    """0-based in the file, blank lines counted."""
    record: JsonObject


class FieldError(Shape):
    """One misfit of params."""

    loc: list[str | Int]
    """The path of wire names and list positions; empty for the params as a whole."""
    msg: str
    type: str


class ErrorData(Shape):
    """What an error says to programs. Members beyond these depend on the kind."""

    kind: str
    """Stable; the list may grow."""
    retryable: bool
    """Whether the same request may succeed later."""
    errors: Opt[list[FieldError]] = None
    """With `invalidParams`."""
    head: Opt[str] = None
    """With `contentModified`: the present one."""
    owner: Opt[Owner] = None
    """With `sessionLocked`."""


class ErrorObject(Shape):
    """The `error` of a reply."""

    code: Int
    message: str
    data: ErrorData
