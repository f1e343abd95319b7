"""`session/purge`, `trash.maxAge`, `session/redact` in the trash, `session/listAudit`: deletion that is final."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_STRING, TIME
from tests.support.mostly_long import mostly_long
from tests.support.server import DATABASES, Message, Server
from tests.support.session import Session, assistant, user

from timeleap.storage.lock import locked

TEXT = "the-text-of-the-session"


def deleted(server: Server, session_id: str, text: str = TEXT, **params: Any) -> Message:
    """A session with something of every kind in it, in the trash; its entry there."""
    session = Session.open(server, session_id, requestId=f"make-{session_id}-{len(trash(server))}", title=f"T {text}")
    session.checkpoint(label=text)
    session.append(user(text), assistant("x"), requestId=f"append-{text}"[:64])
    session.call("context/revertTo", checkpointId=0)
    session.call("session/setYolo", yolo=True)
    session.say(text)
    session.call("session/delete", **params)
    return trash(server)[0]


def trash(server: Server) -> list[Message]:
    return list(server.call("session/listTrash", limit=1000)["sessions"])


def ids(server: Server) -> list[str]:
    return [entry["sessionId"] for entry in trash(server)]


def everything(home: Path) -> bytes:
    """Every name and every byte in the store, of a database in its rows; a server's copies of these go with it."""
    if home in DATABASES:
        from tests.support.postgresql import stored_rows

        return stored_rows(DATABASES[home])
    found = []
    for folder, _, files in os.walk(home):
        found.append(os.path.relpath(folder, home).encode())
        for name in files:
            found += [name.encode(), (Path(folder) / name).read_bytes()]
    return b"\n".join(found)


def entry(one: Message) -> Message:
    return {name: one[name] for name in ("sessionId", "deletedAt")}


@pytest.fixture
def store(start: StartServer) -> Server:
    return start()


def test_what_is_purged_is_gone_for_good(store: Server, home: Path) -> None:
    one, other = deleted(store, "a"), deleted(store, "b", "another text")
    result = store.call("session/purge", sessionId="a", dryRun=True)
    size = result["bytes"]
    if home not in DATABASES:
        assert size == sum(path.stat().st_size for path in next((home / "trash").glob("a~*")).iterdir())
    assert size > 2 * len(TEXT)
    result = store.call("session/purge", sessionId="a")
    assert result == {"purged": [{**entry(one), "bytes": size}], "bytes": size}
    assert ids(store) == ["b"] and other["sessionId"] == "b"
    assert store.refuse("session/undelete", sessionId="a")["code"] == 4001
    assert store.refuse("session/purge", sessionId="a")["code"] == 4001


@pytest.mark.parametrize("request_id", [None, "purge-1"])
def test_nothing_of_a_purged_session_is_left_in_the_store(store: Server, home: Path, request_id: str | None) -> None:
    deleted(store, "secret-id", requestId="delete-1")
    store.call("session/undelete", sessionId="secret-id", requestId="undelete-1")
    uid = json.loads(Session.open(store, "secret-id").file_bytes("timeleap.json"))["uid"]
    store.call("session/delete", sessionId="secret-id", requestId="delete-2")
    asked = {} if request_id is None else {"requestId": request_id}
    keys = store.launch.user
    assert uid.encode() in everything(home) + everything(keys)
    store.call("session/purge", sessionId="secret-id", **asked)
    left = everything(home) + everything(keys)
    for trace in (TEXT, "secret-id", "make-secret-id", "delete-1", "delete-2", "undelete-1"):
        assert trace.encode() not in left, trace
    # Every machine remembers which seal it saw last, so that rows of a backup switch nothing on.
    assert uid.encode() not in (everything(home) if home in DATABASES else left)


def test_a_repeated_deletion_does_not_delete_a_namesake(store: Server) -> None:
    deleted(store, "a", requestId="delete-1")
    store.call("session/purge", sessionId="a")
    namesake = Session.open(store, "a")
    namesake.say("new")
    assert store.call("session/delete", sessionId="a", requestId="delete-1") == {"duplicate": True}
    assert namesake.texts() == ["new"]


def test_what_a_living_namesake_was_asked_stays_known(store: Server) -> None:
    first = deleted(store, "a", requestId="delete-1")
    Session.open(store, "a", requestId="make-again")
    store.call("session/delete", sessionId="a", requestId="delete-2")
    store.call("session/undelete", sessionId="a", requestId="undelete-2")
    store.call("session/purge", sessionId="a", deletedAt=first["deletedAt"])
    assert store.call("session/delete", sessionId="a", requestId="delete-2") == {"duplicate": True}
    assert store.call("session/undelete", sessionId="a", requestId="undelete-2") == {"duplicate": True}
    assert store.call("session/open", sessionId="a", requestId="make-again")["duplicate"] is True


def test_of_several_of_one_id_one_or_all(store: Server) -> None:
    entries = [deleted(store, "a", f"text {number}") for number in range(3)]
    chosen = store.call("session/purge", sessionId="a", deletedAt=entries[1]["deletedAt"])
    assert [entry(one) for one in chosen["purged"]] == [entry(entries[1])]
    assert [one["deletedAt"] for one in trash(store)] == [entries[2]["deletedAt"], entries[0]["deletedAt"]]
    later = entries[0]["deletedAt"].replace("Z", "+00:00")
    assert store.refuse("session/purge", sessionId="a", deletedAt="2001-01-01T00:00:00.000Z")["code"] == 4001
    assert store.call("session/purge", sessionId="a", deletedAt=later, dryRun=True)["purged"] != []
    assert len(store.call("session/purge", sessionId="a")["purged"]) == 2
    assert trash(store) == []


def test_a_dry_run_says_the_same_and_changes_nothing(store: Server, home: Path) -> None:
    deleted(store, "a")
    before = everything(home)
    planned = store.call("session/purge", sessionId="a", dryRun=True, requestId="dry")
    assert everything(home) == before
    assert store.call("session/purge", sessionId="a", requestId="dry") == planned


def age(home: Path, session_id: str, stamp: str) -> None:
    """Make a session in the trash one that was deleted then."""
    if home in DATABASES:
        from tests.support.postgresql import rename_session

        rename_session(DATABASES[home], f"{session_id}~%", f"{session_id}~{stamp}-0123")
        return
    (path,) = (home / "trash").glob(f"{session_id}~*")
    path.rename(path.with_name(f"{session_id}~{stamp}-0123"))


def test_older_than_counts_from_the_deletion(store: Server, home: Path) -> None:
    for name in ("old", "older", "new"):
        deleted(store, name)
    age(home, "old", "20200101T000000.000000")
    age(home, "older", "20100101T000000.000000")
    day = store.call("session/purge", olderThan=86400, dryRun=True)
    assert [one["sessionId"] for one in day["purged"]] == ["old", "older"]
    assert store.call("session/purge", olderThan=10**10) == {"purged": [], "bytes": 0}
    assert store.call("session/purge", olderThan=86400) == day
    assert ids(store) == ["new"]
    assert [one["sessionId"] for one in store.call("session/purge", olderThan=0)["purged"]] == ["new"]
    assert store.call("session/purge", olderThan=0) == {"purged": [], "bytes": 0}


def test_the_living_session_and_its_namesakes_elsewhere_stay(store: Server) -> None:
    deleted(store, "a")
    living = Session.open(store, "a")
    living.say("here")
    store.call("session/purge", sessionId="a")
    assert living.texts() == ["here"]
    assert store.refuse("session/purge", sessionId="a")["code"] == 4001
    assert living.texts() == ["here"]


@pytest.mark.parametrize(
    ("params", "code", "loc"),
    [
        ({}, -32602, ["sessionId"]),
        ({"sessionId": "a", "olderThan": 1}, -32602, ["olderThan"]),
        ({"olderThan": 1, "deletedAt": "2020-01-01T00:00:00.000Z"}, -32602, ["deletedAt"]),
        ({"olderThan": -1}, -32602, ["olderThan"]),
        ({"olderThan": 1.5}, -32602, ["olderThan"]),
        ({"sessionId": "../x"}, 4010, None),
        ({"sessionId": "a~20200101T000000.000000"}, 4010, None),
        ({"sessionId": "nobody"}, 4001, None),
    ],
)
def test_what_cannot_be_purged_is_refused(store: Server, params: Message, code: int, loc: list[str] | None) -> None:
    deleted(store, "a")
    error = store.refuse("session/purge", **params)
    assert error["code"] == code
    if loc is not None:
        assert [problem["loc"] for problem in error["data"]["errors"]] == [loc]
    assert ids(store) == ["a"]


def test_a_repeat_gets_the_answer_and_purges_nothing_more(start: StartServer) -> None:
    server = start()
    deleted(server, "a")
    deleted(server, "b")
    first = server.call("session/purge", olderThan=0, requestId="r")
    single = deleted(server, "c") and server.call("session/purge", sessionId="c", requestId="s")
    kept = deleted(server, "a")
    server.kill()
    server = start()
    assert server.call("session/purge", olderThan=0, requestId="r") == {**first, "duplicate": True}
    assert server.call("session/purge", sessionId="c", requestId="s") == {**single, "duplicate": True}
    assert [entry(one) for one in trash(server)] == [entry(kept)]
    assert server.refuse("session/purge", olderThan=1, requestId="r")["code"] == -32602


def test_a_request_id_is_not_reused_for_another_session(store: Server) -> None:
    deleted(store, "a")
    kept = deleted(store, "b")
    store.call("session/purge", sessionId="a", requestId="r")
    assert store.refuse("session/purge", sessionId="b", requestId="r")["code"] == -32602
    assert [entry(one) for one in trash(store)] == [entry(kept)]


@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("second", mostly_long(range(5), every=3))
def test_a_request_id_is_not_reused_for_another_method(store: Server, first: int, second: int) -> None:
    for name in ("a", "b"):
        deleted(store, name)
    for name in ("c", "d", "e", "f"):
        Session.open(store, name)
    asked: list[tuple[str, list[Message]]] = [
        ("session/open", [{"sessionId": "new"}, {"sessionId": "newer"}]),
        ("session/fork", [{"sessionId": "c"}, {"sessionId": "d"}]),
        ("session/delete", [{"sessionId": "e"}, {"sessionId": "f"}]),
        ("session/undelete", [{"sessionId": "a"}, {"sessionId": "b"}]),
        ("session/purge", [{"sessionId": "a"}, {"sessionId": "b"}]),
    ]
    method, [params, _] = asked[first]
    store.call(method, **params, requestId="r")
    before = (store.call("session/list")["sessions"], trash(store))
    method, [_, params] = asked[second]
    assert store.refuse(method, **params, requestId="r")["code"] == -32602
    assert (store.call("session/list")["sessions"], trash(store)) == before


@pytest.mark.parametrize(
    "failpoint", mostly_long(["purge.moved", "purge.noted", "purge.files_forgotten", "purge.removed"])
)
@pytest.mark.parametrize("request_id", [None, "r"])
def test_a_purge_that_is_killed_is_finished(
    start: StartServer, home: Path, failpoint: str, request_id: str | None
) -> None:
    server = start(failpoints=f"{failpoint}@1=kill")
    for name in ("a", "b"):
        deleted(server, name, f"{TEXT}-{name}", requestId=f"delete-{name}")
    asked = {"olderThan": 0, **({} if request_id is None else {"requestId": request_id})}
    server.start("session/purge", **asked)
    server.wait()
    server = start()
    back = ids(server)
    for name in ("a", "b"):  # there whole, or not at all
        if name in back:
            server.call("session/undelete", sessionId=name)
            assert len(Session.open(server, name, create=False).history()) == 1
            server.call("session/delete", sessionId=name)
    first = server.call("session/purge", **asked)
    if request_id is not None and failpoint == "purge.moved":
        assert sorted([*back, *(one["sessionId"] for one in first["purged"])]) == ["a", "b"]
    assert ids(server) == [] if request_id is None else back == ids(server)
    server.call("session/purge", olderThan=0)
    left = everything(home)
    assert trash(server) == [] and TEXT.encode() not in left and b"purge-" not in left


def test_a_purge_that_is_killed_is_finished_by_the_next_server(start: StartServer, home: Path) -> None:
    server = start(failpoints="purge.moved@1=kill")
    deleted(server, "a", requestId="delete-1")
    server.start("session/purge", sessionId="a")
    server.wait()
    assert TEXT.encode() in everything(home)
    server = start()
    server.call("session/list")
    server.finish()  # what was begun is finished before the end
    server = start()
    assert until(lambda: TEXT.encode() not in everything(home) and b"delete-1" not in everything(home))
    assert ids(server) == []


def until(true: Any, timeout: float = 30.0) -> bool:
    """Wait for something to become true."""
    import time

    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_links_in_the_trash_are_not_followed(store: Server, home: Path, tmp_path: Path) -> None:
    deleted(store, "a")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    (folder,) = (home / "trash").glob("a~*")
    (folder / "link").symlink_to(precious)
    (folder / "deep").mkdir()
    (folder / "deep" / "link").symlink_to(precious / "file")
    (folder / ".context_9.jsonl.idx").symlink_to(precious / "file")
    os.link(precious / "file", folder / "hard")
    (folder / "locked").mkdir()
    (folder / "locked" / "x").write_text(TEXT)
    (folder / "locked").chmod(0o500)
    outside = home / "trash" / "b~20200101T000000.000000-abcd"
    outside.symlink_to(precious)
    for hostile in ("..~20200101T000000.000000", "x~notatime", "~", "c~20200101T000000.000000-zz", "-~x"):
        (home / "trash" / hostile).mkdir()
    assert [one["sessionId"] for one in store.call("session/purge", olderThan=0)["purged"]] == ["a"]
    assert (precious / "file").read_text() == "keep" and outside.is_symlink()
    assert TEXT.encode() not in everything(home)


def test_nothing_is_purged_through_a_link(store: Server, home: Path, tmp_path: Path) -> None:
    deleted(store, "a")
    (home / "trash").rename(tmp_path / "elsewhere")
    (home / "trash").symlink_to(tmp_path / "elsewhere")
    error = store.refuse("session/purge", olderThan=0)
    assert (error["code"], error["data"]["errno"]) == (4005, "ELOOP")
    assert list((tmp_path / "elsewhere").glob("a~*/context.jsonl"))


def test_what_another_process_uses_stays(store: Server, home: Path) -> None:
    used = deleted(store, "used")
    deleted(store, "free")
    (folder,) = (home / "trash").glob("used~*")
    with locked(folder / ".context.jsonl.lock"):
        result = store.call("session/purge", olderThan=0)
        assert [one["sessionId"] for one in result["purged"]] == ["free"]
        assert result["kept"] == [{**entry(used), "reason": A_STRING}]
        assert store.refuse("session/purge", sessionId="used")["code"] == 4003
        assert ids(store) == ["used"]
    assert [one["sessionId"] for one in store.call("session/purge", sessionId="used")["purged"]] == ["used"]


def test_a_torn_folder_in_the_trash_can_be_purged(store: Server, home: Path) -> None:
    deleted(store, "a")
    (folder,) = (home / "trash").glob("a~*")
    for file in folder.iterdir():
        file.unlink()
    os.mkfifo(folder / "timeleap.json")
    os.mkfifo(folder / ".context.jsonl.lock")
    assert [one["sessionId"] for one in store.call("session/purge", sessionId="a")["purged"]] == ["a"]
    assert trash(store) == []


def test_purging_behind_a_deletion_comes_after_it(store: Server) -> None:
    session = Session.open(store, "a")
    session.say(TEXT)
    store.start("session/delete", sessionId="a")
    purging = store.start("session/purge", sessionId="a")
    opening = store.start("session/open", sessionId="a", create=False)
    assert [one["sessionId"] for one in purging.result()["purged"]] == ["a"]
    assert opening.error()["code"] == 4001


def test_a_purge_by_age_keeps_its_place_among_changes_of_the_trash(store: Server) -> None:
    for name in ("a", "b", "c", "later"):
        Session.open(store, name).say(TEXT)
    deleting = [store.start("session/delete", sessionId=name) for name in ("a", "b", "c")]
    purging = store.start("session/purge", olderThan=0)
    late = store.start("session/delete", sessionId="later")
    back = store.start("session/undelete", sessionId="a")
    second = store.start("session/purge", olderThan=0, dryRun=True)
    assert [one.result() for one in deleting] == [{}, {}, {}]
    assert sorted(one["sessionId"] for one in purging.result()["purged"]) == ["a", "b", "c"]
    assert back.error()["code"] == 4001
    assert late.result() == {}
    assert [one["sessionId"] for one in second.result()["purged"]] == ["later"] == ids(store)


def test_temporaries_of_the_store_go_too(store: Server, home: Path) -> None:
    deleted(store, "a", requestId="delete-1")
    (home / ".requests.jsonl.0123456789abcdef.tmp").write_text("delete-1")
    half = home / "staging" / "1000000000-0123456789abcdef"
    half.mkdir(parents=True)
    (half / "context.jsonl").write_text(TEXT)
    os.utime(half / "context.jsonl", (1, 1))
    os.utime(half, (1, 1))
    store.call("session/purge", sessionId="a")
    left = everything(home)
    assert TEXT.encode() not in left and b"delete-1" not in left


@pytest.mark.long
def test_a_repeat_names_the_first_thousand_of_many(start: StartServer, home: Path) -> None:
    server = start()
    server.call("session/list")
    names = [f"s{number}~20200101T000000.000000-0000" for number in range(1005)]
    if home in DATABASES:
        with psycopg.connect(DATABASES[home]) as connection:
            connection.execute(
                "INSERT INTO timeleap_session (id, folded, version) SELECT n, n, 0 FROM unnest(%s::text[]) n", [names]
            )
    for name in names if home not in DATABASES else ():
        (home / "trash" / name).mkdir(parents=True)
    first = server.call("session/purge", olderThan=0, requestId="r")
    assert len(first["purged"]) == 1005 and trash(server) == []
    again = server.call("session/purge", olderThan=0, requestId="r")
    assert (again["purged"], again["duplicate"]) == (first["purged"][:1000], True)


# trash.maxAge


def test_what_is_older_than_max_age_goes_when_a_server_starts(start: StartServer, home: Path) -> None:
    server = start()
    for name in ("old", "new"):
        deleted(server, name)
    age(home, "old", "20200101T000000.000000")
    assert server.finish() == 0
    server = start(options={"trash": {"maxAge": 86400}})
    warning = server.heard("session/warning", kind="trashPurged")
    assert warning["sessionId"] == "old" and "trash.maxAge" in warning["message"]
    assert ids(server) == ["new"]
    assert server.finish() == 0
    assert "removed 1 sessions" in server.stderr()


@pytest.mark.parametrize("by", ["environment", "file"])
def test_max_age_can_be_set_for_all_servers(start: StartServer, home: Path, by: str) -> None:
    server = start()
    deleted(server, "old")
    age(home, "old", "20200101T000000.000000")
    server.finish()
    if by == "file":
        (home / "config.toml").write_text("[trash]\nmaxAge = 60\n")
    server = start(env={"TIMELEAP_TRASH_MAX_AGE": "60"} if by == "environment" else {})
    server.heard("session/warning", kind="trashPurged", sessionId="old")
    assert ids(server) == []


@pytest.mark.parametrize("value", [-1, "soon", 1.5, []])
def test_a_max_age_is_a_number_of_seconds(start_at: StartServer, home: Path, value: Any) -> None:
    error = start_at(home).refuse("initialize", initializationOptions={"trash": {"maxAge": value}})
    assert [one["loc"] for one in error["data"]["errors"]] == [["initializationOptions", "trash", "maxAge"]]


# session/redact in the trash


def test_a_secret_is_taken_out_of_a_session_in_the_trash(store: Server, home: Path) -> None:
    first = deleted(store, "a", "hunter2-secret")
    second = deleted(store, "a", "hunter2-secret")
    living = Session.open(store, "a")
    living.say("hunter2-secret")
    asked = {"sessionId": "a", "value": "hunter2-secret", "deletedAt": first["deletedAt"]}
    planned = store.call("session/redact", **asked, dryRun=True, store=True)
    assert planned["redacted"] is True and planned["alsoIn"] == ["a"]
    assert {file["trash"] for file in planned["files"]} == {next(p.name for p in newest(home, first))}
    assert store.refuse("session/redact", **asked, expectedHead="x")["code"] == -32801
    result = store.call("session/redact", **asked, expectedHead=planned["head"])
    assert (result["redacted"], result["records"]) == (True, planned["records"])
    assert result["context"]["messageCount"] == 1
    (folder,) = newest(home, first)
    assert b"hunter2" not in b"".join(path.read_bytes() for path in folder.iterdir())
    assert living.texts() == ["hunter2-secret"]
    assert b"hunter2" in b"".join(path.read_bytes() for (p,) in [newest(home, second)] for path in p.iterdir())
    again = store.call("session/redact", **asked)
    assert again["redacted"] is False
    living.call("session/delete")
    for one in trash(store):
        if one["deletedAt"] != first["deletedAt"]:
            store.call("session/purge", **entry(one))
    store.call("session/undelete", sessionId="a")
    back = Session.open(store, "a", create=False)
    assert back.texts() == ["[redacted]"] and back.state["title"] == "T [redacted]"
    assert store.call("session/listAudit", sessionId="a")["entries"][0]["field"] == "redaction"


def newest(home: Path, one: Message) -> list[Path]:
    """The directory in the trash of that entry."""
    stamp = one["deletedAt"].replace("-", "").replace(":", "").rstrip("Z")
    return [path for path in (home / "trash").iterdir() if path.name.startswith(f"{one['sessionId']}~{stamp}")]


def test_what_can_be_undone_in_the_trash_is_said_as_it_was_before(store: Server) -> None:
    session = Session.open(store, "a")
    session.say("hunter2")
    session.call("context/clear")
    before = session.call("session/getState")["context"]
    session.call("session/delete")
    (one,) = trash(store)
    planned = store.call("session/redact", **entry(one), value="hunter2", dryRun=True)
    assert before["canUndo"] == planned["context"]["canUndo"] == 1
    done = store.call("session/redact", **entry(one), value="hunter2")
    assert done["context"]["canUndo"] == 1


def test_a_repeated_redaction_in_the_trash_is_answered_and_not_redone(start: StartServer) -> None:
    server = start()
    one = deleted(server, "a", "hunter2")
    asked = {**entry(one), "value": "hunter2", "requestId": "r"}
    first = server.call("session/redact", **asked)
    assert first["occurrences"] == 6 and "duplicate" not in first
    for _ in range(2):
        assert server.call("session/redact", **asked) == {**first, "duplicate": True}
        # Not even compared: a fingerprint of what went would be something to try guesses with.
        assert server.call("session/redact", **{**asked, "value": "kept"}) == {**first, "duplicate": True}
        server.kill()
        server = start()
    assert server.call("session/redact", **{**asked, "requestId": "s"})["occurrences"] == 0
    assert server.call("session/redact", **{**asked, "expectedHead": "stale"}) == {**first, "duplicate": True}
    server.call("session/undelete", sessionId="a")
    redactions = [
        one for one in server.call("session/listAudit", sessionId="a")["entries"] if one["field"] == "redaction"
    ]
    assert [one["requestId"] for one in redactions] == ["s", "r"]
    back = Session.open(server, "a", create=False)
    assert back.texts() == ["[redacted]"]
    assert back.call("session/redact", value="kept", requestId="r") == {**first, "duplicate": True, "head": back.head}


def test_two_redactions_at_once_under_one_id_are_one(store: Server) -> None:
    asked = {**entry(deleted(store, "a", "hunter2")), "value": "hunter2", "requestId": "r"}
    many = [store.start("session/redact", **asked) for _ in range(3)]
    answers = [one.result() for one in many]
    (first,) = [one for one in answers if "duplicate" not in one]
    assert first["occurrences"] == 6
    assert [one for one in answers if "duplicate" in one] == [{**first, "duplicate": True}] * 2


@pytest.mark.skipif(os.name == "nt", reason="kills with a signal")
@pytest.mark.parametrize("failpoint", ["revise.closed_built", "redact.before_note"])
def test_a_redaction_in_the_trash_that_is_killed_is_finished(start: StartServer, home: Path, failpoint: str) -> None:
    server = start(failpoints=f"{failpoint}=kill")
    one = deleted(server, "a", "hunter2", requestId="delete hunter2")
    server.start("session/redact", **entry(one), value="hunter2", requestId="r")
    server.wait()
    server = start()
    again = server.call("session/redact", **entry(one), value="hunter2", requestId="r")
    in_one_step = home in DATABASES  # so nothing of it was done
    assert "duplicate" not in again and again["redacted"] is (failpoint == "revise.closed_built" or in_one_step)
    assert server.call("session/redact", **entry(one), value="hunter2", requestId="r") == {**again, "duplicate": True}
    assert b"hunter2" not in everything(home)


def test_an_id_that_holds_what_went_is_not_kept(store: Server, home: Path) -> None:
    asked = {**entry(deleted(store, "a", "hunter2")), "value": "hunter2", "requestId": "for hunter2"}
    assert store.call("session/redact", **asked)["occurrences"] == 6
    assert store.call("session/redact", **asked)["occurrences"] == 0
    assert b"hunter2" not in everything(home)


def test_redacting_what_is_not_in_the_trash_is_refused(store: Server) -> None:
    living = Session.open(store, "a")
    living.say("hunter2")
    error = store.refuse("session/redact", sessionId="a", value="hunter2", deletedAt="2020-01-01T00:00:00.000Z")
    assert error["code"] == 4001 and living.texts() == ["hunter2"]


# session/listAudit


def test_the_audit_can_be_read_newest_first_and_by_pages(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "a")
    assert session.call("session/listAudit") == {"entries": []}
    session.call("session/setYolo", yolo=True, requestId="r-1")
    for number in range(5):
        session.call("session/setAutoApprove", action=f"run {number}", enabled=True)
    whole = session.call("session/listAudit")["entries"]
    assert [one["field"] for one in whole] == [*(f"autoApprove:run {number}" for number in range(4, -1, -1)), "yolo"]
    assert whole[-1] == {
        "time": TIME, "client": "client-1", "requestId": "r-1", "field": "yolo", "from": False, "to": True
    }  # fmt: skip
    page = session.call("session/listAudit", limit=4)
    session.call("session/setYolo", yolo=False)
    rest = session.call("session/listAudit", cursor=page["nextCursor"])
    assert page["entries"] + rest["entries"] == whole and "nextCursor" not in rest
    session.call("session/close")
    assert server.call("session/listAudit", sessionId="a")["entries"][1:] == whole
    assert server.refuse("session/listAudit", sessionId="a", cursor="x")["code"] == -32602
    assert server.refuse("session/listAudit", sessionId="nobody")["code"] == 4001


def test_an_audit_that_somebody_edited_is_shown_as_far_as_it_goes(
    start: StartServer, store: Server, home: Path
) -> None:
    session = Session.open(store, "a")
    session.call("session/setYolo", yolo=True)
    added = b'no json\n[1]\n{"time": 5, "who": [], "field": {"a": 1}, "more": "x"}\n'
    session.put_file("audit.jsonl", session.file_bytes("audit.jsonl") + added)
    if home in DATABASES:
        session = Session.open(start(), "a")  # which has not what was there before
    found = session.call("session/listAudit")
    assert [one["field"] for one in found["entries"]] == ["yolo"]
    assert [(one["kind"], one["file"]) for one in found["warnings"]] == [("auditDamaged", "audit.jsonl")]


def _directory(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _too_large(path: Path) -> None:
    path.touch()
    os.truncate(path, (64 << 20) + 1)


@pytest.mark.parametrize("make", [_directory, _link, os.mkfifo, _too_large])
def test_what_is_no_audit_is_said(start: StartServer, home: Path, make: Callable[[Path], None]) -> None:
    server = start()
    Session.open(server, "a").call("session/close")
    make(home / "sessions" / "a" / "audit.jsonl")
    [warning] = server.call("session/listAudit", sessionId="a")["warnings"]
    assert (warning["kind"], warning["file"]) == ("auditDamaged", "audit.jsonl")
    [problem] = server.call("session/verify", sessionId="a")["problems"]
    assert (problem["kind"], problem["message"]) == ("auditDamaged", warning["message"])
    assert [one for one in Session.open(server, "a").state["warnings"] if one["kind"] == "auditDamaged"] == [warning]


def test_the_audit_of_a_session_of_another_process(start: StartServer) -> None:
    owner, other = start(), start()
    session = Session.open(owner, "a")
    attached = Session.open(other, "a")
    session.call("session/setYolo", yolo=True)
    assert attached.call("session/listAudit")["entries"] == session.call("session/listAudit")["entries"] != []


def test_a_copy_of_a_purged_session_put_back_by_hand_has_its_approvals_off(store: Server, home: Path) -> None:
    deleted(store, "a")
    (folder,) = (home / "trash").glob("a~*")
    copy = home.parent / "copy"
    shutil.copytree(folder, copy)
    store.call("session/purge", sessionId="a")
    shutil.copytree(copy, home / "sessions" / "a")
    assert Session.open(store, "a", create=False).state["approval"]["yolo"] is False
