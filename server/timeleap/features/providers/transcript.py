"""A conversation as providers of models see it: turns of a few known pieces, each tool's result beside its call.

Logs hold more than providers accept: keys and parts of other programs, results far from their calls, calls that were
never answered. Here all of that is put in order once for every provider, and what is lost by it is noted.

The formats are those of OpenAI's Chat Completions (`POST /v1/chat/completions`) and of Anthropic's Messages API
(`POST /v1/messages`, version 2023-06-01), as their references and their official Python libraries' types describe them;
the limits that only their error messages tell are constants beside the code that keeps them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec
from msgspec import Struct, field

from timeleap.errors import TimeleapError, TooLargeError
from timeleap.json_value import Json
from timeleap.message_text import without_halves
from timeleap.storage.record import decode_strictly, encode_json

MOST: Final = 1000
"""Losses that are listed; the rest is counted."""


class Loss(Struct, frozen=True):
    """A difference between a body and the history (see `BodyLoss` of the protocol)."""

    index: int | None
    kind: str
    message: str


class Losses:
    """All differences of a body; `count` is their number, unlisted ones included."""

    def __init__(self) -> None:
        self.count = 0
        self._listed: list[Loss] = []

    def add(self, index: int | None, kind: str, message: str) -> None:
        self.count += 1
        if len(self._listed) < MOST:
            self._listed.append(Loss(index, kind, message))

    def listed(self) -> list[Loss]:
        """At most `MOST`, by message; what is about none comes last."""
        return sorted(self._listed, key=lambda loss: (loss.index is None, loss.index or 0))


MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that every provider takes."""


class Picture(Struct, frozen=True):
    """A picture that can be sent: its address on the web, or its data in base64.

    Attributes:
        detail: How closely a model should look, as its user has said.
    """

    url: str = ""
    media_type: str = ""
    data: str = ""
    detail: str | None = None


def _picture_at(image_url: Any) -> Picture | None:
    """The picture of an `image_url` part; None for what no provider takes, such as a file of this machine."""
    url = image_url.get("url") if isinstance(image_url, Mapping) else image_url
    if not isinstance(url, str):
        return None
    detail = image_url.get("detail") if isinstance(image_url, Mapping) else None
    detail = detail if isinstance(detail, str) and detail in {"auto", "low", "high"} else None
    if url[:5].lower() == "data:":
        return _inline(url[5:], detail)
    return Picture(url=url, detail=detail) if _on_the_web(url) else None


def _inline(rest: str, detail: str | None) -> Picture | None:
    head, comma, body = rest.partition(",")
    media_type, *options = head.lower().split(";")
    media_type = "image/jpeg" if media_type == "image/jpg" else media_type
    if not comma or media_type not in MEDIA_TYPES or not body:
        return None
    raw = unquote_to_bytes(body) if "%" in body else body.encode("utf-8", "replace")
    if "base64" in options:
        try:
            raw = base64.b64decode(b"".join(raw.split()), validate=True)
        except binascii.Error:
            return None
    return Picture(media_type=media_type, data=base64.b64encode(raw).decode(), detail=detail) if raw else None


def _on_the_web(url: str) -> bool:
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


DEEPEST: Final = 100
"""Nesting of arguments; deeper ones are sent as text."""


def _json_object(arguments: str) -> Json | None:
    """The object that a JSON text is; None for anything else."""
    try:
        found = decode_strictly(arguments or "{}")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) and not _deeper(found, DEEPEST) else None


def _deeper(value: Any, left: int) -> bool:
    if isinstance(value, Mapping):
        return left == 0 or any(_deeper(each, left - 1) for each in value.values())
    return isinstance(value, list) and (left == 0 or any(_deeper(each, left - 1) for each in value))


LONGEST_TOOL_NAME: Final = 64

_NOT_PLAIN: Final = re.compile(r"[^a-zA-Z0-9_-]")


def _plain(name: str) -> str:
    """A tool's name, or a call's id, of letters, digits, `_` and `-` only; never empty."""
    return _NOT_PLAIN.sub("_", name) or "_"


class Ids:
    """The ids of the calls of one body, each used once: of at most `longest` characters, and unless `any_character` of
    letters, digits, `_` and `-` only."""

    def __init__(self, longest: int, *, any_character: bool) -> None:
        self._longest = longest
        self._any = any_character
        self._taken: set[str] = set()
        self._again: dict[str, int] = {}

    def of(self, wanted: str) -> str:
        """The id of the next call: the wanted one if that can be had."""
        base = (wanted if self._any and wanted.isprintable() and wanted else _plain(wanted))[: self._longest]
        found = base
        while found in self._taken:
            number = self._again[base] = self._again.get(base, 1) + 1
            found = f"{base[: self._longest - 1 - len(str(number))]}_{number}"
        self._taken.add(found)
        return found


Role = Literal["system", "user", "assistant"]

NO_RESULT: Final = "(There is no result: the call was interrupted or its result was lost.)"
NO_CALL: Final = "(A tool's result, whose call is not part of this conversation:)"

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_MEDIA: Final = {"image_url": "an image", "audio_url": "audio", "video_url": "a video"}
_LEAST: Final = 30  # bytes that a turn or a call takes in any body, whatever it says


class Text(Struct, frozen=True):
    text: str


class Thought(Struct, frozen=True):
    """A thought of an assistant, signed by its provider."""

    text: str
    signature: str


Piece = Text | Picture | Thought


class TranscriptCall(Struct):
    """A call of a tool; `result` is None while it waits."""

    id: str
    name: str
    arguments: str
    result: list[Piece] | None = None

    def as_sent(self, index: int, losses: Losses) -> tuple[str, Json | None]:
        """The tool's name as providers take it, and the arguments as an object, or None if they are no object."""
        name = _plain(self.name)[:LONGEST_TOOL_NAME]
        if name != self.name:
            losses.add(index, "toolName", f"the tool {self.name[:80]} is called {name} here")
        found = _json_object(self.arguments)
        if found is None:
            losses.add(index, "arguments", f"the arguments of {name} are no JSON object; they are sent as text")
        return name, found


class Turn(Struct):
    """The content of a message: a user's text and pictures, the system's text, an assistant's text and thoughts.

    Attributes:
        index: Of the message.
        pieces: Not empty, unless there are calls.
        name: Of its author.
        calls: The tools it calls, an assistant's only.
    """

    index: int
    role: Role
    pieces: list[Piece]
    name: str | None = None
    calls: list[TranscriptCall] = field(default_factory=list)


class Format(Struct, frozen=True):
    """The format of a provider's request body.

    Attributes:
        body: Makes the body of a transcript that is finished, and adds to its losses what is lost on the way.
        thought: True for the signature of a thought that the provider accepts.
        picture: True for a picture that it accepts.
    """

    body: Callable[[Transcript], Json]
    thought: Callable[[str], bool]
    picture: Callable[[Picture], bool]


class Transcript:
    """The turns of a conversation, read message by message.

    Args:
        system_prompt: The one in force.
        form: Says what is taken; the rest is left out.
        max_bytes: What a body may have. More is refused as soon as it is certain.

    Attributes:
        system: The system prompt, where there is one.
        turns: In order.
        losses: What the turns do not say as the messages do.
    """

    def __init__(self, system_prompt: str | None, form: Format, max_bytes: int) -> None:
        self.system = without_halves(system_prompt) if system_prompt and not system_prompt.isspace() else None
        self.turns: list[Turn] = []
        self.losses = Losses()
        self._form = form
        self._waiting: dict[str, list[tuple[Turn, TranscriptCall]]] = {}
        self._max_bytes = max_bytes
        self._bytes = 0

    def add(self, index: int, record: Mapping[str, Any]) -> None:
        """Take in the next message, in its JSON form.

        Raises:
            TooLargeError: No body of all this has so few bytes.
        """
        role = str(record.get("role"))
        pieces = list(self._pieces(index, role, record.get("content")))
        if role == "tool":
            self._answer(index, record.get("tool_call_id"), pieces)
            return
        known = _ROLES.get(role, "user")
        if role not in _ROLES and pieces:
            pieces.insert(0, Text(f"({without_halves(role)}:)"))
            self.losses.add(index, "role", f"the role {role[:80]} is a user's, and named in the text")
        calls = list(self._calls(index, record.get("tool_calls"))) if role == "assistant" else []
        if not calls:
            self._drop_last_thoughts(index, pieces)
        if not pieces and not calls:
            self.losses.add(index, "empty", "the message says nothing and is left out")
            return
        name = record.get("name")
        self._say(Turn(index, known, pieces, name if isinstance(name, str) and name else None, calls))

    def finish(self) -> None:
        """Give every call that was never answered a result of ours."""
        for turn in self.turns:
            for call in turn.calls:
                if call.result is None:
                    call.result = [Text(NO_RESULT)]
                    self.losses.add(turn.index, "openCall", f"the call {call.id[:80]} has no result; one says so now")

    def _say(self, turn: Turn) -> None:
        self.turns.append(turn)
        by_id: dict[str, list[tuple[Turn, TranscriptCall]]] = {}
        for call in turn.calls:
            by_id.setdefault(call.id, []).append((turn, call))
        self._waiting.update(by_id)  # models use ids again: a result belongs to the nearest call before it
        self._count(_LEAST + sum(_LEAST + len(call.arguments) for call in turn.calls))

    def _answer(self, index: int, call_id: Any, pieces: list[Piece]) -> None:
        waiting = self._waiting.get(call_id) if isinstance(call_id, str) else None
        if not waiting:
            self.losses.add(
                index, "orphanResult", f"the result of {str(call_id)[:80]} has no call; it is a user's text"
            )
            self._say(Turn(index, "user", [Text(NO_CALL), *pieces]))
            return
        turn, call = waiting.pop(0)
        call.result = pieces
        if turn is not self.turns[-1]:
            self.losses.add(index, "order", "the result stands directly after its call, before what came between")

    def _pieces(self, index: int, role: str, content: Any) -> Iterator[Piece]:
        parts: Sequence[Any] = content if isinstance(content, list) else [content]
        for part in parts:
            fields: Mapping[str, Any] = part if isinstance(part, Mapping) else {"type": "text", "text": part}
            kind = fields.get("type")
            if kind == "think":
                yield from self._thought(index, role, fields)
            elif kind == "text" and isinstance(text := fields.get("text"), str):
                if text and not text.isspace():
                    self._count(len(text))
                    yield Text(without_halves(text))
            elif kind == "image_url" and (picture := self._picture(role, fields.get("image_url"))):
                self._count(len(picture.url) + len(picture.data))
                yield picture
            elif part is not None:
                what = _MEDIA.get(str(kind), "a part")
                self.losses.add(index, what.split()[-1], f"{what} that cannot be sent there is left out")
                yield Text(f"({what.split()[-1]} left out)")

    def _picture(self, role: str, image_url: Any) -> Picture | None:
        picture = _picture_at(image_url)
        shows = _ROLES.get(role, "user") == "user"
        return picture if picture is not None and shows and self._form.picture(picture) else None

    def _thought(self, index: int, role: str, part: Mapping[str, Any]) -> Iterator[Thought]:
        match role, part:
            case "assistant", {"think": str(text), "encrypted": str(signature)} if self._form.thought(signature):
                self._count(len(text) + len(signature))
                yield Thought(without_halves(text), without_halves(signature))
            case _:
                self.losses.add(index, "think", "a thought that cannot be sent there is left out")

    def _drop_last_thoughts(self, index: int, pieces: list[Piece]) -> None:
        """A message does not end with a thought."""
        while pieces and isinstance(pieces[-1], Thought):
            pieces.pop()
            self.losses.add(index, "think", "a thought that leads to nothing is left out")

    def _calls(self, index: int, calls: Any) -> Iterator[TranscriptCall]:
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, Mapping) else None
            name = function.get("name") if isinstance(function, Mapping) else None
            if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
                self.losses.add(index, "toolCall", "a call that names no function is left out")
                continue
            call_id = call.get("id")
            arguments = self._arguments(index, function.get("arguments"))
            yield TranscriptCall(call_id if isinstance(call_id, str) else "", name, arguments)

    def _arguments(self, index: int, found: Any) -> str:
        """The arguments of a call as JSON text, whether they were kept as text or as a value."""
        if isinstance(found, str):
            return without_halves(found) or "{}"
        try:
            return "{}" if found is None else encode_json(found).decode()
        except TimeleapError:
            self.losses.add(index, "arguments", "the arguments of a call are no JSON and are left out")
            return "{}"

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._max_bytes:
            raise too_large(self._max_bytes)


def too_large(max_bytes: int) -> TooLargeError:
    """The body would have more than it may."""
    message = f"the body has more than {max_bytes} bytes; ask for a part of the history (from, to), or compact it"
    return TooLargeError(message, limit="maxBytes", maximum=max_bytes)
