"""Fixtures of the interop tests: the original program, ready to be asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.original import Original
from tests.interop.prepare import NotPreparedError, original_python


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    """The original program in a child process. Where it cannot be run the tests fail and say how to get it."""
    try:
        original_python()
    except NotPreparedError as error:
        pytest.fail(str(error), pytrace=False)
    program = Original(tmp_path_factory.mktemp("original"))
    yield program
    program.close()
