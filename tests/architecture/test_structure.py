"""The structure of the server stays within its ceilings, which only go down, and every one of them is as low as it can be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.sources import ROOT
from tests.architecture.structure import CEILINGS, Structure, documents_with_old_words, strongly_connected
from tests.support.entered import EnteredModules
from tests.support.fixtures import StartServer
from tests.support.session import Session

FINDINGS: dict[str, Callable[[Structure], list[str]]] = {
    "modules_named_twice": Structure.modules_named_twice,
    "old_module_names": Structure.old_module_names,
    "old_definitions": Structure.old_definitions,
    "old_words_in_names": Structure.old_words_in_names,
    "old_words_in_docstrings": Structure.old_words_in_docstrings,
    "old_words_in_documents": lambda _structure: documents_with_old_words(),
    "loops_over_one": Structure.loops_over_one,
    "method_literals": Structure.method_literals,
    "imports_in_functions": Structure.imports_in_functions,
    "storage_seen_by_sessions": Structure.storage_seen_by_sessions,
}


@pytest.fixture(scope="module")
def structure() -> Structure:
    return Structure()


@pytest.mark.parametrize("name", FINDINGS)
def test_a_count_is_its_ceiling(structure: Structure, name: str) -> None:
    found, ceiling = FINDINGS[name](structure), CEILINGS["count"][name]
    assert len(found) <= ceiling, f"{len(found)} {name}, at most {ceiling}: {found}"
    assert len(found) == ceiling, f"{name} went down: lower its ceiling to {len(found)} in ceilings.toml"


def test_the_architecture_document_keeps_to_its_size() -> None:
    size = (ROOT / "ARCHITECTURE.md").stat().st_size
    assert size <= CEILINGS["count"]["architecture_bytes"]


REQUESTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "context/appendMessage": lambda number: {"message": {"role": "user", "content": f"measured {number}"}},
    "context/revertTo": lambda number: {"checkpointId": 5 - number},
}


@pytest.mark.parametrize("method", REQUESTS)
def test_a_change_enters_the_modules_listed_and_no_others(start: StartServer, tmp_path: Path, method: str) -> None:
    entered = EnteredModules(tmp_path / "trace")
    session = Session.open(start(env=entered.env), "a")
    for number in range(6):
        session.checkpoint()
        session.say(f"message {number}")
    listed = set(CEILINGS["entered"][method])
    runs: list[set[str]] = []
    for number in range(3):
        session.say("warm")
        session.get_state()  # what the change before it left to do is done
        entered.since_last_time(session.server)
        session.call(method, **REQUESTS[method](number))
        runs.append(entered.since_last_time(session.server))
    always, ever = set[str].intersection(*runs) - set(CEILINGS["entered"]["background"]), set[str]().union(*runs)
    assert always <= listed, f"entered besides: {sorted(always - listed)}"
    assert listed <= ever, f"no longer entered, take them off the list: {sorted(listed - ever)}"


def test_spans_are_summed_up_only_for_clients_that_are_sent_them(start: StartServer, tmp_path: Path) -> None:
    entered = EnteredModules(tmp_path / "trace")
    quiet = start(env=entered.env, options={"optOutNotifications": ["context/didChange"]})
    session, summaries = Session.open(quiet, "a"), "timeleap.summaries.log_spans"
    session.checkpoint()
    session.say("not told")
    session.get_state()
    entered.since_last_time(quiet)
    session.say("not told")
    assert summaries not in entered.since_last_time(quiet)
    other = Session.open(start(), "a")
    session.say("told")
    assert summaries in entered.since_last_time(quiet)
    pending = other.start("context/appendMessage", message={"role": "user", "content": "told"})
    pending.result()
    assert pending.heard()[-1]["params"]["span"]["summary"]["messages"] == 4


def test_what_the_measures_find(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""Who is at the desk."""\nclass Desk: ...\nx = [one for one in (1, 2)]\n')
    (tmp_path / "turns.py").write_text(
        'from timeleap import a\nNAMES = {"context/revertTo", "session/didOpen"}\n'
        '@handles("context/clear")\ndef f(wish):\n    import timeleap.a\nclass Desk(a.Desk): ...\n'
    )
    found = Structure(tmp_path, client=None)
    assert found.old_module_names() == ["turns.py"]
    assert found.old_definitions() == ["a.py:2 Desk", "turns.py:6 Desk"]
    assert found.old_words_in_names() == ["a.py Desk", "turns.py Desk", "turns.py wish"]
    assert found.old_words_in_docstrings() == ["a.py:1 Who is at the desk."]
    assert found.loops_over_one() == ["a.py:3"]
    assert found.method_literals() == ["turns.py:2 context/revertTo"]
    assert found.imports_in_functions() == ["turns.py:5"]


def test_circles_are_what_can_reach_itself_through_others() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set[str](), "f": {"g"}, "g": {"f"}}
    assert strongly_connected(graph) == [["a", "b", "c"], ["f", "g"]]
