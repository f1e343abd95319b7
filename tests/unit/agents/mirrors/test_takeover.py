"""Mirrors that an earlier build named after the path of the file: they are taken over, with all they have.

`tests/fixtures/mirror_2026_11.tar.gz` was written by that build: a mirror with a timeline, a title, pins, archived; and
a fork of it. Its path is that of the test, and so is the id that the build would have given it.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from timeleap.errors import SessionLockedError
from timeleap.features.approvals.seal import ENVIRONMENT
from timeleap.service import config
from timeleap.service.service import Service
from timeleap.sessions.documents.meta import Meta
from timeleap_agents.mirrors import takeover
from timeleap_agents.mirrors.bridge import bridge_of
from timeleap_agents.mirrors.folders import FolderNotes, facts_of, former_id, mirror_id

ARCHIVE = Path(__file__).resolve().parents[3] / "fixtures" / "mirror_2026_11.tar.gz"
KIND = "claude-code"


class KilledError(BaseException):
    """Nothing that comes after it is done."""


class OldStore:
    """Attributes:
    home: Of the store.
    file: The program's file.
    former: The id that the earlier build gave to its mirror.
    now: That of today.
    """

    def __init__(self, folder: Path) -> None:
        with tarfile.open(ARCHIVE) as packed:
            packed.extractall(folder, filter="data")
        self.home = folder / "home"
        (self.file,) = (folder / "projects" / "-shop").iterdir()
        self.former, self.now = former_id(KIND, self.file), mirror_id(KIND, self.file)
        (self.home / "sessions" / "mirror").rename(self.at(self.former))
        self._replace(self.former, "PLACE", str(folder))
        self._replace("forked", "MIRROR", self.former)

    def at(self, session_id: str) -> Path:
        return self.home / "sessions" / session_id

    def _replace(self, session_id: str, mark: str, text: str) -> None:
        meta = self.at(session_id) / "timeleap.json"
        meta.write_text(meta.read_text().replace(mark, text))

    def parent(self, session_id: str = "forked") -> str | None:
        parent = Meta(self.at(session_id), "readOnly").parent
        return None if parent is None else parent.session_id

    def files(self, session_id: str) -> dict[str, bytes]:
        names = "context.jsonl", "context_1.jsonl", "state.json"
        return {name: (self.at(session_id) / name).read_bytes() for name in names}


@pytest.fixture
def old(tmp_path: Path) -> OldStore:
    return OldStore(tmp_path)


@pytest.fixture
async def service(old: OldStore, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setenv(ENVIRONMENT, str(old.home.parent / "user" / "key"))
    made = Service(config.load(old.home, environ={}))
    yield made
    for task in made.background.values():
        task.cancel()
    await made.store.aclose()


async def catch_up(service: Service, old: OldStore) -> None:
    bridge = bridge_of(service)
    await bridge.catch_up(bridge.mirror(KIND, old.file))


async def test_a_mirror_of_an_earlier_build_gets_todays_id_with_all_it_has(service: Service, old: OldStore) -> None:
    before, changed = old.files(old.former), (old.at("forked") / "timeleap.json").stat().st_mtime_ns
    await catch_up(service, old)
    assert not old.at(old.former).exists()
    assert old.files(old.now) == before, "its marks are read: nothing was mirrored again"
    assert Meta(old.at(old.now), "readOnly").pins == ("the till",)
    assert old.parent() == old.now
    assert (old.at("forked") / "timeleap.json").stat().st_mtime_ns == changed, "it was not changed today"


async def test_it_grows_on_from_the_marks_of_that_build(service: Service, old: OldStore) -> None:
    *_, last = (json.loads(line) for line in old.file.read_text().splitlines() if "uuid" in line)
    prompt = {"type": "user", "uuid": "later", "parentUuid": last["uuid"], "message": {"role": "user", "content": "3"}}
    with old.file.open("a") as file:
        file.write(json.dumps({**last, **prompt}) + "\n")
    before = old.files(old.former)
    await catch_up(service, old)
    now = old.files(old.now)
    assert now["context.jsonl"].startswith(before["context.jsonl"])
    assert b'"content":"3"' in now["context.jsonl"]
    assert now["context_1.jsonl"] == before["context_1.jsonl"]


async def test_a_file_that_has_not_changed_since_is_taken_over_by_a_watch(service: Service, old: OldStore) -> None:
    facts = facts_of(str(old.file))
    assert facts is not None
    folder = old.file.parents[1]
    FolderNotes(old.home, KIND, folder).write({str(old.file): facts})
    await takeover_of(service)
    assert old.at(old.now).is_dir()
    assert (old.home / "mirrors" / takeover.DONE).exists()


async def takeover_of(service: Service) -> None:
    await takeover.Takeover(service.store).once()


async def test_a_mirror_whose_file_is_gone_is_taken_over(service: Service, old: OldStore) -> None:
    old.file.unlink()
    await takeover_of(service)
    assert (old.at(old.now).is_dir(), old.parent()) == (True, old.now)


async def test_a_fork_in_the_trash_names_it_too(service: Service, old: OldStore) -> None:
    await service.store.delete("forked")
    await takeover_of(service)
    await service.store.trash.undelete("forked")
    assert old.parent() == old.now


async def test_what_is_open_keeps_its_id_until_it_is_closed(service: Service, old: OldStore) -> None:
    opened = await service.store.open(old.former, create=False)
    with pytest.raises(SessionLockedError):
        await catch_up(service, old)
    assert (old.at(old.former).is_dir(), old.at(old.now).exists()) == (True, False), "and no second one was made"
    assert not (old.home / "mirrors" / takeover.DONE).exists()
    await opened.session.aclose()
    await catch_up(service, old)
    assert (old.at(old.now).is_dir(), old.parent()) == (True, old.now)


async def test_an_open_fork_is_told(service: Service, old: OldStore) -> None:
    fork = (await service.store.open("forked", create=False)).session
    await takeover_of(service)
    assert old.parent() == old.now
    await fork.aclose()


@pytest.mark.parametrize("cut_at", ["noted", "renamed"])
async def test_a_crash_on_the_way_is_made_good(
    service: Service, old: OldStore, monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    """`noted`: before the rename; `renamed`: before the forks are told."""

    def crash(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        if cut_at == "noted":
            patched.setattr(service.store.home, "publish", crash)
        else:
            patched.setattr(takeover, "_forks", crash)
        with pytest.raises(KilledError):
            await takeover_of(service)
    assert old.at(old.now).exists() is (cut_at == "renamed")
    await takeover_of(service)
    await takeover_of(service)
    assert (old.at(old.now).is_dir(), old.at(old.former).exists(), old.parent()) == (True, False, old.now)


def said_in(directory: Path) -> set[bytes]:
    """The logs of a session, live or set aside."""
    return {path.read_bytes() for path in directory.glob("context*.jsonl")}


async def test_a_mirror_of_each_id_is_folded_into_that_of_today(service: Service, old: OldStore) -> None:
    """Leave mirrors as two builds do that were used in turn."""
    later = old.at(old.former).parent.parent / "later"
    old.at(old.former).rename(later)
    await catch_up(service, old)
    await service.store.aclose()
    later.rename(old.at(old.former))
    before, now = said_in(old.at(old.former)), said_in(old.at(old.now))
    assert not before <= now
    again = Service(config.load(old.home, environ={}))
    await catch_up(again, old)
    assert said_in(old.at(old.now)) == before | now, "nothing that was said is lost"
    assert not old.at(old.former).exists()
    assert (old.parent(), Meta(old.at(old.now), "readOnly").pins) == (old.now, ("the till",))
    assert [session_id for session_id, _, _ in again.store.home.trashed()] == [old.former]
    for task in again.background.values():
        task.cancel()
    await again.store.aclose()


@pytest.mark.parametrize("cut_at", ["_add_timeline", "_tell_forks"])
async def test_a_crash_while_one_is_folded_is_made_good(
    service: Service, old: OldStore, monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    shutil.copytree(old.at(old.former), old.at(old.now))
    (old.at(old.now) / "context.jsonl").write_bytes(b"")
    before = said_in(old.at(old.former))

    def crash(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(takeover, cut_at, crash)
        with pytest.raises(KilledError):
            await takeover_of(service)
    await takeover_of(service)
    await takeover_of(service)
    assert (old.at(old.former).exists(), old.parent()) == (False, old.now)
    assert said_in(old.at(old.now)) == before | {b""}
    assert len(list(old.at(old.now).glob("context*.jsonl"))) == len(before) + 1, "none of them twice"
