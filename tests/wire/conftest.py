"""Which tests run with each engine: the same cases, with sessions in a directory and in a database."""

from __future__ import annotations

from typing import Final

import pytest
from tests.support.fixtures import *  # noqa: F403
from tests.support.machines import serve, url  # noqa: F401

from timeleap_protocol.methods import REQUESTS

EVERY_ENGINE: Final[dict[str, frozenset[str]]] = {
    "test_at": frozenset(("test_checkpoints_without_a_time_count_with_the_next_one_that_has_one",)),
    "test_checkpoints": frozenset(),
    "test_dmail": frozenset(),
    "test_goldens": frozenset(
        (
            "test_initialize_answers_as_its_goldens",
            "context.appendMessage/externally-modified",
            "session.open/after-damage",
            "session.open/locked",
            "context.checkpoint/with-files",  # needs files/snapshot, as the next ones do
            "context.revertTo/with-files",
            "session.export/with-files",
            "session.import/with-files",
            "session.open/with-files",
            "session.isApproved/by-action",  # needs session/setAutoApprove
            "session.isApproved/by-yolo",  # needs session/setYolo
            "session.listAudit/page",  # needs session/setAutoApprove
            "session.redact/in-the-trash",  # not done by a database
        )
    ),
    "test_redact": frozenset(
        (
            "test_what_a_killed_server_left_of_the_stores_requests_goes_too",
            "test_nothing_is_left_anywhere",  # of a session in the trash, too
            "test_the_audits_own_words_are_nothing_to_be_taken_out",  # needs session/setYolo
            "test_names_of_clients_and_request_ids_are_redacted_in_the_whole_store",  # needs session/setYolo
        )
    ),
    "test_search": frozenset(
        (
            "test_a_log_written_by_another_program_is_searched_like_ours",
            "test_the_read_only_and_the_attached_search_like_the_owner",
            "test_a_session_that_cannot_be_read_does_not_hide_the_others",
        )
    ),
    "test_session_changes": frozenset(
        (
            "test_a_deleted_session_goes_to_the_trash_whole_and_comes_back",
            "test_a_fork_at_an_unknown_checkpoint_makes_nothing",
            "test_a_fork_can_be_asked_for_at_a_head_only",
            "test_a_state_file_keeps_fields_that_are_not_ours",
            "test_an_open_session_that_is_deleted_is_not_open_any_more",
            "test_its_id_is_free_again_and_undelete_takes_the_newest",
        )
    ),
    "test_storage_use": frozenset(("test_one_session_and_its_files", "test_the_store_by_size_the_trash_included")),
    "test_timelines": frozenset(("test_what_was_damaged_before_comes_back_as_it_was",)),
    "test_undo": frozenset(
        (
            "test_a_damaged_timeline_is_not_brought_back",
            "test_a_file_that_somebody_wrote_does_no_harm",
            "test_a_session_of_an_earlier_release_can_undo_what_it_noted",
            "test_any_window_undoes_and_the_next_owner_knows",
            "test_state_beside_the_log_ends_nothing",  # needs session/setYolo
        )
    ),
}
"""By module: its cases, or goldens, of a directory alone, such as files that another program writes, or who owns a session."""

LONG_IN_A_DATABASE: Final = frozenset(
    (
        "test_at_the_limit_of_timelines_undo_to_and_fro_loses_no_step",
        "test_of_more_than_fifty_timelines_the_oldest_go_where_nothing_else_is_set",
        "test_the_newest_timelines_stay_and_pruning_is_reported",
        "test_to_and_fro_sets_nothing_aside_twice_and_prunes_nothing",
    )
)
"""Cases of many rewrites, each of which is a transaction of several statements there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the modules of `EVERY_ENGINE` with each engine."""
    if _module(metafunc.module) in EVERY_ENGINE and "engine" in metafunc.fixturenames:
        marks = [pytest.mark.long] if metafunc.function.__name__ in LONG_IN_A_DATABASE else []
        engines = ["jsonl", pytest.param("postgresql", marks=marks)]
        metafunc.parametrize("engine", engines, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With the database one framing is enough, and the cases of a directory are left out; so is what needs a method
    that it does not do."""
    left_out = [item for item in items if _is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if not isinstance(item, pytest.Function) or chosen.get("engine") != "postgresql":
        return False
    left_out = EVERY_ENGINE.get(_module(item.module))
    if left_out is None:
        return False  # of another folder, all of which pass here, too
    golden = chosen.get("golden")
    undone = isinstance(golden, dict) and bool(REQUESTS[golden["method"]].needs_directory)
    return (
        undone or chosen.get("framing") == "ndjson" or not left_out.isdisjoint((item.originalname, chosen.get("name")))
    )


def _module(module: object) -> str:
    return str(getattr(module, "__name__", "")).rpartition(".")[2]
