"""Search patterns: words as they are, or a regular expression.

Regular expressions are RE2's: the time a search takes grows with the length of the text and with nothing else, so none
of them can explode. What cannot be had in linear time (look-around, back-references) is refused as a bad pattern.
Without RE2 (extra `regex`) they are refused, and words are found by Python's own engine: alternatives of one character
each take linear time there, too.

Words are found however a text composes their characters: `é` is one character in most texts, and two (`e` and an accent)
in what macOS makes of a file's name. In an expression that goes for characters outside of classes.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
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
    if regex and _re2() is None:
        raise _refused("regular expressions need RE2: pip install 'timeleap[regex]'", "regex")
    if regex:
        return Expression(_in_all_forms(query), query, ignore_case=ignore_case)
    if not ignore_case and _has_one_form(query):
        return Words(query)
    if _re2() is None:
        return WordsInForms(query, ignore_case=ignore_case)
    return Expression(_words_in_all_forms(query), query, ignore_case=ignore_case, words=query)


def _re2() -> Any:
    """RE2, loaded when somebody needs it; None where it is not installed."""
    try:
        import re2
    except ImportError:
        return None
    return re2


class JsonFilter:
    """Tells of records, by their bytes alone, that they do not contain some words.

    In the JSON of a record each character of its text is written in one way that is ours (`encode_json`), or as an
    escape or a raw control character that we would not write. So where words stand in a text, either they stand in the
    record as we write them, or one of the other ways for one of their characters does; or they cross the border
    between two texts of the message.
    """

    def __init__(self, words: str, *, ignore_case: bool) -> None:
        self._signs: list[Any] | None = None
        re2 = _re2()
        if re2 is None:
            return  # every record is parsed
        options = re2.Options()
        options.never_capture = True
        options.case_sensitive = not ignore_case
        forms = "".join(form for character in _composed(words) for form in _forms(character))
        text = f"{words}{forms}".encode("utf-16-be")
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
        written = _words_in_all_forms(words, lambda text: re2.escape(encode_json(text)[1:-1].decode()))
        self._signs = [re2.compile(sign, options) for sign in dict.fromkeys([written.encode(), *hidden])]
        self._part = re2.compile(b'"text"', options)

    def may_be_in(self, data: bytes) -> bool:
        """True if the words may be in one of the records."""
        if self._signs is None:
            return True
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


class WordsInForms(Pattern):
    """Text whose case, or whose forms, do not count, without RE2."""

    def __init__(self, words: str, *, ignore_case: bool) -> None:
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        self._compiled = re.compile(_words_in_all_forms(words, re.escape), flags)

    def spans(self, text: str) -> Iterator[Span | None]:
        """Every place from left to right."""
        done = units = 0
        for match in self._compiled.finditer(text):
            start, end = match.span()
            begin = units + utf16_length(text[done:start])
            done, units = end, begin + utf16_length(text[start:end])
            yield begin, units


class Expression(Pattern):
    """A regular expression, or text whose case, or whose forms, do not count.

    Args:
        expression: For RE2.
        typed: The query as it was given, which errors speak of.
        words: The text, where it is one.
    """

    def __init__(self, expression: str, typed: str, *, ignore_case: bool, words: str | None = None) -> None:
        re2 = _re2()
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY
        options.never_capture = True
        options.case_sensitive = not ignore_case
        try:
            self._compiled: Any = re2.compile(expression.encode(), options)
        except re2.error as error:
            raise _refused(_explained(_error_in(typed, options) or error, typed), "regex") from None
        if words is not None:
            self._filter = JsonFilter(words, ignore_case=ignore_case)

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


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _has_one_form(words: str) -> bool:
    """True if no text of the same meaning has other characters."""
    return words.isascii() or all(len(_forms(character)) == 1 for character in _composed(words))


def _forms(character: str) -> list[str]:
    """The ways to write a composed character: as one, in parts, or with only the first of its marks composed."""
    parts = "" if character.isascii() else unicodedata.normalize("NFD", character)
    found = [unicodedata.normalize("NFC", parts[:end]) + parts[end:] for end in range(len(parts), 0, -1)]
    return list(dict.fromkeys([character, *found]))


def _escaped(text: str) -> str:
    return str(_re2().escape(text))


def _words_in_all_forms(words: str, escaped: Callable[[str], str] = _escaped) -> str:
    """An expression for some words as they are, and as any text may compose their characters."""
    composed = _composed(words)
    parts = [_one_of(forms, escaped) for forms in map(_forms, composed)]
    found = "".join(parts)
    return found if composed == words else f"(?:{escaped(words)}|{found})"


def _one_of(forms: list[str], escaped: Callable[[str], str]) -> str:
    return escaped(forms[0]) if len(forms) == 1 else f"(?:{'|'.join(map(escaped, forms))})"


def _in_all_forms(expression: str) -> str:
    """A regular expression in which a character that has several forms stands for each of them, but within a class."""
    if expression.isascii() or r"\Q" in expression:
        return expression
    shown: list[str] = []
    in_class = escape = False
    for character in _composed(expression):
        plain = not (in_class or escape)
        forms = _forms(character) if plain else [character]
        shown.append(character if len(forms) == 1 else _one_of(forms, _escaped))
        in_class = not escape and (character == "[" if not in_class else character != "]")
        escape = character == "\\" and not escape
    return "".join(shown)


def _error_in(typed: str, options: Any) -> Exception | None:
    """The error in an expression as it was typed, before its characters stood for their other forms."""
    re2 = _re2()
    found: Exception | None = None
    try:
        re2.compile(typed.encode(), options)
    except re2.error as error:
        found = error
    return found


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
