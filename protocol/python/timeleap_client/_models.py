"""The protocol's modules of models, loaded when one of them is first used: with pydantic they take longer than all the rest."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timeleap_protocol import (
        approval,
        base,
        branches,
        bridge,
        compaction,
        context,
        files,
        lifecycle,
        past,
        redaction,
        session,
        shapes,
        space,
        trash,
    )

__all__ = [
    "approval",
    "base",
    "branches",
    "bridge",
    "compaction",
    "context",
    "files",
    "lifecycle",
    "past",
    "redaction",
    "session",
    "shapes",
    "space",
    "trash",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = import_module(f"timeleap_protocol.{name}")
    return module
