"""What the processes of pytest-xdist do not do twice, and do not say."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
from tests import conftest

FOLDERS = ["tests/property", "tests/unit/service"]


def imported(monkeypatch: pytest.MonkeyPatch, number: int, arguments: list[str], ignored: list[str]) -> list[str]:
    """What the process of that number, of three, imports before it collects."""
    names: list[str] = []
    monkeypatch.setattr(importlib, "import_module", names.append)
    place = SimpleNamespace(dir=conftest.ROOT)
    config: Any = SimpleNamespace(args=arguments, invocation_params=place, getoption=lambda _: ignored)
    conftest._import_in_turn(config, number, 3)
    return names


def test_each_process_begins_with_another_third_of_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [imported(monkeypatch, number, FOLDERS, []) for number in range(3)]
    modules = sorted(orders[0])
    assert len(modules) > 5
    assert all(sorted(order) == modules for order in orders)
    thirds = [order[: -(-len(modules) // 3)] for order in orders]
    assert set().union(*thirds) == set(modules)
    assert len({order[0] for order in orders}) == 3


def test_what_is_not_collected_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = FOLDERS
    assert imported(monkeypatch, 0, FOLDERS, [other]) == imported(monkeypatch, 0, [folder], [])
    assert imported(monkeypatch, 0, [f"{folder}/test_diff.py", f"{folder}/test_lines.py::test_one"], []) == []


def test_a_module_that_cannot_be_imported_is_left_to_the_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise SyntaxError

    config: Any = SimpleNamespace(
        args=FOLDERS, invocation_params=SimpleNamespace(dir=conftest.ROOT), getoption=lambda _: None
    )
    monkeypatch.setattr(importlib, "import_module", fail)
    conftest._import_in_turn(config, 0, 1)


@pytest.mark.parametrize(
    ("event", "news"),
    [
        (("logstart", {}), False),
        (("logfinish", {}), True),
        (("testreport", {"when": "call"}), True),
        (("testreport", {"when": "setup"}), False),
        (("testreport", {"when": "teardown"}), False),
        (("testreport", {"when": "setup", "outcome": "failed"}), True),
        (("testreport", {"when": "setup", "outcome": "skipped"}), True),
        (("testreport", {"when": "teardown", "outcome": "failed"}), True),
        (("testreport", {"when": "setup", "duration": 1.5}), True),
        (("testreport", {"when": "teardown", "sections": [("Captured stdout", "said")]}), True),
    ],
)
def test_only_what_is_printed_is_told(event: tuple[str, dict[str, Any]], news: bool) -> None:
    told: list[str] = []
    sender: Any = SimpleNamespace(sendevent=lambda name, **_: told.append(name))
    conftest._be_brief(sender)
    name, report = event
    sender.sendevent(name, data={"outcome": "passed", "duration": 0.01, "sections": [], **report})
    assert (told == [name]) == news
