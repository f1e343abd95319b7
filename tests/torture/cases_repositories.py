"""Cases of the user's git: nested, damaged, moved on, collected."""

from __future__ import annotations

from tests.torture.agent import Edit, Shell, Write
from tests.torture.cases import case
from tests.torture.scene import START, Scene
from tests.torture.tree import git


@case(
    "a folder without git", "google-gemini/gemini-cli#4115, anomalyco/opencode#2642, #29520, zed-industries/zed#61951"
)
def no_repository(scene: Scene) -> None:
    """Undo does not need a repository of the user's."""
    scene.files()
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.expect(before, outcome=scene.undo())


@case("a nested repository without a commit", "anomalyco/opencode#26893")
def nested_without_commit(scene: Scene) -> None:
    """`git add -A` dies of it; undo brings back the files around it and in it."""
    scene.repository()
    scene.files({"vendor/x.txt": "x\n"})
    git(scene.folder / "vendor", "init", "-q")
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Edit("vendor/x.txt", "x", "X"), Write("vendor/y.txt", "y\n"))
    scene.expect(before, outcome=scene.undo())


@case("a nested repository with commits", "RooCodeInc/Roo-Code#8164, #4509")
def nested_with_commits(scene: Scene) -> None:
    """Its files go back as all others do, its own git stays as it is."""
    scene.repository()
    scene.files({"libs/inner/x.txt": "x\n", "libs/inner/y.txt": "y\n"})
    inner = scene.folder / "libs/inner"
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "inner")):
        git(inner, *command)
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Edit("libs/inner/x.txt", "x", "X"), Write("libs/inner/z.txt", "z\n"))
    scene.expect(before, outcome=scene.undo())


@case("a linked worktree with a submodule", "worktrees and submodules")
def worktree_and_submodule(scene: Scene) -> None:
    """Files in both go back; the `.git` files and what they lead to stay."""
    library = scene.place / "library"
    library.mkdir()
    (library / "lib.txt").write_text("lib\n")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "library")):
        git(library, *command)
    main = scene.place / "main"
    scene.repository()
    git(scene.folder, "submodule", "--quiet", "add", str(library), "lib")
    git(scene.folder, "commit", "-q", "-m", "library")
    scene.folder.rename(main)
    git(main, "worktree", "add", "-q", "-b", "work", str(scene.folder))
    git(scene.folder, "submodule", "--quiet", "update", "--init")
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Edit("lib/lib.txt", "lib", "LIB"), Write("lib/new.txt", "new\n"))
    scene.expect(before, outcome=scene.undo())


@case("the user's repository is damaged", "cline/cline#9590, #5598")
def damaged_repository(scene: Scene) -> None:
    """Index and HEAD of the user's repository are garbage: files still go back, and nothing of `.git` is renamed."""
    scene.repository()
    scene.turn(Edit("b.txt", "bees", "wasps"))
    before = scene.look()
    (scene.folder / ".git/index").write_bytes(b"garbage")
    (scene.folder / ".git/HEAD").write_bytes(b"\0" * 40)
    scene.turn(Edit("a.txt", "two", "TWO"), Write("c.txt", "c\n"))
    scene.expect(before, outcome=scene.undo())


@case("commits and branches made since", "cline/cline#13550")
def branch_moved(scene: Scene) -> None:
    """The agent commits, the user commits on another branch: files go back, no branch, index or commit does."""
    scene.repository()
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Shell("git -c user.name=a -c user.email=a@b commit -qam agent"))
    git(scene.folder, "checkout", "-q", "-b", "feature")
    git(scene.folder, "commit", "-q", "--allow-empty", "-m", "the user's")
    scene.expect(before, outcome=scene.undo())


@case("staged changes and a stash of the user's", "anthropics/claude-code#68315")
def index_and_stash(scene: Scene) -> None:
    """What the user has staged and stashed is staged and stashed after turn and undo."""
    scene.repository()
    scene.files({"b.txt": "stashed bees\n"})
    git(scene.folder, "stash", "-q")
    scene.files({"src/util.py": "staged = True\n", "staged.txt": "new and staged\n"})
    git(scene.folder, "add", "src/util.py", "staged.txt")
    scene.files({"src/util.py": "staged = True\nnot_staged = True\n"})
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Edit("src/util.py", "not_staged", "by_agent"))
    middle = scene.look()
    scene.must(middle.repositories == before.repositories, "the turn changed the user's repository")
    scene.expect(before, outcome=scene.undo())


@case("the user collects garbage", "Astro-Han/pawwork#1268")
def users_garbage_collected(scene: Scene) -> None:
    """What was only staged when the turn began is reset, expired and pruned in the user's repository; undo has it."""
    scene.repository({**START, **{f"more/{number}.txt": f"{number}\n" * 50 for number in range(20)}})
    scene.files({"a.txt": "one\ntwo, staged\nthree\n", "extra.txt": "staged, never committed\n"})
    git(scene.folder, "add", "-A")
    before = scene.look()
    scene.turn(Edit("a.txt", "two, staged", "TWO"), Edit("extra.txt", "staged", "changed"), Write("c.txt", "c\n"))
    git(scene.folder, "reset", "-q")
    git(scene.folder, "reflog", "expire", "--expire=now", "--all")
    git(scene.folder, "gc", "-q", "--prune=now")
    scene.later()
    scene.expect(before, outcome=scene.undo())


@case("filters, CRLF, ident", "anomalyco/opencode#31798, Kilo-Org/kilocode#11072")
def filters_and_line_ends(scene: Scene) -> None:
    """Attributes make the user's git keep other bytes than the disk has; undo gives the disk's, all of them."""
    attributes = (
        "*.up filter=upper\n*.txt text eol=lf\n*.bat text eol=crlf\n*.id ident\n*.u16 working-tree-encoding=UTF-16\n"
    )
    git(scene.folder, "init", "-q", "-b", "main")
    git(scene.folder, "config", "filter.upper.clean", "tr a-z A-Z")
    git(scene.folder, "config", "filter.upper.smudge", "tr A-Z a-z")
    odd: dict[str, str | bytes] = {
        ".gitattributes": attributes,
        "shout.up": "abc Def\n",
        "mixed.txt": "one\r\ntwo\nthree\r\n",
        "run.bat": "echo one\r\necho two\n",
        "v.id": "$Id$\n",
        "wide.u16": "wide\n".encode("utf-16"),
    }
    scene.repository({**START, **odd})
    before = scene.look()
    scene.turn(
        Edit("shout.up", "abc", "xyz"),
        Edit("v.id", "$Id$", "$Id$ changed"),
        Shell("sed -i s/two/TWO/ mixed.txt run.bat; rm wide.u16; echo more >> shout.up"),
    )
    scene.expect(before, outcome=scene.undo())


@case("ignored files", "ignored files are nobody's affair")
def ignored_files(scene: Scene) -> None:
    """Ignored files stay as they are through undo: what a build made is there, `.env` keeps what was written since."""
    scene.repository(ignore="*.log\nbuild/\n.env\n")
    scene.files({"build/out.bin": b"\0\1\2", "run.log": "started\n", ".env": "KEY=1\n"})
    before = scene.look()
    scene.turn(Edit("a.txt", "two", "TWO"), Shell("echo KEY=2 > .env; echo built > build/new.bin; rm run.log"))
    after = scene.look()
    wanted = before.replacing(after, ".env", "build/new.bin", "run.log")
    scene.expect(wanted, outcome=scene.undo())


@case("a turn that changes what is ignored", "ignored files are nobody's affair")
def ignore_rules_changed(scene: Scene) -> None:
    """The turn ignores `*.md` and changes a note: undo takes the rule back, and no note of the user's is lost."""
    scene.repository(ignore="*.log\n")
    scene.files({"note.md": "The user's note.\n", "other.md": "Another one.\n"})
    before = scene.look()
    scene.turn(Edit("note.md", "note", "NOTE"), Write(".gitignore", "*.log\n*.md\n"))
    scene.expect(before, outcome=scene.undo())
