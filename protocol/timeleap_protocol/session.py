"""Params and results of `session/*`. Classes are called `Session<Verb>Params`, shared results by what they are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import (
    Choice,
    Count,
    Int,
    MutationParams,
    Name,
    NullIsAbsent,
    Opt,
    PageParams,
    Params,
    PathText,
    ReadShape,
    RequestId,
    SessionId,
    SessionParams,
    Shape,
)
from timeleap_protocol.files import FilesSettings
from timeleap_protocol.limits import MAX_FILE_ROOTS, MAX_SOURCE_KEY, MAX_SOURCE_KIND
from timeleap_protocol.shapes import (
    Approval,
    Head,
    Loss,
    SessionInfo,
    SessionState,
    StateWarning,
    Subagent,
    TrashedSession,
)


class NewSource(NullIsAbsent):
    """What a new session belongs to in another program."""

    kind: Annotated[str, Field(min_length=1, max_length=MAX_SOURCE_KIND)]
    """The kind of program."""
    key: Annotated[str, Field(min_length=1, max_length=MAX_SOURCE_KEY)]
    """Its key of the conversation."""


class SourceFilter(NullIsAbsent):
    """Of which program, and of which of its conversations."""

    kind: Annotated[str, Field(min_length=1, max_length=MAX_SOURCE_KIND)]
    key: Opt[Annotated[str, Field(min_length=1, max_length=MAX_SOURCE_KEY)]] = None


class SessionOpenParams(Params):
    """`session/open`."""

    session_id: Opt[SessionId] = None
    """Generated if absent."""
    path: Opt[PathText] = None
    """Absolute path of an existing session directory, the original program's included."""
    create: Opt[bool] = None
    """Whether an unknown `sessionId` makes a new session. Default: true."""
    access: Opt[Literal["write", "readOnly"]] = None
    """Default: `write`; `readOnly` for a `path` outside the store."""
    attach: Opt[bool] = None
    """Whether to go through the owner when another process owns the session. Default: true."""
    title: Opt[str] = None
    """Used on creation only."""
    system_prompt: Opt[str] = None
    """Used on creation only."""
    workspace: Opt[str] = None
    """URI; used on creation only."""
    source: Opt[NewSource] = None
    """Used on creation only; a fork does not inherit it."""
    auto_checkpoint: Opt[Literal["off", "turn", "step"]] = None
    """`turn`: a checkpoint before each user message that starts a turn; `step`: before each assistant message, too. Stays
    until set otherwise."""
    files: Opt[FilesSettings] = None
    """Which files the session keeps snapshots of, and when. Stays until set otherwise; at first none."""
    request_id: Opt[RequestId] = None
    """Makes the creation safe to retry."""


class SessionCloseParams(SessionParams):
    """`session/close`."""


class SessionListParams(PageParams):
    """`session/list`."""

    include_archived: Opt[bool] = None
    """Default: false."""
    query: Opt[str] = None
    """Looked for in title and id."""
    workspace: Opt[str] = None
    """Only sessions of this workspace (URI)."""
    source: Opt[SourceFilter] = None
    """Only sessions of this program."""
    parent: Opt[SessionId] = None
    """Only the sub-agents that work for this session, of another program."""
    include_subagents: Opt[bool] = None
    """Default: false: sessions of other programs' sub-agents are left out."""


class SessionLatestParams(Params):
    """`session/latest`."""

    workspace: Opt[str] = None
    """Only sessions of this workspace (URI)."""


class SessionGetStateParams(SessionParams):
    """`session/getState`."""


class SessionSetYoloParams(MutationParams):
    """`session/setYolo`."""

    yolo: bool


class SessionSetAutoApproveParams(MutationParams):
    """`session/setAutoApprove`."""

    action: Name
    enabled: bool


class SessionSetAfkParams(MutationParams):
    """`session/setAfk`."""

    afk: bool
    """Nobody is there: what needs a person is rejected at once."""


class SessionIsApprovedParams(SessionParams):
    """`session/isApproved`."""

    action: Name


class SessionPutSubagentParams(MutationParams):
    """`session/putSubagent`."""

    name: Name
    """A sub-agent of this name is replaced."""
    system_prompt: str


class SessionRemoveSubagentParams(MutationParams):
    """`session/removeSubagent`."""

    name: Name


class SessionSetTitleParams(MutationParams):
    """`session/setTitle`."""

    title: str


class SessionSetWorkspaceParams(MutationParams):
    """`session/setWorkspace`."""

    workspace: Name | None
    """URI of the folder the session is about; null: of none. It is kept and compared in one form, whichever way it is spelled
    (`protocol/folder-uris.json`)."""


class SessionForkParams(Choice, MutationParams):
    """`session/fork`. `expectedHead` is the head of the session that is copied."""

    alternatives = (("checkpoint_id",), ("checkpoint_uid",))
    must_choose = False

    checkpoint_id: Opt[Int] = None
    """History up to and including this checkpoint; all of it if none is given."""
    checkpoint_uid: Opt[str] = None
    """The same, by uid."""
    timeline_id: Opt[str] = None
    """Of this timeline instead of the present log."""
    new_session_id: Opt[SessionId] = None
    """Generated if absent."""
    title: Opt[str] = None


class SessionArchiveParams(MutationParams):
    """`session/archive`."""


class SessionUnarchiveParams(MutationParams):
    """`session/unarchive`."""


class SessionDeleteParams(MutationParams):
    """`session/delete`."""


class SessionUndeleteParams(MutationParams):
    """`session/undelete`."""


class SessionListTrashParams(PageParams):
    """`session/listTrash`."""


class SessionReloadParams(SessionParams):
    """`session/reload`."""


class SessionVerifyParams(SessionParams):
    """`session/verify`."""


class SessionRepairParams(MutationParams):
    """`session/repair`. A repeat finds nothing left to repair."""

    dry_run: Opt[bool] = None
    """Only say what would be left out. Default: false."""


class SessionExportParams(SessionParams):
    """`session/export`. The session need not be open, and may be live elsewhere: it is only read."""

    format: Name
    """`native`: a ZIP archive with the log, all timelines and their checksums, for `session/import`. For people: `markdown`,
    the conversation; `html`, a page with the timelines in it."""
    path: PathText
    """Absolute path of the file to write, outside of the store; readable by the user only, and there whole or not at all."""
    overwrite: Opt[bool] = None
    """Replace a file that is there. Default: false, and such a `path` is refused."""
    with_files: Opt[bool] = None
    """Of `native`: take the snapshots of the session's files along. Default: false."""
    keep_secrets: Opt[bool] = None
    """Leave what looks like a secret as it is, in `markdown` and `html`. Default: false, and `[secret]` stands in its place.
    `native` holds the session's very bytes, and refuses false."""


class SessionImportParams(Params):
    """`session/import`. The new session has a uid of its own, and its approvals are off."""

    path: PathText
    """Absolute path of the file to read; of a session's directory with `kimi` and `kimi-code`. With `opencode`, of its database,
    and behind that the session's id, which no file has."""
    format: Opt[Name] = None
    """`native`: what `session/export` wrote; `kimi`: a log or a directory of the original program; `claude-code`, `codex`,
    `kimi-code`, `opencode`, `pi`: sessions of those programs. Recognised from the content if absent."""
    session_id: Opt[SessionId] = None
    """Generated if absent."""
    folders: Opt[Annotated[list[Name], Field(min_length=1, max_length=MAX_FILE_ROOTS)]] = None
    """URIs of the folders that the snapshots in an archive belong to, in its order; they become `files.roots` of the session.
    Nothing in them is changed. Without them the snapshots are left out."""
    request_id: Opt[RequestId] = None
    """Makes the request safe to retry."""


class SessionListResult(ReadShape):
    """Sessions, newest change first."""

    sessions: list[SessionInfo]
    next_cursor: Opt[str] = None


class SessionLatestResult(ReadShape):
    """The session that was changed last."""

    session: SessionInfo | None
    """Null where there is none."""


class TrashListResult(ReadShape):
    """Sessions in the trash, newest first."""

    sessions: list[TrashedSession]
    next_cursor: Opt[str] = None


class ApprovalResult(Head):
    """The approvals after a change."""

    approval: Approval


class IsApprovedResult(Shape):
    """Whether an action may run unasked, and why."""

    approved: bool
    reason: Literal["yolo", "autoApprove", "notApproved"]


class SubagentsResult(Head):
    """The sub-agents after a change."""

    dynamic_subagents: list[Subagent]


class HeadResult(Head):
    """Only the head."""


class Problem(Shape):
    """A record that is not part of history, or that only this program can read; or a damaged file beside the log."""

    kind: str
    message: str
    file: Opt[str] = None
    """The damaged file beside the log; `line` and `offset` are 0 then."""
    line: Count
    offset: Count
    bytes: Count


class VerifyResult(ReadShape):
    """What a look at every record found."""

    ok: bool
    """Whether there is no problem."""
    lines: Count
    bytes: Count
    problems: list[Problem]
    warnings: list[StateWarning]


class RepairResult(Head):
    """What a repair did, or would do."""

    timeline_id: Opt[str] = None
    """The log as it was; absent where nothing was changed."""
    removed_lines: Count
    problems: list[Problem]


class EmptyResult(Shape):
    """Nothing to tell."""

    duplicate: Opt[Literal[True]] = None
    """Present when this answers a repeated `requestId`; then nothing was changed."""


class ExportResult(ReadShape):
    """What an export wrote."""

    path: str
    bytes: Count
    losses: list[Loss]
    masked: Opt[Count] = None
    """How many texts that look like secrets are masked in the file; absent where none was to be."""


class ImportResult(SessionState):
    """The new session, open."""

    losses: list[Loss]
    """What was not carried over; a repeated request gets the same."""
