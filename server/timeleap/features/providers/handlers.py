"""context/getHistory with a format: a history as the body of a request to a model's provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from timeleap.errors import InvalidInputError
from timeleap.service import reading
from timeleap.sessions.logs import OpenLogs, left_out, line_of_message, pages
from timeleap.sessions.past import prompt_at
from timeleap.sessions.shapes import set_members
from timeleap.storage.record import decode_json, encode_json
from timeleap_protocol.limits import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.features.providers.transcript import Format
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.service.time_slices import Work
    from timeleap.storage.reader import LogReader
    from timeleap_protocol.structs.context import GetHistoryParams

MOST_BYTES = MAX_MESSAGE_BYTES
"""Limit on a body: the most that providers take, and well below the size of a reply."""

_OF_PAGES = ("cursor", "limit", "order", "include")


def format_of(name: str) -> Format:
    from timeleap.features.providers import anthropic, openai

    return {"openai": openai.FORMAT, "anthropic": anthropic.FORMAT}[name]


async def get_history(service: Service, params: GetHistoryParams, call: Call) -> Json:
    """All messages in a provider's format: a part of them would mislead the model."""
    for name in _OF_PAGES:
        if getattr(params, name) is not None and (name, params.order) != ("order", "asc"):
            problem = {
                "loc": [name],
                "msg": "does not go with format: a body is all the messages, and nothing else",
                "type": "choice",
            }
            raise InvalidInputError(f"{name}: {problem['msg']}", errors=[problem])
    session = service.session(call, params)
    logs = await session.at_turn(lambda: OpenLogs(session.engine))
    log = logs.live() if params.timeline_id is None else logs.timeline(params.timeline_id)
    count = log.state.messages
    if params.checkpoint_uid is not None:
        start, stop = reading.messages_of_checkpoint(log, params.checkpoint_uid)
    else:
        start, stop = params.from_ or 0, count if params.to is None else min(params.to, count)
    max_bytes = min(params.max_bytes or MOST_BYTES, MOST_BYTES)
    return await service.slices.run(_work(params.format or "", log, (start, stop), max_bytes))


def _work(name: str, log: LogReader, messages: tuple[int, int], max_bytes: int) -> Work[Json]:
    from timeleap.features.providers.transcript import Transcript, too_large

    first, last = (line_of_message(log, message, log.state.lines) for message in messages)
    form = format_of(name)
    transcript = Transcript(prompt_at(log, log.state_before(last)), form, max_bytes)
    for gone in left_out(log, first if messages[0] else 0, last):
        transcript.losses.add(None, "damaged", gone)
    for page in pages(log, first, last):
        for row in page:
            transcript.add(row.messages_before, decode_json(row.body))
            yield row.line, last
    transcript.finish()
    text = encode_json(form.body(transcript))
    if len(text) > max_bytes:
        raise too_large(max_bytes)
    losses = transcript.losses
    return {
        "messages": [],
        "format": name,
        "body": msgspec.Raw(text),
        "losses": [
            {**set_members(index=loss.index), "kind": loss.kind, "message": loss.message} for loss in losses.listed()
        ],
        "lossCount": losses.count,
    }
