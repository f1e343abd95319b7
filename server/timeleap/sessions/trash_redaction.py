"""Taking something out of a session that lies in the trash: nobody has it open, so it is done on its files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from timeleap.errors import HeadConflictError
from timeleap.sessions import undo
from timeleap.sessions.audit import Audit
from timeleap.sessions.info import LOG_NAME
from timeleap.sessions.meta import Meta
from timeleap.sessions.outcomes import Cause, Summary
from timeleap.sessions.redacting import Order, RedactOutcome, counts_of, look_through, redact_trashed, without
from timeleap.sessions.summary import past_of, summarize
from timeleap.storage.sharing import share


@dataclass(frozen=True, slots=True)
class _State:
    head: str
    context: Summary


async def redact_in_trash(
    directory: Path, order: Order, cause: Cause, *, expected_head: str | None = None, dry_run: bool = False
) -> RedactOutcome:
    """Take something out of a session in the trash, or say where it stands.

    Args:
        directory: The session's directory there.
        order: What is to be taken out.
        cause: Who asks, for the audit.
        expected_head: Refuse unless this is the head.
        dry_run: Only look.

    Raises:
        HeadConflictError, InvalidInputError: Nothing was done.
        SessionLockedError, StorageFailureError: Some of it may be done; asking again finishes it.
    """
    async with _opened(directory) as before:
        if expected_head not in (None, before.head):
            raise HeadConflictError(f"the log has changed: its head is {before.head}", head=before.head)
    surveys, redactor, rules = await asyncio.to_thread(look_through, [(directory, directory.name)], order)
    finds = tuple(find for survey in surveys for find in survey.finds)
    if not dry_run:
        for survey in surveys:
            await redact_trashed(survey, redactor)
        request_id, client = (text and redactor.text(text).text for text in (cause.request_id, cause.client))
        shown = Cause(request_id, client)
        await asyncio.to_thread(Audit(directory).record, shown, "redaction", None, counts_of(finds))
    async with _opened(directory) as after:
        return RedactOutcome(after.head, finds, rules, without(after.context, redactor), redactor)


@asynccontextmanager
async def _opened(directory: Path) -> AsyncIterator[_State]:
    """The head and the facts of a log, as it is."""
    meta = Meta(directory, "readOnly")
    lease = await share(directory / LOG_NAME, access="read", lock="per-write", notes=meta)
    try:
        engine = lease.engine
        past = past_of(engine.timeline_ids(), undo.in_force(meta.get(undo.MEMBER), engine), engine.state)
        yield _State(engine.head, summarize(engine, past))
    finally:
        await lease.aclose()
