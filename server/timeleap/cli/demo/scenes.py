"""The scenes of the demo. Each one acts on a real server, and compares what it finds with what was promised.

A scene is a function of the `Story`; a new one is added to `SCENES`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from timeleap.cli.create import steps
from timeleap.cli.demo.client import Actor
from timeleap.cli.demo.screen import Screen
from timeleap.cli.formatting import Json, count, size
from timeleap.clock import new_uid
from timeleap_client.errors import TimeleapRpcError

_IDEA = [
    {"role": "user", "content": "Forget all that. Let us rewrite everything from scratch tonight."},
    {"role": "assistant", "content": "A bold idea! I have deleted the tests, they were slowing us down."},
]
_ON = {"role": "assistant", "content": "Then I go on from here."}
_PATIENCE = 10.0


class Story(Actor):
    """State shared by the scenes: the server, the session, and the expected content."""

    def __init__(self, stage: Screen, home: Path, file: Path, records: Sequence[Json]) -> None:
        session_id = f"demo-{re.sub('[^A-Za-z0-9]+', '-', file.stem).strip('-')[:40] or 'x'}-{new_uid(4)}"
        super().__init__(stage, home, session_id, shown=("initialize",))
        self.home = home
        self.file = file
        self.records = records
        self.messages = [_stripped(record) for record in records if not record["role"].startswith("_")]
        self.retried: tuple[str, Json, Json] = ("", {}, {})
        """A request id, its params and its first result."""


def _start(story: Story) -> None:
    story.stage.scene("Start the server", "A child process, spoken to in JSON-RPC over its standard input and output.")
    seconds = story.start_server()
    story.stage.check("the server answers `initialize`", True, f"{seconds * 1000:.0f} ms from nothing to an answer")


def _replay(story: Story) -> None:
    stage = story.stage
    told = f"{story.file.name} has {count(len(story.messages), 'message')}; they arrive as an agent would send them."
    stage.scene("Replay a session", told)
    story.open(title=f"Demo of {story.file.name}")
    began = time.monotonic()
    unseen = {"context/appendMessage", "context/checkpoint", "context/updateTokenCount"}
    requests = 0
    for step in steps(story.records):
        # The first one of each kind is shown, the rest would only fill the screen.
        (story.call if step.method in unseen else story.session.call)(step.method, **step.params)
        unseen.discard(step.method)
        requests += 1
    seconds = time.monotonic() - began
    stage.say(f"... {count(requests, 'request')} in all, each answered when it was on the disk, in {seconds:.2f} s.")
    checkpoints = sum(record["role"] == "_checkpoint" for record in story.records)
    usages = [record.get("token_count") for record in story.records if record["role"] == "_usage"]
    stage.check("the history is the file's, message by message", story.history() == story.messages)
    stage.check("so are the checkpoints", len(story.checkpoints()) == checkpoints, count(checkpoints, "checkpoint"))
    tokens = story.state()["context"]["tokenCount"]
    stage.check("and the token count", tokens == (usages[-1] if usages else 0), count(tokens, "token"))
    story.draw()


def _checkpoint(story: Story) -> None:
    stage = story.stage
    stage.scene("Checkpoint, then a bad idea", "A place to come back to, and two messages we shall regret.")
    made = story.call("context/checkpoint", label="before the bad idea")["checkpoint"]
    stage.check("the checkpoint knows its place", made["messageCount"] == len(story.messages), f"uid {made['uid']}")
    request_id = f"demo-{new_uid()}"
    first = story.call("context/appendMessage", messages=_IDEA, requestId=request_id)
    story.retried = (request_id, {"messages": _IDEA}, first)
    stage.say("Did the reply get lost? The same request again, under the same request id:")
    again = story.call("context/appendMessage", messages=_IDEA, requestId=request_id)
    stage.check("a repeated request changes nothing", again.get("duplicate") is True and again["head"] == first["head"])
    stage.check("the two messages are there once", story.history() == [*story.messages, *_IDEA])


def _revert(story: Story) -> None:
    stage = story.stage
    stage.scene("Revert", "Back to before a checkpoint in the middle. First only asked, then done.")
    before, known = story.history(), story.checkpoints()
    target = known[len(known) // 2]
    plan = story.call("context/revertTo", checkpointUid=target["uid"], dryRun=True)
    stage.check("a dry run changes nothing", story.history() == before and story.checkpoints() == known)
    done = story.call("context/revertTo", checkpointUid=target["uid"])
    promised = (plan["removed"], plan["context"]["messageCount"], plan["context"]["tokenCount"])
    kept = (done["removed"], done["context"]["messageCount"], done["context"]["tokenCount"])
    stage.check(
        "the revert does what the dry run said",
        promised == kept,
        count(done["removed"]["messages"], "message") + " gone",
    )
    stage.check("what is left is what was before it", story.history() == before[: target["messageCount"]])
    stage.check("so are the checkpoints", story.checkpoints() == known[: known.index(target)])
    timeline = story.session.call("context/listTimelines", limit=1)["timelines"][0]
    whole = timeline["timelineId"] == done["timelineId"] and timeline["messageCount"] == len(before)
    stage.check("what went is kept whole, as a timeline", whole, f"{timeline['file']}, {size(timeline['bytes'])}")
    story.draw()


def _undo(story: Story) -> None:
    stage = story.stage
    stage.scene("Undo", "The bad idea was not so bad. The timeline becomes the log again.")
    timeline = story.session.call("context/listTimelines", limit=1)["timelines"][0]
    directory = Path(story.state()["path"])
    kept = (directory / timeline["file"]).read_bytes()
    story.call("context/undo")
    stage.check("the log equals the timeline byte for byte", (directory / "context.jsonl").read_bytes() == kept)
    stage.check("nothing was ever lost", story.history() == [*story.messages, *_IDEA])
    story.draw()


def _levels(story: Story) -> None:
    stage = story.stage
    stage.scene(
        "Three times back, and forth", "A revert, another one, a clear: three mistakes. Undo, undo, undo, redo."
    )
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
    timelines = len(_timelines(story))
    kinds = []
    for expected in (states[2], states[1], states[0]):
        done = story.call("context/undo")
        kinds.append(done["steps"][0]["kind"])
        stage.check("each undo brings back the very bytes", log.read_bytes() == expected, f"{done['canUndo']} more")
    stage.check("the last mistake was undone first", kinds == ["clear", "revert", "revert"], ", ".join(kinds))
    story.call("context/redo")
    stage.check("and redo does one of them again", log.read_bytes() == states[1])
    story.call("context/undo")
    several = story.call("context/redo", steps=3, dryRun=True)["context"]["messageCount"]
    stage.check("a dry run of three at once says where they lead", several == 0 and log.read_bytes() == states[0])
    there = len(_timelines(story))
    stage.check("going to and fro adds no timelines", there == timelines, count(there, "timeline"))


def _compact(story: Story) -> None:
    stage = story.stage
    stage.scene(
        "Compact, and take it back", "A summary for the old messages, by the built-in summariser: no model, no network."
    )
    before, state = story.history(), story.state()
    result = story.call("context/compact", summarizer="builtin")
    if result["compacted"]:
        stage.listing(result["summary"].splitlines()[:6])
        fewer = result["tokenCountAfter"] < result["tokenCountBefore"]
        stage.check(
            "the context is shorter", fewer, f"{result['tokenCountBefore']:,} → {result['tokenCountAfter']:,} tokens"
        )
        after = story.history()
        preserved = before[len(before) - result["preservedMessages"] :]
        stage.check("the newest messages stay as they are", after[1:] == preserved, count(len(preserved), "message"))
        story.draw()
        story.call("context/undo")
    else:
        stage.say(f"It says no: {result['reason']}. That is right for so short a session.")
    present = story.state()["context"]
    stage.check("the undo brings every message back", story.history() == before)
    stage.check("and the token count", present["tokenCount"] == state["context"]["tokenCount"])


def _approvals(story: Story) -> None:
    stage = story.stage
    stage.scene("State and approvals", "Everything about a session in one reply, and the switch nobody should forget.")
    state = story.call("session/getState")
    stage.check("the state agrees with the history", state["context"]["messageCount"] == len(story.history()))
    on = story.call("session/setYolo", yolo=True)["approval"]["yolo"]
    allowed = story.call("session/isApproved", action="run_command")
    stage.check("with yolo on everything runs unasked", on and allowed == {"approved": True, "reason": "yolo"})
    off = story.call("session/setYolo", yolo=False)["approval"]["yolo"]
    asked = story.session.call("session/isApproved", action="run_command")["approved"]
    stage.check("with yolo off it does not", not off and not asked)
    audit = [
        json.loads(line) for line in (Path(state["path"]) / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    stage.listing(json.dumps(entry) for entry in audit)
    changes = [(entry["who"], entry["field"], entry["from"], entry["to"]) for entry in audit]
    expected = [("timeleap-cli", "yolo", False, True), ("timeleap-cli", "yolo", True, False)]
    stage.check("who switched what is on record", changes == expected)
    stage.check("the head stays: a click never fails an agent's append", story.state()["head"] == state["head"])


def _together(story: Story) -> None:
    stage = story.stage
    stage.scene("Two programs, one session", "A person reverts in the editor while the agent works; each has a server.")
    if closed := [warning for warning in story.state()["warnings"] if warning["kind"] == "notReachable"]:
        stage.say(f"Not on this machine: {closed[0]['message']}")
        return
    before, here = story.history(), len(story.heard)
    with Actor(stage, story.home, story.session_id, "editor") as editor:
        editor.start_server()
        stage.check("the second goes through the first", editor.open(create=False)["access"] == "attached")
        there = len(editor.heard)
        made = story.session.call("context/checkpoint", label="while somebody watches")["checkpoint"]
        seen = story.call("context/appendMessage", message=_IDEA[0])["head"]
        reverted = editor.call("context/revertTo", checkpointUid=made["uid"])
        stage.say("The agent has not noticed, and builds on what it has seen:")
        try:
            story.call("context/appendMessage", message=_IDEA[1], expectedHead=seen)
            refusal: Json = {}
        except TimeleapRpcError as error:
            refusal = {"kind": error.kind, "head": error.data.get("head")}
        told = {"kind": "contentModified", "head": reverted["head"]}
        stage.check("with `expectedHead` it is told, and where the log is now", refusal == told)
        story.call("context/appendMessage", message=_ON)
        stage.check("without, it goes on after the revert", editor.history() == story.history() == [*before, _ON])
        ours, theirs = story.heard[here:], _patiently(lambda: editor.heard[there:], 4)
        order = ", ".join(f"{change['kind']} by {change['cause'].get('client')}" for change in theirs)
        stage.check("both heard the same, in the same order", len(ours) == 4 and ours == theirs, order)
        stage.say("kill -9 for the server that owns the session; the editor appends, as if nothing had happened.")
        began = time.monotonic()
        story.kill_server()
        editor.call("context/appendMessage", message=_ON)
        stage.check(
            "the other one takes over, and nothing is lost",
            editor.state()["access"] == "owner" and editor.history() == [*before, _ON, _ON],
            f"{(time.monotonic() - began) * 1000:.0f} ms",
        )
        stage.check("the first comes back, through the second", story.state()["access"] == "attached")
        story.requests += editor.requests


def _patiently(look: Callable[[], list[Json]], length: int) -> list[Json]:
    """Poll `look` until its result has `length` entries: another process notifies us asynchronously."""
    deadline = time.monotonic() + _PATIENCE
    while len(look()) < length and time.monotonic() < deadline:
        time.sleep(0.01)
    return look()


def _kill(story: Story) -> None:
    stage = story.stage
    stage.scene("Kill the server", "kill -9, without a word; then an append, as if nothing had happened.")
    before, pid = story.history(), story.pid
    story.kill_server()
    last_message = {"role": "user", "content": "Are you still there?"}
    story.call("context/appendMessage", message=last_message)
    stage.check("the client starts another one and sends again", story.pid != pid)
    stage.check(
        "everything that was acknowledged is there, and the append once", story.history() == [*before, last_message]
    )


def _restart(story: Story) -> None:
    stage = story.stage
    stage.scene("Stop, and start again", "Shut down in good order. A new server opens the session from the disk alone.")
    names = ("head", "title", "approval", "context")
    before = ({name: story.state()[name] for name in names}, story.history(), story.checkpoints(), _timelines(story))
    code = story.stop_server()
    stage.check("the server ends by itself", code == 0, f"exit code {code}")
    seconds = story.start_server()
    state = story.open(create=False)
    stage.say(f"started and opened in {seconds * 1000:.0f} ms")
    stage.check("the head is the same", state["head"] == before[0]["head"], state["head"])
    stage.check("so is the rest of the state", {name: state[name] for name in names} == before[0])
    stage.check("and the history", story.history() == before[1], count(len(before[1]), "message"))
    stage.check("and the checkpoints", story.checkpoints() == before[2], count(len(before[2]), "checkpoint"))
    stage.check("and the timelines", _timelines(story) == before[3], count(len(before[3]), "timeline"))
    request_id, params, first = story.retried
    again = story.call("context/appendMessage", **params, requestId=request_id)
    known = again.get("duplicate") is True and again["firstIndex"] == first["firstIndex"]
    stage.check("even the request id from the beginning is known", known and story.history() == before[1])
    story.draw()


def _timelines(story: Story) -> list[Json]:
    return list(story.session.pages("context/listTimelines", "timelines", limit=1000))


def _stripped(record: Json) -> Json:
    return {name: value for name, value in record.items() if name != "_tl"}


SCENES: Sequence[Callable[[Story], None]] = (
    _start,
    _replay,
    _checkpoint,
    _revert,
    _undo,
    _levels,
    _compact,
    _approvals,
    _together,
    _kill,
    _restart,
)
