# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.context`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from timeleap_protocol.params import (
    Count,
    Int,
    JsonObject,
    Limit,
    ParamsStruct,
    PathText,
    Positive,
    RequestId,
    choose,
    choose_one,
)


class AppendMessageParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    message: JsonObject | None = None
    messages: Annotated[list[JsonObject], Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        if (self.message is None) is (self.messages is None):
            raise ValueError("fields exclude each other")


class UpdateTokenCountParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    token_count: Count


class ListUsageParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None


class SetSystemPromptParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    system_prompt: str


class CheckpointParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    label: str | None = None
    add_user_message: bool | None = None
    files: bool | None = None


class ListCheckpointsParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None
    order: Literal["asc", "desc"] | None = None
    timeline_id: str | None = None


class RevertToParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    restore: Literal["conversation", "files", "both"] | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    checkpoint_id: Int | None = None
    checkpoint_uid: str | None = None
    message_index: Count | None = None
    heal: bool | None = None

    def __post_init__(self) -> None:
        choose_one(self.checkpoint_id, self.checkpoint_uid, self.message_index)


class ClearParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    keep_system_prompt: bool | None = None


class GetHistoryParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None
    from_: Count | None = field(default=None, name="from")
    to: Count | None = None
    checkpoint_uid: str | None = None
    order: Literal["asc", "desc"] | None = None
    max_bytes: Positive | None = None
    timeline_id: str | None = None
    format: Literal["openai", "anthropic"] | None = None
    include: list[Literal["opaque"]] | None = None

    def __post_init__(self) -> None:
        choose((self.from_, self.to), (self.checkpoint_uid,), (self.cursor,), required=False)


class GetRecordsParams(ParamsStruct, kw_only=True):
    session_id: str
    from_: Count | None = field(default=None, name="from")
    to: Count | None = None
    roles: list[str] | None = None
    cursor: str | None = None
    limit: Limit | None = None
    timeline_id: str | None = None


class ListTimelinesParams(ParamsStruct, kw_only=True):
    session_id: str
    cursor: str | None = None
    limit: Limit | None = None


class RestoreTimelineParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    restore: Literal["conversation", "files", "both"] | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    timeline_id: str


class UndoParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    restore: Literal["conversation", "files", "both"] | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    steps: Positive | None = None


class RedoParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    restore: Literal["conversation", "files", "both"] | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    steps: Positive | None = None


class SendDMailParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    checkpoint_id: Int | None = None
    checkpoint_uid: str | None = None
    message: str
    to_session_id: str | None = None
    to_path: PathText | None = None
    from_session_id: str | None = None

    def __post_init__(self) -> None:
        choose((self.checkpoint_id,), (self.checkpoint_uid,), required=False)


class DeliverDMailParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
    dry_run: bool | None = None
    restore: Literal["conversation", "files", "both"] | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    heal: bool | None = None


class CancelDMailParams(ParamsStruct, kw_only=True):
    session_id: str
    expected_head: str | None = None
    request_id: RequestId | None = None
