"""Taking something out of texts: out of a record's strings, out of files of JSON, out of what is no JSON at all.

A JSON text is gone through token by token, and every byte that need not change stays. Of a string only the places
change, whatever way its other characters are spelled. A string that is JSON itself (the arguments of a tool call) is
gone through in the same way, and what is put in is escaped once for each string it stands in.

What gives a record its form stays, or the record would not be one any more: its role, the types of its parts, the names
of the members that the format knows, numbers and ids of ours. Where it stands there it is counted, and kept.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from timeleap.features.redaction.matchers import Matcher, without_overlaps

Path = tuple[str, ...]
"""Path of a value: the keys that lead to it, `*` for any item of an array."""


class TextReplacement(NamedTuple):
    """The text that replaces the characters `[start, end)` of another text."""

    start: int
    end: int
    text: str


class Token(Struct):
    """A string or a bare word of a JSON text.

    Attributes:
        start, end: Where it stands, quotes included.
        path: Where it stands in the value; of a key, the path it leads to.
        key: It is the key of a member.
        string: It is a string; else a number or one of `true`, `false`, `null`.
        owner: Of the objects and arrays of the text, from 1, the one it stands in.
    """

    start: int
    end: int
    path: Path
    key: bool
    string: bool
    owner: int = 0


# A string that is not closed matches as well, up to the end: else each quote in it would be tried, and the rest read again.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:(?P<closed>")|\\?\Z)|[{}\[\]:,]|[^"{}\[\]:,\s]+', re.DOTALL)
_COLON: Final = re.compile(r"\s*:")
_UNIT: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


def _tokens(text: str) -> Iterator[Token]:
    """The strings and bare words of a JSON text, in order; up to a string that is not closed."""
    path: list[str] = [""]
    levels: list[tuple[bool, int]] = []  # whether it is an array, and its number
    begun = 0
    for match in _TOKEN.finditer(text):
        first = text[match.start()]
        if first == '"' and match["closed"] is None:
            return
        if first in "{[":
            begun += 1
            levels.append((first == "[", begun))
            path.append("*")
        elif first in "}]":
            if levels:
                levels.pop()
                path.pop()
        elif first not in ":,":
            key = first == '"' and bool(levels) and not levels[-1][0] and _COLON.match(text, match.end()) is not None
            if key:
                path[-1] = _decoded(match.group())
            owner = levels[-1][1] if levels else 0
            yield Token(match.start(), match.end(), tuple(path[1:]), key, first == '"', owner)


def _decoded(string: str) -> str:
    """The text of a JSON string with its quotes."""
    if "\\" not in string:
        return string[1:-1]
    try:
        return str(json.loads(string, strict=False))
    except ValueError:
        return string[1:-1]


def is_json(text: str) -> bool:
    """True if a text is a JSON object, array or string."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _within(token: str, changes: list[TextReplacement], offset: int) -> Iterator[TextReplacement]:
    """Ascending changes of a string's text as changes of the text in which the string, with its quotes, stands at
    `offset`."""
    starts = None
    if "\\" in token:
        starts = [offset + match.start() for match in _UNIT.finditer(token, 1, len(token) - 1)]
        starts.append(offset + len(token) - 1)
    for start, end, text in changes:
        new = json.dumps(text, ensure_ascii=token.isascii())[1:-1]
        if starts is None:
            yield TextReplacement(offset + 1 + start, offset + 1 + end, new)
        else:
            yield TextReplacement(starts[start], starts[end], new)


def _changed(text: str, changes: list[TextReplacement]) -> str:
    """A text with changes made; they are ascending and do not overlap."""
    pieces: list[str] = []
    at = 0
    for start, end, new in changes:
        pieces += (text[at:start], new)
        at = end
    return "".join((*pieces, text[at:]))


def each_text(text: str, depth: int) -> Iterator[str]:
    """The strings of a JSON text, and the strings of those that are JSON themselves, down to a depth."""
    for token in _tokens(text):
        if token.string:
            inner = _decoded(text[token.start : token.end])
            yield inner
            if depth and is_json(inner):
                yield from each_text(inner, depth - 1)


MAX_NESTING: Final = 8
"""JSON in strings of JSON in strings: how deep it is looked into."""

_LETTERS: Final = str.maketrans("0123456789", "abcdefghij")
_STROKES: Final = str.maketrans("01", "-_")

Form = Callable[[Token], bool]
"""True for a token that gives a text its form and is to stay as it is."""

_MARKS: Final = ("u", "l", "t", "b", "i", "n", "r", "h", "m", "f", "s", "o", "g", "a")
_PART: Final = ("type", "text", "think", "encrypted", "image_url", "audio_url", "video_url")
_CALL: Final = ("id", "type", "function", "extras")
_NAMES: Final[frozenset[Path]] = frozenset(
    {
        *(
            (name,)
            for name in ("role", "content", "name", "tool_calls", "tool_call_id", "partial", "token_count", "id")
        ),
        ("_tl",),
        *(("_tl", name) for name in _MARKS),
        *(("content", "*", name) for name in _PART),
        *(("content", "*", kind, name) for kind in _PART[4:] for name in ("url", "id")),
        *(("tool_calls", "*", name) for name in _CALL),
        *(("tool_calls", "*", "function", name) for name in ("name", "arguments")),
    }
)
_FIXED: Final[frozenset[Path]] = frozenset(
    {
        *((name,) for name in ("role", "partial", "token_count")),
        *(("_tl", name) for name in _MARKS if name not in ("l", "r")),
        ("content", "*", "type"),
        ("tool_calls", "*", "type"),
    }
)


def record_form(token: Token) -> bool:
    """True for a token that gives a record of the log its form."""
    if token.key:
        return token.path in _NAMES
    return token.path in _FIXED or (not token.string and token.path == ("id",))


class RedactedText(Struct):
    """A text after its redaction, and the number of places in it.

    Attributes:
        occurrences: That changed.
        kept: That stay, since they give the text its form.
        split: That changed, and were split over parts of a message.
    """

    text: str
    occurrences: int = 0
    kept: int = 0
    split: int = 0


class Redactor:
    """Puts `replacement` wherever a needle stands."""

    def __init__(self, needle: Matcher, replacement: str) -> None:
        self.needle = needle
        self.replacement = replacement

    def record(self, text: str, blank: Path | None = None) -> RedactedText:
        """A record of the log without it, also where it is split over text parts, which are read as one text."""
        done = self.json(text, record_form, blank)
        spans, changes = self._split(done.text)
        if not spans:
            return done
        return RedactedText(_changed(done.text, changes), done.occurrences + spans, done.kept, spans)

    def json(self, text: str, form: Form = lambda _: False, blank: Path | None = None) -> RedactedText:
        """A JSON text without it; what is of its `form` stays, and the string at `blank` becomes empty in any case."""
        kept = 0
        emptied: list[TextReplacement] = []
        for token in _tokens(text):
            if token.path == blank and token.string and not token.key:
                emptied.append(TextReplacement(token.start + 1, token.end - 1, ""))
            elif form(token):
                kept += len(self._changes_of(text, token, MAX_NESTING))
        changes = self._in_json(text, MAX_NESTING, form)
        return RedactedText(_changed(text, sorted([*emptied, *changes])), len(changes), kept)

    def text(self, text: str) -> RedactedText:
        """Any text without it: JSON, lines some of which are JSON, or none of it."""
        changes = self._in_text(text, MAX_NESTING)
        return RedactedText(_changed(text, changes), len(changes))

    def clean(self, text: str) -> str:
        return self.text(text).text

    def _split(self, text: str) -> tuple[int, list[TextReplacement]]:
        """Number of matches split over several text parts, and the changes of these parts."""
        parts = _text_parts(text)
        inner = [_decoded(text[part.start : part.end]) for part in parts]
        ends = list(accumulate(map(len, inner)))
        across = [
            span
            for span in self.needle.spans("".join(inner))
            if bisect_right(ends, span[0]) < bisect_left(ends, span[1])
        ]
        changes: list[TextReplacement] = []
        for token, piece, end in zip(parts, inner, ends, strict=True):
            begin = end - len(piece)
            cuts = [
                TextReplacement(
                    max(0, start - begin), min(len(piece), stop - begin), self.replacement if start >= begin else ""
                )
                for start, stop in across
                if start < end and begin < stop
            ]
            changes += _within(text[token.start : token.end], cuts, token.start)
        return len(across), changes

    def _in_json(self, text: str, depth: int, form: Form = lambda _: False) -> list[TextReplacement]:
        found = [
            (token, changes)
            for token in _tokens(text)
            if not form(token) and (changes := self._changes_of(text, token, depth))
        ]
        if any(token.key for token, _ in found):
            self._keep_apart(text, found, form)
        return [change for _, changes in found for change in changes]

    def _keep_apart(self, text: str, found: list[tuple[Token, list[TextReplacement]]], form: Form) -> None:
        """Number the names of members that would become the same in one object, of which a reader would see one only,
        or would become what gives a record its form."""
        changing = {token.start: token.owner for token, _ in found if token.key}
        names: dict[int, set[str]] = {owner: set() for owner in changing.values()}
        for token in _tokens(text):
            if token.key and token.owner in names and token.start not in changing:
                names[token.owner].add(token.path[-1])
        numbers: Counter[tuple[int, str]] = Counter()
        for token, changes in found:
            if not token.key:
                continue
            last, taken = changes[-1], names[token.owner]
            name = _name_after(text, token, changes)
            new = name
            while new in taken or form(replace(token, path=(*token.path[:-1], new))):
                numbers[token.owner, name] += 1
                changes[-1] = last._replace(text=f"{last.text} {self._number(numbers[token.owner, name] + 1)}")
                new = _name_after(text, token, changes)
            taken.add(new)

    def _number(self, number: int) -> str:
        """A number in digits; in letters or strokes where it would hold what is taken out."""
        digits = str(number)
        spelled = digits, digits.translate(_LETTERS), f"{number:b}".translate(_STROKES)
        return next((spelling for spelling in spelled if not self.needle.spans(f" {spelling}")), digits)

    def _changes_of(self, text: str, token: Token, depth: int) -> list[TextReplacement]:
        written = text[token.start : token.end]
        if token.string:
            inner = self._in_text(_decoded(written), depth - 1)
            return list(_within(written, inner, token.start)) if inner else []
        # A number that holds it becomes a string: what is left of it would be another number.
        spans = self.needle.spans(written) if written[0] in "-0123456789" else []
        if not spans:
            return []
        left = _changed(written, [TextReplacement(start, end, self.replacement) for start, end in spans])
        return [TextReplacement(token.start, token.end, json.dumps(left))]

    def _in_text(self, text: str, depth: int) -> list[TextReplacement]:
        if depth > 0 and is_json(text):
            inside = self._in_json(text, depth)
            plain = [span for span in self.needle.spans(text) if not _amid_an_escape(text, span[0])]
            changes = self._together(inside, plain)
            if not changes or is_json(_changed(text, changes)):
                return changes
            # It stood in what gave the text its form, such as the word null: what is left has letters, not escapes.
        else:
            inside = [] if depth <= 0 else self._in_lines(text, depth)
        plain = self.needle.spans(text)
        if spelled := self.needle.spelled(text):
            plain = sorted([*plain, *without_overlaps(plain, spelled)])
        return self._together(inside, plain)

    def _together(self, inside: list[TextReplacement], plain: list[tuple[int, int]]) -> list[TextReplacement]:
        free = without_overlaps([(change.start, change.end) for change in inside], plain)
        return sorted([*inside, *(TextReplacement(start, end, self.replacement) for start, end in free)])

    def _in_lines(self, text: str, depth: int) -> list[TextReplacement]:
        """Within those lines of a text that are JSON."""
        if "\n" not in text:
            return []
        changes: list[TextReplacement] = []
        at = 0
        for line in text.split("\n"):
            if is_json(line):
                inside = self._in_text(line, depth)
                changes += [TextReplacement(at + start, at + end, new) for start, end, new in inside]
            at += len(line) + 1
        return changes


def _name_after(text: str, token: Token, changes: list[TextReplacement]) -> str:
    """The name in a key after its changes."""
    inner = [TextReplacement(start - token.start, end - token.start, new) for start, end, new in changes]
    return _decoded(_changed(text[token.start : token.end], inner))


def _text_parts(text: str) -> list[Token]:
    """The texts of a message's text parts, if it has more than one."""
    found = [
        token for token in _tokens(text) if token.path == ("content", "*", "text") and token.string and not token.key
    ]
    if len(found) < 2:
        return []
    content = json.loads(text, strict=False)["content"]
    parts = [part for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if len(parts) != len(found):
        return []  # a part has the member twice: who can tell which counts
    return [token for token, part in zip(found, parts, strict=True) if part.get("type") == "text"]


def _amid_an_escape(text: str, at: int) -> bool:
    """True if the character at `at` belongs to an escape: an `n` after a backslash is no n."""
    begin = at
    while begin and text[begin - 1] == "\\":
        begin -= 1
    return (at - begin) % 2 == 1
