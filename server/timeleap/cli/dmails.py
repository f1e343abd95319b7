"""Commands about D-Mails, notes to an earlier self: `dmail send`, `show`, `deliver`, `cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from timeleap.cli.backend import OpenSession, change_session, read_state, session_identity, writing
from timeleap.cli.command import Group, command
from timeleap.cli.formatting import Json, one_line
from timeleap.cli.options import DryRun, Heal, Session, Yes, complete_session, text_or_file
from timeleap.cli.revert import say_what_goes
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer()
dmail = typer.Typer(cls=Group, no_args_is_help=True)

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
    with writing(terminal, session) as opened:
        where = {} if to is None else _receiver(to)
        if at is not None:
            where["checkpointUid"] = _uid(opened, to, at)
        result = opened.call("context/sendDMail", message=note, **where)
    whom = one_line(to or opened.id)
    if (waiting := result["pendingDMail"]) is None:
        terminal.answer(result, f"the note stands at the end of {whom}")
    else:
        hint = f"timeleap dmail deliver {whom} takes the session back to it"
        terminal.answer(result, f"the note waits in {whom} for checkpoint #{waiting['checkpointId']}", hint=hint)


def _receiver(name: str) -> Json:
    identity = session_identity(name)
    return {"toPath": identity["path"]} if "path" in identity else {"toSessionId": name}


def _uid(sender: OpenSession, to: str | None, checkpoint: str) -> str:
    """The uid of a checkpoint of the session that gets the note."""
    if to is None:
        found = sender.checkpoint(checkpoint)
    else:
        receiver = sender.backend.open(session_identity(to), write=False)
        found = receiver.checkpoint(checkpoint)
        receiver.call("session/close")  # open to read it takes no note
    return checkpoint if found is None else str(found["uid"])


@command(dmail)
def show(terminal: Terminal, session: Session) -> None:
    """Show the D-Mail that waits in a session.

    Example:
        timeleap dmail show fix-dates
    """
    result = read_state(terminal, session, "pendingDMail")
    if (waiting := result["pendingDMail"]) is None:
        terminal.answer(result, hint="none is waiting")
        return
    sender = f", from {one_line(waiting['fromSessionId'])}" if waiting.get("fromSessionId") else ""
    terminal.answer(result, f"for checkpoint #{waiting['checkpointId']}{sender}:", one_line(waiting["message"]))


@command(dmail)
def deliver(
    terminal: Terminal, session: Session, *, heal: Heal = False, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Go back to the D-Mail's checkpoint and put the note there, as one step. `timeleap undo` takes it back.

    Examples:
        timeleap dmail deliver fix-dates --dry-run
        timeleap dmail deliver fix-dates --yes
    """
    healing: Json = {"heal": heal or None}
    with writing(terminal, session, dry_run=dry_run) as opened:
        before = opened.call("session/getState")
        result = opened.call("context/deliverDMail", **healing, dryRun=True)
        if not terminal.machine:
            waiting = before["pendingDMail"]
            # The delivery's own plan counts the note in; what goes is what a revert to there would take.
            plan = opened.call("context/revertTo", checkpointUid=waiting["checkpointUid"], **healing, dryRun=True)
            say_what_goes(terminal, opened, plan)
            terminal.say(f"At checkpoint #{waiting['checkpointId']} it puts: {one_line(waiting['message'], 200)}")
        if not terminal.consents(result, "Deliver?", yes=yes, dry_run=dry_run):
            return
        done = opened.call("context/deliverDMail", **healing, expectedHead=before["head"], saying="Delivering")
    terminal.answer(done, hint=f"delivered; undo with: timeleap undo {opened.id}")


@command(dmail)
def cancel(terminal: Terminal, session: Session) -> None:
    """Drop the D-Mail that waits in a session.

    Example:
        timeleap dmail cancel fix-dates
    """
    terminal.answer(change_session(terminal, session, "context/cancelDMail"), "dropped")
