"""Attached: a session that another process owns, used as if it were ours (the owner stays where it is)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.framing import dumps, frame
from tests.support.holding import Hold
from tests.support.matching import A_STRING, HEAD, at_least
from tests.support.mostly_long import mostly_long
from tests.support.scene import Scene, Two, changes, owner_of, settle, told_first
from tests.support.server import Pending, Server
from tests.support.session import Session, user
from tests.wire.operations import OPERATIONS, Operation, prepare

# opening


def test_the_second_to_open_is_attached_and_sees_the_same(servers: list[Server]) -> None:
    owner = Session.open(servers[0], title="T", systemPrompt="p", autoCheckpoint="turn")
    prepare(owner)
    attached = owner.reopen(servers[1])
    assert (owner.state["access"], attached.state["access"]) == ("owner", "attached")
    expected = {**owner.get_state(), "access": "attached"}
    assert attached.state == expected
    assert attached.get_state() == expected
    assert owner.get_state()["access"] == "owner"
    assert [owner_of(server, owner.id) for server in servers] == [servers[0].process.pid] * 2


def test_many_sessions_go_both_ways_between_two_processes(servers: list[Server]) -> None:
    pairs = []
    for number in range(6):
        here, there = servers if number % 2 else reversed(servers)
        owner = Session.open(here)
        pairs.append((owner, owner.reopen(there)))
    for number, (owner, attached) in enumerate(pairs):
        owner.say(f"owner {number}")
        attached.say(f"attached {number}")
    for number, (owner, attached) in enumerate(pairs):
        assert owner.texts() == attached.texts() == [f"owner {number}", f"attached {number}"]


def test_requests_may_stand_right_behind_the_opening(servers: list[Server]) -> None:
    owner = Session.open(servers[0])
    second = servers[1]
    opened = second.start("session/open", sessionId=owner.id)
    appended = [second.start("context/appendMessage", sessionId=owner.id, message=user(str(n))) for n in range(20)]
    state = second.start("session/getState", sessionId=owner.id)
    closed = second.start("session/close", sessionId=owner.id)
    late = second.start("context/appendMessage", sessionId=owner.id, message=user("late"))
    assert opened.result()["access"] == "attached"
    assert [pending.result()["firstIndex"] for pending in appended] == list(range(20))
    assert state.result()["context"]["messageCount"] == 20
    assert closed.result() == {}
    assert late.error()["code"] == 4013
    assert owner.texts() == [str(n) for n in range(20)]


def test_opening_twice_is_counted(two: Two) -> None:
    assert two.attached.reopen(two.attached.server).state["access"] == "attached"
    two.attached.call("session/close")
    two.attached.say("still open")
    two.attached.call("session/close")
    assert two.attached.refuse("context/appendMessage", message=user("x"))["code"] == 4013
    before = len(two.attached.server.received)
    two.owner.say("unheard")
    assert Session.open(two.attached.server, two.owner.id).texts() == ["still open", "unheard"]
    assert [m for m in two.attached.server.notifications(before) if m["params"].get("sessionId") == two.owner.id] == []


def test_another_access_wants_a_close_first(two: Two) -> None:
    error = two.attached.server.refuse("session/open", sessionId=two.owner.id, access="readOnly")
    assert error["code"] == -32602
    two.attached.call("session/close")
    assert two.owner.reopen(two.attached.server, access="readOnly").state["access"] == "readOnly"


def test_what_is_for_creation_does_nothing_to_a_session_that_lives(two: Two) -> None:
    two.attached.call("session/close")
    again = two.owner.reopen(two.attached.server, title="other", systemPrompt="other", workspace="file:///other")
    assert (again.state["title"], again.state["context"]["systemPrompt"]) == (None, None)
    assert "workspace" not in again.state


def test_automatic_checkpoints_can_be_asked_for_through_the_owner(servers: list[Server]) -> None:
    owner = Session.open(servers[0])
    attached = owner.reopen(servers[1], autoCheckpoint="turn")
    both = Two(owner, attached)
    since = both.since()
    attached.say("hello")
    assert [change["kind"] for change in both.told(since)] == ["checkpointCreated", "messagesAppended"]
    assert attached.get_state()["context"]["nCheckpoints"] == 1


def test_attach_false_is_refused_or_follows(two: Two) -> None:
    two.attached.call("session/close")
    refused = two.attached.server.refuse("session/open", sessionId=two.owner.id, attach=False)
    assert (refused["code"], refused["data"]["owner"]["pid"]) == (4003, two.owner.server.process.pid)
    follower = two.owner.reopen(two.attached.server, access="readOnly", attach=False)
    before = len(follower.server.received)
    two.owner.say("x")
    assert follower.server.heard("context/didChange", since=before, sessionId=follower.id)["kind"] == "external"


def test_creating_the_same_session_in_two_processes_at_once(servers: list[Server]) -> None:
    for number in range(10):
        opened = [server.start("session/open", sessionId=f"race-{number}", title="T") for server in servers]
        assert sorted(pending.result()["access"] for pending in opened) == ["attached", "owner"]
        windows = [Session(server, pending.result()) for server, pending in zip(servers, opened, strict=True)]
        for window in windows:
            window.say("x")
        assert windows[0].texts() == windows[1].texts() == ["x", "x"]


# what is forwarded


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=0), ids=str)
def test_every_change_is_told_to_both_before_its_reply_with_its_cause(two: Two, operation: Operation) -> None:
    prepare(two.owner)
    operation.before(two.owner)
    since = two.since()
    pending = two.attached.start(operation.method, **operation.params, requestId="r-1")
    result = pending.result()
    heard = [message["params"] for message in pending.heard()]
    assert [params["kind"] for params in heard] == list(operation.kinds)
    assert two.told(since) == heard
    for params in heard:
        assert (params["sessionId"], params["cause"]) == (
            two.owner.id,
            {"requestId": "r-1", "client": "client-2"},
        )
    assert heard[-1]["head"] == result["head"] == two.owner.head


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=1), ids=str)
def test_every_change_does_what_it_does_for_the_owner(two: Two, operation: Operation) -> None:
    twin = Session.open(two.owner.server)
    for session in (two.owner, twin):
        prepare(session)
        operation.before(session)
    here = twin.call(operation.method, **operation.params)
    there = two.attached.call(operation.method, **operation.params)
    assert without_chance(there) == without_chance(here)
    assert without_chance(two.attached.get_state()) == without_chance(twin.get_state())
    assert two.attached.history() == two.owner.history() == twin.history()
    assert without_chance(two.owner.lines()) == without_chance(twin.lines())


def without_chance(value: Any) -> Any:
    """`value` without what differs from run to run, or from window to window."""
    if isinstance(value, list):
        return [without_chance(each) for each in value]
    if not isinstance(value, dict):
        return value
    by_chance = {"head", "uid", "createdAt", "changedAt", "checkpointUid", "path", "sessionId", "access", "changedBy"}
    by_chance |= {"_tl", "file", "bytes", "logBytes"}
    return {name: without_chance(each) for name, each in value.items() if name not in by_chance}


def test_the_cause_names_the_client_that_asked(two: Two) -> None:
    since = two.since()
    two.owner.say("a")
    two.attached.say("b")
    two.attached.append(user("c"), requestId="mine")
    assert [change["cause"] for change in two.told(since)] == [
        {"client": "client-1"},
        {"client": "client-2"},
        {"client": "client-2", "requestId": "mine"},
    ]


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=2), ids=str)
def test_a_stale_head_is_the_same_conflict_through_the_owner(two: Two, operation: Operation) -> None:
    prepare(two.attached)
    stale = two.attached.head
    two.owner.say("meanwhile")
    operation.before(two.attached)
    state, log, since = two.owner.get_state(), two.owner.log.read_bytes(), two.since()
    error = two.attached.refuse(operation.method, **operation.params, expectedHead=stale)
    assert error == two.owner.refuse(operation.method, **operation.params, expectedHead=stale)
    assert (error["code"], error["data"]["head"]) == (-32801, two.owner.head)
    assert (two.owner.get_state(), two.owner.log.read_bytes(), two.told(since)) == (state, log, [])
    result = two.attached.call(operation.method, **operation.params, expectedHead=two.attached.head)
    assert result["head"] == two.owner.head


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=0), ids=str)
def test_a_request_id_is_the_same_request_in_every_window(two: Two, operation: Operation) -> None:
    prepare(two.owner)
    operation.before(two.owner)
    first = two.attached.call(operation.method, **operation.params, requestId="again")
    assert "duplicate" not in first
    since, log = two.since(), two.owner.log.read_bytes()
    for window in two.both:
        assert window.call(operation.method, **operation.params, requestId="again") == {**first, "duplicate": True}
        if operation.other:
            assert window.refuse(operation.method, **operation.other, requestId="again")["code"] == -32602
    assert (two.told(since), two.owner.log.read_bytes()) == ([], log)


READS: list[tuple[str, dict[str, Any]]] = [
    ("session/getState", {}),
    ("session/isApproved", {"action": "run"}),
    ("session/verify", {}),
    ("context/listUsage", {}),
    ("context/listCheckpoints", {"order": "asc", "limit": 1}),
    ("context/listTimelines", {}),
    ("context/getHistory", {"limit": 2}),
    ("context/getHistory", {"from": 1, "to": 3, "order": "desc"}),
    ("context/getHistory", {"timelineId": "context_1"}),
    ("context/getRecords", {"from": 2, "limit": 3}),
    ("context/prepareCompaction", {}),
    ("context/revertTo", {"checkpointId": 0, "dryRun": True}),
    ("context/clear", {"dryRun": True}),
    ("context/compact", {"dryRun": True, "summary": "s"}),
    ("context/restoreTimeline", {"timelineId": "context_1", "dryRun": True}),
]


@pytest.mark.parametrize(("method", "params"), READS, ids=str)
def test_every_reading_gives_the_same_through_the_owner(two: Two, method: str, params: dict[str, Any]) -> None:
    prepare(two.owner)
    since, log = two.since(), two.owner.log.read_bytes()
    here, there = (window.call(method, **params) for window in two.both)
    if params.get("dryRun"):
        here, there = without_chance(here), without_chance(there)
    assert there == ({**here, "access": "attached"} if "access" in here else here)
    assert (two.told(since), two.owner.log.read_bytes()) == ([], log)


def test_pages_go_on_where_they_stopped(two: Two) -> None:
    two.owner.append(*[user(str(n)) for n in range(25)])
    page = two.attached.call("context/getHistory", limit=10)
    texts = [entry["message"]["content"] for entry in page["messages"]]
    while "nextCursor" in page:
        page = two.attached.call("context/getHistory", limit=10, cursor=page["nextCursor"])
        texts += [entry["message"]["content"] for entry in page["messages"]]
    assert texts == [str(n) for n in range(25)]
    stale = two.attached.call("context/getHistory", limit=10)["nextCursor"]
    two.owner.call("context/clear")
    assert two.attached.refuse("context/getHistory", cursor=stale)["code"] == -32801


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("context/appendMessage", {}),
    ("context/appendMessage", {"message": {"role": ""}}),
    ("context/appendMessage", {"message": {"role": "_usage", "token_count": 1}}),
    ("context/appendMessage", {"messages": [{"role": "user", "content": [1]}]}),
    ("context/appendMessage", {"message": {"role": "user", "content": "x"}, "unknown": 1}),
    ("context/appendMessage", {"message": {"role": "user", "content": "x"}, "requestId": "x" * 65}),
    ("context/revertTo", {"checkpointId": 77}),
    ("context/revertTo", {"checkpointUid": "none"}),
    ("context/revertTo", {"checkpointId": 0, "checkpointUid": "both"}),
    ("context/restoreTimeline", {"timelineId": "context_99"}),
    ("context/getHistory", {"limit": 0}),
    ("context/getHistory", {"cursor": "none"}),
    ("context/deliverDMail", {}),
    ("context/sendDMail", {"checkpointId": 99, "message": "x"}),
    ("context/compact", {"summarizer": "server"}),
    ("session/putSubagent", {"name": "", "systemPrompt": "x"}),
    ("session/fork", {"checkpointId": 99}),
]


@pytest.mark.parametrize(("method", "params"), REFUSED, ids=str)
def test_every_refusal_is_the_same_through_the_owner(two: Two, method: str, params: dict[str, Any]) -> None:
    prepare(two.owner)
    since, log = two.since(), two.owner.log.read_bytes()
    here, there = (window.refuse(method, **params) for window in two.both)
    assert here == there
    assert (two.told(since), two.owner.log.read_bytes()) == ([], log)
    two.attached.say("the next good request works")


MESSAGES = [
    b'{"role":"user","content":"x","n":123456789012345678901234567890,"f":1.50,"e":1E5,"z":-0.0,"tiny":1e-300}',
    b'{"content":"keys keep their order","zz":1,"role":"tool","aa":{"b":1,"a":2},"tool_call_id":"t"}',
    '{"role":"user","content":"é ü 漢 \U0001f600 \u2028 \u2029 \u0085 \ufeff \u0000"}'.replace(
        "\u0000", "\\u0000"
    ).encode(),
    b'{"role":"user","content":null,"unknown":[[],{},"",null,true]}',
    b'{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"of tomorrow","x":{"y":[1]}}]}',
    b'{"role":"user","content":"' + b"x" * 3_000_000 + b'"}',
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[:24].decode())
def test_a_message_arrives_as_the_same_bytes(two: Two, message: bytes) -> None:
    twin = Session.open(two.owner.server)
    for session in (twin, two.attached):
        body = (
            b'{"jsonrpc":"2.0","id":"as is","method":"context/appendMessage","params":{"sessionId":"%s","message":%s}}'
        )
        pending = session.server.expect("context/appendMessage", "as is")
        session.server.send_body(body % (session.id.encode(), message))
        pending.result()
    ours, theirs = (session.log.read_bytes().rstrip(b"\n") for session in (twin, two.attached))
    assert bare(theirs) == bare(ours)
    before = [len(window.server.raw) for window in two.both]
    for window in two.both:
        window.server.start_with("context/getHistory", {"sessionId": window.id}, id="page").result()
    here, there = (
        next(raw for raw in window.server.raw[mark:] if b'"id":"page"' in raw)
        for window, mark in zip(two.both, before, strict=True)
    )
    assert here == there


def bare(line: bytes) -> bytes:
    """A line of a log without our reserved key, as bytes."""
    head, mark, _ = line.partition(b',"_tl":{')
    return head + b"}" if mark else head


@pytest.mark.slow
@pytest.mark.long
def test_the_largest_frame_goes_through_and_a_larger_message_is_refused(two: Two) -> None:
    limits = two.attached.server.hello["capabilities"]["experimental"]["timeleap"]["limits"]
    messages = [user("x" * 31_000_000), user("z" * 31_000_000), user("")]
    params = {"sessionId": two.attached.id, "messages": messages}
    request = {"jsonrpc": "2.0", "id": "large", "method": "context/appendMessage", "params": params}
    messages[2]["content"] = "y" * (limits["maxFrameBytes"] - len(dumps(request)))
    body = dumps(request)
    assert len(body) == limits["maxFrameBytes"]
    pending = two.attached.server.expect("context/appendMessage", "large")
    two.attached.server.send_body(body)
    assert pending.result(90)["messageCount"] == 3
    lengths = [len(two.attached.texts(**{"from": n, "to": n + 1})[0]) for n in range(3)]
    assert lengths == [31_000_000, 31_000_000, len(messages[2]["content"])]
    message = user("x" * limits["maxMessageBytes"])
    there, here = (window.refuse("context/appendMessage", message=message) for window in (two.attached, two.owner))
    assert there == here and there["code"] == 4011


def test_progress_comes_back_under_the_token_of_who_asked(two: Two) -> None:
    two.owner.append(*[user("x" * 400) for _ in range(20)])
    two.owner.checkpoint()
    before = len(two.owner.server.received)
    pending = two.attached.start("context/revertTo", checkpointId=0, workDoneToken="w")
    heard = [message for message in pending.heard() if message["method"] == "$/progress"]
    assert {message["params"]["token"] for message in heard} == {"w"}
    kinds = [message["params"]["value"]["kind"] for message in heard]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    settle(two.both)
    assert [m for m in two.owner.server.notifications(before) if m["method"] == "$/progress"] == []


def test_compaction_is_suggested_to_every_window(scene: Scene) -> None:
    home_settings = {"TIMELEAP_MAX_CONTEXT_SIZE": "1000"}
    first, second = scene.window(env=home_settings), scene.window(env=home_settings)
    for number in range(10):
        second.say(f"{number} " + "x" * 400)
    settle(scene.windows)
    suggested = [
        [m["params"] for m in w.server.notifications() if m["method"] == "context/compactionSuggested"]
        for w in (first, second)
    ]
    assert len(suggested[0]) == 1 and suggested[0] == suggested[1]


# order


def test_requests_of_an_attached_client_take_effect_in_its_order(two: Two) -> None:
    pendings = []
    for number in range(20):
        pendings.append(two.attached.start("context/checkpoint", label=str(number)))
        pendings.append(two.attached.start("context/appendMessage", message=user(str(number))))
        pendings.append(two.attached.start("context/updateTokenCount", tokenCount=number))
        if number % 5 == 4:
            pendings.append(two.attached.start("context/compact", summary="s", dryRun=True))
            pendings.append(two.attached.start("context/revertTo", checkpointId=number - 4 * (number // 5) - 1))
        pendings.append(two.attached.start("session/getState"))
        pendings.append(two.attached.start("context/getHistory", limit=1, order="desc"))
    replies = [pending.result() for pending in pendings]
    answered = [m["id"] for m in two.attached.server.received if m.get("id") in {p.id for p in pendings}]
    counts = [reply["context"]["messageCount"] for reply in replies if "budget" in reply]
    expected, texts, checkpoints = [], 0, 0
    for number in range(20):
        checkpoints, texts = checkpoints + 1, texts + 1
        if number % 5 == 4:
            target = number - 4 * (number // 5) - 1
            texts, checkpoints = texts - (checkpoints - target), target
        expected.append(texts)
    assert counts == expected
    assert len(answered) == len(pendings)
    told_first(two.attached)


def test_a_read_behind_a_write_sees_it_in_every_window(two: Two) -> None:
    for number in range(30):
        writer, reader = two.both if number % 2 else reversed(two.both)
        writer.say(str(number))
        page = reader.call("context/getHistory", **{"from": number})
        assert [entry["message"]["content"] for entry in page["messages"]] == [str(number)]


def test_two_clients_at_once_make_one_order_that_both_hear(two: Two) -> None:
    since = two.since()
    pendings = [
        (name, number, window.start("context/appendMessage", message=user(f"{name} {number}")))
        for number in range(150)
        for name, window in zip(("owner", "attached"), two.both, strict=True)
    ]
    texts: dict[int, str] = {}
    for name, number, pending in pendings:
        texts[pending.result()["firstIndex"]] = f"{name} {number}"
    assert two.owner.texts() == [texts[index] for index in range(300)]
    for name in ("owner", "attached"):
        assert [text for text in two.owner.texts() if text.startswith(name)] == [f"{name} {n}" for n in range(150)]
    assert [change["firstIndex"] for change in two.told(since)] == list(range(300))
    for window in two.both:
        told_first(window)


def test_of_many_with_one_head_one_wins(two: Two) -> None:
    for number in range(20):
        head = two.owner.head
        pendings = [w.start("context/appendMessage", message=user(str(number)), expectedHead=head) for w in two.both]
        replies = [pending.reply() for pending in pendings]
        won = [reply["result"] for reply in replies if "result" in reply]
        lost = [reply["error"] for reply in replies if "error" in reply]
        assert (len(won), [error["code"] for error in lost]) == (1, [-32801])
        assert lost[0]["data"]["head"] == won[0]["head"]
    assert two.attached.texts() == [str(number) for number in range(20)]


def cancelled_at_once(window: Session, method: str, id: int | str, **params: Any) -> Pending:
    """A request and its cancellation in one piece: it has not begun when it is cancelled."""
    pending = window.server.expect(method, id)
    request = {"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": window.id, **params}}
    cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}}
    window.server.send_bytes(b"".join(frame(dumps(each), window.server.framing) for each in (request, cancel)))
    return pending


@pytest.fixture
def hold(tmp_path: Path) -> Hold:
    """Holds the owner up at its first append."""
    return Hold("append.after_write", tmp_path)


def test_a_request_that_is_cancelled_at_once_did_nothing(scene: Scene, hold: Hold) -> None:
    owner, attached = scene.window(env=hold.environment), scene.window()
    before = len(owner.server.received)
    first = attached.start("context/appendMessage", message=user("first"))
    hold.wait()
    waiting = cancelled_at_once(attached, "context/clear", "clear")
    assert waiting.error() == {"code": -32800, "message": A_STRING, "data": at_least({"kind": "cancelled"})}
    hold.release()
    assert first.result()["messageCount"] == 1
    assert owner.texts() == ["first"] and owner.timelines() == []
    assert [change["kind"] for change in changes(owner, before)] == ["messagesAppended"]


def test_a_request_that_has_begun_is_done_or_not_as_its_reply_says(scene: Scene, hold: Hold) -> None:
    owner, attached = scene.window(env=hold.environment), scene.window()
    attached.start("context/appendMessage", message=user("first"))
    hold.wait()
    expected = ["first"]
    pendings = []
    for number in range(12):
        pendings.append(attached.start("context/appendMessage", message=user(str(number))))
        attached.server.notify("$/cancelRequest", id=pendings[-1].id)
        if number == 5:
            hold.release()
    for number, pending in enumerate(pendings):
        reply = pending.reply()
        assert "result" in reply or reply["error"]["code"] == -32800
        expected += [str(number)] if "result" in reply else []
    assert owner.texts() == attached.texts() == expected


def test_cancelling_concerns_only_the_client_that_cancels(scene: Scene, hold: Hold) -> None:
    owner, one, other = scene.window(env=hold.environment), scene.window(), scene.window()
    owner.start("context/appendMessage", message=user("slow"))
    hold.wait()
    kept = [w.server.start_with("context/appendMessage", {"sessionId": "s", "message": user("kept")}, id="same")
            for w in (owner, one)]  # fmt: skip
    cancelled = cancelled_at_once(other, "context/appendMessage", "same", message=user("no"))
    assert cancelled.error()["code"] == -32800
    hold.release()
    assert [pending.result()["firstIndex"] for pending in kept] in ([1, 2], [2, 1])
    assert other.texts() == ["slow", "kept", "kept"]


def test_sessions_do_not_wait_for_each_other_through_one_owner(scene: Scene, hold: Hold) -> None:
    [first] = scene.servers(1, env=hold.environment)
    [second] = scene.servers(1)
    pairs = [(Session.open(first, name), Session.open(second, name)) for name in ("slow", "other")]
    pending = pairs[0][1].start("context/appendMessage", message=user("x"))
    hold.wait()
    assert pairs[1][1].get_state()["access"] == "attached"
    assert pairs[1][1].call("session/setTitle", title="T")["head"] == HEAD
    hold.release()
    assert pending.result()["messageCount"] == 1
