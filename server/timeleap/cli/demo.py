"""`demo`: scenes on a real server. Each one acts, and compares what it finds with what was promised."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Literal

from timeleap.cli.command import FAILED, command
from timeleap.cli.create import parse, steps
from timeleap.cli.demo_actor import Actor
from timeleap.cli.demo_database import SESSION_ID, show_two_machines
from timeleap.cli.demo_screen import Screen
from timeleap.cli.formatting import count, size
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.terminal import Exit, Terminal, UsageError
from timeleap.clock import new_uid
from timeleap.json_value import Json
from timeleap_client.errors import TimeleapRpcError

app = Commands()

_PATIENCE = 10.0
_MOMENT = 0.05
"""Seconds until a person does something; in less the clock of a file system may stand still."""
_IDEA = [
    {"role": "user", "content": "Forget all that. Let us rewrite everything from scratch tonight."},
    {"role": "assistant", "content": "A bold idea! I have deleted the tests, they were slowing us down."},
]
_PROJECT = {
    "shares.py": "def share(total, guests):\n    return total / guests\n",
    "notes.txt": "Ask Ada about cents.\n",
}
_TIDY_UP = "echo 'print(share(100, 3))' >> shares.py; rm notes.txt; echo 'write tests' > todo.txt"
_TIDIED = {"role": "assistant", "content": "I have tidied up."}
_ON = {"role": "assistant", "content": "Then I go on from here."}


@command(app)
def demo(
    terminal: Terminal,
    path: Annotated[
        Path | None,
        Argument(metavar="[PATH]", help="A session file (JSON lines) or directory; a sample if none is given."),
    ] = None,
    keep: Annotated[bool, Option("--keep", help="Do not remove the store it made.")] = False,
    store: Annotated[
        Literal["files", "postgresql"],
        Option(
            "--store", help="postgresql: two machines on one session, in a database of their own (needs PostgreSQL)."
        ),
    ] = "files",
) -> None:
    """Tell in a minute what Timeleap is, with a real server in a store of its own.

    Replays a session and shows append, checkpoint, revert with the timeline it leaves, three levels of undo, compact, the files of a
    folder taken back with the conversation, approvals, a killed server and a restart that finds everything again. Each promise is
    really compared; exit code 1 if one is not kept. With --home the story takes place there, in a session of its own, which stays.

    Examples:
        timeleap demo
        timeleap demo ~/sessions/fix-dates/context.jsonl --keep
        timeleap demo --store postgresql
    """
    if store == "postgresql":
        if path is not None or keep or terminal.home is not None:
            raise UsageError("with --store postgresql the demo has a session of its own, which goes with its servers")
        screen = Screen(terminal)
        _conclude(terminal, screen, show_two_machines(screen), SESSION_ID)
        return
    with _session_file(path) as file, _store(terminal, keep) as folder:
        home, records = Path(folder), _records(file)
        if terminal.home is None:
            # Whoever tries it may have no home directory, and wants nothing in it if there is one.
            home = home / "store"
            os.environ.setdefault("TIMELEAP_KEY_FILE", str(home.parent / "approval.key"))
        screen = Screen(terminal)
        screen.title("timeleap demo", f"A real server, a store in {home}, and the session {path or file.name}.")
        with Story(screen, home, file, records) as story:
            for scene in SCENES:
                scene(story, screen)
            requests = story.requests
    look = f"timeleap log {story.session_id} --home {home}" if keep or terminal.home is not None else ""
    _conclude(terminal, screen, requests, story.session_id, look)


def _conclude(terminal: Terminal, screen: Screen, requests: int, session_id: str, look: str = "") -> None:
    """Sum up; a promise that was not kept ends the command with an exit code of its own."""
    screen.summary(requests)
    if look:
        screen.say(f"Look around: {look}")
    kept = all(check.kept for check in screen.checks)
    if terminal.machine:
        checks = [asdict(check) for check in screen.checks]
        terminal.document({"ok": kept, "sessionId": session_id, "checks": checks})
    if not kept:
        raise Exit(FAILED)


def _session_file(path: Path | None) -> AbstractContextManager[Path]:
    if path is None:
        return as_file(files("timeleap.cli") / "data" / "sample-session.jsonl")
    file = path / "context.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"there is no session file {file}")
    return nullcontext(file)


def _store(terminal: Terminal, keep: bool) -> AbstractContextManager[Path | str]:
    if terminal.home is not None:
        return nullcontext(terminal.home.absolute())
    name = "timeleap-demo-"
    if keep:
        return nullcontext(tempfile.mkdtemp(prefix=name))
    return tempfile.TemporaryDirectory(prefix=name, ignore_cleanup_errors=True)


def _records(file: Path) -> list[Json]:
    try:
        with file.open(encoding="utf-8") as stream:
            records = [record for number, line in enumerate(stream, 1) if (record := parse(line, number))]
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no UTF-8 text: {error}") from None
    if all(record["role"].startswith("_") for record in records):
        raise UsageError(f"there is no message in {file}")
    return records


class Story(Actor):
    """State shared by the scenes: the server, the session, and the expected content."""

    def __init__(self, screen: Screen, home: Path, file: Path, records: Sequence[Json]) -> None:
        session_id = f"demo-{re.sub('[^A-Za-z0-9]+', '-', file.stem).strip('-')[:40] or 'x'}-{new_uid(4)}"
        super().__init__(screen, home, session_id, shown=("initialize",))
        self.home = home
        self.file = file
        self.records = records
        self.messages = [
            {name: value for name, value in record.items() if name != "_tl"}
            for record in records
            if not record["role"].startswith("_")
        ]
        self.retried: tuple[str, Json, Json] = ("", {}, {})
        """A request id, its params and its first result."""


Scene = Callable[[Story, Screen], None]
SCENES: list[Scene] = []


def _scene(name: str, told: str = "") -> Callable[[Scene], Scene]:
    """Register the next scene, which begins with its name and what it is about."""

    def register(act: Scene) -> Scene:
        def play(story: Story, screen: Screen) -> None:
            screen.scene(name)
            if told:
                screen.say(told)
            act(story, screen)

        SCENES.append(play)
        return act

    return register


@_scene("Start the server", "A child process, spoken to in JSON-RPC over its standard input and output.")
def _start(story: Story, screen: Screen) -> None:
    seconds = story.start_server()
    screen.check("the server answers `initialize`", True, f"{seconds * 1000:.0f} ms from nothing to an answer")


@_scene("Replay a session")
def _replay(story: Story, screen: Screen) -> None:
    messages = count(len(story.messages), "message")
    screen.say(f"{story.file.name} has {messages}; they arrive as an agent would send them.")
    story.open(title=f"Demo of {story.file.name}")
    began = time.monotonic()
    requests = list(steps(story.records))
    known = {"context/setSystemPrompt"}
    for step in requests:
        # The first one of each other kind is shown, the rest would only fill the screen.
        (story.session.call if step.method in known else story.call)(step.method, **step.params)
        known.add(step.method)
    seconds = time.monotonic() - began
    screen.say(
        f"... {count(len(requests), 'request')} in all, each answered when it was on the disk, in {seconds:.2f} s."
    )
    checkpoints = sum(record["role"] == "_checkpoint" for record in story.records)
    usages = [record.get("token_count") for record in story.records if record["role"] == "_usage"]
    screen.check("the history is the file's, message by message", story.history() == story.messages)
    screen.check("so are the checkpoints", len(story.checkpoints()) == checkpoints, count(checkpoints, "checkpoint"))
    tokens = story.state()["context"]["tokenCount"]
    screen.check("and the token count", tokens == (usages[-1] if usages else 0), count(tokens, "token"))
    story.draw()


@_scene("Checkpoint, then a bad idea", "A place to come back to, and two messages we shall regret.")
def _checkpoint(story: Story, screen: Screen) -> None:
    made = story.call("context/checkpoint", label="before the bad idea")["checkpoint"]
    screen.check("the checkpoint knows its place", made["messageCount"] == len(story.messages), f"uid {made['uid']}")
    request_id = f"demo-{new_uid()}"
    first = story.call("context/appendMessage", messages=_IDEA, requestId=request_id)
    story.retried = (request_id, {"messages": _IDEA}, first)
    screen.say("Did the reply get lost? The same request again, under the same request id:")
    again = story.call("context/appendMessage", messages=_IDEA, requestId=request_id)
    screen.check(
        "a repeated request changes nothing", again.get("duplicate") is True and again["head"] == first["head"]
    )
    screen.check("the two messages are there once", story.history() == [*story.messages, *_IDEA])


@_scene("Revert", "Back to before a checkpoint in the middle. First only asked, then done.")
def _revert(story: Story, screen: Screen) -> None:
    before, known = story.history(), story.checkpoints()
    target = known[len(known) // 2]
    plan = story.call("context/revertTo", checkpointUid=target["uid"], dryRun=True)
    screen.check("a dry run changes nothing", story.history() == before and story.checkpoints() == known)
    done = story.call("context/revertTo", checkpointUid=target["uid"])
    promised, kept = (
        (result["removed"], result["context"]["messageCount"], result["context"]["tokenCount"])
        for result in (plan, done)
    )
    gone = count(done["removed"]["messages"], "message")
    screen.check("the revert does what the dry run said", promised == kept, f"{gone} gone")
    screen.check("what is left is what was before it", story.history() == before[: target["messageCount"]])
    screen.check("so are the checkpoints", story.checkpoints() == known[: known.index(target)])
    timeline = story.session.call("context/listTimelines", limit=1)["timelines"][0]
    whole = timeline["timelineId"] == done["timelineId"] and timeline["messageCount"] == len(before)
    screen.check("what went is kept whole, as a timeline", whole, f"{timeline['file']}, {size(timeline['bytes'])}")
    story.draw()


@_scene("Undo", "The bad idea was not so bad. The timeline becomes the log again.")
def _undo(story: Story, screen: Screen) -> None:
    timeline = story.session.call("context/listTimelines", limit=1)["timelines"][0]
    directory = Path(story.state()["path"])
    kept = (directory / timeline["file"]).read_bytes()
    story.call("context/undo")
    screen.check("the log equals the timeline byte for byte", (directory / "context.jsonl").read_bytes() == kept)
    screen.check("nothing was ever lost", story.history() == [*story.messages, *_IDEA])
    story.draw()


@_scene("Three times back, and forth", "A revert, another one, a clear: three mistakes. Undo, undo, undo, redo.")
def _levels(story: Story, screen: Screen) -> None:
    log = Path(story.state()["path"]) / "context.jsonl"
    states = [log.read_bytes()]
    messages = len(story.history())
    for method, params in (
        ("context/revertTo", {"messageIndex": messages - 1}),
        ("context/revertTo", {"messageIndex": (messages - 1) // 2}),
        ("context/clear", {"keepSystemPrompt": False}),
    ):
        story.call(method, **params)
        states.append(log.read_bytes())
    timelines = len(list(story.session.timelines()))
    kinds = []
    for expected in (states[2], states[1], states[0]):
        done = story.call("context/undo")
        kinds.append(done["steps"][0]["kind"])
        screen.check("each undo brings back the very bytes", log.read_bytes() == expected, f"{done['canUndo']} more")
    screen.check("the last mistake was undone first", kinds == ["clear", "revert", "revert"], ", ".join(kinds))
    story.call("context/redo")
    screen.check("and redo does one of them again", log.read_bytes() == states[1])
    story.call("context/undo")
    several = story.call("context/redo", steps=3, dryRun=True)["context"]["messageCount"]
    screen.check("a dry run of three at once says where they lead", several == 0 and log.read_bytes() == states[0])
    there = len(list(story.session.timelines()))
    screen.check("going to and fro adds no timelines", there == timelines, count(there, "timeline"))


@_scene(
    "Compact, and take it back", "A summary for the old messages, by the built-in summariser: no model, no network."
)
def _compact(story: Story, screen: Screen) -> None:
    before, state = story.history(), story.state()
    result = story.call("context/compact", summarizer="builtin")
    if result["compacted"]:
        screen.listing(result["summary"].splitlines()[:6])
        was, tokens = result["tokenCountBefore"], result["tokenCountAfter"]
        screen.check("the context is shorter", tokens < was, f"{was:,} → {tokens:,} tokens")
        preserved = before[len(before) - result["preservedMessages"] :]
        whole = story.history()[1:] == preserved
        screen.check("the newest messages stay as they are", whole, count(len(preserved), "message"))
        story.draw()
        story.call("context/undo")
    else:
        screen.say(f"It says no: {result['reason']}. That is right for so short a session.")
    present = story.state()["context"]
    screen.check("the undo brings every message back", story.history() == before)
    screen.check("and the token count", present["tokenCount"] == state["context"]["tokenCount"])


@_scene("Files go back, too", "The session's folder is saved with each checkpoint, whatever changes it afterwards.")
def _files(story: Story, screen: Screen) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="timeleap-demo-files-") as name,
        Actor(screen, story.home, f"{story.session_id}-files") as agent,
    ):
        folder = Path(os.path.realpath(name))
        for file, text in _PROJECT.items():
            (folder / file).write_text(text, encoding="utf-8")
        agent.start_server()
        agent.open(workspace=folder.as_uri(), files={"mode": "checkpoint"})
        made = agent.call("context/checkpoint", label="before the tidy-up")["checkpoint"]
        if "error" in made["files"]:
            screen.say(f"Not on this machine: {made['files']['error']['message']}")
            return
        before = _tree(folder)
        screen.say("The agent's tool runs in a shell, where nobody sees which files it touches:")
        screen.listing([f"$ {_TIDY_UP}"])
        subprocess.run(["sh", "-c", _TIDY_UP], cwd=folder, check=True)
        agent.call("context/appendMessage", message=_TIDIED)
        after = _tree(folder)
        plan = agent.call("context/revertTo", checkpointUid=made["uid"], restore="both", dryRun=True)
        screen.check("a dry run says what goes back, and changes nothing", _tree(folder) == after, _told(plan["files"]))
        agent.call("context/revertTo", checkpointUid=made["uid"], restore="both")
        back = _tree(folder) == before and agent.history() == []
        screen.check("the edit, the deletion and the new file go back with the conversation", back, _named(before))
        agent.call("context/undo", restore="both")
        forth = _tree(folder) == after and agent.history() == [_TIDIED]
        screen.check("and the undo brings all of it again, byte for byte", forth, _named(after))
        time.sleep(_MOMENT)
        (folder / "shares.py").write_text("# a person's own line\n", encoding="utf-8")
        person = _tree(folder)
        screen.say("A person edits a file; then the same revert:")
        try:
            agent.call("context/revertTo", checkpointUid=made["uid"], restore="both")
            refusal: Json = {}
        except TimeleapRpcError as error:
            refusal = {"kind": error.kind, "paths": error.data.get("paths")}
        kept = refusal == {"kind": "filesConflict", "paths": ["shares.py"]} and _tree(folder) == person
        screen.check("what a person wrote since is not overwritten", kept and agent.history() == [_TIDIED])
        story.requests += agent.requests


def _tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The files of a folder: permissions and content."""
    return {file.name: (file.stat().st_mode, file.read_bytes()) for file in sorted(folder.iterdir())}


def _told(files: Json) -> str:
    return ", ".join(f"{files[name]} {name}" for name in ("added", "modified", "deleted"))


def _named(tree: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(tree)


@_scene("State and approvals", "Everything about a session in one reply, and the switch nobody should forget.")
def _approvals(story: Story, screen: Screen) -> None:
    state = story.call("session/getState")
    screen.check("the state agrees with the history", state["context"]["messageCount"] == len(story.history()))
    on = story.call("session/setYolo", yolo=True)["approval"]["yolo"]
    allowed = story.call("session/isApproved", action="run_command")
    screen.check("with yolo on everything runs unasked", on and allowed == {"approved": True, "reason": "yolo"})
    off = story.call("session/setYolo", yolo=False)["approval"]["yolo"]
    asked = story.session.call("session/isApproved", action="run_command")["approved"]
    screen.check("with yolo off it does not", not off and not asked)
    lines = (Path(state["path"]) / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    audit = [json.loads(line) for line in lines]
    screen.listing(json.dumps(entry) for entry in audit)
    changes = [(entry["who"], entry["field"], entry["from"], entry["to"]) for entry in audit]
    expected = [("timeleap-cli", "yolo", False, True), ("timeleap-cli", "yolo", True, False)]
    screen.check("who switched what is on record", changes == expected)
    screen.check("the head stays: a click never fails an agent's append", story.state()["head"] == state["head"])


@_scene("Two programs, one session", "A person reverts in the editor while the agent works; each has a server.")
def _together(story: Story, screen: Screen) -> None:
    if closed := [warning for warning in story.state()["warnings"] if warning["kind"] == "notReachable"]:
        screen.say(f"Not on this machine: {closed[0]['message']}")
        return
    before, here = story.history(), len(story.heard)
    with Actor(screen, story.home, story.session_id, "editor") as editor:
        editor.start_server()
        screen.check("the second goes through the first", editor.open(create=False)["access"] == "attached")
        there = len(editor.heard)
        made = story.session.call("context/checkpoint", label="while somebody watches")["checkpoint"]
        seen = story.call("context/appendMessage", message=_IDEA[0])["head"]
        reverted = editor.call("context/revertTo", checkpointUid=made["uid"])
        screen.say("The agent has not noticed, and builds on what it has seen:")
        try:
            story.call("context/appendMessage", message=_IDEA[1], expectedHead=seen)
            refusal: Json = {}
        except TimeleapRpcError as error:
            refusal = {"kind": error.kind, "head": error.data.get("head")}
        told = {"kind": "contentModified", "head": reverted["head"]}
        screen.check("with `expectedHead` it is told, and where the log is now", refusal == told)
        story.call("context/appendMessage", message=_ON)
        screen.check("without, it goes on after the revert", editor.history() == story.history() == [*before, _ON])
        deadline = time.monotonic() + _PATIENCE  # another process notifies us asynchronously
        while len(editor.heard) < there + 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        ours, theirs = story.heard[here:], editor.heard[there:]
        order = ", ".join(f"{change['kind']} by {change['cause'].get('client')}" for change in theirs)
        screen.check("both heard the same, in the same order", len(ours) == 4 and ours == theirs, order)
        screen.say("kill -9 for the server that owns the session; the editor appends, as if nothing had happened.")
        began = time.monotonic()
        story.kill_server()
        editor.call("context/appendMessage", message=_ON)
        took_over = editor.state()["access"] == "owner" and editor.history() == [*before, _ON, _ON]
        took = f"{(time.monotonic() - began) * 1000:.0f} ms"
        screen.check("the other one takes over, and nothing is lost", took_over, took)
        screen.check("the first comes back, through the second", story.state()["access"] == "attached")
        story.requests += editor.requests


@_scene("Kill the server", "kill -9, without a word; then an append, as if nothing had happened.")
def _kill(story: Story, screen: Screen) -> None:
    before, pid = story.history(), story.pid
    story.kill_server()
    last_message = {"role": "user", "content": "Are you still there?"}
    story.call("context/appendMessage", message=last_message)
    screen.check("the client starts another one and sends again", story.pid != pid)
    once = story.history() == [*before, last_message]
    screen.check("everything that was acknowledged is there, and the append once", once)


@_scene("Stop, and start again", "Shut down in good order. A new server opens the session from the disk alone.")
def _restart(story: Story, screen: Screen) -> None:
    names = ("head", "title", "approval", "context")
    before = (
        {name: story.state()[name] for name in names},
        story.history(),
        story.checkpoints(),
        list(story.session.timelines()),
    )
    code = story.stop_server()
    screen.check("the server ends by itself", code == 0, f"exit code {code}")
    seconds = story.start_server()
    state = story.open(create=False)
    screen.say(f"started and opened in {seconds * 1000:.0f} ms")
    screen.check("the head is the same", state["head"] == before[0]["head"], state["head"])
    screen.check("so is the rest of the state", {name: state[name] for name in names} == before[0])
    screen.check("and the history", story.history() == before[1], count(len(before[1]), "message"))
    screen.check("and the checkpoints", story.checkpoints() == before[2], count(len(before[2]), "checkpoint"))
    screen.check("and the timelines", list(story.session.timelines()) == before[3], count(len(before[3]), "timeline"))
    request_id, params, first = story.retried
    again = story.call("context/appendMessage", **params, requestId=request_id)
    known = again.get("duplicate") is True and again["firstIndex"] == first["firstIndex"]
    screen.check("even the request id from the beginning is known", known and story.history() == before[1])
    story.draw()
