"""What a server offers: tools, resources and prompts, with the rules of each."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from .config import MAX_TIMEOUT

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}(;.+)?")
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
MAX_DESCRIPTION = 500

Handler = Callable[..., Awaitable[Any]]
Role = Literal["system", "user", "assistant"]
Kind = Literal["string", "number", "boolean", "array", "object"]


class CapabilityError(ValueError):
    """A tool, resource or prompt that breaks a rule."""


class TransientError(Exception):
    """A failure that may be gone at the next attempt. Tools with a RetryConfig try again."""


@dataclass(frozen=True)
class RetryConfig:
    """How often a tool is tried, and how long it waits in between: delay, then twice as long."""

    attempts: int = 3
    delay_seconds: float = 0.2

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= 10:
            raise CapabilityError(f"attempts: {self.attempts}; fix: write 1 to 10")
        if not 0 <= self.delay_seconds <= MAX_TIMEOUT:
            raise CapabilityError(f"delay_seconds: {self.delay_seconds}; fix: 0 to {MAX_TIMEOUT}")


def check_common(kind: str, name: str, description: str, timeout: int) -> None:
    """Check what all capabilities have.

    Raises:
        CapabilityError: A rule is broken.
    """
    if not NAME.fullmatch(name):
        raise CapabilityError(
            f"{kind} {name!r}: name; fix: a-z first, then a-z, 0-9 or _, 64 in all"
        )
    if not description.strip() or len(description) > MAX_DESCRIPTION:
        raise CapabilityError(
            f"{kind} {name}: description; fix: write 1 to {MAX_DESCRIPTION} chars"
        )
    if type(timeout) is not int or not 1 <= timeout <= MAX_TIMEOUT:
        raise CapabilityError(
            f"{kind} {name}: timeout {timeout!r}; fix: 1 to {MAX_TIMEOUT} seconds"
        )


@dataclass(frozen=True)
class Tool:
    """A function that clients call. Others wait while it runs, unless it is thread-safe."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    timeout: int
    retry: RetryConfig | None = None
    thread_safe: bool = False

    def __post_init__(self) -> None:
        check_common("tool", self.name, self.description, self.timeout)
        try:
            Draft202012Validator.check_schema(self.input_schema)
        except SchemaError as err:
            raise CapabilityError(f"tool {self.name}: input_schema: {err.message}") from None


@dataclass(frozen=True)
class Resource:
    """Something that clients read. A static one is fetched once, a dynamic one has variables."""

    uri_pattern: str
    name: str
    description: str
    mime_type: str
    is_static: bool
    timeout: int

    def __post_init__(self) -> None:
        check_common("resource", self.name, self.description, self.timeout)
        if not MIME_TYPE.fullmatch(self.mime_type):
            raise CapabilityError(f"resource {self.name}: mime_type; fix: like text/plain")
        try:
            variables = UriTemplate.parse(self.uri_pattern).variable_names
        except InvalidUriTemplate as err:
            raise CapabilityError(f"resource {self.name}: uri_pattern: {err}") from None
        if ":" not in self.uri_pattern or self.is_static == bool(variables):
            raise CapabilityError(
                f"resource {self.name}: uri_pattern {self.uri_pattern!r}; fix: write a URI, "
                "with {variables} exactly if is_static is False"
            )


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a prompt. Without a default it is required."""

    type: Kind
    description: str
    default: Any = None
    required: bool = False


@dataclass(frozen=True)
class PromptMessage:
    """A message with {placeholders}. MCP has no role "system": clients get it as "user"."""

    role: Role
    text: str


@dataclass(frozen=True)
class PromptExample:
    """Arguments, and a text that the prompt then contains. It is checked at the start."""

    arguments: Mapping[str, str]
    contains: str


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True)
class Prompt:
    """Messages that a client gives to its model, with values in place of placeholders."""

    name: str
    description: str
    parameters: Mapping[str, ParameterSpec]
    template: list[PromptMessage]
    timeout: int
    examples: list[PromptExample] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_common("prompt", self.name, self.description, self.timeout)
        if not self.template:
            raise CapabilityError(f"prompt {self.name}: template; fix: write a message")
        used = {p for message in self.template for p in PLACEHOLDER.findall(message.text)}
        if unknown := sorted(used - set(self.parameters)):
            raise CapabilityError(f"prompt {self.name}: {unknown}; fix: define these parameters")
        for key, spec in self.parameters.items():
            if not spec.required and not _is(spec.type, spec.default):
                raise CapabilityError(
                    f"prompt {self.name}: default of {key}; fix: write a {spec.type}"
                )
        for message in self.template:
            if message.role not in ("system", "user", "assistant"):
                raise CapabilityError(f"prompt {self.name}: role; fix: system, user or assistant")
        for example in self.examples:
            texts = [text for _, text in self.fill(example.arguments)]
            if not any(example.contains in text for text in texts):
                raise CapabilityError(f"prompt {self.name}: example; fix: {example.contains!r}")

    def fill(self, arguments: Mapping[str, str]) -> list[tuple[Role, str]]:
        """Put values in place of placeholders, once: a value may contain braces.

        Raises:
            ValueError: An argument is missing, unknown or of another type.
        """
        if unknown := sorted(set(arguments) - set(self.parameters)):
            raise ValueError(f"unknown arguments {unknown}; known: {sorted(self.parameters)}")
        texts = {key: _text(key, spec, arguments) for key, spec in self.parameters.items()}
        return [
            (message.role, PLACEHOLDER.sub(lambda m: texts[m.group(1)], message.text))
            for message in self.template
        ]

    def render(self, arguments: Mapping[str, str]) -> list[Message]:
        """Return the messages as MCP has them. Raises ValueError as fill() does."""
        return [
            AssistantMessage(text) if role == "assistant" else UserMessage(text)
            for role, text in self.fill(arguments)
        ]


def _text(key: str, spec: ParameterSpec, arguments: Mapping[str, str]) -> str:
    """Return a value as it stands in a message. Arguments of MCP prompts are strings."""
    if key not in arguments:
        if spec.required:
            raise ValueError(f"{key} is missing; it is a {spec.type}: {spec.description}")
        value = spec.default
    elif spec.type == "string":
        value = arguments[key]
    else:
        try:
            value = json.loads(arguments[key])
        except (ValueError, RecursionError):
            value = None
        if not _is(spec.type, value):
            raise ValueError(f"{key} is not a {spec.type}; fix: write it as JSON")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def _is(kind: Kind, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])
