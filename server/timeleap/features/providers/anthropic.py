"""The body of a request to Anthropic's Messages API.

The system prompt stands beside the messages. Users and assistants take turns, a user first and last (newer models
refuse to go on with words put into their mouth). Results stand at the beginning of the user's message after their
calls. Ids and tools' names are of few characters, arguments are an object, texts are not blank, thoughts are signed.
"""

from __future__ import annotations

from typing import Final

from timeleap.features.providers.transcript import Format, Ids, Losses, Piece, Text, Thought, Transcript, Turn
from timeleap.json_value import Json

LONGEST_ID: Final = 64
LARGEST_PICTURE: Final = 5 * 1024 * 1024
"""Characters of its base64."""
BEGIN: Final = "(The conversation begins here.)"
GO_ON: Final = "Go on."

_FOREIGN_SIGNATURE: Final = "gAAAA"  # how the encrypted thoughts of OpenAI's models begin


def _body(transcript: Transcript) -> Json:
    """`{system?, messages}`."""
    losses = transcript.losses
    system = [transcript.system] if transcript.system is not None else []
    body = _Body(losses)
    for turn in transcript.turns:
        if turn.name is not None:
            losses.add(turn.index, "name", f"the name {turn.name[:80]} is left out")
        if turn.role == "system" and not body.messages:
            system += _texts(turn)
        else:
            body.add(turn)
    body.close()
    prompt = {"system": "\n\n".join(system)} if system else {}
    return {**prompt, "messages": body.messages}


class _Body:
    """The messages, as they grow."""

    def __init__(self, losses: Losses) -> None:
        self.messages: list[Json] = []
        self._losses = losses
        self._ids = Ids(LONGEST_ID, any_character=False)

    def add(self, turn: Turn) -> None:
        if turn.role == "system":
            self._losses.add(
                turn.index, "system", "a system's message amid the conversation is a user's, tagged as such"
            )
            self._say("user", [_text(f"<system>{text}</system>") for text in _texts(turn)])
        elif turn.role == "user":
            self._say("user", [_block(piece) for piece in turn.pieces])
        else:
            self._exchange(turn)

    def close(self) -> None:
        """A user speaks first and last."""
        if not self.messages or self.messages[0]["role"] != "user":
            self._losses.add(None, "userAdded", "the first message has to be a user's; one was added")
            self.messages.insert(0, {"role": "user", "content": [_text(BEGIN)]})
        if self.messages[-1]["role"] != "user":
            self._losses.add(None, "userAdded", "the last message has to be a user's; one was added")
            self._say("user", [_text(GO_ON)])

    def _exchange(self, turn: Turn) -> None:
        said = [_block(piece) for piece in turn.pieces]
        results: list[Json] = []
        for call in turn.calls:
            call_id = self._ids.of(call.id)
            name, arguments = call.as_sent(turn.index, self._losses)
            sent = {"arguments": call.arguments} if arguments is None else arguments
            said.append({"type": "tool_use", "id": call_id, "name": name, "input": sent})
            content = {"content": [_block(piece) for piece in call.result]} if call.result else {}
            results.append({"type": "tool_result", "tool_use_id": call_id, **content})
        self._say("assistant", said)
        self._say("user", results)

    def _say(self, role: str, blocks: list[Json]) -> None:
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})


def _texts(turn: Turn) -> list[str]:
    return [piece.text for piece in turn.pieces if isinstance(piece, Text)]


def _block(piece: Piece) -> Json:
    if isinstance(piece, Text):
        return _text(piece.text)
    if isinstance(piece, Thought):
        return {"type": "thinking", "thinking": piece.text, "signature": piece.signature}
    if piece.data:
        return {"type": "image", "source": {"type": "base64", "media_type": piece.media_type, "data": piece.data}}
    return {"type": "image", "source": {"type": "url", "url": piece.url}}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


FORMAT: Final = Format(
    body=_body,
    thought=lambda signature: signature != "" and not signature.startswith(_FOREIGN_SIGNATURE),
    picture=lambda picture: len(picture.data) <= LARGEST_PICTURE and not picture.url.lower().startswith("http:"),
)
