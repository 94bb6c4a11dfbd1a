#!/usr/bin/env python3
"""A service that speaks the REST envelope (seed 000) and knows nothing of MCP: what stands behind `transport = "rest"` in the
tests. Python's standard library only.

    service.py [--port N]       prints `listening on http://127.0.0.1:PORT`; ends with SIGTERM or at the end of its stdin (--stdin)

Tools come in every shape of result, report progress and log (Accept: text/event-stream), ask (data.result_type), fail with every
code, and notice when their caller leaves. GET /seen lists what they noticed; POST /state sets what GET /health says.
"""
import argparse
import base64
import json
import re
import select
import socket
import sys
import threading
import time
import uuid
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BEGUN = time.monotonic()
SERVICE = {"service": "envelope-fixture", "version": "1.4.0"}
PIXELS = ("iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mM4UaEBRAwQCgAp7gWhZAhhBwAAAABJRU5ErkJggg==")
SOUND = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAoMCggGBAYA=="
STATUS = {"TOOL_NOT_FOUND": 404, "INVALID_ARGUMENTS": 400, "EXECUTION_ERROR": 500, "INTERNAL_ERROR": 500, "TIMEOUT": 504,
          "RATE_LIMITED": 429, "SERVICE_UNAVAILABLE": 503}


class Failure(Exception):
    """What becomes an envelope without success."""

    def __init__(self, code, text, **meta):
        super().__init__(text)
        self.code, self.text, self.meta = code, text, meta


class Left(Exception):
    """The caller has closed the connection."""


class World:
    """What all calls share."""

    def __init__(self):
        self.lock = threading.Condition()
        self.status, self.seen, self.gates, self.running, self.cancelled = "healthy", [], set(), 0, 0

    def note(self, text):
        with self.lock:
            self.seen.append(text)
            del self.seen[:-1000]

    def open(self, gate):
        with self.lock:
            self.gates.add(gate)
            self.lock.notify_all()

    def wait_at(self, gate, seconds):
        with self.lock:
            return self.lock.wait_for(lambda: gate in self.gates, seconds)


WORLD = World()


# --- tools -------------------------------------------------------------------------------------------------------------------

TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
TOOLS = {}


def tool(about, properties=None, optional=(), **more):
    """Registers a function (call, **arguments) → data."""
    properties = properties or {}

    def register(f):
        schema = {"type": "object", "properties": properties, "required": [p for p in properties if p not in optional]}
        TOOLS[f.__name__] = ({"name": f.__name__, "description": about, "input_schema": schema, **more}, f)
        return f
    return register


def said(*blocks):
    """A result as MCP has it: a service may give those as data, too."""
    return {"content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


IMAGE = {"type": "image", "data": PIXELS, "mimeType": "image/png"}


@tool("Says what it was told", {"message": TEXT})
def echo(call, message):
    return said(f"Echo: {message}")


@tool("Adds two numbers", {"a": NUMBER, "b": NUMBER}, output_schema={"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]},
      title="Add", annotations={"readOnlyHint": True})
def add(call, a, b):
    return {"sum": a + b}


@tool("Has only optional arguments", {"mood": TEXT}, optional=["mood"])
def defaults(call, mood="unset"):
    return said(f"mood {mood}")


@tool("Arguments that a modern client repeats as headers", {"region": {**TEXT, "x-mcp-header": "Region"}, "shard": {**WHOLE, "x-mcp-header": "Shard"}}, optional=["shard"])
def test_mirrored_arguments(call, region, shard="none"):
    return said(f"region {region}, shard {shard}")


@tool("Text, image and resource in one result")
def test_multiple_content_types(call):
    return said("Multiple content types test:", IMAGE, {"type": "resource", "resource": {
        "uri": "test://mixed", "mimeType": "application/json", "text": '{"test":"data"}'}})


@tool("A sound")
def test_audio_content(call):
    return said({"type": "audio", "data": SOUND, "mimeType": "audio/wav"})


@tool("Fails whenever it is called")
def test_error_handling(call):
    raise Failure("EXECUTION_ERROR", "This tool intentionally returns an error for testing")


@tool("Data of the kind that is named", {"kind": {**TEXT, "enum": ["object", "array", "text", "number", "no", "failed"]}})
def shape(call, kind):
    return {"object": {"rows": [{"n": 9007199254740993}]}, "array": [1, "two"], "text": "a line", "number": 2.5, "no": False,
            "failed": {**said("it did not work"), "isError": True}}[kind]


@tool("Fails with a code", {"code": {**TEXT, "enum": list(STATUS)}})
def fail(call, code):
    raise Failure(code, f"as you asked: {code}", **({"retry_after": 9} if code == "RATE_LIMITED" else {}))


@tool("Fails with a result", {})
def fail_with_result(call):
    raise Failure("EXECUTION_ERROR", "short", result={**said("the whole story"), "isError": True, "structuredContent": {"at": 3}})


@tool("How many calls sleep, and how many were left", output_schema={"type": "object", "properties": {"running": WHOLE, "cancelled": WHOLE}})
def stats(call):
    with WORLD.lock:
        return {"running": WORLD.running, "cancelled": WORLD.cancelled}


@tool("Sleeps, and notices if it is left", {"ms": WHOLE, "sign": {"type": "boolean"}}, optional=["sign"])
def slow(call, ms, sign=False):
    with WORLD.lock:
        WORLD.running += 1
    try:
        if sign:
            call.progress(1, 2, "asleep")
        call.sleep(ms / 1000)
    except Left:
        WORLD.note("slow was left")
        with WORLD.lock:
            WORLD.cancelled += 1
        raise
    finally:
        with WORLD.lock:
            WORLD.running -= 1
    return said(f"slept {ms}")


@tool("Reports progress step by step", {"steps": WHOLE, "pauseMs": WHOLE})
def countdown(call, steps, pauseMs):
    for i in range(1, steps + 1):
        call.sleep(pauseMs / 1000)
        call.progress(i, steps, f"step {i} of {steps}")
    call.sleep(0.08)  # the TypeScript clients lose a progress notification that arrives in one read with its result
    return said(f"counted {steps}")


@tool("Logs one line at debug and some at info", {"lines": WHOLE, "tag": TEXT})
def chat(call, lines, tag):
    for i in range(lines + 1):
        call.log("info" if i else "debug", {"tag": tag, "line": i})
        call.sleep(0.01)
    return said(f"said {lines}")


@tool("Gives a sign, then waits until open_gate is called", {"name": TEXT, "sign": {**TEXT, "enum": ["progress", "log"]}})
def gate(call, name, sign):
    if sign == "progress":
        call.progress(1, 2, "at the gate")
    else:
        call.log("warning", {"gate": name})
    return said("the gate was opened" if WORLD.wait_at(name, 4) else "nobody opened the gate")


@tool("Opens a gate", {"name": TEXT})
def open_gate(call, name):
    WORLD.open(name)
    return said("opened")


# --- questions ---------------------------------------------------------------------------------------------------------------

def form(message):
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": {
        "type": "object", "properties": {"name": TEXT}, "required": ["name"]}}}


def generate(prompt):
    return {"method": "sampling/createMessage", "params": {"maxTokens": 100, "messages": [
        {"role": "user", "content": {"type": "text", "text": prompt}}]}}


def named(answer):
    return (answer.get("content") or {}).get("name", answer["action"])


@tool("Asks the user", {"question": TEXT})
def ask_user(call, question):
    user = call.ask({"user": form(question)})["user"]
    return said(f'{user["action"]} {(user.get("content") or {}).get("name", "-")}')


@tool("Asks the model", {"prompt": TEXT})
def ask_model(call, prompt):
    return said(call.ask({"model": generate(prompt)})["model"]["content"]["text"])


@tool("Asks for the roots")
def ask_roots(call):
    return said(", ".join(r["uri"] for r in call.ask({"where": {"method": "roots/list", "params": {}}})["where"]["roots"]))


@tool("Asks the user, then the model")
def ask_rounds(call):
    user = call.ask({"user": form("What is your name?")})["user"]
    return said(f'{named(user)}: {call.ask({"model": generate("a poem")})["model"]["content"]["text"]}')


@tool("Asks user and model in one round")
def ask_at_once(call):
    got = call.ask({"user": form("What is your name?"), "model": generate("a riddle")})
    return said(f'{named(got["user"])}: {got["model"]["content"]["text"]}')


# --- resources, prompts, completion ------------------------------------------------------------------------------------------

RESOURCES = {"note://one": ("note-one", "text/plain", {"text": "the first note, with an ümlaut"}),
             "test://static-binary": ("static-binary", "image/png", {"blob": PIXELS}),
             "note://asked": ("note-asked", "text/plain", None)}
TEMPLATES = [("planet", "planet://{name}", r"planet://(\w+)", "the planet {}"), ("moon", "moon://{planet}/{index}", r"moon://(\w+)/(\w+)", "moon {1} of {0}")]
PROMPTS = {"greet": [{"name": "who", "required": True}, {"name": "style", "required": False}], "farewell": []}
WORDS = {"style": ["brief", "bright", "formal"], "name": ["mars", "mercury", "venus"]}


def list_resources(_):
    return {"resources": [{"uri": u, "name": n, "mime_type": t} for u, (n, t, _) in RESOURCES.items()],
            "resource_templates": [{"uri_template": t, "name": n, "mime_type": "text/plain"} for n, t, *_ in TEMPLATES]}


def list_prompts(_):
    return {"prompts": [{"name": n, "description": f"A {n}", "arguments": a} for n, a in PROMPTS.items()]}


def read_resource(call, body):
    uri = body.get("uri")
    if uri == "note://asked":
        reader = call.ask({"reader": form("Who reads this?")})["reader"]
        return {"contents": [{"uri": uri, "mime_type": "text/plain", "text": f"a note for {named(reader)}"}]}
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, "mime_type": RESOURCES[uri][1], **RESOURCES[uri][2]}]}
    for _, _, pattern, text in TEMPLATES:
        if found := re.fullmatch(pattern, str(uri)):
            return {"contents": [{"uri": uri, "mime_type": "text/plain", "text": text.format(*found.groups())}]}
    raise Failure("INVALID_ARGUMENTS", f"there is no resource {uri}")


def get_prompt(call, body):
    name, given = body.get("name"), body.get("arguments") or {}
    if name not in PROMPTS:
        raise Failure("INVALID_ARGUMENTS", f"there is no prompt {name}")
    for a in PROMPTS[name]:
        if a["required"] and a["name"] not in given:
            raise Failure("INVALID_ARGUMENTS", f'argument {a["name"]} is missing')
    text = f'Greet {given.get("who")}, {given.get("style", "as you like")}.' if name == "greet" else "Say goodbye."
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def complete(call, body):
    argument = body.get("argument")
    if not isinstance(argument, dict) or "ref" not in body:
        raise Failure("INVALID_ARGUMENTS", "ref and argument are needed")
    values = [w for w in WORDS.get(argument.get("name"), []) if w.startswith(argument.get("value", ""))]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


# --- the envelope ------------------------------------------------------------------------------------------------------------

def fits(value, schema):
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict}
    right = isinstance(value, kinds[schema["type"]]) and (schema["type"] == "boolean" or not isinstance(value, bool))
    return right and ("enum" not in schema or value in schema["enum"])


def call_tool(call, body):
    name, given = body.get("tool", body.get("name")), body.get("arguments", {})
    if name not in TOOLS:
        raise Failure("TOOL_NOT_FOUND", f"Tool not found: {name}")
    schema = TOOLS[name][0]["input_schema"]
    if not isinstance(given, dict):
        raise Failure("INVALID_ARGUMENTS", "arguments is no object")
    for key in schema["required"]:
        if key not in given:
            raise Failure("INVALID_ARGUMENTS", f"{key} is missing")
    for key, value in given.items():
        if key not in schema["properties"] or not fits(value, schema["properties"][key]):
            raise Failure("INVALID_ARGUMENTS", f"{key} is not as the schema wants it")
    return TOOLS[name][1](call, **given)


class Asked(Exception):
    """A question that the caller is to answer first."""

    def __init__(self, requests, answers):
        super().__init__("input required")
        state = base64.b64encode(json.dumps(answers).encode()).decode()
        self.data = {"result_type": "input_required", "input_requests": requests, "request_state": state}


class Call:
    """One POST, as its handler sees it."""

    def __init__(self, handler, body):
        self.handler, self.round = handler, 0
        state = body.get("request_state")
        try:
            self.answers = json.loads(base64.b64decode(state)) if state else []
        except ValueError:
            raise Failure("INVALID_ARGUMENTS", "request_state is none of ours") from None
        if body.get("input_responses"):
            self.answers.append(body["input_responses"])

    def ask(self, requests):
        """The answers to some questions; the first time the call ends with them."""
        self.round += 1
        if len(self.answers) >= self.round and all(k in self.answers[self.round - 1] for k in requests):
            return self.answers[self.round - 1]
        raise Asked(requests, self.answers[:self.round - 1])

    def progress(self, progress, total, message):
        self.handler.event("progress", {"progress": progress, "total": total, "message": message})

    def log(self, level, data):
        self.handler.event("log", {"level": level, "logger": "fixture", "data": data})

    def sleep(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            readable, _, _ = select.select([self.handler.connection], [], [], left)
            if readable:
                if self.handler.connection.recv(1, socket.MSG_PEEK) == b"":
                    raise Left
                time.sleep(min(left, 0.01))  # the next request, in a hurry


POSTS = {"/call-tool": call_tool, "/read-resource": read_resource, "/get-prompt": get_prompt, "/complete": complete}
LISTS = {"/resources": list_resources, "/prompts": list_prompts}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def send_json(self, status, value):
        raw = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def event(self, name, data):
        """One event, if the caller wants them: the first one makes the answer a stream."""
        if not self.live:
            return
        if not self.streaming:
            self.streaming = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        raw = f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
        try:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        except OSError:
            raise Left from None

    def answer(self, envelope):
        status = 200 if envelope["success"] else STATUS[envelope["code"]]
        if not self.streaming:
            return self.send_json(status, envelope)
        self.event("result", envelope)
        self.wfile.write(b"0\r\n\r\n")

    def envelope(self, begun, request_id, data=None, failure=None):
        meta = {"execution_time_ms": int((time.monotonic() - begun) * 1000), **(failure.meta if failure else {})}
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"success": failure is None, "data": data, "error": failure and failure.text, "code": failure and failure.code,
                "request_id": request_id, "timestamp": now, "meta": meta}

    def serve(self, work, request_id=None):
        """Runs some work and envelops what comes of it."""
        begun, request_id = time.monotonic(), request_id or str(uuid.uuid4())
        try:
            self.answer(self.envelope(begun, request_id, work()))
        except Asked as asked:
            self.answer(self.envelope(begun, request_id, asked.data))
        except Failure as failure:
            self.answer(self.envelope(begun, request_id, failure=failure))
        except (Left, ConnectionError):
            self.close_connection = True

    def do_GET(self):
        self.live = self.streaming = False
        path = self.path.partition("?")[0]
        if path == "/tools":
            return self.send_json(200, {**SERVICE, "tools": [t for t, _ in TOOLS.values()]})
        if path == "/health":
            return self.health()
        if path == "/seen":
            with WORLD.lock:
                return self.send_json(200, WORLD.seen)
        if path in LISTS:
            return self.serve(lambda: LISTS[path](None))
        self.send_json(404, {"detail": "Not Found"})

    def health(self):
        status = WORLD.status
        found = {"status": "connected", "response_time_ms": 1} if status == "healthy" else {"status": "unavailable", "error": "gone away"}
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.send_json(503 if status == "unavailable" else 200, {"status": status, **SERVICE, "uptime_seconds": int(time.monotonic() - BEGUN),
                                                                 "dependencies": {"store": found}, "timestamp": now})

    def do_POST(self):
        accept = self.headers.get("Accept", "")
        self.live, self.streaming = accept.startswith("text/event-stream"), False
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(raw)
            if not isinstance(body, dict):
                raise ValueError
        except ValueError:
            return self.serve(lambda: self.refuse("the body is no JSON object"))
        path = self.path.partition("?")[0]
        if path == "/state":
            WORLD.status = body["status"]
            return self.send_json(200, {})
        if path not in POSTS:
            return self.send_json(404, {"detail": "Not Found"})
        request_id = body.get("request_id")
        if request_id is not None and not re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", str(request_id)):
            return self.serve(lambda: self.refuse("request_id is no UUID of version 4"))
        if WORLD.status == "unavailable":
            return self.serve(lambda: self.refuse("gone away", "SERVICE_UNAVAILABLE"), request_id)
        self.serve(lambda: POSTS[path](Call(self, body), body), request_id)

    def refuse(self, text, code="INVALID_ARGUMENTS"):
        raise Failure(code, text)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--stdin", action="store_true", help="end at the end of standard input")
    options = p.parse_args()
    server = Server(("127.0.0.1", options.port), Handler)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    if options.stdin:
        threading.Thread(target=lambda: (sys.stdin.buffer.read(), server.shutdown()), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
