"""Changes that nothing brings back: a dry run says what goes, the user is asked, and then it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.terminal import Terminal

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to be removed, and how to talk of it.

    Attributes:
        method: Of the protocol; it has a `dryRun`.
        params: Its params.
        question: What the user is asked before.
        looking: What the dry run does, for a progress bar.
        doing: What the removal does.
        goes: Whether anything would go, by the dry run's result.
        plan: Says what would go, by the dry run's result.
        done: What to say afterwards, of the result.
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
