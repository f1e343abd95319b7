"""Params, results and notifications of `bridge/*`: sessions of other agents' programs, shown here as they grow."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import (
    Count,
    MutationParams,
    Name,
    NullIsAbsent,
    Opt,
    Params,
    PathText,
    Place,
    SessionId,
    SessionParams,
    Shape,
    Timestamp,
)

BridgeKind = Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"]
BridgeEvent = Literal["start", "prompt", "tool", "stop", "end"]


class BridgeListParams(Params):
    """`bridge/list`."""


class BridgeSource(Shape):
    """A folder in which an agent's program keeps its sessions."""

    kind: BridgeKind
    path: str
    """Of the folder."""
    sessions: Count
    """Files of sessions that are in it."""
    available: bool
    """False where there is no such folder, or it cannot be read."""
    watched: bool
    """This process follows it."""
    mirrored: Count
    """Files that are mirrored up to their present size."""
    pending: Opt[Count] = None
    """Files that this process is yet to look at. Absent where it does not follow the folder, or has yet to list it."""
    problem: Opt[str] = None
    """What could not be read, and why."""


class BridgeListResult(Shape):
    """The folders in which agents keep sessions: the usual ones, and those that are watched."""

    sources: list[BridgeSource]


class _SourceParams(NullIsAbsent):
    """Mix-in: which sessions."""

    kind: BridgeKind
    path: Opt[PathText] = None
    """The folder. Default: where the program keeps its sessions, by its own environment variable."""


class BridgeWatchParams(_SourceParams, Params):
    """`bridge/watch`. Mirrors what is there, in the background, and follows it until `bridge/unwatch`."""

    workspace: Opt[Name] = None
    """URI: only the sessions of this folder."""


class BridgeWatchResult(Shape):
    """What is watched."""

    kind: BridgeKind
    path: str
    method: Literal["notifications", "polling"]
    """How the server hears of changes: from the system, or by looking again and again."""


class BridgeUnwatchParams(_SourceParams, Params):
    """`bridge/unwatch`. The mirrors stay as they are."""


class BridgeUnwatchResult(Shape):
    """Whether it was watched."""

    watched: bool


class BridgeAdoptParams(SessionParams):
    """`bridge/adopt`."""

    at: Opt[Place] = None
    """Where to go on from, which is the first thing left out: uid of a checkpoint, or index of a message. Default: behind
    all of it."""


class ResumeCommand(Shape):
    """A command that has the agent's program go on."""

    command: str
    args: list[str]
    cwd: Opt[str] = None
    """The folder to run it in."""


class BridgeAdoptResult(Shape):
    """A new session of the agent's program, beside the old one, which is as it was."""

    session_id: SessionId
    """Id of the mirror."""
    path: str
    """The program's new file."""
    resume: ResumeCommand
    healed: Opt[list[str]] = None
    """Faults that the program would have refused and the new file has not, in words."""


class BridgeCatchUpParams(Params):
    """`bridge/catchUp`: what a hook of an agent's program asks for. Mirrors one file up to now, whether it is watched or
    not; and keeps the files of the workspace."""

    kind: BridgeKind
    path: PathText
    """The file of the session; it need not be there yet."""
    cwd: Opt[PathText] = None
    """The agent's folder, an absolute path: snapshots are of it. Without it none is taken."""
    event: BridgeEvent
    """`prompt`: a prompt is about to be worked on: the snapshot belongs to its checkpoint; `tool`: a tool has run;
    `stop`: the turn is over; `start`, `end`: of the session: no snapshot."""
    tool_name: Opt[Annotated[str, Field(max_length=200)]] = None
    """The label of the snapshot."""
    session_id: Opt[SessionId] = None
    """The mirror; a process that passes the request on to the one that has the mirror open says it. Ignored."""


class BridgeCatchUpResult(Shape):
    """What was done. A file that is not there yet is no error."""

    session_id: SessionId
    """The mirror, which is made when the file is there."""
    added: Count
    """Messages that are new in the mirror."""
    checkpoint_uid: Opt[str] = None
    """The newest checkpoint."""
    snapshot: Opt[str] = None
    problem: Opt[str] = None
    """Why there is no snapshot, or no mirror."""


class BridgeListKeptParams(SessionParams):
    """`bridge/listKept`."""


class KeptGeneration(Shape):
    """The bytes of a program's file from its beginning, or from a change of what was read, up to the next such change."""

    generation: Count
    """Its number, from 1."""
    bytes: Count
    sha256: str
    """Digest of the bytes, in hexadecimal digits."""
    first_seen: Timestamp
    last_seen: Timestamp
    ended: Opt[Literal["rewritten", "truncated", "replaced", "gone"]] = None
    """Why no more is added to it: the file says something else in the same place, was cut, is another one, or is not there
    any more. Absent: it grows."""


class BridgeListKeptResult(Shape):
    """All that is kept of the file of a mirror."""

    generations: list[KeptGeneration]
    """Newest first."""


class BridgeRestoreFileParams(MutationParams):
    """`bridge/restoreFile`."""

    generation: Opt[Count] = None
    """Which; default: the newest."""
    path: Opt[PathText] = None
    """Where to write it, an absolute path; default: its old place."""
    dry_run: Opt[bool] = None
    """Say what would be written, and write nothing. Default: false."""


class BridgeRestoreFileResult(Shape):
    """The file that was written, or (dry run) would be; or that was there already with these bytes."""

    path: str
    bytes: Count
    sha256: str
    generation: Count
    resume: Opt[ResumeCommand] = None
    """The command that has the program go on in the file, where that is at its old place."""


class LostFile(Shape):
    """A program's file that is not there any more."""

    session_id: SessionId
    """Id of the mirror."""
    path: str


class BridgeDidChange(Shape):
    """Ids of mirrors, joined over 200 ms."""

    added: list[SessionId]
    changed: list[SessionId]
    gone: list[LostFile]
    """Mirrors whose files are gone; they stay, and what is kept of the files."""
