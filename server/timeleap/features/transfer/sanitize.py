"""Make an imported session one of ours: new uid, approvals off, no data that only its old store understood."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from timeleap import clock
from timeleap.features.transfer_losses import ExportLoss
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import undo_member
from timeleap.sessions.documents.meta import REASONS, Meta, decode
from timeleap.sessions.documents.session_files import META_NAME, STATE_NAME
from timeleap.sessions.documents.statefile import VERSION as STATE_VERSION
from timeleap.sessions.documents.statefile import approval_members, subagent_members, values_of
from timeleap.sessions.documents.statefile import decode as decode_fields
from timeleap.sessions.shapes import Approval, Mutation, set_members
from timeleap.storage.log_values import TimelineFacts
from timeleap.store.creation import Traits, usable_title, write_meta
from timeleap.store.listing import set_last_change

MOST_LOSSES: Final = 100


class Origin(Struct, frozen=True):
    """The source of an import: stored in `timeleap.json`, and in the answer to a repeated request."""

    format: str
    session_id: str | None = None
    uid: str | None = None
    losses: tuple[ExportLoss, ...] = ()

    def members(self) -> dict[str, Any]:
        """Members of the file."""
        losses = [asdict(loss) for loss in self.losses[:MOST_LOSSES]]
        return set_members(
            format=self.format, sessionId=self.session_id, uid=self.uid, at=clock.now_iso(), losses=losses
        )


class Arrival(Struct, frozen=True):
    """The data of an imported session apart from its logs.

    Attributes:
        created_at: ISO-8601 UTC, of the first record; None where it is not known. `updated_at`: of the last.
        notes: The members of its `timeleap.json`, if it had one; all of it is validated before use.
        state: The fields of its `state.json`, if it had one.
        timelines: Facts of timelines that are made by the import, by id.
        lines: Of its live log.
    """

    traits: Traits = Traits()
    created_at: str | None = None
    updated_at: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    timelines: Mapping[str, TimelineFacts] = field(default_factory=dict)
    lines: int = 0
    origin: Origin = Origin("native")


def settle_in(directory: Path, arrival: Arrival, guard: Mutation, present: Iterable[str]) -> None:
    """Write the files that belong with the logs in `directory`, in the staging area. Blocking.

    Args:
        directory: Of the new session.
        arrival: Its data apart from the logs.
        guard: The request that asked for it.
        present: The ids of the timelines that are there.
    """
    notes, fields = decode(arrival.notes), decode_fields(arrival.state)
    files.write_document(directory / META_NAME, notes.members)
    brought, state = Meta(directory, "readOnly"), values_of(fields)
    damaged = [
        f"{name}: {problem}" for name, problem in ((META_NAME, notes.problem), (STATE_NAME, fields.problem)) if problem
    ]
    losses = (*arrival.origin.losses, *(ExportLoss("damaged", f"left out of {text}") for text in damaged))
    origin = replace(arrival.origin, losses=losses)
    # As where a session is opened: what the original, or a crash between the files, has left in `state.json` counts.
    subagents = state.subagents if state.subagents is not None else brought.subagents or ()
    facts = {name: _facts(brought.facts(name)) for name in present}
    facts |= {name: _facts(known) for name, known in arrival.timelines.items()}
    parent, given = brought.parent, arrival.traits
    traits = Traits(
        workspace=given.workspace or brought.workspace,
        auto_checkpoint=given.auto_checkpoint or brought.auto_checkpoint,
        pins=given.pins or brought.pins,
    )
    title = usable_title(given.title or state.title or "") or None
    # The highest timeline number ever used; a number that no file name can follow is ignored.
    rotation = brought.rotation if 0 < brought.rotation < 1 << 53 else None
    members = set_members(
        **{
            **traits.members(),
            "createdAt": arrival.created_at or brought.created_at or clock.now_iso(),
            "parent": parent and {"sessionId": parent.session_id, **set_members(checkpointUid=parent.checkpoint_uid)},
            "subagents": [agent.wire() for agent in subagents] or None,
            "pendingDMail": brought.pending_dmail and brought.pending_dmail.wire(),
            "timelines": facts or None,
            "rotation": rotation,
            undo_member.MEMBER: _stacks(brought, facts),
            # The records bring the request ids of another session along, which are none of this one's.
            "inheritedLines": arrival.lines or None,
            "importedFrom": origin.members(),
        }
    )
    # What other programs call a date, or a text, may be none of ours.
    write_meta(directory, guard, decode(members).members)
    state_file = {
        "version": STATE_VERSION,
        **fields.not_known,
        **fields.members,
        "approval": approval_members(Approval()),
        "custom_title": title,
        "title_generated": title is not None,
        "archived": False,
        "archived_at": None,
    }
    if subagents:
        state_file["dynamic_subagents"] = subagent_members(subagents)
    files.write_document(directory / STATE_NAME, state_file)
    if arrival.updated_at is not None:
        set_last_change(directory, arrival.updated_at)


def origin_losses(meta: Meta) -> list[dict[str, str]]:
    """The losses of an imported session, as its file records them."""
    origin = meta.get("importedFrom")
    many = origin.get("losses") if isinstance(origin, dict) else None
    return [
        {"kind": loss["kind"], "message": loss["message"]}
        for loss in (many if isinstance(many, list) else [])
        if isinstance(loss, dict) and isinstance(loss.get("kind"), str) and isinstance(loss.get("message"), str)
    ]


def _facts(known: TimelineFacts | None) -> dict[str, Any]:
    facts = known or TimelineFacts("import", clock.now_iso())
    reason = facts.reason if facts.reason in REASONS else "unknown"
    return {"reason": reason, **set_members(createdAt=facts.created_at or None, extra=facts.extra or None)}


def _stacks(brought: Meta, timeline_ids: Collection[str]) -> dict[str, Any] | None:
    """Its undo and redo stacks; None where an older release stored none: its timelines tell then."""
    member = brought.get(undo_member.MEMBER)
    return None if member is None else undo_member.read(member).within(timeline_ids).members()
