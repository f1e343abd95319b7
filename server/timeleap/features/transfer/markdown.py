"""A session for people to read: one Markdown file, turn by turn, tool calls and their results folded.

What messages hold is shown, not interpreted, wherever it could change the page around it: tool calls, results and
thoughts stand in fences longer than any in them, and what a user wrote stands in a quotation. Message text stays inside
its message: no HTML, no link definitions, no math blocks, no images that load, no links but to the web, no code block
left open (the VS Code extension does the same in `inert.ts`). What is code to a Markdown parser must not be
escaped, or it is unreadable; what is not must be. Code is only left as it is where every parser agrees that it is code.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from timeleap.features.transfer.exhibit import Exhibit, Said
from timeleap.features.transfer_losses import ExportLoss, LossTally
from timeleap.message_text import span_name
from timeleap.sessions.shapes import Checkpoint
from timeleap.summaries.names import growth

_FENCES: Final = re.compile("`{3,}")
_LINE: Final = re.compile(r"([^\r\n]*)(\r\n?|\n|$)")
_BLANK: Final = re.compile(r"[ \t]*")
# At most three blanks before it: a code block whatever is around it, and not part of a paragraph.
_FENCE: Final = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_CLOSING: Final = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*")
# Perhaps a code block in a list or a quotation.
_NESTED_FENCE: Final = re.compile(r"[\s>*+\-\d.)]*(?:`{3}|~{3})")
_CODE_INDENT: Final = re.compile(r" {0,3}(?:\t| {4})")

# What may be markup within a line.
_MARKS: Final = re.compile(r"`+|<(?=[A-Za-z/!?])|\$+|!(?=\[)|\](?=[:(])|\\[\\`]?|://")
_BACKTICKS: Final = re.compile("`+")
_SPACE: Final = re.compile(r"\s")
# After `](`: an address that is no program's, and nothing that could be read in two ways.
_WEB_LINK: Final = re.compile(r"""(?:https?://|mailto:|\#)[^\s()<>"'`\\]*(?: "[^"<>`\\]*")?\)""", re.IGNORECASE)
_RELATIVE_LINK: Final = re.compile(r"""[^\s()<>"'`\\:&%]*\)""")


def inert_markdown(text: str) -> str:
    """The text as Markdown; in a fence where it cannot be told what of it is code."""
    shown = _escaped(text)
    return fenced(text) if shown is None else shown


def fenced(text: str, language: str = "") -> str:
    """The text in a fence that it cannot close."""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _escaped(text: str) -> str | None:
    """None: a parser might see code where this does not, or the other way round."""
    shown: list[str] = []
    fence: tuple[int, str] | None = None  # the one that is open: its indent and its marks
    nested = True  # a code block in a list or a quotation may be open: of another text of the message, before this one
    inline = _Inline()
    for found in _LINE.finditer(text):
        line, ending = found[1], found[2]
        blank = _BLANK.fullmatch(line) is not None
        opening = None if fence or blank else _FENCE.match(line)
        if fence:
            closes = _closes(line, *fence)
            if closes is None or (not blank and _indent(line) < fence[0]):
                return None
            fence = None if closes else fence
        elif blank:
            inline = _Inline()
        elif opening:
            nested = nested and line[0] == " "
            if nested and opening[1]:
                return None  # it may as well close the other
            fence, inline = (len(opening[1]), opening[2]), _Inline()
        else:
            # What starts at the margin ends every list.
            nested = (nested and (line[0].isspace() or line[0] == ">")) or _NESTED_FENCE.match(line) is not None
            escaped = inline.escaped(line)
            if escaped != line and (nested or _CODE_INDENT.match(line)):
                return None  # it may be code, where an escape would be shown as it is written
            line = escaped
        shown += (line, ending)
    return None if fence else "".join(shown)


def _closes(line: str, indent: int, marks: str) -> bool | None:
    """True if a line closes a fence; None if that depends on the lines around it."""
    found = _CLOSING.fullmatch(line)
    if not found or not found[2].startswith(marks):
        return False
    if len(found[1]) <= 3 and "\t" not in found[1]:
        return True
    return None if indent else False


def _indent(line: str) -> int:
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return max(4, len(blanks)) if "\t" in blanks else len(blanks)


class _Inline:
    """The lines of a paragraph, one after the other."""

    def __init__(self) -> None:
        self._certain = True  # a pair of backticks is code for certain

    def escaped(self, line: str) -> str:
        shown: list[str] = []
        backtick, space = _Next(_BACKTICKS, line), _Next(_SPACE, line)
        kept = at = 0
        while found := _MARKS.search(line, at):
            mark, start, at = found[0], found.start(), found.end()
            by = ""
            match mark[0]:
                case "`":
                    at = self._code_end(line, mark, at)
                case "<":
                    by = "&lt;"
                case "$":
                    self._certain = False
                    by = "&#36;" * len(mark) if len(mark) > 1 else ""
                case "!":
                    by = "&#33;"
                case "]" if line[at] == ":":
                    by, at = "]&#58;", at + 1
                case "]":
                    if not _WEB_LINK.match(line, at + 1) and not _RELATIVE_LINK.match(line, at + 1):
                        by = "&#93;"
                case "\\":
                    self._certain = self._certain and mark != "\\`"
                case _:  # an address may go on over a backtick
                    self._certain = self._certain and space.after(at) <= backtick.after(at)
            if by:
                shown += (line[kept:start], by)
                kept = at
        return "".join((*shown, line[kept:]))

    def _code_end(self, line: str, marks: str, start: int) -> int:
        """End of the code that begins with these backticks; the end of the backticks if they may be no code."""
        if not self._certain:
            return start  # nothing is looked for: the rest of the line would be read once for each backtick
        closing = next((found for found in _BACKTICKS.finditer(line, start) if len(found[0]) == len(marks)), None)
        content = line[start : closing.start()] if closing else None
        # Cells of a table and link definitions come before code.
        self._certain = content is not None and "|" not in content and "]:" not in content
        return closing.end() if self._certain and closing else start


class _Next:
    """Where a pattern matches next in a line, asked at places that only go forward. The line is read once in all."""

    def __init__(self, pattern: re.Pattern[str], line: str) -> None:
        self._pattern = pattern
        self._line = line
        self._found = -1

    def after(self, place: int) -> int:
        """The first match at `place` or behind it; behind the end of the line if there is none."""
        if self._found < place:
            found = self._pattern.search(self._line, place)
            self._found = found.start() if found else len(self._line) + 1
        return self._found


DEEPEST: Final = 40
"""Levels of a JSON value that are indented: below that the blanks alone would be many times the value."""
MOST_FILES: Final = 100
"""Files that are named for one checkpoint."""
SUMMARY_LENGTH: Final = 80

_LINES = re.compile(r"\r\n?|\n")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")
_USUAL: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "partial"})
_TITLES: Final = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}


def write_markdown(exhibit: Exhibit) -> Iterator[str]:
    """The page, piece by piece. What cannot be shown is noted in `exhibit.losses`: pictures and other media, unknown
    parts, the contents of timelines."""
    left_out = LossTally()
    yield f"# {_plain(exhibit.title or exhibit.session_id)}\n\n"
    yield from _facts(exhibit)
    if prompt := exhibit.live.system_prompt:
        yield _folded("System prompt", fenced(prompt))
    yield from _conversation(exhibit, left_out)
    yield from _timelines(exhibit)
    exhibit.losses.extend(left_out.losses())
    if exhibit.timelines:
        message = f"{len(exhibit.timelines)} timelines are listed, but what was said in them is not part of this form"
        exhibit.losses.append(ExportLoss("timelines", message))


def _facts(exhibit: Exhibit) -> Iterator[str]:
    live = exhibit.live.log.state
    rows = [
        ("Session", exhibit.session_id),
        ("Created", exhibit.created_at),
        ("Last change", exhibit.updated_at),
        ("Workspace", exhibit.workspace),
        ("Forked from", exhibit.parent.session_id if exhibit.parent else None),
        ("Messages", f"{live.messages:,}"),
        ("Checkpoints", f"{live.checkpoints:,}"),
        ("Tokens", f"{live.token_count:,}"),
        ("Sub-agents", ", ".join(subagent.name for subagent in exhibit.subagents)),
    ]
    yield "| | |\n|---|---|\n"
    for name, value in rows:
        if value:
            yield f"| {name} | {_plain(value)} |\n"
    yield "\n"


def _conversation(exhibit: Exhibit, left_out: LossTally) -> Iterator[str]:
    checkpoints = exhibit.with_files(exhibit.live)
    following = next(checkpoints, None)
    role = None
    for said in exhibit.live.messages():
        while following is not None and following[0].message_count <= said.index:
            yield _marked(*following)
            following, role = next(checkpoints, None), None
        speaker = str(said.record.get("role"))
        if speaker not in (role, "tool"):
            yield f"## {_plain(_TITLES.get(speaker, speaker))}\n\n"
        role = "assistant" if speaker == "tool" else speaker
        yield from _message(said, left_out)
    while following is not None:
        yield _marked(*following)
        following = next(checkpoints, None)


def _marked(checkpoint: Checkpoint, files: Sequence[tuple[str, str]]) -> str:
    facts = [
        f"checkpoint {checkpoint.id}",
        checkpoint.label,
        checkpoint.created_at,
        f"{checkpoint.token_count:,} tokens",
        span_name(checkpoint.summary),
        growth(checkpoint.summary),
    ]
    shown = "---\n\n*" + " · ".join(_plain(fact) for fact in facts if fact) + "*\n\n"
    if not files:
        return shown
    listed = "".join(f"- {kind}: {_plain(path)}\n" for kind, path in files[:MOST_FILES])
    more = f"- and {len(files) - MOST_FILES:,} more\n" if len(files) > MOST_FILES else ""
    summary = f"{len(files):,} {'file' if len(files) == 1 else 'files'} changed"
    return shown + _folded(summary, listed + more)


def _message(said: Said, left_out: LossTally) -> Iterator[str]:
    record = said.record
    content = record.get("content")
    if not record.keys() <= _USUAL:
        left_out.add("members", "messages have members of their own, which are not shown")
    if record.get("role") == "tool":
        text = _joined(content, left_out)
        yield _folded(f"Result · {_first_line(text)}", fenced(text))
        return
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for part in parts:
        yield _part(part, str(record.get("role")), left_out)
    calls = record.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        yield _call(call)


def _part(part: Any, role: str, left_out: LossTally) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in ("text", "think"):
        left_out.add("parts", f"parts of the type {kind} are only named")
        return f"*[{_plain(str(kind))}]*\n\n"
    text = part.get(kind)
    if not isinstance(text, str) or not text.strip():
        return ""
    if kind == "think":
        return _folded(f"Thought · {_first_line(text)}", fenced(text))
    shown = inert_markdown(text)
    return ("\n".join(f"> {line}" for line in _LINES.split(shown)) if role == "user" else shown) + "\n\n"


def _call(call: Any) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return _folded("Tool call", fenced(_indented(call), "json"))
    arguments = function.get("arguments")
    try:
        shown = _indented(json.loads(arguments)) if isinstance(arguments, str) else _indented(arguments)
    except (ValueError, RecursionError):
        shown = str(arguments)
    return _folded(f"Call · {function.get('name')}", fenced(shown, "json"))


def _timelines(exhibit: Exhibit) -> Iterator[str]:
    if not exhibit.timelines:
        return
    yield "## Timelines\n\nEarlier states of this session, oldest first.\n\n"
    yield "| Timeline | Set aside by | When | Messages | Checkpoints |\n|---|---|---|---:|---:|\n"
    for timeline in exhibit.timelines:
        state = timeline.log.state
        counts = f"{state.messages:,} | {state.checkpoints:,}"
        yield f"| {_plain(timeline.timeline_id or '')} | {timeline.reason} | {timeline.created_at or ''} | {counts} |\n"


def _joined(content: Any, left_out: LossTally) -> str:
    if not isinstance(content, list):
        return "" if content is None else str(content)
    texts: list[str] = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else None
        if isinstance(text, str):
            texts.append(text)
        else:
            kind = part.get("type") if isinstance(part, Mapping) else None
            left_out.add("parts", f"parts of the type {kind} are only named")
            texts.append(f"[{kind}]")
    return "\n".join(texts)


def _folded(summary: str, body: str) -> str:
    return f"<details>\n<summary>{html.escape(' '.join(summary.split()))}</summary>\n\n{body}\n\n</details>\n\n"


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2 if _is_flat(value) else None, ensure_ascii=False)


def _is_flat(value: Any) -> bool:
    """True if no part of a JSON value is deeper than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, Mapping):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner
    return not level


def _first_line(text: str) -> str:
    line = " ".join(text[: 4 * SUMMARY_LENGTH].split())
    return line if len(line) <= SUMMARY_LENGTH else line[: SUMMARY_LENGTH - 1] + "…"


def _plain(text: str) -> str:
    """A text on one line in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
