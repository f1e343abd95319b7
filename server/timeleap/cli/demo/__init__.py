"""`demo`: scenes on a real server; each promise is checked."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from timeleap.cli.command import FAILED, command
from timeleap.cli.create import parse
from timeleap.cli.demo.scenes import SCENES, Story
from timeleap.cli.demo.screen import Screen
from timeleap.cli.formatting import Json
from timeleap.cli.terminal import Terminal, UsageError

app = typer.Typer(rich_help_panel="Look")


@command(app)
def demo(
    terminal: Terminal,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="A session file (JSON lines) or directory; a sample if none is given."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not remove the store it made.")] = False,
) -> None:
    """Tell in a minute what Timeleap is, with a real server in a store of its own.

    Replays a session and shows append, checkpoint, revert with the timeline it leaves, three levels of undo, compact, approvals, a
    killed server and a restart that finds everything again. Each promise is really compared; exit code 1 if one is not
    kept. With --home the story takes place there, in a session of its own, which stays.

    Examples:
        timeleap demo
        timeleap demo ~/sessions/fix-dates/context.jsonl --keep
    """
    began = time.monotonic()
    with _session_file(path) as file, _home(terminal, keep) as home:
        records = _records(file)
        stage = Screen(terminal)
        stage.title("timeleap demo", f"A real server, a store in {home}, and the session {path or file.name}.")
        with Story(stage, home, file, records) as story:
            for scene in SCENES:
                scene(story)
            stage.requests = story.requests
    stage.summary(time.monotonic() - began)
    if keep or terminal.home is not None:
        stage.say(f"Look around: timeleap log {story.session_id} --home {home}")
    kept = all(check.kept for check in stage.checks)
    if terminal.machine:
        terminal.document(
            {"ok": kept, "sessionId": story.session_id, "checks": [asdict(check) for check in stage.checks]}
        )
    if not kept:
        raise typer.Exit(FAILED)


@contextmanager
def _session_file(path: Path | None) -> Generator[Path]:
    if path is None:
        with as_file(files("timeleap.cli") / "data" / "sample-session.jsonl") as sample:
            yield sample
        return
    file = path / "context.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"there is no session file {file}")
    yield file


@contextmanager
def _home(terminal: Terminal, keep: bool) -> Generator[Path]:
    if terminal.home is not None:
        yield terminal.home.absolute()
        return
    home = Path(tempfile.mkdtemp(prefix="timeleap-demo-"))
    try:
        yield home
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


def _records(file: Path) -> list[Json]:
    try:
        with file.open(encoding="utf-8") as stream:
            found = [parse(line, number) for number, line in zip(itertools.count(1), stream, strict=False)]
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no UTF-8 text: {error}") from None
    records = [record for record in found if record is not None]
    if not any(not record["role"].startswith("_") for record in records):
        raise UsageError(f"there is no message in {file}")
    return records
