"""What `initialize` announces as `capabilities.experimental.timeleap`, without loading a model."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from timeleap_protocol._advertised import CLIENT_REQUESTS, METHODS, NOTIFICATIONS, PARTS
from timeleap_protocol.limits import LIMITS, PROTOCOL_VERSION


def advertised() -> dict[str, Any]:
    """The protocol version, methods with the wire names of their params, notifications, client requests, limits.

    Methods of parts that are not installed are left out.
    """
    missing = {name for part, names in PARTS.items() if not _is_installed(part) for name in names}
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "methods": {name: {"params": list(params)} for name, params in METHODS.items() if name not in missing},
        "notifications": list(NOTIFICATIONS),
        "clientRequests": list(CLIENT_REQUESTS),
        "limits": dict(LIMITS),
        "approvals": True,
    }


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a package around it
        return False
