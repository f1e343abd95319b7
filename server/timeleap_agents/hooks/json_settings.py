"""Hooks in a settings file of plain JSON: `hooks`, with a list of groups for each event."""

from __future__ import annotations

import json
from typing import Any, Final

from timeleap_agents.hooks import json_text
from timeleap_agents.hooks.agents import Agent
from timeleap_agents.hooks.unsafe import UnsafeSettingsError

MOST_ENTRIES: Final = 64
"""Hooks of ours that are taken out of a file at most: each takes a look at the whole of it."""
_HOOKS: Final = "hooks"


def value(text: str) -> Any:
    """The value of a file. Raises ValueError: it is no plain JSON."""
    return json_text.document(text)


def problem(text: str) -> str | None:
    """Why a file is left alone; None where it is fit to be edited."""
    try:
        found = value(text)
    except ValueError as error:
        return f"is no plain JSON, which has no comments and no commas at the end: {error}"
    if not isinstance(found, dict):
        return "holds no JSON object"
    hooks = found.get(_HOOKS, {})
    if not isinstance(hooks, dict):
        return "cannot be edited: hooks is no JSON object"
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            return f"cannot be edited: hooks.{event} is no JSON array"
    return None


def installed(agent: Agent, text: str) -> dict[str, list[str]]:
    """The commands of ours in a settings file, by their events."""
    hooks = json_text.document(text).get(_HOOKS, {})
    found = {
        event: [handler["command"] for group in groups for handler in _handlers(group) if agent.owns(handler)]
        for event, groups in hooks.items()
    }
    return {event: commands for event, commands in found.items() if commands}


def _handlers(group: object) -> list[Any]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    return handlers if isinstance(handlers, list) else []


def with_hooks(agent: Agent, command: str, text: str | None) -> str:
    """The text of a settings file with our hooks at the end of those that are there."""
    if text is None:
        return (
            json.dumps({_HOOKS: {event: [entry] for event, entry in agent.entries(command).items()}}, indent=2) + "\n"
        )
    at = json_text.root(text)
    if (hooks := json_text.member(text, at, _HOOKS)) is None:
        missing = {event: [entry] for event, entry in agent.entries(command).items()}
        return json_text.with_item(text, at, missing, _HOOKS)
    for event, entry in agent.entries(command).items():
        groups = json_text.member(text, hooks.value, event)
        if groups is None:
            text = json_text.with_item(text, hooks.value, [entry], event)
        else:
            text = json_text.with_item(text, groups.value, entry)
    return text


def members_made(agent: Agent, text: str | None) -> frozenset[str]:
    """The members that `with_hooks` adds to a settings file besides the hooks themselves."""
    hooks = None if text is None else json_text.document(text).get(_HOOKS)
    return frozenset(agent.events) - frozenset(hooks or {}) | (frozenset() if hooks is not None else {_HOOKS})


def without_hooks(agent: Agent, text: str, made: frozenset[str]) -> str:
    """The text without our hooks, and without members that are empty now and that we had `made`."""
    for _ in range(MOST_ENTRIES):
        shorter = _without_first(agent, text)
        if shorter is None:
            break
        text = shorter
    else:
        raise UnsafeSettingsError(f"more than {MOST_ENTRIES} hooks of {agent.title} call Timeleap")
    at = json_text.root(text)
    hooks = json_text.member(text, at, _HOOKS)
    if hooks is None:
        return text
    for event in made - {_HOOKS}:
        found, _ = json_text.items(text, hooks.value)
        position = next((number for number, item in enumerate(found) if item.key == event), None)
        if position is not None and not json_text.items(text, found[position].value)[0]:
            text = json_text.without_item(text, hooks.value, position)
    if _HOOKS in made and not json_text.items(text, hooks.value)[0]:
        keys = [item.key for item in json_text.items(text, at)[0]]
        text = json_text.without_item(text, at, keys.index(_HOOKS))
    return text


def _without_first(agent: Agent, text: str) -> str | None:
    hooks = json_text.member(text, json_text.root(text), _HOOKS)
    for event in json_text.items(text, hooks.value)[0] if hooks is not None else []:
        for number, group in enumerate(json_text.items(text, event.value)[0]):
            handlers = _handlers(json.loads(text[group.value : group.end]))
            own = [agent.owns(handler) for handler in handlers]
            if own and all(own):
                return json_text.without_item(text, event.value, number)
            if any(own):
                inner = json_text.member(text, group.value, "hooks")
                assert inner is not None
                return json_text.without_item(text, inner.value, own.index(True))
    return None
