"""The Python client: starts a server, keeps it running, and speaks to it by the protocol's method table.

    from timeleap.client import AsyncTimeleap

    async with AsyncTimeleap() as client, client.session("first") as session:
        await session.append("hello")
        checkpoint = await session.checkpoint("before the plan")
        await session.revert_to(checkpoint)
        await session.undo()

`SyncTimeleap` is the same for programs that block.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timeleap_client.approvals import ApprovalHandler
    from timeleap_client.client import AsyncSession, AsyncTimeleap
    from timeleap_client.errors import (
        ClientClosedError,
        ConnectionLostError,
        NothingToUndoError,
        RequestTimeoutError,
        StartFailedError,
        TimeleapClientError,
        TimeleapRpcError,
    )
    from timeleap_client.frames import Framing
    from timeleap_client.link import DEFAULT_RESTARTS, NO_RESTARTS, Restarts
    from timeleap_client.notifications import RECONNECTED, Notification, Subscription
    from timeleap_client.raw import RawTimeleap, Summarize
    from timeleap_client.sync import BlockingSummarize, SyncNotifications, SyncSession, SyncTimeleap
    from timeleap_protocol.folder_uri import canonical_folder_uri

__all__ = [
    "DEFAULT_RESTARTS",
    "NO_RESTARTS",
    "RECONNECTED",
    "ApprovalHandler",
    "AsyncSession",
    "AsyncTimeleap",
    "BlockingSummarize",
    "ClientClosedError",
    "ConnectionLostError",
    "Framing",
    "NothingToUndoError",
    "Notification",
    "RawTimeleap",
    "RequestTimeoutError",
    "Restarts",
    "StartFailedError",
    "Subscription",
    "Summarize",
    "SyncNotifications",
    "SyncSession",
    "SyncTimeleap",
    "TimeleapClientError",
    "TimeleapRpcError",
    "canonical_folder_uri",
]

_HOMES = {
    "ApprovalHandler": "approvals",
    "AsyncSession": "client",
    "AsyncTimeleap": "client",
    "BlockingSummarize": "sync",
    "ClientClosedError": "errors",
    "ConnectionLostError": "errors",
    "DEFAULT_RESTARTS": "link",
    "Framing": "frames",
    "NO_RESTARTS": "link",
    "NothingToUndoError": "errors",
    "Notification": "notifications",
    "RECONNECTED": "notifications",
    "RawTimeleap": "raw",
    "RequestTimeoutError": "errors",
    "Restarts": "link",
    "StartFailedError": "errors",
    "Subscription": "notifications",
    "Summarize": "raw",
    "SyncNotifications": "sync",
    "SyncSession": "sync",
    "SyncTimeleap": "sync",
    "TimeleapClientError": "errors",
    "TimeleapRpcError": "errors",
    "canonical_folder_uri": "timeleap_protocol.folder_uri",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: who uses `RawTimeleap` alone pays for no model."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    return getattr(import_module(home if "." in home else f"{__name__}.{home}"), name)
