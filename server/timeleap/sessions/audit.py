"""Who switched approvals on or off, when, from what to what: an append-only file of JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.sessions import lines, session_files
from timeleap.sessions.outcomes import Cause

FILE_NAME = session_files.AUDIT


class Audit:
    """The `audit.jsonl` of one session directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def record(self, cause: Cause, field: str, before: Any, after: Any) -> None:
        """Note one change; returns when it is durable.

        Args:
            cause: Who asked for it.
            field: What was changed.
            before: Its value until now.
            after: Its value from now on.

        Raises:
            StorageFailureError: It could not be noted (then the change must not be made).
        """
        entry: dict[str, Any] = {"time": clock.now_iso(), "who": cause.client}
        if cause.request_id is not None:
            entry["requestId"] = cause.request_id
        entry |= {"field": field, "from": before, "to": after}
        try:
            lines.append(self.path, [entry])
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, "note a change of approvals", self.path) from error
