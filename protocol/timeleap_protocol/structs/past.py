# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.past`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from timeleap_protocol.params import Count, Limit, ParamsStruct, Positive, StrictStruct, choose


class SessionSearchParams(ParamsStruct, kw_only=True):
    cursor: str | None = None
    limit: Limit | None = None
    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    regex: bool | None = None
    ignore_case: bool | None = None
    timelines: bool | None = None
    distinct: bool | None = None
    excerpts: bool | None = None


class SearchParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None
    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    regex: bool | None = None
    ignore_case: bool | None = None
    timelines: bool | None = None
    distinct: bool | None = None
    excerpts: bool | None = None


class DiffPoint(StrictStruct, kw_only=True):
    checkpoint_uid: str | None = None
    timeline_id: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        choose((self.checkpoint_uid,), (self.timeline_id,), required=False)


class DiffParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None
    from_: DiffPoint = field(name="from")
    to: DiffPoint
    max_bytes: Positive | None = None


class AtParams(ParamsStruct, kw_only=True):
    session_id: str
    index: Count | None = None
    time: str | None = None
    timeline_id: str | None = None

    def __post_init__(self) -> None:
        if (self.index is None) is (self.time is None):
            raise ValueError("fields exclude each other")
