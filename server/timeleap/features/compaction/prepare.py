"""Compaction without I/O: what it keeps, what the summariser is shown, the six sections of a summary.

Messages are in their JSON form, as they stand in the log. Who writes the summary is no concern of this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from timeleap import message_text
from timeleap.features.compaction.sizes import orphan_results
from timeleap.message_text import SUMMARY_PREFACE, answered, called, harmless

Record = Mapping[str, Any]

SUMMARISER_SYSTEM_PROMPT = (
    "You write hand-over notes for a software agent: from a long conversation you keep what its next step depends on, "
    "and leave out the rest. You answer with the notes alone."
)

COMPACT = """\
---

Above stand the messages of a conversation between a user, an agent and its tools. They are about to be removed; your
notes will take their place, and the agent will go on with nothing but these notes and the latest messages.

Keep, the most important first:

1. The task at hand: what the user asked for, what is being done at this moment, what the next step is.
2. Errors and what solved them. Quote messages and the decisive lines of stack traces word for word.
3. The code as it stands now. Leave out versions that were replaced; say in a few words why an attempt failed.
4. The environment: layout of the project, dependencies, versions, settings, commands that work.
5. Decisions and the reasons for them.
6. What is left to do, and problems that are known but not solved.

How to write them:

- File paths, names in code, commands, numbers and the user's own demands stay exactly as they are.
- Code of fewer than 20 lines stays whole; of longer code keep signatures and the lines that matter.
- Say a thing once, however often it came up. Of a discussion keep what was decided and what is to be done.
- Leave out politeness, repetition and explanations that anybody can work out again.
- Invent nothing. If a section has nothing to hold, write "none" in it.

Answer in exactly this form:

<current_focus>
What is being worked on now, and the next step.
</current_focus>

<environment>
- One fact about the set-up a line
</environment>

<completed_tasks>
- Task: its outcome
</completed_tasks>

<active_issues>
- Issue: where it stands, what to try next
</active_issues>

<code_state>
<file>
path/of/the/file

**Summary:** what the file is for

**Key elements:**
- names of functions and classes that matter, and what they do

**Latest version:**
the code itself, or its essential lines
</file>
</code_state>

<important_context>
- Anything else the next step depends on: the user's demands, decisions, reasons
</important_context>
"""

CUSTOM_INSTRUCTION = """

**User's Custom Compaction Instruction:**
The user wants these notes to be written with the following in mind. Where it differs from the order of importance
above, the user's instruction goes first:
{instruction}"""


def preserved_from(messages: Sequence[Record], max_preserved_messages: int) -> int:
    """Index of the first message that a compaction keeps; 0 means that there is nothing to compact.

    The last `max_preserved_messages` messages of users and assistants are kept, with all that comes after the first of
    them. A tool call is never parted from its result: then more is kept.
    """
    if max_preserved_messages <= 0:
        return 0
    counted = 0
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") in ("user", "assistant"):
            counted += 1
            if counted == max_preserved_messages:
                return safe_cut(messages, index)
    return 0


def prompt_message(messages: Iterable[Record], custom_instruction: str = "") -> dict[str, Any]:
    """The one message a summariser is shown. Only text is shown; tool calls and results become text."""
    parts = [text for number, message in enumerate(messages, 1) for text in _shown(number, message)]
    parts.append(request_text(custom_instruction))
    return {"role": "user", "content": [_text_part(text) for text in parts]}


def summary_message(summary: str) -> dict[str, Any]:
    """The user message that takes the place of what was compacted."""
    preface = f"<system>{SUMMARY_PREFACE}</system>"
    return {"role": "user", "content": [_text_part(preface), _text_part(summary)]}


def call_texts(message: Record) -> list[str]:
    calls = message.get("tool_calls")
    return [call_text(call) for call in calls] if isinstance(calls, list) else []


def call_text(call: Any) -> str:
    """A tool call as text: its name and its arguments."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return ""
    return f"{function.get('name') or 'tool'}({function.get('arguments') or ''})"


def _shown(number: int, message: Record) -> list[str]:
    lines = [f"## Message {number}\nRole: {message.get('role')}\nContent:\n"]
    answer = message.get("tool_call_id")
    if isinstance(answer, str):
        lines.append(f"Result of tool call {answer}:\n")
    lines.extend(message_text.texts(message))
    calls = message.get("tool_calls")
    asked = [(call, call_text(call)) for call in calls] if isinstance(calls, list) else []
    return lines + [f"\nTool call {call.get('id')}: {text}\n" for call, text in asked if text]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def with_pins(summary: str, pins: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """A summary that has every pin in it, and the pins that had to be added: what it does not say by itself is put
    behind it, word for word."""
    missing = tuple(dict.fromkeys(pin for pin in pins if pin not in summary))
    if not missing:
        return summary, ()
    return "\n".join([summary, "", "<pinned>", *missing, "</pinned>"]), missing


def request_text(custom_instruction: str = "") -> str:
    """The instruction that follows the messages."""
    added = CUSTOM_INSTRUCTION.format(instruction=custom_instruction) if custom_instruction else ""
    return f"\n{COMPACT}{added}"


SECTIONS = ("current_focus", "environment", "completed_tasks", "active_issues", "code_state", "important_context")

_WEIGHTS = {
    "current_focus": 0.24,
    "code_state": 0.22,
    "important_context": 0.26,
    "active_issues": 0.10,
    "completed_tasks": 0.13,
    "environment": 0.05,
}
_MIN_CUT = 40  # characters from which a text is cut in its middle, not at its end
_TAG = re.compile(r"</?(?:" + "|".join((*SECTIONS, "file")) + r")\s*>", re.IGNORECASE)


def clip(text: str, limit: int, *, head: float = 2 / 3) -> str:
    """`text` on one line, cut in its middle if it is longer than `limit`; its beginning gets the part `head`."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    if limit < _MIN_CUT:
        return line[:limit]
    kept = int((limit - 7) * head)
    tail = limit - 7 - kept
    return f"{line[:kept]} [...] {line[len(line) - tail :]}"


def quoted(text: str) -> str:
    """`text` with the tags of summaries broken: quoted, they must not end the section they are quoted in."""
    return _TAG.sub(lambda tag: "&lt;" + tag.group()[1:], harmless(text))


def fill(sections: Mapping[str, Sequence[str]], limit: int) -> str:
    """Render as much of every section as its share of `limit` characters allows, and let the others use what one
    leaves. The items to keep first come first."""
    spare = limit - len(_render({name: [] for name in SECTIONS}))
    if spare < limit // 3:
        return _short(sections, limit)
    left = {name: list(sections[name]) for name in SECTIONS}
    chosen: dict[str, list[str]] = {name: [] for name in SECTIONS}
    room = {name: int(spare * weight) for name, weight in _WEIGHTS.items()}
    for name in _WEIGHTS:
        for item in list(left[name]):
            if _cost(item) <= room[name]:
                chosen[name].append(item)
                left[name].remove(item)
                room[name] -= _cost(item)
                spare -= _cost(item)
    while any(left.values()):  # what is left over goes round, an item for each
        for name in _WEIGHTS:
            if left[name] and _cost(item := left[name].pop(0)) <= spare:
                chosen[name].append(item)
                spare -= _cost(item)
    for name in SECTIONS:
        chosen[name].sort(key=list(sections[name]).index)
    return _render(chosen)


def _cost(item: str) -> int:
    return len(item) + 3


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


def safe_cut(messages: Sequence[Mapping[str, Any]], wanted: int) -> int:
    """The last place at or before `wanted` where `messages` can be cut: the index of the first message behind it."""
    cut = min(wanted, _first_of_running_calls(messages, wanted))
    missing = orphan_results(messages, cut)
    between: set[str] = set()  # results met on the way back, whose calls stand further up
    for index in range(cut - 1, -1, -1):
        if not missing:
            break
        between |= answered(messages[index])
        calls = called(messages[index])
        if missing & calls:
            cut = index
            missing = (missing | between) - calls
            between = set()
        else:
            between -= calls
    return cut


def _first_of_running_calls(messages: Sequence[Mapping[str, Any]], start: int) -> int:
    """Index of the last assistant message if it is before `start` and still waits for results, else `start`."""
    results: set[str] = set()
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") == "assistant":
            return index if index < start and called(message) - results else start
        results |= answered(message)
    return start
