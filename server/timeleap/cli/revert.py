"""Commands that travel in time: `revert`, `undo`, `redo`, `restore`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from timeleap.cli.arguments import DryRun, Heal, OnlySay, Session, Steps, Yes, place
from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.command import command
from timeleap.cli.formatting import ago, count, gist, one_line
from timeleap.cli.terminal import Terminal, UsageError
from timeleap_client.errors import TimeleapRpcError

app = typer.Typer()
PANEL = "Travel in time"
Json = dict[str, Any]

_MOST_NAMED = 12
"""Messages that are named one by one before the rest is only counted."""


@command(app, unless="message", rich_help_panel=PANEL)
def revert(
    terminal: Terminal,
    session: Session,
    checkpoint: Annotated[
        str | None, typer.Argument(metavar="[CHECKPOINT]", help="A checkpoint's id (a number) or its uid.")
    ] = None,
    *,
    message: Annotated[
        int | None, typer.Option("--message", metavar="N", min=0, help="Go back to before this message instead.")
    ] = None,
    heal: Heal = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Go back to before a checkpoint, or a message: it and all after it leave the log.

    Says exactly what goes and asks first. Nothing is lost: what goes stays as a timeline, and `timeleap undo` brings it
    back. If the session changes while you think, nothing happens.

    Examples:
        timeleap revert fix-dates 3 --dry-run
        timeleap revert fix-dates 3 --yes
        timeleap revert fix-dates --message 12
    """
    if (checkpoint is None) == (message is None):
        raise UsageError("give a CHECKPOINT, or --message N: the number that timeleap show has before a message")
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        before = opened.call("session/getState")
        wanted: Json = {**place(checkpoint), "messageIndex": message, "heal": heal or None}
        plan = opened.call("context/revertTo", **wanted, dryRun=True)
        if not terminal.machine:
            say_what_goes(terminal, opened, before, plan)
        if dry_run:
            _finish(terminal, plan, "nothing was changed (--dry-run)")
            return
        terminal.require_consent("Revert?", yes)
        # The head we looked at: should anything have been written meanwhile, the revert would take more than was shown.
        done = opened.call("context/revertTo", **wanted, expectedHead=before["head"], saying="Reverting")
        _finish(terminal, done, f"reverted; undo with: timeleap undo {opened.id}")


def say_what_goes(terminal: Terminal, opened: OpenSession, before: Json, plan: Json) -> None:
    """Say what a revert takes, message by message where these are few.

    Args:
        terminal: Where to.
        opened: The session.
        before: Its state.
        plan: Result of a dry run of `context/revertTo`.
    """
    removed, stays = plan["removed"], plan["context"]["messageCount"]
    terminal.say(
        f"This takes {count(removed['messages'], 'message')}, {count(removed['checkpoints'], 'checkpoint')} "
        f"and {count(removed['tokens'], 'token')} out of {before['sessionId']}; {count(stays, 'message')} stay."
    )
    entries = (
        opened.call("context/getHistory", **{"from": stays, "to": stays + _MOST_NAMED})["messages"]
        if removed["messages"]
        else []
    )
    for entry in entries:
        message = entry["message"]
        terminal.say(f"  [{entry['index']}] {one_line(str(message.get('role')), 12):<10} {gist(message, 80)}")
    if (more := removed["messages"] - len(entries)) > 0:
        terminal.say(f"  ... and {more:,} more")
    if (exchange := plan.get("toolExchange")) is not None:
        calls = count(len(exchange["openCalls"]), "tool call")
        terminal.say(
            f"It also goes back to before {calls} that would have no result."
            if exchange["healed"]
            else f"It leaves {calls} without a result, which models refuse; --heal goes back to before that."
        )


@command(app, rich_help_panel=PANEL)
def undo(terminal: Terminal, session: Session, steps: Steps = 1, dry_run: OnlySay = False) -> None:
    """Undo the last revert, clear, compaction, restore or D-Mail; again for the one before it.

    What was appended since is not lost: `timeleap redo` brings it back, as long as nothing else changes the log.

    Examples:
        timeleap undo fix-dates
        timeleap undo fix-dates -n 3 --dry-run
    """
    _step(terminal, session, "undo", steps, dry_run)


@command(app, rich_help_panel=PANEL)
def redo(terminal: Terminal, session: Session, steps: Steps = 1, dry_run: OnlySay = False) -> None:
    """Do again what `timeleap undo` took back, as long as nothing else has changed the log since.

    Examples:
        timeleap redo fix-dates
        timeleap redo fix-dates -n 2
    """
    _step(terminal, session, "redo", steps, dry_run)


def _step(terminal: Terminal, session: str, direction: str, steps: int, dry_run: bool) -> None:
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        known = {
            timeline["timelineId"]: timeline
            for timeline in opened.pages("context/listTimelines", "timelines", limit=1000)
        }
        try:
            done = opened.call(
                f"context/{direction}", steps=steps, dryRun=dry_run or None, saying="Going back and forth"
            )
        except TimeleapRpcError as error:
            if error.kind not in ("nothingToUndo", "nothingToRedo"):
                raise
            raise UsageError(f"{opened.id}: {error.message}") from None
        if not terminal.machine:
            _say_steps(terminal, done, known, dry_run)
        left = f"{done['canUndo']} to undo, {done['canRedo']} to redo"
        _finish(
            terminal, done, f"nothing was changed (--dry-run); it would leave {left}" if dry_run else f"now: {left}"
        )


def _say_steps(terminal: Terminal, done: Json, known: dict[str, Json], dry_run: bool) -> None:
    *before, last = done["steps"]
    for step in before:
        terminal.say(f"past {step.get('timelineId', 'an empty log')} ({step['kind']})")
    name = last.get("timelineId")
    if name is None:
        terminal.say(f"The log {'would be' if dry_run else 'is'} empty again ({last['kind']}).")
        return
    created = known.get(name, {}).get("createdAt")
    set_aside = f", set aside {ago(created)}" if created else ""
    _say_restored(terminal, f"{name} ({last['kind']}{set_aside})", done, dry_run)


@command(app, rich_help_panel=PANEL)
def restore(
    terminal: Terminal,
    session: Session,
    timeline: Annotated[str, typer.Argument(metavar="TIMELINE", help="Its id, such as context_2; see timeleap log.")],
    dry_run: DryRun = False,
) -> None:
    """Make a timeline the present log again; the present log becomes a timeline.

    Example:
        timeleap restore fix-dates context_2
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        known = opened.pages("context/listTimelines", "timelines", limit=1000)
        found = next((each for each in known if each["timelineId"] == timeline), {"timelineId": timeline})
        _restore(terminal, opened, found, dry_run)


def _restore(terminal: Terminal, opened: OpenSession, timeline: Json, dry_run: bool) -> None:
    result = opened.call(
        "context/restoreTimeline", timelineId=timeline["timelineId"], dryRun=dry_run or None, saying="Restoring"
    )
    if not terminal.machine:
        set_aside = f", set aside {ago(timeline.get('createdAt'))}" if timeline.get("createdAt") else ""
        name = f"{timeline['timelineId']} ({timeline.get('reason', 'unknown')}{set_aside})"
        _say_restored(terminal, name, result, dry_run)
    _finish(terminal, result, "nothing was changed (--dry-run)" if dry_run else "the log before it stays as a timeline")


def _say_restored(terminal: Terminal, timeline: str, result: Json, dry_run: bool) -> None:
    messages, tokens = (result["context"][name] for name in ("messageCount", "tokenCount"))
    terminal.say(
        f"{timeline} {'would become' if dry_run else 'is'} the log again: {count(messages, 'message')}, "
        f"{count(tokens, 'token')}."
    )


def _finish(terminal: Terminal, result: Json, hint: str) -> None:
    if terminal.machine:
        terminal.document(result)
    else:
        terminal.hint(hint)
