# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.approval`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from timeleap_protocol.params import JsonObject, Name, ParamsStruct, RequestId


class ApprovalRequestParams(ParamsStruct, kw_only=True):
    session_id: str
    action: Annotated[str, Meta(min_length=1, max_length=256)]
    description: Annotated[str, Meta(max_length=4096)] | None = None
    detail: JsonObject | None = None
    tool_call_id: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    timeout: Annotated[float, Meta(gt=0)] | None = None
    request_id: RequestId | None = None


class ApprovalRespondParams(ParamsStruct, kw_only=True):
    session_id: str
    approval_id: Name
    decision: Literal["approve", "approveForSession", "reject"]
    reason: Annotated[str, Meta(max_length=4096)] | None = None


class ApprovalListParams(ParamsStruct, kw_only=True):
    session_id: str
