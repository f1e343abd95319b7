"""kill -9 of the owner while several windows work: what was acknowledged is there, once, in each client's order."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.framing import Framing
from tests.support.scene import Scene, marks, scene_at, taken_over, until
from tests.support.server import Pending, Server
from tests.support.session import Session, user
from tests.support.trace import Tracer
from tests.wire.operations import OPERATIONS, Operation, prepare

pytestmark = [
    pytest.mark.crash,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform == "win32", reason="kill -9"),
]

KILLS = 50
WINDOWS = 4
BURST = 4
"""Requests a worker has in flight."""
PAUSE = 0.03
"""Seconds between two bursts: what the tests themselves have to read is work, too."""


class Worker:
    """A client that appends without a pause, a few requests at a time, until it is stopped or its server is killed.

    Every text is unique and says who wrote it and as which one. Some requests are batches, some carry a request id.

    Attributes:
        acknowledged: Texts whose append was answered, in the order of the requests.
        unanswered: Texts of what was asked of a server that was killed.
        doomed: Its server is about to be killed.
    """

    def __init__(self, window: Session, name: str, *, own_ids: bool) -> None:
        self.window = window
        self.name = name
        self.acknowledged: list[str] = []
        self.unanswered: list[str] = []
        self.doomed = False
        self.failure: BaseException | None = None
        self._own_ids = own_ids
        self._numbers = itertools.count()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let it finish what it has begun."""
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} waits for ever"

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._burst()
                time.sleep(PAUSE)
        except BaseException as failure:
            self.failure = failure

    def _burst(self) -> None:
        begun: list[tuple[list[str], Pending | None]] = []
        for _ in range(BURST):
            number = next(self._numbers)
            texts = [f"{self.name} {number} {part}" for part in range(3 if number % 5 == 0 else 1)]
            params: dict[str, Any] = {"messages": [user(text) for text in texts]}
            if self._own_ids:
                params["requestId"] = f"{self.name} {number}"
            try:
                begun.append((texts, self.window.start("context/appendMessage", **params)))
            except OSError:
                if not self.doomed:
                    raise
                begun.append((texts, None))
        killed = None
        for texts, pending in begun:
            try:
                reply = None if pending is None else pending.reply()
            except AssertionError as failure:
                if not self.doomed:
                    raise
                killed, reply = failure, None
            if reply is None:
                self.unanswered += texts
                self._stopping.set()
                continue
            assert "result" in reply, (self.name, reply)
            assert killed is None, "answered after an earlier one was not"
            self.acknowledged += texts


def check(log: Path, workers: list[Worker]) -> None:
    """Fail if the log has lost or doubled anything, or mixed up what one client said."""
    acknowledged = {worker.name: list(worker.acknowledged) for worker in workers}
    lines = log.read_bytes().split(b"\n")[:-1]
    found: dict[str, list[str]] = {worker.name: [] for worker in workers}
    for line in lines:
        text = json.loads(line)["content"]
        found[text.split()[0]].append(text)
    for worker in workers:
        texts = found[worker.name]
        assert len(texts) == len(set(texts)), f"doubled: {sorted({t for t in texts if texts.count(t) > 1})}"
        assert [tuple(map(int, text.split()[1:])) for text in texts] == sorted(
            tuple(map(int, text.split()[1:])) for text in texts
        ), f"{worker.name}'s order"
        missing = set(acknowledged[worker.name]) - set(texts)
        assert not missing, f"acknowledged and lost: {sorted(missing)}"
        parts: dict[str, int] = {}
        for text in texts:
            number = text.split()[1]
            parts[number] = parts.get(number, 0) + 1
        assert all(count == (3 if int(number) % 5 == 0 else 1) for number, count in parts.items()), "half a batch"


def test_kill_9_of_the_owner_under_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    framings: Iterator[Framing] = itertools.cycle(("lsp", "ndjson"))
    names = (f"worker{number}" for number in itertools.count())
    with scene_at(tmp_path / "home") as scene:
        first = scene.window()
        log = first.log
        windows = [first, *scene.crowd(WINDOWS - 1)]
        workers = {id(w): Worker(w, next(names), own_ids=bool(n % 2)) for n, w in enumerate(windows)}
        every = list(workers.values())
        owner, waited = first, []
        for kill in range(KILLS):
            before_kill = sum(len(worker.acknowledged) for worker in every)
            time.sleep(0.05 + 0.01 * (kill % 7))
            until(lambda: sum(len(worker.acknowledged) for worker in every) > before_kill, saying="somebody works")  # noqa: B023
            rest = [window for window in windows if window is not owner]
            before = marks(rest)
            workers[id(owner)].doomed = True
            killed_at = time.monotonic()
            owner.server.process.kill()
            heir = taken_over(rest, before)
            waited.append(first_reply(heir, before[id(heir)]) - killed_at)
            owner.server.process.wait()
            workers[id(owner)].stop()
            check(log, every)
            assert sum(len(worker.acknowledged) for worker in every) > before_kill, "nobody worked"
            newcomer = scene.enter(scene.servers(1, next(framings))[0])
            assert newcomer.state["access"] == "attached"
            windows = [*rest, newcomer]
            workers[id(newcomer)] = Worker(newcomer, next(names), own_ids=bool(kill % 2))
            every.append(workers[id(newcomer)])
            owner = heir
        for worker in every:
            worker.stop()
        failures = [worker.failure for worker in every if worker.failure is not None]
        assert not failures, failures[0]
        check(log, every)
        alive = [workers[id(window)] for window in windows]
        assert all(not worker.unanswered for worker in alive), "an attached client was left without an answer"
        total = sum(len(worker.acknowledged) for worker in every)
        assert owner.get_state()["context"]["messageCount"] >= total
    with capsys.disabled():
        middle = statistics.median(waited)
        print(f"\n{KILLS} kills, {total} messages; the new owner's first reply after {middle * 1e3:.0f} ms", end=" ")
        print(f"(median; the slowest {max(waited) * 1e3:.0f} ms)")
    assert statistics.median(waited) < 1, "an attached process owns the session within a second"
    assert max(waited) < 10


def first_reply(heir: Session, since: int) -> float:
    """When the heir's client got its first answer from the new owner, its own server."""
    server = heir.server
    told = server.wait_for(is_owner, since=since)
    at = next(i for i, message in enumerate(server.received) if i >= since and message is told)
    answer = server.wait_for(lambda message: "result" in message, since=at)
    return next(server.times[i] for i in range(at, len(server.received)) if server.received[i] is answer)


def is_owner(message: dict[str, Any]) -> bool:
    params = message.get("params", {})
    return bool(params.get("kind") == "accessChanged" and params["access"] == "owner")


# at every failpoint


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Server]]:
    """The server whose client asks, and outlives the owners."""
    with scene_at(tmp_path_factory.mktemp("heir") / "home") as scene:
        yield scene, scene.servers(1)[0]


def facts(session: Session) -> dict[str, Any]:
    """What a session is, without what differs from run to run."""
    state = session.get_state()
    context = state["context"]
    return {
        "history": session.history(),
        "roles": [record["role"] for record in session.records()],
        "tokens": (context["tokenCount"], context["tokenCountWithPending"]),
        "prompt": context["systemPrompt"],
        "checkpoints": [(c["id"], c.get("label"), c["messageCount"]) for c in context["checkpoints"]],
        "timelines": [(t["reason"], t["messageCount"], t["checkpointCount"]) for t in session.timelines()],
        "approval": (state["approval"]["yolo"], state["approval"]["autoApproveActions"]),
        "subagents": state["dynamicSubagents"],
        "pending": state["pendingDMail"] and (state["pendingDMail"]["checkpointId"], state["pendingDMail"]["message"]),
        "title": state["title"],
        "archived": state["archived"],
    }


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_killed_at_a_failpoint_of_an_attached_clients_request_it_happens_once_and_is_answered(
    keeper: tuple[Scene, Server], operation: Operation, tmp_path: Path
) -> None:
    """No request id from the client: that the repetition after the owner's death is none is the sidecar's business."""
    scene, server = keeper
    tracer = Tracer(tmp_path / "trace")
    armed, expected = traced(scene, server, operation, tracer)
    for failpoint in sorted({armed[0], armed[-1]}):
        attached = through_another(scene, server, operation, {"TIMELEAP_FAILPOINTS": f"{failpoint}=kill"})
        before = marks([attached])
        result = attached.call(operation.method, **operation.params)
        taken_over([attached], before)
        assert facts(attached) == expected, failpoint
        assert result["head"] == attached.head, failpoint
        attached.say("and on")
        attached.call("session/close")


def through_another(scene: Scene, server: Server, operation: Operation, env: dict[str, str]) -> Session:
    """A session made ready for `operation`, owned by a new process, and attached in `server`."""
    session = Session.open(server)
    prepare(session)
    operation.before(session)
    session.call("session/close")
    [owner] = scene.servers(1, env=env)
    assert Session.open(owner, session.id).state["access"] == "owner"
    attached = session.reopen(server)
    assert attached.state["access"] == "attached"
    return attached


def traced(scene: Scene, server: Server, operation: Operation, tracer: Tracer) -> tuple[list[str], dict[str, Any]]:
    """The failpoints that the owner passes during the operation, as they are armed, and the facts after it."""
    attached = through_another(scene, server, operation, tracer.env)
    before = tracer.passed()
    attached.call(operation.method, **operation.params)
    after = tracer.passed()
    expected = facts(attached)
    attached.call("session/close")
    count: Callable[[int, str], int] = lambda end, name: after[: end + 1].count(name)  # noqa: E731
    return [f"{after[i]}@{count(i, after[i])}" for i in range(len(before), len(after))], expected
