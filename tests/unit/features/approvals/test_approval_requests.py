"""Approvals that are asked: what the approvals of a session decide, and what an audit leaves open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from timeleap.attach.notified import MAX_KNOWN, NotifiedApprovals
from timeleap.features.approvals.requests import automatic
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.audit import FIELD, MAX_PENDING, Audit, ends, left_open
from timeleap.sessions.shapes import APPROVAL_REQUESTED as REQUESTED
from timeleap.sessions.shapes import APPROVAL_RESOLVED as RESOLVED
from timeleap.sessions.shapes import Approval


@pytest.mark.parametrize(
    ("approval", "decided"),
    [
        (Approval(), None),
        (Approval(actions=("b",)), None),
        (Approval(actions=("a", "b")), ("approve", "autoApprove")),
        (Approval(yolo=True, actions=("a",)), ("approve", "yolo")),
        (Approval(afk=True), ("reject", "afk")),
        (Approval(afk=True, actions=("a",)), ("approve", "autoApprove")),
        (Approval(afk=True, yolo=True), ("approve", "yolo")),
    ],
)
def test_what_the_approvals_of_a_session_decide(approval: Approval, decided: Any) -> None:
    assert automatic(approval, "a") == decided


def entry(number: int, to: str, **members: Any) -> dict[str, Any]:
    return {"field": FIELD, "approvalId": f"a{number:016x}", "to": to, "time": "t", **members}


def test_what_has_no_end_is_open() -> None:
    entries = [
        entry(1, "pending"),
        entry(2, "pending"),
        entry(1, "approve"),
        entry(3, "cancelled"),
        entry(2, "pending"),
    ]
    assert list(left_open(entries)) == [entry(2, "pending")["approvalId"]]
    assert left_open([*entries, entry(2, "timedOut")]) == {}


def test_what_is_asked_again_after_its_end_is_open_again() -> None:
    assert len(left_open([entry(1, "pending"), entry(1, "cancelled"), entry(1, "pending")])) == 1


def test_only_the_newest_word_on_a_request_is_its_end() -> None:
    names = [entry(number, "")["approvalId"] for number in range(5)]
    ended = entry(0, "approve", who="w")
    said = [
        entry(0, "pending"),
        entry(0, "timedOut"),
        ended,
        entry(1, "reject"),
        entry(1, "pending"),
        entry(3, "pending"),
    ]
    assert ends([*said, entry(4, "reject"), {}, {"field": FIELD, "approvalId": []}], names[:4]) == {names[0]: ended}


def test_no_more_are_open_than_there_may_be() -> None:
    found = left_open(entry(number, "pending") for number in range(3 * MAX_PENDING))
    assert list(found) == [entry(number, "")["approvalId"] for number in range(2 * MAX_PENDING, 3 * MAX_PENDING)]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"field": FIELD},
        {"field": FIELD, "approvalId": 7, "to": "pending"},
        {"field": FIELD, "approvalId": ["a"], "to": "pending"},
        {"field": FIELD, "approvalId": "x" * 1_000_000, "to": "pending"},
        {"field": "yolo", "approvalId": "a" + "0" * 16, "to": "pending"},
    ],
)
def test_what_somebody_wrote_into_an_audit_is_not_believed(odd: dict[str, Any]) -> None:
    assert left_open([odd]) == {}


def test_the_end_of_a_file_of_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    assert files.read_last_lines(path, 1000, containing=b"n") == []
    files.append_lines(path, [{"n": number} for number in range(1000)])
    assert [found["n"] for found in files.read_last_lines(path, 35, containing=b'"n"')] == [997, 998, 999]
    assert len(files.read_last_lines(path, 1 << 20, containing=b'"n"')) == 1000
    assert [found["n"] for found in files.read_last_lines(path, 1 << 20, containing=b":99}")] == [99]
    with path.open("ab") as file:
        file.write(b'{"n')
    assert [found["n"] for found in files.read_last_lines(path, 30, containing=b'"n"')] == [998, 999]
    assert files.read_last_lines(tmp_path, 100, containing=b"n") == []  # a directory


def test_questions_are_found_however_much_lies_behind_them(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    assert audit.questions() == []
    asked = entry(1, "pending")
    audit.append([asked, *({"field": "yolo", "n": "x" * 1000} for _ in range(5000))])
    assert audit.questions() == [asked]


def test_a_client_is_told_once_of_a_request() -> None:
    known = NotifiedApprovals()
    asked = json.dumps({"sessionId": "s", "approval": {"approvalId": "a"}}).encode()
    ended = json.dumps({"sessionId": "s", "approvalId": "a"}).encode()
    passed = [known.passes(REQUESTED, asked), known.passes(REQUESTED, asked)]
    assert [*passed, known.passes(RESOLVED, ended), known.passes(REQUESTED, asked)] == [True, False, True, True]
    assert [known.passes(RESOLVED, ended), known.passes(RESOLVED, ended)] == [True, False]
    assert known.passes(RESOLVED, json.dumps({"approvalId": "of a list"}).encode())
    assert known.passes("session/didChange", b"not even JSON")


@pytest.mark.parametrize("params", [{}, {"approval": 7}, {"approval": {}}, {"approval": {"approvalId": 7}}])
def test_an_owner_that_says_nothing_of_use_is_not_repeated(params: Any) -> None:
    assert not NotifiedApprovals().passes(REQUESTED, json.dumps(params).encode())


def test_what_a_client_knows_is_bounded() -> None:
    known = NotifiedApprovals()
    for number in range(MAX_KNOWN + 1):
        assert known.is_new(str(number))
    assert known.is_new("0")
    assert not known.is_new(str(MAX_KNOWN))
    assert len(known.known) == MAX_KNOWN
    for number in range(MAX_KNOWN + 2):
        assert known.ends(f"end {number}")
    assert known.ends("end 0")
    assert not known.ends(f"end {MAX_KNOWN}")
