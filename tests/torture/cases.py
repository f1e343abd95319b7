"""The cases of undo: what users of agents ran into, and what a file system can hold. Each says where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.torture.scene import Scene

Play = Callable[[Scene], None]


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        key: Its name in files and test ids.
        title: Its line in the table: what is gone back from.
        source: Where users met it.
        play: Plays it.
        home: Where the agent's data lies, relative to the place of the scene.
        unprivileged: Whether the agent must not read what its user may not read, though it is root.
        small_disk: Megabytes of the file system that the agent's data has to itself; 0: none.
    """

    key: str
    title: str
    source: str
    play: Play
    home: str = "home"
    unprivileged: bool = False
    small_disk: int = 0

    @property
    def why(self) -> str:
        """What is expected, in a sentence or two."""
        return " ".join((self.play.__doc__ or "").split())


CASES: Final[dict[str, Case]] = {}


def case(title: str, source: str, **settings: Any) -> Callable[[Play], Play]:
    """Enter a case under its function's name."""

    def enter(play: Play) -> Play:
        key = play.__name__
        assert key not in CASES, f"two cases are called {key}"
        CASES[key] = Case(key, title, source, play, **settings)
        return play

    return enter
