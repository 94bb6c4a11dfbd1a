"""use.py CLIENT URL SPEC: what use.mjs does, with the official Python SDK: `py1` is the SDK v1, `py2-modern`, `py2-legacy` and
`py2-auto` are the SDK v2. Leaves without a word, too: the process just ends."""
import asyncio
import json
import os
import re
import sys
import time

import mcp

KIND, URL, FILE = sys.argv[1:4]
SPEC = json.load(open(FILE, encoding="utf-8"))
failed = False


async def connect(name, stack):
    """Enters a client in a task of its own, because its task groups must not be left by another."""
    ready = asyncio.get_running_loop().create_future()

    async def live():
        try:
            if KIND == "py1":
                from mcp.client.streamable_http import streamable_http_client

                async with streamable_http_client(URL) as (reader, writer, _), mcp.ClientSession(reader, writer, client_info=mcp.Implementation(name=name, version="1")) as session:
                    await session.initialize()
                    ready.set_result(session)
                    await asyncio.Event().wait()
            mode = {"py2-modern": "2026-07-28", "py2-legacy": "legacy", "py2-auto": "auto"}[KIND]
            async with mcp.Client(URL, mode=mode, client_info=mcp.Implementation(name=name, version="1")) as client:
                ready.set_result(client)
                await asyncio.Event().wait()
        except BaseException as error:  # noqa: B036 - whoever waits must hear of it
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    stack.append(asyncio.create_task(live()))
    return name, await asyncio.wait_for(ready, 60)


def text_of(result):
    for member in ("content", "contents", "messages"):
        if hasattr(result, member):
            return json.dumps([item.model_dump(mode="json", by_alias=True) for item in getattr(result, member)], ensure_ascii=False, separators=(",", ":"))
    raise AssertionError(f"a result of the type {type(result).__name__}")


async def check(session, of):
    name, client = session
    one = json.loads(json.dumps(of).replace("${WHO}", f"{name}{os.getpid()}"))
    if "tool" in one:
        result = await client.call_tool(one["tool"], one.get("args", {}))
        error = getattr(result, "is_error", getattr(result, "isError", False))
        assert bool(error) == bool(one.get("error")), f"{one['tool']}: isError: {text_of(result)}"
    elif "uri" in one:
        result = await client.read_resource(one["uri"])
    else:
        result = await client.get_prompt(one["prompt"], one.get("args"))
    assert re.search(one["expect"], text_of(result)), f"the result does not match {one['expect']}: {text_of(result)[:200]}"


async def lists(session):
    _, client = session
    able = client.get_server_capabilities() if KIND == "py1" else client.server_capabilities
    counts = []
    for what, key in (("tools", "name"), ("resources", "uri"), ("prompts", "name")):
        if getattr(able, what) is None and KIND != "py2-modern":  # which has asked for no capabilities
            assert what not in SPEC, f"{what} are not offered"
            continue
        if what not in SPEC:
            continue
        items = getattr(await getattr(client, f"list_{what}")(), what)
        for wanted in SPEC[what]:
            assert any(str(getattr(item, key)) == wanted for item in items), f"{wanted} is not among the {what}"
        counts.append(f"{len(items)} {what}")
    return ", ".join(counts)


async def progress(*_):
    pass


async def cancelled(session):
    slow = SPEC.get("slow") if KIND != "py1" else None  # which tells nobody: the call would go on, and its session with it
    one = slow or next(call for call in SPEC["calls"] if "tool" in call)
    args = json.loads(json.dumps(one.get("args", {})).replace("${WHO}", "cancelled"))
    call = asyncio.create_task(session[1].call_tool(one["tool"], args, progress_callback=progress))
    await asyncio.sleep(0.3 if slow else 0.001)
    assert not slow or not call.done(), f"it ended before it was cancelled: {call}"
    call.cancel()
    done, _ = await asyncio.wait([call], timeout=2)
    assert done, "the end took long"
    assert call.cancelled() or not slow, "it was answered"
    await check(session, next(c for c in SPEC["calls"] if "tool" in c and not c.get("once")))
    return "" if slow else "a quick call: it may have been answered"


async def judge(name, work):
    global failed
    begun = time.monotonic()
    word, text = "ok", ""
    try:
        text = await asyncio.wait_for(work, 90)
    except Exception as error:  # noqa: BLE001 - whatever went wrong is the result
        failed, word = True, "FAIL"
        text = re.sub(r"\s+", " ", str(error) or repr(error))[:300]
    print(word, KIND, name, f"{text + ', ' if text else ''}{round((time.monotonic() - begun) * 1000)} ms", sep="\t", flush=True)


async def main():
    again = [call for call in SPEC["calls"] if not call.get("once")]
    tasks, sessions = [], []

    async def first():
        sessions.append(await connect("ann", tasks))

    async def calls():
        for call in SPEC["calls"]:
            await check(sessions[0], call)
        return f"{len(SPEC['calls'])} calls"

    async def three():
        sessions.extend(await asyncio.gather(connect("bob", tasks), connect("cy", tasks)))
        each = [(session, call) for session in sessions for call in again * 2]
        if SPEC.get("inTurn"):
            for one in each:
                await check(*one)
        else:
            await asyncio.gather(*(check(*one) for one in each))
        return f"{len(each)} calls {'in turn' if SPEC.get('inTurn') else 'at once'}"

    await judge("connect", first())
    if sessions:
        await judge("lists", lists(sessions[0]))
        await judge("calls", calls())
        await judge("three sessions", three())
        await judge("cancel", cancelled(sessions[0]))
    sys.stdout.flush()
    os._exit(1 if failed else 0)


asyncio.run(main())
