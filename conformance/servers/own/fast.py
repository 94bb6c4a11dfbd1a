"""What most Python servers are: a few decorated functions, run by `fastmcp run`. The same file on FastMCP 2 and 4."""
import asyncio

from fastmcp import Context, FastMCP

mcp = FastMCP("fast")


@mcp.tool
def echo(text: str) -> str:
    return text


@mcp.tool
async def count(n: int, ctx: Context) -> int:
    for i in range(n):
        await ctx.report_progress(i, n)
        await asyncio.sleep(1)
    return n


@mcp.resource("note://one")
def note() -> str:
    return "a note"


@mcp.prompt
def ask(topic: str) -> str:
    return f"Tell me about {topic}."
