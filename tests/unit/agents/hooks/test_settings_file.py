from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeleap.storage import durable
from timeleap_agents.hooks.agents import AGENTS, SettingsPlace
from timeleap_agents.hooks.settings_file import MAX_BYTES, HookSettings, installed, read
from timeleap_agents.hooks.unsafe import UnsafeSettingsError

CLAUDE = AGENTS["claude-code"]
COMMAND = "/opt/timeleap --home /store hook claude-code"
OTHER = {"matcher": "Bash", "hooks": [{"type": "command", "command": "make lint"}]}
TEXT = json.dumps({"model": "opus", "hooks": {"Stop": [OTHER]}, "env": {"A": "1"}}, indent=4)


class Scene:
    """A person's folder with Claude Code's settings, and a store."""

    def __init__(self, folder: Path, text: str | None = None) -> None:
        self.path = folder / ".claude" / "settings.json"
        self.settings = HookSettings(CLAUDE, SettingsPlace(folder, (".claude", "settings.json")), folder / "home")
        if text is not None:
            self.write(text)

    def write(self, text: str) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(text.encode())

    def install(self, command: str = COMMAND) -> None:
        self.settings.carry_out(self.settings.plan_install(command), install=True)

    def uninstall(self) -> None:
        self.settings.carry_out(self.settings.plan_uninstall(), install=False)

    def value(self) -> Any:
        return json.loads(self.path.read_bytes())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, TEXT)


HANDLERS = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=20)})
GROUPS = st.fixed_dictionaries({"hooks": st.lists(HANDLERS, max_size=3)}, optional={"matcher": st.text(max_size=5)})
EVENTS = st.sampled_from(["UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd", "PreToolUse", "Other"])
FILES = st.builds(
    lambda rest, hooks: {**rest, **({} if hooks is None else {"hooks": hooks})},
    st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5) | st.lists(st.integers()), max_size=3),
    st.none() | st.dictionaries(EVENTS, st.lists(GROUPS | st.integers(), max_size=3), max_size=4),
)


@settings(max_examples=60, deadline=None)
@given(FILES, st.sampled_from([None, 0, 2, 4, "\t"]), st.sampled_from(["", "\n", "  \n\n"]), st.booleans())
def test_any_settings_are_the_same_bytes_after_install_and_uninstall(
    value: Any, indent: Any, end: str, crlf: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False) + end
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), text.replace("\n", "\r\n") if crlf else text)
        before = scene.path.read_bytes()
        scene.install()
        assert set(installed(CLAUDE, scene.path.read_text())) == set(CLAUDE.events)
        for event, groups in (value.get("hooks") or {}).items():
            assert scene.value()["hooks"][event][: len(groups)] == groups
        scene.uninstall()
        assert scene.path.read_bytes() == before


@settings(max_examples=40, deadline=None)
@given(FILES.filter(bool), st.sampled_from([None, 2, "\t"]))
def test_in_settings_that_were_changed_since_only_our_hooks_go(value: Any, indent: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), json.dumps(value, indent=indent))
        scene.install()
        text = scene.path.read_text()
        scene.write('{"changed": [1,  2],' + text[1:] if "changed" not in value else text)
        scene.uninstall()
        assert scene.value() == {"changed": [1, 2], **value}
        assert "[1,  2]" in scene.path.read_text()


def test_without_a_file_one_is_made_and_removed_with_its_folder(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.install()
    assert set(scene.value()["hooks"]) == set(CLAUDE.events)
    scene.uninstall()
    assert not scene.path.parent.exists()


def test_a_file_that_we_made_and_somebody_filled_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.install()
    scene.write(scene.path.read_text().replace("{", '{\n  "model": "opus",', 1))
    scene.uninstall()
    assert scene.value() == {"model": "opus"}


def test_a_second_install_changes_nothing_and_one_of_another_place_replaces_the_first(scene: Scene) -> None:
    scene.install()
    assert not scene.settings.plan_install(COMMAND).changes
    scene.install("/new/timeleap --home '/my store' hook claude-code")
    assert installed(CLAUDE, scene.path.read_text())["Stop"] == ["/new/timeleap --home '/my store' hook claude-code"]
    scene.uninstall()
    assert scene.path.read_text() == TEXT


def test_hooks_go_without_a_record_of_the_installation_too(scene: Scene, tmp_path: Path) -> None:
    scene.install()
    for record in (tmp_path / "home" / "hooks").iterdir():
        record.unlink()
    scene.uninstall()
    assert scene.value()["hooks"]["Stop"] == [OTHER]
    assert installed(CLAUDE, scene.path.read_text()) == {}


def test_a_record_that_somebody_rewrote_puts_nothing_into_the_settings(scene: Scene, tmp_path: Path) -> None:
    scene.install()
    (record,) = (tmp_path / "home" / "hooks").iterdir()
    members = json.loads(record.read_bytes())
    members["before"] = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "evil"}]}]}}'
    record.write_text(json.dumps(members))
    scene.uninstall()
    assert scene.path.read_text() == TEXT


def test_a_layout_that_was_changed_since_stays(scene: Scene) -> None:
    scene.install()
    scene.write(json.dumps(scene.value(), indent=1))
    scene.uninstall()
    assert scene.path.read_text() == json.dumps(json.loads(TEXT), indent=1)


def test_our_hook_in_a_group_with_another_goes_alone(scene: Scene) -> None:
    ours = {"type": "command", "command": COMMAND}
    scene.write(json.dumps({"hooks": {"Stop": [{"hooks": [*OTHER["hooks"], ours]}]}}))
    scene.uninstall()
    assert scene.value() == {"hooks": {"Stop": [{"hooks": OTHER["hooks"]}]}}


@pytest.mark.parametrize(
    "command",
    [
        "nice timeleap hook claude-code",
        "timeleap hook codex",
        "timeleap hook claude-code --x",
        "hook claude-code",
        "echo 'timeleap hook claude-code'",
        "timeleap 'hook claude-code",
        "python -m timeleap hook claude-code",
    ],
)
def test_a_hook_that_only_looks_like_ours_is_left_alone(scene: Scene, command: str) -> None:
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}})
    scene.write(text)
    assert not scene.settings.plan_uninstall().changes


def test_permissions_stay(scene: Scene) -> None:
    scene.path.chmod(0o640)
    scene.install()
    assert scene.path.stat().st_mode & 0o777 == 0o640


def test_what_was_changed_after_it_was_shown_is_not_overwritten(scene: Scene) -> None:
    change = scene.settings.plan_install(COMMAND)
    scene.write('{"model": "sonnet"}')
    with pytest.raises(UnsafeSettingsError, match="changed meanwhile"):
        scene.settings.carry_out(change, install=True)
    assert scene.value() == {"model": "sonnet"}


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on settings cannot be written."""
    replace = durable.replace_file

    def refuse(source: Path, target: Path) -> None:
        if target.name == "settings.json":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(durable, "replace_file", refuse)


def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, '{ "hooks": { } }')
    scene.install()
    before = _everything(tmp_path)
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space"):
        scene.install("/other/timeleap hook claude-code")
    assert _contents(_everything(tmp_path)) == _contents(before)


def test_a_first_install_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space"):
        Scene(tmp_path).install()
    assert [path.name for path in tmp_path.rglob("*") if path.name not in {"home", "hooks"}] == []


def test_where_nothing_is_installed_nothing_is_taken_out(scene: Scene, tmp_path: Path) -> None:
    scene.install()
    records = {path: path.read_bytes() for path in (tmp_path / "home" / "hooks").iterdir()}
    scene.uninstall()
    for path, record in records.items():
        path.write_bytes(record)  # as a crash could leave it
    scene.write('{"hooks": {"UserPromptSubmit": []}}')
    assert not scene.settings.plan_uninstall().changes


def _link(path: Path) -> None:
    (path.parent / "elsewhere.json").write_text(TEXT)
    path.unlink()
    path.symlink_to("elsewhere.json")


def _in_its_place(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def place(path: Path) -> None:
        path.unlink()
        make(path)

    return place


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


HOSTILE = {
    "is a link": _link,
    "has another name": lambda path: path.with_name("second").hardlink_to(path),
    "is no regular file": _in_its_place(Path.mkdir),
    "is no regular file ": _in_its_place(os.mkfifo),
    "is no regular file  ": _in_its_place(_socket),
    "is read-only": lambda path: path.chmod(0o444),
    "is larger than": lambda path: path.write_text(f'{{"a": "{"x" * MAX_BYTES}"}}'),
    "byte order mark": lambda path: path.write_bytes(b"\xef\xbb\xbf{}"),
    "no plain JSON, which has no comments": lambda path: path.write_text('{"a": 1} // mine'),
    "no plain JSON.*at the end": lambda path: path.write_text('{"a": [1,],}'),
    "no plain JSON": lambda path: path.write_text('{"a": '),
    "no plain JSON.*Expecting value": lambda path: path.write_text(""),
    "two members": lambda path: path.write_text('{"hooks": {}, "hooks": {}}'),
    "nested too deeply": lambda path: path.write_text("[" * 100_000 + "]" * 100_000),
    "no UTF-8": lambda path: path.write_bytes(b'{"a": "\xff"}'),
    "no JSON object": lambda path: path.write_text("[]"),
    "hooks is no JSON object": lambda path: path.write_text('{"hooks": []}'),
    "hooks.Stop is no JSON array": lambda path: path.write_text('{"hooks": {"Stop": {}}}'),
}


@pytest.mark.parametrize("says", HOSTILE)
def test_what_is_not_fit_to_be_edited_is_refused_and_nothing_is_written(
    scene: Scene, tmp_path: Path, says: str
) -> None:
    HOSTILE[says](scene.path)
    before = _everything(scene.path.parent)
    for plan in (lambda: scene.settings.plan_install(COMMAND), scene.settings.plan_uninstall):
        with pytest.raises(UnsafeSettingsError, match=says.strip()):
            plan()
    assert _everything(scene.path.parent) == before
    assert not (tmp_path / "home").exists()


def test_a_folder_that_is_a_link_is_not_followed(scene: Scene, tmp_path: Path) -> None:
    scene.path.parent.rename(tmp_path / "elsewhere")
    scene.path.parent.symlink_to("elsewhere")
    with pytest.raises(UnsafeSettingsError, match="is a link, which is not followed"):
        scene.settings.plan_install(COMMAND)


def test_the_largest_file_that_is_taken_and_the_first_that_is_not(scene: Scene) -> None:
    scene.write('"' + "x" * (MAX_BYTES - 2) + '"')
    with pytest.raises(UnsafeSettingsError, match="no JSON object"):  # it was read
        read(scene.settings.place)
    scene.write('"' + "x" * (MAX_BYTES - 1) + '"')
    with pytest.raises(UnsafeSettingsError, match="larger"):
        read(scene.settings.place)


def test_a_file_full_of_our_hooks_is_left_to_the_person(scene: Scene) -> None:
    group = {"hooks": [{"type": "command", "command": COMMAND}]}
    scene.write(json.dumps({"hooks": {"Stop": [group] * 63}}))
    assert scene.settings.plan_uninstall().changes
    scene.write(json.dumps({"hooks": {"Stop": [group] * 65}}))
    with pytest.raises(UnsafeSettingsError, match="more than 64"):
        scene.settings.plan_uninstall()


def test_the_folder_that_the_environment_names_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    named = CLAUDE.place(None, {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")})
    assert named.path == tmp_path / "config" / "settings.json"
    assert CLAUDE.place(None, {"CLAUDE_CONFIG_DIR": ""}).path == tmp_path / ".claude" / "settings.json"
    assert CLAUDE.place(Path("/p"), {"CLAUDE_CONFIG_DIR": "/c"}).path == Path("/p/.claude/settings.local.json")


def _everything(folder: Path) -> dict[str, object]:
    """The files of a folder: what each is, and holds."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        content: object = None
        with suppress(OSError):
            if path.is_file():
                content = path.read_bytes()
        found[path.name] = (path.lstat().st_mode, path.lstat().st_ino, content)
    return found


def _contents(files: dict[str, object]) -> dict[str, object]:
    return {name: facts[2] for name, facts in files.items() if isinstance(facts, tuple)}
