"""Sync programs, editors, backups and disks that change a session's files: never silent, never overwritten, and the next
request works."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT
from tests.support.cli import Cli
from tests.support.mostly_long import mostly_long
from tests.support.server import Launch, Server
from tests.support.session import Session, user

TEXTS = [f"text {number}" for number in range(6)]
BOM = b"\xef\xbb\xbf"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all: what is changed is of a session of the test's own."""
    running = Server(Launch(tmp_path_factory.mktemp("silence") / "home", "lsp"))
    running.initialize()
    yield running
    running.dispose()


def lines(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def first(log: Path, number: int) -> bytes:
    return b"".join(lines(log)[:number])


def put(log: Path, data: bytes) -> None:
    """Write another file in its place, as sync programs and most editors do."""
    other = log.with_name("new")
    other.write_bytes(data)
    other.rename(log)


def conflict(log: Path) -> bytes:
    mine = lines(log)
    theirs = b'{"role":"user","content":"theirs"}\n'
    return b"".join([*mine[:3], b"<<<<<<< HEAD\n", *mine[3:5], b"=======\n", theirs, b">>>>>>> other\n"])


def says(log: Path) -> list[bytes]:
    """The lines of a session that is another one."""
    return [line.replace(b"text", b"other") for line in lines(log)]


Change = Callable[[Path], object]
LOST: dict[str, tuple[Change, str, list[str]]] = {
    "rsync of an older copy": (lambda log: put(log, first(log, 3)), "linesLost", TEXTS[:3]),
    "rsync of an older copy in place": (lambda log: log.write_bytes(first(log, 3)), "linesLost", TEXTS[:3]),
    "a disk that was full during a sync": (lambda log: put(log, log.read_bytes()[:100]), "linesLost", TEXTS[:2]),
    "a torn last line": (lambda log: os.truncate(log, len(log.read_bytes()) - 5), "linesLost", TEXTS[:5]),
    "a placeholder of zero bytes": (lambda log: put(log, b""), "linesLost", []),
    "a sparse placeholder": (lambda log: put(log, bytes(len(log.read_bytes()))), "linesLost", []),
    "a page of zeros in place": (lambda log: log.write_bytes(bytes(4096)), "linesLost", []),
    "zeros up to a page": (lambda log: put(log, first(log, 3).ljust(4096, b"\0")), "linesLost", TEXTS[:3]),
    "a pointer of a large file": (lambda log: put(log, b"version https://git-lfs\nsize 12\n"), "linesLost", []),
    "carriage returns and a lost end": (
        lambda log: put(log, first(log, 3).replace(b"\n", b"\r\n")),
        "linesLost",
        TEXTS[:3],
    ),
    "a byte order mark and a lost end": (lambda log: put(log, BOM + first(log, 3)), "linesLost", TEXTS[1:3]),
    "UTF-16": (lambda log: put(log, log.read_bytes().decode().encode("utf-16")), "linesLost", []),
    "an older state and another end": (
        lambda log: put(log, first(log, 2) + says(log)[5]),
        "linesLost",
        [*TEXTS[:2], "other 5"],
    ),
    "a rolled back volume": (lambda log: os.truncate(log, len(first(log, 1))), "linesLost", TEXTS[:1]),
    "the log of another session": (lambda log: put(log, b"".join(says(log))), "otherLog", ["other"]),
    "a longer log of another session": (lambda log: put(log, b"".join(says(log) * 2)), "otherLog", ["other"]),
    "a shorter log of another session": (lambda log: put(log, says(log)[0]), "otherLog", ["other"]),
    "removed": (Path.unlink, "logMissing", []),
    "moved away by a sync program": (lambda log: log.rename(log.with_name(".context.jsonl.icloud")), "logMissing", []),
}


def made(store: Server, *, batch: bool = False) -> Session:
    session = Session.open(store)
    if batch:
        session.append(*map(user, TEXTS))
    else:
        session.say(*TEXTS)
    return session


def kinds(state: dict[str, object]) -> list[str]:
    warnings = state["warnings"]
    assert isinstance(warnings, list)
    return [str(one["kind"]) for one in warnings]


def words(session: Session, left: list[str]) -> list[str]:
    """Its texts; of another log only how they begin."""
    texts = session.texts()
    return sorted({text.split()[0] for text in texts}) if left == ["other"] else texts


@pytest.mark.parametrize("how", mostly_long(LOST, every=2))
def test_a_log_changed_while_its_session_is_open_is_told_by_the_reload_that_takes_it_over(
    store: Server, how: str
) -> None:
    change, kind, left = LOST[how]
    session = made(store)
    change(session.log)
    there = session.log.exists() and session.log_bytes()
    refused = session.refuse("context/appendMessage", message=user("new"))
    assert refused["data"]["kind"] == "externallyModified"
    assert "externallyModified" in kinds(session.get_state())
    checked = session.call("session/verify")
    assert not checked["ok"]
    assert checked["problems"][0]["kind"] == kind, "before anybody has decided"
    assert (session.log.exists() and session.log_bytes()) == there
    assert kinds(session.call("session/reload")).count(kind) == 1
    assert words(session, left) == left
    session.say("goes on")
    assert kinds(session.get_state()).count(kind) == 1, "another window hears of it, too"
    assert kind not in kinds(session.call("session/reload")), "told once"
    session.call("session/close")
    assert kind not in kinds(session.reopen(store).state)


@pytest.mark.parametrize("how", mostly_long(LOST, every=2))
def test_a_log_changed_while_its_session_is_closed_is_told_by_all_that_look(store: Server, how: str) -> None:
    change, kind, _ = LOST[how]
    session = made(store)
    session.call("session/close")
    change(session.log)
    there = session.log.exists() and session.log_bytes()
    checked = session.call("session/verify")
    assert not checked["ok"]
    assert checked["problems"][0]["kind"] == kind
    listed = {one["sessionId"]: one for one in store.call("session/list", limit=1000)["sessions"]}
    assert "damaged" in listed[session.id]
    reader = session.reopen(store, access="readOnly")
    assert kinds(reader.state).count(kind) == 1
    forked = Session(store, reader.call("session/fork"))
    assert kind in kinds(forked.state)
    reader.call("session/close")
    again = session.reopen(store)
    assert kinds(again.state).count(kind) == 1
    refused = again.refuse("context/appendMessage", message=user("new"))
    assert refused["data"]["kind"] == "externallyModified"
    assert (session.log.exists() and session.log_bytes()) == there
    assert kind not in kinds(again.call("session/reload"))
    again.say("goes on")
    assert "goes on" in again.texts()


def copied(log: Path, how: str) -> None:
    """Put a copy of the session's folder in its place."""
    copy = log.parent.with_suffix(".copy")
    subprocess.run(["cp", how, log.parent, copy], check=True)
    shutil.rmtree(log.parent)
    copy.rename(log.parent)


def copied_with_an_old_index(log: Path) -> None:
    copied(log, "-r")
    os.utime(log.with_name(".context.jsonl.idx"), (1, 1))


def copied_with_the_index_last(log: Path) -> None:
    """`cp -r` in an order in which the index comes last."""
    copied(log, "-r")
    written = os.stat(log).st_ctime_ns
    os.utime(log.with_name(".context.jsonl.idx"), ns=(written + 10**9, written + 10**9))


def given_to_another_owner(log: Path) -> None:
    for path in sorted(log.parent.iterdir()):
        os.chown(path, -1, os.getgid())


ANOTHER: dict[str, Change] = {
    "closed after it was replaced": lambda log: None,
    "copied as it is": lambda log: copied(log, "-a"),
    "copied with new times": copied_with_an_old_index,
    "copied with the index last": copied_with_the_index_last,
    "given to another owner": given_to_another_owner,
    "with the times of the one before": lambda log: os.utime(log, (1, 1)),
}


@pytest.mark.parametrize("how", ANOTHER)
def test_another_log_stops_writes_whatever_happened_to_the_folder_since(store: Server, how: str) -> None:
    session = made(store)
    put(session.log, b"".join(says(session.log)))
    session.call("session/close")
    ANOTHER[how](session.log)
    there = session.log_bytes()
    for _ in range(2):
        again = session.reopen(store)
        assert kinds(again.state) == ["otherLog"]
        for method, params in (("context/appendMessage", {"message": user("new")}), ("context/clear", {})):
            assert again.refuse(method, **params)["data"]["kind"] == "externallyModified"
        again.call("session/close")
    assert session.log_bytes() == there
    again = session.reopen(store)
    again.call("session/repair")
    assert again.call("session/verify")["ok"]
    again.say("goes on")
    again.call("session/close")
    assert kinds(session.reopen(store).state) == []


def by_another(log: Path, *names: str) -> None:
    """Put files of another session beside the log."""
    for name in names:
        shutil.copy(log.parent.with_name("another") / name, log.with_name(name))


def by_another_program(log: Path) -> None:
    """Set the log aside, and begin another one."""
    log.rename(log.with_name("context_1.jsonl"))
    by_another(log, "context.jsonl")


def where_nothing_was(log: Path) -> None:
    log.write_bytes(b"")
    log.with_name(".context.jsonl.idx").unlink()
    by_another(log, "context.jsonl")


INTRUDING: dict[str, tuple[Change, list[str]]] = {
    "the index of another session": (lambda log: by_another(log, ".context.jsonl.idx"), TEXTS),
    "another session whole": (lambda log: by_another(log, "context.jsonl", ".context.jsonl.idx"), ["another"]),
    "a rewrite by another program": (by_another_program, ["another"]),
    "a log where nothing was": (where_nothing_was, ["another"]),
    "another spelling of JSON": (lambda log: put(log, log.read_bytes().replace(b":", b": ")), TEXTS),
}


@pytest.mark.parametrize("how", INTRUDING)
def test_what_replaces_no_saved_message_stops_no_write(store: Server, how: str) -> None:
    if not (store.home / "sessions" / "another").exists():
        Session.open(store, "another").say("another")
    change, texts = INTRUDING[how]
    session = made(store)
    session.call("session/close")
    change(session.log)
    assert session.call("session/verify")["ok"]
    again = session.reopen(store)
    assert again.texts() == texts
    again.say("goes on")
    again.call("session/close")
    assert session.reopen(store).state["warnings"] == []


KEPT: dict[str, Change] = {
    "carriage returns": lambda log: put(log, log.read_bytes().replace(b"\n", b"\r\n")),
    "carriage returns in place": lambda log: log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n")),
    "carriage returns and one more line": lambda log: put(
        log, (log.read_bytes() + b'{"role":"user","content":"more"}\n').replace(b"\n", b"\r\n")
    ),
    "a backup with another inode": lambda log: put(log, log.read_bytes()),
    "one line edited": lambda log: put(log, log.read_bytes().replace(b"text 2", b"another text 2")),
    "an index of before": lambda log: log.with_name(".context.jsonl.idx").write_bytes(
        log.with_name(".context.jsonl.idx").read_bytes()[: 64 + 2 * 80]
    ),
    "no index": lambda log: log.with_name(".context.jsonl.idx").unlink(),
    "no last line feed": lambda log: os.truncate(log, len(log.read_bytes()) - 1),
    "other times": lambda log: os.utime(log, (1, 1)),
}


@pytest.mark.parametrize("how", KEPT)
def test_what_loses_nothing_is_not_called_a_loss(store: Server, how: str) -> None:
    session = made(store)
    session.call("session/close")
    KEPT[how](session.log)
    assert session.call("session/verify")["ok"]
    again = session.reopen(store)
    assert again.state["warnings"] == []
    assert [text.replace("another ", "") for text in again.texts()][:6] == TEXTS
    again.say("goes on")
    KEPT[how](session.log)
    if again.start("context/appendMessage", message=user("new")).reply().get("error"):
        assert again.call("session/reload")["warnings"] == []
        again.say("new")
    assert again.texts()[-2:] == ["goes on", "new"] or how == "carriage returns and one more line"


DAMAGED: dict[str, tuple[Change, str]] = {
    "a byte order mark": (lambda log: put(log, BOM + log.read_bytes()), "a byte order mark"),
    "a merge conflict": (lambda log: put(log, conflict(log)), "a mark of a merge conflict"),
    "zeros to the end": (lambda log: log.write_bytes(log.read_bytes()[:100] + bytes(110)), "bytes of zeros"),
}


@pytest.mark.parametrize("how", DAMAGED)
@pytest.mark.parametrize("closed", [True, False])
def test_what_is_no_record_is_told_and_can_be_taken_out(store: Server, how: str, closed: bool) -> None:
    change, text = DAMAGED[how]
    session = made(store)
    if closed:
        session.call("session/close")
    change(session.log)
    again = session.reopen(store) if closed else session
    if not closed:
        again.call("session/reload")
    assert text in str(again.get_state()["warnings"])
    assert not again.call("session/verify")["ok"]
    again.call("session/repair")
    assert again.call("session/verify")["ok"]
    again.say("goes on")
    assert [one["reason"] for one in again.timelines()] == ["unknown"], "the log as it was"


@pytest.mark.parametrize("lost", [1, 5, 100])
def test_a_batch_that_was_answered_and_lost_its_end_is_no_crash(store: Server, lost: int) -> None:
    session = made(store, batch=True)
    session.say("alone")
    session.append(*map(user, TEXTS))
    session.call("session/close")
    os.truncate(session.log, len(session.log_bytes()) - 1 - lost)
    there = session.log_bytes()
    checked = session.call("session/verify")
    assert [one["kind"] for one in checked["problems"]][:1] == ["linesLost"]
    again = session.reopen(store)
    assert kinds(again.state) == ["linesLost"]
    left = again.texts()
    assert left == [*TEXTS, "alone", *TEXTS][: len(left)]
    assert len(left) > 7, "what is there of it was answered, too"
    again.refuse("context/appendMessage", message=user("new"))
    assert session.log_bytes() == there
    again.call("session/repair")
    assert again.call("session/verify")["ok"]
    again.say("goes on")
    assert again.texts() == [*left, "goes on"]
    assert again.call("session/verify")["ok"]


def test_two_windows_hear_of_a_log_that_was_cut_under_them(servers: list[Server]) -> None:
    owner = made(servers[0])
    attached = owner.reopen(servers[1])
    put(owner.log, first(owner.log, 3))
    mark = len(owner.server.received)
    assert "externallyModified" in kinds(owner.get_state())
    for window in (attached, owner):
        window.server.heard("context/didChange", since=mark if window is owner else 0, sessionId=owner.id)
        assert window.refuse("context/appendMessage", message=user("x"))["data"]["kind"] == "externallyModified"
        assert "externallyModified" in kinds(window.get_state())
    mark = len(owner.server.received)
    assert kinds(attached.call("session/reload")) == ["linesLost"]
    owner.server.heard("context/didChange", since=mark, sessionId=owner.id)
    attached.say("goes on")
    for window in (attached, owner):
        assert kinds(window.get_state()) == ["linesLost"]
        assert window.texts() == [*TEXTS[:3], "goes on"]


def test_a_follower_tells_a_loss_while_its_owner_has_not_accepted_it(servers: list[Server]) -> None:
    owner = made(servers[0])
    follower = owner.reopen(servers[1], access="readOnly")
    mark = len(follower.server.received)
    put(owner.log, first(owner.log, 3))
    follower.server.heard("context/didChange", since=mark, sessionId=owner.id)
    assert follower.texts() == TEXTS[:3]
    assert kinds(follower.get_state()) == ["linesLost"]


# Other files than the log


@pytest.mark.parametrize("file", ["timeleap.json", "state.json", "requests.jsonl", "audit.jsonl", "context_1.jsonl"])
@pytest.mark.parametrize("form", [".{}.icloud", "{}.nextcloud"])
def test_a_placeholder_of_another_file_is_told_and_nothing_is_written_in_its_place(
    store: Server, file: str, form: str
) -> None:
    session = Session.open(store, title="kept")
    session.say("one")
    session.call("context/clear", requestId="cleared")
    session.say("two")
    session.call("session/setYolo", yolo=True)
    session.call("session/close")
    path = session.path / file
    path.touch()
    stands = path.with_name(form.format(file))
    path.rename(stands)
    checked = session.call("session/verify")
    assert not checked["ok"]
    assert file in [one.get("file") for one in checked["problems"] if one["kind"] == "placeholder"]
    reader = session.reopen(store, access="readOnly")
    assert [one["file"] for one in reader.state["warnings"] if one["kind"] == "placeholder"] == [file]
    assert reader.texts() == ["two"]
    reader.call("session/close")
    refused = []
    opened = store.start("session/open", sessionId=session.id).reply()
    if "error" in opened:
        refused.append(opened["error"])
    else:
        for method, params in (
            ("session/setTitle", {"title": "t"}),
            ("session/setYolo", {"yolo": False}),
            ("context/clear", {}),
            ("context/clear", {"requestId": "another"}),
        ):
            reply = session.start(method, **params).reply()
            refused += [reply["error"]] if "error" in reply else []
        store.call("session/close", sessionId=session.id)
    assert not path.exists(), "a sync program would have two versions of it"
    assert refused or file == "context_1.jsonl" or file == "requests.jsonl"
    for error in refused:
        assert stands.name in error["message"]
    stands.rename(path)
    again = session.reopen(store)
    assert [kind for kind in kinds(again.state) if kind == "placeholder"] == []
    again.say("goes on")
    assert session.call("session/verify")["ok"]


def test_a_session_of_placeholders_alone_is_listed_and_not_made_anew(store: Server) -> None:
    session = made(store)
    session.call("session/close")
    names = [path.name for path in session.path.iterdir()]
    for name in names:
        (session.path / name).rename(session.path / (name if name.startswith(".") else f".{name}.icloud"))
    listed = {one["sessionId"]: one for one in store.call("session/list", limit=1000)["sessions"]}
    assert ".context.jsonl.icloud" in listed[session.id]["damaged"]
    before = sorted(path.name for path in session.path.iterdir())
    refused = store.refuse("session/open", sessionId=session.id)
    assert ".timeleap.json.icloud" in refused["message"]
    assert [name for name in sorted(path.name for path in session.path.iterdir()) if name in before] == before
    assert not session.log.exists()
    assert not (session.path / "timeleap.json").exists()
    for name in names:
        if not name.startswith("."):
            (session.path / f".{name}.icloud").rename(session.path / name)
    assert session.reopen(store).texts() == TEXTS


@pytest.mark.parametrize("file", ["timeleap.json", "state.json"])
@pytest.mark.parametrize("content", [b"", bytes(512), b"version https://git-lfs\n", b"<<<<<<< HEAD\n{}\n"])
def test_a_small_file_without_its_content_is_told_and_kept(store: Server, file: str, content: bytes) -> None:
    session = Session.open(store, title="kept")
    session.say("one")
    session.call("session/close")
    put(session.path / file, content)
    checked = session.call("session/verify")
    assert file in [one.get("file") for one in checked["problems"]]
    again = session.reopen(store)
    assert {"timeleap.json": "metaDamaged", "state.json": "stateDamaged"}[file] in kinds(again.state)
    again.call("session/setTitle", title="another")
    again.say("two")
    assert again.texts() == ["one", "two"]
    stem = file.removesuffix(".json")
    assert content in [path.read_bytes() for path in session.path.glob(f"{stem}.damaged-*")]


@pytest.mark.parametrize("content", [b"", bytes(35)])
def test_a_timeline_without_its_content_is_told_and_not_brought_back(store: Server, content: bytes) -> None:
    session = made(store)
    session.call("context/clear")
    session.say("now")
    (session.path / "context_1.jsonl").write_bytes(content)
    checked = session.call("session/verify")
    assert [(one["kind"], one["file"]) for one in checked["problems"]] == [("timelineCut", "context_1.jsonl")]
    assert session.refuse("context/restoreTimeline", timelineId="context_1")["data"]["kind"] == "corrupted"
    assert session.texts() == ["now"]


def test_an_older_timeleap_json_hides_nothing_of_the_log(store: Server) -> None:
    session = Session.open(store)
    session.say("one")
    session.call("session/close")
    older = (session.path / "timeleap.json").read_bytes()
    again = session.reopen(store)
    again.say("two")
    again.call("context/clear", requestId="cleared")
    again.say("three")
    again.call("session/close")
    put(session.path / "timeleap.json", older)
    again = session.reopen(store)
    assert again.texts() == ["three"]
    assert [one["timelineId"] for one in again.timelines()] == ["context_1"]
    again.call("context/clear")
    assert [one["timelineId"] for one in again.timelines()] == ["context_2", "context_1"], "no name is used twice"
    again.call("context/restoreTimeline", timelineId="context_1")
    assert again.texts() == ["one", "two"]


@pytest.mark.parametrize("audited", [True, False])
def test_a_timeleap_json_that_is_gone_is_told_and_made_anew(store: Server, audited: bool) -> None:
    session = Session.open(store)
    session.call("context/appendMessage", message=user("one"), requestId="r")
    if audited:
        session.call("session/setYolo", yolo=True)
    session.call("session/close")
    (session.path / "timeleap.json").unlink()
    assert session.call("session/verify")["ok"] is not audited
    again = session.reopen(store)
    assert kinds(again.state).count("metaDamaged") == 1
    assert again.state["approval"]["yolo"] is False
    assert again.call("context/appendMessage", message=user("one"), requestId="r")["duplicate"] is True
    again.say("two")
    assert again.texts() == ["one", "two"]
    again.call("session/close")
    assert "metaDamaged" not in kinds(session.reopen(store).state), "told once"


def test_a_store_that_is_copied_whole_while_it_is_used_has_lost_nothing(store: Server, tmp_path: Path) -> None:
    session = made(store)
    session.checkpoint()
    session.say("away")
    session.call("context/revertTo", checkpointId=0)
    copy = tmp_path / "copy"
    (copy / "sessions").mkdir(parents=True)
    subprocess.run(["cp", "-r", session.path, copy / "sessions"], check=True)
    server = Server(Launch(copy, "lsp"))
    try:
        server.initialize()
        assert server.call("session/verify", sessionId=session.id)["ok"]
        copied = Session.open(server, session.id)
        assert (copied.state["warnings"], copied.state["access"]) == ([], "owner")
        copied.call("context/undo")
        copied.say("there")
        assert copied.texts() == [*TEXTS, "away", "there"]
        assert server.call("session/verify", sessionId=session.id)["ok"]
    finally:
        server.dispose()
    session.say("here")
    assert session.texts() == [*TEXTS, "here"]


def test_a_folder_that_is_put_back_under_an_open_session_is_told_and_taken_over(store: Server, tmp_path: Path) -> None:
    session = made(store)
    shutil.copytree(session.path, tmp_path / "before")
    session.say("later")
    shutil.rmtree(session.path)
    shutil.copytree(tmp_path / "before", session.path)
    assert session.refuse("context/appendMessage", message=user("new"))["data"]["kind"] == "externallyModified"
    assert kinds(session.call("session/reload")) == ["linesLost"]
    session.say("goes on")
    assert session.texts() == [*TEXTS, "goes on"]


def test_a_copy_of_a_session_keeps_the_files_that_both_have(store: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    session = Session.open(store, files={"mode": "checkpoint", "roots": [tmp_path.as_uri()]})
    session.checkpoint()
    session.say("one")
    session.call("session/close")
    shutil.copytree(session.path, session.path.with_name("a-copy"))
    store.call("session/delete", sessionId=session.id)
    store.call("session/purge", sessionId=session.id)
    copied = Session.open(store, "a-copy")
    (tmp_path / "a").write_text("2")
    copied.call("context/revertTo", checkpointId=0, restore="both", onConflict="overwrite")
    assert (tmp_path / "a").read_text() == "1"
    copied.call("session/close")
    store.call("session/delete", sessionId="a-copy")
    store.call("session/purge", sessionId="a-copy")
    assert not list((store.home / "files").glob("*/refs/timeleap/*/*"))


def test_an_index_of_nobody_knows_where_stops_writes_until_the_log_is_accepted(store: Server) -> None:
    other = Session.open(store)
    other.append(user("a"), user("b"))
    session = made(store)
    session.call("session/close")
    by = other.path / ".context.jsonl.idx"
    shutil.copy(by, session.path / by.name)
    shutil.rmtree(other.path)
    again = session.reopen(store)
    assert kinds(again.state) == ["otherLog"]
    assert again.refuse("context/appendMessage", message=user("new"))["data"]["kind"] == "externallyModified"
    assert again.call("session/reload")["warnings"] == []
    assert again.texts() == TEXTS


def test_a_whole_session_of_before_is_what_it_was_then(store: Server, tmp_path: Path) -> None:
    session = made(store)
    session.call("session/close")
    shutil.copytree(session.path, tmp_path / "before")
    again = session.reopen(store)
    again.say("later")
    again.call("session/close")
    shutil.rmtree(session.path)
    shutil.copytree(tmp_path / "before", session.path)
    again = session.reopen(store)
    assert again.texts() == TEXTS
    again.say("goes on")


@pytest.mark.parametrize("how", ["in place", "an older copy", "removed"])
def test_a_large_log_that_is_only_read_tells_its_loss(store: Server, how: str) -> None:
    session = Session.open(store)
    session.append(*(user(f"{number} " + "x" * (1 << 20)) for number in range(5)))
    session.append(*(user(f"{number} " + "x" * (1 << 20)) for number in range(5, 10)))
    session.call("session/close")
    left = first(session.log, 9)
    assert len(left) > 8 << 20
    if how == "in place":
        os.truncate(session.log, len(left))
    elif how == "an older copy":
        put(session.log, left)
    else:
        session.log.unlink()
    for _ in range(2):  # what was read may have been kept in the cache
        reader = session.reopen(store, access="readOnly")
        assert kinds(reader.state) == ["logMissing" if how == "removed" else "linesLost"]
        assert reader.state["context"]["messageCount"] == (0 if how == "removed" else 9)
        assert not reader.call("session/verify")["ok"]
        reader.call("session/close")


def test_the_commands_that_the_page_shows_do_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "storage.md").read_text("utf-8")
    block = page.partition("## When a log has lost something")[2].partition("```sh\n")[2].partition("```")[0]
    cli = Cli(tmp_path / "home")
    cli.run("new", "fix-dates")
    says_one = '{"role":"user","content":"one"}\n'
    cli.run("append", "fix-dates", input=says_one)
    cli.run("clear", "fix-dates", "--yes")
    for text in (says_one, says_one.replace("one", "two")):
        cli.run("append", "fix-dates", input=text)
    folder = cli.home / "sessions" / "fix-dates"
    whole, left = (folder / "context.jsonl").read_bytes(), first(folder / "context.jsonl", 1)
    (folder / "context (conflicted copy).jsonl").write_bytes(whole)
    os.truncate(folder / "context.jsonl", len(left))
    said = {}
    for line in block.splitlines():
        words = shlex.split(
            line.replace("$FIX_DATES", str(folder)).replace(" fix-dates.zip", f" {tmp_path}/f.zip"), comments=True
        )
        if words[-1] == "--yes":
            put(folder / "context.jsonl", whole)
            assert "no damage" in cli.run("verify", "fix-dates").out, "a backup puts it right"
            put(folder / "context.jsonl", left)
        said[line.partition(" #")[0].strip()] = cli.run(*words[1:], code=words[1] == "verify").out
    assert "lacks 1 message" in said["timeleap verify fix-dates"]
    assert "conflicted copy" in said["timeleap verify fix-dates"]
    assert "one" in said["timeleap show fix-dates --timeline context_1"]
    assert "lacks 1 message" in said["timeleap repair fix-dates --dry-run"]
    assert "no damage" in cli.run("verify", "fix-dates").out
    assert "two" in cli.run("show", "copy").out
    cli.run("restore", "fix-dates", "context_1", "--yes")
    assert len(said) == 7


def test_the_command_line_lists_a_loss_and_what_a_person_can_do(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "home")
    for name in ("whole", "cut"):
        cli.run("new", name)
        cli.run("append", name, input='{"role":"user","content":"one"}\n{"role":"user","content":"two"}\n')
    log = cli.home / "sessions" / "cut" / "context.jsonl"
    os.truncate(log, len(first(log, 1)))
    listed = cli.run("sessions").out.splitlines()
    assert ["lacks 1 message" in line for line in listed if "cut" in line] == [True]
    assert ["lacks" in line for line in listed if "whole" in line] == [False]
