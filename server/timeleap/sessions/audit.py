"""Who switched approvals on or off, asked for one or decided one, and when: an append-only file of JSON lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.sessions import lines, session_files
from timeleap.sessions.json_model import is_date
from timeleap.sessions.outcomes import Cause

FILE_NAME = session_files.AUDIT


def is_entry(document: Mapping[str, Any]) -> bool:
    """Whether a line of the file has the form of an entry."""
    who, request_id = document.get("who"), document.get("requestId")
    return (
        is_date(document.get("time"))
        and isinstance(document.get("field"), str)
        and (who is None or isinstance(who, str))
        and (request_id is None or isinstance(request_id, str))
    )


class Audit:
    """The `audit.jsonl` of one session directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def read(self) -> lines.Lines:
        """All entries, oldest first, and what is wrong with the lines that are none."""
        return lines.read_checked(self.path, is_entry)

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
        self.append([entry(cause, field, before, after)])

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Note several things as one step; returns when they are durable.

        Raises:
            StorageFailureError: They could not be noted.
        """
        try:
            lines.append(self.path, entries)
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, "note a change of approvals", self.path) from error

    def tail(self, size: int) -> list[dict[str, Any]]:
        """The entries in the last `size` bytes, oldest first; none where the file cannot be read."""
        return lines.read_end(self.path, size)


def entry(cause: Cause, field: str, before: Any, after: Any, **members: Any) -> dict[str, Any]:
    """An entry of the present moment; members that are None are left out."""
    named: dict[str, Any] = {"requestId": cause.request_id, **members}
    return {
        "time": clock.now_iso(),
        "who": cause.client,
        **{name: value for name, value in named.items() if value is not None},
        "field": field,
        "from": before,
        "to": after,
    }
