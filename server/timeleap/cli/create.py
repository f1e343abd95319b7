"""Commands that add: `new`, `append`, `checkpoint`, `fork`; and records of a session file as requests."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from timeleap.cli.backend import Backend, OpenSession, given, reading, refusal, writing
from timeleap.cli.command import Session, command, place, text_or_file
from timeleap.cli.file_changes import Exclude, say_advice, snapshot_words
from timeleap.cli.formatting import count, one_line
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json
from timeleap_client.errors import TimeleapRpcError

app = Commands()

_EXAMPLE = '{"role": "user", "content": "..."}'
_BATCH_MESSAGES = 100
_BATCH_BYTES = 4 * 1024 * 1024


@command(app)
def new(
    terminal: Terminal,
    session: Annotated[str | None, Argument(metavar="[ID]", help="Its id; generated if none is given.")] = None,
    *,
    title: Annotated[str | None, Option(help="A title for people.")] = None,
    system_prompt: Annotated[str | None, Option(help="Text; @FILE takes it from a file.")] = None,
    workspace: Annotated[Path | None, Option(help="The directory the agent works in.", file_okay=False)] = None,
    auto_checkpoint: Annotated[
        Literal["off", "turn", "step"] | None,
        Option(help="turn: a checkpoint before each turn of the user; step: before each reply, too."),
    ] = None,
    files: Annotated[
        Literal["checkpoint", "turn"] | None,
        Option(
            "--files",
            metavar="[checkpoint|turn]",
            alone="checkpoint",
            help="Save the workspace's files with each checkpoint; turn: at each end of a turn, too.",
        ),
    ] = None,
    exclude: Exclude = None,
) -> None:
    """Make a session, and print its id. With --files its workspace is this folder, unless another one is named.

    Examples:
        timeleap new fix-dates --title "Dates before 1970"
        id=$(timeleap new --system-prompt @prompt.md)
        timeleap new fix-dates --files --exclude build/
    """
    if exclude and files is None:
        raise UsageError("--exclude goes with --files")
    if files is not None and workspace is None:
        workspace = Path.cwd()
    params = given(
        sessionId=session,
        title=title,
        systemPrompt=text_or_file(system_prompt),
        workspace=None if workspace is None else workspace.absolute().as_uri(),
        autoCheckpoint=auto_checkpoint,
        files=None if files is None else given(mode=files, exclude=exclude or None),
    )
    with Backend(terminal) as backend:
        if session is not None:
            try:
                backend.call("session/getState", {"sessionId": session})
                raise refusal(4016, "sessionExists", f"there is a session {session} already")
            except TimeleapRpcError as error:
                if error.kind != "sessionNotFound":
                    raise
        state = backend.call("session/open", params)
    terminal.answer(state, state["sessionId"], hint=f"in {state['path']}")
    if problem := (state.get("files") or {}).get("problem"):
        terminal.hint(f"its files are not saved: {one_line(problem['message'])}")
        say_advice(terminal, problem, state["sessionId"])


@command(app)
def append(
    terminal: Terminal,
    session: Session,
    text: Annotated[
        list[str] | None, Argument(help="The text of one message; - takes it from the standard input.")
    ] = None,
    role: Annotated[str | None, Option("--role", "-r", help="Whose words TEXT, or all of the input, is.")] = None,
    atomic: Annotated[bool, Option("--atomic", help="All lines of the input as one step, or none.")] = False,
) -> None:
    """Append messages: text, or JSON lines from the standard input.

    Without TEXT and --role each line of the input is one message. They are written as they arrive, so that the command
    can stand at the end of a pipe for as long as an agent runs. Lines of another session's log are welcome:
    checkpoints, token counts and system prompts in it become checkpoints, token counts and system prompts.

    Examples:
        timeleap append fix-dates "Why is 1969 wrong?"
        git diff | timeleap append fix-dates --role tool
        agent --json-lines | timeleap append fix-dates
        timeleap append copy < ~/sessions/old/context.jsonl
    """
    with writing(terminal, session) as opened:
        if text or role is not None:
            if (role or "").startswith("_"):
                raise UsageError(
                    f"--role {role}: roles that begin with _ are no messages; timeleap checkpoint, timeleap tokens --set "
                    "and timeleap system-prompt write what they stand for"
                )
            words = sys.stdin.read() if text in (None, [], ["-"]) else " ".join(text or ())
            batches: Iterable[list[Json]] = [[{"role": role or "user", "content": words}]]
        elif atomic:
            batches = [[record for number, line in enumerate(sys.stdin, 1) if (record := parse(line, number))]]
        else:
            batches = _as_they_come()
        _send(terminal, opened, batches, atomic)


def _send(terminal: Terminal, opened: OpenSession, batches: Iterable[list[Json]], atomic: bool) -> None:
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
    result = {"sessionId": opened.id, "head": head, "messages": messages}
    terminal.answer(result, f"appended {count(messages, 'message')} to {opened.id}")


def _as_they_come() -> Iterator[list[Json]]:
    """The records of the standard input, as many at a time as there are: what came is written before more."""
    lines: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()

    def read() -> None:
        for numbered in enumerate(sys.stdin, 1):
            lines.put(numbered)
        lines.put(None)

    threading.Thread(target=read, name="timeleap-stdin", daemon=True).start()
    ended = False
    while not ended:
        taken = [lines.get()]
        while len(taken) < _BATCH_MESSAGES and taken[-1] is not None and not lines.empty():
            taken.append(lines.get())
        ended = taken[-1] is None
        records: list[Json] = []
        for number, line in filter(None, taken):
            try:
                record = parse(line, number)
            except UsageError:
                yield records  # what came before the bad line is good, and is kept
                raise
            if record is not None:
                records.append(record)
        yield records


@command(app)
def checkpoint(
    terminal: Terminal,
    session: Session,
    label: Annotated[list[str] | None, Argument(help="What to call it.")] = None,
    add_user_message: Annotated[bool, Option("--add-user-message", help="Tell the model of it, by a message.")] = False,
    files: Annotated[
        bool | None, Option("--files/--no-files", help="Save the files with it, or not (default: as the session says).")
    ] = None,
) -> None:
    """Write a checkpoint: a place to come back to, with the files of its folder where the session saves them.

    Example:
        timeleap checkpoint fix-dates before the rewrite
    """
    name = " ".join(label) if label else None
    with writing(terminal, session) as opened:
        result = opened.call(
            "context/checkpoint",
            label=name,
            addUserMessage=add_user_message or None,
            files=files,
            saying="Saving files",
        )
    made = result["checkpoint"]
    words = f"checkpoint #{made['id']} ({made['uid']}) after {count(made['messageCount'], 'message')}"
    terminal.answer(result, words)
    if made.get("files"):
        terminal.hint(snapshot_words(made["files"]))
        if "error" in made["files"]:
            say_advice(terminal, made["files"]["error"], opened.id)


@command(app)
def fork(
    terminal: Terminal,
    session: Session,
    new_id: Annotated[
        str | None, Argument(metavar="[NEW-ID]", help="The new session's id; generated if none is given.")
    ] = None,
    *,
    at: Annotated[
        str | None, Option("--at", metavar="CHECKPOINT", help="Take the history up to this checkpoint only.")
    ] = None,
    timeline: Annotated[
        str | None, Option(metavar="TIMELINE", help="Take what was set aside as this instead of the present log.")
    ] = None,
    title: Annotated[str | None, Option(help="The new session's title.")] = None,
) -> None:
    """Copy a session's history into a new session, whole or up to a checkpoint; also that of a timeline.

    Approvals start off in the copy; its parent is recorded.

    Examples:
        timeleap fork fix-dates other-way --at 3
        timeleap fork fix-dates as-it-was --timeline context_2
    """
    with reading(terminal, session) as source:
        state = source.call(
            "session/fork", newSessionId=new_id, title=title, timelineId=timeline, **place(at), saying="Copying"
        )
    messages = count(state["context"]["messageCount"], "message")
    terminal.answer(state, state["sessionId"], hint=f"with {messages}, in {state['path']}")


class ReplayStep(NamedTuple):
    """A request, without its session, and how many messages it appends."""

    method: str
    params: Json
    messages: int = 0


def parse(line: str, number: int) -> Json | None:
    """The record on a line, which has a role; None for a blank one."""
    if not line.strip():
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        problem = f"line {number} is no JSON object such as {_EXAMPLE}: {error}"
        raise UsageError(f"{problem}. If it is text: timeleap append SESSION - appends it as one message") from None
    if not isinstance(record, dict) or not isinstance(record.get("role"), str):
        raise UsageError(f"line {number} is no message: {_EXAMPLE} is one")
    return record


def steps(
    records: Iterable[Json], batch_messages: int = _BATCH_MESSAGES, batch_bytes: int = _BATCH_BYTES
) -> Iterator[ReplayStep]:
    """The requests that bring these records into a session, in order; messages in a row go together.

    Control records become what they stand for: checkpoints (the new session numbers them itself), token counts, system
    prompts. Other roles with an underscore are private to the program that wrote them and are left out.
    """
    batch: list[Json] = []
    held = 0
    for record in records:
        step = _control(record)
        if step is None and not record["role"].startswith("_"):
            message = {name: value for name, value in record.items() if name != "_tl"}
            batch.append(message)
            held += len(json.dumps(message))
        if batch and (step is not None or len(batch) >= batch_messages or held >= batch_bytes):
            yield ReplayStep("context/appendMessage", {"messages": batch}, len(batch))
            batch, held = [], 0
        if step is not None:
            yield step
    if batch:
        yield ReplayStep("context/appendMessage", {"messages": batch}, len(batch))


def _control(record: Json) -> ReplayStep | None:
    role = record["role"]
    if role == "_checkpoint":
        marks = record.get("_tl")
        label = marks.get("l") if isinstance(marks, dict) else None
        return ReplayStep("context/checkpoint", {"label": label} if isinstance(label, str) else {})
    if role == "_usage" and isinstance(record.get("token_count"), int):
        return ReplayStep("context/updateTokenCount", {"tokenCount": max(0, record["token_count"])})
    if role == "_system_prompt" and isinstance(record.get("content"), str):
        return ReplayStep("context/setSystemPrompt", {"systemPrompt": record["content"]})
    return None
