"""Arguments and options that several commands take, what the shell offers for them, and values as people write them."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer

from timeleap.cli.formatting import Json
from timeleap.cli.terminal import UsageError


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


Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="The store's directory (default: $TIMELEAP_HOME, else the platform's).",
        rich_help_panel="Everywhere",
        file_okay=False,
    ),
]
Machine = Annotated[
    bool, typer.Option("--json", help="For machines: one JSON document, or JSON lines.", rich_help_panel="Everywhere")
]

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
Switch = Annotated[Literal["on", "off"] | None, typer.Argument(metavar="[on|off]", help="Without it: say what it is.")]
TimelineOption = Annotated[str | None, typer.Option("--timeline", "-t", help="Of this timeline, not the present log.")]
Full = Annotated[bool, typer.Option("--full", help="Cut no long message.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_DRY_RUN = "Say what would happen, and change nothing."
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help=_DRY_RUN)]
OnlySay = Annotated[bool, typer.Option("--dry-run", help=_DRY_RUN)]
"""`DryRun` where `-n` is a number."""
Steps = Annotated[int, typer.Option("--steps", "-n", metavar="N", min=1, help="How many, as one step.")]
Heal = Annotated[
    bool, typer.Option("--heal", help="If tool calls would be left without results, go back to before them.")
]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


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


def parse_size(text: str) -> int:
    """Bytes, from `20MB`, `1.5 GB` or `4096`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)(b?)", text.strip().lower())
    if match is None or (match[3] and not match[2] and "." in match[1]):
        raise UsageError(f"{text} is no size, such as 20MB")
    return int(float(match[1]) * _FACTORS[match[2]])


def parse_span(text: str) -> int:
    """Seconds, from `30d`, `12h`, `90m`, `2w` or `3600s`."""
    if text.strip() == "0":
        return 0
    if (match := re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())) is None:
        raise UsageError(f"{text} is no time span, such as 30d")
    return int(match[1]) * _SECONDS[match[2]]


def parse_age(text: str) -> str:
    """An ISO-8601 time, from one or from a time span back from now: `30d`, `12h`, `90m`, `2w`."""
    if re.fullmatch(r"\s*[0-9]{1,6}[mhdwMHDW]\s*", text):
        return (datetime.now(UTC) - timedelta(seconds=parse_span(text))).isoformat()
    try:
        return parse_time(text)
    except ValueError:
        raise UsageError(f"{text} is neither a time span, such as 30d, nor a time, such as 2026-05-01") from None


def parse_time(text: str) -> str:
    """An ISO-8601 time with its offset from UTC; without one it is local.

    Raises:
        ValueError: It is none.
    """
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.astimezone()).isoformat()
