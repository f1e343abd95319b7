"""The store as an attacker or a broken machine leaves it: links, FIFOs, no permission, read-only, full."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.mostly_long import mostly_long
from tests.support.server import Server
from tests.support.session import Session, user

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, FIFOs and modes of POSIX")


@pytest.fixture
def store(start: StartServer) -> Server:
    server = start()
    server.call("session/list")
    (server.home / "sessions").mkdir(exist_ok=True)
    return server


def test_a_link_in_place_of_a_session_is_not_followed(store: Server, tmp_path: Path) -> None:
    target = tmp_path / "outside"
    target.mkdir()
    (target / "context.jsonl").write_text('{"role":"user","content":"secret"}\n')
    (store.home / "sessions" / "s").symlink_to(target)
    for method in ("session/open", "session/getState", "session/fork", "session/delete"):
        reply = store.start(method, sessionId="s").reply()
        assert "error" in reply, (method, reply)
    assert sorted(path.name for path in target.iterdir()) == ["context.jsonl"]


@pytest.mark.parametrize("kind", ["link", "dangling link", "fifo", "directory", "device"])
@pytest.mark.parametrize(
    "file", mostly_long(["context.jsonl", "state.json", "timeleap.json", "context.jsonl.idx", "requests.jsonl"])
)
def test_what_is_no_plain_file_is_never_followed_nor_waited_for(
    store: Server, tmp_path: Path, file: str, kind: str
) -> None:
    target = tmp_path / "outside"
    content = b'{"role":"user","content":"secret"}\n'
    target.write_bytes(content)
    session = store.home / "sessions" / "s"
    session.mkdir()
    place = session / file
    if kind == "link":
        place.symlink_to(target)
    elif kind == "dangling link":
        place.symlink_to(tmp_path / "nowhere")
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero")
    reply = store.start("session/open", sessionId="s").reply()
    if "result" in reply:
        opened = Session(store, reply["result"])
        assert opened.texts() == []
        for method, params in (
            ("context/appendMessage", {"message": user("x")}),
            ("session/setTitle", {"title": "T", "requestId": "r"}),
            ("session/setYolo", {"yolo": True}),
            ("context/clear", {}),
        ):
            opened.start(method, **params).reply()
    else:
        assert reply["error"]["code"] in (4001, 4005, 4014, 4016), reply
    assert target.read_bytes() == content and not (tmp_path / "nowhere").exists()
    assert store.call("session/list") is not None


def test_a_link_among_the_timelines_is_no_timeline(store: Server, tmp_path: Path) -> None:
    target = tmp_path / "outside.jsonl"
    target.write_text('{"role":"user","content":"secret"}\n')
    session = Session.open(store, "s")
    (session.path / "context_1.jsonl").symlink_to(target)
    os.mkfifo(session.path / "context_2.jsonl")
    session.say("x")
    assert session.timelines() == []
    assert session.refuse("context/getHistory", timelineId="context_1")["code"] in (4005, 4009)
    assert session.refuse("context/restoreTimeline", timelineId="context_2")["code"] in (4005, 4009)
    assert session.call("context/clear")["timelineId"] == "context_3"
    assert target.read_text() == '{"role":"user","content":"secret"}\n'


def test_temporaries_are_not_predictable(store: Server, tmp_path: Path) -> None:
    session = Session.open(store, "s")
    for name in ("context.tmp", "context.jsonl.tmp", "state.json.tmp", "timeleap.json.tmp", ".context.jsonl.tmp"):
        (session.path / name).symlink_to(tmp_path / "victim")
    session.checkpoint()
    session.say("x")
    session.call("session/setTitle", title="T")
    session.call("context/revertTo", checkpointId=0)
    session.call("context/setSystemPrompt", systemPrompt="p")
    assert not (tmp_path / "victim").exists()


@pytest.fixture
def unprivileged() -> Iterator[tuple[str, ...]]:
    """A wrapper that gives up root's exemption from permissions, where we are root."""
    if os.geteuid() != 0:
        yield ()
    else:
        yield ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")


def test_an_unreadable_session_is_a_storage_failure_and_others_work(
    start: StartServer, unprivileged: tuple[str, ...]
) -> None:
    server = start(wrapper=unprivileged)
    bad, good = Session.open(server, "bad"), Session.open(server, "good")
    bad.say("x")
    for session in (bad, good):
        session.call("session/close")
    bad.path.chmod(0)
    try:
        error = server.refuse("session/open", sessionId="bad")
        assert (error["code"], error["data"]["errno"]) == (4005, "EACCES")
        assert str(bad.path) in error["data"]["path"]
        assert Session.open(server, "good").texts() == []
        assert "good" in [info["sessionId"] for info in server.call("session/list")["sessions"]]
    finally:
        bad.path.chmod(0o700)
    assert Session.open(server, "bad").texts() == ["x"]


def test_an_unwritable_session_can_be_read(start: StartServer, unprivileged: tuple[str, ...]) -> None:
    first = start()
    session = Session.open(first, "s")
    session.say("x")
    assert first.finish() == 0
    for path in session.path.iterdir():
        path.chmod(0o400)
    session.path.chmod(0o500)
    server = start(wrapper=unprivileged)
    try:
        reader = Session.open(server, "s", access="readOnly")
        assert reader.texts() == ["x"]
        reader.call("session/close")
        reply = server.start("session/open", sessionId="s").reply()
        assert reply.get("error", {}).get("code") in (4004, 4005), reply
    finally:
        session.path.chmod(0o700)
        for path in session.path.iterdir():
            path.chmod(0o600)


# file systems, mounted where we may, else limits of the process


def can_mount() -> bool:
    return os.geteuid() == 0 and sys.platform == "linux" and shutil.which("mount") is not None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte; without the right to mount, an ordinary directory under a limit on file sizes."""
    mountpoint = tmp_path / "disk"
    mountpoint.mkdir(mode=0o700)
    mounted = (
        can_mount()
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(mountpoint)],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    try:
        yield mountpoint
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(mountpoint)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on a disk; returns the file that takes it all."""
    ballast = disk / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(descriptor, b"\0" * size)
    finally:
        os.close(descriptor)
    return ballast


def test_a_full_disk_refuses_keeps_what_was_there_and_goes_on_when_there_is_room(
    start: StartServer, small_disk: Path
) -> None:
    limited = () if os.path.ismount(small_disk) else ("prlimit", "--fsize=400000")
    server = start(at=small_disk / "home", private=small_disk.parent / "user", wrapper=limited)
    session = Session.open(server, "s")
    session.checkpoint()
    session.say("first")
    kept = ["first"]
    failure = None
    for number in range(200):
        reply = session.start("context/appendMessage", message=user(f"{number} " + "x" * 20_000)).reply()
        if "error" in reply:
            failure = reply["error"]
            break
        kept.append(f"{number} " + "x" * 20_000)
    assert failure is not None
    assert failure["code"] == 4005
    assert failure["data"] == {
        "kind": "storageFailure",
        "retryable": True,
        "path": str(session.log),
        "errno": failure["data"]["errno"],
    }
    assert failure["data"]["errno"] in ("ENOSPC", "EFBIG")
    assert session.texts() == kept
    assert session.log.read_bytes().count(b"\n") == len(kept) + 1
    before = session.log.read_bytes()
    for method, params in (
        ("context/appendMessage", {"messages": [user("y" * 200_000), user("z" * 900_000)]}),
        ("context/appendMessage", {"message": user("y" * 900_000)}),
    ):
        assert session.refuse(method, **params)["code"] == 4005
        assert session.log.read_bytes() == before
    if not limited:
        ballast = fill(small_disk)
        assert session.refuse("context/appendMessage", message=user("w" * 8192))["code"] == 4005
        reply = session.start("context/compact", summary="short").reply()
        assert reply.get("error", {}).get("code", 4005) == 4005
        ballast.unlink()
    assert session.texts()[: len(kept)] == kept or session.get_state()["context"]["messageCount"] < len(kept)
    result = session.call("context/revertTo", checkpointId=0)
    assert result["context"]["messageCount"] == 0
    session.say("room again")
    server.kill()
    assert Session.open(
        start(at=small_disk / "home", private=small_disk.parent / "user", wrapper=limited), "s"
    ).texts() == ["room again"]


def test_a_full_disk_at_creation_leaves_no_half_session(start: StartServer, small_disk: Path) -> None:
    limited = () if os.path.ismount(small_disk) else ("prlimit", "--fsize=0")
    server = start(at=small_disk / "home", private=small_disk.parent / "user", wrapper=limited)
    if not limited:
        fill(small_disk)
    reply = server.start("session/open", sessionId="s", systemPrompt="p" * 8192).reply()
    assert reply.get("error", {}).get("code") == 4005, reply
    assert server.call("session/list") == {"sessions": []}
    for ballast in small_disk.glob("ballast*"):
        ballast.unlink()
    if not limited:
        assert Session.open(server, "s", systemPrompt="p").get_state()["context"]["systemPrompt"] == "p"


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount; the unwritable session above covers the rest")
def test_a_read_only_store_can_be_listed_and_read(start: StartServer, tmp_path: Path) -> None:
    first = start(at=tmp_path / "disk" / "home", private=tmp_path / "user")
    session = Session.open(first, "s", title="T")
    session.say("x")
    assert first.finish() == 0
    disk = str(tmp_path / "disk")
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)
        server = start(at=tmp_path / "disk" / "home", private=tmp_path / "user")
        assert [info["title"] for info in server.call("session/list")["sessions"]] == ["T"]
        error = server.refuse("session/open", sessionId="s")
        assert (error["code"], error["data"].get("errno", "EROFS")) in ((4005, "EROFS"), (4004, "EROFS"))
        assert Session.open(server, "s", access="readOnly").texts() == ["x"]
        assert server.refuse("session/open", sessionId="new")["code"] == 4005
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("code", ["EIO", "ENOSPC", "EDQUOT", "EROFS"])
def test_a_failing_sync_is_told_and_the_next_request_works(start: StartServer, code: str) -> None:
    server = start(failpoints=f"append.after_sync@2=raise:{code}")
    session = Session.open(server, "s")
    session.say("one")
    error = session.refuse("context/appendMessage", message=user("two"))
    assert (error["code"], error["data"]["errno"]) == (4005, code)
    assert session.texts() == ["one"]
    session.say("three")
    assert session.texts() == ["one", "three"]
    server.kill()
    assert Session.open(start(), "s").texts() == ["one", "three"]


def test_running_out_of_descriptors_is_a_storage_failure(start: StartServer) -> None:
    server = start(wrapper=("prlimit", "--nofile=40"))
    codes = set()
    for number in range(60):
        reply = server.start("session/open", sessionId=f"s{number}").reply()
        codes.add(reply.get("error", {}).get("code", 0))
        if "error" not in reply:
            reply = server.start("context/appendMessage", sessionId=f"s{number}", message=user("x")).reply()
            codes.add(reply.get("error", {}).get("code", 0))
    assert codes <= {0, 4005}
    for number in range(60):
        server.start("session/close", sessionId=f"s{number}").reply()
    assert Session.open(server, "s0").texts() == ["x"]


def test_files_that_are_not_ours_stay(store: Server) -> None:
    session = Session.open(store, "s")
    (session.path / "notes.txt").write_text("mine")
    (session.path / "subagents").mkdir()
    session.checkpoint()
    session.call("context/revertTo", checkpointId=0)
    session.call("session/close")
    session.reopen(store)
    assert (session.path / "notes.txt").read_text() == "mine" and (session.path / "subagents").is_dir()
    assert stat.S_ISREG(session.log.stat().st_mode)
