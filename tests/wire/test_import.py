"""`session/import`: a session from elsewhere arrives whole, or not at all; nothing an archive says is believed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import Engine, StartServer
from tests.support.mostly_long import mostly_long
from tests.support.server import PATIENCE, Message, Server
from tests.support.session import Session, assistant, user

LOG = b'{"role":"user","content":"hello"}\n'
Make = Callable[[Path], Path]


@pytest.fixture
def told(shared: Server) -> Session:
    """A session with two timelines and all that belongs beside the log."""
    made = Session.open(shared, title="The login", systemPrompt="Be careful.", workspace="file:///w")
    for number in range(2):
        made.checkpoint(label=f"turn {number}")
        made.append(user(f"question {number}"), assistant("ümläut"), requestId=f"r{number}")
        made.call("context/updateTokenCount", tokenCount=100 * (number + 1))
    made.call("context/revertTo", checkpointId=1)
    made.say("again")
    made.call("context/clear")
    made.call("context/restoreTimeline", timelineId="context_1")
    made.call("context/sendDMail", checkpointId=0, message="think again")
    made.call("context/setPins", pins=["login.py"])
    made.call("session/putSubagent", name="reviewer", systemPrompt="Review.")
    made.call("session/setYolo", yolo=True)
    made.call("session/setAutoApprove", action="run", enabled=True)
    return made


def exported(session: Session, path: Path) -> Path:
    session.call("session/export", format="native", path=str(path))
    return path


def take_in(server: Server, path: Path, **params: Any) -> Session:
    return Session(server, server.call("session/import", path=str(path), **params))


def nothing_is_left(server: Server) -> None:
    staging = server.home / "staging"
    assert not staging.exists() or list(staging.iterdir()) == []


# What arrives


def test_a_session_arrives_byte_for_byte_with_its_approvals_off(shared: Server, told: Session, tmp_path: Path) -> None:
    new = take_in(shared, exported(told, tmp_path / "all.zip"))
    state = new.state
    assert state["losses"] == []
    assert state["access"] == "owner"
    assert state["sessionId"] != told.id
    for name in ("context.jsonl", "context_1.jsonl", "context_2.jsonl", "context_3.jsonl"):
        assert new.log_bytes(name) == told.log_bytes(name)
    before = told.get_state()
    same = ("title", "workspace", "context", "dynamicSubagents", "pendingDMail", "pins", "archived", "budget")
    assert {name: state[name] for name in same} == {name: before[name] for name in same}
    assert (state["approval"]["yolo"], state["approval"]["autoApproveActions"]) == (False, [])
    assert before["approval"]["yolo"] is True
    assert new.timelines() == told.timelines()
    uids = [json.loads((one.path / "timeleap.json").read_text())["uid"] for one in (told, new)]
    assert uids[0] != uids[1]
    assert state["warnings"] == []
    assert stat.S_IMODE(new.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in new.path.iterdir()} == {0o600}


def test_it_goes_on_like_any_other(shared: Server, told: Session, tmp_path: Path) -> None:
    new = take_in(shared, exported(told, tmp_path / "all.zip"), sessionId="goes-on")
    assert new.id == "goes-on"
    appended = new.append(user("question 0"), assistant("ümläut"), requestId="r0")
    assert "duplicate" not in appended
    assert new.call("context/revertTo", checkpointId=0)["timelineId"] == "context_4"
    new.call("context/restoreTimeline", timelineId="context_4")
    again = take_in(shared, exported(new, tmp_path / "again.zip"))
    assert again.history() == new.history()
    assert [one["timelineId"] for one in again.timelines()] == [f"context_{number}" for number in (4, 3, 2, 1)], (
        "an equal log is kept once"
    )


def test_another_store_and_a_restart(start: StartServer, told: Session, tmp_path: Path) -> None:
    path = exported(told, tmp_path / "all.zip")
    there = take_in(start(at=tmp_path / "other"), path, sessionId="moved")
    history = there.history()
    assert history == told.history()
    there.server.dispose()
    again = Session.open(start(at=tmp_path / "other"), "moved")
    assert again.history() == history
    assert again.get_state()["approval"]["yolo"] is False


def test_state_that_claims_approvals_is_not_believed(shared: Server, told: Session, tmp_path: Path) -> None:
    members = unzipped(exported(told, tmp_path / "all.zip"))
    members["state.json"] = json.dumps(
        {"approval": {"yolo": True, "afk": True, "auto_approve_actions": ["rm"]}}
    ).encode()
    members["timeleap.json"] = (told.path / "timeleap.json").read_bytes()
    new = take_in(shared, archive(tmp_path / "bad.zip", members))
    assert new.state["approval"] == {
        "yolo": False,
        "afk": False,
        "autoApproveActions": [],
        "sealed": new.state["approval"]["sealed"],
    }
    assert new.call("session/isApproved", action="rm")["approved"] is False


def test_documents_of_wrong_types_do_no_harm(shared: Server, tmp_path: Path) -> None:
    notes = {
        "timelines": {"context_1": 3, "../x": {}},
        "rotation": 10**40,
        "pins": [1, "a"],
        "parent": "x",
        "pendingDMail": 1,
    }
    state = {"version": "x", "custom_title": 7, "dynamic_subagents": {}, "archived": "yes"}
    members = {"context.jsonl": LOG, "context_1.jsonl": LOG}
    members |= {"state.json": json.dumps(state).encode(), "timeleap.json": json.dumps(notes).encode()}
    new = take_in(shared, archive(tmp_path / "odd.zip", members))
    assert (new.state["title"], new.state["pins"], new.state["archived"]) == (None, ["a"], False)
    assert [one["reason"] for one in new.timelines()] == ["import"]
    new.say("on")
    assert new.call("context/clear")["timelineId"] == "context_2"


def test_the_same_request_again_gets_the_same_session(start: StartServer, told: Session, tmp_path: Path) -> None:
    path = exported(told, tmp_path / "all.zip")
    server = start()
    first = server.call("session/import", path=str(path), requestId="r1")
    server.dispose()
    path.unlink()
    server = start()
    second = server.call("session/import", path=str(path), requestId="r1")
    assert second["duplicate"] is True
    assert second["sessionId"] == first["sessionId"]
    assert second["losses"] == first["losses"]
    other = server.refuse("session/import", path=str(path), requestId="r1", sessionId="other")
    assert (other["code"], other["data"]["errors"][0]["loc"]) == (-32602, ["requestId"])
    assert [info["sessionId"] for info in server.call("session/list")["sessions"]] == [first["sessionId"]]


def test_progress_is_told(shared: Server, told: Session, tmp_path: Path) -> None:
    pending = shared.start("session/import", path=str(exported(told, tmp_path / "all.zip")), workDoneToken="t")
    seen = [m["params"]["value"]["kind"] for m in pending.heard() if m["method"] == "$/progress"]
    assert (seen[0], seen[-1]) == ("begin", "end")


def test_ids_that_cannot_be_had(shared: Server, told: Session, tmp_path: Path) -> None:
    path = exported(told, tmp_path / "all.zip")
    for session_id, code in ((told.id, 4016), ("../x", 4010), ("con", 4010)):
        assert shared.refuse("session/import", path=str(path), sessionId=session_id)["code"] == code
    nothing_is_left(shared)


def test_requests_behind_an_import_wait_for_it(shared: Server, told: Session, tmp_path: Path) -> None:
    path = exported(told, tmp_path / "all.zip")
    importing = shared.start("session/import", path=str(path), sessionId="piped")
    appending = shared.start("context/appendMessage", sessionId="piped", message=user("at once"))
    importing.result()
    assert appending.result()["messageCount"] == told.get_state()["context"]["messageCount"] + 1


@pytest.mark.long
def test_a_cancelled_import_leaves_nothing(shared: Server, tmp_path: Path) -> None:
    log = b"".join(b'{"role":"user","content":"%s %d"}\n' % (os.urandom(3000).hex().encode(), n) for n in range(3000))
    path = archive(tmp_path / "large.zip", {"context.jsonl": log})
    pending = shared.start("session/import", path=str(path), sessionId="cancelled")
    shared.notify("$/cancelRequest", id=pending.id)
    assert pending.error()["code"] == -32800
    nothing_is_left(shared)
    assert shared.refuse("session/getState", sessionId="cancelled")["code"] == 4001
    midway = shared.start("session/import", path=str(path), sessionId="midway", workDoneToken=1)
    shared.heard("$/progress", since=midway.sent_at)
    shared.notify("$/cancelRequest", id=midway.id)
    if "error" in midway.reply():  # else it was done before it could be cancelled
        assert shared.refuse("session/getState", sessionId="midway")["code"] == 4001
    nothing_is_left(shared)
    assert take_in(shared, path, sessionId="cancelled").state["context"]["messageCount"] == 3000


# What is refused


def unzipped(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist() if name != "manifest.json"}


def listing(members: dict[str, bytes]) -> list[Message]:
    return [{"name": n, "bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in members.items()]


def manifest(data: dict[str, bytes], **changes: Any) -> bytes:
    return json.dumps({"format": "timeleap-session", "version": 1, "members": listing(data), **changes}).encode()


def archive(
    path: Path,
    members: dict[str, bytes],
    *,
    said: bytes | None = None,
    mode: int = 0,
    method: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """An archive made by hand; `said` is its manifest, else one that fits."""
    with zipfile.ZipFile(path, "w", method) as target:
        target.writestr("manifest.json", manifest(members) if said is None else said)
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = method, mode << 16
            target.writestr(info, data)
    return path


def twice(path: Path) -> Path:
    archive(path, {"context.jsonl": LOG})
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as target:
        target.writestr("context.jsonl", LOG)
    return path


def patched(path: Path, change: Callable[[bytearray], None]) -> Path:
    data = bytearray(archive(path, {"context.jsonl": LOG * 50}).read_bytes())
    change(data)
    path.write_bytes(data)
    return path


def flip(where: bytes, offset: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[data.rfind(where) + offset] ^= 1

    return change


def cut_by_nul(path: Path) -> Path:
    """A member whose name goes on behind a NUL, where many programs stop reading."""
    archive(path, {"context.jsonl+evil": LOG}, said=manifest(GOOD))
    path.write_bytes(path.read_bytes().replace(b"context.jsonl+evil", b"context.jsonl\0evil"))
    return path


def cut(share: float) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        del data[int(len(data) * share) :]

    return change


def directory_at(offset: int) -> Callable[[bytearray], None]:
    """The end record says that the table of contents begins elsewhere."""

    def change(data: bytearray) -> None:
        end = data.rfind(b"PK\x05\x06")
        struct.pack_into("<L", data, end + 16, offset)

    return change


def longer_than_said(data: bytearray) -> None:
    """The table of contents and the manifest tell less than there is."""
    entry = data.rfind(b"PK\x01\x02")
    struct.pack_into("<L", data, entry + 24, len(LOG))


def wrong(data: dict[str, bytes], **changes: Any) -> bytes:
    return manifest(data, members=[{**listing(data)[0], **changes}])


GOOD = {"context.jsonl": LOG}


def with_a_member_called(name: str) -> Make:
    return lambda path: archive(path, {**GOOD, name: b"{}"})


REFUSED: dict[str, tuple[Make, int, str]] = {
    **{
        f"name {name}": (with_a_member_called(name), 4014, name)
        for name in (
            *("../context.jsonl", "/etc/passwd", "a/context.jsonl", "context.jsonl/", "..\\x", "C:\\x", "c:x"),
            *(
                "context_1.JSONL",
                "Context.jsonl",
                "context_.jsonl",
                ".context.jsonl.idx",
                "requests.jsonl",
                "context_1.jsonl ",
            ),
            *("context_٣.jsonl", "con", "state.json\n"),
        )
    },
    "a link": (lambda path: archive(path, GOOD, mode=stat.S_IFLNK | 0o777), 4014, "context.jsonl"),
    "a device": (lambda path: archive(path, GOOD, mode=stat.S_IFCHR | 0o666), 4014, "context.jsonl"),
    "a directory": (lambda path: archive(path, GOOD, mode=stat.S_IFDIR | 0o700), 4014, "context.jsonl"),
    "twice": (twice, 4014, "context.jsonl"),
    "a name cut by NUL": (cut_by_nul, 4014, "context.jsonl\0evil"),
    "bzip2": (lambda path: archive(path, GOOD, method=zipfile.ZIP_BZIP2), 4014, "manifest.json"),
    "encrypted": (lambda path: patched(path, flip(b"PK\x01\x02", 8)), 4014, "context.jsonl"),
    "no log": (lambda path: archive(path, {"state.json": b"{}"}), 4014, "context.jsonl"),
    "wrong checksum": (lambda path: archive(path, GOOD, said=wrong(GOOD, sha256="0" * 64)), 4014, "context.jsonl"),
    "wrong length": (lambda path: archive(path, GOOD, said=wrong(GOOD, bytes=3)), 4014, "context.jsonl"),
    "not listed": (
        lambda path: archive(path, {**GOOD, "context_1.jsonl": LOG}, said=manifest(GOOD)),
        4014,
        "context_1.jsonl",
    ),
    "not there": (
        lambda path: archive(path, GOOD, said=manifest({**GOOD, "context_1.jsonl": LOG})),
        4014,
        "context_1.jsonl",
    ),
    "listed twice": (
        lambda path: archive(path, GOOD, said=manifest(GOOD, members=listing(GOOD) * 2)),
        4014,
        "manifest.json",
    ),
    "manifest no JSON": (lambda path: archive(path, GOOD, said=b"{"), 4014, "manifest.json"),
    "manifest too deep": (
        lambda path: archive(path, GOOD, said=b"[" * 100_000, method=zipfile.ZIP_STORED),
        4014,
        "manifest.json",
    ),
    "manifest a list": (lambda path: archive(path, GOOD, said=b"[]"), 4014, "manifest.json"),
    "another format": (lambda path: archive(path, GOOD, said=manifest(GOOD, format="x")), 4014, "manifest.json"),
    "no version": (lambda path: archive(path, GOOD, said=manifest(GOOD, version=True)), 4014, "manifest.json"),
    "state a list": (lambda path: archive(path, {**GOOD, "state.json": b"[]"}), 4014, "state.json"),
    "notes no UTF-8": (lambda path: archive(path, {**GOOD, "timeleap.json": b'{"a": "\xff"}'}), 4014, "timeleap.json"),
    "truncated": (lambda path: patched(path, cut(0.6)), 4014, ""),
    "cut at the end": (lambda path: patched(path, cut(0.99)), 4014, ""),
    "a flipped bit": (lambda path: patched(path, flip(b"PK\x03\x04", 46)), 4014, "context.jsonl"),
    "a directory at nowhere": (lambda path: patched(path, directory_at(0xFFFFFF)), 4014, ""),
    "longer than it says": (lambda path: patched(path, longer_than_said), 4014, "context.jsonl"),
    "empty": (lambda path: patched(path, cut(0)), 4014, ""),
    "a newer version": (lambda path: archive(path, GOOD, said=manifest(GOOD, version=3)), -32602, "path"),
    "a bomb": (lambda path: archive(path, {"context.jsonl": bytes(32 << 20)}), 4011, ""),
    "a large document": (
        lambda path: archive(path, {**GOOD, "state.json": b"{}" + b" " * (17 << 20)}, method=zipfile.ZIP_STORED),
        4011,
        "",
    ),
    "many members": (
        lambda path: archive(path, {**GOOD, **{f"context_{n}.jsonl": b"" for n in range(1, 20_001)}}, said=b"{}"),
        4011,
        "",
    ),
}


@pytest.mark.parametrize("name", mostly_long(REFUSED, every=3))
def test_an_archive_that_is_not_whole_and_honest_is_refused(shared: Server, tmp_path: Path, name: str) -> None:
    make, code, where = REFUSED[name]
    before = [info["sessionId"] for info in shared.call("session/list", limit=1000)["sessions"]]
    around = sorted(tmp_path.parent.iterdir())
    error = shared.refuse("session/import", path=str(make(tmp_path / "hostile.zip")), format="native")
    assert error["code"] == code, error
    if code == 4014:
        assert error["data"]["member"] == where, error
    if code == -32602:
        assert error["data"]["errors"][0]["loc"] == [where]
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.zip"]
    assert sorted(tmp_path.parent.iterdir()) == around
    nothing_is_left(shared)
    assert [info["sessionId"] for info in shared.call("session/list", limit=1000)["sessions"]] == before


def test_what_is_encrypted_is_told_as_such(shared: Server, tmp_path: Path) -> None:
    path = patched(tmp_path / "hostile.zip", flip(b"PK\x01\x02", 8))
    assert "is encrypted" in shared.refuse("session/import", path=str(path))["message"]


def test_every_prefix_of_an_archive_is_refused(shared: Server, tmp_path: Path) -> None:
    data = archive(tmp_path / "whole.zip", {"context.jsonl": LOG * 3}).read_bytes()
    path = tmp_path / "part.zip"
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        assert shared.refuse("session/import", path=str(path), format="native")["code"] in (4014, -32602)
    nothing_is_left(shared)
    assert take_in(shared, tmp_path / "whole.zip").state["context"]["messageCount"] == 3


def test_what_deflates_too_well_is_exported_so_that_it_can_be_imported(shared: Server, tmp_path: Path) -> None:
    session = Session.open(shared)
    session.append(user("x" * 4_000_000))
    path = exported(session, tmp_path / "all.zip")
    with zipfile.ZipFile(path) as opened:
        assert sum(one.file_size for one in opened.infolist()) <= 200 * path.stat().st_size
    assert take_in(shared, path).history() == session.history()


def test_what_is_no_archive_at_all(shared: Server, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "json").write_text('{"a": 1}\n')
    (tmp_path / "folder").mkdir()
    for name in ("text", "empty", "json", "folder"):
        error = shared.refuse("session/import", path=str(tmp_path / name))
        assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["path"]), name
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        target.writestr("word/document.xml", "<x/>")
    (tmp_path / "foreign.zip").write_bytes(buffer.getvalue())
    assert shared.refuse("session/import", path=str(tmp_path / "foreign.zip"))["code"] == -32602
    for path in ("all.zip", "/nul\0"):
        assert shared.refuse("session/import", path=path)["code"] == -32602
    error = shared.refuse("session/import", path=str(tmp_path / "text"), format="docx")
    assert error["data"]["errors"][0]["loc"] == ["format"]
    nothing_is_left(shared)


def test_links_and_pipes_are_not_read(shared: Server, tmp_path: Path) -> None:
    archive(tmp_path / "good.zip", GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "good.zip")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo", "missing"):
        for form in ({}, {"format": "native"}, {"format": "kimi"}):
            error = shared.refuse("session/import", path=str(tmp_path / name), **form)
            assert error["code"] == 4005, name
    nothing_is_left(shared)


def test_a_machine_that_stops_in_the_middle_leaves_no_half_session(
    start: StartServer, engine: Engine, tmp_path: Path
) -> None:
    path = archive(tmp_path / "all.zip", GOOD)
    server = start(failpoints="store.before_move=kill")
    pending = server.start("session/import", path=str(path), sessionId="half", requestId="r1")
    server.process.wait(PATIENCE)
    again = start()
    if engine == "jsonl":  # the rows are committed by then
        assert again.refuse("session/getState", sessionId="half")["code"] == 4001
    result: Message = again.call("session/import", path=str(path), sessionId="half", requestId="r1")
    assert result.get("duplicate", False) is (engine == "postgresql")
    assert Session(again, result).history() == [json.loads(LOG)]
    assert pending.server is server


# The original program's files


def test_a_session_of_the_original_is_copied(shared: Server, tmp_path: Path) -> None:
    source = tmp_path / "9f27"
    source.mkdir()
    logs = {
        "context.jsonl": b'{"role": "_checkpoint", "id": 0}\n' + LOG + b"\n{broken\n" + LOG,
        "context_2.jsonl": LOG * 2,
        "context.jsonl.1": LOG,
    }
    for name, data in logs.items():
        (source / name).write_bytes(data)
    (source / "state.json").write_text(json.dumps({"approval": {"yolo": True}, "custom_title": "Old", "other": [1]}))
    (source / "wire.jsonl").write_text("{}")
    new = take_in(shared, source)
    assert {name: new.log_bytes(name) for name in logs} == logs
    assert new.state["title"] == "Old"
    assert new.state["approval"]["yolo"] is False
    assert json.loads((new.path / "state.json").read_text())["other"] == [1]
    assert [loss["kind"] for loss in new.state["losses"]] == ["files"]
    assert {one["reason"] for one in new.timelines()} == {"import"}
    assert {path.name for path in source.iterdir()} == {*logs, "state.json", "wire.jsonl"}


def test_a_bare_log_is_recognised_and_copied(shared: Server, tmp_path: Path) -> None:
    path = tmp_path / "anything.jsonl"
    path.write_bytes(LOG * 3)
    new = take_in(shared, path)
    assert new.log_bytes() == LOG * 3
    assert new.state["losses"] == []


def test_links_in_a_directory_are_not_followed(shared: Server, tmp_path: Path) -> None:
    source = tmp_path / "9f27"
    source.mkdir()
    (tmp_path / "secret").write_bytes(LOG)
    (source / "context.jsonl").symlink_to(tmp_path / "secret")
    assert shared.refuse("session/import", path=str(source))["code"] == 4005
    nothing_is_left(shared)


# Other agents' files


def test_another_agents_session_is_recognised_and_its_losses_are_remembered(start: StartServer, tmp_path: Path) -> None:
    claude, codex = tmp_path / "claude.jsonl", tmp_path / "codex.jsonl"
    line = {"type": "user", "uuid": "a", "parentUuid": None, "sessionId": "s", "cwd": "/w", "message": user("Why?")}
    claude.write_text(json.dumps(line) + "\n{broken\n")
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Why?"}]}
    codex.write_text(json.dumps({"type": "response_item", "payload": item}))
    server = start()
    for path, kinds in ((claude, ["lines"]), (codex, [])):
        new = take_in(server, path, requestId=path.name)
        assert new.texts() == ["Why?"]
        assert [loss["kind"] for loss in new.state["losses"]] == kinds
        assert [one["label"] for one in new.state["context"]["checkpoints"]] == ["Why?"]
        assert new.state["approval"]["yolo"] is False
        again = server.call("session/import", path=str(path), requestId=path.name)
        assert (again["duplicate"], again["losses"]) == (True, new.state["losses"])
        new.say("on")
        new.call("context/revertTo", checkpointId=0)
        assert new.texts() == []


def test_what_is_of_another_form_than_was_said_is_refused(shared: Server, tmp_path: Path) -> None:
    path = archive(tmp_path / "good.zip", GOOD)
    for form, where in (("kimi", "path"), ("claude-code", "path"), ("codex", "path"), ("markdown", "format")):
        error = shared.refuse("session/import", path=str(path), format=form)
        assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, [where])
    nothing_is_left(shared)
