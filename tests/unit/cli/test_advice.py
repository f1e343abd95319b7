from __future__ import annotations

import pytest

from timeleap.cli.command import explain
from timeleap_client.errors import TimeleapRpcError


def words(kind, session="s", **data):
    return "\n".join(
        explain(TimeleapRpcError(4000, kind, "what was wrong", {"kind": kind, **data}, retryable=False), session)
    )


def test_a_lock_names_its_owner_and_says_that_reading_works():
    text = words("sessionLocked", owner={"pid": 123, "host": "box", "since": "2020-01-01T00:00:00Z"})
    assert "process 123 on box" in text
    assert "timeleap tail -f s" in text


def test_a_lock_without_an_owner_still_says_what_to_do():
    assert "Reading still works" in words("sessionLocked")


def test_a_change_that_was_passed_on_may_have_taken_effect():
    assert "may still take effect: timeleap log s" in words("sessionLocked", requestId="r")


def test_another_version_says_how_to_tell_and_that_reading_works():
    text = words("protocolVersion", supported=[1])
    assert "timeleap --version" in text
    assert "timeleap tail -f s" in text


def test_wrong_params_are_named_one_by_one():
    text = words(
        "invalidParams",
        errors=[{"loc": ["retention", 0, "x"], "msg": "must be so", "type": "t"}, {"loc": [], "msg": "y"}],
    )
    assert "  retention.0.x: must be so" in text
    assert "  params: y" in text


def test_a_problem_that_the_message_names_is_not_said_twice():
    error = TimeleapRpcError(
        -32602,
        "invalidParams",
        (said := "there is no message 9"),
        {"errors": [{"loc": ["m"], "msg": said}]},
        retryable=False,
    )
    assert explain(error, "s") == [said]


def test_storage_failures_say_where_and_what_to_do():
    text = words("storageFailure", path="/store", errno="ENOSPC")
    assert "/store (ENOSPC)" in text
    assert "make room" in text
    assert words("storageFailure") == "what was wrong"


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("sessionNotFound", "timeleap sessions --all"),
        ("corrupted", "timeleap verify s"),
        ("checkpointNotFound", "timeleap log s"),
        ("timelineNotFound", "timeleap log s"),
        ("contentModified", "timeleap log s"),
    ],
)
def test_errors_name_the_next_command(kind, command):
    assert command in words(kind)


def test_an_unknown_kind_says_at_least_what_was_wrong():
    assert words("somethingNew", session=None) == "what was wrong"


def test_files_that_cannot_be_saved_say_what_to_do_about_it():
    assert "git 2.36" in words("filesUnavailable", reason="noGit")
    assert "timeleap files mode s checkpoint" in words("filesUnavailable", reason="notConfigured")
    for reason in ("rootMissing", "rootUnsafe"):
        assert "timeleap files mode s --root FOLDER" in words("filesUnavailable", reason=reason)
    assert words("filesUnavailable", reason="unheard of") == "what was wrong"


def test_a_conflict_names_the_files_and_the_two_ways_on():
    text = words("filesConflict", paths=[f"src/{n}.py" for n in range(14)], more=5)
    assert "  src/11.py" in text
    assert "src/12.py" not in text
    assert "... and 7 more" in text
    assert "--on-conflict keep" in text
    assert "--on-conflict overwrite" in text


def test_a_restore_that_was_cut_short_names_both_snapshots():
    text = words("filesIncomplete", before="f4-0123456789ab", target="f2-ba9876543210")
    assert "timeleap files restore s f4-0123456789ab" in text
    assert "timeleap files restore s f2-ba9876543210" in text


def test_another_sessions_restore_is_ended_by_opening_that_session():
    data = {"before": "f4-0123456789ab", "target": "f2-ba9876543210", "session": "0123"}
    text = "\n".join(explain(TimeleapRpcError(4022, "filesIncomplete", "cut short", data, retryable=False), "s"))
    assert "timeleap state SESSION" in text
    assert "f4-0123456789ab" not in text


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("filesTooLarge", "timeleap files mode s --exclude"),
        ("filesBusy", "repeat the command"),
        ("snapshotNotFound", "timeleap files log s"),
    ],
)
def test_errors_of_snapshots_say_what_to_do(kind, advice):
    assert advice in words(kind)


def test_whatever_data_holds_does_no_harm():
    several: list[dict[str, object]] = [{"errors": "x"}, {"errors": [5]}, {"owner": "x"}, {"owner": {}}]
    for data in several:
        assert words("sessionLocked", **data)
    for kind in ("filesConflict", "filesUnavailable", "filesIncomplete"):
        assert words(kind, paths=5, more="x", reason=[], before={}, target=None)
