"""The command as a process: stdio, signals and exit codes."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters
from mcp.types import TextResourceContents

from example_server import config

from .conftest import BEARER, LEGACY, TOKEN, request
from .test_http import free_port

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent
COMMAND = [
    sys.executable,
    "-m",
    "example_server",
    "--config",
    str(ROOT / "config.toml"),
]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "MCP_FILE_ROOT": str(ROOT / "files"), **changes}


@asynccontextmanager
async def started(**changes: str) -> AsyncIterator[Process]:
    """The server as a process, which is killed if it still runs at the end."""
    with anyio.fail_after(60):
        process = await anyio.open_process(COMMAND, env=environment(**changes))
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.aclose()


async def logged(process: Process, text: str) -> str:
    """Wait for a text in the log. Return what was logged until then."""
    assert process.stderr is not None
    seen = ""
    async for part in TextReceiveStream(process.stderr):
        seen += part
        if text in seen:
            return seen
    raise AssertionError(f"{text!r} is not in {seen}")


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_stdio_serves_both_eras(mode: str) -> None:
    command = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment())
    with anyio.fail_after(60):
        async with Client(command, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["fetch_url"]
            (content,) = (await client.read_resource("resource://about")).contents
            assert isinstance(content, TextResourceContents)
            assert json.loads(content.text)["version"] == "0.1.0"
            names = [p.name for p in (await client.list_prompts()).prompts]
            assert names == ["code_review"]


async def test_stdio_answers_all_before_it_ends() -> None:
    """The end of stdin cuts nothing off, a cancelled request is not waited for, logs are apart."""
    reads = [{**request("resources/read", uri="file:///.%2F"), "id": n} for n in range(2, 22)]
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    async with started(MCP_RATE_LIMIT_BURST="1") as process:  # there is no rate over stdio
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(
            lines(
                request("initialize", **LEGACY),
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                *reads,
                {**cancelled, "params": {"requestId": 21}},
            )
            + b"not json\n"
        )
        await process.stdin.aclose()
        output = "".join([part async for part in TextReceiveStream(process.stdout)])
        assert await process.wait() == 0
    answers = [json.loads(line) for line in output.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    ids = {answer.get("id") for answer in answers if "result" in answer}
    assert set(range(1, 21)) <= ids


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_stdio_ends_at_sigterm(number: signal.Signals) -> None:
    async with started() as process:
        await logged(process, "server is ready")
        process.send_signal(number)
        assert "server is stopped" in await logged(process, "server is stopped")
        assert await process.wait() == 0


async def test_http_restarts_at_sighup_and_ends_at_sigterm() -> None:
    port = free_port()
    changes = {"MCP_HTTP_PORT": str(port), "MCP_BEARER_TOKEN": TOKEN, "MCP_TRANSPORT_TYPE": "HTTP"}
    async with (
        started(**changes) as process,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=BEARER) as client,
    ):
        for _ in range(2):
            await logged(process, "listening at")
            got = await client.post("/mcp/tools/list", json=request("tools/list"))
            assert got.status_code == 200
            process.send_signal(signal.SIGHUP)
        log = await logged(process, "listening at")
        states = [line.split()[-1] for line in log.splitlines() if "server is" in line]
        assert states == ["shutting_down", "stopped", "ready"]
        process.send_signal(signal.SIGTERM)
        log += await logged(process, "server is stopped")
        assert TOKEN not in log
        assert await process.wait() == 0


async def test_production_logs_json() -> None:
    async with started(MCP_PROFILE="production") as process:
        log = await logged(process, "server is ready")
        assert json.loads(log.splitlines()[0])["level"] == "INFO"


async def test_wrong_configuration() -> None:
    changes = {"MCP_TRANSPORT_TYPE": "HTTP", "MCP_LOG_LEVEL": "loud"}
    async with started(**changes) as process:
        log = await logged(process, "fix")
        assert "log_level: 'loud' is wrong; fix: " in log
        assert await process.wait() == 2


def test_config_file_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_CONFIG_FILE", str(tmp_path / "none.toml"))
    with pytest.raises(config.ConfigurationError, match=r"none\.toml: "):
        config.from_process(None)
    assert config.from_process(str(ROOT / "config.toml")).profile == "development"


async def test_address_in_use() -> None:
    port = free_port()
    changes = {"MCP_HTTP_PORT": str(port), "MCP_BEARER_TOKEN": TOKEN, "MCP_TRANSPORT_TYPE": "HTTP"}
    async with started(**changes) as first:
        await logged(first, "listening at")
        async with started(**changes) as second:
            assert f"127.0.0.1:{port}" in await logged(second, "fix: choose another address")
            assert await second.wait() == 2
