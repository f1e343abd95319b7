"""A session of opencode: which steps its messages and parts make, as the program itself sends them on its next resume.

A message has parts, which the program changes in place; a journal of events says what became of each. What a compaction
sums up, what a revert takes back, and what was deleted behind it are conversations of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from timeleap.json_value import Json
from timeleap_agents.mirrors.formats.conversion import image_part, sound, text_part
from timeleap_agents.mirrors.formats.kimi_code import time_of
from timeleap_agents.mirrors.formats.said_by import words_of_person
from timeleap_agents.mirrors.steps import Step

COMPACTED: Final = "What did we do so far?"
"""Words that the program has the person say before the summary of a compaction."""
SUBTASK: Final = "The following tool was executed by the user"
MOST: Final = 1 << 53
"""Greater numbers than these are none that the program writes."""
_PLACES: Final = ("id", "messageID", "sessionID")
_NOT_SENT: Final = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "retry"})
_OF_ANSWERS: Final = frozenset({"step-start", "step-finish", "reasoning", "tool"})
_OVER: Final = ("completed", "error")

Said = Literal["user", "text", "think", "call", "result"]
_SAID: Final[dict[str, Said]] = {"text": "text", "reasoning": "think"}


class RowPart(Struct, frozen=True, array_like=True):
    """A part of a message.

    Attributes:
        seq: Of the event that made it as it is; -1 where there is none.
        kind: Its type. `digest`: of all it says.
        call: The id of a call; `answered`: whether the call has a result.
        whole: The program is done with it.
        words: Whether it says anything that is sent.
        tail: Of a compaction: the first message that it keeps.
    """

    id: str
    seq: int
    kind: str
    digest: str
    length: int
    call: str = ""
    given: str = ""
    answered: bool = False
    whole: bool = True
    words: bool = False
    tail: str = ""


class RowMessage(Struct, frozen=True, array_like=True):
    """A message without its parts.

    Attributes:
        role: `user` or `assistant`; empty where its row is damaged.
        created: Milliseconds since 1970.
        parent: Of an answer: the id of its prompt.
        summary: It is what a compaction says.
        finished: The program is done with it. `failed`: it ended in an error; `aborted`: because it was interrupted.
        tokens: Of the conversation up to it.
    """

    id: str
    role: str
    created: int
    parent: str = ""
    summary: bool = False
    finished: bool = False
    failed: bool = False
    aborted: bool = False
    tokens: int = 0

    def with_author(self, parts: list[RowPart]) -> RowMessage:
        """The message; where its role is not known, with the one that the kinds of its parts tell."""
        if self.role:
            return self
        is_answer = any(part.kind in _OF_ANSWERS for part in parts)
        return replace(self, role="assistant" if is_answer else "user")

    def compaction(self, parts: list[RowPart]) -> RowPart | None:
        """The part by which the program asks for a compaction."""
        if self.role != "user":
            return None
        return next((part for part in parts if part.kind == "compaction"), None)

    def is_dropped(self, parts: list[RowPart]) -> bool:
        """True if the program does not send it: an answer that ended in an error, but not one that was interrupted."""
        said = any(part.kind not in ("step-start", "reasoning") for part in parts)
        return self.role == "assistant" and self.failed and not (self.aborted and said)


class RowStep(Step, frozen=True):
    """Attributes:
    said: How it is shown.
    parts: Ids of the parts it is made of, with the events that made them (-1: what the rows say).
    tokens: Of the conversation up to here; 0 where that is not known.
    """

    said: Said
    parts: tuple[tuple[str, int], ...]
    call: str = ""
    tokens: int = 0


def message_of(message_id: str, data: Json) -> RowMessage | None:
    """A message without its parts; None for what is none."""
    role, error, times = data.get("role"), data.get("error"), data.get("time")
    if role not in ("user", "assistant"):
        return None
    times = times if isinstance(times, dict) else {}
    created, completed = times.get("created"), times.get("completed")
    return RowMessage(
        sound(message_id),
        role,
        bounded(created),
        parent=sound(str(data.get("parentID") or "")),
        summary=role == "assistant" and bool(data.get("summary")),
        finished=bool(data.get("finish")) or error is not None or completed is not None,
        failed=error is not None,
        aborted=isinstance(error, dict) and error.get("name") == "MessageAbortedError",
        tokens=_tokens(data.get("tokens")),
    )


def bounded(value: object) -> int:
    """A whole number as a database holds it; 0 for what is none."""
    return value if type(value) is int and abs(value) < MOST else 0


def part_of(part_id: str, data: Json, seq: int = -1) -> RowPart:
    """A part, from its row or an event."""
    said = {name: value for name, value in data.items() if name not in _PLACES}
    kind, state, times = sound(str(data.get("type"))[:40]), data.get("state"), data.get("time")
    state = state if isinstance(state, dict) else {}
    text = json.dumps(said, sort_keys=True)
    is_call = kind == "tool"
    is_begun = isinstance(times, dict) and "start" in times and times.get("end") is None
    return RowPart(
        sound(part_id),
        seq,
        kind,
        _digest(text),
        len(text),
        call=sound(str(data.get("callID") or "")) if is_call else "",
        given=_digest(json.dumps([data.get("tool"), state.get("input")], sort_keys=True)) if is_call else "",
        answered=is_call and state.get("status") in _OVER,
        whole=state.get("status") != "pending" if is_call else not is_begun,
        words=_has_words(kind, data),
        tail=sound(str(data.get("tail_start_id") or "")) if kind == "compaction" else "",
    )


def _has_words(kind: str, data: Json) -> bool:
    text = data.get("text")
    if kind == "text":
        return isinstance(text, str) and text != "" and data.get("ignored") is not True
    if kind == "reasoning":
        return isinstance(text, str) and text.strip() != ""
    if kind == "file":
        return data.get("mime") not in ("text/plain", "application/x-directory")
    return kind in ("compaction", "subtask")


def _tokens(told: Any) -> int:
    if not isinstance(told, dict):
        return 0
    cache = told.get("cache")
    numbers = [told.get(name) for name in ("input", "output", "reasoning")]
    numbers += [cache.get(name) for name in ("read", "write")] if isinstance(cache, dict) else []
    return bounded(sum(number for number in numbers if type(number) is int))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


# Steps


def steps_of(message: RowMessage, parts: list[RowPart], *, over: bool) -> list[RowStep]:
    """The steps of a message, whose parts are in their order. `over`: the program adds nothing to it."""
    return _asked(message, parts) if message.role == "user" else _answered(message, parts, over=over)


def _asked(message: RowMessage, every: list[RowPart]) -> list[RowStep]:
    parts = [part for part in every if part.words]
    if not parts:
        return []
    digest = _digest(" ".join(part.digest for part in parts))
    seq, length = max(part.seq for part in parts), sum(part.length for part in parts)
    ids = tuple((part.id, part.seq) for part in parts)
    return [RowStep(f"{message.id}.{digest}", max(seq, 0), length, time_of(message.created), "user", ids)]


def _answered(message: RowMessage, parts: list[RowPart], *, over: bool) -> list[RowStep]:
    """The steps of an answer: of each of its rounds what it says and calls, then the results. A result waits for those of
    earlier calls of its round, as long as the answer goes on."""
    found: list[RowStep] = []
    calls: list[RowPart] = []

    def flush(*, ended: bool) -> None:
        waits = next((number for number, call in enumerate(calls) if not call.answered), len(calls))
        shown = [part for part in (calls if ended else calls[:waits]) if part.answered]
        found.extend(_step(message, part, "result", f"{part.id}.result.{part.digest}") for part in shown)
        calls.clear()

    for part in parts:
        is_ready = part.whole or over
        if part.kind in ("step-start", "step-finish"):
            flush(ended=True)
        elif part.kind in _NOT_SENT:
            continue
        elif part.kind == "tool" and is_ready:
            calls.append(part)
            found.append(_step(message, part, "call", f"{part.id}.call.{part.given}"))
        elif part.words and is_ready and part.kind in _SAID:
            found.append(_step(message, part, _SAID[part.kind], f"{part.id}.{part.digest}"))
    flush(ended=over)
    return _with_tokens(found, message.tokens) if over else found


def _with_tokens(steps: list[RowStep], tokens: int) -> list[RowStep]:
    """Steps of an answer, the last of which bears the tokens that the answer took."""
    if not steps or not tokens:
        return steps
    last = steps[-1]
    counted = RowStep(last.key, last.offset, last.length, last.time, last.said, last.parts, last.call, tokens)
    return [*steps[:-1], counted]


def _step(message: RowMessage, part: RowPart, said: Said, key: str) -> RowStep:
    when = time_of(message.created)
    return RowStep(key, max(part.seq, 0), part.length, when, said, ((part.id, part.seq),), part.call)


# What is shown of a part


def shown_to_model(part: Json) -> Json | None:
    """A part of what the person says, as it is sent; None for what is not."""
    kind = part.get("type")
    if kind == "text" and _has_words("text", part):
        return text_part(str(part["text"]))
    if kind == "compaction":
        return text_part(COMPACTED)
    if kind == "subtask":
        return text_part(SUBTASK)
    if kind == "file" and _has_words("file", part):
        return attached(part)
    return None


def attached(part: Json) -> Json:
    """A file: a picture as such, another by its name."""
    mime, url = str(part.get("mime")), part.get("url")
    if mime.startswith("image/") and isinstance(url, str):
        return image_part(url)
    return text_part(f"[Attached {mime[:100]}: {str(part.get('filename') or 'file')[:500]}]")


def words_in(parts: Iterable[Json]) -> str | None:
    """The words that a person typed; empty where there are pictures alone; None where the program says all of it."""
    every = list(parts)
    if any(part.get("type") in ("compaction", "subtask") for part in every):
        return None
    typed = [part for part in every if part.get("synthetic") is not True and part.get("ignored") is not True]
    texts = [str(part.get("text") or "") for part in typed if part.get("type") == "text"]
    words = words_of_person(texts)
    if words is None and any(text.strip() for text in texts):
        words = "\n".join(texts)
    return "" if words is None and any(part.get("type") == "file" for part in typed) else words


def result_of(state: Json) -> tuple[str, list[Json]]:
    """The text that a call gave, and the pictures with it."""
    meta = state.get("metadata")
    if state.get("status") == "error":
        output = meta.get("output") if isinstance(meta, dict) and meta.get("interrupted") is True else None
        return (output if isinstance(output, str) else str(state.get("error") or "")), []
    given = state.get("attachments")
    pictures = [attached(each) for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return str(state.get("output") or ""), pictures
