"""Pictures in messages: the data itself in a `data:` URL, or an address on the web."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

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
