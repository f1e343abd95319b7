"""Results of sessions: they have the members of their methods."""

from __future__ import annotations

from typing import Any

from tests.support.compacting import compact
from tests.unit.sessions.worlds import ANSWER, USER, World

from timeleap.features.approvals.switches import set_afk, set_auto_approve, set_yolo
from timeleap.features.compaction.decisions import CompactionPlan
from timeleap.features.compaction.handlers import leave_uncompacted
from timeleap.features.compaction.prepare import summary_message
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.shapes import Mutation
from timeleap_protocol.methods import REQUESTS


async def test_a_result_has_members_of_its_methods_only(world: World) -> None:
    session = await world.session()
    results: list[tuple[str, Any]] = [
        ("context/appendMessage", await session.append([USER, ANSWER])),
        ("context/updateTokenCount", await session.update_token_count(1)),
        ("context/setSystemPrompt", await session.set_system_prompt("p")),
        ("context/checkpoint", await session.checkpoint("l", True)),
        ("context/setPins", await session.set_pins(["p"])),
        ("context/sendDMail", await session.send_dmail("m", checkpoint_id=0)),
        ("context/cancelDMail", await session.cancel_dmail()),
        ("context/sendDMail", await session.take_note("m", "s2")),
        ("context/revertTo", await session.revert(checkpoint_id=1, heal=True)),
        ("context/undo", await session.undo()),
        ("context/redo", await session.redo()),
        ("context/restoreTimeline", await session.restore_timeline("context_1")),
        ("context/clear", await session.clear()),
        ("context/undo", await session.undo()),
        ("context/compact", await leave_uncompacted(session, "r", Mutation())),
        ("context/compact", await compact(session, CompactionPlan(session.head, 0, summary_message("s"), "s"))),
        ("context/compact", await compact(session, CompactionPlan(session.head, 2, summary_message("s"), "s"))),
        ("session/setYolo", await set_yolo(session, True)),
        ("session/setAutoApprove", await set_auto_approve(session, "a", True)),
        ("session/setAfk", await set_afk(session, True)),
        ("session/putSubagent", await session.put_subagent("a", "p")),
        ("session/removeSubagent", await session.remove_subagent("a")),
        ("session/setTitle", await session.set_title("t")),
        ("session/setWorkspace", await session.set_workspace("file:///w")),
        ("session/archive", await session.archive()),
        ("session/unarchive", await session.unarchive()),
        ("session/prune", await session.prune(PruneRequest(timeline_ids=("context_1",)))),
    ]
    await session.send_dmail("m", checkpoint_id=0)
    results.append(("context/deliverDMail", await session.deliver_dmail()))
    for method, result in results:
        model = REQUESTS[method].result_model
        assert model is not None
        assert result.keys() <= {field.alias for field in model.model_fields.values()}, method
