"""kill -9 of the process that shows another program's file, at each step on its way: afterwards the mirror says what the
file says, nothing twice and nothing lost, and the states that were left are there once."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.server import PATIENCE, Launch, Message, Server
from tests.support.session import Session
from tests.support.trace import Tracer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="kill -9"),
]


def uuid_of(file: ClaudeFile, line: int) -> str:
    return str(json.loads(file.path.read_text().splitlines()[line])["uuid"])


def write(file: ClaudeFile) -> None:
    """Two turns, two others in the place of the second that were left, and a title."""
    file.turn(1)
    for number in (8, 9):
        file.asks(f"question {number}", parentUuid=uuid_of(file, 1))
        file.says(f"answer {number}")
    file.asks("question 2", parentUuid=uuid_of(file, 1))
    file.says("answer 2")
    file.write({"type": "custom-title", "customTitle": "Shop", "sessionId": file.session_id})


def is_written_on(file: ClaudeFile) -> None:
    file.turn(3)
    file.write({"type": "custom-title", "customTitle": "Larger shop", "sessionId": file.session_id})


def is_long(file: ClaudeFile) -> None:
    """More than one append takes."""
    for number in range(3, 603):
        file.turn(number)


def goes_back(file: ClaudeFile) -> None:
    file.asks("question 2, better", parentUuid=uuid_of(file, 1))


def is_replaced(file: ClaudeFile) -> None:
    other = ClaudeFile(file.folder.parent / "aside", name=file.session_id)
    other.turn(7)
    other.path.replace(file.path)


class Scene:
    """A file, and a store in which it is mirrored as it was before the change."""

    def __init__(self, directory: Path, change: Callable[[ClaudeFile], None] | None) -> None:
        self.home = directory / "home"
        self.file = ClaudeFile(directory / "projects", name="00000000-0000-4000-8000-000000000000")
        write(self.file)
        if change is not None:
            server = self.start()
            self.catch_up(server)
            server.shut_down()
            server.dispose()
            change(self.file)

    def start(self, **env: str) -> Server:
        server = Server(Launch(self.home, "lsp", env=env))
        server.initialize()
        return server

    def wanted(self) -> Message:
        return {"kind": "claude-code", "path": str(self.file.path), "event": "start"}

    def catch_up(self, server: Server) -> Message:
        return dict(server.call("bridge/catchUp", **self.wanted()))

    def facts(self) -> dict[str, Any]:
        """What a server shows that comes afterwards."""
        server = self.start()
        try:
            mirror = Session.open(server, self.catch_up(server)["sessionId"], create=False)
            assert self.catch_up(server)["added"] == 0
            state = mirror.get_state()
            return {
                "texts": mirror.texts(),
                "title": state["title"],
                "checkpoints": [(c["id"], c["label"], c["messageCount"]) for c in state["context"]["checkpoints"]],
                "timelines": sorted(mirror.texts(timelineId=each["timelineId"]) for each in mirror.timelines()),
                "sessions": len(server.call("session/list")["sessions"]),
                "unfinished": sorted(
                    path.name for path in (self.home / "sessions").iterdir() if path.name != mirror.id
                ),
            }
        finally:
            server.dispose()


def steps(scene: Scene, directory: Path) -> Iterator[str]:
    """What to arm to die at each failpoint of the catch-up."""
    tracer = Tracer(directory)
    server = scene.start(**tracer.env)
    before = len(tracer.passed())
    scene.catch_up(server)
    passed = tracer.passed()
    server.dispose()
    counts: Counter[str] = Counter()
    for number, name in enumerate(passed):
        counts[name] += 1
        if number >= before:
            yield f"{name}@{counts[name]}=kill"


@pytest.mark.parametrize("change", [None, is_written_on, is_long, goes_back, is_replaced])
def test_killed_at_any_step_it_says_what_the_file_says_afterwards(
    tmp_path: Path, change: Callable[[ClaudeFile], None] | None
) -> None:
    armed = list(steps(Scene(tmp_path / "traced", change), tmp_path / "trace"))
    undisturbed = Scene(tmp_path / "undisturbed", change).facts()
    assert armed, "a catch-up passes no failpoint"
    for number, failpoint in enumerate(armed):
        scene = Scene(tmp_path / str(number), change)
        victim = scene.start(TIMELEAP_FAILPOINTS=failpoint)
        victim.start("bridge/catchUp", **scene.wanted())
        try:
            assert victim.process.wait(PATIENCE) == -signal.SIGKILL, failpoint
        finally:
            victim.dispose()
        assert scene.facts() == undisturbed, failpoint
