"""A session from elsewhere becomes one of ours: new uid, approvals off, nothing of what only its old store understood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from timeleap import clock
from timeleap.sessions import files
from timeleap.sessions.creation import Traits, trait_members, write_meta
from timeleap.sessions.meta import FILE_NAME as META_NAME
from timeleap.sessions.meta import REASONS, Meta, dmail_members, subagent_members
from timeleap.sessions.outcomes import Guard
from timeleap.sessions.statefile import FILE_NAME as STATE_NAME
from timeleap.sessions.statefile import VERSION as STATE_VERSION
from timeleap.sessions.statefile import StateFile, approval_members
from timeleap.sessions.statefile import subagent_members as state_subagents
from timeleap.sessions.transfer.losses import Loss
from timeleap.storage.engine import TimelineFacts

LONGEST_TITLE: Final = 1000
MOST_LOSSES: Final = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a session came from: what its `timeleap.json` remembers of it, and a repeated request is answered with."""

    format: str
    session_id: str | None = None
    uid: str | None = None
    losses: tuple[Loss, ...] = ()

    def members(self) -> dict[str, Any]:
        """As the file keeps it."""
        said = {"format": self.format, "sessionId": self.session_id, "uid": self.uid, "at": clock.now_iso()}
        losses = [asdict(one) for one in self.losses[:MOST_LOSSES]]
        return {**{name: value for name, value in said.items() if value is not None}, "losses": losses}


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a session brings along beside its logs.

    Attributes:
        traits: Title, workspace, checkpoints before turns, pins.
        created_at: ISO-8601 UTC; None where it is not known.
        notes: The members of its `timeleap.json`, if it had one; nothing in it is believed before it is looked at.
        state: The fields of its `state.json`, if it had one.
        timelines: What is known of timelines that are made by the import, by id.
        lines: Of its live log.
        origin: Where it came from.
    """

    traits: Traits = Traits()
    created_at: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    timelines: Mapping[str, TimelineFacts] = field(default_factory=dict)
    lines: int = 0
    origin: Origin = Origin("native")


def settle_in(directory: Path, arrival: Arrival, guard: Guard, present: Iterable[str]) -> None:
    """Write what belongs beside the logs in `directory`. Blocking.

    Args:
        directory: Of the new session, in the staging area; the logs are there.
        arrival: What it brings along.
        guard: The request that asked for it.
        present: The ids of the timelines that are there.

    Raises:
        StorageFailureError: It could not be written.
    """
    files.write_document(directory / META_NAME, dict(arrival.notes))
    files.write_document(directory / STATE_NAME, dict(arrival.state))
    brought, state = Meta(directory, "readOnly"), StateFile(directory).read()
    subagents = brought.subagents if brought.subagents is not None else state.subagents or ()
    facts = {name: _facts(brought.facts(name)) for name in present}
    facts |= {name: _facts(one) for name, one in arrival.timelines.items()}
    parent = brought.parent
    title = _title(arrival.traits.title or state.title)
    write_meta(
        directory,
        guard,
        {
            **trait_members(_traits(arrival.traits, brought)),
            "createdAt": arrival.created_at or brought.created_at or clock.now_iso(),
            "parent": parent and {"sessionId": parent.session_id, **_set(checkpointUid=parent.checkpoint_uid)},
            "subagents": subagent_members(subagents) or None,
            "pendingDMail": dmail_members(brought.pending_dmail),
            "timelines": facts or None,
            "rotation": _rotation(brought),
            # The records bring the request ids of another session along, which are none of this one's.
            "inheritedLines": arrival.lines or None,
            "importedFrom": arrival.origin.members(),
        },
    )
    version = arrival.state.get("version")
    state_file = {
        **{name: value for name, value in arrival.state.items() if name != "approval"},
        "version": version if type(version) is int else STATE_VERSION,
        "approval": approval_members(False, False, ()),
        "custom_title": title,
        "title_generated": title is not None,
        "archived": False,
        "archived_at": None,
    }
    if subagents:
        state_file["dynamic_subagents"] = state_subagents(subagents)
    files.write_document(directory / STATE_NAME, state_file)


def origin_losses(meta: Meta) -> list[dict[str, str]]:
    """What an imported session has lost, as its file remembers it."""
    origin = meta.get("importedFrom")
    many = origin.get("losses") if isinstance(origin, dict) else None
    return [
        {"kind": one["kind"], "message": one["message"]}
        for one in (many if isinstance(many, list) else [])
        if isinstance(one, dict) and isinstance(one.get("kind"), str) and isinstance(one.get("message"), str)
    ]


def _traits(given: Traits, brought: Meta) -> Traits:
    return Traits(
        workspace=given.workspace or brought.workspace,
        auto_checkpoint=given.auto_checkpoint or brought.auto_checkpoint,
        pins=given.pins or brought.pins,
    )


def _facts(one: TimelineFacts | None) -> dict[str, Any]:
    facts = one or TimelineFacts("import", clock.now_iso())
    reason = facts.reason if facts.reason in REASONS else "unknown"
    return {"reason": reason, "createdAt": facts.created_at, **({"extra": facts.extra} if facts.extra else {})}


def _rotation(brought: Meta) -> int | None:
    """The highest timeline number ever used; a number that no file name can follow is not believed."""
    return brought.rotation if 0 < brought.rotation < 1 << 53 else None


def _title(text: str | None) -> str | None:
    return " ".join(text.split())[:LONGEST_TITLE] or None if text else None


def _set(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
