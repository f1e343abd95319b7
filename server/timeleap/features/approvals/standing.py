"""Approvals to run without asking: checking them against their seal, and changing them (G9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.features.approvals.seal import KeyRing, Register, Seal, mac_of, seals_of
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.statefile import StateFile, approval_members
from timeleap.sessions.kernel.change import ApprovalChange
from timeleap.sessions.shapes import Approval, Cause
from timeleap.storage.durable import failpoint


class Verdict(Struct, frozen=True):
    """Result of checking the approvals in a file.

    Attributes:
        approval: In force; off where the file cannot be trusted.
        seal: The seal that covers it.
        disbelieved: Reason why something the file switches on is off, in words.
    """

    approval: Approval = Approval()
    seal: Seal | None = None
    disbelieved: str | None = None


def judge(says: Approval, identity: tuple[str, str], seals: Sequence[Seal], key: bytes | None, highest: int) -> Verdict:
    """Decide what counts of what `state.json` says, by the seals in `timeleap.json` and the highest revision that is
    noted beside the key; `identity` is the session's uid and id."""
    if not seals:
        return _off(says, "they carry no seal")
    if key is None:
        return _off(says, "there is no key to check their seal with")
    matching = [seal for seal in seals if seal.covers(key, identity, says)]
    if not matching:
        return _off(says, "they are not what was sealed")
    seal = max(matching, key=lambda seal: seal.revision)
    if seal.revision not in (highest, highest + 1):
        return _off(says, "they are from an earlier time")
    return Verdict(replace(says, sealed=True, changed_at=seal.changed_at, changed_by=seal.changed_by), seal)


def _off(says: Approval, why: str) -> Verdict:
    return Verdict(disbelieved=why if says.anything_on else None)


def with_yolo(before: Approval, yolo: bool) -> ApprovalChange:
    """Everything runs without asking, or not."""
    return ApprovalChange(replace(before, yolo=yolo), "yolo", before.yolo, yolo)


def with_afk(before: Approval, afk: bool) -> ApprovalChange:
    """Nobody is there to be asked, or somebody is."""
    return ApprovalChange(replace(before, afk=afk), "afk", before.afk, afk)


def with_action(before: Approval, action: str, enabled: bool) -> ApprovalChange:
    """Let an action run without asking, or not."""
    actions = {*before.actions, action} if enabled else {*before.actions} - {action}
    after = replace(before, actions=tuple(sorted(actions)))
    return ApprovalChange(after, f"autoApprove:{action}", action in before.actions, enabled)


class SealedApprovals:
    """The approvals of one open session; one that is not `trusted`, since it lies outside of the store, starts with
    everything off.

    Args:
        store: The real path of the store.
        in_trash: Whether a uid is that of a directory in the store's trash.
    """

    def __init__(
        self,
        session_id: str,
        meta: Meta,
        state: StateFile,
        keys: KeyRing,
        trusted: bool,
        *,
        store: str = "",
        in_trash: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._session_id = session_id
        self._meta = meta
        self._state = state
        self._keys = keys
        self._audit = Audit(meta.path.parent)
        self._trusted = trusted
        self._place = (store, session_id)
        self._in_trash = in_trash
        self._verdict = Verdict()

    @property
    def current(self) -> Approval:
        """The approvals in force."""
        return self._verdict.approval

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Warnings about the approvals, for the user."""
        why = self._verdict.disbelieved
        if why is None:
            return []
        return [{"kind": "approvalSealBroken", "message": f"approvals in state.json are off, because {why}"}]

    @property
    def in_force(self) -> dict[str, Any] | None:
        """The approvals that every save of `state.json` writes, however the file was edited since: the original program
        would trust the edit. None for a session that is opened by its path: its approvals are its own."""
        return approval_members(self.current) if self._trusted else None

    def load(self, says: Approval) -> None:
        """Judge what the file says now."""
        if not self._trusted:
            self._verdict = _off(says, "a session that is opened by its path starts with them off")
            return
        # Without a seal there is nothing to check: the key, and the platform's directories, are not looked for.
        seals, uid = seals_of(self._meta), self._meta.uid
        key = self._keys.key() if seals else None
        register = self._keys.register() if key else Register({})
        self._verdict = judge(says, (uid, self._session_id), seals, key, register.revision(uid))
        if self.current.anything_on and (why := self._refusal(register)) is not None:
            self._verdict = Verdict(disbelieved=why)

    def change(self, change: ApprovalChange, cause: Cause) -> None:
        """Put other approvals in force, durably, and note who asked for it.

        Raises:
            StorageFailureError: Nothing was changed. Switching on needs a usable key, switching off does not.
        """
        before = self.current
        key = self._key_for(change.after)
        self._audit.record(cause, change.field, change.old, change.new)
        failpoint("approvals.after_audit")
        try:
            self._put(replace(change.after, changed_at=clock.now_iso(), changed_by=cause.client), key)
        except BaseException:
            with suppress(OSError):  # as far as the disk still lets us: no trace of it is to come into force
                self._state.write({"approval": approval_members(before)})
                self._audit.record(cause, change.field, change.new, change.old)
                if (key := self._keys.key()) is not None:
                    self._bury(key)
            raise

    def misfiled(self) -> bool:
        """Read the file; True if it says something else than what is in force. One that cannot be read does, too."""
        try:
            filed = self._state.read().approval
        except TimeleapError:
            return True
        return approval_members(filed) != approval_members(self.current)

    def settle(self) -> None:
        """At open by the owner: a change that a crash cut short is finished, or buried.

        Buried means that its seal, of which there may be copies, can never come into force.
        """
        key = self._keys.key() if self._trusted and self._verdict.disbelieved is None else None
        if key is None:
            return
        register, uid = self._keys.register(), self._meta.uid
        highest = register.revision(uid)
        ahead = [seal for seal in seals_of(self._meta) if seal.revision > highest]
        with suppress(StorageFailureError):  # what is in force is right all the same; the next opening tries again
            if self._verdict.seal in ahead:
                self._keys.change(Register.raise_to, uid, highest + 1)
            elif ahead:
                self._bury(key)
            if self.current.anything_on and register.sessions[uid].place != self._place:
                if (before := register.moved_from(uid, self._place)) is not None:
                    self._keys.change(Register.rehome, before, self._place[0])
                self._keys.change(Register.raise_to, uid, 0, self._place)

    def _key_for(self, after: Approval) -> bytes | None:
        """The key to seal with; for switching off it may be missing."""
        try:
            key = self._keys.require()
            register, uid = self._keys.register(), self._meta.uid
            highest = register.revision(uid)
            if uid not in register.sessions:
                # There may be seals of what was forgotten, the last one and one that a crash left unused.
                highest = register.forgotten + 2 if register.forgotten else 0
            elif self._refusal(register) is not None:
                # There may be copies of seals of this uid: of the last one, and of one that a crash left unused.
                highest += 2
            # Shows that a revision can be noted before anything is changed.
            self._keys.change(Register.raise_to, uid, highest)
        except StorageFailureError:
            if after.anything_on:
                raise
            return self._keys.key()
        return key

    def _refusal(self, register: Register) -> str | None:
        """Why no seal of the session's uid counts here, whatever it covers."""
        uid = self._meta.uid
        standing = register.sessions.get(uid)
        if standing is not None and standing.place is None and standing.retired is None and self._in_trash(uid):
            return "they are those of a session in the trash"  # deleted by a release that retired none
        return register.refusal(uid, self._place)

    def _put(self, after: Approval, key: bytes | None) -> None:
        """Put approvals in force, in the order that `timeleap.features.approvals.seal` explains."""
        seal = self._next_seal(after, key) if key is not None else None
        self._show(seal)
        failpoint("approvals.after_seal")
        self._state.write({"approval": approval_members(after)})
        failpoint("approvals.after_state")
        if seal is not None:
            try:
                self._keys.change(Register.raise_to, self._meta.uid, seal.revision, self._place)
            except StorageFailureError:
                if after.anything_on:
                    raise
        failpoint("approvals.after_revision")
        self._verdict = Verdict(replace(after, sealed=seal is not None), seal)

    def _next_seal(self, approval: Approval, key: bytes) -> Seal:
        uid = self._meta.uid
        revision = self._keys.register().revision(uid) + 1
        mac = mac_of(key, (uid, self._session_id), approval, revision)
        return Seal(revision, mac, approval.changed_at, approval.changed_by)

    def _show(self, seal: Seal | None) -> None:
        """Write a seal beside the one in force."""
        seals = [candidate for candidate in (self._verdict.seal, seal) if candidate is not None]
        self._meta.write({"seals": to_builtins(seals) or None})

    def _bury(self, key: bytes) -> None:
        """Seal what is in force twice: the first takes the revision of the seal to be buried, the second passes it."""
        for _ in range(2):
            seal = self._next_seal(self.current, key)
            self._show(seal)
            self._keys.change(Register.raise_to, self._meta.uid, seal.revision)
            self._verdict = Verdict(replace(self.current, sealed=True), seal)
