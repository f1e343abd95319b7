# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.space`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from timeleap_protocol.params import Count, Limit, Name, ParamsStruct, Positive, RequestId


class SessionStorageParams(ParamsStruct, kw_only=True):
    cursor: str | None = None
    limit: Limit | None = None
    session_id: str | None = None


class SessionPruneParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    max_timelines: Positive | None = None
    max_timeline_bytes: Count | None = None
    older_than: str | None = None
    timeline_ids: Annotated[list[Name], Meta(min_length=1, max_length=1000)] | None = None
    quarantine: bool | None = None
