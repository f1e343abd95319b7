"""Our connection to an owner: what it does with an owner that is slow, silent, gone, or talks nonsense."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.support.turns import Clock, idle

from timeleap.attach import peer as module
from timeleap.attach.peer import PeerCallbacks, PeerConnection, PeerLostError
from timeleap.call import Client
from timeleap.errors import ClientRequestError
from timeleap.rpc.errors import OwnersRefusalError
from timeleap_protocol.framing import FrameReader, Framing

Json = dict[str, Any]


class Wire:
    """A transport that goes nowhere, and an owner that says what the test wants."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.lost: list[PeerLostError] = []
        self.paused = False
        self.closed = False
        self.asked = 0
        self.unsent = 0
        self._written = FrameReader()
        self.sent: list[Json] = []
        self.writes = 0
        self.peer = PeerConnection(PeerCallbacks(lambda *what: self.told.append(what), self.answer, self.lost.append))
        self.peer.connection_made(self)  # type: ignore[arg-type]

    async def answer(self, method: str, params: Json) -> Any:
        self.asked += 1
        if "customInstruction" in params:
            raise ClientRequestError("cannot", reason="refused")
        return {"summary": params["prompt"]["content"]}

    def write(self, data: bytes) -> None:
        self.writes += 1
        self.sent += [json.loads(frame) for frame in self._written.feed(data) if isinstance(frame, bytes)]

    def writelines(self, frames: list[bytes]) -> None:
        self.write(b"".join(frames))

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def say(self, message: Json | bytes) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.peer.data_received(Framing.LSP.wrap(body))

    def ask(self, method: str = "context/getHistory", *, followed: bool = False, **params: Any) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().create_future()
        self.peer.send(method, params, answer, followed=followed)
        return answer


async def test_requests_that_follow_each_other_are_written_together_in_their_order() -> None:
    wire = Wire()
    for number in range(3):
        wire.ask(followed=number < 2, limit=number)
    assert wire.writes == 1
    assert [request["params"]["limit"] for request in wire.sent] == [0, 1, 2]


async def test_a_request_whose_follower_is_for_somebody_else_is_written_in_the_same_turn() -> None:
    wire = Wire()
    wire.ask(followed=True)
    assert wire.writes == 0
    await asyncio.sleep(0)
    assert (wire.writes, len(wire.sent)) == (1, 1)
    wire.ask()
    assert (wire.writes, len(wire.sent)) == (2, 2)


async def test_what_was_asked_is_written_before_the_connection_is_closed() -> None:
    wire = Wire()
    wire.ask(followed=True)
    wire.peer.close()
    assert len(wire.sent) == 1
    await asyncio.sleep(0)
    assert wire.writes == 1


async def test_a_result_is_passed_on_as_the_text_it_is() -> None:
    wire = Wire()
    answer = wire.ask("context/getHistory", limit=1)
    assert wire.sent == [{"jsonrpc": "2.0", "id": 1, "method": "context/getHistory", "params": {"limit": 1}}]
    wire.say(b'{"jsonrpc":"2.0","id":1,"result":{"b":1.50,"a":[1e2]}}')
    assert bytes(await answer) == b'{"b":1.50,"a":[1e2]}'


async def test_a_text_with_line_feeds_between_its_tokens_is_put_on_one_line() -> None:
    wire = Wire()
    answer = wire.ask()
    wire.say(b'{"jsonrpc":"2.0","id":1,"result":{"a":\r\n1}}')
    assert bytes(await answer) == b'{"a":  1}'


async def test_an_error_is_passed_on_as_it_is() -> None:
    wire = Wire()
    answer = wire.ask()
    error = {"code": -32801, "message": "m", "data": {"kind": "contentModified", "retryable": True, "head": "h"}}
    wire.say({"jsonrpc": "2.0", "id": 1, "error": error})
    with pytest.raises(OwnersRefusalError) as caught:
        await answer
    assert caught.value.wire == error


@pytest.mark.parametrize(
    "nonsense",
    [
        b"[]",
        b"nothing",
        b'{"id": 1, "result": {"a":}}',
        b'{"id": 1, "result": "\xff"}',
        b'{"id": 1}',
        b'{"id": {}, "result": 1}',
    ],
)
async def test_nonsense_ends_the_connection_and_answers_nothing(nonsense: bytes) -> None:
    wire = Wire()
    answer = wire.ask()
    wire.say(nonsense)
    assert wire.closed
    assert [str(one).split(":")[0] for one in wire.lost] == ["the owner broke the protocol"]
    assert not answer.done()
    wire.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert not answer.done()


async def test_bytes_that_are_no_frames_end_the_connection() -> None:
    wire = Wire()
    wire.peer.data_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert wire.closed and len(wire.lost) == 1


async def test_who_is_let_go_learns_why() -> None:
    wire = Wire()
    wire.say({"jsonrpc": "2.0", "id": None, "error": {"code": 4012, "message": "too slow", "data": {}}})
    assert str(wire.lost[0]) == "the owner ended the connection: too slow"


async def test_the_end_is_told_once_and_not_after_our_own_end() -> None:
    wire = Wire()
    wire.peer.connection_lost(None)
    wire.peer.connection_lost(None)
    assert len(wire.lost) == 1
    ours = Wire()
    ours.peer.close()
    ours.peer.connection_lost(None)
    assert ours.lost == []


async def test_nothing_more_is_written_once_the_connection_is_broken() -> None:
    wire = Wire()
    wire.closed = True  # a write failed: the loop says so in its next turn, and logs each attempt until then
    answer = wire.ask()
    wire.peer.connection_lost(None)
    assert (wire.sent, len(wire.lost), answer.done()) == ([], 1, False), "it may be asked of another owner"


async def test_notifications_come_in_order_and_before_the_reply_behind_them() -> None:
    wire = Wire()
    answer = wire.ask()
    wire.say({"jsonrpc": "2.0", "method": "context/didChange", "params": {"head": "1"}})
    wire.say({"jsonrpc": "2.0", "method": "$/logTrace", "params": {}})
    assert not answer.done()
    wire.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert wire.told == [("context/didChange", b'{"head": "1"}')]
    assert answer.done()


async def test_progress_goes_to_the_request_it_belongs_to() -> None:
    wire, reports = Wire(), []
    answer = asyncio.get_running_loop().create_future()
    wire.peer.send("context/compact", {}, answer, lambda *report: reports.append(report))
    token = wire.sent[0]["params"]["workDoneToken"]
    for value in ({"kind": "begin"}, {"kind": "report", "message": "half", "percentage": 50}, {"kind": "end"}):
        wire.say({"jsonrpc": "2.0", "method": "$/progress", "params": {"token": token, "value": value}})
    wire.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    wire.say({"jsonrpc": "2.0", "method": "$/progress", "params": {"token": token, "value": {"kind": "report"}}})
    assert reports == [("half", 50)]


async def test_what_is_not_wanted_any_more_is_cancelled() -> None:
    wire = Wire()
    answer = wire.ask()
    wire.peer.forget(answer)
    assert wire.sent[-1] == {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}
    wire.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert not answer.done()


def summarize(number: int | str, **params: Any) -> Json:
    asked = {"sessionId": "s", "systemPrompt": "", "prompt": {"role": "user", "content": "p"}, **params}
    return {"jsonrpc": "2.0", "id": number, "method": "context/summarize", "params": asked}


async def test_the_owners_requests_are_answered() -> None:
    wire = Wire()
    wire.say(summarize(7))
    wire.say(summarize("8", customInstruction="refuse"))
    await idle()
    assert wire.sent[0] == {"jsonrpc": "2.0", "id": 7, "result": {"summary": "p"}}
    assert wire.sent[1]["id"] == "8" and wire.sent[1]["error"]["data"]["reason"] == "refused"


async def test_our_client_is_asked_nothing_that_the_protocol_does_not_know() -> None:
    wire = Wire()
    for number, message in enumerate([summarize(0, prompt="p"), summarize(0, sessionId=None), summarize(0)]):
        wire.say({**message, "id": number, "method": "context/summarize" if number < 2 else "initialize"})
    await idle()
    assert [(sent["id"], sent["error"]["code"]) for sent in wire.sent] == [(0, -32602), (1, -32602), (2, -32601)]
    assert wire.asked == 0


@pytest.mark.parametrize("method", ["no/such", "exit", "window/logMessage", "$/x", "session/open", "context/didChange"])
async def test_our_client_is_told_nothing_that_the_protocol_does_not_know(method: str) -> None:
    wire = Wire()
    odd: list[Any] = [[1], "x", None]
    for params in odd if method == "context/didChange" else [*odd, {}]:
        wire.say({"jsonrpc": "2.0", "method": method, "params": params})
    assert (wire.told, wire.lost) == ([], [])


async def test_a_notification_over_several_lines_is_put_on_one() -> None:
    wire = Wire()
    wire.say(b'{"jsonrpc":"2.0","method":"context/didChange","params":{\n"a": "\\n"}\n}')
    assert wire.told == [("context/didChange", b'{ "a": "\\n"}')]


async def test_odd_cancellations_and_progress_are_passed_over() -> None:
    wire = Wire()
    odd: list[Any] = [{"id": [1]}, {"id": {}}, {"id": 99}, {}, None, []]
    for params in odd:
        wire.say({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params})
        wire.say({"jsonrpc": "2.0", "method": "$/progress", "params": params})
    assert (wire.told, wire.lost) == ([], [])


@pytest.mark.parametrize(
    "error", [b"null", b'"x"', b"[]", b"{}", b'{"code":"1","message":"m","data":{}}', b'{"code":1,"message":"m"}']
)
async def test_an_error_that_is_none_ends_the_connection(error: bytes) -> None:
    wire = Wire()
    answer = wire.ask()
    wire.say(b'{"jsonrpc":"2.0","id":1,"error":' + error + b"}")
    [lost] = wire.lost
    assert "broke the protocol" in str(lost)
    assert not answer.done(), "somebody else may be asked"


async def test_an_introduction_that_is_cut_short_is_the_callers_to_know_alone() -> None:
    wire = Wire()
    introduction = asyncio.ensure_future(wire.peer.ask("initialize", {}))
    await asyncio.sleep(0)
    wire.peer.connection_lost(None)
    with pytest.raises(PeerLostError):
        await introduction
    assert wire.lost == []


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of what the owner is given, and of nothing else."""
    return Clock(monkeypatch)


async def test_a_silent_owner_is_asked_whether_it_is_there_and_then_given_up(clock: Clock) -> None:
    wire = Wire()
    answer = wire.ask()
    await clock.advance(module._DOUBT - module._TICK)
    assert len(wire.sent) == 1
    await clock.advance(2 * module._TICK)
    assert wire.sent[1]["id"] == 0
    await clock.advance(module.PATIENCE - module._DOUBT - 2 * module._TICK)
    assert wire.lost == [], "it may still answer"
    await clock.advance(2 * module._TICK)
    assert wire.lost[0].hung and not answer.done()


async def test_an_owner_has_longer_for_much(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()
    monkeypatch.setattr(module, "_READ_A_SECOND", 1)
    wire.ask()
    size = next(iter(wire.peer._waiting.values())).size
    assert size > 50
    await clock.advance(module.PATIENCE + size - module._TICK)
    assert wire.lost == []
    await clock.advance(2 * module._TICK)
    assert wire.lost[0].hung


async def test_an_owner_that_goes_on_reading_is_waited_for(clock: Clock) -> None:
    wire = Wire()
    wire.unsent = 100
    wire.ask()
    for _ in range(10):
        await clock.advance(module.PATIENCE - module._TICK)
        wire.unsent -= 10
    assert wire.lost == []
    await clock.advance(module.PATIENCE + 2 * module._TICK)
    assert wire.lost[0].hung, "it reads no more"


async def test_an_owner_that_says_anything_is_waited_for(clock: Clock) -> None:
    wire = Wire()
    answer = wire.ask()
    for _ in range(10):
        await clock.advance(module.PATIENCE - module._TICK)
        wire.say({"jsonrpc": "2.0", "id": 0, "error": {"code": -32601}})
    assert wire.lost == []
    wire.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert await answer == msgspec.Raw(b"{}")


async def test_an_owner_is_not_given_up_for_what_we_do_not_read(clock: Clock) -> None:
    wire = Wire()
    wire.ask()
    wire.peer.pause()
    assert wire.paused
    await clock.advance(10 * module.PATIENCE)
    assert wire.lost == []
    wire.peer.resume()
    assert not wire.paused
    await clock.advance(module.PATIENCE - module._TICK)
    assert wire.lost == [], "it has all its time from then on"
    await clock.advance(2 * module._TICK)
    assert wire.lost[0].hung


async def test_nobody_is_asked_while_nothing_is_wanted(clock: Clock) -> None:
    wire = Wire()
    wire.ask()
    wire.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    await clock.advance(10 * module.PATIENCE)
    assert wire.lost == [] and len(wire.sent) == 1


@pytest.mark.parametrize("only_asks", [True, False])
async def test_an_owner_is_told_whether_our_client_only_asks_for_approvals(only_asks: bool) -> None:
    asked: list[tuple[str, Json]] = []

    async def ask(method: str, params: Json) -> None:
        asked.append((method, params))

    client = SimpleNamespace(name="agent", can_summarize=False, wants_approvals=True, only_asks=only_asks)
    await module._introduce(cast("PeerConnection", SimpleNamespace(ask=ask)), cast("Client", client), "secret")
    ((method, params),) = asked
    assert method == "initialize"
    mark = {"approvals": "ask"} if only_asks else {}
    assert params["initializationOptions"] == {"token": "secret", **mark}
