"""Notes about each of a million records in few bytes: ids as numbers, texts and times packed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from timeleap_agents.mirrors.scratch import ByteRows, Code, Column, Scratch

NO_TIME: Final = -(1 << 63)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_BITS: Final = (1 << 64) - 1
_UUID: Final = b"\0"
_TEXT: Final = b"\1"


class IdNumbers:
    """Numbers from 1 on for ids; 0 is that of the empty text.

    Not the ids are held but 64 bits of each, made with a key of this process: two of a million ids have the same ones with
    a probability of 3 in 100 millions.
    """

    def __init__(self, scratch: Scratch | None = None) -> None:
        self._scratch = scratch or Scratch()
        self._slots = self._scratch.numbers("I", 64)  # a hash table of numbers, with free places; 0 is free
        self._hashes = Column(self._scratch, "Q")  # by number, from 1 on

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, text: str) -> int:
        """The number of an id; 0 for one that has none."""
        return self._slots[self._slot(hash(text) & _BITS)] if text else 0

    def number(self, text: str) -> int:
        """The number of an id, the next one for one that has none."""
        if not text:
            return 0
        key = hash(text) & _BITS
        slot = self._slot(key)
        if not self._slots[slot]:
            self._hashes.append(key)
            self._slots[slot] = len(self._hashes)
            if 3 * len(self._hashes) > 2 * len(self._slots):
                self._grow()
            return len(self._hashes)
        return self._slots[slot]

    def _slot(self, key: int) -> int:
        """The place of an id in the table, or the free one for it."""
        slots, hashes = self._slots, self._hashes.values
        last = len(slots) - 1
        slot = key & last
        while (number := slots[slot]) and hashes[number - 1] != key:
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        self._slots = self._scratch.numbers("I", 2 * len(self._slots))
        for number, key in enumerate(self._hashes.taken(), 1):
            self._slots[self._slot(key)] = number
        self._scratch.let_go()


class CallNotes:
    """Calls in a conversation, by their numbers: those that are made, and those that are answered alone.

    Attributes:
        lacks: How many are answered alone.
    """

    def __init__(self) -> None:
        self._made, self._alone = bytearray(), bytearray()
        self.lacks = 0

    def make(self, call: int) -> None:
        """Note that a call is made."""
        self._widen(call)
        self.lacks -= self._alone[call]
        self._made[call], self._alone[call] = True, False

    def answer(self, call: int) -> None:
        """Note the result of a call."""
        self._widen(call)
        if not self._made[call] and not self._alone[call]:
            self._alone[call] = True
            self.lacks += 1

    def made(self, call: int) -> bool:
        """True of a call that is made somewhere in the conversation."""
        return call < len(self._made) and bool(self._made[call])

    def alone_but(self, calls: Iterable[int]) -> int:
        """Number of the calls that are answered alone, without these."""
        return self.lacks - sum(self._alone[call] for call in set(calls) if call < len(self._alone))

    def _widen(self, call: int) -> None:
        more = bytes(max(0, call + 1 - len(self._made)))
        self._made += more
        self._alone += more


class PackedTexts:
    """Texts one behind the other; a UUID in its usual form takes 17 bytes."""

    def __init__(self, scratch: Scratch) -> None:
        self._rows = ByteRows(scratch)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> str:
        packed = self._rows[number]
        if packed[:1] == _UUID:
            return _with_hyphens(packed[1:].hex())
        return packed[1:].decode("utf-8", "surrogatepass")

    def append(self, text: str) -> None:
        uuid = _packed_uuid(text)
        if uuid is None:
            self._rows.append(_TEXT + text.encode("utf-8", "surrogatepass"))
        else:
            self._rows.append(_UUID + uuid)

    def pop(self) -> None:
        """Take the last one away."""
        self._rows.pop()


class NumberLists:
    """A list of numbers for each row."""

    def __init__(self, scratch: Scratch | None = None, code: Code = "I") -> None:
        scratch = scratch or Scratch()
        self._values, self._ends = Column(scratch, code), Column(scratch, "I")

    def append(self, numbers: Iterable[int]) -> None:
        """Add a row."""
        self._values.extend(numbers)
        self._ends.append(len(self._values))

    def pop(self) -> None:
        """Take the last row away."""
        last = len(self._ends) - 1
        self._values.cut(self.slots(last).start)
        self._ends.cut(last)

    def slots(self, row: int) -> range:
        """The places of a row's numbers among all numbers."""
        return range(self._ends[row - 1] if row else 0, self._ends[row])

    def at(self, slot: int) -> int:
        """The number in a place."""
        return self._values[slot]

    def of(self, row: int) -> memoryview:
        """The numbers of a row."""
        slots = self.slots(row)
        return self._values.values[slots.start : slots.stop]

    def every(self) -> memoryview:
        """The numbers of all rows."""
        return self._values.taken()

    @property
    def size(self) -> int:
        """How many numbers all rows have."""
        return len(self._values)


def packed_time(text: str | None) -> int:
    """A time as sessions keep it (ISO-8601 UTC, with milliseconds), in milliseconds since 1970; `NO_TIME` for none."""
    return NO_TIME if text is None else (datetime.fromisoformat(text) - _BEGINNING) // _MILLISECOND


def time_text(packed: int) -> str | None:
    """The time that `packed_time` has packed."""
    if packed == NO_TIME:
        return None
    return f"{(_BEGINNING + timedelta(milliseconds=packed)).isoformat(timespec='milliseconds')[:-6]}Z"


def _packed_uuid(text: str) -> bytes | None:
    """The 16 bytes of a UUID in its usual form; None of any other text."""
    if len(text) != 36:
        return None
    try:
        packed = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        return None
    return packed if _with_hyphens(packed.hex()) == text else None


def _with_hyphens(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
