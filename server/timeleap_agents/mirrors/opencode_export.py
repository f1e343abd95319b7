"""A session in the form in which opencode exports one and takes one in, with ids of its own."""

from __future__ import annotations

import re
import secrets
import time
from typing import Final

from msgspec import Struct

from timeleap.json_value import Json

_ID: Final = re.compile(r"(msg|prt)_([0-9a-f]{12})[A-Za-z0-9]*")
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Sent(Struct, frozen=True):
    """A message that goes into it.

    Attributes:
        told: The data of its row.
        parts: The ids of its parts, with the data of each.
    """

    id: str
    told: Json
    parts: list[tuple[str, Json]]


def new_session_id() -> str:
    """An id for a session that begins now."""
    return f"ses_{_hex_of_now()}{_letters()}"


def info(row: Json, session_id: str) -> Json:
    """Facts of a session, from the row of the one that it goes on from."""
    now = int(time.time() * 1000)
    return {
        "id": session_id,
        "slug": str(row.get("slug") or session_id),
        "version": str(row["version"]),
        "projectID": str(row["project_id"]),
        "directory": str(row["directory"]),
        "title": str(row["title"]),
        "time": {"created": now, "updated": now},
    }


def messages(sent: list[Sent], session_id: str) -> list[Json]:
    """Messages of a session, under new ids that stand in the order of the old ones."""
    new = {message.id: _renamed(message.id, "msg") for message in sent}
    return [_message(message, new, session_id) for message in sent]


def _message(message: Sent, new: dict[str, str], session_id: str) -> Json:
    told = {**message.told, "id": new[message.id], "sessionID": session_id}
    if told.get("parentID") in new:
        told["parentID"] = new[told["parentID"]]
    parts = []
    for part_id, data in message.parts:
        place = {"id": _renamed(part_id, "prt"), "messageID": new[message.id], "sessionID": session_id}
        kept = {"tail_start_id": new[data["tail_start_id"]]} if data.get("tail_start_id") in new else {}
        parts.append({**data, **kept, **place})
    return {"info": told, "parts": parts}


def _renamed(name: str, kind: str) -> str:
    """A new id that stands in the order of the old one."""
    known = _ID.fullmatch(name)
    return f"{kind}_{known[2] if known is not None else _hex_of_now()}{_letters()}"


def _hex_of_now() -> str:
    return f"{(int(time.time() * 1000) << 12) & ((1 << 48) - 1):012x}"


def _letters() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(14))
