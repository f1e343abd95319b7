"""`session/export`: a file that is whole or not there, of a session that may be open anywhere or nowhere."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import zipfile
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user

CALL = {"type": "function", "id": "call_1", "function": {"name": "look", "arguments": '{"path": "a.py"}'}}


@pytest.fixture
def session(shared: Server) -> Session:
    """A session with a timeline, a tool call, pins and approvals."""
    made = Session.open(shared, title="A *bold* title", systemPrompt="Be careful.", workspace="file:///w")
    made.checkpoint(label="start")
    made.append(user("Why is <b>a.py</b> broken?\n# no heading"))
    made.append({"role": "assistant", "content": [{"type": "think", "think": "hm"}], "tool_calls": [CALL]})
    made.append({"role": "tool", "tool_call_id": "call_1", "content": "```\nnot the end\n```"})
    made.append(assistant("It lacks a colon."))
    made.call("context/updateTokenCount", tokenCount=1200)
    made.checkpoint()
    made.say("Another way, please.")
    made.call("context/revertTo", checkpointId=1)
    made.say("Mend it.")
    made.call("context/setPins", pins=["a.py"])
    made.call("session/setYolo", yolo=True)
    return made


def export(session: Session, path: Path, name: str = "native", **params: object) -> Message:
    result: Message = session.call("session/export", format=name, path=str(path), **params)
    return result


def content(session: Session, name: str) -> bytes:
    return session.log_bytes(name) if name.startswith("context") else (session.path / name).read_bytes()


def leftovers(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))


def test_native_holds_the_very_bytes_and_says_so_in_front(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    result = export(session, path)
    assert result == {"path": str(path), "bytes": path.stat().st_size, "losses": []}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert leftovers(tmp_path) == []
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert names == ["manifest.json", "context.jsonl", "context_1.jsonl", "state.json", "timeleap.json"]
        manifest = json.loads(archive.read("manifest.json"))
        for member in manifest["members"]:
            data = archive.read(member["name"])
            assert (len(data), hashlib.sha256(data).hexdigest()) == (member["bytes"], member["sha256"])
        for name in ("context.jsonl", "context_1.jsonl"):
            assert archive.read(name) == content(session, name)
        state, notes = (json.loads(archive.read(name)) for name in ("state.json", "timeleap.json"))
    assert [member["name"] for member in manifest["members"]] == names[1:]
    assert (manifest["format"], manifest["version"]) == ("timeleap-session", 1)
    assert (manifest["session"]["sessionId"], manifest["session"]["messageCount"]) == (session.id, 5)
    assert "approval" not in state
    assert not {"seals", "uid", "epoch", "journal", "createdBy"} & set(notes)
    assert (notes["pins"], notes["workspace"]) == (["a.py"], "file:///w")


def test_markdown_is_for_people_and_nothing_in_it_breaks_out(session: Session, tmp_path: Path) -> None:
    session.append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]})
    path = tmp_path / "all.md"
    result = export(session, path, "markdown")
    text = path.read_text()
    assert result["bytes"] == len(text.encode())
    assert text.startswith("# A \\*bold\\* title\n")
    assert "> Why is &lt;b>a.py&lt;/b> broken?\n> # no heading\n" in text
    assert "<summary>System prompt</summary>\n\n```\nBe careful.\n```" in text
    assert '<summary>Call · look</summary>\n\n```json\n{\n  "path": "a.py"\n}\n```' in text
    assert "\n````\n```\nnot the end\n```\n````\n" in text
    assert "\nIt lacks a colon.\n" in text
    assert "*checkpoint 0 · start · " in text
    assert "| context\\_1 | revert | " in text
    assert [loss["kind"] for loss in result["losses"]] == ["parts", "timelines"]
    assert "Another way" not in text


def test_a_file_that_is_there_stays_unless_it_may_go(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    error = session.refuse("session/export", format="markdown", path=str(path))
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["path"])
    assert path.read_text() == "mine"
    export(session, path, "markdown", overwrite=True)
    assert path.read_text().startswith("# ")
    assert leftovers(tmp_path) == []


def test_paths_that_are_refused(session: Session, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "context.jsonl").write_text("")
    refused = {
        "all.md": False,
        "../all.md": False,
        "/nul\0": False,
        str(tmp_path / "folder"): True,
        str(tmp_path / "link"): True,
        str(tmp_path / "fifo"): True,
        str(tmp_path / "foreign" / "context.jsonl"): True,
        str(session.log): True,
        str(session.path / "new.md"): False,
        str(session.path.parent.parent / "new.md"): False,
    }
    before = {path: path.lstat().st_mtime_ns for path in (session.log, tmp_path / "foreign" / "context.jsonl")}
    for path, overwrite in refused.items():
        error = session.refuse("session/export", format="markdown", path=path, overwrite=overwrite)
        assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["path"]), path
    missing = session.refuse("session/export", format="markdown", path=str(tmp_path / "no" / "all.md"))
    assert (missing["code"], missing["data"]["errno"]) == (4005, "ENOENT")
    assert before == {path: path.lstat().st_mtime_ns for path in before}
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "nowhere").exists()


def test_an_unknown_format_names_those_there_are(session: Session, tmp_path: Path) -> None:
    for name in ("docx", "codex", "NATIVE"):
        error = session.refuse("session/export", format=name, path=str(tmp_path / "x"))
        assert error["code"] == -32602
        assert error["data"]["errors"][0]["loc"] == ["format"]
        assert "native, markdown" in error["message"]
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_is_not_open_or_does_not_exist(shared: Server, session: Session, tmp_path: Path) -> None:
    log = session.log_bytes()
    session.call("session/close")
    export(session, tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("context.jsonl") == log
    error = shared.refuse("session/export", sessionId="nobody", format="native", path=str(tmp_path / "x.zip"))
    assert error["code"] == 4001
    assert not (tmp_path / "x.zip").exists()


def test_a_session_that_is_live_elsewhere(start: StartServer, tmp_path: Path) -> None:
    owner, other = start(), start()
    live = Session.open(owner, "live")
    live.say("one", "two")
    export(Session(other, live.state), tmp_path / "unopened.zip")
    attached = live.reopen(other)
    assert attached.state["access"] == "attached"
    asked = [attached.start("context/appendMessage", message=user("three"))]
    result = export(attached, tmp_path / "attached.zip")
    asked[0].result()
    assert result["losses"] == []
    for name, lines in (("unopened", 2), ("attached", 3)):
        with zipfile.ZipFile(tmp_path / f"{name}.zip") as archive:
            assert archive.read("context.jsonl").count(b"\n") == lines
    assert live.history() == attached.history()
    owner.signal(signal.SIGSTOP)
    try:
        export(attached, tmp_path / "hanging.zip")
    finally:
        owner.signal(signal.SIGCONT)


def test_what_is_appended_meanwhile_is_not_in_it(session: Session, tmp_path: Path) -> None:
    session.say("x" * 1_000_000)
    before = session.log_bytes()
    exporting = session.start("session/export", format="native", path=str(tmp_path / "all.zip"))
    appending = [session.start("context/appendMessage", message=user(f"late {number}")) for number in range(20)]
    exporting.result()
    for one in appending:
        one.result()
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("context.jsonl") == before


def test_a_revert_meanwhile_leaves_the_export_as_it_was_asked_for(session: Session, tmp_path: Path) -> None:
    session.say("x" * 1_000_000)
    before = session.log_bytes()
    exporting = session.start("session/export", format="native", path=str(tmp_path / "all.zip"))
    session.call("context/revertTo", checkpointId=0)
    exporting.result()
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("context.jsonl") == before
        assert "context_2.jsonl" not in archive.namelist()


@pytest.mark.long
def test_a_cancelled_export_leaves_nothing(session: Session, tmp_path: Path) -> None:
    for _ in range(4):
        session.append(*(user(os.urandom(100_000).hex()) for _ in range(20)))
    pending = session.start("session/export", format="native", path=str(tmp_path / "all.zip"), workDoneToken=1)
    session.server.notify("$/cancelRequest", id=pending.id)
    assert pending.error()["code"] == -32800
    assert list(tmp_path.iterdir()) == []
    midway = session.start("session/export", format="native", path=str(tmp_path / "all.zip"), workDoneToken=2)
    session.server.heard("$/progress", since=midway.sent_at)
    session.server.notify("$/cancelRequest", id=midway.id)
    if "error" in midway.reply():  # else it was done before it could be cancelled
        assert list(tmp_path.iterdir()) == []
    export(session, tmp_path / "all.zip", overwrite=True)
    assert leftovers(tmp_path) == []


def test_progress_is_told(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    pending = session.start("session/export", format="native", path=str(path), workDoneToken="t")
    told = [m["params"]["value"]["kind"] for m in pending.heard() if m["method"] == "$/progress"]
    assert (told[0], told[-1]) == ("begin", "end")


def test_damage_is_left_out_of_a_page_and_told(session: Session, tmp_path: Path) -> None:
    session.call("session/close")
    lines = session.log.read_bytes().splitlines(keepends=True)
    session.log.write_bytes(b"".join([lines[0], b"{broken\n", *lines[1:]]))
    result = export(session, tmp_path / "all.md", "markdown")
    assert "It lacks a colon." in (tmp_path / "all.md").read_text()
    assert {"timelines", "damaged"} <= {loss["kind"] for loss in result["losses"]}
    assert export(session, tmp_path / "all.zip")["losses"] == []
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("context.jsonl") == session.log.read_bytes()


def test_other_files_of_the_directory_are_told(session: Session, tmp_path: Path) -> None:
    (session.path / "wire.jsonl").write_text("{}")
    result = export(session, tmp_path / "all.zip")
    assert [loss["kind"] for loss in result["losses"]] == ["files"]
    assert "wire.jsonl" in result["losses"][0]["message"]


@pytest.mark.parametrize("seconds", [1, 253_402_300_000])
def test_an_archive_is_written_whatever_the_clock_says(start: StartServer, tmp_path: Path, seconds: int) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"import time; time.time = lambda: {seconds}.0")
    server = start(env={"PYTHONPATH": str(site)})
    session = Session.open(server)
    session.say("one")
    export(session, tmp_path / "a.zip")
    copy = server.call("session/import", path=str(tmp_path / "a.zip"))
    assert Session(server, {"sessionId": copy["sessionId"]}).id != session.id
