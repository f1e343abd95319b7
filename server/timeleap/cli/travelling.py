"""Commands that travel in time: `revert`, `undo`, `restore`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from timeleap.cli.arguments import Checkpoint, DryRun, Heal, Session, Yes, place
from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.command import command
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.cli.words import ago, count, gist, one_line

app = typer.Typer()
PANEL = "Travel in time"
Json = dict[str, Any]

_MOST_NAMED = 12
"""Messages that are named one by one before the rest is only counted."""


@command(app, rich_help_panel=PANEL)
def revert(
    terminal: Terminal,
    session: Session,
    checkpoint: Checkpoint,
    *,
    heal: Heal = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Go back to before a checkpoint: it and all after it leave the log.

    Says exactly what goes and asks first. Nothing is lost: what goes stays as a timeline, and `timeleap undo` brings it
    back. If the session changes while you think, nothing happens.

    Examples:
        timeleap revert fix-dates 3 --dry-run

        timeleap revert fix-dates 3 --yes
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        before = opened.call("session/getState")
        wanted: Json = {**place(checkpoint), "heal": heal or None}
        plan = opened.call("context/revertTo", **wanted, dryRun=True)
        if not terminal.machine:
            say_what_goes(terminal, opened, before, plan)
        if dry_run:
            _finish(terminal, plan, "nothing was changed (--dry-run)")
            return
        terminal.require_consent("Revert?", yes)
        # The head we looked at: should anything have been written meanwhile, the revert would take more than was shown.
        done = opened.call("context/revertTo", **wanted, expectedHead=before["head"], saying="Reverting")
        _finish(terminal, done, f"reverted; undo with: timeleap undo {session}")


def say_what_goes(terminal: Terminal, opened: OpenSession, before: Json, plan: Json) -> None:
    """Say what a revert takes, message by message where these are few.

    Args:
        terminal: Where to.
        opened: The session.
        before: Its state.
        plan: What a dry run of `context/revertTo` said.
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
def undo(terminal: Terminal, session: Session, dry_run: DryRun = False) -> None:
    """Undo the last revert, clear, compaction, restore or D-Mail: restore the newest timeline.

    The present log becomes a timeline itself, so an undo can be undone.

    Example:
        timeleap undo fix-dates
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        newest = opened.call("context/listTimelines", limit=1)["timelines"]
        if not newest:
            raise UsageError(f"there is nothing to undo in {opened.id}: it has no timeline")
        _restore(terminal, opened, newest[0], dry_run)


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
        terminal.say(
            f"{timeline['timelineId']} ({timeline.get('reason', 'unknown')}{set_aside}) "
            f"{'would become' if dry_run else 'is'} the log again: {count(result['context']['messageCount'], 'message')}, "
            f"{count(result['context']['tokenCount'], 'token')}."
        )
    _finish(terminal, result, "nothing was changed (--dry-run)" if dry_run else "the log before it stays as a timeline")


def _finish(terminal: Terminal, result: Json, hint: str) -> None:
    if terminal.machine:
        terminal.document(result)
    else:
        terminal.hint(hint)
