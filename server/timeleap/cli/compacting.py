"""Commands that shorten a log: `compact`, `clear`; and what a summary must keep: `pins`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from timeleap.cli.backend import Backend, session_identity, writing
from timeleap.cli.command import command
from timeleap.cli.formatting import Json, count, one_line, safe, size
from timeleap.cli.options import DryRun, Session, Yes, text_or_file
from timeleap.cli.revert import UNCHANGED, say_what_goes
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer(rich_help_panel="Travel in time")

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


@command(app)
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
    with writing(terminal, session, dry_run=dry_run) as opened:
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
    summary_lines = (result.get("summary") or "").splitlines() if dry_run else []
    shown = [f"    {safe(line)}" for line in summary_lines]
    done = f"undo with: timeleap undo {opened.id}" if result["compacted"] else "nothing was changed"
    hint = UNCHANGED if dry_run else done
    terminal.answer(result, *shown, *([""] if shown else []), _outcome(result, dry_run), *_scored(result), hint=hint)


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


@command(app)
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
    keep = False if drop_system_prompt else None
    with writing(terminal, session, dry_run=dry_run) as opened:
        before = opened.call("session/getState")
        plan = opened.call("context/clear", keepSystemPrompt=keep, dryRun=True)
        say_what_goes(terminal, opened, plan)
        if not terminal.consents(plan, "Clear?", yes=yes, dry_run=dry_run):
            return
        # The head we looked at: what was written meanwhile was not shown.
        done = opened.call("context/clear", keepSystemPrompt=keep, expectedHead=before["head"], saying="Clearing")
        terminal.answer(done, hint=f"cleared; undo with: timeleap undo {opened.id}")


@command(app)
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
        opened = backend.open(session_identity(session), write=changes)
        present = opened.call("session/getState")
        result = {"head": present["head"], "pins": present.get("pins", [])}
        if changes:
            wanted = _changed([] if clear else result["pins"], add or [], remove or [])
            result = opened.call("context/setPins", pins=wanted, expectedHead=present["head"])
    hint = "" if result["pins"] else "nothing is pinned"
    terminal.answer(result, *(one_line(pin) for pin in result["pins"]), hint=hint)


def _changed(present: list[str], add: list[str], remove: list[str]) -> list[str]:
    if missing := [pin for pin in remove if pin not in present]:
        raise UsageError(f"not pinned: {', '.join(one_line(pin, 60) for pin in missing)}")
    kept = [pin for pin in present if pin not in remove]
    return [*kept, *(pin for pin in dict.fromkeys(add) if pin not in kept)]
