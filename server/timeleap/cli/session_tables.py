"""Tables of sessions: one list, or by project and program."""

from __future__ import annotations

from timeleap.cli.formatting import Json, ago, one_line, process
from timeleap.cli.projects import SessionProject, place_of, program_of
from timeleap.cli.terminal import Terminal

_RIGHT = ("messages", "tokens")


def list_sessions(terminal: Terminal, found: list[Json], stamp: str, stamped: str) -> None:
    """Print sessions in the order in which they are given.

    Args:
        terminal: Where to.
        found: Of a list of the server.
        stamp: The member with the time that is shown.
        stamped: What that is called.
    """
    columns = ("session", "messages", "tokens", stamped, "state", "title")
    terminal.records(found, columns, lambda info: _row(info, stamp), right=_RIGHT)


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
            rows.append((*_row(info, "updatedAt"), program_of(info), project, below))
    columns = ("session", "messages", "tokens", "changed", "state", "title", "program", "project", "below it")
    terminal.grouped(columns, rows, 2, right=_RIGHT)


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


def _row(info: Json, stamp: str) -> tuple[object, ...]:
    standing = ["archived"] if info["archived"] else []
    standing += [f"live in {process(info['owner'])}"] if "owner" in info else []
    standing += [f"damaged: {one_line(info['damaged'])}"] if "damaged" in info else []
    counts = info["messageCount"], info["tokenCount"]
    return info["sessionId"], *counts, ago(info.get(stamp)), ", ".join(standing), info["title"]
