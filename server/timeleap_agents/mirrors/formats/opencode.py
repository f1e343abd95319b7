"""A session of opencode: which steps its messages and parts make, as the program itself sends them on its next resume.

A message has parts, which the program changes in place; a journal of events says what became of each. What a compaction
sums up, what a revert takes back, and what was deleted behind it are conversations of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from timeleap.json_value import Json
from timeleap_agents.mirrors.formats.conversion import image_part, text_part
from timeleap_agents.mirrors.formats.kimi_code import time_of
from timeleap_agents.mirrors.formats.said_by import words_of_person
from timeleap_agents.mirrors.steps import Step

COMPACTED: Final = "What did we do so far?"
"""Words that the program has the person say before the summary of a compaction."""
SUBTASK: Final = "The following tool was executed by the user"
_PLACES: Final = ("id", "messageID", "sessionID")
_NOT_SENT: Final = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "retry"})
_OF_ANSWERS: Final = frozenset({"step-start", "step-finish", "reasoning", "tool"})
_OVER: Final = ("completed", "error")

Said = Literal["user", "text", "think", "call", "result"]
_SAID: Final[dict[str, Said]] = {"text": "text", "reasoning": "think"}


class RowPart(Struct, frozen=True):
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


class RowMessage(Struct):
    """A message.

    Attributes:
        role: `user` or `assistant`; empty where its row is damaged.
        created: Milliseconds since 1970.
        parent: Of an answer: the id of its prompt.
        summary: It is what a compaction says.
        finished: The program is done with it. `failed`: it ended in an error; `aborted`: because it was interrupted.
        tokens: Of the conversation up to it.
        seq: Of the event that made it as it is.
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
    seq: int = -1
    parts: dict[str, RowPart] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, str]:
        return self.created, self.id

    def with_author(self) -> RowMessage | None:
        """The message; where its role is not known, with the one that the kinds of its parts tell. None without parts."""
        if self.role:
            return self
        is_answer = any(part.kind in _OF_ANSWERS for part in self.parts.values())
        return replace(self, role="assistant" if is_answer else "user") if self.parts else None

    def sorted(self) -> list[RowPart]:
        """The parts in their order."""
        return [self.parts[name] for name in sorted(self.parts)]

    @property
    def compaction(self) -> RowPart | None:
        """The part by which the program asks for a compaction."""
        if self.role != "user":
            return None
        return next((part for part in self.sorted() if part.kind == "compaction"), None)

    @property
    def dropped(self) -> bool:
        """True if the program does not send it: an answer that ended in an error, but not one that was interrupted."""
        said = any(part.kind not in ("step-start", "reasoning") for part in self.parts.values())
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


def message_of(message_id: str, data: Json, seq: int = -1) -> RowMessage | None:
    """A message without its parts; None for what is none."""
    role, error, times = data.get("role"), data.get("error"), data.get("time")
    if role not in ("user", "assistant"):
        return None
    times = times if isinstance(times, dict) else {}
    created, completed = times.get("created"), times.get("completed")
    return RowMessage(
        message_id,
        role,
        created if type(created) is int else 0,
        parent=str(data.get("parentID") or ""),
        summary=role == "assistant" and bool(data.get("summary")),
        finished=bool(data.get("finish")) or error is not None or completed is not None,
        failed=error is not None,
        aborted=isinstance(error, dict) and error.get("name") == "MessageAbortedError",
        tokens=_tokens(data.get("tokens")),
        seq=seq,
    )


def part_of(part_id: str, data: Json, seq: int = -1) -> RowPart:
    """A part, from its row or an event."""
    said = {name: value for name, value in data.items() if name not in _PLACES}
    kind, state, times = str(data.get("type"))[:40], data.get("state"), data.get("time")
    state = state if isinstance(state, dict) else {}
    text = json.dumps(said, sort_keys=True)
    is_call = kind == "tool"
    is_begun = isinstance(times, dict) and "start" in times and times.get("end") is None
    return RowPart(
        part_id,
        seq,
        kind,
        _digest(text),
        len(text),
        call=str(data.get("callID") or "") if is_call else "",
        given=_digest(json.dumps([data.get("tool"), state.get("input")], sort_keys=True)) if is_call else "",
        answered=is_call and state.get("status") in _OVER,
        whole=state.get("status") != "pending" if is_call else not is_begun,
        words=_has_words(kind, data),
        tail=str(data.get("tail_start_id") or "") if kind == "compaction" else "",
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
    return sum(number for number in numbers if type(number) is int)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


# Which messages are sent


def before_revert(messages: list[RowMessage], revert: Any) -> list[RowMessage]:
    """The messages without those that a revert takes back; the program deletes them at the next prompt."""
    named = revert.get("messageID") if isinstance(revert, dict) else None
    if not isinstance(named, str):
        return messages
    at = next((number for number, message in enumerate(messages) if message.id == named), None)
    if at is None:  # it is being deleted, and those behind it are to follow
        return [message for message in messages if message.id < named]
    part = revert.get("partID")
    if not isinstance(part, str) or part not in messages[at].parts:
        return messages[:at]
    kept = {name: value for name, value in messages[at].parts.items() if name < part}
    first = messages[at]
    cut = RowMessage(first.id, first.role, first.created, first.parent, first.summary, first.finished, parts=kept)
    return [*messages[:at], cut]


def since_compaction(messages: list[RowMessage]) -> list[RowMessage]:
    """The messages from the last compaction on that is done: its question and summary, what it keeps, what follows."""
    found: list[RowMessage] = []
    done: set[str] = set()
    until = ""
    for message in reversed(messages):
        found.append(message)
        if until:
            if message.id == until:
                break
            continue
        part = message.compaction
        if message.id in done and part is not None:
            if not part.tail or message.id == part.tail:
                break
            until = part.tail
        elif message.summary and message.finished and not message.failed:
            done.add(message.parent)
    found.reverse()
    return _with_tail(found)


def _with_tail(messages: list[RowMessage]) -> list[RowMessage]:
    """With the question and the summary in front of what the compaction keeps, which was said before."""
    numbers = [at for at, message in enumerate(messages) if (part := message.compaction) is not None and part.tail]
    if not numbers:
        return messages
    at = numbers[-1]
    question = messages[at]
    tail = question.compaction.tail if question.compaction is not None else ""
    summary = [
        number
        for number, message in enumerate(messages)
        if number > at and message.summary and message.parent == question.id
    ]
    kept = [number for number, message in enumerate(messages[:at]) if message.id == tail]
    if not summary or not kept:
        return messages
    end = summary[0] + 1
    return [*messages[at:end], *messages[kept[0] : at], *messages[end:]]


def without_begun_compaction(messages: list[RowMessage]) -> list[RowMessage]:
    """The messages without a compaction at their end that the program is busy with: all that was said still counts."""
    end = len(messages)
    if end and messages[-1].summary and not messages[-1].finished:
        end -= 1
    return messages[: end - 1] if end and messages[end - 1].compaction is not None else messages


def compactions(messages: list[RowMessage]) -> Iterator[int]:
    """How many messages stand before each compaction that has begun: the program may leave them out before it is done."""
    asked = {message.id: at for at, message in enumerate(messages) if message.compaction is not None}
    for message in messages:
        if message.summary and message.parent in asked:
            yield asked[message.parent]


# Steps


def steps_of(messages: list[RowMessage], *, dropped: bool = False) -> list[Step]:
    """The steps of messages in their order. `dropped`: with those that the program does not send."""
    found: list[Step] = []
    for number, message in enumerate(messages):
        if message.role == "user":
            found += _asked(message)
        elif dropped or not message.dropped:
            found += _answered(message, over=message.finished or number < len(messages) - 1)
    return found


def _asked(message: RowMessage) -> list[Step]:
    parts = [part for part in message.sorted() if part.words]
    if not parts:
        return []
    digest = _digest(" ".join(part.digest for part in parts))
    seq, length = max(part.seq for part in parts), sum(part.length for part in parts)
    ids = tuple((part.id, part.seq) for part in parts)
    return [RowStep(f"{message.id}.{digest}", max(seq, 0), length, time_of(message.created), "user", ids)]


def _answered(message: RowMessage, *, over: bool) -> list[Step]:
    """The steps of an answer: of each of its rounds what it says and calls, then the results. A result waits for those of
    earlier calls of its round, as long as the answer goes on."""
    found: list[Step] = []
    calls: list[RowPart] = []

    def flush(*, ended: bool) -> None:
        waits = next((number for number, call in enumerate(calls) if not call.answered), len(calls))
        shown = [part for part in (calls if ended else calls[:waits]) if part.answered]
        found.extend(_step(message, part, "result", f"{part.id}.result.{part.digest}") for part in shown)
        calls.clear()

    for part in _parts_of_rounds(message):
        is_ready = part.whole or over
        if part.kind in ("step-start", "step-finish"):
            flush(ended=True)
        elif part.kind == "tool" and is_ready:
            calls.append(part)
            found.append(_step(message, part, "call", f"{part.id}.call.{part.given}"))
        elif part.words and is_ready and part.kind in _SAID:
            found.append(_step(message, part, _SAID[part.kind], f"{part.id}.{part.digest}"))
    flush(ended=over)
    return _with_tokens(found, message.tokens) if over else found


def _parts_of_rounds(message: RowMessage) -> list[RowPart]:
    """Parts that are sent, and those that begin and end the rounds of an answer."""
    return [part for part in message.sorted() if part.kind not in _NOT_SENT or part.kind.startswith("step-")]


def _with_tokens(steps: list[Step], tokens: int) -> list[Step]:
    """Steps of an answer, the last of which bears the tokens that the answer took."""
    if not steps or not tokens:
        return steps
    last = steps[-1]
    assert isinstance(last, RowStep)
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
