"""What the client library raises.

::

    TimeleapClientError
    ├── TimeleapRpcError                       the server answered with an error
    │   └── NothingToUndoError (LookupError)   fewer steps can be undone, or redone, than were asked for
    ├── RequestTimeoutError (TimeoutError)     no answer in time; the request was cancelled
    ├── ConnectionLostError (ConnectionError)  the server went away, and starting it again did not help
    │   └── StartFailedError                   it could not be started at all
    └── ClientClosedError (RuntimeError)       used before `start`, after `aclose`, or in a process that was forked
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


class TimeleapClientError(Exception):
    """The root of the errors of `timeleap.client`."""


class TimeleapRpcError(TimeleapClientError):
    """The server refused a request.

    Args:
        code: The JSON-RPC code, such as 4003.
        kind: The stable name of the kind, such as `sessionLocked`: what programs should look at.
        message: One sentence for people.
        data: `error.data`, `kind` and `retryable` included.
        retryable: Whether the same request may succeed later.
    """

    def __init__(self, code: int, kind: str, message: str, data: Mapping[str, Any], retryable: bool) -> None:
        super().__init__(code, kind, message, data, retryable)
        self.code = code
        self.kind = kind
        self.message = message
        self.data = data
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.kind})"

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> TimeleapRpcError:
        """From the `error` member of a reply, whatever it holds."""
        data = error.get("data")
        members: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        kind = str(members.get("kind", "internalError"))
        known = NothingToUndoError if kind in ("nothingToUndo", "nothingToRedo") else cls
        return known(
            code=int(error.get("code", -32603)),
            kind=kind,
            message=str(error.get("message", "")),
            data=members,
            retryable=members.get("retryable") is True,
        )


class NothingToUndoError(TimeleapRpcError, LookupError):
    """Fewer steps can be undone (kind `nothingToUndo`) or redone (`nothingToRedo`) than were asked for.

    `data` says in `canUndo` and `canRedo` how many there are.
    """


class RequestTimeoutError(TimeleapClientError, TimeoutError):
    """No answer came in time. The server was told to cancel; whether it still took effect is not known."""


class ConnectionLostError(TimeleapClientError, ConnectionError):
    """The server went away.

    Args:
        message: What happened, with the last lines of the server's standard error output.
        exit_code: Of the server's process, where known.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StartFailedError(ConnectionLostError):
    """The server could not be started, or did not get through the opening handshake."""


class ClientClosedError(TimeleapClientError, RuntimeError):
    """The client is not running: not started yet, or closed. Or it is that of another process, which has forked this one."""


class ProcessOfClient:
    """Remembers the process that started a client: a fork has neither its thread and its event loop nor its replies."""

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_this(self) -> bool:
        """False in a process that was forked since."""
        return os.getpid() == self._id

    def require(self) -> None:
        """Raise ClientClosedError in a process that was forked since."""
        if not self.is_this:
            raise ClientClosedError(
                f"this client belongs to process {self._id}, which has forked this one: a client does not go over a fork, "
                "make a new one here"
            )
