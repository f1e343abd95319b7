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


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("ab \n\t\a\b\v\f\r\x1b\x00[]é\u4e2d\U0001f389:\\"), max_size=12), st.integers(0, 2))
def test_a_line_is_written_without_rich_as_rich_would_write_it(text, kind):
    def written(plain):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            if not plain:
                patch.setattr(terminals, "_write_plain", lambda *_: False)
            terminal = Terminal(None, machine=False)
            if kind == 0:
                terminal.say(text, text)
            elif kind == 1:
                terminal.hint(text)
            else:
                terminal.fail([text, text], {})
        return out.getvalue(), err.getvalue()

    assert written(plain=True) == written(plain=False)


@pytest.mark.parametrize("columns", ["80", "104", "200"])
def test_a_table_cuts_texts_but_neither_its_first_column_nor_numbers(monkeypatch, columns):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", columns)
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    name, state = "claude-code-" + "5" * 24, "live in process 123, opened 20 seconds ago"
    Terminal(None, machine=False).table(
        ("session", "tokens", "state", "title"), [(name, 123456, state, "")], ("tokens",)
    )
    heading, line = re.sub(r"\x1b\[\d*m", "", screen.getvalue()).splitlines()
    assert name in line
    assert "123,456" in line
    assert "title" in heading
    assert (state in line) == (columns != "80")
    assert max(map(len, (heading.rstrip(), line.rstrip()))) <= int(columns)


def test_many_columns_of_texts_cut_no_name(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    name, text = "claude-code-" + "5" * 24, "a text that is long"
    Terminal(None, machine=False).table(("session", "a", "b", "c", "d", "e"), [(name, *[text] * 5)])
    assert name in screen.getvalue()


def test_a_line_of_json_has_no_character_at_which_a_reader_may_end_a_line(capsys):
    text = "one\u2028two\u2029three\x85four"
    terminal = Terminal(None, machine=True)
    terminal.line({"text": text})
    terminal.document({"text": text})
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["text"] for line in lines] == [text, text]
