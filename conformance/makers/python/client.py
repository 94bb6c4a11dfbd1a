"""Clients of makers on PyPI, through their own MCP classes and without a model.

    client.py MAKER TRANSPORT TARGET…      MAKER: openai-agents strands pydantic-ai; TRANSPORT: http sse stdio

Prints a line for each case: its name, a tab, what came of it.
"""
import asyncio
import contextlib
import logging
import sys

logging.disable(logging.CRITICAL)
maker, transport, target = sys.argv[1], sys.argv[2], sys.argv[3:]
NAME = {"name": "anna"}


def say(case, value):
    print(f"{case}\t{value}", flush=True)


def text_of(result):
    """The text of a CallToolResult, with a mark if it is an error."""
    content = result.content if hasattr(result, "content") else result
    words = " ".join(getattr(c, "text", str(c)) for c in content)
    failed = getattr(result, "isError", getattr(result, "is_error", False))
    return f"isError: {words}" if failed else words


async def cases(list_tools, call, *, progress=None, ask=True, cancel=True):
    """Runs the cases. call(name, arguments) returns a text; progress(n) the numbers that were reported."""
    say("list", ",".join(sorted(await list_tools())))
    say("call", await call("echo", {"text": "hällo"}))
    if progress:
        say("progress", await progress(3))
    try:
        say("fail", await call("fail", {"text": ""}))
    except Exception as error:
        say("fail", "isError: failed on purpose" if "failed on purpose" in str(error) else repr(error))
    try:
        answer = await call("nonsense", {})
        say("unknown", "refused" if answer.startswith("isError") else answer)
    except Exception:
        say("unknown", "refused")
    if ask:
        try:
            say("ask", await call("ask", {"text": ""}))
        except Exception as error:
            say("ask", f"isError: {error}")
    if cancel:
        task = asyncio.ensure_future(call("slow", {"n": 20000}))
        await asyncio.sleep(0.5)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        say("cancel", "cancelled" if task.cancelled() else "ran on")
    say("afterwards", await call("echo", {"text": "still here"}))


async def openai_agents():
    from agents.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
    made = {"http": MCPServerStreamableHttp, "sse": MCPServerSse, "stdio": MCPServerStdio}[transport]
    params = {"command": target[0], "args": target[1:]} if transport == "stdio" else {"url": target[0]}
    async with made(params=params, client_session_timeout_seconds=30) as server:
        async def call(name, arguments):
            return text_of(await server.call_tool(name, arguments))

        async def tools():
            return [tool.name for tool in await server.list_tools()]
        await cases(tools, call, ask=False)


async def strands():
    from mcp import types
    from mcp.client.sse import sse_client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from strands.tools.mcp import MCPClient
    try:
        from mcp.client.streamable_http import streamable_http_client as http_client
    except ImportError:
        from mcp.client.streamable_http import streamablehttp_client as http_client
    reported = []

    async def elicit(context, params):
        return types.ElicitResult(action="accept", content=NAME)

    async def progress(value, total, message):
        reported.append(f"{value:g}")

    def connect():
        if transport == "stdio":
            return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
        return (sse_client if transport == "sse" else http_client)(target[0])

    client = MCPClient(connect, elicitation_callback=elicit, progress_callback=progress)
    with client:
        async def call(name, arguments):
            result = await client.call_tool_async("1", name, arguments)
            words = " ".join(c.get("text", "") for c in result["content"])
            return f"isError: {words}" if result["status"] == "error" else words

        async def tools():
            return [tool.tool_name for tool in client.list_tools_sync()]

        async def count(n):
            del reported[:]
            await call("count", {"n": n})
            return " ".join(reported)
        await cases(tools, call, progress=count, cancel=False)


async def pydantic_ai():
    from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
    from pydantic_ai.mcp import MCPToolset
    reported = []

    async def elicit(message, response_type, params, context):
        return NAME

    async def progress(value, total, message):
        reported.append(f"{value:g}")

    made = {"http": lambda: StreamableHttpTransport(target[0]), "sse": lambda: SSETransport(target[0]), "stdio": lambda: StdioTransport(target[0], target[1:])}[transport]()
    toolset = MCPToolset(made, elicitation_handler=elicit, progress_handler=progress)
    async with toolset:
        async def call(name, arguments):
            result = await toolset.direct_call_tool(name, arguments)
            return result if isinstance(result, str) else str(result)

        async def tools():
            return [tool.name for tool in await toolset.list_tools()]

        async def count(n):
            del reported[:]
            await call("count", {"n": n})
            return " ".join(reported)
        await cases(tools, call, progress=count)


asyncio.run({"openai-agents": openai_agents, "strands": strands, "pydantic-ai": pydantic_ai}[maker]())
