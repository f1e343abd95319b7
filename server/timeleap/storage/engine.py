"""The storage-engine interface: what a session's log can do, whatever keeps it.

An engine owns ONE session's log and its timelines. It is an actor: appends and `run` are queued and take effect in the
order of their calls; consecutive appends share one write and one sync (group commit). An append takes a *plan*: a pure
function that is called with the log's state as it will be at its turn and says what to write; what it raises goes to its
caller and changes nothing. A cancelled call either did nothing or is finished and kept. Who waits for a `run` goes on
before the next step begins: what it reads without waiting is the log it made.

An engine is read as any log is (`LogReader`), and says by `view` only which log it shows at the moment.

Adding an engine: implement `LogEngine`, add a line to `tests/unit/storage/engines.py`; the conformance suite judges it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from timeleap.storage.damage import Damage, Recovery
from timeleap.storage.log_values import (
    Access,
    Appended,
    AppendStep,
    Edit,
    LogState,
    NewRecord,
    Plan,
    Prepared,
    Progress,
    QueuedAppend,
    Replaced,
    Replacement,
    Timeline,
)
from timeleap.storage.reader import LogReader, StoredLog, same_bytes
from timeleap.uncancelled_work import Outcome

T = TypeVar("T")


class Drafted(Prepared, frozen=True, kw_only=True):
    """A replacement whose new log stands beside the present one, and can be read."""

    log: StoredLog


class LogEngine(LogReader):
    """The live log of one session, its timelines, its lock and its watchers."""

    access: Access

    @property
    @abstractmethod
    def head(self) -> str:
        """Opaque; changes with every change of the log; never repeats in a session (G7)."""

    @abstractmethod
    def head_at(self, state: LogState) -> str:
        """The head the present log has at `state`: what a plan compares `expectedHead` with."""

    @property
    @abstractmethod
    def recovery(self) -> Recovery:
        """Findings and repairs of opening the log, and whether another program has changed it since."""

    @abstractmethod
    def submit(self, append: AppendStep) -> None:
        """Append in this very call where nothing has to be waited for, else at its turn; the step is told its end.
        Several records are one batch: marked in `_tl`, all or nothing also over a crash (G2). Raises ReadOnlyError."""

    async def append(self, plan: Plan, *, mark: bool = True, more: bool = False) -> Appended:
        """Append the planned records as one step; returns when they are as durable as was asked for.

        `mark=False`: no marks, for callers that must write the original's very bytes; after a crash only the first
        records may be there. `more`: others are asked for in this turn of the event loop; they are written together.
        Raises ReadOnlyError, ExternallyModifiedError, StorageFailureError: nothing was written; state and disk agree.
        """
        outcome: Outcome[Appended] = Outcome()
        self.submit(QueuedAppend(planned=plan, mark=mark, more=more, outcome=outcome))
        return await outcome.result_uncancelled()

    @abstractmethod
    async def run(self, job: Callable[[LogState], Awaitable[T]], *, rewrites: bool = False) -> T:
        """Run `job` alone at its turn in the queue; one that `rewrites` the log not where another program changed that."""

    async def at_turn(self, read: Callable[[], T], *, latest: bool = True) -> T:
        """The result of `read` when all earlier changes have taken effect; `latest`: those of other processes, too."""

        async def job(_: LogState) -> T:
            return read()

        return read() if self.access == "read" else await self.run(job)

    @abstractmethod
    async def add(self, records: Sequence[NewRecord]) -> Appended:
        """Append records at one's turn, within `run`. Raises as `append`."""

    @abstractmethod
    async def rewrite(self, steps: Callable[[], T]) -> T:
        """Take blocking steps in the log's thread, at one's turn within `run`: among them `draft` and `commit`. A log that was committed is shown
        when this returns, in that very call."""

    @abstractmethod
    def draft(self, replacement: Replacement) -> AbstractContextManager[Drafted]:
        """Build a new log beside the present one; removed again if the block raises. Blocking, a step of `rewrite`.
        Raises TimelineNotFoundError, CorruptedError, and what `append` does: nothing was changed."""

    @abstractmethod
    def commit(self, drafted: Drafted) -> Replaced:
        """Put the draft in the place of the present log, a timeline then, as ONE atomic step (G3). Blocking, a step of
        `rewrite`. Raises as `append`."""

    @abstractmethod
    async def revise(self, edit: Edit, timeline_id: str | None = None) -> int:
        """Rewrite the live log, or a timeline, line by line, in one step, keeping nothing of what it was. To be
        called at one's turn, within `run`. Says how many lines changed; if any did, the head does. Raises as `append`."""

    @abstractmethod
    def timelines(self, view: LogReader | None = None) -> list[Timeline]:
        """All timelines, newest first (counts are derived, and kept once known). With `view` those there were while it
        was the live log: a reader may be overtaken by the owner, who sets it aside before the timelines are listed."""

    @abstractmethod
    def timeline(self, timeline_id: str) -> StoredLog:
        """A reader of one timeline; never writes. Raises TimelineNotFoundError."""

    @abstractmethod
    def remove_timeline(self, timeline_id: str) -> None:
        """Delete a timeline for good (retention, prune). Its id is not reused."""

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
        """Take over what is on disk now ; the head changes."""

    @abstractmethod
    async def aclose(self) -> None:
        """Finish what was accepted, then release lock and descriptors. Idempotent."""


def same_timelines(engine: LogEngine, timeline_id: str, other_id: str) -> bool:
    """True if two timelines have the same bytes; they are read only if they may be equal. Blocking."""
    known = {timeline.timeline_id: (timeline.bytes, timeline.chain) for timeline in engine.timelines()}
    # Two that are not there never match.
    if known.get(timeline_id, 0) != known.get(other_id, 1):
        return False
    file, other = engine.timeline(timeline_id).file, engine.timeline(other_id).file
    return file is not None and other is not None and same_bytes(file, other)


async def replace_log(engine: LogEngine, plan: Callable[[LogState], Replacement]) -> Replaced:
    """Draft and commit at its turn a log of which nothing is noted beside it."""
    return await engine.run(lambda state: engine.rewrite(partial(_replaced, engine, plan(state))), rewrites=True)


def _replaced(engine: LogEngine, replacement: Replacement) -> Replaced:
    with engine.draft(replacement) as drafted:
        done = engine.commit(drafted)
    if drafted.replaces and drafted.equals is not None:
        engine.remove_timeline(drafted.timeline_id)
    return done
