"""Steps of a conversation, of which there may be a million: they are held in few bytes each, and made when they are asked
for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, overload

import msgspec
from msgspec import Struct

from timeleap_agents.mirrors.scratch import STAGE, ByteRows, Scratch


class Step(Struct, frozen=True, array_like=True):
    """A line of a file that is part of the conversation as it is now.

    Attributes:
        key: Tells it from all others of its file.
        time: ISO-8601 UTC; None where it is not known.
    """

    key: str
    offset: int
    length: int
    time: str | None

    @property
    def name(self) -> str:
        """Tells it, and how it is shown, from all others."""
        return self.key


class PlacedStep(Step, frozen=True):
    """A step of one of the files of a session.

    Attributes:
        file: The file.
    """

    file: Path


class StepSource(Protocol):
    """All steps that a reader knows."""

    def step(self, place: int) -> Step:
        """The step that a number stands for."""
        ...


class Steps(Sequence[Step]):
    """Some of the steps of a source.

    Attributes:
        places: The numbers by which the source knows them.
    """

    def __init__(self, source: StepSource, places: array[int] | memoryview) -> None:
        self.source, self.places = source, places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Step: ...

    @overload
    def __getitem__(self, place: slice) -> Steps: ...

    def __getitem__(self, place: int | slice) -> Step | Steps:
        if isinstance(place, slice):
            return Steps(self.source, self.places[place])
        return self.source.step(self.places[place])

    def __iter__(self) -> Iterator[Step]:
        return map(self.source.step, self.places)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Steps) and other.source is self.source and self.places == other.places:
            return True
        # One step may stand at two places, as it was read at two times.
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))


def common_beginning(steps: Sequence[Step], others: Sequence[Step]) -> int:
    """Number of steps that both begin with."""
    most = min(len(steps), len(others))
    if most == 0 or steps[:most] == others[:most]:
        return most
    return next(number for number in range(most) if steps[number] != others[number])


S = TypeVar("S", bound=Step)
T = TypeVar("T", bound=Struct)


class PackedList(Generic[T]):
    """Structs of one class, packed one behind the other. The class is `array_like`."""

    def __init__(self, kind: type[T]) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._number_of_file)
        self._decoder = msgspec.msgpack.Decoder(kind, dec_hook=self._file)
        self._scratch = Scratch()
        self._rows = ByteRows(self._scratch)
        self._files: list[Path] = []
        self._file_numbers: dict[Path, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> T:
        return self._decoder.decode(self._rows[place])

    def add(self, each: T) -> int:
        """Add one; returns its place."""
        self._rows.append(self._encoder.encode(each))
        if len(self._rows) % STAGE == 0:
            self._scratch.let_go()
        return len(self._rows) - 1

    def _number_of_file(self, file: Any) -> int:
        number = self._file_numbers.setdefault(file, len(self._files))
        if number == len(self._files):
            self._files.append(file)
        return number

    def _file(self, kind: type, number: Any) -> Path:
        del kind
        file: Path = self._files[number]
        return file


class StepTable(PackedList[S]):
    """Steps of one class."""

    def step(self, place: int) -> S:
        """The step at a place."""
        return self[place]
