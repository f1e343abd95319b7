"""The journal of an agent of kimi-code (`wire.jsonl`): what its records say, one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import Struct

from timeleap import clock
from timeleap.json_value import Json
from timeleap_agents.mirrors.formats.conversion import JsonLine, image_part, parts_in, sound, text_part, think_part
from timeleap_agents.mirrors.formats.said_by import words_of_person

MAIN: Final = "main"
"""The name of a session's own agent, and of the branch that a journal begins with."""
TOKENS_OF_MEDIA: Final = 2_000
MEDIA: Final = frozenset({"image_url", "audio_url", "video_url"})

Kind = Literal["message", "begin", "end", "part", "call", "result", "compaction", "clear", "undo", "switch"]
_LOOP_EVENTS: Final[dict[str, Kind]] = {
    "step.begin": "begin",
    "step.end": "end",
    "content.part": "part",
    "tool.call": "call",
    "tool.result": "result",
}
_CHANGES: Final[dict[str, Kind]] = {
    "context.append_message": "message",
    "context.apply_compaction": "compaction",
    "context.clear": "clear",
    "context.undo": "undo",
    "agent.switched": "switch",
}
_ROLES: Final = frozenset({"user", "assistant", "tool", "system"})
_OF_STATE: Final = (
    "metadata", "context.undone", "context.spliced", "turn.", "prompt.", "agent.", "human.", "runtime.", "profile.",
    "permission.", "plugin.", "llm.", "usage.", "token_counting.", "tools.", "tool.", "plan.", "todo.", "goal.", "task.",
    "cron.", "config.", "session.", "swarm.", "skill.", "compaction.", "full_compaction.", "staleGuard.", "hook.", "mcp.",
    "subagent.", "notification.", "interaction.", "approval.", "question.", "file_history.", "fileHistory.", "reminder.",
)  # fmt: skip
"""How the types of records begin that are state, or say once more what stands in the context."""


class JournalEntry(Struct, frozen=True, array_like=True):
    """A record that makes or changes messages.

    Attributes:
        line: Its number among the lines that are not blank, from 1.
        time: ISO-8601 UTC; None where it names none.
        step: Of a loop event: the id of its step.
        call: The id of the call that it makes or answers. `calls`: those of a whole message.
        origin: By whom a message is: `user`, `injection` and others; empty where that is not said.
        anchor: An undo counts it.
        kept: A compaction keeps it.
        prompt: A person typed it.
        id: Of a message. `owner`: of the prompt that an injection belongs to.
        blank: Nothing is in it that the program would send.
        tokens: As the program estimates them.
        count: Of prompts that an undo takes back; of messages that a compaction of the older form replaces, else -1.
        branch: That a switch begins, at `base_line` of `base`. `paired`: the line of an undo that it stands for.
    """

    line: int
    offset: int
    length: int
    time: str | None
    kind: Kind
    step: str = ""
    call: str = ""
    calls: tuple[str, ...] = ()
    role: str = ""
    origin: str = ""
    anchor: bool = False
    kept: bool = False
    prompt: bool = False
    id: str = ""
    owner: str = ""
    blank: bool = False
    tokens: int = 0
    count: int = -1
    branch: str = ""
    base: str = ""
    base_line: int = 0
    paired: int = -1


def entry_of(line: JsonLine, record: Json, number: int) -> JournalEntry | None:
    """The change that a record makes; None where that is none."""
    kind = record.get("type")
    place: Any = {"line": number, "offset": line.offset, "length": line.length, "time": time_of(record.get("time"))}
    if kind == "context.append_loop_event":
        return _loop_entry(record.get("event"), place)
    known = _CHANGES.get(kind) if isinstance(kind, str) else None
    if known == "message":
        return _message_entry(record.get("message"), place)
    if known == "compaction":
        kept, count = record.get("keptUserMessageCount"), record.get("compactedCount", record.get("count"))
        older = record.get("legacyTail", kept is None) is True
        return JournalEntry(kind=known, count=count if older and type(count) is int else -1, **place)
    if known == "undo":
        count = record.get("count")
        return JournalEntry(kind=known, count=count, **place) if type(count) is int and count > 0 else None
    if known == "switch":
        return _switch_entry(record, place)
    return JournalEntry(kind=known, **place) if known is not None else None


def is_state(record: Json) -> bool:
    """True of a record that is known to be none of the conversation."""
    return str(record.get("type")).startswith(_OF_STATE)


def _loop_entry(event: Any, place: Json) -> JournalEntry | None:
    kind = _LOOP_EVENTS.get(str(event.get("type"))) if isinstance(event, dict) else None
    if kind is None:
        return None
    step = str(event.get("uuid") if kind in ("begin", "end") else event.get("stepUuid"))
    call = event.get("toolCallId")
    if kind in ("call", "result") and not isinstance(call, str):
        return None
    part = event.get("part")
    blank = kind == "part" and (not isinstance(part, dict) or _is_blank(part))
    if kind == "end":
        blank = event.get("finishReason") in ("interrupted", "error")  # then the step stays open
    return JournalEntry(kind=kind, step=step, call=sound(call) if isinstance(call, str) else "", blank=blank, **place)


def _message_entry(message: Any, place: Json) -> JournalEntry | None:
    if not isinstance(message, dict) or str(message.get("role")) not in _ROLES:
        return None
    found = message.get("origin")
    origin = found if isinstance(found, dict) else {}
    kind = str(origin.get("kind") or "")
    is_user = message["role"] == "user"
    said = is_user and _is_from_person(kind, origin)
    calls = _calls_in(message)
    parts = parts_in(message.get("content"))
    result = message.get("toolCallId")
    return JournalEntry(
        kind="message",
        role=message["role"],
        origin=kind,
        anchor=said and origin.get("inTurn") is not True,
        kept=said,
        prompt=is_user and kind in ("", "user") and words_in(message) is not None,
        id=str(message.get("id") or ""),
        owner=str(origin.get("ownerPromptId") or ""),
        blank=not calls and all(map(_is_blank, parts)),
        tokens=_tokens(message["role"], parts, calls),
        call=sound(result) if isinstance(result, str) else "",
        calls=tuple(sound(call["id"]) for call in calls if isinstance(call.get("id"), str)),
        **place,
    )


def _is_from_person(kind: str, origin: Json) -> bool:
    by_slash = kind in ("skill_activation", "plugin_command") and origin.get("trigger") == "user-slash"
    return kind in ("", "user") or by_slash


def _calls_in(message: Json) -> list[Json]:
    called = message.get("toolCalls")
    return [call for call in called if isinstance(call, dict)] if isinstance(called, list) else []


def _switch_entry(record: Json, place: Json) -> JournalEntry | None:
    base, paired = record.get("base"), record.get("legacyUndoLine")
    if not isinstance(base, dict) or not isinstance(record.get("branch"), str):
        return None
    if not isinstance(base.get("branch"), str) or type(base.get("line")) is not int:
        return None
    return JournalEntry(
        kind="switch",
        branch=record["branch"],
        base=base["branch"],
        base_line=base["line"],
        paired=paired if type(paired) is int else -1,
        **place,
    )


def words_in(message: Json) -> str | None:
    """The words of a message that a person typed; empty of one that is pictures alone; None where it is a program's."""
    origin = message.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    if kind not in (None, "user"):
        return None
    parts = parts_in(message.get("content"))
    texts = [str(part.get("text")) for part in parts if part.get("type") == "text"]
    words = words_of_person(texts)
    if words is None and kind == "user" and any(text.strip() for text in texts):
        words = "\n".join(texts)
    return "" if words is None and len(texts) < len(parts) else words


def shown(part: Json, picture: Callable[[str], str | None]) -> Json | None:
    """A part as a message of ours holds it; None where it has no form here. `picture`: the URL that a picture's stands
    for."""
    kind = part.get("type")
    if kind == "text":
        return text_part(str(part.get("text") or ""))
    if kind == "think":
        return think_part(str(part.get("think") or ""), part.get("encrypted"))
    found = part.get("imageUrl")
    url = found.get("url") if isinstance(found, dict) else None
    if kind == "image_url" and isinstance(url, str) and (known := picture(url)) is not None:
        return image_part(known)
    return None


def time_of(value: object) -> str | None:
    """A time in milliseconds since 1970 as sessions keep it; None for what is none."""
    if type(value) is not int and type(value) is not float:
        return None
    try:
        return clock.iso(datetime.fromtimestamp(value / 1000, UTC).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _is_blank(part: Json) -> bool:
    kind = part.get("type")
    if kind == "text":
        return not str(part.get("text") or "").strip()
    if kind == "think":
        return part.get("encrypted") is None and not str(part.get("think") or "").strip()
    return not _is_media(part)


def _is_media(part: Json) -> bool:
    return isinstance(kind := part.get("type"), str) and kind in MEDIA


def _tokens(role: str, parts: list[Json], calls: list[Json]) -> int:
    said = [role, *(str(part.get("text") or part.get("think") or "") for part in parts if not _is_media(part))]
    called = [text for call in calls for text in (str(call.get("name")), str(call.get("arguments")))]
    return sum(map(estimated, (*said, *called))) + TOKENS_OF_MEDIA * sum(map(_is_media, parts))


def estimated(text: str) -> int:
    """Tokens of a text as the program estimates them: four ASCII characters are one, another is one by itself."""
    plain = len(text) if text.isascii() else sum(character < "\x80" for character in text)
    return -(-plain // 4) + len(text) - plain
