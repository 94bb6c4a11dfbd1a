"""The resources. Add one by writing an async function below @server.resource."""

from pathlib import Path
from typing import Any

import anyio.to_thread
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from .server import Server

MAX_BYTES = 1024 * 1024
MAX_ENTRIES = 1000


def register(server: Server) -> None:
    """Register the resources of this module."""
    config = server.config

    @server.resource("resource://about", "Name and version.", "application/json", static=True)
    async def about() -> dict[str, Any]:
        return {"name": config.server_name, "version": config.server_version}

    @server.resource(
        "file:///{path}",
        "A folder's entries or a file's text below file_root. In path, / is %2F and .%2F the root.",
        "application/json",
    )
    async def file_browser(path: str) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(browse, Path(config.file_root), path)


def browse(root: Path, path: str) -> dict[str, Any]:
    """Return what is at a path below root. Links are followed if they stay below it.

    Raises:
        ResourceNotFoundError: There is nothing, or it is outside of root.
        ResourceError: It is too large, or neither a folder nor a file of text.
    """
    top = root.resolve()
    try:
        real = (top / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise ResourceNotFoundError(f"{path!r} is not there") from None
    if not real.is_relative_to(top):
        raise ResourceNotFoundError(f"{path!r} is not there")  # as if it did not exist
    if real.is_dir():
        entries = sorted(real.iterdir())
        if len(entries) > MAX_ENTRIES:
            raise ResourceError(f"{path!r} has more than {MAX_ENTRIES} entries")
        return {"path": path, "entries": [_entry(entry) for entry in entries]}
    if not real.is_file():
        raise ResourceError(f"{path!r} is neither a file nor a folder")
    with real.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ResourceError(f"{path!r} has more than {MAX_BYTES} bytes")
    try:
        return {"path": path, "text": raw.decode()}
    except UnicodeDecodeError:
        raise ResourceError(f"{path!r} is not text") from None


def _entry(entry: Path) -> dict[str, Any]:
    kind = "folder" if entry.is_dir() else "file"
    return {"name": entry.name, "kind": kind}
