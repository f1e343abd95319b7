"""Facts that a compaction kept and lost: found in the messages it replaces, looked for in what replaces them.

Finding and looking for are pattern matching (see `fact_patterns`): a fact that was rephrased beyond recognition counts
as lost. The scorecard is there to be looked at before and after, not to judge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from timeleap import message_text
from timeleap.features.compaction import fact_patterns
from timeleap.features.compaction.prepare import call_texts
from timeleap.features.compaction.sizes import text_length
from timeleap.message_text import is_summary, is_system_text
from timeleap.summaries.outcome import is_error

Record = Mapping[str, Any]


class Tally(TypedDict):
    """Numbers of facts of one kind that were found and kept, and the first of the lost facts themselves."""

    found: int
    kept: int
    lost: list[str]


MAX_FACTS = 200
"""Facts of one kind that are looked for: the newest, of identifiers the most frequent."""

MAX_LOST = 20
"""Lost facts of one kind that are named."""

SCANNED_CHARS = 4 * 1024 * 1024
"""Characters of a very long past that are searched, the newest ones."""

_READ_OF_USER = 8_000  # characters; what users paste beyond that is seldom a demand
_SHARE_OF_WORDS = 0.7  # of a sentence that have to be there for it to count as kept, in whatever order
_IDENTIFIER = re.compile(
    r"\b(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+[a-z0-9]*[A-Z]\w*"
    r"|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Za-z_]\w*(?=\(\)))(?!\w)"
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://\S+")


def score(removed: Sequence[Record], summary: str, kept: Iterable[Record] = ()) -> dict[str, Tally]:
    """Look for the facts of the messages that go in what the model is shown instead: the summary and the messages that
    stay."""
    facts = _Facts()
    size = 0
    for message in reversed(removed):
        facts.take(message)
        size += text_length(message)
        if size > SCANNED_CHARS:
            break
    texts = [text for message in kept for text in (*message_text.texts(message), *call_texts(message))]
    after = _SearchedText("\n".join([summary, *texts]))
    return {
        "paths": _tally(facts.files(), after.has_path),
        "identifiers": _tally(facts.names(), after.has_name),
        "errors": _tally(facts.errors, after.has_sentence),
        "todos": _tally(facts.todos, after.has_sentence),
        "constraints": _tally(facts.constraints, after.has_sentence),
    }


def _tally(facts: Iterable[str], is_there: Callable[[str], bool]) -> Tally:
    many = list(facts)
    lost = [fact for fact in many if not is_there(fact)]
    return {"found": len(many), "kept": len(many) - len(lost), "lost": lost[:MAX_LOST]}


class _Facts:
    """The facts of a conversation, taken in message by message from its end; each once."""

    def __init__(self) -> None:
        self.errors: dict[str, None] = {}
        self.todos: dict[str, None] = {}
        self.constraints: dict[str, None] = {}
        self._paths: dict[str, None] = {}
        self._names: Counter[str] = Counter()

    def take(self, message: Record) -> None:
        texts = [text for text in message_text.texts(message) if not is_system_text(text)]
        for text in [*texts, *call_texts(message)]:
            for line in fact_patterns.lines(text):
                _note(self._paths, fact_patterns.paths(line))
                self._names.update(_identifiers(line))
        said = "\n".join(texts)
        role = message.get("role")
        if role == "assistant":
            _note(self.todos, filter(fact_patterns.is_to_do, fact_patterns.sentences(said)))
            return
        _note(
            self.errors,
            (fact_patterns.bare_error(line) for line in fact_patterns.lines(said) if is_error(line)),
        )
        if role == "user" and not is_summary(message):
            _note(self.constraints, filter(fact_patterns.is_demand, fact_patterns.sentences(said[:_READ_OF_USER])))

    def files(self) -> list[str]:
        """The paths, without those that only name the end of another one."""
        found: list[str] = []
        for path in sorted(self._paths, key=len, reverse=True):
            tail = "/" + path.removeprefix("./").lstrip("/")
            if not any(("/" + longer).endswith(tail) for longer in found):
                found.append(path)
        return found

    def names(self) -> list[str]:
        return [name for name, _ in self._names.most_common(MAX_FACTS)]


def _note(known: dict[str, None], new: Iterable[str]) -> None:
    for fact in new:
        if len(known) >= MAX_FACTS:
            return
        known.setdefault(fact)


def _identifiers(line: str) -> list[str]:
    plain = _URL.sub(" ", line)
    for path in fact_patterns.paths(plain):
        plain = plain.replace(path, " ")
    return [match.group() for match in _IDENTIFIER.finditer(plain)]


class _SearchedText:
    def __init__(self, text: str) -> None:
        self._text = text
        self._flat = _flat(text)
        self._words = frozenset(_words(self._flat))

    def has_path(self, path: str) -> bool:
        """True if a path is in the text, whole or by its last two parts."""
        return path in self._text or "/".join(re.split(r"[\\/]", path)[-2:]) in self._text

    def has_name(self, name: str) -> bool:
        return name in self._text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self._text) is not None

    def has_sentence(self, sentence: str) -> bool:
        """True if a sentence is in the text, word for word or by most of its words."""
        flat = _flat(sentence)
        if flat in self._flat:
            return True
        words = set(_words(flat))
        return len(words) > 2 and len(words & self._words) >= _SHARE_OF_WORDS * len(words)


def _flat(text: str) -> str:
    return " ".join(text.lower().split())


def _words(flat: str) -> list[str]:
    return re.findall(r"[^\W_]{3,}", flat)
