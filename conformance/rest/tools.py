"""The tools, resources and prompts of service.py: results of every shape, progress and logs, questions, failures with every code, and
calls that notice that their caller disconnects."""
from offer import (PIXELS, RESOURCES, SOUND, STATUS, TEMPLATES, TEXT, NUMBER, WHOLE, WORDS, WORLD, Failure, Left, embedded, form, generate,
                   image, named, places, prompt, roots, said, spoken, tool, user)

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
    return said("Multiple content types test:", image(), embedded("test://mixed", "application/json", '{"test":"data"}'))


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
    return said("the gate was opened" if WORLD.wait_at(name, 15) else "nobody opened the gate")


@tool("Opens a gate", {"name": TEXT})
def open_gate(call, name):
    WORLD.open(name)
    return said("opened")


# --- questions ---------------------------------------------------------------------------------------------------------------

@tool("Asks the user", {"question": TEXT})
def ask_user(call, question):
    user = call.ask({"user": form(question)})["user"]
    return said(f'{user["action"]} {(user.get("content") or {}).get("name", "-")}')


@tool("Asks the model", {"prompt": TEXT})
def ask_model(call, prompt):
    return said(spoken(call.ask({"model": generate(prompt)})["model"]))


@tool("Asks for the roots")
def ask_roots(call):
    return said(places(call.ask({"where": roots()})["where"]))


@tool("Asks the user, then the model")
def ask_rounds(call):
    user = call.ask({"user": form("What is your name?")})["user"]
    return said(f'{named(user)}: {spoken(call.ask({"model": generate("a poem")})["model"])}')


@tool("Asks user and model in one round")
def ask_at_once(call):
    got = call.ask({"user": form("What is your name?"), "model": generate("a riddle")})
    return said(f'{named(got["user"])}: {spoken(got["model"])}')


# --- resources, prompts, completion ------------------------------------------------------------------------------------------

def note_for(call):
    return {"text": f'a note for {named(call.ask({"reader": form("Who reads this?")})["reader"])}'}


RESOURCES.update({"note://one": ("note-one", "text/plain", {"text": "the first note, with an ümlaut"}),
                  "test://static-binary": ("static-binary", "image/png", {"blob": PIXELS}),
                  "note://asked": ("note-asked", "text/plain", note_for)})
TEMPLATES.extend([("planet", "planet://{name}", r"planet://(\w+)", "text/plain", "the planet {}".format),
                  ("moon", "moon://{planet}/{index}", r"moon://(\w+)/(\w+)", "text/plain", "moon {1} of {0}".format)])
WORDS.update({"style": ["brief", "bright", "formal"], "name": ["mars", "mercury", "venus"]})


@prompt("who", "style", optional=["style"])
def greet(call, who, style="as you like"):
    return user(f"Greet {who}, {style}.")


@prompt()
def farewell(call):
    return user("Say goodbye.")
