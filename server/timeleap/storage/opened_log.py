"""A log as it was found at open: its reader, what was lost, and what a crash left."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeleap.storage.damage import Damage, Recovery
from timeleap.storage.reader import StoredLog


class Loaded(Struct, frozen=True):
    log: StoredLog  # what of it counts: without a torn tail, without an incomplete batch at its end
    cut: int = 0  # bytes after that
    torn: int = 0  # of them, those that are no whole record
    rebuilt: bool = False  # there was no usable index
    parsed: bool = True  # every line was parsed at least once
    accepted: bool = False  # it was taken as it is, whatever the index file says
    lost: Damage | None = None  # where lines that were written are missing, or have others in their place
    undecided: bool = False  # some are missing, and nobody has accepted that: nothing may be written
    recovery: Recovery = Recovery()  # of a log that was opened: what there is to say about it
    highest: int = 0  # of a log that was opened: the highest number of a timeline

    @property
    def checked(self) -> bool:
        return self.parsed and self.log.state.length <= SMALL


# A log up to this size is checked in full whenever it is opened: that takes no time that a person notices.
SMALL: Final = 8 << 20
