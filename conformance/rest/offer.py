"""The registers of a service of the REST envelope: tools, resources and prompts. A file such as tools.py fills them, service.py serves
them."""
import threading

PIXELS = ("iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mM4UaEBRAwQCgAp7gWhZAhhBwAAAABJRU5ErkJggg==")
SOUND = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAoMCggGBAYA=="
STATUS = {"TOOL_NOT_FOUND": 404, "INVALID_ARGUMENTS": 400, "EXECUTION_ERROR": 500, "INTERNAL_ERROR": 500, "TIMEOUT": 504,
          "RATE_LIMITED": 429, "SERVICE_UNAVAILABLE": 503}


class Failure(Exception):
    """A failure of a call, which becomes an envelope without success."""

    def __init__(self, code, text, **meta):
        super().__init__(text)
        self.code, self.text, self.meta = code, text, meta


class Left(Exception):
    """The caller has closed the connection."""


class World:
    """The state that all calls share."""

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


# --- the registers -----------------------------------------------------------------------------------------------------------

TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
TOOLS = {}      # name → (what GET /tools says of it, function)
RESOURCES = {}  # uri → (name, media type, {text or blob}, or a function (call) → that)
TEMPLATES = []  # (name, template, pattern of the URIs, media type, function (*groups) → text)
PROMPTS = {}    # name → (arguments, function (call, **arguments) → messages)
WORDS = {}      # argument → what completes it


def tool(about, properties=None, optional=(), input_schema=None, **more):
    """Registers a function (call, **arguments) → data."""
    properties = properties or {}
    schema = input_schema or {"type": "object", "properties": properties, "required": [p for p in properties if p not in optional]}

    def register(f):
        TOOLS[f.__name__] = ({"name": f.__name__, "description": about, "input_schema": schema, **more}, f)
        return f
    return register


def prompt(*arguments, optional=()):
    """Registers a function (call, **arguments) → messages."""
    def register(f):
        PROMPTS[f.__name__] = ([{"name": a, "required": a not in optional} for a in arguments], f)
        return f
    return register


def said(*blocks):
    """Returns a result in the form of MCP, which a service may give as data too."""
    return {"content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


def user(*blocks):
    """Returns messages of the user."""
    return [{"role": "user", "content": b} for b in said(*blocks)["content"]]


def image():
    return {"type": "image", "data": PIXELS, "mimeType": "image/png"}


def embedded(uri, media, text):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media, "text": text}}


# --- questions, for Call.ask -------------------------------------------------------------------------------------------------

def form(message, properties=None, required=None):
    properties = properties or {"name": TEXT}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": {
        "type": "object", "properties": properties, "required": list(properties) if required is None else required}}}


def generate(prompt, tokens=100):
    return {"method": "sampling/createMessage", "params": {"maxTokens": tokens, "messages": user(prompt)}}


def roots():
    return {"method": "roots/list", "params": {}}


def named(answer, field="name"):
    return (answer.get("content") or {}).get(field, answer["action"])


def spoken(answer):
    content = answer["content"]
    return " ".join(c.get("text", "") for c in (content if isinstance(content, list) else [content]))


def places(answer):
    return ", ".join(r["uri"] for r in answer["roots"])
