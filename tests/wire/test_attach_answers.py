"""What was asked of an owner that went before it answered: the answer is that of the change, and its window hears of it."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest
from tests.support.scene import Scene, changes, marks, settle, stopped, taken_over, told_first, until
from tests.support.server import Pending
from tests.support.session import Session, user
from tests.wire.operations import OPERATIONS, Operation, prepare

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform == "win32", reason="signals")]

KILLED = {"TIMELEAP_FAILPOINTS": "append.after_sync=kill;replace.renamed=kill;state.after_meta=kill"}
ATOMIC = [op for op in OPERATIONS if op.method not in ("session/setYolo", "session/setAutoApprove")]
CHANGING = ("sessionId", "head", "uid", "checkpointUid", "createdAt", "logBytes")


def stays(value: Any) -> Any:
    """A value without what differs between two sessions with the same history."""
    if isinstance(value, dict):
        return {name: stays(one) for name, one in value.items() if name not in CHANGING}
    return [stays(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("operation", ATOMIC, ids=str)
def test_its_window_hears_of_a_change_as_if_the_owner_had_stayed(scene: Scene, operation: Operation) -> None:
    keeper = scene.window()
    prepare(keeper)
    operation.before(keeper)
    twin = Session.open(keeper.server)
    prepare(twin)
    operation.before(twin)
    keeper.call("session/close")
    scene.window(env=KILLED)
    attached = keeper.reopen(keeper.server)
    mark = len(attached.server.received)
    expected = twin.call(operation.method, **operation.params)
    should = changes(twin, mark)
    mark = len(attached.server.received)
    result = attached.call(operation.method, **operation.params)
    told_first(attached, mark)
    heard = [one for one in changes(attached, mark) if one["kind"] != "accessChanged"]
    assert "duplicate" not in result and stays(result) == stays(expected)
    assert [one["kind"] for one in heard] == [*operation.kinds]
    for one, other in zip(heard, should, strict=True):
        if one["cause"]:  # what is told of the state as it is has none
            assert stays(one) == stays(other)
    assert heard == [] or (heard[0]["cause"], heard[0]["head"]) == (should[0]["cause"], result["head"])
    assert attached.head == result["head"]


def in_one_group(scene: Scene, count: int) -> tuple[list[Session], list[Pending], dict[int, int]]:
    """Windows whose appends were written together by an owner that told nobody."""
    owner = scene.window(env={"TIMELEAP_FAILPOINTS": "append.after_sync@2=kill"})
    windows = scene.crowd(count)
    owner.say("0")
    settle(windows)
    before = marks(windows)
    started = []
    with stopped(owner):
        for number, window in enumerate(windows):
            started.append(window.start("context/appendMessage", message=user(f"from {number}")))
        for window in windows:
            window.server.call("rpc.discover")  # its server has read what was asked before
    return windows, started, before


@pytest.mark.parametrize("count", [2, 4])
def test_each_of_a_group_gets_the_head_after_its_own(scene: Scene, count: int) -> None:
    windows, started, before = in_one_group(scene, count)
    results = [one.result() for one in started]
    heads = [one["head"] for one in sorted(results, key=lambda one: int(one["firstIndex"]))]
    assert [one["messageCount"] for one in sorted(results, key=lambda one: int(one["firstIndex"]))] == [
        *range(2, count + 2)
    ]
    assert len(set(heads)) == count
    present = windows[0].head
    assert present == heads[-1]
    for window, result in zip(windows, results, strict=True):
        told_first(window, before[id(window)])
        told = changes(window, before[id(window)])
        own = [one for one in told if one["head"] == result["head"] and one["kind"] == "messagesAppended"]
        assert len(own) == 1 and (own[0]["firstIndex"], own[0]["count"]) == (result["firstIndex"], 1)
        last = [one["kind"] for one in told if one["head"] == present]
        assert {"external", "messagesAppended"} & set(last), "a window would miss what the others wrote"
        if result["head"] != present:
            error = window.refuse("context/clear", expectedHead=result["head"], dryRun=True)
            assert (error["code"], error["data"]["head"]) == (-32801, present)
        else:
            window.call("context/clear", expectedHead=result["head"], dryRun=True)


@pytest.mark.parametrize("since", ["clear", "revert", "there and back", "compact"])
def test_what_others_did_since_is_no_part_of_the_answer(scene: Scene, since: str) -> None:
    owner = scene.window(env={"TIMELEAP_FAILPOINTS": "append.after_sync@4=kill"})
    asking, other = scene.crowd(2)
    owner.say("0" + " word" * 100)
    owner.checkpoint()
    owner.say("1")
    settle([asking, other])
    mark = len(asking.server.received)
    owner.server.signal(signal.SIGSTOP)
    asked = asking.start("context/appendMessage", messages=[user("from A"), user("again from A")])
    asking.server.call("rpc.discover")  # its server has read that, and passed it on
    with stopped(asking):
        owner.server.signal(signal.SIGCONT)
        owner.server.wait()
        until(lambda: other.get_state()["access"] == "owner", saying="the other one owns it")
        if since == "clear":
            other.call("context/clear")
        elif since == "revert":
            other.call("context/revertTo", checkpointId=0)
        elif since == "compact":
            other.call("context/compact", summary="s", maxPreservedMessages=1)
        else:
            cleared = other.call("context/clear")
            other.call("context/restoreTimeline", timelineId=cleared["timelineId"])
        other.say("B is here now")
    result = asked.result()
    assert (result["firstIndex"], result["messageCount"], "duplicate" in result) == (2, 4, False)
    told_first(asking, mark)
    told = [(one["kind"], one["head"]) for one in changes(asking, mark)]
    assert told[0] == ("messagesAppended", result["head"])
    assert told[1] == ("external", asking.head) and asking.head != result["head"]
    error = asking.refuse("context/appendMessage", message=user("goes on"), expectedHead=result["head"])
    assert (error["code"], error["data"]["head"]) == (-32801, asking.head)


@pytest.mark.parametrize("moment", ["session.prepared", "replace.renamed", "replace.done", "requests.after_append"])
@pytest.mark.parametrize("count", [5, 1100])
def test_a_rewrite_is_done_once_however_much_was_appended_before(scene: Scene, moment: str, count: int) -> None:
    owner = scene.window(env={"TIMELEAP_FAILPOINTS": f"{moment}=kill"})
    asking, third = scene.crowd(2)
    for window in (asking, third):
        for one in [window.start("context/appendMessage", message=user(f"m{n}")) for n in range(count)]:
            one.result()
    for label in ("zero", "one"):
        asking.checkpoint(label=label)
        asking.say(f"after {label}")
    before = marks([asking, third])
    if moment == "requests.after_append":
        # The step before has left something in the journal; the next one makes room for itself.
        third.call("session/setTitle", title="t", requestId="title")
    result = asking.call("context/revertTo", checkpointId=1)
    assert owner.server.wait() != 0
    taken_over([asking, third], before)
    assert result["removed"] == {"messages": 1, "checkpoints": 1, "tokens": 0} and "duplicate" not in result
    for window in (asking, third):
        assert [one["label"] for one in window.get_state()["context"]["checkpoints"]] == ["zero"]
        assert window.texts()[-1] == "after zero"
        assert len(window.timelines()) == 1
    told_first(asking, before[id(asking)])


@pytest.mark.parametrize("request_id", [None, "mine"])
def test_a_clients_own_id_in_flight_is_no_duplicate_and_its_repeat_is_one(scene: Scene, request_id: str | None) -> None:
    owner = scene.window(env={"TIMELEAP_FAILPOINTS": "append.after_sync@2=kill"})
    asking = scene.window()
    asking.say("first")
    own = {} if request_id is None else {"requestId": request_id}
    before = marks([asking])
    result = asking.call("context/appendMessage", message=user("second"), **own)
    taken_over([asking], before)
    told = changes(asking, before)[0]
    assert "duplicate" not in result and (told["kind"], told["head"]) == ("messagesAppended", result["head"])
    assert told["cause"] == {**own, "client": "client-2"}
    assert owner.server.wait() != 0
    if request_id is not None:
        asking.say("third")
        again = asking.call("context/appendMessage", message=user("second"), **own)
        assert again == {**result, "duplicate": True, "head": asking.head}


def test_a_clients_repeat_in_flight_stays_a_repeat(scene: Scene) -> None:
    owner, asking = scene.crowd(2)
    first = asking.call("context/appendMessage", message=user("x"), requestId="r")
    asking.say("y")
    settle([owner, asking])
    mark = len(asking.server.received)
    with stopped(owner):
        repeated = asking.start("context/appendMessage", message=user("x"), requestId="r")
        asking.server.call("rpc.discover")
        owner.server.kill()
    assert repeated.result() == {**first, "duplicate": True, "head": asking.head}
    assert [one["kind"] for one in changes(asking, mark)] == ["accessChanged"], "it has heard of that long since"


def test_the_ids_of_windows_use_up_none_of_the_clients(scene: Scene) -> None:
    """Beyond both bounds: 4 096 ids that attached processes made, 1 024 of them of one window."""
    owner, *windows = scene.crowd(6)
    owner.call("session/setTitle", title="t", requestId="title")
    windows[0].call("context/appendMessage", message=user("x"), requestId="appended")
    for window in windows:
        for _ in range(2):
            for one in [window.start("context/appendMessage", message=user("m")) for _ in range(450)]:
                one.result()
    before = marks(windows)
    owner.server.kill()
    heir = taken_over(windows, before)
    for window in windows:
        assert window.call("session/setTitle", title="t", requestId="title")["duplicate"] is True
        again = window.call("context/appendMessage", message=user("x"), requestId="appended")
        assert again["duplicate"] is True
    assert heir.get_state()["context"]["messageCount"] == 4501
