"""What `initialize` announces as `capabilities.experimental.timeleap`, without loading a model."""

from __future__ import annotations

from typing import Any

from timeleap_protocol._advertised import CLIENT_REQUESTS, METHODS, NOTIFICATIONS
from timeleap_protocol.limits import LIMITS, PROTOCOL_VERSION


def advertised() -> dict[str, Any]:
    """The protocol version, methods with the wire names of their params, notifications, client requests, limits."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "methods": {name: {"params": list(params)} for name, params in METHODS.items()},
        "notifications": list(NOTIFICATIONS),
        "clientRequests": list(CLIENT_REQUESTS),
        "limits": dict(LIMITS),
        "approvals": True,
    }
