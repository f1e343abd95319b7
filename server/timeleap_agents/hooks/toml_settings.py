"""Hooks in a settings file of TOML: a table `[[hooks]]` for each, between all else that a person wrote and commented."""

from __future__ import annotations

import tomllib
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array

from timeleap_agents.hooks.agents import Agent
from timeleap_agents.hooks.unsafe import UnsafeSettingsError

_HOOKS: Final = "hooks"


def value(text: str) -> Any:
    """The value of a file. Raises ValueError: it is no TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def problem(text: str) -> str | None:
    """Why a file is left alone; None where it is fit to be edited."""
    try:
        found = value(text)
    except ValueError as error:
        return f"is no TOML: {error}"
    hooks = found.get(_HOOKS, [])
    if not isinstance(hooks, list) or not all(isinstance(hook, dict) for hook in hooks):
        return "has hooks that are no tables"
    return None


def installed(agent: Agent, text: str) -> dict[str, list[str]]:
    """The commands of ours, by their events."""
    found: dict[str, list[str]] = {}
    for hook in value(text).get(_HOOKS, []):
        if agent.owns(hook):
            found.setdefault(str(hook.get("event")), []).append(hook["command"])
    return found


def with_hooks(agent: Agent, command: str, text: str | None) -> str:
    """The text with our hooks behind those that are there. Raises UnsafeSettingsError: an edit cannot be trusted."""
    added = [_entry(event, group) for event, group in agent.entries(command).items()]
    wanted = {} if text is None else value(text)
    wanted = {**wanted, _HOOKS: [*wanted.get(_HOOKS, []), *added]}
    document = _parsed(text or "")
    hooks = document.get(_HOOKS)
    if hooks is None:
        hooks = tomlkit.aot()
        for entry in added:
            hooks.append(_table(entry))
        document.append(_HOOKS, hooks)
    elif isinstance(hooks, AoT):
        for entry in added:
            hooks.append(_table(entry))
    elif isinstance(hooks, Array):
        for entry in added:
            hooks.append(_inline(entry))
    return _checked(document.as_string(), wanted)


def members_made(agent: Agent, text: str | None) -> frozenset[str]:
    """The members that `with_hooks` adds besides the hooks themselves."""
    del agent
    return frozenset() if text is not None and _HOOKS in value(text) else frozenset({_HOOKS})


def without_hooks(agent: Agent, text: str, made: frozenset[str]) -> str:
    """The text without our hooks. Raises UnsafeSettingsError: an edit cannot be trusted."""
    wanted = value(text)
    kept = [hook for hook in wanted.get(_HOOKS, []) if not agent.owns(hook)]
    document = _parsed(text)
    hooks = document.get(_HOOKS)
    if not isinstance(hooks, AoT | Array):
        return text
    for at in reversed(range(len(hooks))):
        if agent.owns(hooks[at].unwrap()):
            del hooks[at]
    wanted[_HOOKS] = kept
    if not kept and (isinstance(hooks, AoT) or _HOOKS in made):
        del wanted[_HOOKS]
        document.remove(_HOOKS)
    return _checked(document.as_string(), wanted)


def _entry(event: str, group: dict[str, Any]) -> dict[str, Any]:
    """A hook of ours, as the agent names its members."""
    (handler,) = group["hooks"]
    matcher = {"matcher": group["matcher"]} if "matcher" in group else {}
    return {"event": event, **matcher, "command": handler["command"], "timeout": handler["timeout"]}


def _table(entry: dict[str, Any]) -> Any:
    table = tomlkit.table()
    for name, said in entry.items():
        table.append(name, said)
    return table


def _inline(entry: dict[str, Any]) -> Any:
    table = tomlkit.inline_table()
    for name, said in entry.items():
        table.append(name, said)
    return table


def _parsed(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise UnsafeSettingsError(f"its TOML cannot be edited without a risk to what is there ({error})") from None


def _checked(text: str, wanted: Any) -> str:
    """The edited text, where it says just what it is to say."""
    try:
        says_it = value(text) == wanted
    except ValueError:
        says_it = False
    if not says_it:
        raise UnsafeSettingsError("its TOML cannot be edited without a risk to what is there")
    return text
