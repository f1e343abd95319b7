"""Rows of the method table: `context/*`, what the client asks."""

from __future__ import annotations

from typing import Final

from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.method import Method, change, read

_E = ErrorKind

CONTEXT_ROWS: Final[tuple[Method, ...]] = (
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
        "A page of messages; or all of them as the body of a request to a model's provider.",
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
        "context/undo",
        "context.UndoParams",
        "context.UndoResult",
        "Undoes the last revert, clear, compaction, restore or D-Mail, or several of them as one step.",
        _E.NOTHING_TO_UNDO,
        _E.CORRUPTED,
    ),
    change(
        "context/redo",
        "context.RedoParams",
        "context.UndoResult",
        "Does again what was undone last, as long as nothing else has changed the log since.",
        _E.NOTHING_TO_REDO,
        _E.CORRUPTED,
    ),
    change(
        "context/compact",
        "compaction.CompactParams",
        "compaction.CompactResult",
        "Puts a summary in the place of the older messages.",
        _E.COMPACTION_FAILED,
        _E.CORRUPTED,
        progress=True,
    ),
    change(
        "context/setPins",
        "compaction.SetPinsParams",
        "compaction.SetPinsResult",
        "Says what no compaction of the session may lose.",
    ),
    read(
        "context/prepareCompaction",
        "compaction.PrepareCompactionParams",
        "compaction.PrepareCompactionResult",
        "What a summariser would be asked.",
        errors=(_E.CORRUPTED,),
    ),
    change(
        "context/sendDMail",
        "context.SendDMailParams",
        "context.SendDMailResult",
        "Leaves a note to the self of a checkpoint, of this session or of another one.",
        _E.CHECKPOINT_NOT_FOUND,
        _E.DMAIL_PENDING,
        _E.SESSION_LOCKED,
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
        "past.SearchParams",
        "past.SearchResult",
        "Finds messages of one session.",
        errors=(_E.CONTENT_MODIFIED, _E.TIMELINE_NOT_FOUND),
        progress=True,
    ),
    read(
        "context/diff",
        "past.DiffParams",
        "past.DiffResult",
        "What two states of the context have in common, and what not.",
        errors=(_E.CHECKPOINT_NOT_FOUND, _E.TIMELINE_NOT_FOUND, _E.CONTENT_MODIFIED, _E.CORRUPTED),
        progress=True,
    ),
    read(
        "context/at",
        "past.AtParams",
        "past.AtResult",
        "The checkpoint that led to a message or a time, and the state there.",
        errors=(_E.TIMELINE_NOT_FOUND, _E.CORRUPTED),
    ),
)
