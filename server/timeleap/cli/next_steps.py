"""The next steps for a person at a terminal who typed nothing but the program's name."""

from __future__ import annotations

from pathlib import Path

from timeleap.cli.backend import Backend
from timeleap.cli.session_tables import list_sessions
from timeleap.cli.terminal import Terminal

_SHOWN = 3
"""Sessions that are listed."""
_FIRST = (
    ("timeleap demo", "takes a guided tour with a real server, in a store of its own"),
    ("timeleap agents install claude-code", "has the sessions of Claude Code here; timeleap agents list names others"),
    ("timeleap new", "creates a session of your own"),
)
_HERE = (
    ("timeleap log", "draws the newest one: its checkpoints and timelines"),
    ("timeleap show --last 5", "shows its last messages"),
    ("timeleap sessions", "lists the sessions of all folders"),
)
_ELSEWHERE = (
    ("timeleap sessions", "lists the sessions of other folders"),
    ("timeleap new", "creates one for this folder"),
)


def say_next_steps(terminal: Terminal) -> None:
    """Say what to do next, by what is there: the newest sessions of this folder, or how to get a first one."""
    with Backend(terminal) as backend:
        here = {"workspace": Path.cwd().as_uri(), "limit": _SHOWN}
        found = backend.call("session/list", here)["sessions"]
        if found:
            terminal.say("The newest sessions of this folder:", "")
            list_sessions(terminal, found, "updatedAt", "changed")
            steps: tuple[tuple[str, str], ...] = _HERE
        elif backend.call("session/list", {"limit": 1})["sessions"]:
            terminal.say("This folder has no session yet.")
            steps = _ELSEWHERE
        else:
            terminal.say("Timeleap keeps the conversations of AI agents, and can take them back. There is none yet.")
            steps = _FIRST
    widest = max(len(command) for command, _ in steps)
    terminal.say("", *(f"  {command:<{widest}}  {about}" for command, about in steps), "")
    terminal.say("timeleap --help lists the commands of most days, timeleap help --all the rest.")
