"""Work in a thread of its own, and what it comes to: never torn, whoever stops waiting."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest
from tests.support.holding import PATIENCE, wait_until

from timeleap.uncancelled_work import LogThread, Outcome

NAME = "timeleap test"


def threads() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


@pytest.fixture
def thread() -> Iterator[LogThread]:
    made = LogThread(NAME)
    yield made
    made.end()
    wait_until(lambda: threads() == 0)


async def test_work_is_done_in_order_in_one_thread_that_is_started_when_needed(thread: LogThread) -> None:
    assert threads() == 0
    seen: list[tuple[int, int]] = []
    work = [thread.begin(lambda n: seen.append((n, threading.get_ident())), number) for number in range(20)]
    for one in work:
        await one.result_uncancelled()
    assert [number for number, _ in seen] == list(range(20))
    assert len({ident for _, ident in seen}) == 1
    assert threads() == 1
    thread.end()
    thread.end()
    wait_until(lambda: threads() == 0)
    assert await thread.do(lambda: "again") == "again"
    thread.end()
    wait_until(lambda: threads() == 0)


async def test_what_the_work_raises_is_raised_to_who_waits(thread: LogThread) -> None:
    def fail() -> None:
        raise OSError(28, "full")

    with pytest.raises(OSError, match="full"):
        await thread.do(fail)
    assert await thread.do(lambda: 1) == 1, "the thread goes on"


async def test_a_thread_that_nobody_has_any_more_ends_and_keeps_nothing_alive() -> None:
    class Log:
        def __init__(self) -> None:
            self.thread = LogThread(NAME)

        def work(self) -> None:
            return None

    log = Log()
    await log.thread.do(log.work)
    gone = weakref.ref(log)
    del log

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    wait_until(is_gone)  # the thread may not have let go of its last work yet
    wait_until(lambda: threads() == 0)


async def test_a_cancellation_does_not_tear_work_that_was_begun(thread: LogThread) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(result: object) -> object:
        begun.set()
        assert go_on.wait(PATIENCE)
        if isinstance(result, Exception):
            raise result
        return result

    for result in ("done", OSError(5, "broken")):
        begun.clear()
        go_on.clear()
        waiter = asyncio.create_task(thread.do(work, result))
        await asyncio.to_thread(begun.wait, PATIENCE)
        for _ in range(3):
            waiter.cancel()
            await asyncio.sleep(0)
        assert not waiter.done()
        go_on.set()
        if isinstance(result, OSError):
            with pytest.raises(OSError, match="broken"):
                await waiter
        else:
            assert await waiter == "done"


async def test_a_cancellation_stops_what_was_not_taken_up() -> None:
    outcome: Outcome[int] = Outcome()
    waiter = asyncio.create_task(outcome.result_uncancelled())
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert outcome.cancelled()
    assert not outcome.unwanted
    outcome.fail(OSError("late"))


async def test_who_asks_to_stop_is_heard_by_the_work() -> None:
    outcome: Outcome[int] = Outcome(taken=True)

    async def wait() -> int:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        return await outcome.result_uncancelled()

    waiter = asyncio.create_task(wait())
    await asyncio.sleep(0)
    assert outcome.unwanted
    outcome.set_result(7)
    assert await waiter == 7


async def test_the_end_of_the_loop_is_no_error_of_the_work() -> None:
    outcome: Outcome[int] = Outcome(taken=True)
    outcome.fail(KeyboardInterrupt())
    with pytest.raises(asyncio.CancelledError):
        await outcome.result_uncancelled()


def test_a_loop_that_was_closed_meanwhile_is_told_nothing(thread: LogThread) -> None:
    go_on = threading.Event()
    raised: list[object] = []
    hook, threading.excepthook = threading.excepthook, raised.append

    async def leave() -> None:
        thread.begin(go_on.wait, PATIENCE)

    try:
        asyncio.run(leave())
        go_on.set()
        thread.end()
        wait_until(lambda: threads() == 0)
    finally:
        threading.excepthook = hook
    assert raised == []


@pytest.mark.crash
def test_a_program_that_closes_nothing_ends_all_the_same() -> None:
    program = (
        "import asyncio\nfrom timeleap.uncancelled_work import LogThread\nthread = LogThread('x')\n"
        "print(asyncio.run(thread.do(lambda: 'done')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
