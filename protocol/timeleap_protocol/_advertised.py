# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""What `initialize` advertises; see `timeleap_protocol.capabilities`."""

from __future__ import annotations

from typing import Final

METHODS: Final[dict[str, tuple[str, ...]]] = {
    "rpc.discover": (),
    "session/open": (
        "sessionId",
        "path",
        "create",
        "access",
        "attach",
        "title",
        "systemPrompt",
        "workspace",
        "autoCheckpoint",
        "requestId",
    ),
    "session/close": ("sessionId",),
    "session/list": ("cursor", "limit", "includeArchived", "query", "workspace"),
    "session/getState": ("sessionId",),
    "session/setYolo": ("sessionId", "expectedHead", "requestId", "yolo"),
    "session/setAutoApprove": ("sessionId", "expectedHead", "requestId", "action", "enabled"),
    "session/isApproved": ("sessionId", "action"),
    "session/putSubagent": ("sessionId", "expectedHead", "requestId", "name", "systemPrompt"),
    "session/removeSubagent": ("sessionId", "expectedHead", "requestId", "name"),
    "session/setTitle": ("sessionId", "expectedHead", "requestId", "title"),
    "session/fork": ("sessionId", "checkpointId", "checkpointUid", "newSessionId", "title", "requestId"),
    "session/archive": ("sessionId", "expectedHead", "requestId"),
    "session/unarchive": ("sessionId", "expectedHead", "requestId"),
    "session/delete": ("sessionId", "expectedHead", "requestId"),
    "session/undelete": ("sessionId", "expectedHead", "requestId"),
    "session/listTrash": ("cursor", "limit"),
    "session/reload": ("sessionId",),
    "session/verify": ("sessionId",),
    "session/repair": ("sessionId", "expectedHead", "requestId", "dryRun"),
    "context/appendMessage": ("sessionId", "expectedHead", "requestId", "message", "messages"),
    "context/updateTokenCount": ("sessionId", "expectedHead", "requestId", "tokenCount"),
    "context/listUsage": ("sessionId", "cursor", "limit"),
    "context/setSystemPrompt": ("sessionId", "expectedHead", "requestId", "systemPrompt"),
    "context/checkpoint": ("sessionId", "expectedHead", "requestId", "label", "addUserMessage"),
    "context/listCheckpoints": ("sessionId", "cursor", "limit", "order", "timelineId"),
    "context/revertTo": ("sessionId", "expectedHead", "requestId", "dryRun", "checkpointId", "checkpointUid"),
    "context/clear": ("sessionId", "expectedHead", "requestId", "dryRun", "keepSystemPrompt"),
    "context/getHistory": (
        "sessionId",
        "cursor",
        "limit",
        "from",
        "to",
        "checkpointUid",
        "order",
        "maxBytes",
        "timelineId",
    ),
    "context/getRecords": ("sessionId", "from", "limit", "timelineId"),
    "context/listTimelines": ("sessionId", "cursor", "limit"),
    "context/restoreTimeline": ("sessionId", "expectedHead", "requestId", "dryRun", "timelineId"),
    "context/compact": (
        "sessionId",
        "expectedHead",
        "requestId",
        "dryRun",
        "maxPreservedMessages",
        "customInstruction",
        "summarizer",
        "summary",
    ),
    "context/prepareCompaction": ("sessionId", "maxPreservedMessages", "customInstruction"),
    "context/sendDMail": ("sessionId", "expectedHead", "requestId", "checkpointId", "checkpointUid", "message"),
    "context/deliverDMail": ("sessionId", "expectedHead", "requestId", "dryRun"),
    "context/cancelDMail": ("sessionId", "expectedHead", "requestId"),
}

NOTIFICATIONS: Final[tuple[str, ...]] = (
    "context/didChange",
    "session/didChange",
    "session/didRecover",
    "context/compactionSuggested",
    "session/warning",
    "$/progress",
    "$/logTrace",
)

CLIENT_REQUESTS: Final[tuple[str, ...]] = ("context/summarize",)
