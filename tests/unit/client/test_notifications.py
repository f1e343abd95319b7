from __future__ import annotations

import asyncio

import pytest

from timeleap.client import RECONNECTED, Notification, RawTimeleap
from timeleap_client.notifications import Bus, Wanted
from timeleap_protocol.notifications import SessionWarning

CHANGE = "context/didChange"


def append(client, session_id="s"):
    return client.call("context/appendMessage", {"sessionId": session_id, "message": {}})


async def test_a_change_is_heard_before_the_reply_to_its_request(fake):
    order = []
    async with RawTimeleap(**fake.args()) as client:
        client.on(lambda heard: order.append(heard.params["head"]), CHANGE)
        for _ in range(3):
            reply = await append(client)
            order.append("reply " + reply["head"])
    assert order == ["1", "reply 1", "2", "reply 2", "3", "reply 3"]


async def test_an_iterator_gives_what_it_wants_and_ends_with_the_client(fake):
    async with RawTimeleap(**fake.args()) as client:
        everything, one = client.notifications(), client.notifications(CHANGE, session_id="b")
        for session_id in ("a", "b", "c"):
            await append(client, session_id)
    assert [heard.session_id async for heard in everything] == ["a", "b", "c"]
    assert [heard.session_id async for heard in one] == ["b"]


async def test_an_iterator_waits_for_what_has_not_come_yet(fake):
    async with RawTimeleap(**fake.args()) as client, client.notifications() as heard:
        waiting = asyncio.ensure_future(anext(heard))
        await asyncio.sleep(0)
        assert not waiting.done()
        await append(client)
        assert (await waiting).kind == "x"


async def test_closing_an_iterator_keeps_what_has_arrived(fake):
    async with RawTimeleap(**fake.args()) as client:
        async with client.notifications() as heard:
            await append(client)
        await append(client)
        assert [notification.params["head"] async for notification in heard] == ["1"]


def publish(bus, count):
    for number in range(count):
        bus.publish(CHANGE, {"sessionId": "s", "n": number})


async def test_what_nobody_takes_is_bounded_and_counted():
    bus = Bus()
    subscription = bus.subscribe(Wanted(), capacity=3)
    publish(bus, 5)
    bus.close()
    assert [notification.params["n"] async for notification in subscription] == [2, 3, 4]
    assert subscription.lost == 2


async def test_callbacks_may_be_coroutine_functions_and_a_failing_one_stops_nobody(caplog):
    bus = Bus()
    heard = []

    async def later(notification):
        await asyncio.sleep(0)
        heard.append(("later", notification.params["n"]))

    async def fails_later(_):
        raise ValueError("later")

    bus.listen(Wanted(), lambda _: 1 / 0)
    bus.listen(Wanted(), fails_later)
    bus.listen(Wanted(), later)
    stop = bus.listen(Wanted(), lambda notification: heard.append(("now", notification.params["n"])))
    publish(bus, 1)
    stop()
    stop()
    publish(bus, 1)
    for _ in range(3):
        await asyncio.sleep(0)
    assert heard == [("now", 0), ("later", 0), ("later", 0)]
    assert caplog.text.count("ZeroDivisionError") == 2
    assert caplog.text.count("ValueError: later") == 2


def test_our_own_notification_has_to_be_asked_for():
    assert not Wanted().includes(Notification(RECONNECTED, {}))
    assert not Wanted((CHANGE,)).includes(Notification(RECONNECTED, {}))
    assert Wanted((RECONNECTED,), "s").includes(Notification(RECONNECTED, {}))


def test_a_notification_can_be_had_as_its_model():
    params = {"sessionId": "s", "kind": "k", "message": "m"}
    warning = Notification("session/warning", params).typed()
    assert isinstance(warning, SessionWarning)
    assert warning.message == "m"
    with pytest.raises(LookupError):
        Notification("x/unknown", {}).typed()
