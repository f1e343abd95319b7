"""A redaction's change of a session: lines, members and answers that hold a value are rewritten without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from timeleap.json_value import Json
from timeleap.sessions.kernel.session_view import changes
from timeleap.sessions.shapes import CONTEXT, Cause, Event, Mutation

if TYPE_CHECKING:
    from timeleap.sessions.request_table import Transaction
    from timeleap.sessions.session_state import StateManager
    from timeleap.sessions.transaction import SessionTransactions


class Scrub(Protocol):
    """Work that takes something out of a session for good (see `removing.scrub`)."""

    def look(self) -> None:
        """Find it. Blocking; nothing is changed yet."""

    async def carry_out(self, state: StateManager, cause: Cause) -> None:
        """Take it out of the logs and of all that stands beside them."""

    def clean(self, text: str) -> str:
        """A text without it."""
        ...

    def done(self) -> tuple[Json, Json]:
        """The result, and the members of what listeners are told where the log has changed."""
        ...


async def scrub(
    transactions: SessionTransactions, guard: Mutation, work: Scrub, redact_more: Callable[[Callable[[str], str]], None]
) -> Json:
    """Take something out of the session at its turn. Of what was nothing is kept, not even the request: it is known
    only while this process lives, and asking again finishes what was cut short.

    Args:
        guard: The request.
        work: Does it.
        redact_more: Takes it out of what else is in memory.

    Raises:
        ReadOnlyError: It is open to be looked at.
        TimeleapError: As `work`; some of it may be done.
    """

    def reread() -> None:
        # Nothing in memory is to remember more than the files say now.
        transactions.requests.forget()
        transactions.meta.refresh()
        transactions.state.load()
        transactions.notices = [{**notice, "message": work.clean(notice["message"])} for notice in transactions.notices]
        redact_more(work.clean)

    async def on_turn(transaction: Transaction) -> None:
        request = transaction.request
        transaction.admit(transactions.head)
        await asyncio.to_thread(work.look)
        transactions.requests.forget_fingerprints()
        transaction.begin()
        if transactions.shared is not None:
            transactions.shared.forget()
        before, head = transactions.state.facts, transactions.head

        def told(kind: str, members: Json) -> list[Event]:
            moved = [Event(kind, transactions.head, members, CONTEXT)] if transactions.head != head else []
            return moved + changes(before, transactions.state.facts, transactions.head)

        try:
            await work.carry_out(transactions.state, request.cause)
            reread()
            result, members = work.done()
        except BaseException:
            reread()
            transactions.tell(told("external", {}), request.cause)  # also of what was done before it failed
            raise
        if request.request_id is not None:
            transactions.requests.load()  # else this is not among what is known
        transaction.before = ""  # nothing may be left in which a guess could be tried
        transaction.record(result, None)
        transaction.events += told("redacted", members)

    return await transactions.at_its_turn(guard, on_turn)
