# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.session`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from timeleap_protocol.params import (
    Int,
    LenientStruct,
    Limit,
    Name,
    ParamsStruct,
    PathText,
    Positive,
    RequestId,
    StrictStruct,
    choose,
)


class NewSource(LenientStruct, kw_only=True):
    kind: RequestId
    key: Annotated[str, Meta(min_length=1, max_length=4096)]


class FilesSettings(StrictStruct, kw_only=True):
    mode: Literal["off", "checkpoint", "turn"]
    roots: Annotated[list[Name], Meta(max_length=16)] | None = None
    exclude: Annotated[list[Name], Meta(max_length=1000)] | None = None
    include_ignored: Annotated[list[Name], Meta(max_length=1000)] | None = None
    max_file_bytes: Positive | None = None
    max_files: Positive | None = None


class SessionOpenParams(ParamsStruct, kw_only=True):
    session_id: str | None = None
    path: PathText | None = None
    create: bool | None = None
    access: Literal["write", "readOnly"] | None = None
    attach: bool | None = None
    title: str | None = None
    system_prompt: str | None = None
    workspace: str | None = None
    source: NewSource | None = None
    auto_checkpoint: Literal["off", "turn", "step"] | None = None
    files: FilesSettings | None = None
    request_id: RequestId | None = None


class SessionCloseParams(ParamsStruct, kw_only=True):
    session_id: str


class SourceFilter(LenientStruct, kw_only=True):
    kind: RequestId
    key: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None


class SessionListParams(ParamsStruct, kw_only=True):
    cursor: str | None = None
    limit: Limit | None = None
    include_archived: bool | None = None
    query: str | None = None
    workspace: str | None = None
    source: SourceFilter | None = None
    parent: str | None = None
    include_subagents: bool | None = None


class SessionLatestParams(ParamsStruct, kw_only=True):
    workspace: str | None = None


class SessionGetStateParams(ParamsStruct, kw_only=True):
    session_id: str


class SessionSetYoloParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    yolo: bool


class SessionSetAutoApproveParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    action: Name
    enabled: bool


class SessionSetAfkParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    afk: bool


class SessionIsApprovedParams(ParamsStruct, kw_only=True):
    session_id: str
    action: Name


class SessionPutSubagentParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    name: Name
    system_prompt: str


class SessionRemoveSubagentParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    name: Name


class SessionSetTitleParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    title: str


class SessionSetWorkspaceParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    workspace: Name | None


class SessionForkParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    checkpoint_id: Int | None = None
    checkpoint_uid: str | None = None
    timeline_id: str | None = None
    new_session_id: str | None = None
    title: str | None = None

    def __post_init__(self) -> None:
        choose((self.checkpoint_id,), (self.checkpoint_uid,), required=False)


class SessionArchiveParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None


class SessionUnarchiveParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None


class SessionDeleteParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None


class SessionUndeleteParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None


class SessionListTrashParams(ParamsStruct, kw_only=True):
    cursor: str | None = None
    limit: Limit | None = None


class SessionReloadParams(ParamsStruct, kw_only=True):
    session_id: str


class SessionVerifyParams(ParamsStruct, kw_only=True):
    session_id: str


class SessionRepairParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None


class SessionExportParams(ParamsStruct, kw_only=True):
    session_id: str
    format: Name
    path: PathText
    overwrite: bool | None = None
    with_files: bool | None = None
    keep_secrets: bool | None = None


class SessionImportParams(ParamsStruct, kw_only=True):
    path: PathText
    format: Name | None = None
    session_id: str | None = None
    folders: Annotated[list[Name], Meta(min_length=1, max_length=16)] | None = None
    request_id: RequestId | None = None
