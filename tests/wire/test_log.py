"""What the server's log says of requests: one line each, and nothing of what they carry."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.server import DATABASES

SECRET = "do not log this"
LINE = re.compile(
    r"\d{4}-\d\d-\d\d [\d:,]+ \d+ (?P<level>INFO|DEBUG) timeleap\.rpc\.protocol: "
    r"(?P<method>\S+) (?P<session>\S+) (?P<outcome>\w+)(?: \d+\.\d ms)? (?P<bytes>\d+) B in(?: \d+ B out)?"
)


def logged(home: Path, level: str, *requests: tuple[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    frames = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate([("initialize", {}), *requests])
    ]
    file = home.with_name("log")
    store = {"TIMELEAP_STORE": DATABASES[home]} if home in DATABASES else {}
    environment = Cli(home, {"TIMELEAP_LOG_LEVEL": level, "TIMELEAP_LOG_FILE": str(file), **store}).environment()
    command = [sys.executable, "-m", "timeleap", "serve"]
    done = subprocess.run(
        command, input="\n".join(frames), env=environment, capture_output=True, text=True, timeout=180, check=True
    )
    assert len([line for line in done.stdout.splitlines() if '"id"' in line]) == len(frames)
    assert done.stderr == ""
    text = file.read_text()
    assert SECRET not in text
    found = [LINE.fullmatch(line) for line in text.splitlines() if "timeleap.rpc.protocol" in line]
    assert all(found), text
    return [(m["level"], m["method"], m["session"], m["outcome"]) for m in found if m]


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("session/open", {"sessionId": "s", "title": SECRET}),
    ("context/appendMessage", {"sessionId": "s", "message": {"role": "user", "content": SECRET}}),
    ("context/clear", {"sessionId": "s", "dryRun": True}),
    ("context/appendMessage", {"sessionId": "s", "expectedHead": "old", "message": {"role": "user", "content": SECRET}}),
    ("context/getHistory", {"sessionId": "s"}),
    ("session/getState", {"sessionId": SECRET}),
    ("no/method", {"text": SECRET}),
]  # fmt: skip

CHANGES = [
    ("INFO", "context/appendMessage", "s", "ok"),
    ("INFO", "context/appendMessage", "s", "contentModified"),
]


def test_at_info_one_line_a_change(home: Path) -> None:
    lines = logged(home, "info", *REQUESTS)
    assert [line for line in lines if line[1] == "context/appendMessage"] == CHANGES
    assert {line[1] for line in lines} <= {"context/appendMessage", "session/open"}


def test_at_debug_one_line_a_request(home: Path) -> None:
    lines = logged(home, "debug", *REQUESTS)
    assert [line for line in lines if line[0] == "INFO" and line[1] != "session/open"] == CHANGES
    assert len([line for line in lines if line[1] != "initialize"]) == len(REQUESTS)
    assert ("DEBUG", "-", "-", "methodNotFound") in lines
    assert ("DEBUG", "context/clear", "s", "ok") in lines
    assert ("DEBUG", "context/getHistory", "s", "ok") in lines
    assert ("DEBUG", "session/getState", "-", "invalidSessionId") in lines


def test_at_warning_nothing(home: Path) -> None:
    assert not home.with_name("log").exists()
    assert logged(home, "warning", *REQUESTS) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full")
def test_a_log_that_cannot_be_written_is_said_once_in_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "timeleap", "serve", "--log-level", "debug", "--log-file", "/dev/full"]
    request = '{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'
    environment = Cli(tmp_path / "store").environment()
    done = subprocess.run(
        command, input=request, env=environment, capture_output=True, text=True, timeout=180, check=True
    )
    assert '"result"' in done.stdout
    assert done.stderr == "timeleap serve: cannot write the log: No space left on device\n"


@pytest.mark.parametrize("variable", [None, "elsewhere"])
def test_where_the_log_goes_is_shown(tmp_path: Path, variable: str | None) -> None:
    cli = Cli(tmp_path / "store", {} if variable is None else {"TIMELEAP_LOG_FILE": variable})
    settings = cli.json("config", "show")
    assert settings["logFile"]["value"] == variable
    assert settings["logLevel"]["value"] == "warning"
    assert ("TIMELEAP_LOG_FILE" in settings["logFile"]["from"]) is (variable is not None)
    assert "logFile" in cli.run("config", "show").out
