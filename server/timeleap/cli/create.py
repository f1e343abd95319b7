"""Commands that add: `new`, `append`, `checkpoint`, `fork`."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from timeleap.cli.arguments import Session, place, text_or_file
from timeleap.cli.backend import Backend, OpenSession, Target
from timeleap.cli.command import command
from timeleap.cli.formatting import count
from timeleap.cli.replay import BATCH_MESSAGES, Json, parse, steps
from timeleap.cli.terminal import Terminal, UsageError
from timeleap_client.errors import TimeleapRpcError

app = typer.Typer()
PANEL = "Write"


@command(app, rich_help_panel=PANEL)
def new(
    terminal: Terminal,
    session: Annotated[str | None, typer.Argument(metavar="[ID]", help="Its id; generated if none is given.")] = None,
    *,
    title: Annotated[str | None, typer.Option(help="A title for people.")] = None,
    system_prompt: Annotated[str | None, typer.Option(help="Text; @FILE takes it from a file.")] = None,
    workspace: Annotated[Path | None, typer.Option(help="The directory the agent works in.", file_okay=False)] = None,
    auto_checkpoint: Annotated[
        Literal["off", "turn", "step"] | None,
        typer.Option(help="turn: a checkpoint before each turn of the user; step: before each reply, too."),
    ] = None,
) -> None:
    """Make a session, and print its id.

    Examples:
        timeleap new fix-dates --title "Dates before 1970"
        id=$(timeleap new --system-prompt @prompt.md)
    """
    members = {
        "sessionId": session,
        "title": title,
        "systemPrompt": text_or_file(system_prompt),
        "workspace": None if workspace is None else workspace.absolute().as_uri(),
        "autoCheckpoint": auto_checkpoint,
    }
    with Backend(terminal) as backend:
        if session is not None:
            _refuse_existing(backend, session)
        state = backend.call("session/open", {name: value for name, value in members.items() if value is not None})
    if terminal.machine:
        terminal.document(state)
    else:
        terminal.say(state["sessionId"])
        terminal.hint(f"in {state['path']}")


def _refuse_existing(backend: Backend, session_id: str) -> None:
    try:
        backend.call("session/getState", {"sessionId": session_id})
    except TimeleapRpcError as error:
        if error.kind != "sessionNotFound":
            raise
    else:
        data = {"kind": "sessionExists", "retryable": False}
        raise TimeleapRpcError(4016, "sessionExists", f"there is a session {session_id} already", data, retryable=False)


@command(app, rich_help_panel=PANEL)
def append(
    terminal: Terminal,
    session: Session,
    text: Annotated[list[str] | None, typer.Argument(help="The text of one message.")] = None,
    role: Annotated[str | None, typer.Option("--role", "-r", help="Whose words TEXT, or all of the input, is.")] = None,
    atomic: Annotated[bool, typer.Option("--atomic", help="All lines of the input as one step, or none.")] = False,
) -> None:
    """Append messages: text, or JSON lines from the standard input.

    Without TEXT and --role each line of the input is one message. They are written as they arrive, so that the command
    can stand at the end of a pipe for as long as an agent runs. Lines of another session's log are welcome: checkpoints,
    token counts and system prompts in it become checkpoints, token counts and system prompts.

    Examples:
        timeleap append fix-dates "Why is 1969 wrong?"
        git diff | timeleap append fix-dates --role tool
        agent --json-lines | timeleap append fix-dates
        timeleap append copy < ~/sessions/old/context.jsonl
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session))
        if text or role is not None:
            words = " ".join(text) if text else sys.stdin.read()
            batches: Iterable[list[Json]] = [[{"role": role or "user", "content": words}]]
        elif atomic:
            batches = [[record for number, line in enumerate(sys.stdin, 1) if (record := parse(line, number))]]
        else:
            batches = _as_they_come()
        _append(terminal, opened, batches, atomic)


def _append(terminal: Terminal, opened: OpenSession, batches: Iterable[list[Json]], atomic: bool) -> None:
    messages, head = 0, opened.state["head"]
    for records in batches:
        requests = list(steps(records, sys.maxsize, sys.maxsize) if atomic else steps(records))
        if atomic and len(requests) > 1:
            raise UsageError(
                "--atomic takes messages only: checkpoints, token counts and prompts are steps of their own"
            )
        for step in requests:
            head = opened.call(step.method, **step.params)["head"]
            messages += step.messages
    if terminal.machine:
        terminal.document({"sessionId": opened.id, "head": head, "messages": messages})
    else:
        terminal.say(f"appended {count(messages, 'message')} to {opened.id}")


def _as_they_come() -> Iterator[list[Json]]:
    """The records of the standard input, as many at a time as there are; what came is written before more is awaited."""
    lines: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()

    def read() -> None:
        for number, line in enumerate(sys.stdin, 1):
            lines.put((number, line))
        lines.put(None)

    threading.Thread(target=read, name="timeleap-stdin", daemon=True).start()
    ended = False
    while not ended:
        taken = [lines.get()]
        while len(taken) < BATCH_MESSAGES and taken[-1] is not None and not lines.empty():
            taken.append(lines.get())
        ended = taken[-1] is None
        records: list[Json] = []
        for entry in taken:
            try:
                record = parse(entry[1], entry[0]) if entry is not None else None
            except UsageError:
                yield records  # what came before the bad line is good, and is kept
                raise
            if record is not None:
                records.append(record)
        yield records


@command(app, rich_help_panel=PANEL)
def checkpoint(
    terminal: Terminal,
    session: Session,
    label: Annotated[list[str] | None, typer.Argument(help="What to call it.")] = None,
    add_user_message: Annotated[
        bool, typer.Option("--add-user-message", help="Tell the model of it, by a message.")
    ] = False,
) -> None:
    """Write a checkpoint: a place to come back to.

    Example:
        timeleap checkpoint fix-dates before the rewrite
    """
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session))
        result = opened.call(
            "context/checkpoint", label=" ".join(label) if label else None, addUserMessage=add_user_message or None
        )
    if terminal.machine:
        terminal.document(result)
    else:
        made = result["checkpoint"]
        terminal.say(f"checkpoint #{made['id']} ({made['uid']}) after {count(made['messageCount'], 'message')}")


@command(app, rich_help_panel=PANEL)
def fork(
    terminal: Terminal,
    session: Session,
    new_id: Annotated[
        str | None, typer.Argument(metavar="[NEW-ID]", help="The new session's id; generated if none is given.")
    ] = None,
    *,
    at: Annotated[
        str | None, typer.Option("--at", metavar="CHECKPOINT", help="Take the history up to this checkpoint only.")
    ] = None,
    timeline: Annotated[
        str | None, typer.Option(metavar="TIMELINE", help="Take what was set aside as this instead of the present log.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The new session's title.")] = None,
) -> None:
    """Copy a session's history into a new session, whole or up to a checkpoint; also that of a timeline.

    Approvals start off in the copy; its parent is recorded.

    Examples:
        timeleap fork fix-dates other-way --at 3
        timeleap fork fix-dates as-it-was --timeline context_2
    """
    members = {"newSessionId": new_id, "title": title, "timelineId": timeline, **place(at)}
    with Backend(terminal) as backend:
        source = backend.open_to_read(Target.of(session))
        state = source.call("session/fork", saying="Copying", **members)
    if terminal.machine:
        terminal.document(state)
    else:
        terminal.say(state["sessionId"])
        terminal.hint(f"with {count(state['context']['messageCount'], 'message')}, in {state['path']}")
