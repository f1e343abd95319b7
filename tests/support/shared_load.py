"""Several server processes that work on one session at once, and a record of what each was asked and what it answered."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support import figures
from tests.support.linearizable import READS, SUMMARY, Operation, unexplained_session
from tests.support.server import PATIENCE, Message, Pending
from tests.support.session import Session, user

APPENDS = {"append": 1}
CHANGES = {"append": 6, "checkpoint": 2, "revert": 1, "undo": 1}
WITH_READS = {**CHANGES, "read": 6, "count": 4}
ALL = {**WITH_READS, "compact": 1, "send": 2, "deliver": 2, "cancel": 1}
"""Operations and how often they are chosen."""
MAIL = re.compile(r"p\d+-mail\d+")
NOT_THERE = (4002, 4007, 4008, 4018)
"""No such checkpoint, a D-Mail that waits already, none that waits, nothing to undo."""


class Load:
    """Processes at work on one session.

    Attributes:
        history: All operations that were answered.
        refused: Errors that were answered by a request that was then repeated.
        problems: What should not have happened.
    """

    def __init__(self, sessions: Sequence[Session], seed: int, mix: dict[str, int] = APPENDS) -> None:
        self.history: list[Operation] = []
        self.refused: list[Message] = []
        self.problems: list[str] = []
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._workers = [_Worker(self, session, f"p{at}", seed, mix) for at, session in enumerate(sessions)]
        self._threads = [threading.Thread(target=worker.run, daemon=True) for worker in self._workers]
        for thread in self._threads:
            thread.start()

    def wait_for_more(self, count: int) -> None:
        """Wait until each process has made `count` more changes."""
        wanted = [(worker, worker.changed + count) for worker in self._workers if not worker.killed]
        with self._changed:
            done = self._changed.wait_for(
                lambda: self.problems or all(worker.changed >= number for worker, number in wanted), PATIENCE
            )
        assert not self.problems, self.problems
        assert done, ([(worker.changed, number) for worker, number in wanted], self.refused[-3:])

    def kill(self, at: int) -> None:
        """Kill a process; what it is doing may be done or not."""
        self._workers[at].killed = True
        self._workers[at].session.server.kill()

    def stop(self) -> None:
        """Let each end its operation, and see that nothing went wrong."""
        self._ended.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert not self.problems, self.problems

    @property
    def running(self) -> bool:
        """False once it is being stopped."""
        return not self._ended.is_set()

    def note(self, operation: Operation) -> None:
        """Record an operation that has ended."""
        with self._changed:
            self.history.append(operation)
            self._changed.notify_all()

    def complain(self, problem: str) -> None:
        """Record what should not have happened."""
        with self._changed:
            self.problems.append(problem)
            self._changed.notify_all()

    def appended(self) -> list[str]:
        """The texts whose appending was acknowledged."""
        return [each.argument for each in self.history if each.name == "append"]

    def writing_again(self, moment: float) -> float:
        """Seconds from a moment until each process has made a change."""
        returned: dict[str, float] = {}
        for each in self.history:
            if each.name not in READS and each.returned > moment:
                returned[each.process] = min(each.returned - moment, returned.get(each.process, each.returned))
        return max(returned[worker.name] for worker in self._workers)

    def lines(self) -> list[str]:
        """What was done, in the order in which it was asked for, to be read."""
        return [
            f"{each.called:.3f} {each.returned:.3f} {each.process} {each.name} {each.argument}: {each.result} {each.version}"
            for each in sorted(self.history, key=lambda each: each.called)
        ]

    def unexplained(self) -> str:
        """Why no single session can have answered like that; empty if one can."""
        figures.count(linearizability_runs=1, linearizability_requests=len(self.history))
        return unexplained_session(self.history)


@dataclass
class _Worker:
    load: Load
    session: Session
    name: str
    seed: int
    mix: dict[str, int]
    changed: int = field(default=0, init=False)
    killed: bool = field(default=False, init=False)

    def run(self) -> None:
        rng = random.Random(f"{self.seed} {self.name}")
        names, weights = list(self.mix), list(self.mix.values())
        number = 0
        try:
            while self.load.running:
                number += 1
                (name,) = rng.choices(names, weights)
                unique, earlier = f"{self.name}-{number}", rng.randrange(4)
                argument = {
                    "append": unique,
                    "checkpoint": unique,
                    "compact": unique,
                    "deliver": unique,
                    "revert": earlier,
                    "send": (earlier, f"{self.name}-mail{number}"),
                }.get(name)
                called = time.monotonic()
                try:
                    result, version = self._ask(name, argument, f"{self.name}-r{number}")
                except (AssertionError, OSError):
                    if not self.killed:
                        raise
                    self.load.note(Operation(self.name, name, argument, called))
                    return
                self.changed += name not in READS
                self.load.note(Operation(self.name, name, argument, called, time.monotonic(), result, version))
        except BaseException as error:
            self.load.complain(f"{self.name}: {error!r}")

    def _ask(self, name: str, argument: object, request_id: str) -> tuple[object, tuple[int, ...] | None]:
        """The result of an operation, repeated under the same request id until it is done, and the head after it."""
        began = time.monotonic()
        while True:
            reply = self._send(name, argument, request_id).reply()
            if "result" in reply:
                result = reply["result"]
                told = _told(name, result)
                return told, None if name == "compact" and told is True else _version(result)
            error = reply["error"]
            if error["code"] in NOT_THERE:
                return False, None
            self.load.refused.append(error)
            assert error["code"] in (4005, 4012, -32801), error
            assert error["data"]["retryable"] is True, error
            assert time.monotonic() - began < PATIENCE, error
            time.sleep(0.02)

    def _send(self, name: str, argument: object, request_id: str) -> Pending:
        start = self.session.start
        match name:
            case "append":
                return start("context/appendMessage", message=user(str(argument)), requestId=request_id)
            case "checkpoint":
                return start("context/checkpoint", requestId=request_id)
            case "revert":
                return start("context/revertTo", checkpointId=argument, requestId=request_id)
            case "undo":
                return start("context/undo", requestId=request_id)
            case "compact":
                return start("context/compact", summary=SUMMARY, maxPreservedMessages=1, requestId=request_id)
            case "send":
                assert isinstance(argument, tuple)
                number, text = argument
                return start("context/sendDMail", message=text, checkpointId=number, requestId=request_id)
            case "deliver":
                return start("context/deliverDMail", requestId=request_id)
            case "cancel":
                return start("context/cancelDMail", requestId=request_id)
            case "count":
                return start("session/getState")
            case _:
                return start("context/getHistory", limit=1000)


def _version(result: Message) -> tuple[int, ...] | None:
    """A head as numbers, of which a later one's are greater; pages of history have none."""
    if "head" not in result:
        return None
    epoch, rewrites, length = result["head"].partition("-")[0].split(".")
    return int(epoch, 36), int(rewrites), int(length)


def _told(name: str, result: Message) -> object:
    """What a result says, in the words of `session_answer`."""
    match name:
        case "append":
            return result["firstIndex"]
        case "checkpoint":
            return result["checkpoint"]["id"]
        case "read":
            assert "nextCursor" not in result
            return tuple(_text(entry["message"]["content"]) for entry in result["messages"])
        case "send" | "cancel":
            return True
        case "compact":
            return result["preservedMessages"] if result["compacted"] else True
        case _:
            return result["context"]["messageCount"]


def _text(content: object) -> str:
    """What the model has of a message: of a D-Mail its text, without what is said around it."""
    if not isinstance(content, str):
        return SUMMARY
    mail = MAIL.search(content)
    return content if mail is None else mail[0]
