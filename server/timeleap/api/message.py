"""Messages: who says what, which tools are called, and what they answered.

The JSON form is that of the original program: content that is one text part is written as a plain string, anything
else as a list of parts; fields that are None are left out of the log. Every class of parts registers itself under its
`type`; a part of a type nobody registered is kept whole as an `UnknownPart`, so a log of a newer program can be read,
copied and written without loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    JsonValue,
    ValidationError,
    field_serializer,
    field_validator,
)
from pydantic_core import core_schema

from timeleap.message_text import CHARS_PER_TOKEN


class MergeableMixin:
    """Something that arrives in pieces over a stream."""

    def merge_in_place(self, other: Any) -> bool:
        """Take over what `other` adds.

        Args:
            other: The piece that arrived next.

        Returns:
            Whether it was taken over; if not, `other` starts something new.
        """
        return False


class ContentPart(BaseModel, MergeableMixin):
    """A part of a message's content; the base of all kinds.

    A subclass gives its `type` a default, which is the name it is found by:

        class CitationPart(ContentPart):
            type: str = "citation"
            source: str

    Validating a dict against `ContentPart` itself yields an object of the class registered for its `type`.
    """

    __content_part_registry: ClassVar[dict[str, type[ContentPart]]] = {}

    type: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Pydantic has not made fields of the annotations yet: what a class body assigns is still an attribute.
        name = getattr(cls, "type", None)
        if not isinstance(name, str):
            raise ValueError(f"{cls.__name__} must give its field `type` a default of type str")
        if name:
            cls.__content_part_registry[name] = cls

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Dispatch on `type` for the base class; the ordinary schema for every subclass."""
        if BaseModel not in cls.__bases__:  # the name ContentPart is not bound yet while its own class is made
            return handler(source)
        return core_schema.no_info_plain_validator_function(cls._of_any)

    @classmethod
    def _of_any(cls, value: Any) -> ContentPart:
        if isinstance(value, ContentPart):
            return value
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise ValueError("a content part is an object with a string `type`")
        return cls.__content_part_registry.get(value["type"], UnknownPart).model_validate(value)


class UnknownPart(ContentPart):
    """A part of a type that is not registered, with all its fields."""

    model_config = ConfigDict(extra="allow")

    type: str = ""


class TextPart(ContentPart):
    """Text.

    >>> TextPart(text="On it.").model_dump()
    {'type': 'text', 'text': 'On it.'}
    """

    type: str = "text"
    text: str

    def merge_in_place(self, other: Any) -> bool:
        """Append the text of another text part."""
        if not isinstance(other, TextPart):
            return False
        self.text += other.text
        return True


class ThinkPart(ContentPart):
    """The thought of a model before its answer.

    >>> ThinkPart(think="Which file was it?").model_dump()
    {'type': 'think', 'think': 'Which file was it?', 'encrypted': None}
    """

    type: str = "think"
    think: str
    encrypted: str | None = None
    """The thought's encrypted form or signature, as some models demand it back."""

    def merge_in_place(self, other: Any) -> bool:
        """Append another thought; a signature closes the thought, nothing can be added to it."""
        if not isinstance(other, ThinkPart) or self.encrypted:
            return False
        self.think += other.think
        self.encrypted = other.encrypted or self.encrypted
        return True


class _URL(BaseModel):
    url: str
    """An address, or the data itself as a `data:` URI."""
    id: str | None = None
    """A name by which a model can tell this one from others."""


class ImageURLPart(ContentPart):
    """A picture, by its URL.

    >>> ImageURLPart(image_url=ImageURLPart.ImageURL(url="https://example.com/a.png")).model_dump()
    {'type': 'image_url', 'image_url': {'url': 'https://example.com/a.png', 'id': None}}
    """

    class ImageURL(_URL):
        """The address of a picture."""

    type: str = "image_url"
    image_url: ImageURL


class AudioURLPart(ContentPart):
    """A sound, by its URL.

    >>> AudioURLPart(audio_url=AudioURLPart.AudioURL(url="https://example.com/a.mp3")).model_dump()
    {'type': 'audio_url', 'audio_url': {'url': 'https://example.com/a.mp3', 'id': None}}
    """

    class AudioURL(_URL):
        """The address of a sound."""

    type: str = "audio_url"
    audio_url: AudioURL


class VideoURLPart(ContentPart):
    """A film, by its URL.

    >>> VideoURLPart(video_url=VideoURLPart.VideoURL(url="https://example.com/a.mp4")).model_dump()
    {'type': 'video_url', 'video_url': {'url': 'https://example.com/a.mp4', 'id': None}}
    """

    class VideoURL(_URL):
        """The address of a film."""

    type: str = "video_url"
    video_url: VideoURL


Role = Literal["system", "user", "assistant", "tool"]
"""Author of a message."""


class ToolCallPart(BaseModel, MergeableMixin):
    """A piece of a tool call's arguments, as a model streams them."""

    arguments_part: str | None = None

    def merge_in_place(self, other: Any) -> bool:
        """Append the arguments of another piece."""
        if not isinstance(other, ToolCallPart):
            return False
        self.arguments_part = _joined(self.arguments_part, other.arguments_part)
        return True


class ToolCall(BaseModel, MergeableMixin):
    """A tool the assistant asks for.

    >>> call = ToolCall(id="c1", function=ToolCall.FunctionBody(name="ls", arguments="{}"))
    >>> call.model_dump(exclude_none=True)
    {'type': 'function', 'id': 'c1', 'function': {'name': 'ls', 'arguments': '{}'}}
    """

    class FunctionBody(BaseModel):
        """The function to call, and its arguments."""

        name: str
        arguments: str | None
        """The arguments as JSON text."""

    type: Literal["function"] = "function"
    id: str
    """The id that the tool's answer refers to (`Message.tool_call_id`)."""
    function: FunctionBody
    extras: dict[str, JsonValue] | None = None
    """Further data that the model's provider wants to see again."""

    def merge_in_place(self, other: Any) -> bool:
        """Append a streamed piece of the arguments."""
        if not isinstance(other, ToolCallPart):
            return False
        self.function.arguments = _joined(self.function.arguments, other.arguments_part)
        return True


class Message(BaseModel):
    """A message of a conversation.

    Args:
        role: Who it is from.
        content: A text, a part, or a list of parts; an empty list means no content.
        tool_calls: The tools an assistant asks for.
        tool_call_id: The call a tool's message answers.
        **data: `name`, `partial`.
    """

    role: Role
    name: str | None = None
    content: list[ContentPart]
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    partial: bool | None = None

    def __init__(
        self,
        *,
        role: Role,
        content: list[ContentPart] | ContentPart | str,
        tool_calls: list[ToolCall] | None = None,
        tool_call_id: str | None = None,
        **data: Any,
    ) -> None:
        parts = [content] if isinstance(content, ContentPart) else content
        super().__init__(role=role, content=parts, tool_calls=tool_calls, tool_call_id=tool_call_id, **data)

    @field_validator("content", mode="before")
    @classmethod
    def _parts_of(cls, value: Any) -> Any:
        if value is None:
            return []
        return [TextPart(text=value)] if isinstance(value, str) else value

    @field_serializer("content")
    def _plain_if_text(self, content: list[ContentPart]) -> str | list[dict[str, Any]]:
        if len(content) == 1 and isinstance(content[0], TextPart):
            return content[0].text
        return [part.model_dump() for part in content]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Message:
        """The message a log record stands for.

        Unlike `model_validate` this accepts what only newer or other programs write (a role we do not know, a part
        without the fields of its type, no content), because a log must stay readable whatever wrote it.

        Args:
            record: The record's JSON object.
        """
        try:
            return cls.model_validate(record)
        except (ValidationError, TypeError):  # TypeError: a field that the constructor demands is missing
            return _lenient(record)

    def extract_text(self, sep: str = "") -> str:
        """The text parts, joined by `sep`."""
        return sep.join(part.text for part in self.content if isinstance(part, TextPart))


def system(message: str) -> TextPart:
    """A text part that speaks for the system, not for the user."""
    return TextPart(text=f"<system>{message}</system>")


def _joined(first: str | None, second: str | None) -> str | None:
    return second if first is None else first + (second or "")


def _lenient(record: Mapping[str, Any]) -> Message:
    content = record.get("content")
    raw: list[Any] = [content] if isinstance(content, str | dict) else content if isinstance(content, list) else []
    calls = record.get("tool_calls")
    return Message.model_construct(
        role=record.get("role"),
        name=_text_or_none(record.get("name")),
        content=[_lenient_part(part) for part in raw],
        tool_calls=[call for item in calls if (call := _lenient_call(item))] if isinstance(calls, list) else None,
        tool_call_id=_text_or_none(record.get("tool_call_id")),
        partial=record.get("partial") is True or None,
    )


def _lenient_part(value: Any) -> ContentPart:
    if isinstance(value, str):
        return TextPart(text=value)
    try:
        return Message(role="user", content=[value]).content[0]
    except ValidationError:
        fields = {str(key): item for key, item in value.items()} if isinstance(value, dict) else {"value": value}
        return UnknownPart.model_validate({**fields, "type": str(fields.get("type", ""))})


def _lenient_call(value: Any) -> ToolCall | None:
    if isinstance(value, dict) and isinstance(function := value.get("function"), dict):
        # The original leaves out arguments that are None when it writes, and then cannot read them.
        value = {**value, "function": {"arguments": None, **function}}
    try:
        return ToolCall.model_validate(value)
    except ValidationError:
        return None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def estimate_text_tokens(messages: Sequence[Message]) -> int:
    """Estimate the tokens of `messages`; thoughts, media and tool calls do not count."""
    return sum(len(message.extract_text()) for message in messages) // CHARS_PER_TOKEN
