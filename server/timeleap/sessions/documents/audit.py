"""Audit trail of approvals: each one switched, asked for or decided, with client and time; a JSON lines file.

It is appended to. Of a file that has grown too large the newest lines are kept, and the questions that are open.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from timeleap import clock
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import session_files
from timeleap.sessions.documents.json_files import is_date
from timeleap.sessions.shapes import Cause, camel_case, set_members
from timeleap.storage.durable import OpenFile, atomic_write, status, storage_errors

MAX_BYTES = 16 << 20
"""A file that is larger is cut to its newest lines."""
KEPT_BYTES = 8 << 20
"""Bytes of the audit that stay when it is cut."""
MAX_PENDING = 100
"""Questions of a session."""
FIELD = "approval"
"""Field of entries about approvals that are asked."""
_APPROVAL_ID = re.compile(r"a[0-9a-f]{16}")


def is_entry(document: Mapping[str, Any]) -> bool:
    """True if a line of the file has the form of an entry."""
    return (
        is_date(document.get("time"))
        and isinstance(document.get("field"), str)
        and isinstance(document.get("who"), str | None)
        and isinstance(document.get(camel_case("request_id")), str | None)
    )


def _last_entries(entries: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The newest entry of each approval that is asked, by approval id; the newest last."""
    found: dict[str, dict[str, Any]] = {}
    for document in entries:
        approval_id = document.get(camel_case("approval_id"))
        if document.get("field") == FIELD and isinstance(approval_id, str) and _APPROVAL_ID.fullmatch(approval_id):
            found.pop(approval_id, None)
            found[approval_id] = document
    return found


def left_open(entries: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The entries of questions that an audit does not tell the end of, by approval id."""
    found = [(name, document) for name, document in _last_entries(entries).items() if document.get("to") == "pending"]
    return dict(found[-MAX_PENDING:])


def ends(entries: Iterable[dict[str, Any]], approval_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """The entries that tell the end of some questions, by approval id; none of those that are open, or not in the
    audit."""
    last = _last_entries(entries).items()
    return {name: document for name, document in last if name in approval_ids and document.get("to") != "pending"}


class Audit:
    """The `audit.jsonl` of one session directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / session_files.AUDIT_NAME

    def read(self) -> files.Lines:
        """All entries, oldest first, and what is wrong with the lines that are none."""
        return files.read_lines(self.path, is_entry)

    def record(self, cause: Cause, field: str, before: Any, after: Any) -> None:
        """Note one change; returns when it is durable. Where that raises StorageFailureError, it must not be made."""
        self.append([entry(cause, field, before, after)])

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Note several things as one step; returns when they are durable, or raises StorageFailureError."""
        with storage_errors("note a change of approvals", self.path):
            files.append_lines(self.path, entries)
        with suppress(OSError):  # it is noted; the next one tries again
            self._cut()

    def _cut(self) -> None:
        """LogRewrite a file that has grown too large: the questions that are open, and the newest lines as they are."""
        there = status(self.path)
        if there is None or there.size <= MAX_BYTES:
            return
        with closing(OpenFile(self.path)) as file:
            newest = file.pread(there.size - KEPT_BYTES, KEPT_BYTES).partition(b"\n")[2]
        asked = [files.encode_line(document) for document in left_open(self.questions()).values()]
        atomic_write(self.path, b"".join(line for line in asked if line not in newest) + newest)

    def questions(self) -> list[dict[str, Any]]:
        """The entries of approvals that are asked, oldest first; none where the file cannot be read.

        However much else is in the audit: between a question and its end there may be any number of other entries.
        """
        return files.read_last_lines(self.path, files.MAX_LINES_BYTES, containing=b'"approvalId"')


def entry(cause: Cause, field: str, before: Any, after: Any, **members: Any) -> dict[str, Any]:
    """An entry of the present moment; members that are None are left out."""
    return {
        "time": clock.now_iso(),
        "who": cause.client,
        **set_members(request_id=cause.request_id, **members),
        "field": field,
        "from": before,
        "to": after,
    }
