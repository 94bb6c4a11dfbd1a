#!/usr/bin/env python3
"""A server without an SDK that does not want to go: it ignores the end of its stdin and SIGTERM, and so do its helpers: one in a
session of its own, and a daemon that has taken leave of its parents (fork, setsid, fork). It answers unknown methods with an error
whose id is null."""
import json
import os
import signal
import subprocess
import sys
import time

WAIT = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN); time.sleep(600)"


def daemon():
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.execv(sys.executable, [sys.executable, "-c", WAIT])


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request):
    method = request["method"]
    if method == "initialize":
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "stubborn", "version": "1.0.0"}}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": request["params"]["arguments"]["text"]}]}}
    if method == "ping":
        return {"result": {}}
    return {"id": None, "error": {"code": -32600, "message": "what?"}}


signal.signal(signal.SIGTERM, signal.SIG_IGN)
daemon()
subprocess.Popen([sys.executable, "-c", WAIT], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        say({"id": request["id"], **answer(request)})
while True:
    time.sleep(600)
