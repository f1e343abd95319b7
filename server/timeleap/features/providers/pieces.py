"""The pieces of a provider's request body: names and ids, arguments of calls, pictures; and what is lost on the way."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from timeleap.storage.record import decode_strictly

MOST: Final = 1000
"""Losses that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A difference between a body and the history.

    Attributes:
        index: Of the message; None where it is about the body as a whole.
        kind: In one word (see `BodyLoss` of the protocol).
        message: In words.
    """

    index: int | None
    kind: str
    message: str


class Losses:
    """All differences of a body.

    Attributes:
        count: Their number, unlisted ones included.
    """

    def __init__(self) -> None:
        self.count = 0
        self._listed: list[Loss] = []

    def add(self, index: int | None, kind: str, message: str) -> None:
        """Note one."""
        self.count += 1
        if len(self._listed) < MOST:
            self._listed.append(Loss(index, kind, message))

    def listed(self) -> list[Loss]:
        """At most `MOST`, by message; what is about none comes last."""
        return sorted(self._listed, key=lambda loss: (loss.index is None, loss.index or 0))


MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Those that every provider takes."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be sent.

    Attributes:
        url: Its address on the web; empty where it is here.
        media_type: One of `MEDIA_TYPES` where it is here.
        data: In base64, where it is here.
        detail: How closely a model should look, as its user has said.
    """

    url: str = ""
    media_type: str = ""
    data: str = ""
    detail: str | None = None

    @property
    def size(self) -> int:
        """Characters it takes in a body."""
        return len(self.url) + len(self.data)


def picture_at(image_url: Any) -> Picture | None:
    """The picture of an `image_url` part; None for what no provider takes, such as a file of this machine."""
    url = image_url.get("url") if isinstance(image_url, Mapping) else image_url
    if not isinstance(url, str):
        return None
    detail = image_url.get("detail") if isinstance(image_url, Mapping) else None
    detail = detail if isinstance(detail, str) and detail in {"auto", "low", "high"} else None
    if url[:5].lower() == "data:":
        return _inline(url[5:], detail)
    return Picture(url=url, detail=detail) if _on_the_web(url) else None


def _inline(rest: str, detail: str | None) -> Picture | None:
    head, comma, body = rest.partition(",")
    media_type, *options = head.lower().split(";")
    media_type = "image/jpeg" if media_type == "image/jpg" else media_type
    if not comma or media_type not in MEDIA_TYPES or not body:
        return None
    raw = unquote_to_bytes(body) if "%" in body else body.encode("utf-8", "replace")
    if "base64" in options:
        try:
            raw = base64.b64decode(b"".join(raw.split()), validate=True)
        except binascii.Error:
            return None
    return Picture(media_type=media_type, data=base64.b64encode(raw).decode(), detail=detail) if raw else None


def _on_the_web(url: str) -> bool:
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


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


LONGEST_TOOL_NAME: Final = 64

_NOT_PLAIN: Final = re.compile(r"[^a-zA-Z0-9_-]")


def plain(name: str) -> str:
    """A tool's name, or a call's id, of letters, digits, `_` and `-` only; never empty."""
    return _NOT_PLAIN.sub("_", name) or "_"


def tool_name(name: str) -> str:
    """A tool's name as it may stand in a call."""
    return plain(name)[:LONGEST_TOOL_NAME]


class Ids:
    """The ids of the calls of one body: each used once, as the provider takes them.

    Args:
        longest: Characters one may have.
        any_character: Whether it may have others than letters, digits, `_` and `-`.
    """

    def __init__(self, longest: int, *, any_character: bool) -> None:
        self._longest = longest
        self._any = any_character
        self._taken: set[str] = set()
        self._again: dict[str, int] = {}

    def of(self, wanted: str) -> str:
        """The id of the next call: the wanted one if that can be had."""
        base = (wanted if self._any and wanted.isprintable() and wanted else plain(wanted))[: self._longest]
        found = base
        while found in self._taken:
            number = self._again[base] = self._again.get(base, 1) + 1
            found = f"{base[: self._longest - 1 - len(str(number))]}_{number}"
        self._taken.add(found)
        return found
