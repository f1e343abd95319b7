"""The shape of a session: the live log's checkpoints, and where each timeline leaves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from timeleap.cli.backend import OpenSession

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TimelineBranch:
    """A timeline, and its checkpoints that differ from the live log's.

    Attributes:
        timeline: As the wire tells it.
        checkpoints: Its checkpoints that the live log does not have at their place, oldest first.
    """

    timeline: Json
    checkpoints: list[Json]


@dataclass(frozen=True, slots=True)
class Kin:
    """Parent and forks of a session.

    Attributes:
        parent: `{sessionId, checkpointUid}`; None for a session that is no fork.
        forks: SessionInfo of the forks made of it.
    """

    parent: Json | None = None
    forks: list[Json] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Graph:
    """The live log and its timelines.

    Attributes:
        state: SessionState.
        checkpoints: Of the live log, oldest first; perhaps only the newest.
        omitted: How many older ones are not in `checkpoints`.
        branches: By the uid of the last checkpoint shared with the live log (perhaps one that is omitted); "" where
            none is shared.
        timelines_omitted: How many older timelines are not in `branches`.
        kin: The session's parent and the forks made of it.
    """

    state: Json
    checkpoints: list[Json]
    omitted: int = 0
    branches: dict[str, list[TimelineBranch]] = field(default_factory=dict)
    timelines_omitted: int = 0
    kin: Kin = field(default_factory=Kin)

    def as_json(self) -> Json:
        """For machines: everything, with the place where each timeline leaves the live log."""
        timelines = [
            {**branch.timeline, "leavesAfter": uid or None, "checkpoints": branch.checkpoints}
            for uid, branches in self.branches.items()
            for branch in branches
        ]
        return {
            "sessionId": self.state["sessionId"],
            "head": self.state["head"],
            "context": self.state["context"],
            "checkpoints": self.checkpoints,
            "checkpointsOmitted": self.omitted,
            "timelines": sorted(timelines, key=lambda timeline: timeline.get("createdAt") or "", reverse=True),
            "timelinesOmitted": self.timelines_omitted,
            "parent": self.kin.parent,
            "forks": self.kin.forks,
        }


_WINDOW = 1000
"""Checkpoints of a log that are looked at to find where a timeline leaves it: one page."""


def read_kin(session: OpenSession) -> Kin:
    """Read a session's parent and forks: only those among the sessions that changed last are found."""
    newest = session.backend.call("session/list", {"limit": _WINDOW, "includeArchived": True})["sessions"]
    own: Json = next((info for info in newest if info["sessionId"] == session.id), {})
    return Kin(own.get("parent"), [info for info in newest if info.get("parent", {}).get("sessionId") == session.id])


def read_graph(session: OpenSession, checkpoints: int, timelines: int, kin: Kin | None = None) -> Graph:
    """Read the shape of a session, with at most so many of its newest checkpoints and timelines; `kin` was read before."""
    state = session.call("session/getState")
    live = _newest(session, max(checkpoints, _WINDOW))
    summary = state["context"]
    shown = live[-checkpoints:]
    omitted = max(0, len(summary["checkpoints"]) + summary["checkpointsOmitted"] - len(shown))
    listed = session.call("context/listTimelines", limit=max(1, timelines))["timelines"][:timelines]
    branches: dict[str, list[TimelineBranch]] = {}
    for timeline in listed:
        own = _newest(session, _WINDOW, timeline["timelineId"])
        uid, left = _leaves(live, own)
        branches.setdefault(uid, []).append(TimelineBranch(timeline, left))
    return Graph(state, shown, omitted, branches, max(0, summary["timelines"] - len(listed)), kin or Kin())


def _newest(session: OpenSession, most: int, timeline_id: str | None = None) -> list[Json]:
    """The newest checkpoints, oldest first."""
    found: list[Json] = []
    limit = min(most, 1000)
    for checkpoint in session.pages(
        "context/listCheckpoints", "checkpoints", order="desc", limit=limit, timelineId=timeline_id
    ):
        found.append(checkpoint)
        if len(found) == most:
            break
    return found[::-1]


def _leaves(live: list[Json], own: list[Json]) -> tuple[str, list[Json]]:
    """The last checkpoint both have (by uid), and what the timeline has after it."""
    shared = {checkpoint["uid"] for checkpoint in live}
    for place in range(len(own) - 1, -1, -1):
        if own[place]["uid"] in shared:
            return own[place]["uid"], own[place + 1 :]
    return "", own
