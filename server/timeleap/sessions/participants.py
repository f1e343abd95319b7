"""Ports of a session: parts outside the core that take part in its changes, and stand-ins where a part is not there.

`Participant` is filled by the files of a workspace, `OtherProcesses` by a store that several of them write to,
`StandingApprovals` and `ApprovalRequests` by the feature of approvals. Without that feature everything is off, and nobody
can be asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import DecodeError, json

from timeleap.json_value import Json
from timeleap.sessions.kernel.change import ApprovalChange, Change
from timeleap.sessions.shapes import Approval, Cause, Event, Unanswered
from timeleap.storage.log_values import LogState

Answer = asyncio.Future[Json]
"""The result that a request for an approval waits for; cancelled where the question is given up without one."""


class OtherProcesses(Protocol):
    """Carries what listeners are told of a change to the other processes that have the session; `gone`: one of them
    has deleted it, by the cause `gone_by` (JSON), where that is known."""

    gone: bool
    gone_by: bytes | None
    approvals: Any  # what the store has of its approvals apart from its files

    @property
    def once_committed(self) -> Callable[[Callable[[], None]], None]: ...  # calls when the step under way counts

    def tell(self, told: Callable[[str, LogState, LogState], Sequence[Event]], /) -> None:
        """Say what the step under way tells, by the head after it and the states around it."""

    def forget(self) -> None:
        """Keep nothing of what was told before the step under way."""

    def heard(self) -> list[bytes] | None:
        """Events of the changes taken over since the last call, as JSON; None: not all are known."""


def told_elsewhere(heard: list[bytes] | None) -> list[Event] | None:
    """Events that other processes told of their changes; None if they are not known, or no events of ours."""
    try:
        return None if heard is None else [event for data in heard for event in json.decode(data, type=list[Event])]
    except DecodeError:
        return None


def cause_elsewhere(others: OtherProcesses | None) -> Cause:
    """Why another process has deleted a session; an empty cause where that is not known."""
    try:
        return Cause() if others is None or others.gone_by is None else json.decode(others.gone_by, type=Cause)
    except DecodeError:
        return Cause()


class Participant(Protocol):
    """A part beside the session's own files that takes part in one request, such as the files of its workspace.

    Order: `join` before anything is written; `prepare` once a new log stands beside the old one; the session's notes, which
    carry the token; the log; `settle` at the end, in any case.

    Attributes:
        key: The member of facts and steps that has its state.
        followed: The member of `timeleap.json` that has the token.
        token: The notes tell by it, after a crash too, whether the session's half was done; None: nothing to settle.
        before: A name of the part's state before it, once it is prepared.
    """

    key: str
    followed: str
    token: str | None
    before: str | None

    def intend(self, change: Change) -> None:
        """Refuse what the part cannot do of the change."""

    def foretell(self) -> Json:
        """Return members of the result of a dry run, once the part intends something. Blocking."""
        ...

    async def join(self, change: Change) -> Change:
        """Intend it, and return the change with what the part adds to it."""
        ...

    def prepare(self) -> None:
        """Do the part's half such that it can still be taken back. Blocking; what it raises undoes the change."""

    def result(self) -> Json:
        """Return members for the request's result."""
        ...

    def events(self, head: str) -> list[Event]:
        """Return what listeners are told of the part's half."""
        ...

    def settle(self) -> None:
        """Keep the part's half if the session's was done, else take it back. Blocking; what fails is tried again later."""


class StandingApprovals(Protocol):
    """Approvals of one open session to run without asking."""

    @property
    def current(self) -> Approval:
        """The approvals in force."""
        ...

    @property
    def warnings(self) -> list[Json]:
        """Warnings for the user."""
        ...

    @property
    def in_force(self) -> Json | None:
        """The member `approval` that every save of `state.json` writes; None to leave the file's own."""
        ...

    def load(self, says: Approval) -> None:
        """Decide which of the approvals in `state.json` count."""

    def change(self, change: ApprovalChange, cause: Cause) -> None:
        """Put other approvals in force, durably.

        Raises:
            StorageFailureError: Nothing was changed.
        """

    def misfiled(self) -> bool:
        """True if the file differs from the approvals in force."""
        ...

    def settle(self) -> None:
        """At open by the owner: finish or bury a change that a crash cut short."""


class ApprovalRequests(Protocol):
    """Questions for an approval that wait for a decision in one open session."""

    def adopt(self) -> None:
        """Begin with the session's files again, after a follower became the owner."""

    def redact(self, redacted: Callable[[str], str]) -> None:
        """Take a value out of every question that waits; `redacted` gives a text without it."""

    async def ends(self, approval_ids: Sequence[str]) -> list[Json]:
        """Members of `approval/didResolve` for those of the questions that have ended."""
        ...

    async def stop_waiting(self, answer: Answer, resolution: Unanswered) -> None:
        """Give up waiting; a question ends with the last program that waits for it."""

    async def cancel_all(self) -> None:
        """Cancel every question: the session is being closed."""


class NothingApproved:
    """Standing approvals where the feature is not installed: everything is off, and nothing can be switched on."""

    current = Approval()
    in_force: Json | None = None

    @property
    def warnings(self) -> list[Json]:
        return []

    def load(self, says: Approval) -> None:
        """Disregard the file."""

    def change(self, change: ApprovalChange, cause: Cause) -> None:
        # The methods that change approvals are not served without the feature.
        raise NotImplementedError

    def misfiled(self) -> bool:
        return False

    def settle(self) -> None:
        """Nothing can be half done."""


class NothingAsked:
    """Requests for approvals where the feature is not installed: there are none."""

    def adopt(self) -> None:
        """Nothing waits."""

    def redact(self, redacted: Callable[[str], str]) -> None:
        """Nothing waits."""

    async def ends(self, approval_ids: Sequence[str]) -> list[Json]:
        return []

    async def stop_waiting(self, answer: Answer, resolution: Unanswered) -> None:
        """Nothing waits."""

    async def cancel_all(self) -> None:
        """Nothing waits."""
