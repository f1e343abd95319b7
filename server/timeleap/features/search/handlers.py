"""context/search and session/search: finding what was said, in one session or in all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from timeleap.errors import CorruptedError, SessionNotFoundError, StorageFailureError, TimelineNotFoundError
from timeleap.features.search.pattern import pattern
from timeleap.features.search.search import Hit, SearchPage, SearchPosition, SearchQuery, Unread, search
from timeleap.service import cursors
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.logs import OpenLogs, era_of
from timeleap.sessions.shapes import set_members
from timeleap.storage.log_files import StoredLogs
from timeleap.store.listing import Glance
from timeleap_protocol.limits import DEFAULT_PAGE

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.service.time_slices import Work
    from timeleap.store.store import SessionStore
    from timeleap_protocol.structs.past import SearchParams, SessionSearchParams


class SearchCursor(Struct, frozen=True):
    """Position at which a search of a session continues, and its query."""

    session_id: str
    query: str
    timeline_id: str | None
    index: int
    era: str


class StoreLeft(Struct, frozen=True):
    """Position at which a search of the store continues: in the session that had its last change then."""

    query: str
    session_id: str
    changed: int
    timeline_id: str | None
    index: int


async def search_context(service: Service, params: SearchParams, call: Call) -> Json:
    """Messages of one session."""
    session = service.session(call, params)
    query, asked = _query(params), _asked(params)
    era, logs = await session.at_turn(lambda: (era_of(session.head), OpenLogs(session.engine)))
    begin = None
    if params.cursor is not None:
        left = cursors.decode_cursor(params.cursor, call.method, SearchCursor)
        if (left.session_id, left.query) != (session.session_id, asked) or left.index < 0:
            raise cursors.unknown_cursor()
        cursors.check_era(left.era, session.head)
        begin = SearchPosition(left.timeline_id, left.index)
    found = await service.slices.run(search(logs, query, begin), call.byte_progress("searching"))
    cursor = None
    if (place := found.following) is not None:
        left = SearchCursor(session.session_id, asked, place.timeline_id, place.index, era)
        cursor = cursors.encode_cursor(call.method, **asdict(left))
    return {
        "matches": [_match(hit) for hit in found.hits],
        **set_members(nextCursor=cursor, unread=[_unread(unread) for unread in found.unread] or None),
    }


async def search_store(service: Service, params: SessionSearchParams, call: Call) -> Json:
    """Messages of all sessions: the session changed last comes first. All of it is read from disk, so that sessions
    which are live in other processes are no exception."""
    query, asked = _query(params), _asked(params)
    begin = None
    if params.cursor is not None:
        begin = cursors.decode_cursor(params.cursor, call.method, StoreLeft)
        if begin.query != asked or begin.index < 0:
            raise cursors.unknown_cursor()
    places = [attachment.place for attachment in service.attached(call).values()]
    elsewhere = {place.session_id: place.path for place in places if place.path is not None}
    rest = list(await service.store.glances(elsewhere))
    if begin is not None:
        left_at = (begin.changed, begin.session_id)
        rest = [
            session
            for session in rest
            if session.session_id == begin.session_id or (session.changed, session.session_id) < left_at
        ]
        # It may have changed, and moved up, since.
        rest.sort(key=lambda session: session.session_id != begin.session_id)
    work = _search_sessions(service.store, rest, query, begin, asked)
    report = call.byte_progress("searching")
    told = None if report is None else (lambda done, each: report(done, each * len(rest)))
    matches, unread, left = await service.slices.run(work, told)
    cursor = left and cursors.encode_cursor(call.method, **asdict(left))
    return {"matches": matches, **set_members(nextCursor=cursor, unread=unread or None)}


def _search_sessions(
    store: SessionStore, sessions: Sequence[Glance], query: SearchQuery, begin: StoreLeft | None, asked: str
) -> Work[tuple[list[Json], list[Json], StoreLeft | None]]:
    matches: list[Json] = []
    unread: list[Json] = []
    left = None
    for number, session in enumerate(sessions):
        place = None
        if begin is not None and session.session_id == begin.session_id:
            place = SearchPosition(begin.timeline_id, begin.index)
        try:
            room = replace(query, limit=query.limit - len(matches))
            with store.files(session.session_id, session.path) as directory:
                found = yield from _passing_on(search(StoredLogs(directory / LOG_NAME), room, place), number)
        except TimelineNotFoundError:
            continue  # where the search was to go on in it is gone
        except (StorageFailureError, CorruptedError, SessionNotFoundError) as error:
            unread.append({"sessionId": session.session_id, "message": error.message})
            continue
        matches += [{"sessionId": session.session_id, **_match(hit)} for hit in found.hits]
        unread += [{"sessionId": session.session_id, **_unread(each)} for each in found.unread]
        following = found.following
        if following is not None or (len(matches) >= query.limit and number + 1 < len(sessions)):
            there = session if following is not None else sessions[number + 1]
            place = following or SearchPosition(None, 0)
            left = StoreLeft(asked, there.session_id, there.changed, place.timeline_id, place.index)
            break
    return matches, unread, left


def _passing_on(searching: Work[SearchPage], number: int) -> Work[SearchPage]:
    """The search of the session `number`; its progress is reported in thousandths of a session."""
    while True:
        try:
            done, total = next(searching)
        except StopIteration as stop:
            found: SearchPage = stop.value
            return found
        yield number * 1000 + done * 1000 // max(1, total), 1000


def _query(params: SearchParams | SessionSearchParams) -> SearchQuery:
    return SearchQuery(
        pattern=pattern(params.query, regex=bool(params.regex), ignore_case=bool(params.ignore_case)),
        timelines=params.timelines is not False,
        distinct=bool(params.distinct),
        excerpts=bool(params.excerpts),
        limit=params.limit or DEFAULT_PAGE,
    )


def _asked(params: Any) -> str:
    """Fingerprint of a search: a cursor is valid for the search that made it only."""
    members = [params.query, bool(params.regex), bool(params.ignore_case), params.timelines, bool(params.distinct)]
    return hashlib.blake2b(json.dumps(members).encode(), digest_size=8).hexdigest()


def _match(hit: Hit) -> Json:
    shown = hit.excerpt
    return {
        "index": hit.index,
        **set_members(timelineId=hit.timeline_id),
        "ranges": [list(span) for span in hit.ranges],
        **set_members(moreRanges=hit.more or None, excerpt=shown and {"start": shown[0], "text": shown[1]}),
    }


def _unread(unread: Unread) -> Json:
    return {**set_members(timelineId=unread.timeline_id), "message": unread.message}
