"""A model on loopback: it says which question it was asked, and remembers what it was sent."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model:
    """Speaks what Claude Code, Codex, Gemini CLI, kimi-cli and the OpenAI Agents SDK speak.

    Attributes:
        requests: The bodies of the requests that were about a conversation.
        gate: Set: answers are sent at once; cleared: they wait until it is set.
        asked: Set when a request has arrived.
        calls: By a question: the tools to call, with their inputs, one after another before it is answered.
        at_once: Questions whose tools are called in one answer.
        answers: Further questions, as they are asked, and what is said to them in the end.
        pace: Seconds that it takes for an answer.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        self.calls: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self.at_once: set[str] = set()
        self.answers: dict[str, str] = {}
        self.pace = 0.0
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def environment(self) -> dict[str, str]:
        """Variables with which Claude Code speaks to this model, and to nobody else."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()

    def questions(self, messages: list[dict[str, Any]]) -> list[str]:
        """What was asked, in its order: of `question NAME` the name."""
        said = [text for message in messages if message.get("role") == "user" for text in _texts(message["content"])]
        named = [re.fullmatch(r"question (\w+)\n?", text) for text in said]  # Claude Code ends one before another so
        return [
            match[1] if match else text
            for match, text in zip(named, said, strict=True)
            if match or text in self.answers
        ]

    def texts(self) -> list[str]:
        """The questions and answers that the last request held, in their order."""
        said = [text for message in _conversation(self.requests[-1]) for text in _texts(message.get("content", []))]
        return [text for text in said if re.fullmatch(r"(question|answer) \w+", text)]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") in ("text", "input_text", "output_text")]


def _conversation(body: dict[str, Any]) -> list[dict[str, Any]]:
    if "contents" in body:
        return [{"role": each["role"], "content": list(map(_part, each["parts"]))} for each in body["contents"]]
    return list(body["messages"] if "messages" in body else body["input"])


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part of Gemini's, which names its type by a member."""
    return {
        "type": next(kind for kind in ("text", "functionCall", "functionResponse", "inlineData") if kind in part),
        **part,
    }


_RESULT = re.compile('"type": "(?:tool_result|function_call_output|functionResponse)"|"role": "tool"')


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._send(404, b"{}")

    def do_HEAD(self) -> None:
        self._send(404, b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        if path.endswith("/responses") and not body.get("stream"):
            return self._send(200, json.dumps(_response()).encode())
        if path.endswith("/count_tokens"):
            return self._send(200, b'{"input_tokens": 10}')
        if path.endswith(":countTokens"):
            return self._send(200, b'{"totalTokens": 10}')
        if not {"messages", "input", "contents"} & body.keys():
            return self._send(404, b"{}")
        conversation = _conversation(body)
        questions = self.model.questions(conversation)
        if body.get("tools") and questions:
            self.model.requests.append(body)
            self.model.asked.set()
            self.model.gate.wait(60)
            time.sleep(self.model.pace)
        calls = self.model.calls.get(questions[-1], []) if questions and body.get("tools") else []
        results = len(_RESULT.findall(json.dumps(conversation)))
        done = results - sum(len(self.model.calls.get(question, [])) for question in questions[:-1])
        said = self.model.answers.get(questions[-1], f"answer {questions[-1]}") if questions else "Done."
        calling, saying = _dialect(path)
        if done < len(calls) and questions[-1] in self.model.at_once:
            answer = _chunks_calling(calls[done:], results)
        else:
            answer = calling(f"toolu_{results}", *calls[done]) if done < len(calls) else saying(said)
        return self._send(200, b"".join(answer), "text/event-stream")

    def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _dialect(path: str) -> tuple[Callable[..., Iterator[bytes]], Callable[[str], Iterator[bytes]]]:
    """How a tool is called, and a text said, in an answer."""
    if path.endswith("/responses"):
        return _item_calling, _item_saying
    if path.endswith("/chat/completions"):
        return _chunk_calling, _chunk_saying
    if path.endswith("GenerateContent"):
        return _candidate_calling, _candidate_saying
    return _calling, _saying


def _response() -> dict[str, Any]:
    text = {"type": "output_text", "text": "Because.", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [said], "tools": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "status": "completed",
    }  # fmt: skip


def _item_saying(text: str) -> Iterator[bytes]:
    content = [{"type": "output_text", "text": text}]
    return _item_events({"type": "message", "id": "msg_1", "role": "assistant", "content": content})


def _item_calling(call_id: str, tool: str, given: dict[str, Any]) -> Iterator[bytes]:
    call = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": tool}
    return _item_events({**call, "arguments": json.dumps(given)})


def _item_events(item: dict[str, Any]) -> Iterator[bytes]:
    usage = {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14}
    yield _event({"type": "response.created", "response": {"id": "resp_1"}})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _event({"type": "response.completed", "response": {"id": "resp_1", "usage": usage}})


def _event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _chunk_saying(text: str) -> Iterator[bytes]:
    return _chunks({"role": "assistant", "content": text}, "stop")


def _chunk_calling(call_id: str, tool: str, given: dict[str, Any]) -> Iterator[bytes]:
    function = {"name": tool, "arguments": json.dumps(given)}
    call = {"index": 0, "id": call_id, "type": "function", "function": function}
    return _chunks({"role": "assistant", "tool_calls": [call]}, "tool_calls")


def _chunks_calling(calls: list[tuple[str, dict[str, Any]]], results: int) -> Iterator[bytes]:
    made = [
        {
            "index": index,
            "id": f"toolu_{results}_{index}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(given)},
        }
        for index, (tool, given) in enumerate(calls)
    ]
    return _chunks({"role": "assistant", "tool_calls": made}, "tool_calls")


def _chunks(delta: dict[str, Any], reason: str) -> Iterator[bytes]:
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    chunk = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    for choice in ({"delta": delta, "finish_reason": None}, {"delta": {}, "finish_reason": reason}):
        yield _data({**chunk, "choices": [{"index": 0, **choice}]})
    yield _data({**chunk, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _candidate_saying(text: str) -> Iterator[bytes]:
    return _candidate({"text": text})


def _candidate_calling(call_id: str, tool: str, given: dict[str, Any]) -> Iterator[bytes]:
    return _candidate({"functionCall": {"id": call_id, "name": tool, "args": given}})


def _candidate(part: dict[str, Any]) -> Iterator[bytes]:
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 3, "totalTokenCount": 14}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    yield _data({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake"})


def _data(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _saying(text: str) -> Iterator[bytes]:
    return _events({"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn")


def _calling(call_id: str, tool: str, given: dict[str, Any]) -> Iterator[bytes]:
    block = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
    return _events(block, {"type": "input_json_delta", "partial_json": json.dumps(given)}, "tool_use")


def _events(block: dict[str, Any], delta: dict[str, Any], reason: str) -> Iterator[bytes]:
    usage = {"input_tokens": 11, "output_tokens": 3}
    # An id of its own for each answer, as the provider gives: the records of one id are one message.
    name = f"msg_{secrets.token_hex(12)}"
    message = {"id": name, "type": "message", "role": "assistant", "model": "fake", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    yield from map(_event, events)
