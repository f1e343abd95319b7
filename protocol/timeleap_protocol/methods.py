"""THE table: every message that can cross the wire, one row each.

Router, advertised capabilities, JSON Schema, OpenRPC, TypeScript, the Python client, the tables of the spec and the tests
are derived from it. To add a method: write its models, add its row (here, in `session_rows`, `context_rows` or `approval_rows`), run
`python -m timeleap_protocol.generate`, add a golden.

A row names its models (`module.Class` within this package) instead of holding them, so that the table, which the server
needs before it can answer `initialize`, costs no import of pydantic; `params_model` and `result_model` load them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from timeleap_protocol.approval_rows import APPROVAL_ROWS
from timeleap_protocol.bridge_rows import BRIDGE_ROWS
from timeleap_protocol.context_rows import CONTEXT_ROWS
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.files_rows import FILES_ROWS
from timeleap_protocol.method import Kind, Method, Scope, notice, request
from timeleap_protocol.session_rows import SESSION_ROWS

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
        cancel="unbegun",
        errors=(_E.INVALID_REQUEST, _E.PROTOCOL_VERSION, _E.STORAGE_FAILURE),
    ),
    Method("initialized", "notification", "lifecycle.InitializedParams", None, "The client has read the result."),
    request(
        "shutdown", "lifecycle.ShutdownParams", None, "Finishes everything; only `exit` may follow.", cancel="unbegun"
    ),
    Method("exit", "notification", "lifecycle.ExitParams", None, "Ends the process."),
    request(
        "rpc.discover",
        "lifecycle.DiscoverParams",
        "lifecycle.DiscoverResult",
        "The OpenRPC document; works before `initialize`.",
    ),
    Method("$/cancelRequest", "notification", "lifecycle.CancelParams", None, "A request is no longer wanted."),
    Method("$/setTrace", "notification", "lifecycle.SetTraceParams", None, "How much `$/logTrace` is to tell."),
    *SESSION_ROWS,
    *CONTEXT_ROWS,
    *APPROVAL_ROWS,
    *FILES_ROWS,
    *BRIDGE_ROWS,
    # Server to client
    Method(
        "context/summarize",
        "clientRequest",
        "compaction.SummarizeParams",
        "compaction.SummarizeResult",
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
    notice("approval/didRequest", "approval.ApprovalDidRequest", "Somebody asks for an approval."),
    notice(
        "approval/didResolve", "approval.ApprovalDidResolve", "A request for an approval needs no decision any more."
    ),
    notice("files/didSnapshot", "files.FilesDidSnapshot", "A snapshot of a session's files was taken."),
    notice("files/didRestore", "files.FilesDidRestore", "Files of a session were put back."),
    notice("bridge/didChange", "bridge.BridgeDidChange", "Mirrors of other programs' sessions were made or changed."),
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
