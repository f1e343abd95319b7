"""Taking something out of a session for good: of its logs, and of all that stands beside them.

The one change that keeps nothing of what was: no timeline, no fingerprint in which a guess could be tried, not even the
request that asked for it. It is done file by file, each in one step, and doing it again finishes what was cut short; so
its request id needs to be known only while the process lives.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from timeleap.errors import SessionLockedError, StorageFailureError
from timeleap.features.redaction import redaction as redacted_files
from timeleap.features.redaction.redact_sidecar_files import forgetting, redacted_meta
from timeleap.features.redaction.redaction import FileMatches, ScanResult
from timeleap.features.redaction.redactor import Redactor
from timeleap.features.redaction.secrets import load_rules, secrets_in
from timeleap.features.search.matchers import Matcher, TextMatcher
from timeleap.sessions import events
from timeleap.sessions.approvals import WantedApprovals
from timeleap.sessions.audit import Audit
from timeleap.sessions.outcomes import Cause, Mutation, Summary
from timeleap.sessions.session import Session
from timeleap.sessions.session_files import LOG_NAME, list_files
from timeleap.sessions.session_state import StateManager
from timeleap.sessions.transaction import NOBODY
from timeleap.storage.engine import Progress
from timeleap.storage.lock import SessionLock

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RedactionRequest:
    """A request to redact.

    Attributes:
        needle: Text to redact; None: anything that looks like a secret.
        replacement: Text in its place.
        trash: Says, in a thread, which directories in the trash are earlier sessions of this one's.
        rules: Where the rules for secrets are kept between two processes.
        progress: Called with the bytes scanned so far.
    """

    needle: Matcher | None
    replacement: str
    trash: Callable[[], Sequence[Path]] = tuple
    rules: Path | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class RedactOutcome:
    """Result of a redaction, or of its dry run.

    Attributes:
        finds: The files that held it.
        rules: By rule: how many different secrets it found; None where something else was looked for.
        redactor: What it was done with, to look elsewhere for the same.
    """

    head: str
    finds: tuple[FileMatches, ...]
    rules: dict[str, int] | None
    context: Summary
    redactor: Redactor

    def total(self, number: Callable[[FileMatches], int]) -> int:
        """Of all files together."""
        return sum(map(number, self.finds))


Found = tuple[list[ScanResult], Redactor, dict[str, int] | None]
"""What was found; what it is taken out with; by which rules secrets were found."""


async def plan_redact(session: Session, order: RedactionRequest) -> RedactOutcome:
    """Result of a dry run of `redact`. Others may use the session meanwhile.

    Raises:
        InvalidInputError, StorageFailureError: It cannot be looked through.
    """
    await session.catch_its_turn()
    redaction = _Redaction(session, order)
    await asyncio.to_thread(redaction.look)
    return redaction.outcome()


async def redact(
    session: Session, order: RedactionRequest, render: Callable[[RedactOutcome], Json], guard: Mutation = NOBODY
) -> Json:
    """Take something out of a session, and out of what lies of it in the trash; `render` makes the result.

    Raises:
        InvalidInputError, ReadOnlyError: Nothing was done.
        SessionLockedError, StorageFailureError: Some of it may be done; asking again finishes it.
    """
    return await session.scrub(_Redaction(session, order, render), guard)


class _Redaction:
    """One redaction of an open session: the work that `Session.scrub` does at its turn."""

    def __init__(
        self, session: Session, order: RedactionRequest, render: Callable[[RedactOutcome], Json] | None = None
    ) -> None:
        self._session = session
        self._order = order
        self._render = render
        self._found: Found | None = None

    @property
    def _survey(self) -> Found:
        assert self._found is not None
        return self._found

    def look(self) -> None:
        """Look at everything. Blocking."""
        path = self._session.path
        self._found = look_through([(path, None), *((trash, trash.name) for trash in self._order.trash())], self._order)

    def clean(self, text: str) -> str:
        """A text without what is taken out."""
        return self._survey[1].text(text).text

    async def carry_out(self, state: StateManager, cause: Cause) -> None:
        """Take it out of all files: of those beside the log first, of the live log last."""
        (own, *trashed), redactor, _ = self._survey
        # The client that asks may hold it in its own name.
        request_id, client = (text and self.clean(text) for text in (cause.request_id, cause.client))
        shown = Cause(request_id, client)
        now = state.facts.approval
        going = tuple(action for action in now.actions if redactor.text(action).occurrences)
        if going:
            # What runs without asking is known by its name: without that it is not approved any more.
            rest = tuple(action for action in now.actions if action not in going)
            wanted = WantedApprovals(now.yolo, now.afk, rest, "autoApprove", len(now.actions), len(rest))
            await asyncio.to_thread(state.change_approvals, wanted, shown)
        await asyncio.to_thread(self._redact_sidecar_files, state, own, redactor)
        for log in reversed(own.logs):  # the live one last
            if log.lines:
                await self._session.engine.revise(log.edit(redactor), log.timeline_id)
        for survey in trashed:
            await redact_trashed(survey, redactor)
        counts = counts_of([find for survey in (own, *trashed) for find in survey.finds])
        await asyncio.to_thread(Audit(self._session.path).record, shown, "redaction", None, counts)

    def _redact_sidecar_files(self, state: StateManager, own: ScanResult, redactor: Redactor) -> None:
        meta = self._session.meta
        try:
            state.rewrite_requests(forgetting(redactor))
            state.forget_fingerprints(live_changes=any(log.timeline_id is None and log.lines for log in own.logs))
            members = {name: meta.get(name) for name in meta.names()}
            after, _ = redacted_meta(members, redactor)
            meta.write({name: value for name, value in after.items() if value != members.get(name)})
            redacted_files.carry_out_in_sidecar_files(own, redactor)
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, "redact the session", self._session.path) from error

    def outcome(self) -> RedactOutcome:
        """What was found, and the session as it is now."""
        surveys, redactor, rules = self._survey
        finds = tuple(find for survey in surveys for find in survey.finds)
        return RedactOutcome(self._session.head, finds, rules, without(self._session.summary(), redactor), redactor)

    def done(self, cause: Cause) -> tuple[Json, events.Redacted]:
        """The result, and what listeners are told where the log has changed."""
        outcome = self.outcome()
        assert self._render is not None
        told = events.Redacted(
            head=outcome.head,
            cause=cause,
            records=outcome.total(lambda find: find.records),
            occurrences=outcome.total(lambda find: find.occurrences),
            summary=outcome.context,
        )
        return self._render(outcome), told


def look_through(places: Sequence[tuple[Path, str | None]], order: RedactionRequest) -> Found:
    """Look for what is to be taken out. Blocking.

    Args:
        places: Directories of sessions, and what they are called in the trash.
        order: What is looked for.

    Raises:
        InvalidInputError, StorageFailureError: They cannot be looked through.
    """
    needle, rules = order.needle, None
    if needle is None:
        load_rules(order.rules)
        found = {
            (value, rule)
            for path, _ in places
            for text in redacted_files.every_text(path)
            for rule, value in secrets_in(text)
        }
        rules = dict(Counter(rule for _, rule in sorted(found)))
        needle = TextMatcher(value for value, _ in found)
    redactor = Redactor(needle, order.replacement)
    total = sum(file.bytes for path, _ in places for file in list_files(path))
    done = 0

    def told(size: int) -> None:
        nonlocal done
        done += size
        if order.progress is not None:
            order.progress(min(done, total), total)

    return [redacted_files.look_at(path, redactor, trash, told) for path, trash in places], redactor, rules


async def redact_trashed(survey: ScanResult, redactor: Redactor) -> None:
    """Redact the files of a session in the trash, under its lock.

    Raises:
        SessionLockedError, StorageFailureError: Some of it may be done; it can be asked for again.
    """
    async with held_in_trash(survey.directory):
        await asyncio.to_thread(redacted_files.carry_out, survey, redactor)


@asynccontextmanager
async def held_in_trash(directory: Path) -> AsyncIterator[None]:
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


def counts_of(finds: Iterable[FileMatches]) -> Json:
    """The audit entry of a redaction: counts, never the text."""
    found = [find for find in finds if find.occurrences]
    return {
        "files": len(found),
        "records": sum(find.records for find in found),
        "occurrences": sum(find.occurrences for find in found),
    }


def without(context: Summary, redactor: Redactor) -> Summary:
    """The facts of a log as they will be: a dry run does not repeat either what it is about."""

    def left(text: str | None) -> str | None:
        return None if text is None else redactor.text(text).text

    shown = [
        replace(checkpoint, label=left(checkpoint.label), preview=left(checkpoint.preview))
        for checkpoint in context.checkpoints
    ]
    return replace(context, checkpoints=tuple(shown), system_prompt=left(context.system_prompt))
