"""Time and identifiers, in one place so that tests can replace them."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime


def now() -> float:
    """Seconds since 1970, UTC."""
    return time.time()


def iso(seconds: float) -> str:
    """An ISO-8601 UTC string with milliseconds, such as `2026-11-20T09:30:00.123Z`."""
    stamp = datetime.fromtimestamp(seconds, UTC)
    return f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03d}Z"


def now_iso() -> str:
    return iso(now())


def new_uid(length: int = 12) -> str:
    """A random identifier of `length` lower-case hexadecimal digits."""
    return secrets.token_hex((length + 1) // 2)[:length]
