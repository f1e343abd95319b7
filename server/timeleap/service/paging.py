"""Pages of history, straight from the log's bytes; and the opaque cursors of all listings.

A page costs two binary searches in the index and one read; a message is copied from the log to the reply, it never
becomes a Python object (unless it carries our reserved key).

A cursor is base64url over a small JSON object. It carries the listing's name and its fixed parameters, so that one
from another listing, or made up, is refused as unknown instead of giving a wrong page.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from timeleap.errors import HeadConflictError, InvalidInputError
from timeleap.sessions.logs import begin_of, end_of, fitting, messages_among
from timeleap.storage.engine import LogReader, RecordFlag, Row
from timeleap.storage.record import SENDER, as_sent, read_tl

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

T = TypeVar("T")


def encode_cursor(listing: str, **position: Any) -> str:
    """Make a cursor of `listing` that holds `position`."""
    raw = msgspec.json.encode({"of": listing, **position})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode_cursor(cursor: str, listing: str, position: type[T]) -> T:
    """The position that `encode_cursor` put in, as a `position`. Raises `unknown_cursor`."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        members = msgspec.json.decode(raw, type=dict[str, Any])
        if members.pop("of", None) == listing:
            return msgspec.convert(members, position)
    except (binascii.Error, ValueError, msgspec.DecodeError, msgspec.ValidationError):
        pass
    raise unknown_cursor()


def unknown_cursor() -> InvalidInputError:
    """The error for what is no cursor of the listing."""
    return InvalidInputError.of("cursor", "unknown cursor: use the nextCursor of this listing")


class Offset(Struct, frozen=True):
    """The position in a simple listing: how many entries were given."""

    done: Annotated[int, msgspec.Meta(ge=0)]


def cursor_offset(cursor: str | None, listing: str) -> int:
    """The offset at which a simple listing continues; 0 without a cursor. Raises as `decode_cursor`."""
    return 0 if cursor is None else decode_cursor(cursor, listing, Offset).done


def cursor_after(done: int, total: int, listing: str) -> str | None:
    """The cursor of a simple listing that has given `done` of `total` entries; None at its end."""
    return encode_cursor(listing, done=done) if done < total else None


class Span(Struct, frozen=True):
    """Messages `[start, stop)` that are still to be shown, from which end, and of which log."""

    session_id: str
    start: int
    stop: int
    newest_first: bool
    timeline_id: str | None
    era: str

    def cursor(self, listing: str) -> str | None:
        """A cursor of `listing` that continues this span; None if nothing is left."""
        return encode_cursor(listing, **asdict(self)) if self.start < self.stop else None


def era_of(head: str) -> str:
    """The part of a head that changes with a rewrite, but not with an append."""
    return head.rpartition(".")[0]


def check_era(era: str, head: str) -> None:
    """Refuse a cursor from before a rewrite: HeadConflictError, with the present head."""
    if era != era_of(head):
        raise HeadConflictError("the log was rewritten since this cursor was given: start the listing again", head=head)


def position_of(cursor: str, listing: str, position: type[T], session: Session) -> T:
    """The position that a cursor of `listing` stands for, in a log of the session.

    Raises:
        InvalidInputError: It is no cursor of that listing of that session.
        HeadConflictError: The log was rewritten since.
    """
    found = decode_cursor(cursor, listing, position)
    left: Any = found
    if left.session_id != session.session_id:
        raise unknown_cursor()
    if left.timeline_id is None:
        check_era(left.era, session.head)
    return found


def page(reader: LogReader, span: Span, limit: int, max_bytes: int) -> tuple[list[dict[str, Any]], Span]:
    """The next messages of `span`, at least one and at most `limit` and about `max_bytes`; and what is left of it.

    Raises:
        InvalidInputError: The log has no such messages: the cursor is not one we gave.
    """
    if span.start >= span.stop:
        return [], span
    if not 0 <= span.start < span.stop <= reader.state.messages:
        raise unknown_cursor()
    wanted = min(limit, span.stop - span.start)
    if span.newest_first:
        rows = _within(_rows(reader, span.stop - wanted, span.stop, max_bytes, last=True)[::-1], max_bytes)
        left = replace(span, stop=span.stop - len(rows))
    else:
        rows = _within(_rows(reader, span.start, span.start + wanted, max_bytes, last=False), max_bytes)
        left = replace(span, start=span.start + len(rows))
    return [message_of(row) for row in rows], left


def _rows(reader: LogReader, first: int, after: int, max_bytes: int, *, last: bool) -> list[Row]:
    """Rows of the messages `[first, after)`: the first or the last of them, a little more than `max_bytes` at most."""
    start = reader.line_of_message(first)
    stop = reader.line_of_message(after - 1) + 1
    if not last:
        stop = fitting(reader, start, stop, max_bytes)
    elif (end := end_of(reader, stop - 1)) - begin_of(reader, start) > max_bytes:
        lines = range(start, stop - 1)
        start += bisect_left(lines, end - max_bytes, key=lambda line: begin_of(reader, line))
    return messages_among(reader.rows(start, stop))


def _within(rows: list[Row], max_bytes: int) -> list[Row]:
    """As many of the first rows as fit, at least one."""
    total = 0
    for count, row in enumerate(rows):
        total += len(row.body) + 1
        if count and total > max_bytes:
            return rows[:count]
    return rows


def message_of(row: Row) -> dict[str, Any]:
    """`{index, message, meta?}` of one message line."""
    if not row.flags & RecordFlag.HAS_TL:
        return {"index": row.messages_before, "message": msgspec.Raw(row.body)}
    tl = read_tl(row.body)
    meta = {"requestId": tl.get("r"), "batchId": tl.get("b"), "fromSessionId": tl.get(SENDER)}
    meta = {name: value for name, value in meta.items() if value is not None}
    found = {"index": row.messages_before, "message": msgspec.Raw(as_sent(row.body))}
    return {**found, "meta": meta} if meta else found
