"""context/replaceMessage: another message in the place of one, with all that came after it set aside."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from timeleap.errors import InvalidInputError
from timeleap.message_text import answered
from timeleap.service.service import guard
from timeleap.service.writing import check_message
from timeleap.sessions.kernel.append_records import decide_messages
from timeleap.sessions.kernel.change import NO_MARKS, Change, LogRewrite
from timeleap.sessions.kernel.rewrites import decide_revert
from timeleap.sessions.past import state_after
from timeleap.sessions.shapes import set_members

if TYPE_CHECKING:
    from timeleap.call import Call, WorkControl
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.companion import ScopeArguments
    from timeleap.sessions.kernel.session_view import SessionView
    from timeleap.sessions.session import Session
    from timeleap_protocol.structs.branches import ReplaceMessageParams


async def replace_message(service: Service, params: ReplaceMessageParams, call: Call) -> Json:
    """Put another message in the place of one."""
    check_message(params.message, ["message"])
    session = service.session(call, params)
    if call.progress is not None and not params.dry_run:
        call.progress("rewriting the log", None)
    if not session.meta.accompanied:
        return await _replace(session, params, call)
    work = partial(_replace, session, params, call)
    result: Json = await service.until_cancelled(call, params.session_id, lambda control: work(control=control))
    return result


async def _replace(
    session: Session, params: ReplaceMessageParams, call: Call, *, control: WorkControl | None = None
) -> Json:
    decide = partial(decide_replacement, index=params.message_index, message=params.message, heal=bool(params.heal))
    scope: ScopeArguments = {}
    if params.restore is not None:
        scope["restore"] = params.restore
    if params.on_conflict is not None:
        scope["on_conflict"] = params.on_conflict
    if control is not None:
        scope["control"] = control
    return await session.rewrite(guard(params, call), decide, bool(params.dry_run), **scope)


def decide_replacement(state: SessionView, index: int, message: Mapping[str, Any], heal: bool) -> Change:
    """Remove a message and all after it, and append another one, as one rewrite; `heal` as in a revert, unless the new
    message is the result that a call waits for.

    Raises:
        InvalidInputError: There is no such message; or the new one answers a call that does not wait there.
        TooLargeError: It is too large.
    """
    rewrite = _reverted(state, index, heal=False)
    answers = answered(message)
    open_calls = rewrite.exchange.calls if rewrite.exchange is not None else ()
    if not answers <= {*open_calls}:
        raise InvalidInputError.of("message", f"no tool call {min(answers)} waits for a result before message {index}")
    if answers and rewrite.exchange is not None:
        left = tuple(call_id for call_id in open_calls if call_id not in answers)
        exchange = replace(rewrite.exchange, calls=left)
        rewrite = replace(rewrite, exchange=exchange if left else None)
    elif heal:
        rewrite = _reverted(state, index, heal=True)
    records = decide_messages(rewrite.kept, [message], NO_MARKS, "off").records
    now, end = state.log.state, state_after(rewrite.kept, records)
    removed = {
        "messages": now.messages - end.messages,
        "checkpoints": now.checkpoints - end.checkpoints,
        "tokens": now.token_count - end.token_count,
    }
    exchange_told = None if rewrite.exchange is None else rewrite.exchange.wire()
    answer = {"removed": removed, **set_members(tool_exchange=exchange_told), "firstIndex": rewrite.kept.messages}
    replacement = replace(rewrite.replacement, records=records)
    return Change(rewrite=replace(rewrite, replacement=replacement, removed=removed, answer=answer))


def _reverted(state: SessionView, index: int, *, heal: bool) -> LogRewrite:
    rewrite = decide_revert(state, message_index=index, heal=heal).rewrite
    assert rewrite is not None
    return rewrite
