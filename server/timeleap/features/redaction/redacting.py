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
from timeleap.features.redaction import redaction
from timeleap.features.redaction.redact_sidecar_files import forgetting, redacted_meta
from timeleap.features.redaction.redaction import FileMatches, ScanResult
from timeleap.features.redaction.redactor import Redactor
from timeleap.features.redaction.secrets import load_rules, secrets_in
from timeleap.features.search.matchers import Matcher, TextMatcher
from timeleap.sessions import events
from timeleap.sessions.approvals import WantedApprovals
from timeleap.sessions.audit import Audit
from timeleap.sessions.info import LOG_NAME
from timeleap.sessions.outcomes import Cause, Mutation, Summary
from timeleap.sessions.session_files import list_files
from timeleap.sessions.summary import summarize
from timeleap.sessions.transaction import NOBODY, SessionTransactions, Transaction
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


class Redacting(SessionTransactions):
    """The part of a session that takes something out of it."""

    async def plan_redact(self, order: RedactionRequest) -> RedactOutcome:
        """Result of a dry run of `redact`. Others may use the session meanwhile.

        Raises:
            InvalidInputError, StorageFailureError: It cannot be looked through.
        """
        if self.access == "owner":
            await self.at_turn(lambda: None)
        return self._outcome(*await asyncio.to_thread(self._survey, order))

    async def redact(
        self, order: RedactionRequest, render: Callable[[RedactOutcome], Json], guard: Mutation = NOBODY
    ) -> Json:
        """Take something out of the session, and out of what lies of it in the trash; `render` makes the result.

        Raises:
            InvalidInputError, ReadOnlyError: Nothing was done.
            SessionLockedError, StorageFailureError: Some of it may be done; asking again finishes it.
        """
        self._refuse_reader()

        async def work(transaction: Transaction) -> None:
            transaction.admit(self.head)
            found = await asyncio.to_thread(self._survey, order)
            self._requests.forget_fingerprints()
            transaction.begin()
            request = transaction.request
            transaction.result = render(await self._redact(found, request.cause))
            if request.request_id is not None:
                self._requests.admit(request, request.expected_head or "")  # loads what is known: this is known, too
            transaction.before = ""  # nothing may be left in which a guess could be tried

        return await self._at_its_turn(guard, work)

    async def _redact(self, found: Found, cause: Cause) -> RedactOutcome:
        """Carry it out, and tell the listeners: also of what was done before it failed."""
        surveys, redactor, _ = found
        before, head = self._session_state.facts, self.head
        try:
            await self._carry_out(surveys, redactor, cause)
        except BaseException:
            self._reread_redacted(redactor)
            if self.head != head:
                self.emit(events.External(head=self.head, cause=cause))
            self._tell(before, cause)
            raise
        self._reread_redacted(redactor)
        outcome = self._outcome(*found)
        if self.head != head:
            records = outcome.total(lambda find: find.records)
            occurrences = outcome.total(lambda find: find.occurrences)
            told = events.Redacted(
                head=self.head, cause=cause, records=records, occurrences=occurrences, summary=outcome.context
            )
            self.emit(told)
        self._tell(before, cause)
        return outcome

    def _survey(self, order: RedactionRequest) -> Found:
        """Look at everything. Blocking."""
        return look_through([(self.path, None), *((path, path.name) for path in order.trash())], order)

    async def _carry_out(self, surveys: Sequence[ScanResult], redactor: Redactor, cause: Cause) -> None:
        own, *trashed = surveys
        # The client that asks may hold it in its own name.
        request_id, client = (text and redactor.text(text).text for text in (cause.request_id, cause.client))
        shown = Cause(request_id, client)
        actions = self._session_state.facts.approval.actions
        going = tuple(action for action in actions if redactor.text(action).occurrences)
        if going:
            # What runs without asking is known by its name: without that it is not approved any more.
            rest = tuple(action for action in actions if action not in going)
            now = self._session_state.facts.approval
            wanted = WantedApprovals(now.yolo, now.afk, rest, "autoApprove", len(actions), len(rest))
            await asyncio.to_thread(self._session_state.change_approvals, wanted, shown)
        await asyncio.to_thread(self._redact_sidecar_files, own, redactor)
        for log in reversed(own.logs):  # the live one last
            if log.lines:
                await self.engine.revise(log.edit(redactor), log.timeline_id)
        for survey in trashed:
            await redact_trashed(survey, redactor)
        counts = counts_of([find for survey in surveys for find in survey.finds])
        await asyncio.to_thread(Audit(self.path).record, shown, "redaction", None, counts)

    def _redact_sidecar_files(self, own: ScanResult, redactor: Redactor) -> None:
        try:
            self._session_state.rewrite_requests(forgetting(redactor))
            self._session_state.forget_fingerprints(
                live_changes=any(log.timeline_id is None and log.lines for log in own.logs)
            )
            members = {name: self.meta.get(name) for name in self.meta.names()}
            after, _ = redacted_meta(members, redactor)
            self.meta.write({name: value for name, value in after.items() if value != members.get(name)})
            redaction.carry_out_in_sidecar_files(own, redactor)
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, "redact the session", self.path) from error

    def _reread_redacted(self, redactor: Redactor) -> None:
        """Take over what the files say now; nothing in memory is to remember more."""
        self._requests.forget()
        self.meta.refresh()
        self._session_state.load()
        self._notices = [{**notice, "message": redactor.text(notice["message"]).text} for notice in self._notices]

    def _outcome(
        self, surveys: Sequence[ScanResult], redactor: Redactor, rules: dict[str, int] | None
    ) -> RedactOutcome:
        finds = tuple(find for survey in surveys for find in survey.finds)
        context = without(summarize(self.engine, self._past()), redactor)
        return RedactOutcome(self.head, finds, rules, context, redactor)


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
            for text in redaction.every_text(path)
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

    return [redaction.look_at(path, redactor, trash, told) for path, trash in places], redactor, rules


async def redact_trashed(survey: ScanResult, redactor: Redactor) -> None:
    """Redact the files of a session in the trash, under its lock.

    Raises:
        SessionLockedError, StorageFailureError: Some of it may be done; it can be asked for again.
    """
    async with held_in_trash(survey.directory):
        await asyncio.to_thread(redaction.carry_out, survey, redactor)


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
