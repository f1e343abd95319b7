"""The models of our small files: a bad member costs only itself, is said, and the file is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sessions.worlds import ANSWER, USER, World, texts

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.features.approvals.seal import seals_of
from timeleap.features.integrity.file_checks import file_problems
from timeleap.service.config import load
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import request_file as requests
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.json_files import (
    BAD,
    MAX_DEPTH,
    MAX_PROBLEMS,
    Check,
    Problems,
    choice,
    date,
    flag,
    items,
    json_value,
    model,
    number,
    table,
    text,
    whole,
    wire_value,
)
from timeleap.sessions.documents.meta import MODEL, Meta
from timeleap.sessions.documents.request_file import is_request_line
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.transaction import MAX_NOTICES
from timeleap.storage.index import EntryStore
from timeleap.storage.intents import intent_path, settle_intent
from timeleap.storage.log_notes import MemoryNotes
from timeleap.storage.log_values import MAX_ROTATION, LogState, TimelineFacts, highest_noted
from timeleap.storage.owner_lock import SessionLock, decode_record
from timeleap.storage.reader import StoredLog, highest_number, timeline_names
from timeleap.storage.rewrite import MAX_GONE, Timelines

DEEP: Any = json.loads("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2))

ODD: list[Any] = [
    None, True, False, -1, 0, 1.5, -0.5, 1e300, float("nan"), float("inf"), 10**30, -(10**30), "", "x", "\ud800",
    "x" * 300, [], [[]], {}, {"a": []}, [None], [1, "x"], {"reason": []}, DEEP,
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (flag, [True, False], [0, 1, "true", None, []]),
        (whole(), [0, 1, 2**53 - 1], [-1, True, 1.0, 2**53, "1", float("nan"), None]),
        (whole(-5, 5), [-5, 5], [-6, 6]),
        (number, [0, -1, 1.5], [True, float("inf"), float("nan"), "1", 10**400]),
        (text(), ["", "ü"], [1, "\ud800", None, ["x"]]),
        (text("[a-c]+"), ["abc"], ["", "abd", "abc\n"]),
        (text(most=3), ["abc"], ["abcd"]),
        (date, ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00+02:00"], ["", "2026-01-01", "soon", 5, "2026-13-01T00:00:00Z", "٢٠٢٦-01-01T00:00:00Z"]),
        (choice("a", "b"), ["a"], ["c", [], {}, None]),
        (json_value, [None, {"a": ["\ud800"]}], [float("nan"), [[{"a": float("inf")}]], DEEP, 10**25]),
        (wire_value, [{"a": [1, "x"]}], ["\ud800", {"\ud800": 1}, [["\udfff"]], DEEP]),
    ],
)  # fmt: skip
def test_a_check_takes_what_is_good_and_says_what_is_not(check: Check, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        problems = Problems()
        assert check(value, "x", problems) == value
        assert not problems
    for value in bad:
        problems = Problems()
        assert check(value, "x", problems) is BAD, value
        assert problems.text.startswith("x ")


def test_of_what_has_members_only_the_bad_ones_go() -> None:
    problems = Problems()
    check = model({"a": whole(), "b": items(text()), "c": table(flag)}, required=("a",))
    found = check({"a": 1, "b": ["x", 1, "y"], "c": {"p": True, "q": 2}, "d": {"later": [1]}}, "", problems)
    assert found == {"a": 1, "b": ["x", "y"], "c": {"p": True}, "d": {"later": [1]}}
    assert problems.text == "b[1] is not a text; c.q is not true or false"
    assert check({"a": -1}, "", problems) is BAD
    assert check({}, "", problems) is BAD
    assert check([], "", problems) is BAD


def test_problems_are_described_up_to_a_bound_and_never_with_the_value() -> None:
    problems = Problems()
    document = {f"secret {'x' * 100}\ud800{at}": float("nan") for at in range(3 * MAX_PROBLEMS)}
    assert model({})(document, "", problems) == {}
    assert problems.text.endswith(f"; and {2 * MAX_PROBLEMS} more")
    problems.text.encode()
    assert len(problems.text) < 2000


@pytest.mark.parametrize("name", [*MODEL, "version", "unknown"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_any_value_of_any_member_is_survived(tmp_path: Path, name: str, value: Any) -> None:
    good = {"version": 1, "uid": "u", "epoch": 5, "createdAt": "2026-01-01T00:00:00.000Z", "workspace": "file:///w"}
    path = tmp_path / "timeleap.json"
    path.write_text(json.dumps({**good, name: value}))
    before = path.read_bytes()
    reader = Meta(tmp_path, "readOnly")
    damaged = reader.problem is not None
    owner = Meta(tmp_path, "owner")
    for meta in (reader, owner):
        _ = (meta.epoch, meta.rotation, meta.noted, meta.parent, meta.subagents, meta.pending_dmail, meta.pins)
        _ = (seals_of(meta), meta.inherited_lines, meta.created_at, meta.workspace, meta.facts("context_1"))
        assert ("metaDamaged" in [one["kind"] for one in meta.warnings]) == damaged
        for one in meta.warnings:
            one["message"].encode()
    if name != "workspace":
        assert owner.workspace == "file:///w"
    owner.write({"rotation": 3})
    again = Meta(tmp_path, "readOnly")
    assert (again.rotation, again.problem) == (3, None)
    kept = [one.read_bytes() for one in tmp_path.glob("timeleap.damaged-*.json")]
    assert kept == ([before] if damaged else [])


@pytest.mark.parametrize(
    "timeline",
    [
        {"reason": []}, {"reason": {}}, {"reason": "nonsense"}, {"createdAt": []}, {"createdAt": "\ud800"}, {"extra": 5},
        {"counts": "x"}, [], None, {"extra": {"a": DEEP}},
    ],
)  # fmt: skip
async def test_a_fact_of_a_timeline_that_is_none_closes_no_session(world: World, timeline: Any) -> None:
    session = await world.session()
    await session.append([USER])
    await session.clear()
    await world.close()
    document = world.json("timeleap.json")
    document["timelines"]["context_1"] = timeline
    world.put_json("timeleap.json", document)
    session = await world.reopened(access="read")
    (listed,) = session.engine.timelines()
    assert isinstance(listed.facts, TimelineFacts)
    listed.facts.created_at.encode()
    assert [one.file for one in file_problems(world.path())] == ["timeleap.json"]
    session = await world.reopened()
    assert "metaDamaged" in [one["kind"] for one in session.warnings]
    await session.restore_timeline("context_1")
    assert texts(session) == [USER["content"]]
    assert file_problems(world.path()) == []
    assert len(list(world.path().glob("timeleap.damaged-*.json"))) == 1


@pytest.mark.parametrize("epoch", [-1, -(10**40), 10**40, True, 1.5, float("nan"), None, "5", []])
async def test_an_epoch_that_is_none_hangs_nothing(world: World, epoch: Any) -> None:
    session = await world.session()
    await session.append([USER])
    heads = {session.head}
    await world.close()
    world.put_json("timeleap.json", {**world.json("timeleap.json"), "epoch": epoch})
    session = await world.reopened()
    assert texts(session) == [USER["content"]]
    assert session.head not in heads
    assert "metaDamaged" in [one["kind"] for one in session.warnings]


@pytest.mark.parametrize("epoch", [0, 35, 36, -1, -36, -(10**30), 10**30])
def test_the_head_of_any_epoch_is_a_text(epoch: int) -> None:
    first = StoredLog(Path("log"), None, EntryStore(), LogState()).head(epoch, 1).partition(".")[0]
    assert int(first, 36) == epoch


async def test_a_rotation_that_is_none_does_not_keep_a_log_from_being_set_aside(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    await world.close()
    document = {**world.json("timeleap.json"), "rotation": 10**40}
    document["timelines"] = {f"context_{'9' * 5000}": {"reason": "clear"}, "context_77777777777777777": {}}
    world.put_json("timeleap.json", document)
    (world.path() / f"context_{'9' * 18}.jsonl").write_text("")
    (world.path() / f"context_{'9' * 200}.jsonl").write_text("")
    session = await world.reopened()
    await session.clear()
    await session.append([ANSWER])
    await session.clear()
    known = {one.timeline_id for one in session.engine.timelines()}
    assert known == {"context_1", "context_2", f"context_{'9' * 18}"}


def test_a_number_nobody_gave_is_not_counted_on_from(tmp_path: Path) -> None:
    assert highest_noted(["context_3", "context_" + "9" * 5000, "context_x", "context_٣"]) == 3
    for high in (4, MAX_ROTATION + 1, 10**17):
        (tmp_path / f"context_{high}.jsonl").touch()
    assert highest_number(tmp_path / "context.jsonl") == 4
    assert len(timeline_names(tmp_path / "context.jsonl")) == 3


def test_what_a_newer_version_says_goes_back_as_it_is(tmp_path: Path) -> None:
    newer = {"version": 7, "uid": "u", "epoch": 5, "timelines": [["new", "form"]], "pins": {"a": 1}, "later": 1}
    (tmp_path / "timeleap.json").write_text(json.dumps(newer))
    meta = Meta(tmp_path, "owner")
    assert (meta.problem, meta.pins) == (None, ())
    meta.write({"rotation": 2})
    assert json.loads((tmp_path / "timeleap.json").read_text()) == {**newer, "rotation": 2}
    assert [one["kind"] for one in meta.warnings] == ["newerVersion"]
    meta.write({"pins": ["p"]})
    assert json.loads((tmp_path / "timeleap.json").read_text())["pins"] == ["p"]
    state = {"version": 2, "custom_title": {"en": "T"}, "archived": True, "approval": {"yolo": "ask"}, "more": [1]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    values = StateFile(tmp_path).read()
    assert (values.document.problem, values.document.newer, values.archived, values.title, values.approval.yolo) == (
        None,
        2,
        True,
        None,
        False,
    )
    assert StateFile(tmp_path).write({"archived": False}) is None
    kept = json.loads((tmp_path / "state.json").read_text())
    assert kept == {"version": 2, "custom_title": {"en": "T"}, "archived": False, "more": [1]}


async def test_a_newer_state_is_said(world: World) -> None:
    await world.session(title="T")
    await world.close()
    world.put_json("state.json", {**world.json("state.json"), "version": 5})
    session = await world.reopened()
    assert session.facts.title == "T"
    assert [(one["kind"], one["file"]) for one in session.warnings] == [("newerVersion", "state.json")]
    await session.set_title("N")
    assert world.json("state.json")["version"] == 5


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize(
    "name", ["version", "approval", "custom_title", "archived", "archived_at", "dynamic_subagents", "todos"]
)
def test_any_value_of_any_field_of_the_state_is_survived(tmp_path: Path, name: str, value: Any) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"plan_slug": "p", name: value}))
    file = StateFile(tmp_path)
    values = file.read()
    assert not values.approval.yolo
    file.write({"archived": False})
    again = file.read()
    assert again.document.problem is None
    assert json.loads((tmp_path / "state.json").read_text())["plan_slug"] == "p"
    assert bool(list(tmp_path.glob("state.damaged-*.json"))) == (values.document.problem is not None)


def test_a_crash_while_a_damaged_file_is_replaced_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timeleap.sessions.documents import json_files as files

    (tmp_path / "timeleap.json").write_text('{"version": 1, "uid": "u", "epoch": 7, "pins": 5}')

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "atomic_write", full)
    meta = Meta(tmp_path, "owner")
    with pytest.raises(OSError, match="space"):
        meta.write({"rotation": 1})
    again = Meta(tmp_path, "readOnly")
    assert (again.uid, again.epoch, again.problem is None) == ("u", 7, False)


REQUEST = '{"r":"a","h":"0123456789abcdef","m":"clear","v":{"head":"x"}}'


@pytest.mark.parametrize(
    "line",
    [
        "5", "[]", '"x"', "null", '{"r":[],"h":"","m":"","v":{}}', '{"r":"b","h":"","m":"","v":[]}', '{"r":"b"}',
        '{"r":"b","h":"","m":"","v":{"a":NaN}}', '{"r":"b","h":"","m":"","v":{"a":1e999}}',
        '{"r":"b","h":"","m":"","v":{"a":"\\ud800"}}', '{"r":"\\udcff","h":"","m":"","v":{}}',
        '{"r":"b","h":"","m":"","v":{"a":' + "[" * 80 + "]" * 80 + "}}",
        '{"r":"b","h":"","m":"","v":{"a":' + "[" * 5000 + "]" * 5000 + "}}",
        '{"r":"b","h":"","m":"","v":{"a":' + "9" * 30 + "}}", '{"r":"b","h":"","m":"","v":{"a":' + "9" * 5000 + "}}",
        '{"r":"b","h":"","m":"","v":{}} x}',
    ],
    ids=lambda line: line[:30],
)  # fmt: skip
def test_a_line_that_is_no_request_is_said_and_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / "timeleap.json").write_text('{"version":1,"uid":"u","epoch":5}')
    path = tmp_path / "requests.jsonl"
    path.write_text(f"{REQUEST}\n{line}\n{REQUEST}\n")
    found = files.read_lines(path, is_request_line)
    assert (len(found.documents), str(found.problem).startswith("requests.jsonl: line 2 ")) == (2, True)
    assert all(json.loads(REQUEST) == one for one in found.documents)
    assert [one.kind for one in file_problems(tmp_path)] == ["requestsDamaged"]


def test_a_torn_line_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(f'{REQUEST}\n{{"r":"b\n{REQUEST}\n{REQUEST[:20]}')
    found = files.read_lines(path, is_request_line)
    assert (len(found.documents), found.problem) == (2, None)


def test_an_entry_of_the_audit_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "timeleap.json").write_text('{"version":1,"uid":"u","epoch":5}')
    good = '{"time":"2026-01-01T00:00:00.000Z","who":null,"field":"yolo","from":false,"to":true}'
    for bad in ('{"time":5,"who":null,"field":"yolo"}', '{"time":"soon"}', good.replace("null", "[]"), "{}"):
        (tmp_path / "audit.jsonl").write_text(f"{good}\n{bad}\n")
        found = Audit(tmp_path).read()
        assert (len(found.documents), found.problem is None) == (1, False)
        assert [one.kind for one in file_problems(tmp_path)] == ["auditDamaged"]


@pytest.mark.parametrize(
    ("record", "owner"),
    [
        ({"pid": 5, "host": "h", "since": "s", "mode": "hold"}, {"pid": 5, "host": "h", "since": "s"}),
        ({"pid": -5, "host": "h"}, None),
        ({"pid": True}, None),
        ({"pid": 10**30}, None),
        ({"pid": float("nan")}, None),
        ({"pid": 5, "host": ["h"], "since": {"a": 1}}, {"pid": 5}),
        ({"pid": 5, "host": "\ud800", "since": "x" * 1500}, {"pid": 5}),
        ([], None),
        (DEEP, None),
    ],
)
def test_the_record_of_a_lock_is_taken_as_far_as_it_has_its_form(tmp_path: Path, record: Any, owner: Any) -> None:
    (tmp_path / ".context.jsonl.lock").write_text(json.dumps(record))
    assert SessionLock(tmp_path / "context.jsonl").holder().owner == owner


def test_an_endpoint_has_texts(tmp_path: Path) -> None:
    good = {"address": "/run/x", "token": "t", "protocolVersion": 1}
    assert decode_record(json.dumps({"pid": 5, "endpoint": good}).encode()).endpoint == good
    odd: list[tuple[Any, Any]] = [
        ([], None),
        ("x", None),
        ({"address": []}, {}),
        ({"address": "x", "token": 5}, {"address": "x"}),
        ({"address": "\ud800", "token": "t"}, {"token": "t"}),
    ]
    for bad, left in odd:
        assert decode_record(json.dumps({"pid": 5, "endpoint": bad}).encode()).endpoint == left
    assert decode_record(b"[" * 4096).owner is None


@pytest.mark.parametrize("record", [{"new": "context_1.jsonl"}, {"new": "timeleap.json", "timeline": "state.json"}, {"new": "a\0b"}, DEEP, {"new": []}])  # fmt: skip
@pytest.mark.parametrize("live", [True, False])
def test_an_intent_touches_nothing_but_what_it_may_name(tmp_path: Path, record: Any, live: bool) -> None:
    names = ["context_1.jsonl", "timeleap.json", "state.json", *(["context.jsonl"] if live else [])]
    for name in names:
        (tmp_path / name).write_text(name)
    intent_path(tmp_path / "context.jsonl").write_text(json.dumps(record))
    settle_intent(tmp_path / "context.jsonl")
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    assert all((tmp_path / name).read_text() == name for name in names)


def test_lines_that_are_none_are_kept_aside_when_the_file_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "FILE_LINES", 3)
    (tmp_path / "timeleap.json").write_text('{"version":1,"uid":"u","epoch":5}')
    file = requests.RequestFile(tmp_path)
    (tmp_path / "requests.jsonl").write_text(f'{REQUEST}\n{{"r":5}}\n')
    before = (tmp_path / "requests.jsonl").read_bytes()
    for at in range(4):
        file.append([{"r": f"new-{at}", "h": "", "m": "clear", "v": {}}])
    (kept,) = tmp_path.glob("requests.damaged-*.jsonl")
    assert kept.read_bytes().startswith(before)
    assert file_problems(tmp_path) == []
    assert {"new-3", "a"} <= {known.request_id for known in requests.RequestFile(tmp_path).read()}


async def test_warnings_are_the_newest_hundred(world: World) -> None:
    session = await world.session()
    for at in range(MAX_NOTICES + 20):
        session.transactions.warn("kind", str(at))
    messages = [one["message"] for one in session.warnings]
    assert messages == [str(at) for at in range(20, MAX_NOTICES + 20)]


def test_counts_of_timelines_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    log = tmp_path / "context.jsonl"
    log.touch()
    listed = Timelines(log, MemoryNotes(), keep_index=False)
    for at in range(1, MAX_GONE + 50):
        path = tmp_path / f"context_{at}.jsonl"
        path.write_text("")
        assert len(listed.listed()) == 1
        path.unlink()
    assert len(listed._known) <= MAX_GONE + 1


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"a = [" + b"[" * 5000, b"maxContextSize = " + b"9" * 5000, b"triggerRatio = 1" + b"0" * 400, b"= 5"],
)
def test_settings_that_cannot_be_read_are_refused_in_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"config\.toml"):
        load(tmp_path, environ={})


def test_settings_behind_a_link_count(tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text('durability = "os"')
    (tmp_path / "config.toml").symlink_to(tmp_path / "dotfiles.toml")
    assert load(tmp_path, environ={}).durability == "os"


def test_settings_that_are_no_file_are_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(StorageFailureError):
        load(tmp_path, environ={})
