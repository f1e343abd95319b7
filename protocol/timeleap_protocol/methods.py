"""THE table: every message that can cross the wire, one row each.

Router, advertised capabilities, JSON Schema, OpenRPC, TypeScript, the Python client, the tables of the spec and the tests
are derived from it. To add a method: write its models, add its row, run `python -m timeleap_protocol.generate`, add a golden.

A row names its models (`module.Class` within this package) instead of holding them, so that the table, which the server
needs before it can answer `initialize`, costs no import of pydantic; `params_model` and `result_model` load them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.method import Kind, Method, Scope, change, notice, read, request

__all__ = [
    "ANSWERED",
    "CLIENT_REQUESTS",
    "METHODS",
    "NOTIFICATIONS",
    "REQUESTS",
    "SERVER_NOTIFICATIONS",
    "Kind",
    "Method",
    "Scope",
]

_E = ErrorKind

_ROWS: Final = (
    # Life of a connection
    request(
        "initialize",
        "lifecycle.InitializeParams",
        "lifecycle.InitializeResult",
        "Opens the connection; tells both sides what the other can.",
        errors=(_E.INVALID_REQUEST, _E.PROTOCOL_VERSION, _E.STORAGE_FAILURE),
    ),
    Method("initialized", "notification", "lifecycle.InitializedParams", None, "The client has read the result."),
    request("shutdown", "lifecycle.ShutdownParams", None, "Finishes everything; only `exit` may follow."),
    Method("exit", "notification", "lifecycle.ExitParams", None, "Ends the process."),
    request(
        "rpc.discover",
        "lifecycle.DiscoverParams",
        "lifecycle.DiscoverResult",
        "The OpenRPC document; works before `initialize`.",
    ),
    Method("$/cancelRequest", "notification", "lifecycle.CancelParams", None, "A request is no longer wanted."),
    Method("$/setTrace", "notification", "lifecycle.SetTraceParams", None, "How much `$/logTrace` is to tell."),
    # Sessions
    change(
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
    read("session/close", "session.SessionCloseParams", "session.EmptyResult", "Undoes one `session/open`."),
    read(
        "session/list",
        "session.SessionListParams",
        "session.SessionListResult",
        "Lists the sessions of the store, newest change first.",
        scope="none",
        serialize_by=None,
    ),
    read(
        "session/getState",
        "session.SessionGetStateParams",
        "shapes.SessionState",
        "Everything about a session but its messages.",
        scope="any",
    ),
    change(
        "session/setYolo",
        "session.SessionSetYoloParams",
        "session.ApprovalResult",
        "Switches the approval of everything on or off.",
    ),
    change(
        "session/setAutoApprove",
        "session.SessionSetAutoApproveParams",
        "session.ApprovalResult",
        "Switches the approval of one action on or off.",
    ),
    read(
        "session/isApproved",
        "session.SessionIsApprovedParams",
        "session.IsApprovedResult",
        "Whether an action may run without asking the user.",
    ),
    change(
        "session/putSubagent",
        "session.SessionPutSubagentParams",
        "session.SubagentsResult",
        "Defines or replaces a sub-agent.",
    ),
    change(
        "session/removeSubagent",
        "session.SessionRemoveSubagentParams",
        "session.SubagentsResult",
        "Removes a sub-agent.",
    ),
    change("session/setTitle", "session.SessionSetTitleParams", "session.HeadResult", "Names the session."),
    change(
        "session/fork",
        "session.SessionForkParams",
        "shapes.SessionState",
        "Copies the history, whole or up to a checkpoint, into a new session and opens it.",
        _E.CHECKPOINT_NOT_FOUND,
        _E.SESSION_EXISTS,
        _E.CORRUPTED,
        scope="any",
    ),
    change(
        "session/archive",
        "session.SessionArchiveParams",
        "session.HeadResult",
        "Leaves the session out of lists.",
        _E.SESSION_LOCKED,
        scope="any",
    ),
    change(
        "session/unarchive",
        "session.SessionUnarchiveParams",
        "session.HeadResult",
        "Puts the session back into lists.",
        _E.SESSION_LOCKED,
        scope="any",
    ),
    change(
        "session/delete",
        "session.SessionDeleteParams",
        "session.EmptyResult",
        "Moves the session to the trash; its id is free again.",
        _E.SESSION_LOCKED,
        scope="any",
    ),
    change(
        "session/undelete",
        "session.SessionUndeleteParams",
        "session.EmptyResult",
        "Takes the newest session of that id out of the trash.",
        _E.SESSION_EXISTS,
        scope="any",
    ),
    read(
        "session/listTrash",
        "session.SessionListTrashParams",
        "session.TrashListResult",
        "Lists the sessions in the trash.",
        scope="none",
        serialize_by=None,
    ),
    read(
        "session/reload",
        "session.SessionReloadParams",
        "shapes.SessionState",
        "Takes over what is on disk after `externallyModified`.",
        errors=(_E.STORAGE_FAILURE, _E.CORRUPTED),
    ),
    read(
        "session/verify",
        "session.SessionVerifyParams",
        "session.VerifyResult",
        "Checks every record of the log; changes nothing.",
        scope="any",
        progress=True,
        errors=(_E.SESSION_LOCKED, _E.STORAGE_FAILURE),
    ),
    change(
        "session/repair",
        "session.SessionRepairParams",
        "session.RepairResult",
        "Writes the log anew without its damaged lines; the old one becomes a timeline.",
        _E.SESSION_LOCKED,
        _E.CORRUPTED,
        scope="any",
        progress=True,
    ),
    read(
        "session/search",
        "session.SessionSearchParams",
        "session.SessionSearchResult",
        "Finds messages in all sessions of the store.",
        scope="none",
        serialize_by=None,
        progress=True,
        planned=True,
    ),
    read(
        "session/export",
        "session.SessionExportParams",
        "session.ExportResult",
        "Writes a session to a file of another form.",
        errors=(_E.STORAGE_FAILURE,),
        progress=True,
        planned=True,
    ),
    change(
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
        planned=True,
    ),
    # The context
    change(
        "context/appendMessage",
        "context.AppendMessageParams",
        "context.AppendMessageResult",
        "Appends one message, or several as one step.",
    ),
    change(
        "context/updateTokenCount",
        "context.UpdateTokenCountParams",
        "context.UpdateTokenCountResult",
        "Records the usage the model reported.",
    ),
    read(
        "context/listUsage",
        "context.ListUsageParams",
        "context.ListUsageResult",
        "The trail of token counts.",
        errors=(_E.CONTENT_MODIFIED,),
    ),
    change(
        "context/setSystemPrompt",
        "context.SetSystemPromptParams",
        "session.HeadResult",
        "Sets the system prompt; the last one wins.",
    ),
    change(
        "context/checkpoint",
        "context.CheckpointParams",
        "context.CheckpointResult",
        "Writes a checkpoint.",
    ),
    read(
        "context/listCheckpoints",
        "context.ListCheckpointsParams",
        "context.ListCheckpointsResult",
        "Lists checkpoints.",
        errors=(_E.TIMELINE_NOT_FOUND, _E.CONTENT_MODIFIED),
    ),
    change(
        "context/revertTo",
        "context.RevertToParams",
        "context.RewriteResult",
        "Removes a checkpoint and all after it; what it removes stays as a timeline.",
        _E.CHECKPOINT_NOT_FOUND,
        _E.CORRUPTED,
        progress=True,
    ),
    change(
        "context/clear",
        "context.ClearParams",
        "context.RewriteResult",
        "Empties the log; what it removes stays as a timeline.",
    ),
    read(
        "context/getHistory",
        "context.GetHistoryParams",
        "context.GetHistoryResult",
        "A page of messages.",
        errors=(_E.CHECKPOINT_NOT_FOUND, _E.TIMELINE_NOT_FOUND, _E.CONTENT_MODIFIED, _E.CORRUPTED),
    ),
    read(
        "context/getRecords",
        "context.GetRecordsParams",
        "context.GetRecordsResult",
        "A page of the whole log, control records included.",
        errors=(_E.TIMELINE_NOT_FOUND, _E.CORRUPTED),
    ),
    read(
        "context/listTimelines",
        "context.ListTimelinesParams",
        "context.ListTimelinesResult",
        "Lists the earlier logs of the session, newest first.",
    ),
    change(
        "context/restoreTimeline",
        "context.RestoreTimelineParams",
        "context.RewriteResult",
        "Makes a timeline the live log again, byte for byte; the present log becomes a timeline.",
        _E.TIMELINE_NOT_FOUND,
        _E.CORRUPTED,
    ),
    change(
        "context/compact",
        "context.CompactParams",
        "context.CompactResult",
        "Puts a summary in the place of the older messages.",
        _E.COMPACTION_FAILED,
        _E.CORRUPTED,
        progress=True,
    ),
    read(
        "context/prepareCompaction",
        "context.PrepareCompactionParams",
        "context.PrepareCompactionResult",
        "What a summariser would be asked.",
        errors=(_E.CORRUPTED,),
    ),
    change(
        "context/sendDMail",
        "context.SendDMailParams",
        "context.SendDMailResult",
        "Leaves a note to the self of a checkpoint.",
        _E.CHECKPOINT_NOT_FOUND,
        _E.DMAIL_PENDING,
    ),
    change(
        "context/deliverDMail",
        "context.DeliverDMailParams",
        "context.DeliverDMailResult",
        "Reverts to the checkpoint of the pending D-Mail and puts the note there, as one step.",
        _E.NO_PENDING_DMAIL,
        _E.CHECKPOINT_NOT_FOUND,
        _E.CORRUPTED,
    ),
    change(
        "context/cancelDMail",
        "context.CancelDMailParams",
        "session.HeadResult",
        "Drops the pending D-Mail.",
        _E.NO_PENDING_DMAIL,
    ),
    read(
        "context/search",
        "context.SearchParams",
        "context.SearchResult",
        "Finds messages of one session.",
        errors=(_E.CONTENT_MODIFIED,),
        progress=True,
        planned=True,
    ),
    read(
        "context/diff",
        "context.DiffParams",
        "context.DiffResult",
        "What two states of the context have in common, and what not.",
        errors=(_E.CHECKPOINT_NOT_FOUND, _E.TIMELINE_NOT_FOUND, _E.CORRUPTED),
        planned=True,
    ),
    # Server to client
    Method(
        "context/summarize",
        "clientRequest",
        "context.SummarizeParams",
        "context.SummarizeResult",
        "Asks a client that owns a model for a summary.",
    ),
    notice("context/didChange", "notifications.ContextDidChange", "The log of an open session changed."),
    notice(
        "session/didChange",
        "notifications.SessionDidChange",
        "Something about an open session other than its log changed.",
    ),
    notice("session/didRecover", "notifications.SessionDidRecover", "Opening a session found damage and mended it."),
    notice(
        "context/compactionSuggested",
        "notifications.CompactionSuggested",
        "The context passed the trigger; sent once a crossing.",
    ),
    notice("session/warning", "notifications.SessionWarning", "Something worth knowing that stops nothing."),
    notice("$/progress", "notifications.ProgressParams", "How far the work of a request has come."),
    notice("$/logTrace", "lifecycle.LogTraceParams", "What the server is doing, where `$/setTrace` asked for it."),
)


def _of_kind(*kinds: Kind) -> Mapping[str, Method]:
    return MappingProxyType({row.name: row for row in _ROWS if row.kind in kinds})


METHODS: Final[Mapping[str, Method]] = _of_kind("request", "notification", "clientRequest", "serverNotification")
"""Every row by wire name."""
REQUESTS: Final = _of_kind("request")
ANSWERED: Final[Mapping[str, Method]] = MappingProxyType(
    {name: row for name, row in REQUESTS.items() if not row.planned}
)
"""The requests a server answers, and advertises."""
NOTIFICATIONS: Final = _of_kind("notification")
CLIENT_REQUESTS: Final = _of_kind("clientRequest")
SERVER_NOTIFICATIONS: Final = _of_kind("serverNotification")
