"""Parametrizations of which `make test` runs some cases, and `make test-long` and CI the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_long(cases: Iterable[Any], *, every: int = 4, first: int = 0) -> list[Any]:
    """The cases in their order, all of them `long` but one of each `every`, beginning with the `first`.

    For lists of places to be killed at, of methods and the like, where each case starts processes. Tests that share a list
    begin at different cases, so that each case is in `make test` by one of them.

    Args:
        cases: Values; tuples where a case has several.
        every: One of how many is in `make test`.
        first: The index of the first of these.
    """
    return [case if number % every == first else _long(case) for number, case in enumerate(cases)]


def _long(case: Any) -> Any:
    if hasattr(case, "marks"):  # made by `pytest.param`
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.long], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
