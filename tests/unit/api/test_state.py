"""`state.json`: the original's form and behaviour, nothing unknown lost, nothing damaged overwritten."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from timeleap import (
    STATE_FILE_NAME,
    ApprovalStateData,
    DynamicSubagentSpec,
    SessionState,
    TodoItemState,
    atomic_json_write,
    load_session_state,
    save_session_state,
)
from timeleap.api.state import MAX_STATE_BYTES
from timeleap.sessions.documents.statefile import upgrade


def write(directory: Path, document: Any, name: str = STATE_FILE_NAME) -> Path:
    path = directory / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def saved(directory: Path) -> dict[str, Any]:
    document = json.loads((directory / STATE_FILE_NAME).read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def test_the_defaults() -> None:
    state = SessionState()
    assert state.version == 1
    assert (state.approval.yolo, state.approval.afk, state.approval.auto_approve_actions) == (False, False, set())
    assert (state.dynamic_subagents, state.additional_dirs, state.todos) == ([], [], [])
    assert (state.custom_title, state.title_generated, state.title_generate_attempts) == (None, False, 0)
    assert (state.plan_mode, state.plan_session_id, state.plan_slug) == (False, None, None)
    assert (state.wire_mtime, state.archived, state.archived_at, state.auto_archive_exempt) == (
        None,
        False,
        None,
        False,
    )
    assert SessionState().dynamic_subagents is not state.dynamic_subagents


def test_no_file_and_no_directory_mean_the_defaults(tmp_path: Path) -> None:
    assert load_session_state(tmp_path) == SessionState()
    assert load_session_state(tmp_path / "missing") == SessionState()
    assert list(tmp_path.iterdir()) == []


def test_a_round_trip(tmp_path: Path) -> None:
    state = SessionState(
        approval=ApprovalStateData(yolo=True, afk=True, auto_approve_actions={"Shell", "WriteFile"}),
        dynamic_subagents=[DynamicSubagentSpec(name="reviewer", system_prompt="审查代码")],
        todos=[TodoItemState(title="t", status="in_progress")],
        custom_title="标题",
        archived=True,
        archived_at=12.5,
    )
    assert save_session_state(state, tmp_path) is None
    assert load_session_state(tmp_path) == state
    assert load_session_state(str(tmp_path)) == state


def test_the_bytes_are_those_of_the_original(tmp_path: Path) -> None:
    save_session_state(SessionState(), tmp_path)
    expected = {
        "version": 1,
        "approval": {"yolo": False, "afk": False, "auto_approve_actions": []},
        "additional_dirs": [],
        "custom_title": None,
        "title_generated": False,
        "title_generate_attempts": 0,
        "plan_mode": False,
        "plan_session_id": None,
        "plan_slug": None,
        "wire_mtime": None,
        "archived": False,
        "archived_at": None,
        "auto_archive_exempt": False,
        "todos": [],
    }
    text = (tmp_path / STATE_FILE_NAME).read_text(encoding="utf-8")
    assert text == json.dumps(expected, indent=2, ensure_ascii=False)


def test_subagents_are_written_once_there_were_any(tmp_path: Path) -> None:
    write(tmp_path, {"version": 1, "dynamic_subagents": []})
    save_session_state(load_session_state(tmp_path), tmp_path)
    assert saved(tmp_path)["dynamic_subagents"] == []
    state = SessionState()
    state.dynamic_subagents.append(DynamicSubagentSpec(name="a", system_prompt="b"))
    save_session_state(state, tmp_path)
    assert saved(tmp_path)["dynamic_subagents"] == [{"name": "a", "system_prompt": "b"}]


def test_sets_are_written_in_order(tmp_path: Path) -> None:
    actions = {f"action-{number}" for number in range(50)}
    save_session_state(SessionState(approval=ApprovalStateData(auto_approve_actions=actions)), tmp_path)
    assert saved(tmp_path)["approval"]["auto_approve_actions"] == sorted(actions)


def test_unknown_fields_are_kept_at_every_level(tmp_path: Path) -> None:
    document = {
        "version": 1,
        "approval": {"yolo": True, "auto_approve_actions": [], "expires": {"at": 5}},
        "dynamic_subagents": [{"name": "a", "system_prompt": "b", "tools": ["x"]}],
        "todos": [{"title": "t", "status": "done", "owner": None}],
        "theme": {"dark": [True, None, 1.5]},
    }
    write(tmp_path, document)
    save_session_state(load_session_state(tmp_path), tmp_path)
    after = saved(tmp_path)
    assert after["approval"]["expires"] == {"at": 5}
    assert after["dynamic_subagents"] == document["dynamic_subagents"]
    assert after["todos"] == document["todos"]
    assert after["theme"] == document["theme"]


def test_a_file_of_a_newer_version_is_read_and_kept(tmp_path: Path) -> None:
    write(tmp_path, {"version": 7, "approval": {"yolo": True}, "future": 1})
    state = load_session_state(tmp_path)
    assert state.approval.yolo
    assert save_session_state(state, tmp_path) is None
    assert (saved(tmp_path)["version"], saved(tmp_path)["future"]) == (7, 1)


def test_a_file_without_a_version_is_of_version_1(tmp_path: Path) -> None:
    write(tmp_path, {"approval": {"yolo": True}, "custom_title": "t"})
    state = load_session_state(tmp_path)
    assert (state.version, state.approval.yolo, state.custom_title) == (1, True, "t")


def test_the_chain_of_versions() -> None:
    assert upgrade({"version": 0, "title": "T", "session_id": "x", "archived": True}) == {
        "version": 1,
        "custom_title": "T",
        "archived": True,
    }
    assert upgrade({"version": 0, "title": "Untitled"}) == {"version": 1}
    assert upgrade({"a": 1}) == {"a": 1}


DAMAGED = [
    b"",
    b'{"version": 1, "approval":',
    b"not json",
    b"\x80\xff\xfe\x00",
    b"[]",
    b'{"version": "one"}',
    b'{"version": true}',
    b'{"version": -1}',
    b'{"approval": "bad"}',
    b'{"approval": {"yolo": "perhaps"}}',
    b'{"x": NaN}',
    b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"x": ' + b"1" * 5_000 + b"}",
    b'{"todos": [{"title": "t", "status": "dreaming"}]}',
]


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_counts_as_absent_and_is_kept_by_the_first_save(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / STATE_FILE_NAME).write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert load_session_state(tmp_path) == SessionState()
    assert "damaged" in caplog.text
    assert (tmp_path / STATE_FILE_NAME).read_bytes() == data, "looking at it changes nothing"

    moved = save_session_state(SessionState(custom_title="new"), tmp_path)
    assert moved is not None
    assert moved.read_bytes() == data
    assert saved(tmp_path)["custom_title"] == "new"
    assert save_session_state(SessionState(), tmp_path) is None, "moved once"


def test_damaged_files_do_not_overwrite_each_other(tmp_path: Path) -> None:
    kept = []
    for data in (b"first", b"second"):
        (tmp_path / STATE_FILE_NAME).write_bytes(data)
        kept.append(save_session_state(SessionState(), tmp_path))
    assert [path.read_bytes() for path in kept if path] == [b"first", b"second"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no FIFOs")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / STATE_FILE_NAME)
    assert load_session_state(tmp_path) == SessionState()


def test_a_gigantic_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / STATE_FILE_NAME).open("wb") as file:
        file.truncate(MAX_STATE_BYTES + 1)
    assert load_session_state(tmp_path) == SessionState()


def test_saving_needs_the_directory(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        save_session_state(SessionState(), tmp_path / "missing")


@pytest.mark.parametrize("failing", ["dump", "fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_session_state(SessionState(custom_title="old"), tmp_path)
    before = (tmp_path / STATE_FILE_NAME).read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    if failing == "dump":
        monkeypatch.setattr(json, "dump", fail)
    else:
        from timeleap.storage import durable

        name = {"fsync": "sync_data", "replace": "replace_file"}[failing]
        monkeypatch.setattr(durable, name, fail)
    with pytest.raises(OSError, match="full"):
        save_session_state(SessionState(custom_title="new"), tmp_path)
    assert (tmp_path / STATE_FILE_NAME).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE_NAME]


LEGACY = {
    "session_id": "s",
    "title": "Legacy",
    "title_generated": True,
    "title_generate_attempts": 2,
    "wire_mtime": 1234.5,
    "archived": True,
    "archived_at": 9999.0,
    "auto_archive_exempt": True,
}


def test_the_old_metadata_file_is_taken_over(tmp_path: Path) -> None:
    legacy = write(tmp_path, LEGACY, "metadata.json")
    state = load_session_state(tmp_path)
    assert state.custom_title == "Legacy"
    assert (state.title_generated, state.title_generate_attempts, state.wire_mtime) == (True, 2, 1234.5)
    assert (state.archived, state.archived_at, state.auto_archive_exempt) == (True, 9999.0, True)
    assert not legacy.exists()
    assert saved(tmp_path)["custom_title"] == "Legacy"
    assert load_session_state(tmp_path) == state


def test_what_the_state_says_goes_before_the_old_file(tmp_path: Path) -> None:
    save_session_state(SessionState(custom_title="Set", archived_at=1.0), tmp_path)
    legacy = write(tmp_path, LEGACY, "metadata.json")
    state = load_session_state(tmp_path)
    assert (state.custom_title, state.archived_at, state.wire_mtime) == ("Set", 1.0, 1234.5)
    assert not legacy.exists()


def test_an_old_file_that_says_nothing_is_removed_without_a_save(tmp_path: Path) -> None:
    legacy = write(tmp_path, {"session_id": "s", "title": "Untitled", "title_generate_attempts": 0}, "metadata.json")
    assert load_session_state(tmp_path).custom_title is None
    assert not legacy.exists()
    assert not (tmp_path / STATE_FILE_NAME).exists()


@pytest.mark.parametrize("text", ["not json {{{", "[1]", '{"title": 5}'])
def test_an_old_file_that_cannot_be_read_stays(tmp_path: Path, text: str) -> None:
    legacy = write(tmp_path, text, "metadata.json")
    assert load_session_state(tmp_path) == SessionState()
    assert legacy.read_text() == text


def test_an_old_file_stays_until_the_state_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    legacy = write(tmp_path, LEGACY, "metadata.json")

    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "read-only")

    with monkeypatch.context() as patch:
        patch.setattr("timeleap.storage.durable.atomic_write", fail)
        assert load_session_state(tmp_path).custom_title == "Legacy"
    assert legacy.exists()
    load_session_state(tmp_path)
    assert not legacy.exists()


def test_taking_over_does_not_overwrite_a_damaged_state(tmp_path: Path) -> None:
    write(tmp_path, "damaged")
    write(tmp_path, LEGACY, "metadata.json")
    assert load_session_state(tmp_path).custom_title == "Legacy"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.damaged-1.json", "state.json"]


def test_atomic_json_write(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_json_write({"名": [1, None]}, path)
    assert path.read_text(encoding="utf-8") == '{\n  "名": [\n    1,\n    null\n  ]\n}'
    atomic_json_write([], str(path))
    assert path.read_text() == "[]"
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    for wrong in (object(), "\ud800"):
        with pytest.raises((TypeError, ValueError)):
            atomic_json_write(wrong, path)
    assert path.read_text() == "[]"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab日\n", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50, deadline=None
)
@given(st.dictionaries(st.text("uvw_", min_size=1, max_size=4), JSON, max_size=4))
def test_any_unknown_field_survives(tmp_path: Path, extra: dict[str, Any]) -> None:
    write(tmp_path, {"version": 1, **extra})
    save_session_state(load_session_state(tmp_path), tmp_path)
    assert {name: saved(tmp_path)[name] for name in extra} == extra
