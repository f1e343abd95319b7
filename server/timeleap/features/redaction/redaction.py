"""Taking something out of a session for good: of its logs, and of all that stands beside them, open or in the trash.

The one change that keeps nothing of what was: no timeline, no fingerprint in which a guess could be tried, not even the
request that asked for it. It is done file by file, each in one step, and doing it again finishes what was cut short; so
its request id needs to be known only while the process lives.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import (
    CorruptedError,
    FilesUnavailableError,
    HeadConflictError,
    SessionLockedError,
    StorageFailureError,
)
from timeleap.features.redaction import redact_files
from timeleap.features.redaction.matchers import Matcher, TextMatcher, load_rules, secrets_in
from timeleap.features.redaction.redact_files import FileMatches, ScanResult, forget_request, redacted_meta
from timeleap.features.redaction.redactor import Redactor
from timeleap.json_value import Json
from timeleap.sessions import past
from timeleap.sessions.documents import undo_member
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.request_file import HIGHEST, RequestFile, StoredResponse, encode, short
from timeleap.sessions.documents.session_files import LOG_NAME, list_files
from timeleap.sessions.kernel.change import ApprovalChange, Change
from timeleap.sessions.kernel.session_view import SessionView
from timeleap.sessions.past import summarize
from timeleap.sessions.session import Session
from timeleap.sessions.session_state import StateManager
from timeleap.sessions.shapes import Cause, Mutation, Summary
from timeleap.sessions.transaction import NOBODY
from timeleap.storage.durable import failpoint, storage_errors
from timeleap.storage.log_files import share
from timeleap.storage.log_values import Progress
from timeleap.storage.owner_lock import SessionLock


class HeldPlace(Protocol):
    """A snapshot of files that holds something, of any session of a store; `root` is the folder."""

    @property
    def snapshot(self) -> str: ...
    @property
    def root(self) -> str: ...


@runtime_checkable
class SnapshotStore(Protocol):
    """The snapshots of the files of all sessions of a store."""

    def holding(self, matches: Callable[[bytes], bool], session_uids: Collection[str] | None) -> list[Any]:
        """Return the `HeldPlace`s of these sessions (None: of all) with a file, a path or a label that `matches`.

        Raises:
            TimeleapError: They cannot be looked through.
        """
        ...

    def remove(self, snapshots: Collection[Any]) -> None:
        """Remove snapshots, and from the disk what only they had."""


class RedactionRequest(Struct, frozen=True):
    """A request to redact.

    Attributes:
        needle: Text to redact; None: anything that looks like a secret.
        replacement: Text in its place.
        trash: Says, in a thread, which directories in the trash are earlier sessions of this one's.
        keep: Called in a thread when one of these was redacted.
        rules: Where the rules for secrets are kept between two processes.
        progress: Called with the bytes scanned so far.
        snapshots: The snapshots of files in the store; None where there are none.
        everywhere: Whether those of other sessions are to go, too.
    """

    needle: Matcher | None
    replacement: str
    trash: Callable[[], Sequence[Path]] = tuple
    keep: Callable[[Path], None] = lambda _: None
    rules: Path | None = None
    progress: Progress | None = None
    snapshots: SnapshotStore | None = None
    everywhere: bool = False


class RedactOutcome(Struct, frozen=True):
    """Result of a redaction, or of its dry run.

    Attributes:
        finds: The files that held it.
        rules: By rule: how many different secrets it found; None where something else was looked for.
        redactor: What it was done with, to look elsewhere for the same.
        snapshots: The snapshots of files that held it.
        snapshots_unread: Why these could not be looked through: they may hold it.
    """

    head: str
    finds: tuple[FileMatches, ...]
    rules: dict[str, int] | None
    context: Summary
    redactor: Redactor
    snapshots: tuple[HeldPlace, ...] = ()
    snapshots_unread: str | None = None

    def total(self, number: Callable[[FileMatches], int]) -> int:
        return sum(map(number, self.finds))


Render = Callable[[RedactOutcome], Json]


class _Found:
    """Findings in some directories, and the redactor that takes them out. Blocking.

    Args:
        places: Directories of sessions, and their names in the trash.
        order: The text or pattern to look for.

    Raises:
        InvalidInputError, StorageFailureError: They cannot be looked through.
    """

    def __init__(self, places: Sequence[tuple[Path, str | None]], order: RedactionRequest) -> None:
        needle, self._rules = order.needle, None
        if needle is None:
            load_rules(order.rules)
            texts = (text for path, _ in places for text in redact_files.every_text(path))
            found = {(value, rule) for text in texts for rule, value in secrets_in(text)}
            self._rules = dict(Counter(rule for _, rule in sorted(found)))
            needle = TextMatcher(value for value, _ in found)
        self.redactor = Redactor(needle, order.replacement)
        total = sum(file.bytes for path, _ in places for file in list_files(path))
        done = 0

        def told(size: int) -> None:
            nonlocal done
            done += size
            if order.progress is not None:
                order.progress(min(done, total), total)

        self.scans = [redact_files.look_at(path, self.redactor, trash, told) for path, trash in places]
        self._kept = order.snapshots
        self._snapshots: tuple[HeldPlace, ...] = ()
        self._unread: str | None = None
        if order.snapshots is not None:
            uids = None if order.everywhere else {Meta(path, "readOnly").uid for path, _ in places}
            try:
                self._snapshots = tuple(order.snapshots.holding(partial(redact_files.holds, self.redactor), uids))
            except (FilesUnavailableError, CorruptedError) as error:
                self._unread = error.message

    def remove_snapshots(self) -> None:
        """Remove the snapshots that hold it: contents that others share go with the last of them."""
        if self._kept is not None:
            self._kept.remove(self._snapshots)

    def outcome(self, head: str, context: Summary) -> RedactOutcome:
        """Findings in a log that has this head and these facts; not repeated in them, after a dry run either."""

        def clean(text: str | None) -> str | None:
            return None if text is None else self.redactor.clean(text)

        shown = tuple(
            replace(checkpoint, label=clean(checkpoint.label), preview=clean(checkpoint.preview))
            for checkpoint in context.checkpoints
        )
        context = replace(context, checkpoints=shown, system_prompt=clean(context.system_prompt))
        finds = tuple(find for scan in self.scans for find in scan.finds)
        return RedactOutcome(head, finds, self._rules, context, self.redactor, self._snapshots, self._unread)

    def cause(self, cause: Cause) -> Cause:
        """Cause without the text: the client that asks may hold it in its own name."""
        request_id, client = (text and self.redactor.clean(text) for text in (cause.request_id, cause.client))
        return Cause(request_id, client)

    def note(self, directory: Path, cause: Cause) -> None:
        """Note the redaction in the audit of a session: counts, never the text."""
        found = [find for scan in self.scans for find in scan.finds if find.occurrences]
        counts = {
            "files": len(found),
            "records": sum(find.records for find in found),
            "occurrences": sum(find.occurrences for find in found),
            **({"snapshots": len(self._snapshots)} if self._snapshots else {}),
        }
        Audit(directory).record(cause, "redaction", None, counts)


async def plan_redact(session: Session, order: RedactionRequest) -> RedactOutcome:
    """Result of a dry run of `redact`. Others may use the session meanwhile.

    Raises:
        InvalidInputError, StorageFailureError: It cannot be looked through.
    """
    await session.catch_its_turn()
    redaction = _Redaction(session, order)
    await asyncio.to_thread(redaction.look)
    return redaction.outcome()


async def redact(session: Session, order: RedactionRequest, render: Render, guard: Mutation = NOBODY) -> Json:
    """Take something out of a session, and out of what lies of it in the trash; `render` makes the result.

    Raises:
        InvalidInputError, ReadOnlyError: Nothing was done.
        SessionLockedError, StorageFailureError: Some of it may be done; asking again finishes it.
    """
    redaction = _Redaction(session, order, render)
    return await session.transactions.carry_out(guard, redaction.decide, looks=True)


class _Redaction:
    """A redaction of an open session: an erasure."""

    _found: _Found

    def __init__(self, session: Session, order: RedactionRequest, render: Render | None = None) -> None:
        self._session = session
        self._order = order
        self._render = render

    def look(self) -> None:
        """Look at everything. Blocking."""
        path = self._session.path
        self._found = _Found([(path, None), *((trash, trash.name) for trash in self._order.trash())], self._order)

    def decide(self, _: SessionView) -> Change:
        """Find it, to take it out. Blocking."""
        self.look()
        return Change(erasure=self)

    def clean(self, text: str) -> str:
        """A text without what is taken out."""
        return self._found.redactor.clean(text)

    def forget(self) -> None:
        """Take it out of the questions for approvals that wait."""
        self._session.approval_requests.redact(self.clean)

    async def carry_out(self, cause: Cause) -> None:
        """Take it out of all files: of those beside the log first, of the live log last."""
        state = self._session.transactions.state
        (own, *trashed), redactor = self._found.scans, self._found.redactor
        shown = self._found.cause(cause)
        now = state.facts.approval
        # What runs without asking is known by its name: without that it is not approved any more.
        rest = tuple(action for action in now.actions if not redactor.text(action).occurrences)
        if rest != now.actions:
            change = ApprovalChange(replace(now, actions=rest), "autoApprove", len(now.actions), len(rest))
            await asyncio.to_thread(state.change_approvals, change, shown)
        await asyncio.to_thread(self._redact_sidecar_files, state, own, redactor)
        for log in reversed(own.logs):  # the live one last
            if log.lines:
                await self._session.engine.revise(partial(log.edited, redactor), log.timeline_id)
        for scan in trashed:
            async with _held_in_trash(scan.directory):
                await asyncio.to_thread(redact_files.redact_closed, scan, redactor)
                await asyncio.to_thread(self._order.keep, scan.directory)
        await asyncio.to_thread(self._found.remove_snapshots)
        await asyncio.to_thread(self._found.note, self._session.path, shown)

    def _redact_sidecar_files(self, state: StateManager, own: ScanResult, redactor: Redactor) -> None:
        meta = self._session.meta
        with storage_errors("redact the session", self._session.path):
            state.rewrite_requests(partial(forget_request, redactor))
            state.forget_fingerprints(live_changes=any(log.timeline_id is None and log.lines for log in own.logs))
            members = {name: meta.get(name) for name in meta.names()}
            after, _ = redacted_meta(members, redactor)
            meta.write({name: value for name, value in after.items() if value != members.get(name)})
            redact_files.redact_sidecar_files(own, redactor)

    def outcome(self) -> RedactOutcome:
        """Findings, and the session as it is now."""
        return self._found.outcome(self._session.head, self._session.summary())

    def done(self) -> tuple[Json, Json]:
        """The result, and what listeners are told where the log has changed."""
        outcome = self.outcome()
        assert self._render is not None
        return self._render(outcome), {
            "records": outcome.total(lambda find: find.records),
            "occurrences": outcome.total(lambda find: find.occurrences),
            "context": self._session.transactions.shapes.summary(outcome.context),
        }


@asynccontextmanager
async def _held_in_trash(directory: Path) -> AsyncIterator[None]:
    """Hold the lock of a session in the trash.

    Raises:
        SessionLockedError: Another process has it.
        StorageFailureError: It is not in the trash any more, or cannot be locked.
    """
    if not await asyncio.to_thread(directory.is_dir):
        raise StorageFailureError(
            f"{directory.name} is not in the trash any more: redact the session it is now",
            path=str(directory),
            errno="ENOENT",
        )
    lock = SessionLock(directory / LOG_NAME)
    try:
        await lock.acquire("hold", wait=0)
    except SessionLockedError as error:
        raise SessionLockedError(f"{directory.name} is in use", **error.data) from error
    try:
        yield
    finally:
        lock.release()


async def plan_in_trash(directory: Path, order: RedactionRequest, expected_head: str | None) -> RedactOutcome:
    """Result of a dry run of `redact_in_trash`.

    Raises:
        HeadConflictError, InvalidInputError, StorageFailureError: It cannot be looked through.
    """
    found, head, context = await _look_in_trash(directory, order, expected_head)
    return found.outcome(head, context)


async def redact_in_trash(
    directory: Path, order: RedactionRequest, render: Render, guard: Mutation, forget: Callable[[Redactor], None]
) -> Json:
    """Take something out of a session in the trash.

    The request is noted last, and only its id: who was cut short before asks again, and finishes what is left.

    Args:
        directory: The session's directory there.
        order: What is to be taken out.
        render: Makes the result.
        guard: The request.
        forget: Takes the same out of what the store noted of the session; called in a thread.

    Raises:
        HeadConflictError, InvalidInputError: Nothing was done.
        SessionLockedError, StorageFailureError: Some of it may be done; asking again finishes it.
    """
    async with _held_in_trash(directory):
        if (answer := await asyncio.to_thread(_noted, directory, guard)) is not None:
            head, _ = await _head_and_facts(directory)
            return {**answer, "duplicate": True, "head": head}
        found, *_ = await _look_in_trash(directory, order, guard.expected_head)
        await asyncio.to_thread(redact_files.redact_closed, found.scans[0], found.redactor)
        await asyncio.to_thread(found.remove_snapshots)
        await asyncio.to_thread(found.note, directory, found.cause(guard.cause))
        await asyncio.to_thread(forget, found.redactor)
        result = render(found.outcome(*await _head_and_facts(directory)))
        failpoint("redact.before_note")
        await asyncio.to_thread(_note, directory, guard, found.redactor, result)
        return result


async def _look_in_trash(
    directory: Path, order: RedactionRequest, expected_head: str | None
) -> tuple[_Found, str, Summary]:
    head, context = await _head_and_facts(directory)
    if expected_head not in (None, head):
        raise HeadConflictError(f"the log has changed: its head is {head}", head=head)
    return await asyncio.to_thread(_Found, [(directory, directory.name)], order), head, context


def _noted(directory: Path, guard: Mutation) -> Json | None:
    """The stored result of a redaction with the request's id."""
    if guard.request_id is None:
        return None
    for known in reversed(RequestFile(directory).read()):
        if (known.request_id, known.method) == (guard.request_id, short(guard.method)):
            return dict(known.result or {})
    return None


def _note(directory: Path, guard: Mutation, redactor: Redactor, result: Mapping[str, Any]) -> None:
    """Note the request with the session's others, without a fingerprint; not at all if its id held what went."""
    if guard.request_id is None:
        return
    requests = RequestFile(directory)
    number = min(max((number for _, number in requests.numbers()), default=0) + 1, HIGHEST)
    stored = StoredResponse(guard.request_id, "", short(guard.method), result, number=number)
    line = forget_request(redactor, encode(stored))
    if line["r"] == guard.request_id:
        requests.append([line])


async def _head_and_facts(directory: Path) -> tuple[str, Summary]:
    """Head and facts of a log that is not open."""
    meta = Meta(directory, "readOnly")
    lease = await share(directory / LOG_NAME, access="read", lock="per-write", notes=meta)
    try:
        engine = lease.engine
        stacks = undo_member.in_force(meta.get(undo_member.MEMBER), engine)
        return engine.head, summarize(engine, past.past_of(past.timeline_ids(engine), stacks, engine.state))
    finally:
        await lease.aclose()
