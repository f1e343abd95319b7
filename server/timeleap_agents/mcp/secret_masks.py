"""Secrets in what a model is shown are masked: by the table that exports use, too (`timeleap_protocol.secret_masks`), and
by the several hundred rules of `session/redact`.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import platformdirs

from timeleap_protocol.secret_masks import MASK, is_named_secret, is_repeated_secret, mask_secrets, secret_spans

SHORTEST: Final = 8
"""Characters of what is taken for a secret: what is shorter would be found all over the place."""
_LONGEST_WORD: Final = 200
_LEAST_OVERLAP: Final = 4
"""Characters of a secret at the edge of an excerpt that are masked: fewer say nothing of it."""


class SecretMask:
    """Finds and masks secrets. Its methods block, the first one for seconds where no process has loaded the rules yet.

    Args:
        cache: Where the compiled rules are kept for the next process. Default: the user's cache directory.
    """

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache or _cache_of_user()
        self._scanner: Any = None
        self._turn = threading.Lock()

    def secrets(self, value: Any) -> list[str]:
        """The secrets in a text, or in any text of a JSON value; the longest first."""
        # As JSON, too: the name of a member says that its value is a password.
        texts = [*_texts(value), json.dumps(value, ensure_ascii=False)]
        found = {
            *self._scan("\n".join(texts).encode("utf-8", "replace")),
            *(secret for text in texts for secret in placed(text) if not _is_word(secret)),
        }
        return sorted(found, key=lambda secret: (-len(secret), secret))

    def masked(self, value: Any) -> Any:
        """The text or JSON value, with a mark in the place of each secret."""
        return _replaced(value, self.secrets(value))

    def masked_excerpt(self, excerpt: str, secrets: list[str]) -> str:
        """A piece of a text with these secrets, masked: also where the piece begins or ends within a secret."""
        excerpt, _ = mask_secrets(excerpt)
        for secret in secrets:
            if excerpt and excerpt in secret:
                return MASK
            excerpt = _replaced(excerpt, [secret])
            lengths = range(min(len(secret), len(excerpt)), _LEAST_OVERLAP - 1, -1)
            if (cut := next((length for length in lengths if excerpt.endswith(secret[:length])), None)) is not None:
                excerpt = excerpt[:-cut] + MASK
            if (cut := next((length for length in lengths if excerpt.startswith(secret[-length:])), None)) is not None:
                excerpt = MASK + excerpt[cut:]
        return excerpt

    def _scan(self, data: bytes) -> Iterator[str]:
        if len(data) < SHORTEST:
            return
        with self._turn:
            if self._scanner is None:
                from kingfisher_sdk import Rules, Scanner

                folder = None if self._cache is None else str(self._cache)
                self._scanner = Scanner(Rules(cache=folder is not None, cache_dir=folder))
            findings = self._scanner.scan(data)
        for finding in findings:
            place = finding.location
            secret = data[place["start_offset"] : place["end_offset"]].decode("utf-8", "replace")
            if len(secret) >= SHORTEST:
                yield secret


def _cache_of_user() -> Path | None:
    """Where this user keeps caches; None without a home directory."""
    place = platformdirs.user_cache_path("timeleap")
    return place / "secret-rules" if place.is_absolute() else None


def placed(text: str) -> Iterator[str]:
    """Find the texts that look like secrets by the table."""
    for start, end in secret_spans(text):
        yield text[start:end]


def _is_word(secret: str) -> bool:
    """True if a secret could be a word of every text: it is masked only in the place of a password."""
    return "\n" not in secret and len(secret) <= _LONGEST_WORD and not is_repeated_secret(secret)


def without_cut_word(text: str, limit: int) -> str:
    """A text that may have been cut after `limit` characters, without its last word then: of a secret a part may be
    left, which no rule knows any more."""
    if len(text) < limit:
        return text
    kept, space, last = text.rpartition(" ")
    return f"{kept} ..." if space or len(last) >= SHORTEST else text


def _texts(value: Any) -> Iterator[str]:
    """Each text of a JSON value; where one is JSON itself (a tool's arguments), those in it, too."""
    if isinstance(value, str):
        yield value
        if value[:1] in "{[":
            with contextlib.suppress(ValueError, RecursionError):
                yield from _texts(json.loads(value))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)


def _replaced(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            for spelling in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
                if len(secret) >= SHORTEST and not secret.isalpha():
                    value = value.replace(spelling, MASK)
                else:
                    value = re.sub(rf"(?<!\w){re.escape(spelling)}(?!\w)", lambda _: MASK, value)
        return mask_secrets(value)[0]
    if isinstance(value, list):
        return [_replaced(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_replaced(name, secrets): _replaced_member(name, item, secrets) for name, item in value.items()}
    return value


def _replaced_member(name: str, item: Any, secrets: list[str]) -> Any:
    """The value of a member, whose name may say that it is a password."""
    if isinstance(item, str) and _is_word(item) and is_named_secret(name, item):
        return MASK
    return _replaced(item, secrets)
