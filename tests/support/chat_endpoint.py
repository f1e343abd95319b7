"""A real HTTP server on loopback that speaks the OpenAI chat-completions API, well or badly, as a test asks for."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Json = dict[str, Any]
GONE = 10.0  # seconds within which a client that leaves is noticed


@dataclass
class Reply:
    """What the server does with one request.

    Attributes:
        text: The summary it streams, in pieces.
        finish: `finish_reason` of the last piece; None: there is none.
        status: An HTTP status in place of an answer.
        error: `error` of the body then, and where `break_with` is "error".
        headers: More headers.
        delta: Members of each piece's `delta` instead of the text.
        usage: Sent at the end.
        pause: Seconds before each piece.
        break_with: What follows half of the text: "garbage", "deep", "error", "end" (of the connection) or "hang".
        whole: Sent in place of a stream: one body, as JSON where it is not bytes.
    """

    text: str = "Current focus: the login."
    finish: str | None = "stop"
    status: int = 200
    error: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delta: Json | None = None
    usage: Json | None = None
    pause: float = 0.0
    break_with: str | None = None
    whole: Json | bytes | None = None

    @classmethod
    def unstreamed(
        cls, text: object, *, finish: str | None = "stop", usage: Json | None = None, **message: Any
    ) -> Reply:
        """The reply of a server that does not know how to stream."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        return cls(whole={"object": "chat.completion", "choices": [choice], **({"usage": usage} if usage else {})})


class ChatEndpoint:
    """One server.

    Attributes:
        replies: What the next requests get; the last one is kept for all that follow.
        requests: The bodies it was sent.
        headers: The headers it was sent.
        abandoned: How many clients left before their answer was whole.
    """

    def __init__(self) -> None:
        self.replies: list[Reply] = [Reply()]
        self.requests: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.abandoned = 0
        self._app = Starlette(routes=[Route("/v1/chat/completions", self._answer, methods=["POST"])])
        self._server = uvicorn.Server(uvicorn.Config(self._app, port=0, log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @property
    def url(self) -> str:
        """`summarizer.baseUrl`."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def settings(self, **more: Any) -> Json:
        """`Config.summarizer` that leads here."""
        return {"baseUrl": self.url, "model": "small", **more}

    def start(self) -> None:
        """Return when it listens."""
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        """End it, open connections included."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(GONE)

    async def _answer(self, request: Request) -> Response:
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply.status != 200:
            if isinstance(reply.whole, bytes):
                return Response(reply.whole, reply.status, reply.headers, media_type="application/json")
            return JSONResponse({"error": reply.error}, reply.status, reply.headers)
        if reply.whole is not None:
            body = reply.whole if isinstance(reply.whole, bytes) else json.dumps(reply.whole).encode()
            return Response(body, media_type="application/json")
        return StreamingResponse(self._stream(request, reply), media_type="text/event-stream")

    async def _stream(self, request: Request, reply: Reply) -> AsyncIterator[bytes]:
        try:
            size = max(1, len(reply.text) // 8)
            pieces = [reply.text[start : start + size] for start in range(0, len(reply.text), size)]
            for number, piece in enumerate(pieces):
                await asyncio.sleep(reply.pause)
                if reply.break_with is not None and number >= len(pieces) / 2:
                    async for line in _broken(reply):
                        yield line
                    return
                yield _event(reply.delta or {"content": piece})
            yield _event({}, reply.finish)
            if reply.usage is not None:
                yield _line({"choices": [], "usage": reply.usage})
            yield b"data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.abandoned += 1
            raise


async def _broken(reply: Reply) -> AsyncIterator[bytes]:
    if reply.break_with == "garbage":
        yield b"data: {this is no JSON\n\n"
    elif reply.break_with == "nonsense":
        yield _line({"choices": [{"delta": 5}]})
    elif reply.break_with == "deep":
        yield b"data: " + b"[" * 200_000 + b"\n\n"
    elif reply.break_with == "error":
        yield _line({"error": reply.error or {"message": "the model fell over"}})
    elif reply.break_with == "hang":
        await asyncio.Event().wait()
    elif reply.break_with == "break":
        raise ConnectionError("as a test asked for")


def _event(delta: Json, finish: str | None = None) -> bytes:
    return _line({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _line(body: Json) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@contextmanager
def chat_endpoint() -> Iterator[ChatEndpoint]:
    """A server for the time of a block."""
    server = ChatEndpoint()
    server.start()
    try:
        yield server
    finally:
        server.stop()
