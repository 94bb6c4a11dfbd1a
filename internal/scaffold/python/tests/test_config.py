"""The rules of the configuration."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from example_server import config

REQUIRED = {"server_name": "a-1", "server_version": "1.2.3", "transport_type": "STDIO"}
HTTP = {**REQUIRED, "transport_type": "HTTP", "http_host": "::1", "http_port": 1024}
SECRET = {"MCP_API_KEY": "0123456789abcdef"}


def loaded(path: Path, values: dict[str, Any], environ: dict[str, str]) -> config.MCPConfiguration:
    file = path / "config.json"
    file.write_text(json.dumps(values))
    return config.load(environ, file)


def test_defaults(tmp_path: Path) -> None:
    got = loaded(tmp_path, {**REQUIRED, "profile": "production"}, {})
    assert got.model_dump() == {
        **REQUIRED,
        "profile": "production",
        "log_level": "INFO",
        "http_host": None,
        "http_port": None,
        "tool_timeout": 30,
        "resource_timeout": 10,
        "prompt_timeout": 5,
        "max_response_size_mb": 100,
        "rate_limit_per_minute": 100,
        "rate_limit_burst": 20,
        "bearer_token": None,
        "api_key": None,
        "cors_origins": [],
        "allowed_hosts": [],
        "file_root": "files",
    }


def test_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = {**REQUIRED, "tool_timeout": 7, "log_level": "ERROR"}
    assert loaded(tmp_path, file, {}).tool_timeout == 7
    environ = {"MCP_TOOL_TIMEOUT": "8", "MCP_CORS_ORIGINS": "https://a.example, https://b.example"}
    got = loaded(tmp_path, file, environ)
    assert got.tool_timeout == 8
    assert got.log_level == "ERROR"
    assert got.cors_origins == ["https://a.example", "https://b.example"]


def test_each_key_is_a_variable_too(tmp_path: Path) -> None:
    want = {
        "server_name": "b-2",
        "server_version": "4.5.6",
        "profile": "production",
        "log_level": "CRITICAL",
        "transport_type": "HTTP",
        "http_host": "127.0.0.2",
        "http_port": 8001,
        "tool_timeout": 1,
        "resource_timeout": 2,
        "prompt_timeout": 300,
        "max_response_size_mb": 4,
        "rate_limit_per_minute": 5,
        "rate_limit_burst": 6,
        "bearer_token": SecretStr("0123456789abcdef"),
        "api_key": SecretStr("fedcba9876543210"),
        "cors_origins": ["https://a.example"],
        "allowed_hosts": ["b.example"],
        "file_root": "other",
    }
    environ = {
        f"MCP_{key.upper()}": value[0]
        if isinstance(value, list)
        else value.get_secret_value()
        if isinstance(value, SecretStr)
        else str(value)
        for key, value in want.items()
    }
    assert loaded(tmp_path, {}, environ).model_dump() == want


def test_development_logs_more(tmp_path: Path) -> None:
    got = loaded(tmp_path, REQUIRED, {})
    assert (got.profile, got.log_level) == ("development", "DEBUG")
    assert loaded(tmp_path, {**REQUIRED, "profile": "development"}, {}).log_level == "DEBUG"
    assert loaded(tmp_path, {**REQUIRED, "profile": "production"}, {}).log_level == "INFO"
    assert loaded(tmp_path, REQUIRED, {"MCP_LOG_LEVEL": "ERROR"}).log_level == "ERROR"


def test_http_boundaries(tmp_path: Path) -> None:
    for port in (1024, 65535):
        assert loaded(tmp_path, {**HTTP, "http_port": port}, SECRET).http_port == port


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("server_name", "Has-Capitals"),
        ("server_name", "a" * 65),
        ("server_name", "line\n"),
        ("server_name", ""),
        ("server_version", "1.2"),
        ("server_version", "v1.2.3"),
        ("server_version", "1.2.\u0663"),
        ("log_level", "debug"),
        ("transport_type", "http"),
        ("profile", "Production"),
        ("http_port", 1023),
        ("http_port", 65536),
        ("http_port", "8000"),
        ("http_host", ""),
        ("tool_timeout", 0),
        ("tool_timeout", 301),
        ("tool_timeout", 1.5),
        ("tool_timeout", True),
        ("resource_timeout", -1),
        ("resource_timeout", 301),
        ("prompt_timeout", 0),
        ("prompt_timeout", 301),
        ("max_response_size_mb", 0),
        ("rate_limit_per_minute", 0),
        ("rate_limit_burst", -5),
        ("cors_origins", "https://a.example"),
        ("allowed_hosts", [1]),
        ("file_root", ""),
        ("colour", "blue"),
    ],
)
def test_rules(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(config.ConfigurationError) as failed:
        loaded(tmp_path, {**HTTP, key: value}, SECRET)
    line = str(failed.value)
    assert line.startswith(f"{key}: ")
    assert "; fix: " in line
    assert "\n" not in line
    if key != "colour":
        assert repr(value)[:100] in line


@pytest.mark.parametrize("key", ["server_name", "server_version", "transport_type"])
def test_required(tmp_path: Path, key: str) -> None:
    values = {k: v for k, v in REQUIRED.items() if k != key}
    with pytest.raises(config.ConfigurationError, match=f"^{key}: missing; fix: write"):
        loaded(tmp_path, values, {})


@pytest.mark.parametrize("key", ["http_host", "http_port"])
def test_http_requires(tmp_path: Path, key: str) -> None:
    values = {k: v for k, v in HTTP.items() if k != key}
    with pytest.raises(config.ConfigurationError, match=f"^{key}: missing; fix: write"):
        loaded(tmp_path, values, SECRET)


def test_http_requires_authentication(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigurationError, match="not served without authentication"):
        loaded(tmp_path, HTTP, {})
    assert loaded(tmp_path, HTTP, {"MCP_BEARER_TOKEN": "0123456789abcdef"}).api_key is None


@pytest.mark.parametrize("key", config.SECRETS)
def test_secrets(tmp_path: Path, key: str) -> None:
    variable = f"MCP_{key.upper()}"
    with pytest.raises(config.ConfigurationError, match=f"^{key}: in a file; fix: set {variable}"):
        loaded(tmp_path, {**HTTP, key: "0123456789abcdef"}, {})
    with pytest.raises(config.ConfigurationError) as failed:
        loaded(tmp_path, HTTP, {variable: "too-short"})
    assert "too-short" not in str(failed.value)
    assert "0123456789abcdef" not in repr(loaded(tmp_path, HTTP, {variable: "0123456789abcdef"}))


def test_environment_is_judged_as_the_file_is(tmp_path: Path) -> None:
    for text in ("", "8e3", "80 80", "9" * 30):
        with pytest.raises(config.ConfigurationError, match=r"^http_port: .* is wrong; fix: "):
            loaded(tmp_path, HTTP, {**SECRET, "MCP_HTTP_PORT": text})


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.toml", "a ="), ("c.json", "{"), ("c.json", "[]"), ("c.json", "[" * 100_000)],
)
def test_broken_files(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(config.ConfigurationError, match=f"{name}: .*; fix: write TOML"):
        config.load({}, file)


def test_large_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"#" * (config.FILE_BYTES + 1))
    with pytest.raises(config.ConfigurationError, match="more than"):
        config.load({}, file)


def test_toml_or_json_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(config.ConfigurationError, match="server_name: missing"):
        config.load({})
    lines = "\n".join(f'{key} = "{value}"' for key, value in REQUIRED.items())
    (tmp_path / "config.toml").write_text(lines)
    assert config.load({}).server_name == "a-1"
    (tmp_path / "config.json").write_text(json.dumps(REQUIRED))
    with pytest.raises(config.ConfigurationError, match="both there; fix: remove one"):
        config.load({})
    (tmp_path / "config.toml").unlink()
    assert config.load({}).server_name == "a-1"


def test_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of this project is valid."""
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert config.load({}).profile == "development"
