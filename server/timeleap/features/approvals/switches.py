"""Approvals of a session: switched on and off, and asked about."""

from __future__ import annotations

from typing import cast

from timeleap.errors import InvalidInputError
from timeleap.features.approvals.requests import AskedApprovals, automatic
from timeleap.features.approvals.standing import with_action, with_afk, with_yolo
from timeleap.json_value import Json
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation
from timeleap.sessions.transaction import NOBODY


def asked_in(session: Session) -> AskedApprovals:
    """Questions of a session; in a store that several machines share, an object with the same methods."""
    return cast("AskedApprovals", session.approval_requests)


def is_approved(session: Session, action: str) -> tuple[bool, str]:
    """Tell whether an action runs without asking, and the reason: `yolo`, `autoApprove` or `notApproved`."""
    decision, reason = automatic(session.facts.approval, action) or ("", "")
    return (True, reason) if decision == "approve" else (False, "notApproved")


async def set_yolo(session: Session, yolo: bool, guard: Mutation = NOBODY) -> Json:
    """Let everything run without asking, or not."""
    return await asked_in(session).change(guard, lambda before: with_yolo(before, yolo))


async def set_auto_approve(session: Session, action: str, enabled: bool, guard: Mutation = NOBODY) -> Json:
    """Let one action run without asking, or not.

    Raises:
        InvalidInputError: The action has no name.
    """
    if not action:
        raise InvalidInputError("an action has a name")
    return await asked_in(session).change(guard, lambda before: with_action(before, action, enabled))


async def set_afk(session: Session, afk: bool, guard: Mutation = NOBODY) -> Json:
    """Note that nobody is there to be asked, or that somebody is."""
    return await asked_in(session).change(guard, lambda before: with_afk(before, afk))
