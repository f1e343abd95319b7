# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.bridge`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from timeleap_protocol.params import Count, Name, ParamsStruct, PathText, RequestId


class BridgeListParams(ParamsStruct, kw_only=True):
    """`BridgeListParams` has no fields of its own."""


class BridgeWatchParams(ParamsStruct, kw_only=True):
    kind: Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"]
    path: PathText | None = None
    workspace: Name | None = None


class BridgeUnwatchParams(ParamsStruct, kw_only=True):
    kind: Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"]
    path: PathText | None = None


class BridgeCatchUpParams(ParamsStruct, kw_only=True):
    kind: Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"]
    path: PathText
    cwd: PathText | None = None
    event: Literal["start", "prompt", "tool", "stop", "end"]
    tool_name: Annotated[str, Meta(max_length=200)] | None = None
    session_id: str | None = None


class BridgeAdoptParams(ParamsStruct, kw_only=True):
    session_id: str
    at: str | Count | None = None


class BridgeListKeptParams(ParamsStruct, kw_only=True):
    session_id: str


class BridgeRestoreFileParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    generation: Count | None = None
    path: PathText | None = None
    dry_run: bool | None = None
