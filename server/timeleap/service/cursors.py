"""Opaque cursors of all listings.

A cursor is base64url over a small JSON object. It carries the listing's name and its fixed parameters, so that one
from another listing, or made up, is refused as unknown instead of giving a wrong page.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Struct

from timeleap.errors import HeadConflictError, InvalidInputError
from timeleap.sessions.logs import era_of

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

T = TypeVar("T")
P = TypeVar("P", bound="Position")


def encode_cursor(listing: str, **position: Any) -> str:
    """Make a cursor of `listing` that holds `position`."""
    raw = msgspec.json.encode({"of": listing, **position})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode_cursor(cursor: str, listing: str, position: type[T]) -> T:
    """The position that `encode_cursor` put in, as a `position`. Raises `unknown_cursor`."""
    with suppress(ValueError, msgspec.DecodeError):
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        members = msgspec.json.decode(raw, type=dict[str, Any])
        if members.pop("of", None) == listing:
            return msgspec.convert(members, position)
    raise unknown_cursor()


def unknown_cursor() -> InvalidInputError:
    """The error for what is no cursor of the listing."""
    return InvalidInputError.of("cursor", "unknown cursor: use the nextCursor of this listing")


class Offset(Struct, frozen=True):
    """The position in a simple listing: how many entries were given."""

    done: Annotated[int, msgspec.Meta(ge=0)]


def cursor_offset(cursor: str | None, listing: str) -> int:
    """The offset at which a simple listing continues; 0 without a cursor. Raises as `decode_cursor`."""
    return 0 if cursor is None else decode_cursor(cursor, listing, Offset).done


def cursor_after(done: int, total: int, listing: str) -> str | None:
    """The cursor of a simple listing that has given `done` of `total` entries; None at its end."""
    return encode_cursor(listing, done=done) if done < total else None


class Position(Struct, frozen=True):
    """A position in a log of a session: in a timeline, or in the live log of an era."""

    session_id: str
    timeline_id: str | None
    era: str


def check_era(era: str, head: str) -> None:
    """Refuse a cursor from before a rewrite: HeadConflictError, with the present head."""
    if era != era_of(head):
        raise HeadConflictError("the log was rewritten since this cursor was given: start the listing again", head=head)


def position_of(cursor: str, listing: str, position: type[P], session: Session) -> P:
    """The position that a cursor of `listing` stands for, in a log of the session.

    Raises:
        InvalidInputError: It is no cursor of that listing of that session.
        HeadConflictError: The log was rewritten since.
    """
    found = decode_cursor(cursor, listing, position)
    if found.session_id != session.session_id:
        raise unknown_cursor()
    if found.timeline_id is None:
        check_era(found.era, session.head)
    return found
