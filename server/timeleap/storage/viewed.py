"""Base of the engines that show a stored log and change it through a queue."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from timeleap.errors import ReadOnlyError
from timeleap.storage.engine import (
    Appended,
    Damage,
    Entry,
    LogEngine,
    LogState,
    NewRecord,
    Progress,
    Replaced,
    Replacement,
    Row,
)
from timeleap.storage.reader import StoredLog
from timeleap.storage.timelines import same_bytes
from timeleap.storage.writer import Writer

T = TypeVar("T")


class ViewedEngine(LogEngine):
    """An engine that has a view of its log as it is now, and a writer."""

    _log: StoredLog
    _writer: Writer
    _closed: bool = False

    @property
    def view(self) -> StoredLog:
        """The log as it is now: later changes do not show in it."""
        return self._log

    @property
    def state(self) -> LogState:
        """The state at the end of the log."""
        return self._log.state

    def entries(self, start: int, stop: int) -> list[Entry]:
        """The entries of the lines `[start, stop)`, clipped to the log."""
        return self._log.entries(start, stop)

    def read(self, start: int, stop: int) -> list[bytes]:
        """The bytes of the lines `[start, stop)`, verified."""
        return self._log.read(start, stop)

    def rows(self, start: int, stop: int) -> list[Row]:
        """Entries and bytes of the lines `[start, stop)` in one go."""
        return self._log.rows(start, stop)

    def line_of_message(self, index: int) -> int:
        """The line of the message `index`."""
        return self._log.line_of_message(index)

    def line_of_checkpoint(self, ordinal: int) -> int:
        """The line of the checkpoint record `ordinal`."""
        return self._log.line_of_checkpoint(ordinal)

    def line_of_usage(self, ordinal: int) -> int:
        """The line of the usage record `ordinal`."""
        return self._log.line_of_usage(ordinal)

    def find_checkpoint(self, checkpoint_id: int) -> int | None:
        """The line of the first checkpoint record with that id, or None."""
        return self._log.find_checkpoint(checkpoint_id)

    def state_before(self, line: int) -> LogState:
        """The state before `line`, its pending characters counted."""
        return self._log.state_before(line)

    def damage(self) -> list[Damage]:
        """Lines known not to be part of history, or not readable by the original."""
        return self._log.damage()

    def request_lines(self, limit: int, made_here: bool | None = None) -> list[int]:
        """The last `limit` lines that carry a request id, newest first."""
        return self._log.request_lines(limit, made_here)

    def verify(self, progress: Progress | None = None) -> list[Damage]:
        """Read and check every byte."""
        return self._log.verify(progress)

    @property
    def head(self) -> str:
        """Epoch, generation, and length with a fingerprint of the log's bytes."""
        return self.head_at(self._log.state)

    async def append(self, plan: Callable[[LogState], Sequence[NewRecord]], *, mark: bool = True) -> Appended:
        """Append the planned records as one step."""
        self._check_writable()
        return await self._writer.append(plan, mark=mark)

    async def replace(self, plan: Callable[[LogState], Replacement]) -> Replaced:
        """Put a new log in the place of the present one as one step."""
        self._check_writable()
        return await self._writer.run(lambda: self._replace(plan))

    async def run(self, job: Callable[[LogState], Awaitable[T]]) -> T:
        """Run `job` alone at its turn in the queue."""
        self._check_writable()
        return await self._writer.run(lambda: job(self._log.state))

    def same_timelines(self, timeline_id: str, other_id: str) -> bool:
        """True if two timelines have the same bytes."""
        known = {timeline.timeline_id: (timeline.bytes, timeline.chain) for timeline in self.timelines()}
        if known.get(timeline_id, 0) != known.get(other_id, 1):
            return False
        log, other = self.timeline(timeline_id), self.timeline(other_id)
        assert isinstance(log, StoredLog)
        assert isinstance(other, StoredLog)
        return log.file is not None and other.file is not None and same_bytes(log.file, other.file)

    @abstractmethod
    async def _replace(self, plan: Callable[[LogState], Replacement]) -> Replaced:
        """Replace the log; the turn has come."""

    def _ended(self, state: LogState) -> LogState:
        """The state a head is made of: a line feed that only ends the last line, which the next write brings along, makes
        no head of its own. Else no change could be made on the head of a log that lacks it."""
        log = self._log
        return log.state if log.open_ended and state.lines == log.state.lines else state

    def _check_writable(self) -> None:
        if self.access == "read":
            raise ReadOnlyError("the session is open to be read only")
        if self._closed:
            raise ReadOnlyError("the log is closed")


def head_text(epoch: int, generation: int, state: LogState) -> str:
    """The head of a log: what changes with a rewrite, a dot, what changes with every record.

    The fingerprint makes two logs of one length differ even if the first was lost to a power failure.
    """
    return f"{_base36(epoch)}.{generation}.{state.length}-{state.chain & 0xFFFFFFFF:08x}"


@lru_cache(8)
def _base36(number: int) -> str:
    digits, rest = "", abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"-{digits}" if number < 0 else digits
