"""Commands that carry sessions out of the store and into it: `export`, `import`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from timeleap import user_folders
from timeleap.cli.backend import Backend, given, reading
from timeleap.cli.command import Session, command
from timeleap.cli.formatting import count, one_line, size
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json

app = Commands()

_BY_SUFFIX = {".zip": "native", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


@command(app)
def export(
    terminal: Terminal,
    session: Session,
    file: Annotated[Path | None, Argument(metavar="[FILE]", help="Where to write it.", dir_okay=False)] = None,
    *,
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="The same.", dir_okay=False)] = None,
    form: Annotated[
        str | None, Option("--format", "-f", help="native, markdown, html; default: by FILE's ending, else native.")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace a file that is there.")] = False,
    files: Annotated[bool, Option("--with-files", help="Take the snapshots of its files along (archives).")] = False,
    keep_secrets: Annotated[
        bool, Option("--keep-secrets", help="Leave what looks like a secret in Markdown and HTML.")
    ] = False,
) -> None:
    """Write a session to a file: an archive to import (.zip), Markdown (.md) or one HTML page (.html) for people.

    The archive has everything, timelines and checksums included. For people what looks like a secret is masked: keys,
    tokens, passwords; a password in a sentence is not found. What a form cannot carry is said.

    Examples:
        timeleap export fix-dates -o fix-dates.zip
        timeleap export fix-dates notes.md --overwrite
        timeleap export fix-dates fix-dates.zip --with-files
    """
    target = file or output
    if target is None or (file and output):
        raise UsageError("name the file to be written, once")
    chosen = form or _BY_SUFFIX.get(target.suffix.lower())
    path = str(user_folders.absolute(target))
    with reading(terminal, session) as opened:
        params = given(format=chosen or "native", path=path, overwrite=overwrite or None, withFiles=files or None)
        params |= given(keepSecrets=keep_secrets or None)
        result = opened.call("session/export", **params, saying="Exporting")
    hint = "" if chosen else "an archive to import; for people: --format markdown or html"
    terminal.answer(result, f"{result['path']}  {size(result['bytes'])}", hint=hint)
    _say_losses(terminal, result["losses"])


@command(app, "import")
def import_session(
    terminal: Terminal,
    file: Annotated[Path, Argument(help="An archive or a session file; a session's directory.")],
    session: Annotated[
        str | None, Argument(metavar="[ID]", help="The new session's id; generated if none is given.")
    ] = None,
    *,
    form: Annotated[
        str | None,
        Option(
            "--format",
            "-f",
            help="native, kimi, claude-code, codex, gemini, kimi-code, opencode, pi; default: by FILE.",
        ),
    ] = None,
    folder: Annotated[
        list[Path] | None, Option("--folder", metavar="PATH", help="The folder of the files in it; one for each root.")
    ] = None,
) -> None:
    """Make a new session of a file, and print its id: an archive, or a session of another program. FILE stays as it is.

    What could not be carried over is said. Approvals start off in the new session.

    Examples:
        timeleap import fix-dates.zip
        timeleap import ~/.codex/sessions/rollout.jsonl old-idea
        timeleap import fix-dates.zip --folder ~/fix-dates
    """
    folders = [Path(os.path.realpath(user_folders.absolute(path))).as_uri() for path in folder or ()] or None
    params = given(path=str(user_folders.absolute(file)), sessionId=session, format=form, folders=folders)
    with Backend(terminal) as backend:
        state = backend.call("session/import", params, saying="Importing")
    messages = count(state["context"]["messageCount"], "message")
    terminal.answer(state, state["sessionId"], hint=f"with {messages}, in {state['path']}")
    _say_losses(terminal, state["losses"])


def _say_losses(terminal: Terminal, losses: list[Json]) -> None:
    """Print what was not carried over; as a hint, since the result is there all the same."""
    for loss in losses:
        if loss["kind"] == "secrets":
            terminal.hint(f"{one_line(loss['message'])}: [secret] stands there; --keep-secrets leaves them")
            continue
        before = "" if loss["kind"] == "size" else "not carried over: "
        terminal.hint(f"{before}{one_line(loss['message'])} ({one_line(loss['kind'])})")
