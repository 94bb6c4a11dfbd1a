"""The rules of tools, resources and prompts."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from example_server import capabilities as c

TEXT = c.PromptMessage("user", "{a}")
A = {"a": c.ParameterSpec("string", "a text", default="x")}


def tool(**changes: Any) -> c.Tool:
    base = {"name": "t", "description": "d", "input_schema": {"type": "object"}, "timeout": 30}
    return c.Tool(**{**base, **changes})


def resource(**changes: Any) -> c.Resource:
    base = {
        "uri_pattern": "x://{id}",
        "name": "r",
        "description": "d",
        "mime_type": "text/plain",
        "is_static": False,
        "timeout": 10,
    }
    return c.Resource(**{**base, **changes})


def prompt(**changes: Any) -> c.Prompt:
    base = {"name": "p", "description": "d", "parameters": A, "template": [TEXT], "timeout": 5}
    return c.Prompt(**{**base, **changes})


@pytest.mark.parametrize("make", [tool, resource, prompt])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Name"}, "name; fix"),
        ({"name": "1a"}, "name; fix"),
        ({"name": "a-b"}, "name; fix"),
        ({"name": "a\n"}, "name; fix"),
        ({"name": ""}, "name; fix"),
        ({"name": "a" * 65}, "name; fix"),
        ({"description": " "}, "description; fix"),
        ({"description": "d" * 501}, "description; fix"),
        ({"timeout": 0}, "timeout 0; fix"),
        ({"timeout": 301}, "timeout 301; fix"),
        ({"timeout": 1.5}, "timeout 1.5; fix"),
        ({"timeout": True}, "timeout True; fix"),
    ],
)
def test_common_rules(make: Callable[..., Any], change: dict[str, Any], says: str) -> None:
    with pytest.raises(c.CapabilityError, match=re.escape(says)):
        make(**change)


@pytest.mark.parametrize("make", [tool, resource, prompt])
def test_common_boundaries(make: Callable[..., Any]) -> None:
    assert make(name="a" * 64, description="d" * 500, timeout=300).timeout == 300


def test_input_schema() -> None:
    with pytest.raises(c.CapabilityError, match="input_schema"):
        tool(input_schema={"type": "no-such-type"})


@pytest.mark.parametrize(
    "change", [{"attempts": 0}, {"attempts": 11}, {"delay_seconds": -1}, {"delay_seconds": 301}]
)
def test_retry_config(change: dict[str, Any]) -> None:
    with pytest.raises(c.CapabilityError, match="fix"):
        c.RetryConfig(**change)


@pytest.mark.parametrize(("attempts", "delay"), [(1, 0), (10, 300)])
def test_retry_config_boundaries(attempts: int, delay: float) -> None:
    assert c.RetryConfig(attempts, delay).attempts == attempts


@pytest.mark.parametrize(
    "change",
    [
        {"uri_pattern": "x://{id"},
        {"uri_pattern": "no-scheme-{id}"},
        {"uri_pattern": "x://without-variables"},
        {"uri_pattern": "x://{id}", "is_static": True},
        {"mime_type": "text"},
        {"mime_type": "text/plain\n"},
    ],
)
def test_resource_rules(change: dict[str, Any]) -> None:
    with pytest.raises(c.CapabilityError, match="resource r: "):
        resource(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"uri_pattern": "x://fixed", "is_static": True},
        {"uri_pattern": "x://a{/path*}{?q}"},
        {"mime_type": "application/vnd.api+json"},
        {"mime_type": "text/plain; charset=utf-8"},
    ],
)
def test_resources_that_are_right(change: dict[str, Any]) -> None:
    assert resource(**change).name == "r"


@pytest.mark.parametrize(
    "change",
    [
        {"template": []},
        {"parameters": {}},
        {"template": [c.PromptMessage("user", "{a} {unknown}")]},
        {"template": [c.PromptMessage("robot", "x")]},  # type: ignore[arg-type]
        {"parameters": {"a": c.ParameterSpec("number", "n", default="1")}},
        {"parameters": {"a": c.ParameterSpec("string", "n")}},
        {"examples": [c.PromptExample({}, contains="never")]},
    ],
)
def test_prompt_rules(change: dict[str, Any]) -> None:
    with pytest.raises(c.CapabilityError, match="prompt p: "):
        prompt(**change)


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        ("string", "5", "5"),
        ("number", "5", "5"),
        ("number", "1.5", "1.5"),
        ("boolean", "true", "true"),
        ("array", '["x", "y"]', "x, y"),
        ("array", "[1, 2]", "[1, 2]"),
        ("object", '{"k": 1}', '{"k": 1}'),
    ],
)
def test_parameter_types(kind: c.Kind, text: str, want: str) -> None:
    made = prompt(parameters={"a": c.ParameterSpec(kind, "d", required=True)})
    assert made.fill({"a": text}) == [("user", want)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("number", "five"),
        ("number", "true"),
        ("boolean", "1"),
        ("array", "x, y"),
        ("object", "[]"),
        ("array", "[" * 100_000),
    ],
)
def test_parameters_of_another_type(kind: c.Kind, text: str) -> None:
    made = prompt(parameters={"a": c.ParameterSpec(kind, "d", required=True)})
    with pytest.raises(ValueError, match=f"a is not a {kind}; fix: write it as JSON"):
        made.fill({"a": text})


def test_arguments() -> None:
    assert prompt().fill({}) == [("user", "x")]
    assert prompt().fill({"a": "{a} {b}"}) == [("user", "{a} {b}")]
    with pytest.raises(ValueError, match="unknown arguments"):
        prompt().fill({"b": "1"})
    with pytest.raises(ValueError, match="a is missing"):
        prompt(parameters={"a": c.ParameterSpec("string", "d", required=True)}).fill({})


def test_system_becomes_user() -> None:
    roles: list[c.Role] = ["system", "user", "assistant"]
    made = prompt(template=[c.PromptMessage(role, "x") for role in roles])
    assert [message.role for message in made.render({})] == ["user", "user", "assistant"]


def test_examples() -> None:
    assert prompt(examples=[c.PromptExample({"a": "is here"}, contains="is here")]).examples
