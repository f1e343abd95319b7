"""The growth of a span in a few characters: tokens or messages, and failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def growth(summary: Mapping[str, Any] | None) -> str:
    """The tokens of a span and its failures: `+1.4K 1 failed`; messages where no tokens were reported."""
    if summary is None:
        return ""
    tokens, messages, errors = summary.get("tokens"), summary["messages"], summary.get("errors", 0)
    took = f"{'+' if tokens > 0 else '-'}{_short(abs(tokens))}" if tokens else ""
    if not took and messages:
        took = f"+{messages} message{'' if messages == 1 else 's'}"
    return " ".join(filter(None, (took, f"{errors} failed" if errors else "")))


def _short(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("K", 1000)):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + unit if number < 10 * size else f"{number // size}{unit}"
    return str(number)
