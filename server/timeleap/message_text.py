"""A message in its JSON form: what it says and who says it, that on one line, its tokens, its tool calls.

Token counts are estimates: a quarter of the characters of the text parts, rounded down once over the sum. A model
reports the true count with its next answer; the estimate has to carry until then, and to be the same on every path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

CHARS_PER_TOKEN = 4
_CLOSING_TAG = r"(?i)<(?=\s*/\s*system\b)"


def texts(record: Mapping[str, Any]) -> list[str]:
    """The texts of a message in its JSON form, one for each text part."""
    content = record.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        part["text"]
        for part in content
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]


def should_auto_compact(
    token_count: int, max_context_size: int, *, trigger_ratio: float, reserved_context_size: int
) -> bool:
    """True if a context is so full that it should be compacted, by the original's rule.

    Args:
        token_count: Tokens in the context.
        max_context_size: Tokens the model can take.
        trigger_ratio: The part of it from which compaction is due.
        reserved_context_size: Tokens to keep free for the answer.
    """
    full = token_count + reserved_context_size >= max_context_size
    return full or token_count >= max_context_size * trigger_ratio


def should_compact(
    token_count: int, max_context_size: int | None, *, trigger_ratio: float, reserved_context_size: int
) -> bool:
    """Tell whether a context is due for compaction: never without a window; a reserve counts only where it makes sense."""
    if max_context_size is None:
        return False
    reserved = reserved_context_size if reserve_fits(max_context_size, reserved_context_size) else 0
    # With nothing reserved, a window that is full is over any ratio of it too: ratios are at most 1.
    return should_auto_compact(
        token_count, max_context_size, trigger_ratio=trigger_ratio, reserved_context_size=reserved
    )


def reserve_fits(max_context_size: int, reserved_context_size: int) -> bool:
    """True if the reserve is less than half of the window; a larger one would compact a small window for ever."""
    return reserved_context_size < max_context_size / 2


def call_texts(record: Mapping[str, Any]) -> Iterator[str]:
    """The name and the arguments of each tool call of a message in its JSON form."""
    calls = record.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield from (function[name] for name in ("name", "arguments") if isinstance(function.get(name), str))


def without_halves(text: str) -> str:
    """A text with U+FFFD in the place of each half of a surrogate pair, which no JSON can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def harmless(text: str) -> str:
    """A text with every closing system tag written so that it closes nothing."""
    return re.sub(_CLOSING_TAG, "&lt;", text)


# Text on one line, without marks of Markdown

MOST_CHARACTERS: Final = 200
"""Limit on a text, an argument or a path in a summary, in UTF-16 units."""
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
"""Beginnings of messages that a program put into the user's mouth: no turn begins with them."""

# Format characters that reorder or hide what stands around them, and every control character.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+"
)
_WIDE: Final = re.compile("[\U00010000-\U0010ffff]")  # of two UTF-16 units
_MARK: Final = re.compile(r"[`*_~\[#>+\-=0-9]")  # looked for quickly: with none there is none of the next either
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
    if not more and (not text or (len(text) <= most and text.isascii() and text.isidentifier())):  # a name
        return text
    line = " ".join(text[: min(2 * most, _LOOKED_AT)].split())
    if not line.isprintable() or (len(line) <= most and len(text) > 2 * most):  # else nothing shows of the rest
        line = " ".join(_CONTROL.sub(" ", without_halves(text[:_LOOKED_AT])).split())
    return cut(line, most, more=more or len(text) > _LOOKED_AT)


def plain_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """Shorten a text to one line without marks of Markdown."""
    begin = text[:_LOOKED_AT]
    if not (_MARK.search(begin) and _ANY_MARK.search(begin)):  # as in most texts
        return one_line(text, most)
    begin = _LINK.sub(r"\1", _BLOCK.sub("", _FENCE.sub("", begin)))
    begin = _STRONG_BY_LINE.sub(r"\1", _STRONG.sub(r"\2", begin.replace("`", "")))
    return one_line(_EMPHASIS.sub(r"\2", begin), most, more=len(text) > _LOOKED_AT)


def cut(line: str, most: int, *, more: bool = False) -> str:
    """At most `most` UTF-16 units of a line, cut between words where that costs little; `more`: it goes on anyway."""
    if not more and len(line) + (0 if line.isascii() else len(_WIDE.findall(line))) <= most:
        return line
    kept = line[: most - 1]
    while not kept.isascii() and (excess := len(kept) + len(_WIDE.findall(kept)) - most + 1) > 0:
        kept = kept[: -((excess + 1) // 2)]
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
    """The words of a person in a user message; empty where a program wrote all of it."""
    text = "\n".join(text for text in texts(message) if not is_system_text(text))
    return "" if text.lstrip().startswith(NOT_SAID_BY_THE_USER) else text


# Tool calls. Models refuse a history with a result whose call is gone, or a call whose result is gone. Ids are matched to the
# nearest call before the result, because some models use the same id again and again.


def called(message: Mapping[str, Any]) -> Set[str]:
    """The ids of the tool calls a message makes, in their order."""
    calls = message.get("tool_calls")
    made = (call for call in calls if isinstance(call, Mapping)) if isinstance(calls, list) else ()
    return dict.fromkeys(call["id"] for call in made if isinstance(call.get("id"), str)).keys()


def answered(message: Mapping[str, Any]) -> set[str]:
    """The id of the tool call a message answers, if it answers one."""
    answer = message.get("tool_call_id")
    return {answer} if isinstance(answer, str) else set()


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
"""Parts of a command that only take it to its place, or watch its end."""


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
    """Verb for a tool's work on the file that it is given; empty for a tool that changes none."""
    if " " in given or not re.search("[^\\W\\d_]", given):  # lines of an open file have no name
        return ""
    words = {word.lower() for word in re.findall(_WORD, name)}
    if not words.isdisjoint(_EDITS):
        return "Edit"
    if words.isdisjoint(_WRITES) or not words <= _WRITES | _OF_FILES:
        return ""
    return "Write"
