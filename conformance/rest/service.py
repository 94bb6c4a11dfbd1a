#!/usr/bin/env python3
"""A service of the REST envelope (docs/rest.md) that knows nothing of MCP: the upstream of `transport = "rest"` in the tests. It needs
Python's standard library only.

    service.py [--port N] [--tools FILE]    prints `listening on http://127.0.0.1:PORT`; ends with SIGTERM or at the end of its stdin
                                            (--stdin)

Its tools, resources and prompts are those of tools.py, or of another file that fills the registers of offer.py. They report progress
and log (Accept: text/event-stream), ask (data.result_type), and notice that their caller disconnects. GET /seen lists what they noticed;
POST /state sets the answer to GET /health.
"""
import argparse
import base64
import hashlib
import hmac
import json
import os
import pathlib
import re
import runpy
import secrets
import select
import socket
import sys
import threading
import time
import uuid
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from offer import PROMPTS, RESOURCES, STATUS, TEMPLATES, TOOLS, WORDS, WORLD, Failure, Left

BEGUN = time.monotonic()
KEY = secrets.token_bytes(32)  # signs request_state
SERVICE = {"service": "envelope-fixture", "version": "1.4.0"}


def list_resources(_):
    return {"resources": [{"uri": u, "name": n, "mime_type": t} for u, (n, t, _) in RESOURCES.items()],
            "resource_templates": [{"uri_template": t, "name": n, "mime_type": m} for n, t, _, m, _ in TEMPLATES]}


def list_prompts(_):
    return {"prompts": [{"name": n, "description": f"A {n}", "arguments": a} for n, (a, _) in PROMPTS.items()]}


def read_resource(call, body):
    uri = body.get("uri")
    if uri in RESOURCES:
        _, media, content = RESOURCES[uri]
        return {"contents": [{"uri": uri, "mime_type": media, **(content(call) if callable(content) else content)}]}
    for _, _, pattern, media, text in TEMPLATES:
        if found := re.fullmatch(pattern, str(uri)):
            return {"contents": [{"uri": uri, "mime_type": media, "text": text(*found.groups())}]}
    raise Failure("INVALID_ARGUMENTS", f"there is no resource {uri}", cause={"code": -32602, "data": {"uri": uri}})


def get_prompt(call, body):
    name, given = body.get("name"), body.get("arguments") or {}
    if name not in PROMPTS:
        raise Failure("INVALID_ARGUMENTS", f"there is no prompt {name}")
    arguments, make = PROMPTS[name]
    for a in arguments:
        if a["required"] and a["name"] not in given:
            raise Failure("INVALID_ARGUMENTS", f'argument {a["name"]} is missing')
    return {"messages": make(call, **{a["name"]: given[a["name"]] for a in arguments if a["name"] in given})}


def complete(call, body):
    argument = body.get("argument")
    if not isinstance(argument, dict) or "ref" not in body:
        raise Failure("INVALID_ARGUMENTS", "ref and argument are needed")
    values = [w for w in WORDS.get(argument.get("name"), []) if w.startswith(argument.get("value", ""))]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


# --- the envelope ------------------------------------------------------------------------------------------------------------

def fits(value, schema):
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict}
    if schema.get("type") not in kinds:
        return True  # a reference, say; those are left to others
    right = isinstance(value, kinds[schema["type"]]) and (schema["type"] == "boolean" or not isinstance(value, bool))
    return right and ("enum" not in schema or value in schema["enum"])


def call_tool(call, body):
    name, given = body.get("tool", body.get("name")), body.get("arguments", {})
    if name not in TOOLS:
        raise Failure("TOOL_NOT_FOUND", f"Tool not found: {name}")
    schema = TOOLS[name][0]["input_schema"]
    if not isinstance(given, dict):
        raise Failure("INVALID_ARGUMENTS", "arguments is no object")
    for key in schema.get("required", []):
        if key not in given:
            raise Failure("INVALID_ARGUMENTS", f"{key} is missing")
    for key, value in given.items():
        if key not in schema["properties"] or not fits(value, schema["properties"][key]):
            raise Failure("INVALID_ARGUMENTS", f"{key} is not as the schema wants it")
    return TOOLS[name][1](call, **given)


def seal(answers):
    """Returns a state that the caller cannot change unnoticed."""
    raw = json.dumps(answers).encode()
    return base64.urlsafe_b64encode(hmac.digest(KEY, raw, hashlib.sha256) + raw).decode()


def unseal(state):
    try:
        answers = json.loads(base64.urlsafe_b64decode(state)[32:])
        if hmac.compare_digest(seal(answers), state):
            return answers
    except (ValueError, TypeError):
        pass
    raise Failure("INVALID_ARGUMENTS", "request_state is none of ours")


class Asked(Exception):
    """Questions that the caller has to answer first."""

    def __init__(self, requests, answers):
        super().__init__("input required")
        state = seal(answers)
        self.data = {"result_type": "input_required", "input_requests": requests, "request_state": state}


class Call:
    """One POST."""

    def __init__(self, handler, body):
        self.handler, self.round = handler, 0
        state = body.get("request_state")
        self.answers = unseal(state) if state else []
        if body.get("input_responses"):
            self.answers.append(body["input_responses"])

    def ask(self, requests):
        """Returns the answers to questions. Without answers the call ends with the questions."""
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
        """Sends an event, if the caller accepts events. The first one makes the answer a stream."""
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
        """Runs a handler and sends its result or failure in an envelope."""
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
    p.add_argument("--tools", default=pathlib.Path(__file__).with_name("tools.py"), help="the file that says what is offered")
    options = p.parse_args()
    runpy.run_path(os.fspath(options.tools))
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
