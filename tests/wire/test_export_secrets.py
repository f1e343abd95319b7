"""Exports for people mask what looks like a secret, wherever it stands in a session, and say how many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.cli import Cli
from tests.support.secrets import TABLE, written
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user

FORMS: Final = ("markdown", "html")
KEY: Final = "ghp_" + "aB3" * 12
"""In what is checked no piece of it may stand."""


def call(name: str, **arguments: Any) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"type": "function", "id": "call_1", "function": function}


def export(session: Session, path: Path, name: str, **params: object) -> Message:
    result: Message = session.call("session/export", format=name, path=str(path), **params)
    return result


@pytest.fixture
def session(shared: Server) -> Session:
    """A session with a secret wherever a text may stand."""
    made = Session.open(shared, title=f"Use {KEY}", systemPrompt=f"The key is {KEY}.")
    made.call("session/putSubagent", name=f"a {KEY}", systemPrompt="x")
    made.checkpoint(label=f"before {KEY}")
    made.append(user(f"{'long ' * 36} {KEY} in a prompt that a checkpoint cuts"))
    made.append(
        {
            "role": "assistant",
            "content": [{"type": "think", "think": f"hm {KEY}"}],
            "tool_calls": [call("run", command=f"login {KEY}")],
        }
    )
    made.append({"role": "tool", "tool_call_id": "call_1", "content": f"logged in\nexport TOKEN={KEY}"})
    made.checkpoint()
    made.append(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call("login", password="hunter2", deep={"db_password": "hunter2"})],
        }
    )
    made.append({"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": f"{KEY}"}]})
    made.checkpoint()
    made.append(assistant(f"The address is postgresql://me:hunter2@db/x, the key {KEY}"))
    made.call("context/revertTo", checkpointId=1)
    made.append(user("no more"))
    return made


@pytest.mark.parametrize("form", FORMS)
def test_no_secret_is_in_a_file_for_people(session: Session, tmp_path: Path, form: str) -> None:
    path = tmp_path / "shown"
    result = export(session, path, form)
    shown = path.read_text("utf-8")
    assert "ghp_aB3" not in shown
    assert "hunter2" not in shown
    assert result["masked"] >= 6
    told = [loss for loss in result["losses"] if loss["kind"] == "secrets"]
    assert told == [{"kind": "secrets", "message": f"{result['masked']} texts that look like secrets are masked"}]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reverted", [False, True])
def test_a_password_is_masked_before_and_after_the_place_that_tells_it(
    shared: Server, tmp_path: Path, form: str, reverted: bool
) -> None:
    made = Session.open(shared, title="hunter2 or letmein", systemPrompt="Use hunter2.")
    made.append(user("log in with hunter2 or letmein"))
    made.checkpoint(label="hunter2")
    made.append({"role": "assistant", "content": "", "tool_calls": [call("login", password="hunter2")]})
    made.append({"role": "tool", "tool_call_id": "call_1", "content": "password=letmein is wrong"})
    if reverted:
        made.call("context/revertTo", checkpointId=0)
    made.append(assistant("hunter2 did it, not letmein"))
    export(made, tmp_path / "shown", form)
    shown = (tmp_path / "shown").read_text("utf-8")
    assert "hunter2" not in shown
    assert "letmein" in shown


@pytest.mark.parametrize("form", FORMS)
def test_secrets_stay_where_that_is_asked_for(session: Session, tmp_path: Path, form: str) -> None:
    path = tmp_path / "shown"
    result = export(session, path, form, keepSecrets=True)
    assert KEY in path.read_text("utf-8")
    assert "masked" not in result
    assert [loss for loss in result["losses"] if loss["kind"] == "secrets"] == []


def test_an_archive_keeps_the_bytes_and_refuses_to_mask(session: Session, tmp_path: Path) -> None:
    assert "masked" not in export(session, tmp_path / "a.zip", "native")
    before = session.log_bytes()
    error = session.refuse("session/export", format="native", path=str(tmp_path / "b.zip"), keepSecrets=False)
    assert "keepSecrets" in error["message"]
    assert not (tmp_path / "b.zip").exists()
    assert session.log_bytes() == before


@pytest.mark.parametrize("form", FORMS)
def test_every_secret_of_the_table_is_masked_and_nothing_else(shared: Server, tmp_path: Path, form: str) -> None:
    made = Session.open(shared)
    picture = "data:image/png;base64," + "iVBOR0KGgo" * 500
    for text in TABLE["unmasked"]:
        made.append(assistant(written(text)))
    made.append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}}]})
    result = export(made, tmp_path / "none", form)
    assert result["masked"] == 0
    assert [loss for loss in result["losses"] if loss["kind"] == "secrets"] == []
    if form == "html":
        assert picture in (tmp_path / "none").read_text("utf-8")
    made = Session.open(shared)  # a secret of the one list stands in a text of the other
    for text, _ in TABLE["masked"]:
        made.append({"role": "tool", "tool_call_id": "x", "content": written(text)})
    assert export(made, tmp_path / "all", form)["masked"] == len(TABLE["masked"])


def test_the_command_line_says_how_many_and_keeps_them_when_told_to(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "store")
    cli.run("new", "s")
    cli.run("append", "s", f"use {KEY}")
    ran = cli.run("export", "s", str(tmp_path / "a.md"))
    assert "1 text that looks like a secret is masked" in ran.err
    assert "--keep-secrets" in ran.err
    assert "not carried over" not in ran.err
    assert KEY not in (tmp_path / "a.md").read_text("utf-8")
    assert cli.json("export", "s", str(tmp_path / "b.md"), "--keep-secrets")["path"] == str(tmp_path / "b.md")
    assert KEY in (tmp_path / "b.md").read_text("utf-8")
