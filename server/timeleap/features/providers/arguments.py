"""The arguments of a tool call: a JSON object to every provider, whatever a model has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from timeleap.storage.record import decode_strictly

DEEPEST: Final = 100
"""Nesting of arguments; deeper ones are sent as text."""


def json_object(arguments: str) -> dict[str, Any] | None:
    """The object that a JSON text is; None for anything else."""
    try:
        found = decode_strictly(arguments or "{}")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) and not _deeper(found, DEEPEST) else None


def as_text(arguments: str) -> dict[str, Any]:
    """The object that is sent in the place of arguments that are none."""
    return {"arguments": arguments}


def no_object(name: str) -> str:
    """The loss message for arguments that are no JSON object."""
    return f"the arguments of {name} are no JSON object; they are sent as text"


def _deeper(value: Any, left: int) -> bool:
    if isinstance(value, Mapping):
        return left == 0 or any(_deeper(each, left - 1) for each in value.values())
    return isinstance(value, list) and (left == 0 or any(_deeper(each, left - 1) for each in value))
