"""The tool calls of a message: their names, the argument that tells most, the files they are given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeleap.json_value import Json
from timeleap.message_text import one_line, texts
from timeleap_protocol.secret_masks import is_named_secret

MOST_NAME: Final = 64
_MOST_PARSED: Final = 256 << 10  # characters of arguments; of longer ones the beginning is searched
_SEARCHED: Final = 4096
_MOST_FILES_OF_CALL: Final = 20

PATH_ARGUMENTS: Final = ("path", "file_path", "filename", "file_name", "file", "target_file", "notebook_path")
_PATH_LISTS: Final = ("paths", "files", "file_paths")
_PATH_KEYS: Final = frozenset((*PATH_ARGUMENTS, *_PATH_LISTS))
_TELLING: Final = (
    *PATH_ARGUMENTS,
    *("command", "cmd", "script", "query", "pattern", "search", "regex", "url", "uri"),
    *("input", "prompt", "description", "dir", "directory", "code", "text", "content", "message", "name", "id"),
)
"""Arguments, the one that tells most first."""
_RANK: Final = {name: rank for rank, name in enumerate(_TELLING)}
_NO_FILES: Final = ("", ".", "..", "/", "./")
_SHELL: Final = re.compile(r"(?:.*/)?(?:ba|z|da|k)?sh|(?:.*[/\\])?(?:cmd|powershell|pwsh)(?:\.exe)?")
_PATCH: Final = "apply_patch"
_PATCHED: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_BROKEN: Final = rf'"({"|".join(_TELLING)})"\s*:\s*"((?:[^"\\]|\\.)*)'  # seldom needed, so compiled then
_SHOWS_FILES: Final = re.compile(
    r"(?:.*[_\-.])?(?:read|view|open|cat|grep|rg|search|find|glob|ls|list|fetch|get|show)(?:[_\-.A-Z].*|file|files)?",
    re.IGNORECASE,
)
_SHELL_SHOWS_FILES: Final = re.compile(
    r"\s*(?:cd \S+ && )?(?:cat|head|tail|less|more|grep|egrep|rg|ag|find|ls|tree|sed -n|awk|git (?:log|diff|show|grep|blame)|strings|xxd)\b"
)
_COMMAND_AT_END: Final = re.compile(
    r"(?:```[\w-]*[ \t]*\n(?P<fenced>[^`]*?)\n?```|<command>\s*(?P<tagged>.*?)\s*</command>)\s*\Z", re.DOTALL
)
_LONGEST_COMMAND: Final = 4000
_WORD: Final = re.compile(r"[\w./-]{1,40}\Z")


class CalledTool(Struct, frozen=True):
    """A tool call, in short.

    Attributes:
        argument: The argument that tells most, on one line; None without one.
        call_id: What its result refers to; empty where it has none.
        shows_files: It reads or searches files (see `outcome.is_failure`).
    """

    name: str
    argument: str | None = None
    files: tuple[str, ...] = ()
    call_id: str = ""
    shows_files: bool = False

    def wire(self) -> Json:
        """`SummaryCall` of the contract."""
        return {"name": self.name} if self.argument is None else {"name": self.name, "argument": self.argument}

    @property
    def text(self) -> str:
        return self.name if self.argument is None else f"{self.name} {self.argument}"


def calls_in(message: Mapping[str, Any]) -> Iterator[CalledTool]:
    """The tool calls that a message makes, in its list of calls or in its parts; what is malformed is named `tool`."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            function = call.get("function")
            told = function if isinstance(function, dict) else call
            yield _call(told.get("name"), told.get("arguments"), call.get("id"))
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in ("tool_use", "tool_call", "function_call"):
            given = next((part[name] for name in ("input", "arguments", "args") if name in part), None)
            yield _call(part.get("name"), given, part.get("id") or part.get("call_id"))


def command_in(message: Mapping[str, Any]) -> CalledTool | None:
    """The command that an agent without tools ends its message with, for a terminal; None where there is none. Only what
    the terminal answers makes it a call: a message may end with code for people."""
    said = texts(message)
    end = said[-1][-_LONGEST_COMMAND:].rstrip() if said else ""
    found = _COMMAND_AT_END.search(end) if end.endswith(("```", "</command>")) else None
    first = ((found["fenced"] or found["tagged"] or "") if found else "").strip().partition("\n")[0]
    name, _, rest = first.partition(" ")
    if not _WORD.match(name):
        return None
    shows = _SHELL_SHOWS_FILES.match(first) is not None or _SHOWS_FILES.fullmatch(name) is not None
    return CalledTool(name[:MOST_NAME], one_line(rest) or None, (), "", shows)


def _call(name: object, arguments: object, call_id: object) -> CalledTool:
    called = one_line(name, MOST_NAME) if isinstance(name, str) else ""
    values = _values(arguments)
    names = sorted(values, key=lambda name: _RANK.get(name, len(_RANK))) if len(values) > 1 else values
    telling = next((text for name in names if (text := _text(values[name])) and not is_named_secret(name, text)), "")
    patched = _PATCHED.findall(telling[:_SEARCHED]) if "*** " in telling else []
    files = [*patched, *_paths(values)][:_MOST_FILES_OF_CALL]
    if patched and called != _PATCH:
        called = _PATCH  # a shell that is given a patch does what the tool of that name does
    shown = one_line(files[0] if patched else _looked_at(values) or telling)
    shows = _SHOWS_FILES.fullmatch(called) is not None or _SHELL_SHOWS_FILES.match(telling) is not None
    clean = tuple(path for file in files if (path := one_line(file)) not in _NO_FILES)
    return CalledTool(called or "tool", shown or None, clean, call_id if isinstance(call_id, str) else "", shows)


def _looked_at(values: Mapping[str, Any]) -> str:
    """`view PATH` for an editor of several commands that only shows a file: its name says that it edits. Else empty."""
    path = values.get("path")
    if values.get("command") != "view" or not isinstance(path, str):
        return ""
    return f"view {path}"


def _values(arguments: object) -> Mapping[str, Any]:
    """The arguments by name; what can be made out where they are broken JSON; under no name where they are none."""
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        return {}
    if len(arguments) <= _MOST_PARSED:
        try:
            decoded = msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            pass
        else:
            return decoded if isinstance(decoded, dict) else {"": decoded}
    found = {key: _unescaped(text) for key, text in re.findall(_BROKEN, arguments[:_SEARCHED])}
    return found or {"": arguments[:_SEARCHED]}


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def _text(value: object) -> str:
    """An argument as text: a command in a list is its words, without the shell that runs it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        if len(value) > 2 and _SHELL.fullmatch(value[0]) and value[1].startswith(("-", "/")):
            return str(value[2])
        return " ".join(value[:_MOST_FILES_OF_CALL])
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _paths(values: Mapping[str, Any]) -> Iterator[str]:
    if _PATH_KEYS.isdisjoint(values):
        return
    for key in PATH_ARGUMENTS:
        value = values.get(key)
        if isinstance(value, str) and value.strip():
            yield value
    for key in _PATH_LISTS:
        listed: object = values.get(key)
        for value in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
            if isinstance(value, str) and value.strip():
                yield value
