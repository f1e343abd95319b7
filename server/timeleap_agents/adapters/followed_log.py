"""The log of one session as an adapter follows it: read once, then only what is new, and told from one that was rewritten.

Other windows change the log at any time. What an adapter writes carries the head that it knows, so that it lands where
the adapter believes it lands, or nowhere.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from timeleap.json_value import Json
from timeleap_client import Notification, RawTimeleap, TimeleapRpcError, method_names

K = TypeVar("K")

APPENDING: Final = frozenset({"messagesAppended", "checkpointCreated", "tokenCountUpdated", "systemPromptSet"})
"""The kinds of `context/didChange` that leave in place what was in the log."""
_PAGE: Final = 1000
_TL: Final = "_tl"


class LogMovedError(Exception):
    """Somebody else changed the log since it was read last. It was read again; decide again what to write."""


def session_id_of(prefix: str, *key: str) -> str:
    """The id of the session that keeps what another program calls `key`; two keys never get the same one."""
    digest = hashlib.blake2b(digest_size=12)
    for part in key:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return f"{prefix}-{digest.hexdigest()}"


class FollowedLog(Generic[K]):
    """A session whose log is followed; `open` opens it.

    Args:
        client: A running client.
        session_id: The session's id.
        source: Kind and key of the conversation in the other program.
        keep: What to keep of each record in memory; None: nothing of it.

    Attributes:
        head: The head of the log as far as it is known.
        kept: What is kept of the records of the live log, in their order.
        timelines: How many timelines the session had when it was read last.
        rewritten: Somebody else rewrote the log (revert, undo, clear ...) since this was set to False.
        lost: What was kept before that.
        title: The session's title; None if it has none.
    """

    def __init__(
        self, client: RawTimeleap, session_id: str, source: tuple[str, str], keep: Callable[[Json], K | None]
    ) -> None:
        self.session_id = session_id
        self.head = ""
        self.kept: list[K] = []
        self.timelines = 0
        self.rewritten = False
        self.lost: list[K] = []
        self.title: str | None = None
        self._client = client
        self._source = source
        self._keep = keep
        self._tail: Json | None = None
        self._lines = 0
        self._read_head = ""
        self._moved = False
        self._whole: list[Json] | None = None  # the records as they are read, while somebody wants them
        self._own_rewrite = False
        self._stop: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        """True from `open` until `close`."""
        return self._stop is not None

    async def open(self, *, create: bool, **traits: Any) -> bool:
        """Open it, without reading it yet; returns False where there is no such session and none is to be made.

        Args:
            create: Whether to make it.
            **traits: Params of `session/open` for a new one.

        Raises:
            TimeleapRpcError: It cannot be opened.
        """
        kind, key = self._source
        made = {**traits, "source": {"kind": kind, "key": key}} if create else {}
        try:
            state = await self._client.call(
                method_names.SESSION_OPEN, {"sessionId": self.session_id, "create": create, **made}
            )
        except TimeleapRpcError as error:
            if error.kind == "sessionNotFound" and not create:
                return False
            raise
        self._stop = self._client.on(self._note, method_names.CONTEXT_DID_CHANGE, session_id=self.session_id)
        self._begin_again()
        self.head, self.title = state["head"], state["title"]
        return True

    async def close(self) -> None:
        """Close it. Idempotent."""
        if self._stop is not None:
            self._stop()
            self._stop = None
            await self._client.call(method_names.SESSION_CLOSE, {"sessionId": self.session_id})

    async def refresh(self) -> None:
        """Read what is new in the log; all of it, if it was rewritten."""
        await self._read(await self._client.call(method_names.SESSION_GET_STATE, {"sessionId": self.session_id}))

    async def refresh_whole(self) -> list[Json]:
        """Read all of the log, as `refresh` does where it was rewritten; returns its records, which are the caller's."""
        self._begin_again()
        self._whole = []
        await self.refresh()
        whole, self._whole = self._whole, None
        self._tail = copy.deepcopy(self._tail)
        return whole

    async def append(self, items: Sequence[Json]) -> None:
        """Append messages, opaque records, checkpoints and token counts, as `context/appendMessage` takes them, as one
        step. The last is no checkpoint: what its record says is the server's to know.

        Raises:
            LogMovedError: Nothing was written.
        """
        await self._change(method_names.CONTEXT_APPEND_MESSAGE, messages=list(items))
        # They follow what is known, else they would have been refused.
        for item in items:
            self._take(self._lines, _record_of(item))
        self._read_head = self.head

    async def rewrite(self, method: str, **params: Any) -> Json:
        """Carry out `context/revertTo`, `context/undo` or the like, and read the log again.

        Raises:
            LogMovedError: Nothing was changed.
        """
        self._own_rewrite = True
        try:
            result = await self._change(method, **params)
        finally:
            self._own_rewrite = False
        self._begin_again()
        await self.refresh()
        return result

    async def set_title(self, title: str) -> None:
        """Name the session."""
        self.title = title
        await self._client.call(method_names.SESSION_SET_TITLE, {"sessionId": self.session_id, "title": title})

    async def read(self, timeline_id: str | None = None) -> list[Json]:
        """All records of the live log, or of a timeline, without what the server added to them."""
        while True:
            try:
                return [_bare(row["record"]) for row in await self._rows(0, timeline_id)]
            except LogMovedError:
                continue

    async def timeline_ids(self) -> list[str]:
        """The timelines, newest first."""
        found: list[str] = []
        cursor: str | None = None
        while True:
            params = {"sessionId": self.session_id, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            page = await self._client.call(method_names.CONTEXT_LIST_TIMELINES, params)
            found += [timeline["timelineId"] for timeline in page["timelines"]]
            if (cursor := page.get("nextCursor")) is None:
                return found

    async def _change(self, method: str, **params: Any) -> Json:
        try:
            asked = {"sessionId": self.session_id, "expectedHead": self.head, **params}
            result: Json = await self._client.call(method, asked)
        except TimeleapRpcError as error:
            if error.kind != "contentModified":
                raise
            await self.refresh()
            raise LogMovedError(str(error)) from error
        self.head = result["head"]
        return result

    async def _read(self, state: Json) -> None:
        while True:
            self.timelines = state["context"]["timelines"]
            self.title = state["title"]
            if state["head"] == self._read_head and not self._moved:
                return
            try:
                if self._moved or not await self._grew():
                    if self._lines and not self.rewritten:
                        self.rewritten, self.lost = True, self.kept
                    self._begin_again()
                    self._whole = None if self._whole is None else []
                # Read after the head was asked for: what comes in between moves the head, and the next change finds out.
                for row in await self._rows(self._lines):
                    record = _bare(row["record"])
                    self._take(row["line"], record)
                    if self._whole is not None:
                        self._whole.append(record)
            except LogMovedError:
                self._moved = True
                state = await self._client.call(method_names.SESSION_GET_STATE, {"sessionId": self.session_id})
                continue
            self.head = self._read_head = state["head"]
            return

    async def _grew(self) -> bool:
        """True if the last record that is known still stands where it stood."""
        if self._tail is None:
            return True
        params = {"sessionId": self.session_id, "from": self._lines - 1, "to": self._lines}
        page = await self._client.call(method_names.CONTEXT_GET_RECORDS, params)
        return [_bare(row["record"]) for row in page["records"]] == [self._tail]

    async def _rows(self, start: int, timeline_id: str | None = None) -> list[Json]:
        """The records from line `start` on with their lines, all of one state of the log.

        Raises:
            LogMovedError: The log was rewritten meanwhile.
        """
        found: list[Json] = []
        where: Json = {"from": start} if timeline_id is None else {"from": start, "timelineId": timeline_id}
        while where:
            try:
                params = {"sessionId": self.session_id, "limit": _PAGE, **where}
                page = await self._client.call(method_names.CONTEXT_GET_RECORDS, params)
            except TimeleapRpcError as error:
                if error.kind == "contentModified":
                    raise LogMovedError(str(error)) from error
                raise
            where = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
            found += page["records"]
        return found

    def _take(self, line: int, record: Json) -> None:
        self._lines = line + 1
        self._tail = record
        if (kept := self._keep(record)) is not None:
            self.kept.append(kept)

    def _begin_again(self) -> None:
        self.kept = []
        self._tail = None
        self._lines = 0
        self._read_head = ""
        self._moved = False

    def _note(self, notification: Notification) -> None:
        if notification.params.get("kind") not in APPENDING and not self._own_rewrite:
            self._moved = True


def _record_of(item: Json) -> Json:
    """The record that an item of an append becomes, as far as it can be told."""
    if "role" in item:
        return item
    if "record" in item:
        return dict(item["record"])
    return {"role": "_usage", "token_count": item["tokenCount"]} if "tokenCount" in item else {"role": "_checkpoint"}


def _bare(record: Json) -> Json:
    """The record, which was read for us alone, without what the server added to it."""
    record.pop(_TL, None)
    return record
