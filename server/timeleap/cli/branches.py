"""Commands for branches that come home: `fold`, `edit`, `merge`."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from timeleap.cli.backend import OpenSession, writing
from timeleap.cli.command import DryRun, Session, Yes, command, text_or_file
from timeleap.cli.file_changes import OnConflict, Restore, plan_lines, refuse_conflicts, restored_line
from timeleap.cli.formatting import count, one_line, safe
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.revert import compaction_lines
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json

app = Commands()

_UNCHANGED = "nothing was changed (--dry-run)"
_PLACE = "A message's number, or a checkpoint's uid."


@command(app)
def fold(
    terminal: Terminal,
    session: Session,
    start: Annotated[str, Argument(metavar="FROM", help=_PLACE)],
    stop: Annotated[str, Argument(metavar="TO", help="The same; the message there stays.")],
    *,
    drop: Annotated[bool, Option("--drop", help="Put nothing in their place.")] = False,
    summary: Annotated[str | None, Option(help="Your own summary; @FILE takes it from a file.")] = None,
    instruction: Annotated[str | None, Option(help="What the summary should look at.")] = None,
    summarizer: Annotated[
        Literal["auto", "server", "builtin"] | None, Option(help="Who summarises; builtin needs no model.")
    ] = None,
    pin: Annotated[list[str] | None, Option(help="What the summary must hold word for word; may be repeated.")] = None,
    strict: Annotated[bool, Option("--strict", help="Refuse to take more than this for whole tool calls.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Put a summary, or nothing, in the place of some messages.

    Says first what goes, and asks. A tool call is never parted from its result: the range grows where it has to.
    `timeleap undo` brings the messages back.

    Examples:
        timeleap fold fix-dates 12 40 --summarizer builtin --dry-run
        timeleap fold fix-dates 12 40 --drop --yes
    """
    wanted: Json = {
        "from": _place(start),
        "to": _place(stop),
        "drop": drop or None,
        "summary": text_or_file(summary),
        "customInstruction": instruction,
        "summarizer": summarizer,
        "pins": pin or None,
        "strict": strict or None,
    }
    with writing(terminal, session, dry_run=dry_run) as opened:
        head = opened.call("session/getState")["head"]
        plan = opened.call("context/fold", **wanted, dryRun=True, saying="Summarising")
        if not plan["compacted"]:
            terminal.answer(plan, *compaction_lines(plan, dry_run=True), hint="nothing was changed")
            return
        if not terminal.machine:
            terminal.say(*_folded_lines(plan))
        if terminal.consents(plan, "Fold?", yes=yes, dry_run=dry_run):
            if not drop:  # the summary that was shown, not another one
                wanted |= {"summary": plan["summary"], "summarizer": None, "customInstruction": None}
            done = opened.call("context/fold", **wanted, expectedHead=head, saying="Folding")
            terminal.answer(done, hint=f"folded; undo with: timeleap undo {opened.id}")


def _place(name: str) -> Json:
    if name.isdecimal():
        return {"messageIndex": int(name)}
    return {"checkpointUid": name}


def _folded_lines(plan: Json) -> list[str]:
    folded = plan["folded"]
    became = "a summary" if plan.get("summary") is not None else "nothing"
    stay = count(plan["preservedMessages"], "message")
    head = f"Messages {folded['from']} to {folded['to'] - 1} ({folded['messages']}) would become {became}; {stay} stay."
    return [head, *compaction_lines(plan, dry_run=True)]


@command(app)
def edit(
    terminal: Terminal,
    session: Session,
    number: Annotated[int, Argument(metavar="N", min=0, help="The number timeleap show has before it.")],
    text: Annotated[str | None, Argument(metavar="[-]", help="- takes the new text from the input.")] = None,
    *,
    heal: Annotated[bool, Option("--heal", help="If it stands amid tool calls, go back to before them.")] = False,
    restore: Restore = None,
    on_conflict: OnConflict = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Change a message and go on from there: all after it is set aside.

    The text comes from the editor that VISUAL or EDITOR names. `timeleap undo` brings back what was there.

    Examples:
        timeleap edit fix-dates 12
        echo "Use tabs." | timeleap edit fix-dates 12 - --yes
    """
    if text not in (None, "-"):
        raise UsageError("the new text comes from the editor, or with - from the standard input")
    with writing(terminal, session, dry_run=dry_run) as opened:
        head, message = opened.call("session/getState")["head"], _message(opened, number)
        written = text_or_file("-") if text == "-" else _edited(_text_of(message))
        changed = {**message, "content": (written or "").rstrip("\n")}
        wanted: Json = {"messageIndex": number, "message": changed, "heal": heal or None}
        wanted |= {"restore": restore, "onConflict": on_conflict}
        plan = opened.call("context/replaceMessage", **wanted, dryRun=True, saying="Comparing")
        removed, stays = plan["removed"], plan["context"]["messageCount"]
        if not terminal.machine:
            gone = count(removed["messages"], "message")
            terminal.say(f"[{plan['firstIndex']}] {one_line(changed['content'], 100)}", *plan_lines(plan))
            terminal.say(f"Message {number} becomes this, and {gone} after it are set aside; {stays} stay.")
        if not dry_run:
            refuse_conflicts(plan, on_conflict)
        if terminal.consents(plan, "Change it?", yes=yes, dry_run=dry_run):
            done = opened.call("context/replaceMessage", **wanted, expectedHead=head, saying="Changing")
            files = restored_line(done)
            also = f"; {files}" if files else ""
            terminal.answer(done, hint=f"changed{also}; undo with: timeleap undo {opened.id}")


@command(app)
def merge(
    terminal: Terminal,
    branch: Annotated[str, Argument(metavar="FROM", help="The session that is summed up; it stays as it is.")],
    into: Annotated[str, Option("--into", metavar="SESSION", help="The session that gets it.")] = "last",
    *,
    since: Annotated[str | None, Option(metavar="PLACE", help="Where FROM begins to count; a number or a uid.")] = None,
    summary: Annotated[str | None, Option(help="Your own summary; @FILE takes it from a file.")] = None,
    instruction: Annotated[str | None, Option(help="What the summary should look at.")] = None,
    summarizer: Annotated[
        Literal["auto", "server", "builtin"] | None, Option(help="Who summarises; builtin needs no model.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Append a summary of another session, a side branch say.

    Says first what would be appended, and asks. It stands behind a checkpoint: go back to that to be rid of it.

    Examples:
        timeleap merge try-tabs --into fix-dates --summarizer builtin
        timeleap merge try-tabs --into fix-dates --summary @found.md --yes
    """
    wanted: Json = {
        "from": branch,
        "since": None if since is None else _place(since),
        "summary": text_or_file(summary),
        "customInstruction": instruction,
        "summarizer": summarizer,
    }
    with writing(terminal, into, dry_run=dry_run) as opened:
        head = opened.call("session/getState")["head"]
        plan = opened.call("session/merge", **wanted, dryRun=True, saying="Summarising")
        if not terminal.machine:
            messages = count(plan["from"]["messages"], "message")
            terminal.say(*(f"  | {safe(line)}" for line in plan["summary"].splitlines()))
            terminal.say(f"This sums up {messages} of {branch} behind a new checkpoint of {opened.id}.")
        if terminal.consents(plan, "Merge?", yes=yes, dry_run=dry_run):
            wanted |= {"summary": plan["summary"], "summarizer": None, "customInstruction": None}
            done = opened.call("session/merge", **wanted, expectedHead=head, saying="Merging")
            uid = done["checkpoint"]["uid"]
            terminal.answer(done, hint=f"merged; be rid of it with: timeleap revert {opened.id} {uid}")


def _message(opened: OpenSession, number: int) -> Json:
    place: Json = {"from": number, "to": number + 1}
    found = opened.call("context/getHistory", **place)["messages"]
    if not found:
        raise UsageError(f"{opened.id} has no message {number}")
    message: Json = found[0]["message"]
    return message


def _text_of(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, list):
        if any(part.get("type") != "text" for part in content):
            raise UsageError(
                "the message has parts that are no text: change it with timeleap call context/replaceMessage"
            )
        return "\n".join(part["text"] for part in content)
    return content or ""


def _edited(text: str) -> str:
    """The text as the user's editor leaves it."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("set VISUAL or EDITOR to an editor, or give the text on the standard input with -")
    with tempfile.TemporaryDirectory(prefix="timeleap-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"the editor {editor} failed: {error}") from error
        return file.read_text(encoding="utf-8")
