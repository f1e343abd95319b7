"""Draws `docs/demo.svg`, the picture in the README: real commands, run in a real terminal's colours.

.venv/bin/python docs/picture.py [--check]      (`make generate` runs it)
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "demo.svg"
SAMPLE = HERE.parent / "examples" / "sample-session.jsonl"
WIDTH = 104

BEFORE = ["timeleap new tally --title 'Shares that add up'", f"timeleap append tally < '{SAMPLE}'"]
SHOWN = ["timeleap revert tally 5 --yes", "timeleap log tally", "timeleap undo tally"]


def terminal(command: str, home: Path) -> str:
    """What a terminal of `WIDTH` columns would show of a command, colours included."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TIMELEAP_HOME": str(home),
        "COLUMNS": str(WIDTH),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
    }
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def with_fixed_times(shown: str) -> str:
    """The same with times of a story, so that the picture changes only with what the commands show."""
    times = re.findall(r"\b\d\d:\d\d:\d\d\b", shown)
    newest_first = (f"10:{minute:02}:00" for minute in reversed(range(len(times))))
    shown = re.sub(r"\b\d\d:\d\d:\d\d\b", lambda _: next(newest_first), shown)
    return re.sub(r"\b\d+ seconds? ago\b", "20 seconds ago", shown)


def picture() -> str:
    """Run the commands and draw what they show."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for command in BEFORE:
            terminal(command, home)
        for command in SHOWN:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(with_fixed_times(terminal(command, home))))
    svg = console.export_svg(title="timeleap")
    # Fonts from elsewhere would make the reader's browser ask a stranger; its own monospace font does.
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def main() -> None:
    """Write the picture, or with --check say whether it is another one."""
    drawn = picture()
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != drawn:
        sys.exit(f"{PICTURE.name} is not what the commands show: make generate draws it")


if __name__ == "__main__":
    main()
