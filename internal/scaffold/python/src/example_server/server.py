"""The server: registers capabilities with the SDK, and applies the rules to each request.

The SDK validates messages, speaks both eras of MCP and all transports. Here is what it leaves to
servers: names across kinds, timeouts, retries, serial execution, sizes and the lifecycle.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

import anyio
import pydantic_core
from anyio import to_thread
from jsonschema import Draft202012Validator
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts import Prompt as SDKPrompt
from mcp.server.mcpserver.prompts.base import Message, PromptArgument
from mcp.server.mcpserver.tools import Tool as SDKTool
from mcp.types import (
    INVALID_PARAMS,
    REQUEST_TIMEOUT,
    CallToolResult,
    TextContent,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from .capabilities import (
    CapabilityError,
    Handler,
    Prompt,
    Resource,
    RetryConfig,
    Tool,
    TransientError,
)
from .config import MCPConfiguration
from .lifecycle import Lifecycle, ServerState
from .limits import Gate, OverloadedError, Ticket

logger = logging.getLogger(__name__)

H = TypeVar("H", bound=Handler)

# Of the codes that JSON-RPC leaves to servers, -32000 to -32099.
UNAVAILABLE = -32010
TOO_LARGE = -32011

TICKET = "mcp.ticket"  # in the scope of an HTTP request that has been admitted
LISTEN = "subscriptions/listen"
MEASURED = ("tools/call", "resources/read", "prompts/get")


class Server:
    """A server of MCP. Register with tool(), resource() and prompt(), then serve it."""

    def __init__(
        self,
        config: MCPConfiguration,
        gate: Gate | None = None,
        lifecycle: Lifecycle | None = None,
    ) -> None:
        self.config = config
        self.gate = gate or Gate()
        self.lifecycle = lifecycle or Lifecycle()
        self.sdk = MCPServer(config.server_name, version=config.server_version)
        self.sdk.middleware.append(self._guard)
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self._validators: dict[str, Draft202012Validator] = {}
        self._serial = anyio.Lock()

    def start(self) -> None:
        """Become ready.

        Raises:
            CapabilityError: Nothing is registered.
            LifecycleError: The server is not initializing or stopped.
        """
        if not self.tools and not self.resources and not self.prompts:
            raise CapabilityError("no capability; fix: register a tool, a resource or a prompt")
        self.lifecycle.to(ServerState.READY)

    def tool(
        self,
        description: str,
        timeout: int | None = None,
        retry: RetryConfig | None = None,
        thread_safe: bool = False,
    ) -> Callable[[H], H]:
        """Register an async function as a tool. Its parameters become the input schema."""

        def register(handler: H) -> H:
            name = self._claim("tool", handler)
            seconds = self.config.tool_timeout if timeout is None else timeout
            schema = SDKTool.from_function(handler, description=description).parameters
            tool = Tool(name, description, schema, seconds, retry, thread_safe)
            self.sdk.add_tool(self._call(tool, handler), name=name, description=description)
            self.tools[name] = tool
            self._validators[name] = Draft202012Validator(schema)
            return handler

        return register

    def resource(
        self,
        uri_pattern: str,
        description: str,
        mime_type: str,
        static: bool = False,
        timeout: int | None = None,
    ) -> Callable[[H], H]:
        """Register an async function as a resource. Variables of the pattern are its parameters.

        The SDK refuses absolute paths and ".." in them.
        """

        def register(handler: H) -> H:
            name = self._claim("resource", handler)
            seconds = self.config.resource_timeout if timeout is None else timeout
            resource = Resource(uri_pattern, name, description, mime_type, static, seconds)
            self.sdk.resource(
                uri_pattern,
                name=name,
                description=description,
                mime_type=mime_type,
            )(self._read(resource, handler))
            self.resources[name] = resource
            return handler

        return register

    def prompt(self, prompt: Prompt) -> None:
        """Register a prompt.

        Raises:
            CapabilityError: The name is taken.
        """
        self._claim("prompt", prompt.name)

        async def render(**arguments: str) -> list[Message]:
            with deadline(f"prompt {prompt.name}", prompt.timeout):
                try:  # in a thread, so that a large template does not keep others waiting
                    return await to_thread.run_sync(
                        prompt.render, arguments, abandon_on_cancel=True
                    )
                except ValueError as err:
                    raise MCPError(INVALID_PARAMS, f"prompt {prompt.name}: {err}") from None

        listed = [
            PromptArgument(name=key, description=spec.description, required=spec.required)
            for key, spec in prompt.parameters.items()
        ]
        self.sdk.add_prompt(
            SDKPrompt(
                name=prompt.name,
                title=None,
                description=prompt.description,
                arguments=listed,
                fn=render,
                context_kwarg=None,
            )
        )
        self.prompts[prompt.name] = prompt

    def _claim(self, kind: str, named: str | Handler) -> str:
        """Return a name that no capability of any kind has yet."""
        if isinstance(named, str):
            name = named
        else:
            name = getattr(named, "__name__", "")
            if not inspect.iscoroutinefunction(named):
                raise CapabilityError(f"{kind} {name}: the handler; fix: write async def")
        if name in self.tools or name in self.resources or name in self.prompts:
            raise CapabilityError(f"{kind} {name}: the name is taken; fix: choose another")
        return name

    def _call(self, tool: Tool, handler: Handler) -> Handler:
        """Wrap a tool: one at a time unless it is thread-safe, then the deadline, then retries."""

        @functools.wraps(handler)
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with AsyncExitStack() as stack:
                if not tool.thread_safe:
                    await stack.enter_async_context(self._serial)
                stack.enter_context(deadline(f"tool {tool.name}", tool.timeout))
                return await retried(tool, lambda: handler(*args, **kwargs))

        return call

    def _read(self, resource: Resource, handler: Handler) -> Handler:
        """Wrap a resource: the deadline, and the content that a static one keeps."""
        kept: list[Any] = []
        once = anyio.Lock()

        @functools.wraps(handler)
        async def read(*args: Any, **kwargs: Any) -> Any:
            with deadline(f"resource {resource.name}", resource.timeout):
                if not resource.is_static:
                    return await handler(*args, **kwargs)
                async with once:
                    if not kept:
                        kept.append(await handler())
                return kept[0]

        return read

    async def _guard(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """The SDK's middleware around every message, of every transport."""
        if ctx.request_id is None or ctx.method == LISTEN:
            return await call_next(ctx)
        ticket: Ticket | None = None if ctx.request is None else ctx.request.scope.get(TICKET)
        if ticket is not None and ticket.open:  # http.py has admitted it
            return await self._answer(ctx, call_next, ticket)
        if self.lifecycle.state is not ServerState.READY:
            raise MCPError(UNAVAILABLE, f"the server is {self.lifecycle.state}")
        try:
            async with self.gate.ticket() as ticket:
                return await self._answer(ctx, call_next, ticket)
        except OverloadedError as err:
            raise MCPError(UNAVAILABLE, f"overloaded: {err}") from None

    async def _answer(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, ticket: Ticket
    ) -> HandlerResult:
        if (refused := self._refuse(ctx)) is not None:
            return refused
        result = await call_next(ctx)
        if ctx.method in MEASURED:
            size = len(pydantic_core.to_json(result))
            if size > self.config.max_response_size_mb * 1024 * 1024:
                raise MCPError(
                    TOO_LARGE,
                    f"the response has {size} bytes; max_response_size_mb is "
                    f"{self.config.max_response_size_mb}",
                )
            try:
                ticket.hold(size)
            except OverloadedError as err:
                raise MCPError(UNAVAILABLE, f"overloaded: {err}") from None
        return result

    def _refuse(self, ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        """Judge what the SDK lets through, or answers with another code."""
        params = ctx.params or {}
        name = params.get("name")
        if ctx.method.endswith("/list") and params.get("cursor") is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor; every list has one page")
        if ctx.method == "prompts/get" and isinstance(name, str):
            self._refuse_prompt(name, params.get("arguments") or {})
        if ctx.method != "tools/call" or not isinstance(name, str):
            return None
        if name not in self.tools:
            raise MCPError(INVALID_PARAMS, f"unknown tool: {name}")
        arguments = params.get("arguments") or {}
        # The SDK's pydantic takes "5" for 5, which the schema does not allow.
        error = next(iter(self._validators[name].iter_errors(arguments)), None)
        if error is None:
            return None
        where = "/".join(str(part) for part in error.absolute_path) or "arguments"
        text = f"invalid arguments of {name}: {where}: {error.message[:500]}"
        result = CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
        # The SDK fits what handlers return to the revision, but not what middleware returns.
        legacy = ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        drop = {"result_type"} if legacy else None
        return result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=drop)

    def _refuse_prompt(self, name: str, arguments: Mapping[str, Any]) -> None:
        prompt = self.prompts.get(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"unknown prompt: {name}")
        required = {key for key, spec in prompt.parameters.items() if spec.required}
        if missing := sorted(required - set(arguments)):
            raise MCPError(INVALID_PARAMS, f"prompt {name}: missing arguments {missing}")


@contextmanager
def deadline(what: str, seconds: int) -> Iterator[None]:
    """Cancel the body after so many seconds, and raise an error of JSON-RPC.

    Code that does not wait cannot be interrupted: it is judged once it has ended.
    """
    with anyio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught or anyio.current_time() > scope.deadline:
        logger.warning("%s took longer than %d s", what, seconds)
        raise MCPError(REQUEST_TIMEOUT, f"{what} took longer than {seconds} s")


async def retried(tool: Tool, attempt: Callable[[], Any]) -> Any:
    """Run a tool, again after a TransientError as often as its RetryConfig says."""
    retry = tool.retry or RetryConfig(attempts=1)
    for number in range(1, retry.attempts + 1):
        try:
            return await attempt()
        except TransientError as err:
            if number == retry.attempts:
                raise ToolError(str(err)) from err
            logger.info("tool %s: attempt %d: %s", tool.name, number, err)
            await anyio.sleep(retry.delay_seconds * 2 ** (number - 1))
    raise AssertionError("attempts is 1 or more")
