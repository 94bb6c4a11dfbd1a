"""MCP on stdin and stdout: messages, a line each. Logs go to stderr."""

import io
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from typing import IO

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server

from .lifecycle import ServerState
from .limits import BODY_BYTES, SHUTDOWN_SECONDS
from .server import LISTEN, Server

logger = logging.getLogger(__name__)


class Pending:
    """The ids of requests that are not answered yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none = anyio.Event()

    def read(self, line: str) -> None:
        """Note a line of the client: a request, or that one is cancelled and gets no answer."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return  # the SDK answers it
        if not isinstance(message, dict):
            return
        if message.get("method") == "notifications/cancelled":
            params = message.get("params")
            self._done(params.get("requestId") if isinstance(params, dict) else None)
        elif "id" in message and message.get("method") not in (None, LISTEN):
            self._ids.add(json.dumps(message["id"]))

    def written(self, line: str) -> None:
        """Note a line that has left."""
        message = json.loads(line)
        if "method" not in message:
            self._done(message.get("id"))

    def _done(self, name: object) -> None:
        self._ids.discard(json.dumps(name))
        if not self._ids:
            self._none.set()
            self._none = anyio.Event()

    async def none(self) -> None:
        """Wait until all are answered."""
        while self._ids:
            await self._none.wait()


class Answers(anyio.AsyncFile[str]):
    """Stdout, which notes the answers that have left."""

    def __init__(self, file: IO[str], pending: Pending) -> None:
        super().__init__(file)
        self.pending = pending

    async def write(self, text: str) -> int:
        count = await super().write(text)
        await self.flush()
        self.pending.written(text)
        return count


class Requests(anyio.AsyncFile[str]):
    """Stdin, which ends at its end or at stop, but not before all requests are answered.

    The SDK cancels what runs when its input ends.
    """

    def __init__(self, file: IO[str], server: Server, pending: Pending, stop: anyio.Event) -> None:
        super().__init__(file)
        self.server = server
        self.pending = pending
        self.stop = stop

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._line()) is not None:
            self.pending.read(line)
            yield line
        self.server.lifecycle.to(ServerState.SHUTTING_DOWN)
        with anyio.move_on_after(SHUTDOWN_SECONDS):
            await self.pending.none()

    async def _line(self) -> str | None:
        """Return the next line, or None at the end, at stop, and where a line is too long."""
        found: list[str] = []

        async def read() -> None:
            # A read that waits cannot be interrupted; the thread is left behind.
            text = await to_thread.run_sync(
                self.wrapped.readline, BODY_BYTES + 1, abandon_on_cancel=True
            )
            found.append(text)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await self.stop.wait()
            tasks.cancel_scope.cancel()
        if not found or not found[0]:
            return None
        if len(found[0]) > BODY_BYTES:
            logger.error("a line has more than %d characters", BODY_BYTES)
            return None
        return found[0]


async def serve(server: Server, stop: anyio.Event) -> None:
    """Serve the client on stdin and stdout until it closes stdin, or until stop."""
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a handler prints must not stand between messages
    pending = Pending()
    answers = Answers(io.TextIOWrapper(wire, encoding="utf-8", newline="\n"), pending)
    stdin = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    requests = Requests(stdin, server, pending, stop)
    server.start()
    lowlevel = server.sdk._lowlevel_server  # as the SDK's run_stdio_async() does
    async with stdio_server(requests, answers) as (read, write):
        await lowlevel.run(read, write, lowlevel.create_initialization_options())
    server.lifecycle.to(ServerState.STOPPED)
