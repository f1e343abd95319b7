"""The one place where a command's words go: results to the standard output, all else to the standard error output.

Texts of a session are a stranger's. A terminal gets none of what it would obey, whichever command writes: plain lines,
JSON and all that is drawn are made safe by `output`, where they are written. A pipe gets lines and JSON as they are, and a
text of the type `Exact` byte for byte; tables are safe for pipes, too. A line stays one line, whatever it
quotes; on a terminal only a text of the type `ExactLines` has several.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

from timeleap.cli.formatting import as_line, cell, one_line, safe_json
from timeleap.cli.output import Output, Redrawn
from timeleap.cli.styled_text import StyledText, columns_of, padded
from timeleap.json_value import Json

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_PATIENCE = 1.0
"""Seconds after which work deserves a progress bar."""


_LEAST_WIDTH = 12
"""Columns that a text of a table has, however narrow the terminal is."""
_READABLE_WIDTH = 28
"""Columns in which most texts can be told apart."""
_GAP = 2
"""Blanks between two columns of a table."""


class Exit(Exception):
    """The command has ended, with this exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class UsageError(Exception):
    """The command was called in a way that cannot be meant."""


class Progress:
    """How far a piece of work is; written by the client's thread, read by ours."""

    percentage: int | None = None
    message: str | None = None

    def take(self, value: Json) -> None:
        percentage, message = value.get("percentage"), value.get("message") or value.get("title")
        if isinstance(percentage, int):
            self.percentage = percentage
        if isinstance(message, str):
            self.message = message


class Terminal:
    """The environment of one command.

    Attributes:
        home: `--home`; None leaves it to the server.
        machine: `--json`: one JSON document, or JSON lines, and nothing else on the standard output.
    """

    def __init__(self, home: Path | None, machine: bool) -> None:
        self.home = home
        self.machine = machine
        self._noticed: set[str] = set()

    @property
    def out(self) -> Output:
        return Output(sys.stdout)

    @property
    def err(self) -> Output:
        return Output(sys.stderr)

    @property
    def interactive(self) -> bool:
        return sys.stdin.isatty() and sys.stderr.isatty()

    def answer(self, result: object, *lines: str | StyledText, hint: str = "") -> None:
        """The result of a command: for machines a JSON document; else in words, with a hint after it."""
        if self.machine:
            self.document(result)
        self.say(*lines)
        if hint:
            self.hint(hint)

    def document(self, value: object) -> None:
        """Print a JSON document: spread out for people, on one line for pipes."""
        _write_json(sys.stdout, json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))

    def line(self, value: object) -> None:
        """Print a line of JSON Lines, flushed at once."""
        _write_json(sys.stdout, json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        sys.stdout.flush()

    def say(self, *lines: str | StyledText) -> None:
        """A result in words; silent in `--json`."""
        if not self.machine:
            for line in lines:
                self.out.write(as_line(line, seen=sys.stdout.isatty()) if isinstance(line, str) else line)

    def hint(self, text: str) -> None:
        """Something useful to know that is not the result; silent in `--json`."""
        if not self.machine:
            self.err.write(as_line(text), "dim")

    def notice(self, text: str, members: Json) -> None:
        """Something to be known in any case that is not the result; in `--json` a JSON line."""
        if self.machine:
            _write_json(sys.stderr, json.dumps({"notice": {**members, "message": text}}, ensure_ascii=False))
        self.hint(text)

    def notice_once(self, text: str, members: Json) -> None:
        """A `notice` that several requests of the command may give rise to, at the first of them."""
        if text not in self._noticed:
            self._noticed.add(text)
            self.notice(text, members)

    def fail(self, lines: Sequence[str], error: Json) -> None:
        """An error: words, or for machines a JSON document."""
        if self.machine:
            _write_json(sys.stderr, json.dumps({"error": error}, ensure_ascii=False))
            return
        first, *others = map(as_line, lines)
        self.err.write(StyledText.assemble(("error: ", "bold red"), first))
        for line in others:
            self.err.write(line)

    def home_words(self) -> list[str]:
        """The words by which a program that is started for this command gets the home that was named."""
        return [] if self.home is None else ["--home", str(self.home)]

    def records(
        self,
        found: Sequence[Json],
        columns: Sequence[str],
        row: Callable[[Json], Sequence[object]],
        right: Sequence[str] = (),
        none: str = "",
    ) -> None:
        """A list: for machines a JSON line each of `found`, else a table of a `row` each, or the hint `none`."""
        if not found and none:
            self.hint(none)
        elif self.machine:
            for record in found:
                self.line(record)
        else:
            self.table(columns, [row(record) for record in found], right)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        right: Sequence[str] = (),
        spare: Sequence[str] = (),
    ) -> None:
        """A table, the columns of `right` to the right; for a pipe tab-separated values under a line of names.

        A terminal gets no column in which nothing stands. In a narrow one those of `spare` go, first one first, until texts
        can be read; then texts are cut, but neither numbers nor the first column: it names what other commands take.
        """
        if not self.out.is_terminal:
            for row in [columns, *rows]:
                sys.stdout.write("\t".join(map(cell, row)) + "\n")
            return
        lines = [[_grouped(value) for value in row] for row in rows]
        widths = [max(map(columns_of, column)) for column in zip(columns, *lines, strict=True)]
        shown = self._shown(columns, lines, widths, right, spare)
        columns = [columns[at] for at in shown]
        widths = [widths[at] for at in shown]
        lines = [[line[at] for at in shown] for line in lines]
        cut = {at for at, name in enumerate(columns) if at and name not in right}
        for least in (_LEAST_WIDTH, 1):  # a cut name could not be handed to another command
            while sum(widths) + _GAP * (len(widths) - 1) > self.out.width and any(widths[at] > least for at in cut):
                widths[max(cut, key=widths.__getitem__)] -= 1
        for line, style in ((columns, "bold"), *((line, "") for line in lines)):
            cells = [
                padded(text, width, right=name in right)
                for text, width, name in zip(line, widths, columns, strict=True)
            ]
            self.out.write(StyledText((" " * _GAP).join(cells).rstrip(), style))

    def _shown(
        self,
        columns: Sequence[str],
        lines: Sequence[Sequence[str]],
        widths: Sequence[int],
        right: Sequence[str],
        spare: Sequence[str],
    ) -> list[int]:
        """The columns of a table for which there is room, as numbers."""
        shown = [at for at in range(len(columns)) if not at or not lines or any(line[at] for line in lines)]
        for name in spare:
            needed = [
                widths[at] if not at or columns[at] in right else min(widths[at], _READABLE_WIDTH) for at in shown
            ]
            if sum(needed) + _GAP * (len(needed) - 1) <= self.out.width:
                break
            shown = [at for at in shown if columns[at] != name]
        return shown

    def grouped(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        levels: int,
        right: Sequence[str] = (),
        spare: Sequence[str] = (),
    ) -> None:
        """A table whose last columns, as many as there are `levels`, are the groups of its rows, which are in their order:
        on a terminal their values are headings, where there is more than one group."""
        groups = [tuple(row[-levels:]) for row in rows]
        seen = self.out.is_terminal
        if not seen or len(set(groups)) < 2:
            cut = -levels if seen else len(columns)
            self.table(columns[:cut], [row[:cut] for row in rows], right, spare)
            return
        before: tuple[object, ...] = ()
        for group in dict.fromkeys(groups):
            for level, value in enumerate(group):
                if group[: level + 1] != before[: level + 1] and (value or not level):
                    self.say(StyledText("  " * level + (one_line(str(value)) or "no folder"), style="bold"))
            own = [row[:-levels] for row, its in zip(rows, groups, strict=True) if its == group]
            self.table(columns[:-levels], own, right, spare)
            before = group

    def consents(self, plan: Json, question: str, *, yes: bool, dry_run: bool, goes: bool = True) -> bool:
        """Ask for consent to a change that was shown, unless `yes` gave it beforehand; a refusal exits with 1.

        Where no change is to be made (`--dry-run`, or nothing `goes`), `plan` is the result of the command.
        """
        if dry_run or not goes:
            self.answer(plan, hint="nothing was changed" + (" (--dry-run)" if dry_run else ""))
            return False
        if not yes:
            if self.machine or not self.interactive:
                raise UsageError("nobody is there to be asked: --yes says so beforehand, --dry-run only looks")
            if not self.confirm(question):
                self.hint("nothing was changed")
                raise Exit(1)
        return True

    def confirm(self, question: str) -> bool:
        """Ask a person for a yes or a no; Enter alone is a no.

        Raises:
            EOFError: The input has ended.
        """
        while True:
            said = self.ask(f"{question} [y/N]: ").strip().lower()
            if said in ("y", "yes"):
                return True
            if said in ("", "n", "no"):
                return False
            self.hint("y or n")

    def ask(self, question: str) -> str:
        """The line that a person types after a question, which stands on the standard error output.

        Raises:
            EOFError: The input has ended.
        """
        self.err.write(as_line(question), end="")
        line = sys.stdin.readline()
        if not line:
            sys.stderr.write("\n")
            raise EOFError
        return line.rstrip("\r\n")

    def ask_secret(self, question: str) -> str:
        """The line that a person types after a question, without showing it.

        Raises:
            EOFError: The input has ended.
        """
        from getpass import getpass

        sys.stderr.write(f"{question}: ")
        sys.stderr.flush()
        return getpass("")

    def wait(self, work: Future[T], progress: Progress, what: str) -> T:
        """The result of `work`; on a terminal, with a progress bar if it takes long."""
        try:
            if not self.machine and self.err.is_styled:
                with contextlib.suppress(TimeoutError):
                    return work.result(timeout=_PATIENCE)
                self._show(work, progress, what)
            while not work.done():  # a signal that comes just before this waits does not interrupt it
                with contextlib.suppress(TimeoutError):
                    return work.result(timeout=_PATIENCE)
            return work.result()
        except BaseException:
            work.cancel()
            raise

    def _show(self, work: Future[T], progress: Progress, what: str) -> None:
        from concurrent.futures import wait as wait_for

        began = time.monotonic()
        redrawn = Redrawn(self.err, sys.stderr)
        try:
            while not wait_for([work], timeout=0.1).done:
                seconds = int(time.monotonic() - began)
                share = "" if progress.percentage is None else f"  {progress.percentage}%"
                redrawn.show([f"{as_line(progress.message or what)}{share}  {seconds // 60}:{seconds % 60:02}"])
        finally:
            redrawn.erase()


_ENDS_OF_LINES: Final = {ord(each): json.dumps(each)[1:-1] for each in "\x85\u2028\u2029"}
"""Characters that JSON allows in a string, and that end a line for many programs that read line by line."""


def _write_json(stream: TextIO, document: str) -> None:
    stream.write((safe_json(document) if stream.isatty() else document.translate(_ENDS_OF_LINES)) + "\n")


def _grouped(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else one_line(str(value))


def forget_output() -> None:
    """Send what is left to nowhere: its reader has gone, and the interpreter must not complain at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
