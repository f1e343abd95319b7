"""`timeleap.json`: versions, unknown members, damage; and its part as the engine's notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sessions.worlds import USER, World, texts

from timeleap.features.approvals.seal import seals_of
from timeleap.features.approvals.switches import set_yolo
from timeleap.sessions.documents import meta as metafile
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.shapes import Parent
from timeleap.storage.log_values import TimelineFacts


def on_disk(folder: Path) -> Any:
    return json.loads((folder / "timeleap.json").read_text())


def test_an_owner_completes_it_and_a_reader_writes_nothing(tmp_path: Path) -> None:
    reader = Meta(tmp_path, "readOnly")
    assert (reader.uid, reader.epoch, reader.created_at) == ("", 0, None)
    reader.bump_epoch()
    reader.remember(rotation=3)
    assert list(tmp_path.iterdir()) == []
    owner = Meta(tmp_path, "owner")
    assert list(tmp_path.iterdir()) == []
    assert len(owner.uid) == 32
    assert owner.epoch > 1_600_000_000
    assert Meta(tmp_path, "readOnly").uid == owner.uid
    assert on_disk(tmp_path)["version"] == 1


def test_unknown_members_are_kept(tmp_path: Path) -> None:
    (tmp_path / "timeleap.json").write_text(json.dumps({"version": 1, "uid": "u", "epoch": 5, "later": {"a": [1]}}))
    meta = Meta(tmp_path, "owner")
    meta.write({"workspace": "file:///w"})
    meta.write({"workspace": None, "autoCheckpoint": "turn"})
    assert on_disk(tmp_path) == {"version": 1, "uid": "u", "epoch": 5, "later": {"a": [1]}, "autoCheckpoint": "turn"}


def test_a_newer_version_is_kept_and_said(tmp_path: Path) -> None:
    (tmp_path / "timeleap.json").write_text(json.dumps({"version": 7, "uid": "u", "epoch": 5}))
    meta = Meta(tmp_path, "owner")
    meta.write({"rotation": 2})
    assert on_disk(tmp_path) == {"version": 7, "uid": "u", "epoch": 5, "rotation": 2}
    assert [one["kind"] for one in meta.warnings] == ["newerVersion"]


def test_older_versions_are_brought_up_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (*metafile.MIGRATIONS, lambda members: {**members, "version": 2, "epoch": members["epoch"] * 2})
    monkeypatch.setattr(metafile, "MIGRATIONS", steps)
    monkeypatch.setattr(metafile, "VERSION", 2)
    for found, epoch in (({"epoch": 5}, 10), ({"version": 1, "epoch": 5}, 10), ({"version": 2, "epoch": 5}, 5)):
        (tmp_path / "timeleap.json").write_text(json.dumps(found))
        meta = Meta(tmp_path, "readOnly")
        assert (meta.epoch, meta.get("version"), meta.warnings) == (epoch, 2, [])


@pytest.mark.parametrize(
    "damaged", ["", "{", "[1]", '{"version": "1"}', '{"version": -1}', '{"version": true}', "\xff"]
)
def test_a_damaged_file_is_kept_under_another_name(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "timeleap.json"
    path.write_text(damaged, encoding="latin-1")
    reader = Meta(tmp_path, "readOnly")
    assert [one["kind"] for one in reader.warnings] == ["metaDamaged"]
    assert path.read_text(encoding="latin-1") == damaged
    owner = Meta(tmp_path, "owner")
    assert owner.uid
    assert [one["kind"] for one in owner.warnings] == ["metaDamaged"]
    kept = list(tmp_path.glob("timeleap.damaged-*.json"))
    assert [one.read_text(encoding="latin-1") for one in kept] == [damaged]


def test_members_of_wrong_types_count_as_missing(tmp_path: Path) -> None:
    odd = {
        "version": 1,
        "uid": 7,
        "createdAt": [],
        "epoch": True,
        "rotation": "x",
        "workspace": {},
        "parent": "p",
        "autoCheckpoint": 1,
        "subagents": [1, {"name": "a"}],
        "pendingDMail": {"checkpointId": "0"},
        "seals": [{"revision": "1"}, 5, {"revision": 1}],
        "timelines": {"context_1": 1, "context_2": {"reason": "odd", "extra": 5}},
        "inheritedLines": None,
    }
    (tmp_path / "timeleap.json").write_text(json.dumps(odd))
    meta = Meta(tmp_path, "readOnly")
    assert (meta.uid, meta.created_at, meta.epoch, meta.rotation, meta.workspace) == ("", None, 0, 0, None)
    assert (meta.parent, meta.auto_checkpoint, meta.subagents, meta.pending_dmail) == (None, "off", (), None)
    assert (seals_of(meta), meta.inherited_lines) == ((), 0)
    assert meta.facts("context_1") is None
    assert meta.facts("context_2") == TimelineFacts()
    (tmp_path / "timeleap.json").write_text(json.dumps({"parent": {"sessionId": "a", "checkpointUid": 4}}))
    meta.refresh()
    assert meta.parent == Parent("a", None)


def test_the_engines_notes_are_kept(tmp_path: Path) -> None:
    meta = Meta(tmp_path, "owner")
    epoch = meta.epoch
    meta.bump_epoch()
    meta.remember(rotation=4)
    meta.remember(rotation=3)
    facts = TimelineFacts("revert", "2026-01-01T00:00:00.000Z", {"a": 1})
    meta.write({"timelines": meta.with_facts("context_4", facts)})
    again = Meta(tmp_path, "readOnly")
    assert (again.epoch, again.rotation) == (epoch + 1, 4)
    assert again.facts("context_4") == facts
    assert again.without_facts(["context_4"]) == {}


async def test_a_session_whose_file_is_lost_or_damaged_still_opens(world: World) -> None:
    session = await world.session(title="T")
    await session.append([USER])
    await set_yolo(session, True)
    heads = {session.head}
    for damage in (Path.unlink, lambda path: path.write_text("{")):
        await world.close()
        damage(world.path() / "timeleap.json")
        session = await world.reopened()
        assert (texts(session), session.facts.title) == (["Where is the file?"], "T")
        assert not session.facts.approval.yolo
        assert "approvalSealBroken" in [one["kind"] for one in session.warnings]
        heads.add(session.head)
    assert "metaDamaged" in [one["kind"] for one in session.warnings]
