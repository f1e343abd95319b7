"""Secrets in what a model is shown are masked: keys, tokens and passwords, by the rules that `session/redact` uses, too.

Those rules know what looks like a key. A password looks like any word, so what stands in the place of one is masked as
well: `password=...`, `"password": "..."`, `Bearer ...`, the password of an address.
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

MASK: Final = "[secret]"
SHORTEST: Final = 8
"""Characters of what is taken for a secret: what is shorter would be found all over the place."""
_LEAST_OVERLAP: Final = 4
"""Characters of a secret at the edge of an excerpt that are masked: fewer say nothing of it."""


_NAMED: Final = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret)"
)
# All are bounded: hostile text costs no more than its length. A group is the secret.
_PLACES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # A member of JSON, also of JSON in a text of JSON: the name is quoted, so the value is one, whatever it is.
        rf'\\?["\'][\w.-]{{0,40}}{_NAMED}\\?["\']\s{{0,4}}[:=]\s{{0,4}}\\?"((?:[^"\\\n]|\\[^"\n]){{3,512}})',
        # A value in quotes.
        rf'(?<![A-Za-z0-9])(?:[\w.-]{{0,40}}[_.-]|PG)?{_NAMED}["\']?\s{{0,3}}[:=]\s{{0,3}}(["\'])((?:(?!\1)[^\n\\]){{3,512}})\1',
        # An environment, an ini file, a query, a DSN: no blanks around the sign.
        rf"(?<![A-Za-z0-9])(?:[\w.-]{{0,40}}[_.-]|PG)?{_NAMED}=(?![\s\"'<$({{])([^\s&;,\"'<>()\[\]{{}}]{{4,512}}+)(?![(\[])",
        # YAML, or a header: the value is the whole rest of the line, and has a digit or a sign, which a type has not.
        rf"(?m:^)[ \t-]{{0,40}}(?:[\w.-]{{0,40}}[_.-]|PG)?{_NAMED}:[ \t]{{1,4}}(?=[^\s]{{0,100}}[\d!@#%^&*?~])([^\s\"'<>()\[\]{{}},]{{6,512}})[ \t]*(?m:$)",
        r"\bBearer[ ]+(?=[\w.~+/=-]{0,200}\d)([\w.~+/-]{12,4096}=*)",
        r"\bAuthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:Basic|Bearer|Token|Digest)[ ]+)?([\w.~+/=-]{8,4096})",
        r"://[^\s/:@]{0,64}:([^\s/@]{3,256})@",
    )
)
_NO_SECRETS: Final = frozenset(
    {"null", "none", "true", "false", "undefined", "string", "password", "secret", "token", "required"}
)


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
        texts = list(_texts(value))
        # As JSON, too: the name of a member says that its value is a password.
        whole = "\n".join([*texts, json.dumps(value, ensure_ascii=False)])
        found = {*self._scan(whole.encode("utf-8", "replace")), *placed(whole)}
        return sorted(found, key=lambda secret: (-len(secret), secret))

    def masked(self, value: Any) -> Any:
        """The text or JSON value, with a mark in the place of each secret."""
        secrets = self.secrets(value)
        return _replaced(value, secrets) if secrets else value

    def masked_excerpt(self, excerpt: str, secrets: list[str]) -> str:
        """A piece of a text with these secrets, masked: also where the piece begins or ends within a secret."""
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

                cached = {"cache": True, "cache_dir": str(self._cache)} if self._cache is not None else {"cache": False}
                self._scanner = Scanner(Rules(**cached))
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
    """What stands in the place of a password in a text."""
    for place in _PLACES:
        for found in place.finditer(text):
            value = found[found.lastindex or 0]
            told = len(value) >= SHORTEST or (len(value) > 3 and not value.isalpha())  # no word of every text
            if told and value.strip("*•x.…") and value.casefold() not in _NO_SECRETS and value != MASK:
                yield value


def without_cut_word(text: str, limit: int) -> str:
    """A text that may have been cut after `limit` characters, without its last word then: of a secret a part may be left,
    which no rule knows any more."""
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
                if len(secret) >= SHORTEST:
                    value = value.replace(spelling, MASK)
                else:
                    value = re.sub(rf"(?<!\w){re.escape(spelling)}(?!\w)", lambda _: MASK, value)
        return value
    if isinstance(value, list):
        return [_replaced(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_replaced(name, secrets): _replaced(item, secrets) for name, item in value.items()}
    return value
