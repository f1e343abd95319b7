"""The process that owns a session, as recorded in its lock."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from timeleap.errors import SessionLockedError
from timeleap.service.peer_api import PeerLostError
from timeleap.sessions.info import holder_of
from timeleap.storage.lock import Endpoint


def endpoint_of(directory: Path) -> Endpoint:
    """The endpoint of the owner of a session, from its record.

    Raises:
        PeerLostError: The record has no endpoint that can be used here.
    """
    holder = holder_of(directory)
    host = (holder.owner or {}).get("host")
    if host is not None and host != socket.gethostname():
        raise PeerLostError(f"it runs on {host}, and can only be reached from there", hopeless=True)
    if holder.endpoint is None:
        raise PeerLostError("it does not say how it is reached")
    if "problem" in holder.endpoint:
        raise PeerLostError(f"it cannot be reached: {holder.endpoint['problem']}", hopeless=True)
    return holder.endpoint


def unreachable(lost: PeerLostError, owner: dict[str, Any] | None) -> SessionLockedError:
    """The refusal for a session whose owner cannot be asked."""
    who = f"process {owner.get('pid')} on {owner.get('host')}" if owner is not None else "another process"
    why = str(lost).rstrip(".")
    message = f'the session is owned by {who}, but {why}. Try again, or open it with access "readOnly" to follow it'
    return SessionLockedError(message, owner=owner)
