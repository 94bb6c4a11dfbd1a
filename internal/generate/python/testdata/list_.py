"""list. Written by dragoman generate, not for editing."""

from __future__ import annotations

from pydantic import TypeAdapter

from ..runtime import OMIT, AsyncClient, Client, Omit, ToolResult
from . import SERVICE

RESULT: TypeAdapter[list[str]] = TypeAdapter(list[str])


def list_(
    client: Client,
    /,
    *,
    n: int | Omit = OMIT,
) -> ToolResult[list[str]]:
    """list

    Args:
        n:
    """
    return client.call(
        SERVICE,
        "list",
        {"n": n},
        RESULT,
    )


async def list__async(
    client: AsyncClient,
    /,
    *,
    n: int | Omit = OMIT,
) -> ToolResult[list[str]]:
    """list

    Args:
        n:
    """
    return await client.call(
        SERVICE,
        "list",
        {"n": n},
        RESULT,
    )
