"""Changes of what stands beside the log: title, sub-agents, pins, D-Mail and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from timeleap.errors import DMailPendingError, NoPendingDMailError
from timeleap.sessions.documents.statefile import subagent_members
from timeleap.sessions.kernel.change import Change
from timeleap.sessions.kernel.session_view import SessionView
from timeleap.sessions.past import find_line, read_checkpoint
from timeleap.sessions.shapes import AutoCheckpoint, PendingDMail, Subagent, json_members


def decide_subagent(state: SessionView, name: str, system_prompt: str) -> Change:
    """Define a sub-agent; one of that name is replaced, in its place."""
    known = {subagent.name: subagent for subagent in state.facts.subagents}
    return _with_subagents(state, {**known, name: Subagent(name, system_prompt)}.values())


def decide_no_subagent(state: SessionView, name: str) -> Change:
    """Remove a sub-agent, if there is one of that name."""
    return _with_subagents(state, [subagent for subagent in state.facts.subagents if subagent.name != name])


def _with_subagents(state: SessionView, subagents: Iterable[Subagent]) -> Change:
    after = replace(state.facts, subagents=tuple(subagents))
    shown = [subagent.wire() for subagent in after.subagents]
    return Change(
        state={"dynamic_subagents": subagent_members(after.subagents)},
        meta={"subagents": shown},
        facts=after,
        result=json_members(dynamic_subagents=shown),
    )


def decide_title(state: SessionView, title: str) -> Change:
    """Call the session something else."""
    # The original would otherwise replace the title by one of its own making.
    members = {"custom_title": title, "title_generated": True}
    return Change(state=members, facts=replace(state.facts, title=title))


def decide_workspace(state: SessionView, workspace: str | None, members: Mapping[str, Any]) -> Change:
    """Say which folder the session is about, with `members` of `timeleap.json`."""
    return Change(meta=members, facts=replace(state.facts, workspace=workspace))


def decide_pins(state: SessionView, pins: Iterable[str]) -> Change:
    """Pin other strings in the place of those pinned before."""
    many = list(dict.fromkeys(pins))
    return Change(meta={"pins": many or None}, facts=replace(state.facts, pins=tuple(many)), result={"pins": many})


def decide_archived(state: SessionView, archived: bool, time: float | None) -> Change:
    """Put the session away (at `time`), or take it out again; then it is not to be archived again by itself."""
    members = {"archived": archived, "archived_at": time, "auto_archive_exempt": not archived}
    return Change(state=members, facts=replace(state.facts, archived=archived))


def decide_auto_checkpoint(state: SessionView, setting: AutoCheckpoint) -> Change:
    """Write checkpoints before turns, before steps, or not."""
    return Change(meta=json_members(auto_checkpoint=setting), facts=replace(state.facts, auto_checkpoint=setting))


def decide_dmail(state: SessionView, at: tuple[int | None, str | None], message: str, sender: str | None) -> Change:
    """Leave a note for the self at the checkpoint with that id, or with that uid.

    Raises:
        CheckpointNotFoundError: There is no such checkpoint.
        DMailPendingError: One waits already.
    """
    target = read_checkpoint(state.log, find_line(state.log, *at))
    if state.facts.pending_dmail is not None:
        raise DMailPendingError("a D-Mail is pending already; deliver or cancel it first")
    dmail = PendingDMail(target.id, target.uid, message, sender)
    members = json_members(pending_dmail=dmail.wire())
    return Change(meta=members, facts=replace(state.facts, pending_dmail=dmail), result=members)


def decide_no_dmail(state: SessionView) -> Change:
    """Take the pending D-Mail back.

    Raises:
        NoPendingDMailError: None waits.
    """
    if state.facts.pending_dmail is None:
        raise NoPendingDMailError("there is no D-Mail to cancel")
    return Change(meta=json_members(pending_dmail=None), facts=replace(state.facts, pending_dmail=None))


def decide_members(state: SessionView, meta: Mapping[str, Any], result: Mapping[str, Any]) -> Change:
    """Write members of `timeleap.json` that say nothing of the state, and remember the result."""
    return Change(meta=meta, facts=state.facts, result=result)
