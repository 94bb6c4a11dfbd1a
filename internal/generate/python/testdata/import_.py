"""import. Written by dragoman generate, not for editing."""

from __future__ import annotations

from typing import Any

from ..runtime import NO_SCHEMA, AsyncClient, Client, ToolResult
from . import SERVICE


def import_(
    client: Client,
    /,
    **others: Any,
) -> ToolResult[Any]:
    """import"""
    return client.call(
        SERVICE,
        "import",
        {**others},
        NO_SCHEMA,
    )


async def import__async(
    client: AsyncClient,
    /,
    **others: Any,
) -> ToolResult[Any]:
    """import"""
    return await client.call(
        SERVICE,
        "import",
        {**others},
        NO_SCHEMA,
    )
