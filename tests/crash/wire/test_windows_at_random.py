"""Five windows do what they like while owners die and leave: the session is what some order of their requests makes of it.

The requests come in bursts, all at once from different windows. After each burst there must be an order of its requests,
compatible with every reply and with what was told, after which a model of a session equals the session. What was asked of
a killed process, and not answered, may have happened or not, but entirely and once.
"""

from __future__ import annotations

import itertools
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.framing import FRAMINGS
from tests.support.scene import Scene, changes, marks, scene_at, settle, until
from tests.support.server import Message, Pending
from tests.support.session import Session, user
from tests.support.torture import share

pytestmark = [
    pytest.mark.crash,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="kill -9"),
]

WINDOWS = 5
BURSTS = 30
LONG = "x" * 400
"""Longer than a summary, so that a compaction makes the context shorter."""
ALWAYS_TOLD = {"context/appendMessage", "context/checkpoint", "context/revertTo"}


@dataclass(frozen=True)
class Model:
    """What the session is. Entries of the log are `("message", text)` and `("checkpoint", label)`."""

    entries: tuple[tuple[str, str], ...] = ()
    title: str | None = None
    yolo: bool = False
    changed: bool = False
    """Whether the log has changed in this burst: then a head from before it is stale."""

    @property
    def messages(self) -> list[str]:
        return [text for kind, text in self.entries if kind == "message"]

    @property
    def checkpoints(self) -> list[str]:
        return [label for kind, label in self.entries if kind == "checkpoint"]

    def to(self, entries: Iterator[tuple[str, str]] | tuple[tuple[str, str], ...]) -> Model:
        """With another log."""
        return replace(self, entries=tuple(entries), changed=True)


@dataclass
class Asked:
    """One request, and what became of it."""

    window: Session
    method: str
    params: dict[str, Any]
    reply: Message | None = None
    """None: it was asked of a process that was killed."""
    pending: Pending | None = field(default=None, repr=False)

    @property
    def request_id(self) -> str:
        return str(self.params["requestId"])

    @property
    def result(self) -> Message | None:
        return self.reply.get("result") if self.reply else None

    @property
    def code(self) -> int:
        return int(self.reply["error"]["code"]) if self.reply and "error" in self.reply else 0

    def outcomes(self, model: Model) -> list[Model]:
        """What `model` may be after it; nothing where the reply is impossible then."""
        if self.reply is None:
            return [model, *self._effects(model)]
        stale = "expectedHead" in self.params and model.changed
        if self.code == -32801:
            return [model] if stale or self.method == "context/compact" else []
        return [] if stale else self._effects(model)

    def _effects(self, model: Model) -> list[Model]:
        return list(getattr(self, "_" + self.method.partition("/")[2])(model))

    def _appendMessage(self, model: Model) -> Iterator[Model]:
        texts = [message["content"] for message in self.params["messages"]]
        if self.result is None or self.result["firstIndex"] == len(model.messages):
            yield model.to((*model.entries, *(("message", text) for text in texts)))

    def _checkpoint(self, model: Model) -> Iterator[Model]:
        if self.result is None or self.result["checkpoint"]["id"] == len(model.checkpoints):
            yield model.to((*model.entries, ("checkpoint", self.params["label"])))

    def _revertTo(self, model: Model) -> Iterator[Model]:
        wanted = self.params["checkpointId"]
        if wanted >= len(model.checkpoints):
            yield from [model] if self.code == 4002 or self.reply is None else []
            return
        places = [place for place, (kind, _) in enumerate(model.entries) if kind == "checkpoint"]
        after = model.to(model.entries[: places[wanted]])
        removed = len(model.messages) - len(after.messages)
        if self.reply is None or (self.result is not None and self.result["removed"]["messages"] == removed):
            yield after

    def _setTitle(self, model: Model) -> Iterator[Model]:
        yield replace(model, title=self.params["title"])

    def _setYolo(self, model: Model) -> Iterator[Model]:
        yield replace(model, yolo=self.params["yolo"])

    def _compact(self, model: Model) -> Iterator[Model]:
        """Which messages it removes was settled when the request was read: those that came since are kept."""
        result, messages = self.result, model.messages
        if result is not None and not result["compacted"]:
            yield model
            return
        removed = range(1, len(messages)) if result is None else [result["removedMessages"]]
        for count in removed:
            kept = messages[count:]
            if result is None or len(kept) == result["preservedMessages"]:
                summary = "summary: " + self.params["summary"]
                yield model.to(
                    (("checkpoint", "compacted"), ("message", summary), *(("message", text) for text in kept))
                )


def observed(window: Session) -> Model:
    """The model of what the wire tells."""
    state, page = window.get_state(), window.call("context/listCheckpoints", order="asc", limit=1000)
    messages = [text_of(message) for message in window.history()]
    entries: list[tuple[str, str]] = []
    checkpoints = list(page["checkpoints"])
    assert [checkpoint["id"] for checkpoint in checkpoints] == list(range(len(checkpoints)))
    for index, text in enumerate([*messages, None]):
        while checkpoints and checkpoints[0]["messageCount"] == index:
            entries.append(("checkpoint", checkpoints.pop(0)["label"]))
        if text is not None:
            entries.append(("message", text))
    return Model(tuple(entries), state["title"], state["approval"]["yolo"])


def text_of(message: Message) -> str:
    """A message of ours is a string, a summary a list of parts."""
    content = message["content"]
    return content if isinstance(content, str) else "summary: " + content[-1]["text"]


def lasting(result: Message) -> Message:
    """What a repeat has in common with the first answer: not the head, nor what has been appended to since."""
    kept = {name: value for name, value in result.items() if name not in {"head", "duplicate"}}
    if "checkpoint" in kept:
        kept["checkpoint"] = {name: value for name, value in kept["checkpoint"].items() if name != "preview"}
    if "context" in kept:  # what happened after a checkpoint is read from the log, for a repeat as well
        listed = [{**checkpoint, "summary": None, "name": None} for checkpoint in kept["context"]["checkpoints"]]
        kept["context"] = {**kept["context"], "checkpoints": listed}
    return kept


def explanations(model: Model, asked: list[Asked], told: list[str]) -> Iterator[Model]:
    """The models after every order of the requests that the replies, and the order of what was told, allow."""
    if not asked:
        if not told:
            yield model
        return
    for request in asked:
        behind = told
        if request.request_id in told:
            if told[0] != request.request_id:
                continue
            behind = [one for one in told if one != request.request_id]
        rest = [each for each in asked if each is not request]
        for after in request.outcomes(model):
            yield from explanations(after, rest, behind)


@dataclass
class Tale:
    """What a window was told while one owner went and the next one came.

    Attributes:
        first: What it was told before it knew of the next owner.
        access: What told it of that.
        rest: What it was told then.
        asked: The ids of its own requests.
    """

    first: list[Message]
    access: Message
    rest: list[Message]
    asked: set[str]

    @property
    def is_owner(self) -> bool:
        return bool(self.access["access"] == "owner")

    @property
    def was_told_to_read_anew(self) -> bool:
        return any(change["kind"] == "external" for change in self.first)

    @property
    def own(self) -> list[Message]:
        """Changes of its own at the end of what the old owner did: it may have been told of them again."""
        many = asked_for(self.first)
        first = next(
            (i for i in range(len(many)) if all(one["cause"]["requestId"] in self.asked for one in many[i:])), len(many)
        )
        return many[first:]

    @property
    def heard(self) -> list[Message]:
        """What it heard of the old owner before those."""
        many = asked_for(self.first)
        return many[: len(many) - len(self.own)]

    @property
    def after(self) -> list[Message]:
        """What it heard of the next owner."""
        return asked_for(self.rest)


def asked_for(told: list[Message]) -> list[Message]:
    """The changes that somebody asked for."""
    return [change for change in told if change["cause"] != {}]


def is_of_the_log(change: Message) -> bool:
    return change["kind"] not in ("titleChanged", "approvalChanged")


def check_tales(told: list[list[Message]], asked: list[set[str]]) -> None:
    """Of one owner all heard the same, as far as each came; who came to the next one later may have missed its first
    words. Who is told again of a change of its own, whose answer got lost, may have missed what came before it."""
    tales: list[Tale] = []
    for tale, ids in zip(told, asked, strict=True):
        at = [i for i, change in enumerate(tale) if change["kind"] == "accessChanged"]
        assert len(at) == 1, tale
        tales.append(Tale(tale[: at[0]], tale[at[0]], tale[at[0] + 1 :], ids))
    longest = max((one.heard for one in tales), key=len)
    heirs = [one.after for one in tales if one.is_owner]
    assert len(heirs) == 1, [one.access for one in tales]
    every = [change for tale in tales for change in (*tale.heard, *tale.own)]
    for one in tales:
        assert one.heard == longest[: len(one.heard)], "two windows heard different things of the old owner"
        for own in one.own:
            same = [change for change in every if (change["cause"], change["kind"]) == (own["cause"], own["kind"])]
            assert all(change == own for change in same), "a change was told again in other words"
        missed = [change for change in longest[len(one.heard) :] if change not in one.own]
        assert one.was_told_to_read_anew or not any(map(is_of_the_log, missed)), "a window missed a change"
        assert one.after == heirs[0][len(heirs[0]) - len(one.after) :], (
            "two windows heard different things of the new owner"
        )


class Story:
    """One run: the windows, the model, and the dice."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.dice = random.Random(seed)
        self.numbers = itertools.count()
        self.model = Model()
        self.done: list[Asked] = []
        self.windows = [scene.window(), *scene.crowd(WINDOWS - 1)]
        self.owner = self.windows[0]

    def request(self, window: Session) -> Asked:
        """Some request."""
        number = next(self.numbers)
        requests: list[tuple[str, dict[str, Any]]] = [
            ("context/appendMessage", {"messages": [user(f"{number} {LONG}")]}),
            ("context/appendMessage", {"messages": [user(f"{number} {part} {LONG}") for part in range(3)]}),
            ("context/appendMessage", {"messages": [user(f"{number} {LONG}")], "expectedHead": self.head}),
            ("context/checkpoint", {"label": str(number)}),
            ("context/checkpoint", {"label": str(number)}),
            ("context/revertTo", {"checkpointId": self.dice.randrange(len(self.model.checkpoints) + 2)}),
            ("session/setTitle", {"title": str(number)}),
            ("session/setYolo", {"yolo": self.dice.random() < 0.5}),
            ("context/compact", {"summary": str(number)}),
        ]
        method, params = self.dice.choice(requests)
        return Asked(window, method, {**params, "requestId": f"r{number}"})

    def burst(self, ending: str | None) -> None:
        """Some requests at once, while the owner may go; then nothing is left open."""
        self.head = self.owner.head
        self.model = replace(self.model, changed=False)
        before = marks(self.windows)
        asked = [self.request(window) for window in self.dice.sample(self.windows, self.dice.randint(1, 4))]
        for request in asked:
            request.pending = request.window.start(request.method, **request.params)
        if ending is not None:
            time.sleep(self.dice.random() * self.dice.choice((0.001, 0.01, 0.04)))
            self.end(ending)
        elif self.dice.random() < 0.3:
            self.stop_for_a_moment()
        for request in asked:
            self.take_reply(request, ending)
        left = [window for window in self.windows if window is not self.owner] if ending else self.windows
        if ending is not None:
            until(lambda: any(w.get_state()["access"] == "owner" for w in left), saying="somebody owns it")
        settle(left)
        told = [changes(window, before[id(window)]) for window in left]
        if ending is None:
            assert all(each == told[0] for each in told), "two windows were told different stories"
        else:
            check_tales(told, [{each.request_id for each in asked if each.window is window} for window in left])
        self.explain(asked, told, left, ending)
        self.done += [a for a in asked if a.result is not None and a.result.get("compacted", True)]
        if ending is not None:
            self.replace_owner(left, ending)

    def stop_for_a_moment(self) -> None:
        """Stop a process in the middle of its requests, too briefly for anybody to give it up."""
        server = self.dice.choice(self.windows).server
        server.signal(signal.SIGSTOP)
        time.sleep(self.dice.random() * 0.2)
        server.signal(signal.SIGCONT)

    def end(self, ending: str) -> None:
        """Let the owner go."""
        if ending == "kill":
            self.owner.server.kill()
        elif ending == "close":
            self.owner.call("session/close")
        elif ending == "terminate":
            self.owner.server.signal(signal.SIGTERM)
        else:
            self.owner.server.close_stdin()

    def take_reply(self, request: Asked, ending: str | None) -> None:
        assert request.pending is not None
        if ending == "kill" and request.window is self.owner:
            answered = [m for m in self.owner.server.received if m.get("id") == request.pending.id]
            request.reply = answered[0] if answered else None
        else:
            request.reply = request.pending.reply()
        while request.code == 4003:
            # A machine so busy that an owner is silent for seconds: the client may ask again, under the same id.
            assert request.reply is not None and request.reply["error"]["data"]["retryable"] is True, request
            request.pending = request.window.start(request.method, **request.params)
            request.reply = request.pending.reply()
        assert request.code in (0, -32801, 4002), request

    def explain(self, asked: list[Asked], told: list[list[Message]], left: list[Session], ending: str | None) -> None:
        """Find an order of the requests that makes the model what every window sees."""
        seen = [observed(window) for window in left]
        assert all(each == seen[0] for each in seen), "two windows see different sessions"
        heard = [c["cause"]["requestId"] for c in told[0] if "requestId" in c["cause"]] if ending is None else []
        order = list(dict.fromkeys(heard))
        if ending is None:
            changed = {a.request_id for a in asked if a.result is not None and a.method in ALWAYS_TOLD}
            assert changed <= set(order), "a change was told to nobody"
        possible = {replace(model, changed=False) for model in explanations(self.model, asked, order)}
        assert seen[0] in possible, f"no order of {asked} makes {self.model} into {seen[0]}"
        self.model = seen[0]
        log = [text_of(record) for record in left[0].lines() if not record["role"].startswith("_")]
        assert log == self.model.messages

    def replace_owner(self, left: list[Session], ending: str) -> None:
        if ending == "close":
            back = left[0].reopen(self.owner.server)
        else:
            assert self.owner.server.wait() == (-signal.SIGKILL if ending == "kill" else 0)
            back = self.scene.enter(self.scene.servers(1, self.dice.choice(FRAMINGS))[0])
        assert back.state["access"] == "attached"
        self.windows = [*left, back]
        self.owner = next(window for window in left if window.get_state()["access"] == "owner")

    def repeat(self) -> None:
        """Ask again what was answered long ago, in whichever window."""
        before = marks(self.windows)
        for request in self.dice.sample(self.done, min(4, len(self.done))):
            again = self.dice.choice(self.windows).call(request.method, **request.params)
            assert again["duplicate"] is True and request.result is not None
            assert lasting(again) == lasting(request.result)
        settle(self.windows)
        assert all(changes(window, before) == [] for window in self.windows)
        assert observed(self.dice.choice(self.windows)) == self.model


def run(home: Path, seed: int, bursts: int) -> None:
    """One story."""
    with scene_at(home) as scene:
        story = Story(scene, seed)
        story.model = replace(story.model, title=story.windows[0].get_state()["title"])
        for number in range(bursts):
            ending = (
                story.dice.choice(("kill", "kill", "close", "terminate", "end of input")) if number % 4 == 3 else None
            )
            story.burst(ending)
            if number % 5 == 4:
                story.repeat()


def test_whose_answer_got_lost_may_hear_of_its_own_change_behind_what_it_missed() -> None:
    def change(kind: str, head: str, request_id: str | None = None, **more: str) -> Message:
        return {"kind": kind, "head": head, "cause": {} if request_id is None else {"requestId": request_id}, **more}

    first, second, third = (change("checkpointCreated", f"h{number}", f"r{number}") for number in (1, 2, 3))
    title = change("titleChanged", "h1", "r4")
    anew, owner, attached = (
        change("external", "h3"),
        change("accessChanged", "h3", access="owner"),
        change("accessChanged", "h3", access="attached"),
    )
    whole = [first, title, second, owner, third]
    check_tales([whole, [second, anew, attached, third], [first, anew, attached]], [{"r1"}, {"r2"}, set()])
    check_tales([[first, anew, owner], [second, anew, attached]], [{"r1"}, {"r2"}])
    check_tales([[first, title, owner], [first, attached]], [{"r1"}, set()])
    wrong = [
        ([second, anew, attached], set[str]()),
        ([first, attached], set[str]()),
        ([second, attached], {"r2"}),
        ([change("checkpointCreated", "other", "r2"), anew, attached], {"r2"}),
    ]
    # Of two titles that one window missed there is nothing to read again: it was told of the last one, its own.
    check_tales(
        [[title, change("titleChanged", "h1", "r5"), owner], [change("titleChanged", "h1", "r5"), attached]],
        [set(), {"r5"}],
    )
    for tale, asked in wrong:
        with pytest.raises(AssertionError):
            check_tales([whole, tale], [{"r1"}, asked])


@pytest.mark.parametrize("seed", range(4))
def test_the_session_is_what_some_order_of_the_requests_makes_of_it(tmp_path: Path, seed: int) -> None:
    run(tmp_path / "home", seed, BURSTS)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_the_same_for_long(tmp_path: Path) -> None:
    for seed in range(100, 100 + share(60)):
        run(tmp_path / f"home-{seed}", seed, 60)
