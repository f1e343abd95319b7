"""Opaque page cursors: where a listing goes on, bound to what it lists.

A cursor is base64url over a small JSON object. It carries the listing's name and its fixed parameters, so that one
from another listing, or made up, is refused as unknown instead of giving a wrong page.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from timeleap.errors import InvalidInputError


def encode(listing: str, **position: Any) -> str:
    """Make a cursor of `listing` that holds `position`."""
    raw = msgspec.json.encode({"of": listing, **position})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode(cursor: str, listing: str) -> dict[str, Any]:
    """Return the position that `encode` put in.

    Raises:
        InvalidInputError: It is no cursor of that listing.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = msgspec.json.decode(raw, type=dict[str, Any])
    except (binascii.Error, ValueError, msgspec.DecodeError, msgspec.ValidationError):
        position = {}
    if position.pop("of", None) != listing:
        problem = {"loc": ["cursor"], "msg": "unknown cursor: use the nextCursor of this listing", "type": "cursor"}
        raise InvalidInputError(f"cursor: {problem['msg']}", errors=[problem])
    return position


def offset(cursor: str | None, listing: str) -> int:
    """The offset a simple listing goes on from; 0 without a cursor.

    Raises:
        InvalidInputError: It is no cursor of that listing.
    """
    if cursor is None:
        return 0
    value = decode(cursor, listing).get("next")
    if not isinstance(value, int) or value < 0:
        raise InvalidInputError(
            "cursor: unknown cursor", errors=[{"loc": ["cursor"], "msg": "unknown cursor", "type": "cursor"}]
        )
    return value
