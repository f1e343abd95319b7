"""Finding what is to be redacted: exact words, in any JSON spelling, a regular expression, or secrets by the rules of a
library that experts maintain.

Kingfisher knows some hundred kinds of keys and tokens, looks for all of them at once in linear time, and reads no file
and asks no network for it. It is an extra, and takes seconds to load: its compiled rules are kept in a directory.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from timeleap.errors import InvalidInputError
from timeleap.features.search.pattern import Pattern, Span, pattern

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

SHORTEST: Final = 8
"""Characters of what is taken for a secret: what is shorter would be found all over the place."""

_SHORT: Final = {"\n": "n", "\t": "t", "\r": "r", "\b": "b", "\f": "f"}
_BACKSLASHES: Final = r"\\{1,15}"
"""Before an escape: one where JSON stands by itself, three, seven and fifteen where it stands in strings of JSON."""


class Matcher(ABC):
    """Finds the text to be removed. Positions are counted in characters."""

    @abstractmethod
    def spans(self, text: str) -> list[Span]:
        """Spans of the matches in a text as it is: ascending, not overlapping, none of them empty.

        Raises:
            InvalidInputError: Looking for it in so long a text could take minutes.
        """

    def spelled(self, text: str) -> list[Span]:
        """Spans of the matches written with escapes, in a text that contains JSON but is not JSON."""
        del text
        return []

    def may_be_in(self, raw: bytes) -> bool:
        """True if a piece of a file could hold a match: saves searching most of those that do not."""
        del raw
        return True


class TextMatcher(Matcher):
    """Exact texts, in whatever way JSON spells them."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted(set(words), key=lambda text: (-len(text), text))
        self._raw = [(text.encode("utf-8", "surrogatepass"), _escapes_of(text)) for text in self._words]
        self._spellings: re.Pattern[str] | None = None

    def spans(self, text: str) -> list[Span]:
        found: list[Span] = []
        for words in self._words:
            more = without_overlaps(found, _places(text, words))
            found = sorted([*found, *more]) if found and more else found or more
        return found

    def spelled(self, text: str) -> list[Span]:
        if "\\" not in text or not self._words:
            return []
        if self._spellings is None:
            self._spellings = re.compile("|".join("".join(map(_spelling, words)) for words in self._words))
        return [match.span() for match in self._spellings.finditer(text)]

    def may_be_in(self, raw: bytes) -> bool:
        return any(encoded in raw or any(sign in raw for sign in signs) for encoded, signs in self._raw)


class ExpressionMatcher(Matcher):
    """Matches of a regular expression, found in linear time (see `timeleap.features.search.pattern`)."""

    def __init__(self, expression: str) -> None:
        """Raises InvalidInputError; it says where the expression is wrong, and nothing of what it is."""
        try:
            self._pattern: Pattern = pattern(expression, regex=True)
        except InvalidInputError as error:
            problem = str(error.data["errors"][0]["msg"]).partition(": ")[0]
            raise _refused(problem) from None

    def spans(self, text: str) -> list[Span]:
        if self._pattern.too_dear(text):
            raise _refused("the expression is too large for texts as long as some of this session's; shorten it")
        whole = text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return _in_characters(text, [span for span in self._pattern.spans(whole) if span is not None])


def _places(text: str, words: str) -> Iterator[Span]:
    at = text.find(words)
    while at >= 0:
        yield at, at + len(words)
        at = text.find(words, at + len(words))


def without_overlaps(taken: list[Span], more: Iterable[Span]) -> list[Span]:
    """Keep the spans of `more` that overlap with none of `taken`; both are ascending, and none overlaps with one of its own."""
    free: list[Span] = []
    at = 0
    for start, end in more:
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        if at == len(taken) or end <= taken[at][0]:
            free.append((start, end))
    return free


def _escapes_of(words: str) -> Sequence[bytes]:
    """Signs that a piece of a file may hold the words in a way in which their bytes do not show."""
    plain = all(" " <= char <= "~" and char not in '"\\/' for char in words)
    return (b"\\u",) if plain else (b"\\",)


def _spelling(char: str) -> str:
    """A regular expression for a character as it is, or escaped however often."""
    units = char.encode("utf-16-be", "surrogatepass").hex()
    coded = "".join(_BACKSLASHES + "u" + _any_case(units[at : at + 4]) for at in range(0, len(units), 4))
    if char in _SHORT:
        return f"(?:{re.escape(char)}|{_BACKSLASHES}{_SHORT[char]}|{coded})"
    if char == "\\":
        return rf"(?:{coded}|{_BACKSLASHES})"
    if char in '"/':
        return rf"(?:{coded}|\\{{0,15}}{char})"
    return f"(?:{re.escape(char)}|{coded})"


def _any_case(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _in_characters(text: str, spans: list[Span]) -> list[Span]:
    """Spans in UTF-16 units as spans in characters."""
    if text.isascii() or not spans:
        return spans
    raw = text.encode("utf-16-le", "surrogatepass")
    found: list[Span] = []
    done = characters = 0
    for start, end in spans:
        begin = characters + _length(raw, done, start)
        done, characters = end, begin + _length(raw, start, end)
        found.append((begin, characters))
    return found


def _length(raw: bytes, start: int, end: int) -> int:
    return len(raw[2 * start : 2 * end].decode("utf-16-le", "surrogatepass"))


def _refused(problem: str) -> InvalidInputError:
    return InvalidInputError(f"pattern: {problem}", errors=[{"loc": ["pattern"], "msg": problem, "type": "regex"}])


_scanners: list[Scanner] = []


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Probable secrets in a text, each with the name of the rule that matched. Call `load_rules` first."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) < SHORTEST:
        return
    for found in _scanners[0].scan(encoded):
        place = found.location
        value = encoded[place["start_offset"] : place["end_offset"]].decode("utf-8", "replace")
        if len(value) >= SHORTEST:
            yield found.rule_id.rpartition(".")[2].rpartition("/")[2], value


def load_rules(cache: Path | None = None) -> None:
    """Load the rules, once a process, and keep them in `cache` for the next one. Blocking, for seconds.

    Raises:
        InvalidInputError: The library is not installed.
    """
    if _scanners:
        return
    try:
        from kingfisher_sdk import Rules, Scanner
    except ImportError:
        text = "looking for secrets needs the extra timeleap[redact]: pip install 'timeleap[redact]'"
        problem = {"loc": ["secrets"], "msg": text, "type": "extra"}
        raise InvalidInputError(text, errors=[problem]) from None
    rules = Rules(cache=cache is not None, cache_dir=str(cache) if cache is not None else None)
    _scanners.append(Scanner(rules))
