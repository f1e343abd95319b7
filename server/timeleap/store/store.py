"""The store: many sessions under one home, opened by id or by path, listed, forked, deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import (
    InvalidInputError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    StorageFailureError,
    TimeleapError,
)
from timeleap.json_value import Json
from timeleap.sessions.companion import Companion
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import (
    AutoCheckpoint,
    Event,
    Mutation,
    Retention,
    SessionInfo,
    SessionPage,
    Shapes,
    Source,
)
from timeleap.sessions.transaction import NOBODY, SessionTransactions
from timeleap.storage.log_values import Durability, Progress
from timeleap.storage.owner_lock import Endpoint
from timeleap.store import creation, listing
from timeleap.store.approvals_port import StoreApprovals
from timeleap.store.backing import SessionBacking
from timeleap.store.companions_port import FindCompanions, nothing_kept
from timeleap.store.creation import Fork, Traits
from timeleap.store.home import Home, check_session_id, new_session_id
from timeleap.store.home_backing import HomeBacking
from timeleap.store.listing import Glance, ListRequest
from timeleap.store.open_sessions import Asked, Openings, SessionLocation
from timeleap.store.parts import no_approvals
from timeleap.store.purging import TrashParts
from timeleap.store.store_requests import Ledger
from timeleap.store.trash import Trash

__all__ = ["OpenedSession", "SessionInfo", "SessionStore"]
TRIES = 5
"""How often to open or make a session that other processes delete meanwhile."""


class OpenedSession(Struct, frozen=True):
    """A session that was opened: `created` by this request, or (`duplicate`) by the same request before, or neither."""

    session: Session
    created: bool = False
    duplicate: bool = False


class SessionStore:
    """Sessions in one home directory. One object of a session per process, with its openings counted.

    `backing` makes what keeps the sessions, `approvals` what keeps their approvals, `endpoint` says
    how other processes reach this one, whenever a session is opened to be written to, `companion` makes what goes along
    with the log of one session, and `companions` finds those of all sessions.

    Raises:
        StorageFailureError: The home cannot be used.
    """

    def __init__(
        self,
        home: Path,
        *,
        durability: Durability = "disk",
        shapes: Shapes | None = None,
        retention: Retention | None = None,
        approvals: Callable[[Home], StoreApprovals] = no_approvals,
        endpoint: Callable[[], Endpoint | None] = lambda: None,
        companion: Callable[[SessionTransactions], Companion] = Companion,
        companions: FindCompanions = nothing_kept,
        backing: Callable[[Home], SessionBacking] = HomeBacking,
    ) -> None:
        self.home = Home(home)
        self.backing = backing(self.home)
        self.ledger = Ledger(self.home, self.backing.own, self.backing.fetch_all)
        self._approvals = approvals(self.home)
        self.companions = companions
        self._openings = Openings(
            self.home,
            durability=durability,
            shapes=shapes or Shapes(),
            retention=retention or Retention(),
            approvals=self._approvals,
            endpoint=endpoint,
            companion=companion,
            backing=self.backing,
        )
        parts = TrashParts(self.home, self.ledger, self._approvals, companions, self._openings.turn)
        self.trash = Trash(parts, self.backing)

    # Opening and closing

    async def open(
        self,
        session_id: str | None = None,
        *,
        path: Path | None = None,
        create: bool = True,
        access: Asked = "write",
        title: str | None = None,
        system_prompt: str | None = None,
        workspace: str | None = None,
        source: Source | None = None,
        auto_checkpoint: AutoCheckpoint | None = None,
        guard: Mutation = NOBODY,
        progress: Progress | None = None,
    ) -> OpenedSession:
        """Open a session; one that is new is made, with title, system prompt, workspace and source, if `create` says so.

        Args:
            session_id: A new one is invented where neither this nor `path` is given.
            path: The directory of an existing session instead, the original program's included.
            auto_checkpoint: Stays until set otherwise. None leaves it as it is.
            guard: The request; its id counts if a session is made.

        Raises:
            InvalidSessionIdError, SessionNotFoundError, SessionExistsError, SessionLockedError, CorruptedError,
            StorageFailureError: Nothing was opened.
        """
        if path is not None:
            place = self.place(session_id, path)
            session_id, path = place.session_id, place.path
        else:
            if session_id is None:
                session_id, _ = await asyncio.to_thread(self.ledger.making, guard)
            if session_id is None:
                session_id = await asyncio.to_thread(self.ledger.reserve, guard, new_session_id())
            check_session_id(session_id)
        traits = Traits(title, system_prompt, workspace, auto_checkpoint, source=source)
        async with self._openings.turn(session_id):
            if path is not None:
                opened = OpenedSession(await self._openings.open(session_id, path, access, progress))
            else:
                opened = await self._open_own(session_id, traits if create else None, guard, access, progress)
        await opened.session.keep_auto_checkpoint(auto_checkpoint)
        return opened

    async def _open_own(
        self, session_id: str, traits: Traits | None, guard: Mutation, access: Asked, progress: Progress | None
    ) -> OpenedSession:
        """Open a session of the store at its turn, or (with `traits`) make it: again where another process has deleted it
        in between. Raises as `open`."""
        tries = TRIES if traits is not None else 1
        while True:
            tries -= 1
            try:
                async with self.backing.opening(session_id):
                    return await self._open_once(session_id, traits, guard, access, progress)
            except SessionNotFoundError:
                if tries == 0:
                    raise
            except StorageFailureError as error:
                if error.data.get("errno") != "ENOENT" or self._exists(session_id):
                    raise
                if tries == 0:
                    raise SessionNotFoundError(f"there is no session {session_id}", sessionId=session_id) from error

    async def _open_once(
        self, session_id: str, traits: Traits | None, guard: Mutation, access: Asked, progress: Progress | None
    ) -> OpenedSession:
        created = duplicate = False
        if session_id not in self._openings and not self._exists(session_id):
            if traits is None:
                raise SessionNotFoundError(f"there is no session {session_id}", sessionId=session_id)
            created = await asyncio.to_thread(self._create, session_id, traits, guard)
        if not created:
            duplicate = await self.made_by(session_id, guard)
        no_turn = contextlib.nullcontext()  # it is ours already
        async with self._taken_back(session_id, no_turn) if created else contextlib.nullcontext():
            session = await self._openings.open(session_id, None, access, progress)
        return OpenedSession(session, created, duplicate)

    @contextlib.asynccontextmanager
    async def borrowed(self, session_id: str, access: Asked, *, path: Path | None = None) -> AsyncIterator[Session]:
        """A session that exists, open or not, for the time of a block. Raises as `open`."""
        session = (await self.open(session_id, path=path, create=False, access=access)).session
        try:
            await self.backing.catch_up(session)  # it may have been open
            yield session
        finally:
            await session.aclose()

    def turn(self, session_id: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Serialize operations that move sessions of an id, or change them in place."""
        return self._openings.turn(session_id)

    def contains(self, path: Path) -> bool:
        """True if `path` is the directory of a session of this store."""
        return self.home.contains(path) is not None

    def place(self, session_id: str | None, path: Path | None) -> SessionLocation:
        """Where a session lies and what it is called here."""
        if path is not None:
            return self._openings.place(path, session_id)
        directory = self.locate(session_id or "")
        return SessionLocation(session_id or "", directory, None if self.contains(directory) else directory)

    def locate(self, session_id: str) -> Path:
        """The directory of a session of this store, or of one that is open by path. Raises as `Home.locate`."""
        session = self._openings.get(session_id)
        if session is None and self.backing.holds(check_session_id(session_id)):
            return self.home.sessions / session_id
        return session.path if session is not None else self.home.locate(session_id)

    async def join(self, path: Path) -> Session:
        """Count one more opening of the session in `path`. Raises SessionNotOpenError where it is not open here to be
        written to."""
        return await self._openings.join(self.place(None, path).session_id, path)

    async def aclose(self) -> None:
        """Finish what was accepted, and close all sessions."""
        await self._openings.shut_all()
        await asyncio.to_thread(self.backing.close)

    async def made_by(self, session_id: str, guard: Mutation) -> bool:
        """True if a session was created by this request (for one that is open already); raises InvalidInputError where
        it was by another one with this id."""
        if guard.request_id is None:
            return False
        return await asyncio.to_thread(lambda: self.ledger.made_by(self.locate(session_id), guard))

    def _exists(self, session_id: str) -> bool:
        try:
            self.home.locate(session_id)
        except SessionNotFoundError:
            return False
        return True

    def _create(self, session_id: str, traits: Traits, guard: Mutation) -> bool:
        """Make a session; returns False where another process has made it in the meantime: that is the one asked
        for."""
        self.ledger.making(guard)  # refuses an id that was used for another request
        try:
            self._build(session_id, guard, lambda directory: creation.build(directory, traits, guard))
        except SessionExistsError:
            self.backing.fetch(session_id)
            if not self._exists(session_id):
                raise  # an id that differs from it only by case is taken
            return False
        return True

    def _build(self, wanted: str | None, guard: Mutation, write: Callable[[Path], None]) -> str:
        session_id = self.ledger.reserve(guard, self.home.free_id(wanted))
        with self.home.building() as directory:
            write(directory)
            self._publish(directory, session_id)
        return session_id

    # The store as a whole

    async def list(self, request: ListRequest | None = None, others: Mapping[str, Path] | None = None) -> SessionPage:
        """A page of sessions, newest change first (see `listing.list_sessions`); `others` are directories outside of
        the store that are listed, too, by id."""
        elsewhere, request = self.elsewhere(others or {}), request or ListRequest()
        return await asyncio.to_thread(listing.list_sessions, self.home, elsewhere, request, self.backing)

    async def glances(self, others: Mapping[str, Path]) -> Sequence[Glance]:
        """All sessions, newest change first; `others` as of `list`. Their files are to be had from `files`."""
        await asyncio.to_thread(self.backing.fetch_all)
        return await asyncio.to_thread(listing.glances, self.home, self.elsewhere(others))

    def files(self, session_id: str, directory: Path | None = None) -> contextlib.AbstractContextManager[Path]:
        """The directory of a session, at `directory` if that is known, for the time of a block. Entering it blocks.
        Raises as `locate`, StorageFailureError."""
        path = self.locate(session_id) if directory is None else directory
        if path.parent not in (self.home.sessions, self.home.trash):
            return contextlib.nullcontext(path)
        return self.backing.files(path.name, path)

    def elsewhere(self, others: Mapping[str, Path]) -> dict[str, Path]:
        """By id: directories of sessions outside of the store, those of `others` and those that are open here."""
        open_here = {
            session.session_id: session.path for session in self._openings.sessions() if not self.contains(session.path)
        }
        return {**open_here, **others}

    async def fork(
        self,
        session_id: str,
        *,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        timeline_id: str | None = None,
        new_session_id: str | None = None,
        title: str | None = None,
        guard: Mutation = NOBODY,
    ) -> OpenedSession:
        """Copy the history of a session, open here, elsewhere or not at all, into a new one, and open that: up to and
        including a checkpoint's record, or all of it; of a timeline, or of the present log. Without a title it gets the
        session's with "(fork)".

        Raises:
            SessionNotFoundError, HeadConflictError, TimelineNotFoundError, CheckpointNotFoundError, SessionExistsError,
            CorruptedError, StorageFailureError: Nothing was made.
        """

        def plan(source: Session) -> Fork:
            source.expect_head(guard.expected_head)
            log = source.engine.view if timeline_id is None else source.engine.timeline(timeline_id)
            return creation.plan_fork(source, log, (checkpoint_id, checkpoint_uid), title)

        fork: Fork | TimeleapError
        lost: list[Json] = []
        async with contextlib.AsyncExitStack() as held:  # its log is read until the fork is built
            try:
                source = await held.enter_async_context(self._source(session_id))
                fork = await source.at_turn(lambda: plan(source))
                lost = source.warnings_of_forks() if timeline_id is None else []
            except TimeleapError as error:
                fork = error
            announced, made = await self.made_before(guard)
            if made is not None:
                return made
            if isinstance(fork, TimeleapError):
                raise fork
            wanted = announced if new_session_id is None else check_session_id(new_session_id)
            write = partial(creation.build_fork, fork=fork, guard=guard)
            opened = await self._placed(guard, partial(self._build, wanted, guard, write))
        if opened.created:
            opened.session.transactions.notices += lost
        return opened

    async def _placed(self, guard: Mutation, make: Callable[[], str]) -> OpenedSession:
        """Open a session that `make`, which blocks, gives its place and says the id of; or the one that the same request
        has made in another process at the same moment."""
        try:
            new_id = await asyncio.to_thread(make)
        except SessionExistsError:
            _, made = await self.made_before(guard)
            if made is None:
                raise
            return made
        async with self._taken_back(new_id, self._openings.turn(new_id)):
            return replace(await self.open(new_id, create=False), created=True)

    async def made_before(self, guard: Mutation) -> tuple[str | None, OpenedSession | None]:
        """The id that a request gave, or is to give, to its session; and that session, opened, if it was made.

        Raises:
            InvalidInputError: The request id was used for another session.
        """
        announced, exists = await asyncio.to_thread(self.ledger.making, guard)
        if announced is None or not exists:
            return announced, None
        return announced, replace(await self.open(announced, create=False), duplicate=True)

    async def put_in_place(self, directory: Path, session_id: str, guard: Mutation) -> OpenedSession:
        """Give what was built in `directory` (see `Home.building`) its place, durably and in one step, and open it.

        Raises:
            SessionExistsError: Somebody has taken the id meanwhile.
            StorageFailureError: It could not be moved.
        """

        def publish() -> str:
            name = self.ledger.reserve(guard, session_id)
            self._publish(directory, name)
            return name

        return await self._placed(guard, publish)

    @contextlib.asynccontextmanager
    async def _source(self, session_id: str) -> AsyncIterator[Session]:
        """A session, open or not, for the time of a block."""
        session = self._openings.again(session_id)  # without waiting, which would let later requests pass
        async with contextlib.aclosing(session) if session else self.borrowed(session_id, "read") as found:
            yield found

    @contextlib.asynccontextmanager
    async def _taken_back(
        self, session_id: str, turn: contextlib.AbstractAsyncContextManager[None]
    ) -> AsyncIterator[None]:
        """Remove a new session that its creator cannot open (no descriptors, no space), unless others have it open."""
        try:
            yield
        except SessionLockedError:
            raise
        except BaseException:
            await asyncio.shield(self._withdraw(session_id, turn))
            raise

    async def _withdraw(self, session_id: str, turn: contextlib.AbstractAsyncContextManager[None]) -> None:
        async with turn:
            if session_id not in self._openings:
                await self.backing.withdraw(session_id)

    async def delete(self, session_id: str, guard: Mutation = NOBODY) -> bool:
        """Move a session to the trash; returns False where the request is a repeat. One that is open here is closed
        first, and its listeners are told.

        Raises:
            HeadConflictError, SessionNotFoundError, SessionLockedError, StorageFailureError: It is where it was.
        """
        if guard.expected_head is not None and await asyncio.to_thread(self.ledger.moved, guard) is None:
            async with self._source(session_id) as found:
                await found.at_turn(partial(found.expect_head, guard.expected_head))
        async with self._openings.turn(session_id):
            if await asyncio.to_thread(self.ledger.moved, guard) is not None:
                return False
            path = await asyncio.to_thread(self.locate, session_id)
            if not self.contains(path):
                raise InvalidInputError(
                    f"session {session_id} does not lie in the store: close it, and delete it there"
                )
            session = self._openings.get(session_id)
            if session is not None:
                await self._openings.shut(session_id)
            async with self.backing.alone(path):
                await asyncio.to_thread(self.trash.take, session_id, path, guard)
        if session is not None:
            session.emit(Event("deleted", session.head, cause=guard.cause))
        return True

    def _publish(self, directory: Path, session_id: str) -> None:
        """Put a session in its place that was built aside. The approvals of another one that had its id are over."""
        self._approvals.retire(session_id)
        self.backing.publish(directory, session_id)
        self.home.publish(directory, session_id)
