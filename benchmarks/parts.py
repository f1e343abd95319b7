"""Where the time of an operation goes: the profile of a row, of parts that are measured in its own run.

A part is a case of its own, or the difference between two processes of which one does more than the other. What is left
between the least process with the guarantees and ours is shared out by the instructions of Python's that each room takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from benchmarks.least import Request
from benchmarks.measure import Measured

try:
    from deflate import crc32 as crc32  # pyright: ignore[reportMissingImports]
except ImportError:
    from zlib import crc32 as crc32

EDGE: Final = (
    "event loop, frames of both kinds and of any size, params that fit, order of requests, ids in flight, cancellation"
)
WHY: Final = {
    "rpc": "frames of both kinds and of any size, order of requests, ids in flight, cancellation, clients that do not read",
    "service": "which session of which connection, who may write, who hears of it, a session that another process owns",
    "sessions": "request ids, the expected head, the form of the result and of what listeners are told",
    "storage": "the queue of changes, group commit, failpoints and cutting back what failed, the state of the log, its index",
    "timeleap_protocol": "params that fit, and frames",
}
"""What the steps of a room are for, beyond those of the least process with the guarantees."""


@dataclass(frozen=True)
class Part:
    """One part of what an operation takes.

    Attributes:
        name: What it is.
        seconds: Of one operation.
        why: What it pays for.
    """

    name: str
    seconds: float
    why: str = ""


class AppendSteps:
    """The steps of appends that are the same in any server, alone and in this process.

    Args:
        folder: Where files may be.
        bodies: The bodies of the requests.
    """

    def __init__(self, folder: Path, bodies: Sequence[bytes]) -> None:
        self._decode = msgspec.json.Decoder(Request).decode
        self._encode = msgspec.json.Encoder().encode
        self._bodies = bodies
        self._messages: list[Any] = [self._decode(body).params.message for body in bodies]
        self._lines = [self._encode(message) + b"\n" for message in self._messages]
        self._log = folder / "steps.jsonl"
        self._file = os.open(self._log, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._index = os.open(folder / "steps.idx", os.O_RDWR | os.O_CREAT)

    def cases(self) -> dict[str, Callable[[], None]]:
        """For `interleaved`: each step for all messages."""
        return {
            "decode the request": lambda: self._all(self._decode, self._bodies),
            "encode the message": lambda: self._all(self._encode, self._messages),
            "write the line": lambda: self._all(self._write, self._lines),
            "look whether the log is as it was left": lambda: self._all(self._look, self._lines),
            "checksum": lambda: self._all(crc32, self._lines),
            "index entry": lambda: self._all(self._enter, self._lines),
        }

    def close(self) -> None:
        """Let go of the files."""
        os.close(self._file)
        os.close(self._index)

    @staticmethod
    def _all(step: Callable[[Any], object], values: Sequence[Any]) -> None:
        for value in values:
            step(value)

    def _write(self, line: bytes) -> None:
        os.write(self._file, line)

    def _look(self, _: bytes) -> None:
        os.lstat(self._log)

    def _enter(self, _: bytes) -> None:
        os.pwrite(self._index, bytes(80), 64)


GUARANTEES: Final = (
    "request ids, expected head, state and entry of the log, head and counts in the reply, a notification"
)
STEPS: Final = {
    "decode the request": "the client's JSON, a half of it escapes in its texts",
    "encode the message": "a line of the log is compact JSON in UTF-8, whatever the client sent",
    "write the line": "what was acknowledged is in the file",
    "look whether the log is as it was left": "a program that takes no lock is noticed before anything is written",
    "checksum": "each line is compared with it when it is read",
    "index entry": "opening and history do not read the log",
}


def of_append(
    measured: Mapping[str, Measured],
    cases: tuple[str, str, str],
    edge: float,
    per: int,
    rooms: Mapping[str, tuple[float, float]],
    *,
    together: bool = False,
) -> list[Part]:
    """The parts of an append.

    Args:
        measured: The run, with the cases of `AppendSteps`.
        cases: The names of those of ours, of the least process, and of the least with the guarantees.
        edge: Seconds that the protocol edge takes, of an append.
        per: How many appends a case does.
        rooms: Calls and instructions by room (`instructions.counted`).
        together: Those in flight together share write, look and index entry.
    """
    ours, least, guarded = (measured[name].median / per for name in cases)
    step = {name: measured[name].median / per for name in STEPS}
    alone = ("decode the request", "encode the message")
    shared = ("write the line",)
    known = sum(step[name] for name in (alone if together else alone + shared))
    way = "pipe, poll, switches, client" + (", and what those in flight share of write and sync" if together else "")
    found = [Part(way, max(0.0, least - known), "the way of a request and its reply; the least process has it, too")]
    found += [Part(name, step[name], STEPS[name]) for name in (alone if together else alone + shared)]
    checks = ("checksum",) if together else ("look whether the log is as it was left", "checksum", "index entry")
    found += [Part(name, step[name], STEPS[name]) for name in checks]
    rest = max(0.0, guarded - least - sum(step[name] for name in checks))
    found.append(Part("the guarantees in one straight function", rest, GUARANTEES))
    return [*found, *_beyond_guarded(ours, guarded, edge, rooms)]


def beyond_least(
    measured: Mapping[str, Measured],
    cases: tuple[str, str, str],
    edge: float,
    per: int,
    rooms: Mapping[str, tuple[float, float]],
) -> list[Part]:
    """The parts of an append where its steps are not measured; as `of_append`."""
    ours, least, guarded = (measured[name].median / per for name in cases)
    return [
        Part("what the least process takes", least, "frame, decoding, write, reply, the pipe and the client"),
        Part("the guarantees in one straight function", max(0.0, guarded - least), GUARANTEES),
        *_beyond_guarded(ours, guarded, edge, rooms),
    ]


def _beyond_guarded(ours: float, guarded: float, edge: float, rooms: Mapping[str, tuple[float, float]]) -> list[Part]:
    behind = {room: count for room, count in rooms.items() if room not in ("rpc", "timeleap_protocol")}
    return [Part("the protocol edge", max(0.0, edge), EDGE), *_by_room(ours - guarded - max(0.0, edge), behind)]


def of_stored(
    measured: Mapping[str, Measured], cases: tuple[str, str, str], per: int, rooms: Mapping[str, tuple[float, float]]
) -> list[Part]:
    """The parts of an append to a store in a database.

    Args:
        measured: The run.
        cases: The names of those of ours, of the least process, and of the statement alone with as many appends in each.
        per: How many appends a case does.
        rooms: Calls and instructions by room (`instructions.counted`).
    """
    ours, least, statement = (measured[name].median / per for name in cases)
    return [
        Part(
            "the statement in the database", statement, "rows, the notification, the commit, and the way there and back"
        ),
        Part("what the least process takes else", max(0.0, least - statement), "frame, decoding, the pipe, the client"),
        *_by_room(ours - least, rooms),
    ]


def _by_room(seconds: float, rooms: Mapping[str, tuple[float, float]]) -> list[Part]:
    steps = sum(count for _, count in rooms.values())
    return [
        Part(
            f"`{room}`: {calls:.0f} calls, {count:.0f} instructions",
            max(0.0, seconds) * count / steps,
            WHY.get(room, ""),
        )
        for room, (calls, count) in sorted(rooms.items(), key=lambda item: -item[1][1])
    ]
