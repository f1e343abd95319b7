"""The figures of the server's source stay within their ceilings, which are never raised."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.architecture.house import FIGURES, House
from tests.architecture.structure import CEILINGS

CEILING, TARGET = CEILINGS["house"], CEILINGS["target"]
MORE_IS_BETTER = {"comments"}


@pytest.fixture(scope="module")
def house() -> House:
    return House()


def test_every_figure_has_a_ceiling_and_a_target() -> None:
    assert FIGURES.keys() == CEILING.keys() == TARGET.keys()


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_keeps_to_its_ceiling(house: House, name: str) -> None:
    figure = FIGURES[name](house)
    value = round(figure.value, 2)
    places = "\n".join(figure.places)
    if name in MORE_IS_BETTER:
        assert value >= CEILING[name], f"{name} fell to {value}, at least {CEILING[name]}"
    else:
        assert value <= CEILING[name], f"{name} rose to {value}, at most {CEILING[name]}:\n{places}"


SAMPLE = '''"""Servers of the pool; and their leases."""

from typing import Any

from timeleap import features

Json = dict[str, Any]


class Engine:
    """The same engine."""

    def read(self) -> int:
        raise NotImplementedError

    def read_now(self, standby: bool) -> object:
        # The standby answers while no primary does.
        count = 0
        def step() -> int:
            nonlocal count
            return (count := 1) if standby else getattr(self, f"{count}_then")
        return {"messageCount": step, "snapshot": lambda: snapshot}
'''


def test_figures_of_a_sample(tmp_path: Path) -> None:
    for folder in ("timeleap/storage", "timeleap/sessions", "timeleap/features"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "timeleap/__init__.py").touch()
    (tmp_path / "timeleap/storage/engine.py").write_text(SAMPLE)
    (tmp_path / "timeleap/sessions/session.py").write_text(SAMPLE)
    house = House(tmp_path)
    found = {name: FIGURES[name](house).value for name in FIGURES}
    assert found["core_lines"] == 2 * len(SAMPLE.splitlines())
    assert found["closures_in_sessions"] == 1000 * 2 / 12  # `step` and the lambda, in 12 lines of code
    assert found["comments"] == pytest.approx(100 * 2 / 26)
    counts = {
        "nonlocals": 2,
        "engine_methods": 2,
        "speed_names": 1,
        "names_put_together": 2,
        "words_of_a_store": 4,
        "words_of_files": 2,
        "wire_names_in_sessions": 1,
        "modules_of_several_subjects": 2,
        "leaning_docstrings": 2,
        "docstrings_that_lean_on_a_neighbour": 2,
        "aliases_of_json": 2,
        "classes_defined_twice": 1,
        "upward_imports": 2,
        "long_modules": 0,
        "circles": 0,
    }
    assert {name: found[name] for name in counts} == counts
