"""The seal on approvals where many machines share a session.

All machines have one key. What counts is what the seal in force covers; which seal that is stands in a row of the
database, apart from the session's files, and is changed in their transaction. So files from an earlier time count no
more. Each machine also remembers, beside its key, the highest revision that it has seen of a session: there rows from an
earlier time do not count either.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.features.approvals.seal import KeyRing, Register, Seal, mac_of, seals_of
from timeleap.features.approvals.standing import SealedApprovals, Verdict
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.statefile import StateFile, approval_members
from timeleap.sessions.kernel.change import ApprovalChange
from timeleap.sessions.participants import ApprovalRequests, StandingApprovals
from timeleap.sessions.shapes import Approval, Cause
from timeleap.sessions.transaction import SessionTransactions
from timeleap.store.approvals_port import NoApprovals, StoreApprovals
from timeleap.store.home import Home
from timeleap.store.parts import StoreParts
from timeleap_postgresql.session_copies import PostgresStore
from timeleap_postgresql.shared_requests import SharedApprovalRequests
from timeleap_postgresql.store_key import KEY, SEAL, Shared, StoreKey, digest_of


class SharedSeals(SealedApprovals):
    """The approvals of one open session of a shared store. Changes are made in the transaction under way."""

    def __init__(self, session_id: str, meta: Meta, state: StateFile, key: StoreKey, shared: Shared) -> None:
        super().__init__(session_id, meta, state, key.ring or KeyRing(Path(os.devnull)), True)
        self._identity = session_id
        self._own_meta, self._own_state, self._noted = meta, state, Audit(meta.path.parent)
        self._key, self._rows, self._shared = key, shared.approvals, shared

    def load(self, says: Approval) -> None:
        rows, uid = self._rows.committed, self._own_meta.uid
        if not says.anything_on and not seals_of(self._own_meta):
            self._verdict = Verdict()  # nothing to check: no key is looked for
            return
        key = self._key.usable(rows)
        if key is None:
            self._verdict = Verdict(disbelieved=self._key.problem(rows) if says.anything_on else None)
            return
        in_force = rows.get(SEAL, b"").decode("ascii", "replace")
        seals = [seal for seal in seals_of(self._own_meta) if seal.mac == in_force]
        seal = next((seal for seal in seals if seal.covers(key, (uid, self._identity), says)), None)
        seen = self._keys.register().revision(uid)
        if seal is None or seal.revision < seen:
            why = "they are not what was sealed last" if seal is None else "they are from an earlier time"
            self._verdict = Verdict(disbelieved=why if says.anything_on else None)
            return
        self._verdict = Verdict(_sealed(says, seal), seal)
        if seal.revision > seen:
            self._note_seen()

    def change(self, change: ApprovalChange, cause: Cause) -> None:
        rows, uid = self._rows.now(), self._own_meta.uid
        key = self._key.require(rows) if change.after.anything_on else self._key.usable(rows)
        at = clock.now_iso()
        self._noted.record(cause, change.field, change.old, change.new)
        if key is None:
            self._own_meta.write({"seals": None})
            self._rows.put(SEAL, None)
            self._verdict = Verdict(Approval(changed_at=at, changed_by=cause.client))
        else:
            known = (self._keys.register().revision(uid), *(seal.revision for seal in seals_of(self._own_meta)))
            revision = max(known) + 1
            mac = mac_of(key, (uid, self._identity), change.after, revision)
            seal = Seal(revision, mac, at, cause.client)
            self._own_meta.write({"seals": [to_builtins(seal)]})
            self._rows.put(SEAL, mac.encode("ascii"))
            if KEY not in rows:
                self._rows.put(KEY, digest_of(key))
            self._verdict = Verdict(_sealed(change.after, seal), seal)
            self._shared.once_committed(self._note_seen)
        self._own_state.write({"approval": approval_members(change.after)})

    def _note_seen(self) -> None:
        if self._verdict.seal is not None:
            with suppress(StorageFailureError):  # it counts all the same
                self._keys.change(Register.raise_to, self._own_meta.uid, self._verdict.seal.revision)

    def settle(self) -> None:
        """Nothing is ever cut short: a change is one transaction."""


def _sealed(says: Approval, seal: Seal) -> Approval:
    return replace(says, sealed=True, changed_at=seal.changed_at, changed_by=seal.changed_by)


class ApprovalsInDatabase(NoApprovals):
    """Approvals of sessions in a database; `key_file` has their key. A seal moves in the transaction that moves its
    session, so nothing is noted of a move."""

    def __init__(self, store: PostgresStore, key_file: Path | None, elsewhere: StoreApprovals) -> None:
        self._store, self._key, self._elsewhere = store, StoreKey(key_file), elsewhere

    def standing(self, session_id: str, meta: Meta, state: StateFile, *, trusted: bool) -> StandingApprovals:
        """The approvals of a session; one that was opened by its path has those of its directory."""
        if not trusted:
            return self._elsewhere.standing(session_id, meta, state, trusted=False)
        return SharedSeals(session_id, meta, state, self._key, self._store.others(session_id))

    def requests(self, transactions: SessionTransactions) -> ApprovalRequests:
        """The requests for approvals of a session."""
        if transactions.others is None:
            return self._elsewhere.requests(transactions)
        return SharedApprovalRequests(transactions, self._key)


def in_database(url: str, home: Path, key_file: Path | None, elsewhere: Callable[[Home], StoreApprovals]) -> StoreParts:
    """Parts of a store in a database, with a folder for working copies in `home`; `elsewhere` makes the approvals of
    sessions that are opened by their path."""
    store = PostgresStore(url, home)
    return StoreParts(
        approvals=lambda found: ApprovalsInDatabase(store, key_file, elsewhere(found)),
        backing=lambda _: store,
        home=store.path,
    )
