from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from concurrent.futures import CancelledError, Future

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.holding import PATIENCE

from timeleap.cli import terminal as terminals
from timeleap.cli.formatting import Exact
from timeleap.cli.output import Output, Redrawn
from timeleap.cli.styled_text import StyledText
from timeleap.cli.terminal import Progress, Terminal


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def look(monkeypatch):
    """Makes the standard error output a terminal, where even short work is long."""

    def make():  # not before the test runs: pytest puts an output of its own there when it begins
        screen = Screen()
        monkeypatch.setattr(sys, "stderr", screen)
        return screen

    monkeypatch.setattr(terminals, "_PATIENCE", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return make


@pytest.fixture
def wide(monkeypatch):
    """Makes the standard output a terminal that has so many columns."""

    def make(columns):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", columns)
        screen = Screen()
        monkeypatch.setattr(sys, "stdout", screen)
        return screen

    return make


def finish(work, screen, wanted):
    """End `work` when that stands on the screen."""

    def watch():
        deadline = time.monotonic() + PATIENCE
        while wanted not in screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
        work.set_result(wanted in screen.getvalue())

    threading.Thread(target=watch, daemon=True).start()


def test_long_work_shows_how_far_it_is(look):
    screen = look()
    work: Future[bool] = Future()
    progress = Progress()
    finish(work, screen, "40%")
    progress.take({"kind": "report", "message": "writing", "percentage": 40})
    assert Terminal(None, machine=False).wait(work, progress, "Exporting") is True
    assert "writing" in screen.getvalue()


def test_work_that_says_nothing_is_named(look):
    screen = look()
    work: Future[bool] = Future()
    finish(work, screen, "Exporting")
    assert Terminal(None, machine=False).wait(work, Progress(), "Exporting") is True


def test_programs_see_no_bar(look):
    screen = look()
    work: Future[int] = Future()
    threading.Timer(0.1, work.set_result, [1]).start()
    assert Terminal(None, machine=True).wait(work, Progress(), "Exporting") == 1
    assert screen.getvalue() == ""


def test_an_error_of_long_work_is_its_own(look):
    look()
    work: Future[None] = Future()
    threading.Timer(0.1, work.set_exception, [TimeoutError("the server's own")]).start()
    with pytest.raises(TimeoutError, match="the server's own"):
        Terminal(None, machine=False).wait(work, Progress(), "Exporting")


def test_work_that_is_waited_for_no_longer_is_cancelled(look, monkeypatch):
    look()
    work: Future[None] = Future()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Terminal(None, machine=False).wait(work, Progress(), "Exporting")
    monkeypatch.undo()
    with pytest.raises(CancelledError):
        work.result()


def written(way, text, *, seen, environ, monkeypatch):
    """Run `way` of a terminal on a text; returns both outputs."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    out, err = (Screen(), Screen()) if seen else (io.StringIO(), io.StringIO())
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    way(Terminal(None, machine=False), text)
    return out.getvalue() + err.getvalue()


WAYS = {
    "say": lambda terminal, text: terminal.say(text),
    "styled": lambda terminal, text: terminal.say(StyledText.assemble((text, "bold red"), "!")),
    "hint": lambda terminal, text: terminal.hint(text),
    "fail": lambda terminal, text: terminal.fail([text, text], {}),
    "ask": lambda terminal, text: terminal.err.write(text, end=""),
}
CODES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TTY_COMPATIBLE": "1"}], ids=str)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("ab \t\a\b\v\f\r\x1b\x00[]é\u4e2d\U0001f389:\\\u202e\x9b"), max_size=12))
def test_a_terminal_gets_nothing_of_a_text_that_it_would_obey(way, environ, monkeypatch, text):
    shown = CODES.sub("", written(WAYS[way], text, seen=True, environ=environ, monkeypatch=monkeypatch))
    assert not set(shown) & set("\t\a\b\v\f\r\x1b\x00\u202e\x9b")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("environ", "seen", "styled", "coloured"),
    [
        ({}, True, True, True),
        ({}, False, False, False),
        ({"NO_COLOR": "1"}, True, True, False),
        ({"TERM": "dumb"}, True, False, False),
        ({"FORCE_COLOR": "1"}, False, True, True),
        ({"TTY_COMPATIBLE": "1"}, False, True, True),
        ({"FORCE_COLOR": ""}, True, False, False),
    ],
)
def test_styles_are_for_terminals_that_know_them(way, environ, seen, styled, coloured, monkeypatch):
    shown = written(WAYS[way], "a text", seen=seen, environ=environ, monkeypatch=monkeypatch)
    expected = styled and way in {"styled", "hint", "fail"}
    assert ("\x1b[" in shown) == expected
    assert ("31m" in shown) == (expected and coloured and way in {"styled", "fail"})
    assert "a text" in CODES.sub("", shown)


def test_a_pipe_gets_words_as_they_are_but_for_controls(monkeypatch):
    shown = written(WAYS["say"], "a\tb\a\x1bé", seen=False, environ={}, monkeypatch=monkeypatch)
    assert shown == "a       b\x1bé\n"
    exact = written(lambda t, text: t.say(Exact(text)), "a\tb\r", seen=False, environ={}, monkeypatch=monkeypatch)
    assert exact == "a\tb\r\n"


def test_what_is_redrawn_takes_the_place_of_what_was_there(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "4")
    screen = Screen()
    redrawn = Redrawn(Output(screen), screen)
    redrawn.show(["one", "two"])
    redrawn.show([f"line {number} that is too wide for it" for number in range(9)])
    redrawn.erase()
    redrawn.erase()
    lines = "".join(f"line {number} that is too …\n" for number in range(3))
    assert screen.getvalue() == f"one\ntwo\n\x1b[2A\x1b[J{lines}\x1b[3A\x1b[J"


@pytest.mark.parametrize("columns", ["80", "104", "200"])
def test_a_table_cuts_texts_but_neither_its_first_column_nor_numbers(wide, columns):
    screen = wide(columns)
    name, state = "claude-code-" + "5" * 24, "live in process 123, opened 20 seconds ago"
    Terminal(None, machine=False).table(
        ("session", "tokens", "state", "title"), [(name, 123456, state, "")], ("tokens",)
    )
    heading, line = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert name in line
    assert "123,456" in line
    assert "title" not in heading  # nothing stands in it
    assert (state in line) == (columns != "80")
    assert max(map(len, (heading.rstrip(), line.rstrip()))) <= int(columns)


def test_many_columns_of_texts_cut_no_name(wide):
    screen = wide("80")
    name, text = "claude-code-" + "5" * 24, "a text that is long"
    Terminal(None, machine=False).table(("session", "a", "b", "c", "d", "e"), [(name, *[text] * 5)])
    assert name in screen.getvalue()


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ("80", ["session", "changed", "title"]),
        ("90", ["session", "messages", "changed", "title"]),
        ("120", ["session", "messages", "tokens", "changed", "title", "program"]),
    ],
)
def test_in_a_narrow_terminal_titles_can_be_read(wide, columns, shown):
    screen = wide(columns)
    name, title = "claude-code-" + "5" * 24, "Why does the login fail on Windows when nobody is there?"
    Terminal(None, machine=False).table(
        ("session", "messages", "tokens", "changed", "state", "title", "program"),
        [(name, 10, 123456, "9 days ago", "", title, "claude-code")],
        right=("messages", "tokens"),
        spare=("program", "tokens", "messages"),
    )
    heading, line = re.sub(r"\x1b\[\d*m", "", screen.getvalue()).splitlines()
    assert heading.split() == shown
    assert title[:20] in line


def test_a_line_of_json_has_no_character_at_which_a_reader_may_end_a_line(capsys):
    text = "one\u2028two\u2029three\x85four"
    terminal = Terminal(None, machine=True)
    terminal.line({"text": text})
    terminal.document({"text": text})
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["text"] for line in lines] == [text, text]
