"""How the work of a function grows with a hostile text, by the processor's time of two sizes and no clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATHOLOGICAL: Final = (
    *("://", "a://", "www.", "[", "[[", "](", "](a", "[a](b", "] [", "![", "]:", "[x]:"),
    *(
        "`",
        "` ``",
        "``` ",
        "`|",
        "\\`",
        "~~~",
        "<",
        "<a ",
        "<!--",
        "</",
        "&",
        "&#",
        "&lt;",
        "*_",
        "**a",
        "_a",
        "__",
        "|",
        "| a ",
    ),
    *(
        " ",
        " a",
        "\t",
        "> ",
        ">> ",
        "- ",
        "1. ",
        "# ",
        "$",
        "$$",
        "@",
        "a@b.c ",
        "mailto:",
        '"',
        '\\"',
        '"\\',
        "'",
        "(",
        ")",
    ),
    *(
        '](# "',
        "](https://a",
        "\n",
        "\r",
        "\n\n",
        "\n>",
        "\n- ",
        "    a\n",
        "{",
        "[{",
        '{"a":',
        "a.",
        "a-",
        "a_",
        "../",
        "C:\\",
    ),
    *(
        "<file>\n",
        "<command>",
        "<command> ",
        "<think>",
        "<system>",
        " (e.g. ",
        "error ",
        "Exit ",
        "def ",
        "password=",
        "é",
        "=",
        ": ",
    ),
)
"""Units that a text repeats."""

_SIZE: Final = 30_000
_WORTH_A_LOOK: Final = 0.02
"""Seconds: what is done sooner shows no growth that could be told from noise, and is no quadratic work either."""
_MOST: Final = 3.0
"""Times as much work for twice the text: linear work takes 2 times as much, quadratic work 4 times."""


def grows_too_fast(work: Callable[[str], object], unit: str) -> bool:
    """True if twice the text takes clearly more than twice the work, each time of several that it is tried."""
    return all(_ratio(work, unit) > _MOST for _ in range(3))


def _ratio(work: Callable[[str], object], unit: str) -> float:
    before = _least(work, _text(unit, _SIZE))
    if before < _WORTH_A_LOOK:
        return 0
    return _least(work, _text(unit, 2 * _SIZE)) / before


def _text(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def _least(work: Callable[[str], object], text: str) -> float:
    taken = []
    for _ in range(2):
        begun = time.process_time()
        work(text)
        taken.append(time.process_time() - begun)
    return min(taken)
