"""The scene Timeleap exists for: a shell pipeline appends in a loop while a person, elsewhere, reverts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.framing import loads
from tests.support.scene import CHANGES, Scene, changes, settle, until
from tests.support.server import PATIENCE, Launch, Message
from tests.support.session import Session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell")

PIPELINE = r"""
set -eu
dir=$1; shift
mkfifo "$dir/requests" "$dir/replies"
"$@" < "$dir/requests" > "$dir/replies" &
exec 3> "$dir/requests" 4< "$dir/replies"

ask() {  # id, method, params: send, and read on to the reply; all that is heard goes to the transcript
    printf '{"jsonrpc":"2.0","id":"%s","method":"%s","params":%s}\n' "$1" "$2" "$3" >&3
    while IFS= read -r reply <&4; do
        printf '%s\n' "$reply" >> "$dir/heard"
        case $reply in *'"id":"'"$1"'"'*) return 0 ;; esac
    done
    return 1
}

head_of_reply() { printf '%s\n' "$reply" | sed -n 's/.*"head":"\([^"]*\)".*/\1/p'; }

ask hello initialize '{"clientInfo":{"name":"pipeline"}}'
ask open session/open '{"sessionId":"s"}'
head=$(head_of_reply)
number=0
while [ ! -e "$dir/stop" ]; do
    number=$((number + 1))
    expected=""
    if [ -e "$dir/careful" ]; then expected=",\"expectedHead\":\"$head\""; fi
    ask "a$number" context/appendMessage \
        "{\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"$number\"}$expected}"
    head=$(head_of_reply)
    sleep 0.01
done
ask bye session/getState '{"sessionId":"s"}'
exec 3>&-
wait
"""


class Pipeline:
    """A shell that appends in a loop, through a server of its own.

    Args:
        careful: Whether it sends the head it knows of along.
    """

    def __init__(self, home: Path, directory: Path, *, careful: bool) -> None:
        directory.mkdir()
        self.directory = directory
        for name in ("heard", *(["careful"] if careful else [])):
            (directory / name).touch()
        launch = Launch(home, "ndjson")
        command = ["sh", "-c", PIPELINE, "sh", str(directory), *launch.command()]
        self._shell = subprocess.Popen(command, env=launch.environment(), start_new_session=True)

    def heard(self) -> list[Message]:
        """All it has received so far."""
        return [loads(line) for line in (self.directory / "heard").read_bytes().split(b"\n")[:-1]]

    def changes(self) -> list[Message]:
        """What it was told of the session."""
        return [message["params"] for message in self.heard() if message.get("method") in CHANGES]

    def errors(self) -> list[Message]:
        """What was refused."""
        return [message["error"] for message in self.heard() if "error" in message]

    def appended(self) -> int:
        """How many of its appends were answered."""
        return sum(1 for message in self.heard() if "firstIndex" in message.get("result", {}))

    def goes_on(self) -> None:
        """Wait until it has appended more."""
        so_far = self.appended()
        until(lambda: self.appended() >= so_far + 5, saying="the pipeline appends")

    def stop(self) -> None:
        """Let it end its loop, and everything with it."""
        (self.directory / "stop").touch()
        assert self._shell.wait(PATIENCE) == 0

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self._shell.poll() is None:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()


@pytest.fixture(params=["the person came first", "the pipeline came first"])
def order(request: pytest.FixtureRequest) -> str:
    """Who owns the session: it must not matter."""
    return str(request.param)


@pytest.fixture
def pipelines() -> Iterator[list[Pipeline]]:
    """Those to end after the test."""
    begun: list[Pipeline] = []
    yield begun
    for pipeline in begun:
        pipeline.kill()


def begin(
    scene: Scene, pipelines: list[Pipeline], tmp_path: Path, order: str, *, careful: bool
) -> tuple[Pipeline, Session]:
    """The pipeline, at work, and the person's window."""
    person = scene.window() if order == "the person came first" else None
    pipelines.append(Pipeline(scene.home, tmp_path / "pipeline", careful=careful))
    pipelines[-1].goes_on()
    person = person or scene.window()
    assert person.state["access"] == ("owner" if order == "the person came first" else "attached")
    return pipelines[-1], person


def test_with_expectedHead_the_pipeline_is_told_that_the_person_reverted(
    scene: Scene, pipelines: list[Pipeline], tmp_path: Path, order: str
) -> None:
    pipeline, person = begin(scene, pipelines, tmp_path, order, careful=True)
    mark = len(person.server.received)
    checkpoint = person.checkpoint(label="here")
    pipeline.goes_on()
    assert [error["code"] for error in pipeline.errors()] == [-32801], "the checkpoint was news to it"
    reverted = person.call("context/revertTo", checkpointUid=checkpoint["uid"])
    pipeline.goes_on()
    conflicts = pipeline.errors()
    assert [error["code"] for error in conflicts] == [-32801, -32801]
    assert conflicts[1]["data"]["head"] == reverted["head"]
    pipeline.stop()
    same_story(pipeline, person, mark)
    numbers = [int(text) for text in person.texts()]
    assert numbers == sorted(numbers)
    lost = set(range(1, numbers[-1] + 1)) - set(numbers)
    assert len(lost) == reverted["removed"]["messages"] + len(conflicts)


def test_without_expectedHead_the_pipeline_goes_on_behind_the_revert(
    scene: Scene, pipelines: list[Pipeline], tmp_path: Path, order: str
) -> None:
    pipeline, person = begin(scene, pipelines, tmp_path, order, careful=False)
    mark = len(person.server.received)
    checkpoint = person.checkpoint(label="here")
    pipeline.goes_on()
    reverted = person.call("context/revertTo", checkpointUid=checkpoint["uid"])
    pipeline.goes_on()
    pipeline.stop()
    assert pipeline.errors() == []
    same_story(pipeline, person, mark)
    numbers = [int(text) for text in person.texts()]
    kept = checkpoint["messageCount"]
    gone = range(kept + 1, kept + 1 + reverted["removed"]["messages"])
    assert (
        reverted["removed"]["messages"] > 0
    )  # fewer than it was seen to append: of some the answer had been on its way
    assert numbers == [number for number in range(1, numbers[-1] + 1) if number not in gone]


def same_story(pipeline: Pipeline, person: Session, mark: int) -> None:
    """Both were told the same, in the same order, the person's changes and the pipeline's among them."""
    settle([person])
    hers = changes(person, mark)
    its = pipeline.changes()
    its = its[its.index(hers[0]) :]
    assert [change for change in hers if change["kind"] != "accessChanged"] == its
    causes = [(change["kind"], change["cause"]["client"]) for change in its]
    assert ("reverted", "client-1") in causes and ("checkpointCreated", "client-1") in causes
    behind = causes[causes.index(("reverted", "client-1")) + 1 :]
    assert set(behind) == {("messagesAppended", "pipeline")}


LOOP = (
    'n=0; while [ ! -e "$0" ]; do n=$((n + 1)); echo "{\\"role\\":\\"user\\",\\"content\\":\\"$n\\"}"; sleep 0.02; done'
)


def test_the_append_command_stays_in_its_pipe_while_somebody_reverts(scene: Scene, tmp_path: Path) -> None:
    person = scene.window()
    checkpoint = person.checkpoint()
    cli, stop = Cli(scene.home), tmp_path / "stop"
    pipe = subprocess.Popen(
        ["sh", "-c", f'({LOOP}) | "$@"', str(stop), *cli.argv(["append", "s"])],
        env=cli.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        appended = person.server.heard("context/didChange", kind="messagesAppended")
        assert appended["cause"]["client"] != "client-1"
        reverted = person.call("context/revertTo", checkpointUid=checkpoint["uid"])
        behind = len(person.server.received)
        until(lambda: len(changes(person, behind)) >= 5, saying="the pipeline goes on")
        stop.touch()
        pipe.communicate(timeout=PATIENCE)
    finally:
        stop.touch()
        pipe.kill()
    assert pipe.returncode == 0
    numbers = [int(text) for text in person.texts()]
    assert len(numbers) >= 5
    first = reverted["removed"]["messages"] + 1
    assert numbers == list(range(first, first + len(numbers)))
    assert person.get_state()["access"] == "owner"
