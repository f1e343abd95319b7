"""The log as an object of the Python API sees it and writes to it.

All objects of a process on one file share one engine, so they share the order of things. An object that has seen the
log from its first record (it restored it, replaced it, or began it) shows the log itself. One that writes to an
existing log without having restored it shows what it wrote itself, as the original's objects do; the file has it all.
Its messages are a read-only sequence: one that is not looked at is never read, never an object.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, Self, SupportsIndex, overload

from timeleap.api.message import Message
from timeleap.errors import AlreadyRestoredError
from timeleap.storage.engine import LogEngine, replace_log
from timeleap.storage.log_files import Lease, share
from timeleap.storage.log_values import Appended, Durability, LogState, NewRecord, RecordKind, Replacement
from timeleap.storage.reader import LogReader
from timeleap.storage.record import after_record, classify, decode_json

CACHE_BYTES: Final = 8 << 20
"""How much memory messages may take that were looked at, by estimate."""

_OBJECT_BYTES: Final = 2_000  # of a message besides its text: models, lists, dicts

_CHUNK_LINES: Final = 64
_CHUNK_BYTES: Final = 1 << 20
_SHOWN: Final = 10


class History(Sequence[Message]):
    """All messages, oldest first: a live view, which grows and shrinks with what it shows.

    It compares equal to a list of the same messages, and adding a list to it makes a list. A message taken from
    it is a copy: changing that changes neither the log nor what the history shows.

    Args:
        source: The messages, or a function that gives the log or the messages to show at the moment.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, source: Callable[[], LogReader | list[Message]] | list[Message]) -> None:
        # A list is what a validator gives that makes a sequence again from its members (pydantic does).
        self._source = (lambda: source) if isinstance(source, list) else source
        self._cache: OrderedDict[tuple[int, bytes], Message] = OrderedDict()
        self._cached_bytes = 0

    def __len__(self) -> int:
        source = self._source()
        return len(source) if isinstance(source, list) else source.state.messages

    @overload
    def __getitem__(self, index: SupportsIndex) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            places = range(*index.indices(len(self)))
            if not places:
                return []
            low, high = min(places), max(places)
            found = self._between(low, high + 1)
            return found[:: places.step] if places.step > 0 else found[:: places.step][: len(places)]
        place = index.__index__()
        place += len(self) if place < 0 else 0
        found = self._between(place, place + 1) if 0 <= place < len(self) else []
        if not found:
            raise IndexError(f"there is no message {place} in a history of {len(self)}")
        return found[0]

    def __iter__(self) -> Iterator[Message]:
        place = 0
        while place < len(self):  # looked at again each time: it may grow meanwhile, as a list may
            found = self._between(place, min(place + _CHUNK_LINES, len(self)))
            place += len(found)
            yield from found

    def __reversed__(self) -> Iterator[Message]:
        for stop in range(len(self), 0, -_CHUNK_LINES):
            yield from reversed(self._between(max(0, stop - _CHUNK_LINES), stop))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | History):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __add__(self, other: Iterable[Message]) -> list[Message]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Message]) -> list[Message]:
        return [*other, *self]

    def copy(self) -> list[Message]:
        """The messages as they are now, as a list; so are a copy, a deep copy and what a pickle gives back."""
        return list(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Message]:
        return deepcopy(list(self), memo)

    def __reduce__(self) -> tuple[type[list[Message]], tuple[list[Message]]]:
        return list, (list(self),)

    def __repr__(self) -> str:
        if len(self) <= 2 * _SHOWN:
            return repr(list(self))
        left_out = f"<{len(self) - 2 * _SHOWN} more>"
        return f"[{', '.join([*map(repr, self[:_SHOWN]), left_out, *map(repr, self[-_SHOWN:])])}]"

    def _between(self, start: int, stop: int) -> list[Message]:
        source = self._source()
        if isinstance(source, list):
            return [message.model_copy(deep=True) for message in source[start:stop]]
        found: list[Message] = []
        line = source.line_of_message(start)
        while len(found) < stop - start:
            step = _step(source, line, stop - start - len(found))
            found += [
                self._message(row.messages_before, row.body)
                for row in source.rows(line, line + step)
                if row.kind is RecordKind.MESSAGE and row.messages_before < stop
            ]
            line += step
        return found

    def _message(self, index: int, body: bytes) -> Message:
        key = (index, body)
        message = self._cache.get(key)
        if message is not None:
            self._cache.move_to_end(key)
            return message.model_copy(deep=True)
        message = self._cache[key] = Message.from_record(decode_json(body))
        self._cached_bytes += len(body) + _OBJECT_BYTES
        while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
            (_, dropped), _ = self._cache.popitem(last=False)
            self._cached_bytes -= len(dropped) + _OBJECT_BYTES
        return message.model_copy(deep=True)


def _step(log: LogReader, line: int, wanted: int) -> int:
    """Number of lines to read at once: some more than messages are wanted, but not much memory."""
    if wanted == 1:
        return 1
    size = 0
    entries = log.entries(line, line + min(_CHUNK_LINES, 3 * wanted))
    for count, entry in enumerate(entries):
        size += entry.length
        if size > _CHUNK_BYTES:
            return max(1, count)
    return max(1, len(entries))


class LogView:
    """An object's view of the log at `path`: of the whole log, or else of what the object wrote itself, as if a log
    had nothing but that.

    Attributes:
        path: The log file.
        history: The messages seen, live.

    Args:
        path: The log file.
        durability: What a write waits for.
        modified: The text of the error of a second `restore`.
    """

    def __init__(self, path: Path | str, durability: Durability, *, modified: str) -> None:
        self.path = Path(path)
        self.history = History(self._messages)
        self._durability: Durability = durability
        self._modified = modified
        self._engine: LogEngine | None = None
        self._lease: Lease | None = None
        self._whole = False
        self._own = LogState()
        self._own_messages: list[Message] = []
        self._own_prompt: str | None = None

    @property
    def state(self) -> LogState | None:
        """The state of the log if this object sees it from its first record on, else None."""
        if not self._whole:
            return None
        return LogState() if self._engine is None else self._engine.state

    @property
    def seen(self) -> LogState:
        """The counts as far as this object sees: the log's, or those of what it wrote itself."""
        return self._own if self.state is None else self.state

    @property
    def system_prompt(self) -> str | None:
        """The system prompt in force."""
        state = self.state
        if state is None:
            return self._own_prompt
        if self._engine is None or state.system_prompt_line < 0:
            return None
        return _prompt(self._engine.read(state.system_prompt_line, state.system_prompt_line + 1)[0])

    async def restore(self) -> bool:
        """Show the log from its first record on. Writes nothing.

        Returns:
            Whether there was anything in it.

        Raises:
            AlreadyRestoredError: Messages are shown already.
        """
        if self.history:
            raise AlreadyRestoredError(self._modified)
        found = self.path.exists() and self.path.stat().st_size > 0
        if found:
            await self.engine()
        self._whole = True
        return found

    async def engine(self) -> LogEngine:
        """The engine on the file; opened when it is first asked for."""
        self._forget_if_forked()
        if self._lease is not None:
            return self._lease.engine
        lease = await share(self.path, lock="per-write", durability=self._durability)
        if self._lease is None:
            self._lease, self._engine = lease, lease.engine
            weakref.finalize(self, lease.abandon)
        else:
            await lease.aclose()  # another task was faster
        return self._lease.engine

    def begins_with(self, earlier: LogState) -> bool:
        """True if the log that this object sees has only grown since it was in the state `earlier`."""
        if self._engine is None or earlier.lines == 0:
            return earlier.lines == 0
        last = self._engine.entries(earlier.lines - 1, earlier.lines)
        return bool(last) and (last[0].state.chain, last[0].state.messages) == (earlier.chain, earlier.messages)

    async def append(
        self, plan: Callable[[LogState], Sequence[NewRecord]], messages: Sequence[Message] = (), *, mark: bool = True
    ) -> Appended:
        """Append records.

        Args:
            plan: Says which, from the state of the log (see `LogEngine.append`).
            messages: Those among them; read when they are written.
            mark: Mark several records as one batch.
        """
        records: Sequence[NewRecord] = ()

        def on_turn(state: LogState) -> Sequence[NewRecord]:
            nonlocal records
            records = plan(state)
            return records

        appended = await (await self.engine()).append(on_turn, mark=mark)
        if appended.before.lines == 0:
            self._whole = True
        self._note(records, messages)
        return appended

    async def replace(self, plan: Callable[[LogEngine, LogState], Replacement], wrote: NewRecord | None = None) -> None:
        """Put a new log in the place of the present one.

        Args:
            plan: Says which, from the present one and its state (see `replace_log`).
            wrote: The record in it that is new; without it this object sees the new log from now on.
        """
        engine = await self.engine()
        await replace_log(engine, lambda state: plan(engine, state))
        if wrote is None:
            self._whole = True
        else:
            self._note([wrote])

    def _forget_if_forked(self) -> None:
        """In a forked process the log is opened again, and shown from there."""
        if self._lease is not None and self._lease.forked:
            self._lease.forget()
            self._lease = None

    async def aclose(self) -> None:
        self._forget_if_forked()
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.aclose()

    def _note(self, records: Iterable[NewRecord], messages: Sequence[Message] = ()) -> None:
        """Keep what this object wrote, in case it does not see the log itself."""
        if self._whole:
            return
        self._own_messages += messages
        for record in records:
            self._own = after_record(self._own, record)
            if record.kind is RecordKind.SYSTEM_PROMPT:
                self._own_prompt = _prompt(record.body)

    def _messages(self) -> LogReader | list[Message]:
        return self._engine if self._whole and self._engine is not None else self._own_messages


def _prompt(body: bytes) -> str:
    return str(decode_json(body)["content"])


class OnLog:
    """An object of the Python API that shows a log; as a context manager it lets go of the file in the end."""

    _view: LogView

    async def aclose(self) -> None:
        """Let go of the file. What was seen can still be read; the next write opens it again."""
        await self._view.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def message_records(lines: Sequence[str]) -> list[NewRecord]:
    """The records of messages whose JSON is written already.

    Args:
        lines: Each message's JSON, made by a `Message`.

    Raises:
        ValueError: A line has no UTF-8 form (lone surrogates).
    """
    records = [classify(line.encode("utf-8")) for line in lines]
    if any(record.kind is not RecordKind.MESSAGE for record in records):
        raise ValueError("a message needs a role of its own; roles with an underscore are reserved")
    return records
