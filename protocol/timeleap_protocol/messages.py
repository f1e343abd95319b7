"""What a message looks like, for readers and schema generators.

Messages travel as the log's own JSON values: no model validates them, key order and unknown members are kept. The
classes here only describe them (JSON Schema, TypeScript); their member names are the log's, not camelCase.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from timeleap_protocol.base import JsonObject, Opt, WireRoot


class _Described(BaseModel):
    """Base of descriptions: nothing is refused, nothing is renamed."""

    model_config = ConfigDict(defer_build=True, extra="allow")


class TextPart(_Described):
    """Text."""

    type: Literal["text"]
    text: str


class ThinkPart(_Described):
    """What the model thought before it answered."""

    type: Literal["think"]
    think: str
    encrypted: str | None = None
    """The provider's signature or opaque form of the thought."""


class MediaUrl(_Described):
    """Where the data of a media part is: a URL, often a `data:` one."""

    url: str
    id: str | None = None


class ImagePart(_Described):
    """An image."""

    type: Literal["image_url"]
    image_url: MediaUrl


class AudioPart(_Described):
    """A sound."""

    type: Literal["audio_url"]
    audio_url: MediaUrl


class VideoPart(_Described):
    """A video."""

    type: Literal["video_url"]
    video_url: MediaUrl


class OtherPart(_Described):
    """A part of a type this version does not know; it is kept as it is."""

    type: str


class FunctionCall(_Described):
    """The function a model wants to be called, and with what."""

    name: str
    arguments: str | None = None
    """JSON text, as the model produced it."""


class ToolCall(_Described):
    """One call a model asks for."""

    id: str
    type: Opt[Literal["function"]] = None
    function: FunctionCall


class Message(_Described):
    """One message of the conversation. Members beyond these are kept, and so is the order of all."""

    role: Annotated[str, Field(json_schema_extra={"pattern": "^[^_]", "minLength": 1})]
    """`user`, `assistant`, `tool`, `system` or another one; never beginning with `_`."""
    content: str | list[TextPart | ThinkPart | ImagePart | AudioPart | VideoPart | OtherPart] | None = None
    """Text, or parts."""
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    """The calls an assistant's message asks for."""
    tool_call_id: str | None = None
    """In a tool's message: the call it answers."""
    partial: bool | None = None
    """Whether the message is still being written."""


class NewThinkPart(_Described):
    """What the model thought before it answered."""

    type: Literal["think"]
    think: str
    encrypted: Opt[str] = None
    """The provider's signature or opaque form of the thought."""


class NewMediaUrl(_Described):
    """Where the data of a media part is: a URL, often a `data:` one."""

    url: str
    id: Opt[str] = None


class NewImagePart(_Described):
    """An image."""

    type: Literal["image_url"]
    image_url: NewMediaUrl


class NewAudioPart(_Described):
    """A sound."""

    type: Literal["audio_url"]
    audio_url: NewMediaUrl


class NewVideoPart(_Described):
    """A video."""

    type: Literal["video_url"]
    video_url: NewMediaUrl


class NewFunctionCall(_Described):
    """The function a model wants to be called, and with what."""

    name: str
    arguments: Opt[str] = None
    """JSON text, as the model produced it."""


class NewToolCall(_Described):
    """One call a model asks for."""

    id: str
    type: Opt[Literal["function"]] = None
    function: NewFunctionCall


class NewMessage(_Described):
    """A message to be appended. What is unset is best left out: a null is stored as it is sent.

    Members beyond these are kept, and so is the order of all.
    """

    role: Annotated[str, Field(json_schema_extra={"pattern": "^[^_]", "minLength": 1})]
    """`user`, `assistant`, `tool`, `system` or another one; never beginning with `_`."""
    content: Opt[str | list[TextPart | NewThinkPart | NewImagePart | NewAudioPart | NewVideoPart | OtherPart]] = None
    """Text, or parts."""
    name: Opt[str] = None
    tool_calls: Opt[list[NewToolCall]] = None
    """The calls an assistant's message asks for."""
    tool_call_id: Opt[str] = None
    """In a tool's message: the call it answers."""
    partial: Opt[bool] = None
    """Whether the message is still being written."""


class OpaqueRecord(_Described):
    """A record of a client's own, which is kept byte for byte and is no part of the history."""

    role: Annotated[str, Field(json_schema_extra={"pattern": "^_[a-z0-9-]{1,32}$"})]
    """`_` and a name; not `_checkpoint` or `_usage`."""
    content: str
    """Empty if there is none."""


class NewRecord(_Described):
    """An opaque record to be appended."""

    record: OpaqueRecord


class NewCheckpointLabel(_Described):
    """How the checkpoint is called."""

    label: Opt[str] = None


class NewCheckpoint(_Described):
    """A checkpoint to be written before what follows it, as one step with it."""

    checkpoint: NewCheckpointLabel


class NewTokenCount(_Described):
    """The input tokens the model reported, to be noted as one step with what is appended."""

    token_count: Annotated[int, Field(ge=0, alias="tokenCount")]


class NewItem(WireRoot[NewMessage | NewRecord | NewCheckpoint | NewTokenCount]):
    """A message to be appended, an opaque record, a checkpoint or a token count."""


class _DescribedBy:
    """Validates as the annotated type says; the JSON Schema is that of a describing class."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler(source)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        del schema
        self._model.model_rebuild()
        return handler(self._model.__pydantic_core_schema__)


MessageObject = Annotated[JsonObject, _DescribedBy(Message)]
"""A message as the protocol carries it: any JSON object. The server judges its role and content."""

NewItemObject = Annotated[JsonObject, _DescribedBy(NewItem)]
"""A message on its way to the server, an opaque record, a checkpoint or a token count."""

NewMessageObject = Annotated[JsonObject, _DescribedBy(NewMessage)]
"""The same on its way to the server; described without the nulls that a log may hold."""
