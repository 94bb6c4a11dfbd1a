"""Cases with questions: data.result_type is input_required, and the same call goes on with input_responses and request_state."""
from cases import NotOffered, at_once, body_of, case, text_of
from envelope import Wrong, members, new_id, same, want

ASK, MODEL, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
# The capabilities of a caller that answers such questions. It declares no others: some servers ask for roots, for example, whenever they
# can.
DECLARED = {ASK: {"elicitation": {"form": {}, "url": {}}}, MODEL: {"sampling": {"tools": {}}}, ROOTS: {"roots": {}}}

# Tools that ask, by the kind of question: (tool, or tool@era if it asks in one era only; arguments).
ASKS_USER = [("ask_user", {"question": "who?"}), ("test_elicitation@legacy", {"message": "who?"}), ("test_input_required_result_elicitation", {}),
             ("trigger-elicitation-request", {})]
ASKS_MODEL = [("ask_model", {"prompt": "speak"}), ("ask_llm", {"prompt": "speak"}), ("test_sampling@legacy", {"prompt": "speak"}),
              ("test_input_required_result_sampling", {}), ("trigger-sampling-request", {"prompt": "speak"})]
ASKS_ROOTS = [("ask_roots", {}), ("test_input_required_result_list_roots", {})]
ASKS_TWICE = [("ask_rounds", {}, MODEL), ("two_step", {}, MODEL), ("test_input_required_result_multi_round", {}, ASK)]
ASKS_AT_ONCE = [("ask_at_once", {}, [ASK, MODEL]), ("both", {}, [ASK, MODEL]), ("test_input_required_result_multiple_inputs", {}, [ASK, MODEL, ROOTS])]

VALUES = {"string": "ada", "boolean": True, "integer": 30, "number": 30.5}


def filled(schema):
    """Returns a form with its required fields filled in."""
    properties = schema.get("properties", {})
    return {name: VALUES[properties[name]["type"]] for name in schema.get("required", properties)}


def answer(question, action="accept"):
    members(question, ("method",), ("params",), "a question")
    params = question.get("params", {})
    if question["method"] == ROOTS:
        return {"roots": [{"uri": "file:///rest/roots", "name": "roots"}]}
    if question["method"] == MODEL:
        want(params["messages"], "a question to the model without messages", params)
        return {"role": "assistant", "model": "m", "stopReason": "endTurn", "content": {"type": "text", "text": "the model speaks"}}
    same(question["method"], ASK, "the method of the question")
    if action != "accept":
        return {"action": action}
    return {"action": action, **({"content": filled(params["requestedSchema"])} if "requestedSchema" in params else {})}


def by_envelope(s, path, body):
    return s.rest.call(path, body)


def by_stream(s, path, body):
    with s.rest.stream(path, body) as stream:
        return stream.rest_of_it()[1]


def asked(envelope):
    """Returns the questions of an envelope by key; None if it has none. The protocol allows request_state to be missing."""
    data = envelope["data"]
    if "result_type" not in data:
        return None
    members(data, ("result_type", "input_requests"), ("request_state",), "data")
    same(data["result_type"], "input_required", "result_type")
    want(data["input_requests"], "nothing is asked", data)
    return data["input_requests"]


def dialogue(s, path, body, rounds, action="accept", send=by_envelope, case=None):
    """Answers the questions of all rounds, each a list of methods that are asked together. Returns the data of the final answer."""
    can = {name: value for methods in rounds for method in methods for name, value in DECLARED[method].items()}
    body = {"client_capabilities": can, **body}
    again = {}
    for number, methods in enumerate(rounds, 1):
        envelope = send(s, path, {**body, **again, "request_id": new_id()})
        questions = asked(envelope)
        want(questions, f"nothing is asked in round {number}", envelope)
        same(sorted(q["method"] for q in questions.values()), sorted(methods), f"what is asked in round {number}")
        again = {"input_responses": {key: answer(q, action) for key, q in questions.items()}}
        if "request_state" in envelope["data"]:
            again["request_state"] = envelope["data"]["request_state"]
    body = {**body, **again, "request_id": new_id()}
    if case and (limit := s.limit(case)):
        e = s.rest.call(path, body, "TIMEOUT")
        want("limits.request_time" in e["error"], "the error does not name the limit", e)
        s.note = limit.why
        return None
    envelope = send(s, path, body)
    want(asked(envelope) is None, "one more round", envelope)
    s.note = ", then ".join(" and ".join(methods) for methods in rounds)
    return envelope["data"]


def says(data, *words):
    if data is not None:
        text = text_of(data).lower()
        for word in words:
            want(word in text, f"the result does not say {word!r}", text)


@case
def ask_elicitation(s):
    tool, arguments = s.pick(*ASKS_USER)
    says(dialogue(s, "/call-tool", body_of(tool, arguments), [[ASK]], case="ask_elicitation"), "ada")


@case
def ask_declined(s):
    tool, arguments = s.pick(*ASKS_USER)
    says(dialogue(s, "/call-tool", body_of(tool, arguments), [[ASK]], action="decline", case="ask_declined"), "decline")


@case
def ask_sampling(s):
    tool, arguments = s.pick(*ASKS_MODEL)
    says(dialogue(s, "/call-tool", body_of(tool, arguments), [[MODEL]], case="ask_sampling"), "the model speaks")


@case
def ask_roots(s):
    tool, arguments = s.pick(*ASKS_ROOTS)
    says(dialogue(s, "/call-tool", body_of(tool, arguments), [[ROOTS]], case="ask_roots"), "file:///rest/roots")


@case
def ask_two_rounds(s):
    tool, arguments, then = s.pick(*ASKS_TWICE)
    if s.limit("ask_two_rounds"):
        dialogue(s, "/call-tool", body_of(tool, arguments), [[ASK]], case="ask_two_rounds")
        return
    says(dialogue(s, "/call-tool", body_of(tool, arguments), [[ASK], [then]]), "ada", *(["the model speaks"] if then == MODEL else []))


@case
def ask_at_once(s):
    """Asks several questions in one round. A legacy server sends them one by one; Dragoman collects them for a short time, which may be too
    short on a busy machine."""
    tool, arguments, methods = s.pick(*ASKS_AT_ONCE)
    tries = 5 if s.kind.era == "legacy" else 1
    for left in reversed(range(tries)):
        try:
            says(dialogue(s, "/call-tool", body_of(tool, arguments), [methods], case="ask_at_once"), "ada", "the model speaks")
            return
        except Wrong:
            if left == 0:
                raise


@case
def ask_streaming(s):
    """Each round has its own stream."""
    tool, arguments, then = s.pick(*ASKS_TWICE)
    if limit := s.limit("ask_streaming"):
        raise NotOffered(limit.why)
    says(dialogue(s, "/call-tool", body_of(tool, arguments), [[ASK], [then]], send=by_stream), "ada")


@case
def ask_url(s):
    tool, = s.pick(("ask_url",))
    says(dialogue(s, "/call-tool", body_of(tool, {}), [[ASK]]), "accept")


@case
def ask_prompt(s):
    name = "test_input_required_result_prompt"
    if name not in {p["name"] for p in s.rest.call("/prompts")["data"]["prompts"]}:
        raise NotOffered("no prompt asks")
    messages = dialogue(s, "/get-prompt", {"name": name}, [[ASK]])["messages"]
    want("ada" in str(messages), "the answer is not in the prompt", messages)


@case
def ask_resource(s):
    if "note://asked" not in {r["uri"] for r in s.rest.call("/resources")["data"]["resources"]}:
        raise NotOffered("no resource asks")
    contents = dialogue(s, "/read-resource", {"uri": "note://asked"}, [[ASK]])["contents"]
    want("ada" in contents[0]["text"], "the answer is not in the resource", contents)


@case
def ask_parallel(s):
    """Four concurrent calls ask; each gets its own answers."""
    tool, arguments = s.pick(*ASKS_USER)
    if limit := s.limit("ask_parallel"):
        raise NotOffered(limit.why)
    at_once(4, lambda _: says(dialogue(s, "/call-tool", body_of(tool, arguments), [[ASK]]), "ada"))


@case
def ask_nobody(s):
    """For a caller without capabilities a modern server names the missing one, and a legacy server fails with a text of its own."""
    tool, arguments = s.pick(*ASKS_USER)
    body = body_of(tool, arguments, client_capabilities={})
    if limit := s.limit("ask_nobody"):
        s.rest.call("/call-tool", body, "TIMEOUT")
        s.note = limit.why
    elif s.kind.era == "legacy":
        s.note = s.rest.call("/call-tool", body, "EXECUTION_ERROR")["error"][:90]
    else:
        cause = s.rest.call("/call-tool", body, "INVALID_ARGUMENTS")["meta"]["cause"]
        same((cause["code"], list(cause["data"]["requiredCapabilities"])), (-32021, ["elicitation"]), "the cause")
