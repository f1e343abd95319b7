"""Commands that carry sessions out of the store and into it: `export`, `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timeleap.cli.backend import Backend, given, reading
from timeleap.cli.command import command
from timeleap.cli.formatting import Json, count, one_line, size
from timeleap.cli.options import Session
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer(rich_help_panel="Carry")

_BY_SUFFIX = {".zip": "native", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


@command(app)
def export(
    terminal: Terminal,
    session: Session,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write it.", dir_okay=False)] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The same.", dir_okay=False)
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", "-f", help="native, markdown, html; default: by FILE's ending, else native."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Write a session to a file: an archive to import (.zip), Markdown (.md) or one HTML page (.html) for people.

    The archive has everything, timelines and checksums included. What a form cannot carry is said.

    Examples:
        timeleap export fix-dates -o fix-dates.zip
        timeleap export fix-dates notes.md --overwrite
    """
    target = file or output
    if target is None or (file and output):
        raise UsageError("name the file to be written, once")
    by_ending = _BY_SUFFIX.get(target.suffix.lower())
    with reading(terminal, session) as opened:
        result = opened.call(
            "session/export",
            format=form or by_ending or "native",
            path=str(target.expanduser().absolute()),
            overwrite=overwrite or None,
            saying="Exporting",
        )
    guessed = form is None and by_ending is None
    hint = "an archive to import; for people: --format markdown or html" if guessed else ""
    terminal.answer(result, f"{result['path']}  {size(result['bytes'])}", hint=hint)
    _say_losses(terminal, result["losses"])


@command(app, "import")
def import_session(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(help="An archive or a session file; a session's directory.")],
    session: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The new session's id; generated if none is given.")
    ] = None,
    *,
    form: Annotated[
        str | None,
        typer.Option("--format", "-f", help="native, kimi, claude-code, codex; default: by what is in FILE."),
    ] = None,
) -> None:
    """Make a new session of a file, and print its id: an archive, or a session of another program. FILE stays as it is.

    What could not be carried over is said. Approvals start off in the new session.

    Examples:
        timeleap import fix-dates.zip
        timeleap import ~/.codex/sessions/rollout.jsonl old-idea
    """
    params = given(path=str(file.expanduser().absolute()), sessionId=session, format=form)
    with Backend(terminal) as backend:
        state = backend.call("session/import", params, saying="Importing")
    messages = count(state["context"]["messageCount"], "message")
    terminal.answer(state, state["sessionId"], hint=f"with {messages}, in {state['path']}")
    _say_losses(terminal, state["losses"])


def _say_losses(terminal: Terminal, losses: list[Json]) -> None:
    """Print what was not carried over; as a hint, since the result is there all the same."""
    for loss in losses:
        before = "" if loss["kind"] == "size" else "not carried over: "
        terminal.hint(f"{before}{one_line(loss['message'])} ({one_line(loss['kind'])})")
