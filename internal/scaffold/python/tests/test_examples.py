"""The tools, resources and prompts of this server."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.types import TextContent

from example_server import (
    __main__,
    capabilities,
    resources,
    tools,
)

from .conftest import configured

pytestmark = pytest.mark.anyio

PUBLIC = "93.184.215.14"


async def test_what_is_offered() -> None:
    made = __main__.create(configured())
    assert list(made.tools) == ["fetch_url"]
    assert list(made.resources) == ["about", "file_browser"]
    assert list(made.prompts) == ["code_review"]


async def test_fetch_url_as_it_is_listed() -> None:
    made = __main__.create(configured())
    made.start()
    async with Client(made.sdk) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.input_schema["required"] == ["url"]
        url, seconds = (tool.input_schema["properties"][k] for k in ("url", "timeout_seconds"))
        assert (url["type"], url["format"]) == ("string", "uri")
        assert (seconds["type"], seconds["minimum"], seconds["maximum"]) == ("integer", 1, 60)
        for wrong in (0, 61, 1.5):
            arguments = {"url": "http://site.example/", "timeout_seconds": wrong}
            result = await client.call_tool("fetch_url", arguments)
            assert "invalid arguments of fetch_url: timeout_seconds: " in str(result.content)
        (prompt,) = (await client.list_prompts()).prompts
        required = [(one.name, one.required) for one in prompt.arguments or []]
        assert required == [("code", True), ("language", False), ("focus", False)]


@pytest.mark.parametrize(
    ("address", "public"),
    [
        (PUBLIC, True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("::ffff:93.184.215.14", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2001:0:7f00:1::", False),
        ("example.com", False),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert tools.is_public(address) is public


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content


def answer(content: bytes, **headers: str) -> httpx2.Response:
    return httpx2.Response(200, content=chunks(content), headers=headers)


class Web:
    """Names, their addresses, and what answers there."""

    def __init__(self) -> None:
        self.names = {"site.example": [PUBLIC], "inner.example": ["10.0.0.1"]}
        self.names["both.example"] = [PUBLIC, "127.0.0.1"]
        self.seen: list[httpx2.Request] = []
        self.answers: dict[str, httpx2.Response] = {}

    async def resolve(self, host: str, port: int) -> list[str]:
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        return self.answers[request.url.path]

    async def fetch(self, url: str, seconds: int = 10) -> str:
        transport = httpx2.MockTransport(self.handle)
        return await tools.fetch(url, seconds, self.resolve, transport)


async def test_fetch_calls_the_address_that_was_checked() -> None:
    web = Web()
    web.answers["/a"] = answer(b"hello")
    assert await web.fetch("https://site.example/a#part") == "hello"
    (sent,) = web.seen
    assert sent.url.host == PUBLIC
    assert sent.headers["Host"] == "site.example"
    assert sent.extensions["sni_hostname"] == "site.example"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://site.example/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("/relative", "only http and https"),
        ("http://[::1/", "not a URL"),
        ("http://user:word@site.example/", "credentials"),
        ("http://inner.example/", "not public"),
        ("http://both.example/", "not public"),
    ],
)
async def test_fetch_refuses(url: str, says: str) -> None:
    web = Web()
    with pytest.raises(ToolError, match=says):
        await web.fetch(url)
    assert web.seen == []


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://[::1]/", "http://2130706433/"])
async def test_fetch_refuses_the_loopback_as_the_system_resolves_it(url: str) -> None:
    with pytest.raises(ToolError, match="not public"):
        await tools.fetch(url, 10)


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("http://inner.example/", "not public"),
        ("file:///etc/passwd", "only http and https"),
        ("/again", "more than 5 redirects"),
    ],
)
async def test_fetch_checks_each_redirect(location: str, says: str) -> None:
    web = Web()
    web.answers["/again"] = httpx2.Response(302, headers={"Location": location})
    with pytest.raises(ToolError, match=says):
        await web.fetch("http://site.example/again")


async def test_fetch_follows_redirects() -> None:
    web = Web()
    for hop in range(5):
        web.answers[f"/{hop}"] = httpx2.Response(301, headers={"Location": f"/{hop + 1}"})
    web.answers["/5"] = answer(b"here")
    assert await web.fetch("http://site.example/0") == "here"
    web.answers["/6"] = httpx2.Response(301, headers={"Location": "/0"})
    with pytest.raises(ToolError, match="more than 5 redirects"):
        await web.fetch("http://site.example/6")


async def test_fetch_bounds_size() -> None:
    web = Web()
    web.answers["/large"] = answer(b"x" * (tools.MAX_BYTES + 1))
    web.answers["/fits"] = answer(b"x" * tools.MAX_BYTES)
    assert len(await web.fetch("http://site.example/fits")) == tools.MAX_BYTES
    with pytest.raises(ToolError, match="more than 1048576 bytes"):
        await web.fetch("http://site.example/large")
    web.answers["/packed"] = answer(b"x", **{"Content-Encoding": "gzip"})
    with pytest.raises(ToolError, match="compressed"):
        await web.fetch("http://site.example/packed")


async def test_fetch_bounds_time() -> None:
    async def never(host: str, port: int) -> list[str]:
        await anyio.sleep_forever()
        return []

    with pytest.raises(ToolError, match="no answer within 1 s"):
        await tools.fetch("http://site.example/", 1, never)


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_fetch_tells_what_may_be_tried_again(status: int) -> None:
    web = Web()
    web.answers["/"] = httpx2.Response(status)
    with pytest.raises(capabilities.TransientError):
        await web.fetch("http://site.example/")
    with pytest.raises(capabilities.TransientError, match="cannot be resolved"):
        await web.fetch("http://unknown.example/")
    web.answers["/"] = httpx2.Response(404)
    with pytest.raises(ToolError, match="answered 404"):
        await web.fetch("http://site.example/")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    top = tmp_path / "root"
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "a.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "root-beside").mkdir()
    return top


def test_browse(root: Path) -> None:
    entries = [{"name": "sub", "kind": "folder"}]
    assert resources.browse(root, ".") == {"path": ".", "entries": entries}
    assert resources.browse(root, "sub/a.txt") == {"path": "sub/a.txt", "text": "inside"}


@pytest.mark.parametrize(
    "path", ["..", "../secret.txt", "sub/../../secret.txt", "../root-beside", "none", "a\0b"]
)
def test_browse_stays_below_its_root(root: Path, path: str) -> None:
    with pytest.raises(ResourceError, match="is not there"):
        resources.browse(root, path)
    with pytest.raises(ResourceError, match="is not there"):
        resources.browse(root, str(root.parent / "secret.txt"))


def test_browse_stays_below_its_root_through_links(root: Path) -> None:
    (root / "out").symlink_to(root.parent)
    (root / "file").symlink_to(root.parent / "secret.txt")
    (root / "loop").symlink_to(root / "loop")
    (root / "in").symlink_to(root / "sub")
    for path in ("out", "out/secret.txt", "file", "loop"):
        with pytest.raises(ResourceError, match="is not there"):
            resources.browse(root, path)
    assert resources.browse(root, "in/a.txt")["text"] == "inside"


def test_browse_bounds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "large").write_bytes(b"x" * (resources.MAX_BYTES + 1))
    (root / "binary").write_bytes(b"\xff\xfe")
    os.mkfifo(root / "pipe")
    for path, says in (("large", "more than"), ("binary", "not text"), ("pipe", "neither")):
        with pytest.raises(ResourceError, match=says):
            resources.browse(root, path)
    monkeypatch.setattr(resources, "MAX_ENTRIES", 4)
    assert len(resources.browse(root, ".")["entries"]) == 4
    monkeypatch.setattr(resources, "MAX_ENTRIES", 3)
    with pytest.raises(ResourceError, match="more than 3 entries"):
        resources.browse(root, ".")


async def test_file_browser_through_the_server(root: Path) -> None:
    made = __main__.create(configured(file_root=str(root)))
    made.start()
    async with Client(made.sdk) as client:
        got = await client.read_resource("file:///sub%2Fa.txt")
        assert "inside" in str(got.contents)
        got = await client.read_resource("file:///.%2F")
        assert "entries" in str(got.contents)
        for uri in ("file:///..%2Fsecret.txt", "file:///%2Fetc%2Fpasswd", "file:///a/b"):
            with pytest.raises(Exception, match="Unknown resource"):
                await client.read_resource(uri)


async def test_code_review() -> None:
    made = __main__.create(configured())
    made.start()
    async with Client(made.sdk) as client:
        arguments = {"code": "a = {focus}", "language": "C", "focus": '["style"]'}
        got = await client.get_prompt("code_review", arguments)
        assert [message.role for message in got.messages] == ["user", "user"]
        content = got.messages[1].content
        assert isinstance(content, TextContent)
        assert content.text == "Review this C code focusing on style:\n\na = {focus}"
        got = await client.get_prompt("code_review", {"code": "a"})
        assert "Review this python code focusing on security, performance:" in str(got.messages)
        for wrong in ({}, {"code": "x", "focus": "style"}, {"code": "x", "colour": "blue"}):
            with pytest.raises(Exception, match="code_review: "):
                await client.get_prompt("code_review", wrong)
