"""A folder that a session works on, as a test sees it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from tests.support.server import Message, Server
from tests.support.session import Session

Tree = dict[str, tuple[int, bytes | str]]


def tree_of(folder: Path) -> Tree:
    """Every file and link below a folder, with its mode, and its content or where it points to."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            found[path.relative_to(folder).as_posix()] = facts.st_mode, os.readlink(path)
        elif stat.S_ISREG(facts.st_mode):
            found[path.relative_to(folder).as_posix()] = facts.st_mode, path.read_bytes()
    return found


class Workspace:
    """A folder with a few files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.write("login.py", "def login():\n")
        self.write("src/shop.py", "PRICE = 1\n")

    @property
    def uri(self) -> str:
        """Its name on the wire."""
        return self.folder.as_uri()

    @property
    def tree(self) -> Tree:
        """What is in it."""
        return tree_of(self.folder)

    def write(self, name: str, text: str) -> Path:
        """Write a file, its folder too."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def open(self, server: Server, mode: str = "checkpoint", **files: Any) -> Session:
        """A session that works on it."""
        return Session.open(server, workspace=self.uri, files={"mode": mode, **files})


def work(session: Session, workspace: Workspace, text: str = "done") -> None:
    """What an agent does in a turn: change a file, make one and delete one; then its message is appended."""
    workspace.write("login.py", f"def login(name):  # {text}\n")
    workspace.write(f"new {text}", text)
    (workspace.folder / "src/shop.py").unlink(missing_ok=True)
    session.append({"role": "assistant", "content": text})


def listed(session: Session, **params: Any) -> list[Message]:
    """The snapshots of a session, newest first."""
    return list(session.call("files/list", **params)["snapshots"])
