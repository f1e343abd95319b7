"""The parts of a message: text, thoughts, media, and parts that programs of our users define.

Every class registers itself under its `type`. A part of a type nobody registered is kept whole as an `UnknownPart`, so
a log of a newer program can be read, copied and written without loss.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import core_schema


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
    """One part of a message's content; the base of all kinds.

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


class ImageURLPart(ContentPart):
    """A picture, by its URL.

    >>> ImageURLPart(image_url=ImageURLPart.ImageURL(url="https://example.com/a.png")).model_dump()
    {'type': 'image_url', 'image_url': {'url': 'https://example.com/a.png', 'id': None}}
    """

    class ImageURL(BaseModel):
        """The address of a picture."""

        url: str
        """An address, or the data itself as a `data:` URI."""
        id: str | None = None
        """A name by which a model can tell this picture from others."""

    type: str = "image_url"
    image_url: ImageURL


class AudioURLPart(ContentPart):
    """A sound, by its URL.

    >>> AudioURLPart(audio_url=AudioURLPart.AudioURL(url="https://example.com/a.mp3")).model_dump()
    {'type': 'audio_url', 'audio_url': {'url': 'https://example.com/a.mp3', 'id': None}}
    """

    class AudioURL(BaseModel):
        """The address of a sound."""

        url: str
        """An address, or the data itself as a `data:` URI."""
        id: str | None = None
        """A name by which a model can tell this sound from others."""

    type: str = "audio_url"
    audio_url: AudioURL


class VideoURLPart(ContentPart):
    """A film, by its URL.

    >>> VideoURLPart(video_url=VideoURLPart.VideoURL(url="https://example.com/a.mp4")).model_dump()
    {'type': 'video_url', 'video_url': {'url': 'https://example.com/a.mp4', 'id': None}}
    """

    class VideoURL(BaseModel):
        """The address of a film."""

        url: str
        """An address, or the data itself as a `data:` URI."""
        id: str | None = None
        """A name by which a model can tell this film from others."""

    type: str = "video_url"
    video_url: VideoURL
