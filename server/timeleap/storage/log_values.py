"""Values of a log: its lines and states, what is written to it, its timelines, what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum, IntFlag
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from timeleap.uncancelled_work import Outcome

Access = Literal["write", "read"]
Durability = Literal["disk", "os"]
TimelineReason = Literal["revert", "clear", "compact", "fold", "restore", "dmail", "import", "external", "unknown"]


class RecordKind(IntEnum):
    """Kind of a line of the log, decided by its `role`."""

    BLANK = 0
    MESSAGE = 1
    SYSTEM_PROMPT = 2
    USAGE = 3
    CHECKPOINT = 4
    FOREIGN = 5  # another `_x` role: kept byte for byte, ignored
    DAMAGED = 6  # not a JSON object with a usable role: kept, not part of history


class RecordFlag(IntFlag):
    """Facts about a line that save reading it."""

    HAS_TL = 1  # carries our reserved key `_tl`
    REQUEST = 2  # its `_tl` carries a request id
    BATCH_OPEN = 4  # member of a batch, not its last one
    BATCH_TAIL = 8  # member of a batch, not its first one
    UNREADABLE = 16  # the original program cannot read it
    VALIDATED = 32  # its JSON was parsed at least once since the index was built
    IRREGULAR = 64  # cumulative: up to here some checkpoint id was not last + 1
    LENIENT = 128  # JSON for lenient parsers only (control characters, lone surrogates, NaN); `read` makes it strict
    HAS_DAMAGE = 256  # cumulative: up to here some line is damaged or not readable by the original
    MADE_HERE = 512  # with REQUEST: an attached process made the id (an index of an earlier release does not say)


class Role(IntEnum):
    """The role of a message, as far as we need to tell them apart."""

    NONE = 0
    USER = 1
    ASSISTANT = 2
    TOOL = 3
    SYSTEM = 4
    OTHER = 5


class LogState(Struct, frozen=True, gc=False):
    """State of a log after one of its lines. Known for every line without reading those before it."""

    length: int = 0  # bytes
    lines: int = 0
    messages: int = 0
    checkpoints: int = 0  # checkpoint records
    usages: int = 0
    token_count: int = 0  # of the last `_usage`, else 0
    pending_chars: int = 0  # characters of text parts since the last `_usage`; -1 = not known without reading
    next_checkpoint_id: int = 0  # id of the last checkpoint record that has a usual one, + 1
    system_prompt_line: int = -1  # line of the `_system_prompt` in force; -1 = none
    last_role: Role = Role.NONE  # of the last message
    chain: int = 0  # 64-bit fingerprint of all bytes up to here
    regular: bool = True  # every checkpoint id was last + 1
    has_damage: bool = False  # some line is damaged or not readable by the original

    @property
    def token_count_with_pending(self) -> int:
        """`token_count` plus a quarter of the characters that came after it."""
        return self.token_count + self.pending_chars // 4


class Entry(NamedTuple):
    """A line of a log, with the state after it."""

    line: int
    offset: int
    length: int  # bytes, line feed included
    crc: int
    kind: RecordKind
    flags: RecordFlag
    role: Role
    value: int  # checkpoint: its id; usage: its token count; message: characters of its text parts, -1 = not counted
    state: LogState


class Row(NamedTuple):
    """A line of a log with its text, as a page of history needs it, without the state after it."""

    line: int
    kind: RecordKind
    flags: int  # its flags up to LENIENT
    messages_before: int  # for a message: its index
    body: bytes  # as `read` gives it


class LogLines(NamedTuple):
    """Lines of a log with their text, in columns: what is asked of a thousand is asked of all at once."""

    first: int  # the number of the first
    data: bytes = b""  # the text of all; as it is in the file, but for lines that no strict parser would take
    begins: Sequence[int] = ()  # where each is in that, without its line feed
    ends: Sequence[int] = ()
    messages: int = 0  # how many messages there are before them
    kinds: bytes = b""  # a `RecordKind` for each
    flags: bytes = b""  # the `RecordFlag`s up to LENIENT for each

    def rows(self, kind: RecordKind | None = None) -> Iterator[Row]:
        """Iterate over the rows, or over the rows of a kind."""
        index, places = self.messages, zip(self.kinds, self.flags, self.begins, self.ends, strict=True)
        for line, (number, flags, begin, end) in enumerate(places, self.first):
            if kind is None or number == kind:
                yield Row(line, RecordKind(number), flags, index, self.data[begin:end])
            index += number == RecordKind.MESSAGE


class NewRecord(Struct, frozen=True, gc=False):
    """A record to be written: its JSON on one line without the line feed, and what its line amounts to.

    Made by the constructors of `timeleap.storage.record`, never by hand.
    """

    body: bytes
    kind: RecordKind
    role: Role = Role.NONE
    value: int = 0
    flags: RecordFlag = RecordFlag(0)


class Appended(Struct, frozen=True, gc=False):
    """Result of an append: `before` and `after` are the states around exactly its own records."""

    before: LogState
    after: LogState
    head: str


Progress = Callable[[int, int], None]
"""Told `(done, total)` bytes now and then by work that may take over a second. May be called from another thread."""

Edit = Callable[[int, bytes], bytes | None]
"""Edits a line: takes its number and its bytes without the line feed, returns the new bytes or None for no change."""

Plan = Callable[[LogState], Sequence[NewRecord]]
"""Says what to append to a log that is at a state. Pure; it may be called again, on another state."""


class AppendStep(Struct, eq=False, kw_only=True):
    """An append as the queue takes it. Subclasses say by `plan` what to write."""

    more: bool = False  # others are asked for in this turn of the event loop; they are written together
    mark: bool = True  # several records are marked as one batch
    ended: bool = False  # it was told its end, by a call: a future for that costs more than the planning

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        raise NotImplementedError

    def end(self, done: Appended | None, error: BaseException | None) -> None:
        """Take the result, or why there is none, and set `ended`. Called once; must not raise."""
        raise NotImplementedError

    def done(self) -> bool:
        """True if it was told its end, or nobody wants it any more."""
        return self.ended


class QueuedAppend(AppendStep, eq=False, kw_only=True):
    """An append that a coroutine waits for, which may be cancelled until it has its turn."""

    planned: Plan
    outcome: Outcome[Appended]

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        self.outcome.taken = True
        return self.planned(state)

    def end(self, done: Appended | None, error: BaseException | None) -> None:
        self.ended = True
        self.outcome.end(done, error)

    def done(self) -> bool:
        return self.ended or self.outcome.done()


class TimelineFacts(Struct, frozen=True, rename="camel"):
    """Facts about a timeline that its bytes do not hold."""

    reason: TimelineReason = "unknown"
    created_at: str = ""  # ISO-8601 UTC; "" = not known
    extra: dict[str, Any] = field(default_factory=dict)


class Timeline(Struct, frozen=True):
    """An earlier log, set aside whole."""

    timeline_id: str  # stem of its file, such as `context_3`; unique and never reused in a session
    file: str  # name within the session's directory
    facts: TimelineFacts
    bytes: int
    messages: int
    checkpoints: int
    chain: int = 0  # fingerprint of all its bytes, as `LogState.chain`; 0 = not known

    def may_equal(self, state: LogState) -> bool:
        """True if size and fingerprint are those of a log; only comparing the bytes is certain."""
        return (self.bytes, self.chain) == (state.length, state.chain)


MAX_ROTATION: Final = 10**15 - 1
"""No log is set aside so often: a higher number of a timeline is not one of ours, and none is counted on from it."""


def highest_noted(timeline_ids: Iterable[str]) -> int:
    """The highest number among timeline ids such as `context_3`; 0 where there is none."""
    suffixes = (timeline_id.rpartition("_")[2] for timeline_id in timeline_ids)
    numbers = (int(text) for text in suffixes if text.isdecimal() and text.isascii() and len(text) <= 15)
    return max(numbers, default=0)


class Prepared(Struct, frozen=True):
    """A replacement whose new log is complete and not in its place yet. What is noted of it now must be valid whether it is
    committed or not: it counts once that timeline exists."""

    timeline_id: str  # the id that the present log gets as a timeline
    replaces: bool  # False where `Replacement.reuse` finds that the new log has the very bytes of the present one
    equals: str | None
    """With `Replacement.reuse`: the timeline that has the present log's bytes already, or "" where the present log is empty.
    Whoever commits then removes the timeline `timeline_id`, once what was noted holds without it. Else None."""
    after: LogState  # of the new log
    head: str = ""  # that the new log will have in its place

    @property
    def kept_as(self) -> str | None:
        """The timeline that has the present log from then on; None where it needs none."""
        if self.equals is not None:
            return self.equals or None
        return self.timeline_id if self.replaces else None


class Replacement(Struct, frozen=True):
    """A new log that takes the place of the present one, which becomes a timeline.

    The new log is: the lines `[0, keep_lines)` of the present log (damaged ones left out), or the whole of
    `from_timeline` byte for byte; then `records`; then the lines of the present log from `resume_at` on, as `edited` says;
    then `closing`.
    """

    facts: TimelineFacts
    keep_lines: int = 0
    from_timeline: str | None = None
    records: Sequence[NewRecord] = ()
    resume_at: int | None = None
    edited: Edit | None = None
    closing: Sequence[NewRecord] = ()
    borrow: Callable[..., bool] | None = None
    """A `durable.Share`, given where another place than these files keeps the logs: then nothing is synced, and what is
    borrowed is compared when it is read."""
    reuse: bool = False
    """A present log that is empty, or has a timeline's bytes, becomes none; one with the new log's bytes stays."""


class Replaced(Struct, frozen=True):
    """Result of a replacement."""

    before: LogState
    after: LogState
    timeline_id: str  # that has the log before it; with `Replacement.reuse` it may be "": there is none
    head: str
