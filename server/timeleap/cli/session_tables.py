"""Tables of sessions: one list, or by project and program."""

from __future__ import annotations

import itertools
from typing import Final

from timeleap.cli.backend import Backend
from timeleap.cli.formatting import ago, count, one_line, process
from timeleap.cli.projects import SessionProject, place_of, program_of
from timeleap.cli.terminal import Terminal
from timeleap.json_value import Json

_RIGHT = ("messages", "tokens")
_SPARE = ("program", "tokens", "messages")
"""Columns that a narrow terminal does without: a title tells sessions apart."""
_LOOKED_AT: Final = 10_000
"""Sessions that are looked through for sub-agents."""
_SHOWN: Final = 10
"""Sub-agents of a session in a table."""


def add_subagents(backend: Backend, found: list[Json]) -> None:
    """Add to sessions the list `subagents` of those that work for them, newest change first."""
    if not any("source" in info for info in found):
        return
    params = {"includeSubagents": True, "includeArchived": True, "limit": 1000}
    below: dict[str, list[Json]] = {}
    for info in itertools.islice(backend.pages("session/list", params, "sessions"), _LOOKED_AT):
        if "source" in info and "parent" in info:
            below.setdefault(info["parent"]["sessionId"], []).append(info)
    known = {info["sessionId"] for info in found}
    waiting = list(found)
    while waiting:
        info = waiting.pop()
        own = [each for each in below.pop(info["sessionId"], []) if each["sessionId"] not in known]
        if own:
            info["subagents"] = own
            waiting += own


def list_sessions(terminal: Terminal, found: list[Json], stamp: str, stamped: str) -> None:
    """Print sessions in the order in which they are given.

    Args:
        terminal: Where to.
        found: Of a list of the server.
        stamp: The member with the time that is shown.
        stamped: What that is called.
    """
    columns = ("session", "messages", "tokens", stamped, "state", "title")
    if terminal.machine:
        terminal.records(found, columns, lambda info: _row(info, stamp))
    else:
        rows = [row for info in found for row in _rows(info, stamp)]
        terminal.table(columns, rows, right=_RIGHT, spare=_SPARE)
        _tell_of_others(terminal, found)


def list_by_project(terminal: Terminal, found: list[Json]) -> None:
    """Print sessions with those of a project together, and in it those of a folder and a program. The project with the
    newest change comes first, in it the repository's own folder and then what lies below it."""
    projects: dict[str, list[tuple[SessionProject, Json]]] = {}
    for info in found:
        place = place_of(info)
        projects.setdefault(place.project, []).append((place, info))
    rows: list[tuple[object, ...]] = []
    for project, members in projects.items():
        for place, info in _by_folder_and_program(members):
            below = ""
            if place.folder != project:
                below = f"worktree {place.folder}" if place.worktree else place.folder
            rows += [(*row, program_of(info), project, below) for row in _rows(info, "updatedAt")]
    columns = ("session", "messages", "tokens", "changed", "state", "title", "program", "project", "below it")
    terminal.grouped(columns, rows, 2, right=_RIGHT, spare=_SPARE)
    _tell_of_others(terminal, found)


def _by_folder_and_program(members: list[tuple[SessionProject, Json]]) -> list[tuple[SessionProject, Json]]:
    groups: dict[tuple[str, str], list[tuple[SessionProject, Json]]] = {}
    for place, info in members:  # a group stands where its newest session stood
        groups.setdefault((place.folder, program_of(info)), []).append((place, info))
    project = members[0][0].project
    ordered = sorted(groups, key=lambda group: (group[0] != project, list(groups).index(_first(groups, group[0]))))
    return [member for group in ordered for member in groups[group]]


def _first(groups: dict[tuple[str, str], list[tuple[SessionProject, Json]]], folder: str) -> tuple[str, str]:
    """The first group of a folder: all of its groups stand there."""
    return next(group for group in groups if group[0] == folder)


def _rows(info: Json, stamp: str, depth: int = 0) -> list[tuple[object, ...]]:
    """The row of a session, and below it those of its sub-agents."""
    name, *rest = _row(info, stamp)
    rows: list[tuple[object, ...]] = [(f"{'└' * depth} {name}" if depth else name, *rest)]
    for each in info.get("subagents", [])[:_SHOWN]:
        rows += _rows(each, stamp, depth + 1)
    return rows


def _tell_of_others(terminal: Terminal, found: list[Json]) -> None:
    others = sum(map(_not_shown, found))
    if others:
        terminal.hint(f"{count(others, 'more sub-agent')}: timeleap sessions --json has them")


def _not_shown(info: Json) -> int:
    below = info.get("subagents", [])
    return max(0, len(below) - _SHOWN) + sum(map(_not_shown, below[:_SHOWN]))


def _row(info: Json, stamp: str) -> tuple[object, ...]:
    standing = ["archived"] if info["archived"] else []
    standing += [f"live in {process(info['owner'])}"] if "owner" in info else []
    standing += [f"damaged: {one_line(info['damaged'])}"] if "damaged" in info else []
    counts = info["messageCount"], info["tokenCount"]
    return info["sessionId"], *counts, ago(info.get(stamp)), ", ".join(standing), info["title"]
