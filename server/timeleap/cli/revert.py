"""Commands that travel in time: `revert`, `undo`, `redo`, `restore`; `compact`, `clear`, `pins`; `dmail`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from timeleap.cli.backend import OpenSession, change_session, read_state, session_identity, writing
from timeleap.cli.command import (
    DryRun,
    OnlySay,
    Session,
    Yes,
    command,
    complete_session,
    place,
    subcommands,
    text_or_file,
)
from timeleap.cli.file_changes import OnConflict, Restore, plan_lines, refuse_conflicts, restored_line
from timeleap.cli.formatting import ago, count, gist, one_line, safe, size
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json
from timeleap_client.errors import NothingToUndoError

app = Commands()
dmail = subcommands(app, "dmail", "Leave notes to an earlier self, or to another session.")

_COMPARING = "Comparing"
_UNCHANGED = "nothing was changed (--dry-run)"
_MOST_MESSAGES = 12
"""Messages that are named one by one before the rest is only counted."""
_MOST_FACTS = 6
"""Lost facts of one kind that are named before the rest is only counted."""
_FACTS = {
    "paths": "files",
    "identifiers": "names in code",
    "errors": "error messages",
    "todos": "left to do",
    "constraints": "your demands",
}

Steps = Annotated[int, Option("--steps", "-n", metavar="N", min=1, help="How many, as one step.")]
NotAsked = Annotated[bool, Option("--yes", "-y", help="For scripts that say it everywhere: this command does not ask.")]
Heal = Annotated[bool, Option("--heal", help="If tool calls would be left without results, go back to before them.")]


@command(app, unless="message")
def revert(
    terminal: Terminal,
    session: Session,
    checkpoint: Annotated[
        str | None, Argument(metavar="[CHECKPOINT]", help="A checkpoint's id (a number) or its uid.")
    ] = None,
    *,
    message: Annotated[int | None, Option(metavar="N", min=0, help="Go back to before this message instead.")] = None,
    heal: Heal = False,
    restore: Restore = None,
    on_conflict: OnConflict = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Go back to before a checkpoint, or a message: it and all after it leave the log.

    Says exactly what goes and asks first. Nothing is lost: what goes stays as a timeline, and `timeleap undo` brings it
    back. If the session changes while you think, nothing happens. With --restore both the files of its folder go back,
    too, as one step.

    Examples:
        timeleap revert fix-dates 3 --dry-run
        timeleap revert fix-dates 3 --yes
        timeleap revert fix-dates --message 12
        timeleap revert fix-dates 3 --restore both
    """
    if (checkpoint is None) == (message is None):
        raise UsageError("give a CHECKPOINT, or --message N: the number that timeleap show has before a message")
    wanted: Json = {**place(checkpoint), "messageIndex": message, "heal": heal or None}
    wanted |= {"restore": restore, "onConflict": on_conflict}
    with writing(terminal, session, dry_run=dry_run) as opened:
        before = opened.call("session/getState")
        plan = opened.call("context/revertTo", **wanted, dryRun=True, saying=_COMPARING)
        _say_what_goes(terminal, opened, plan, restore)
        if not dry_run:
            refuse_conflicts(plan, on_conflict)
        if terminal.consents(plan, "Revert?", yes=yes, dry_run=dry_run):
            # The head we looked at: of what was written meanwhile the revert would take more than was shown.
            done = opened.call("context/revertTo", **wanted, expectedHead=before["head"], saying="Reverting")
            terminal.answer(done, hint=_done("reverted", opened, done, restore))


def _done(what: str, opened: OpenSession, result: Json, restore: str | None) -> str:
    """Sentence about a change, with the command that takes it back."""
    files = restored_line(result)
    if files and restore == "files":  # no step of the conversation: undo knows nothing of it
        return f"{files.partition(';')[0]}; undo with: timeleap files restore {opened.id} {result['files']['before']}"
    also = f" --restore {restore}" if files and restore else ""
    return f"{what}{f'; {files}' if files else ''}; undo with: timeleap undo {opened.id}{also}"


def _say_what_goes(terminal: Terminal, opened: OpenSession, plan: Json, restore: str | None = None) -> None:
    """Say what the plan of a revert takes: message by message where these are few, then the files."""
    if terminal.machine:
        return
    if restore != "files":
        _say_which_messages_go(terminal, opened, plan)
    terminal.say(*plan_lines(plan))


def _say_which_messages_go(terminal: Terminal, opened: OpenSession, plan: Json) -> None:
    removed, stays = plan["removed"], plan["context"]["messageCount"]
    terminal.say(
        f"This takes {count(removed['messages'], 'message')}, {count(removed['checkpoints'], 'checkpoint')} "
        f"and {count(removed['tokens'], 'token')} out of {opened.id}; {count(stays, 'message')} stay."
    )
    named: Json = {"from": stays, "to": stays + _MOST_MESSAGES}
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
def undo(
    terminal: Terminal,
    session: Session,
    steps: Steps = 1,
    *,
    restore: Restore = None,
    on_conflict: OnConflict = None,
    dry_run: OnlySay = False,
    yes: NotAsked = False,
) -> None:
    """Undo the last revert, clear, compaction, restore or D-Mail; again for the one before it.

    What was appended since is not lost: `timeleap redo` brings it back, as long as nothing else changes the log.

    Examples:
        timeleap undo fix-dates
        timeleap undo fix-dates -n 3 --dry-run
        timeleap undo fix-dates --restore both
    """
    wanted: Json = {"steps": steps, "restore": restore, "onConflict": on_conflict}
    _step(terminal, session, "context/undo", wanted, dry_run=dry_run)


@command(app)
def redo(
    terminal: Terminal,
    session: Session,
    steps: Steps = 1,
    *,
    restore: Restore = None,
    on_conflict: OnConflict = None,
    dry_run: OnlySay = False,
    yes: NotAsked = False,
) -> None:
    """Do again what `timeleap undo` took back, as long as nothing else has changed the log since.

    Examples:
        timeleap redo fix-dates
        timeleap redo fix-dates -n 2
    """
    wanted: Json = {"steps": steps, "restore": restore, "onConflict": on_conflict}
    _step(terminal, session, "context/redo", wanted, dry_run=dry_run)


def _step(terminal: Terminal, session: str, method: str, wanted: Json, *, dry_run: bool) -> None:
    with writing(terminal, session, dry_run=dry_run) as opened:
        known = {timeline["timelineId"]: timeline for timeline in opened.timelines()}
        try:
            done = opened.call(method, **wanted, dryRun=dry_run or None, saying="Going back and forth")
        except NothingToUndoError as error:
            raise UsageError(f"{opened.id}: {error.message}") from error
    if wanted["restore"] == "files":
        terminal.answer(done, *plan_lines(done), hint=_UNCHANGED if dry_run else restored_line(done))
        return
    *before, last = done["steps"]
    lines = [f"past {step.get('timelineId', 'an empty log')} ({step['kind']})" for step in before]
    if (name := last.get("timelineId")) is None:
        lines.append(f"The log {'would be' if dry_run else 'is'} empty again ({last['kind']}).")
    else:
        lines.append(_restored({**known.get(name, {}), "timelineId": name, "reason": last["kind"]}, done, dry_run))
    lines += plan_lines(done) if dry_run else filter(None, [restored_line(done)])
    left = f"{done['canUndo']} to undo, {done['canRedo']} to redo"
    terminal.answer(done, *lines, hint=f"{_UNCHANGED}; it would leave {left}" if dry_run else f"now: {left}")


@command(app)
def restore(
    terminal: Terminal,
    session: Session,
    timeline: Annotated[str, Argument(metavar="TIMELINE", help="Its id, such as context_2; see timeleap log.")],
    *,
    restore: Restore = None,
    on_conflict: OnConflict = None,
    dry_run: DryRun = False,
    yes: NotAsked = False,
) -> None:
    """Make a timeline the present log again; the present log becomes a timeline.

    Example:
        timeleap restore fix-dates context_2
    """
    with writing(terminal, session, dry_run=dry_run) as opened:
        found = next((each for each in opened.timelines() if each["timelineId"] == timeline), {"timelineId": timeline})
        wanted: Json = {"timelineId": timeline, "restore": restore, "onConflict": on_conflict}
        result = opened.call("context/restoreTimeline", **wanted, dryRun=dry_run or None, saying="Restoring")
    lines = [] if restore == "files" else [_restored(found, result, dry_run)]
    lines += plan_lines(result) if dry_run else filter(None, [restored_line(result)])
    terminal.answer(result, *lines, hint=_UNCHANGED if dry_run else "the log before it stays as a timeline")


def _restored(timeline: Json, result: Json, dry_run: bool) -> str:
    set_aside = f", set aside {ago(timeline['createdAt'])}" if timeline.get("createdAt") else ""
    messages, tokens = (result["context"][name] for name in ("messageCount", "tokenCount"))
    return (
        f"{timeline['timelineId']} ({timeline.get('reason', 'unknown')}{set_aside}) "
        f"{'would become' if dry_run else 'is'} the log again: {count(messages, 'message')}, {count(tokens, 'token')}."
    )


@command(app)
def compact(
    terminal: Terminal,
    session: Session,
    *,
    keep: Annotated[int | None, Option(min=1, help="Newest messages to keep as they are.")] = None,
    instruction: Annotated[str | None, Option(help="What the summary should look at.")] = None,
    summarizer: Annotated[
        Literal["auto", "server", "builtin"] | None, Option(help="Who summarises; builtin needs no model.")
    ] = None,
    summary: Annotated[str | None, Option(help="Your own summary; @FILE takes it from a file.")] = None,
    pin: Annotated[list[str] | None, Option(help="What the summary must hold word for word; may be repeated.")] = None,
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
    done = f"undo with: timeleap undo {opened.id}" if result["compacted"] else "nothing was changed"
    terminal.answer(result, *compaction_lines(result, dry_run), hint=_UNCHANGED if dry_run else done)


def compaction_lines(result: Json, dry_run: bool) -> Iterator[str]:
    """Lines about a compaction, with the scorecard of its summary: facts kept and facts lost."""
    if dry_run and (lines := (result.get("summary") or "").splitlines()):
        yield from (f"    {safe(line)}" for line in lines)
        yield ""
    if not result["compacted"]:
        yield f"not compacted: {one_line(result.get('reason', 'there is nothing to compact'))}"
    else:
        became, stayed = ("would become", "would stay") if dry_run else ("became", "stayed")
        yield (
            f"{count(result['removedMessages'], 'message')} {became} a summary, "
            f"{count(result['preservedMessages'], 'message')} {stayed}: "
            f"{result['tokenCountBefore']:,} → {result['tokenCountAfter']:,} tokens, "
            f"log {size(result['context']['logBytes'])}"
        )
    for name, tally in (result.get("scorecard") or {}).items():
        named = ", ".join(one_line(fact, 60) for fact in tally["lost"][:_MOST_FACTS])
        lost = tally["found"] - tally["kept"]
        more = lost - len(tally["lost"][:_MOST_FACTS])
        what = f"; lost: {named}{f' and {more:,} more' if more > 0 else ''}" if lost else ""
        if tally["found"]:
            yield f"  {_FACTS.get(name, name):<15} {tally['kept']:,} of {tally['found']:,} kept{what}"
    if (pins := result.get("pins")) is not None:
        yield f"  {'pins':<15} {pins['kept']:,} in the summary, {len(pins['added']):,} added to it word for word"
        yield from (f"    + {one_line(pin, 100)}" for pin in pins["added"])


@command(app)
def clear(
    terminal: Terminal,
    session: Session,
    *,
    drop_system_prompt: Annotated[bool, Option("--drop-system-prompt", help="Without the system prompt, too.")] = False,
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
        _say_what_goes(terminal, opened, plan)
        if terminal.consents(plan, "Clear?", yes=yes, dry_run=dry_run):
            # The head we looked at: what was written meanwhile was not shown.
            done = opened.call("context/clear", keepSystemPrompt=keep, expectedHead=before["head"], saying="Clearing")
            terminal.answer(done, hint=f"cleared; undo with: timeleap undo {opened.id}")


@command(app)
def pins(
    terminal: Terminal,
    session: Session,
    *,
    add: Annotated[list[str] | None, Option(help="Pin this, too; may be repeated.")] = None,
    remove: Annotated[list[str] | None, Option(help="Pin this no longer; may be repeated.")] = None,
    clear: Annotated[bool, Option("--clear", help="Begin with none.")] = False,
) -> None:
    """Show or change what no compaction of a session may lose. With nothing to change: show it.

    Examples:
        timeleap pins fix-dates --add "never touch main" --add "port 8042"
        timeleap pins fix-dates --remove "port 8042"
    """
    changes = bool(add or remove or clear)
    with writing(terminal, session, dry_run=not changes) as opened:
        present = opened.call("session/getState")
        result = {"head": present["head"], "pins": present.get("pins", [])}
        if changes:
            pinned = [] if clear else result["pins"]
            if missing := [pin for pin in remove or [] if pin not in pinned]:
                raise UsageError(f"not pinned: {', '.join(one_line(pin, 60) for pin in missing)}")
            kept = [pin for pin in pinned if pin not in (remove or [])]
            kept += [pin for pin in dict.fromkeys(add or []) if pin not in kept]
            result = opened.call("context/setPins", pins=kept, expectedHead=present["head"])
    hint = "" if result["pins"] else "nothing is pinned"
    terminal.answer(result, *(one_line(pin) for pin in result["pins"]), hint=hint)


@command(dmail)
def send(
    terminal: Terminal,
    session: Session,
    text: Annotated[list[str], Argument(help="The note; @FILE or - takes it from there.")],
    *,
    at: Annotated[
        str | None, Option("--at", metavar="CHECKPOINT", help="Whose self gets it: number, label or uid.")
    ] = None,
    to: Annotated[
        str | None,
        Option("--to", metavar="SESSION", help="Another session that gets it.", complete=complete_session),
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
        where: Json = {}
        if to is not None:
            identity = session_identity(to)
            where = {"toPath": identity["path"]} if "path" in identity else {"toSessionId": to}
        if at is not None:
            receiver = opened if to is None else opened.backend.open(to)
            where["checkpointUid"] = receiver.uid(at)
            if to is not None:
                receiver.call("session/close")  # open to read it takes no note
        result = opened.call("context/sendDMail", message=note, **where)
    whom = one_line(to or opened.id)
    if (waiting := result["pendingDMail"]) is None:
        terminal.answer(result, f"the note stands at the end of {whom}")
    else:
        hint = f"timeleap dmail deliver {whom} takes the session back to it"
        terminal.answer(result, f"the note waits in {whom} for checkpoint #{waiting['checkpointId']}", hint=hint)


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
    terminal: Terminal,
    session: Session,
    *,
    heal: Heal = False,
    restore: Restore = None,
    on_conflict: OnConflict = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Go back to the D-Mail's checkpoint and put the note there, as one step. `timeleap undo` takes it back.

    Examples:
        timeleap dmail deliver fix-dates --dry-run
        timeleap dmail deliver fix-dates --yes
    """
    healing: Json = {"heal": heal or None, "restore": restore, "onConflict": on_conflict}
    with writing(terminal, session, dry_run=dry_run) as opened:
        before = opened.call("session/getState")
        result = opened.call("context/deliverDMail", **healing, dryRun=True)
        if not terminal.machine:
            waiting = before["pendingDMail"]
            # The delivery's own plan counts the note in; what goes is what a revert to there would take.
            plan = opened.call("context/revertTo", checkpointUid=waiting["checkpointUid"], **healing, dryRun=True)
            _say_what_goes(terminal, opened, plan, restore)
            terminal.say(f"At checkpoint #{waiting['checkpointId']} it puts: {one_line(waiting['message'], 200)}")
        if not dry_run:
            refuse_conflicts(result, on_conflict)
        if terminal.consents(result, "Deliver?", yes=yes, dry_run=dry_run):
            done = opened.call("context/deliverDMail", **healing, expectedHead=before["head"], saying="Delivering")
            terminal.answer(done, hint=_done("delivered", opened, done, restore))


@command(dmail)
def cancel(terminal: Terminal, session: Session) -> None:
    """Drop the D-Mail that waits in a session.

    Example:
        timeleap dmail cancel fix-dates
    """
    terminal.answer(change_session(terminal, session, "context/cancelDMail"), "dropped")
