"""The owner goes: one of the attached takes the session over, the others follow, and nothing asked is lost or doubled."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.holding import Hold
from tests.support.matching import HEAD
from tests.support.scene import Scene, access_told, changes, marks, owner_of, settle, stopped, taken_over, until
from tests.support.server import runtime_directory
from tests.support.session import Session, user
from tests.wire.operations import OPERATIONS, prepare

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform == "win32", reason="signals")]


def close(owner: Session) -> None:
    owner.call("session/close")


def end_input(owner: Session) -> None:
    assert owner.server.finish() == 0


def shut_down(owner: Session) -> None:
    assert owner.server.shut_down() == 0


def terminate(owner: Session) -> None:
    owner.server.signal(signal.SIGTERM)
    assert owner.server.wait() == 0


def kill(owner: Session) -> None:
    owner.server.kill()


GENTLE = (close, end_input, shut_down, terminate)
WAYS = (*GENTLE, kill)


# who owns it then


@pytest.mark.parametrize("leave", WAYS)
def test_one_takes_over_and_the_others_follow(scene: Scene, leave: Any) -> None:
    owner, *others = [*scene.crowd(2, "lsp"), *scene.crowd(2, "ndjson")]
    prepare(owner)
    settle(scene.windows)
    state, history, before = owner.get_state(), owner.history(), marks(scene.windows)
    leave(owner)
    heir = taken_over(others, before)
    for window in others:
        assert changes(window, before) == [
            {
                "sessionId": "s",
                "head": state["head"],
                "kind": "accessChanged",
                "access": "owner" if window is heir else "attached",
                "cause": {},
            }
        ]
        assert window.get_state() == {**state, "access": "owner" if window is heir else "attached"}
        assert window.history() == history
        assert owner_of(window.server, "s") == heir.server.process.pid
    for number, window in enumerate(others):
        window.say(str(number))
    assert [window.texts()[-3:] for window in others] == [["0", "1", "2"]] * 3
    settle(others)
    told = [changes(window, before)[1:] for window in others]
    assert told[0] == told[1] == told[2] and len(told[0]) == 3


def test_the_last_one_left_owns_it(scene: Scene) -> None:
    windows = scene.crowd(5)
    for number in range(4):
        windows[0].say(f"{number}")
        before = marks(windows)
        kill(windows[0])
        heir = taken_over(windows[1:], before)
        windows = [heir, *[window for window in windows[1:] if window is not heir]]
    assert windows[0].get_state()["access"] == "owner"
    assert windows[0].texts() == ["0", "1", "2", "3"]


def test_who_closed_may_come_back_and_is_attached_then(scene: Scene) -> None:
    first, second = scene.crowd(2)
    first.say("1")
    before = marks([second])
    first.call("session/close")
    taken_over([second], before)
    assert first.refuse("context/appendMessage", message=user("x"))["code"] == 4013
    again = second.reopen(first.server)
    assert (again.state["access"], again.texts()) == ("attached", ["1"])
    again.say("2")
    mark = marks([again])
    second.call("session/close")
    taken_over([again], mark)
    assert again.texts() == ["1", "2"] and again.get_state()["access"] == "owner"


def test_the_session_stays_where_it_is_until_the_owners_last_close(scene: Scene) -> None:
    owner, attached = scene.crowd(2)
    owner.reopen(owner.server)
    owner.call("session/close")
    attached.say("x")
    assert owner.get_state()["access"] == "owner" and attached.get_state()["access"] == "attached"
    before = marks([attached])
    owner.call("session/close")
    taken_over([attached], before)


def test_a_session_that_everybody_closed_is_free(scene: Scene) -> None:
    windows = scene.crowd(3)
    windows[1].say("x")
    sockets = set(runtime_directory().rglob(f"{windows[0].server.process.pid}-*"))
    assert len(sockets) == 1
    for window in (windows[2], windows[0], windows[1]):
        window.call("session/close")
    assert owner_of(windows[0].server, "s") is None
    pids = [window.server.process.pid for window in windows]
    assert [path for pid in pids for path in runtime_directory().rglob(f"{pid}-*")] == []
    assert Session.open(windows[2].server, "s", attach=False).state["access"] == "owner"


@pytest.mark.parametrize("leave", GENTLE[1:])
def test_all_leaving_at_once_leaves_a_whole_session(scene: Scene, leave: Any) -> None:
    windows = scene.crowd(4)
    pendings = [window.start("context/appendMessage", message=user(str(n))) for n, window in enumerate(windows)]
    for pending in pendings:
        pending.result()
    for window in windows:
        if leave is terminate:
            window.server.signal(signal.SIGTERM)
        else:
            window.server.close_stdin()
    assert [window.server.wait() for window in windows] == [0] * 4
    [after] = scene.servers(1)
    opened = Session.open(after, "s", attach=False)
    assert (opened.state["access"], sorted(opened.texts())) == ("owner", ["0", "1", "2", "3"])


@pytest.mark.parametrize("leave", [close, kill])
def test_each_session_of_an_owner_finds_an_heir_of_its_own(scene: Scene, leave: Any) -> None:
    first, second, third = scene.servers(3)
    owned = [Session.open(first, f"s{number}") for number in range(4)]
    heirs = [session.reopen(second if number % 2 else third) for number, session in enumerate(owned)]
    for session in owned:
        session.say("x")
    settle(heirs)
    before = marks(heirs)
    if leave is close:
        close(owned[0])
        assert taken_over(heirs[:1], before) is heirs[0]
        for session, heir in zip(owned[1:], heirs[1:], strict=True):
            heir.say("y")
            assert session.get_state()["access"] == "owner"
    else:
        kill(owned[0])
        for heir in heirs:
            assert taken_over([heir], before) is heir
            heir.say("y")
            assert heir.texts() == ["x", "y"]


def test_settings_and_state_survive_the_change_of_owner(scene: Scene) -> None:
    owner = scene.window(autoCheckpoint="turn", title="T")
    attached = scene.window()
    attached.call("session/setYolo", yolo=True)
    attached.call("session/putSubagent", name="a", systemPrompt="p")
    attached.call("context/checkpoint", label="here")
    attached.call("context/sendDMail", checkpointId=0, message="note")
    state, before = attached.get_state(), marks([attached])
    kill(owner)
    taken_over([attached], before)
    assert attached.get_state() == {**state, "access": "owner"}
    attached.say("hello")
    assert [c["kind"] for c in changes(attached, before)[1:]] == ["checkpointCreated", "messagesAppended"]


def test_a_session_opened_by_path_is_taken_over_under_its_own_id(scene: Scene, tmp_path: Path) -> None:
    owner = scene.window()
    owner.say("x")
    [other] = scene.servers(1, at=tmp_path / "other home")
    Session.open(other, "s")
    attached = Session.open(other, path=str(owner.path), access="write")
    before = marks([attached])
    kill(owner)
    taken_over([attached], before)
    assert attached.get_state()["access"] == "owner"
    attached.say("y")
    again = scene.window()
    assert (again.state["access"], again.texts(), attached.id != "s") == ("attached", ["x", "y"], True)


# what the others did not hear of


def test_what_nobody_heard_of_is_told_as_external_first(scene: Scene) -> None:
    owner = scene.window(env={"TIMELEAP_FAILPOINTS": "append.after_write@2=kill"})
    others = scene.crowd(2)
    owner.say("heard")
    settle(others)
    before = marks(others)
    owner.start("context/appendMessage", message=user("on disk, but told to nobody"))
    heir = taken_over(others, before)
    for window in others:
        told = changes(window, before)
        assert [change["kind"] for change in told] == ["external", "accessChanged"]
        assert told[0]["head"] == told[1]["head"] == heir.head
        assert told[0]["cause"] == {}
        assert window.texts() == ["heard", "on disk, but told to nobody"]


def test_who_takes_over_is_told_what_it_had_to_mend(scene: Scene) -> None:
    owner, heir = scene.crowd(2)
    owner.say("whole")
    settle([heir])
    mark = len(heir.server.received)
    heir.server.signal(signal.SIGSTOP)
    try:
        owner.server.kill()
        with (heir.path / "context.jsonl").open("ab") as log:
            log.write(b'{"role":"user","content":"to')
    finally:
        heir.server.signal(signal.SIGCONT)
    assert heir.texts() == ["whole"]
    methods = [message["method"] for message in heir.server.notifications(mark)]
    assert methods == ["session/didRecover", "session/didChange"]
    told = heir.server.notifications(mark)[0]["params"]
    assert (told["sessionId"], told["cutBytes"], len(told["quarantined"])) == (heir.id, 28, 1)


def test_changes_of_state_that_nobody_heard_of_are_told_too(scene: Scene) -> None:
    owner = scene.window(env={"TIMELEAP_FAILPOINTS": "state.after_meta@2=kill;state.after_state@2=kill"})
    others = scene.crowd(2)
    owner.call("session/setTitle", title="first")
    settle(others)
    before = marks(others)
    owner.start("session/setTitle", title="second")
    taken_over(others, before)
    titles = {window.get_state()["title"] for window in others}
    assert len(titles) == 1
    for window in others:
        told = [change for change in changes(window, before) if change["kind"] != "accessChanged"]
        assert (told != []) is (titles == {"second"}), "a window that was not told shows an old title for ever"


# what was asked and not answered


@pytest.mark.parametrize("moment", ["append.before_write@2", "append.after_write@2", "append.after_sync@2"])
@pytest.mark.parametrize("request_id", [None, "mine"])
def test_a_request_in_flight_takes_effect_once(scene: Scene, moment: str, request_id: str | None) -> None:
    scene.window(env={"TIMELEAP_FAILPOINTS": f"{moment}=kill"})
    attached = scene.window()
    attached.say("first")
    own = {} if request_id is None else {"requestId": request_id}
    result = attached.call("context/appendMessage", message=user("second"), **own)
    assert (result["firstIndex"], result["messageCount"]) == (1, 2)
    if request_id is None:
        assert "duplicate" not in result, "the client has asked once"
    assert attached.texts() == ["first", "second"]
    assert result["head"] == attached.head
    assert attached.get_state()["access"] == "owner"
    if request_id is not None:
        again = attached.call("context/appendMessage", message=user("second"), requestId=request_id)
        assert again["duplicate"] is True and attached.texts() == ["first", "second"]


@pytest.mark.parametrize("moment", ["append.before_write@3", "append.after_write@3"])
def test_requests_in_flight_are_sent_again_in_their_order(scene: Scene, moment: str) -> None:
    scene.window(env={"TIMELEAP_FAILPOINTS": f"{moment}=kill"})
    attached, watcher = scene.window(), scene.window()
    attached.say("0", "1")
    pendings = []
    for number in range(2, 40):
        pendings.append(attached.start("context/appendMessage", message=user(str(number))))
        if number % 10 == 0:
            pendings.append(attached.start("context/checkpoint", label=str(number)))
        pendings.append(attached.start("context/getHistory", limit=1, order="desc"))
    results = [pending.result() for pending in pendings]
    indexes = [result["firstIndex"] for result in results if "firstIndex" in result]
    assert indexes == list(range(2, 40))
    assert attached.texts() == watcher.texts() == [str(number) for number in range(40)]
    assert [c["messageCount"] for c in attached.get_state()["context"]["checkpoints"]] == [11, 21, 31]


def test_requests_in_flight_of_several_clients_keep_each_ones_order(scene: Scene) -> None:
    scene.window(env={"TIMELEAP_FAILPOINTS": "append.after_sync@2=kill"})
    others = scene.crowd(3, "ndjson")
    others[0].say("first")
    pendings = {
        (number, name): window.start("context/appendMessage", message=user(f"{name} {number}"))
        for number in range(60)
        for name, window in enumerate(others)
    }
    indexes = {key: pending.result()["firstIndex"] for key, pending in pendings.items()}
    texts = others[0].texts()
    assert len(texts) == len(set(texts)) == 181
    for (number, name), index in indexes.items():
        assert texts[index] == f"{name} {number}"
    for name in range(3):
        assert [t for t in texts if t.startswith(f"{name} ")] == [f"{name} {n}" for n in range(60)]


def test_a_stale_head_stays_a_conflict_over_the_change_of_owner(scene: Scene) -> None:
    scene.window(env={"TIMELEAP_FAILPOINTS": "append.after_write@2=kill"})
    attached = scene.window()
    head = attached.append(user("first"))["head"]
    won = attached.start("context/appendMessage", message=user("second"), expectedHead=head)
    lost = attached.start("context/appendMessage", message=user("third"), expectedHead=head)
    assert won.result()["firstIndex"] == 1
    assert (lost.error()["code"], lost.error()["data"]["head"]) == (-32801, attached.head)
    assert attached.texts() == ["first", "second"]


@pytest.mark.parametrize("moment", ["replace.prepared", "replace.renamed", "replace.done"])
@pytest.mark.parametrize("operation", [op for op in OPERATIONS if op.name in ("revert", "compact", "restore")], ids=str)
def test_a_rewrite_in_flight_happens_once(scene: Scene, moment: str, operation: Any) -> None:
    keeper = scene.window()
    prepare(keeper)
    twin = Session.open(keeper.server)
    prepare(twin)
    keeper.call("session/close")
    assert scene.window(env={"TIMELEAP_FAILPOINTS": f"{moment}=kill"}).state["access"] == "owner"
    attached = keeper.reopen(keeper.server)
    result = attached.call(operation.method, **operation.params)
    expected = twin.call(operation.method, **operation.params)
    assert result["timelineId"] == attached.timelines()[0]["timelineId"]
    if "removed" in expected:
        assert result["removed"] == expected["removed"]
    assert attached.history() == twin.history()
    assert len(attached.timelines()) in (len(twin.timelines()), len(twin.timelines()) + 1)
    assert attached.get_state()["access"] == "owner"


@pytest.mark.parametrize("leave", GENTLE)
def test_who_leaves_in_good_order_answers_what_it_accepted(scene: Scene, leave: Any, tmp_path: Path) -> None:
    hold = Hold("append.after_write", tmp_path)
    owner = scene.window(env=hold.environment)
    attached = scene.window()
    pendings = [w.start("context/appendMessage", message=user(str(n))) for n in range(10) for w in (owner, attached)]
    hold.wait()
    leaving = threading.Thread(target=leave, args=(owner,))
    leaving.start()
    hold.release()
    leaving.join()
    for pending in pendings:
        assert "result" in pending.reply(), pending
    assert sorted(attached.texts(), key=int) == [str(n) for n in range(10) for _ in range(2)]
    until(lambda: attached.get_state()["access"] == "owner", saying="the attached one takes over")


def test_while_one_leaves_all_hear_everything_and_nobody_comes_in(scene: Scene, tmp_path: Path) -> None:
    hold = Hold("append.after_write", tmp_path)
    owner = scene.window(env=hold.environment)
    asking, idle = scene.window(), scene.window()
    [late] = scene.servers(1)
    settle(scene.windows)
    before = marks(scene.windows)
    asked = asking.start("context/appendMessage", message=user("x"))
    hold.wait()
    closed = owner.start("session/close")
    owner.server.call("rpc.discover")  # behind it: the owner is leaving
    opened = late.start("session/open", sessionId="s")
    late.call("rpc.discover")
    hold.release()
    assert (closed.result(), asked.result()["messageCount"]) == ({}, 1)
    for window in (asking, idle):
        access_told(window, before[id(window)])
        assert [change["kind"] for change in changes(window, before)] == ["messagesAppended", "accessChanged"]
    rest = [asking, idle, Session(late, opened.result())]
    assert sorted(window.get_state()["access"] for window in rest) == ["attached", "attached", "owner"]


def test_requests_during_the_change_wait_for_it(scene: Scene) -> None:
    """Nobody pauses for a change of owner: a client that knows nothing of it goes on asking."""
    owner, *others = scene.crowd(3)
    for round_ in range(30):
        for window in others:
            window.start("context/appendMessage", message=user("x"))
        if round_ == 10:
            kill(owner)
    for window in others:
        window.say("last")
    settle(others)
    replies = [m for window in others for m in window.server.received if "firstIndex" in (m.get("result") or {})]
    assert len(replies) == 62 and len(others[0].texts()) == 62


def test_a_cancelled_request_in_flight_is_done_or_not_as_its_reply_says(scene: Scene, tmp_path: Path) -> None:
    hold = Hold("append.after_write", tmp_path)
    owner = scene.window(env=hold.environment)
    attached = scene.window()
    owner.start("context/appendMessage", message=user("first"))
    hold.wait()
    waiting = attached.start("context/appendMessage", message=user("unwanted"))
    attached.server.notify("$/cancelRequest", id=waiting.id)
    before = marks([attached])
    kill(owner)
    reply = waiting.reply()
    taken_over([attached], before)
    if "result" in reply:  # it had begun here before the cancellation came
        assert (reply["result"]["firstIndex"], attached.texts()) == (1, ["first", "unwanted"])
    else:
        assert (reply["error"]["code"], attached.texts()) == (-32800, ["first"])


# leaving, in the middle of it all


def test_an_heir_that_dies_at_once_is_followed_by_the_next(scene: Scene) -> None:
    owner = scene.window()
    doomed = scene.window(env={"TIMELEAP_FAILPOINTS": "append.before_write=kill"})
    last = scene.window()
    owner.say("1")
    kill(owner)
    pending = [window.start("context/appendMessage", message=user("2")) for window in (doomed, last)]
    assert pending[1].result()["messageCount"] in (2, 3)
    if last.get_state()["access"] == "attached":
        doomed.start("context/appendMessage", message=user("kills"))
        until(lambda: last.get_state()["access"] == "owner", saying="the last one owns it")
    assert last.texts()[0] == "1" and last.texts().count("2") in (1, 2)


def test_a_new_window_during_the_change_of_owner_gets_in(scene: Scene) -> None:
    windows = scene.crowd(3)
    newcomers = scene.servers(3)
    for number, newcomer in enumerate(newcomers):
        owner = next(window for window in windows if window.get_state()["access"] == "owner")
        rest = [window for window in windows if window is not owner]
        before = marks(rest)
        kill(owner)
        opened = Session.open(newcomer, "s")
        opened.say(str(number))
        windows = [*rest, opened]
        if opened.state["access"] == "attached":
            taken_over(rest, before)
        assert sorted(window.get_state()["access"] for window in windows) == ["attached", "attached", "owner"]
    assert windows[0].texts() == ["0", "1", "2"]


def test_with_attach_false_nothing_is_taken_over_in_silence(scene: Scene) -> None:
    owner, attached = scene.crowd(2)
    [third] = scene.servers(1)
    follower = Session.open(third, "s", access="readOnly", attach=False)
    before = marks([attached, follower])
    kill(owner)
    assert taken_over([attached], before) is attached
    attached.say("x")
    assert third.heard("context/didChange", since=before[id(follower)], kind="external")["head"] == HEAD
    assert [change["kind"] for change in changes(follower, before)] == ["external"]
    assert follower.get_state()["access"] == "readOnly"


@pytest.mark.parametrize("meanwhile", ["recreated", "recreated and closed", "deleted"])
def test_what_was_meant_for_a_session_never_reaches_another_of_its_id(scene: Scene, meanwhile: str) -> None:
    owner, asking = scene.crowd(2)
    owner.say("old")
    other = scene.servers(1)[0]
    settle([owner, asking])
    mark = len(asking.server.received)
    with stopped(owner):
        pending = [asking.start("context/appendMessage", message=user("mine")), asking.start("context/clear")]
        asking.server.call("rpc.discover")  # its server has read what was asked before
        with stopped(asking):
            owner.server.kill()
            other.call("session/delete", sessionId=scene.session_id)
            if meanwhile != "deleted":
                Session.open(other, scene.session_id).say("new")
            if meanwhile == "recreated and closed":
                other.call("session/close", sessionId=scene.session_id)
    for one in pending:
        assert one.error()["code"] == 4001
    assert [told["kind"] for told in changes(asking, mark)] == ["deleted"]
    assert asking.refuse("context/appendMessage", message=user("x"))["code"] in (4001, 4013)
    again = asking.reopen(asking.server)
    assert again.texts() == ([] if meanwhile == "deleted" else ["new"])
    assert again.timelines() == []


def test_a_session_that_was_deleted_and_brought_back_goes_on(scene: Scene) -> None:
    owner, asking = scene.crowd(2)
    owner.say("old")
    other = scene.servers(1)[0]
    settle([owner, asking])
    with stopped(owner):
        pending = asking.start("context/appendMessage", message=user("mine"))
        asking.server.call("rpc.discover")
        with stopped(asking):
            owner.server.kill()
            other.call("session/delete", sessionId=scene.session_id)
            other.call("session/undelete", sessionId=scene.session_id)
    assert pending.result()["messageCount"] == 2
    assert asking.texts() == ["old", "mine"]
