"""The door of HTTP, and the paths behind it."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from example_server import (
    capabilities,
    http,
    limits,
    server,
)

from .conftest import (
    BEARER,
    KEY,
    LEGACY,
    TOKEN,
    URL,
    call,
    configured,
    new_server,
    request,
    serving,
)

pytestmark = pytest.mark.anyio

ACCEPT = {"Accept": "application/json, text/event-stream"}


def modern(message: dict[str, Any]) -> dict[str, str]:
    """Give a message what revision 2026-07-28 asks for. Return its headers."""
    params = message["params"]
    params["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": http.MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": http.MODERN, "Mcp-Method": message["method"], **ACCEPT}
    return headers if "name" not in params else {**headers, "Mcp-Name": params["name"]}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {KEY}"}, 401),
        ({"X-API-Key": TOKEN}, 401),
        ({"X-API-Key": ""}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"bearer {TOKEN}"}, 200),
        ({"X-API-Key": KEY}, 200),
    ],
)
async def test_authentication(headers: dict[str, str], status: int) -> None:
    async with serving(new_server()) as client:
        del client.headers["Authorization"]
        got = await client.post("/mcp/tools/list", json=request("tools/list"), headers=headers)
        assert got.status_code == status
        if status == 401:
            assert got.headers["WWW-Authenticate"] == "Bearer"
            assert got.json()["error"]["code"] == http.UNAUTHORIZED


@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse", "/mcp/tools/list", "/messages/", "/other"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_every_path_is_authenticated(path: str, method: str) -> None:
    async with serving(new_server()) as client:
        del client.headers["Authorization"]
        assert (await client.request(method, path)).status_code == 401


async def test_one_credential_is_enough() -> None:
    async with serving(new_server(bearer_token=None)) as client:
        for headers, status in (({}, 401), ({"X-API-Key": KEY}, 200)):
            got = await client.post("/mcp/tools/list", json=request("tools/list"), headers=headers)
            assert got.status_code == status


async def test_modern() -> None:
    async with serving(new_server()) as client:
        message = call("echo", number=7)
        got = await client.post("/mcp", json=message, headers=modern(message))
        assert got.json()["result"]["structuredContent"] == {"result": 7}


async def test_legacy_session_belongs_to_its_caller() -> None:
    async with serving(new_server()) as client:
        hello = await client.post("/mcp", json=request("initialize", **LEGACY), headers=ACCEPT)
        headers = {**ACCEPT, "Mcp-Session-Id": hello.headers["Mcp-Session-Id"]}
        got = await client.post("/mcp", json=call("echo", number=7), headers=headers)
        assert '"result":7' in got.text
        del client.headers["Authorization"]
        headers["X-API-Key"] = KEY
        got = await client.post("/mcp", json=call("echo", number=7), headers=headers)
        assert got.status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("tools/call", call("echo", number=7), 200, None),
        ("tools/list", request("tools/list"), 200, None),
        ("prompts/list", request("prompts/list"), 200, None),
        ("resources/list", request("resources/list"), 200, None),
        ("resources/templates/list", request("resources/templates/list"), 200, None),
        ("resources/read", request("resources/read", uri="x://größe"), 200, None),
        ("prompts/get", request("prompts/get", name="p"), 200, None),
        ("server/discover", request("server/discover"), 200, None),
        ("tools/call", request("tools/list"), 400, -32600),
        ("tools/call", [], 400, -32600),
        ("tools/list", {"method": "tools/list", "id": 1}, 400, -32600),
        ("tools/list", b"{", 400, -32700),
        ("tools/list", b"[" * 100_000, 400, -32700),
        ("tools/none", request("tools/none"), 404, -32601),
        ("tools/call", call("none"), 400, -32602),
    ],
)
async def test_method_paths(path: str, body: Any, status: int, code: int | None) -> None:
    made = new_server()

    @made.resource("x://{id}", "d", "text/plain")
    async def r(id: str) -> str:  # noqa: A002
        return id

    made.prompt(capabilities.Prompt("p", "d", {}, [capabilities.PromptMessage("user", "x")], 5))
    async with serving(made) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        got = await client.post(f"/mcp/{path}", content=content, headers=headers)
        assert got.status_code == status, got.text
        assert got.json().get("error", {}).get("code") == code


async def test_method_path_with_a_name_beyond_ascii() -> None:
    async with serving(new_server()) as client:
        body = request("resources/read", uri="x://größe")
        got = await client.post("/mcp/resources/read", json=body)
        assert "Unknown resource: x://größe" in got.json()["error"]["message"]


async def test_rate_limit() -> None:
    async with serving(new_server(rate_limit_per_minute=1, rate_limit_burst=3)) as client:
        counts: dict[int, int] = {}
        for _ in range(5):
            got = await client.post("/mcp/tools/list", json=request("tools/list"))
            counts[got.status_code] = counts.get(got.status_code, 0) + 1
        assert counts == {200: 3, 429: 2}
        assert 1 <= int(got.headers["Retry-After"]) <= 60
        other = {"Authorization": "", "X-API-Key": KEY}
        got = await client.post("/mcp/tools/list", json=request("tools/list"), headers=other)
        assert got.status_code == 200  # each credential has its own


async def test_too_many_requests_at_a_time() -> None:
    made = waiting(server.Server(configured(), limits.Gate(concurrent=1, queued=1)))
    results: list[httpx2.Response] = []
    async with serving(made.server) as client, anyio.create_task_group() as tasks:

        async def one() -> None:
            results.append(await client.post("/mcp/tools/call", json=call("wait")))

        tasks.start_soon(one)
        await made.begun.wait()
        tasks.start_soon(one)
        while made.server.gate.accepted < 2:
            await anyio.lowlevel.checkpoint()
        refused = await client.post("/mcp/tools/call", json=call("wait"))
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        made.release.set()
    assert [got.status_code for got in results] == [200, 200]


async def test_memory_of_bodies() -> None:
    made = new_server()
    made.gate = limits.Gate(memory=500)
    async with serving(made) as client:
        got = await client.post("/mcp/tools/list", json=request("tools/list", x="y" * 600))
        assert got.status_code == 503
        assert made.gate.held == 0


async def test_body_size() -> None:
    async with serving(new_server()) as client:
        body = b" " * (limits.BODY_BYTES + 1)
        assert (await client.post("/mcp/tools/list", content=body)).status_code == 413
        body = json.dumps(request("tools/list")).encode().ljust(limits.BODY_BYTES)
        json_type = {"Content-Type": "application/json"}
        got = await client.post("/mcp/tools/list", content=body, headers=json_type)
        assert got.status_code == 200


async def test_streams_are_counted_while_they_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.OPEN_STREAMS == 100
    monkeypatch.setattr(http, "OPEN_STREAMS", 1)
    stop = anyio.Event()
    async with listening(new_server(http_port=free_port()), stop) as (client, _):
        async with client.stream("GET", "/mcp/sse") as stream:
            assert stream.status_code == 200
            assert (await client.get("/mcp/sse")).status_code == 503
        while (got := await state(client)) == 503:
            await anyio.lowlevel.checkpoint()
        assert got == 200
        stop.set()


async def state(client: httpx2.AsyncClient) -> int:
    async with client.stream("GET", "/mcp/sse") as stream:
        return stream.status_code


async def test_open_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "OPEN_STREAMS", 0)
    async with serving(new_server()) as client:
        assert (await client.get("/mcp/sse")).status_code == 503
        message = request("subscriptions/listen")
        got = await client.post("/mcp", json=message, headers=modern(message))
        assert got.status_code == 503
        assert (await client.post("/mcp/tools/list", json=request("tools/list"))).status_code == 200


async def test_cors_if_configured() -> None:
    origin = "https://app.example.com"
    preflight = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    async with serving(new_server(cors_origins=[origin])) as client:
        got = await client.options("/mcp", headers={**preflight, "Authorization": ""})
        assert got.status_code == 200
        assert got.headers["Access-Control-Allow-Origin"] == origin
        got = await client.post(
            "/mcp/tools/list", json=request("tools/list"), headers={"Origin": origin}
        )
        assert (got.status_code, got.headers["Access-Control-Allow-Origin"]) == (200, origin)
        got = await client.post(
            "/mcp/tools/list",
            json=request("tools/list"),
            headers={"Origin": "https://evil.example"},
        )
        assert got.status_code == 403
    async with serving(new_server()) as client:
        assert (await client.options("/mcp", headers=preflight)).status_code != 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost:1", 200),
        ("evil.example", 421),
        ("own.example", 200),
        ("host.example:8000", 200),
    ],
)
async def test_hosts(host: str, status: int) -> None:
    made = new_server(allowed_hosts=["own.example"], http_host="host.example")
    async with serving(made) as client:
        got = await client.post(
            "/mcp/tools/list", json=request("tools/list"), headers={"Host": host}
        )
        assert got.status_code == status


class Waiting:
    """A server whose tool "wait" begins, and ends when it is released."""

    def __init__(self, made: server.Server) -> None:
        self.server = made
        self.begun = anyio.Event()
        self.release = anyio.Event()

    async def wait(self) -> str:
        self.begun.set()
        await self.release.wait()
        return "waited"


def waiting(made: server.Server) -> Waiting:
    held = Waiting(made)

    @made.tool("Wait.", thread_safe=True)
    async def wait() -> str:
        return await held.wait()

    return held


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.asynccontextmanager
async def listening(
    made: server.Server, stop: anyio.Event, drain_seconds: float = 30
) -> AsyncIterator[tuple[httpx2.AsyncClient, anyio.Event]]:
    """A client of a server that listens, and what happens when it has ended."""
    ready, ended = anyio.Event(), anyio.Event()
    made.lifecycle.observe(lambda _: ready.set())

    async def serve() -> None:
        await http.serve(made, stop, drain_seconds)
        ended.set()

    url = URL.replace("8000", str(made.config.http_port))
    with anyio.fail_after(30):
        async with (
            anyio.create_task_group() as tasks,
            httpx2.AsyncClient(base_url=url, headers=BEARER, timeout=30) as client,
        ):
            tasks.start_soon(serve)
            await ready.wait()
            yield client, ended
            stop.set()


async def test_shutdown_finishes_what_runs_and_refuses_what_is_new() -> None:
    held = waiting(server.Server(configured(http_port=free_port())))
    stop = anyio.Event()
    shutting_down = anyio.Event()
    states: list[str] = []
    held.server.lifecycle.observe(lambda state: states.append(state.value))
    held.server.lifecycle.observe(
        lambda state: shutting_down.set() if state == "shutting_down" else None
    )
    results: list[httpx2.Response] = []
    async with listening(held.server, stop) as (client, ended), anyio.create_task_group() as tasks:

        async def one() -> None:
            results.append(await client.post("/mcp/tools/call", json=call("wait")))

        for _ in range(10):
            tasks.start_soon(one)
        while held.server.gate.accepted < 10:
            await anyio.lowlevel.checkpoint()
        await held.begun.wait()
        stop.set()
        await shutting_down.wait()
        refused = await client.post("/mcp/tools/list", json=request("tools/list"))
        assert refused.status_code == 503
        assert "shutting_down" in refused.text
        held.release.set()
        await ended.wait()
    assert [got.status_code for got in results] == [200] * 10
    assert all("waited" in got.text for got in results)
    assert states == ["ready", "shutting_down", "stopped"]


async def test_shutdown_ends_what_takes_too_long() -> None:
    held = waiting(server.Server(configured(http_port=free_port())))
    stop = anyio.Event()
    async with (
        listening(held.server, stop, drain_seconds=0) as (client, ended),
        anyio.create_task_group() as tasks,
    ):

        async def one() -> None:
            with contextlib.suppress(httpx2.HTTPError):
                got = await client.post("/mcp/tools/call", json=call("wait"))
                assert got.status_code >= 500

        tasks.start_soon(one)
        await held.begun.wait()
        stop.set()
        await ended.wait()


async def test_sse() -> None:
    """GET /mcp/sse names the path for messages, and has their answers."""
    stop = anyio.Event()
    async with listening(new_server(http_port=free_port()), stop) as (client, _):
        async with client.stream("GET", "/mcp/sse") as stream:
            lines = stream.aiter_lines()
            endpoint = (await data(lines)).strip()
            hello = request("initialize", **LEGACY)
            assert (await client.post(endpoint, json=hello)).status_code == 202
            assert json.loads(await data(lines))["result"]["serverInfo"]["name"] == "tested"
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await client.post(endpoint, json=note)
            await client.post(endpoint, json=call("echo", number=7))
            answer = json.loads(await data(lines))["result"]["structuredContent"]
            assert answer == {"result": 7}
            other = {"Authorization": "", "X-API-Key": KEY}
            got = await client.post(endpoint, json=hello, headers=other)
            assert got.status_code == 404
        stop.set()


async def data(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line.startswith("data:"):
            return line.removeprefix("data:")
    raise AssertionError("the stream has ended")
