# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.compaction`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from timeleap_protocol.params import JsonObject, ParamsStruct, Positive, RequestId


class CompactParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    max_preserved_messages: Positive | None = None
    custom_instruction: str | None = None
    summarizer: Literal["auto", "client", "server", "builtin"] | None = None
    summary: str | None = None
    pins: Annotated[list[Annotated[str, Meta(min_length=1, max_length=2000)]], Meta(max_length=100)] | None = None


class SetPinsParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    pins: Annotated[list[Annotated[str, Meta(min_length=1, max_length=2000)]], Meta(max_length=100)]


class PrepareCompactionParams(ParamsStruct, kw_only=True):
    session_id: str
    max_preserved_messages: Positive | None = None
    custom_instruction: str | None = None


class SummarizeParams(ParamsStruct, kw_only=True):
    session_id: str
    system_prompt: str
    prompt: JsonObject
    custom_instruction: str | None = None
