"""Types of what `__init__.py` loads at first use."""

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
