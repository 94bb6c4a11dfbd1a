"""MCP over HTTP: authentication and limits around the applications of the SDK.

/mcp is streamable HTTP of all revisions, /mcp/sse and /messages/ are HTTP+SSE, and POST
/mcp/METHOD takes one JSON-RPC request. The SDK authenticates by OAuth only and has no limits, so
the door before it is here.
"""

import hashlib
import hmac
import json
import logging
import signal
import socket
from types import FrameType
from typing import Any

import anyio
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.types import INVALID_REQUEST, PARSE_ERROR
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .config import ConfigurationError, MCPConfiguration
from .lifecycle import ServerState
from .limits import (
    BODY_BYTES,
    OPEN_STREAMS,
    SHUTDOWN_SECONDS,
    OverloadedError,
    RateLimiter,
    Ticket,
)
from .server import LISTEN, TICKET, UNAVAILABLE, Server

logger = logging.getLogger(__name__)

UNAUTHORIZED = -32012
RATE_LIMITED = -32013
MODERN = "2026-07-28"
LOOPBACK = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
CONNECTIONS = 2000
STREAM_SECONDS = 2  # for streams to end once requests have


def refusal(
    status: int, code: int, message: str, headers: dict[str, str] | None = None
) -> Response:
    """An error of JSON-RPC for a request that was not read."""
    error = {"code": code, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)


class Door:
    """Admits requests: authentication, state, rate, slots and memory, in this order."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        config = server.config
        self.app = app
        self.server = server
        self.rate = RateLimiter(config.rate_limit_per_minute, config.rate_limit_burst)
        self.streams = 0
        self._keys = {
            kind: hashlib.sha256(secret.get_secret_value().encode()).digest()
            for kind, secret in (("bearer", config.bearer_token), ("api-key", config.api_key))
            if secret is not None
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        caller = self._caller(headers)
        if caller is None:
            text = "fix: send Authorization: Bearer TOKEN or X-API-Key: KEY"
            challenge = {"WWW-Authenticate": "Bearer"}
            await refusal(401, UNAUTHORIZED, text, challenge)(scope, receive, send)
            return
        # The SDK lets a session be used by the caller only that has opened it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=caller, scopes=[]))
        if self.server.lifecycle.state is not ServerState.READY:
            await unavailable(f"the server is {self.server.lifecycle.state}")(scope, receive, send)
            return
        if wait := self.rate.take(caller):
            text = f"more than {self.rate.per_minute} requests a minute"
            refused = refusal(429, RATE_LIMITED, text, {"Retry-After": str(wait)})
            await refused(scope, receive, send)
            return
        if scope["method"] == "GET" or headers.get(MCP_METHOD_HEADER) == LISTEN:
            await self._stream(scope, receive, send)
            return
        try:
            async with self.server.gate.ticket() as ticket:
                await self._request(ticket, scope, receive, send)
        except OverloadedError as err:
            await unavailable(f"overloaded: {err}")(scope, receive, send)

    def _caller(self, headers: Headers) -> str | None:
        """Return whose credential a request has. All are compared, each in constant time."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        shown = {"bearer": token if kind.lower() == "bearer" else "", "api-key": ""}
        shown["api-key"] = headers.get("x-api-key", "")
        found = None
        for name, key in self._keys.items():
            digest = hashlib.sha256(shown[name].encode()).digest()
            if hmac.compare_digest(digest, key):
                found = name
        return found

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.streams >= OPEN_STREAMS:
            await unavailable(f"{OPEN_STREAMS} streams are open")(scope, receive, send)
            return
        self.streams += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.streams -= 1

    async def _request(self, ticket: Ticket, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        with anyio.move_on_after(SHUTDOWN_SECONDS) as reading:
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return  # the client has gone
                chunk = message.get("body", b"")
                if len(body) + len(chunk) > BODY_BYTES:
                    text = f"a body has {BODY_BYTES} bytes at most"
                    await refusal(413, INVALID_REQUEST, text)(scope, receive, send)
                    return
                ticket.hold(len(chunk))
                body += chunk
                more = message.get("more_body", False)
        if reading.cancelled_caught:
            await refusal(408, INVALID_REQUEST, "the body is too slow")(scope, receive, send)
            return
        scope[TICKET] = ticket
        await self.app(scope, replay(bytes(body), receive), send)


def unavailable(text: str) -> Response:
    """The answer to a request that may be sent again a second later."""
    return refusal(503, UNAVAILABLE, text, {"Retry-After": "1"})


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive() that has a body which was read already."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


class MethodEndpoint:
    """POST /mcp/METHOD: one JSON-RPC request, without a session and without MCP's headers.

    The request becomes one of revision 2026-07-28. One that says its revision or session itself
    is passed on as it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        raw = await request.body()
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError):
            await refusal(400, PARSE_ERROR, "the body is not JSON")(scope, receive, send)
            return
        method = request.path_params["method"]
        if not isinstance(message, dict) or message.get("method") != method:
            text = f"fix: the body is a JSON-RPC request of method {method}"
            await refusal(400, INVALID_REQUEST, text)(scope, receive, send)
            return
        inner = dict(scope, path="/mcp", raw_path=b"/mcp")
        if MCP_PROTOCOL_VERSION_HEADER not in request.headers and (
            "mcp-session-id" not in request.headers
        ):
            self._modernise(message, inner)
            raw = json.dumps(message).encode()
        await self.app(inner, replay(raw, receive), send)

    def _modernise(self, message: dict[str, Any], scope: dict[str, Any]) -> None:
        params = message.setdefault("params", {})
        if not isinstance(params, dict):
            return  # the SDK refuses it
        meta = params.setdefault("_meta", {})
        if isinstance(meta, dict):
            meta.setdefault("io.modelcontextprotocol/protocolVersion", MODERN)
            meta.setdefault("io.modelcontextprotocol/clientCapabilities", {})
        added = {
            MCP_PROTOCOL_VERSION_HEADER: MODERN,
            MCP_METHOD_HEADER: message["method"],
            "accept": "application/json, text/event-stream",
        }
        name = params.get(NAME_BEARING_METHODS.get(message["method"], ""))
        if isinstance(name, str):
            added[MCP_NAME_HEADER] = encode_header_value(name)
        kept = [(k, v) for k, v in scope["headers"] if k.decode("latin-1") not in added]
        scope["headers"] = kept + [(k.encode(), v.encode()) for k, v in added.items()]


class SSEEndpoint:
    """GET /mcp/sse: the stream of HTTP+SSE, on which the server also sends by itself."""

    def __init__(self, server: Server, transport: SseServerTransport) -> None:
        self.server = server
        self.transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lowlevel = self.server.sdk._lowlevel_server  # as the SDK's sse_app() does
        async with self.transport.connect_sse(scope, receive, send) as (read, write):
            await lowlevel.run(read, write, lowlevel.create_initialization_options())


def security(config: MCPConfiguration) -> TransportSecuritySettings:
    """The SDK's protection against DNS rebinding."""
    hosts = [*LOOPBACK, f"{config.http_host}:*", *config.allowed_hosts]
    origins = [f"http://{host}" for host in LOOPBACK]
    return TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[*origins, *config.cors_origins]
    )


def build(server: Server) -> ASGIApp:
    """Return the application. It needs server.sdk.session_manager.run() while it serves."""
    settings = security(server.config)
    streamable = server.sdk.streamable_http_app(
        transport_security=settings, max_request_body_size=BODY_BYTES
    )
    sse = SseServerTransport("/messages/", settings, BODY_BYTES)
    app: ASGIApp = Starlette(
        routes=[
            Route("/mcp/sse", SSEEndpoint(server, sse), methods=["GET"]),
            Mount("/messages/", sse.handle_post_message),
            Route("/mcp/{method:path}", MethodEndpoint(streamable), methods=["POST"]),
            Mount("/", streamable),
        ]
    )
    app = Door(app, server)
    if server.config.cors_origins:  # outermost: a preflight has no credentials
        app = CORSMiddleware(
            app,
            allow_origins=server.config.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "Retry-After", "WWW-Authenticate"],
        )
    return app


class Uvicorn(uvicorn.Server):
    """The HTTP server. It says when it listens, and leaves signals to us."""

    def __init__(self, config: uvicorn.Config, listening: anyio.Event) -> None:
        super().__init__(config)
        self.listening = listening

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        logger.debug("signal %s is handled elsewhere", signal.Signals(sig).name)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def listen(config: MCPConfiguration) -> socket.socket:
    """Open the listener.

    Raises:
        ConfigurationError: The address cannot be used.
    """
    host, port = config.http_host or "", config.http_port or 0
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as err:
        raise ConfigurationError(
            f"http_host, http_port: {host}:{port}: {err.strerror}; fix: choose another address"
        ) from None


async def serve(server: Server, stop: anyio.Event, drain_seconds: float = SHUTDOWN_SECONDS) -> None:
    """Serve until stop, then let running requests finish while new ones get 503."""
    app = build(server)
    listening = anyio.Event()
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=STREAM_SECONDS,
    )
    http = Uvicorn(config, listening)
    sock = listen(server.config)
    async with server.sdk.session_manager.run(), anyio.create_task_group() as tasks:
        tasks.start_soon(http.serve, [sock])
        await listening.wait()
        server.start()
        logger.info("listening at http://%s:%d/mcp", *sock.getsockname()[:2])
        await stop.wait()
        server.lifecycle.to(ServerState.SHUTTING_DOWN)
        with anyio.move_on_after(drain_seconds) as drain:
            await server.gate.idle()
        if drain.cancelled_caught:
            logger.warning("%d requests were cut off", server.gate.accepted)
        http.should_exit = True
    server.lifecycle.to(ServerState.STOPPED)
