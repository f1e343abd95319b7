"""Methods on a store in a database, asked of one process about what another one has made."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.support.machines import Serve
from tests.support.server import Launch, Message, Server
from tests.support.session import Session, assistant, user

SECRET = "Tr0ub4dor-and-3"


@pytest.fixture
def serve(serve: Serve, url: str) -> Serve:
    """The same, always on the database of the test."""
    return partial(serve, url)


def rows(url: str) -> dict[str, bytes]:
    """By table: all that the store's tables hold."""
    found = {}
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (name,) in names:
            with connection.cursor().copy(f"COPY (SELECT t.*::text FROM {name} t) TO STDOUT") as copied:
                found[name] = b"".join(bytes(each) for each in copied)
    return found


def holding(url: str, text: str) -> list[str]:
    """The tables that hold a text; columns of bytes are shown as hexadecimal digits."""
    forms = (text.encode(), text.encode().hex().encode())
    return [name for name, data in rows(url).items() if any(form in data for form in forms)]


def test_a_session_of_another_process_is_exported_and_imported(serve: Serve, tmp_path: Path) -> None:
    session = Session.open(serve(), "s", title="T")
    session.append(user("one"), assistant("two"))
    other = serve()
    exported = other.call("session/export", sessionId="s", format="native", path=str(tmp_path / "s.zip"))
    assert Path(exported["path"]).stat().st_size == exported["bytes"]
    made = other.call("session/import", path=str(tmp_path / "s.zip"), sessionId="again")
    assert made["sessionId"] == "again"
    again = Session.open(session.server, "again")
    assert again.texts() == ["one", "two"]
    assert session.refuse("session/import", path=str(tmp_path / "s.zip"))["code"] == 4016


def test_all_sessions_are_searched_and_nothing_of_them_stays_here(serve: Serve) -> None:
    writer, reader = serve(), serve()
    for name in ("a", "b"):
        session = Session.open(writer, name)
        session.say(f"the needle of {name}", "hay")
        session.call("session/close")
    found = reader.call("session/search", query="needle", excerpts=True)
    assert {(match["sessionId"], match["index"]) for match in found["matches"]} == {("a", 0), ("b", 0)}
    (store,) = [path for path in (reader.home / "copies").iterdir() if path.is_dir()]
    assert not list(store.rglob("context.jsonl"))
    Session.open(writer, "a").say("another needle")
    assert len(reader.call("session/search", query="needle")["matches"]) == 3


def test_what_is_stored_is_measured_once(serve: Serve, url: str) -> None:
    session = Session.open(serve(), "s")
    session.say("kept " * 10_000)
    session.checkpoint()
    session.say("gone " * 10_000)
    other = serve()
    before = other.call("session/storage")
    session.call("context/revertTo", checkpointId=0)
    after = other.call("session/storage")
    (space,) = after["sessions"]
    assert (space["sessionId"], space["timelineCount"]) == ("s", 1)
    assert after["totalBytes"] - before["totalBytes"] < 4096
    one = other.call("session/storage", sessionId="s")["sessions"][0]
    assert one["bytes"] == space["bytes"] == sum(file["bytes"] for file in one["files"])
    assert other.refuse("session/storage", sessionId="none")["code"] == 4001


def test_a_timeline_that_a_fork_elsewhere_came_from_is_not_pruned(serve: Serve) -> None:
    session, other = Session.open(serve(), "s"), serve()
    session.say("one")
    session.checkpoint()
    later = session.checkpoint()
    timeline = session.call("context/revertTo", checkpointId=0)["timelineId"]
    other.call("session/fork", sessionId="s", timelineId=timeline, checkpointUid=later["uid"], newSessionId="f")
    pruned = session.call("session/prune", timelineIds=[timeline])
    assert (pruned["removed"], pruned["kept"]) == ([], [{"timelineId": timeline, "reason": "fork"}])


def test_the_audit_of_a_session_that_is_not_open_here(serve: Serve) -> None:
    session = Session.open(serve(), "s")
    session.say(SECRET)
    session.call("session/redact", value=SECRET)
    entries = serve().call("session/listAudit", sessionId="s")["entries"]
    assert [entry["field"] for entry in entries] == ["redaction"]


def test_repair_and_reload(serve: Serve) -> None:
    session = Session.open(serve(), "s")
    session.say("one")
    assert session.call("session/repair")["removedLines"] == 0
    assert session.call("session/reload")["context"]["messageCount"] == 1
    session.say("two")
    assert Session.open(serve(), "s").texts() == ["one", "two"]


def test_nothing_of_a_redacted_text_is_left_in_the_database(serve: Serve, url: str) -> None:
    session = Session.open(serve(), "s", title=f"about {SECRET}")
    other = session.reopen(serve())
    session.say("before")
    session.checkpoint()
    session.append(user(f"it is {SECRET}"), requestId=f"r {SECRET}")
    session.checkpoint(label=SECRET)
    session.say("after")
    session.call("context/revertTo", checkpointId=0)  # the timeline has it, and shares its beginning with the log
    session.say("on")
    session.call("context/checkpoint")
    session.say(f"again {SECRET}")
    session.call("context/revertTo", checkpointId=0, requestId="back")
    session.call("context/undo")
    assert holding(url, SECRET)
    done = session.call("session/redact", value=SECRET, requestId="redact")
    assert done["redacted"] is True
    assert holding(url, SECRET) == []

    def redacted(message: Message) -> bool:
        return bool(message.get("params", {}).get("kind") == "redacted")

    told = other.server.wait_for(redacted)["params"]
    assert (told["head"], told["cause"]) == (done["head"], {"requestId": "redact", "client": "client1"})
    assert other.texts() == session.texts() == ["before", "on", "again [redacted]"]
    assert other.get_state()["title"] == "about [redacted]"
    copies = [path for server in (session.server, other.server) for path in (server.home / "copies").rglob("*")]
    assert copies
    assert not [path for path in copies if path.is_file() and SECRET.encode() in path.read_bytes()]
    for timeline in other.timelines():
        assert SECRET not in str(other.texts(timelineId=timeline["timelineId"]))
    assert other.call("session/verify")["ok"] is True


def test_what_only_other_logs_begin_with_is_cut_where_they_part(serve: Serve, url: str) -> None:
    """A timeline may share its beginning with a log that holds the text behind it."""
    session = Session.open(serve(), "s")
    session.say("shared " * 100)
    session.checkpoint()
    session.say("the timeline's own")
    session.call("context/revertTo", checkpointId=0)
    session.say(f"the log's own: {SECRET}")
    session.call("session/redact", value=SECRET)
    assert holding(url, SECRET) == []
    (timeline,) = session.timelines()
    other = session.reopen(serve())
    assert other.texts(timelineId=timeline["timelineId"])[-1] == "the timeline's own"
    assert other.call("session/verify")["ok"] is True


def test_other_sessions_that_hold_a_redacted_text_are_named(serve: Serve) -> None:
    a, b = serve(), serve()
    for name in ("s", "t", "u", "v"):
        session = Session.open(a, name)
        session.say(SECRET if name != "u" else "nothing")
        session.call("session/close")
    a.call("session/delete", sessionId="v")
    (gone,) = a.call("session/listTrash")["sessions"]
    assert b.call("session/redact", sessionId="s", value=SECRET, store=True)["alsoIn"] == ["t", "v"]
    done = b.call("session/redact", sessionId="v", value=SECRET, deletedAt=gone["deletedAt"], store=True)
    assert (done["occurrences"], done["alsoIn"]) == (1, ["t"])


def here(server: Server) -> list[str]:
    """The files of a machine that hold the secret."""
    found = (path for path in server.home.rglob("*") if path.is_file())
    return [str(path) for path in found if SECRET.encode() in path.read_bytes()]


def test_a_session_in_the_trash_is_redacted(serve: Serve, url: str) -> None:
    a, b = serve(), serve()
    session = Session.open(a, "s", title=f"T {SECRET}")
    session.say("one", SECRET)
    session.checkpoint()
    session.say(f"the timeline's own {SECRET}")
    session.call("context/revertTo", checkpointId=0)
    session.call("session/close")
    a.call("session/delete", sessionId="s")
    (gone,) = b.call("session/listTrash")["sessions"]
    asked = {"sessionId": "s", "value": SECRET, "deletedAt": gone["deletedAt"]}
    planned = b.call("session/redact", **asked, dryRun=True)
    assert planned["redacted"] and holding(url, SECRET)
    done = b.call("session/redact", **asked, requestId="r")
    assert done["occurrences"] == planned["occurrences"] >= 4
    assert (holding(url, SECRET), here(b)) == ([], [])
    assert a.call("session/redact", **asked, requestId="r")["duplicate"] is True
    assert [each["title"] for each in a.call("session/listTrash")["sessions"]] == ["T [redacted]"]
    assert here(a) == []
    a.call("session/undelete", sessionId="s")
    again = Session.open(b, "s")
    assert again.texts() == ["one", "[redacted]"]
    assert again.texts(timelineId=again.timelines()[0]["timelineId"])[-1] == "the timeline's own [redacted]"
    assert again.call("session/verify")["ok"] is True


def test_a_redaction_reaches_earlier_sessions_of_the_same_id(serve: Serve, url: str) -> None:
    a, b = serve(), serve()
    for text in (f"earlier {SECRET}", f"now {SECRET}"):
        if text.startswith("now"):
            a.call("session/delete", sessionId="s")
        Session.open(a, "s").say(text)
    session = Session.open(b, "s")
    assert b.call("session/redact", sessionId="s", value=SECRET, dryRun=True)["occurrences"] == 2
    done = session.call("session/redact", value=SECRET)
    assert sorted(each.get("trash", "")[:2] for each in done["files"]) == ["", "s~"]
    assert (holding(url, SECRET), here(b)) == ([], [])
    assert session.texts() == ["now [redacted]"]


# The trash


def trashed(server: Server) -> list[tuple[str, int]]:
    """Id and number of messages of what is in the trash."""
    return [(each["sessionId"], each["messageCount"]) for each in server.call("session/listTrash")["sessions"]]


def test_a_session_is_deleted_here_and_brought_back_there(serve: Serve, url: str) -> None:
    a, b = serve(), serve()
    session = Session.open(a, "s", title="T")
    session.say("one", "two")
    session.checkpoint()
    session.call("context/revertTo", checkpointId=0)
    head = session.head
    session.call("session/close")
    assert a.call("session/delete", sessionId="s", requestId="d") == {}
    assert (trashed(a), trashed(b)) == ([("s", 2)], [("s", 2)])
    assert b.call("session/list")["sessions"] == []
    assert b.refuse("session/open", sessionId="s", create=False)["code"] == 4001
    (one,) = b.call("session/listTrash")["sessions"]
    assert one["path"].startswith(f"{url.replace('timeleap@', '')}#s~")
    Session.open(b, "s").say("a namesake")
    assert a.refuse("session/undelete", sessionId="s")["code"] == 4016
    b.call("session/delete", sessionId="s")
    assert trashed(a) == [("s", 1), ("s", 2)]
    a.call("session/purge", sessionId="s", deletedAt=a.call("session/listTrash")["sessions"][0]["deletedAt"])
    b.call("session/undelete", sessionId="s")
    again = Session.open(a, "s")
    assert (again.head, again.get_state()["title"], again.texts()) == (head, "T", ["one", "two"])
    assert len(again.timelines()) == 1
    assert again.call("session/verify")["ok"] is True


def test_a_window_elsewhere_hears_that_its_session_is_deleted(serve: Serve) -> None:
    Session.open(one := serve(), "s").call("session/close")
    one.call("session/delete", sessionId="s", requestId="another")  # of an earlier session of that id
    session = Session.open(one, "s")
    other = session.reopen(serve())
    session.call("session/delete", requestId="gone")

    def deleted(message: Message) -> bool:
        return bool(message.get("params", {}).get("kind") == "deleted")

    told = other.server.wait_for(deleted)["params"]
    assert (told["sessionId"], told["cause"]) == ("s", {"requestId": "gone", "client": "client1"})
    assert other.refuse("context/appendMessage", message=user("late"))["code"] in (4001, 4013)  # it is being closed
    Session.open(other.server, "s").say("a new one")
    assert Session.open(session.server, "s").texts() == ["a new one"]


def test_a_repeat_elsewhere_deletes_and_brings_back_once(serve: Serve) -> None:
    a, b = serve(), serve()
    Session.open(a, "s").call("session/close")
    a.call("session/delete", sessionId="s", requestId="d")
    assert b.call("session/delete", sessionId="s", requestId="d") == {"duplicate": True}
    b.call("session/undelete", sessionId="s", requestId="u")
    assert a.call("session/undelete", sessionId="s", requestId="u") == {"duplicate": True}
    assert a.call("session/delete", sessionId="s", requestId="d") == {"duplicate": True}
    assert [each["sessionId"] for each in a.call("session/list")["sessions"]] == ["s"]


def test_a_repeat_elsewhere_makes_one_session(serve: Serve) -> None:
    a, b = serve(), serve()
    made = a.call("session/open", title="T", requestId="o")
    again = b.call("session/open", title="T", requestId="o")
    assert (again["sessionId"], again["duplicate"]) == (made["sessionId"], True)
    assert len(b.call("session/list")["sessions"]) == 1


def test_what_is_purged_is_in_no_table(serve: Serve, url: str) -> None:
    a, b = serve(), serve()
    session = Session.open(a, "s")
    session.say("one", SECRET)
    session.checkpoint()
    session.say("two")
    session.call("context/revertTo", checkpointId=0)
    session.call("session/delete")
    kept = b.call("session/purge", sessionId="s", dryRun=True)
    assert holding(url, SECRET)
    done = b.call("session/purge", sessionId="s", requestId="p")
    assert (done["purged"], done["bytes"] > 0) == (kept["purged"], True)
    assert (holding(url, SECRET), trashed(a)) == ([], [])
    assert a.call("session/purge", sessionId="s", requestId="p") == {**done, "duplicate": True}
    assert a.refuse("session/purge", sessionId="s")["code"] == 4001
    assert a.call("session/purge", olderThan=0) == {"purged": [], "bytes": 0}
    assert a.call("session/storage")["totalBytes"] == 0


@pytest.mark.no_tables
def test_a_store_of_the_first_schema_is_brought_up_to_date(serve: Serve, url: str) -> None:
    from timeleap_postgresql.migrations import MIGRATIONS

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE timeleap_schema (version int NOT NULL)")
        connection.execute("INSERT INTO timeleap_schema VALUES (1)")
        connection.execute(MIGRATIONS[0])
        connection.execute(f"CREATE ROLE r{url[-8:]} LOGIN")
        connection.execute(f"GRANT SELECT ON timeleap_schema TO r{url[-8:]}")
    little = Server(
        Launch(serve().home.parent / "h2", "lsp", args=["--store", url.replace("timeleap@", f"r{url[-8:]}@")])
    )
    try:
        little.initialize()
        error = little.refuse("session/list")
        assert (error["data"]["reason"], "timeleap store init" in error["message"]) == ("rights", True)
    finally:
        little.dispose()
    session = Session.open(serve(), "s")
    session.call("session/delete")
    assert trashed(serve()) == [("s", 0)]
