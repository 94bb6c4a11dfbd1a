"""The cases that run against every server through the envelope. Servers name their tools as they like: a case takes the first of
several names that the server lists, and is not offered if it lists none of them."""
import concurrent.futures
import re
from dataclasses import dataclass, field

from envelope import check_health, check_tools, new_id, same, want


class NotOffered(Exception):
    """The server does not offer what the case needs."""


@dataclass(frozen=True)
class Limit:
    """A limit of a server's implementation, with any client: the case must have the outcome named here and no other."""
    kind: str   # a pattern for the kind's name
    eras: tuple
    cases: str  # a pattern for the case's name
    outcome: str
    why: str
    settings: dict = field(default_factory=dict, hash=False)  # what Dragoman is told at such a server

    def holds(self, kind, case):
        return re.search(self.kind, kind.name) and kind.era in self.eras and re.fullmatch(self.cases, case)


LIMITS = [
    Limit(r"-json\b", ("modern", "dual", "legacy"), "progress|logs|logs_debug", "no events",
          "it answers with application/json and never with a stream, so that whatever it says before the result is lost in it"),
    Limit(r"-stateless\b", ("legacy",), "ask_.*", "no end",
          "it forgets a request's connection: an answer to its question reaches another instance, and the call waits for it in vain",
          {"limits.request_time": "3s"}),
]


@dataclass
class Server:
    """The server under test."""
    kind: object
    rest: object
    tools: dict  # name → input_schema
    note: str = ""

    def pick(self, *candidates):
        """Returns the first (tool, …) that is listed and that names no other era than the server's."""
        spoken = "legacy" if self.kind.era == "legacy" else "modern"
        for tool, *more in candidates:
            name, _, era = tool.partition("@")
            if name in self.tools and era in ("", spoken):
                return [name, *more]
        raise NotOffered("none of the tools " + ", ".join(dict.fromkeys(t.partition("@")[0] for t, *_ in candidates)))

    def limit(self, case):
        return next((limit for limit in LIMITS if limit.holds(self.kind, case)), None)


# Dragoman's settings for every server. It waits for simultaneous questions as long as it can be configured to: tests make machines busy.
SETTINGS = {"questions.settle": "50ms"}

CASES = []


def case(run):
    CASES.append((run.__name__, run))
    return run


def text_of(data):
    return "\n".join(block.get("text", "") for block in data.get("content", []))


def body_of(tool, arguments, **more):
    return {"tool": tool, "arguments": arguments, **more}


def at_once(number, run):
    """Runs run(0), run(1) … concurrently and raises the first failure."""
    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        for done in [pool.submit(run, n) for n in range(number)]:
            done.result()


# --- lists and documents -----------------------------------------------------------------------------------------------------------

@case
def tools(s):
    listed = s.rest.bare("GET", "/tools")
    check_tools(listed)
    s.note = f"{len(listed['tools'])} tools"


@case
def resources(s):
    data = s.rest.call("/resources")["data"]
    same(sorted(data), ["resourceTemplates", "resources"], "the members of data")
    want(all(r["uri"] and r["name"] for r in data["resources"]), "a resource without uri or name", data)
    s.note = f"{len(data['resources'])} resources, {len(data['resourceTemplates'])} templates"


@case
def prompts(s):
    data = s.rest.call("/prompts")["data"]
    same(list(data), ["prompts"], "the members of data")
    s.note = f"{len(data['prompts'])} prompts"


@case
def health(s):
    found = s.rest.bare("GET", "/health")
    check_health(found)
    same(found["status"], "healthy", "the status")
    want(found["dependencies"], "the server is no dependency", found)


@case
def openapi(s):
    document = s.rest.bare("GET", "/openapi.json")
    want(document["openapi"].startswith("3.1."), "openapi", document["openapi"])
    lacking = [t for t in s.tools if "post" not in document["paths"].get(f"/tools/{t}", {})]
    want(not lacking, "no operation for", lacking)
    lacking = {"/tools", "/call-tool", "/resources", "/read-resource", "/prompts", "/get-prompt", "/complete", "/health"} - set(document["paths"])
    want(not lacking, "no operation for", sorted(lacking))


@case
def method(s):
    names = {t["name"] for t in s.rest.bare("POST", "/mcp/tools/list", {})["tools"]}
    want(names and names <= set(s.tools), "tools/list, called by its name, has others", sorted(names - set(s.tools)))


@case
def read_resource(s):
    listed = [r["uri"] for r in s.rest.call("/resources")["data"]["resources"] if not r["uri"].endswith("asked")]
    if not listed:
        raise NotOffered("no resource is listed")
    contents = s.rest.call("/read-resource", {"uri": listed[0]})["data"]["contents"]
    want(contents and ("text" in contents[0]) != ("blob" in contents[0]), "contents of neither text nor blob, or of both", contents)


@case
def read_unknown(s):
    if not s.rest.call("/resources")["data"]["resources"]:
        raise NotOffered("no resource is listed")
    s.rest.call("/read-resource", {"uri": "nobody://has/this"}, "INVALID_ARGUMENTS")


@case
def get_prompt(s):
    plain = [p["name"] for p in s.rest.call("/prompts")["data"]["prompts"] if not p.get("arguments") and "input_required" not in p["name"]]
    if not plain:
        raise NotOffered("no prompt without arguments is listed")
    messages = s.rest.call("/get-prompt", {"name": plain[0]})["data"]["messages"]
    want(messages and messages[0]["role"] in ("user", "assistant"), "messages", messages)


COMPLETIONS = [  # prompt or template, argument, value, and one of the values, if they are known
    ("greet", "style", "f", "formal"),
    ("planet://{name}", "name", "m", "mars"),
    ("completable-prompt", "department", "E", "Engineering"),
    ("test_prompt_with_arguments", "arg1", "p", None),
]


@case
def complete(s):
    there = {p["name"] for p in s.rest.call("/prompts")["data"]["prompts"]}
    there |= {t["uriTemplate"] for t in s.rest.call("/resources")["data"]["resourceTemplates"]}
    for name, argument, value, expected in COMPLETIONS:
        if name in there:
            break
    else:
        raise NotOffered("none of the prompts and templates " + ", ".join(c[0] for c in COMPLETIONS))
    ref = {"type": "ref/resource", "uri": name} if "{" in name else {"type": "ref/prompt", "name": name}
    values = s.rest.call("/complete", {"ref": ref, "argument": {"name": argument, "value": value}})["data"]["completion"]["values"]
    want(all(isinstance(v, str) for v in values) and (expected is None or expected in values), f"{expected} is not among the values", values)


# --- calls -------------------------------------------------------------------------------------------------------------------

ECHO = [("echo", "message")]


@case
def echo(s):
    tool, argument = s.pick(*ECHO)
    said = "grüße \"und\" \\ 🦊 \u2028" + "x" * 50_000
    same(text_of(s.rest.call("/call-tool", body_of(tool, {argument: said}))["data"]).removeprefix("Echo: "), said, "the echo")


@case
def echo_otherwise(s):
    """Calls by `name`, by the tool's own operation and by the method's name, with the caller's id."""
    tool, argument = s.pick(*ECHO)
    request_id = new_id()
    first = s.rest.call("/call-tool", {"name": tool, "arguments": {argument: "a"}, "request_id": request_id})
    again = s.rest.call("/call-tool", {"name": tool, "arguments": {argument: "a"}, "request_id": request_id})
    same((again["meta"].get("replayed"), again["data"].get("_meta", {}).pop("io.dragoman/replayed", None)), (True, True), "the mark of a repeated answer")
    same((again["data"], first["meta"].get("replayed")), (first["data"], None), "the repeated answer")
    for result in (s.rest.call(f"/tools/{tool}", {argument: "a"})["data"], s.rest.bare("POST", "/mcp/tools/call", {"name": tool, "arguments": {argument: "a"}})):
        same(text_of(result), text_of(first["data"]), "the echo")


@case
def wrong_arguments(s):
    """The error names an argument of the wrong type by its path, and a missing one by its name."""
    tool, name = s.pick(*ECHO, ("test_sampling", "prompt"), ("test_elicitation", "message"))
    e = s.rest.call("/call-tool", body_of(tool, {name: 5}), "INVALID_ARGUMENTS")
    cause = e["meta"]["cause"]
    same((cause["code"], cause["data"]["path"], cause["data"]["rule"]), (-32602, "/" + name, "type"), "the cause")
    want("/" + name in e["error"], "the error does not name the path", e["error"])
    e = s.rest.call("/call-tool", body_of(tool, {}), "INVALID_ARGUMENTS")
    cause = e["meta"]["cause"]
    same((cause["data"]["path"], cause["data"]["rule"]), ("", "required"), "the cause")
    want(name in e["error"], "the error does not name the argument", e["error"])
    s.rest.call(f"/tools/{tool}", {name: 5}, "INVALID_ARGUMENTS")


@case
def refused(s):
    """Requests that are not calls."""
    s.rest.call("/call-tool", body_of("no_such_tool", {}), "TOOL_NOT_FOUND")
    s.rest.call("/tools/no_such_tool", {}, "TOOL_NOT_FOUND")
    for body in (b"{", b"[]", b"", {"arguments": {}}, {"tool": 5, "arguments": {}}, {"tool": "x"}, {"tool": "x", "arguments": []},
                 body_of("x", {}, request_id="1"), body_of("x", {}, request_id="550e8400-e29b-11d4-a716-446655440000")):
        s.rest.call("/call-tool", body, "INVALID_ARGUMENTS")


FAILS = [("test_error_handling", {}), ("fail", {})]


@case
def tool_fails(s):
    tool, arguments = s.pick(*FAILS)
    e = s.rest.call("/call-tool", body_of(tool, arguments), "EXECUTION_ERROR")
    same((e["meta"]["result"]["isError"], e["error"]), (True, text_of(e["meta"]["result"])), "isError and the error")


@case
def tool_fails_streaming(s):
    tool, arguments = s.pick(*FAILS)
    with s.rest.stream("/call-tool", body_of(tool, arguments)) as stream:
        _, e = stream.rest_of_it("EXECUTION_ERROR")
    want(e["meta"]["result"]["isError"], "isError", e)


@case
def structured(s):
    tool, arguments, member, value = s.pick(("add", {"a": 2, "b": 40}, "sum", 42), ("get-structured-content", {"location": "Chicago"}, "conditions", None))
    got = s.rest.call("/call-tool", body_of(tool, arguments))["data"]["structuredContent"]
    want(member in got and value in (None, got[member]), f"{member} is not {value}", got)


# --- long work ---------------------------------------------------------------------------------------------------------------

PROGRESS = [("countdown", {"steps": 3, "pauseMs": 10}), ("progress", {"steps": 3, "delayMs": 10}), ("test_tool_with_progress", {}),
            ("trigger-long-running-operation", {"duration": 0.3, "steps": 3})]
LOGS = [("chat", {"lines": 3, "tag": "rest"}), ("log", {"count": 3}), ("test_tool_with_logging", {})]


@case
def progress(s):
    """Three reports of progress, in order, and none of another call."""
    tool, arguments = s.pick(*PROGRESS)
    with s.rest.stream("/call-tool", body_of(tool, arguments, request_id=(token := new_id()), client_capabilities={})) as stream:
        told, e = stream.rest_of_it()
    if limit := s.limit("progress"):
        same(told, {"progress": [], "log": []}, "what comes before the result")
        s.note = limit.why
        return
    steps = told["progress"]
    same(len(steps), 3, f"the number of reports ({json_of(steps)})")
    want(all(p["progressToken"] == token for p in steps), "a report's token is not the request's id", steps)
    done = [p["progress"] for p in steps]
    want(done == sorted(set(done)), "progress does not increase", done)
    same(steps[-1]["progress"], steps[-1].get("total"), "the last progress")
    want(text_of(e["data"]), "no result", e)
    s.note = "3 reports"


def json_of(value):
    return str(value)[:120]


@case
def progress_parallel(s):
    """Of four concurrent calls each gets its own progress only, by its own token."""
    tool, arguments = s.pick(*PROGRESS[:2])
    if limit := s.limit("progress"):
        raise NotOffered(limit.why)

    def one(n):
        body = body_of(tool, {**arguments, "steps": n + 2}, request_id=(token := new_id()), client_capabilities={})
        with s.rest.stream("/call-tool", body) as stream:
            told, _ = stream.rest_of_it()
        same([(p["progressToken"], p["progress"], p["total"]) for p in told["progress"]], [(token, i, n + 2) for i in range(1, n + 3)], "progress")
    at_once(4, one)


@case
def progress_unasked(s):
    """Without a stream only the result is sent."""
    tool, arguments = s.pick(*PROGRESS)
    want(text_of(s.rest.call("/call-tool", body_of(tool, arguments, client_capabilities={}))["data"]), "no result")


@case
def logs(s):
    """Three lines at info; a caller that wants errors only gets none."""
    tool, arguments = s.pick(*LOGS)
    for level, number in ((None, 3), ("error", 0)):
        more = {"log_level": level} if level else {}
        with s.rest.stream("/call-tool", body_of(tool, arguments, client_capabilities={}, **more)) as stream:
            told, _ = stream.rest_of_it()
        if limit := s.limit("logs"):
            number, s.note = 0, limit.why
        same(len(told["log"]), number, f"the number of lines at {level or 'info'} ({json_of(told['log'])})")
        want(all(set(line) <= {"level", "logger", "data", "_meta"} and line["level"] == "info" for line in told["log"]), "a line of another level", told)
    s.note = s.note or "3 lines, none at error"


@case
def logs_debug(s):
    tool, arguments = s.pick(*LOGS[:2])
    with s.rest.stream("/call-tool", body_of(tool, arguments, client_capabilities={}, log_level="debug")) as stream:
        told, _ = stream.rest_of_it()
    if limit := s.limit("logs_debug"):
        same(told["log"], [], "lines")
        s.note = limit.why
        return
    same([line["level"] for line in told["log"]], ["debug", "info", "info", "info"], "the levels")


@case
def live(s):
    """Progress reaches the caller while the tool still waits for the caller."""
    s.pick(("gate",))
    for sign, event in (("progress", "progress"), ("log", "log")):
        body = body_of("gate", {"name": (name := new_id()), "sign": sign}, client_capabilities={})
        with s.rest.stream("/call-tool", body) as stream:
            same(stream.event()[0], event, "the first event")
            s.rest.call("/call-tool", body_of("open_gate", {"name": name}, client_capabilities={}))
            same(text_of(stream.rest_of_it()[1]["data"]), "the gate was opened", "the result")


# --- the end of a call -------------------------------------------------------------------------------------------------------

def counted(s):
    """Returns the server's statistics of its calls. The call declares no capabilities, so it needs no connection of its own."""
    return s.rest.call("/call-tool", body_of("stats", {}, client_capabilities={}))["data"]["structuredContent"]


def sleeps(s):
    """Returns a function that reports whether one more call sleeps at the server, by its statistics of sleeping calls or of all calls,
    which include the request for the statistics."""
    asked, before = 0, counted(s)

    def asleep():
        nonlocal asked
        asked, now = asked + 1, counted(s)
        if "running" in before:
            return now["running"] > before["running"]
        return now["calls"] - before["calls"] > asked
    return asleep


def cancel(s, begin):
    s.pick(("slow",)), s.pick(("stats",))
    before, asleep = counted(s)["cancelled"], sleeps(s)
    hang_up = begin(body_of("slow", {"ms": 60_000}, client_capabilities={}))
    try:
        s.rest.until("the call sleeps", asleep)
    finally:
        hang_up()
    s.rest.until("the server sees that the call is cancelled", lambda: counted(s)["cancelled"] == before + 1)
    same(s.rest.bare("GET", "/health")["status"], "healthy", "the status afterwards")


@case
def cancel_plain(s):
    cancel(s, lambda body: s.rest.abandoned("/call-tool", body))


@case
def cancel_stream(s):
    cancel(s, lambda body: s.rest.stream("/call-tool", body).close)
