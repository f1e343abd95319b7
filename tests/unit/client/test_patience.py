from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from timeleap.client import RawTimeleap, RequestTimeoutError, TimeleapRpcError

APPEND = "context/appendMessage"
LOCKED = ((APPEND, 1, "locked"), (APPEND, 2, "locked"))


def append(client, **more):
    return client.call(APPEND, {"sessionId": "s", "message": {"role": "user", "content": "1"}}, **more)


async def test_an_owner_that_does_not_answer_is_asked_again_under_the_same_request_id(fake):
    async with RawTimeleap(**fake.args(*LOCKED)) as client:
        assert "duplicate" not in await append(client)
    first, second, third = fake.params(APPEND)
    assert first == second == third
    assert len(fake.effects) == 1


async def test_what_changes_nothing_is_asked_again_too(fake):
    async with RawTimeleap(**fake.args(("session/getState", 1, "locked"))) as client:
        assert "echo" in await client.call("session/getState", {"sessionId": "s"})


@pytest.mark.parametrize("patience", [0.2, 0.0])
async def test_an_owner_that_never_answers_is_an_error_when_the_patience_is_over(fake, patience):
    async with RawTimeleap(**fake.args((APPEND, "*", "locked"), timeout=60.0, patience=patience)) as client:
        with pytest.raises(TimeleapRpcError, match="another process writes to it") as caught:
            await append(client)
    assert (caught.value.kind, caught.value.retryable) == ("sessionLocked", True)
    assert (len(fake.told(APPEND)) > 1) is (patience > 0.0)


async def test_an_owner_that_never_answers_is_an_error_when_the_time_is_over(fake, monkeypatch):
    times = itertools.count(step=80.0)  # each look at the clock is that much later: no attempt has little time left
    async with RawTimeleap(**fake.args((APPEND, "*", "locked"), patience=3600.0)) as client:
        await client.call("x/echo", {})
        monkeypatch.setattr("timeleap_client.link.time", SimpleNamespace(monotonic=lambda: next(times)))
        with pytest.raises(TimeleapRpcError, match="another process writes to it") as caught:
            await append(client, within=600.0)
    assert (caught.value.kind, caught.value.retryable) == ("sessionLocked", True)
    assert 1 < len(fake.told(APPEND)) < 10


async def test_a_pause_that_took_all_the_time_ends_with_the_refusal(fake, monkeypatch):
    times = iter([0.0, 0.1])  # when it began, when it was refused; then much later
    async with RawTimeleap(**fake.args((APPEND, "*", "locked"))) as client:
        await client.call("x/echo", {})
        monkeypatch.setattr("timeleap_client.link.time", SimpleNamespace(monotonic=lambda: next(times, 1000.0)))
        with pytest.raises(TimeleapRpcError, match="another process writes to it"):
            await append(client, within=60.0)
    assert len(fake.told(APPEND)) == 1


@pytest.mark.long
async def test_an_attempt_takes_no_longer_than_what_is_left_of_the_time(fake):
    rules = ((APPEND, 1, "locked"), (APPEND, 2, "silent"))
    async with RawTimeleap(**fake.args(*rules)) as client:
        with pytest.raises(RequestTimeoutError) as caught:
            await append(client, within=3.0)
    assert float(str(caught.value).split()[-2]) < 3.0


@pytest.mark.parametrize(("method", "params"), [("x/echo", {}), ("session/open", {"sessionId": "s", "attach": False})])
async def test_what_may_not_be_repeated_and_who_does_not_want_to_attach_is_not_kept_waiting(fake, method, params):
    async with RawTimeleap(**fake.args((method, "*", "locked"))) as client:
        with pytest.raises(TimeleapRpcError):
            await client.call(method, params)
    assert len(fake.told(method)) == 1


async def test_another_refusal_is_not_tried_again(fake):
    async with RawTimeleap(**fake.args((APPEND, "*", "readOnly"))) as client:
        with pytest.raises(TimeleapRpcError):
            await append(client)
    assert len(fake.told(APPEND)) == 1


async def test_a_wait_can_be_given_up(fake):
    async with RawTimeleap(**fake.args((APPEND, "*", "locked"))) as client:
        task = asyncio.create_task(append(client))
        while not fake.told(APPEND):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.call("session/list")
