"""Moments of a session as people name them: `present`, a timeline, a checkpoint's number, label or uid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from timeleap.cli.backend import OpenSession
from timeleap.cli.formatting import count, one_line
from timeleap.cli.terminal import UsageError
from timeleap_client.errors import TimeleapRpcError

Json = dict[str, Any]

HELP = "present; a timeline (context_2); a checkpoint's number, label or uid; one of a timeline (context_2:3)."
_PRESENT = {"present", "now"}


@dataclass(frozen=True, slots=True)
class Ref:
    """A moment.

    Attributes:
        name: Its name for people.
        params: As `context/diff` takes it.
    """

    name: str
    params: Json


def find_point(opened: OpenSession, name: str) -> Ref:
    """The moment of that name.

    Raises:
        UsageError: Several checkpoints have that label.
        TimeleapRpcError: There is no checkpoint of that number.
    """
    if name in _PRESENT:
        return Ref("present", {})
    timelines = {each["timelineId"] for each in opened.pages("context/listTimelines", "timelines", limit=1000)}
    if name in timelines:
        return Ref(name, {"timelineId": name})
    log, _, rest = name.partition(":")
    timeline = log if log in timelines else None
    found = find_checkpoint(opened, rest if timeline else name, timeline)
    if found is None:
        return Ref(name, {"checkpointUid": name})  # the server knows those of timelines as well
    label = f" {one_line(found['label'], 40)}" if found.get("label") else ""
    where = f"{timeline}:" if timeline else ""
    return Ref(f"{where}#{found['id']}{label}", {"checkpointUid": found["uid"]})


def find_checkpoint(opened: OpenSession, name: str, timeline: str | None = None) -> Json | None:
    """The checkpoint of that number, uid or label; None where it can only be the uid of another log.

    Raises:
        UsageError: Several have that label.
        TimeleapRpcError: There is none of that number.
    """
    wanted = name.removeprefix("#")
    every = list(opened.pages("context/listCheckpoints", "checkpoints", order="asc", limit=1000, timelineId=timeline))
    if wanted.isascii() and wanted.isdigit():
        for checkpoint in every:
            if checkpoint["id"] == int(wanted):
                return checkpoint
    labelled = [checkpoint for checkpoint in every if name in {checkpoint["uid"], checkpoint.get("label")}]
    if len(labelled) > 1:
        numbers = ", ".join(f"#{checkpoint['id']}" for checkpoint in labelled)
        raise UsageError(f"{count(len(labelled), 'checkpoint')} are called {one_line(name, 40)}: name one of {numbers}")
    if labelled:
        return labelled[0]
    if wanted.isascii() and wanted.isdigit():
        data = {"kind": "checkpointNotFound", "retryable": False}
        raise TimeleapRpcError(4002, "checkpointNotFound", f"there is no checkpoint #{wanted}", data, retryable=False)
    return None
