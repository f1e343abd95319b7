from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from timeleap.cli import completion
from timeleap.cli.app import main
from timeleap.cli.completion import SCRIPTS, offers


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with two sessions, and a folder that is none."""
    for name in ("second", "s", "$(evil)"):
        (tmp_path / "sessions" / name).mkdir(parents=True)
    monkeypatch.setenv("TIMELEAP_HOME", str(tmp_path))
    return tmp_path


def offered(line):
    *words, last = line.split(" ")
    return [value for value, _ in offers(words, last)]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("rev", ["revert"]),
        ("trash pu", ["purge"]),
        ("state s", ["s", "second"]),
        ("--json state se", ["second"]),
        ("yolo s o", ["on", "off"]),
        ("revert s 3 --restore bo", ["both"]),
        ("revert s 3 --re", ["--restore"]),
        ("revert --restore both sec", ["second"]),
        ("trash undelete s sec", ["second"]),
        ("trash purge -y sec", ["second"]),
        ("config get trash.", ["trash.maxAge"]),
        ("call context/revertT", ["context/revertTo"]),
        ("sessions --no-such-option --fl", ["--flat"]),
        ("--vers", ["--version"]),
        ("export s ", []),
        ("nothing ", []),
        ("trash nothing ", []),
        ("state s too many ", []),
    ],
)
def test_words_that_may_come_next(line, values, store):
    assert offered(line) == values


def test_sessions_are_those_of_the_home_that_was_named(store, tmp_path):
    (tmp_path / "other" / "sessions" / "sole").mkdir(parents=True)
    assert offered(f"--home {tmp_path / 'other'} state ") == ["sole"]
    assert offered(f"state --home {tmp_path / 'other'} ") == ["sole"]
    assert offered("--home /nowhere state ") == []


def answered(capsys, monkeypatch, **environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["timeleap"])
    return main(), capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "lines"),
    [("timeleap trash pur", "purge"), ("timeleap trash 'pur", "purge"), ("timeleap trash undelete ", "s")],
)
def test_each_shell_gets_its_form(line, lines, store, capsys, monkeypatch):
    fish = {"_TIMELEAP_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": line}
    code, out = answered(capsys, monkeypatch, **fish, _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert (code, out.splitlines()[0].split("\t")[0]) == (0, lines)
    assert answered(capsys, monkeypatch, **fish, _TYPER_COMPLETE_FISH_ACTION="is-args") == (0, "")
    assert answered(capsys, monkeypatch, **fish | {"_TYPER_COMPLETE_ARGS": "timeleap export s "}) == (1, "")
    code, out = answered(capsys, monkeypatch, _TIMELEAP_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
    assert out.startswith(f'_arguments \'*: :(("{lines}"')
    code, out = answered(capsys, monkeypatch, _TYPER_COMPLETE_ARGS="timeleap export s ")
    assert out == "_files\n"
    power = {"_TIMELEAP_COMPLETE": "complete_powershell", "_TYPER_COMPLETE_WORD_TO_COMPLETE": "pur"}
    code, out = answered(capsys, monkeypatch, **power, _TYPER_COMPLETE_ARGS="timeleap trash pur")
    assert out.startswith("purge:::Remove sessions")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_installed_once_and_shown(shell, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    (tmp_path / ".bashrc").write_text("alias x=y")
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["timeleap", "--install-completion"])
        assert main() == 0
    written = [file for file in tmp_path.rglob("*") if file.is_file() and not file.name.endswith("rc")]
    assert [file.read_text() for file in written] == [SCRIPTS[shell]]
    for rc in (tmp_path / ".bashrc", tmp_path / ".zshrc"):
        assert not rc.exists() or len(set(rc.read_text().splitlines())) == len(rc.read_text().splitlines())
    assert (tmp_path / ".bashrc").read_text().startswith("alias x=y")
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", ["timeleap", "--show-completion", shell])
    assert main() == 0
    assert capsys.readouterr().out == SCRIPTS[shell]


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_an_unknown_shell_is_said(option, capsys, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    for words in ([option], [option, "cmd"]):
        monkeypatch.setattr("sys.argv", ["timeleap", *words])
        assert main() == 2
        assert "bash, zsh, fish" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_by_the_script(store, tmp_path):
    """Run the completion script as bash does at a Tab."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "timeleap"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m timeleap "$@"\n')
    program.chmod(0o755)
    typed = "COMP_WORDS=(timeleap state se); COMP_CWORD=2; _timeleap_completion timeleap; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"PATH={folder}:$PATH\n{SCRIPTS['bash']}\n{typed}"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("second\n", "")


def test_what_is_installed_names_a_place_in_the_home_folder():
    assert Path(completion.__file__).exists()
