"""A REST caller: requests, event streams, and the rules of the envelope (docs/rest.md).

A deviation from the rules raises Wrong, whose text names it and shows the beginning of the answer.
"""
import http.client
import json
import os
import re
import socket
import threading
import time
import uuid
from datetime import datetime, timezone

STATUS = {"TOOL_NOT_FOUND": 404, "INVALID_ARGUMENTS": 400, "EXECUTION_ERROR": 500, "INTERNAL_ERROR": 500, "TIMEOUT": 504,
          "RATE_LIMITED": 429, "SERVICE_UNAVAILABLE": 503}
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SEMVER = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
# Member of meta → the test of its value.
META = {
    "execution_time_ms": lambda v: whole(v) and v >= 0,
    "rate_limit_remaining": lambda v: whole(v) and v >= 0,
    "replayed": lambda v: v is True,
    "retryable": lambda v: v is True,
    "retry_after": lambda v: whole(v) and v > 0,
    "result": lambda v: isinstance(v, dict),
    "cause": lambda v: isinstance(v, dict) and whole(v.get("code")) and set(v) <= {"code", "data"},
}


class Wrong(Exception):
    """A deviation from the rules."""


def want(good, what, got=None):
    if not good:
        shown = "" if got is None else ": " + (got if isinstance(got, str) else json.dumps(got, ensure_ascii=False))[:300]
        raise Wrong(what + shown)


def same(got, expected, what):
    want(got == expected, f"{what} is {json.dumps(got, ensure_ascii=False)[:200]}, not {json.dumps(expected, ensure_ascii=False)[:200]}")


def whole(v):
    return isinstance(v, int) and not isinstance(v, bool)


def once(pairs):
    out = dict(pairs)
    want(len(out) == len(pairs), "a member occurs twice", [k for k, _ in pairs])
    return out


def parsed(text):
    try:
        return json.loads(text, object_pairs_hook=once)
    except ValueError as e:
        raise Wrong(f"no JSON ({e}): {text[:200]!r}") from None


def members(value, required, optional, what):
    """Checks that a value is an object with just these members."""
    want(isinstance(value, dict), f"{what} is no object", value)
    missing, strange = set(required) - set(value), set(value) - set(required) - set(optional)
    want(not missing, f"{what} lacks {', '.join(sorted(missing))}", value)
    want(not strange, f"{what} has {', '.join(sorted(strange))}, which nobody knows", value)


def check_time(text):
    want(isinstance(text, str) and TIMESTAMP.fullmatch(text), "timestamp is not ISO 8601 with milliseconds and Z", text)
    told = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    want(abs((datetime.now(timezone.utc) - told).total_seconds()) < 60, "timestamp is not now", text)


def check_health(health):
    """Checks a HealthResponse."""
    members(health, ("status", "service", "version", "uptime_seconds", "dependencies", "timestamp"), (), "the health")
    want(health["status"] in ("healthy", "degraded", "unavailable"), "status of the health", health)
    want(health["service"] and SEMVER.fullmatch(health["version"]), "service and version of the health", health)
    want(whole(health["uptime_seconds"]) and health["uptime_seconds"] >= 0, "uptime_seconds", health)
    for name, found in health["dependencies"].items():
        members(found, ("status",), ("error", "response_time_ms", "state"), f"dependency {name}")
        want(found["status"] in ("connected", "unavailable"), f"status of dependency {name}", found)
    bad = [n for n, d in health["dependencies"].items() if d["status"] != "connected"]
    want(bool(bad) == (health["status"] != "healthy"), "the status does not go with the dependencies", health)
    check_time(health["timestamp"])


def check_tools(listed):
    """Checks a ToolsResponse with its ToolSchemas."""
    members(listed, ("service", "version", "tools"), (), "the list of tools")
    want(listed["service"] and isinstance(listed["service"], str), "service", listed)
    want(SEMVER.fullmatch(listed["version"]), "version is not semantic", listed["version"])
    for tool in listed["tools"]:
        members(tool, ("name", "description", "input_schema"), (), "a tool")
        want(tool["name"] and tool["description"], "a tool without name or description", tool)
        schema = tool["input_schema"]
        want(schema.get("type") == "object" and isinstance(schema.get("properties"), dict), "input_schema has no type object with properties", tool)
    names = [t["name"] for t in listed["tools"]]
    want(len(set(names)) == len(names), "two tools of one name", names)


# The credential that policies/with.sh gives to callers.
CREDENTIAL = {"Authorization": f"Bearer {os.environ['POLICIES_KEY']}"} if os.environ.get("POLICIES_KEY") else {}


class Rest:
    """A caller of one Dragoman. It opens a connection for every request and checks every envelope."""

    def __init__(self, base, patience):
        self.host = base.removeprefix("http://")
        self.patience = patience  # seconds for an answer, and for whatever has to come about
        self.lock, self.seen = threading.Lock(), set()

    def send(self, method, path, body=None, accept="application/json"):
        connection = http.client.HTTPConnection(self.host, timeout=self.patience)
        try:
            raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, raw, {"Accept": accept, **CREDENTIAL, **({} if raw is None else {"Content-Type": "application/json"})})
            return connection, connection.getresponse()
        except OSError as e:
            connection.close()
            raise Wrong(f"no answer to {method} {path}: {e!r}") from None

    def bare(self, method, path, body=None, status=200):
        """Returns the JSON of an answer that is not an envelope."""
        connection, response = self.send(method, path, body)
        try:
            text = response.read()
        finally:
            connection.close()
        kind = response.getheader("Content-Type", "")
        want(kind.split(";")[0] == "application/json", f"Content-Type of {path} is {kind!r}")
        value = parsed(text)
        same(response.status, status, f"status of {path} ({json.dumps(value)[:200]})")
        return value

    def call(self, path, body=None, code=None):
        """Returns the checked envelope of a POST, or of a GET without a body. code is the error that it must have."""
        connection, response = self.send("GET" if body is None else "POST", path, body)
        try:
            text = response.read()
        except OSError as e:
            raise Wrong(f"the answer of {path} broke off: {e!r}") from None
        finally:
            connection.close()
        kind = response.getheader("Content-Type", "")
        want(kind.split(";")[0] == "application/json", f"Content-Type of {path} is {kind!r}")
        e = self.check(parsed(text), body, code)
        same(response.status, 200 if e["success"] else STATUS[e["code"]], f"status of {path} (code {e.get('code')})")
        same(response.getheader("X-Request-ID"), e["request_id"], "header X-Request-ID")
        return e

    def check(self, e, body=None, code=None):
        """Checks a ResponseEnvelope and its ErrorCode: that it failed with code, or did not fail."""
        kind = ("data",) if isinstance(e, dict) and e.get("success") else ("error", "code")
        members(e, ("success", *kind, "request_id", "timestamp", "meta"), (), "the envelope")
        want(isinstance(e["success"], bool), "success is no boolean", e)
        if e["success"]:
            want(isinstance(e["data"], dict), "data is no object", e)
        else:
            want(isinstance(e["error"], str) and e["error"], "error is no text", e)
            want(e["code"] in STATUS, "code is none of the seed", e)
        want(isinstance(e["request_id"], str) and UUID4.fullmatch(e["request_id"]), "request_id is no UUID of version 4", e)
        given = body.get("request_id") if isinstance(body, dict) else None
        if given and UUID4.fullmatch(given):
            same(e["request_id"], given, "request_id")
        else:
            with self.lock:
                want(e["request_id"] not in self.seen, "request_id came before", e)
                self.seen.add(e["request_id"])
        check_time(e["timestamp"])
        want("execution_time_ms" in e["meta"], "meta lacks execution_time_ms", e)
        for key, value in e["meta"].items():
            want(key in META, f"meta.{key} is none of the known", e)
            want(META[key](value), f"meta.{key} is not as it should be", e)
        same(e.get("code"), code, f"code ({e.get('error') or json.dumps(e.get('data'), ensure_ascii=False)[:160]})")
        return e

    def stream(self, path, body):
        return Stream(self, path, body)

    def abandoned(self, path, body):
        """Sends a POST and does not wait for its answer. Returns what closes the connection."""
        connection = http.client.HTTPConnection(self.host, timeout=self.patience)
        connection.request("POST", path, json.dumps(body).encode(), {"Accept": "application/json", "Content-Type": "application/json", **CREDENTIAL})
        return lambda: hang_up(connection)

    def until(self, what, condition):
        """Returns the first true value of condition. Without one in time it raises Wrong."""
        end = time.monotonic() + self.patience
        while not (value := condition()):
            want(time.monotonic() < end, f"{what}: not within {self.patience} s")
            time.sleep(0.02)
        return value


class Stream:
    """A call whose answer is an event stream. `with` closes the connection at its end in any case."""

    def __init__(self, rest, path, body):
        self.rest, self.body = rest, body
        self.connection, self.response = rest.send("POST", path, body, "text/event-stream")
        kind = self.response.getheader("Content-Type", "")
        self.whole = None
        if kind.split(";")[0] != "text/event-stream":  # refused before it began
            self.whole = self.response.read()
        else:
            same(self.response.status, 200, "status of an event stream")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        hang_up(self.connection, self.response)

    def event(self):
        """Returns the next (name, data); None at the end."""
        name, data = "message", []
        while True:
            try:
                line = self.response.readline()
            except OSError as e:
                raise Wrong(f"the event stream broke off: {e!r}") from None
            if not line:
                want(not data, "the event stream ends in the middle of an event", data)
                return None
            line = line.decode().rstrip("\r\n")
            if not line and data:
                return name, parsed("\n".join(data))
            field, _, value = line.partition(":")
            if field == "event":
                name = value.removeprefix(" ")
            elif field == "data":
                data.append(value.removeprefix(" "))

    def rest_of_it(self, code=None):
        """Returns all events up to the result, by name, and the checked envelope of the result, which must be the last event."""
        want(self.whole is None, "the answer is no event stream", str(self.whole))
        told = {"progress": [], "log": []}
        while True:
            event = self.event()
            want(event, "the event stream ends without a result")
            name, data = event
            if name == "result":
                break
            want(name in told, f"an event is called {name}", data)
            told[name].append(data)
        envelope = self.rest.check(data, self.body, code)
        want(self.event() is None, "something follows the result")
        same(self.response.getheader("X-Request-ID"), envelope["request_id"], "header X-Request-ID")
        return told, envelope


def hang_up(connection, response=None):
    """Closes a connection at once, also while its answer is being read."""
    sock = connection.sock or getattr(getattr(getattr(response, "fp", None), "raw", None), "_sock", None)
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already
    if response is not None:
        response.close()
    connection.close()


def new_id():
    return str(uuid.uuid4())
