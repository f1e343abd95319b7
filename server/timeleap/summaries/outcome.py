"""Failure and success of tool calls, by their results and by the lines of their outputs.

Agents say it in many ways: a flag, an exit code, an opening of the program that runs the tools, or only in what the tool
printed. The plainer sign counts. What reads or searches files shows their text, where words of failure say nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from timeleap.message_text import texts

MAX_LINE: Final = 400
"""Characters of a line that are looked at."""
_LOOKED_AT: Final = 2000  # characters at the beginning and at the end of a result
_LAST: Final = 3  # lines in which an output says how it ended

_ERROR: Final = re.compile(
    r"\b[\w.]*(?:Error|Exception)\b(?:\s*[:(\[]|$)|^\W*(?:error|fatal|panic)\b\W*[:\[ ]|\bFAIL(?:ED|URE)?\b|\bfailed\b"
    r"|^Traceback|\b(?:segmentation fault|core dumped|undefined reference|assertion failed|no such file|command not found"
    r"|not found[.!]?$|permission denied|timed out)\b|\bE\d{3,4}\b|exit (?:code|status):? [1-9]"
    r"|错误|失败|异常|无法|超时|报错",
    re.IGNORECASE,
)
SOURCE: Final = re.compile(r"^(?:\d+[:|]|raise |except|import |from |#|//|/\*|\*|@|catch|throw |return )")
_NO_ERROR: Final = re.compile(r"\b(?:0|no) (?:errors?|fail(?:ed|ures?)|warnings?)\b|没有错误", re.IGNORECASE)
_SUCCESS: Final = re.compile(
    r"\b(?:\d+ passed|all tests? pass(?:ed)?|success(?:ful(?:ly)?)?|exit (?:code|status):? 0\b|ok\b|done\b|build succeeded)"
    r"|成功|通过",
    re.IGNORECASE,
)
_NUMBERED: Final = re.compile(r"^\s*\d+(?:[:|\t→])")
_TERMINAL: Final = re.compile(r"^\S{0,40}[$#>%]$")
_NOISE: Final = re.compile(r"^[\W_]*$")

_FLAGS: Final = ("is_error", "isError")
_REFUSED: Final = re.compile(
    r"""\s*(?:<system>\s*ERROR\b|<(?:tool_use_)?error\b|(?:tool )?error\b\s*:|fatal\b\s*:|traceback\ \(most\ recent
    |\{\s*"(?:error|exception)"\s*:\s*(?!\s|null|false|""|\[\]|\{\})|\{[^{}]{0,200}"(?:success|ok)"\s*:\s*false)""",
    re.IGNORECASE | re.VERBOSE,
)
_EXIT: Final = re.compile(
    r"""^.{0,80}?\bexit(?:ed\ with)?[\ _]?(?:code|status)\\?["']?\s*[:=]?\s*(-?\d+)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def is_error(line: str) -> bool:
    """True if a line reports an error; a line of source code that is about errors does not."""
    return bool(_ERROR.search(line)) and not _NO_ERROR.search(line) and not SOURCE.match(line)


def is_success(line: str) -> bool:
    return bool(_SUCCESS.search(line))


def is_terminal_prompt(line: str) -> bool:
    """True if a line is what a shell shows when it waits, such as `bash-$`."""
    return bool(_TERMINAL.match(line))


def is_failure(result: Mapping[str, Any], *, shows_files: bool = False) -> bool:
    """True if a message with the result of a tool call says that it failed.

    Args:
        result: The message in its JSON form.
        shows_files: The tool reads or searches files: only plain signs count, not the words it printed.
    """
    flag = _flag(result)
    if flag is not None:
        return flag
    said = texts(result)
    head = said[0][:_LOOKED_AT] if said else ""
    tail = said[-1][-_LOOKED_AT:] if said else ""
    if _REFUSED.match(head):
        return True
    codes = [code for part in (head, tail) if "exit" in part.lower() for code in _EXIT.findall(part)]
    if codes:
        return int(codes[-1][:20]) != 0
    is_data = head.lstrip().startswith(("{", "[")) and tail.rstrip().endswith(("}", "]"))
    return not (shows_files or is_data) and (_ends_badly(tail) or _begins_badly(head))


def _flag(result: Mapping[str, Any]) -> bool | None:
    """Value of a failure flag, of the message or of one of its parts; None without one."""
    content = result.get("content")
    found = [
        holder[name]
        for holder in (result, *(content if isinstance(content, list) else ()))
        if isinstance(holder, dict)
        for name in _FLAGS
        if isinstance(holder.get(name), bool)
    ]
    return any(found) if found else None


def _ends_badly(tail: str) -> bool:
    """True if one of the last lines that say how it ended reports an error."""
    for line in itertools.islice(_printed(reversed(tail.splitlines())), _LAST):
        if is_error(line):
            return True
        if is_success(line):
            return False
    return False


def _begins_badly(head: str) -> bool:
    first = next(_printed(head.splitlines()), "")
    return first.endswith((".", ":", "!")) and is_error(first)


def _printed(lines: Iterable[str]) -> Iterator[str]:
    """The lines that a tool printed: without listings of files, and what a terminal puts around an output."""
    for line in lines:
        stripped = line.strip()[:MAX_LINE]
        framing = stripped.startswith(("[", "(")) and stripped.endswith(("]", ")"))
        if not (framing or _NOISE.match(stripped) or is_terminal_prompt(stripped) or _NUMBERED.match(stripped)):
            yield stripped
