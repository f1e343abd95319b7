"""Each seeded fault makes a test fail that is named for it: what is promised has tests that fail without it.

One fault alone: `.venv/bin/pytest -m torture tests/faults -k 'first-words-of-what-it-breaks'`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults import outcomes
from tests.faults.faults import Fault, all_faults, can_be_apart, copied_checkout, failing, tests_that_fail
from tests.support.torture import some

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1800)]


@pytest.fixture(scope="session")
def checkout() -> Iterator[Path]:
    """A copy in which one fault at a time is made, and the tests are run apart from all else on the machine."""
    if not can_be_apart():
        pytest.skip("needs namespaces (`unshare --mount`): a fault may remove any file that a test names")
    with copied_checkout() as folder:
        yield folder


@pytest.mark.parametrize("fault", some(all_faults()), ids=lambda fault: fault.name)
def test_a_seeded_fault_is_caught(fault: Fault, checkout: Path) -> None:
    failed = tests_that_fail(fault, checkout)
    outcomes.keep(fault, failed)
    assert failed, f"with the fault in {fault.file} all tests pass that should fail: {', '.join(fault.tests)}"


def test_without_a_fault_they_pass(checkout: Path) -> None:
    """What fails with a fault fails because of it."""
    assert failing(tuple(sorted({test for fault in some(all_faults()) for test in fault.tests})), checkout) == []
