"""Opaque records and sources: what programs that keep their own conversations here need beside messages."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.support.server import Server
from tests.support.session import Session, assistant, user

MODE = {"role": "_mode", "content": "", "mode": {"b": 1, "a": [None]}}


def opaque(name: str, **members: Any) -> dict[str, Any]:
    return {"record": {"role": f"_{name}", "content": "", **members}}


def _info(server: Server, session_id: str) -> Any:
    (info,) = server.call("session/list", query=session_id)["sessions"]
    return info


def append(session: Session, *items: dict[str, Any], **params: Any) -> dict[str, Any]:
    return session.call("context/appendMessage", messages=list(items), **params)


def test_an_opaque_record_is_kept_and_is_no_part_of_the_history(server: Server) -> None:
    session = Session.open(server)
    done = append(session, user("go"), {"record": MODE}, assistant("gone"))
    assert (done["firstIndex"], done["messageCount"]) == (0, 2)
    assert session.history() == [user("go"), assistant("gone")]
    (line,) = [line for line in session.lines() if line["role"] == "_mode"]
    assert list(line)[:3] == list(MODE)
    assert session.call("session/verify")["ok"] is True


def test_opaque_records_alone_move_the_head_and_are_told_of(server: Server) -> None:
    session = Session.open(server)
    before = session.state["head"]
    done = append(session, opaque("mode"), requestId="r")
    told = server.heard("context/didChange", sessionId=session.id)
    assert (told["kind"], told["head"], told["firstIndex"], told["count"]) == ("messagesAppended", done["head"], 0, 0)
    assert done["head"] != before
    assert append(session, opaque("mode"), requestId="r")["duplicate"] is True
    assert len(session.lines()) == 1


def test_a_revert_takes_them_along_and_an_undo_brings_them_back(server: Server) -> None:
    session = Session.open(server)
    append(session, user("one"), opaque("mode", n=1), user("two"), opaque("mode", n=2))
    session.call("context/revertTo", messageIndex=1)
    assert [record.get("n") for record in session.records()] == [None, 1]
    session.call("context/undo")
    assert [record.get("n") for record in session.records()] == [None, 1, None, 2]


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ({"record": []}, ["record"]),
        (opaque("checkpoint"), ["record", "role"]),
        (opaque("usage"), ["record", "role"]),
        (opaque("Upper"), ["record", "role"]),
        (opaque("n" * 33), ["record", "role"]),
        (opaque(""), ["record", "role"]),
        ({"record": {"role": "user", "content": ""}}, ["record", "role"]),
        ({"record": {"role": "_mode"}}, ["record", "content"]),
        (opaque("mode", _tl={}), ["record", "_tl"]),
        ({"record": MODE, "role": "_mode"}, ["role"]),
    ],
)
def test_what_is_no_opaque_record_is_refused_by_its_place(server: Server, item: Any, place: list[str]) -> None:
    session = Session.open(server)
    error = session.refuse("context/appendMessage", messages=[user("go"), item])
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["loc"] == ["messages", 1, *place]
    assert session.lines() == []


def test_a_name_of_32_characters_is_taken(server: Server) -> None:
    session = Session.open(server)
    append(session, opaque("n" * 32))
    assert len(session.lines()) == 1


def test_a_record_with_other_members_is_a_message_like_any_other(server: Server) -> None:
    session = Session.open(server)
    message = {**user("go"), "record": {"role": "_mode"}}
    append(session, message)
    assert session.history() == [message]


def test_records_are_read_by_role_in_pages_up_to_a_line(server: Server) -> None:
    session = Session.open(server)
    append(session, *(item for number in range(6) for item in (user(str(number)), opaque("mode", n=number))))
    found: list[int] = []
    page = session.call("context/getRecords", roles=["_mode"], to=10, limit=3)
    while True:
        found += [row["record"]["n"] for row in page["records"]]
        if "nextCursor" not in page:
            break
        page = session.call("context/getRecords", cursor=page["nextCursor"], limit=3)
    assert found == [0, 1, 2, 3, 4]


def test_a_cursor_from_before_a_rewrite_is_refused(server: Server) -> None:
    session = Session.open(server)
    append(session, user("one"), user("two"), user("three"))
    cursor = session.call("context/getRecords", limit=1)["nextCursor"]
    session.call("context/revertTo", messageIndex=1)
    assert session.refuse("context/getRecords", cursor=cursor)["code"] == -32801
    assert session.refuse("context/getRecords", cursor="made up")["code"] == -32602


def test_a_session_is_found_by_its_source_which_a_fork_has_not(server: Server) -> None:
    kind = uuid.uuid4().hex  # other tests keep their sessions in the same store
    first, second = {"kind": kind, "key": '["a/b","c"]'}, {"kind": kind, "key": "other"}
    session = Session.open(server, source=first)
    Session.open(server, source=second)
    Session.open(server, source={"kind": f"{kind}-too", "key": "other"})
    fork = session.call("session/fork")

    def found(**source: str) -> list[Any]:
        return [info["source"] for info in server.call("session/list", source=source)["sessions"]]

    assert found(kind=kind, key=first["key"]) == [first]
    assert sorted(found(kind=kind), key=str) == sorted([first, second], key=str)
    assert found(kind=f"{kind}-none") == []
    assert "source" not in _info(server, fork["sessionId"])


def test_the_source_stays_what_it_was_when_the_session_was_made(server: Server) -> None:
    session = Session.open(server, source={"kind": "agent", "key": "a"})
    session.call("session/close")
    session.reopen(server, source={"kind": "agent", "key": "b"})
    assert _info(server, session.id)["source"] == {"kind": "agent", "key": "a"}


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({"kind": "agent"}, ["source", "key"]),
        ({"kind": "", "key": "a"}, ["source", "kind"]),
        ({"kind": "agent", "key": "a" * 4097}, ["source", "key"]),
        ({"kind": "k" * 65, "key": "a"}, ["source", "kind"]),
    ],
)
def test_a_source_that_is_none_is_refused(server: Server, source: Any, place: list[str]) -> None:
    error = server.refuse("session/open", source=source)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, place)
