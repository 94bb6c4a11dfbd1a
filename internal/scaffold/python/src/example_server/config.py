"""The configuration: environment over file over defaults, every value checked."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

NAME = r"^[a-z0-9-]{1,64}$"
VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"
MAX_TIMEOUT = 300  # seconds, of anything
FILE_BYTES = 1024 * 1024
FILES = ("config.toml", "config.json")
PREFIX = "MCP_"
SECRETS = ("bearer_token", "api_key")

Positive = Annotated[int, Field(gt=0)]
Timeout = Annotated[int, Field(gt=0, le=MAX_TIMEOUT)]
Secret = Annotated[SecretStr | None, Field(min_length=16)]

_SECONDS = f"write seconds, 1 to {MAX_TIMEOUT}"
_POSITIVE = "write an integer of 1 or more"
_CREDENTIAL = "set 16 characters or more, such as: openssl rand -hex 32"


class ConfigurationError(ValueError):
    """Values that break a rule, a line each: key, value and fix."""


class MCPConfiguration(BaseModel):
    """The settings of the server. The description of a field is what fixes a wrong value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    server_name: str = Field(pattern=NAME, description="write 1 to 64 of a-z, 0-9 and -")
    server_version: str = Field(pattern=VERSION, description="write MAJOR.MINOR.PATCH, like 1.2.3")
    profile: Literal["development", "production"] = Field(
        "development", description="write development or production"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = Field(
        "INFO", description="write DEBUG, INFO, WARNING, ERROR or CRITICAL"
    )
    transport_type: Literal["STDIO", "HTTP"] = Field(description="write STDIO or HTTP")
    http_host: str | None = Field(
        None, min_length=1, description="write an address to listen on, like 127.0.0.1"
    )
    http_port: int | None = Field(None, ge=1024, le=65535, description="write 1024 to 65535")
    tool_timeout: Timeout = Field(30, description=_SECONDS)
    resource_timeout: Timeout = Field(10, description=_SECONDS)
    prompt_timeout: Timeout = Field(5, description=_SECONDS)
    max_response_size_mb: Positive = Field(100, description=_POSITIVE)
    rate_limit_per_minute: Positive = Field(100, description=_POSITIVE)
    rate_limit_burst: Positive = Field(20, description=_POSITIVE)
    bearer_token: Secret = Field(None, description=_CREDENTIAL)
    api_key: Secret = Field(None, description=_CREDENTIAL)
    cors_origins: list[str] = Field([], description="write origins, like https://app.example.com")
    allowed_hosts: list[str] = Field([], description="write Host headers, like mcp.example.com:*")
    file_root: str = Field("files", min_length=1, description="write the path of a folder")


def load(environ: Mapping[str, str], path: Path | None = None) -> MCPConfiguration:
    """Load the configuration.

    Args:
        environ: Variables. MCP_LOG_LEVEL sets log_level, and so on; lists have commas.
        path: The file; None is config.toml or config.json in the current folder, if there.

    Raises:
        ConfigurationError: The file cannot be read, or values break rules.
    """
    values = _read(path or _find())
    if secrets := [key for key in SECRETS if key in values]:
        raise ConfigurationError(
            "\n".join(f"{key}: in a file; fix: set {PREFIX}{key.upper()}" for key in secrets)
        )
    for key in MCPConfiguration.model_fields:
        if (text := environ.get(PREFIX + key.upper())) is not None:
            values[key] = _parse(key, text)
    if values.get("profile", "development") == "development":
        values.setdefault("log_level", "DEBUG")
    try:
        config = MCPConfiguration.model_validate(values)
    except ValidationError as err:
        raise ConfigurationError("\n".join(_explain(err, values))) from None
    if problems := _http_problems(config):
        raise ConfigurationError("\n".join(problems))
    return config


def _http_problems(config: MCPConfiguration) -> list[str]:
    if config.transport_type != "HTTP":
        return []
    problems = [
        f"{key}: missing; fix: {MCPConfiguration.model_fields[key].description}"
        for key in ("http_host", "http_port")
        if getattr(config, key) is None
    ]
    if config.bearer_token is None and config.api_key is None:
        problems.append(
            "bearer_token, api_key: HTTP is not served without authentication; "
            "fix: set MCP_BEARER_TOKEN or MCP_API_KEY"
        )
    return problems


def _find() -> Path | None:
    found = [Path(name) for name in FILES if Path(name).exists()]
    if len(found) > 1:
        raise ConfigurationError(f"{' and '.join(FILES)} are both there; fix: remove one")
    return found[0] if found else None


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES + 1)
        if len(raw) > FILE_BYTES:
            raise ValueError(f"more than {FILE_BYTES} bytes")
        text = raw.decode()
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        if not isinstance(values, dict):
            raise ValueError("no table of keys")
    except (OSError, ValueError, RecursionError) as err:
        raise ConfigurationError(f"{path}: {err}; fix: write TOML, or JSON in *.json") from None
    return values


def _parse(key: str, text: str) -> Any:
    kind = MCPConfiguration.model_fields[key].annotation
    if kind in (int, int | None) and re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if kind == list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _explain(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    lines = []
    for one in error.errors(include_url=False):
        key = str(one["loc"][0])
        if key not in MCPConfiguration.model_fields:
            lines.append(f"{key}: unknown key; fix: write one of README's keys")
            continue
        fix = MCPConfiguration.model_fields[key].description
        value = "<hidden>" if key in SECRETS else repr(values.get(key))[:100]
        said = "missing" if one["type"] == "missing" else f"{value} is wrong"
        lines.append(f"{key}: {said}; fix: {fix}, in the file or as {PREFIX}{key.upper()}")
    return lines


def from_process(path: str | None) -> MCPConfiguration:
    """Load the configuration of this process. MCP_CONFIG_FILE names the file if path does not."""
    name = path or os.environ.get(PREFIX + "CONFIG_FILE")
    return load(os.environ, Path(name) if name else None)
