"""Timeleap: durable conversation context for AI agents, with checkpoints, time travel and its undo.

The names below are the Python API: the same classes and functions the original program had, on a storage engine that
keeps its promises. They are loaded when they are first used, so that `import timeleap` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not imported from `typing`: that takes longer than all the rest
if TYPE_CHECKING:
    from typing import Any

    from timeleap.api.context import Context, next_available_rotation
    from timeleap.api.denwarenji import BackToTheFuture, DenwaRenji, DenwaRenjiError, DMail
    from timeleap.api.linear import JsonlLinearStorage, LinearContext, LinearStorage, MemoryLinearStorage
    from timeleap.api.message import (
        AudioURLPart,
        ContentPart,
        ImageURLPart,
        Message,
        TextPart,
        ThinkPart,
        ToolCall,
        ToolCallPart,
        UnknownPart,
        VideoURLPart,
        estimate_text_tokens,
        system,
    )
    from timeleap.api.simple import CompactionResult, SimpleCompaction, TokenUsage
    from timeleap.api.state import (
        STATE_FILE_NAME,
        ApprovalStateData,
        DynamicSubagentSpec,
        SessionState,
        TodoItemState,
        atomic_json_write,
        load_session_state,
        save_session_state,
    )
    from timeleap.message_text import should_auto_compact
    from timeleap.version import __version__

__all__ = [
    "STATE_FILE_NAME",
    "ApprovalStateData",
    "AudioURLPart",
    "BackToTheFuture",
    "CompactionResult",
    "ContentPart",
    "Context",
    "DMail",
    "DenwaRenji",
    "DenwaRenjiError",
    "DynamicSubagentSpec",
    "ImageURLPart",
    "JsonlLinearStorage",
    "LinearContext",
    "LinearStorage",
    "MemoryLinearStorage",
    "Message",
    "SessionState",
    "SimpleCompaction",
    "TextPart",
    "ThinkPart",
    "TodoItemState",
    "TokenUsage",
    "ToolCall",
    "ToolCallPart",
    "UnknownPart",
    "VideoURLPart",
    "__version__",
    "atomic_json_write",
    "estimate_text_tokens",
    "load_session_state",
    "next_available_rotation",
    "save_session_state",
    "should_auto_compact",
    "system",
]

_HOMES = {
    "api.context": "Context next_available_rotation",
    "api.denwarenji": "BackToTheFuture DMail DenwaRenji DenwaRenjiError",
    "api.linear": "JsonlLinearStorage LinearContext LinearStorage MemoryLinearStorage",
    "api.simple": "CompactionResult SimpleCompaction TokenUsage",
    "api.state": (
        "STATE_FILE_NAME ApprovalStateData DynamicSubagentSpec SessionState TodoItemState "
        "atomic_json_write load_session_state save_session_state"
    ),
    "message_text": "should_auto_compact",
    "version": "__version__",
}
"""Modules of the names that are not in `api.message`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = next((module for module, names in _HOMES.items() if name in names.split()), "api.message")
    value = getattr(import_module(f"timeleap.{module}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
