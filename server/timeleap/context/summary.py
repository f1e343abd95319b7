"""The built-in summariser: needs no model and no network, and quotes rather than rephrases.

It reads the messages from the newest to the oldest, collects what stands out under the six sections a summary has,
and fills them as far as the length allows, the newest first. What an earlier compaction wrote is carried on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from timeleap.context import findings, tokens
from timeleap.context.compaction import call_text, is_summary
from timeleap.context.dmail import harmless

Record = Mapping[str, Any]

SECTIONS = (
    "current_focus",
    "environment",
    "completed_tasks",
    "active_issues",
    "code_state",
    "important_context",
)
MIN_TOKENS = 600
SHARE = 0.25
"""A summary may have `SHARE` of the tokens it replaces, or `MIN_TOKENS` if that is more."""

SCANNED_CHARS = 4 * 1024 * 1024
"""Of a very long past only the newest part is read closely; of what is older, the user's words and old summaries."""

_READ_OF_USER = 8_000  # characters; what users paste beyond that is seldom a demand

_WEIGHTS = {
    "current_focus": 0.28,
    "active_issues": 0.19,
    "code_state": 0.22,
    "completed_tasks": 0.11,
    "important_context": 0.13,
    "environment": 0.07,
}
_MAX_ITEMS = 400  # found in one section; more than any length allows to show
_MAX_CODE_LINES = 20
_MAX_FILES = 60
_MIN_CUT = 40  # characters from which a text is cut in its middle, not at its end
_TAG = re.compile(r"</?(?:" + "|".join((*SECTIONS, "file")) + r")\s*>", re.IGNORECASE)
_CODE_ARGUMENTS = ("content", "new_str", "new_string", "new_text", "replace", "replacement", "text", "code", "patch")
_SYSTEM_TEXT = re.compile(r"^\s*<system(?:-reminder)?>")


def summarise(messages: Sequence[Record], custom_instruction: str = "") -> str:
    """Summarise a conversation by extraction.

    Args:
        messages: What is to be replaced, in its JSON form; read from its end.
        custom_instruction: A wish of the user's: what shares words with it comes first.

    Returns:
        The six sections; never empty, never longer than the text it replaces (if that has any), and at most the
        greater of a quarter of its tokens and `MIN_TOKENS`.
    """
    collector = _Collector(_words(custom_instruction))
    size = 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        size += tokens.text_length(message) + sum(len(text) for text in _calls(message))
        collector.take(message, closely=size <= SCANNED_CHARS)
    limit = max(MIN_TOKENS, int(size // tokens.CHARS_PER_TOKEN * SHARE)) * tokens.CHARS_PER_TOKEN
    limit = min(size, limit) if size else limit
    return _fit(collector.sections(limit), limit)


def _calls(message: Record) -> list[str]:
    calls = message.get("tool_calls")
    return [call_text(call) for call in calls] if isinstance(calls, list) else []


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w{3,}", text.lower()))


@dataclass
class _File:
    """What is known of one file; the newest version of its code wins."""

    mentions: int = 0
    uses: list[str] = field(default_factory=list[str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    code: str = ""

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """What was worked on comes before what was only named."""
        return bool(self.code), bool(self.uses or self.names), self.mentions

    def absorb(self, older: _File) -> None:
        """Take over what is known of the same file under another path."""
        self.mentions += older.mentions
        self.uses += [use for use in older.uses if use not in self.uses]
        self.names = {**older.names, **self.names}
        self.code = self.code or older.code


class _Items:
    """What was found for one section, newest first, each thing once."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._seen: set[str] = set()
        self._first: list[str] = []
        self._rest: list[str] = []

    def add(self, text: str) -> None:
        key = " ".join(sorted(_words(text))) or text
        if key in self._seen or len(self._seen) >= _MAX_ITEMS:
            return
        self._seen.add(key)
        (self._first if self._wanted & _words(text) else self._rest).append(_quoted(text))

    def all(self) -> list[str]:
        return self._first + self._rest


class _Collector:
    """Takes messages from the newest to the oldest and keeps what belongs to a section."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._items = {name: _Items(wanted) for name in SECTIONS}
        self._files: dict[str, _File] = {}
        self._old_files: dict[str, str] = {}
        self._requests: list[str] = []  # the newest and the oldest
        self._last_word = ""
        self._reaction = ""  # what the agent said after the message in hand
        self._succeeded = False  # something went well after the message in hand

    def take(self, message: Record, *, closely: bool) -> None:
        """Look at one message, the one before all those taken so far."""
        if is_summary(message):
            self._carry_on("\n".join(tokens.texts(message)[1:]))
            return
        text = "\n".join(text for text in tokens.texts(message) if not _SYSTEM_TEXT.match(text))
        if message.get("role") == "user" and text.strip():
            self._user(text)
        if not closely:
            return
        if message.get("role") == "assistant":
            self._assistant(text, _calls(message))
        else:
            self._output(text)
        self._code(text, message)

    def sections(self, limit: int) -> dict[str, list[str]]:
        """The items of every section, the ones to keep first coming first.

        Args:
            limit: Characters the whole summary may have.
        """
        found = {name: items.all() for name, items in self._items.items()}
        found["current_focus"] = [*map(_quoted, self._focus(limit)), *found["current_focus"]]
        found["code_state"] = self._file_items() + found["code_state"]
        return found

    def _focus(self, limit: int) -> Iterator[str]:
        # Together they fit into this section's share; the task at hand must never fall victim to its own length.
        if self._last_word:
            yield f"Last said by the agent: {_clip(self._last_word, min(700, limit // 18))}"
        if self._requests:
            yield f"Asked for at the start: {_clip(self._requests[-1], min(1200, limit // 10))}"
        if len(self._requests) > 1:
            yield f"Last said by the user: {_clip(self._requests[0], min(700, limit // 18))}"

    def _file_items(self) -> list[str]:
        files = _merged(self._files)
        shown = sorted(files, key=lambda path: files[path].weight, reverse=True)
        items = [_file_text(path, files[path]) for path in shown if files[path].weight > (False, False, 1)]
        items += [text for path, text in self._old_files.items() if path not in files]
        rest = [path for path in shown if files[path].weight <= (False, False, 1)]
        if rest:
            items.append(_quoted(f"Also named: {', '.join(rest[:_MAX_FILES])}"))
        return items

    def _carry_on(self, old: str) -> None:
        sections = {name: re.search(rf"<{name}>\n?(.*?)\n?</{name}>", old, re.DOTALL) for name in SECTIONS}
        if not any(sections.values()):
            for sentence in findings.sentences(old):
                self._items["important_context"].add(sentence)
        for name, match in sections.items():
            body = match[1] if match else ""
            if name == "code_state":
                for file in re.findall(r"<file>\n.+?\n</file>", body, re.DOTALL):
                    self._old_files.setdefault(file.split("\n")[1], file)
                body = re.sub(r"<file>.*?</file>", "", body, flags=re.DOTALL)
            for line in body.splitlines():
                item = line.removeprefix("- ").strip()
                if item and item != "none" and not item.startswith("Last said by"):
                    self._items[name].add(item)

    def _user(self, text: str) -> None:
        self._requests[1:] = [text]
        for sentence in reversed(list(findings.sentences(text[:_READ_OF_USER]))):
            if findings.is_demand(sentence):
                self._items["important_context"].add(f"User: {sentence}")

    def _assistant(self, text: str, calls: list[str]) -> None:
        said = list(findings.sentences(text))
        self._last_word = self._last_word or " ".join(said[:4]) or "; ".join(calls)
        for call in reversed(calls):
            self._items["completed_tasks"].add(f"Ran {_clip(call, 200)}")
        for sentence in reversed(said):
            if findings.is_to_do(sentence):
                self._items["active_issues"].add(f"To do: {sentence}")
            elif findings.is_done(sentence):
                self._items["completed_tasks"].add(sentence)
            elif findings.is_decision(sentence):
                self._items["important_context"].add(sentence)
        self._reaction = _clip(said[0], 200) if said else self._reaction

    def _output(self, text: str) -> None:
        found = list(findings.lines(text))
        reaction = f" -> {self._reaction}" if self._reaction else ""
        outcome = " (later runs reported success)" if self._succeeded else ""
        for line in reversed(found):
            if findings.is_error(line):
                self._items["active_issues"].add(f"{line}{reaction}{outcome}")
                reaction = ""  # once a message, at its last error
            elif findings.is_setup(line):
                self._items["environment"].add(line)
        self._succeeded = self._succeeded or any(findings.is_success(line) for line in found)

    def _code(self, text: str, message: Record) -> None:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            self._called_file(call)
        path = ""
        for line in findings.lines(text):
            if named := findings.paths(line):
                path = named[-1]
                for name in named:
                    self._file(name).mentions += 1
            elif path and (declared := findings.declaration(line)):
                self._file(path).names.setdefault(*declared)
        for before, code in reversed(list(findings.code_blocks(text))):
            if "\n" not in code and not findings.declaration(code):
                self._items["completed_tasks"].add(f"Ran {code}")  # agents without tools write commands so
            elif (named := findings.paths(before)) and not self._file(named[-1]).code:
                self._file(named[-1]).code = code

    def _called_file(self, call: Any) -> None:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            return
        arguments = str(function.get("arguments") or "")
        if not (named := findings.paths(arguments[: findings.MAX_LINE * 10])):
            return
        file = self._file(named[0])
        file.mentions += 1
        file.code = file.code or _written_code(arguments)
        tool = str(function.get("name") or "tool")
        if tool not in file.uses:
            file.uses.append(tool)

    def _file(self, path: str) -> _File:
        return self._files.setdefault(path, _File())


def _merged(files: Mapping[str, _File]) -> dict[str, _File]:
    """`files` with what goes by a part of its path (`fields.py`, `src/fields.py`) under the longest of its paths."""
    merged: dict[str, _File] = {}
    for path in sorted(files, key=len, reverse=True):
        tail = "/" + path.removeprefix("./").lstrip("/")
        longest = next((known for known in merged if ("/" + known).endswith(tail)), None)
        if longest is None:
            merged[path] = files[path]
        else:
            merged[longest].absorb(files[path])
    return merged


def _written_code(arguments: str) -> str:
    """The code a tool call writes, if its arguments have any."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(values, dict):
        return ""
    return next((code for name in _CODE_ARGUMENTS if isinstance(code := values.get(name), str) and code.strip()), "")


def _file_text(path: str, file: _File) -> str:
    named = f"named {file.mentions} time{'s' if file.mentions != 1 else ''}"
    lines = ["<file>", path, f"**Summary:** {', '.join([named, *(f'used by {use}' for use in file.uses[:4])])}"]
    if file.names:
        lines += ["**Key elements:**", *(f"- {signature}" for signature in list(file.names.values())[:12])]
    if code := _essential(file.code):
        lines += ["**Latest version:**", "```", code, "```"]
    return "\n".join([lines[0], *map(_quoted, lines[1:]), "</file>"])


def _essential(code: str) -> str:
    """Short code whole; of longer code the declarations."""
    rows = code.splitlines()
    if len(rows) < _MAX_CODE_LINES:
        return code[: findings.MAX_LINE * 5]
    declared = [found[1] for row in rows if (found := findings.declaration(row))]
    return "\n".join((declared or rows)[: _MAX_CODE_LINES - 1])[: findings.MAX_LINE * 5]


def _clip(text: str, limit: int) -> str:
    """`text` on one line, cut in its middle if it is too long."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    if limit < _MIN_CUT:
        return line[:limit]
    head = limit * 2 // 3
    return f"{line[:head]} [...] {line[-(limit - head - 7) :]}"


def _quoted(text: str) -> str:
    """`text` with the tags of summaries broken: quoted, they must not end the section they are quoted in."""
    return _TAG.sub(lambda tag: "&lt;" + tag.group()[1:], harmless(text))


def _fit(sections: dict[str, list[str]], limit: int) -> str:
    """Render as much of every section as its share allows, and let the others use what one leaves."""
    skeleton = len(_render({name: [] for name in SECTIONS}))
    spare = limit - skeleton
    chosen: dict[str, list[str]] = {name: [] for name in SECTIONS}
    if spare < limit // 3:
        return _short(sections, limit)
    left = {name: list(sections[name]) for name in SECTIONS}
    for share in (_WEIGHTS, dict.fromkeys(_WEIGHTS, 1.0)):
        budget = spare
        for name, weight in share.items():
            room = min(int(budget * weight), spare)
            for item in list(left[name]):
                cost = len(item) + 3
                if cost <= room:
                    chosen[name].append(item)
                    left[name].remove(item)
                    room -= cost
                    spare -= cost
    return _render(chosen)


def _render(sections: Mapping[str, Sequence[str]]) -> str:
    return "\n\n".join(f"<{name}>\n{_body(name, sections[name])}\n</{name}>" for name in SECTIONS)


def _body(name: str, items: Sequence[str]) -> str:
    if not items:
        return "none"
    if name in ("current_focus", "code_state"):
        return "\n".join(items)
    return "\n".join(f"- {item}" for item in reversed(items))  # in the order things happened


def _short(sections: Mapping[str, Sequence[str]], limit: int) -> str:
    """For a past too short for six sections: its most telling words."""
    for name in ("current_focus", "active_issues", "important_context", "completed_tasks", "code_state", "environment"):
        for item in sections[name]:
            framed = f"<{name}>\n{item}\n</{name}>"
            return framed if len(framed) <= limit else item[: max(limit, 1)]
    return "none"[: max(limit, 1)]
