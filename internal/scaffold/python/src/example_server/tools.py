"""The tools. Add one by writing an async function below @server.tool."""

import functools
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from .capabilities import RetryConfig, TransientError
from .server import Server

MAX_BYTES = 1024 * 1024
MAX_REDIRECTS = 5

Resolve = Callable[[str, int], Awaitable[list[str]]]

# They carry an IPv4 address, which may be a private one: NAT64, 6to4 and Teredo.
TUNNELS = [ipaddress.ip_network(net) for net in ("64:ff9b::/96", "2002::/16", "2001::/32")]


def register(server: Server) -> None:
    """Register the tools of this module."""

    @server.tool(
        "Fetch the text of a public web page, over http or https.",
        retry=RetryConfig(attempts=3),
        thread_safe=True,
    )
    async def fetch_url(
        url: Annotated[
            str, Field(description="an http or https URL", json_schema_extra={"format": "uri"})
        ],
        timeout_seconds: Annotated[int, Field(ge=1, le=60)] = 10,
    ) -> str:
        return await fetch(url, timeout_seconds)


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host. The system decides which."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for _, _, _, _, sockaddr in found]


def is_public(address: str) -> bool:
    """Report whether an address belongs to the internet: not private, loopback or link-local."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif any(ip in net for net in TUNNELS):
            return False
    return ip.is_global and not ip.is_multicast


@functools.cache
def trust() -> ssl.SSLContext:
    """The roots that are trusted. Reading them takes longer than a request."""
    return httpx2.create_ssl_context(trust_env=False)


async def fetch(
    url: str,
    timeout_seconds: int,
    resolve: Resolve = resolve,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> str:
    """Fetch a text of at most MAX_BYTES.

    Raises:
        ToolError: The URL, an address, the answer or the time is refused.
        TransientError: The server cannot be reached, or has failed with 502, 503 or 504.
    """
    try:
        with anyio.fail_after(timeout_seconds):
            async with httpx2.AsyncClient(
                transport=transport, trust_env=False, verify=trust()
            ) as client:
                for _ in range(MAX_REDIRECTS + 1):
                    text, location = await _one(client, url, resolve)
                    if location is None:
                        return text
                    url = urljoin(url, location)
    except TimeoutError:
        raise ToolError(f"no answer within {timeout_seconds} s") from None
    except httpx2.TransportError as err:
        raise TransientError(f"{type(err).__name__}: {err}") from err
    raise ToolError(f"more than {MAX_REDIRECTS} redirects")


async def _one(client: httpx2.AsyncClient, url: str, resolve: Resolve) -> tuple[str, str | None]:
    """Send one request to an address that has been checked. Return text and redirect."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ToolError("not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ToolError("only http and https URLs are fetched")
    if parts.username is not None or parts.password is not None:
        raise ToolError("a URL with credentials is not fetched")
    try:
        addresses = await resolve(host, port or (443 if parts.scheme == "https" else 80))
    except OSError as err:
        raise TransientError(f"{host} cannot be resolved: {err}") from err
    if not addresses or not all(is_public(address) for address in addresses):
        raise ToolError(f"{host} has an address that is not public")
    # The address that was checked is the one that is called: a name could have another by then.
    target = httpx2.URL(url).copy_with(host=addresses[0], fragment=None)
    request = client.build_request(
        "GET",
        target,
        headers={"Host": parts.netloc, "Accept-Encoding": "identity"},
        extensions={"sni_hostname": host},
    )
    response = await client.send(request, stream=True, follow_redirects=False)
    try:
        if response.is_redirect:
            return "", response.headers.get("location", "")
        if response.status_code in (502, 503, 504):
            raise TransientError(f"{host} answered {response.status_code}")
        if response.status_code >= 400:
            raise ToolError(f"{host} answered {response.status_code}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ToolError(f"{host} answers compressed, though it was not asked to")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                raise ToolError(f"the answer has more than {MAX_BYTES} bytes")
        return body.decode(response.encoding or "utf-8", "replace"), None
    finally:
        await response.aclose()
