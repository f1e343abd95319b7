"""The methods of the wire that this process may call, by the tool they are for.

What stands in none of these sets cannot be called at all (`OpenedSessions.call`): a method that the protocol gets later is
offered to no model before it is put here, and a test goes through the method table.
"""

from __future__ import annotations

from typing import Final

OPEN: Final = "session/open"
CLOSE: Final = "session/close"
LATEST: Final = "session/latest"
LIST: Final = "session/list"
STATE: Final = "session/getState"
SEARCH_STORE: Final = "session/search"
SEARCH: Final = "context/search"
HISTORY: Final = "context/getHistory"
CHECKPOINTS: Final = "context/listCheckpoints"
DIFF: Final = "context/diff"
FILES_LIST: Final = "files/list"
FILES_DIFF: Final = "files/diff"
CHECKPOINT: Final = "context/checkpoint"
SEND_DMAIL: Final = "context/sendDMail"
FILES_RESTORE: Final = "files/restore"

FINDING_SESSIONS: Final = frozenset({OPEN, CLOSE, LATEST, LIST, STATE})
"""Methods that every tool, resource and prompt needs to find and open its session."""

READING: Final[dict[str, frozenset[str]]] = {
    "search_history": frozenset({SEARCH_STORE, SEARCH, HISTORY}),
    "read_messages": frozenset({HISTORY}),
    "list_checkpoints": frozenset({CHECKPOINTS}),
    "diff": frozenset({DIFF}),
    "context_budget": frozenset({STATE}),
    "files_changed": frozenset({FILES_LIST, FILES_DIFF}),
}
"""The tools that are always offered; resources and prompts use the same methods."""

CHANGING: Final[dict[str, frozenset[str]]] = {
    "checkpoint": frozenset({CHECKPOINT}),
    "send_note": frozenset({SEND_DMAIL}),
    "files_restore": frozenset({FILES_LIST, FILES_RESTORE}),
    "rewind": frozenset({SEND_DMAIL}),
}
"""The tools that `--allow` names."""


def callable_with(allowed: frozenset[str]) -> frozenset[str]:
    """The methods that a process may call whose `--allow` names these tools."""
    offered = [*READING.values(), *(CHANGING[name] for name in allowed)]
    return FINDING_SESSIONS.union(*offered)


NEVER: Final = frozenset(
    {
        # The person decides what runs without asking, and which agents there are.
        *("session/setYolo", "session/setAutoApprove", "session/setAfk", "session/isApproved"),
        *("approval/request", "approval/respond", "approval/list", "session/putSubagent", "session/removeSubagent"),
        # What cannot be undone, and what carries conversations out of the store or into it.
        *(
            "session/redact",
            "session/delete",
            "session/undelete",
            "session/listTrash",
            "session/purge",
            "session/prune",
        ),
        *("session/archive", "session/unarchive", "session/export", "session/import", "session/repair"),
        # The person decides which other programs' sessions are read, and goes on in them; hooks ask for the rest.
        *("bridge/list", "bridge/watch", "bridge/unwatch", "bridge/catchUp", "bridge/adopt"),
        *("bridge/listKept", "bridge/restoreFile"),
        # A model does not write its own past: it leaves notes, which the loop or the person delivers.
        *("context/appendMessage", "context/revertTo", "context/clear", "context/restoreTimeline", "context/undo"),
        *("context/redo", "context/deliverDMail", "context/cancelDMail", "context/compact", "context/setSystemPrompt"),
        *("context/fold", "context/replaceMessage", "session/merge"),
        *("context/updateTokenCount", "context/setPins", "session/fork", "session/setTitle", "session/setWorkspace"),
        # Without a use for a model, or with a tool that says the same in fewer words.
        *("initialize", "shutdown", "rpc.discover", "session/listAudit", "session/reload", "session/verify"),
        *("session/storage", "context/listUsage", "context/getRecords", "context/listTimelines", "context/at"),
        *("context/prepareCompaction", "files/snapshot", "files/read"),
    }
)
"""Reviewed: what no tool calls, with or without `--allow`. A new method of the protocol belongs here, or to a tool."""
