"""Arguments that several commands take, and what the shell offers for them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from timeleap.cli.terminal import Json, UsageError


def complete_session(ctx: typer.Context, incomplete: str) -> list[str]:
    """Session ids of the store that begin with what was typed.

    Read from the directory, not asked of a server: a Tab has to answer at once, and must not start anything.
    """
    from timeleap.service import config

    chosen = ctx.params.get("home") or os.environ.get("TIMELEAP_HOME") or config.default_home()
    try:
        names = [entry.name for entry in os.scandir(Path(chosen) / "sessions") if entry.is_dir()]
    except OSError:
        return []
    return sorted(name for name in names if name.startswith(incomplete) and not name.startswith("."))


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Methods of the protocol that begin with what was typed."""
    from timeleap_protocol.methods import REQUESTS

    return [(name, row.summary) for name, row in REQUESTS.items() if name.startswith(incomplete)]


LATEST = "."
"""Default value of SESSION; it can be written, too."""
Session = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session's id, or the path of its directory or of its context.jsonl. Left out, or a dot: the newest "
        "session of this folder.",
        autocompletion=complete_session,
    ),
]
"""The session a command is about. `command` makes it optional: the function always gets one."""
Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint's id (a number) or its uid.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would happen, and change nothing.")]
Steps = Annotated[int, typer.Option("--steps", "-n", metavar="N", min=1, help="How many, as one step.")]
OnlySay = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]
"""`DryRun` where `-n` is a number."""
Heal = Annotated[
    bool, typer.Option("--heal", help="If tool calls would be left without results, go back to before them.")
]


def place(checkpoint: str | None) -> Json:
    """A checkpoint as params: a number is an id, anything else a uid."""
    if checkpoint is None:
        return {}
    text = checkpoint.removeprefix("#")
    return {"checkpointId": int(text)} if re.fullmatch(r"[0-9]{1,15}", text) else {"checkpointUid": text}


def looks_like_checkpoint(text: str) -> bool:
    """True if a word has the form of a checkpoint's id or uid."""
    return re.fullmatch(r"#?[0-9]{1,15}|[co]-?[0-9]+-[0-9a-f]+", text) is not None


def text_or_file(value: str | None) -> str | None:
    """The value of an option that takes text: `@FILE` means what is in the file, `-` the standard input."""
    if value is None or not (value == "-" or value.startswith("@")):
        return value
    try:
        return sys.stdin.read() if value == "-" else Path(value[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{value} is no UTF-8 text: {error}") from None
