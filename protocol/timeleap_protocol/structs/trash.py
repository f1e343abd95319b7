# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.trash`; see `timeleap_protocol.params`."""

from __future__ import annotations

from timeleap_protocol.params import Count, Limit, ParamsStruct, RequestId


class SessionPurgeParams(ParamsStruct, kw_only=True):
    session_id: str | None = None
    deleted_at: str | None = None
    older_than: Count | None = None
    dry_run: bool | None = None
    request_id: RequestId | None = None

    def __post_init__(self) -> None:
        if (self.session_id is None) is (self.older_than is None):
            raise ValueError("fields exclude each other")


class SessionListAuditParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None
