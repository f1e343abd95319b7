"""What an owner asks of us, and we of our client: how long that may take is the owner's to say; and leaving one that hangs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.holding import PATIENCE

from timeleap.attach.attachment import Attachment


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


async def test_who_leaves_does_not_wait_for_an_owner_that_hangs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waiting = asyncio.Event()

    async def attach(*_: Any) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("timeleap.attach.attachment.endpoint_of", lambda _: {})
    monkeypatch.setattr("timeleap.attach.attachment.attach", attach)
    client = SimpleNamespace(watch_congestion=lambda _: lambda: None)
    place = SimpleNamespace(session_id="s", directory=tmp_path)
    attachment = Attachment(cast("Any", None), cast("Any", client), cast("Any", place))
    attachment._look_for_owner()
    await asyncio.wait_for(waiting.wait(), PATIENCE)
    await asyncio.wait_for(attachment.close(), PATIENCE)
    assert attachment._search is None


async def test_what_is_told_before_the_client_knows_that_the_session_is_open_is_told_then(tmp_path: Path) -> None:
    told: list[tuple[str, Any]] = []
    client = SimpleNamespace(watch_congestion=lambda _: lambda: None, notify=lambda *each: told.append(each))
    place = SimpleNamespace(session_id="s", directory=tmp_path)
    attachment = Attachment(cast("Any", None), cast("Any", client), cast("Any", place))
    changes = [b'{"sessionId":"s","kind":"cleared","head":"%d"}' % number for number in range(3)]
    attachment._hear("context/didChange", changes[0])
    attachment._peer = cast("Any", SimpleNamespace())
    attachment._hear("context/didChange", changes[1])
    assert told == []
    attachment._catch_up()
    attachment._hear("context/didChange", changes[2])
    assert [bytes(params) for _, params in told] == changes
