"""Cases of what a file system can hold: links, pipes, modes, names, sizes, rights."""

from __future__ import annotations

import os
import socket

from tests.torture.agent import Edit, Shell, Write
from tests.torture.cases import case
from tests.torture.scene import START, Scene


@case("symbolic links", "links are saved as links")
def links(scene: Scene) -> None:
    """A link that was turned, one that was deleted, one that was made, one that leads nowhere."""
    scene.repository()
    for name, target in (("current", "a.txt"), ("gone", "nowhere"), ("folder", "src"), ("same", "b.txt")):
        (scene.folder / name).symlink_to(target)
    before = scene.look()
    scene.turn(Shell("ln -sfn b.txt current; rm gone; ln -s docs made; rm folder; ln -s docs folder"))
    scene.expect(before, outcome=scene.undo())


@case("pipes and sockets in the folder", "FIFO, socket, device")
def pipes_and_sockets(scene: Scene) -> None:
    """Nothing hangs on them, they stay, and all else goes back."""
    scene.repository()
    os.mkfifo(scene.folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(scene.folder, os.O_RDONLY)  # the path of a socket may not be long
        listening.bind(f"/proc/self/fd/{here}/sock")
        os.close(here)
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.expect(before, outcome=scene.undo())


@case("files that became folders, folders that became links", "file, folder and link change places")
def kinds_changed(scene: Scene) -> None:
    """Each is again what it was, with what was in it."""
    scene.repository({**START, "f": "file\n", "d/one": "1\n", "d/two/three": "3\n", "e/x": "x\n"})
    (scene.folder / "l").symlink_to("a.txt")
    before = scene.look()
    scene.turn(
        Shell(
            "rm f; mkdir f; echo in > f/in; rm -r d; echo file > d; rm l; mkdir l; echo in > l/in; rm -r e; ln -s docs e"
        )
    )
    scene.expect(before, outcome=scene.undo())


@case("permission bits of files that are edited", "mode bit")
def modes_survive_edits(scene: Scene) -> None:
    """A private key stays private and a script stays executable when their contents go back."""
    scene.repository({**START, "key": "secret\n", "run.sh": "echo run\n", "shared.txt": "shared\n"})
    modes = {"key": 0o600, "run.sh": 0o755, "shared.txt": 0o664}
    for name, mode in modes.items():
        (scene.folder / name).chmod(mode)
    before = scene.look()
    scene.turn(Edit("key", "secret", "SECRET"), Edit("run.sh", "run", "RUN"), Edit("shared.txt", "shared", "SHARED"))
    scene.expect(before, outcome=scene.undo())


@case("permission bits that a turn changes", "mode bit")
def modes_changed(scene: Scene) -> None:
    """`chmod` is undone, of scripts and of secrets."""
    scene.repository({**START, "key": "secret\n", "run.sh": "echo run\n"})
    (scene.folder / "key").chmod(0o600)
    before = scene.look()
    scene.turn(Shell("chmod 755 run.sh a.txt; chmod 644 key; chmod 400 b.txt"))
    scene.expect(before, outcome=scene.undo())


@case("names with line ends, quotes and dashes", "names")
def odd_names(scene: Scene) -> None:
    """Such files go back like any other."""
    names = [
        "two\nlines.txt",
        'quo"te.txt',
        "-rf",
        " blank ",
        "tab\t.txt",
        "sm\u00f8rrebr\u00f8d \U0001f35e.txt",
        "back\\slash",
        "*",
        ":(top)x",
    ]
    scene.repository()
    scene.files({name: f"{number}\n" for number, name in enumerate(names)})
    before = scene.look()
    changes = [Write(name, "changed\n") for name in names[:6]]
    scene.turn(*changes, Shell("rm -- ' blank ' ':(top)x'; echo more >> '*'; echo x > 'new\nname'"))
    scene.expect(before, outcome=scene.undo())


@case("names that are not UTF-8", "names")
def names_not_text(scene: Scene) -> None:
    """A Latin-1 name from an old archive: changed, deleted and made."""
    scene.repository()
    for name in (b"caf\xe9.txt", b"\xff\xfe", b"d\xe9/x"):
        path = os.path.join(os.fsencode(scene.folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"old\n")
    before = scene.look()
    scene.turn(Shell(r"echo new > $'caf\xe9.txt'; rm $'\xff\xfe'; echo new > $'d\xe9/x'; echo new > $'n\xe9'"))
    scene.expect(before, outcome=scene.undo())


@case("names that differ by case only", "names")
def names_by_case(scene: Scene) -> None:
    """`readme`, `README` and `Readme` are three files."""
    scene.repository()
    scene.files({"readme": "1\n", "README": "2\n", "Makefile": "all:\n", "x/k": "k\n", "X/k": "K\n"})
    before = scene.look()
    scene.turn(Edit("readme", "1", "one"), Edit("X/k", "K", "kk"), Shell("rm README; echo 3 > Readme; mv x/k x/K"))
    scene.expect(before, outcome=scene.undo())


@case("empty files", "0-byte files")
def empty_files(scene: Scene) -> None:
    """One that was filled, one that was deleted, one that was made, one that was emptied."""
    scene.repository()
    scene.files({"filled": "", "kept/.gitkeep": "", "emptied": "full\n"})
    before = scene.look()
    scene.turn(Write("filled", "full\n"), Shell("rm kept/.gitkeep; : > made; : > emptied"))
    scene.expect(before, outcome=scene.undo())


@case("a file larger than is kept", "files over the limit")
def large_file(scene: Scene) -> None:
    """A file of 12 MB that nobody touched is there after undo, byte for byte, and so is one that came later."""
    scene.repository()
    scene.files({"data.bin": os.urandom(12 << 20)})
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.files({"later.bin": os.urandom(12 << 20)})
    users = scene.look()
    scene.expect(before.replacing(users, "later.bin"), outcome=scene.undo(answer_keep=True))


@case("a file that cannot be read", "anomalyco/opencode#12719", unprivileged=True)
def unreadable_file(scene: Scene) -> None:
    """`git add -A` dies of it; undo brings all others back, and leaves it."""
    scene.repository()
    scene.files({"volume/db.key": "locked\n"})
    (scene.folder / "volume/db.key").chmod(0)
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.expect(before, outcome=scene.undo())


@case("a folder that cannot be read", "unreadable folder", unprivileged=True)
def unreadable_folder(scene: Scene) -> None:
    """What is in it stays, all else goes back."""
    scene.repository()
    scene.files({"volume/db.key": "locked\n"})
    (scene.folder / "volume").chmod(0)
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.expect(before, outcome=scene.undo())
    (scene.folder / "volume").chmod(0o700)
    scene.must((scene.folder / "volume/db.key").exists(), "the file in the folder is gone")
