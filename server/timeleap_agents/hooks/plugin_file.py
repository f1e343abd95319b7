"""A file of our own in the folder of an agent's plugins: there with our hooks, else not."""

from __future__ import annotations

import json
import re
import shlex
from importlib.resources import files
from typing import Any, Final

from timeleap_agents.hooks.agents import Agent

MARK: Final = "// Written by `timeleap agents install"
"""How the file begins."""
_COMMAND: Final = re.compile(r"^const COMMAND = (\[.*\])$", re.MULTILINE)


def value(text: str) -> Any:
    """The text of a file; nothing where it need not be there."""
    return text if text.strip() else None


def problem(text: str) -> str | None:
    """Why a file is left alone; None where it is ours."""
    return None if not text.strip() or text.startswith(MARK) else "is not a file of Timeleap's"


def installed(agent: Agent, text: str) -> dict[str, list[str]]:
    """The command that the file runs, by all the events."""
    found = _COMMAND.search(text)
    try:
        words = json.loads(found[1]) if found is not None else []
    except ValueError:
        words = []
    command = shlex.join(map(str, words))
    return {event: [command] for event in agent.events} if agent.owns({"command": command}) else {}


def with_hooks(agent: Agent, command: str, text: str | None) -> str:
    """The whole file."""
    del text
    template = (files("timeleap_agents.hooks") / f"{agent.name}_plugin.js").read_text("utf-8")
    words = json.dumps(shlex.split(command), ensure_ascii=False)
    return template.replace(f'["timeleap", "hook", "{agent.name}"]', words)


def members_made(agent: Agent, text: str | None) -> frozenset[str]:
    """No members are added besides the hooks."""
    del agent, text
    return frozenset()


def without_hooks(agent: Agent, text: str, made: frozenset[str]) -> str:
    """Nothing is left."""
    del agent, text, made
    return ""
