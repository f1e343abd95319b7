"""Names of the files by which sync programs stand for others whose content is elsewhere.

Where one is, the other is not lost, and may come back at any time: nothing is written in its place.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

ENDINGS: Final = (".icloud", ".nextcloud", ".owncloud", ".cloud", ".dropbox")


def stands_for(name: str) -> str:
    """The name of the file that a placeholder stands for."""
    stem, _, ending = name.rpartition(".")
    if ending == "icloud":
        return stem.removeprefix(".")
    return stem


def placeholders(names: Collection[str]) -> dict[str, str]:
    """The placeholders among the names of a directory, by the files that they stand for and that are not there."""
    found = {stands_for(name): name for name in names if name.endswith(ENDINGS)}
    return {file: name for file, name in found.items() if file not in names}
