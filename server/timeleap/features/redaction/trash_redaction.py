"""Taking something out of a session that lies in the trash: nobody has it open, so it is done on its files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timeleap.errors import HeadConflictError
from timeleap.failpoints import failpoint
from timeleap.features.redaction import redaction
from timeleap.features.redaction.redact_sidecar_files import forgetting
from timeleap.features.redaction.redacting import (
    Found,
    RedactionRequest,
    RedactOutcome,
    counts_of,
    held_in_trash,
    look_through,
    without,
)
from timeleap.features.redaction.redactor import Redactor
from timeleap.sessions import undo
from timeleap.sessions.audit import Audit
from timeleap.sessions.meta import Meta
from timeleap.sessions.outcomes import Cause, Mutation, Summary
from timeleap.sessions.requests import RequestFile, encode, short
from timeleap.sessions.session_files import LOG_NAME
from timeleap.sessions.stored_response import HIGHEST, StoredResponse
from timeleap.sessions.summary import past_of, summarize
from timeleap.storage.log_files import share

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _State:
    head: str
    context: Summary


async def plan_in_trash(directory: Path, order: RedactionRequest, expected_head: str | None) -> RedactOutcome:
    """Result of a dry run of `redact_in_trash`.

    Raises:
        HeadConflictError, InvalidInputError, StorageFailureError: It cannot be looked through.
    """
    found, context = await _look(directory, order, expected_head)
    return _outcome(found, context)


async def redact_in_trash(
    directory: Path,
    order: RedactionRequest,
    render: Callable[[RedactOutcome], Json],
    guard: Mutation,
    forget: Callable[[Redactor], None],
) -> Json:
    """Take something out of a session in the trash.

    The request is noted last, and only its id: who was cut short before asks again, finds what is left, and finishes it.

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
    async with held_in_trash(directory):
        if (answer := await asyncio.to_thread(_noted, directory, guard)) is not None:
            async with _opened(directory) as now:
                return {**answer, "duplicate": True, "head": now.head}
        found, _ = await _look(directory, order, guard.expected_head)
        (survey,), redactor, _ = found
        await asyncio.to_thread(redaction.carry_out, survey, redactor)
        request_id, client = (
            text and redactor.text(text).text for text in (guard.cause.request_id, guard.cause.client)
        )
        shown = Cause(request_id, client)
        await asyncio.to_thread(Audit(directory).record, shown, "redaction", None, counts_of(survey.finds))
        await asyncio.to_thread(forget, redactor)
        async with _opened(directory) as after:
            result = render(_outcome(found, after))
        failpoint("redact.before_note")
        await asyncio.to_thread(_note, directory, guard, redactor, result)
        return result


async def _look(directory: Path, order: RedactionRequest, expected_head: str | None) -> tuple[Found, _State]:
    async with _opened(directory) as before:
        if expected_head not in (None, before.head):
            raise HeadConflictError(f"the log has changed: its head is {before.head}", head=before.head)
    return await asyncio.to_thread(look_through, [(directory, directory.name)], order), before


def _outcome(found: Found, now: _State) -> RedactOutcome:
    surveys, redactor, rules = found
    finds = tuple(find for survey in surveys for find in survey.finds)
    return RedactOutcome(now.head, finds, rules, without(now.context, redactor), redactor)


def _noted(directory: Path, guard: Mutation) -> Json | None:
    """The stored result of a redaction with the request's id."""
    if guard.request_id is None:
        return None
    for name, known in reversed(RequestFile(directory).read()):
        if (name, known.method) == (guard.request_id, short(guard.method)):
            return dict(known.result or {})
    return None


def _note(directory: Path, guard: Mutation, redactor: Redactor, result: Mapping[str, Any]) -> None:
    """Note the request with the session's others, without a fingerprint; not at all if its id held what went."""
    if guard.request_id is None:
        return
    requests = RequestFile(directory)
    number = min(max(requests.numbers().values(), default=0) + 1, HIGHEST)
    line = forgetting(redactor)(
        encode(guard.request_id, StoredResponse("", short(guard.method), result, number=number))
    )
    if line["r"] == guard.request_id:
        requests.append([line])


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
