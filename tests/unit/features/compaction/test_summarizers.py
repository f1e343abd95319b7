"""The summarisers: what they are asked, what they may do wrong, and what is said then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_endpoint import ChatEndpoint, Reply, chat_endpoint
from tests.support.turns import until

from timeleap.call import Call
from timeleap.errors import ClientRequestError, CompactionFailedError
from timeleap.features.compaction import openai_client as endpoints
from timeleap.features.compaction.openai_client import OpenAiClient
from timeleap.features.compaction.prepare import prompt_message
from timeleap.features.compaction.summarizers import (
    Answer,
    Builtin,
    ClientSummarizer,
    TooLongAnswerError,
    TooLongPromptError,
    summarised,
)
from timeleap.rpc.errors import to_wire
from timeleap.service.config import KEY_VARIABLE

KEY = "sk-canary-4f1e0c"
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Fix the login. " + "The form in login.py does nothing. " * 20},
    {"role": "assistant", "content": "I look at it. " * 40, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "login.py"}'}}]},
    {"role": "tool", "content": "def login(): ...", "tool_call_id": "c"},
]  # fmt: skip
PROMPT = prompt_message(MESSAGES)


class FakeClient:
    """A client whose answer to `context/summarize` is given."""

    name = "editor"
    can_summarize = True
    is_peer = False

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any], float]] = []

    async def request(self, method: str, params: dict[str, Any], *, timeout: float) -> Any:
        self.asked.append((method, params, timeout))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(params) if callable(self.answer) else self.answer


def call(client: Any = None, told: list[tuple[str | None, int | None]] | None = None) -> Call:
    progress = None if told is None else lambda message, percent: told.append((message, percent))
    asking: Any = client or FakeClient(None)
    return Call(asking, "context/compact", progress)


@pytest.fixture(scope="module")
def shared() -> Iterator[ChatEndpoint]:
    with chat_endpoint() as server:
        yield server


@pytest.fixture
def server(shared: ChatEndpoint, monkeypatch: pytest.MonkeyPatch) -> ChatEndpoint:
    monkeypatch.setattr(endpoints, "BACK_OFF", (0.0, 0.01))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    shared.replies = [Reply()]
    shared.requests.clear()
    shared.headers.clear()
    return shared


async def ask(server: ChatEndpoint, environ: dict[str, str] | None = None, **settings: Any) -> Answer:
    return await OpenAiClient(server.settings(**settings), environ or {}).summarize(PROMPT, lambda _: None)


async def test_the_endpoint_is_asked_in_the_api_s_words(server: ChatEndpoint):
    usage = {"prompt_tokens": 90, "completion_tokens": 30, "completion_tokens_details": {"reasoning_tokens": 18}}
    server.replies = [Reply("The login is being fixed.", usage=usage)]
    assert await ask(server, {KEY_VARIABLE: KEY}) == Answer("The login is being fixed.", 12)
    (request,), (headers,) = server.requests, server.headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (request["model"], request["stream"], "tools" in request) == ("small", True, False)
    system, user = request["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "The form in login.py does nothing." in user["content"] and "read(" in user["content"]


async def test_the_library_logs_nothing(server: ChatEndpoint):
    await ask(server)  # older releases of it log whole requests
    for name in ("openai", "httpx", "httpcore", "httpx2", "httpcore2"):
        assert not logging.getLogger(f"{name}.x").isEnabledFor(logging.ERROR)


async def test_nothing_meant_for_another_endpoint_is_sent(server: ChatEndpoint, monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/elsewhere")
    await ask(server)
    assert "authorization" not in server.headers[0]
    assert "elsewhere" not in str(server.headers)


async def test_the_key_may_stand_in_a_file(server: ChatEndpoint, tmp_path: Path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    await ask(server, {KEY_VARIABLE: "another"}, apiKeyFile=str(file))
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("content", [None, b"", b"two lines\nof text", b"\xff\xfe", f"{KEY}\n{KEY}".encode()])
async def test_a_key_file_without_a_key(server: ChatEndpoint, tmp_path: Path, content: bytes | None):
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CompactionFailedError, match="key file") as caught:
        await ask(server, apiKeyFile=str(file))
    assert KEY not in f"{caught.value} {caught.value.data}"
    assert server.requests == []


WRONG = {
    "empty": (Reply("  \n "), "empty"),
    "only thoughts": (Reply("<think>hm, hm</think>\n"), "empty"),
    "cut short": (Reply(finish="length"), "cut short by its length limit"),
    "filtered": (Reply(finish="content_filter"), "content filter"),
    "tool calls": (Reply(delta={"tool_calls": [{"index": 0, "function": {"name": "rm"}}]}), "called a tool"),
    "finish says tool calls": (Reply(finish="tool_calls"), "called a tool"),
    "no JSON": (Reply(break_with="garbage"), "not what the API says"),
    "other JSON": (Reply(break_with="nonsense"), "not what the API says"),
    "error half-way": (Reply(break_with="error", error={"message": KEY}), "in the middle"),
    "ends half-way": (Reply(break_with="end"), "broke off"),
    "breaks half-way": (Reply(break_with="break"), "broke off"),
    "wrong key": (Reply(status=401, error={"message": f"wrong key {KEY}"}), "does not take the key"),
    "no such model": (Reply(status=404, error={"message": KEY}), "no such address or model"),
    "bad request": (Reply(status=400, error={"message": KEY}), "refused the request"),
    "no stream, no JSON": (Reply(whole=b"<html>"), "not what the API says"),
    "no stream, other JSON": (Reply(whole={"choices": []}), "not what the API says"),
    "no stream, parts": (Reply.unstreamed([{"type": "text"}]), "not what the API says"),
    "no stream, empty": (Reply.unstreamed(None), "empty"),
    "no stream, cut short": (Reply.unstreamed("The", finish="length"), "cut short by its length limit"),
    "no stream, tool calls": (Reply.unstreamed(None, tool_calls=[{"id": "c"}]), "called a tool"),
    "deep": (Reply(whole=b"[" * 200_000), "not what the API says"),
    "deep in an object": (Reply(whole=b'{"choices":' * 50_000), "not what the API says"),
    "deep half-way": (Reply(break_with="deep"), "not what the API says"),
    "no object": (Reply(whole=b'"text"'), "not what the API says"),
    "a huge number": (Reply(whole=b'{"choices":' + b"7" * 10_000 + b"}"), "not what the API says"),
    "no UTF-8": (Reply(whole=b'{"choices":[{"message":{"content":"\xff"}}]}'), "not what the API says"),
    "half a character": (Reply("a summary \ud800 of half"), "half a character"),
    "no stream, half a character": (Reply.unstreamed("a summary \udc00"), "half a character"),
    "a deep refusal": (Reply(status=400, error={"message": KEY}, whole=b"[" * 200_000), "refused the request"),
    "overloaded": (Reply(status=429, error={"message": KEY}), "429, 3 times"),
    "broken": (Reply(status=500, error={"message": KEY}), "500, 3 times"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_an_endpoint_does_wrong_is_said_and_what_to_do(
    server: ChatEndpoint, what: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    reply, words = WRONG[what]
    server.replies = [reply]
    with pytest.raises(CompactionFailedError, match=words) as caught:
        await ask(server, {KEY_VARIABLE: KEY})
    told = f"{caught.value} {caught.value.data}"
    assert "Nothing was changed." in told and '"builtin"' in told
    assert KEY not in told + caplog.text
    assert "The form in login.py" not in caplog.text
    server.replies = [Reply("Better now.")]
    assert (await ask(server)).text == "Better now."


@pytest.mark.parametrize(
    "reply", [Reply(status=503), Reply(status=429, headers={"retry-after": "0"}), Reply(break_with="end")]
)
async def test_what_may_pass_is_tried_again(server: ChatEndpoint, reply: Reply):
    server.replies = [reply, reply, Reply("At last.")]
    assert (await ask(server)).text == "At last."
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("statuses", "retryable"),
    [
        ((400, 401, 402, 403, 404, 405, 410, 415, 422, 451), False),
        ((408, 409, 425, 429, 500, 502, 503, 504, 529), True),
    ],
)
async def test_a_refusal_is_retryable_where_time_may_help(
    server: ChatEndpoint, statuses: tuple[int, ...], retryable: bool
):
    for status in statuses:
        server.replies = [Reply(status=status, error={"message": KEY})]
        with pytest.raises(CompactionFailedError) as caught:
            await ask(server)
        assert to_wire(caught.value)["data"]["retryable"] is retryable, status
        assert ("Try again" in str(caught.value)) is retryable, status


async def test_an_endpoint_that_is_not_there():
    nobody = OpenAiClient({"baseUrl": "http://127.0.0.1:9/v1", "model": "m", "timeout": 30}, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endpoints, "BACK_OFF", (0.0,))
        with pytest.raises(CompactionFailedError, match="cannot be reached"):
            await nobody.summarize(PROMPT, lambda _: None)


@pytest.mark.parametrize("reply", [Reply(break_with="hang"), Reply("x" * 80, pause=0.4)])
async def test_an_endpoint_that_takes_too_long(server: ChatEndpoint, reply: Reply):
    server.replies = [reply]
    with pytest.raises(CompactionFailedError, match="no answer in 1 s"):
        await ask(server, timeout=1)


async def test_a_cancelled_question_is_broken_off(server: ChatEndpoint):
    server.replies = [Reply(break_with="hang")]
    before = server.abandoned
    asking = asyncio.create_task(ask(server))
    while not server.requests:
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: server.abandoned > before)


async def test_a_character_may_come_in_two_pieces(server: ChatEndpoint):
    server.replies = [Reply("\ud83d\ude00" * 8, usage={"completion_tokens": 9})]
    assert await ask(server) == Answer("\U0001f600" * 8, 9)


async def test_what_is_aside_of_an_answer_may_not_be_endless(server: ChatEndpoint, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(endpoints, "_ASIDE", 100)
    monkeypatch.setattr(endpoints, "_BYTES_IN_PIECES", 1)
    server.replies = [Reply(delta={"reasoning_content": "x" * 500})]
    with pytest.raises(TooLongAnswerError):
        await ask(server)


async def test_an_answer_that_does_not_end_is_not_read_to_its_end(server: ChatEndpoint):
    server.replies = [Reply("x" * 100_000)]
    with pytest.raises(TooLongAnswerError):
        await ask(server)


async def test_the_end_of_a_stream_may_be_all_that_says_it_is_whole(server: ChatEndpoint):
    server.replies = [Reply("The login.", finish=None)]
    assert await ask(server) == Answer("The login.", None)


async def test_an_endpoint_need_not_stream(server: ChatEndpoint):
    usage = {"completion_tokens": 30, "completion_tokens_details": {"reasoning_tokens": 18}}
    server.replies = [Reply.unstreamed("The login is being fixed.", usage=usage)]
    assert await ask(server) == Answer("The login is being fixed.", 12)
    server.replies = [Reply.unstreamed("Fixed.", finish=None)]
    assert await ask(server) == Answer("Fixed.", None)
    assert [request["stream"] for request in server.requests] == [True, True]


@pytest.mark.parametrize("reply", [Reply.unstreamed("x" * 100_000), Reply(whole=b" " * (4 << 20))])
async def test_nor_is_one_that_does_not_stream_read_to_its_end(server: ChatEndpoint, reply: Reply):
    server.replies = [reply]
    with pytest.raises(TooLongAnswerError):
        await ask(server)


async def test_thoughts_are_no_part_of_a_summary(server: ChatEndpoint):
    server.replies = [Reply("<think>what was it again?</think>\n\nThe login.", usage={"completion_tokens": 50})]
    assert await ask(server) == Answer("The login.", None)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=413),
        Reply(status=400, error={"code": "context_length_exceeded", "message": "m"}),
        Reply(status=400, error={"message": "This model's maximum context length is 8192 tokens."}),
    ],
)
async def test_an_endpoint_may_say_that_a_prompt_is_too_long(server: ChatEndpoint, reply: Reply):
    server.replies = [reply]
    with pytest.raises(TooLongPromptError):
        await ask(server)


async def test_a_long_summary_is_told_of_while_it_comes(server: ChatEndpoint):
    server.replies = [Reply("word " * 200)]
    told: list[tuple[str | None, int | None]] = []
    await summarised(OpenAiClient(server.settings(), {}), MESSAGES * 3, "", call(told=told))
    assert any("characters of the summary have come" in (message or "") for message, _ in told)


LONG = [{"role": "user", "content": f"message {number}: " + "words " * 200} for number in range(30)]


async def test_what_is_too_long_is_folded_in_parts(server: ChatEndpoint):
    server.replies = [Reply(f"Notes {number}.") for number in range(50)]
    told: list[tuple[str | None, int | None]] = []
    answer = await summarised(
        OpenAiClient(server.settings(contextSize=8_000), {}), LONG, "mind the gap", call(told=told)
    )
    parts = [request["messages"][1]["content"] for request in server.requests]
    assert len(parts) > 2 and answer.text == f"Notes {len(parts) - 1}."
    for number, part in enumerate(parts):
        assert len(part) < 8_000 * 3
        assert "mind the gap" in part
        assert (f"Notes {number - 1}." in part) == (number > 0), "the notes on the parts before it, and only the last"
    for number in range(30):
        assert sum(f"message {number}:" in part for part in parts) == 1, "nothing is left out, nothing said twice"
    percents = [percent for _, percent in told if percent is not None]
    assert percents == sorted(percents) and percents[0] == 0 and percents[-1] < 100


async def test_an_endpoint_that_finds_a_prompt_too_long_gets_it_in_parts(server: ChatEndpoint):
    server.replies = [Reply(status=413), *(Reply(f"Notes {number}.") for number in range(50))]
    answer = await summarised(OpenAiClient(server.settings(), {}), LONG, "", call())
    assert len(server.requests) > 2 and answer.text == f"Notes {len(server.requests) - 2}."


async def test_an_endpoint_that_finds_everything_too_long(server: ChatEndpoint):
    server.replies = [Reply(status=413)]
    with pytest.raises(CompactionFailedError, match=r"too long for the summariser|does not fit"):
        await summarised(OpenAiClient(server.settings(), {}), LONG, "", call())


async def test_one_message_longer_than_the_window_is_cut_in_pieces(server: ChatEndpoint):
    server.replies = [Reply(f"Notes {number}.") for number in range(50)]
    text = " ".join(f"w{number}" for number in range(10_000))
    await summarised(
        OpenAiClient(server.settings(contextSize=8_000), {}), [{"role": "tool", "content": text}], "", call()
    )
    said = "".join(request["messages"][1]["content"] for request in server.requests)
    assert len(server.requests) > 2
    assert all(f"w{number}" in said for number in (0, 5_000, 9_999))


# The client


def client(answer: Any, window: int | None = None) -> tuple[FakeClient, ClientSummarizer]:
    fake = FakeClient(answer)
    return fake, ClientSummarizer(call(fake), "s", "mind the gap", {"timeout": 7}, window)


async def test_the_client_is_asked_in_the_contract_s_words():
    fake, summarizer = client({"summary": "All is well.", "usage": {"input": 90, "output": 4}})
    assert await summarizer.summarize(PROMPT, lambda _: None) == Answer("All is well.", 4)
    ((method, params, timeout),) = fake.asked
    assert (method, timeout) == ("context/summarize", 7.0)
    assert params.keys() == {"sessionId", "systemPrompt", "prompt", "customInstruction"}
    assert (params["sessionId"], params["prompt"], params["customInstruction"]) == ("s", PROMPT, "mind the gap")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "no text member summary"),
        ([], "no text member summary"),
        ({}, "no text member summary"),
        ({"summary": 5}, "no text member summary"),
        ({"summary": " \n"}, "empty"),
        (ClientRequestError("the client is gone", reason="gone"), "the client is gone"),
        (ClientRequestError("no answer to context/summarize in 7 s", reason="timeout"), "no answer"),
        (ClientRequestError("the client refused: no model", reason="refused"), "no model"),
    ],
)
async def test_what_a_client_does_wrong_is_said_and_what_to_do(answer: Any, words: str):
    _, summarizer = client(answer)
    with pytest.raises(CompactionFailedError, match=words) as caught:
        await summarizer.summarize(PROMPT, lambda _: None)
    assert "Nothing was changed." in str(caught.value)
    assert caught.value.data["summarizer"] == "client"


@pytest.mark.parametrize(
    "usage", [None, 5, {}, {"output": "4"}, {"output": True}, {"output": 0}, {"output": -1}, {"output": 9000}]
)
async def test_strange_usage_is_not_believed(usage: Any):
    _, summarizer = client({"summary": "All is well.", "usage": usage})
    assert await summarizer.summarize(PROMPT, lambda _: None) == Answer("All is well.", None)


async def test_a_client_with_a_small_window_is_asked_in_parts():
    fake, summarizer = client({"summary": "Notes."}, window=8_000)
    await summarised(summarizer, LONG, "", call(fake))
    assert len(fake.asked) > 2


async def test_nobody_is_asked_by_the_built_in_summariser():
    answer = await summarised(Builtin(), MESSAGES, "", call())
    assert "Fix the login" in answer.text and answer.tokens is None
