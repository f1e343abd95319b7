"""The summary of a span, as its messages come: each is taken once, and the summary so far can be had at any time.

A span may be very long, or hold very long messages: so much of its beginning is read, the rest is only counted. What is
read is decided by the sizes of the records alone, so that a summary made while messages come is the one that is made of
the log later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from timeleap.message_text import texts
from timeleap.storage.engine import Role
from timeleap.storage.record import decode_json
from timeleap.summaries.calls import CalledTool, calls_in, command_in
from timeleap.summaries.outcome import is_failure, is_terminal_prompt
from timeleap.summaries.plain_text import MOST_CHARACTERS, beginning_of, cut, is_summary, note_in, plain_line, prompt_in

Json = dict[str, Any]
Kind = Literal["prompt", "calls", "text", "compacted", "dmail", "empty"]

MOST_CALLS: Final = 20
MOST_FILES: Final = 20
READ_MESSAGES: Final = 512
"""Of a span; those behind them are counted."""
READ_BYTES: Final = 1 << 20
"""Of a span. Of a record that goes beyond, the beginning is looked at."""
HEAD_BYTES: Final = 8192
_OPEN_CALLS: Final = 1024  # calls whose results are waited for
_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}
_NAMES: Final = {role: name for name, role in _ROLES.items()}
_TEXT: Final = re.compile(rb'"(?:content|text)"\s*:\s*"((?:[^"\\]|\\.)*)')
_CUT_ESCAPE: Final = re.compile(rb"(?:\\(?:u.{0,3})?|\\u[dD][89abAB]..)\Z")


class SpanTally:
    """The messages of a span so far.

    Args:
        follows: The role of the last message before the span.
    """

    __slots__ = (
        "_before", "_calls", "_command", "_count", "_errors", "_files", "_note", "_open", "_other", "_prompt", "_read",
        "_said", "_size", "_summed_up", "_text",
    )  # fmt: skip

    def __init__(self, follows: Role = Role.NONE) -> None:
        self._before = follows
        self._read = self._size = 0
        self._prompt = ""
        self._said = self._other = ""  # the beginning of what the agent said first, and of what else was said first
        self._text: str | None = None  # of these two; made when it is asked for, which in most spans it is not
        self._note: str | None = None
        self._summed_up: str | None = None
        self._calls: list[Json] = []
        self._count = self._errors = 0
        self._files: dict[str, None] = {}
        self._open: dict[str, tuple[int, bool]] = {}  # by call id: its place, and whether it shows files
        self._command: CalledTool | None = None

    def wants(self, length: int) -> int:
        """How many bytes of the next record it looks at, one of `length` bytes; asked once for each, in order."""
        self._read += 1
        if self._read > READ_MESSAGES:
            return 0
        self._size += length
        return length if self._size <= READ_BYTES else min(length, HEAD_BYTES)

    def take(self, record: bytes, role: Role, *, whole: bool = True) -> None:
        """Take the record of a message, or (not `whole`) its beginning, of a message of that role."""
        if not whole:
            self._add({"role": _NAMES.get(role, ""), "content": _beginning(record)})
            return
        try:
            message = decode_json(record)
        except ValueError:
            return
        if isinstance(message, dict):
            self._add(message)

    def wire(self, messages: int, tokens: int | None) -> Json:
        """`SpanSummary` of the contract: of so many messages, by which the token count grew."""
        kind, text = self._gist()
        found: Json = {"kind": kind, "text": text}
        if self._calls:
            found["calls"] = self._calls.copy()
        if self._count > MOST_CALLS:
            found["moreCalls"] = self._count - MOST_CALLS
        if self._files:
            found["files"] = list(self._files)
        if self._errors:
            found["errors"] = self._errors
        found["messages"] = messages
        if tokens is not None:
            found["tokens"] = tokens
        return found

    def _gist(self) -> tuple[Kind, str]:
        if self._summed_up is not None:
            return "compacted", self._summed_up
        if self._note is not None:
            return "dmail", self._note
        if self._prompt:
            return "prompt", self._prompt
        if self._calls:
            return "calls", _listed(self._calls)
        if self._text is None:
            self._text = plain_line(self._said) or plain_line(self._other)
        return ("text", self._text) if self._text else ("empty", "")

    def _add(self, message: Mapping[str, Any]) -> None:
        before, role = self._before, _ROLES.get(str(message.get("role")), Role.OTHER)
        self._before = role
        if role is Role.USER:
            self._user(message, before)
        elif role is Role.ASSISTANT:
            self._assistant(message)
        elif role is Role.TOOL:
            self._result(message)
        else:
            self._keep(message)

    def _keep(self, message: Mapping[str, Any]) -> None:
        if not self._other:
            self._other, self._text = beginning_of(message), None

    def _user(self, message: Mapping[str, Any], before: Role) -> None:
        if is_summary(message):
            if self._summed_up is None:
                self._summed_up = plain_line("\n".join(texts(message)[1:]))
            return
        note = note_in(message)
        if note is not None:
            if self._note is None:
                self._note = plain_line(note)
            return
        said = prompt_in(message)
        if before is not Role.NONE and before is not Role.USER and _is_printed(said):
            self._printed(message, said)
            return
        self._command = None
        if not self._prompt:
            self._prompt = plain_line(said)
        if not any(texts(message)):
            self._keep(message)

    def _assistant(self, message: Mapping[str, Any]) -> None:
        made = False
        for call in calls_in(message):
            made = True
            self._call(call)
        self._command = None if made else command_in(message)
        if not self._said:
            self._said, self._text = beginning_of(message), None

    def _call(self, call: CalledTool, failed: bool = False) -> None:
        if self._count < MOST_CALLS:
            self._calls.append({**call.wire(), "failed": True} if failed else call.wire())
        self._count += 1
        for path in call.files:
            if len(self._files) < MOST_FILES:
                self._files[path] = None
        if call.call_id and len(self._open) < _OPEN_CALLS:
            self._open[call.call_id] = self._count - 1, call.shows_files

    def _result(self, message: Mapping[str, Any]) -> None:
        answers = message.get("tool_call_id")
        place, shows_files = self._open.pop(answers, (-1, False)) if isinstance(answers, str) else (-1, False)
        if is_failure(message, shows_files=shows_files):
            self._errors += 1
            if 0 <= place < len(self._calls):
                # Not in place: the one before was handed out.
                self._calls[place] = {**self._calls[place], "failed": True}
        if not self._calls:
            self._keep(message)

    def _printed(self, message: Mapping[str, Any], said: str) -> None:
        """What a terminal printed for an agent that has no tools."""
        command, self._command = self._command, None
        failed = is_failure(message, shows_files=command is not None and command.shows_files)
        self._errors += failed
        if command is not None:
            self._call(command, failed)
        else:
            self._keep(message)


def _is_printed(text: str) -> bool:
    """True if a user message is what a terminal printed: agents without tools get it so."""
    return is_terminal_prompt(text[-200:].rstrip().rpartition("\n")[2].strip())


def _listed(calls: list[Json]) -> str:
    text = ""
    for call in calls:
        shown = f"{call['name']} {call['argument']}" if "argument" in call else call["name"]
        text = f"{text}; {shown}" if text else shown
        if len(text) > MOST_CHARACTERS:
            break
    return cut(text, MOST_CHARACTERS)


def _beginning(record: bytes) -> str:
    """The beginning of a message's text, made out in the beginning of its record."""
    found = _TEXT.search(record)
    if found is None:
        return ""
    written = _CUT_ESCAPE.sub(b"", found[1]).decode("utf-8", "ignore")
    try:
        return msgspec.json.decode(f'"{written}"', type=str)
    except (msgspec.MsgspecError, UnicodeError):
        return written
