"""session/redact: taking a secret out of everything a session keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from timeleap.errors import InvalidInputError, NotSupportedByStoreError, SessionNotFoundError, StorageFailureError
from timeleap.features.redaction.matchers import ExpressionMatcher, Matcher, TextMatcher
from timeleap.features.redaction.redact_files import FileMatches, is_in, still_held
from timeleap.features.redaction.redaction import (
    RedactionRequest,
    RedactOutcome,
    SnapshotStore,
    plan_in_trash,
    plan_redact,
    redact,
    redact_in_trash,
)
from timeleap.features.redaction.redactor import Redactor
from timeleap.service.service import guard
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.shapes import set_members
from timeleap.store.home import in_trash
from timeleap.store.purging import PurgeRequest
from timeleap.summaries.log_spans import without_spans
from timeleap_protocol.limits import MAX_PAGE

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Source
    from timeleap_protocol.structs.redaction import SessionRedactParams

REPLACEMENTS = ("[redacted]", "***", "")
"""Default replacements: the first that does not contain the redacted text is used."""

RULES = "secret-rules"


async def redact_session(service: Service, params: SessionRedactParams, call: Call) -> Json:
    """Remove text from a session for good, or list its occurrences."""
    try:
        return await _redact_session(service, params, call)
    except NotSupportedByStoreError as error:  # it keeps a file that no installed part can look into
        error.data.setdefault("method", call.method)
        raise


async def _redact_session(service: Service, params: SessionRedactParams, call: Call) -> Json:
    needle, home = _needle(params), service.store.home
    order = RedactionRequest(
        needle,
        _replacement(needle, params.replacement),
        rules=home.path / RULES,
        snapshots=_snapshots(service),
        everywhere=bool(params.store),
    )
    used: list[Redactor] = []

    def render(outcome: RedactOutcome) -> Json:
        used.append(outcome.redactor)
        return _shown(service, outcome, places=bool(params.dry_run))

    def forget(redactor: Redactor) -> None:
        service.store.ledger.forget_fingerprints(params.session_id, redactor.clean)

    async def elsewhere(*skipped: Path) -> Json:
        if not params.store or not used:
            return {}
        places = [(each.session_id, each.path) for each in await service.store.glances({})]
        return {"alsoIn": await asyncio.to_thread(_holders, service, used[0], places, skipped)}

    async def untouched(source: Source | None) -> Json:
        """The files of another program that still hold it: these are not changed here."""
        if not used or source is None or source.path is None:
            return {}
        held = await asyncio.to_thread(still_held, Path(source.path), used[0])
        return {"untouched": [source.path]} if held else {}

    if params.deleted_at is not None:
        order = replace(order, progress=call.byte_progress("looking through it"))
        async with service.store.turn(params.session_id):
            request = PurgeRequest(params.session_id, params.deleted_at)
            name = (await service.store.trash.plan_purge(request)).purged[0].name
            async with service.store.backing.trashed(name) as (directory, keep):
                if params.dry_run:
                    result = render(await plan_in_trash(directory, order, params.expected_head))
                else:
                    result = await redact_in_trash(directory, order, render, guard(params, call), forget)
                    await asyncio.to_thread(keep)
                source = Meta(directory, "readOnly").source
        return {**result, **await elsewhere(home.trash / name), **await untouched(source)}
    async with service.borrowed(call, params) as session, AsyncExitStack() as held:
        # What takes time comes at the session's turn: nothing that was sent later is to get there first.
        looking = call.byte_progress("looking through the session")
        order = replace(_with_trash(service, session, order, held), progress=looking)
        if params.dry_run:
            await session.at_turn(lambda: session.expect_head(params.expected_head))
            result = render(await plan_redact(session, order))
        else:
            result = await redact(session, order, render, guard(params, call))
            if used:
                await asyncio.to_thread(home.sweep)
                await asyncio.to_thread(forget, used[0])
        await held.aclose()
        result |= await untouched(session.meta.source)
        return {**result, **await elsewhere(session.path, *(_trashed(service, session) if params.store else ()))}


def _needle(params: SessionRedactParams) -> Matcher | None:
    if params.value is not None:
        try:
            params.value.encode()
        except UnicodeEncodeError as error:
            raise _refused("value", f"half of a surrogate pair at character {error.start}", "value") from None
        return TextMatcher([params.value])
    if params.pattern is not None:
        return ExpressionMatcher(params.pattern)
    if not params.secrets:
        raise _refused("secrets", "say what is to be taken out: a value, a pattern, or secrets: true", "choice")
    return None


def _replacement(needle: Matcher | None, wanted: str | None) -> str:
    """The replacement text: it must not match the text to remove, nor end a line."""
    if wanted is None:
        return next(candidate for candidate in REPLACEMENTS if needle is None or not needle.spans(candidate))
    if any(char < " " or 0xD800 <= ord(char) < 0xE000 for char in wanted):
        raise _refused("replacement", "control characters and half surrogate pairs have no place in it", "value")
    if needle is not None and needle.spans(wanted):
        raise _refused("replacement", "it holds what is to be taken out", "value")
    return wanted


def _refused(name: str, text: str, kind: str) -> InvalidInputError:
    return InvalidInputError(f"{name}: {text}", errors=[{"loc": [name], "msg": text, "type": kind}])


def _snapshots(service: Service) -> SnapshotStore | None:
    """The snapshots of the store's files, if there are any."""
    kept: object = service.store.companions()
    return kept if isinstance(kept, SnapshotStore) else None


def _trashed(service: Service, session: Session) -> tuple[Path, ...]:
    """Directories in the trash with this session's id or uid: earlier sessions of that id, or copies."""
    if not service.store.contains(session.path):
        return ()
    return tuple(in_trash(service.store.home, session.session_id, session.meta.uid))


def _with_trash(service: Service, session: Session, order: RedactionRequest, held: AsyncExitStack) -> RedactionRequest:
    """Extend an order to the session's copies in the trash. Where the store has copies of them,
    these are `held` from the session's turn on."""
    if not service.store.backing.copies:
        return replace(order, trash=partial(_trashed, service, session))
    keeps: dict[Path, Callable[[], None]] = {}

    async def take() -> Sequence[Path]:
        await service.store.glances({})  # brings what is in the trash by now
        for name in sorted(path.name for path in await asyncio.to_thread(_trashed, service, session)):
            directory, keeps[directory] = await held.enter_async_context(service.store.backing.trashed(name))
        return tuple(keeps)

    loop = asyncio.get_running_loop()
    return replace(
        order,
        trash=lambda: asyncio.run_coroutine_threadsafe(take(), loop).result(),
        keep=lambda directory: keeps[directory](),
    )


def _holders(
    service: Service, redactor: Redactor, places: Sequence[tuple[str, Path]], skipped: Collection[Path]
) -> list[str]:
    """The ids of the store's other sessions that hold it, too, of `places` and of the trash; what cannot be looked at
    counts, since it may."""
    store = service.store
    own = [(name, path) for name, path in places if store.contains(path)]
    own += [(name, path) for name, _, path in store.home.trashed()]
    found: list[str] = []
    for name, path in own:
        if path in skipped or path.is_symlink() or not path.is_dir():
            continue
        try:
            with store.files(name, path) as directory:
                holds = is_in(directory, redactor)
        except SessionNotFoundError:
            continue  # it was deleted meanwhile
        except StorageFailureError:
            holds = True
        if holds and name not in found:
            found.append(name)
    return found


def _shown(service: Service, outcome: RedactOutcome, *, places: bool) -> Json:
    rules = (
        None if outcome.rules is None else [{"rule": rule, "values": number} for rule, number in outcome.rules.items()]
    )
    occurrences = outcome.total(lambda find: find.occurrences)
    return {
        "head": outcome.head,
        "redacted": occurrences > 0 or bool(outcome.snapshots),
        "records": outcome.total(lambda find: find.records),
        "occurrences": occurrences,
        "kept": outcome.total(lambda find: find.kept),
        "split": outcome.total(lambda find: find.split),
        "files": [_file(find, places) for find in outcome.finds if find.occurrences][:MAX_PAGE],
        **set_members(
            rules=rules,
            snapshots=[{"snapshot": held.snapshot, "root": held.root} for held in outcome.snapshots][:MAX_PAGE] or None,
            snapshotsUnread=outcome.snapshots_unread,
        ),
        # A dry run tells nothing of what would go: not what stands behind the previews either.
        **without_spans({"context": service.shapes.summary(outcome.context)}),
    }


def _file(find: FileMatches, places: bool) -> Json:
    shown = [
        {"line": place.line, **set_members(index=place.index), "occurrences": place.occurrences}
        for place in find.places
    ]
    return {
        "file": find.name,
        **set_members(trash=find.trash),
        "kind": find.kind,
        "records": find.records,
        "occurrences": find.occurrences,
        **set_members(places=shown if places else None, linked=find.linked or None),
    }
