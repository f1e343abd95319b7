"""session/merge: the summary of another session's messages, appended behind a checkpoint.

A merge is made under a request id of its own, of the other session, its head and where it began: so merging the same again
is known, whoever asks. The client's request id is remembered beside it, as for a note to another session.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap.call import NO_CONTROL, to_its_end
from timeleap.errors import CompactionFailedError, InvalidInputError, SessionNotFoundError, TimeleapError
from timeleap.features.compaction.handlers import CompactionInput, make_summary, plan_with, read_messages
from timeleap.features.compaction.ranges import find_place
from timeleap.features.compaction.sizes import text_length
from timeleap.features.compaction.summarizers import TooLongAnswerError
from timeleap.message_text import call_texts, harmless
from timeleap.service.service import guard
from timeleap.sessions.kernel.change import NO_MARKS, Change, Marks
from timeleap.sessions.kernel.members import decide_members
from timeleap.sessions.logs import common_lines, state_after_lines
from timeleap.sessions.past import find_line, has_uid, new_checkpoint, preview_of
from timeleap.sessions.request_table import MERGED
from timeleap.sessions.shapes import Mutation
from timeleap.storage.record import MADE_HERE, message_record

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.features.compaction.decisions import CompactionPlan
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap.storage.log_values import LogState
    from timeleap_protocol.structs.branches import SessionMergeParams

_MIN_CHARACTERS: Final = 2_400
"""A summary may always have so many."""
_NEXT_STEP: Final = "Hand in a shorter one, or let the summarizer builtin make it. Nothing was changed."


class SideBranch(Struct, frozen=True):
    """A session as it is merged into another one."""

    session_id: str
    uid: str
    title: str | None
    head: str
    since: int
    messages: list[Any]
    pins: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Tells one merge from another."""
        text = f"{self.uid}\n{self.head}\n{self.since}".encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    @property
    def name(self) -> str:
        """Title and id."""
        return f"{self.title} ({self.session_id})" if self.title else self.session_id

    def told(self) -> Json:
        """`MergedFrom` of the contract."""
        return {"sessionId": self.session_id, "head": self.head, "messages": len(self.messages)}


async def merge(service: Service, params: SessionMergeParams, call: Call) -> Json:
    """Append a summary of what another session has, behind a checkpoint."""
    session, dry = service.session(call, params), bool(params.dry_run)
    made_under = guard(params, call)
    if params.from_ == session.session_id:
        raise InvalidInputError.of("from", "a session cannot be merged into itself: name another one")
    if dry:
        await session.at_turn(lambda: session.expect_head(params.expected_head))
    else:
        stored = await session.answered(made_under)
        if stored is not None:
            return stored
    branch = await _read_branch(service, session, params)
    own, known = await _own_request(session, made_under, branch)
    if known is not None and not dry:
        return await _remembered(session, made_under, known)
    plan = await _summed_up(service, session, branch, params, call)
    decide = partial(decide_merge, branch, plan)
    if dry:
        head, state = await session.at_turn(lambda: (session.head, session.engine.state))
        return {"head": head, **(decide(state, NO_MARKS).result or {})}
    part = session.companion.for_checkpoint(None, made_under.cause, NO_CONTROL)
    result = await to_its_end(session.append_decided(own, decide, part))
    return await _remembered(session, made_under, result)


async def _remembered(session: Session, request: Mutation, result: Json) -> Json:
    """The answer, once the client's own request id is known, too."""
    if request.request_id is None:
        return result
    answer = {name: value for name, value in result.items() if name not in {"head", "duplicate"}}
    decide = partial(decide_members, meta={}, result=answer)
    done = await session.transactions.carry_out(replace(request, expected_head=None), decide)
    return {**done, **({"duplicate": True} if result.get("duplicate") else {})}


async def _read_branch(service: Service, session: Session, params: SessionMergeParams) -> SideBranch:
    try:
        async with service.store.borrowed(params.from_, "read") as there:
            related = not (await _lineage(service, session)).isdisjoint(await _lineage(service, there))
            since = await there.at_turn(partial(_begin, session, there, related, params))
            head, messages = await read_messages(there)
            title, pins, uid = there.facts.title, there.facts.pins, there.meta.uid
    except SessionNotFoundError as error:
        raise SessionNotFoundError(f"{error.message}: it cannot be merged", sessionId=params.from_) from None
    if since >= len(messages):
        raise InvalidInputError.of(
            "from", f"session {params.from_} has nothing new: it ends at message {len(messages)}"
        )
    return SideBranch(params.from_, uid, title, head, since, messages[since:], pins)


def _begin(session: Session, there: Session, related: bool, params: SessionMergeParams) -> int:
    """The message of the other session with which it begins to be a branch."""
    log = there.engine
    if params.since is not None:
        return find_place(log, params.since, "since")
    for child, source in ((there, session), (session, there)):
        parent = child.meta.parent
        uid = parent.checkpoint_uid if parent is not None and parent.session_id == source.session_id else None
        if uid is not None and has_uid(log, uid):
            return log.state_before(find_line(log, None, uid)).messages
    if not related:
        return 0
    return state_after_lines(log, common_lines(session.engine, log, log.state.lines)).messages


async def _lineage(service: Service, session: Session) -> set[str]:
    """The ids of a session and of those that it was forked from, as far as they are still there."""
    names, parent = {session.session_id}, session.meta.parent
    while parent is not None and parent.session_id not in names:
        names.add(parent.session_id)
        try:
            async with service.store.borrowed(parent.session_id, "read") as source:
                parent = source.meta.parent
        except TimeleapError:
            break
    return names


async def _own_request(session: Session, request: Mutation, branch: SideBranch) -> tuple[Mutation, Json | None]:
    """The request under which the merge is made; and its answer, where it was made and still stands in the log."""
    for attempt in count():
        name = f"{MADE_HERE}merge.{branch.identity}.{attempt}"
        own = replace(request, request_id=name, fingerprint=branch.identity[:16], earlier=tuple, again=False)
        known = await session.answered(replace(own, expected_head=None))
        if known is None:
            return own, None
        if has_uid(session.engine, known["checkpoint"]["uid"]):
            return own, known
    raise AssertionError  # there is always a next attempt


async def _summed_up(
    service: Service, session: Session, branch: SideBranch, params: SessionMergeParams, call: Call
) -> CompactionPlan:
    """The summary of a branch, with the pins of both sessions."""
    history = CompactionInput(branch.head, branch.messages, len(branch.messages))
    if params.summary is not None and not params.summary.strip():
        raise CompactionFailedError(f"the summary is empty. {_NEXT_STEP}", retryable=False)
    try:
        name, answer = await make_summary(service, history, params, call)
    except TooLongAnswerError:
        raise CompactionFailedError(f"the summariser gave back more than it got. {_NEXT_STEP}") from None
    size = sum(text_length(message) + sum(map(len, call_texts(message))) for message in branch.messages)
    if len(answer.text) > max(size, _MIN_CHARACTERS):
        raise CompactionFailedError(f"the summary is longer than the messages. {_NEXT_STEP}", retryable=False)
    pins = tuple(dict.fromkeys([*session.facts.pins, *branch.pins]))
    return await asyncio.to_thread(plan_with, history, name, answer, pins)


def decide_merge(branch: SideBranch, plan: CompactionPlan, state: LogState, marks: Marks) -> Change:
    """A checkpoint, and one user message that says where its summary comes from."""
    origin = f"Merged from session {branch.name} as it was at head {branch.head}: {len(branch.messages)} messages, summed up."
    texts = [f"<system>{harmless(origin)}</system>", plan.summary]
    message = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}
    label = f"before merging {branch.name}"
    record, made = new_checkpoint(state, state.next_checkpoint_id, label, preview_of(message), marks)
    told: Json = {"from": branch.told()}
    records = [record, message_record(message, {MERGED: {**told, **plan.review}})]
    result = {"checkpoint": made.wire(), "firstIndex": state.messages, **told, "summary": plan.summary, **plan.review}
    kind = ("merged", {"checkpoint": made.wire(), "firstIndex": state.messages, **told})
    return Change(records=records, made=[made], result=result, told=kind)
