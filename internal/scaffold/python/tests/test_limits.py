"""Slots, queue, memory and rate."""

import anyio
import pytest

from example_server import limits

pytestmark = pytest.mark.anyio


async def test_defaults() -> None:
    gate = limits.Gate()
    assert gate.memory == 100 * 1024 * 1024
    assert (limits.CONCURRENT_REQUESTS, limits.QUEUED_REQUESTS) == (100, 1000)
    assert limits.SHUTDOWN_SECONDS == 30


async def test_so_many_run_and_so_many_wait() -> None:
    gate = limits.Gate()
    running = most = ended = 0
    release = anyio.Event()
    full = anyio.Event()

    async def one() -> None:
        nonlocal running, most, ended
        async with gate.ticket():
            running += 1
            most = max(most, running)
            if running == limits.CONCURRENT_REQUESTS:
                full.set()
            await release.wait()
            running -= 1
            ended += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(limits.CONCURRENT_REQUESTS + limits.QUEUED_REQUESTS):
            tasks.start_soon(one)
        await full.wait()
        assert gate.accepted == 1100
        with pytest.raises(limits.OverloadedError, match="1100 requests run or wait"):
            async with gate.ticket():
                pass
        release.set()
        await gate.idle()
    assert (most, ended, gate.accepted) == (100, 1100, 0)


async def test_memory() -> None:
    gate = limits.Gate(memory=10)
    async with gate.ticket() as first, gate.ticket() as second:
        first.hold(6)
        second.hold(4)
        with pytest.raises(limits.OverloadedError, match="10 bytes"):
            second.hold(1)
    assert gate.held == 0


async def test_cancelled_while_waiting() -> None:
    gate = limits.Gate(concurrent=1, queued=1)
    async with gate.ticket():
        with anyio.move_on_after(0):
            async with gate.ticket():
                raise AssertionError("there is no slot")
        assert gate.accepted == 1
    assert gate.accepted == 0


async def test_rate() -> None:
    now = 100.0
    rate = limits.RateLimiter(per_minute=60, burst=3, clock=lambda: now)
    assert [rate.take("a") for _ in range(4)] == [0, 0, 0, 1]
    assert rate.take("b") == 0
    now += 1
    assert [rate.take("a") for _ in range(2)] == [0, 1]
    now += 3600
    assert [rate.take("a") for _ in range(4)] == [0, 0, 0, 1]


async def test_rate_says_when() -> None:
    now = 0.0
    rate = limits.RateLimiter(per_minute=4, burst=1, clock=lambda: now)
    assert rate.take("a") == 0
    wait = rate.take("a")
    assert wait == 15
    now += wait
    assert rate.take("a") == 0
