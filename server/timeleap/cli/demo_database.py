"""`demo --store postgresql`: two machines on one session in a database, whose primary is then killed."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from timeleap.cli.demo_actor import Actor
from timeleap.cli.demo_screen import Screen
from timeleap.cli.formatting import count
from timeleap.cli.private_cluster import Cluster, ClusterFailedError, private_cluster
from timeleap.cli.terminal import UsageError
from timeleap.clock import new_uid
from timeleap.json_value import Json
from timeleap_client.errors import TimeleapRpcError

SESSION_ID = "shared"
_PATIENCE = 10.0
_EACH = 25
"""Messages that each of two machines appends while the other one does."""
_LOST_AFTER = 60.0
"""Seconds after which writing is given up on once the standby was promoted; it takes less than five."""
_QUESTION = {"role": "user", "content": "Why are the shares a cent short?"}
_ANSWER = {"role": "assistant", "content": "share() drops the remainder; I spread it over the first guests."}
_IDEA = {"role": "assistant", "content": "Let us round up, then. Nobody counts cents."}
_STILL = {"role": "user", "content": "Are you still there?"}


def show_two_machines(screen: Screen) -> int:
    """Tell the story; returns how many requests that took. Raises UsageError where there is no PostgreSQL to start."""
    screen.title(
        "timeleap demo --store postgresql", "A private PostgreSQL with its standby, and two machines on one session."
    )
    try:
        with _Scenes(screen) as scenes:
            for act in (
                scenes.start_servers,
                scenes.open_on_both,
                scenes.hear_an_append,
                scenes.hear_a_revert,
                scenes.undo_it,
                scenes.write_at_once,
                scenes.lose_the_primary,
                scenes.come_late,
            ):
                act()
            return sum(machine.requests for machine in scenes.machines)
    except ClusterFailedError as error:
        raise UsageError(f"the demo starts a PostgreSQL of its own. {error}") from None


class _Machine(Actor):
    """A server with a home of its own, and the program that uses it."""

    def __init__(self, screen: Screen, home: Path, name: str, store: str) -> None:
        super().__init__(screen, home, SESSION_ID, name, store=store)
        self.name = name

    def wait_for(self, kind: str, since: int) -> Json:
        """The change of that kind that was heard after so many; empty where it does not come."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if found := [change for change in self.heard[since:] if change["kind"] == kind]:
                return found[0]
            time.sleep(0.001)
        return {}


class _Scenes(ExitStack):
    """The database's two servers and the machines, which all scenes share."""

    primary: Cluster
    standby: Cluster
    store: str
    agent: _Machine
    editor: _Machine

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen
        self._homes = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="timeleap-demo-")))
        self.machines: list[_Machine] = []

    def start_servers(self) -> None:
        screen = self._screen
        screen.scene("A database that survives one of its machines")
        screen.say(
            "initdb, pg_ctl start, pg_basebackup: a primary and a synchronous standby, in a directory of their own."
        )
        began = time.monotonic()
        self.primary = self.enter_context(private_cluster(Cluster))
        self.primary.query("CREATE DATABASE timeleap")
        self.standby = self.primary.standby("standby")
        self.primary.wait_for_synchronous("standby")
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        self.store = f"postgresql://timeleap@{hosts}/timeleap"
        took = f"{time.monotonic() - began:.1f} s"
        state = self.primary.query("SELECT sync_state FROM pg_stat_replication")
        screen.check("no commit is answered before both have it", state == "sync", took)
        screen.say(f"timeleap serve --store {self.store}")

    def open_on_both(self) -> None:
        screen = self._screen
        screen.scene("Two machines, one session")
        screen.say("Each has a server, and a home where nothing of the other one is.")
        self.agent, self.editor = self._machine("agent"), self._machine("editor")
        opened = [
            self.agent.open(title="The missing cent"),
            self.editor.open(create=False),
        ]
        screen.listing(_map(self))
        screen.check("both own it: none goes through the other", [state["access"] for state in opened] == ["owner"] * 2)

    def hear_an_append(self) -> None:
        screen, agent, editor = self._screen, self.agent, self.editor
        screen.scene("An append here is heard there")
        agent.call("context/checkpoint", label="before the question")
        since, began = len(editor.heard), time.monotonic()
        done = agent.call("context/appendMessage", message=_QUESTION)
        told = editor.wait_for("messagesAppended", since)
        took = f"{(time.monotonic() - began) * 1000:.0f} ms from the request here to the notification there"
        heard = told.get("head") == done["head"] and told["cause"].get("client") == "agent"
        screen.check("the editor hears of it, and by whom", heard, took)
        editor.call("context/appendMessage", message=_ANSWER, expectedHead=done["head"])
        screen.check("it appends to exactly that", agent.history() == [_QUESTION, _ANSWER])

    def hear_a_revert(self) -> None:
        screen, agent, editor = self._screen, self.agent, self.editor
        screen.scene("A revert there is seen here, with its cause")
        made = agent.session.call("context/checkpoint", label="before the idea")["checkpoint"]
        seen = agent.call("context/appendMessage", message=_IDEA)["head"]
        since, request_id = len(agent.heard), f"demo-{new_uid(4)}"
        done = editor.call("context/revertTo", checkpointUid=made["uid"], requestId=request_id)
        told = agent.wait_for("reverted", since)
        cause = told.get("cause")
        screen.check(
            "the agent hears what was reverted, by whom, under which request",
            cause == {"requestId": request_id, "client": "editor"} and told["timelineId"] == done["timelineId"],
            json.dumps(cause),
        )
        screen.say("What it had seen is past; it builds on that all the same:")
        try:
            agent.call("context/appendMessage", message=_STILL, expectedHead=seen)
            refusal: Json = {}
        except TimeleapRpcError as error:
            refusal = {"kind": error.kind, "head": error.data.get("head")}
        screen.check("the database itself compares heads", refusal == {"kind": "contentModified", "head": done["head"]})
        screen.check("both see the log without the idea", agent.history() == editor.history() == [_QUESTION, _ANSWER])
        agent.draw()

    def undo_it(self) -> None:
        screen, agent, editor = self._screen, self.agent, self.editor
        screen.scene("Undo, on the other machine")
        since = len(editor.heard)
        done = agent.call("context/undo")
        told = editor.wait_for("undone", since)
        screen.check("the agent undoes the editor's revert, which the editor hears", told.get("head") == done["head"])
        whole = [_QUESTION, _ANSWER, _IDEA]
        screen.check("nothing was ever lost", agent.history() == editor.history() == whole, count(3, "message"))
        heads = {machine.state()["head"] for machine in (agent, editor)}
        screen.check("one order of changes: the heads are equal", heads == {done["head"]}, done["head"])

    def write_at_once(self) -> None:
        screen, agent, editor = self._screen, self.agent, self.editor
        screen.scene("Both write at once")
        before = agent.history()
        screen.say(f"{_EACH} messages from each, as fast as they are answered.")

        def write(machine: _Machine) -> list[Json]:
            sent = [{"role": "user", "content": f"{machine.name} {number}"} for number in range(_EACH)]
            for message in sent:
                machine.session.call("context/appendMessage", message=message)
            return sent

        began = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(write, (agent, editor))
        took = f"{(time.monotonic() - began) * 1000 / (2 * _EACH):.1f} ms for each"
        after = agent.history()
        new = after[len(before) :]
        each = [[message for message in new if message in sent] for sent in (ours, theirs)]
        once = after[: len(before)] == before and len(new) == 2 * _EACH and each == [ours, theirs]
        screen.check("each message is there once, in its sender's order", once, took)
        screen.check("both see the same order", editor.history() == after)

    def lose_the_primary(self) -> None:
        screen, agent, editor = self._screen, self.agent, self.editor
        screen.scene("The primary is killed")
        before = agent.history()
        screen.say(
            "kill -9 for all its processes, as if its machine was gone; the agent appends; the standby is promoted."
        )
        self.primary.signal(signal.SIGKILL)
        killed = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            appended = pool.submit(_insist, agent, f"demo-{new_uid(4)}")
            self.standby.promote()
            head = appended.result()
        took = f"{time.monotonic() - killed:.1f} s after the kill"
        screen.check("the append is answered, under the request id it had from the start", head != "", took)
        screen.listing(_map(self))
        whole = [*before, _STILL]
        screen.check("nothing acknowledged is lost, nothing is there twice", agent.history() == whole)
        screen.check("the editor goes on there, too", editor.history() == whole and editor.state()["head"] == head)

    def come_late(self) -> None:
        screen, agent = self._screen, self.agent
        screen.scene("A third machine, later")
        late = self._machine("late")
        state = late.open(create=False)
        screen.check("it finds everything in the database", late.history() == agent.history(), state["path"])
        timelines = [timeline["timelineId"] for timeline in late.session.timelines()]
        screen.check("the timelines, too", timelines == [each["timelineId"] for each in agent.session.timelines()])
        screen.check("and each byte has its checksum", late.session.call("session/verify")["ok"] is True)
        late.draw()

    def _machine(self, name: str) -> _Machine:
        machine = self.enter_context(_Machine(self._screen, self._homes / name, name, self.store))
        self.machines.append(machine)
        machine.start_server()
        return machine


def _insist(machine: _Machine, request_id: str) -> str:
    """Append under one request id until a database answers; returns the head, empty if none does."""
    deadline = time.monotonic() + _LOST_AFTER
    while time.monotonic() < deadline:
        try:
            return str(machine.session.call("context/appendMessage", message=_STILL, requestId=request_id)["head"])
        except TimeleapRpcError as error:
            if not error.retryable:
                raise
            time.sleep(0.1)
    return ""


def _map(scenes: _Scenes) -> Iterator[str]:
    """The machines, and the servers that run."""
    agent, editor = (f"{machine.name}, process {machine.pid}" for machine in (scenes.agent, scenes.editor))
    wide = max(len(agent), len(editor))
    servers = [
        f"standby 127.0.0.1:{scenes.standby.port}"
        if scenes.primary.running
        else f"primary 127.0.0.1:{scenes.standby.port}"
    ]
    servers.insert(0, f"primary 127.0.0.1:{scenes.primary.port}" if scenes.primary.running else "(killed)")
    yield f"{agent:<{wide}} --+-- {servers[0]}"
    yield f"{editor:<{wide}} --+-- {servers[1]}"
