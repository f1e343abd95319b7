"""Cases of what a turn did, and of what the user did since."""

from __future__ import annotations

import os
import shutil
import threading

from tests.torture.agent import Edit, Shell, Write
from tests.torture.cases import case
from tests.torture.scene import START, Scene


@case("a turn that edits with the agent's own tools", "the least there is")
def edit_tools(scene: Scene) -> None:
    """Edited files are as they were, a new file is gone."""
    scene.repository()
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("src/new.py", "pass\n"), Write("b.txt", "all new\n"))
    scene.expect(before, outcome=scene.undo())


@case("a turn that edits by shell", "anthropics/claude-code#87575, #94657")
def shell_edits(scene: Scene) -> None:
    """What a command changed, deleted and added is as it was."""
    scene.repository()
    before = scene.look()
    scene.turn(Shell("sed -i s/two/TWO/ a.txt; rm b.txt; echo new > c.txt; mkdir -p deep/er; echo x > deep/er/x"))
    scene.expect(before, outcome=scene.undo())


@case("a turn that deletes tracked files", "entireio/cli#1408")
def deleted_tracked_files(scene: Scene) -> None:
    """`git rm` and a rename: the files are back, the new name is gone; what git itself notes is the user's affair."""
    scene.repository()
    before = scene.look()
    scene.turn(Shell("git rm -q b.txt; git mv src/util.py src/tools.py"), Edit("a.txt", "two", "TWO"))
    scene.expect(before, outcome=scene.undo())


@case("two turns at once", "going back over several turns")
def two_turns(scene: Scene) -> None:
    """Going back to before the first of three turns undoes all of them, the second one alone is not enough."""
    scene.repository()
    before = scene.look()
    scene.turn(Edit("a.txt", "one", "1"))
    middle = scene.look()
    scene.turn(Edit("a.txt", "two", "2"), Write("c.txt", "c\n"))
    scene.turn(Edit("a.txt", "three", "3"), Edit("b.txt", "bees", "wasps"))
    scene.expect(middle, "after two turns back", scene.undo(2))
    scene.redo()
    scene.expect(before, "after three turns back", scene.undo(3))


@case("an undo that is taken back", "zed-industries/zed#28676")
def undo_taken_back(scene: Scene) -> None:
    """After the undo of an undo all is as the turn had left it, edits and new files."""
    scene.repository()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "new\n"))
    scene.turn()  # so that agents have a prompt to go to
    after = scene.look()
    scene.undo(2)
    scene.expect(after, "after undo and redo", scene.redo())


@case("a deletion, undone, done again", "found by running opencode 1.18.33")
def deletion_done_again(scene: Scene) -> None:
    """Undo brings the deleted file back, redo deletes it again, undo brings it back again."""
    scene.repository()
    before = scene.look()
    scene.turn(Shell("rm b.txt"), Edit("a.txt", "two", "TWO"))
    scene.turn()
    after = scene.look()
    scene.expect(before, "after undo", scene.undo(2))
    scene.expect(after, "after redo", scene.redo())
    scene.expect(before, "after undo again", scene.undo(2))


@case("the user's later line in a file of the turn", "found by running opencode 1.18.33")
def user_edits_same_file(scene: Scene) -> None:
    """The user's line is not lost: the undo asks, or leaves that file; the turn's other file goes back."""
    scene.repository()
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Edit("b.txt", "bees", "wasps"))
    with (scene.folder / "a.txt").open("a") as file:
        file.write("a line of the user\n")
    users = scene.look()
    scene.expect(before.replacing(users, "a.txt"), outcome=scene.undo(answer_keep=True))


@case("the user's later edits in other files", "kirodotdev/KiroCrew#8067, derekhearst/AgentStudio#24")
def user_edits_other_files(scene: Scene) -> None:
    """A file that the user edited, one that they made and one that they deleted after the turn stay so."""
    scene.repository()
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"))
    scene.files({"b.txt": "the user's bees\n", "notes/today.md": "Remember this.\n"})
    (scene.folder / "src/util.py").unlink()
    users = scene.look()
    wanted = before.replacing(users, "b.txt", "notes/today.md", "src/util.py")
    scene.expect(wanted, outcome=scene.undo(answer_keep=True))


@case("files that were never committed", "google-gemini/gemini-cli#13331")
def untracked_files(scene: Scene) -> None:
    """Undo deletes what the turn made, and nothing else: the user's untracked files are there, before and after."""
    scene.repository()
    scene.files({"draft.md": "The user's draft.\n", "notes/1.md": "one\n", "notes/2.md": "two\n"})
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("notes/3.md", "by the agent\n"), Edit("draft.md", "draft", "text"))
    scene.expect(before, outcome=scene.undo())


@case("times of files that were not touched", "zed-industries/zed#59099")
def untouched_times(scene: Scene) -> None:
    """300 files that the turn did not touch keep their time through undo and redo: nothing is built again."""
    scene.repository({**START, **{f"lib/{number:03}.py": f"x = {number}\n" for number in range(300)}})
    for number in range(300):
        os.utime(scene.folder / f"lib/{number:03}.py", (1_700_000_000 + number, 1_700_000_000 + number))
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"))
    scene.expect(before, outcome=scene.undo())
    scene.redo()
    scene.expect(before, "after undo again", scene.undo())


@case("two sessions in one folder", "entireio/cli#135")
def two_sessions(scene: Scene) -> None:
    """Undo of the first session's turn leaves what the second one did since; then the second one goes back."""
    scene.repository()
    before = scene.look()
    first, second = scene.conversation, scene.agent.open(scene.folder)
    scene.turn(Edit("a.txt", "two", "TWO"), by=first)
    scene.turn(Edit("b.txt", "bees", "wasps"), Write("c.txt", "c\n"), by=second)
    both = scene.look()
    scene.expect(before.replacing(both, "b.txt", "c.txt"), "the first", scene.undo(by=first, answer_keep=True))
    scene.expect(before, "the second", scene.undo(by=second, answer_keep=True))


@case("sessions in a folder and in a folder within", "roots within roots")
def folder_within(scene: Scene) -> None:
    """Each goes back by itself, and leaves what the other did."""
    scene.repository({**START, "inner/y.txt": "why\n"})
    before = scene.look()
    outer, inner = scene.conversation, scene.agent.open(scene.folder / "inner")
    scene.turn(Edit("a.txt", "two", "TWO"), by=outer)
    scene.turn(Edit("y.txt", "why", "because"), by=inner)
    both = scene.look()
    scene.expect(before.replacing(both, "a.txt"), "the inner one", scene.undo(by=inner, answer_keep=True))
    scene.expect(before, "the outer one", scene.undo(by=outer, answer_keep=True))


@case("an agent in one package, the user in another", "anomalyco/opencode#3176")
def other_package(scene: Scene) -> None:
    """The session is in `packages/one`; what the user edits in `packages/two` meanwhile stays."""
    scene.repository({"packages/one/a.txt": "one\n", "packages/two/b.txt": "two\n", "README": "all\n"})
    before = scene.look()
    one = scene.agent.open(scene.folder / "packages/one")
    scene.turn(Edit("a.txt", "one", "ONE"), by=one)
    scene.files({"packages/two/b.txt": "the user's two\n", "packages/two/c.txt": "the user's three\n"})
    users = scene.look()
    wanted = before.replacing(users, "packages/two/b.txt", "packages/two/c.txt")
    scene.expect(wanted, outcome=scene.undo(by=one, answer_keep=True))


@case("a file that is written all the time", "file changing while read")
def file_changing(scene: Scene) -> None:
    """A log that grows during turn and undo keeps neither from being right for all other files."""
    scene.repository()
    scene.without = {"live.log"}
    stop = threading.Event()

    def write() -> None:
        with (scene.folder / "live.log").open("a", buffering=1) as file:
            while not stop.wait(0.0005):
                file.write("another line\n")

    before = scene.look()
    writer = threading.Thread(target=write)
    writer.start()
    try:
        scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
        scene.expect(before, outcome=scene.undo(answer_keep=True))
    finally:
        stop.set()
        writer.join()


@case("a folder that was replaced by another", "root deleted or moved")
def folder_replaced(scene: Scene) -> None:
    """After the turn the user moves the folder away and puts a fresh clone there: nothing of it is touched."""
    scene.repository()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.folder.rename(scene.place / "moved")
    moved = scene.look(scene.place / "moved")
    scene.folder.mkdir()
    scene.repository({**START, "a.txt": "the clone's\n", "c.txt": "the clone's, too\n"})
    clone = scene.look()
    outcome = scene.undo()
    scene.expect(clone, "the new folder", outcome)
    found = moved.differences(scene.look(scene.place / "moved"), moved)
    scene.must(not found, f"the old folder was changed: {found}")


@case("the agent's data within the folder", "home inside root", home="project/.agent")
def data_within(scene: Scene) -> None:
    """Undo and redo do their work, and do not lose their own data."""
    scene.without = {".agent"}
    scene.repository(ignore="")
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.turn()
    after = scene.look()
    scene.expect(before, "after undo", scene.undo(2))
    scene.expect(after, "after redo", scene.redo())


@case("a folder that went out through a link", "symlink escape")
def escape_through_link(scene: Scene) -> None:
    """After the turn `data` is a link to a place outside: nothing is written there, and `data` is a folder again."""
    scene.repository({**START, "data/x.txt": "inside\n", "data/y.txt": "inside, too\n"})
    (scene.outside / "x.txt").write_text("outside\n")
    shutil.copy(scene.outside / "x.txt", scene.outside / "z.txt")
    outside = scene.look(scene.outside)
    before = scene.look()
    scene.turn(Edit("data/x.txt", "inside", "changed"), Shell(f"mv data old; ln -s {scene.outside} data"))
    scene.expect(before, outcome=scene.undo())
    found = outside.differences(scene.look(scene.outside), outside)
    scene.must(not found, f"outside the folder: {found}")
