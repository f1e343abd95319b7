"""Taking something out of a session for good: the turn that keeps nothing of what was. What is taken out, and how, is the
work's to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from timeleap.sessions import events
from timeleap.sessions.outcomes import Cause, Mutation
from timeleap.sessions.session_state import StateManager
from timeleap.sessions.transaction import NOBODY, SessionTransactions, Transaction

Json = dict[str, Any]


class Scrub(Protocol):
    """Work that takes something out of a session for good (see `Scrubbing.scrub`)."""

    def look(self) -> None:
        """Find it. Blocking; nothing is changed yet."""
        ...

    async def carry_out(self, state: StateManager, cause: Cause) -> None:
        """Take it out of the logs and of all that stands beside them."""
        ...

    def clean(self, text: str) -> str:
        """A text without it."""
        ...

    def done(self, cause: Cause) -> tuple[Json, events.Event]:
        """The result, and what listeners are told where the log has changed."""
        ...


class Scrubbing(SessionTransactions):
    """The part of a session that takes something out of it."""

    async def scrub(self, work: Scrub, guard: Mutation = NOBODY) -> Json:
        """Take something out of the session at its turn. Of what was nothing is kept, not even the request: it is known
        only while this process lives, and asking again finishes what was cut short.

        Raises:
            ReadOnlyError: It is open to be looked at.
            TimeleapError: As `work`; some of it may be done.
        """
        self._refuse_reader()

        async def at_turn(transaction: Transaction) -> None:
            transaction.admit(self.head)
            await asyncio.to_thread(work.look)
            self._requests.forget_fingerprints()
            transaction.begin()
            request = transaction.request
            transaction.result = await self._carry_out(work, request.cause)
            if request.request_id is not None:
                self._requests.admit(request, request.expected_head or "")  # loads what is known: this is known, too
            transaction.before = ""  # nothing may be left in which a guess could be tried

        return await self._at_its_turn(guard, at_turn)

    async def _carry_out(self, work: Scrub, cause: Cause) -> Json:
        """Do the work, and tell the listeners: also of what was done before it failed."""
        before, head = self._session_state.facts, self.head
        try:
            await work.carry_out(self._session_state, cause)
        except BaseException:
            self._reread_scrubbed(work.clean)
            if self.head != head:
                self.emit(events.External(head=self.head, cause=cause))
            self._tell(before, cause)
            raise
        self._reread_scrubbed(work.clean)
        result, event = work.done(cause)
        if self.head != head:
            self.emit(event)
        self._tell(before, cause)
        return result

    def _reread_scrubbed(self, clean: Callable[[str], str]) -> None:
        """Take over what the files say now; nothing in memory is to remember more."""
        self._requests.forget()
        self.meta.refresh()
        self._session_state.load()
        self._notices = [{**notice, "message": clean(notice["message"])} for notice in self._notices]
