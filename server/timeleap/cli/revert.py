"""Commands that travel in time: `revert`, `undo`, `redo`, `restore`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from timeleap.cli.backend import OpenSession, writing
from timeleap.cli.command import command
from timeleap.cli.formatting import Json, ago, count, gist, one_line
from timeleap.cli.options import DryRun, Heal, OnlySay, Session, Steps, Yes, place
from timeleap.cli.terminal import Terminal, UsageError
from timeleap_client.errors import TimeleapRpcError

app = typer.Typer(rich_help_panel="Travel in time")

UNCHANGED = "nothing was changed (--dry-run)"
_MOST_NAMED = 12
"""Messages that are named one by one before the rest is only counted."""


@command(app, unless="message")
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
    wanted: Json = {**place(checkpoint), "messageIndex": message, "heal": heal or None}
    with writing(terminal, session, dry_run=dry_run) as opened:
        before = opened.call("session/getState")
        plan = opened.call("context/revertTo", **wanted, dryRun=True)
        say_what_goes(terminal, opened, plan)
        if not terminal.consents(plan, "Revert?", yes=yes, dry_run=dry_run):
            return
        # The head we looked at: should anything have been written meanwhile, the revert would take more than was shown.
        done = opened.call("context/revertTo", **wanted, expectedHead=before["head"], saying="Reverting")
        terminal.answer(done, hint=f"reverted; undo with: timeleap undo {opened.id}")


def say_what_goes(terminal: Terminal, opened: OpenSession, plan: Json) -> None:
    """Say what a revert takes, message by message where these are few.

    Args:
        terminal: Where to.
        opened: The session.
        plan: Result of a dry run of `context/revertTo`.
    """
    if terminal.machine:
        return
    removed, stays = plan["removed"], plan["context"]["messageCount"]
    terminal.say(
        f"This takes {count(removed['messages'], 'message')}, {count(removed['checkpoints'], 'checkpoint')} "
        f"and {count(removed['tokens'], 'token')} out of {opened.id}; {count(stays, 'message')} stay."
    )
    named: Json = {"from": stays, "to": stays + _MOST_NAMED}
    entries = opened.call("context/getHistory", **named)["messages"] if removed["messages"] else []
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


@command(app)
def undo(terminal: Terminal, session: Session, steps: Steps = 1, dry_run: OnlySay = False) -> None:
    """Undo the last revert, clear, compaction, restore or D-Mail; again for the one before it.

    What was appended since is not lost: `timeleap redo` brings it back, as long as nothing else changes the log.

    Examples:
        timeleap undo fix-dates
        timeleap undo fix-dates -n 3 --dry-run
    """
    _step(terminal, session, "undo", steps, dry_run)


@command(app)
def redo(terminal: Terminal, session: Session, steps: Steps = 1, dry_run: OnlySay = False) -> None:
    """Do again what `timeleap undo` took back, as long as nothing else has changed the log since.

    Examples:
        timeleap redo fix-dates
        timeleap redo fix-dates -n 2
    """
    _step(terminal, session, "redo", steps, dry_run)


def _step(terminal: Terminal, session: str, direction: str, steps: int, dry_run: bool) -> None:
    with writing(terminal, session, dry_run=dry_run) as opened:
        known = {each["timelineId"]: each for each in _timelines(opened)}
        try:
            done = opened.call(
                f"context/{direction}", steps=steps, dryRun=dry_run or None, saying="Going back and forth"
            )
        except TimeleapRpcError as error:
            if error.kind not in ("nothingToUndo", "nothingToRedo"):
                raise
            raise UsageError(f"{opened.id}: {error.message}") from None
    left = f"{done['canUndo']} to undo, {done['canRedo']} to redo"
    hint = f"{UNCHANGED}; it would leave {left}" if dry_run else f"now: {left}"
    terminal.answer(done, *_steps(done, known, dry_run), hint=hint)


def _timelines(opened: OpenSession) -> Iterator[Json]:
    return opened.pages("context/listTimelines", "timelines", limit=1000)


def _steps(done: Json, known: dict[str, Json], dry_run: bool) -> Iterator[str]:
    """What several steps in one went past, and where they led."""
    *before, last = done["steps"]
    for step in before:
        yield f"past {step.get('timelineId', 'an empty log')} ({step['kind']})"
    if (name := last.get("timelineId")) is None:
        yield f"The log {'would be' if dry_run else 'is'} empty again ({last['kind']})."
    else:
        yield _restored({**known.get(name, {}), "timelineId": name, "reason": last["kind"]}, done, dry_run)


@command(app)
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
    with writing(terminal, session, dry_run=dry_run) as opened:
        found = next((each for each in _timelines(opened) if each["timelineId"] == timeline), {"timelineId": timeline})
        result = opened.call("context/restoreTimeline", timelineId=timeline, dryRun=dry_run or None, saying="Restoring")
    hint = UNCHANGED if dry_run else "the log before it stays as a timeline"
    terminal.answer(result, _restored(found, result, dry_run), hint=hint)


def _restored(timeline: Json, result: Json, dry_run: bool) -> str:
    set_aside = f", set aside {ago(timeline['createdAt'])}" if timeline.get("createdAt") else ""
    messages, tokens = (result["context"][name] for name in ("messageCount", "tokenCount"))
    return (
        f"{timeline['timelineId']} ({timeline.get('reason', 'unknown')}{set_aside}) "
        f"{'would become' if dry_run else 'is'} the log again: {count(messages, 'message')}, {count(tokens, 'token')}."
    )
