"""`state.json`: what is ours is read and changed, all else stays; damage is kept, never overwritten unseen."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sessions.worlds import USER, World, heard, kinds

from timeleap.errors import StorageFailureError
from timeleap.sessions.documents.statefile import StateFile, StateValues
from timeleap.sessions.shapes import Approval, Subagent

ORIGINAL = {
    "version": 1,
    "approval": {"yolo": False, "afk": False, "auto_approve_actions": ["b", "a"]},
    "additional_dirs": ["/x"],
    "custom_title": "T",
    "title_generated": True,
    "plan_mode": False,
    "wire_mtime": 1.5,
    "archived": True,
    "archived_at": 3,
    "todos": [{"title": "t", "status": "pending"}],
}


def put(folder: Path, document: Any) -> StateFile:
    (folder / "state.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return StateFile(folder)


def on_disk(folder: Path) -> Any:
    return json.loads((folder / "state.json").read_text())


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert StateFile(tmp_path).read() == StateValues()
    assert list(tmp_path.iterdir()) == []


def test_the_originals_file_is_read(tmp_path: Path) -> None:
    found = put(tmp_path, ORIGINAL).read()
    assert found == StateValues(Approval(actions=("a", "b")), "T", True, None, found.document)


def test_a_write_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    file = put(tmp_path, {**ORIGINAL, "later": {"x": [1]}})
    assert file.write({"custom_title": "Ü"}) is None
    assert on_disk(tmp_path) == {**ORIGINAL, "later": {"x": [1]}, "custom_title": "Ü"}
    assert "Ü" in (tmp_path / "state.json").read_text(encoding="utf-8")
    assert stat.S_IMODE((tmp_path / "state.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damaged",
    ["", "{", "[]", "null", '{"a": 1', "\x00" * 10, "[" * 200_000, '{"version": NaN, "a": ' + "9" * 5000 + "}"],
)
def test_a_damaged_file_is_kept_under_another_name(tmp_path: Path, damaged: str) -> None:
    file = put(tmp_path, damaged)
    assert file.read().document.problem is not None
    assert (tmp_path / "state.json").read_text() == damaged
    aside = file.write({"custom_title": "new"})
    assert aside is not None
    assert aside.read_text() == damaged
    assert on_disk(tmp_path)["custom_title"] == "new"
    assert file.read().document.problem is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"approval": "yes"},
        {"approval": {"yolo": "true"}},
        {"approval": {"auto_approve_actions": "shell"}},
        {"approval": {"auto_approve_actions": [1]}},
        {"approval": {"afk": 1}},
        {"archived": "no"},
        {"archived_at": "yesterday"},
        {"custom_title": 7},
        {"custom_title": "\ud800"},
        {"dynamic_subagents": {}},
        {"dynamic_subagents": [{"name": "a"}]},
    ],
)
def test_a_field_of_a_wrong_type_costs_that_field_alone(tmp_path: Path, wrong: dict[str, Any]) -> None:
    file = put(tmp_path, {"todos": [1], "custom_title": "T", **wrong})
    found = file.read()
    assert found.document.problem is not None
    assert next(iter(wrong)) in found.document.problem
    assert not found.approval.yolo
    assert found.approval.actions == ()
    assert found.title == (None if "custom_title" in wrong else "T")
    aside = file.write({"archived": True})
    assert aside is not None
    assert on_disk(tmp_path)["todos"] == [1]
    assert file.read().document.problem is None


def test_half_a_surrogate_pair_elsewhere_survives_a_write(tmp_path: Path) -> None:
    file = put(tmp_path, '{"todos": ["\\ud800"]}')
    file.write({"archived": True})
    assert on_disk(tmp_path)["todos"] == ["\ud800"]


def test_of_two_subagents_of_one_name_the_later_counts(tmp_path: Path) -> None:
    many = [
        {"name": "a", "system_prompt": "1"},
        {"name": "b", "system_prompt": "2"},
        {"name": "a", "system_prompt": "3"},
    ]
    assert put(tmp_path, {"dynamic_subagents": many}).read().subagents == (Subagent("a", "3"), Subagent("b", "2"))


def test_what_is_no_file_is_neither_read_nor_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text('{"custom_title": "secret"}')
    for lay in (lambda path: path.symlink_to(tmp_path / "elsewhere.json"), os.mkfifo):
        path = tmp_path / "state.json"
        lay(path)
        file = StateFile(tmp_path)
        found = file.read()
        assert (found.title, found.document.problem is None) == (None, False)
        file.write({"archived": True})
        assert on_disk(tmp_path) == {"version": 1, "archived": True}
        path.unlink()
    assert json.loads((tmp_path / "elsewhere.json").read_text()) == {"custom_title": "secret"}


def test_a_file_of_absurd_size_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "state.json").open("wb") as file:
        file.truncate(1 << 30)
    assert "larger" in str(StateFile(tmp_path).read().document.problem)


def test_a_directory_in_its_place_is_an_error_of_the_write_only(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    file = StateFile(tmp_path)
    assert file.read().document.problem is not None
    file.write({"archived": True})
    assert on_disk(tmp_path)["archived"] is True


def test_the_older_originals_metadata_counts_until_there_is_a_state(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text(json.dumps({"title": "old", "archived": True, "archived_at": 5.0}))
    file = StateFile(tmp_path)
    assert (file.read().title, file.read().archived) == ("old", True)
    file.write({"archived": False})
    assert on_disk(tmp_path)["custom_title"] == "old"
    assert (file.read().title, file.read().archived) == ("old", False)
    (tmp_path / "state.json").unlink()
    (tmp_path / "metadata.json").write_text("{")
    assert file.read() == StateValues()


def test_a_write_that_fails_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from timeleap.sessions.documents import json_files as files

    file = put(tmp_path, ORIGINAL)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "atomic_write", full)
    with pytest.raises(StorageFailureError, match="space"):
        file.write({"custom_title": "x"})
    assert on_disk(tmp_path) == ORIGINAL


async def test_a_session_with_a_damaged_state_opens_says_so_and_keeps_it(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    await session.set_title("T")
    await world.close()
    (world.path() / "state.json").write_text('{"custom_title": "T", "todos": [1')
    session = await world.reopened()
    told = heard(session)
    assert [one["kind"] for one in session.warnings] == ["stateDamaged"]
    assert session.facts.title is None
    await session.append([USER])
    assert (world.path() / "state.json").read_text() == '{"custom_title": "T", "todos": [1'
    await session.set_title("N")
    kept = list(world.path().glob("state.damaged-*.json"))
    assert [one.read_text() for one in kept] == ['{"custom_title": "T", "todos": [1']
    assert [one["file"] for one in session.warnings] == [kept[0].name]
    assert kinds(told) == ["messagesAppended", "titleChanged"]


async def test_a_state_change_that_fails_is_not_half_believed(world: World) -> None:
    from timeleap.storage import durable

    session = await world.session()
    await session.set_title("old")
    for point in ("state.after_state", "state.after_meta"):
        told = heard(session)
        durable.arm(f"{point}=raise:EIO")
        try:
            with pytest.raises(OSError, match="error"):
                await session.set_title("new")
        finally:
            durable.arm("")
        assert session.facts.title == world.json("state.json")["custom_title"]
        assert kinds(told) == ["titleChanged"]
        await session.set_title("old")
