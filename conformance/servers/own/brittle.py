#!/usr/bin/env python3
"""A server without an SDK that does many things a server should not: it is slow to start, prints a banner and an empty line on
stdout, sends a notification before it was initialized, answers with CR LF, and exits where it does not know the method."""
import json
import sys
import time

TOOLS = [{"name": "upper", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\r\n")
    sys.stdout.flush()


def result(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "brittle", "version": "1.0.0"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        # U+2028 and U+2029 do not end a line of the transport, though some readers of lines split there.
        return {"content": [{"type": "text", "text": params["arguments"]["text"].upper() + "\u2028\u2029|"}]}
    if method in ("ping", "logging/setLevel"):
        return {}
    print(f"Traceback: no such method: {method}", file=sys.stderr, flush=True)
    sys.exit(3)


time.sleep(1)
sys.stdout.reconfigure(encoding="utf-8", newline="")
sys.stdout.write("*** brittle 1.0 ***\n\n")
say({"method": "notifications/message", "params": {"level": "info", "data": "up"}})
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        say({"id": request["id"], "result": result(request["method"], request.get("params", {}))})
