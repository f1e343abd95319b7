"""Random histories with folds, replaced messages and merges agree with a model written from the contract."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.server import Launch, Message, Server
from tests.support.session import Session, user
from tests.support.torture import share

PREFACE = "<system>Previous context has been compacted. Here is the compaction output:</system>"
STEPS = 30
Record = tuple[str, Any]
"""A message, a checkpoint (id, uid) or a token count."""
State = tuple[Record, ...]


def texts(message: Message) -> list[str]:
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def messages(state: State) -> list[Message]:
    return [value for kind, value in state if kind == "message"]


def places(state: State) -> list[int]:
    """Where in a state its messages stand."""
    return [at for at, (kind, _) in enumerate(state) if kind == "message"]


def tokens(state: State) -> int:
    return next((value for kind, value in reversed(state) if kind == "usage"), 0)


def folded(state: State, start: int, stop: int, summary: str | None) -> State:
    where = places(state)
    made: State = ()
    if summary is not None:
        parts = [{"type": "text", "text": text} for text in (PREFACE, summary)]
        made = (("message", {"role": "user", "content": parts}),)
    after = (*state[: where[start]], *made, *state[where[stop - 1] + 1 :])
    characters = sum(len(text) for message in messages(after) for text in texts(message))
    return (*after, ("usage", characters // 4))


class History:
    """A session and the model of it, changed together."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.random = server, random.Random(seed)
        self.session = Session.open(server)
        self.state: State = ()
        self.undo: list[State] = []
        self.redo: list[State] = []
        self.number = 0

    def text(self) -> str:
        self.number += 1
        return f"message {self.number} " + "x" * self.random.randrange(200, 300)

    def appended(self, *records: Record) -> None:
        self.state, self.redo = (*self.state, *records), []

    def rewritten(self, state: State) -> None:
        if state != self.state:
            self.undo.append(self.state)
            self.state, self.redo = state, []

    def step(self) -> None:
        steps = [self.append, self.append, self.checkpoint, self.count, self.merge, self.reopen, self.go]
        if messages(self.state):
            steps += [self.fold, self.fold, self.drop, self.replace, self.revert]
        self.random.choice(steps)()
        self.compare()

    def append(self) -> None:
        many = [user(self.text()) for _ in range(self.random.randrange(1, 4))]
        self.session.append(*many)
        self.appended(*(("message", message) for message in many))

    def checkpoint(self) -> None:
        made = self.session.checkpoint()
        self.appended(("checkpoint", (made["id"], made["uid"])))

    def count(self) -> None:
        number = self.random.randrange(1000)
        self.session.call("context/updateTokenCount", tokenCount=number)
        self.appended(("usage", number))

    def range(self) -> tuple[int, int]:
        count = len(messages(self.state))
        start = self.random.randrange(count)
        return start, self.random.randrange(start + 1, count + 1)

    def fold(self) -> None:
        start, stop = self.range()
        place = {"from": {"messageIndex": start}, "to": {"messageIndex": stop}}
        done = self.session.call("context/fold", **place, summary="In short.")
        assert done["compacted"] is True and done["folded"]["messages"] == stop - start
        self.rewritten(folded(self.state, start, stop, "In short."))

    def drop(self) -> None:
        start, stop = self.range()
        place = {"from": {"messageIndex": start}, "to": {"messageIndex": stop}}
        self.session.call("context/fold", **place, drop=True)
        self.rewritten(folded(self.state, start, stop, None))

    def replace(self) -> None:
        index, message = self.range()[0], user(self.text())
        done = self.session.call("context/replaceMessage", messageIndex=index, message=message)
        assert done["firstIndex"] == index
        self.rewritten((*self.state[: places(self.state)[index]], ("message", message)))

    def revert(self) -> None:
        index = self.range()[0]
        self.session.call("context/revertTo", messageIndex=index)
        self.rewritten(self.state[: places(self.state)[index]])

    def merge(self) -> None:
        other = Session.open(self.server)
        other.append(user(self.text()))
        done = self.session.call("session/merge", **{"from": other.id}, summary="Found.")
        made, message = done["checkpoint"], self.session.history()[-1]
        assert done["firstIndex"] == len(messages(self.state)) and texts(message)[-1] == "Found."
        self.appended(("checkpoint", (made["id"], made["uid"])), ("message", message))

    def reopen(self) -> None:
        self.session.call("session/close")
        self.session = self.session.reopen(self.server)

    def go(self) -> None:
        """Undo or redo a step, where there is one."""
        for method, source, target in (("undo", self.undo, self.redo), ("redo", self.redo, self.undo)):
            if source and self.random.random() < 0.5:
                self.session.call(f"context/{method}")
                there = source.pop()
                if there != self.state:
                    target.append(self.state)
                self.state = there
                return

    def compare(self) -> None:
        assert self.session.history() == messages(self.state)
        found = self.session.call("context/listCheckpoints", order="asc", limit=1000)["checkpoints"]
        expected = []
        for at, (kind, value) in enumerate(self.state):
            if kind == "checkpoint":
                before = self.state[:at]
                expected.append((*value, len(messages(before)), tokens(before)))
        shown = [(entry["id"], entry["uid"], entry["messageCount"], entry["tokenCount"]) for entry in found]
        assert shown == expected
        context = self.session.get_state()["context"]
        assert context["tokenCount"] == tokens(self.state)
        assert (context["canUndo"], context["canRedo"]) == (len(self.undo), len(self.redo))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(Launch(tmp_path_factory.mktemp("branches") / "home", "lsp"))
    running.initialize()
    yield running
    running.dispose()


def live(server: Server, seed: int) -> None:
    history = History(server, seed)
    for _ in range(STEPS):
        history.step()
    assert history.session.call("session/verify")["ok"] is True
    history.session.call("session/close")


@pytest.mark.parametrize("seed", range(3))
def test_a_history_agrees_with_the_model(server: Server, seed: int) -> None:
    live(server, seed)


@pytest.mark.torture
def test_two_thousand_histories_agree_with_the_model(server: Server, tmp_path: Path) -> None:
    for seed in range(share(2000)):
        live(server, seed)
