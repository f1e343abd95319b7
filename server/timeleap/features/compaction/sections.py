"""The six sections of a summary: what goes into each, as far as a length allows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from timeleap.message_text import harmless

SECTIONS = (
    "current_focus",
    "environment",
    "completed_tasks",
    "active_issues",
    "code_state",
    "important_context",
)

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
    """`text` on one line, cut in its middle if it is too long.

    Args:
        text: Any text.
        limit: Characters it may have.
        head: The part of them that its beginning gets.
    """
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
    """Render as much of every section as its share allows, and let the others use what one leaves.

    Args:
        sections: The items of each section, those to keep first coming first.
        limit: Characters the whole may have.
    """
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
