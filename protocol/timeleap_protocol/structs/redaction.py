# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.redaction`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from timeleap_protocol.params import ParamsStruct, RequestId, choose_one


class SessionRedactParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    value: Annotated[str, Meta(min_length=1, max_length=16384)] | None = None
    pattern: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    secrets: bool | None = None
    replacement: Annotated[str, Meta(max_length=200)] | None = None
    dry_run: bool | None = None
    deleted_at: str | None = None
    store: bool | None = None

    def __post_init__(self) -> None:
        choose_one(self.value, self.pattern, self.secrets)
