"""Every state a crash may leave of a purge: begun, it is finished; what was not meant is whole; a repeat has the answer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.crash.storage.recorder import Recording, recording
from tests.crash.storage.states import State, crash_states
from tests.unit.sessions.worlds import World, asked, texts

from timeleap.features.approvals.switches import set_yolo
from timeleap.sessions.shapes import Mutation
from timeleap.store.home import Trashed
from timeleap.store.purging import PurgeRequest, in_trash

PURGING = asked("purge-1", "session/purge")


@dataclass(frozen=True)
class Scene:
    """A store before a purge.

    Attributes:
        request: What is asked for.
        meant: What it is to remove.
        texts: By name in the trash: the text of each of these.
        contents: And its files.
        kept: What stays in the trash, by id.
        living: By id: the texts of the sessions that are not deleted.
    """

    request: PurgeRequest
    meant: tuple[Trashed, ...]
    texts: dict[str, str]
    contents: dict[str, dict[str, bytes]]
    kept: tuple[str, ...]
    living: dict[str, str]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory in memory where there is one: nothing here needs a disk."""
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else None) as name:
        yield Path(name)


def deleting(text: str) -> Mutation:
    return asked(f"delete {text}", "session/delete")


async def say(world: World, session_id: str, text: str) -> str:
    session = await world.session(session_id, title=text)
    await session.append([{"role": "user", "content": text}])
    await set_yolo(session, True)  # there is a seal then, and what stands beside the user's key
    await session.set_title(f"now {text}")
    await session.aclose()
    return text


async def prepare(world: World, name: str) -> Scene:
    """Deleted sessions (two of one id), and live ones."""
    said: dict[str, str] = {}
    for session_id, text in DELETED.items():
        await say(world, session_id.rstrip("2"), text)
        await world.store.delete(session_id.rstrip("2"), deleting(text))
        said |= {one.name: text for _, _, one in world.store.home.trashed() if one.name not in said}
    living = {"live": await say(world, "live", "of the living")}
    if name != "by id":
        living["gone"] = await say(world, "gone", "of the living namesake")
    request = {
        "by id": PurgeRequest("gone"),
        "one of several": PurgeRequest("gone", deleted_at=world.store.home.trashed()[-1][1]),
        "all": PurgeRequest(),
    }[name]
    meant = tuple(in_trash(world.store.home, request))
    kept = {"by id": ("other",), "one of several": ("gone", "other"), "all": ()}[name]
    trash = world.store.home.trash
    return Scene(request, meant, said, {one.name: contents(trash / one.name) for one in meant}, kept, living)


DELETED = {"gone": "the first secret", "gone2": "the second secret", "other": "the third secret"}


def contents(directory: Path) -> dict[str, bytes]:
    """The files that are the same after they were rebuilt."""
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.suffix not in (".lock", ".idx")}


def facts(found: tuple[Trashed, ...]) -> list[tuple[str, str]]:
    """What was removed; not its size, to which locks belong, of which a recording has none."""
    return sorted((one.session_id, one.deleted_at) for one in found)


def lies(world: World, text: str) -> list[str]:
    """Where in the store, and beside the user's key, something stands."""
    places = [*world.home.rglob("*"), *world.key_file.parent.rglob("*")]
    return [
        str(path) for path in places if text in path.name or (path.is_file() and text.encode() in path.read_bytes())
    ]


async def complaints(world: World, state: State, scene: Scene, *, back: bool) -> list[str]:
    """What is wrong with a store that a crash left; nothing if all is well.

    Args:
        world: The store.
        state: What the crash left.
        scene: What was before it.
        back: One that the purge had not reached is undeleted before it is asked for again.
    """
    found: list[str] = []
    await world.store.trash.finish_purges()  # as a server does when it starts
    home = world.store.home
    if home.condemned():
        found.append(f"left over: {home.condemned()}")
    there = {path.name: path for _, _, path in home.trashed()}
    left = [one for one in scene.meant if one.name in there]
    if state.acked and left:
        found.append(f"acknowledged, but there: {left}")
    found += [f"{one.name} is there by halves" for one in left if contents(there[one.name]) != scene.contents[one.name]]
    found += removed(world, scene, [one for one in scene.meant if one not in left])
    if back and left:
        name = home.newest_trashed("gone")
        await world.store.trash.undelete("gone")
        meant = tuple(one for one in scene.meant if one.name != name)
        scene = replace(scene, meant=meant, living={**scene.living, "gone": scene.texts[name]})
    outcome = await world.store.trash.purge(scene.request, PURGING)
    if facts(outcome.purged) != facts(scene.meant) or outcome.kept:
        found.append(f"the repeat says {outcome}")
    if state.acked and not outcome.duplicate:
        found.append("the repeat is not known")
    again = await world.store.trash.purge(scene.request, PURGING)
    if (facts(again.purged), again.duplicate) != (facts(scene.meant), True):
        found.append(f"the second repeat says {again}")
    found += removed(world, scene, scene.meant)
    if scene.request.session_id is not None and not {"gone"} & {*scene.kept, *scene.living}:
        found += [f"the name stands in {place}" for place in lies(world, "gone")]
    return found + await others(world, scene)


def removed(world: World, scene: Scene, gone: Iterable[Trashed]) -> list[str]:
    """Where something of sessions stands that are gone."""
    return [
        f"{scene.texts[one.name]} stands in {place}" for one in gone for place in lies(world, scene.texts[one.name])
    ]


async def others(world: World, scene: Scene) -> list[str]:
    """Whether what was not meant is as it was, and a repeat of what was asked before harms nobody."""
    found: list[str] = []
    store = world.store
    if sorted(one[0] for one in store.home.trashed()) != sorted(scene.kept):
        found.append(f"the trash has {store.home.trashed()}")
    again = [text for name, text in DELETED.items() if await store.delete(name.rstrip("2"), deleting(text))]
    found += [f"{text} was deleted again" for text in again]
    living = dict(scene.living)
    if "other" in scene.kept:
        await store.trash.undelete("other")
        living["other"] = DELETED["other"]
    for name, text in living.items():
        session = await world.session(name, create=False)
        if (texts(session), session.facts.title) != ([text], f"now {text}"):
            found.append(f"{name} says {texts(session)}, {session.facts.title}")
        await session.aclose()
    return found


async def record(place: Path, name: str) -> tuple[Recording, Scene]:
    world = World(place)
    scene = await prepare(world, name)
    await world.restart()
    with recording(place) as recorder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "os", recorder)
        recorder.note("start")
        outcome = await world.store.trash.purge(scene.request, PURGING)
        recorder.note("ack")
    assert facts(outcome.purged) == facts(scene.meant) != []
    await world.close()
    return recorder.recording, scene


@pytest.mark.parametrize(
    ("name", "back"),
    [("by id", False), ("by id", True), ("one of several", False), pytest.param("all", False, marks=pytest.mark.long)],
)
@pytest.mark.long
async def test_every_crash_state_of_a_purge(folder: Path, name: str, back: bool) -> None:
    place = folder / "world"
    place.mkdir()
    recorded, scene = await record(place, name)
    found: list[str] = []
    states = [*crash_states(recorded)]
    assert {op.kind for op in recorded.ops} >= {"rename", "unlink", "rmdir", "write", "sync", "sync_dir"}
    assert any(op.kind == "rename" and op.name.startswith("home/trash/") for op in recorded.ops)
    for state in states:
        shutil.rmtree(place)
        place.mkdir()
        state.materialise(place, recorded)
        world = World(place)
        op = recorded.ops[state.at - 1] if state.at else None
        found += [
            f"{state.how} after {state.at} ({op}): {text}" for text in await complaints(world, state, scene, back=back)
        ]
        await world.close()
    assert found == []
