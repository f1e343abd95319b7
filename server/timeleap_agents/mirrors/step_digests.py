"""Digests of the steps of a conversation, each of one and all before it: by them a mirror knows what it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, overload

from timeleap_agents.mirrors.steps import Step, common_beginning

SIZE: Final = 8  # bytes


class DigestList(Sequence[str]):
    """Digests as hexadecimal digits, packed."""

    def __init__(self, packed: bytearray) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed) // SIZE

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> DigestList: ...

    def __getitem__(self, place: int | slice) -> str | DigestList:
        if isinstance(place, slice):
            start, stop, _ = place.indices(len(self))
            return DigestList(self._packed[SIZE * start : SIZE * stop])
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self._packed[SIZE * place : SIZE * (place + 1)].hex()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


class StepDigests:
    """Digests of steps; made again only for those that changed."""

    def __init__(self) -> None:
        self._steps: Sequence[Step] = ()
        self._packed = bytearray()

    def of(self, steps: Sequence[Step]) -> DigestList:
        """The digests of these steps; they hold until this is asked again."""
        known = common_beginning(steps, self._steps)
        del self._packed[SIZE * known :]
        last = self._packed[-SIZE:].hex()
        for number in range(known, len(steps)):
            text = f"{last}\n{steps[number].name}".encode("utf-8", "replace")
            digest = hashlib.blake2b(text, digest_size=SIZE)
            self._packed += digest.digest()
            last = digest.hexdigest()
        self._steps = steps
        return DigestList(self._packed)
