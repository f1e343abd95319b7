"""The messages of a log as a read-only sequence: a message that is not looked at is never read, never an object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final, SupportsIndex, overload

from timeleap.api.message import Message
from timeleap.storage.engine import LogReader, RecordKind
from timeleap.storage.record import decode_json

CACHE_BYTES: Final = 8 << 20
"""How much memory messages may take that were looked at, by estimate."""

_OBJECT_BYTES: Final = 2_000  # of a message besides its text: models, lists, dicts

_CHUNK_LINES: Final = 64
_CHUNK_BYTES: Final = 1 << 20
_SHOWN: Final = 10


class History(Sequence[Message]):
    """All messages, oldest first: a live view, which grows and shrinks with what it shows.

    It compares equal to a list of the same messages, and adding a list to it makes a list. Changing a message taken
    from it changes neither the log nor what the next look-up returns for certain.

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
            return source[start:stop]
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
            return message
        message = self._cache[key] = Message.from_record(decode_json(body))
        self._cached_bytes += len(body) + _OBJECT_BYTES
        while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
            (_, dropped), _ = self._cache.popitem(last=False)
            self._cached_bytes -= len(dropped) + _OBJECT_BYTES
        return message


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
