"""THE table: every message that can cross the wire, one row each.

Router, advertised capabilities, JSON Schema, OpenRPC, TypeScript, the Python client, the tables of the spec and the tests
are derived from it. To add a method: write its models, add its row, run `python -m timeleap_protocol.generate`, add a golden.

A row names its models (`module.Class` within this package) instead of holding them, so that the table, which the server
needs before it can answer `initialize`, costs no import of pydantic; `params_model` and `result_model` load them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from timeleap_protocol.errors import ErrorKind

if TYPE_CHECKING:
    from timeleap_protocol.base import Model

Kind = Literal["request", "notification", "clientRequest", "serverNotification"]
"""Client to server: request, notification. Server to client: clientRequest, serverNotification."""

Scope = Literal["open", "any", "none"]
"""The session a method works on: one that is open on the connection, any one of the store, or none in particular."""

_E = ErrorKind

_REQUEST_ERRORS: Final = (_E.INVALID_PARAMS, _E.INTERNAL_ERROR, _E.CANCELLED, _E.OVERLOADED, _E.TOO_LARGE)
_SESSION_ERRORS: Final = (_E.INVALID_SESSION_ID, _E.SESSION_NOT_FOUND)
_CHANGE_ERRORS: Final = (_E.CONTENT_MODIFIED, _E.READ_ONLY, _E.EXTERNALLY_MODIFIED, _E.STORAGE_FAILURE)


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Attributes:
        name: The wire name.
        kind: Who sends it to whom, and whether it is answered.
        params: `module.Class` of its params.
        result: `module.Class` of its result; None: it has none, or the result is null.
        summary: One line.
        scope: Which session it works on.
        serialize_by: `session`: requests on one session begin, and take effect, in the order of their arrival.
            None: it may be answered out of turn.
        mutates: Whether it changes anything; then it takes `requestId` (and `expectedHead` where a log exists before).
        progress: Whether it reports `$/progress` when given a `workDoneToken`.
        errors: What can go wrong beyond what `all_errors` derives from the other members.
        since: The protocol version that introduced it.
    """

    name: str
    kind: Kind
    params: str
    result: str | None
    summary: str
    scope: Scope = "none"
    serialize_by: Literal["session"] | None = None
    mutates: bool = False
    progress: bool = False
    errors: tuple[ErrorKind, ...] = ()
    since: int = 1

    @cached_property
    def params_model(self) -> type[Model]:
        """The model of the params."""
        return _model(self.params)

    @cached_property
    def result_model(self) -> type[Model] | None:
        """The model of the result; None where there is no result or it is null."""
        return None if self.result is None else _model(self.result)

    @property
    def works_unopened(self) -> bool:
        """Whether it also works on sessions that are not open on the connection."""
        return self.scope != "open"

    @property
    def python_name(self) -> str:
        """`context/appendMessage` as a Python name: `context_append_message`."""
        return "".join(f"_{char.lower()}" if char.isupper() else char for char in _plain(self.name)).strip("_")

    @property
    def all_errors(self) -> tuple[ErrorKind, ...]:
        """Every error a call can get once it was recognised, without repeats, in the order of the error table."""
        if self.kind != "request":
            return self.errors
        kinds = {*_REQUEST_ERRORS, *self.errors}
        if self.scope != "none":
            kinds.update(_SESSION_ERRORS)
        if self.scope == "open":
            kinds.add(_E.SESSION_NOT_OPEN)
        if self.mutates:
            kinds.update(_CHANGE_ERRORS)
        return tuple(kind for kind in ErrorKind if kind in kinds)


def _plain(name: str) -> str:
    return name.replace("DMail", "Dmail").replace("/", "_").replace(".", "_").replace("$", "")


def _model(path: str) -> type[Model]:
    module, name = path.split(".")
    return cast("type[Model]", getattr(import_module(f"timeleap_protocol.{module}"), name))


def _request(name: str, params: str, result: str | None, summary: str, **rest: Any) -> Method:
    return Method(name, "request", params, result, summary, **rest)


def _read(name: str, params: str, result: str, summary: str, **rest: Any) -> Method:
    """A question about one open session."""
    row: dict[str, Any] = {"scope": "open", "serialize_by": "session"} | rest
    return _request(name, params, result, summary, **row)


def _change(name: str, params: str, result: str, summary: str, *errors: ErrorKind, **rest: Any) -> Method:
    """A change of one open session."""
    row: dict[str, Any] = {"scope": "open", "serialize_by": "session", "mutates": True, "errors": errors} | rest
    return _request(name, params, result, summary, **row)


_ROWS: Final = (
    # Life of a connection
    _request(
        "initialize",
        "lifecycle.InitializeParams",
        "lifecycle.InitializeResult",
        "Opens the connection; tells both sides what the other can.",
        errors=(_E.INVALID_REQUEST, _E.PROTOCOL_VERSION, _E.STORAGE_FAILURE),
    ),
    Method("initialized", "notification", "lifecycle.InitializedParams", None, "The client has read the result."),
    _request("shutdown", "lifecycle.ShutdownParams", None, "Finishes everything; only `exit` may follow."),
    Method("exit", "notification", "lifecycle.ExitParams", None, "Ends the process."),
    _request(
        "rpc.discover",
        "lifecycle.DiscoverParams",
        "lifecycle.DiscoverResult",
        "The OpenRPC document; works before `initialize`.",
    ),
    Method("$/cancelRequest", "notification", "lifecycle.CancelParams", None, "A request is no longer wanted."),
    Method("$/setTrace", "notification", "lifecycle.SetTraceParams", None, "How much `$/logTrace` is to tell."),
    # Sessions
    _change(
        "session/open",
        "session.SessionOpenParams",
        "shapes.SessionState",
        "Opens a session, creating it if need be.",
        _E.SESSION_LOCKED,
        _E.CORRUPTED,
        _E.SESSION_EXISTS,
        scope="any",
        progress=True,
    ),
    _read("session/close", "session.SessionCloseParams", "session.EmptyResult", "Undoes one `session/open`."),
    _read(
        "session/list",
        "session.SessionListParams",
        "session.SessionListResult",
        "Lists the sessions of the store, newest change first.",
        scope="none",
        serialize_by=None,
    ),
    _read(
        "session/getState",
        "session.SessionGetStateParams",
        "shapes.SessionState",
        "Everything about a session but its messages.",
        scope="any",
    ),
    _change(
        "session/setYolo",
        "session.SessionSetYoloParams",
        "session.ApprovalResult",
        "Switches the approval of everything on or off.",
    ),
    _change(
        "session/setAutoApprove",
        "session.SessionSetAutoApproveParams",
        "session.ApprovalResult",
        "Switches the approval of one action on or off.",
    ),
    _read(
        "session/isApproved",
        "session.SessionIsApprovedParams",
        "session.IsApprovedResult",
        "Whether an action may run without asking the user.",
    ),
    _change(
        "session/putSubagent",
        "session.SessionPutSubagentParams",
        "session.SubagentsResult",
        "Defines or replaces a sub-agent.",
    ),
    _change(
        "session/removeSubagent",
        "session.SessionRemoveSubagentParams",
        "session.SubagentsResult",
        "Removes a sub-agent.",
    ),
    _change("session/setTitle", "session.SessionSetTitleParams", "session.HeadResult", "Names the session."),
    _change(
        "session/fork",
        "session.SessionForkParams",
        "shapes.SessionState",
        "Copies the history, whole or up to a checkpoint, into a new session and opens it.",
        _E.CHECKPOINT_NOT_FOUND,
        _E.SESSION_EXISTS,
        _E.CORRUPTED,
        scope="any",
    ),
    _change(
        "session/archive",
        "session.SessionArchiveParams",
        "session.HeadResult",
        "Leaves the session out of lists.",
        _E.SESSION_LOCKED,
        scope="any",
    ),
    _change(
        "session/unarchive",
        "session.SessionUnarchiveParams",
        "session.HeadResult",
        "Puts the session back into lists.",
        _E.SESSION_LOCKED,
        scope="any",
    ),
    _change(
        "session/delete",
        "session.SessionDeleteParams",
        "session.EmptyResult",
        "Moves the session to the trash; its id is free again.",
        _E.SESSION_LOCKED,
        scope="any",
    ),
    _change(
        "session/undelete",
        "session.SessionUndeleteParams",
        "session.EmptyResult",
        "Takes the newest session of that id out of the trash.",
        _E.SESSION_EXISTS,
        scope="any",
    ),
    _read(
        "session/listTrash",
        "session.SessionListTrashParams",
        "session.TrashListResult",
        "Lists the sessions in the trash.",
        scope="none",
        serialize_by=None,
    ),
    _read(
        "session/reload",
        "session.SessionReloadParams",
        "shapes.SessionState",
        "Takes over what is on disk after `externallyModified`.",
        errors=(_E.STORAGE_FAILURE, _E.CORRUPTED),
    ),
    _read(
        "session/search",
        "session.SessionSearchParams",
        "session.SessionSearchResult",
        "Finds messages in all sessions of the store.",
        scope="none",
        serialize_by=None,
        progress=True,
    ),
    _read(
        "session/export",
        "session.SessionExportParams",
        "session.ExportResult",
        "Writes a session to a file of another form.",
        errors=(_E.STORAGE_FAILURE,),
        progress=True,
    ),
    _change(
        "session/import",
        "session.SessionImportParams",
        "session.ImportResult",
        "Makes a new session from a file, and opens it.",
        _E.SESSION_EXISTS,
        _E.INVALID_SESSION_ID,
        _E.CORRUPTED,
        scope="none",
        serialize_by=None,
        progress=True,
    ),
    # The context
    _change(
        "context/appendMessage",
        "context.AppendMessageParams",
        "context.AppendMessageResult",
        "Appends one message, or several as one step.",
    ),
    _change(
        "context/updateTokenCount",
        "context.UpdateTokenCountParams",
        "context.UpdateTokenCountResult",
        "Records the usage the model reported.",
    ),
    _read(
        "context/listUsage",
        "context.ListUsageParams",
        "context.ListUsageResult",
        "The trail of token counts.",
        errors=(_E.CONTENT_MODIFIED,),
    ),
    _change(
        "context/setSystemPrompt",
        "context.SetSystemPromptParams",
        "session.HeadResult",
        "Sets the system prompt; the last one wins.",
    ),
    _change(
        "context/checkpoint",
        "context.CheckpointParams",
        "context.CheckpointResult",
        "Writes a checkpoint.",
    ),
    _read(
        "context/listCheckpoints",
        "context.ListCheckpointsParams",
        "context.ListCheckpointsResult",
        "Lists checkpoints.",
        errors=(_E.TIMELINE_NOT_FOUND, _E.CONTENT_MODIFIED),
    ),
    _change(
        "context/revertTo",
        "context.RevertToParams",
        "context.RewriteResult",
        "Removes a checkpoint and all after it; what it removes stays as a timeline.",
        _E.CHECKPOINT_NOT_FOUND,
        _E.CORRUPTED,
        progress=True,
    ),
    _change(
        "context/clear",
        "context.ClearParams",
        "context.RewriteResult",
        "Empties the log; what it removes stays as a timeline.",
    ),
    _read(
        "context/getHistory",
        "context.GetHistoryParams",
        "context.GetHistoryResult",
        "A page of messages.",
        errors=(_E.CHECKPOINT_NOT_FOUND, _E.TIMELINE_NOT_FOUND, _E.CONTENT_MODIFIED, _E.CORRUPTED),
    ),
    _read(
        "context/getRecords",
        "context.GetRecordsParams",
        "context.GetRecordsResult",
        "A page of the whole log, control records included.",
        errors=(_E.TIMELINE_NOT_FOUND, _E.CORRUPTED),
    ),
    _read(
        "context/listTimelines",
        "context.ListTimelinesParams",
        "context.ListTimelinesResult",
        "Lists the earlier logs of the session, newest first.",
    ),
    _change(
        "context/restoreTimeline",
        "context.RestoreTimelineParams",
        "context.RewriteResult",
        "Makes a timeline the live log again, byte for byte; the present log becomes a timeline.",
        _E.TIMELINE_NOT_FOUND,
        _E.CORRUPTED,
    ),
    _change(
        "context/compact",
        "context.CompactParams",
        "context.CompactResult",
        "Puts a summary in the place of the older messages.",
        _E.COMPACTION_FAILED,
        _E.CORRUPTED,
        progress=True,
    ),
    _read(
        "context/prepareCompaction",
        "context.PrepareCompactionParams",
        "context.PrepareCompactionResult",
        "What a summariser would be asked.",
        errors=(_E.CORRUPTED,),
    ),
    _change(
        "context/sendDMail",
        "context.SendDMailParams",
        "context.SendDMailResult",
        "Leaves a note to the self of a checkpoint.",
        _E.CHECKPOINT_NOT_FOUND,
        _E.DMAIL_PENDING,
    ),
    _change(
        "context/deliverDMail",
        "context.DeliverDMailParams",
        "context.DeliverDMailResult",
        "Reverts to the checkpoint of the pending D-Mail and puts the note there, as one step.",
        _E.NO_PENDING_DMAIL,
        _E.CHECKPOINT_NOT_FOUND,
        _E.CORRUPTED,
    ),
    _change(
        "context/cancelDMail",
        "context.CancelDMailParams",
        "session.HeadResult",
        "Drops the pending D-Mail.",
        _E.NO_PENDING_DMAIL,
    ),
    _read(
        "context/search",
        "context.SearchParams",
        "context.SearchResult",
        "Finds messages of one session.",
        errors=(_E.CONTENT_MODIFIED,),
        progress=True,
    ),
    _read(
        "context/diff",
        "context.DiffParams",
        "context.DiffResult",
        "What two states of the context have in common, and what not.",
        errors=(_E.CHECKPOINT_NOT_FOUND, _E.TIMELINE_NOT_FOUND, _E.CORRUPTED),
    ),
    # Server to client
    Method(
        "context/summarize",
        "clientRequest",
        "context.SummarizeParams",
        "context.SummarizeResult",
        "Asks a client that owns a model for a summary.",
    ),
    Method(
        "context/didChange",
        "serverNotification",
        "notifications.ContextDidChange",
        None,
        "The log of an open session changed.",
    ),
    Method(
        "session/didChange",
        "serverNotification",
        "notifications.SessionDidChange",
        None,
        "Something about an open session other than its log changed.",
    ),
    Method(
        "session/didRecover",
        "serverNotification",
        "notifications.SessionDidRecover",
        None,
        "Opening a session found damage and mended it.",
    ),
    Method(
        "context/compactionSuggested",
        "serverNotification",
        "notifications.CompactionSuggested",
        None,
        "The context passed the trigger; sent once a crossing.",
    ),
    Method(
        "session/warning",
        "serverNotification",
        "notifications.SessionWarning",
        None,
        "Something worth knowing that stops nothing.",
    ),
    Method(
        "$/progress",
        "serverNotification",
        "notifications.ProgressParams",
        None,
        "How far the work of a request has come.",
    ),
    Method(
        "$/logTrace",
        "serverNotification",
        "lifecycle.LogTraceParams",
        None,
        "What the server is doing, where `$/setTrace` asked for it.",
    ),
)


def _of_kind(*kinds: Kind) -> Mapping[str, Method]:
    return MappingProxyType({row.name: row for row in _ROWS if row.kind in kinds})


METHODS: Final[Mapping[str, Method]] = _of_kind("request", "notification", "clientRequest", "serverNotification")
"""Every row by wire name."""
REQUESTS: Final = _of_kind("request")
NOTIFICATIONS: Final = _of_kind("notification")
CLIENT_REQUESTS: Final = _of_kind("clientRequest")
SERVER_NOTIFICATIONS: Final = _of_kind("serverNotification")
