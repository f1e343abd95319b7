"""The code a conversation is about: its files, what was done with them, and how they look now."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from timeleap.features.compaction import fact_patterns
from timeleap.features.compaction.prepare import quoted
from timeleap.summaries.calls import PATH_ARGUMENTS
from timeleap.summaries.outcome import MAX_LINE

MAX_LINES = 20
"""Code of fewer lines is shown whole."""

_MAX_CHARS = 2000
_MAX_FILES = 60
_MOST_FILES = 1000  # that are told apart, the newest
_TELLING = 8  # characters from which a line of code says something
_CODE_ARGUMENTS = (
    "content", "contents", "new_str", "new_string", "new_text", "new_source", "replace", "replacement", "text", "code",
    "patch", "input",
)  # fmt: skip
_ALSO_NAMED = re.compile(r"^Also named: (.+)$", re.MULTILINE)
_TEST = re.compile(r"(?:^|[\\/])tests?[\\/]|(?:^|[\\/])test_|_test\.|\.(?:test|spec)\.", re.IGNORECASE)


class _File(Struct):
    """Facts about a file; the newest version of its code wins."""

    age: int
    mentions: int = 0
    uses: list[str] = field(default_factory=list[str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    code: str = ""
    listed: bool = False  # the code is a listing of the file, not what the agent wrote into it

    @property
    def telling(self) -> bool:
        """True if more is known of the file than that it was named."""
        return bool(self.code or self.names or self.uses)

    def absorb(self, older: _File) -> None:
        """Take over what is known of the same file under another path."""
        self.age = min(self.age, older.age)
        self.mentions += older.mentions
        self.uses += [use for use in older.uses if use not in self.uses]
        self.names = {**older.names, **self.names}
        if not self.code:
            self.code, self.listed = older.code, older.listed


class CodeState:
    """Takes in texts from the newest to the oldest and keeps what they say of files."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._old: dict[str, str] = {}
        self._written: set[str] = set()

    def text(self, text: str, *, by_agent: bool) -> None:
        """Take in what was said or put out: files named, what they declare, listings of them, blocks of code."""
        path = ""
        for line in fact_patterns.lines(text):
            named = fact_patterns.paths(line)
            if named:
                path = named[-1]
                for name in named:
                    self._file(name).mentions += 1
            elif path and (declared := fact_patterns.declaration(line)):
                self._file(path).names.setdefault(*declared)
        if not by_agent:
            for shown, code in reversed(list(fact_patterns.listings(text))):
                file = self._file(shown)
                if not file.code:
                    file.code, file.listed = code, True
            return
        for before, code in reversed(list(fact_patterns.code_blocks(text))):
            self._note_written(code)
            named = fact_patterns.paths(before)
            if named and fact_patterns.is_code(code) and not self._file(named[-1]).code:
                self._file(named[-1]).code = code

    def call(self, call: Any) -> None:
        """Take in a tool call: the file it is about, and the code it writes."""
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            return
        arguments = str(function.get("arguments") or "")
        values = _decoded(arguments)
        code = next((values[name] for name in _CODE_ARGUMENTS if values.get(name, "").strip()), "")
        self._note_written(code)
        given = next((values[name] for name in PATH_ARGUMENTS if values.get(name)), "")
        named = fact_patterns.paths(given or arguments[: MAX_LINE * 10])
        if not named:
            return
        file = self._file(named[0])
        file.mentions += 1
        file.code = file.code or code
        tool = str(function.get("name") or "tool")
        if tool not in file.uses:
            file.uses.append(tool)

    def carry_on(self, body: str) -> str:
        """Take in the section an earlier summary had; returns what of it is about no file."""
        rest, files = fact_patterns.parted(body, "file")
        for file in files:
            if file.startswith("\n") and file.endswith("\n") and len(file) > 2:
                self._old.setdefault(file.split("\n")[1], f"<file>{file}</file>")
        for names in _ALSO_NAMED.findall(rest):
            for path in names.split(", "):
                self._file(path)
        return _ALSO_NAMED.sub("", rest)

    def items(self, directory: str = "") -> list[str]:
        """The files as items of a summary: those with code come first, tests behind what they test. Relative paths are
        relative to `directory`, where that is known."""
        files = _merged(_absolute(self._files, directory))
        # What an earlier summary shows of a file counts until its code was seen again.
        old = {path: text for path in files if (text := self._old_of(path, directory)) and not files[path].code}
        order = sorted(
            files,
            key=lambda path: (
                not (files[path].code or path in old),
                not files[path].telling,
                bool(_TEST.search(path)),
                -files[path].mentions,
                files[path].age,
            ),
        )
        items = [
            old.get(path) or self._shown(path, files[path]) for path in order if path in old or files[path].telling
        ]
        again = {name for path in files for name in _names_of(path, directory)}
        items += [text for path, text in self._old.items() if path not in again]
        rest = [path for path in order if path not in old and not files[path].telling]
        if rest:
            items.append(quoted(f"Also named: {', '.join(rest[:_MAX_FILES])}"))
        return items

    def _old_of(self, path: str, directory: str) -> str | None:
        return next((self._old[name] for name in _names_of(path, directory) if name in self._old), None)

    def _file(self, path: str) -> _File:
        known = self._files.get(path := path.replace("/./", "/"))
        if known is None:
            known = _File(len(self._files))
            if len(self._files) < _MOST_FILES:
                self._files[path] = known
        return known

    def _note_written(self, code: str) -> None:
        self._written.update(line.strip() for line in code.splitlines() if len(line.strip()) >= _TELLING)

    def _shown(self, path: str, file: _File) -> str:
        lines: list[str] = []
        if file.uses:
            lines.append(f"**Summary:** used by {', '.join(file.uses[:4])}")
        code = self._essential(file)
        names = [signature for signature in file.names.values() if signature not in code]
        if names:
            lines += ["**Key elements:**", *(f"- {signature}" for signature in names[:8])]
        if code:
            lines += ["**Latest version:**", "```", code, "```"]
        return "\n".join(["<file>", *map(quoted, [path, *lines]), "</file>"])

    def _essential(self, file: _File) -> str:
        """Short code whole; of longer code the declarations, and of a listing what the agent changed in it."""
        rows = [row.rstrip() for row in file.code.splitlines() if row.strip()]
        if len(rows) >= MAX_LINES:
            own = [row for row in rows if file.listed and row.strip() in self._written]
            rows = own or [found[1] for row in rows if (found := fact_patterns.declaration(row))] or rows
        return "\n".join(rows[: MAX_LINES - 1])[:_MAX_CHARS]


def _names_of(path: str, directory: str) -> tuple[str, str]:
    """A path, and as a summary calls it that knows the working directory."""
    return path, path.removeprefix(f"{directory}/") if len(directory) > 1 else path


def _decoded(arguments: str) -> dict[str, str]:
    """The text arguments of a call."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        values = None
    pairs = values.items() if isinstance(values, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str)}


def _absolute(files: Mapping[str, _File], directory: str) -> dict[str, _File]:
    """`files` with entries that have a relative and an absolute path merged under the absolute path."""
    found: dict[str, _File] = {}
    for path in files:
        whole = f"{directory}/{path.removeprefix('./')}"
        name = whole if whole in files else path
        if name in found:
            found[name].absorb(files[path])
        else:
            found[name] = files[path]
    return found


def _merged(files: Mapping[str, _File]) -> dict[str, _File]:
    """`files` with entries named by a part of a path (`fields.py`, `src/fields.py`) merged under the longer path."""
    merged: dict[str, _File] = {}
    for path in sorted(files, key=len, reverse=True):
        tail = "/" + path.removeprefix("./").lstrip("/")
        longer = [known for known in merged if ("/" + known).endswith(tail)]
        if longer:
            best = max(longer, key=lambda known: (bool(merged[known].code), merged[known].mentions))
            merged[best].absorb(files[path])
        else:
            merged[path] = files[path]
    return merged
