"""`context/listTimelines` and `context/restoreTimeline`: the undo of everything, and the undo of the undo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import HEAD, TIME, at_least
from tests.support.session import Session, user


@pytest.fixture
def reverted(session: Session) -> Session:
    session.call("context/setSystemPrompt", systemPrompt="p")
    session.checkpoint()
    session.say("a")
    session.call("context/updateTokenCount", tokenCount=5)
    session.checkpoint()
    session.say("b", "c")
    session.call("context/updateTokenCount", tokenCount=9)
    session.call("context/revertTo", checkpointId=1)
    return session


def test_a_timeline_has_reason_time_size_and_counts(reverted: Session) -> None:
    size = (reverted.path / "context_1.jsonl").stat().st_size
    assert reverted.timelines() == [
        {
            "timelineId": "context_1",
            "file": "context_1.jsonl",
            "reason": "revert",
            "createdAt": TIME,
            "bytes": size,
            "messageCount": 3,
            "checkpointCount": 2,
        }
    ]


def test_a_restore_equals_the_timeline_byte_for_byte_and_keeps_the_present(reverted: Session) -> None:
    present = reverted.log_bytes()
    timeline = reverted.log_bytes("context_1.jsonl")
    result = reverted.call("context/restoreTimeline", timelineId="context_1")
    assert result == {
        "head": HEAD,
        "timelineId": "context_2",
        "removed": {"messages": -2, "checkpoints": -1, "tokens": -4},
        "context": reverted.get_state()["context"],
    }
    assert reverted.log_bytes() == timeline == reverted.log_bytes("context_1.jsonl")
    assert reverted.log_bytes("context_2.jsonl") == present
    assert reverted.texts() == ["a", "b", "c"]
    assert [t["reason"] for t in reverted.timelines()] == ["restore", "revert"]


def test_live_log_and_timeline_never_share_an_inode(reverted: Session) -> None:
    reverted.call("context/restoreTimeline", timelineId="context_1")
    reverted.say("only here")
    inodes = [path.stat().st_ino for path in reverted.path.glob("context*.jsonl")]
    assert len(set(inodes)) == len(inodes) == 3
    assert b"only here" not in reverted.log_bytes("context_1.jsonl")


def test_undo_of_the_undo(reverted: Session) -> None:
    present = reverted.log_bytes()
    back = reverted.call("context/restoreTimeline", timelineId="context_1")["timelineId"]
    reverted.call("context/restoreTimeline", timelineId=back)
    assert reverted.log_bytes() == present
    assert reverted.texts() == ["a"]


def test_undo_of_clear_and_of_compaction(session: Session) -> None:
    session.append(*[user(f"message {number} " + "x" * 400) for number in range(10)])
    before = session.log_bytes()
    cleared = session.call("context/clear")["timelineId"]
    session.call("context/restoreTimeline", timelineId=cleared)
    assert session.log_bytes() == before
    compacted = session.call("context/compact", summary="short")["timelineId"]
    session.call("context/restoreTimeline", timelineId=compacted)
    assert session.log_bytes() == before
    assert compacted == cleared  # the same log again
    assert [t["reason"] for t in session.timelines()] == ["restore", "clear"]


def test_uids_of_checkpoints_come_back_with_their_timeline(reverted: Session) -> None:
    uid = reverted.call("context/listCheckpoints", timelineId="context_1")["checkpoints"][0]["uid"]
    assert reverted.refuse("context/revertTo", checkpointUid=uid)["code"] == 4002
    reverted.call("context/restoreTimeline", timelineId="context_1")
    reverted.call("context/revertTo", checkpointUid=uid)
    assert reverted.texts() == ["a"]


def test_a_dry_restore_changes_nothing(reverted: Session) -> None:
    before, state = reverted.log_bytes(), reverted.get_state()
    planned = reverted.call("context/restoreTimeline", timelineId="context_1", dryRun=True)
    assert planned["removed"] == {"messages": -2, "checkpoints": -1, "tokens": -4} and "timelineId" not in planned
    assert planned["context"]["messageCount"] == 3
    assert (reverted.log_bytes(), reverted.get_state()) == (before, state)


@pytest.mark.parametrize(
    "timeline", ["context_2", "context_0", "context", "", "context_1.jsonl", "../s/context_1", "\x00", "state"]
)
def test_an_unknown_timeline_changes_nothing(reverted: Session, timeline: str) -> None:
    before, state = reverted.log_bytes(), reverted.get_state()
    error = reverted.refuse("context/restoreTimeline", timelineId=timeline)
    assert (error["code"], error["data"]["kind"]) == (4009, "timelineNotFound")
    assert (reverted.log_bytes(), reverted.get_state()) == (before, state)


def test_a_damaged_timeline_is_refused_and_nothing_changes(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.append(*[user(f"{number} " + "x" * 1000) for number in range(100)])
    session.call("context/clear")
    session.say("present")
    timeline = session.path / "context_1.jsonl"
    data = bytearray(timeline.read_bytes())
    data[len(data) // 2] ^= 1
    timeline.write_bytes(data)
    before, state = session.log_bytes(), session.get_state()
    for params in ({"dryRun": True}, {}):
        error = session.refuse("context/restoreTimeline", timelineId="context_1", **params)
        assert (error["code"], error["data"]["kind"]) == (4014, "corrupted")
    assert (session.log_bytes(), session.get_state()) == (before, state)
    assert session.texts() == ["present"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("context/revertTo", {"checkpointId": 0}),
        ("context/clear", {}),
        ("context/compact", {"summary": "in short"}),
        ("session/repair", {}),
    ],
)
def test_what_was_damaged_before_comes_back_as_it_was(
    start: StartServer, home: Path, method: str, params: dict[str, Any]
) -> None:
    directory = home / "sessions" / "old"
    directory.mkdir(parents=True, mode=0o700)
    said = [json.dumps(user(f"{number} " + "x" * 400)) for number in range(4)]
    torn = '{"role": "user", "conte'
    whole = "\n".join([said[0], '{"role": "_checkpoint", "id": 0}', torn, *said[1:]]) + "\n"
    (directory / "context.jsonl").write_text(whole)
    session = Session.open(start(), "old")
    timeline = ""
    for _ in range(2):  # the undo of the undo is none the worse
        timeline = session.call(method, **params)["timelineId"]
        assert session.log.read_text() != whole
        compared = session.call("context/diff", **{"from": {"timelineId": timeline}, "to": {}})
        assert compared["state"]["from"]["messageCount"] == 4
        session.call("context/restoreTimeline", timelineId=timeline)
        assert session.log.read_text() == whole
        assert [len(text) for text in session.texts()] == [402] * 4
    aside = session.path / f"{timeline}.jsonl"
    aside.write_text(whole.replace("2 x", "2 y"))
    assert session.refuse("context/restoreTimeline", timelineId=timeline)["code"] == 4014
    aside.write_text(whole.replace(said[1], said[1][:-2]))
    for index in session.path.glob(".context_*.idx"):
        index.unlink()
    assert session.refuse("context/restoreTimeline", timelineId=timeline)["code"] == 4014


def test_lists_go_newest_first_by_pages(session: Session) -> None:
    for number in range(5):
        session.say(str(number))
        session.call("context/clear")
    ids = lambda page: [timeline["timelineId"] for timeline in page["timelines"]]  # noqa: E731
    page = session.call("context/listTimelines", limit=2)
    found = ids(page)
    while "nextCursor" in page:
        page = session.call("context/listTimelines", limit=2, cursor=page["nextCursor"])
        found += ids(page)
    assert found == [f"context_{number}" for number in (5, 4, 3, 2, 1)]


def test_files_the_original_set_aside_are_timelines(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.say("x")
    session.call("session/close")
    (session.path / "context_3.jsonl").write_text(
        '{"role": "user", "content": "old"}\n{"role": "_checkpoint", "id": 0}\n'
    )
    again = session.reopen(server)
    (timeline,) = again.timelines()
    assert timeline == at_least(
        {"timelineId": "context_3", "reason": "unknown", "messageCount": 1, "checkpointCount": 1, "bytes": 68}
    )
    assert again.texts(timelineId="context_3") == ["old"]
    assert again.call("context/clear")["timelineId"] == "context_4"


def test_a_number_is_never_used_again(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    for number in range(3):
        session.say(f"x{number}")
        session.call("context/clear")
    server.kill()
    (session.path / "context_3.jsonl").unlink()
    again = Session.open(start(), "s")
    again.say("y")
    assert again.call("context/clear")["timelineId"] == "context_4"


def test_the_newest_timelines_stay_and_pruning_is_reported(start: StartServer) -> None:
    server = start(options={"retention": {"maxTimelines": 3}})
    session = Session.open(server, "s")
    for number in range(5):
        session.say(str(number))
        session.call("context/clear")
    assert [t["timelineId"] for t in session.timelines()] == ["context_5", "context_4", "context_3"]
    assert sorted(path.name for path in session.path.glob("context_*.jsonl")) == [
        "context_3.jsonl",
        "context_4.jsonl",
        "context_5.jsonl",
    ]
    warnings = [m["params"] for m in server.notifications() if m["method"] == "session/warning"]
    assert len(warnings) == 2 and all("context_" in warning["message"] for warning in warnings)


@pytest.mark.long
def test_of_more_than_fifty_timelines_the_oldest_go_where_nothing_else_is_set(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    for number in range(53):
        session.say(str(number))
        session.call("context/clear")
    assert [t["timelineId"] for t in session.timelines()] == [f"context_{number}" for number in range(53, 3, -1)]
    assert len([*session.path.glob("context_*.jsonl")]) == 50
    assert session.get_state()["context"]["canUndo"] == 50
    warnings = [m["params"] for m in server.notifications() if m["method"] == "session/warning"]
    assert len(warnings) >= 3


def test_the_size_of_timelines_is_bounded_but_the_newest_stays(start: StartServer) -> None:
    server = start(options={"retention": {"maxTimelineBytes": 100}})
    session = Session.open(server, "s")
    for number in range(3):
        session.say(f"{number}" * 1000)
        session.call("context/clear")
    assert [t["timelineId"] for t in session.timelines()] == ["context_3"]


@pytest.mark.parametrize("params", [{}, {"timelineId": 1}, {"timelineId": None}])
def test_params_of_the_wrong_type_are_refused(session: Session, params: dict[str, Any]) -> None:
    assert session.refuse("context/restoreTimeline", **params)["code"] == -32602
