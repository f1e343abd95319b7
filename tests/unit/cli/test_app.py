from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from timeleap.cli import interrupt
from timeleap.cli.app import main
from timeleap.cli.backend import session_identity
from timeleap.cli.command import guarded
from timeleap.cli.settings import _settings
from timeleap.cli.terminal import Exit, Terminal, UsageError
from timeleap.service import config
from timeleap_client.errors import ConnectionLostError, TimeleapRpcError
from timeleap_protocol.limits import DEFAULT_SUMMARIZER_TIMEOUT


def run(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["timeleap", *words])
    return main()


@pytest.mark.parametrize("words", [["no-such-command"], ["yolo", "s", "maybe"], ["log", "-n", "x"], ["trash"], []])
def test_what_is_not_known_is_a_misuse(words, capsys, monkeypatch):
    assert run(monkeypatch, *words) == 2
    out, err = capsys.readouterr()
    assert bool(out) != bool(err.startswith("error: "))


@pytest.mark.parametrize("command", ["trash", "config", "dmail", "subagents"])
def test_for_machines_a_missing_command_is_one_json_error(command, capsys, monkeypatch):
    assert run(monkeypatch, "--json", command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "list" in (said := json.loads(err)["error"]["message"]) or "show" in said


def test_for_machines_a_misuse_is_one_json_error(capsys, monkeypatch):
    assert run(monkeypatch, "log", "-n", "x", "--json") == 2
    out, err = capsys.readouterr()
    assert (out, json.loads(err)) == ("", {"error": {"kind": "usage", "message": "-n takes a number, and x is none"}})


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (TimeleapRpcError(4004, "readOnly", "no", {"x": 1}, retryable=False), 1, "readOnly"),
        (UsageError("no"), 2, "usage"),
        (ConnectionLostError("gone"), 1, "connectionLost"),
        (PermissionError(13, "Permission denied", "/store"), 1, "os"),
    ],
)
@pytest.mark.parametrize("machine", [False, True])
def test_errors_end_a_command_with_their_code_and_without_a_traceback(error, code, kind, machine, capsys):
    def work():
        raise error

    with pytest.raises(Exit) as caught:
        guarded(Terminal(None, machine), "s", work)
    assert caught.value.exit_code == code
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["kind"] == kind if machine else err.startswith("error: ")


def test_ctrl_c_is_130(capsys):
    def work():
        raise KeyboardInterrupt

    with pytest.raises(Exit) as caught:
        guarded(Terminal(None, False), None, work)
    assert caught.value.exit_code == 130
    assert "interrupted" in capsys.readouterr().err


def test_ctrl_c_in_the_exit_of_the_work_leaves_the_next_one_quiet(monkeypatch, capsys):
    def cut_short(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupt.Raising, "__exit__", cut_short)
    before = signal.signal(signal.SIGINT, interrupt.end)
    try:
        with pytest.raises(Exit):
            guarded(Terminal(None, False), None, lambda: None)
        assert signal.getsignal(signal.SIGINT) is interrupt.end
    finally:
        signal.signal(signal.SIGINT, before)


def test_settings_of_the_command_line_are_those_of_the_server(tmp_path: Path):
    """The keys, their defaults and their environment variables, as the server's own reader has them."""
    loaded = config.load(tmp_path, environ={})
    defaults = {key: setting.default for key, setting in _settings().items()}
    assert defaults == {
        "store": loaded.database,
        "keyFile": loaded.key_file,
        "durability": loaded.durability,
        "reservedContextSize": loaded.budget.reserved_context_size,
        "triggerRatio": loaded.budget.trigger_ratio,
        "maxContextSize": loaded.budget.max_context_size,
        "maxPreservedMessages": loaded.max_preserved_messages,
        "retention.maxTimelines": loaded.retention.max_timelines,
        "retention.maxTimelineBytes": loaded.retention.max_timeline_bytes,
        "trash.maxAge": loaded.trash_max_age,
        "agents.keep.maxBytes": loaded.kept_bytes,
        "agents.keep.exclude": loaded.kept_exclude,
        "summarizer.timeout": DEFAULT_SUMMARIZER_TIMEOUT,
        **dict.fromkeys(f"summarizer.{key}" for key in ("baseUrl", "model", "apiKeyFile", "contextSize")),
    }
    variables = {setting.variable for setting in _settings().values()}
    assert {"TIMELEAP_MAX_CONTEXT_SIZE", "TIMELEAP_RETENTION_MAX_TIMELINE_BYTES"} <= variables
    assert len(variables) == len(defaults)


@pytest.mark.parametrize("name", ["s", "a.b-c_d", "context.jsonl", "..", "bad id"])
def test_what_is_no_path_is_an_id_and_the_server_judges_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "..")
    monkeypatch.chdir(tmp_path)
    expected = {"path": str(tmp_path / "..")} if name == ".." else {"sessionId": name}
    assert session_identity(name) == expected


def test_a_directory_or_its_log_is_a_path(tmp_path, monkeypatch):
    directory = tmp_path / "session"
    directory.mkdir()
    (directory / "context.jsonl").write_text("")
    monkeypatch.chdir(directory)
    for name in (str(directory), str(directory / "context.jsonl"), "./context.jsonl", "context.jsonl"):
        assert session_identity(name) == {"path": str(directory)}
    monkeypatch.chdir(tmp_path)
    assert session_identity("session") == {"sessionId": "session"}
    assert session_identity("session/") == {"path": str(directory)}
