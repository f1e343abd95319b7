"""Errors in words, with what to do next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from timeleap.cli.formatting import ago, one_line
from timeleap_client.errors import TimeleapRpcError

Data = Mapping[str, Any]


def explain(error: TimeleapRpcError, session: str | None) -> list[str]:
    """Lines that say what was wrong, and then what to do.

    Args:
        error: The server's answer.
        session: The session as the user named it; None where the command names none.
    """
    name = session or "SESSION"
    problems = [problem for problem in _problems(error.data) if str(problem.get("msg", "")) not in error.message]
    details = [f"  {_place(problem)}: {problem.get('msg', '')}" for problem in problems]
    advise = _ADVICE.get(error.kind)
    return [error.message, *details, *(advise(error.data, name) if advise else [])]


def _place(problem: Data) -> str:
    return ".".join(str(step) for step in problem.get("loc", [])) or "params"


def _problems(data: Data) -> list[Data]:
    errors = data.get("errors")
    return [problem for problem in errors if isinstance(problem, Mapping)] if isinstance(errors, list) else []


def _locked(data: Data, name: str) -> list[str]:
    owner = data.get("owner")
    lines = []
    if isinstance(owner, Mapping):
        since = ago(str(owner.get("since", "")))
        lines.append(f"It belongs to process {owner.get('pid')} on {one_line(str(owner.get('host')))}, since {since}.")
    if "requestId" in data:
        lines.append(f"The change was passed on and may still take effect: timeleap log {name} shows whether it did.")
    lines.append(f"Reading still works: timeleap log {name}, timeleap show {name}, timeleap tail -f {name}.")
    lines.append("To change it, use that program, or end it first.")
    return lines


def _other_version(data: Data, name: str) -> list[str]:
    del data
    return [
        "Both programs have to be of the same release: timeleap --version shows this one. Or end the other one.",
        f"Reading still works: timeleap log {name}, timeleap show {name}, timeleap tail -f {name}.",
    ]


def _not_found(data: Data, name: str) -> list[str]:
    del data
    return [
        f"timeleap sessions --all lists what there is, timeleap new {name} makes it, timeleap trash list has the rest."
    ]


def _corrupted(data: Data, name: str) -> list[str]:
    where = [f"Where: {data['path']}"] if data.get("path") else []
    return [*where, f"timeleap verify {name} lists all damage and changes nothing; timeleap repair {name} mends it."]


def _storage(data: Data, name: str) -> list[str]:
    del name
    what = {
        "ENOSPC": "The disk is full: make room, then repeat the command; nothing was lost.",
        "EDQUOT": "Your quota is used up: make room, then repeat the command; nothing was lost.",
        "EACCES": "You may not read or write there: check the permissions.",
        "EPERM": "You may not read or write there: check the permissions.",
        "EROFS": "The file system is read-only: use another --home, or mount it for writing.",
    }.get(str(data.get("errno")))
    where = [f"Where: {data['path']} ({data.get('errno', 'unknown reason')})"] if data.get("path") else []
    return [*where, *([what] if what else [])]


def _always(*lines: str) -> Callable[[Data, str], list[str]]:
    return lambda _, name: [line.replace("SESSION", name) for line in lines]


_ADVICE: dict[str, Callable[[Data, str], list[str]]] = {
    "sessionLocked": _locked,
    "protocolVersion": _other_version,
    "sessionNotFound": _not_found,
    "corrupted": _corrupted,
    "storageFailure": _storage,
    "checkpointNotFound": _always("timeleap log SESSION shows the checkpoints; give an id or a uid."),
    "nothingToUndo": _always(
        "timeleap log SESSION shows the timelines; timeleap restore SESSION TIMELINE takes any of them."
    ),
    "nothingToRedo": _always(
        "timeleap log SESSION shows the timelines; timeleap restore SESSION TIMELINE takes any of them."
    ),
    "timelineNotFound": _always("timeleap log SESSION shows the timelines."),
    "sessionExists": _always("Choose another id, or archive or delete the session that has it."),
    "contentModified": _always("The session was changed meanwhile: look with timeleap log SESSION, then repeat."),
    "externallyModified": _always("A program that takes no lock wrote to the log: end it, then repeat the command."),
    "invalidSessionId": _always("An id has 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit."),
    "compactionFailed": _always(
        "Nothing was changed. --summarizer builtin needs no model; --summary takes your own text."
    ),
    "dmailPending": _always("timeleap dmail show SESSION has it: deliver it, or drop it with timeleap dmail cancel."),
    "noPendingDMail": _always('timeleap dmail send SESSION --at CHECKPOINT "..." leaves one.'),
    "methodNotFound": _always("This server cannot do that: timeleap --version shows its release."),
    "internalError": _always("This is a mistake in Timeleap: please report it with the incident id."),
}
