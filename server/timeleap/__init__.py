"""Timeleap: durable conversation context for AI agents, with checkpoints, time travel and its undo.

The names below are the Python API: the same classes and functions the original program had, on a storage engine that
keeps its promises. They are loaded when they are first used, so that `import timeleap` costs nothing;
`__init__.pyi` has their types.
"""

from __future__ import annotations

_MODULES = {
    "api.context": "Context next_available_rotation",
    "api.denwarenji": "BackToTheFuture DMail DenwaRenji DenwaRenjiError",
    "api.linear": "JsonlLinearStorage LinearContext LinearStorage MemoryLinearStorage",
    "api.message": (
        "AudioURLPart ContentPart ImageURLPart Message TextPart ThinkPart ToolCall ToolCallPart UnknownPart "
        "VideoURLPart estimate_text_tokens system"
    ),
    "api.simple": "CompactionResult SimpleCompaction TokenUsage",
    "api.state": (
        "STATE_FILE_NAME ApprovalStateData DynamicSubagentSpec SessionState TodoItemState "
        "atomic_json_write load_session_state save_session_state"
    ),
    "message_text": "should_auto_compact",
    "version": "__version__",
}
"""Names by module."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
# Loaded at first use, so that a checker finds them in the stub alone.
# pyright: reportUnsupportedDunderAll=false
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"timeleap.{_HOMES[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
