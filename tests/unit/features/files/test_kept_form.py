"""What a session keeps about its files, whoever has written it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from timeleap.errors import InvalidInputError
from timeleap.features.files.kept_form import (
    TreeSettings,
    checkpoint_files,
    refuse_bad,
    settings_of,
)
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import META_NAME
from timeleap.storage.record import checkpoint_record, message_record, read_tl, with_member
from timeleap_protocol.folder_uri import folder_of
from timeleap_protocol.limits import MAX_FILE_PATTERNS, MAX_FILE_ROOTS

WHOLE = {"snapshot": "f12-0123456789ab", "changed": 3, "skipped": 0, "ms": 40}


def meta_with(directory: Path, member: Any) -> Meta:
    files.write_document(directory / META_NAME, {"version": 1, "uid": "u", "epoch": 1, "files": member})
    return Meta(directory, "readOnly")


def test_settings_come_back_as_they_were_kept(tmp_path: Path) -> None:
    kept = TreeSettings("turn", ("file:///w",), ("*.log",), ("keep.log",), 100, 5)
    assert settings_of(meta_with(tmp_path, kept.member())) == kept


def test_a_session_whose_files_were_never_spoken_of_has_no_settings(tmp_path: Path) -> None:
    files.write_document(tmp_path / META_NAME, {"version": 1})
    assert settings_of(Meta(tmp_path, "readOnly")) is None


def test_what_a_change_leaves_out_stays_and_an_empty_list_empties() -> None:
    kept = TreeSettings("checkpoint", ("file:///w",), ("*.log",), max_files=5)
    assert kept.with_changes({"mode": "off"}) == TreeSettings("off", ("file:///w",), ("*.log",), max_files=5)
    assert kept.with_changes({"mode": "turn", "roots": [], "exclude": ["b"]}) == TreeSettings(
        "turn", (), ("b",), max_files=5
    )


@pytest.mark.parametrize("member", ["checkpoint", {"roots": []}, {"mode": "sometimes"}, [], {"mode": 1}])
def test_settings_that_say_nothing_usable_count_as_none_and_are_reported(tmp_path: Path, member: Any) -> None:
    meta = meta_with(tmp_path, member)
    assert settings_of(meta) is None
    assert "files" in meta.warnings[0]["message"]


def test_of_settings_only_what_can_be_used_counts(tmp_path: Path) -> None:
    member = {"mode": "turn", "roots": ["a", 3, ""], "exclude": "x", "maxFiles": 0, "maxFileBytes": -1, "more": 1}
    assert settings_of(meta_with(tmp_path, member)) == TreeSettings("turn", ("a",))


def test_roots_and_patterns_beyond_their_bounds_are_left_out(tmp_path: Path) -> None:
    member = {"mode": "turn", "roots": ["r"] * (MAX_FILE_ROOTS + 1), "exclude": ["x"] * (MAX_FILE_PATTERNS + 1)}
    kept = settings_of(meta_with(tmp_path, member))
    assert kept is not None
    assert (len(kept.roots), len(kept.exclude)) == (MAX_FILE_ROOTS, MAX_FILE_PATTERNS)


def test_a_checkpoint_tells_of_its_files_what_its_record_says() -> None:
    failed = {"error": {"kind": "filesUnavailable", "message": "no git", "reason": "noGit"}}
    assert [checkpoint_files(WHOLE), checkpoint_files(failed)] == [WHOLE, failed]


@pytest.mark.parametrize(
    "mark",
    [None, "f1-0123456789ab", {}, {"changed": 1}, {"snapshot": "f0-0123456789ab"}, {"snapshot": "../f1-0123456789ab"},
     {"snapshot": "f1-0123456789AB"}, {"error": "no"}, {"error": {"kind": "x"}}, {"error": {"kind": "x", "message": "\ud800"}}],
)  # fmt: skip
def test_a_record_that_says_of_files_what_none_of_ours_would_says_nothing(mark: Any) -> None:
    assert checkpoint_files(mark) is None


def test_of_a_snapshot_members_that_cannot_be_used_are_left_out() -> None:
    assert checkpoint_files({**WHOLE, "changed": -1, "ms": "long", "path": "/etc"}) == {
        "snapshot": WHOLE["snapshot"],
        "skipped": 0,
    }


@pytest.mark.parametrize("marks", [None, {"u": "c1-ab", "r": "id"}])
def test_a_record_gets_one_more_mark_and_stays_what_it_is(marks: dict[str, Any] | None) -> None:
    for record in (checkpoint_record(1, marks), message_record({"role": "user", "content": "x"}, marks)):
        marked = with_member(record, "w", WHOLE)
        assert read_tl(marked.body) == {**(marks or {}), "w": WHOLE}
        assert (marked.kind, marked.value, marked.flags & record.flags) == (record.kind, record.value, record.flags)


@pytest.mark.parametrize(
    ("uri", "path"),
    [("file:///w/a%20b", "/w/a b"), ("file://localhost/w", "/w"), ("FILE:///w/", "/w"), ("file:///%C3%A9", "/é")],
)
def test_the_uri_of_a_folder_names_it(uri: str, path: str) -> None:
    assert folder_of(uri) == Path(path)


@pytest.mark.parametrize(
    "uri", ["/w", "w", "", "http://host/w", "file://host/w", "file:w", "file:///a%00b", "file:///w?x", "file:///w#x", "file://[", "untitled:x"]
)  # fmt: skip
def test_what_is_no_uri_of_a_folder_here_is_refused(uri: str) -> None:
    assert folder_of(uri) is None
    with pytest.raises(InvalidInputError) as refused:
        refuse_bad({"mode": "turn", "roots": ["file:///w", uri]})
    assert refused.value.data["errors"][0]["loc"] == ["files", "roots", 1]


@pytest.mark.parametrize("pattern", ["a\nb", "a\0", "a\r", "x" * 4097, "\ud800"])
@pytest.mark.parametrize("member", ["exclude", "includeIgnored"])
def test_a_pattern_that_is_no_line_of_a_gitignore_file_is_refused(member: str, pattern: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        refuse_bad({"mode": "turn", member: [pattern]})
    assert refused.value.data["errors"][0]["loc"] == ["files", member, 0]


def test_settings_as_they_are_meant_pass() -> None:
    refuse_bad({"mode": "turn", "roots": ["file:///w"], "exclude": ["x" * 4096, "*.log", "!é"], "includeIgnored": []})
