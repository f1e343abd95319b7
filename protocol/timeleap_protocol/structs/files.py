# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.files`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from timeleap_protocol.params import Count, Limit, Name, ParamsStruct, RequestId, StrictStruct, choose


class FilesSnapshotParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    label: str | None = None


class FilesListParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None


class FilesPoint(StrictStruct, kw_only=True):
    snapshot: Name | None = None
    checkpoint_uid: str | None = None

    def __post_init__(self) -> None:
        choose((self.snapshot,), (self.checkpoint_uid,), required=False)


class FilesDiffParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None
    root: Name | None = None
    path_encoding: Literal["percent"] | None = None
    from_: FilesPoint = field(name="from")
    to: FilesPoint
    path: Name | None = None


class FilesReadParams(ParamsStruct, kw_only=True):
    session_id: str
    root: Name | None = None
    path_encoding: Literal["percent"] | None = None
    snapshot: Name
    path: Name
    offset: Count | None = None
    length: Annotated[int, Meta(ge=1, le=16777216)] | None = None


class FilesTarget(StrictStruct, kw_only=True):
    snapshot: Name | None = None
    checkpoint_uid: str | None = None

    def __post_init__(self) -> None:
        if (self.snapshot is None) is (self.checkpoint_uid is None):
            raise ValueError("fields exclude each other")


class FilesRestoreParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    root: Name | None = None
    path_encoding: Literal["percent"] | None = None
    to: FilesTarget
    paths: Annotated[list[Name], Meta(min_length=1)] | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    expected_files: Name | None = None
    dry_run: bool | None = None
