"""A revert into the middle of a tool exchange: reported; healed only if that is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.server import Message
from tests.support.session import Session, assistant, user


def calling(*ids: str) -> Message:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "id": one, "function": {"name": "read", "arguments": "{}"}} for one in ids],
    }


def result(call: str) -> Message:
    return {"role": "tool", "content": "done", "tool_call_id": call}


@pytest.fixture
def told(session: Session) -> Session:
    """An exchange that was finished, then one of two calls with checkpoints between all of it."""
    session.append(user("go"), calling("a"), result("a"))  # 0 1 2
    session.checkpoint()  # 0
    session.append(assistant("next"), user("both"))  # 3 4
    session.checkpoint()  # 1
    session.append(calling("b", "c"))  # 5
    session.checkpoint()  # 2
    session.append(result("c"))  # 6
    session.checkpoint()  # 3
    session.append(result("b"))  # 7
    session.checkpoint()  # 4
    session.append(assistant("done"))  # 8
    return session


@pytest.mark.parametrize(
    ("checkpoint", "exchange", "kept", "healed"),
    [
        (0, None, 3, 3),
        (1, None, 5, 5),
        (2, {"index": 5, "openCalls": ["b", "c"]}, 6, 5),
        (3, {"index": 5, "openCalls": ["b"]}, 7, 5),
        (4, None, 8, 8),
    ],
)
@pytest.mark.parametrize("heal", [None, False, True])
def test_what_is_reported_and_what_stays(
    told: Session, checkpoint: int, exchange: Message | None, kept: int, healed: int, heal: bool | None
) -> None:
    params: dict[str, Any] = {"checkpointId": checkpoint} | ({} if heal is None else {"heal": heal})
    before = told.history()
    planned = told.call("context/revertTo", dryRun=True, **params)
    assert told.history() == before
    done = told.call("context/revertTo", **params)
    assert (planned["removed"], planned.get("toolExchange")) == (done["removed"], done.get("toolExchange"))
    stays = healed if heal else kept
    assert told.history() == before[:stays]
    assert done["context"]["messageCount"] == stays and done["removed"]["messages"] == 9 - stays
    if exchange is None:
        assert "toolExchange" not in done
    else:
        assert done["toolExchange"] == {**exchange, "healed": bool(heal)}
    assert told.call("context/restoreTimeline", timelineId=done["timelineId"])["removed"]["messages"] == stays - 9
    assert told.history() == before


def test_healing_goes_back_as_far_as_it_has_to(session: Session) -> None:
    session.append(user("go"), calling("a"), calling("b"), calling("c"))
    session.checkpoint()
    done = session.call("context/revertTo", checkpointId=0, heal=True)
    assert done["toolExchange"] == {"index": 1, "openCalls": ["c"], "healed": True}
    assert session.history() == [user("go")]


def test_a_healed_revert_is_safe_to_repeat(told: Session) -> None:
    first = told.call("context/revertTo", checkpointId=3, heal=True, requestId="h")
    again = told.call("context/revertTo", checkpointId=3, heal=True, requestId="h")
    assert again == {**first, "duplicate": True}
    assert told.refuse("context/revertTo", checkpointId=3, requestId="h")["code"] == -32602


def test_checkpoints_that_a_healing_passes_go_with_it(told: Session) -> None:
    done = told.call("context/revertTo", checkpointId=3, heal=True)
    assert [one["id"] for one in done["context"]["checkpoints"]] == [0, 1]
    assert done["removed"]["checkpoints"] == 3
