"""The lines by which two texts differ, in the form that `diff -u` gives, at a cost that hostile text cannot raise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

_MOST_COMPARED: Final = 3_000_000
"""Lines and pairs of equal lines that are looked at; what is left then differs as a whole."""
_CONTEXT: Final = 3  # lines

Step = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


def unified_lines(before: Sequence[str], after: Sequence[str], old: str, new: str) -> Iterator[str]:
    """Give the lines of a patch; nothing where the texts are the same.

    Args:
        before: The lines of the one text.
        after: Those of the other.
        old: The name of the one.
        new: That of the other.
    """
    begun = False
    for group in _Steps(before, after).get_grouped_opcodes(_CONTEXT):
        if not begun:
            yield from (f"--- {old}", f"+++ {new}")
            begun = True
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in before[start:end])
            else:
                yield from (f"-{line}" for line in before[start:end])
                yield from (f"+{line}" for line in after[new_start:new_end])


class _Steps(SequenceMatcher[str]):
    """Gives the steps of `_steps` to the grouping of the library."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__()
        self._found = _steps(before, after)

    def get_opcodes(self) -> list[Step]:
        return self._found


def _steps(before: Sequence[str], after: Sequence[str]) -> list[Step]:
    """The way from one text to the other: what both begin and end with is found first."""
    least = min(len(before), len(after))
    same = next((at for at in range(least) if before[at] != after[at]), least)
    left = least - same
    tail = next((at for at in range(left) if before[-1 - at] != after[-1 - at]), left)
    old, new = before[same : len(before) - tail], after[same : len(after) - tail]
    steps: list[Step] = []
    place = new_place = 0
    blocks = [(0, 0, same), *((i + same, j + same, size) for i, j, size in _blocks(old, new))]
    for start, new_start, size in (*blocks, (len(before) - tail, len(after) - tail, tail)):
        if place < start or new_place < new_start:
            steps.append(("replace", place, start, new_place, new_start))
        if size:
            steps.append(("equal", start, start + size, new_start, new_start + size))
        place, new_place = start + size, new_start + size
    return steps


def _blocks(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of lines that both have, in order: where each begins, and how long it is."""
    matcher = SequenceMatcher(None, before, after)
    places = Counter(after)
    popular = (
        len(after) // 100 + 1 if len(after) >= 200 else len(after)
    )  # no match begins with such a line, as difflib has it
    prices = [0]
    for line in before:
        prices.append(prices[-1] + 1 + (places[line] if places[line] <= popular else 0))
    left = _MOST_COMPARED
    found: list[tuple[int, int, int]] = []
    parts = [(0, len(before), 0, len(after))]
    while parts:
        start, end, new_start, new_end = parts.pop()
        price = prices[end] - prices[start]
        if start == end or new_start == new_end or price > left:
            continue
        left -= price
        i, j, size = matcher.find_longest_match(start, end, new_start, new_end)
        if size:
            found.append((i, j, size))
            parts += ((start, i, new_start, j), (i + size, end, j + size, new_end))
    return sorted(found)


def _range(start: int, end: int) -> str:
    """A range of lines as patches name it."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"
