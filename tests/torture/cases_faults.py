"""Cases of machines: killed, full, small."""

from __future__ import annotations

import contextlib
import os

from tests.torture.agent import Edit, Shell, TurnFailedError, Write, used_space
from tests.torture.cases import case
from tests.torture.scene import START, Scene

MANY = 30
SNAPSHOTS = 200


@case("kill -9 in the middle of undo", "half a restore")
def killed_in_between(scene: Scene) -> None:
    """Killed when the first, the tenth and the last of 30 files is back, and asked again: all is as it was."""
    names = [f"many/{number:02}.txt" for number in range(MANY)]
    scene.repository({**START, **{name: f"{name}\n" * 200 for name in names}})
    before = scene.look()
    for reached in (1, 10, MANY):
        scene.turn(*(Write(name, f"changed {reached}\n") for name in names), Write("new.txt", "new\n"))
        turned = scene.look()
        changed = {name: (scene.folder / name).stat().st_size for name in names}

        def moment(reached: int = reached, changed: dict[str, int] = changed) -> bool:
            back = 0
            for name, size in changed.items():
                with contextlib.suppress(OSError):
                    back += (scene.folder / name).stat().st_size != size
            return back >= reached

        scene.killed_during(scene.conversation.undo, moment)
        scene.expect(before, f"killed at {reached} and asked again", scene.undo(), since=turned)


@case("no room on the disk of the agent's data", "ENOSPC", small_disk=64)
def disk_full(scene: Scene) -> None:
    """A snapshot has no room. Undo says so and changes nothing, or it is right; a success that is none is the worst."""
    scene.repository()
    scene.turn(Edit("b.txt", "bees", "wasps"))
    scene.files({"big.bin": os.urandom(8 << 20)})
    middle = scene.look()
    filling = scene.agent.home / "filling"
    with contextlib.suppress(OSError), filling.open("wb", buffering=0) as file:
        while file.write(b"\0" * (1 << 16)):
            pass
    os.truncate(filling, max(0, filling.stat().st_size - (1 << 20)))  # room for the agent's own log
    with contextlib.suppress(TurnFailedError):
        scene.turn(Edit("a.txt", "two", "TWO"), Shell("rm big.bin"))
    filling.unlink()
    if len(scene.conversation.prompts) == 2:  # else there was no room for the turn itself, and nothing was done
        scene.expect_or_refusal(scene.undo(), middle, "undo of a turn whose snapshot had no room")


@case("200 turns, each with a line more in a file of 1 MB", "anomalyco/opencode#3176: 80 GB in two days")
def two_hundred_snapshots(scene: Scene) -> None:
    """The way back leads to each of them, and they take at most as much as 40 copies of what they keep."""
    log = "".join(f"{os.urandom(30).hex()}\n" for _ in range(17_000))
    scene.repository({**START, "data.csv": log})
    middle = scene.look()
    for number in range(SNAPSHOTS):
        if number == SNAPSHOTS // 2:
            middle = scene.look()
        scene.turn(Shell(f"echo line {number} >> data.csv"))
    size = used_space(scene.folder / "data.csv")
    stored = scene.agent.stored()
    scene.notes.append(f"{stored / 1e6:.0f} MB")
    scene.expect(middle, "a hundred turns back", scene.undo(SNAPSHOTS // 2))
    scene.must(stored <= 40 * size, f"{stored / 1e6:.0f} MB for {SNAPSHOTS} snapshots of {size / 1e6:.0f} MB")
