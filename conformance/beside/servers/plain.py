#!/usr/bin/env python3
"""A server of the revisions 2025-06-18 and 2025-11-25 without an SDK, on the standard library. It has sessions and answers with JSON,
never with a stream, so it sends neither requests nor notifications.

    plain.py PORT
"""
import json
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REVISIONS = ("2025-06-18", "2025-11-25")
PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAoMCggGBAYA=="
EMBEDDED = {"type": "resource", "resource": {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "An embedded resource."}}
sessions, lock = set(), threading.Lock()


class Refused(Exception):
    """A JSON-RPC error: code, message."""


def text(value):
    return {"type": "text", "text": value}


def add(arguments):
    total = arguments["a"] + arguments["b"]
    return {"content": [text(json.dumps({"sum": total}))], "structuredContent": {"sum": total}}


NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
TOOLS = {
    "test_simple_text": ("A line of text", lambda a: {"content": [text("This is a simple text response for testing.")]}, {}),
    "test_image_content": ("An image", lambda a: {"content": [{"type": "image", "data": PIXELS, "mimeType": "image/png"}]}, {}),
    "test_audio_content": ("A sound", lambda a: {"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]}, {}),
    "test_embedded_resource": ("A resource in the result", lambda a: {"content": [EMBEDDED]}, {}),
    "test_multiple_content_types": ("Three kinds of content", lambda a: {"content": [
        text("Three kinds:"), {"type": "image", "data": PIXELS, "mimeType": "image/png"}, EMBEDDED]}, {}),
    "test_error_handling": ("Fails whenever it is called", lambda a: {"content": [text("This tool always fails")], "isError": True}, {}),
    "add": ("Adds two numbers", add, {"inputSchema": NUMBERS, "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}}),
}
RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "The content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXELS},
}
PROMPTS = {
    "test_simple_prompt": ([], lambda a: [text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": (["arg1", "arg2"], lambda a: [text(f"Prompt with arguments: arg1='{a['arg1']}', arg2='{a['arg2']}'")]),
    "test_prompt_with_image": ([], lambda a: [{"type": "image", "data": PIXELS, "mimeType": "image/png"}, text("Please look at it.")]),
}


def initialize(params):
    asked = params.get("protocolVersion")
    return {"protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}}, "serverInfo": {"name": "plain", "version": "1.0.0"}}


def call(params):
    if params.get("name") not in TOOLS:
        raise Refused(-32602, f"Unknown tool: {params.get('name')}")
    try:
        return TOOLS[params["name"]][1](params.get("arguments") or {})
    except (KeyError, TypeError) as wrong:
        return {"content": [text(f"The arguments do not fit: {wrong}")], "isError": True}


def read(params):
    uri = params.get("uri", "")
    if uri.startswith("test://template/") and uri.endswith("/data"):
        body = {"mimeType": "application/json", "text": json.dumps({"id": uri.split("/")[3], "templateTest": True})}
    elif uri in RESOURCES:
        body = RESOURCES[uri]
    else:
        raise Refused(-32002, "Resource not found")
    return {"contents": [{"uri": uri, **body}]}


def get(params):
    if params.get("name") not in PROMPTS:
        raise Refused(-32602, f"Unknown prompt: {params.get('name')}")
    wanted, say = PROMPTS[params["name"]]
    arguments = params.get("arguments") or {}
    if missing := [name for name in wanted if name not in arguments]:
        raise Refused(-32602, f"Missing arguments: {', '.join(missing)}")
    return {"messages": [{"role": "user", "content": content} for content in say(arguments)]}


METHODS = {
    "initialize": initialize, "ping": lambda p: {}, "tools/call": call, "resources/read": read, "prompts/get": get,
    "tools/list": lambda p: {"tools": [{"name": n, "description": d, "inputSchema": {"type": "object"}, **more} for n, (d, _, more) in TOOLS.items()]},
    "resources/list": lambda p: {"resources": [{"uri": u, "name": u.split("//")[1], "mimeType": r["mimeType"]} for u, r in RESOURCES.items()]},
    "resources/templates/list": lambda p: {"resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}]},
    "prompts/list": lambda p: {"prompts": [{"name": n, "description": n, "arguments": [{"name": a, "required": True} for a in w]} for n, (w, _) in PROMPTS.items()]},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=None, **fields):
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if raw:
            self.send_header("Content-Type", "application/json")
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def refuse(self, status, code, message, request=None):
        self.answer(status, {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": message}})

    def admitted(self):
        """Reports whether the request comes from this machine and not from a foreign web page."""
        origin, host = self.headers.get("Origin"), self.headers.get("Host", "").rsplit(":", 1)[0]
        if host in ("localhost", "127.0.0.1") and (not origin or origin.split("//")[-1].rsplit(":", 1)[0] in ("localhost", "127.0.0.1")):
            return True
        self.refuse(403, -32600, "This server is for this machine")
        return False

    def session(self):
        """Returns the session of the request, or None if the request was refused."""
        name = self.headers.get("Mcp-Session-Id")
        if name in sessions:
            return name
        self.refuse(400 if name is None else 404, -32600, "No such session")
        return None

    def do_GET(self):
        self.answer(405, Allow="POST, DELETE")

    def do_DELETE(self):
        if self.admitted() and (name := self.session()):
            with lock:
                sessions.discard(name)
            self.answer(204)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.admitted():
            return
        try:
            message = json.loads(raw)
        except ValueError:
            return self.refuse(400, -32700, "This is no JSON")
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return self.refuse(400, -32600, "This is no message of JSON-RPC 2.0")
        method, request = message.get("method"), message.get("id")
        fields = {}
        if method == "initialize":
            name = secrets.token_urlsafe(24)
            with lock:
                sessions.add(name)
            fields["Mcp_Session_Id"] = name
        elif not self.session():
            return
        elif self.headers.get("MCP-Protocol-Version", REVISIONS[0]) not in REVISIONS:
            return self.refuse(400, -32600, "Unsupported protocol version", request)
        if method is None or request is None:
            return self.answer(202)
        if method not in METHODS:
            return self.refuse(200, -32601, f"Method not found: {method}", request)
        try:
            self.answer(200, {"jsonrpc": "2.0", "id": request, "result": METHODS[method](message.get("params") or {})}, **fields)
        except Refused as refused:
            self.refuse(200, *refused.args, request)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
