"""A plugin of pytest: of each long test whose figures are told, the share that a run of `make torture` does."""

from __future__ import annotations

import pytest
from tests.support.torture import some


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out cases, but no test as a whole."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    items[:] = [item for each in cases.values() for item in some(each)]
