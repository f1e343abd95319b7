"""`context/diff`: any two of a checkpoint, a timeline and the present, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import at_least
from tests.support.server import Message
from tests.support.session import Session, assistant, user

PRESENT: Message = {}


def timeline(name: str) -> Message:
    return {"timelineId": name}


def checkpoint(one: Message) -> Message:
    return {"checkpointUid": one["uid"]}


def diff(session: Session, one: Message, other: Message, **params: Any) -> Message:
    return dict(session.call("context/diff", **{"from": one, "to": other}, **params))


def shown(side: list[Message]) -> list[tuple[int, str]]:
    return [(entry["index"], entry["message"]["content"]) for entry in side]


@pytest.fixture
def told(session: Session) -> Session:
    """Three turns, back to the second, and on from there: `b` instead of `a`."""
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    for number in range(3):
        session.checkpoint(label=f"turn {number}")
        session.append(user(f"a{number}"))
        session.call("context/updateTokenCount", tokenCount=10 * (number + 1))
    session.call("context/revertTo", checkpointId=1)
    session.call("context/setSystemPrompt", systemPrompt="be brief")
    session.append(user("b1"))
    return session


def test_a_timeline_and_the_present(told: Session) -> None:
    assert diff(told, timeline("context_1"), PRESENT) == {
        "common": 1,
        "removed": [{"index": 1, "message": user("a1")}, {"index": 2, "message": user("a2")}],
        "added": [{"index": 1, "message": user("b1")}],
        "removedCount": 2,
        "addedCount": 1,
        "tokens": {"from": 30, "to": 10},
        "state": {
            "from": {"messageCount": 3, "checkpointCount": 3, "tokenCount": 30, "systemPrompt": "be kind"},
            "to": {"messageCount": 2, "checkpointCount": 1, "tokenCount": 10, "systemPrompt": "be brief"},
        },
    }
    turned = diff(told, PRESENT, timeline("context_1"))
    assert (shown(turned["removed"]), shown(turned["added"])) == ([(1, "b1")], [(1, "a1"), (2, "a2")])


def test_something_and_itself(told: Session) -> None:
    for side in (PRESENT, timeline("context_1")):
        assert diff(told, side, side) == at_least({"removed": [], "added": [], "removedCount": 0, "addedCount": 0})


def test_a_checkpoint_stands_for_what_is_before_it(told: Session) -> None:
    made = told.checkpoint(label="here")
    told.append(user("later"))
    result = diff(told, checkpoint(made), PRESENT)
    assert (result["common"], shown(result["removed"]), shown(result["added"])) == (2, [], [(2, "later")])
    assert result["state"]["from"]["messageCount"] == made["messageCount"] == 2


def test_a_checkpoint_that_only_a_timeline_has(told: Session) -> None:
    gone = told.call("context/listCheckpoints", timelineId="context_1", order="asc")["checkpoints"]
    result = diff(told, checkpoint(gone[2]), PRESENT)
    assert (result["common"], shown(result["removed"]), shown(result["added"])) == (1, [(1, "a1")], [(1, "b1")])
    result = diff(told, checkpoint(gone[0]), checkpoint(gone[2]))
    assert (result["common"], shown(result["removed"]), shown(result["added"])) == (0, [], [(0, "a0"), (1, "a1")])


def test_two_timelines(told: Session) -> None:
    told.call("context/clear")
    result = diff(told, timeline("context_1"), timeline("context_2"))
    assert (result["common"], shown(result["removed"]), shown(result["added"])) == (
        1,
        [(1, "a1"), (2, "a2")],
        [(1, "b1")],
    )
    result = diff(told, timeline("context_2"), PRESENT)
    assert (result["common"], shown(result["removed"]), shown(result["added"])) == (0, [(0, "a0"), (1, "b1")], [])


def test_messages_said_again_are_common_whatever_stands_between_them(told: Session) -> None:
    told.call("context/clear", keepSystemPrompt=False)
    for text in ("a0", "a1"):
        told.checkpoint()
        told.append(user(text), requestId=f"again-{text}")
    result = diff(told, timeline("context_1"), PRESENT)
    assert (result["common"], shown(result["removed"]), shown(result["added"])) == (2, [(2, "a2")], [])


def test_a_compaction_can_be_compared_with_what_it_replaced(told: Session) -> None:
    told.append(assistant("x " * 400), user("y " * 400), assistant("z " * 400))
    done = told.call("context/compact", summary="short", maxPreservedMessages=1)
    result = diff(told, timeline(done["timelineId"]), PRESENT)
    assert result["common"] == 0
    assert (result["removedCount"], result["addedCount"]) == (5, 2)


def test_pages_show_all_of_it_once(told: Session) -> None:
    told.append(*(user(f"b{number}") for number in range(2, 7)))
    whole = diff(told, timeline("context_1"), PRESENT)
    assert "nextCursor" not in whole
    for limit in (1, 2, 3, 7, 8):
        page = diff(told, timeline("context_1"), PRESENT, limit=limit)
        removed, added = page["removed"], page["added"]
        while "nextCursor" in page:
            told.append(user("not in the comparison that was begun"))
            page = diff(told, timeline("context_1"), PRESENT, limit=limit, cursor=page["nextCursor"])
            assert len(page["removed"]) + len(page["added"]) <= limit
            assert page == at_least({"common": 1, "removedCount": 2, "addedCount": 6, "state": whole["state"]})
            removed, added = removed + page["removed"], added + page["added"]
        assert (removed, added) == (whole["removed"], whole["added"])
        told.call("context/revertTo", checkpointUid=told.checkpoint()["uid"])  # nothing but another era
        told.call("context/restoreTimeline", timelineId="context_1")
        told.call("context/revertTo", checkpointId=1)
        told.call("context/setSystemPrompt", systemPrompt="be brief")
        told.append(*(user(f"b{number}") for number in range(1, 7)))


def test_a_page_ends_before_it_is_too_large(session: Session) -> None:
    session.append(*(user(str(number) * 1000) for number in range(10)))
    session.call("context/clear")
    page = diff(session, timeline("context_1"), PRESENT, maxBytes=3500)
    assert [entry["index"] for entry in page["removed"]] == [0, 1, 2]
    assert [entry["index"] for entry in diff(session, timeline("context_1"), PRESENT, maxBytes=1)["removed"]] == [0]


def test_cursors_of_other_comparisons_are_refused(told: Session) -> None:
    cursor = diff(told, timeline("context_1"), PRESENT, limit=1)["nextCursor"]
    for one, other, given in (
        (PRESENT, timeline("context_1"), cursor),
        (timeline("context_1"), PRESENT, "made up"),
        (PRESENT, PRESENT, cursor),
    ):
        error = told.refuse("context/diff", **{"from": one, "to": other, "cursor": given})
        assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["cursor"])
    told.call("context/clear")
    error = told.refuse("context/diff", **{"from": timeline("context_1"), "to": PRESENT, "cursor": cursor})
    assert (error["code"], error["data"]["head"]) == (-32801, told.head)


@pytest.mark.parametrize(
    ("side", "code"),
    [({"timelineId": "context_99"}, 4009), ({"timelineId": "../x"}, 4009), ({"checkpointUid": "c0-0"}, 4002)],
)
def test_what_does_not_exist_is_said_not_to(told: Session, side: Message, code: int) -> None:
    for params in ({"from": side, "to": PRESENT}, {"from": PRESENT, "to": side}):
        assert told.refuse("context/diff", **params)["code"] == code


def test_a_side_is_one_thing(told: Session) -> None:
    both = {"timelineId": "context_1", "checkpointUid": "c0-0"}
    error = told.refuse("context/diff", **{"from": both, "to": PRESENT})
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["from"])


def rewrite(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


def test_a_deleted_timeline_is_not_found(told: Session) -> None:
    (told.path / "context_1.jsonl").unlink()
    error = told.refuse("context/diff", **{"from": timeline("context_1"), "to": PRESENT})
    assert (error["code"], error["data"]["kind"]) == (4009, "timelineNotFound")


@pytest.mark.parametrize("damage", ["changed", "not JSON", "shortened", "torn"])
def test_a_damaged_timeline_is_not_compared_with_a_hole_in_it(told: Session, damage: str) -> None:
    path = told.path / "context_1.jsonl"
    good = path.read_bytes()
    last = good.rindex(b'{"role":"user"')
    rewrite(
        path,
        {
            "changed": good.replace(b'"a2"', b'"aX"'),
            "not JSON": good.replace(b'"a2"', b'"a2;'),
            "shortened": good[:last],
            "torn": good[: last + 9],
        }[damage],
    )
    for sides in ((timeline("context_1"), PRESENT), (PRESENT, timeline("context_1"))):
        error = told.refuse("context/diff", **{"from": sides[0], "to": sides[1]})
        assert (error["code"], error["data"]["kind"]) == (4014, "corrupted"), error
        assert error["data"]["offset"] >= last
    rewrite(path, good)
    assert diff(told, timeline("context_1"), PRESENT)["removedCount"] == 2


def test_damage_that_both_have_always_had_does_not_matter(start: StartServer, home: Path) -> None:
    directory = home / "sessions" / "old"
    directory.mkdir(parents=True, mode=0o700)
    lines = [json.dumps(user("one")), "{broken", '{"role": "_checkpoint", "id": 0}', json.dumps(user("two"))]
    (directory / "context.jsonl").write_text("\n".join(lines) + "\n")
    session = Session.open(start(), "old")
    session.checkpoint()
    session.append(user("three"))
    made = session.call("context/listCheckpoints")["checkpoints"][0]
    result = diff(session, checkpoint(made), PRESENT)
    assert (result["common"], shown(result["added"])) == (2, [(2, "three")])


def test_the_attached_compare_like_the_owner(start: StartServer) -> None:
    owner = Session.open(start())
    owner.append(user("one"))
    made = owner.checkpoint()
    owner.append(user("two"))
    attached = owner.reopen(start("ndjson"))
    assert diff(attached, checkpoint(made), PRESENT) == diff(owner, checkpoint(made), PRESENT)
