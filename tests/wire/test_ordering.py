"""Order, cancellation, progress, back-pressure."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.framing import Framing, dumps, frame
from tests.support.holding import Hold, wait_until
from tests.support.matching import A_STRING, at_least
from tests.support.server import DATABASES, PATIENCE, Message, Server
from tests.support.session import Session, user


def test_pipelined_appends_take_effect_and_are_answered_in_order(server: Server, session: Session) -> None:
    before = len(server.received)
    pendings = [session.start("context/appendMessage", message=user(str(n))) for n in range(500)]
    assert [pending.result()["firstIndex"] for pending in pendings] == list(range(500))
    assert [m["id"] for m in server.received[before:] if "method" not in m] == [pending.id for pending in pendings]
    assert session.texts() == [str(n) for n in range(500)]


def test_requests_of_all_kinds_on_one_session_take_effect_in_order(session: Session) -> None:
    pendings = []
    for number in range(20):
        pendings.append(session.start("context/checkpoint", label=str(number)))
        pendings.append(session.start("context/appendMessage", message=user(str(number))))
        pendings.append(session.start("context/updateTokenCount", tokenCount=number))
        if number % 5 == 4:
            pendings.append(session.start("context/revertTo", checkpointId=number - 4 * (number // 5) - 1))
        pendings.append(session.start("session/getState"))
    counts = [p.result()["context"]["messageCount"] for p in pendings if p.method == "session/getState"]
    expected, messages, checkpoints = [], 0, 0
    for number in range(20):
        checkpoints, messages = checkpoints + 1, messages + 1
        if number % 5 == 4:
            target = number - 4 * (number // 5) - 1
            messages -= checkpoints - target
            checkpoints = target
        expected.append(messages)
    assert counts == expected
    assert all("result" in pending.reply() for pending in pendings)


@pytest.mark.parametrize("method", ["context/checkpoint", "context/updateTokenCount", "context/appendMessage"])
def test_a_repeat_in_flight_is_answered_as_the_first(session: Session, method: str) -> None:
    each: dict[str, Message] = {
        "context/checkpoint": {"label": "x"},
        "context/updateTokenCount": {"tokenCount": 7},
        "context/appendMessage": {"message": user("é")},
    }
    pendings = [session.start(method, **each[method], requestId=name) for name in ("1", "1", "2", "1")]
    first, *repeats, other, last = (pending.result() for pending in pendings)
    assert [*repeats, last] == [{**first, "duplicate": True, "head": A_STRING}] * 2
    assert "duplicate" not in other and other["head"] != first["head"]
    assert len(session.records()) == 2


def test_a_checkpoint_whose_progress_is_told_keeps_its_turn(session: Session) -> None:
    pendings = []
    for number in range(10):
        pendings.append(session.start("context/appendMessage", message=user(str(number))))
        pendings.append(session.start("context/checkpoint", **({"workDoneToken": number} if number % 2 else {})))
    results = [pending.result() for pending in pendings]
    assert [found["firstIndex"] for found in results[::2]] == list(range(10))
    made = [found["checkpoint"] for found in results[1::2]]
    assert [(each["id"], each["messageCount"]) for each in made] == [(number, number + 1) for number in range(10)]


def test_a_read_behind_a_write_sees_it(session: Session) -> None:
    for number in range(50):
        session.start("context/appendMessage", message=user(str(number)))
        page = session.start("context/getHistory", **{"from": number})
        assert [entry["message"]["content"] for entry in page.result()["messages"]] == [str(number)]


@pytest.mark.parametrize(("method", "seen"), [("session/verify", "lines"), ("session/repair", "head")])
def test_a_check_behind_a_write_sees_it(session: Session, method: str, seen: str) -> None:
    appending = session.start("context/appendMessage", message=user("x"))
    result = session.start(method).result()
    assert result[seen] == {"lines": 1, "head": appending.result()["head"]}[seen]


def test_what_is_measured_behind_a_write_has_it(session: Session) -> None:
    session.start("context/appendMessage", message=user("x"))
    (one,) = session.start("session/storage").result()["sessions"]
    assert one["logBytes"] == session.log.stat().st_size > 0


def test_two_sessions_do_not_wait_for_each_other(start: StartServer, framing: Framing, tmp_path: Path) -> None:
    hold = Hold("append.after_write", tmp_path)
    server = start(framing, failpoints=hold.failpoints)
    slow, other = Session.open(server, "slow"), Session.open(server, "other")
    appended = slow.start("context/appendMessage", message=user("x"))
    hold.wait()
    reads = [other.start("context/getHistory"), other.start("session/getState"), server.start("session/list")]
    for pending in reads:
        pending.result()
    assert other.start("context/appendMessage", message=user("y")).result()["messageCount"] == 1
    hold.release()
    assert appended.result()["messageCount"] == 1


def test_waiting_appends_share_one_sync(start: StartServer, tmp_path: Path) -> None:
    hold = Hold("append.after_write", tmp_path)
    server = start(failpoints=f"{hold.failpoints};append.before_write@6+=kill")
    session = Session.open(server, "s")
    pendings = [session.start("context/appendMessage", message=user(str(n))) for n in range(100)]
    hold.wait()
    server.call("rpc.discover")  # behind them all
    hold.release()
    assert [pending.result()["firstIndex"] for pending in pendings] == list(range(100)), "in no more than five writes"


# cancellation


def test_a_cancelled_request_did_nothing_or_returns_its_real_result(
    start: StartServer, framing: Framing, tmp_path: Path
) -> None:
    hold = Hold("append.after_write", tmp_path)
    server = start(framing, failpoints=hold.failpoints)
    session = Session.open(server, "s")
    pendings = []
    for number in range(20):
        pendings.append(session.start("context/appendMessage", message=user(str(number))))
        if number == 0:
            hold.wait()
        server.notify("$/cancelRequest", id=pendings[-1].id)
        if number == 10:
            hold.release()
    replies = [pending.reply() for pending in pendings]
    done = [str(number) for number, reply in enumerate(replies) if "result" in reply]
    assert {reply["error"]["code"] for reply in replies if "error" in reply} <= {-32800}
    assert session.texts() == done
    server.kill()
    assert Session.open(start(framing), "s").texts() == done


def test_a_request_that_has_not_begun_is_cancelled(start: StartServer, tmp_path: Path) -> None:
    hold = Hold("append.after_write", tmp_path)
    server = start(failpoints=hold.failpoints)
    session = Session.open(server, "s")
    first = session.start("context/appendMessage", message=user("first"))
    hold.wait()
    waiting = server.expect("context/clear", "waiting")
    both: list[Message] = [
        {"jsonrpc": "2.0", "id": waiting.id, "method": "context/clear", "params": {"sessionId": session.id}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": waiting.id}},
    ]
    server.send_bytes(b"".join(frame(dumps(message), server.framing) for message in both))  # read at once
    assert waiting.error() == {
        "code": -32800,
        "message": A_STRING,
        "data": at_least({"kind": "cancelled", "retryable": False}),
    }
    hold.release()
    assert first.result()["messageCount"] == 1
    assert session.texts() == ["first"] and session.timelines() == []


@pytest.mark.parametrize("method", ["context/appendMessage", "context/checkpoint"])
def test_a_write_under_way_is_finished_and_kept(start: StartServer, tmp_path: Path, method: str) -> None:
    hold = Hold("append.after_write", tmp_path, passing=2)
    server = start(failpoints=hold.failpoints)
    session = Session.open(server, "s")
    params = {"message": user("x")} if method == "context/appendMessage" else {}
    session.call(method, **params)
    pending = session.start(method, **params)
    hold.wait()
    server.notify("$/cancelRequest", id=pending.id)
    assert server.call("session/list")  # it has heard of that
    hold.release()
    assert "head" in pending.result()
    assert len(session.records()) == 2
    assert "ignoring" not in server.stderr()


@pytest.mark.parametrize("id", ["never sent", 987654, None, {}, [1], 1.5, True])
def test_cancelling_what_is_not_there_does_nothing(session: Session, id: Any) -> None:
    before = len(session.server.received)
    session.server.notify("$/cancelRequest", id=id)
    session.say("x")
    assert [m for m in session.server.received[before:] if m.get("id", 0) is None] == []


def test_cancelling_a_request_that_is_done_does_nothing(session: Session) -> None:
    pending = session.start("context/appendMessage", message=user("x"))
    pending.result()
    before = len(session.server.received)
    session.server.notify("$/cancelRequest", id=pending.id)
    session.call("session/getState")
    assert len(session.server.received) == before + 1


# progress


@pytest.mark.parametrize("token", ["w-1", 7, ""])
@pytest.mark.parametrize("method", ["context/revertTo", "context/compact"])
def test_long_methods_report_progress_under_the_given_token(session: Session, token: Any, method: str) -> None:
    session.append(*[user(f"{n} " + "x" * 400) for n in range(50)])
    session.checkpoint()
    params: dict[str, Any] = {"checkpointId": 0} if method == "context/revertTo" else {"summary": "s"}
    pending = session.start(method, **params, workDoneToken=token)
    heard = [m["params"] for m in pending.heard() if m["method"] == "$/progress"]
    assert {params["token"] for params in heard} == {token}
    kinds = [params["value"]["kind"] for params in heard]
    assert (kinds[0], kinds[-1]) == ("begin", "end") and set(kinds[1:-1]) <= {"report"}
    assert heard[0]["value"]["title"] == A_STRING


def test_without_a_token_there_is_no_progress(session: Session) -> None:
    session.checkpoint()
    pending = session.start("context/revertTo", checkpointId=0)
    assert [m["method"] for m in pending.heard()] == ["context/didChange"]


def test_progress_ends_also_when_the_method_fails(session: Session) -> None:
    pending = session.start("context/revertTo", checkpointId=9, workDoneToken="w")
    assert pending.error()["code"] == 4002
    kinds = [m["params"]["value"]["kind"] for m in pending.heard()]
    assert kinds == [] or (kinds[0], kinds[-1]) == ("begin", "end")


# back-pressure


@pytest.mark.slow
@pytest.mark.long
def test_a_client_that_does_not_read_slows_only_itself_and_gets_everything(
    start_at: StartServer, home: Any, framing: Framing
) -> None:
    server = start_at(home, framing, reading=False)
    sent = threading.Event()
    body = "x" * 100_000

    def write() -> None:
        server.start("initialize", clientInfo={"name": "deaf"})
        server.start("session/open", sessionId="s")
        for _ in range(30):
            server.start("context/appendMessage", sessionId="s", message=user(body))
        for _ in range(250):  # 750 MB
            server.start("context/getHistory", sessionId="s", limit=30, maxBytes=10_000_000)
        sent.set()

    threading.Thread(target=write, daemon=True).start()
    import psutil

    for _ in range(30):
        time.sleep(0.1)
        assert psutil.Process(server.process.pid).memory_info().rss < 500 << 20
    server.start_reading()
    assert sent.wait(PATIENCE)
    replies = server.wait_for(lambda m: m.get("id") == 282)
    assert len(replies["result"]["messages"]) == 30
    assert [m["id"] for m in server.received if "method" not in m] == list(range(1, 283))


def test_a_client_that_stops_reading_and_leaves_loses_nothing_acknowledged(
    start_at: StartServer, start: StartServer, home: Any
) -> None:
    server = start_at(home, "ndjson", reading=False)
    server.start("initialize")
    server.start("session/open", sessionId="s")
    for number in range(200):
        server.start("context/appendMessage", sessionId="s", message=user(str(number)))
    log = home / "sessions" / "s" / "context.jsonl"

    def is_written() -> bool:
        if home not in DATABASES:
            return log.exists() and log.read_bytes().count(b"\n") > 10
        from tests.support.postgresql import stored_rows

        return all(f'"content":"{number}"'.encode() in stored_rows(DATABASES[home]) for number in (0, 10))

    wait_until(is_written)
    assert server.process.stdout is not None
    server.process.stdout.close()
    with suppress(BrokenPipeError):  # all others may be answered by now
        server.start("context/appendMessage", sessionId="s", message=user("200"))
    server.close_stdin()
    assert server.process.wait(PATIENCE) == 3
    texts = Session.open(start(), "s").texts()
    assert texts == [str(number) for number in range(len(texts))] and texts
