"""What tests share: configurations, servers and clients of one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from example_server import http, server
from example_server.config import MCPConfiguration

TOKEN = "a-token-of-tests-only"
KEY = "a-key-of-tests-only"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
URL = "http://127.0.0.1:8000"
LEGACY = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
BASE = {
    "server_name": "tested",
    "server_version": "1.2.3",
    "transport_type": "HTTP",
    "http_host": "127.0.0.1",
    "http_port": 8000,
    "bearer_token": TOKEN,
    "api_key": KEY,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def configured(**changes: Any) -> MCPConfiguration:
    return MCPConfiguration.model_validate({**BASE, **changes}, strict=False)


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", name=name, arguments=arguments)


@asynccontextmanager
async def serving(made: server.Server) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the server's application, without a socket."""
    app = http.build(made)
    if made.lifecycle.state == "initializing":
        made.start()
    transport = httpx2.ASGITransport(app)
    async with (
        made.sdk.session_manager.run(),
        httpx2.AsyncClient(transport=transport, base_url=URL, headers=BEARER) as client,
    ):
        yield client


def new_server(**changes: Any) -> server.Server:
    """A server with one tool that echoes a number."""
    made = server.Server(configured(**changes))

    @made.tool("Echo a number.", thread_safe=True)
    async def echo(number: int) -> int:
        return number

    return made
