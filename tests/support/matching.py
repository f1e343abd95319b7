"""Placeholders for whole-object comparisons: equal to every value of a kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


class Like:
    """Equal to whatever `test` accepts."""

    def __init__(self, name: str, test: Callable[[Any], bool]) -> None:
        self._name = name
        self._test = test

    def __eq__(self, other: object) -> bool:
        return self._test(other)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"<{self._name}>"


def matching(pattern: str) -> Any:
    """Equal to every string that `pattern` matches from end to end."""
    compiled = re.compile(pattern, re.DOTALL)
    return Like(f"matching {pattern}", lambda value: isinstance(value, str) and bool(compiled.fullmatch(value)))


def containing(*words: str) -> Any:
    """Equal to every string in which all `words` stand."""
    return Like(f"containing {words}", lambda value: isinstance(value, str) and all(word in value for word in words))


def at_least(members: dict[str, Any]) -> Any:
    """Equal to every object with these members, whatever else it has."""

    def test(value: Any) -> bool:
        return isinstance(value, dict) and all(
            name in value and expected == value[name] for name, expected in members.items()
        )

    return Like(f"at least {members}", test)


A_STRING: Any = Like("a string", lambda value: isinstance(value, str) and value != "")
AN_INT: Any = Like("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool))
A_COUNT: Any = Like(
    "an integer >= 0", lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0
)
A_LIST: Any = Like("a list", lambda value: isinstance(value, list))
A_BOOL: Any = Like("a bool", lambda value: isinstance(value, bool))
HEAD: Any = A_STRING
UID: Any = A_STRING
TIME: Any = matching(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
