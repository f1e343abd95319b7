"""Our own small files, edited by anybody: said, survived, kept; never an internal error and never a hang."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import Engine, StartServer
from tests.support.matching import at_least
from tests.support.mostly_long import mostly_long
from tests.support.session import Session

Change = Callable[[dict[str, Any]], object]


def edited(session: Session, name: str, change: Change) -> None:
    document = json.loads(session.file_bytes(name))
    change(document)
    session.put_file(name, json.dumps(document).encode())


def with_history(start: StartServer) -> Session:
    """A session with a timeline, closed by the end of its server."""
    session = Session.open(start(), "a", title="kept")
    session.say("precious")
    session.call("context/clear", requestId="cleared")
    session.say("now")
    session.call("session/setYolo", yolo=True)
    session.server.kill()
    return session


BAD_MEMBERS: dict[str, Change] = {
    "reason": lambda o: o["timelines"]["context_1"].update(reason=[]),
    "createdAt": lambda o: o["timelines"]["context_1"].update(createdAt={"a": 1}),
    "epoch": lambda o: o.update(epoch=-o["epoch"]),
    "rotation": lambda o: o.update(rotation=10**30),
    "inheritedLines": lambda o: o.update(inheritedLines=-5),
    "pins": lambda o: o.update(pins=[["x"], "\ud800"]),
    "seals": lambda o: o.update(seals=[{"revision": -1, "mac": []}]),
    "journal": lambda o: o.update(journal={"requests": [{"r": "x", "h": "", "m": "clear", "v": {"a": float("nan")}}]}),
    "pendingDMail": lambda o: o.update(pendingDMail={"checkpointId": 10**30, "checkpointUid": "u", "message": "m"}),
    "subagents": lambda o: o.update(subagents={"name": 1}),
    "parent": lambda o: o.update(parent={"sessionId": []}),
    "undo": lambda o: o.update(undo=[5]),
    "uid": lambda o: o.update(uid="../../x"),
}


@pytest.mark.parametrize("name", mostly_long(BAD_MEMBERS, every=3))
def test_a_bad_member_is_said_and_costs_nothing_else(start: StartServer, engine: Engine, name: str) -> None:
    session = with_history(start)
    edited(session, "timeleap.json", BAD_MEMBERS[name])
    before = session.file_bytes("timeleap.json")
    server = start()
    checked = server.call("session/verify", sessionId="a")
    if engine == "jsonl":
        assert checked["ok"] is False
        assert [problem["file"] for problem in checked["problems"]] == ["timeleap.json"]
    else:  # who opens it there, be it to look at it, mends it and says so
        assert "metaDamaged" in [warning["kind"] for warning in checked["warnings"]]
    assert server.call("session/list")["sessions"] == [at_least({"sessionId": "a", "title": "kept"})]
    session = Session.open(server, "a")
    if engine == "jsonl":
        assert "metaDamaged" in [warning["kind"] for warning in session.get_state()["warnings"]]
    session.call("context/setPins", pins=["p"])
    session.call("context/restoreTimeline", timelineId="context_1")
    assert session.texts() == ["precious"]
    assert server.call("session/verify", sessionId="a")["ok"] is True
    assert before in [path.read_bytes() for path in session.path.glob("timeleap.damaged-*.json")]
    assert server.call("session/fork", sessionId="a", newSessionId="b")["warnings"] == []


def test_a_bad_epoch_stops_no_other_session_and_no_end(start: StartServer) -> None:
    session = with_history(start)
    edited(session, "timeleap.json", lambda o: o.update(epoch=-o["epoch"]))
    server = start()
    other = Session.open(server, "other")
    opening = server.start("session/open", sessionId="a")
    other.say("x")
    opening.result()
    assert server.finish() == 0


@pytest.mark.parametrize("access", ["write", "readOnly"])
def test_a_newer_state_is_said_in_every_answer(start: StartServer, access: str) -> None:
    session = with_history(start)
    edited(session, "state.json", lambda o: o.update(version=9, future={"a": 1}))
    server = start()
    opened = server.call("session/open", sessionId="a", access=access)
    assert [(one["kind"], one["file"]) for one in opened["warnings"]] == [("newerVersion", "state.json")]
    assert opened["title"] == "kept"
    checked = server.call("session/verify", sessionId="a")
    assert (checked["ok"], [one["kind"] for one in checked["warnings"]]) == (True, ["newerVersion"])
    if access == "write":
        server.call("session/setTitle", sessionId="a", title="N")
        assert json.loads(session.file_bytes("state.json")) == at_least({"version": 9, "future": {"a": 1}})


@pytest.mark.parametrize(
    "approval",
    [
        {"yolo": True, "afk": False, "auto_approve_actions": []},
        {"yolo": False, "afk": True, "auto_approve_actions": []},
        {"yolo": False, "afk": False, "auto_approve_actions": ["rm -rf"]},
        {"yolo": "true"},
    ],
)
def test_an_approval_edited_under_a_running_server_does_not_outlive_the_next_save(
    start: StartServer, approval: dict[str, Any]
) -> None:
    session = Session.open(start(), "a", title="t")
    session.call("session/setAutoApprove", action="read", enabled=True)
    sealed = json.loads(session.file_bytes("state.json"))["approval"]
    edited(session, "state.json", lambda o: o.update(approval=approval))
    assert session.call("session/isApproved", action="rm -rf")["approved"] is False
    session.call("session/setTitle", title="u")
    assert json.loads(session.file_bytes("state.json"))["approval"] == sealed
    session.server.kill()
    state = start().call("session/open", sessionId="a")
    assert (state["approval"]["autoApproveActions"], state["approval"]["sealed"]) == (["read"], True)


def test_lines_that_are_none_are_said_and_passed_over(start: StartServer) -> None:
    session = with_history(start)
    for name in ("requests.jsonl", "audit.jsonl"):
        bad = b'{"r":"x","h":"","m":"clear","v":{"a":NaN}}\n[]\n{"r":5}\n'
        session.put_file(name, session.file_bytes(name) + bad)
    server = start()
    session = Session.open(server, "a")
    kinds = {warning["kind"] for warning in session.get_state()["warnings"]}
    assert kinds == {"requestsDamaged", "auditDamaged"}
    assert session.call("context/clear", requestId="cleared")["duplicate"] is True
    assert {problem["file"] for problem in session.call("session/verify")["problems"]} == {
        "requests.jsonl",
        "audit.jsonl",
    }


@pytest.mark.parametrize("name", mostly_long(["requests.jsonl", "audit.jsonl", "timeleap.json", "state.json"], every=3))
@pytest.mark.parametrize("odd", ["folder", "link"])
def test_what_is_no_file_is_kept_aside_and_hinders_nothing(
    start: StartServer, tmp_path: Path, name: str, odd: str
) -> None:
    session = with_history(start)
    path = session.path / name
    path.unlink(missing_ok=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not ours")
    path.mkdir() if odd == "folder" else path.symlink_to(elsewhere)
    session = Session.open(start(), "a")
    said = [str(warning.get("file")) for warning in session.get_state()["warnings"]]
    assert [file for file in said if file == name or file.startswith(f"{path.stem}.damaged-")]
    for at in range(2):
        assert "duplicate" not in session.call("context/clear", requestId=f"c{at}")
        assert "duplicate" not in session.call("session/setTitle", title=str(at), requestId=f"t{at}")
        session.call("session/setYolo", yolo=at == 0, requestId=f"y{at}")
    session.call("session/redact", value="precious")
    session.server.kill()
    session = Session.open(start(), "a")
    assert session.call("session/setTitle", title="0", requestId="t0")["duplicate"] is True
    assert session.call("session/verify")["ok"] is True
    assert elsewhere.read_text() == "not ours"


def test_leftovers_are_said_by_a_look_and_removed_by_an_owner(start: StartServer) -> None:
    session = with_history(start)
    (session.path / ".context_7.jsonl.idx").write_bytes(b"x")
    checked = start().call("session/verify", sessionId="a")
    assert (checked["ok"], [one["file"] for one in checked["warnings"]]) == (True, [".context_7.jsonl.idx"])
    assert Session.open(start(), "a").call("session/verify")["warnings"] == []


BAD_ARCHIVED: dict[str, tuple[str, Any]] = {
    "reason": ("timeleap.json", {"timelines": {"context_1": {"reason": []}}}),
    "epoch": ("timeleap.json", {"epoch": -5, "rotation": -10, "inheritedLines": 10**9}),
    "nested": ("timeleap.json", {"pins": json.loads("[" * 300 + "]" * 300)}),
    "unknown": ("timeleap.json", {"other": json.loads("[" * 600 + "]" * 600)}),
    "nan": ("timeleap.json", {"workspace": float("nan"), "pendingDMail": {"checkpointId": float("inf")}}),
    "surrogate": ("timeleap.json", {"workspace": "\ud800", "subagents": [{"name": "\ud800", "systemPrompt": "x"}]}),
    "state": ("state.json", {"version": [], "custom_title": 5, "approval": "on", "dynamic_subagents": {}}),
    "deepState": ("state.json", {"todos": json.loads("[" * 600 + "]" * 600), "archived_at": float("inf")}),
}


@pytest.mark.parametrize("name", BAD_ARCHIVED)
def test_an_archive_with_a_bad_member_is_imported_without_it(start: StartServer, tmp_path: Path, name: str) -> None:
    session = with_history(start)
    server = start()
    archive = tmp_path / "a.timeleap"
    server.call("session/export", sessionId="a", format="native", path=str(archive))
    file, bad = BAD_ARCHIVED[name]
    with zipfile.ZipFile(archive) as source:
        members = {info.filename: source.read(info) for info in source.infolist()}
    members[file] = json.dumps({**json.loads(members[file]), **bad}).encode()
    manifest = json.loads(members["manifest.json"])
    for listed in manifest["members"]:
        data = members[listed["name"]]
        listed.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    members["manifest.json"] = json.dumps(manifest).encode()
    changed = tmp_path / "changed.timeleap"
    with zipfile.ZipFile(changed, "w") as target:
        for member, data in members.items():
            target.writestr(member, data)
    imported = server.call("session/import", path=str(changed), sessionId="b")
    assert "damaged" in [loss["kind"] for loss in imported["losses"]]
    assert imported["warnings"] == []
    session = Session.open(server, "b")
    assert session.texts() == ["now"]
    session.call("context/restoreTimeline", timelineId="context_1")
    assert session.texts() == ["precious"]
    assert session.call("session/verify")["ok"] is True
    assert session.get_state()["approval"]["yolo"] is False
