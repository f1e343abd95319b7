"""The storage-engine interface: what a session's log can do, whatever keeps it.

An engine owns ONE session's log and its timelines. It is an actor: `append` and `run` are queued and take effect in the
order of their calls; consecutive appends share one write and one sync (group commit). An append takes a *plan*: a pure
function that is called with the log's state as it will be at its turn and says what to write; what it raises goes to its
caller and changes nothing. A cancelled call either did nothing or is finished and kept. Who waits for a `run` goes on
before the next step begins: what it reads without waiting is the log it made.

Reading (`LogReader`) is synchronous and works on ranges of lines; a line that is not asked for is never parsed.
A timeline is read through the same interface.

Adding an engine: implement `LogEngine`, add a line to `tests/unit/storage/engines.py`; the conformance suite judges it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum, IntFlag
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

T = TypeVar("T")

Access = Literal["write", "read"]
Durability = Literal["disk", "os"]
TimelineReason = Literal["revert", "clear", "compact", "restore", "dmail", "import", "external", "unknown"]


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


class AppendStep(Struct, eq=False, kw_only=True):
    """An append as the queue takes it: told its end in a call, since a future for it costs more than to plan it. Subclasses
    say by `plan` what to write (see `Plan`)."""

    more: bool = False  # others are asked for in this turn of the event loop; they are written together
    mark: bool = True  # several records are marked as one batch
    ended: bool = False  # it was told its end

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        raise NotImplementedError

    def end(self, done: Appended | None, error: BaseException | None) -> None:
        """Take the result, or why there is none, and set `ended`. Called once; must not raise."""
        raise NotImplementedError

    def done(self) -> bool:
        """True if it was told its end, or nobody wants it any more."""
        return self.ended


class TimelineFacts(Struct, frozen=True):
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
    log: LogReader | None = None  # the new log; None where it is only foreseen

    @property
    def kept_as(self) -> str | None:
        """The timeline that has the present log from then on; None where it needs none."""
        if self.equals is not None:
            return self.equals or None
        return self.timeline_id if self.replaces else None


class Replacement(Struct, frozen=True):
    """A new log that takes the place of the present one, which becomes a timeline.

    The new log is: the lines `[0, keep_lines)` of the present log (damaged ones left out), or the whole of
    `from_timeline` byte for byte; then `records`.
    """

    facts: TimelineFacts
    keep_lines: int = 0
    from_timeline: str | None = None
    records: Sequence[NewRecord] = ()
    working_copy: Callable[..., bool] | None = None
    """The logs are kept elsewhere: nothing is synced, what is taken over is compared when it is read; see `durable.Share`."""
    reuse: bool = False
    """A present log that is empty, or has a timeline's bytes, becomes none; one with the new log's bytes stays."""


class Replaced(Struct, frozen=True):
    """Result of a replacement."""

    before: LogState
    after: LogState
    timeline_id: str  # that has the log before it; with `Replacement.reuse` it may be "": there is none
    head: str


class Quarantined(Struct, frozen=True):
    """Bytes that were cut from a log at open, and where they are kept."""

    file: str  # relative to the session's directory
    offset: int  # in the log they were cut from
    bytes: int
    reason: Literal["tornTail", "incompleteBatch"]


DamageKind = Literal[
    "damagedRecord",
    "notReadableByOriginal",
    "checksumMismatch",
    "notAsWritten",
    "linesLost",
    "logMissing",
    "otherLog",
    "timelineCut",
]


LOSSES: Final = ("linesLost", "logMissing", "otherLog")


class Damage(Struct, frozen=True):
    """A line that is not part of history, or that only we can read."""

    kind: DamageKind
    message: str
    line: int
    offset: int
    bytes: int


class Recovery(Struct, frozen=True):
    """Findings and repairs of opening the log; `lost`: lines that were acknowledged and are not there any more. Nothing is
    written until `LogEngine.reload` accepts that."""

    quarantined: tuple[Quarantined, ...] = ()
    index_rebuilt: bool = False
    warnings: tuple[Damage, ...] = ()
    lost: Damage | None = None

    @property
    def losses(self) -> tuple[Damage, ...]:
        """Lines that were acknowledged and are not there any more, a missing log, or another one in its place."""
        return tuple(damage for damage in self.warnings if damage.kind in LOSSES)

    @property
    def cut_bytes(self) -> int:
        return sum(cut.bytes for cut in self.quarantined)


Progress = Callable[[int, int], None]
"""Told `(done, total)` bytes now and then by work that may take over a second. May be called from another thread."""

Edit = Callable[[int, bytes], bytes | None]
"""Edits a line: takes its number and its bytes without the line feed, returns the new bytes or None for no change."""

DAMAGE_LIMIT: Final = 100
"""So many lines `LogReader.damage` lists at most."""

Plan = Callable[[LogState], Sequence[NewRecord]]


class LogReader(ABC):
    """A log that can be read: the live one, or a timeline."""

    @property
    @abstractmethod
    def state(self) -> LogState:
        """The state at the end of the log."""

    @abstractmethod
    def entries(self, start: int, stop: int) -> list[Entry]:
        """The entries of the lines `[start, stop)`, clipped to the log."""

    @abstractmethod
    def lines(self, start: int, stop: int) -> LogLines:
        """The lines `[start, stop)`, verified against their checksums; strict JSON where they are no damaged lines. Raises
        CorruptedError: the bytes are not those that were written."""

    def rows(self, start: int, stop: int) -> list[Row]:
        """Rows of the lines from `start` to `stop`."""
        return list(self.lines(start, stop).rows())

    def read(self, start: int, stop: int) -> list[bytes]:
        """The bytes of the same, without line feeds."""
        return [row.body for row in self.rows(start, stop)]

    @abstractmethod
    def line_of_message(self, index: int) -> int:
        """The line of the message `index` (0-based over messages). Raises IndexError out of range."""

    @abstractmethod
    def line_of_checkpoint(self, ordinal: int) -> int:
        """The line of the checkpoint record `ordinal` (0-based over checkpoint records). Raises IndexError."""

    @abstractmethod
    def line_of_usage(self, ordinal: int) -> int:
        """The line of the usage record `ordinal` (0-based over usage records). Raises IndexError."""

    @abstractmethod
    def find_checkpoint(self, checkpoint_id: int) -> int | None:
        """The line of the FIRST checkpoint record with that id (where the original's revert stops), or None."""

    @abstractmethod
    def state_before(self, line: int) -> LogState:
        """The state before `line`, with `pending_chars` known (its messages are read where they must be)."""

    @abstractmethod
    def damage(self) -> list[Damage]:
        """Lines known not to be part of history, at most 100, oldest first."""

    def last_change(self) -> float | None:
        """When it was written to for the last time, in seconds since the epoch; None where nobody knows."""
        return None

    @abstractmethod
    def request_lines(self, limit: int, made_here: bool | None = None) -> list[int]:
        """The last `limit` lines that carry a request id, newest first: one that an attached process made
        (`made_here`), one of a client (False), or any (None)."""

    @abstractmethod
    def pread(self, offset: int, size: int) -> bytes:
        """The log's bytes from `offset` on as they stand, at most `size`; fewer only at the end."""

    @abstractmethod
    def verify(self, progress: Progress | None = None) -> list[Damage]:
        """Read and check every byte (checksum, JSON, batch marks) without changing anything. Thread-safe."""


class LogEngine(LogReader):
    """The live log of one session, its timelines, its lock and its watchers."""

    access: Access

    @property
    @abstractmethod
    def view(self) -> LogReader:
        """The log as it is now: later changes do not show in it, and another thread may read it."""

    @property
    def state(self) -> LogState:
        return self.view.state

    def entries(self, start: int, stop: int) -> list[Entry]:
        return self.view.entries(start, stop)

    def lines(self, start: int, stop: int) -> LogLines:
        return self.view.lines(start, stop)

    def line_of_message(self, index: int) -> int:
        return self.view.line_of_message(index)

    def line_of_checkpoint(self, ordinal: int) -> int:
        return self.view.line_of_checkpoint(ordinal)

    def line_of_usage(self, ordinal: int) -> int:
        return self.view.line_of_usage(ordinal)

    def find_checkpoint(self, checkpoint_id: int) -> int | None:
        return self.view.find_checkpoint(checkpoint_id)

    def state_before(self, line: int) -> LogState:
        return self.view.state_before(line)

    def damage(self) -> list[Damage]:
        return self.view.damage()

    def request_lines(self, limit: int, made_here: bool | None = None) -> list[int]:
        return self.view.request_lines(limit, made_here)

    def pread(self, offset: int, size: int) -> bytes:
        return self.view.pread(offset, size)

    def verify(self, progress: Progress | None = None) -> list[Damage]:
        return self.view.verify(progress)

    def as_reloaded(self) -> LogReader:
        """The log as `reload` would take it; its `damage` says what it has lost, too. Blocking; changes nothing."""
        return self.view

    async def at_turn(self, read: Callable[[], T], *, latest: bool = True) -> T:
        """The result of `read` when all earlier changes have taken effect; `latest`: those of other processes, too."""

        async def job(_: LogState) -> T:
            return read()

        return read() if self.access == "read" else await self.run(job)

    @property
    def head(self) -> str:
        """Opaque; changes with every change of the log; never repeats in a session (G7)."""
        return self.head_at(self.state)

    @abstractmethod
    def head_at(self, state: LogState) -> str:
        """The head the present log has at `state`: what a plan compares `expectedHead` with."""

    @property
    @abstractmethod
    def recovery(self) -> Recovery:
        """Findings and repairs of opening the log."""

    @property
    @abstractmethod
    def externally_modified(self) -> bool:
        """True if a program that takes no lock has changed the log since the last check (G5)."""

    @abstractmethod
    async def append(self, plan: Plan, *, mark: bool = True, more: bool = False) -> Appended:
        """Append the planned records as one step; returns when they are as durable as was asked for.

        Several records are one batch: marked in `_tl`, all or nothing also over a crash (G2). No records: nothing is
        written. `mark=False`: no marks, for callers that must write the original's very bytes; after a crash only the
        first records may be there.
        `more`: others are asked for in this turn of the event loop; they are written together.
        Raises ReadOnlyError, ExternallyModifiedError, StorageFailureError: nothing was written; state and disk agree."""

    @abstractmethod
    def submit(self, append: AppendStep) -> None:
        """Append in this very call where nothing has to be waited for, else at its turn; the step is told its end."""

    @abstractmethod
    async def add(self, records: Sequence[NewRecord]) -> Appended:
        """Append records at one's turn, within `run`. Raises as `append`."""

    @abstractmethod
    async def rewrite(self, steps: Callable[[], T]) -> T:
        """Take blocking steps in the log's thread, at one's turn within `run`: among them `draft` and `commit`. A log that
        was committed is shown when this returns, in that very call."""

    @abstractmethod
    def draft(self, replacement: Replacement) -> AbstractContextManager[Prepared]:
        """Build a new log beside the present one; removed again if the block raises. Blocking, a step of `rewrite`.
        Raises TimelineNotFoundError, CorruptedError, and what `append` does: nothing was changed."""

    @abstractmethod
    def commit(self, prepared: Prepared) -> Replaced:
        """Put the draft in the place of the present log, a timeline then, as ONE atomic step (G3). Blocking, a step of
        `rewrite`. Raises as `append`."""

    async def replace(self, plan: Callable[[LogState], Replacement]) -> Replaced:
        """Draft and commit at its turn a log of which nothing is noted."""
        return await self.run(lambda state: self.rewrite(partial(_replaced, self, plan(state))), rewrites=True)

    @abstractmethod
    async def run(self, job: Callable[[LogState], Awaitable[T]], *, rewrites: bool = False) -> T:
        """Run `job` alone at its turn in the queue; one that `rewrites` the log not where another program changed that."""

    @abstractmethod
    def timelines(self, view: LogReader | None = None) -> list[Timeline]:
        """All timelines, newest first (counts are derived, and kept once known). With `view` those there were while it
        was the live log: a reader may be overtaken by the owner, who sets it aside before the timelines are listed."""

    @abstractmethod
    def same_timelines(self, timeline_id: str, other_id: str) -> bool:
        """True if two timelines have the same bytes; they are read only if they may be equal. Blocking."""

    @abstractmethod
    def timeline(self, timeline_id: str) -> LogReader:
        """A reader of one timeline; never writes. Raises TimelineNotFoundError."""

    @abstractmethod
    def remove_timeline(self, timeline_id: str) -> None:
        """Delete a timeline for good (retention, prune). Its id is not reused."""

    @abstractmethod
    async def revise(self, edit: Edit, timeline_id: str | None = None) -> int:
        """Rewrite the live log, or a timeline, line by line, in one step, keeping nothing of what it was. To be
        called at one's turn, within `run`. Says how many lines changed; if any did, the head does. Raises as `replace`."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Show what others have written up to now, and call back those who watch."""

    @abstractmethod
    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the event loop when the log was changed by somebody else (a follower: by the owner);
        the reader's state has then been brought up to date. Returns a function that stops the watching."""

    @abstractmethod
    async def validate_in_background(self, progress: Progress | None = None) -> list[Damage]:
        """Check what opening left unchecked, the bulk of a large log, and return damage that was not known. Where it
        takes lines out of history, the head changes and the watchers are told."""

    @abstractmethod
    async def reload(self) -> Recovery:
        """Take over what is on disk now (after `externally_modified`); the head changes."""

    @abstractmethod
    async def aclose(self) -> None:
        """Finish what was accepted, then release lock and descriptors. Idempotent."""


def _replaced(engine: LogEngine, replacement: Replacement) -> Replaced:
    with engine.draft(replacement) as prepared:
        done = engine.commit(prepared)
    if prepared.replaces and prepared.equals is not None:
        engine.remove_timeline(prepared.timeline_id)
    return done


# Engine metadata kept outside the log: the interface of its store
#
# The log is the truth; these facts only explain it (why a timeline was set aside, and when) or keep promises over time
# (a timeline number is never used twice, a head never means two things). Sessions keep them in `timeleap.json`.

MAX_ROTATION: Final = 10**15 - 1
"""No log is set aside so often: a higher number of a timeline is not one of ours, and none is counted on from it."""


def highest_noted(timeline_ids: Iterable[str]) -> int:
    """The highest number among timeline ids such as `context_3`; 0 where there is none."""
    suffixes = (timeline_id.rpartition("_")[2] for timeline_id in timeline_ids)
    numbers = (int(text) for text in suffixes if text.isdecimal() and text.isascii() and len(text) <= 15)
    return max(numbers, default=0)


class Notes(Protocol):
    """Where an engine keeps what the log's own bytes cannot say.

    Attributes:
        epoch: Counts the times the log's meaning changed without its bytes being appended to.
        rotation, noted: The highest timeline number ever used, as far as remembered; and that facts were ever noted for.
    """

    @property
    def epoch(self) -> int: ...
    @property
    def rotation(self) -> int: ...
    @property
    def noted(self) -> int: ...
    @property
    def existing(self) -> bool:
        """True if there are notes, so there was a log."""
        ...

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        """The facts known about a timeline, or None."""

    def refresh(self) -> None:
        """Look again at the next use: somebody else may have written."""

    def bump_epoch(self) -> None:
        """Count `epoch` up, durably."""

    def remember(self, *, rotation: int) -> None:
        """Keep the highest timeline number used up to now, durably before returning."""
