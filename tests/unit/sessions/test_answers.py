"""What is kept of answers is bounded by bytes, and a repeat gets one all the same (G12, G8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sessions.worlds import USER, World, asked

from timeleap.errors import TooLargeError
from timeleap.features.approvals.switches import set_auto_approve
from timeleap.sessions.documents.request_file import (
    FILE_BYTES,
    LARGE,
    MADE_BY_ONE,
    MADE_REMEMBERED,
    MAX_CHARACTERS,
    REMEMBERED,
    Remembered,
    RequestFile,
    StoredResponse,
    by_age,
    encode,
    fitted,
)
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Shapes

MEGABYTE = 1 << 20
SUBAGENT = "session/putSubagent"


def size(world: World, name: str) -> int:
    return (world.path() / name).stat().st_size


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    left, right = (json.loads(json.dumps(some)) for some in (one, other))
    return {**left, "duplicate": True, "head": 0} == {**right, "head": 0}


def known(name: str, number: int, size: int = 0) -> StoredResponse:
    return fitted(StoredResponse(name, "f", "setTitle", {"head": "h" * size}, number=number))


def cleared(name: str, result: dict[str, Any]) -> StoredResponse:
    return fitted(StoredResponse(name, "f", "clear", result))


def names_of(many: Remembered) -> list[str]:
    return [one.request_id for one in many.oldest_first()]


def test_clients_and_windows_have_bounds_of_their_own() -> None:
    many = Remembered()
    for number in range(1, 4 * MADE_REMEMBERED):
        many.add(known(f"timeleap:w{number % 9}.{number}", number))
        if number % 7 == 0:
            many.add(known(f"r{number}", number))
        if number % 500 == 0:
            many.add(known("timeleap:slow.1", number))
    names = names_of(many)
    clients = [name for name in names if name.startswith("r")]
    assert len(clients) == REMEMBERED and clients[-1] == f"r{(4 * MADE_REMEMBERED - 1) // 7 * 7}"
    assert len(names) - len(clients) == MADE_REMEMBERED and "timeleap:slow.1" in names
    numbers = [one.number for one in many.oldest_first()]
    assert numbers == sorted(numbers)


def test_one_window_uses_up_its_own_share() -> None:
    many = Remembered()
    many.add(known("timeleap:slow.1", 1))
    for number in range(2, 10 * MADE_BY_ONE):
        many.add(known(f"timeleap:busy.{number}", number))
    names = names_of(many)
    assert len(names) == MADE_BY_ONE + 1
    assert "timeleap:slow.1" in names and f"timeleap:busy.{10 * MADE_BY_ONE - 1}" in names


def test_more_than_may_be_kept_is_forgotten_at_a_bearable_price() -> None:
    many = Remembered()
    for number in range(1, 6000):
        many.add(known(f"r{number}", number, 8000))  # nothing of them can be left out
    assert len(many.oldest_first()) == REMEMBERED


def test_the_newest_count_by_age_wherever_they_are_kept() -> None:
    kept = [known(f"k{number}", number) for number in range(1, 3 * REMEMBERED, 3)]
    written = [
        StoredResponse(f"w{number}", "f", "appendMessage", line=number, number=number) for number in range(2, 3000)
    ]
    names = names_of(by_age(kept, written))
    assert len(names) == REMEMBERED
    assert {name for name in names if name.startswith("k")} == {f"k{n}" for n in range(1, 3000, 3) if n >= 2250}
    assert names[-1] == "w2999"


def test_what_was_stored_counts_before_what_stands_in_the_log_and_the_newest_before_both() -> None:
    written = [
        StoredResponse("same", "f", "m", line=1, number=5),
        StoredResponse("reused", "f", "m", line=2, number=9),
    ]
    kept = [known("same", 5), known("reused", 3)]
    table = by_age(kept, written)
    same, reused = table.get("same"), table.get("reused")
    assert same is not None and same.result is not None
    assert reused is not None and (reused.result, reused.number) == (None, 9)


def test_without_numbers_the_newest_of_either_place_count() -> None:
    kept = [known(f"k{number}", 0) for number in range(700)]
    written = [StoredResponse(f"w{number}", "f", "m", line=number) for number in range(700)]
    names = set(names_of(by_age(kept, written)))
    assert names == {f"{place}{number}" for place in "kw" for number in range(200, 700)}


async def test_large_subagents_are_not_kept_again_with_each_request(world: World) -> None:
    world.options["shapes"] = Shapes()
    session = await world.reopened()
    last: dict[str, Any] = {}
    for number in range(6):
        last = await session.put_subagent("coder", f"{number}" * MEGABYTE, asked(f"r{number}", SUBAGENT))
    assert size(world, "requests.jsonl") < 10_000
    assert size(world, "timeleap.json") < 1.1 * MEGABYTE
    for reopened in (False, True):
        session = await world.reopened() if reopened else session
        assert same(last, await session.put_subagent("coder", "5" * MEGABYTE, asked("r5", SUBAGENT)))
        old = await session.put_subagent("coder", "0" * MEGABYTE, asked("r0", SUBAGENT))
        assert old["duplicate"] is True
        assert [one["name"] for one in old["dynamicSubagents"]] == ["coder"]


async def test_a_large_system_prompt_is_not_kept_with_each_rewrite(world: World) -> None:
    session = await world.session()
    await session.set_system_prompt("p" * MEGABYTE)
    await session.append([USER])
    first = await session.clear(True, asked("r", "context/clear"))
    assert size(world, "timeleap.json") < 10_000
    for reopened in (False, True):
        session = await world.reopened() if reopened else session
        again = await session.clear(True, asked("r", "context/clear"))
        assert same(first, again), "of then, whatever came since"
        assert len(again["context"]["systemPrompt"]) == MEGABYTE
        await session.append([USER])


async def test_a_long_note_is_kept_in_part(world: World) -> None:
    world.options["shapes"] = Shapes()
    session = await world.reopened()
    await session.checkpoint("c", False)
    await session.send_dmail("n" * MEGABYTE, checkpoint_id=0, guard=asked("r", "context/sendDMail"))
    await session.deliver_dmail()
    again = await session.send_dmail("n" * MEGABYTE, checkpoint_id=0, guard=asked("r", "context/sendDMail"))
    assert (again["duplicate"], len(again["pendingDMail"]["message"])) == (True, LARGE)


def test_in_memory_the_older_answers_make_room_for_the_newer_ones() -> None:
    table = Remembered()
    for number in range(REMEMBERED + 10):
        table.add(cleared(f"r{number}", {"timelineId": f"t{number}", "context": "c" * (LARGE - 100)}))
    kept = {one.request_id: one for one in table.oldest_first()}
    assert len(kept) == REMEMBERED
    assert table.get("r9") is None
    assert sum(len(json.dumps(one.result)) for one in kept.values()) <= MAX_CHARACTERS
    assert kept["r10"].result == {"timelineId": "t10"}
    assert kept["r10"].left_out == ("context",)
    assert kept[f"r{REMEMBERED + 9}"].left_out == ()


@pytest.mark.long
def test_on_disk_too_and_every_id_stays_known(tmp_path: Path) -> None:
    file = RequestFile(tmp_path)
    for number in range(0, 900, 30):
        results = [cleared(f"r{n}", {"n": n, "context": "c" * (LARGE - 100)}) for n in range(number, number + 30)]
        file.append([encode(one) for one in results])
        assert file.path.stat().st_size < FILE_BYTES + 40 * LARGE
    again = {one.request_id: one for one in RequestFile(tmp_path).read()}
    assert list(again) == [f"r{n}" for n in range(900)]
    assert (again["r0"].result, again["r0"].left_out) == ({"n": 0}, ("context",))
    assert again["r899"].left_out == ()


@pytest.mark.parametrize("what", ["subagent", "title", "note", "action"])
async def test_what_would_make_a_file_unreadable_is_refused_and_nothing_changes(world: World, what: str) -> None:
    session = await world.session()
    await session.checkpoint("c", False)
    await session.put_subagent("coder", "p")
    await session.set_title("t")
    before = {
        name: content for name, content in world.tree().items() if not name.endswith(("audit.jsonl", "requests.jsonl"))
    }
    with pytest.raises(TooLargeError):
        await _too_large(session, what)
    if what != "action":  # a change of approvals that failed is sealed over, so that it can never come into force
        after = {name: content for name, content in world.tree().items() if not name.endswith("audit.jsonl")}
        assert after == before
    for reopened in (False, True):
        session = await world.reopened() if reopened else session
        assert session.warnings == []
        assert (session.facts.title, session.facts.pending_dmail, session.facts.approval.actions) == ("t", None, ())
        assert [one.system_prompt for one in session.facts.subagents] == ["p"]


async def _too_large(session: Session, what: str) -> None:
    text = "x" * (5 * MEGABYTE)
    if what == "subagent":
        await session.put_subagent("tester", text)
    elif what == "title":
        await session.set_title(text)
    elif what == "note":
        await session.send_dmail(text, checkpoint_id=0)
    else:
        await set_auto_approve(session, text, True)


LONG = "x" * (LARGE + 1)


@pytest.mark.parametrize(
    ("result", "left_out"),
    [
        ({"removed": {}, "context": {"systemPrompt": LONG, "head": "h"}}, ("context.systemPrompt",)),
        ({"removed": {}, "context": [LONG]}, ("context",)),
        ({"compacted": True, "summary": LONG, "context": {}, "pins": {}}, ("summary",)),
        ({"dynamicSubagents": [LONG]}, ("dynamicSubagents",)),
        ({"approval": {"autoApproveActions": [LONG]}}, ("approval",)),
        ({"pins": [LONG]}, ("pins",)),
        ({"removed": [LONG], "kept": []}, ()),
        ({"redacted": True, "context": {"systemPrompt": LONG}}, ()),
        ({"purged": [LONG]}, ()),
    ],
)
def test_only_what_the_session_can_tell_again_is_left_out(result: dict[str, Any], left_out: tuple[str, ...]) -> None:
    kept = fitted(StoredResponse("r", "f", "method", result))
    assert kept.left_out == left_out
    assert kept.members == result.keys()


def test_what_was_left_out_once_still_says_whose_result_it_is() -> None:
    first = fitted(StoredResponse("r", "f", "compact", {"compacted": True, "summary": LONG[:1000], "context": [LONG]}))
    again = fitted(first, 256)
    assert again.left_out == ("context", "summary")
    assert again.members == {"compacted", "summary", "context"}
