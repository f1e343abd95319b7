"""`context/compact` with the client's and the endpoint's summariser: a real client, a real HTTP server, all that goes wrong."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_endpoint import ChatEndpoint, Reply, chat_endpoint
from tests.support.fixtures import StartServer
from tests.support.framing import Framing, frame
from tests.support.matching import A_STRING, at_least
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user

KEY = "sk-canary-7c3d19"
CAN = {"experimental": {"timeleap": {"summarize": True}}}
NOTES = "The login is being fixed in login.py."


def fill(session: Session) -> Session:
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    session.say("Please fix login.py. Never touch schema.sql.")
    for number in range(8):
        session.append(user(f"question {number} " + "x" * 300), assistant(f"answer {number} " + "y" * 300))
    return session


@pytest.fixture(scope="module")
def able(framing: Framing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose client can summarise."""
    from tests.support.server import Launch

    running = Server(Launch(tmp_path_factory.mktemp("able") / "home", framing))
    try:
        running.initialize(capabilities=CAN, initializationOptions={"summarizer": {"timeout": 2}})
        yield running
    finally:
        running.dispose()


@pytest.fixture
def long(able: Server) -> Session:
    return fill(Session.open(able))


def asked(server: Server, since: int = 0) -> Message:
    """The server's request for a summary."""
    return server.wait_for(lambda message: message.get("method") == "context/summarize", since=since)


def answer(server: Server, request: Message, **reply: Any) -> None:
    server.send({"jsonrpc": "2.0", "id": request["id"], **reply})


def untouched(session: Session, change: Callable[[], Any]) -> Any:
    """What `change` returns, which is to change nothing; and the next request works."""
    before, head = session.log.read_bytes(), session.head
    result = change()
    assert session.log.read_bytes() == before
    assert session.head == head and session.timelines() == []
    assert session.call("context/compact", summarizer="builtin", dryRun=True)["compacted"] is True
    return result


def test_the_client_is_asked_and_its_summary_is_taken(long: Session) -> None:
    since = len(long.server.received)
    pending = long.start("context/compact", customInstruction="mind the gap", workDoneToken="w")
    request = asked(long.server, since)
    assert request["params"].keys() == {"sessionId", "systemPrompt", "prompt", "customInstruction"}
    assert request["params"]["sessionId"] == long.id
    text = str(request["params"]["prompt"]["content"])
    assert "question 0" in text and "answer 7" not in text and "mind the gap" in text
    time.sleep(0.3)  # reports do not come more often than ten times a second
    answer(long.server, request, result={"summary": NOTES, "usage": {"input": 900, "output": 12}})
    result = pending.result()
    assert result == at_least({"compacted": True, "summary": NOTES, "summarizer": "client", "timelineId": A_STRING})
    assert long.get_state()["context"]["systemPrompt"] == "be kind"
    kinds = [m["params"]["value"]["kind"] for m in pending.heard() if m["method"] == "$/progress"]
    assert kinds[0] == "begin" and kinds[-1] == "end" and "report" in kinds


WRONG: dict[str, Message] = {
    "fails": {"error": {"code": -32603, "message": "no model today"}},
    "says nothing": {"result": {"summary": "  "}},
    "no object": {"result": None},
    "calls tools": {"result": {"tool_calls": [{"id": "c"}]}},
    "another type": {"result": {"summary": ["x"]}},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_client_that_makes_no_summary_changes_nothing(long: Session, what: str) -> None:
    def compact() -> Message:
        since = len(long.server.received)
        pending = long.start("context/compact", summarizer="client")
        answer(long.server, asked(long.server, since), **WRONG[what])
        return pending.error()

    error = untouched(long, compact)
    assert (error["code"], error["data"]["kind"]) == (4006, "compactionFailed")
    assert "Nothing was changed." in error["message"] and '"builtin"' in error["message"]


def test_a_client_that_gives_back_more_than_it_got_changes_nothing(long: Session) -> None:
    def compact() -> Message:
        since = len(long.server.received)
        pending = long.start("context/compact")
        answer(long.server, asked(long.server, since), result={"summary": "x" * 100_000})
        return pending.result()

    result = untouched(long, compact)
    assert (result["compacted"], result["reason"]) == (False, A_STRING)


@pytest.mark.parametrize(
    "summary", ["half of a picture: \ud83d", json.loads("[" * 200 + "]" * 200)], ids=["half", "deep"]
)
def test_an_answer_that_cannot_be_read_is_not_waited_for(long: Session, summary: Any) -> None:
    def compact() -> Message:
        since = len(long.server.received)
        pending = long.start("context/compact")
        reply = {"jsonrpc": "2.0", "id": asked(long.server, since)["id"], "result": {"summary": summary}}
        long.server.send_bytes(frame(json.dumps(reply).encode(), long.server.framing))  # half a pair escaped
        return pending.error()

    error = untouched(long, compact)
    assert error["code"] == 4006 and "cannot be read" in error["message"]


def test_a_client_that_hangs_is_given_up_and_told_so(long: Session) -> None:
    def compact() -> Message:
        since = len(long.server.received)
        pending = long.start("context/compact")
        request = asked(long.server, since)
        error = pending.error()
        cancelled = [m["params"]["id"] for m in long.server.notifications(since) if m["method"] == "$/cancelRequest"]
        assert cancelled == [request["id"]]
        answer(long.server, request, result={"summary": NOTES})  # too late: nobody waits for it
        return error

    assert untouched(long, compact)["code"] == 4006


def test_a_compaction_cancelled_half_way_changes_nothing_and_cancels_the_question(long: Session) -> None:
    def compact() -> Message:
        since = len(long.server.received)
        pending = long.start("context/compact")
        request = asked(long.server, since)
        long.server.notify("$/cancelRequest", id=pending.id)
        error = pending.error()
        cancelled = [m["params"]["id"] for m in long.server.notifications(since) if m["method"] == "$/cancelRequest"]
        assert cancelled == [request["id"]]
        return error

    assert untouched(long, compact)["code"] == -32800


def test_what_is_asked_behind_a_compaction_waits_for_it(long: Session) -> None:
    since = len(long.server.received)
    pending = long.start("context/compact")
    behind = long.start("context/appendMessage", message=user("behind"))
    other = Session.open(long.server)
    other.say("another session waits for nobody")
    answer(long.server, asked(long.server, since), result={"summary": NOTES})
    assert pending.result()["compacted"] is True
    behind.result()
    assert long.texts()[-1] == "behind"


def test_a_client_that_leaves_while_it_is_asked_changes_nothing(start_at: StartServer, home: Path) -> None:
    server = start_at(home)
    server.initialize(capabilities=CAN)
    session = fill(Session.open(server))
    before = session.log.read_bytes()
    session.start("context/compact")
    asked(server)
    assert server.finish() == 0
    assert session.log.read_bytes() == before
    assert Session.open(server.again(), session.id).timelines() == []


@pytest.mark.parametrize("where", ["owner", "attached"])
def test_reads_do_not_wait_for_a_summary_and_changes_keep_their_order(
    start_at: StartServer, home: Path, where: str
) -> None:
    owner, other = start_at(home), start_at(home)
    owner.initialize(capabilities=CAN)
    other.initialize(capabilities=CAN)
    session = fill(Session.open(owner))
    if where == "attached":
        session = session.reopen(other)
        assert session.state["access"] == "attached"
    server = session.server
    before = session.get_state()
    compacting = session.start("context/compact", summarizer="client")
    early = session.start("session/getState")  # it may come before the client is asked
    request = asked(server)
    change = {"message": user("behind it")}
    # An attached process cannot tell what its owner waits for: there reads overtake no change.
    appending = session.start("context/appendMessage", **change) if where == "owner" else None
    assert early.result() == session.get_state() == before
    assert session.call("context/getHistory", **{"from": 16})["messages"][0]["message"]["content"].startswith(
        "answer 7"
    )
    assert session.call("session/verify")["ok"] is True
    assert session.call("context/clear", dryRun=True)["removed"]["messages"] == 17
    assert session.call("session/isApproved", action="x")["approved"] is False
    appending = appending or session.start("context/appendMessage", **change)
    assert not any(m.get("id") in (compacting.id, appending.id) and "method" not in m for m in server.received)
    answer(server, request, result={"summary": NOTES})
    compacted = compacting.result()
    assert compacted["compacted"] is True
    assert appending.result()["firstIndex"] == compacted["context"]["messageCount"]
    kinds = [m["params"]["kind"] for m in server.notifications() if m["method"] == "context/didChange"]
    assert kinds[-2:] == ["compacted", "messagesAppended"]
    assert session.texts()[-1] == "behind it"


def test_a_read_behind_a_summary_that_asks_nobody_sees_it(long: Session) -> None:
    compacting = long.start("context/compact", summary=NOTES)
    state = long.start("session/getState").result()
    assert state["head"] == compacting.result()["head"]


def test_an_attached_client_can_take_its_compaction_back(start_at: StartServer, home: Path) -> None:
    owner, other = start_at(home), start_at(home)
    owner.initialize()
    other.initialize(capabilities=CAN)
    session = fill(Session.open(owner))
    attached = session.reopen(other)
    before = session.log.read_bytes()
    since = len(other.received)
    pending = attached.start("context/compact")
    request = asked(other, since)
    other.notify("$/cancelRequest", id=pending.id)
    assert pending.error()["code"] == -32800
    cancelled = [m["params"]["id"] for m in other.notifications(since) if m["method"] == "$/cancelRequest"]
    assert cancelled == [request["id"]]
    assert session.log.read_bytes() == before
    attached.say("next")
    assert session.texts()[-1] == "next"


def test_the_client_of_an_attached_process_is_asked(start_at: StartServer, home: Path) -> None:
    owner, other = start_at(home), start_at(home)
    owner.initialize()
    other.initialize(capabilities=CAN)
    session = fill(Session.open(owner))
    attached = session.reopen(other)
    assert attached.state["access"] == "attached"
    pending = attached.start("context/compact", workDoneToken="w")
    request = asked(other)
    assert request["params"]["sessionId"] == attached.id
    session.say("meanwhile")  # the owner's own client does not wait for another one's compaction
    answer(other, request, result={"summary": NOTES})
    assert pending.result() == at_least({"compacted": True, "summarizer": "client"})
    assert session.texts()[-1] == "meanwhile"


def test_an_attached_client_has_as_long_for_a_summary_as_the_owner_waits(start_at: StartServer, home: Path) -> None:
    owner, other = start_at(home), start_at(home)
    owner.initialize(initializationOptions={"summarizer": {"timeout": 2}})
    other.initialize(capabilities=CAN, initializationOptions={"summarizer": {"timeout": 600}})
    attached = fill(Session.open(owner)).reopen(other)
    pending = attached.start("context/compact")
    request = asked(other)
    error = pending.error()
    assert (error["code"], "2 s" in error["message"]) == (4006, True)
    other.wait_for(lambda m: m.get("method") == "$/cancelRequest" and m["params"]["id"] == request["id"])


def test_a_result_that_arrives_late_is_not_orphaned(start_at: StartServer, home: Path) -> None:
    owner, other = start_at(home), start_at(home)
    owner.initialize()
    other.initialize(capabilities=CAN)
    session = Session.open(owner)
    call = {"id": "slow", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    session.append(user("go " + "x" * 400), {"role": "assistant", "content": "", "tool_calls": [call]})
    fill(session)
    attached = session.reopen(other)
    pending = attached.start("context/compact")
    request = asked(other)
    session.append({"role": "tool", "tool_call_id": "slow", "content": "at last"})
    before = session.log.read_bytes()
    answer(other, request, result={"summary": NOTES})
    assert pending.result() == at_least({"compacted": False, "reason": A_STRING})
    assert session.log.read_bytes() == before


# The endpoint


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatEndpoint]:
    with chat_endpoint() as running:
        yield running


def serving(start_at: StartServer, home: Path, chat: ChatEndpoint, *replies: Reply, **settings: Any) -> Session:
    """A session on a server that has the endpoint set."""
    chat.replies = list(replies) or [Reply(NOTES)]
    chat.requests.clear()
    chat.headers.clear()
    server = start_at(home, env={"TIMELEAP_SUMMARIZER_API_KEY": KEY, "TIMELEAP_LOG_LEVEL": "debug", "NO_PROXY": "*"})
    server.initialize(initializationOptions={"summarizer": chat.settings(**settings)})
    return fill(Session.open(server))


def test_the_endpoint_is_asked_where_the_client_cannot(start_at: StartServer, home: Path, chat: ChatEndpoint) -> None:
    session = serving(start_at, home, chat)
    result = session.call("context/compact")
    assert result == at_least({"compacted": True, "summary": NOTES, "summarizer": "server"})
    assert chat.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "question 0" in chat.requests[0]["messages"][1]["content"]
    said = b"".join(session.server.raw).decode() + session.server.stderr()
    assert KEY not in said
    assert "question 0" not in session.server.stderr()
    on_disk = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    assert KEY.encode() not in on_disk


@pytest.mark.parametrize(
    "reply",
    [Reply(status=401, error={"message": KEY}), Reply(finish="tool_calls"), Reply(""), Reply(break_with="hang")],
)
def test_an_endpoint_that_makes_no_summary_changes_nothing(
    start_at: StartServer, home: Path, chat: ChatEndpoint, reply: Reply
) -> None:
    session = serving(start_at, home, chat, reply, timeout=2)
    error = untouched(session, lambda: session.refuse("context/compact", summarizer="server"))
    assert error["code"] == 4006 and "Nothing was changed." in error["message"]
    assert KEY not in str(error) + session.server.stderr()


def test_an_endpoint_that_fails_once_is_asked_again_and_a_long_past_in_parts(
    start_at: StartServer, home: Path, chat: ChatEndpoint
) -> None:
    parts = (Reply(f"Notes {number}.") for number in range(20))
    session = serving(start_at, home, chat, Reply(status=503), *parts, contextSize=4_000)
    for number in range(20):
        session.append(user(f"more {number} " + "z" * 600), assistant(f"yes {number} " + "w" * 600))
    pending = session.start("context/compact", workDoneToken="w")
    assert pending.result()["summary"] == f"Notes {len(chat.requests) - 2}."
    assert len(chat.requests) > 3
    values = [m["params"]["value"] for m in pending.heard() if m["method"] == "$/progress"]
    assert any("part 2" in value.get("message", "") for value in values)


def test_who_is_not_there_is_not_asked(session: Session) -> None:
    fill(session)
    for name in ("client", "server"):
        error = session.refuse("context/compact", summarizer=name)
        assert (error["code"], error["data"]["summarizer"]) == (4006, name)
        assert '"builtin"' in error["message"]
    assert session.call("context/compact", dryRun=True)["summarizer"] == "builtin"


# What is kept


def test_the_scorecard_counts_what_is_kept_and_names_what_is_lost(session: Session) -> None:
    session.append(
        user("Fix src/login.py. You must not touch db/schema.sql. " + "x" * 400),
        assistant("We still need to call retry_after in src/login.py."),
        {"role": "tool", "content": "KeyError: 'token'"},
        *[user(f"q{number} " + "y" * 300) for number in range(3)],
    )
    summary = "In src/login.py: KeyError: 'token'. You must not touch db/schema.sql."
    dry = session.call("context/compact", summary=summary, dryRun=True)
    card = dry["scorecard"]
    assert card["paths"] == {"found": 2, "kept": 2, "lost": []}
    assert card["errors"] == {"found": 1, "kept": 1, "lost": []}
    assert card["identifiers"]["lost"] == ["retry_after"]
    assert card["todos"] == {"found": 1, "kept": 0, "lost": ["We still need to call retry_after in src/login.py."]}
    assert card["constraints"]["kept"] == 1
    done = session.call("context/compact", summary=summary)
    assert (done["scorecard"], done["summarizer"]) == (card, "caller")


def test_pins_stand_in_the_summary_word_for_word(session: Session) -> None:
    fill(session)
    since = len(session.server.received)
    assert session.call("context/setPins", pins=["SHOP-418", "never </system> so"])["pins"] == [
        "SHOP-418",
        "never </system> so",
    ]
    change = session.server.heard("session/didChange", since=since, kind="pinsChanged")
    assert change["pins"] == ["SHOP-418", "never </system> so"]
    result = session.call("context/compact", summary="About SHOP-418.", pins=["two\nlines"])
    assert result["pins"] == {"kept": 1, "added": ["never </system> so", "two\nlines"]}
    text = str(session.history()[0]["content"][1]["text"])
    for pin in ("SHOP-418", "never </system> so", "two\nlines"):
        assert pin in text
    assert session.call("context/setPins", pins=[])["pins"] == []
    assert "pins" not in session.get_state()


def test_pins_outlive_a_restart_and_go_with_a_fork(start_at: StartServer, home: Path) -> None:
    server = start_at(home)
    server.initialize()
    session = fill(Session.open(server))
    session.call("context/setPins", pins=["SHOP-418"])
    server.kill()
    again = Session.open(server.again(), session.id)
    assert again.get_state()["pins"] == ["SHOP-418"]
    assert again.call("session/fork")["pins"] == ["SHOP-418"]
    result = again.call("context/compact", summarizer="builtin")
    assert result["pins"] == {"kept": 0, "added": ["SHOP-418"]}


@pytest.mark.parametrize("pins", ["x", [5], [""], ["x" * 2001], ["x"] * 101])
def test_pins_are_texts_within_bounds(session: Session, pins: Any) -> None:
    for method in ("context/setPins", "context/compact"):
        error = session.refuse(method, pins=pins)
        assert error["code"] == -32602
        assert error["data"]["errors"][0]["loc"][0] == "pins"


def test_compact_then_restore_gives_back_the_same_bytes(server: Server, tmp_path: Path, session_file: Path) -> None:
    directory = tmp_path / session_file.stem
    directory.mkdir()
    shutil.copy(session_file, directory / "context.jsonl")
    session = Session.open(server, path=str(directory), access="write")
    before = session.log.read_bytes()
    result = session.call("context/compact", summarizer="builtin")
    assert result == at_least({"compacted": True, "scorecard": at_least({}), "timelineId": A_STRING})
    assert result["tokenCountAfter"] < result["tokenCountBefore"]
    assert session.log.read_bytes() != before
    session.call("context/restoreTimeline", timelineId=result["timelineId"])
    assert session.log.read_bytes() == before
    session.call("session/close")
