"""What an owner asks of us, and we of our client: how long that may take is the owner's to say."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from timeleap.service.attachment import Attachment


async def test_a_question_waits_until_the_owner_takes_it_back() -> None:
    asked: list[tuple[str, Any, float | None]] = []

    async def request(method: str, params: Any, *, timeout: float | None) -> Any:
        asked.append((method, params, timeout))
        await asyncio.Event().wait()

    ours = SimpleNamespace(place=SimpleNamespace(session_id="here"), _client=SimpleNamespace(request=request))
    task = asyncio.create_task(
        Attachment._be_asked(cast("Any", ours), "context/summarize", {"sessionId": "there", "prompt": "p"})
    )
    await asyncio.sleep(0)
    assert asked == [("context/summarize", {"sessionId": "here", "prompt": "p"}, None)]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
