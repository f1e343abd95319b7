"""session/listAudit: entries of a session's audit, page by page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct

from timeleap.service import cursors
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.json_files import Lines
from timeleap.sessions.documents.session_files import AUDIT_NAME
from timeleap.sessions.documents.warnings import AUDIT_DAMAGED
from timeleap.sessions.shapes import set_members
from timeleap_protocol.limits import DEFAULT_PAGE

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap_protocol.structs.trash import SessionListAuditParams

_TEXTS = frozenset(("time", "who", "requestId", "field", "approvalId", "action", "description", "toolCallId", "reason"))


class _Before(Struct, frozen=True):
    """Where a page of the audit ends: at this entry, counted from the oldest."""

    stop: Annotated[int, msgspec.Meta(ge=0)]


async def list_audit(service: Service, params: SessionListAuditParams, call: Call) -> Json:
    """Entries of a session's audit, newest first."""
    if held := service.opened(call).get(params.session_id):
        await held.session.catch_its_turn()
    stop = cursors.decode_cursor(params.cursor, call.method, _Before).stop if params.cursor is not None else None

    def read() -> Lines:
        with service.store.files(params.session_id, held.session.path if held else None) as directory:
            return Audit(directory).read()

    found = await asyncio.to_thread(read)
    stop = len(found.documents) if stop is None else min(stop, len(found.documents))
    start = max(0, stop - (params.limit or DEFAULT_PAGE))
    return {
        "entries": [_entry(entry) for entry in reversed(found.documents[start:stop])],
        **set_members(
            nextCursor=cursors.encode_cursor(call.method, stop=start) if start else None,
            warnings=found.problem and [{"kind": AUDIT_DAMAGED, "message": found.problem, "file": AUDIT_NAME}],
        ),
    }


def _entry(line: Json) -> Json:
    """An entry in wire form; members of another form than ours, since the file was edited, are left out."""
    shown = {"client" if name == "who" else name: value for name, value in line.items() if _fits(name, value)}
    return {**shown, "from": line.get("from"), "to": line.get("to")}


def _fits(name: str, value: Any) -> bool:
    return isinstance(value, bool) if name == "automatic" else name in _TEXTS and isinstance(value, str)
