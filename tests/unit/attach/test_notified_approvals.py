"""A window that changes owners: what its user is asked, and told to be over, once."""

from __future__ import annotations

from timeleap.attach.notified import NotifiedApprovals
from timeleap.sessions.shapes import APPROVAL_REQUESTED as REQUESTED
from timeleap.sessions.shapes import APPROVAL_RESOLVED as RESOLVED

ASKED, OVER = b'{"approval":{"approvalId":"a"}}', b'{"approvalId":"a"}'


def test_a_request_is_passed_on_once_and_so_is_its_end() -> None:
    notified = NotifiedApprovals()
    assert notified.passes(REQUESTED, ASKED)
    assert not notified.passes(REQUESTED, ASKED), "the next owner tells of it again"
    assert notified.known == ["a"]
    assert notified.passes(RESOLVED, OVER)
    assert not notified.passes(RESOLVED, OVER)
    assert notified.known == []
    assert notified.passes(REQUESTED, ASKED), "it is asked anew"


def test_what_names_no_request_is_not_passed_on() -> None:
    notified = NotifiedApprovals()
    assert not notified.passes(REQUESTED, b'{"approval":{}}')
    assert not notified.passes(RESOLVED, b"{}")
    assert notified.passes("context/didChange", b"{}")
