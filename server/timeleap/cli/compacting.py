"""Commands that shorten a log: `compact`, `clear`; and what a summary must keep: `pins`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from timeleap.cli.arguments import DryRun, Session, Yes, text_or_file
from timeleap.cli.backend import Backend, Target
from timeleap.cli.command import command
from timeleap.cli.formatting import count, one_line, safe, size
from timeleap.cli.revert import say_what_goes
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer()
PANEL = "Travel in time"
Json = dict[str, Any]

_FACTS = {
    "paths": "files",
    "identifiers": "names in code",
    "errors": "error messages",
    "todos": "left to do",
    "constraints": "your demands",
}
_MOST_NAMED = 6
"""Lost facts of one kind that are named before the rest is only counted."""

Pin = Annotated[
    list[str] | None, typer.Option("--pin", help="What the summary must hold word for word; may be repeated.")
]


@command(app, rich_help_panel=PANEL)
def compact(
    terminal: Terminal,
    session: Session,
    *,
    keep: Annotated[int | None, typer.Option("--keep", min=1, help="Newest messages to keep as they are.")] = None,
    instruction: Annotated[str | None, typer.Option(help="What the summary should look at.")] = None,
    summarizer: Annotated[
        Literal["auto", "server", "builtin"] | None, typer.Option(help="Who summarises; builtin needs no model.")
    ] = None,
    summary: Annotated[str | None, typer.Option(help="Your own summary; @FILE takes it from a file.")] = None,
    pin: Pin = None,
    dry_run: DryRun = False,
) -> None:
    """Put a summary in the place of older messages. `timeleap undo` brings them back.

    A scorecard says what of the files, names, errors, to-dos and demands in those messages the summary keeps. With
    --dry-run the summary is shown, too.

    Examples:
        timeleap compact fix-dates --summarizer builtin --dry-run
        timeleap compact fix-dates --keep 4 --summary @summary.md --pin "never touch main"
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        result = opened.call(
            "context/compact",
            maxPreservedMessages=keep,
            customInstruction=instruction,
            summarizer=summarizer,
            summary=text_or_file(summary),
            pins=pin or None,
            dryRun=dry_run or None,
            saying="Compacting",
        )
    if terminal.machine:
        terminal.document(result)
        return
    if dry_run and result.get("summary"):
        terminal.say(*(f"    {safe(line)}" for line in result["summary"].splitlines()), "")
    terminal.say(_outcome(result, dry_run), *_scored(result))
    done = f"undo with: timeleap undo {opened.id}" if result["compacted"] else "nothing was changed"
    terminal.hint("nothing was changed (--dry-run)" if dry_run else done)


def _outcome(result: Json, dry_run: bool) -> str:
    if not result["compacted"]:
        return f"not compacted: {one_line(result.get('reason', 'there is nothing to compact'))}"
    return (
        f"{count(result['removedMessages'], 'message')} {'would become' if dry_run else 'became'} a summary, "
        f"{count(result['preservedMessages'], 'message')} {'would stay' if dry_run else 'stayed'}: "
        f"{result['tokenCountBefore']:,} → {result['tokenCountAfter']:,} tokens, "
        f"log {size(result['context']['logBytes'])}"
    )


def _scored(result: Json) -> Iterator[str]:
    """Scorecard of a summary as lines: facts kept and facts lost."""
    for name, tally in (result.get("scorecard") or {}).items():
        if tally["found"]:
            yield f"  {_FACTS.get(name, name):<15} {tally['kept']:,} of {tally['found']:,} kept{_lost(tally)}"
    if (pins := result.get("pins")) is not None:
        added = "".join(f"\n    + {one_line(pin, 100)}" for pin in pins["added"])
        yield f"  {'pins':<15} {pins['kept']:,} in the summary, {len(pins['added']):,} added to it word for word{added}"


def _lost(tally: Json) -> str:
    lost = tally["found"] - tally["kept"]
    if not lost:
        return ""
    named = [one_line(fact, 60) for fact in tally["lost"][:_MOST_NAMED]]
    more = f" and {lost - len(named):,} more" if lost > len(named) else ""
    return f"; lost: {', '.join(named)}{more}"


@command(app, rich_help_panel=PANEL)
def clear(
    terminal: Terminal,
    session: Session,
    *,
    drop_system_prompt: Annotated[
        bool, typer.Option("--drop-system-prompt", help="Without the system prompt, too.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Empty a session's log; the system prompt stays. `timeleap undo` brings everything back.

    Example:
        timeleap clear fix-dates --dry-run
    """
    keep = None if not drop_system_prompt else False
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session), dry_run=dry_run)
        before = opened.call("session/getState")
        plan = opened.call("context/clear", keepSystemPrompt=keep, dryRun=True)
        if not terminal.machine:
            say_what_goes(terminal, opened, before, plan)
        if not dry_run:
            terminal.require_consent("Clear?", yes)
            # The head we looked at: what was written meanwhile was not shown.
            seen = {"expectedHead": before["head"]}
            plan = opened.call("context/clear", keepSystemPrompt=keep, **seen, saying="Clearing")
        if terminal.machine:
            terminal.document(plan)
        else:
            done = f"cleared; undo with: timeleap undo {opened.id}"
            terminal.hint("nothing was changed (--dry-run)" if dry_run else done)


@command(app, rich_help_panel=PANEL)
def pins(
    terminal: Terminal,
    session: Session,
    *,
    add: Annotated[list[str] | None, typer.Option("--add", help="Pin this, too; may be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="Pin this no longer; may be repeated.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Begin with none.")] = False,
) -> None:
    """Show or change what no compaction of a session may lose. With nothing to change: show it.

    Examples:
        timeleap pins fix-dates --add "never touch main" --add "port 8042"
        timeleap pins fix-dates --remove "port 8042"
    """
    changes = bool(add or remove or clear)
    with Backend(terminal) as backend:
        target = Target.of(session)
        opened = backend.open_to_write(target) if changes else backend.open_to_read(target)
        present = opened.call("session/getState")
        result = {"head": present["head"], "pins": present.get("pins", [])}
        if changes:
            wanted = _changed([] if clear else result["pins"], add or [], remove or [])
            result = opened.call("context/setPins", pins=wanted, expectedHead=present["head"])
    if terminal.machine:
        terminal.document(result)
    else:
        terminal.say(*(one_line(pin) for pin in result["pins"]))
        if not result["pins"]:
            terminal.hint("nothing is pinned")


def _changed(present: list[str], add: list[str], remove: list[str]) -> list[str]:
    if missing := [pin for pin in remove if pin not in present]:
        raise UsageError(f"not pinned: {', '.join(one_line(pin, 60) for pin in missing)}")
    kept = [pin for pin in present if pin not in remove]
    return [*kept, *(pin for pin in dict.fromkeys(add) if pin not in kept)]
