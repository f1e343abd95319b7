"""The journal of an agent of kimi-code (`wire.jsonl`): which messages its records make, as the program itself makes them on
its next resume.

Messages stand in records of their own, or come in pieces: a step of the program is an answer with its calls, and their
results. A compaction, a clear, an undo and a switch of branches change what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import Struct, field

from timeleap import clock
from timeleap.mirrors.formats.conversion import Json, JsonLine, image_part, sound, text_part, think_part
from timeleap.mirrors.formats.said_by import words_of_person
from timeleap.storage.engine import TimelineReason

MAIN: Final = "main"
"""The name of a session's own agent, and of the branch that a journal begins with."""
KEPT_TOKENS: Final = 20_000
"""Of the person's messages, that a compaction keeps."""
KEPT_AT_BEGINNING: Final = 2_000
"""Of these, the part for the oldest messages where there are more."""
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


class Entry(Struct, frozen=True):
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


class Piece(Struct, frozen=True):
    """What is shown of a record.

    Attributes:
        start, stop: Of the characters of its text, that are shown; `stop` -1: all of it as it is.
    """

    entry: Entry
    start: int = 0
    stop: int = -1


class Message(Struct):
    """A message as the program counts them, from one record or several. `order`: which call of its answer a result
    belongs to."""

    pieces: list[Piece]
    entry: Entry
    order: int = -1
    summary: bool = False


def entry_of(line: JsonLine, record: Json, number: int) -> Entry | None:
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
        return Entry(kind=known, count=count if older and type(count) is int else -1, **place)
    if known == "undo":
        count = record.get("count")
        return Entry(kind=known, count=count, **place) if type(count) is int and count > 0 else None
    if known == "switch":
        return _switch_entry(record, place)
    return Entry(kind=known, **place) if known is not None else None


def is_state(record: Json) -> bool:
    """Whether a record is known to be none of the conversation."""
    return str(record.get("type")).startswith(_OF_STATE)


def _loop_entry(event: Any, place: Json) -> Entry | None:
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
    return Entry(kind=kind, step=step, call=sound(call) if isinstance(call, str) else "", blank=blank, **place)


def _message_entry(message: Any, place: Json) -> Entry | None:
    if not isinstance(message, dict) or str(message.get("role")) not in _ROLES:
        return None
    found = message.get("origin")
    origin = found if isinstance(found, dict) else {}
    kind = str(origin.get("kind") or "")
    is_user = message["role"] == "user"
    by_slash = kind in ("skill_activation", "plugin_command") and origin.get("trigger") == "user-slash"
    said = is_user and (kind in ("", "user") or by_slash)
    called = message.get("toolCalls")
    calls = [call for call in called if isinstance(call, dict)] if isinstance(called, list) else []
    parts = parts_in(message.get("content"))
    result = message.get("toolCallId")
    return Entry(
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


def _switch_entry(record: Json, place: Json) -> Entry | None:
    base, paired = record.get("base"), record.get("legacyUndoLine")
    if not isinstance(base, dict) or not isinstance(record.get("branch"), str):
        return None
    if not isinstance(base.get("branch"), str) or type(base.get("line")) is not int:
        return None
    return Entry(
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


def parts_in(content: Any) -> list[Json]:
    """The parts of a content, which may be a text alone."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


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


class Branches:
    """The branches of a journal."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._switches = {MAIN: (0, MAIN, 0)}  # by branch: the line of its switch, and where it begins
        self._until: dict[str, int] = {}
        branch = MAIN
        for entry in entries:
            if entry.kind == "switch":
                self._until[branch] = entry.line
                branch = entry.branch
                self._switches[branch] = entry.line, entry.base, entry.base_line
        self._until[branch] = entries[-1].line if entries else 0
        self._active = branch
        self._paired = {entry.paired for entry in entries if entry.kind == "switch"}

    def chain(self) -> list[Entry]:
        """The entries that count, in their order."""
        ranges: list[tuple[int, int]] = []
        branch, until, met = self._active, self._until[self._active], set[str]()
        while branch in self._switches and branch not in met:
            met.add(branch)
            begun, base, base_line = self._switches[branch]
            ranges.append((begun + 1, until))
            if branch == MAIN:
                break
            branch, until = base, base_line
        chain = [entry for entry in self._entries if any(first <= entry.line <= last for first, last in ranges)]
        lines = {entry.line for entry in chain}
        prompts = {entry.id for entry in chain if entry.anchor and entry.id}
        again = [
            entry
            for entry in self._entries
            if entry.origin == "injection" and entry.line not in lines and (not entry.owner or entry.owner in prompts)
        ]
        kept = [entry for entry in (*chain, *again) if entry.kind != "switch" and not self._is_paired(entry)]
        return sorted(kept, key=lambda entry: entry.line)

    def _is_paired(self, entry: Entry) -> bool:
        return entry.kind == "undo" and entry.line in self._paired


class Context(Struct):
    """The messages as the entries taken so far define them.

    Attributes:
        orphans: Results that go with no call.
    """

    messages: list[Message] = field(default_factory=list)
    orphans: int = 0
    _open: Message | None = None
    _step: str = ""
    _calls: list[str] = field(default_factory=list)
    _results: list[Message] = field(default_factory=list)
    _waiting: set[str] = field(default_factory=set)
    _deferred: list[Message] = field(default_factory=list)

    def take(self, entry: Entry, text_of: Callable[[Entry], str]) -> None:
        """Apply an entry. `text_of` gives the text of the message in one that was met before."""
        if entry.kind == "message":
            self._add(entry)
        elif entry.kind == "clear":
            self._start([])
        elif entry.kind == "compaction":
            self._settle()
            self._start(self._compacted(entry, text_of))
        elif entry.kind == "undo":
            self._undo(entry.count)
        else:
            self._loop(entry)

    def shown(self, *, held: bool) -> Iterator[Piece]:
        """All pieces in their order. `held`: without results that another one, of an earlier call, is yet to precede."""
        waits = {number for number, call in enumerate(self._calls) if call in self._waiting}
        for message in self.messages:
            is_held = held and message in self._results and any(number < message.order for number in waits)
            if not is_held:
                yield from message.pieces
        for message in self._deferred:
            yield from message.pieces

    @property
    def holds(self) -> bool:
        """An earlier call has no result yet where a later one has."""
        waits = [number for number, call in enumerate(self._calls) if call in self._waiting]
        return any(number < message.order for number in waits for message in self._results)

    def _add(self, entry: Entry) -> None:
        if entry.role == "tool" and not self._answers(entry):
            self.orphans += 1
            return
        if not entry.blank:
            message = Message([Piece(entry)], entry)
            (self._deferred if self._waiting else self.messages).append(message)

    def _answers(self, entry: Entry) -> bool:
        """Whether a result in a message of its own goes with a call that has none."""
        made, answered = set[str](), set[str]()
        for piece in (piece for message in self.messages for piece in message.pieces):
            known = piece.entry
            if known.kind == "call":
                made.add(known.call)
            elif known.kind == "result" or known.role == "tool":
                answered.add(known.call)
            made |= set(known.calls)
        return entry.call in made - answered

    def _loop(self, entry: Entry) -> None:
        if entry.kind == "begin":
            self._settle()
            self._open, self._step = Message([], entry), entry.step
        elif entry.kind == "end":
            if not entry.blank and self._open is not None:
                if self.messages and self._open.pieces:
                    self.messages[-1].pieces.append(Piece(entry))
                self._settle()
        elif entry.kind == "result":
            self._take_result(entry)
        elif self._open is not None and entry.step == self._step:
            if entry.kind == "call":
                if entry.call in self._calls:
                    return
                self._calls.append(entry.call)
                self._waiting.add(entry.call)
            if not entry.blank:
                if not self._open.pieces:
                    self.messages.append(self._open)
                self._open.pieces.append(Piece(entry))

    def _take_result(self, entry: Entry) -> None:
        if entry.call not in self._waiting:
            self.orphans += 1
            return
        self._waiting.discard(entry.call)
        message = Message([Piece(entry)], entry, order=self._calls.index(entry.call))
        behind = [each for each in self._results if each.order > message.order]
        at = self.messages.index(behind[0]) if behind else len(self.messages)
        self.messages.insert(at, message)
        self._results.insert(len(self._results) - len(behind), message)
        if not self._waiting:
            self._flush()

    def _flush(self) -> None:
        self.messages += self._deferred
        self._deferred = []

    def _settle(self) -> None:
        self._flush()
        self._open, self._step = None, ""
        self._calls, self._results, self._waiting = [], [], set()

    def _start(self, messages: list[Message]) -> None:
        self._deferred = []
        self._settle()
        self.messages = messages

    def _undo(self, count: int) -> None:
        """Go back before the last `count` prompts: all of them, or not at all."""
        left = count
        every = [*self.messages, *self._deferred]
        for at in reversed(range(len(every))):
            message = every[at]
            if message.summary:
                return
            if message.entry.anchor and message.entry.origin != "injection":
                left -= 1
                if left == 0:
                    kept = every[:at]
                    while kept and _belongs(kept[-1].entry, message.entry):
                        kept.pop()
                    self._start(kept)
                    return

    def _compacted(self, entry: Entry, text_of: Callable[[Entry], str]) -> list[Message]:
        summary = Message([Piece(entry)], entry, summary=True)
        if entry.count >= 0:
            return [summary, *self.messages[entry.count :]]
        prompts = [message for message in self.messages if message.entry.kept]
        return [*_kept(prompts, text_of), summary]


def _belongs(entry: Entry, prompt: Entry) -> bool:
    return entry.origin == "injection" and bool(entry.owner) and entry.owner == prompt.id


def _kept(prompts: list[Message], text_of: Callable[[Entry], str]) -> list[Message]:
    """The messages of the person that a compaction keeps: all, or the newest and some of the oldest, in tokens."""
    if sum(map(_size, prompts)) <= KEPT_TOKENS:
        return prompts
    tail: list[Message] = []
    left, head_end = KEPT_TOKENS - KEPT_AT_BEGINNING, len(prompts)
    rest: list[Message] = []
    for at in reversed(range(len(prompts))):
        if left <= 0:
            break
        size, head_end = _size(prompts[at]), at
        if size <= left:
            tail.append(prompts[at])
            left -= size
            continue
        text = _text_of(prompts[at], text_of)
        cut = len(text) - len(_fitting(text[::-1], left))
        tail.append(_part_of(prompts[at], cut, len(text)))
        if cut:
            rest = [_part_of(prompts[at], 0, cut)]
        break
    head: list[Message] = []
    left = KEPT_AT_BEGINNING
    for message in (*prompts[:head_end], *rest):
        if left <= 0:
            break
        text = _text_of(message, text_of)
        size = _size(message) if message.pieces[0].stop < 0 else estimated("user") + estimated(text)
        if size > left:
            head.append(_part_of(message, 0, len(_fitting(text, left))))
            break
        head.append(message)
        left -= size
    return [*head, *reversed(tail)]


def _size(message: Message) -> int:
    return message.entry.tokens


def _text_of(message: Message, text_of: Callable[[Entry], str]) -> str:
    piece, text = message.pieces[0], text_of(message.entry)
    return text if piece.stop < 0 else text[piece.start : piece.stop]


def _part_of(message: Message, start: int, stop: int) -> Message:
    begun = message.pieces[0].start
    return Message([Piece(message.entry, begun + start, begun + stop)], message.entry)


def _fitting(text: str, most: int) -> str:
    """The beginning of a text that has at most so many tokens."""
    plain = others = 0
    for at, character in enumerate(text):
        plain, others = plain + (character < "\x80"), others + (character >= "\x80")
        if -(-plain // 4) + others > most:
            return text[:at]
    return text


REASONS: Final[dict[Kind, TimelineReason]] = {"compaction": "compact"}
"""Of timelines, by the kind of the entry that takes something away."""
TAKES_AWAY: Final = frozenset({"compaction", "clear", "undo", "switch"})
