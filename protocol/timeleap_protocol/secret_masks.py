"""Find what looks like a secret in a text, by one table for all that show texts of a session to somebody else.

The table is `secret_masks.json`, which the editor's chat tools read, too. It has `blocks` (private keys), `forms` (keys
and tokens that are known by how they begin) and `places` (where a password stands; group 1 is the secret). What stood in such
a place is a secret wherever it is repeated, if it has the form of `repeated` and is none of the words of `common`. All
expressions are bounded: hostile text costs no more than its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any, Final

MASK: Final = "[secret]"

_TABLE: Final = json.loads(resources.files("timeleap_protocol").joinpath("secret_masks.json").read_text("utf-8"))
_BLOCKS: Final = tuple(re.compile(pattern) for pattern in _TABLE["blocks"])
_FORMS: Final = tuple(re.compile(pattern) for pattern in _TABLE["forms"])
_PLACES: Final = tuple(
    (place["near"], "named" in place, re.compile(place["pattern"], re.IGNORECASE)) for place in _TABLE["places"]
)
_NAMED: Final = re.compile(_TABLE["named"], re.IGNORECASE)
"""The name of a secret with a sign that its value follows, which most of the places begin with."""
_NEAR: Final = tuple(dict.fromkeys(word for words, _, _ in _PLACES for word in words))
_NEAR_BYTES: Final = tuple(word.encode() for word in _NEAR)
_NO_SECRETS: Final = frozenset(_TABLE["words"])
_REFERENCE: Final = re.compile(_TABLE["reference"])
"""A variable or a mark that stands in the place of a secret."""
_REPEATED: Final = re.compile(_TABLE["repeated"])
_COMMON: Final = frozenset(word for line in _TABLE["common"] for word in line.split())
_MOST_REPEATED: Final = 200
"""Secrets that are looked for elsewhere."""
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9_.+/=-]{14,}")
"""Every text of one of the forms is a part of such a word: what is no long word is passed over quickly."""
_BLOCK_SIGN: Final = "PRIVATE KEY"
_LEAST: Final = 4
"""Characters of what is taken for a password."""
_CODED: Final = "[A-Za-z0-9+/=_-]"
_ENCODED: Final = re.compile(
    rf"(?:data:[a-z]{{1,20}}/[a-z0-9.+-]{{1,80}};base64,)?{_CODED}{{60,}}(?:\s{{1,2}}{_CODED}{{60,}})*(?:\s{{1,2}}{_CODED}{{1,59}})?\s?",
    re.IGNORECASE,
)
"""A picture, say."""
_LONG: Final = 4096

_LONGEST_SHOWN: Final = 8
"""Characters of a word at a cut that is left out: fewer say nothing of a secret that they may begin."""

Span = tuple[int, int]


def secret_spans(text: str, known: Iterable[str] = ()) -> list[Span]:
    """Return the places of what looks like a secret, in characters: ascending, and none touches another.

    Args:
        text: To look through.
        known: Secrets that stood in other texts (`repeated_secrets`).
    """
    found: list[Span] = []
    if len(text) > _LONG and _ENCODED.fullmatch(text):
        return found
    if _BLOCK_SIGN in text:
        found += [match.span() for block in _BLOCKS for match in block.finditer(text)]
    placed = _placed_spans(text)
    repeated = [*known, *filter(is_repeated_secret, (text[start:end] for start, end in placed))]
    found += [*placed, *_spans_of(text, repeated)]
    for word in _LONG_WORD.finditer(text):
        for form in _FORMS:  # one character more: a form may have to end with its word
            found += [match.span() for match in form.finditer(text, word.start(), word.end() + 1)]
    return _joined(found)


def _placed_spans(text: str) -> list[Span]:
    """The places of what stands where a password would."""
    found: list[Span] = []
    for start, end, near in _lines(text):
        named = _NAMED.search(text, start, end) is not None
        for words, of_a_name, place in _PLACES:
            if named if of_a_name else any(word in near for word in words):
                found += [match.span(1) for match in place.finditer(text, start, end) if _is_secret(match[1])]
    return found


def _spans_of(text: str, secrets: Iterable[str]) -> list[Span]:
    """The places at which secrets stand as whole words."""
    written = [re.escape(secret) for secret in dict.fromkeys(secrets) if secret in text][:_MOST_REPEATED]
    if not written:
        return []
    longest_first = "|".join(sorted(written, key=len, reverse=True))
    return [match.span() for match in re.finditer(rf"(?<![A-Za-z0-9_])(?:{longest_first})(?![A-Za-z0-9_])", text)]


def is_repeated_secret(secret: str) -> bool:
    """Tell whether a text that stood in the place of a password is a secret elsewhere, too: no word or number that may
    mean something else there."""
    return _REPEATED.fullmatch(secret) is not None and secret.lower() not in _COMMON


def repeated_secrets(text: str) -> set[str]:
    """Return the secrets of a text that are to be masked in other texts, too."""
    if len(text) > _LONG and _ENCODED.fullmatch(text):
        return set()
    return set(filter(is_repeated_secret, (text[start:end] for start, end in _placed_spans(text))))


def may_tell_secret(text: bytes) -> bool:
    """Tell quickly whether a text in UTF-8 may have the place of a password in it."""
    lowered = text.lower()
    return any(word in lowered for word in _NEAR_BYTES)


def mask_secrets(text: str, known: Iterable[str] = ()) -> tuple[str, int]:
    """Return the text with a mark in the place of each secret, and how many there are. `known`: as in `secret_spans`."""
    spans = secret_spans(text, known)
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += (text[at:start], MASK)
        at = end
    return "".join((*pieces, text[at:])), len(spans)


class SecretMasks:
    """Masks the texts of a session on their way to somebody else.

    Attributes:
        count: Number of secrets that were masked so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._repeated: dict[str, str] = {}
        self._known: dict[str, None] = {}

    def learn(self, value: Any) -> None:
        """Look through a JSON value for secrets that are to be masked in all texts, whichever comes first."""
        if isinstance(value, str):
            self._known.update(dict.fromkeys(sorted(repeated_secrets(value))))
        elif isinstance(value, list | tuple):
            for item in value:
                self.learn(item)
        elif isinstance(value, dict):
            for name, item in value.items():
                self.learn(item)
                if isinstance(item, str) and is_repeated_secret(item) and is_named_secret(name, item):
                    self._known[item] = None

    def text(self, text: str) -> str:
        """Return a text with its secrets masked."""
        masked, count = mask_secrets(text, self._known)
        self.count += count
        return masked

    def repeated(self, text: str) -> str:
        """Return a masked text that is asked for several times, and counts once."""
        if text not in self._repeated:
            self._repeated[text] = self.text(text)
        return self._repeated[text]

    def value(self, value: Any) -> Any:
        """Return a JSON value with the secrets in its texts masked; the name of a member may say that it is one."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self._member(name, item) for name, item in value.items()}
        return value

    def short_text(self, text: str) -> str:
        """Return a text that ends with "…" where it was cut, masked. Of a secret at the cut a part may be left, which no
        rule knows: a long word there is left out."""
        masked = self.text(text)
        kept, _, last = masked.removesuffix("…").rpartition(" ")
        if not masked.endswith("…") or len(last) < _LONGEST_SHOWN or last.endswith(MASK):
            return masked
        return f"{kept} …".lstrip()

    def short_value(self, value: Any) -> Any:
        """Return a JSON value whose texts may have been cut, masked."""
        if isinstance(value, str):
            return self.short_text(value)
        if isinstance(value, list | tuple):
            return [self.short_value(item) for item in value]
        if isinstance(value, dict):
            return {name: self.short_value(item) for name, item in value.items()}
        return value

    def _member(self, name: str, item: Any) -> Any:
        if isinstance(item, str) and is_named_secret(name, item):
            self.count += 1
            return MASK
        return self.value(item)


def is_named_secret(name: str, value: str) -> bool:
    """Tell whether a member of this name has a secret as its value, as in `{"password": "letmein"}`."""
    lowered = name.lower()
    if not any(word in lowered for word in _NEAR) or len(value) > _LONGEST_NAMED:
        return False
    written = json.dumps({name: value}, ensure_ascii=False)
    begin = len(json.dumps(name, ensure_ascii=False)) + len('{: "')
    end = len(written) - len('"}')
    return any(start <= begin and stop >= end for start, stop in secret_spans(written)) and begin < end


_LONGEST_NAMED: Final = 4096
"""Characters of a member's value that its name is asked about."""


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Each line in which a word of the table stands, with the line after it: its place, and its text in small letters."""
    begin = 0
    lines = text.split("\n")
    for number, line in enumerate(lines):
        lowered = line.lower()
        end = begin + len(line)
        if any(word in lowered for word in _NEAR):
            following = len(lines[number + 1]) + 1 if number + 1 < len(lines) else 0
            yield begin, end + following, lowered
        begin = end + 1


def _is_secret(value: str) -> bool:
    return len(value) >= _LEAST and value.lower() not in _NO_SECRETS and not _REFERENCE.fullmatch(value)


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
