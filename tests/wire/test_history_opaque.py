"""`context/getHistory` with `include: ["opaque"]`: opaque records in place among the messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.scene import Two
from tests.support.server import Server
from tests.support.session import Session, assistant, user

Entries = list[dict[str, Any]]


def opaque(number: int, **members: Any) -> dict[str, Any]:
    return {"role": "_mode", "content": "", "n": number, **members}


def append(session: Session, *items: dict[str, Any], **params: Any) -> None:
    """Messages, and records, which their roles tell apart."""
    messages = [{"record": item} if item["role"].startswith("_") else item for item in items]
    session.call("context/appendMessage", messages=messages, **params)


def told(session: Session, **params: Any) -> Entries:
    """All pages, one after another."""
    page = session.call("context/getHistory", include=["opaque"], **params)
    found = list(page["messages"])
    while "nextCursor" in page:
        again = {name: params[name] for name in ("limit", "maxBytes") if name in params}
        page = session.call("context/getHistory", cursor=page["nextCursor"], **again)
        found += page["messages"]
    return found


def numbers(entries: Entries) -> list[Any]:
    """The indexes of messages, and the numbers of records as text."""
    return [entry["index"] if "index" in entry else str(entry["record"]["n"]) for entry in entries]


@pytest.fixture
def mixed(session: Session) -> Session:
    """Records 0 and 1 before all, 2 and 3 between the first messages, 4 behind a checkpoint, 5 at the end."""
    append(session, opaque(0), opaque(1), user("one"), opaque(2), opaque(3), assistant("two"))
    session.checkpoint(label="here")
    append(session, opaque(4), user("three"), opaque(5))
    return session


def test_records_stand_where_they_stand_in_the_log_with_their_lines(mixed: Session) -> None:
    found = told(mixed)
    assert numbers(found) == ["0", "1", 0, "2", "3", 1, "4", 2, "5"]
    assert found[0] == {"line": 0, "record": opaque(0)}
    assert [entry["line"] for entry in found if "line" in entry] == [0, 1, 3, 4, 7, 9]
    assert found[2] == mixed.call("context/getHistory", limit=1)["messages"][0]


def test_without_include_nothing_changes(mixed: Session) -> None:
    plain = mixed.call("context/getHistory")
    assert numbers(plain["messages"]) == [0, 1, 2]
    assert mixed.call("context/getHistory", include=[]) == plain


def test_newest_first_is_the_same_the_other_way_round(mixed: Session) -> None:
    assert told(mixed, order="desc") == told(mixed)[::-1]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("bounds", [{"limit": 1}, {"limit": 3}, {"maxBytes": 1}, {"maxBytes": 100}])
def test_pages_give_each_entry_once_and_no_more_than_the_limit(mixed: Session, order: str, bounds: Any) -> None:
    assert told(mixed, order=order, **bounds) == told(mixed, order=order)
    page = mixed.call("context/getHistory", include=["opaque"], order=order, **bounds)
    assert len(page["messages"]) <= bounds.get("limit", 1)


def test_a_range_has_the_records_behind_its_messages(mixed: Session) -> None:
    assert numbers(told(mixed, to=1)) == ["0", "1", 0, "2", "3"]
    assert numbers(told(mixed, **{"from": 1, "to": 2})) == [1, "4"]
    assert numbers(told(mixed, **{"from": 2})) == [2, "5"]
    assert told(mixed, **{"from": 3}) == told(mixed, **{"from": 2, "to": 1}) == []


def test_a_checkpoint_has_the_records_up_to_the_next_one(mixed: Session) -> None:
    uid = mixed.call("context/listCheckpoints")["checkpoints"][0]["uid"]
    assert numbers(told(mixed, checkpointUid=uid)) == ["4", 2, "5"]
    mixed.checkpoint(label="next")
    append(mixed, opaque(6))
    assert numbers(told(mixed, checkpointUid=uid, limit=1)) == ["4", 2, "5"]


def test_a_page_among_many_records_of_ours_may_be_empty_and_has_a_next_one(session: Session) -> None:
    for number in range(4):
        session.checkpoint(label=str(number))
    append(session, opaque(0))
    page = session.call("context/getHistory", include=["opaque"], limit=4)
    assert page["messages"] == [] and "nextCursor" in page
    assert numbers(told(session, limit=4)) == ["0"]


def test_meta_stays_with_messages_and_no_mark_of_ours_is_shown(session: Session) -> None:
    append(session, user("a"), opaque(0), requestId="r1")
    message, record = told(session)
    assert message["meta"]["requestId"] == "r1"
    assert record == {"line": 1, "record": opaque(0)}


def test_a_timeline_is_read_in_the_same_way(mixed: Session) -> None:
    before = told(mixed)
    timeline = mixed.call("context/clear")["timelineId"]
    assert told(mixed) == []
    assert told(mixed, timelineId=timeline, limit=2) == before


def test_what_a_redaction_took_out_of_a_record_is_out(session: Session) -> None:
    append(session, user("go"), opaque(0, key="hunter2-hunter2"))
    session.call("session/redact", value="hunter2-hunter2")
    _, record = told(session)
    assert "hunter2" not in str(record) and record["record"]["n"] == 0


def test_a_cursor_from_before_a_rewrite_is_refused_and_one_made_up_too(mixed: Session) -> None:
    cursor = mixed.call("context/getHistory", include=["opaque"], limit=1)["nextCursor"]
    mixed.call("context/revertTo", messageIndex=1)
    assert mixed.refuse("context/getHistory", cursor=cursor)["code"] == -32801


@pytest.mark.parametrize("include", ["opaque", ["everything"], [1], {}])
def test_what_else_is_to_be_included_is_refused_by_its_place(mixed: Session, include: Any) -> None:
    error = mixed.refuse("context/getHistory", include=include)
    assert (error["code"], error["data"]["errors"][0]["loc"][0]) == (-32602, "include")


def test_a_body_for_a_provider_has_no_records(mixed: Session) -> None:
    error = mixed.refuse("context/getHistory", format="openai", include=["opaque"])
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["include"])


def test_an_attached_window_is_given_the_same(two: Two) -> None:
    append(two.owner, user("one"), opaque(0), user("two"))
    found = told(two.owner)
    assert "0" in numbers(found)
    assert told(two.attached, limit=2) == found


ITEM = st.sampled_from(["message", "record", "checkpoint", "tokens"])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=st.lists(ITEM, max_size=12), limit=st.integers(1, 5), order=st.sampled_from(["asc", "desc"]))
def test_the_messages_are_the_same_with_records_and_without(
    server: Server, log: list[str], limit: int, order: str
) -> None:
    session = Session.open(server)
    for number, kind in enumerate(log):
        if kind == "checkpoint":
            session.checkpoint(label=str(number))
        elif kind == "tokens":
            session.call("context/updateTokenCount", tokenCount=number)
        else:
            append(session, user(str(number)) if kind == "message" else opaque(number))
    found = told(session, limit=limit, order=order)
    plain = session.call("context/getHistory", order=order)["messages"]
    assert [entry for entry in found if "index" in entry] == plain
    records = session.call("context/getRecords", roles=["_mode"])["records"]
    shown = [entry for entry in found if "line" in entry]
    assert shown == (records if order == "asc" else records[::-1])
