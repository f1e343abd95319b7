"""Commands that carry sessions out of the store and into it: export, import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cli import Cli

SAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sample-session.jsonl"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def session(cli: Cli) -> str:
    cli.run("new", "s", "--title", "The sample")
    cli.run("append", "s", input=SAMPLE.read_text(encoding="utf-8"))
    cli.run("revert", "s", "1", "--yes")
    return "s"


def shown(cli, *args):
    return [entry["message"] for entry in cli.run("show", *args, "--json").lines()]


def test_an_archive_is_the_session_in_another_store(cli, session, tmp_path):
    file = tmp_path / "s.zip"
    written = cli.run("export", session, str(file))
    assert written.out.startswith(f"{file}  ")
    elsewhere = Cli(tmp_path / "elsewhere")
    made = elsewhere.run("import", str(file), "copy")
    assert made.out == "copy\n"
    assert shown(elsewhere, "copy") == shown(cli, session)
    (timeline,) = elsewhere.json("log", "copy")["timelines"]
    assert shown(elsewhere, "copy", "--timeline", timeline["timelineId"]) == shown(cli, session, "-t", "context_1")
    assert elsewhere.json("import", str(file))["sessionId"] not in {"copy", session}
    assert "copy is taken" in elsewhere.run("import", str(file), "copy", code=1).err


def test_a_file_for_people_is_written_where_none_is_yet(cli, session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = cli.json("export", session, "notes.md")
    assert result["path"] == str(tmp_path / "notes.md")
    text = (tmp_path / "notes.md").read_text(encoding="utf-8")
    assert result["bytes"] == len(text.encode())
    assert "The sample" in text
    assert cli.run("export", session, "notes.md", code=1).err.startswith("error: ")
    told = cli.run("export", session, "notes.md", "--overwrite")
    assert all(line.startswith("not carried over: ") for line in told.err.splitlines())
    cli.run("export", session, "notes", "--format", "markdown")
    assert (tmp_path / "notes").read_bytes() == (tmp_path / "notes.md").read_bytes()


def test_what_has_no_ending_of_its_own_is_an_archive(cli, session, tmp_path):
    told = cli.run("export", session, "-o", str(tmp_path / "s.timeleap"))
    assert "an archive to import" in told.err
    assert cli.run("import", str(tmp_path / "s.timeleap"), "copy").out == "copy\n"


def test_the_file_may_be_named_as_an_option(cli, session, tmp_path):
    cli.run("export", session, "-o", str(tmp_path / "s.zip"))
    assert cli.run("import", str(tmp_path / "s.zip"), "copy").out == "copy\n"
    assert cli.json("export", session, f"--output={tmp_path / 'page.html'}")["bytes"] > 0
    for args in ((), (str(tmp_path / "a.zip"), "-o", str(tmp_path / "b.zip"))):
        assert "name the file to be written" in cli.run("export", session, *args, code=2).err
    assert sorted(one.name for one in tmp_path.glob("*.*")) == ["page.html", "s.zip"]


def test_a_page_is_written_by_the_ending_of_its_name(cli, session, tmp_path):
    cli.run("export", session, str(tmp_path / "page.html"))
    assert "<title>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_log_of_the_original_program_is_taken_in(cli, session, tmp_path):
    (tmp_path / "context.jsonl").write_bytes(SAMPLE.read_bytes())
    made = cli.run("import", str(tmp_path / "context.jsonl"), "taken", "--format", "kimi")
    assert made.out == "taken\n"
    timeline = cli.json("log", session)["timelines"][0]["timelineId"]
    assert shown(cli, "taken") == shown(cli, session, "--timeline", timeline)


def test_what_is_no_session_is_refused_in_words(cli, tmp_path):
    file = tmp_path / "x.zip"
    file.write_bytes(b"PK no archive")
    assert cli.run("import", str(file), code=1).err.startswith("error: ")
    assert "Traceback" not in cli.run("import", str(tmp_path / "nowhere.zip"), code=1).err
    assert json.loads(cli.run("import", str(file), "--json", code=1).err)["error"]["kind"]
    assert cli.run("sessions", "--json").out == ""
