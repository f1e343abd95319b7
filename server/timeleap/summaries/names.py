"""The short form of what happened after a checkpoint: its name, by one rule for all that show it, and its growth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from timeleap.message_text import MOST_CHARACTERS, cut, one_line

# Compiled when the first summary is named, since a command that shows none has no need of them.
_SHELLS: Final = (
    r"(?i:(?:local_)?(?:bash|sh|zsh|shell|powershell|terminal|run|exec|execute|command|cmd)"
    r"(?:_(?:shell|terminal|bash|command|cmd|shell_command))?)"
)
"""Tools whose name says nothing beside the command that they are given."""
_PREAMBLE: Final = (
    r"(?:(?:cd|pushd)\s+(?:\"[^\"]*\"|'[^']*'|\S+)\s*(?:&&|;)\s*|set\s+-\w+(?:\s+pipefail)?\s*(?:&&|;)\s*"
    r"|(?:[A-Z_][A-Z0-9_]*=\S+\s+)+)+"
)
"""What a command does only to get to its place, or to watch its end."""
_WORD: Final = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])"
_EDITS: Final = frozenset(("edit", "multiedit", "patch", "replace", "insert"))
_WRITES: Final = frozenset(("write", "create"))
_OF_FILES: Final = frozenset(("file", "files", "notebook"))


def checkpoint_name(label: str | None, preview: str | None, summary: Mapping[str, Any] | None) -> str | None:
    """The name of a checkpoint: its label, else what happened after it, as a whole line of at most 200 UTF-16 units.

    Args:
        preview: The beginning of the message that follows it, for a span that says nothing of itself.
        summary: `SpanSummary` of the contract.

    Returns:
        None where what happened after it was not looked at, or, without a label, where nothing did.
    """
    if summary is None:
        return None
    return one_line(label or "") or span_name(summary) or one_line(preview or "") or None


def span_name(summary: Mapping[str, Any] | None, most: int = MOST_CHARACTERS) -> str:
    """The name of a span: the call that failed, else the files that were edited, else the first call; without calls, or
    where a person spoke, what was said. Empty where nothing was."""
    if summary is None:
        return ""
    calls: Sequence[Mapping[str, Any]] = (summary.get("calls") or ()) if summary["kind"] == "calls" else ()
    if not calls:
        said = str(summary["text"])
        if summary["kind"] == "compacted":
            said = f"Compacted: {said}"
        return cut(said, most)
    for call in calls:
        if call.get("failed"):
            return cut(_call_name(call), most)
    return cut(_edits(calls) or _call_name(calls[0]), most)


def _call_name(call: Mapping[str, Any]) -> str:
    """`pytest tests` for a command of a shell, `Edit src/bill.py` for an edit, else the tool with what it was given."""
    name, given = str(call["name"]), str(call.get("argument", ""))
    if given and re.fullmatch(_SHELLS, name):
        return re.sub(_PREAMBLE, "", given, count=1) or given
    verb = _verb(name, given)
    return f"{verb or name} {given}".rstrip()


def _edits(calls: Sequence[Mapping[str, Any]]) -> str:
    """The files that the first edit and those of its kind are given."""
    named = [(_verb(str(call["name"]), str(call.get("argument", ""))), str(call.get("argument", ""))) for call in calls]
    verb = next((verb for verb, _ in named if verb), "")
    if not verb:
        return ""
    files = dict.fromkeys(file for its_verb, file in named if its_verb == verb)
    return f"{verb} {', '.join(files)}"


def _verb(name: str, given: str) -> str:
    """What a tool does to the file that it is given; empty for a tool that changes none."""
    if " " in given or not re.search("[^\\W\\d_]", given):  # lines of an open file have no name
        return ""
    words = {word.lower() for word in re.findall(_WORD, name)}
    if not words.isdisjoint(_EDITS):
        return "Edit"
    if words.isdisjoint(_WRITES) or not words <= _WRITES | _OF_FILES:
        return ""
    return "Write"


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
