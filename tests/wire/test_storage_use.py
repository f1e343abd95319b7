"""`session/storage` says what takes space, `session/prune` frees it; nothing else goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.holding import present
from tests.support.matching import at_least
from tests.support.server import Message
from tests.support.session import Session, user


def sizes(directory: Path) -> dict[str, int]:
    return {
        path.relative_to(directory).as_posix(): path.lstat().st_size
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def timelines(session: Session) -> list[str]:
    return [one["timelineId"] for one in session.timelines()]


def names(result: Message) -> list[str]:
    return [one["timelineId"] for one in result["removed"]]


@pytest.fixture
def told(session: Session) -> Session:
    """A session with four timelines."""
    for number in range(4):
        session.checkpoint()
        session.append(user(f"{number} " * 100))
        session.call("context/revertTo", checkpointId=0)
    return session


def test_one_session_and_its_files(told: Session) -> None:
    (told.path / "subagents").mkdir()
    (told.path / "subagents" / "reviewer.jsonl").write_bytes(b"x" * 5000)
    (told.path / "context.jsonl.quarantine-5-x").write_bytes(b"torn")
    (told.path / "link").symlink_to("/etc/passwd")
    told.append(user("on"))
    result = told.server.call("session/storage", sessionId=told.id)
    (one,) = result["sessions"]
    there = sizes(told.path)
    assert {entry["file"]: entry["bytes"] for entry in one["files"]} == there
    assert result["totalBytes"] == one["bytes"] == sum(there.values())
    assert [entry["bytes"] for entry in one["files"]] == sorted(there.values(), reverse=True)
    kinds = {entry["file"]: entry["kind"] for entry in one["files"]}
    assert kinds["subagents/reviewer.jsonl"] == "other"
    assert one["logBytes"] == there["context.jsonl"]
    assert one["timelineCount"] == 4
    assert one["timelineBytes"] == sum(size for name, size in there.items() if kinds[name] == "timeline")
    assert one["quarantineBytes"] == 4
    parts = ("logBytes", "timelineBytes", "indexBytes", "quarantineBytes", "otherBytes")
    assert sum(one[part] for part in parts) == one["bytes"]


def test_the_store_by_size_the_trash_included(start: StartServer, home: Path) -> None:
    server = start()
    for name, size in (("small", 1), ("large", 3000), ("gone", 1000)):
        session = Session.open(server, name)
        session.append(user("x" * size))
        session.call("session/close")
    server.call("session/delete", sessionId="gone")
    result = server.call("session/storage")
    assert [one["sessionId"] for one in result["sessions"]] == ["large", "gone", "small"]
    assert [one.get("deletedAt") is not None for one in result["sessions"]] == [False, True, False]
    assert result["totalBytes"] == sum(sizes(home / "sessions").values()) + sum(sizes(home / "trash").values())
    assert result["trashBytes"] == result["sessions"][1]["bytes"]
    assert all("files" not in one for one in result["sessions"])
    pages = []
    params: dict[str, Any] = {}
    while True:
        page = server.call("session/storage", limit=1, **params)
        pages += page["sessions"]
        assert page["totalBytes"] == result["totalBytes"]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert pages == result["sessions"]
    assert server.refuse("session/storage", sessionId="nobody")["code"] == 4001
    assert server.refuse("session/storage", cursor="made up")["code"] == -32602


def test_pruning_keeps_the_newest_and_gives_the_space_back(told: Session) -> None:
    assert timelines(told) == ["context_4", "context_3", "context_2", "context_1"]
    before = {one["timelineId"]: one["bytes"] for one in told.timelines()}
    head, log = told.head, told.log.read_bytes()
    planned = told.call("session/prune", maxTimelines=2, dryRun=True)
    assert len(timelines(told)) == 4
    done = told.call("session/prune", maxTimelines=2)
    assert (
        planned
        == done
        == {
            "head": head,
            "removed": [{"timelineId": name, "bytes": before[name]} for name in ("context_2", "context_1")],
            "kept": [],
            "quarantine": [],
            "freedBytes": before["context_1"] + before["context_2"],
        }
    )
    assert timelines(told) == ["context_4", "context_3"]
    assert {path.name for path in told.path.glob("*context_[12].jsonl*")} == set()
    assert (told.head, told.log.read_bytes()) == (head, log)


def test_the_newest_goes_only_if_it_is_named(told: Session) -> None:
    for wish in ({"maxTimelineBytes": 0}, {"olderThan": "2100-01-01T00:00:00Z"}):
        assert names(told.call("session/prune", dryRun=True, **wish)) == ["context_3", "context_2", "context_1"]
    assert told.refuse("session/prune", maxTimelines=0)["code"] == -32602
    assert names(told.call("session/prune", timelineIds=["context_4"])) == ["context_4"]
    told.append(user("new"))
    told.call("context/clear")
    assert timelines(told)[0] == "context_5", "a number is not used again"


def test_by_age(session: Session) -> None:
    session.append(user("x"))
    session.call("context/clear")
    between = present()
    for number in range(2):
        session.append(user(str(number)))
        session.call("context/clear")
    assert names(session.call("session/prune", olderThan=between, dryRun=True)) == ["context_1"]
    assert names(session.call("session/prune", olderThan="2000-01-01T00:00:00Z")) == []
    for bad in ("yesterday", "2000-01-01T00:00:00"):
        error = session.refuse("session/prune", olderThan=bad)
        assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["olderThan"])


def test_without_a_wish_the_limits_of_the_configuration_count(start: StartServer) -> None:
    session = Session.open(start())
    for number in range(3):
        session.append(user(str(number)))
        session.call("context/clear")
    assert names(session.call("session/prune")) == []
    session.call("session/close")
    session = session.reopen(start(options={"retention": {"maxTimelines": 2}}))
    assert names(session.call("session/prune")) == ["context_1"]


def test_what_a_fork_refers_to_stays_and_is_said_to(told: Session) -> None:
    uid = told.call("context/listCheckpoints", timelineId="context_2")["checkpoints"][0]["uid"]
    told.call("context/restoreTimeline", timelineId="context_2")
    told.call("session/fork", checkpointUid=uid)
    told.call("context/clear")  # the fork's checkpoint is in timelines only
    held = [name for name in timelines(told) if uid in {
        one["uid"] for one in told.call("context/listCheckpoints", timelineId=name)["checkpoints"]
    }]  # fmt: skip
    result = told.call("session/prune", timelineIds=timelines(told))
    (kept,) = result["kept"]
    assert kept["reason"] == "fork" and kept["timelineId"] in held
    assert timelines(told) == [kept["timelineId"]]


def test_an_unknown_timeline_keeps_all_of_them(told: Session) -> None:
    error = told.refuse("session/prune", timelineIds=["context_1", "context_9"])
    assert (error["code"], error["data"]["timelineId"]) == (4009, "context_9")
    assert told.refuse("session/prune", timelineIds=["../../x"])["code"] == 4009
    assert len(timelines(told)) == 4


def test_quarantine_goes_only_if_it_is_asked_for(told: Session) -> None:
    file = told.path / "context.jsonl.quarantine-655-x"
    file.write_bytes(b"torn")
    told.call("session/prune", maxTimelines=1)
    assert file.exists()
    planned = told.call("session/prune", quarantine=True, dryRun=True)
    assert planned["quarantine"] == [{"file": file.name, "bytes": 4}] and file.exists()
    assert told.call("session/prune", quarantine=True) == planned
    assert not file.exists() and timelines(told) == ["context_4"]


def test_a_repeat_removes_no_more(told: Session) -> None:
    first = told.call("session/prune", maxTimelines=2, requestId="p")
    told.append(user("new"))
    told.call("context/clear")
    assert told.call("session/prune", maxTimelines=2, requestId="p") == {**first, "duplicate": True, "head": told.head}
    assert len(timelines(told)) == 3
    assert told.refuse("session/prune", maxTimelines=1, requestId="p")["code"] == -32602
    assert told.refuse("session/prune", maxTimelines=1, expectedHead=first["head"])["code"] == -32801
    assert len(timelines(told)) == 3


def test_windows_are_told(told: Session) -> None:
    pending = told.start("session/prune", maxTimelines=1)
    assert pending.result()["head"] == told.head
    (warning,) = [message["params"] for message in pending.heard() if message["method"] == "session/warning"]
    assert warning == at_least({"sessionId": told.id, "kind": "timelinesPruned"})
    assert told.get_state()["warnings"] == []


def test_who_may_not_write_may_not_prune(told: Session) -> None:
    told.call("session/close")
    reader = told.reopen(told.server, access="readOnly")
    assert reader.refuse("session/prune", maxTimelines=1)["code"] == 4004
    assert len(names(reader.call("session/prune", maxTimelines=1, dryRun=True))) == 3
    reader.call("session/close")


def test_sessions_that_are_not_open_or_live_elsewhere_are_pruned_too(start: StartServer) -> None:
    owner = Session.open(start())
    for number in range(3):
        owner.append(user(str(number)))
        owner.call("context/clear")
    other = start("ndjson")
    assert names(other.call("session/prune", sessionId=owner.id, maxTimelines=2)) == ["context_1"]
    assert owner.get_state()["context"]["timelines"] == 2
    owner.call("session/close")
    assert names(other.call("session/prune", sessionId=owner.id, maxTimelines=1)) == ["context_2"]
    assert other.refuse("session/prune", sessionId="nobody")["code"] == 4001


def test_snapshots_of_files_count_for_the_store(told: Session) -> None:
    before = told.server.call("session/storage")
    assert "filesBytes" not in before
    saved = told.path.parents[1] / "files" / "0123" / "objects"
    saved.mkdir(parents=True)
    (saved / "pack").write_bytes(b"x" * 7000)
    after = told.server.call("session/storage")
    assert after["filesBytes"] == 7000
    assert after["totalBytes"] == before["totalBytes"] + 7000
    assert "filesBytes" not in told.server.call("session/storage", sessionId=told.id)
