"""Irreversible changes: a dry run lists what would be removed, the user confirms, and then it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.terminal import Terminal

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal, and its texts for the user.

    Attributes:
        method: Of the protocol; it has a `dryRun`.
        params: Its params.
        question: Asked of the user before.
        looking: The dry run's title for a progress bar.
        doing: The removal's title for a progress bar.
        goes: True if anything would be removed, by the dry run's result.
        plan: Prints what would be removed, by the dry run's result.
        done: The message afterwards, from the result.
    """

    method: str
    params: Json
    question: str
    looking: str
    doing: str
    goes: Callable[[Json], bool]
    plan: Callable[[Terminal, Json], None]
    done: Callable[[Json], str]


def remove(terminal: Terminal, session: str, removal: Removal, *, yes: bool, dry_run: bool) -> None:
    """Carry a removal out on a session, or only say what it would take."""
    with Backend(terminal) as backend:
        if removal.params.get("deletedAt") is not None:  # what lies in the trash cannot be opened
            opened = OpenSession(backend, {"sessionId": session})
        else:
            opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        result = opened.call(removal.method, **removal.params, dryRun=True, saying=removal.looking)
        goes = removal.goes(result)
        if not terminal.machine:
            removal.plan(terminal, result)
        if goes and not dry_run:
            terminal.require_consent(removal.question, yes)
            # The head we looked at: what was written meanwhile was not shown.
            seen = {"expectedHead": result["head"]}
            result = opened.call(removal.method, **removal.params, **seen, saying=removal.doing)
    if terminal.machine:
        terminal.document(result)
    elif dry_run or not goes:
        terminal.hint("nothing was changed" + (" (--dry-run)" if dry_run else ""))
    else:
        terminal.say(removal.done(result))
