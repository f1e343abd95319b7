"""Search patterns: words as they are, or a regular expression.

Regular expressions are RE2's: the time a search takes grows with the length of the text and with nothing else, so none
of them can explode. What cannot be had in linear time (look-around, back-references) is refused as a bad pattern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

from timeleap.errors import InvalidInputError
from timeleap.storage.record import encode_json

MAX_MEMORY: Final = 8 << 20  # bytes of one compiled expression, its caches included
SMALL_PROGRAM: Final = 100  # instructions of an expression that is matched with texts of any length
MAX_STEPS: Final = 500_000_000  # instructions times characters: seconds, where RE2 has to try all of them
_PATIENCE: Final = 512  # empty matches in a row
_SEVERAL_TEXTS: Final = 4
"""How often `"text"` stands in a record with two text parts: as type and as name of each."""
_MANY: Final = 64  # characters of words whose escapes are not told from others any more


Span = tuple[int, int]

_CONTINUED: Final = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character
_NOT_LONG: Final = bytes(range(0xF0))  # those that begin none of two UTF-16 units


class Pattern(ABC):
    """A pattern to search for."""

    _filter: JsonFilter | None = None

    @abstractmethod
    def spans(self, text: str) -> Iterator[Span | None]:
        """Spans of the matches in a text, in UTF-16 units: ascending, not overlapping, none of them empty.

        None comes now and then where finding the next one takes long: a moment to do something else.
        """

    def too_dear(self, text: str) -> bool:
        """True if searching so long a text could take minutes."""
        del text
        return False

    def may_be_in(self, data: bytes) -> bool:
        """True if one of some records could contain a match: saves parsing most of those that do not.

        Args:
            data: Lines of a log as they are in the file, checked or not, or the text of one.
        """
        return self._filter is None or self._filter.may_be_in(data)


def pattern(query: str, *, regex: bool = False, ignore_case: bool = False) -> Pattern:
    """The pattern a query stands for.

    Args:
        query: The words, or the expression.
        regex: It is a regular expression.
        ignore_case: `a` is `A`.

    Raises:
        InvalidInputError: The query is no such expression, or no text; says where.
    """
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise _refused(f"half of a surrogate pair at character {error.start}", "regex" if regex else "query") from None
    return Expression(query, literal=not regex, ignore_case=ignore_case) if regex or ignore_case else Words(query)


class JsonFilter:
    """Tells of records, by their bytes alone, that they do not contain some words.

    In the JSON of a record each character of its text is written in one way that is ours (`encode_json`), or as an
    escape or a raw control character that we would not write. So where words stand in a text, either they stand in the
    record as we write them, or one of the other ways for one of their characters does; or they cross the border
    between two texts of the message.
    """

    def __init__(self, words: str, *, ignore_case: bool) -> None:
        import re2  # not before somebody needs it

        options = re2.Options()
        options.never_capture = True
        options.case_sensitive = not ignore_case
        text = words.encode("utf-16-be")
        units = {text[at : at + 2].hex().encode() for at in range(0, len(text), 2)}
        escaped = [b"00[5-7]", *units]  # the first: letters of names such as "text", which nobody writes so
        if "\ufffd" in words:
            escaped.append(b"d[89a-f]")  # half of a pair is shown as that
        if ignore_case or len(units) > _MANY:
            escaped = [b""]  # what else is the same letter RE2 knows
        hidden = [rb"\\u(?i:%b)" % b"|".join(escaped)]
        if "/" in words:
            hidden.append(rb"\\/")
        hidden += [rb"\x%02x" % ord(character) for character in words if character < " "]
        if "\n" in words:
            hidden += [b'"think"', b'"tool_calls"']  # texts that stand on lines of their own
        # One by one: alternatives with nothing in common at their beginning are far slower to look for.
        written = re2.escape(encode_json(words)[1:-1])
        self._signs = [re2.compile(sign, options) for sign in dict.fromkeys([written, *hidden])]
        self._part = re2.compile(b'"text"', options)

    def may_be_in(self, data: bytes) -> bool:
        """True if the words may be in one of the records."""
        if any(sign.search(data) for sign in self._signs):
            return True
        return self._part.search(data) is not None and data.count(b'"text"') >= _SEVERAL_TEXTS


class Words(Pattern):
    """Text that is looked for as it is."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._units = utf16_length(words)
        self._filter = JsonFilter(words, ignore_case=False)

    def spans(self, text: str) -> Iterator[Span | None]:
        """Every place from left to right."""
        done = units = 0
        at = text.find(self._words)
        while at >= 0:
            begin = units + (at - done if text.isascii() else utf16_length(text[done:at]))
            done, units = at + len(self._words), begin + self._units
            yield begin, units
            at = text.find(self._words, done)


class Expression(Pattern):
    """A regular expression, or text whose case does not count."""

    def __init__(self, expression: str, *, literal: bool, ignore_case: bool) -> None:
        import re2  # not before somebody needs it

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY
        options.never_capture = True
        options.literal = literal
        options.case_sensitive = not ignore_case
        try:
            self._compiled: Any = re2.compile(expression.encode(), options)
        except re2.error as error:
            raise _refused(_explained(error, expression), "regex") from None
        if literal:
            self._filter = JsonFilter(expression, ignore_case=ignore_case)

    def too_dear(self, text: str) -> bool:
        """True if so large an expression could take minutes for the text: linear time is steps times characters."""
        steps: int = self._compiled.programsize
        return steps > SMALL_PROGRAM and steps * len(text) > MAX_STEPS

    def spans(self, text: str) -> Iterator[Span | None]:
        """Every place from left to right; a place where the expression matches nothing is none."""
        encoded = text.encode()
        done = units = 0
        for number, match in enumerate(self._compiled.finditer(encoded)):
            start, end = match.span()
            if start < end:
                begin = units + utf16_length_of_bytes(encoded[done:start])
                done, units = end, begin + utf16_length_of_bytes(encoded[start:end])
                if begin < units:
                    yield begin, units
            elif number % _PATIENCE == 0:
                yield None


def _explained(error: Exception, expression: str) -> str:
    """The error in an expression, and its position. RE2 says `missing ]: [abc`: the problem, and the piece with it."""
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    problem, _, piece = text.partition(": ")
    at = expression.find(piece) if piece else -1
    return f"{problem} at character {at}: {piece[:80]}" if at >= 0 else text[:200] or "no regular expression"


def _refused(message: str, kind: str) -> InvalidInputError:
    problem = {"loc": ["query"], "msg": message, "type": kind}
    return InvalidInputError(f"query: {message}", errors=[problem])


def utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def utf16_length_of_bytes(encoded: bytes) -> int:
    """Number of UTF-16 units that begin in a piece of a text's UTF-8 bytes, wherever it was cut out."""
    if encoded.isascii():
        return len(encoded)
    return len(encoded.translate(None, _CONTINUED)) + len(encoded.translate(None, _NOT_LONG))
