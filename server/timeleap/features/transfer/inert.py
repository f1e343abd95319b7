"""Message text as Markdown that stays inside its message: no HTML, no link definitions, no math blocks, no images that load,
no links but to the web, no code block left open. The VS Code extension does the same in `src/documents/inert.ts`.

What is code to a Markdown parser must not be escaped, or it is unreadable; what is not must be. Code is only left as it is
where every parser agrees that it is code.
"""

from __future__ import annotations

import re
from typing import Final

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
_ADDRESS_WITH_BACKTICK: Final = re.compile(r"\S*`")
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
                    self._certain = self._certain and not _ADDRESS_WITH_BACKTICK.match(line, at)
            if by:
                shown += (line[kept:start], by)
                kept = at
        return "".join((*shown, line[kept:]))

    def _code_end(self, line: str, marks: str, start: int) -> int:
        """End of the code that begins with these backticks; the end of the backticks if they may be no code."""
        closing = next((found for found in _BACKTICKS.finditer(line, start) if len(found[0]) == len(marks)), None)
        content = line[start : closing.start()] if closing else None
        # Cells of a table and link definitions come before code.
        self._certain = self._certain and content is not None and "|" not in content and "]:" not in content
        return closing.end() if self._certain and closing else start
