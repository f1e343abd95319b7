"""What a file is, by its content."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.opencode_file import OpencodeFile

from timeleap.errors import InvalidInputError, TooLargeError
from timeleap.features.transfer_losses import MOST, LossTally
from timeleap.storage.durable import OpenFile
from timeleap_agents.importing.recognition import may_be_a_log, recognised
from timeleap_agents.mirrors.folders import look
from timeleap_agents.mirrors.formats import conversion
from timeleap_agents.mirrors.formats.conversion import BLOCK, JsonLines, time_of, workspace_of


def written(path: Path, *lines: Any) -> Path:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    path.write_text("\n".join(texts) + "\n")
    return path


@pytest.mark.parametrize(
    ("lines", "form"),
    [
        ([{"role": "_system_prompt", "content": "x"}], "kimi"),
        (["", "{torn", {"role": "user", "content": "x"}], "kimi"),
        ([{"type": "summary", "summary": "x", "leafUuid": "y"}], "claude-code"),
        ([{"type": "file-history-snapshot", "snapshot": {}}], "claude-code"),
        ([{"type": "mode", "x": 1}, {"type": "user", "uuid": "a", "message": {}}], "claude-code"),
        ([{"type": "metadata", "protocol_version": "1.5", "created_at": 1}], "kimi-code"),
        (["{torn", {"type": "context.append_message", "agentId": "main", "message": {}}], "kimi-code"),
        ([{"type": "session_meta", "payload": {}}], "codex"),
        ([{"id": "x", "timestamp": "y", "instructions": None}], "codex"),
        ([{"type": "message", "role": "user", "content": []}], "codex"),
        ([{"session": {"id": "x"}, "items": []}], "codex"),
        (["", "{", '  "session": {', '    "id": "x"'], "codex"),
    ],
)
def test_lines_are_recognised(tmp_path: Path, lines: list[Any], form: str) -> None:
    assert recognised(written(tmp_path / "any", *lines)) == form


def test_opencodes_database_is_recognised_and_an_export_is_told_where_to_import_from(tmp_path: Path) -> None:
    file = OpencodeFile(tmp_path)
    assert recognised(file.path) == recognised(file.database) == "opencode"
    file.close()
    assert recognised(file.database) == "opencode"
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE notes (a)")
    other.close()
    with pytest.raises(InvalidInputError, match="a program that keeps its sessions in a database"):
        recognised(tmp_path / "other.db")
    part = {"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "text", "text": "x"}
    with pytest.raises(InvalidInputError, match=r"import the session from its database, with the name .*ses_"):
        recognised(written(tmp_path / "any", part))


TURN = [{"role": "user", "parts": [{"text": "hello"}]}, {"role": "model", "parts": [{"text": "hi"}]}]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty: no session is in it"),
        (b"\0" * 4096 + b"\r\n \n", "is empty: no session is in it"),
        (b"\x1f\x8b\x08\0", r"is packed with gzip: unpack it first \(gunzip\)"),
        ('{"type": "user"}\n'.encode("utf-16"), r"is UTF-16, .* make it UTF-8 first \(iconv -f UTF-16 -t UTF-8\)"),
        (json.dumps(TURN).encode(), "is a session of Gemini CLI as its /chat save keeps it"),
        (json.dumps({"history": TURN, "authType": "x"}, indent=2).encode(), "as its /chat save keeps it"),
        (
            json.dumps([{"sessionId": "x", "messageId": 0, "message": "hi"}]).encode(),
            "typed into Gemini CLI, which has no answers; its sessions are in the folder `chats`",
        ),
        (b'[{"sessionId": "x", "messageId": 0, "type": "user", "message": "hi"}]', "typed into Gemini CLI"),
        (b'{"display": "hi", "pastedContents": {}, "timestamp": 1, "project": "/p"}', "typed into Claude Code"),
        (b'{"session_id": "x", "ts": 1, "text": "hi"}', "typed into Codex"),
        (b'{"id": "x", "thread_name": "t", "updated_at": "y"}', "the list of Codex's sessions"),
        (b'{"type": "thread.started", "thread_id": "x"}', "the output of `codex exec --json`"),
        (
            b'{"type": "metadata", "protocol_version": "1.10"}\n{"timestamp": 1, "message": {"type": "TurnBegin", "payload": {}}}',
            r"kimi-cli keeps for its web page, .*context\.jsonl beside it",
        ),
        (b'{"role": "user", "parts": [{"text": "hi"}]}', "of none of the forms"),
        (
            b'{"type": "session.start", "data": {"sessionId": "x"}, "id": "e", "parentId": null}',
            "is a session of GitHub Copilot CLI, which cannot be imported",
        ),
    ],
)
def test_what_is_no_session_that_can_be_read_is_told_by_name(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "any").write_bytes(data)
    with pytest.raises(InvalidInputError, match=told):
        recognised(tmp_path / "any")


def test_a_session_of_pi_is_told_from_one_of_factory(tmp_path: Path) -> None:
    def form(*lines: Any) -> str:
        return recognised(written(tmp_path / "any", *lines))

    header = {"type": "session", "id": "s", "timestamp": "2026-11-20T10:00:00.000Z", "cwd": "/shop"}
    said = {"role": "user", "content": "x"}
    entry = {"type": "message", "id": "a", "parentId": None, "message": {**said, "timestamp": 1}}
    first_form = {"type": "message", "timestamp": "x", "message": {**said, "timestamp": 1}}
    assert form(header) == form("{torn", entry) == form(first_form) == "pi"
    for lines in ([{**entry, "message": said}], [header, {**entry, "message": said}]):
        with pytest.raises(InvalidInputError, match="is a session of factory, or of a program like pi"):
            form(*lines)


def test_sessions_that_opencode_kept_in_files_are_told_how_to_get_into_its_database(tmp_path: Path) -> None:
    storage = tmp_path / "opencode" / "storage"
    info = {"id": "ses_1", "version": "0.15.0", "projectID": "global", "directory": "/shop", "title": "x"}
    message = {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}}
    part = {"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "text", "text": "x"}
    places = ["session/global/ses_1.json", "message/ses_1/msg_1.json", "part/msg_1/prt_1.json"]
    for place, document in zip(places, [info, message, part], strict=True):
        (storage / place).parent.mkdir(parents=True)
        (storage / place).write_text(json.dumps(document, indent=2))
    for path in (tmp_path / "opencode", storage, *(storage / place for place in places)):
        with pytest.raises(
            InvalidInputError, match=r"before version 1\.2, .*: start opencode once, which takes them over"
        ):
            recognised(path)
    found = look("opencode", tmp_path / "opencode")
    assert "start opencode once" in found.problems[0]
    OpencodeFile(tmp_path / "opencode").close()
    assert look("opencode", tmp_path / "opencode").problems == []


def test_a_first_line_may_be_long(tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (3 * BLOCK)}}
    path = written(tmp_path / "any", {"role": "user", "content": [picture]}, {"role": "user", "content": "x"})
    assert recognised(path) == "kimi" and may_be_a_log(path)
    (tmp_path / "other").write_bytes(b"x" * (3 * BLOCK))
    with pytest.raises(InvalidInputError, match="none of the forms"):
        recognised(tmp_path / "other")


def test_archives_and_directories_are_recognised(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "any", "w") as target:
        target.writestr("x", "")
    assert recognised(tmp_path / "any") == "native"
    assert recognised(tmp_path) == "kimi"


@pytest.mark.parametrize("lines", [["text"], [[]], [{"type": ["session_meta"], "payload": 1}], [{"a": 1}]])
def test_others_are_not(tmp_path: Path, lines: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match="none of the forms"):
        recognised(written(tmp_path / "any", *lines))


def test_lines_across_blocks_and_too_long_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "BLOCK", 16)
    monkeypatch.setattr(conversion, "MAX_LINE", 64)
    objects: list[dict[str, object]] = [{"a": 1}, {"b": "x" * 40}, {"c": "y" * 200}, {"d": 1}, {"e": "ü" * 10}]
    path = written(tmp_path / "any", *objects, "", "[1]")
    left_out = LossTally()
    lines = JsonLines(OpenFile(path), left_out)
    found = [line for line in lines if line.record is not None]
    assert [line.record for line in found] == [one for one in objects if "c" not in one]
    assert [lines.at(line.offset, line.length) for line in found] == [line.record for line in found]
    assert [one.message for one in left_out.losses()] == ["1 lines have more than 0 MiB", "1 lines are no JSON objects"]


def test_a_last_line_without_a_line_feed_counts(tmp_path: Path) -> None:
    (tmp_path / "any").write_text('{"a": 1}\n{"b": 2}')
    assert [line.record for line in JsonLines(OpenFile(tmp_path / "any"), LossTally())] == [{"a": 1}, {"b": 2}]


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MAX_FILE", 10)
    with pytest.raises(TooLargeError, match="at most 10"):
        JsonLines(OpenFile(written(tmp_path / "any", {"a": "more than ten"})), LossTally())


def test_a_file_of_too_many_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MAX_LINES", 2)
    path = written(tmp_path / "any", {"a": 1}, {"a": 2})
    assert len(list(JsonLines(OpenFile(path), LossTally()))) == 2
    with pytest.raises(TooLargeError, match="more than 2 lines"):
        list(JsonLines(OpenFile(written(path, {"a": 1}, {"a": 2}, {"a": 3})), LossTally()))


def test_folders_and_times_of_other_machines() -> None:
    assert workspace_of("/home/ada/my shop") == "file:///home/ada/my%20shop"
    assert workspace_of("C:\\Users\\ada") == "file:///C:/Users/ada"
    assert [workspace_of(odd) for odd in ("here", "", None, 7)] == [None] * 4
    assert time_of("2025-05-26T09:27:40+02:00") == "2025-05-26T07:27:40.000Z"
    assert time_of("2025-05-26T07:27:40") == "2025-05-26T07:27:40.000Z"
    assert [time_of(odd) for odd in ("yesterday", 7, None, "0001-01-01T00:00:00+23:00")] == [None] * 4


def test_a_million_kinds_of_losses_are_told_as_a_hundred() -> None:
    left_out = LossTally()
    for number in range(3 * MOST):
        left_out.add("records", f"records of the type {number}")
    assert len(left_out.losses()) == MOST + 1
    assert left_out.losses()[-1].message == f"{2 * MOST} things of other kinds"


def test_what_is_packed_under_another_name_is_refused_with_the_way_to_unpack_it(tmp_path: Path) -> None:
    path = tmp_path / "rollout-x.jsonl"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    with pytest.raises(InvalidInputError, match="packed with zstd"):
        recognised(path)
