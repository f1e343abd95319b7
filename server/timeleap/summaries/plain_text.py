"""Text on one line, without marks of Markdown; and who wrote the text of a user message: a person, or a program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from timeleap.message_text import texts, without_halves

MOST_CHARACTERS: Final = 200
"""Of a text, an argument or a path in a summary, counted in UTF-16 units."""
_MOST_KINDS: Final = 20
_LOOKED_AT: Final = 1200  # characters of a text; what follows is beyond every cut

SUMMARY_PREFACE: Final = "Previous context has been compacted. Here is the compaction output:"
"""Stands before every summary of a compaction, in system tags; programs recognise compacted sessions by it."""
DMAIL: Final = "A D-Mail has arrived"
NOTE: Final = "A note has arrived from another session"
NOTE_FOLLOWS: Final = "The note:\n\n"
"""How a note of a later self, or of another session, begins; and what its own words follow."""
_SYSTEM_TEXT: Final = re.compile(r"^\s*<system(?:-reminder)?>")
NOT_SAID_BY_THE_USER: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "# AGENTS.md instructions",
)
"""What messages begin with that a program put into the user's mouth: no turn begins with them."""

# Format characters that reorder or hide what stands around them, and every control character.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+"
)
# Most texts have none: then they are looked at once.
_ANY_MARK: Final = re.compile(r"[`*_~\[]|^[ \t]*(?:[#>+\-=]|\d{1,3}[.)])", re.MULTILINE)
_FENCE: Final = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^[ \t]*(?:(?:#{1,6}|>+|[-*+]|\d{1,3}[.)])[ \t]+)+(?:\[[ xX]\][ \t]+)?|^[ \t]*(?:[-*_=][ \t]*){3,}$", re.MULTILINE
)
_LINK: Final = re.compile(r"!?\[([^\[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:[ \t]+\"[^\"\n]*\")?\)")
_STRONG: Final = re.compile(r"(\*\*|~~)(?=\S)(.+?)(?<=\S)\1")
_STRONG_BY_LINE: Final = re.compile(r"(?<!\w)__(?=\S)(?!\w+__)(.+?)(?<=\S)__(?!\w)")
_EMPHASIS: Final = re.compile(r"(?<![\w*/\\])([*_])(?=[^\s*_])([^*_\n]+?)(?<=\S)\1(?![\w*/\\])")


def one_line(text: str, most: int = MOST_CHARACTERS, *, more: bool = False) -> str:
    """The beginning of a text on one line, at most `most` UTF-16 units, with `…` where it goes on, as `more` says that it
    does anyway. Nothing in it reorders, hides or breaks the line; half of a surrogate pair is U+FFFD."""
    begin = _CONTROL.sub(" ", without_halves(text[:_LOOKED_AT]))
    return cut(" ".join(begin.split()), most, more=more or len(text) > _LOOKED_AT)


def plain_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """The same without marks of Markdown."""
    begin = text[:_LOOKED_AT]
    if not _ANY_MARK.search(begin):
        return one_line(text, most)
    begin = _LINK.sub(r"\1", _BLOCK.sub("", _FENCE.sub("", begin)))
    begin = _STRONG_BY_LINE.sub(r"\1", _STRONG.sub(r"\2", begin.replace("`", "")))
    return one_line(_EMPHASIS.sub(r"\2", begin), most, more=len(text) > _LOOKED_AT)


def cut(line: str, most: int, *, more: bool = False) -> str:
    """At most `most` UTF-16 units of a line, cut between words where that costs little; `more`: it goes on anyway."""
    if len(line) * 2 <= most and not more:
        return line
    units = line.encode("utf-16-le", "replace")
    if len(units) <= 2 * most and not more:
        return line
    kept = units[: 2 * (most - 1)].decode("utf-16-le", "ignore")
    words = kept.rpartition(" ")[0]
    return (words if len(words) > len(kept) * 2 // 3 else kept).rstrip() + "…"


def beginning_of(message: Mapping[str, Any]) -> str:
    """The beginning of what a message says, marks of Markdown included: its text, else its thoughts, else the kinds of its
    other parts, such as `[image_url]`; empty where it says nothing."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    thoughts = (think for part in parts if isinstance(think := part.get("think"), str))
    text: str
    for text in (*texts(message), *thoughts):
        begin = text[:_LOOKED_AT]
        if begin.isspace():
            begin = text.lstrip()[:_LOOKED_AT]
        if begin:
            return begin if len(text) <= _LOOKED_AT else begin + "…"
    kinds = dict.fromkeys(str(part.get("type"))[:MOST_CHARACTERS] for part in parts[:_MOST_KINDS])
    named = [kind for kind in kinds if kind not in ("text", "think")]
    return f"[{', '.join(named)}]" if named else ""


# Who wrote a user message


def is_system_text(text: str) -> bool:
    """True if a text part was written by the program, not by the user whose message holds it."""
    return _SYSTEM_TEXT.match(text) is not None


def is_summary(message: Mapping[str, Any]) -> bool:
    """True if a message is the result of an earlier compaction."""
    if message.get("role") != "user":
        return False
    found = texts(message)
    return bool(found) and found[0].startswith(f"<system>{SUMMARY_PREFACE}")


def note_in(message: Mapping[str, Any]) -> str | None:
    """The note of a later self, or of another session, that a user message delivers; None if it delivers none."""
    found = texts(message)
    if message.get("role") != "user" or not found or not found[0].startswith((f"<system>{DMAIL}", f"<system>{NOTE}")):
        return None
    return found[0].partition(NOTE_FOLLOWS)[2].removesuffix("</system>")


def prompt_in(message: Mapping[str, Any]) -> str:
    """What a person says in a user message; empty where a program wrote all of it."""
    said = [text for text in texts(message) if not is_system_text(text)]
    text = "\n".join(said)
    return "" if text.lstrip().startswith(NOT_SAID_BY_THE_USER) else text


# A summary (`SpanSummary` of the contract) in the words of a row; the VS Code extension says it in the same ones

_SHELLS: Final = re.compile(
    r"(?:local_)?(?:bash|sh|zsh|shell|powershell|terminal|run|exec|execute|command|cmd)"
    r"(?:_(?:shell|terminal|bash|command|cmd|shell_command))?",
    re.IGNORECASE,
)
"""Tools whose name says nothing beside the command that they are given."""
_PREAMBLE: Final = re.compile(
    r"(?:(?:cd|pushd)\s+(?:\"[^\"]*\"|'[^']*'|\S+)\s*(?:&&|;)\s*|set\s+-\w+(?:\s+pipefail)?\s*(?:&&|;)\s*"
    r"|(?:[A-Z_][A-Z0-9_]*=\S+\s+)+)+"
)
"""What a command does only to get to its place, or to watch its end."""
_PATH: Final = re.compile(r"\S*[\\/]([^\\/\s]+)")


def happened(summary: Mapping[str, Any] | None, most: int = 60) -> str:
    """What happened in a span: the call that failed, else the first; else what was said. Empty where nothing was."""
    if summary is None:
        return ""
    calls = summary.get("calls") or [] if summary["kind"] == "calls" else []
    if calls:
        return _named(next((call for call in calls if call.get("failed")), calls[0]), most)
    return cut(f"Compacted: {summary['text']}" if summary["kind"] == "compacted" else summary["text"], most)


def _named(call: Mapping[str, Any], most: int) -> str:
    """`pytest tests` for a shell's command, `edit bill.py` for a file, else the name with what it was given."""
    name, given = str(call["name"]), str(call.get("argument", ""))
    if given and _SHELLS.fullmatch(name):
        return cut(_PREAMBLE.sub("", given, count=1) or given, most)
    path = _PATH.fullmatch(given)
    return cut(f"{name} {path[1] if path else given}".rstrip(), most)


def growth(summary: Mapping[str, Any] | None) -> str:
    """What a span took, and what went wrong in it: `+1.4K 1 failed`; messages where no tokens were reported."""
    if summary is None:
        return ""
    tokens, messages, errors = summary.get("tokens"), summary["messages"], summary.get("errors", 0)
    took = f"{'+' if tokens > 0 else '-'}{_short(abs(tokens))}" if tokens else ""
    if not took and messages:
        took = f"+{messages} message{'' if messages == 1 else 's'}"
    return " ".join(filter(None, (took, f"{errors} failed" if errors else "")))


def _short(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("K", 1000)):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + unit if number < 10 * size else f"{number // size}{unit}"
    return str(number)
