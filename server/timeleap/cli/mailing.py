"""Commands about D-Mails, notes to an earlier self: `dmail send`, `show`, `deliver`, `cancel`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from timeleap.cli.arguments import DryRun, Heal, Session, Yes, complete_session, text_or_file
from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.command import Group, command
from timeleap.cli.formatting import one_line
from timeleap.cli.refs import find_checkpoint
from timeleap.cli.revert import say_what_goes
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer()
dmail = typer.Typer(cls=Group, no_args_is_help=True)
Json = dict[str, Any]

app.add_typer(
    dmail, name="dmail", help="Leave notes to an earlier self, or to another session.", rich_help_panel="Travel in time"
)


@command(dmail)
def send(
    terminal: Terminal,
    session: Session,
    text: Annotated[list[str], typer.Argument(help="The note; @FILE or - takes it from there.")],
    *,
    at: Annotated[
        str | None, typer.Option("--at", metavar="CHECKPOINT", help="Whose self gets it: number, label or uid.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="SESSION", help="Another session that gets it.", autocompletion=complete_session),
    ] = None,
) -> None:
    """Leave a note to the self of a checkpoint, of this session or of another one.

    It waits there until it is delivered. Without --at it is a note at the end of another session's log, read next.

    Examples:
        timeleap dmail send fix-dates --at 3 "The bug is in the time zone, not in the parser"
        timeleap dmail send tests --to fix-dates "All green since the last change"
    """
    if at is None and to is None:
        raise UsageError("say whose self gets it: --at CHECKPOINT, or --to SESSION, or both")
    note = text_or_file(" ".join(text))
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session))
        where = {} if to is None else _receiver(to)
        if at is not None:
            where["checkpointUid"] = _uid(backend, opened, to, at)
        result = opened.call("context/sendDMail", message=note, **where)
    if terminal.machine:
        terminal.document(result)
        return
    whom = one_line(to or opened.id)
    if (waiting := result["pendingDMail"]) is None:
        terminal.say(f"the note stands at the end of {whom}")
    else:
        terminal.say(f"the note waits in {whom} for checkpoint #{waiting['checkpointId']}")
        terminal.hint(f"timeleap dmail deliver {whom} takes the session back to it")


def _receiver(name: str) -> Json:
    identity = Target.of(name).identity
    return {"toPath": identity["path"]} if "path" in identity else {"toSessionId": name}


def _uid(backend: Backend, sender: OpenSession, to: str | None, checkpoint: str) -> str:
    """The uid of a checkpoint of the session that gets the note."""
    if to is None:
        found = find_checkpoint(sender, checkpoint)
    else:
        receiver = backend.open_to_read(Target.of(to))
        found = find_checkpoint(receiver, checkpoint)
        receiver.close()  # open to read it takes no note
    return checkpoint if found is None else str(found["uid"])


@command(dmail)
def show(terminal: Terminal, session: Session) -> None:
    """Show the D-Mail that waits in a session.

    Example:
        timeleap dmail show fix-dates
    """
    with Backend(terminal) as backend:
        state = backend.open_to_read(Target.of(session)).call("session/getState")
    waiting = state["pendingDMail"]
    if terminal.machine:
        terminal.document({"head": state["head"], "pendingDMail": waiting})
    elif waiting is None:
        terminal.hint("none is waiting")
    else:
        sender = f", from {one_line(waiting['fromSessionId'])}" if waiting.get("fromSessionId") else ""
        terminal.say(f"for checkpoint #{waiting['checkpointId']}{sender}:", one_line(waiting["message"]))


@command(dmail)
def deliver(
    terminal: Terminal, session: Session, *, heal: Heal = False, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Go back to the D-Mail's checkpoint and put the note there, as one step. `timeleap undo` takes it back.

    Examples:
        timeleap dmail deliver fix-dates --dry-run
        timeleap dmail deliver fix-dates --yes
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        before = opened.call("session/getState")
        healing: Json = {"heal": heal or None}
        result = opened.call("context/deliverDMail", **healing, dryRun=True)
        if not terminal.machine:
            waiting = before["pendingDMail"]
            # The delivery's own plan counts the note in; what goes is what a revert to there would take.
            plan = opened.call("context/revertTo", checkpointUid=waiting["checkpointUid"], **healing, dryRun=True)
            say_what_goes(terminal, opened, before, plan)
            terminal.say(f"At checkpoint #{waiting['checkpointId']} it puts: {one_line(waiting['message'], 200)}")
        if not dry_run:
            terminal.require_consent("Deliver?", yes)
            result = opened.call("context/deliverDMail", **healing, expectedHead=before["head"], saying="Delivering")
    if terminal.machine:
        terminal.document(result)
    else:
        terminal.hint(
            "nothing was changed (--dry-run)" if dry_run else f"delivered; undo with: timeleap undo {opened.id}"
        )


@command(dmail)
def cancel(terminal: Terminal, session: Session) -> None:
    """Drop the D-Mail that waits in a session.

    Example:
        timeleap dmail cancel fix-dates
    """
    with Backend(terminal) as backend:
        opened: OpenSession = backend.open_to_write(Target.of(session))
        result = opened.call("context/cancelDMail")
    if terminal.machine:
        terminal.document(result)
    else:
        terminal.say("dropped")
