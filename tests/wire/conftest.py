"""Which tests run with each engine: the same cases, with sessions in a directory and in a database."""

from __future__ import annotations

from typing import Final

import pytest
from tests.support.fixtures import *  # noqa: F403
from tests.support.machines import serve, url  # noqa: F401

EVERY_ENGINE: Final[dict[str, frozenset[str]]] = {
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
    "test_storage_use": frozenset(("test_one_session_and_its_files", "test_the_store_by_size_the_trash_included")),
}
"""By module: its cases of a directory alone, such as files that another program writes, or who owns a session."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the modules of `EVERY_ENGINE` with each engine."""
    if _module(metafunc.module) in EVERY_ENGINE and "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", ["jsonl", "postgresql"], indirect=True, scope="module")


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
    left_out = EVERY_ENGINE.get(_module(item.module))  # None: of another folder, all of which pass here, too
    return left_out is not None and (chosen.get("framing") == "ndjson" or item.originalname in left_out)


def _module(module: object) -> str:
    return str(getattr(module, "__name__", "")).rpartition(".")[2]
