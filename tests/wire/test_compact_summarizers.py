"""`context/compact` with the client's and the endpoint's summariser: a real client, a real HTTP server, all that goes wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_endpoint import ChatEndpoint, Reply, chat_endpoint
from tests.support.fixtures import Engine, StartServer, with_store
from tests.support.framing import Framing, frame
from tests.support.holding import Hold
from tests.support.matching import A_STRING, at_least
from tests.support.server import Launch, Message, Pending, Server
from tests.support.session import Session, assistant, user

KEY = "sk-canary-7c3d19"
CAN = {"experimental": {"timeleap": {"summarize": True}}}
SECOND = {"jsonl": "attached", "postgresql": "owner"}
"""The access of whoever opens a session second."""
NOTES = "The login is being fixed in login.py."


def fill(session: Session) -> Session:
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    session.say("Please fix login.py. Never touch schema.sql.")
    for number in range(8):
        session.append(user(f"question {number} " + "x" * 300), assistant(f"answer {number} " + "y" * 300))
    return session


@pytest.fixture(scope="module")
def able(engine: Engine, framing: Framing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose client can summarise."""
    running = Server(Launch(with_store(tmp_path_factory.mktemp("able") / "home", engine), framing))
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
    before, head = session.log_bytes(), session.head
    result = change()
    assert session.log_bytes() == before
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
    long.server.wait_for(
        lambda m: m.get("method") == "$/progress" and m["params"]["value"]["kind"] == "report", since=since
    )
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


@pytest.mark.long
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
    before = session.log_bytes()
    session.start("context/compact")
    asked(server)
    assert server.finish() == 0
    assert session.log_bytes() == before
    assert Session.open(server.again(), session.id).timelines() == []


@dataclass
class Windows:
    """The same session in two processes; both clients can summarise, and decide what is asked."""

    owner: Session
    attached: Session

    def begin(self, where: str) -> tuple[Session, Pending, Message]:
        """A compaction in one of them that waits for its summary; returns its window, it, and the request for that."""
        session: Session = getattr(self, where)
        compacting = session.start("context/compact", summarizer="client")
        return session, compacting, asked(session.server)


@pytest.fixture
def windows(start_at: StartServer, home: Path, engine: Engine) -> Windows:
    owner, other = start_at(home), start_at(home)
    for server in (owner, other):
        server.initialize(capabilities={"experimental": {"timeleap": {"summarize": True, "approvals": True}}})
    session = fill(Session.open(owner))
    attached = session.reopen(other)
    assert attached.state["access"] == SECOND[engine]
    return Windows(session, attached)


def reads(session: Session, target: Path) -> list[Pending]:
    """All kinds of reading, asked at once."""
    return [
        session.start("session/getState"),
        session.start("context/getHistory", **{"from": 16}),
        session.start("context/listCheckpoints"),
        session.start("context/listTimelines"),
        session.start("context/search", query="login"),
        session.start("session/verify"),
        session.start("session/storage"),
        session.start("context/clear", dryRun=True),
        session.start("session/isApproved", action="x"),
        session.start("session/export", format="markdown", path=str(target)),
    ]


@pytest.mark.parametrize("where", ["owner", "attached"])
def test_reads_do_not_wait_for_a_summary_and_changes_keep_their_order(
    windows: Windows, where: str, tmp_path: Path
) -> None:
    before = windows.owner.get_state()
    session: Session = getattr(windows, where)
    server = session.server
    since = len(server.received)
    compacting = session.start("context/compact", summarizer="client")
    appending = session.start("context/appendMessage", message=user("behind it"))
    early = session.start("session/getState")  # it may come before the client is asked
    request = asked(server)
    state = early.result()
    assert (state["head"], state["context"]) == (before["head"], before["context"])
    for number, window in enumerate((session, windows.owner, windows.attached)):
        replies = [pending.result() for pending in reads(window, tmp_path / f"{number}.md")]
        assert replies[0]["head"] == before["head"]
        assert replies[1]["messages"][0]["message"]["content"].startswith("answer 7")
        assert replies[4]["matches"] and replies[5]["ok"] is True
        assert replies[7]["removed"]["messages"] == 17 and replies[8]["approved"] is False
    assert not any(m.get("id") in (compacting.id, appending.id) and "method" not in m for m in server.received[since:])
    answer(server, request, result={"summary": NOTES})
    compacted = compacting.result()
    assert compacted["compacted"] is True
    assert appending.result()["firstIndex"] == compacted["context"]["messageCount"]
    kinds = [m["params"]["kind"] for m in server.notifications() if m["method"] == "context/didChange"]
    assert kinds[-2:] == ["compacted", "messagesAppended"]
    assert session.texts()[-1] == "behind it"


@pytest.mark.parametrize("where", ["owner", "attached"])
def test_a_read_behind_a_change_of_another_window_sees_it_while_a_summary_is_waited_for(
    windows: Windows, where: str
) -> None:
    session, compacting, request = windows.begin(where)
    other = windows.attached if session is windows.owner else windows.owner
    for window in (session, other):
        appending = other.start("context/appendMessage", message=user("meanwhile"))
        state = other.start("session/getState").result()
        assert state["context"]["messageCount"] == appending.result()["messageCount"]
        assert window.get_state()["head"] == state["head"]
    answer(session.server, request, result={"summary": NOTES})
    assert compacting.result()["compacted"] is True
    assert session.texts()[-2:] == ["meanwhile"] * 2


@pytest.mark.parametrize("where", ["owner", "attached"])
def test_approvals_do_not_wait_for_a_summary_and_keep_their_order(windows: Windows, where: str) -> None:
    session, compacting, request = windows.begin(where)
    changing = session.start("context/setSystemPrompt", systemPrompt="behind it")
    started = [
        session.start("session/setYolo", yolo=True),
        session.start("approval/request", action="run"),
        session.start("session/setYolo", yolo=False),
        session.start("session/setAutoApprove", action="read", enabled=True),
        session.start("approval/request", action="read"),
        session.start("session/setAfk", afk=True),
        session.start("approval/request", action="run"),
        session.start("session/setAfk", afk=False),
    ]
    waiting = session.start("approval/request", action="run")
    results = [pending.result() for pending in started]
    assert [results[n]["decision"] for n in (1, 4, 6)] == ["approve", "approve", "reject"]
    assert [results[n]["automatic"] for n in (1, 4, 6)] == [True, True, True]
    asked_for = session.server.heard("approval/didRequest")["approval"]
    (pending,) = session.call("approval/list")["approvals"]
    assert pending["approvalId"] == asked_for["approvalId"]
    session.call("approval/respond", approvalId=asked_for["approvalId"], decision="approve")
    assert waiting.result()["automatic"] is False
    assert not any(m.get("id") in (compacting.id, changing.id) and "method" not in m for m in session.server.received)
    answer(session.server, request, result={"summary": NOTES})
    assert compacting.result()["compacted"] is True
    assert changing.result()["head"]


@pytest.mark.parametrize("where", ["owner", "attached"])
def test_approvals_sent_right_behind_a_compaction_keep_their_order(windows: Windows, where: str) -> None:
    session: Session = getattr(windows, where)
    compacting = session.start("context/compact", summarizer="client")
    deciding = []
    for _ in range(20):
        for yolo in (True, False):
            session.start("session/setYolo", yolo=yolo)
            deciding.append((yolo, session.start("session/isApproved", action="run")))
    assert [pending.result()["approved"] for _, pending in deciding] == [yolo for yolo, _ in deciding]
    answer(session.server, asked(session.server), result={"summary": NOTES})
    assert compacting.result()["compacted"] is True


@pytest.mark.parametrize("where", ["owner", "attached"])
def test_a_read_behind_a_change_that_is_being_written_sees_it(
    start_at: StartServer, home: Path, engine: Engine, where: str, tmp_path: Path
) -> None:
    hold = Hold("append.after_write", tmp_path)
    held = {"TIMELEAP_FAILPOINTS": hold.failpoints}
    owner_writes = engine == "jsonl" or where == "owner"
    owner = start_at(home, env=held if owner_writes else {})
    other = start_at(home, env={} if owner_writes else held)
    for server in (owner, other):
        server.initialize(capabilities=CAN)
    session = Session.open(owner)
    session = session if where == "owner" else session.reopen(other)
    appending = session.start("context/appendMessage", messages=[user(str(n) + "x" * 300) for n in range(8)])
    hold.wait()
    compacting = session.start("context/compact", summarizer="client")
    behind = session.start("context/appendMessage", message=user("behind it"))
    reading = session.start("session/getState")
    hold.release()
    assert reading.result()["context"]["messageCount"] == appending.result()["messageCount"] == 8
    answer(session.server, asked(session.server), result={"summary": NOTES})
    assert compacting.result()["compacted"] is True
    assert behind.result()["head"] == session.get_state()["head"]


def test_a_compaction_that_waits_when_its_owner_goes_keeps_its_order(windows: Windows) -> None:
    session, compacting, _ = windows.begin("attached")
    appending = session.start("context/appendMessage", message=user("behind it"))
    before = session.get_state()["head"]
    since = len(session.server.received)
    windows.owner.server.kill()
    assert session.server.heard("session/didChange", since=since, kind="accessChanged")["access"] == "owner"
    request = asked(session.server, since)
    state = session.get_state()
    assert (state["access"], state["head"]) == ("owner", before)
    answer(session.server, request, result={"summary": NOTES})
    compacted = compacting.result()
    assert compacted["compacted"] is True
    assert appending.result()["firstIndex"] == compacted["context"]["messageCount"]
    assert session.texts()[-1] == "behind it"


@pytest.mark.parametrize("where", ["owner", "attached"])
def test_a_read_behind_a_summary_that_asks_nobody_sees_it(windows: Windows, where: str) -> None:
    session: Session = getattr(windows, where)
    compacting = session.start("context/compact", summary=NOTES)
    appending = session.start("context/appendMessage", message=user("behind it"))
    state = session.start("session/getState").result()
    assert state["context"]["messageCount"] == compacting.result()["context"]["messageCount"] + 1
    assert state["head"] == appending.result()["head"]


def test_an_attached_client_can_take_its_compaction_back(start_at: StartServer, home: Path) -> None:
    owner, other = start_at(home), start_at(home)
    owner.initialize()
    other.initialize(capabilities=CAN)
    session = fill(Session.open(owner))
    attached = session.reopen(other)
    before = session.log_bytes()
    since = len(other.received)
    pending = attached.start("context/compact")
    request = asked(other, since)
    other.notify("$/cancelRequest", id=pending.id)
    assert pending.error()["code"] == -32800
    cancelled = [m["params"]["id"] for m in other.notifications(since) if m["method"] == "$/cancelRequest"]
    assert cancelled == [request["id"]]
    assert session.log_bytes() == before
    attached.say("next")
    assert session.texts()[-1] == "next"


def test_the_client_of_an_attached_process_is_asked(start_at: StartServer, home: Path, engine: Engine) -> None:
    owner, other = start_at(home), start_at(home)
    owner.initialize()
    other.initialize(capabilities=CAN)
    session = fill(Session.open(owner))
    attached = session.reopen(other)
    assert attached.state["access"] == SECOND[engine]
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
    before = session.log_bytes()
    answer(other, request, result={"summary": NOTES})
    assert pending.result() == at_least({"compacted": False, "reason": A_STRING})
    assert session.log_bytes() == before


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
@pytest.mark.long
def test_an_endpoint_that_makes_no_summary_changes_nothing(
    start_at: StartServer, home: Path, chat: ChatEndpoint, reply: Reply
) -> None:
    session = serving(start_at, home, chat, reply, timeout=2)
    error = untouched(session, lambda: session.refuse("context/compact", summarizer="server"))
    assert error["code"] == 4006 and "Nothing was changed." in error["message"]
    assert KEY not in str(error) + session.server.stderr()


@pytest.mark.long
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


def test_compact_then_restore_gives_back_the_same_bytes(
    server: Server, engine: Engine, tmp_path: Path, session_file: Path
) -> None:
    directory = tmp_path / session_file.stem
    directory.mkdir()
    shutil.copy(session_file, directory / "context.jsonl")
    if engine == "jsonl":
        session = Session.open(server, path=str(directory), access="write")
    else:
        session = Session.open(server, server.call("session/import", path=str(directory))["sessionId"])
    before = session.log_bytes()
    result = session.call("context/compact", summarizer="builtin")
    assert result == at_least({"compacted": True, "scorecard": at_least({}), "timelineId": A_STRING})
    assert result["tokenCountAfter"] < result["tokenCountBefore"]
    assert session.log_bytes() != before
    session.call("context/restoreTimeline", timelineId=result["timelineId"])
    assert session.log_bytes() == before
    session.call("session/close")
