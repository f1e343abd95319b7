"""Opaque page cursors: the position at which a listing continues, bound to what it lists.

A cursor is base64url over a small JSON object. It carries the listing's name and its fixed parameters, so that one
from another listing, or made up, is refused as unknown instead of giving a wrong page.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from timeleap.errors import InvalidInputError

T = TypeVar("T")


def encode(listing: str, **position: Any) -> str:
    """Make a cursor of `listing` that holds `position`."""
    raw = msgspec.json.encode({"of": listing, **position})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode_as(cursor: str, listing: str, position: type[T]) -> T:
    """Return the position that `encode` put in, as the dataclass `position`.

    Raises:
        InvalidInputError: It is no cursor of that listing.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        members = msgspec.json.decode(raw, type=dict[str, Any])
        if members.pop("of", None) == listing:
            return msgspec.convert(members, position)
    except (binascii.Error, ValueError, msgspec.DecodeError, msgspec.ValidationError):
        pass
    raise unknown()


def unknown() -> InvalidInputError:
    """The error for what is no cursor of the listing."""
    problem = {"loc": ["cursor"], "msg": "unknown cursor: use the nextCursor of this listing", "type": "cursor"}
    return InvalidInputError(f"cursor: {problem['msg']}", errors=[problem])


@dataclass(frozen=True, slots=True)
class Offset:
    """The position in a simple listing: how many entries were given."""

    done: Annotated[int, msgspec.Meta(ge=0)]


def offset(cursor: str | None, listing: str) -> int:
    """The offset at which a simple listing continues; 0 without a cursor. Raises as `decode_as`."""
    return 0 if cursor is None else decode_as(cursor, listing, Offset).done


def after(done: int, total: int, listing: str) -> str | None:
    """The cursor of a simple listing that has given `done` of `total` entries; None at its end."""
    return encode(listing, done=done) if done < total else None
