"""A model that does what a case says: both protocols the agents speak, on loopback.

Each turn's prompt carries its number. What the model answers is found from the request alone: the calls of that turn that
have no results yet, as many as the plan makes at once; then a last word. Requests without tools (titles and the like) get
one word.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

Json = dict[str, Any]
TURN: Final = re.compile(r"\[\[turn (\d+)\]\]")


@dataclass(frozen=True)
class Call:
    """One call of a tool, by the agent's own names."""

    tool: str
    arguments: Json


Calls = Sequence[Call]
"""Calls made in one answer."""


class FakeModel:
    """One server for all agents of a run.

    Attributes:
        results: What the tools said, by turn: the agent's own words.
    """

    def __init__(self) -> None:
        self._turns: dict[int, Sequence[Calls]] = {}
        self.results: dict[int, list[str]] = {}
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def plan(self, calls: Sequence[Calls]) -> tuple[int, str]:
        """Take in what a turn is to do; returns its number and its prompt."""
        number = len(self._turns) + 1
        self._turns[number] = calls
        self.results[number] = []
        return number, f"Please do what is planned. [[turn {number}]]"

    def answer(self, request: Json) -> Calls:
        """The next calls; none: the turn is over, or the request is not about one."""
        if not request.get("tools"):
            return ()
        number, results = 0, list[str]()
        for message in request["messages"]:
            for kind, text in _blocks(message):
                if kind == "result":
                    results.append(text)
                elif found := TURN.findall(text):
                    number, results = int(found[-1]), []
        if number in self.results:
            self.results[number] = results
        answered = len(results)
        for calls in self._turns.get(number, ()):
            if answered < len(calls):
                return calls[answered:]
            answered -= len(calls)
        return ()


def _blocks(message: Json) -> Iterator[tuple[str, str]]:
    content = message.get("content")
    if message["role"] == "tool":
        yield "result", content if isinstance(content, str) else json.dumps(content)
    elif message["role"] == "user":
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
            if block["type"] == "tool_result":
                yield "result", json.dumps(block.get("content"))
            elif block["type"] == "text":
                yield "text", block["text"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: FakeModel

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._plain(404, {})

    def do_HEAD(self) -> None:
        self._plain(404, {})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            return self._plain(200, {"input_tokens": 10})
        if "messages" not in request:
            return self._plain(404, {})
        calls = self.model.answer(request)
        events = _openai(calls) if path.endswith("/completions") else _anthropic(calls)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"".join(events))
        self.close_connection = True
        return None

    def _plain(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _openai(calls: Calls) -> Iterator[bytes]:
    delta: Json = {"role": "assistant", "content": "Done."}
    if calls:
        made = []
        for index, call in enumerate(calls):
            function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
            made.append({"index": index, "id": f"call_{id(call)}", "type": "function", "function": function})
        delta = {"role": "assistant", "content": None, "tool_calls": made}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake", "usage": usage}
    for piece, finish in ((delta, None), ({}, "tool_calls" if calls else "stop")):
        yield _event({**chunk, "choices": [{"index": 0, "delta": piece, "finish_reason": finish}]})
    yield b"data: [DONE]\n\n"


def _anthropic(calls: Calls) -> Iterator[bytes]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: Json = {"id": f"msg_{id(calls)}", "type": "message", "role": "assistant", "model": "fake", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield _event({"type": "message_start", "message": message})
    blocks: list[tuple[Json, Json]] = [
        (
            {"type": "tool_use", "id": f"toolu_{id(call)}", "name": call.tool, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)},
        )
        for call in calls
    ]
    for index, (block, delta) in enumerate(
        blocks or [({"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."})]
    ):
        yield _event({"type": "content_block_start", "index": index, "content_block": block})
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}})
    yield _event({"type": "message_stop"})


def _event(body: Json) -> bytes:
    name = f"event: {body['type']}\n".encode() if "type" in body else b""
    return name + b"data: " + json.dumps(body).encode() + b"\n\n"
