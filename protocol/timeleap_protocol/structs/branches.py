# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.branches`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from timeleap_protocol.params import Count, JsonObject, ParamsStruct, RequestId, StrictStruct


class LogPlace(StrictStruct, kw_only=True):
    message_index: Count | None = None
    checkpoint_uid: str | None = None

    def __post_init__(self) -> None:
        if (self.message_index is None) is (self.checkpoint_uid is None):
            raise ValueError("fields exclude each other")


class SessionMergeParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    from_: str = field(name="from")
    since: LogPlace | None = None
    summary: str | None = None
    summarizer: Literal["auto", "client", "server", "builtin"] | None = None
    custom_instruction: str | None = None
    dry_run: bool | None = None


class ReplaceMessageParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    restore: Literal["conversation", "files", "both"] | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    message_index: Count
    message: JsonObject
    heal: bool | None = None
    dry_run: bool | None = None


class FoldParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    from_: LogPlace = field(name="from")
    to: LogPlace
    drop: bool | None = None
    strict: bool | None = None
    dry_run: bool | None = None
    custom_instruction: str | None = None
    summarizer: Literal["auto", "client", "server", "builtin"] | None = None
    summary: str | None = None
    pins: Annotated[list[Annotated[str, Meta(min_length=1, max_length=2000)]], Meta(max_length=100)] | None = None
