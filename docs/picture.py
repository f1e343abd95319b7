"""Draws the pictures in the README that show a terminal: real commands, run in a real terminal's colours.

.venv/bin/python docs/picture.py [--check]      (`make generate` runs it)
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "examples" / "sample-session.jsonl"
WIDTH = 104

PICTURES = {
    "demo.svg": (
        ["timeleap new tally --title 'Shares that add up'", f"timeleap append tally < '{SAMPLE}'"],
        ["timeleap revert tally 5 --yes", "timeleap log tally", "timeleap undo tally"],
    ),
    "files.svg": (
        [
            "printf 'def share(total, guests):\\n    return total / guests\\n' > shares.py; echo 'Ask Ada.' > notes.txt",
            "timeleap new tidy --files",
            "timeleap checkpoint tidy before the tidy-up",
        ],
        [
            "echo 'print(share(100, 3))' >> shares.py; rm notes.txt; echo 'Write tests.' > todo.txt",
            "timeleap append tidy --role assistant 'I have tidied up.'",
            "timeleap revert tidy 0 --restore both --yes",
            "ls",
            "timeleap undo tidy --restore both",
            "ls",
        ],
    ),
}
"""By file: commands that prepare, and those that are shown."""


def terminal(command: str, folder: Path) -> str:
    """What a terminal of `WIDTH` columns would show of a command, colours included."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TIMELEAP_HOME": str(folder / "store"),
        "COLUMNS": str(WIDTH),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
    }
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder / "work", env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def with_fixed_times(shown: str) -> str:
    """The same with times of a story, so that the picture changes only with what the commands show."""
    times = re.findall(r"\b\d\d:\d\d:\d\d\b", shown)
    newest_first = (f"10:{minute:02}:00" for minute in reversed(range(len(times))))
    shown = re.sub(r"\b\d\d:\d\d:\d\d\b", lambda _: next(newest_first), shown)
    return re.sub(r"\b\d+ seconds? ago\b", "20 seconds ago", shown)


def picture(before: list[str], shown: list[str]) -> str:
    """Run the commands and draw what they show."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        for command in before:
            terminal(command, folder)
        return drawing([(f"$ {command}", terminal(command, folder)) for command in shown])


def drawing(shown: Sequence[tuple[str, str]]) -> str:
    """Draw a terminal.

    Args:
        shown: What was typed, after its prompt (`$ `), and what was printed, colours included.

    Returns:
        The picture, as SVG.
    """
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for typed, printed in shown:
        console.print(Text.assemble((typed[:2], "bold green"), (typed[2:], "bold")))
        console.print(Text.from_ansi(with_fixed_times(printed)))
    svg = console.export_svg(title="timeleap")
    # Fonts from elsewhere would make the reader's browser ask a stranger; its own monospace font does.
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def main() -> None:
    """Write the pictures, or with --check say which are other ones."""
    os.umask(0o022)  # permissions are part of a snapshot, and its id is shown
    drawn = {HERE / name: picture(*commands) for name, commands in PICTURES.items()}
    if "--check" not in sys.argv[1:]:
        for file, text in drawn.items():
            file.write_text(text, encoding="utf-8")
    elif stale := [file.name for file, text in drawn.items() if file.read_text(encoding="utf-8") != text]:
        sys.exit(f"{', '.join(stale)}: not what the commands show; make generate draws it")


if __name__ == "__main__":
    main()
