"""The rules of the server, at the SDK's own client, without a transport."""

import itertools
import re
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    REQUEST_TIMEOUT,
    BlobResourceContents,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from example_server import (
    capabilities,
    lifecycle,
    limits,
    server,
)

from .conftest import configured, new_server

pytestmark = pytest.mark.anyio


def ready(**changes: Any) -> server.Server:
    made = new_server(**changes)
    made.start()
    return made


def said(result: Any) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_lifecycle() -> None:
    order = [s.value for s in lifecycle.ServerState]
    assert order == ["initializing", "ready", "shutting_down", "stopped"]
    made = lifecycle.Lifecycle()
    seen: list[str] = []
    made.observe(seen.append)
    for name in (*order[1:], "ready", "shutting_down", "stopped"):  # and a restart
        made.to(lifecycle.ServerState(name))
    assert seen == [*order[1:], "ready", "shutting_down", "stopped"]


@pytest.mark.parametrize("state", list(lifecycle.ServerState))
@pytest.mark.parametrize("next_state", list(lifecycle.ServerState))
async def test_no_state_is_skipped(
    state: lifecycle.ServerState, next_state: lifecycle.ServerState
) -> None:
    made = lifecycle.Lifecycle()
    made.state = state
    order = list(lifecycle.ServerState)
    follows = {**dict(itertools.pairwise(order)), order[3]: order[1]}
    if follows[state] is next_state:
        made.to(next_state)
        assert made.state is next_state
    else:
        with pytest.raises(lifecycle.LifecycleError, match="cannot become"):
            made.to(next_state)
        assert made.state is state


async def test_needs_a_capability() -> None:
    with pytest.raises(capabilities.CapabilityError, match="no capability; fix"):
        server.Server(configured()).start()


async def same() -> str:
    return ""


SAME = capabilities.Prompt("same", "d", {}, [capabilities.PromptMessage("user", "x")], 5)
CLAIMS: list[Callable[[server.Server], object]] = [
    lambda made: made.tool("d")(same),
    lambda made: made.resource("x://y", "d", "text/plain", static=True)(same),
    lambda made: made.prompt(SAME),
]


@pytest.mark.parametrize("first", CLAIMS)
@pytest.mark.parametrize("second", CLAIMS)
async def test_names_are_unique_over_kinds(
    first: Callable[[server.Server], object], second: Callable[[server.Server], object]
) -> None:
    made = server.Server(configured())
    first(made)
    with pytest.raises(capabilities.CapabilityError, match="same: the name is taken"):
        second(made)


async def test_handlers_are_async() -> None:
    made = new_server()

    def sync() -> str:
        return ""

    with pytest.raises(capabilities.CapabilityError, match="fix: write async def"):
        made.tool("d")(sync)  # type: ignore[type-var]
    with pytest.raises(capabilities.CapabilityError, match="fix: write async def"):
        made.resource("x://y", "d", "text/plain", static=True)(sync)  # type: ignore[type-var]


async def test_default_timeouts() -> None:
    made = new_server()

    @made.resource("x://y", "d", "text/plain", static=True)
    async def r() -> str:
        return ""

    assert (made.tools["echo"].timeout, made.resources["r"].timeout) == (30, 10)
    assert configured().prompt_timeout == 5


async def test_arguments_are_valid_against_the_schema() -> None:
    async with Client(ready().sdk) as client:
        assert said(await client.call_tool("echo", {"number": 5})) == "5"
        for wrong in ({"number": "5"}, {"number": 1.5}, {}, {"number": None}):
            result = await client.call_tool("echo", wrong)
            assert result.is_error
            assert said(result).startswith("invalid arguments of echo: ")


async def test_unknown_names() -> None:
    async with Client(ready().sdk) as client:
        for asked in (
            client.call_tool("none", {}),
            client.get_prompt("none"),
            client.read_resource("x://none"),
        ):
            with pytest.raises(MCPError) as failed:
                await asked
            assert failed.value.error.code == INVALID_PARAMS


async def test_failures_are_results_and_keep_secrets(caplog: pytest.LogCaptureFixture) -> None:
    made = ready()

    @made.tool("Fail.")
    async def fail() -> str:
        raise RuntimeError("a secret of the server")

    @made.tool("Fail.")
    async def tell() -> str:
        raise ToolError("it rains")

    @made.resource("x://{id}", "Fail.", "text/plain")
    async def broken(id: str) -> str:  # noqa: A002
        raise RuntimeError("another secret")

    async with Client(made.sdk) as client:
        result = await client.call_tool("fail", {})
        assert result.is_error
        assert "secret" not in said(result)
        told = await client.call_tool("tell", {})
        assert told.is_error
        assert said(told).endswith(": it rains")
        with pytest.raises(MCPError) as failed:
            await client.read_resource("x://1")
        assert failed.value.error.code == INTERNAL_ERROR
        assert "secret" not in str(failed.value)
    levels = {record.levelname for record in caplog.records if record.exc_info}
    assert levels == {"ERROR"}
    assert "a secret of the server" in caplog.text
    assert "another secret" in caplog.text


async def test_timeouts() -> None:
    made = ready()

    @made.tool("Wait.", timeout=1, thread_safe=True)
    async def tool_waits() -> str:
        await anyio.sleep_forever()
        return ""

    @made.resource("x://{id}", "Wait.", "text/plain", timeout=1)
    async def resource_waits(id: str) -> str:  # noqa: A002
        await anyio.sleep_forever()
        return id

    class Slow(capabilities.Prompt):
        def render(self, arguments: Any) -> Any:
            anyio.from_thread.run(anyio.sleep_forever)

    made.prompt(Slow("prompt_waits", "Wait.", {}, [capabilities.PromptMessage("user", "x")], 1))
    codes: list[int] = []

    async def ask(asked: Any) -> None:
        with pytest.raises(MCPError, match="took longer than 1 s") as failed:
            await asked
        codes.append(failed.value.error.code)

    async with Client(made.sdk) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, client.call_tool("tool_waits", {}))
        tasks.start_soon(ask, client.read_resource("x://1"))
        tasks.start_soon(ask, client.get_prompt("prompt_waits"))
    assert codes == [REQUEST_TIMEOUT] * 3


async def test_what_does_not_wait_is_judged_once_it_has_ended() -> None:
    made = ready()

    @made.tool("Take too long.", timeout=1)
    async def busy() -> str:
        time.sleep(1.1)  # noqa: ASYNC251
        return "done"

    async with Client(made.sdk) as client:
        with pytest.raises(MCPError, match="took longer than 1 s") as failed:
            await client.call_tool("busy", {})
    assert failed.value.error.code == REQUEST_TIMEOUT


async def test_retries() -> None:
    made = ready()
    attempts = 0

    @made.tool("Fail twice.", retry=capabilities.RetryConfig(attempts=3, delay_seconds=0))
    async def third() -> str:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise capabilities.TransientError("not yet")
        return "done"

    @made.tool("Fail always.", retry=capabilities.RetryConfig(attempts=2, delay_seconds=0))
    async def never() -> str:
        nonlocal attempts
        attempts += 1
        raise capabilities.TransientError("still not")

    async with Client(made.sdk) as client:
        assert said(await client.call_tool("third", {})) == "done"
        assert attempts == 3
        result = await client.call_tool("never", {})
    assert attempts == 5
    assert result.is_error
    assert "still not" in said(result)


async def test_the_time_between_attempts_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    tool = capabilities.Tool("t", "d", {}, 5, capabilities.RetryConfig(5, 0.25))

    async def attempt() -> None:
        raise capabilities.TransientError("still not")

    with pytest.raises(ToolError, match="still not"):
        await server.retried(tool, attempt)
    assert waits == [0.25, 0.5, 1, 2]


async def test_what_tools_and_resources_return() -> None:
    made = ready()

    @made.tool("Draw.")
    async def draw() -> list[str | Image]:
        return ["a dot", Image(data=b"\xff\x00", format="png")]

    @made.resource("x://bytes", "d", "image/png", static=True)
    async def content() -> bytes:
        return b"\xff\x00"

    async with Client(made.sdk) as client:
        text, image = (await client.call_tool("draw", {})).content
        assert isinstance(text, TextContent)
        assert isinstance(image, ImageContent)
        assert (text.text, image.data, image.mime_type) == ("a dot", "/wA=", "image/png")
        (blob,) = (await client.read_resource("x://bytes")).contents
        assert isinstance(blob, BlobResourceContents)
        assert (blob.blob, blob.mime_type) == ("/wA=", "image/png")


@pytest.mark.parametrize("thread_safe", [False, True])
async def test_serial_unless_thread_safe(thread_safe: bool) -> None:
    made = ready()
    running = most = 0

    async def one() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return ""

    for name in ("first", "second"):

        async def handler() -> str:
            return await one()

        handler.__name__ = name
        made.tool("Overlap.", thread_safe=thread_safe)(handler)

    async with Client(made.sdk) as client, anyio.create_task_group() as tasks:
        for name in ("first", "second") * 5:
            tasks.start_soon(client.call_tool, name, {})
    assert (most > 1) is thread_safe


async def test_static_is_kept_and_dynamic_is_computed() -> None:
    made = ready()
    fetched: list[str] = []

    @made.resource("x://fixed", "d", "text/plain", static=True)
    async def fixed() -> str:
        fetched.append("fixed")
        return "content"

    @made.resource("x://items/{item}", "d", "application/json")
    async def dynamic(item: str) -> str:
        fetched.append(item)
        return item

    async with Client(made.sdk) as client:
        for _ in range(3):
            await client.read_resource("x://fixed")
            (content,) = (await client.read_resource("x://items/a%2Fb")).contents
    assert isinstance(content, TextResourceContents)
    assert (content.text, content.mime_type) == ("a/b", "application/json")
    assert fetched == ["fixed", "a/b", "a/b", "a/b"]


async def test_response_size() -> None:
    made = ready(max_response_size_mb=1)

    @made.tool("Repeat x.", thread_safe=True)
    async def repeat(count: int) -> str:
        return "x" * count

    @made.resource("x://{count}", "Repeat x.", "text/plain")
    async def repeated(count: int) -> str:
        return "x" * count

    async with Client(made.sdk) as client:
        assert not (await client.call_tool("repeat", {"count": 500_000})).is_error
        for asked in (
            client.call_tool("repeat", {"count": 1024 * 1024}),
            client.read_resource(f"x://{1024 * 1024}"),
        ):
            with pytest.raises(MCPError, match="max_response_size_mb is 1") as failed:
                await asked
            assert failed.value.error.code == server.TOO_LARGE
        over = int(re.findall(r"\d+", str(failed.value))[0]) - 1024 * 1024
        most = 1024 * 1024 - over  # of x, in a response of max_response_size_mb
        (got,) = (await client.read_resource(f"x://{most}")).contents
        assert isinstance(got, TextResourceContents)
        assert len(got.text) == most
        with pytest.raises(MCPError, match="the response has 1048577 bytes"):
            await client.read_resource(f"x://{most + 1}")


async def test_memory_in_flight() -> None:
    made = server.Server(configured(), limits.Gate(memory=1000))

    @made.tool("Repeat x.")
    async def repeat(count: int) -> str:
        return "x" * count

    made.start()
    async with Client(made.sdk) as client:
        with pytest.raises(MCPError, match="requests in flight hold 1000 bytes"):
            await client.call_tool("repeat", {"count": 1000})
        assert not (await client.call_tool("repeat", {"count": 10})).is_error


async def test_not_ready() -> None:
    made = ready()
    async with Client(made.sdk) as client:
        made.lifecycle.to(lifecycle.ServerState.SHUTTING_DOWN)
        with pytest.raises(MCPError, match="the server is shutting_down") as failed:
            await client.call_tool("echo", {"number": 1})
    assert -32099 <= failed.value.error.code <= -32000


async def test_overload() -> None:
    made = ready()
    made.gate = limits.Gate(concurrent=1, queued=0)
    begun, release = anyio.Event(), anyio.Event()

    @made.tool("Wait.", thread_safe=True)
    async def wait() -> str:
        begun.set()
        await release.wait()
        return ""

    async with Client(made.sdk) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "wait", {})
        await begun.wait()
        with pytest.raises(MCPError, match="overloaded: 1 requests run or wait"):
            await client.call_tool("echo", {"number": 1})
        release.set()
