"""What bounds the server: requests at a time, their memory, and their rate."""

import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

CONCURRENT_REQUESTS = 100
QUEUED_REQUESTS = 1000
OPEN_STREAMS = 100  # streams that last: they would otherwise hold the slots of requests
MEMORY_BYTES = 100 * 1024 * 1024
BODY_BYTES = 4 * 1024 * 1024  # of one request, which is also the limit of the SDK
SHUTDOWN_SECONDS = 30


class OverloadedError(Exception):
    """A limit of the whole server is reached. The request may be sent again later."""


@dataclass(eq=False)
class Ticket:
    """One request that runs, and the bytes that are held for it."""

    gate: "Gate"
    held: int = 0
    open: bool = True

    def hold(self, size: int) -> None:
        """Reserve bytes until the request has ended.

        Raises:
            OverloadedError: The requests in flight would hold more than the limit.
        """
        if self.gate.held + size > self.gate.memory:
            raise OverloadedError(f"requests in flight hold {self.gate.memory} bytes")
        self.gate.held += size
        self.held += size


class Gate:
    """Lets so many requests run at a time, and so many wait."""

    def __init__(
        self,
        concurrent: int = CONCURRENT_REQUESTS,
        queued: int = QUEUED_REQUESTS,
        memory: int = MEMORY_BYTES,
    ) -> None:
        self.memory = memory
        self.held = 0
        self.accepted = 0  # those that run and those that wait
        self._most = concurrent + queued
        self._slots = anyio.Semaphore(concurrent)
        self._idle = anyio.Event()

    @asynccontextmanager
    async def ticket(self) -> AsyncIterator[Ticket]:
        """Wait for a slot, and keep it for the body of the with statement.

        Raises:
            OverloadedError: The queue is full.
        """
        if self.accepted >= self._most:
            raise OverloadedError(f"{self.accepted} requests run or wait")
        ticket = Ticket(self)
        self.accepted += 1
        try:
            async with self._slots:
                yield ticket
        finally:
            ticket.open = False
            self.held -= ticket.held
            self.accepted -= 1
            if self.accepted == 0:
                self._idle.set()
                self._idle = anyio.Event()

    async def idle(self) -> None:
        """Wait until no request runs or waits."""
        while self.accepted:
            await self._idle.wait()


@dataclass
class RateLimiter:
    """A token bucket for each caller: a burst at once, and so many a minute after it."""

    per_minute: int
    burst: int
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, caller: str) -> int:
        """Take one request of a caller. Return 0, or the seconds after which to try again.

        Callers are credentials of the configuration, so there are few buckets.
        """
        now = self.clock()
        tokens, since = self._buckets.get(caller, (float(self.burst), now))
        rate = self.per_minute / 60
        tokens = min(float(self.burst), tokens + (now - since) * rate)
        if tokens < 1:
            self._buckets[caller] = (tokens, now)
            return math.ceil((1 - tokens) / rate)
        self._buckets[caller] = (tokens - 1, now)
        return 0
