"""Servers whose waits are shorter than those of the program: of these a test wants to see the end, not the length.

Where servers are not forked (`tests.support.forked`) they wait as long as ever.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from operator import attrgetter
from types import ModuleType

_VARIABLE = "TESTS_WAITS"

Wait = tuple[ModuleType, str]
"""A module, and the dotted name of a number of seconds in it."""


def with_waits(seconds: Mapping[Wait, float]) -> dict[str, str]:
    """The variable that has a server wait for so many seconds."""
    for module, name in seconds:
        assert isinstance(attrgetter(name)(module), float), f"{module.__name__} has no such seconds: {name}"
    return {_VARIABLE: json.dumps([[module.__name__, name, given] for (module, name), given in seconds.items()])}


def set_waits(environment: Mapping[str, str]) -> None:
    """Set what the variable says, in the process that is to be the server."""
    for module, dotted, seconds in json.loads(environment.get(_VARIABLE, "[]")):
        *path, name = dotted.split(".")
        place = importlib.import_module(module)
        for member in path:
            place = getattr(place, member)
        setattr(place, name, seconds)
