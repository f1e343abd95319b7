"""Taking something out of texts: out of a record's strings, out of files of JSON, out of what is no JSON at all.

What gives a record its form stays, or the record would not be one any more: its role, the types of its parts, the names
of the members that the format knows, numbers and ids of ours. Where it stands there it is counted, and kept.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from timeleap.features.redaction.jsonedit import Path, TextReplacement, Token, changed, decoded, is_json, tokens, within
from timeleap.features.search.matchers import Matcher, without_overlaps

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


def no_form(token: Token) -> bool:
    """False for every token: anything in the text may change."""
    del token
    return False


@dataclass(slots=True)
class RedactedText:
    """A text after its redaction.

    Attributes:
        occurrences: Number of places that changed.
        kept: Number of places that stay, since they give the text its form.
        split: Number of changed places that were split over parts of a message.
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
        return RedactedText(changed(done.text, changes), done.occurrences + spans, done.kept, spans)

    def json(self, text: str, form: Form = no_form, blank: Path | None = None) -> RedactedText:
        """A JSON text without it.

        Args:
            text: The text.
            form: What stays as it is.
            blank: The path of a string that becomes empty, whatever it is.
        """
        kept = 0
        found: list[TextReplacement] = []
        for token in tokens(text):
            if token.path == blank and token.string and not token.key:
                found.append(TextReplacement(token.start + 1, token.end - 1, ""))
            elif form(token):
                kept += len(self._changes_of(text, token, MAX_NESTING))
        redaction = self._in_json(text, MAX_NESTING, form)
        both = sorted([*found, *redaction])
        return RedactedText(changed(text, both), len(redaction), kept)

    def text(self, text: str) -> RedactedText:
        """Any text without it: JSON, lines some of which are JSON, or none of it."""
        changes = self._in_text(text, MAX_NESTING)
        return RedactedText(changed(text, changes), len(changes))

    def _split(self, text: str) -> tuple[int, list[TextReplacement]]:
        """Number of matches split over several text parts, and the changes of these parts."""
        parts = _text_parts(text)
        inner = [decoded(text[part.start : part.end]) for part in parts]
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
            changes += within(text[token.start : token.end], cuts, token.start)
        return len(across), changes

    def _in_json(self, text: str, depth: int, form: Form = no_form) -> list[TextReplacement]:
        found = [
            (token, changes)
            for token in tokens(text)
            if not form(token) and (changes := self._changes_of(text, token, depth))
        ]
        if any(token.key for token, _ in found):
            self._keep_apart(text, found, form)
        return [change for _, changes in found for change in changes]

    def _keep_apart(self, text: str, found: list[tuple[Token, list[TextReplacement]]], form: Form) -> None:
        """Number the names of members that would become the same in one object, of which a reader would see one only, or
        would become what gives a record its form."""
        changing = {token.start: token.owner for token, _ in found if token.key}
        names: dict[int, set[str]] = {owner: set() for owner in changing.values()}
        for token in tokens(text):
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
            inner = self._in_text(decoded(written), depth - 1)
            return list(within(written, inner, token.start)) if inner else []
        # A number that holds it becomes a string: what is left of it would be another number.
        spans = self.needle.spans(written) if written[0] in "-0123456789" else []
        if not spans:
            return []
        left = changed(written, [TextReplacement(start, end, self.replacement) for start, end in spans])
        return [TextReplacement(token.start, token.end, json.dumps(left))]

    def _in_text(self, text: str, depth: int) -> list[TextReplacement]:
        if depth > 0 and is_json(text):
            inside = self._in_json(text, depth)
            plain = [span for span in self.needle.spans(text) if not _amid_an_escape(text, span[0])]
            changes = self._together(inside, plain)
            if not changes or is_json(changed(text, changes)):
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
    return decoded(changed(text[token.start : token.end], inner))


def _text_parts(text: str) -> list[Token]:
    """The texts of a message's text parts, if it has more than one."""
    found = [
        token for token in tokens(text) if token.path == ("content", "*", "text") and token.string and not token.key
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
