"""The JSON of outcomes: results of the methods that come to them."""

from __future__ import annotations

from typing import Any

import pytest

from timeleap.sessions import outcomes
from timeleap.sessions.outcomes import Summary
from timeleap.sessions.shapes import Shapes
from timeleap_protocol.methods import REQUESTS

SUMMARY = Summary(1, 2, 3, 0, (), 0, None, 9, 0)
OUTCOMES: dict[str, tuple[Any, ...]] = {
    "context/appendMessage": (outcomes.AppendOutcome("h", 0, 1, 1, 2),),
    "context/updateTokenCount": (outcomes.UsageOutcome("h", 1),),
    "context/setSystemPrompt context/cancelDMail session/setTitle session/setWorkspace session/archive session/unarchive": (
        outcomes.HeadOutcome("h"),
    ),
    "context/checkpoint": (outcomes.CheckpointOutcome("h", outcomes.Checkpoint(0, "c", "l", "t", 0, 0, "p")),),
    "context/revertTo context/clear context/restoreTimeline context/undo context/redo context/deliverDMail": (
        outcomes.RewriteOutcome("h", "context_1", outcomes.Removed(1, 0, 0), SUMMARY),
    ),
    "context/compact": (outcomes.CompactOutcome("h", True, "r", "context_1", "s", 1, 1, 1, 1, SUMMARY),),
    "context/setPins": (outcomes.PinsOutcome("h", ("p",)),),
    "context/sendDMail": (
        outcomes.DMailOutcome("h", outcomes.PendingDMail(0, "c", "m")),
        outcomes.NoteOutcome("h", 1),
    ),
    "session/setYolo session/setAutoApprove session/setAfk": (outcomes.ApprovalOutcome("h", outcomes.Approval()),),
    "session/putSubagent session/removeSubagent": (outcomes.SubagentsOutcome("h"),),
}


@pytest.mark.parametrize("methods", OUTCOMES)
def test_a_result_has_members_of_its_methods_only(methods: str) -> None:
    for method in methods.split():
        model = REQUESTS[method].result_model
        assert model is not None
        for outcome in OUTCOMES[methods]:
            names = {field.alias for field in model.model_fields.values()}
            assert Shapes().result(outcome).keys() <= names
