"""Which methods decide about approvals."""

from __future__ import annotations

from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.methods import REQUESTS


def test_whatever_changes_approvals_or_answers_a_request_decides() -> None:
    switching = {name for name, row in REQUESTS.items() if row.result == "session.ApprovalResult"}
    deciding = {row.name for row in REQUESTS.values() if row.decides}
    assert deciding == switching | {"approval/respond"}
    assert {"session/setYolo", "session/setAfk", "session/setAutoApprove"} <= switching


def test_a_decision_may_be_refused() -> None:
    assert all(ErrorKind.READ_ONLY in row.all_errors for row in REQUESTS.values() if row.decides)
