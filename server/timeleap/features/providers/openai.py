"""The body of a request to OpenAI's Chat Completions, and to the many servers that speak it.

A call's id may have 40 characters and a tool's name 64 of few kinds; results follow their calls, and hold text only.
Thoughts are not part of the format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from timeleap.features.providers.transcript import Format, Ids, Losses, Picture, Piece, Text, Transcript, Turn
from timeleap.json_value import Json
from timeleap.storage.record import encode_json

LONGEST_ID: Final = 40
BEGIN: Final = "(The conversation begins here.)"
PICTURES: Final = "(The pictures among these results:)"

_NAME: Final = re.compile(r"[^\s<|\\/>]{1,64}")


def _body(transcript: Transcript) -> Json:
    """`{messages}`."""
    ids = Ids(LONGEST_ID, any_character=True)
    messages: list[Json] = []
    if transcript.system is not None:
        messages.append({"role": "system", "content": transcript.system})
    for turn in transcript.turns:
        messages += _messages(turn, ids, transcript.losses)
    if not messages:
        transcript.losses.add(None, "userAdded", "there is no message; the body has to have one")
        messages.append({"role": "user", "content": BEGIN})
    return {"messages": messages}


def _messages(turn: Turn, ids: Ids, losses: Losses) -> list[Json]:
    if not turn.calls:
        return [_named({"role": turn.role, "content": _content(turn.pieces)}, turn, losses)]
    calls: list[Json] = []
    results: list[Json] = []
    pictures: list[Piece] = []
    for call in turn.calls:
        call_id, (name, found) = ids.of(call.id), call.as_sent(turn.index, losses)
        # Many servers read it, and refuse the whole request if it is no object.
        arguments = call.arguments if found is not None else encode_json({"arguments": call.arguments}).decode()
        calls.append({"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}})
        said = [piece for piece in call.result or () if isinstance(piece, Text)]
        pictures += [piece for piece in call.result or () if isinstance(piece, Picture)]
        results.append({"role": "tool", "tool_call_id": call_id, "content": _content(said) if said else ""})
    message = {"role": "assistant", "content": _content(turn.pieces) if turn.pieces else None, "tool_calls": calls}
    if pictures:
        losses.add(turn.index, "order", "the pictures among its results are a user's message after them")
        results.append({"role": "user", "content": _content([Text(PICTURES), *pictures])})
    return [_named(message, turn, losses), *results]


def _named(message: Json, turn: Turn, losses: Losses) -> Json:
    if turn.name is not None:
        if _NAME.fullmatch(turn.name) and turn.name.isprintable():
            return {**message, "name": turn.name}
        losses.add(turn.index, "name", f"the name {turn.name[:80]} is left out")
    return message


def _content(pieces: Sequence[Piece]) -> str | list[Json]:
    match pieces:
        case [Text(text)]:
            return text
        case _:
            return [_part(piece) for piece in pieces]


def _part(piece: Piece) -> Json:
    if isinstance(piece, Picture):
        url = piece.url or f"data:{piece.media_type};base64,{piece.data}"
        detail = {"detail": piece.detail} if piece.detail else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    return {"type": "text", "text": piece.text}


FORMAT: Final = Format(body=_body, thought=lambda _: False, picture=lambda _: True)
