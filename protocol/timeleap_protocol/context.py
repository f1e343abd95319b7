"""Params and results of `context/*`. Classes are called `<Verb>Params` and `<Verb>Result`, shared results by what they are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from timeleap_protocol.base import (
    Choice,
    Count,
    Int,
    JsonObject,
    Limit,
    MutationParams,
    Opt,
    PageParams,
    PathText,
    Positive,
    ReadShape,
    SessionId,
    SessionParams,
    Shape,
)
from timeleap_protocol.files import RestoreChoice, WithFiles
from timeleap_protocol.messages import NewItemObject, NewMessageObject
from timeleap_protocol.shapes import (
    Checkpoint,
    ContextSummary,
    Head,
    HistoryMessage,
    LogRecord,
    Loss,
    PendingDMail,
    Removed,
    Timeline,
)

Order = Literal["asc", "desc"]
BodyFormat = Literal["openai", "anthropic"]


class _RewriteParams(MutationParams):
    """Base of the params of methods that put a new log in the place of the present one."""

    dry_run: Opt[bool] = None
    """Say what would happen, and change nothing. Default: false."""


class _SessionPageParams(PageParams, SessionParams):
    """Base of the params of methods that list something of a session in pages."""


class AppendMessageParams(Choice, MutationParams):
    """`context/appendMessage`."""

    alternatives = (("message",), ("messages",))

    message: Opt[NewMessageObject] = None
    """One message; this or `messages`."""
    messages: Opt[Annotated[list[NewItemObject], Field(min_length=1)]] = None
    """Several, appended all or none; this or `message`. Opaque records go along as `{record}`, checkpoints as
    `{checkpoint: {label?}}`, token counts as `{tokenCount}`."""


class UpdateTokenCountParams(MutationParams):
    """`context/updateTokenCount`."""

    token_count: Count
    """The input tokens the model reported."""


class ListUsageParams(_SessionPageParams):
    """`context/listUsage`."""


class SetSystemPromptParams(MutationParams):
    """`context/setSystemPrompt`."""

    system_prompt: str


class CheckpointParams(MutationParams):
    """`context/checkpoint`."""

    label: Opt[str] = None
    add_user_message: Opt[bool] = None
    """Whether a user message that tells the model of the checkpoint follows it, as one step. Default: false."""
    files: Opt[bool] = None
    """Whether the files get a snapshot with it. Default: as the session's `files` say."""


class ListCheckpointsParams(_SessionPageParams):
    """`context/listCheckpoints`."""

    order: Opt[Order] = None
    """Default: `desc`, newest first."""
    timeline_id: Opt[str] = None
    """Of this timeline instead of the live log."""


class RevertToParams(Choice, RestoreChoice, _RewriteParams):
    """`context/revertTo`."""

    alternatives = (("checkpoint_id",), ("checkpoint_uid",), ("message_index",))
    optional_ways = (("message_index",),)

    checkpoint_id: Opt[Int] = None
    """The checkpoint that goes, with all after it; this, `checkpointUid` or `messageIndex`."""
    checkpoint_uid: Opt[str] = None
    """The same, by uid."""
    message_index: Opt[Count] = None
    """The message that goes, with all after it."""
    heal: Opt[bool] = None
    """Go back further where the log would end with tool calls that have no result: to before them. Default: false."""


class ClearParams(_RewriteParams):
    """`context/clear`."""

    keep_system_prompt: Opt[bool] = None
    """Default: true."""


class GetHistoryParams(Choice, _SessionPageParams):
    """`context/getHistory`. A range, a checkpoint or a cursor; without any, the whole history.

    With `format` the answer is no page but the body of a request to a model's provider, which is whole or refused:
    `cursor`, `limit`, `order` and `include` do not go with it, and what is larger than `maxBytes` is `tooLarge`.
    """

    alternatives = (("from_", "to"), ("checkpoint_uid",), ("cursor",))
    must_choose = False

    from_: Opt[Count] = Field(default=None, alias="from")
    """First message index. Default: 0."""
    to: Opt[Count] = None
    """The index after the last. Default: the end."""
    checkpoint_uid: Opt[str] = None
    """The messages between this checkpoint and the next."""
    order: Opt[Order] = None
    """Default: `asc`, oldest first."""
    max_bytes: Opt[Positive] = None
    """End the page before it is larger; at least one message comes. Default: 4 MiB.
    With `format` the most bytes the body may have as compact JSON; default and most: 32 MiB."""
    timeline_id: Opt[str] = None
    """Of this timeline instead of the live log."""
    format: Opt[BodyFormat] = None
    """Answer with `body`: the messages as OpenAI's Chat Completions or Anthropic's Messages API takes them."""
    include: Opt[list[Literal["opaque"]]] = None
    """`opaque`: opaque records stand among the messages, as `{line, record}`, in the order of the log. A page may then have
    fewer entries than `limit`, or none, and still have a next one; its cursor goes on with them."""


class GetRecordsParams(SessionParams):
    """`context/getRecords`."""

    from_: Opt[Count] = Field(default=None, alias="from")
    """First line. Default: 0."""
    to: Opt[Count] = None
    """The line after the last. Default: the end."""
    roles: Opt[list[str]] = None
    """Only records of these roles; a page may then be empty, and still have a next one."""
    cursor: Opt[str] = None
    """`nextCursor` of the page before; `from` counts no more then."""
    limit: Opt[Limit] = None
    timeline_id: Opt[str] = None
    """Of this timeline instead of the live log."""


class ListTimelinesParams(_SessionPageParams):
    """`context/listTimelines`."""


class RestoreTimelineParams(RestoreChoice, _RewriteParams):
    """`context/restoreTimeline`."""

    timeline_id: str


class _StepParams(RestoreChoice, _RewriteParams):
    """Base of the params of undo and redo."""

    steps: Opt[Positive] = None
    """How many, as one step. Default: 1."""


class UndoParams(_StepParams):
    """`context/undo`."""


class RedoParams(_StepParams):
    """`context/redo`."""


class SendDMailParams(Choice, MutationParams):
    """`context/sendDMail`.

    To a checkpoint of the session itself, or to another session: there to a checkpoint, where it waits to be delivered,
    or without one as a note at the end of the log, which the other session reads next.
    """

    alternatives = (("checkpoint_id",), ("checkpoint_uid",))
    must_choose = False

    checkpoint_id: Opt[Int] = None
    """The checkpoint whose self gets the note; this or `checkpointUid`, or neither for a note to another session."""
    checkpoint_uid: Opt[str] = None
    """The same, by uid."""
    message: str
    """The note."""
    to_session_id: Opt[SessionId] = None
    """The session that gets it, open or not; a checkpoint is one of that session then. Default: the session itself."""
    to_path: Opt[PathText] = None
    """The same by its directory; this or `toSessionId`."""
    from_session_id: Opt[SessionId] = None
    """Where the note comes from, if not from the session itself: `sessionId` gets it as from that session."""


class DeliverDMailParams(RestoreChoice, _RewriteParams):
    """`context/deliverDMail`."""

    heal: Opt[bool] = None
    """As in `context/revertTo`."""


class CancelDMailParams(MutationParams):
    """`context/cancelDMail`."""


class AppendMessageResult(Head):
    """Where the messages went and what the context amounts to now."""

    first_index: Count
    """Of the first message appended."""
    message_count: Count
    token_count_with_pending: Count
    should_compact: bool


class UpdateTokenCountResult(Head):
    """The token count now in force."""

    token_count: Count


class Usage(Shape):
    """One entry of the trail of token counts."""

    index: Count
    """Messages before it."""
    token_count: Count


class ListUsageResult(ReadShape):
    """The trail of token counts, oldest first."""

    usage: list[Usage]
    next_cursor: Opt[str] = None


class CheckpointResult(Head):
    """The checkpoint that was written."""

    checkpoint: Checkpoint


class ListCheckpointsResult(ReadShape):
    """Checkpoints."""

    checkpoints: list[Checkpoint]
    next_cursor: Opt[str] = None


class ToolExchange(Shape):
    """Tool calls without their results, at the end of what a revert kept: models refuse such a history."""

    index: Count
    """Of the message that makes the calls; where healed, of the first message that went for it."""
    open_calls: list[str]
    """Ids of the calls without a result."""
    healed: bool
    """Whether the log was cut back to before them."""


class RewriteResult(WithFiles, Head):
    """What a change of the whole log did, or (dry run) would do."""

    timeline_id: Opt[str] = None
    """The timeline that has the log before it; absent in a dry run, and where that log was empty."""
    removed: Removed
    context: ContextSummary
    """After it."""
    tool_exchange: Opt[ToolExchange] = None
    """Present when a revert went into the middle of a tool exchange."""


class HistoryStep(Shape):
    """A step that was undone or redone."""

    kind: Literal["revert", "clear", "compact", "fold", "restore", "dmail"]
    timeline_id: Opt[str] = None
    """The timeline that it brought back; absent for an empty log."""


class UndoResult(RewriteResult):
    """What undo or redo did, or (dry run) would do."""

    steps: list[HistoryStep]
    """In the order in which they were undone or redone."""
    can_undo: Count
    can_redo: Count


class DeliverDMailResult(RewriteResult):
    """What the delivery of a D-Mail did, or (dry run) would do."""

    checkpoint: Opt[Checkpoint] = None
    """The new checkpoint before the note; absent in a dry run."""


class BodyLoss(Loss):
    """What a body does not say as the history does. Of `kind` and `message` the first is one of these words.

    Left out: `think`, `image`, `audio`, `video`, `part` (unknown), `name`, `toolCall` (no call of a function), `empty`.
    Said in another way: `toolName`, `arguments`, `role`, `system`. `openCall`: a call got a result of ours;
    `orphanResult`: a result without a call is a user's text; `order`: moved to where the provider wants it;
    `userAdded`: a message of ours, as the provider wants one there.
    """

    index: Opt[Count] = None
    """Of the message; absent where it is about the body as a whole."""


class _OrRecords:
    """Makes a list of messages that may have records among them: those alone who ask for these tell them apart.

    It is published as a list of messages: else every generated client would have to (`generate.schema` has the other).
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(list[HistoryMessage | LogRecord])

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "items": {"$ref": handler(schema)["items"]["anyOf"][0]["$ref"]}}


class GetHistoryResult(ReadShape):
    """A page of the history; or, with `format`, the body of a request."""

    messages: Annotated[list[HistoryMessage], _OrRecords()]
    """Empty with `format`. With `include` some of them are a `LogRecord`: an opaque record as it was sent, and its line."""
    next_cursor: Opt[str] = None
    format: Opt[BodyFormat] = None
    body: Opt[JsonObject] = None
    """`messages`, for Anthropic also `system`; model, tools and limits are the caller's to add."""
    losses: Opt[list[BodyLoss]] = None
    """At most 1,000, by message."""
    loss_count: Opt[Count] = None
    """How many there are."""


class GetRecordsResult(ReadShape):
    """Lines of the log, control records included."""

    records: list[LogRecord]
    next: Opt[Count] = None
    """`from` of the next page."""
    next_cursor: Opt[str] = None
    """The same as a cursor: it is refused once the log was rewritten."""


class ListTimelinesResult(ReadShape):
    """Timelines, newest first."""

    timelines: list[Timeline]
    next_cursor: Opt[str] = None


class DMailArrival(Shape):
    """Where a D-Mail to another session arrived."""

    session_id: str
    """What the session is called where it is owned."""
    head: str
    """Its head then."""
    index: Opt[Count] = None
    """Of the note's message in its history; absent for a D-Mail that waits there."""


class SendDMailResult(Head):
    """The D-Mail that now waits, in the session it was sent to."""

    pending_dmail: PendingDMail | None = Field(alias="pendingDMail")
    """Null where it arrived as a note."""
    index: Opt[Count] = None
    """Of the note's message, where `sessionId` got it as from another session."""
    to: Opt[DMailArrival] = None
    """Present where it went to another session; `head` is the sender's."""
