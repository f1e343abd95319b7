"""The files of a session from the command line: saved with its checkpoints, compared, put back alone or with the conversation."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import stat
import time
from pathlib import Path

import pytest
from tests.support.cli import Cli, Typed
from tests.support.holding import file_time_passes


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file that is kept, one that is edited, one that is deleted, and one in a folder of its own."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    for name, text in (
        ("kept.txt", "same\n"),
        ("edited.txt", "one\n"),
        ("gone.txt", "here\n"),
        ("src/a.py", "a = 1\n"),
    ):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def session(cli: Cli, folder: Path) -> str:
    """Session `s`: a checkpoint, then a turn of the agent that edited, deleted and made a file."""
    cli.run("new", "s", "--files", "--workspace", str(folder))
    cli.run("checkpoint", "s", "before the turn")
    turn(folder)
    cli.run("append", "s", "--role", "assistant", "done")
    return "s"


def turn(folder: Path) -> None:
    (folder / "edited.txt").write_text("two\n")
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("made\n")


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: its permissions and its bytes."""
    return {
        path.relative_to(folder).as_posix(): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_new_session_saves_the_files_of_the_folder_one_is_in(cli, folder, monkeypatch):
    monkeypatch.chdir(folder)
    state = cli.json("new", "s", "--files=turn", "--exclude", "*.log")
    assert state["workspace"] == folder.as_uri()
    assert (state["files"]["mode"], state["files"]["roots"]) == ("turn", [folder.as_uri()])
    assert state["files"]["exclude"] == ["*.log"]
    assert "--files" in cli.run("new", "t", "--exclude", "x", code=2).err


def test_a_checkpoint_says_what_it_saved_and_the_graph_how_much_changed(cli, folder, session):
    said = cli.run("checkpoint", session, "after the turn")
    assert "files: f2-" in said.err
    assert "3 changed" in said.err
    drawn = cli.run("log", session).out.splitlines()
    assert next(line for line in drawn if "after the turn" in line).endswith("3 files")
    assert "2 snapshots" in cli.run("state", session).out


def test_a_turn_is_taken_back_with_the_conversation_and_the_undo_of_that(cli, folder, session):
    after = tree(folder)
    plan = cli.run("revert", session, "0", "--restore", "both", "--dry-run").out
    assert "1 put back, 1 changed back, 1 removed" in plan
    assert "edited.txt" in plan
    assert tree(folder) == after

    done = cli.run("revert", session, "0", "--restore", "both", "--yes")
    assert sorted(tree(folder)) == ["edited.txt", "gone.txt", "kept.txt", "src/a.py"]
    assert (folder / "edited.txt").read_text() == "one\n"
    assert "timeleap undo s --restore both" in done.err
    assert cli.json("state", session)["context"]["messageCount"] == 0

    assert "files: " in cli.run("undo", session, "--restore", "both").out
    assert tree(folder) == after
    assert cli.json("state", session)["context"]["messageCount"] == 1
    assert cli.json("redo", session, "--restore", "both")["files"]["deleted"] == 1
    assert "new.txt" not in tree(folder)


def test_the_conversation_goes_back_alone_unless_asked(cli, folder, session):
    after = tree(folder)
    assert "files" not in cli.json("revert", session, "0", "--yes")
    assert tree(folder) == after


def test_the_files_go_back_alone_if_asked(cli, folder, session):
    after = tree(folder)
    done = cli.run("revert", session, "0", "--restore", "files", "--yes")
    assert "messages" not in done.out
    assert (folder / "gone.txt").read_text() == "here\n"
    assert cli.json("state", session)["context"]["messageCount"] == 1
    cli.run(*done.err.rpartition("undo with: timeleap ")[2].split(), "--yes")
    assert tree(folder) == after


def test_what_a_person_wrote_since_is_not_overwritten_unless_it_is_said(cli, folder, session):
    file_time_passes()
    (folder / "edited.txt").write_text("a person's\n")
    refused = cli.run("revert", session, "0", "--restore", "both", "--yes", code=1).err
    assert "1 file changed after the last change of the session" in refused
    assert "edited.txt" in refused
    assert "--on-conflict keep" in refused
    error = json.loads(cli.run("revert", session, "0", "--restore", "both", "--yes", "--json", code=1).err)["error"]
    assert (error["code"], error["data"]["paths"]) == (4021, ["edited.txt"])
    assert "gone.txt" not in tree(folder)
    assert cli.json("state", session)["context"]["messageCount"] == 1

    kept = cli.json("revert", session, "0", "--restore", "both", "--on-conflict", "keep", "--yes")["files"]
    assert (kept["kept"], (folder / "edited.txt").read_text()) == (1, "a person's\n")
    assert (folder / "gone.txt").exists()


def test_what_is_overwritten_comes_back_with_the_undo(cli, folder, session):
    file_time_passes()
    (folder / "edited.txt").write_text("a person's\n")
    before = tree(folder)
    cli.run("revert", session, "0", "--restore", "both", "--on-conflict", "overwrite", "--yes")
    assert (folder / "edited.txt").read_text() == "one\n"
    cli.run("undo", session, "--restore", "both")
    assert tree(folder) == before


def test_the_question_shows_the_files_and_no_means_no(cli, folder, session):
    after = tree(folder)
    asked = cli.run("revert", session, "0", "--restore", "both", input=Typed("n\n"), code=1)
    assert "gone.txt" in asked.out
    assert "nothing was changed" in asked.err
    assert tree(folder) == after


def test_status_says_what_changed_since_the_newest_snapshot(cli, folder, session):
    told = cli.run("files", "status", session).out
    assert "at each checkpoint" in told
    assert str(folder) in told
    assert [line.split()[:2] for line in told.splitlines()[-3:]] == [
        ["modified", "edited.txt"],
        ["deleted", "gone.txt"],
        ["added", "new.txt"],
    ]
    document = cli.json("files", "status", session)
    assert {change["path"]: change["kind"] for change in document["changes"]} == {
        "edited.txt": "modified",
        "gone.txt": "deleted",
        "new.txt": "added",
    }
    cli.run("checkpoint", session)
    assert "nothing has changed since f2-" in cli.run("files", "status", session).err


def test_storage_says_what_snapshots_take(cli, folder, session):
    assert cli.json("storage")["filesBytes"] > 0
    assert "in snapshots of files" in cli.run("storage").err
    assert "1 snapshot of its files" in cli.run("storage", session).err


def test_status_says_how_to_begin(cli, folder):
    cli.run("new", "s", "--workspace", str(folder))
    assert "timeleap files mode s checkpoint" in cli.run("files", "status", "s").err
    cli.run("files", "mode", "s", "checkpoint")
    assert "timeleap checkpoint s" in cli.run("files", "status", "s").err


def test_the_log_lists_snapshots_with_their_checkpoints(cli, folder, session):
    made = cli.json("files", "snapshot", session, "by", "hand")
    assert made["changed"] == 3
    listed = cli.run("files", "log", session, "--json").lines()
    assert [each["snapshot"].split("-")[0] for each in listed] == ["f2", "f1"]
    assert listed[0]["label"] == "by hand"
    lines = cli.run("files", "log", session).out.splitlines()
    assert lines[0].split("\t") == ["snapshot", "changed", "taken", "checkpoint", "label"]
    assert "#0 before the turn" in lines[2]


def test_diff_compares_any_two_states_and_shows_lines_with_patch(cli, folder, session):
    assert cli.run("files", "diff", session, "0").out.count("\n") == 3
    cli.run("checkpoint", session, "after")
    for first, second in (("f1", "f2"), ("0", "1"), ("before the turn", "after"), ("f1", "disk")):
        found = cli.json("files", "diff", session, first, second)
        assert [change["path"] for change in found["changes"]] == ["edited.txt", "gone.txt", "new.txt"]
    for other in ("f2", "disk"):
        patch = cli.run("files", "diff", session, "f1", other, "--patch").out
        assert "-one\n+two\n" in patch
        assert "-here\n" in patch
        assert "+made\n" in patch
    assert cli.run("files", "diff", session, "f1", "--path", "new.txt").out.startswith("added")
    assert "nothing differs" in cli.run("files", "diff", session, "f2").err


def test_show_prints_a_file_as_it_was_byte_for_byte(cli, folder, session):
    raw = bytes(range(256))
    (folder / "raw.bin").write_bytes(raw)
    cli.run("checkpoint", session)
    (folder / "raw.bin").unlink()
    assert base64.b64decode(cli.json("files", "show", session, "f2", "raw.bin")["content"]) == raw
    assert cli.run("files", "show", session, "before the turn", "gone.txt").out == "here\n"
    assert cli.run("files", "show", session, "f1", str(folder / "src" / "a.py")).out == "a = 1\n"
    assert "raw.bin" in cli.run("files", "show", session, "f1", "raw.bin", code=1).err


def test_show_on_a_terminal_writes_nothing_that_it_obeys(cli, folder, session):
    (folder / "sly.txt").write_text("\x1b[2Jgone\n")
    cli.run("checkpoint", session)
    assert "\\x1b[2Jgone" in cli.terminal("files", "show", session, "f2", "sly.txt").out


def test_single_files_and_folders_are_put_back_and_the_restore_is_undone_by_its_snapshot(cli, folder, session):
    (folder / "src" / "a.py").write_text("a = 2\n")
    cli.run("append", session, "more")
    after = tree(folder)
    done = cli.run("files", "restore", session, "f1", "gone.txt", "src", "--yes")
    assert (folder / "gone.txt").read_text() == "here\n"
    assert (folder / "src" / "a.py").read_text() == "a = 1\n"
    assert (folder / "edited.txt").read_text() == "two\n"
    undo = done.err.rpartition("undo with: timeleap ")[2].split()
    cli.run(*undo, "--yes")
    assert tree(folder) == after
    assert "disk is what would be changed" in cli.run("files", "restore", session, "disk", code=2).err
    assert "not in a folder of the session" in cli.run("files", "restore", session, "f1", "/etc/passwd", code=2).err


def test_a_snapshot_alone_names_no_session(cli, folder, session, monkeypatch):
    monkeypatch.chdir(folder)
    whole = cli.run("files", "log", session, "--json").lines()[0]["snapshot"]
    for first in (whole, "f1"):
        assert "1 put back" in cli.run("files", "restore", first, "gone.txt", "--dry-run").out
    assert "there is no session" in cli.run("files", "restore", "nobody", "gone.txt", code=1).err


def test_mode_says_and_sets_when_files_are_saved(cli, folder):
    cli.run("new", "s", "--workspace", str(folder))
    assert cli.json("files", "mode", "s")["files"]["mode"] == "off"
    assert "files" not in cli.json("checkpoint", "s")["checkpoint"]
    assert "timeleap files mode s checkpoint --root ." in cli.run("checkpoint", "s", "--files").err
    cli.run("files", "mode", "s", "checkpoint")
    cli.run("files", "mode", "s", "off")
    assert "files" not in cli.json("checkpoint", "s")["checkpoint"]
    assert cli.json("checkpoint", "s", "--files")["checkpoint"]["files"]["snapshot"].startswith("f1-")
    said = cli.run("files", "mode", "s", "turn", "--exclude", "src/", "--max-file-size", "1MB").out
    assert "at each checkpoint and each end of a turn" in said
    assert "src/" in said
    assert "files" not in cli.json("checkpoint", "s", "--no-files")["checkpoint"]
    assert cli.json("files", "mode", "s", "--exclude", "x")["files"]["mode"] == "turn"
    assert cli.json("files", "mode", "s", "off")["files"]["mode"] == "off"


def test_without_git_a_checkpoint_is_written_and_says_that_its_files_were_not_saved(cli, folder, tmp_path, monkeypatch):
    cli.run("new", "s", "--files", "--workspace", str(folder))
    bare = Cli(cli.home, {"PATH": str(tmp_path / "nothing")})
    said = bare.run("checkpoint", "s")
    assert "checkpoint #0" in said.out
    assert "its files were not saved" in said.err
    refused = bare.run("files", "snapshot", "s", code=1).err
    assert "git 2.36" in refused
    assert "git 2.36" in said.err
    drawn = bare.run("log", "s").out
    assert "no snapshot" in drawn
    assert "snapshot" in bare.run("revert", "s", "0", "--restore", "files", "--yes", code=1).err


def test_a_folder_that_is_not_saved_is_said_at_once(cli, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    for said in (cli.run("new", "s", "--files", "--workspace", str(folder.parent)), cli.run("files", "status", "s")):
        assert "timeleap files mode s --root FOLDER" in said.err
        assert "timeleap checkpoint s saves them" not in said.err


def test_a_session_without_a_folder_gets_the_one_that_one_is_in(cli, folder, monkeypatch):
    cli.run("new", "s")
    monkeypatch.chdir(folder)
    assert cli.json("files", "mode", "s", "checkpoint")["files"]["roots"] == [folder.as_uri()]
    assert cli.json("files", "mode", "s", "off")["files"]["mode"] == "off"


def test_a_checkpoint_without_a_snapshot_cannot_give_files_back(cli, folder):
    cli.run("new", "s", "--workspace", str(folder))
    cli.run("checkpoint", "s")
    cli.run("files", "mode", "s", "checkpoint")
    refused = cli.run("revert", "s", "0", "--restore", "both", "--yes", code=1).err
    assert "timeleap files log s" in refused


def test_ctrl_c_while_files_are_saved_leaves_no_snapshot(cli, folder, tmp_path):
    """A git that does not come to an end is ended with the command."""
    cli.run("new", "s", "--files", "--workspace", str(folder))
    slow = tmp_path / "slow"
    slow.mkdir()
    began, real = tmp_path / "began", shutil.which("git")
    script = slow / "git"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *update-index*) echo $$ > {began}; exec sleep 600;; esac\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    impatient = Cli(cli.home, {"PATH": f"{slow}{os.pathsep}{os.environ['PATH']}"})
    process = impatient.start("files", "snapshot", "s")
    while not (began.exists() and began.read_text().strip()) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "interrupted\n")
    assert process.returncode == 130
    assert not Path(f"/proc/{began.read_text().strip()}/cwd").exists()
    assert cli.run("files", "log", "s", "--json").lines() == []


def test_several_folders_are_told_apart_by_their_paths(cli, folder, tmp_path):
    second = tmp_path / "second"
    second.mkdir()
    (second / "b.txt").write_text("b\n")
    cli.run("new", "s", "--files", "--workspace", str(folder))
    cli.run("files", "mode", "s", "checkpoint", "--root", str(folder), "--root", str(second))
    cli.run("checkpoint", "s")
    turn(folder)
    (second / "b.txt").write_text("c\n")
    cli.run("append", "s", "done")
    assert f"modified     {second}/b.txt" in cli.run("files", "status", "s").out
    assert cli.run("files", "show", "s", "f1", str(second / "b.txt")).out == "b\n"
    cli.run("files", "restore", "s", "f1", str(second), "--yes")
    assert (second / "b.txt").read_text() == "b\n"
    assert (folder / "edited.txt").read_text() == "two\n"
    several = cli.run("files", "restore", "s", "f1", str(second), str(folder), "--yes", code=2).err
    assert "name those of one" in several


def test_names_that_are_no_text_are_shown_and_put_back(cli, folder, session):
    odd = os.fsencode(folder) + b"/b\xff.txt"
    with open(odd, "wb") as file:
        file.write(b"odd")
    cli.run("checkpoint", session)
    os.unlink(odd)
    cli.run("append", session, "more")
    assert "b%FF.txt" in cli.run("files", "status", session).out
    cli.run("files", "restore", session, "f2", "b\udcff.txt", "--yes")
    assert os.path.exists(odd)


def test_what_a_snapshot_leaves_out_is_said(cli, folder, session):
    os.mkfifo(folder / "pipe")
    assert "left out: pipe (a pipe, socket or device)" in cli.run("files", "snapshot", session).err


def test_a_timeline_and_a_d_mail_take_the_files_along_too(cli, folder, session):
    after = tree(folder)
    done = cli.json("revert", session, "0", "--restore", "both", "--yes")
    before = tree(folder)
    assert "would become the log again" in cli.run("restore", session, done["timelineId"], "--dry-run").out
    shown = cli.run("restore", session, done["timelineId"], "--restore", "both").out
    assert "files: 1 put back, 1 changed back, 1 removed" in shown
    assert tree(folder) == after
    cli.run("dmail", "send", session, "--at", "0", "do less")
    plan = cli.run("dmail", "deliver", session, "--restore", "both", "--dry-run").out
    assert "put back     gone.txt" in plan
    assert "timeleap undo s --restore both" in cli.run("dmail", "deliver", session, "--restore", "both", "--yes").err
    assert tree(folder) == before
    cli.run("undo", session, "--restore", "both")
    assert tree(folder) == after


def test_redact_names_the_snapshots_that_go_with_a_secret(cli, folder, session):
    (folder / "secret.env").write_text("KEY=hunter2-and-more\n")
    cli.run("files", "snapshot", session)
    asked = cli.run("redact", session, "--value-stdin", "--dry-run", input="hunter2-and-more")
    assert "1 snapshot of files" in asked.out
    assert "f2-" in asked.out
    assert str(folder) in asked.out
    done = cli.run("redact", session, "--value-stdin", "--yes", input="hunter2-and-more")
    assert "with 1 snapshot of files" in done.out
    assert [each["snapshot"][:3] for each in cli.run("files", "log", session, "--json").lines()] == ["f1-"]
    assert (folder / "secret.env").exists()


def test_an_archive_takes_the_snapshots_along_to_another_folder(cli, folder, session, tmp_path):
    archive, target = str(tmp_path / "s.zip"), tmp_path / "other"
    target.mkdir()
    cli.run("checkpoint", session, "after")
    cli.run("export", session, archive, "--with-files")
    said = cli.run("import", archive, "left-out")
    assert "import it again and name their folder" in said.err
    cli.run("import", archive, "moved", "--folder", str(target))
    assert list(target.iterdir()) == []
    newest = cli.run("files", "log", "moved", "--json").lines()[0]["snapshot"]
    cli.run("files", "restore", "moved", newest, "--yes")
    assert tree(target) == tree(folder)
