"""Notes about the records of a file that has a million of them: in memory while they are few, else in a temporary file, so that
the system takes back the memory of those that are not in use."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeVar

Code = Literal["i", "I", "q", "Q"]
T = TypeVar("T")

LEAST: Final = 1 << 18
"""Bytes of a column that goes to a file."""
HELD: Final = 1 << 19
"""Bytes of packed notes that stay in memory until they go to a file."""
ROOM: Final = 1 << 30
"""Bytes of the columns of one file that may be put aside."""
STAGE: Final = 1 << 16
"""Records after which memory is given back."""
_CAN_MAP: Final = hasattr(mmap, "MADV_DONTNEED") and hasattr(os, "posix_fallocate")
_BYTES: Final[dict[Code, int]] = {"i": 4, "I": 4, "q": 8, "Q": 8}
_DISK: Final = Path("/", "var", "tmp")


class Scratch:
    """Columns of numbers about one session. Where no file can be made, they stay in memory.

    Args:
        others: Columns that are read together with these: their memory is given back as well.
    """

    def __init__(self, others: Scratch | None = None) -> None:
        self._others = others
        self._map: mmap.mmap | None = None
        self._file: IO[bytes] | None = None
        self._used = 0

    def numbers(self, code: Code, size: int, fill: int = 0) -> memoryview:
        """A column of `size` numbers of the type `code` (as of the module `array`), all 0 or all -1."""
        length = size * _BYTES[code]
        column = self._put_aside(length) if length >= LEAST else None
        if column is None:
            column = memoryview(bytearray(length))
        if fill:
            for at in range(0, length, STAGE):
                column[at : at + STAGE] = b"\xff" * min(STAGE, length - at)
        return column.cast(code)

    def aside(self, numbers: array[int]) -> memoryview:
        """Some whole numbers of four bytes, put aside if they are many."""
        column = self.numbers("i", len(numbers))
        column[:] = memoryview(numbers)
        self.let_go()
        return column

    def let_go(self) -> None:
        """Give back the memory of all columns that were put aside; they keep what they hold."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)
        if self._others is not None:
            self._others.let_go()

    def stages(self, every: Iterable[T]) -> Iterator[T]:
        """Go through places, or lines; memory is given back now and then on the way."""
        for number, each in enumerate(every, 1):
            yield each
            if number % STAGE == 0:
                self.let_go()

    def _put_aside(self, length: int) -> memoryview | None:
        """Room in the file; None where there is none."""
        start = self._used
        end = start + -(-length // mmap.PAGESIZE) * mmap.PAGESIZE
        if not _CAN_MAP or end > ROOM:
            return None
        try:
            if self._map is None or self._file is None:
                self._file = _temporary_file(self)
                self._file.truncate(ROOM)
                self._map = mmap.mmap(self._file.fileno(), ROOM)
            # A page without room on the disk would end the process when it is written to.
            os.posix_fallocate(self._file.fileno(), start, end - start)
        except (OSError, ValueError):
            return None
        self._used = end
        return memoryview(self._map)[start : start + length]


class Column:
    """A column of numbers that grows.

    Attributes:
        values: The numbers, with room for more behind them.
    """

    __slots__ = ("_code", "_scratch", "_size", "values")

    def __init__(self, scratch: Scratch, code: Code) -> None:
        self._scratch, self._size = scratch, 0
        self._code: Code = code
        self.values = scratch.numbers(code, 16)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int) -> int:
        return self.values[place]

    def __setitem__(self, place: int, value: int) -> None:
        self.values[place] = value

    def append(self, value: int) -> None:
        """Add a number."""
        if self._size == len(self.values):
            self._widen()
        self.values[self._size] = value
        self._size += 1

    def extend(self, values: Iterable[int]) -> None:
        """Add numbers."""
        for value in values:
            self.append(value)

    def cut(self, size: int) -> None:
        """Keep the first `size` numbers."""
        self._size = size

    def taken(self) -> memoryview:
        """The numbers as they are now, without the room behind them."""
        return self.values[: self._size]

    def _widen(self) -> None:
        wider = self._scratch.numbers(self._code, 2 * len(self.values))
        wider[: self._size] = self.values
        self.values = wider
        self._scratch.let_go()


class ScratchBytes:
    """Bytes that are added at the end, and read again from anywhere."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._begin = 0  # of those that are held in memory
        self._file: IO[bytes] | None = None
        self._has_room = hasattr(os, "pread")

    def __len__(self) -> int:
        return self._begin + len(self._held)

    def append(self, data: bytes) -> None:
        """Add bytes that are read together."""
        self._held += data
        if len(self._held) >= HELD and self._has_room:
            self._put_aside()

    def read(self, start: int, end: int) -> bytes:
        """The bytes from one place to another, of those that were added together."""
        if start >= self._begin or self._file is None:
            return bytes(self._held[start - self._begin : end - self._begin])
        return os.pread(self._file.fileno(), end - start, start)

    def cut(self, end: int) -> None:
        """Keep the bytes before a place."""
        self._begin = min(self._begin, end)
        del self._held[end - self._begin :]

    def _put_aside(self) -> None:
        try:
            if self._file is None:
                self._file = _temporary_file(self)
            self._file.seek(self._begin)
            self._file.write(self._held)
            self._file.flush()
        except OSError:
            self._has_room = False
            return
        self._begin += len(self._held)
        self._held = bytearray()


class ByteRows:
    """Rows of bytes, each known by its number.

    Args:
        scratch: Where the places of the rows are.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._bytes = ScratchBytes()
        self._ends = Column(scratch, "Q")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        return self._bytes.read(self._start(number), self._ends[number])

    def append(self, row: bytes) -> None:
        """Add a row at the end."""
        self._bytes.append(row)
        self._ends.append(len(self._bytes))

    def pop(self) -> None:
        """Take the last row away."""
        last = len(self) - 1
        self._bytes.cut(self._start(last))
        self._ends.cut(last)

    def _start(self, number: int) -> int:
        return self._ends[number - 1] if number else 0


def folder_on_disk() -> Path | None:
    """The folder for temporary files that may be large; None for the usual one, which some systems hold in memory."""
    return None if os.environ.get("TMPDIR") or not os.access(_DISK, os.W_OK) else _DISK


def _temporary_file(owner: Any) -> IO[bytes]:
    """A file without a name, closed when its owner is gone."""
    stack = ExitStack()
    weakref.finalize(owner, stack.close)
    return stack.enter_context(tempfile.TemporaryFile(dir=folder_on_disk()))
