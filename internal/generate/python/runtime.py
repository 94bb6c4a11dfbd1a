"""What the modules of this package share. Written by dragoman generate, not for editing.

A function of a tool takes a client first. ``Client`` and ``AsyncClient`` hold the connections to all services, and may be used by several threads or tasks.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final, Generic, TypeVar, final
from uuid import UUID

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

T = TypeVar("T")


@final
class Omit:
    """The type of OMIT."""

    def __repr__(self) -> str:
        return "OMIT"


OMIT: Final = Omit()
"""The value of an argument that is not sent."""


class Model(BaseModel):
    """An object in arguments or results. Members that the schema does not name are kept in ``model_extra``."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, protected_namespaces=())


@dataclass(frozen=True)
class Service:
    """Where the tools of a server are called, and what replaces that when a program runs."""

    name: str
    url: str
    url_variable: str
    token_variable: str


@dataclass(frozen=True)
class Progress:
    """How far a call is. ``progress`` rises; ``total`` is unknown if it is None."""

    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class Log:
    """A log message of a server."""

    level: str
    logger: str | None
    data: Any


@dataclass(frozen=True)
class ToolResult(Generic[T]):
    """The result of a call."""

    structured: T
    """The structured content, checked against the tool's schema; None if the tool declares none."""
    content: list[dict[str, Any]]
    """The content for models: texts, images, resources."""
    raw: dict[str, Any]
    """The whole result."""

    @property
    def text(self) -> str:
        """The texts of the content, one after the other."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")


class ToolError(Exception):
    """A call has failed. ``code`` is that of the envelope, ``status`` the HTTP status, ``envelope`` the whole answer."""

    def __init__(self, message: str, *, code: str = "", status: int = 0, envelope: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.envelope: dict[str, Any] = envelope if envelope is not None else {}

    @property
    def result(self) -> dict[str, Any]:
        """The result of a tool that has failed by itself; empty if there is none."""
        meta = self.envelope.get("meta")
        result = meta.get("result") if isinstance(meta, dict) else None
        return result if isinstance(result, dict) else {}


class ToolNotFoundError(ToolError):
    """The server has no such tool."""


class InvalidArgumentsError(ToolError):
    """The arguments do not fit the tool's schema."""


class ExecutionError(ToolError):
    """The tool ran and failed."""


class InternalError(ToolError):
    """The server failed."""


class CallTimeoutError(ToolError):
    """The tool took too long."""


class RateLimitedError(ToolError):
    """There were too many calls. ``retry_after`` is in seconds; None if the server does not say."""

    retry_after: float | None = None


class ServiceUnavailableError(ToolError):
    """The server is not reached."""


class TransportError(ToolError):
    """There was no answer, or none that can be understood."""


class InvalidResultError(ToolError):
    """The structured content does not fit the schema that the tool declares."""


class InputRequiredError(ToolError):
    """The server asks something, and the client has no ``on_question``."""

    def __init__(self, requests: dict[str, Any], envelope: dict[str, Any]) -> None:
        super().__init__("the server asks something: give the client on_question", code="INPUT_REQUIRED", envelope=envelope)
        self.requests = requests


_ERRORS: dict[str, type[ToolError]] = {
    "TOOL_NOT_FOUND": ToolNotFoundError,
    "INVALID_ARGUMENTS": InvalidArgumentsError,
    "EXECUTION_ERROR": ExecutionError,
    "INTERNAL_ERROR": InternalError,
    "TIMEOUT": CallTimeoutError,
    "RATE_LIMITED": RateLimitedError,
    "SERVICE_UNAVAILABLE": ServiceUnavailableError,
}

_MAX_ROUNDS = 32  # questions of one call


@dataclass(frozen=True)
class _Options:
    timeout: float = 900.0
    on_progress: Callable[[Progress], object] | None = None
    on_log: Callable[[Log], object] | None = None

    def notify(self, event: str, data: str) -> None:
        note: Any = _parse(data)
        if event == "progress" and self.on_progress is not None:
            self.on_progress(Progress(note.get("progress", 0), note.get("total"), note.get("message")))
        elif event == "log" and self.on_log is not None:
            self.on_log(Log(str(note.get("level", "")), note.get("logger"), note.get("data")))


Answers = Mapping[str, Any]
Question = Callable[[dict[str, Any]], Answers]
AsyncQuestion = Callable[[dict[str, Any]], Awaitable[Answers]]


class _Base:
    _options: _Options
    _urls: Mapping[str, str]
    _tokens: Mapping[str, str]

    def _request(self, service: Service, body: dict[str, Any]) -> tuple[str, bytes, dict[str, str]]:
        url = self._urls.get(service.name) or os.environ.get(service.url_variable) or service.url
        token = self._tokens.get(service.name) or os.environ.get(service.token_variable)
        streams = self._options.on_progress is not None or self._options.on_log is not None
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream" if streams else "application/json"}
        if token:
            headers["Authorization"] = "Bearer " + token
        if self._options.on_log is not None:
            body = {**body, "log_level": "info"}
        return url.rstrip("/") + "/call-tool", json.dumps(body).encode(), headers


@final
class Client(_Base):
    """Calls tools, and waits for their results.

    ``urls`` and ``tokens`` are by the names of services. Without them, environment variables and the addresses of generation count. ``http`` is a client of
    httpx with settings of its own, such as a proxy or certificates; it is not closed.
    """

    def __init__(
        self,
        *,
        urls: Mapping[str, str] | None = None,
        tokens: Mapping[str, str] | None = None,
        timeout: float = 900.0,
        on_progress: Callable[[Progress], object] | None = None,
        on_log: Callable[[Log], object] | None = None,
        on_question: Question | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        self._urls = urls or {}
        self._tokens = tokens or {}
        self._options = _Options(timeout, on_progress, on_log)
        self._on_question = on_question
        self._own = http is None
        self._http = http if http is not None else httpx.Client(follow_redirects=False)

    def options(
        self,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Progress], object] | None = None,
        on_log: Callable[[Log], object] | None = None,
        on_question: Question | None = None,
    ) -> Client:
        """Returns a client with other settings that shares the connections of this one."""
        other = Client(urls=self._urls, tokens=self._tokens, on_question=on_question or self._on_question, http=self._http)
        other._options = replace(
            self._options,
            timeout=self._options.timeout if timeout is None else timeout,
            on_progress=on_progress or self._options.on_progress,
            on_log=on_log or self._options.on_log,
        )
        return other

    def close(self) -> None:
        """Closes the connections, if they are this client's own."""
        if self._own:
            self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, service: Service, tool: str, arguments: Mapping[str, Any], result: TypeAdapter[T]) -> ToolResult[T]:
        """Calls a tool by its name. Arguments that are OMIT are not sent."""
        body: dict[str, Any] = {"tool": tool, "arguments": _encode(arguments)}
        for _ in range(_MAX_ROUNDS):
            data = _data(*self._send(service, body))
            if not _asks(data):
                return _result(data, result)
            if self._on_question is None:
                raise InputRequiredError(data.get("input_requests") or {}, data)
            body["input_responses"] = _encode(self._on_question(data.get("input_requests") or {}))
            body.pop("request_state", None)
            if isinstance(data.get("request_state"), str):
                body["request_state"] = data["request_state"]
        raise TransportError("the server asks without an end")

    def _send(self, service: Service, body: dict[str, Any]) -> tuple[int, dict[str, Any], httpx.Headers]:
        url, content, headers = self._request(service, body)
        try:
            with self._http.stream("POST", url, content=content, headers=headers, timeout=self._options.timeout) as response:
                if not _is_stream(response):
                    return response.status_code, _envelope(response.status_code, response.read()), response.headers
                for event, data in _events(response.iter_lines()):
                    if event == "result":
                        return response.status_code, _envelope(response.status_code, data.encode()), response.headers
                    self._options.notify(event, data)
        except httpx.HTTPError as error:
            raise TransportError(f"no answer from {url}: {error or type(error).__name__}") from error
        raise TransportError(f"the answer of {url} ended before its result")


@final
class AsyncClient(_Base):
    """Client for asyncio."""

    def __init__(
        self,
        *,
        urls: Mapping[str, str] | None = None,
        tokens: Mapping[str, str] | None = None,
        timeout: float = 900.0,
        on_progress: Callable[[Progress], object] | None = None,
        on_log: Callable[[Log], object] | None = None,
        on_question: AsyncQuestion | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._urls = urls or {}
        self._tokens = tokens or {}
        self._options = _Options(timeout, on_progress, on_log)
        self._on_question = on_question
        self._own = http is None
        self._http = http if http is not None else httpx.AsyncClient(follow_redirects=False)

    def options(
        self,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Progress], object] | None = None,
        on_log: Callable[[Log], object] | None = None,
        on_question: AsyncQuestion | None = None,
    ) -> AsyncClient:
        """Returns a client with other settings that shares the connections of this one."""
        other = AsyncClient(urls=self._urls, tokens=self._tokens, on_question=on_question or self._on_question, http=self._http)
        other._options = replace(
            self._options,
            timeout=self._options.timeout if timeout is None else timeout,
            on_progress=on_progress or self._options.on_progress,
            on_log=on_log or self._options.on_log,
        )
        return other

    async def close(self) -> None:
        """Closes the connections, if they are this client's own."""
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(self, service: Service, tool: str, arguments: Mapping[str, Any], result: TypeAdapter[T]) -> ToolResult[T]:
        """Calls a tool by its name. Arguments that are OMIT are not sent. A task that is cancelled cancels the call."""
        body: dict[str, Any] = {"tool": tool, "arguments": _encode(arguments)}
        for _ in range(_MAX_ROUNDS):
            data = _data(*await self._send(service, body))
            if not _asks(data):
                return _result(data, result)
            if self._on_question is None:
                raise InputRequiredError(data.get("input_requests") or {}, data)
            body["input_responses"] = _encode(await self._on_question(data.get("input_requests") or {}))
            body.pop("request_state", None)
            if isinstance(data.get("request_state"), str):
                body["request_state"] = data["request_state"]
        raise TransportError("the server asks without an end")

    async def _send(self, service: Service, body: dict[str, Any]) -> tuple[int, dict[str, Any], httpx.Headers]:
        url, content, headers = self._request(service, body)
        try:
            async with self._http.stream("POST", url, content=content, headers=headers, timeout=self._options.timeout) as response:
                if not _is_stream(response):
                    return response.status_code, _envelope(response.status_code, await response.aread()), response.headers
                async for event, data in _async_events(response.aiter_lines()):
                    if event == "result":
                        return response.status_code, _envelope(response.status_code, data.encode()), response.headers
                    self._options.notify(event, data)
        except httpx.HTTPError as error:
            raise TransportError(f"no answer from {url}: {error or type(error).__name__}") from error
        raise TransportError(f"the answer of {url} ended before its result")


def _is_stream(response: httpx.Response) -> bool:
    return str(response.headers.get("content-type", "")).startswith("text/event-stream")


class _Event:
    """The event of a stream that is being read."""

    def __init__(self) -> None:
        self.name = ""
        self.data: list[str] = []

    def line(self, line: str) -> tuple[str, str] | None:
        """Takes a line, and returns the event that it ends."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self.name = value
            elif name == "data":
                self.data.append(value)
            return None
        event = (self.name, "\n".join(self.data)) if self.data else None
        self.name, self.data = "", []
        return event


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    event = _Event()
    for line in lines:
        if (ended := event.line(line)) is not None:
            yield ended


async def _async_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    event = _Event()
    async for line in lines:
        if (ended := event.line(line)) is not None:
            yield ended


def _parse(data: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _envelope(status: int, body: bytes) -> dict[str, Any]:
    envelope = _parse(body)
    if "success" not in envelope:
        raise TransportError(f"the answer, with status {status}, is no envelope", status=status)
    return envelope


def _data(status: int, envelope: dict[str, Any], headers: httpx.Headers) -> dict[str, Any]:
    data = envelope.get("data")
    if envelope["success"] is True and isinstance(data, dict):
        if data.get("isError") is True:
            raise ExecutionError(_text(data), code="EXECUTION_ERROR", status=status, envelope={**envelope, "meta": {"result": data}})
        return data
    code = str(envelope.get("code") or "")
    error = _ERRORS.get(code, ToolError)(str(envelope.get("error") or f"status {status}"), code=code, status=status, envelope=envelope)
    if isinstance(error, RateLimitedError):
        try:
            error.retry_after = float(headers["retry-after"])
        except (KeyError, ValueError):
            pass
    raise error


def _asks(data: dict[str, Any]) -> bool:
    return data.get("result_type") == "input_required"


def _text(data: dict[str, Any]) -> str:
    blocks = data.get("content")
    texts = [str(block.get("text", "")) for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return "\n".join(texts) or "the tool has failed"


def _result(data: dict[str, Any], result: TypeAdapter[T]) -> ToolResult[T]:
    content = data.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    try:
        structured = result.validate_python(data.get("structuredContent"))
    except ValidationError as error:
        raise InvalidResultError(str(error), code="INVALID_RESULT", envelope={"meta": {"result": data}}) from error
    return ToolResult(structured=structured, content=blocks, raw=data)


NO_SCHEMA: Final[TypeAdapter[Any]] = TypeAdapter(Any)
"""The result of tools that declare no schema of it."""


def _encode(value: Any) -> Any:
    if isinstance(value, Model):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items() if not isinstance(item, Omit)}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_encode(item) for item in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    return value


__all__ = [
    "NO_SCHEMA",
    "OMIT",
    "AsyncClient",
    "CallTimeoutError",
    "Client",
    "ExecutionError",
    "InputRequiredError",
    "InternalError",
    "InvalidArgumentsError",
    "InvalidResultError",
    "Log",
    "Model",
    "Omit",
    "Progress",
    "RateLimitedError",
    "Service",
    "ServiceUnavailableError",
    "ToolError",
    "ToolNotFoundError",
    "ToolResult",
    "TransportError",
]
