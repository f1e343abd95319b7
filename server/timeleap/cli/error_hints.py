"""Errors in words, with what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from timeleap.cli.formatting import ago, one_line
from timeleap_client.errors import TimeleapRpcError

Data = Mapping[str, Any]
_UNNAMED = "SESSION"


def explain(error: TimeleapRpcError, session: str | None) -> list[str]:
    """Lines that say what was wrong, and then what to do.

    Args:
        error: The server's answer.
        session: The session as the user named it; None where the command names none.
    """
    name = session or _UNNAMED
    dynamic = _ADVICE_BY_DATA.get(error.kind)
    advice = (
        dynamic(error.data, name)
        if dynamic
        else [line.replace("SESSION", name) for line in _ADVICE.get(error.kind, ())]
    )
    return [error.message, *_details(error), *advice]


def _details(error: TimeleapRpcError) -> Iterator[str]:
    errors = error.data.get("errors")
    for problem in errors if isinstance(errors, list) else []:
        if isinstance(problem, Mapping) and str(problem.get("msg", "")) not in error.message:
            place = ".".join(str(step) for step in problem.get("loc", [])) or "params"
            yield f"  {place}: {problem.get('msg', '')}"


_READING = "Reading still works: timeleap log SESSION, timeleap show SESSION, timeleap tail -f SESSION."
_TIMELINES = "timeleap log SESSION shows the timelines"

_ADVICE: dict[str, Sequence[str]] = {
    "protocolVersion": (
        "Both programs have to be of the same release: timeleap --version shows this one. Or end the other one.",
        _READING,
    ),
    "checkpointNotFound": ("timeleap log SESSION shows the checkpoints; give an id or a uid.",),
    "nothingToUndo": (f"{_TIMELINES}; timeleap restore SESSION TIMELINE takes any of them.",),
    "nothingToRedo": (f"{_TIMELINES}; timeleap restore SESSION TIMELINE takes any of them.",),
    "timelineNotFound": (f"{_TIMELINES}.",),
    "sessionExists": ("Choose another id, or archive or delete the session that has it.",),
    "contentModified": ("The session was changed meanwhile: look with timeleap log SESSION, then repeat.",),
    "externallyModified": ("A program that takes no lock wrote to the log: end it, then repeat the command.",),
    "invalidSessionId": ("An id has 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit.",),
    "compactionFailed": ("Nothing was changed. --summarizer builtin needs no model; --summary takes your own text.",),
    "dmailPending": ("timeleap dmail show SESSION has it: deliver it, or drop it with timeleap dmail cancel.",),
    "noPendingDMail": ('timeleap dmail send SESSION --at CHECKPOINT "..." leaves one.',),
    "methodNotFound": ("This server cannot do that: timeleap --version shows its release.",),
    "internalError": ("This is a mistake in Timeleap: please report it with the incident id.",),
}


def _locked(data: Data, name: str) -> Iterator[str]:
    if isinstance(owner := data.get("owner"), Mapping):
        since = ago(str(owner.get("since", "")))
        yield f"It belongs to process {owner.get('pid')} on {one_line(str(owner.get('host')))}, since {since}."
    if "requestId" in data:
        yield f"The change was passed on and may still take effect: timeleap log {name} shows whether it did."
    yield _READING.replace("SESSION", name)
    yield "To change it, use that program, or end it first."


def _not_found(_data: Data, name: str) -> Iterator[str]:
    makes = "" if name == _UNNAMED else f", timeleap new {name} makes it"
    yield f"timeleap sessions --all lists what there is{makes}, timeleap trash list has what was deleted."


def _corrupted(data: Data, name: str) -> Iterator[str]:
    if data.get("path"):
        yield f"Where: {data['path']}"
    yield f"timeleap verify {name} lists all damage and changes nothing; timeleap repair {name} mends it."


_BY_ERRNO = {
    "ENOSPC": "The disk is full: make room, then repeat the command; nothing was lost.",
    "EDQUOT": "Your quota is used up: make room, then repeat the command; nothing was lost.",
    "EACCES": "You may not read or write there: check the permissions.",
    "EPERM": "You may not read or write there: check the permissions.",
    "EROFS": "The file system is read-only: use another --home, or mount it for writing.",
}


def _storage(data: Data, _name: str) -> Iterator[str]:
    if data.get("path"):
        yield f"Where: {data['path']} ({data.get('errno', 'unknown reason')})"
    if (errno := str(data.get("errno"))) in _BY_ERRNO:
        yield _BY_ERRNO[errno]


_ADVICE_BY_DATA: dict[str, Callable[[Data, str], Iterator[str]]] = {
    "sessionLocked": _locked,
    "sessionNotFound": _not_found,
    "corrupted": _corrupted,
    "storageFailure": _storage,
}
