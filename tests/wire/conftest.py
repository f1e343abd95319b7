"""Which tests run with each engine: the same cases, with sessions in a directory and in a database."""

from __future__ import annotations

from typing import Final

import pytest
from tests.support.fixtures import *  # noqa: F403
from tests.support.machines import serve, url  # noqa: F401

from timeleap_protocol.methods import REQUESTS

EVERY_ENGINE: Final[dict[str, frozenset[str]]] = {
    "test_append_items": frozenset(),
    "test_append_message": frozenset(),
    "test_approval_bounds": frozenset(
        (
            "test_a_redaction_reaches_a_question_that_the_last_owner_left",
            "test_who_cannot_note_it_neither_asks_nor_decides",  # the disk of the server is not that of the database
        )
    ),
    "test_approval_ends": frozenset(
        (  # nobody owns a session, so none is handed over
            "test_a_decision_that_is_under_way_at_a_hand_over_waits_for_who_asked",
            "test_a_decision_that_nobody_was_told_of_counts",
            "test_a_hand_over_keeps_it_waiting",
            "test_a_question_is_taken_over_however_much_the_audit_says_since",
            "test_the_time_it_waited_counts_after_a_hand_over",
            "test_what_goes_on_waiting_has_no_end_for_who_finds_the_next_owner_late",
            "test_what_the_last_owner_left_open_is_cancelled_in_the_audit",
            "test_who_comes_back_under_the_same_request_id_goes_on",
            "test_who_finds_the_next_owner_after_it_was_given_up_is_told_of_it",
            "test_who_finds_the_next_owner_after_the_decision_is_told_of_it",
        )
    ),
    "test_approval_requests": frozenset(
        ("test_afk_survives_a_restart_and_is_not_believed_unsealed",)  # somebody edits `state.json`
    ),
    "test_approvals": frozenset(
        (  # somebody edits, copies or puts back files: working copies are thrown away, and rows have tests of their own
            "test_a_state_copied_from_another_session_switches_nothing_on",
            "test_a_state_put_back_from_earlier_switches_nothing_on",
            "test_a_whole_session_copied_switches_nothing_on",
            "test_an_edited_state_file_switches_nothing_on_and_says_so",
            "test_the_files_of_a_deleted_session_switch_nothing_on_in_a_new_one",
        )
    ),
    "test_at": frozenset(),
    "test_checkpoints": frozenset(),
    "test_absent_content": frozenset(),
    "test_client": frozenset(),
    "test_client_approvals": frozenset(),
    "test_echo": frozenset(),
    "test_examples": frozenset(),
    "test_log": frozenset(),
    "test_damage": frozenset(
        (
            "test_every_cut_of_the_log_opens_with_the_whole_records_before_it",  # a commit is whole: no crash cuts a log
            "test_an_incomplete_batch_is_cut_as_a_whole",  # the same
            # What a line was when it was written is known by an index, which goes with its working copy.
            "test_a_repair_costs_a_batch_only_its_damaged_member",
            "test_a_flipped_line_feed_costs_its_own_line_only_and_no_checksum_is_forgotten",
            "test_a_flipped_byte_is_never_served_as_if_it_were_the_message",
            "test_the_index_is_never_believed_over_the_log",
            "test_every_flipped_bit_of_the_last_index_entries_is_seen",
            "test_a_read_only_open_repairs_nothing",  # compares the files of a folder
        )
    ),
    "test_small_files": frozenset(
        (
            # Of rows: `test_postgresql_approvals::test_a_row_that_was_altered_switches_nothing_on`.
            "test_an_approval_edited_under_a_running_server_does_not_outlive_the_next_save",
            "test_what_is_no_file_is_kept_aside_and_hinders_nothing",  # a folder, or a link, in the place of a file
            "test_leftovers_are_said_by_a_look_and_removed_by_an_owner",  # a temporary file
        )
    ),
    "test_store": frozenset(
        (
            "test_a_link_in_place_of_a_session_is_not_followed",  # links and pipes, as for the next three
            "test_what_is_no_plain_file_is_never_followed_nor_waited_for",
            "test_a_link_among_the_timelines_is_no_timeline",
            "test_temporaries_are_not_predictable",
            "test_an_unreadable_session_is_a_storage_failure_and_others_work",  # modes of folders, as for the next one
            "test_an_unwritable_session_can_be_read",
            # The disk of a store in a folder; of the database's: `test_postgresql_faults`.
            "test_a_full_disk_refuses_keeps_what_was_there_and_goes_on_when_there_is_room",
            "test_a_full_disk_at_creation_leaves_no_half_session",
            "test_a_read_only_store_can_be_listed_and_read",
            "test_a_failing_sync_is_told_and_the_next_request_works",
            "test_files_that_are_not_ours_stay",
        )
    ),
    "test_no_descriptors": frozenset(),
    "test_compact": frozenset(),
    "test_compact_summarizers": frozenset(
        (  # nobody owns a session: each process asks its own client, for as long as it was told itself
            "test_a_compaction_that_waits_when_its_owner_goes_keeps_its_order",
            "test_an_attached_client_has_as_long_for_a_summary_as_the_owner_waits",
        )
    ),
    "test_dmail_elsewhere": frozenset(),
    "test_redacted_requests": frozenset(),
    "test_purge": frozenset(
        (
            "test_a_purge_that_is_killed_is_finished",  # there it is one transaction, which a kill does not halve
            "test_a_purge_that_is_killed_is_finished_by_the_next_server",  # the same
            "test_links_in_the_trash_are_not_followed",  # the trash is a folder of folders, as for the next three
            "test_nothing_is_purged_through_a_link",
            "test_a_torn_folder_in_the_trash_can_be_purged",
            "test_temporaries_of_the_store_go_too",
            "test_what_another_process_uses_stays",  # a lock in a folder: rows are purged also if they are in use
            # Which bytes of which folder: of rows `test_postgresql_methods::test_a_session_in_the_trash_is_redacted`.
            "test_a_secret_is_taken_out_of_a_session_in_the_trash",
            "test_what_is_no_audit_is_said",  # a folder, a link or a pipe in the place of a file
            "test_a_copy_of_a_purged_session_put_back_by_hand_has_its_approvals_off",  # a copy of a folder
        )
    ),
    "test_replace_message": frozenset(),
    "test_merge": frozenset(("test_in_the_attached_window",)),
    "test_fold": frozenset(("test_in_the_attached_window_as_in_the_owners",)),
    "test_diff": frozenset(("test_damage_that_both_have_always_had_does_not_matter",)),
    "test_history_opaque": frozenset(),
    "test_dmail": frozenset(),
    "test_expected_head": frozenset(
        ("test_a_head_survives_restart_and_loss_of_the_index",)  # an index that is lost goes with its working copy
    ),
    "test_export": frozenset(
        (
            "test_a_session_that_is_live_elsewhere",  # nobody owns a session, so none is attached
            "test_damage_is_left_out_of_a_page_and_told",  # somebody edits the log
        )
    ),
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
        )
    ),
    "test_history": frozenset(),
    "test_history_format": frozenset(
        ("test_through_another_process_and_from_another_programs_log",)  # nobody owns a session
    ),
    "test_hostile": frozenset(),
    "test_import": frozenset(),
    "test_initialize": frozenset(),
    "test_large_session": frozenset(  # measures what the index of a file of 450 MB saves
        ("test_a_rebuild_reports_progress_and_is_a_scan_and_later_opens_cost_the_tail",)
    ),
    "test_lifecycle": frozenset(),
    "test_limits": frozenset(),
    "test_notifications": frozenset(),
    "test_null_params": frozenset(),
    "test_opaque_records": frozenset(),
    "test_ordering": frozenset(),
    "test_redact": frozenset(
        ("test_what_a_killed_server_left_of_the_stores_requests_goes_too",)  # a temporary file
    ),
    "test_request_age": frozenset(),
    "test_request_id": frozenset(
        (  # files as an earlier release wrote them: `requests.fits` is the same for rows
            "test_a_repeat_of_what_an_earlier_release_did_is_answered",
            "test_a_session_that_an_earlier_release_made_is_not_made_again",
        )
    ),
    "test_revert": frozenset(),
    "test_revert_exchange": frozenset(),
    "test_search": frozenset(
        (
            "test_the_read_only_and_the_attached_search_like_the_owner",  # nobody owns a session, so none is attached
            "test_a_session_that_cannot_be_read_does_not_hide_the_others",  # a folder in the place of its log
        )
    ),
    "test_session_changes": frozenset(
        (
            "test_a_deleted_session_goes_to_the_trash_whole_and_comes_back",  # the files of a folder, moved
            "test_its_id_is_free_again_and_undelete_takes_the_newest",  # moves a folder, too
        )
    ),
    "test_session_list": frozenset(
        (
            "test_a_damaged_session_does_not_break_the_list",  # somebody edits its files
            "test_a_session_open_in_another_process_names_its_owner",  # nobody owns a session
            "test_a_store_removed_behind_our_back_is_an_empty_one",  # somebody removes its directory
        )
    ),
    "test_session_open": frozenset(),
    "test_storage_use": frozenset(
        (  # of files: of rows `test_postgresql_methods::test_what_is_stored_is_measured_once`
            "test_one_session_and_its_files",
            "test_the_store_by_size_the_trash_included",
        )
    ),
    "test_timelines": frozenset(("test_what_was_damaged_before_comes_back_as_it_was",)),
    "test_summaries": frozenset(),
    "test_token_count_and_prompt": frozenset(),
    "test_workspaces": frozenset(
        (
            "test_a_root_is_named_by_any_spelling",
            "test_a_store_of_an_earlier_release_is_read_with_it",
            "test_the_command_line_finds_what_an_editor_made",
        )
    ),
    "test_undo": frozenset(
        (
            "test_a_damaged_timeline_is_not_brought_back",
            "test_a_file_that_somebody_wrote_does_no_harm",
            "test_a_session_of_an_earlier_release_can_undo_what_it_noted",
            "test_any_window_undoes_and_the_next_owner_knows",
        )
    ),
}
"""By module: its cases, or goldens, of a directory alone, such as files that another program writes, or who owns a session."""

QUICK_IN_A_DATABASE: Final = frozenset(
    (
        "test_append_items",
        "test_append_message",
        "test_at",
        "test_checkpoints",
        "test_dmail",
        "test_expected_head",
        "test_revert",
    )
)
"""The modules whose cases `make test` runs in a database, too; those of the others are `long`. What a database does by
itself is in `test_postgresql*`."""

QUICK_IN_BOTH_FRAMINGS: Final = frozenset(
    (
        "test_append_message",
        "test_client",
        "test_envelope",
        "test_framing",
        "test_initialize",
        "test_ordering",
    )
)
"""The modules whose cases `make test` runs in both framings: those of frames and order.
What a method does is the same in both. With `ndjson` the cases of the other modules run in a database, or are `long`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the modules of `EVERY_ENGINE` with each engine."""
    if _module(metafunc.module) in EVERY_ENGINE and "engine" in metafunc.fixturenames:
        marks = [] if _module(metafunc.module) in QUICK_IN_A_DATABASE else [pytest.mark.long]
        engines = ["jsonl", pytest.param("postgresql", marks=marks)]
        metafunc.parametrize("engine", engines, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of a directory with the database, what needs a method that it does not do, and framings that
    another engine's run of the case has."""
    for item in items:
        if isinstance(item, pytest.Function) and _is_long(item):
            item.add_marker(pytest.mark.long)
    left_out = [item for item in items if _is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_left_out(item)]


def _is_long(item: pytest.Function) -> bool:
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    return (
        chosen.get("framing") == "ndjson"
        and chosen.get("engine") != "postgresql"  # which of these are long is said where they are made
        and item.path.parent.name == "wire"
        and _module(item.module) not in QUICK_IN_BOTH_FRAMINGS
    )


def _is_left_out(item: pytest.Item) -> bool:
    """A case that runs with both engines runs with a framing of its own in each: the two do not know of each other."""
    chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if not isinstance(item, pytest.Function) or "engine" not in chosen:
        return False
    left_out = EVERY_ENGINE.get(_module(item.module))
    if left_out is None:
        return False  # of another folder, all of which pass here, too
    golden = chosen.get("golden")
    undone = isinstance(golden, dict) and bool(REQUESTS[golden["method"]].needs_directory)
    of_a_directory = undone or not left_out.isdisjoint((item.originalname, chosen.get("name")))
    if chosen["engine"] == "postgresql":
        return of_a_directory or chosen.get("framing") == "lsp"
    in_both = of_a_directory or _module(item.module) in QUICK_IN_BOTH_FRAMINGS
    return not in_both and chosen.get("framing") == "ndjson"


def _module(module: object) -> str:
    return str(getattr(module, "__name__", "")).rpartition(".")[2]
