"""The tools, resources and prompts that the official conformance suite uses by name: service.py --tools suite_tools.py."""
from offer import (NUMBER, PIXELS, RESOURCES, SOUND, TEMPLATES, TEXT, WHOLE, WORDS, Failure, embedded, form, generate, image, named, places,
                   prompt, roots, said, spoken, tool, user)


# --- content -----------------------------------------------------------------------------------------------------------------

@tool("A line of text")
def test_simple_text(call):
    return said("This is a simple text response for testing.")


@tool("An image")
def test_image_content(call):
    return said(image())


@tool("A sound")
def test_audio_content(call):
    return said({"type": "audio", "data": SOUND, "mimeType": "audio/wav"})


@tool("A resource inside the result")
def test_embedded_resource(call):
    return said(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool("Text, image and resource in one result")
def test_multiple_content_types(call):
    return said("Multiple content types test:", image(), embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'))


@tool("Fails whenever it is called")
def test_error_handling(call):
    raise Failure("EXECUTION_ERROR", "This tool intentionally returns an error for testing")


@tool("An input schema that uses the vocabulary of JSON Schema 2020-12", input_schema={
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": TEXT, "city": TEXT}}},
    "properties": {"name": TEXT, "address": {"$ref": "#/$defs/address"}, "contactMethod": {**TEXT, "enum": ["phone", "email"]}, "phone": TEXT, "email": TEXT},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": False})
def json_schema_2020_12_tool(call, **given):
    return said(f"accepted {given}")


@tool("Arguments that a modern client repeats as headers", {"region": {**TEXT, "x-mcp-header": "Region"}, "shard": {**WHOLE, "x-mcp-header": "Shard"}}, optional=["shard"])
def test_mirrored_arguments(call, region, shard="none"):
    return said(f"region {region}, shard {shard}")


# --- long work ---------------------------------------------------------------------------------------------------------------

@tool("Logs three lines, a moment apart")
def test_tool_with_logging(call):
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        call.log("info", line)
        call.sleep(0.05)
    return said("Three lines were logged.")


@tool("Logs a line for those who want it")
def test_logging_tool(call):
    call.log("info", "test_logging_tool runs")
    return said("Done.")


@tool("Reports progress 0, 50 and 100 of 100")
def test_tool_with_progress(call):
    for done in (0, 50, 100):
        call.progress(done, 100, f"{done} of 100")
        call.sleep(0.05)
    return said("All of it is done.")


@tool("Takes its time")
def test_reconnection(call):
    call.sleep(0.18)
    return said("Here is the answer.")


# --- questions ---------------------------------------------------------------------------------------------------------------

def decided(answer):
    return f'action={answer["action"]}, content={answer.get("content") or {}}'


@tool("Hands a prompt to the model of the caller", {"prompt": TEXT})
def test_sampling(call, prompt):
    return said("LLM response: " + spoken(call.ask({"model": generate(prompt)})["model"]))


@tool("Cannot work without sampling")
def test_missing_capability(call):
    return said("LLM response: " + spoken(call.ask({"model": generate("Anything will do")})["model"]))


@tool("Asks for a name and an address", {"message": TEXT})
def test_elicitation(call, message):
    fields = {"username": {**TEXT, "description": "User's response"}, "email": {**TEXT, "description": "User's email address"}}
    return said("User response: " + decided(call.ask({"person": form(message, fields)})["person"]))


@tool("Asks for one word")
def test_streaming_elicitation(call):
    return said("User response: " + decided(call.ask({"word": form("Which word?", {"word": TEXT})})["word"]))


@tool("A form whose every field has a default")
def test_elicitation_sep1034_defaults(call):
    fields = {"name": {**TEXT, "default": "John Doe"}, "age": {**WHOLE, "default": 30}, "score": {**NUMBER, "default": 95.5},
              "status": {**TEXT, "enum": ["active", "inactive", "pending"], "default": "active"}, "verified": {"type": "boolean", "default": True}}
    return said("Elicitation completed: " + decided(call.ask({"filled": form("Is this right?", fields, [])})["filled"]))


@tool("A form with each kind of choice")
def test_elicitation_sep1330_enums(call):
    plain = ["option1", "option2", "option3"]

    def titled(noun):
        return [{"const": f"value{i}", "title": f"{word} {noun}"} for i, word in enumerate(("First", "Second", "Third"), 1)]
    fields = {"untitledSingle": {**TEXT, "enum": plain}, "titledSingle": {**TEXT, "oneOf": titled("Option")},
              "legacyEnum": {**TEXT, "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
              "untitledMulti": {"type": "array", "items": {**TEXT, "enum": plain}}, "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}}}
    return said("Elicitation completed: " + decided(call.ask({"chosen": form("Choose", fields, [])})["chosen"]))


@tool("One question to the user")
def test_input_required_result_elicitation(call):
    return said(f'Hello, {named(call.ask({"user_name": form("What is your name?")})["user_name"])}!')


@tool("One question to the model")
def test_input_required_result_sampling(call):
    return said(spoken(call.ask({"capital_question": generate("What is the capital of France?")})["capital_question"]))


@tool("Asks for the roots")
def test_input_required_result_list_roots(call):
    return said("Roots: " + places(call.ask({"client_roots": roots()})["client_roots"]))


def confirmed(call):
    return decided(call.ask({"confirm": form("Please confirm", {"ok": {"type": "boolean"}})})["confirm"])


@tool("One question, with a state to carry")
def test_input_required_result_request_state(call):
    return said("state-ok, " + confirmed(call))


@tool("One question; refuses a state that was changed")
def test_input_required_result_tampered_state(call):
    return said("state-ok and whole, " + confirmed(call))


@tool("User, model and roots in a single round")
def test_input_required_result_multiple_inputs(call):
    got = call.ask({"user_name": form("What is your name?"), "greeting": generate("Generate a greeting", 50), "client_roots": roots()})
    return said(f'{spoken(got["greeting"])} ({named(got["user_name"])}, roots: {places(got["client_roots"])})')


@tool("Two rounds of one question each")
def test_input_required_result_multi_round(call):
    name = named(call.ask({"step1": form("Step 1: What is your name?")})["step1"])
    color = named(call.ask({"step2": form("Step 2: What is your favorite color?", {"color": TEXT})})["step2"], "color")
    return said(f"{name} likes {color}")


@tool("Asks only what the caller says it can answer")
def test_input_required_result_capabilities(call):
    can = ()
    wanted = {"user": form("What is your name?"), "model": generate("Say hello"), "roots": roots()}
    needs = {"user": "elicitation", "model": "sampling", "roots": "roots"}
    asked = {key: question for key, question in wanted.items() if needs[key] in can}
    return said("answered: " + (", ".join(call.ask(asked)) if asked else "nothing"))


# --- resources, prompts, completion ------------------------------------------------------------------------------------------

RESOURCES.update({"test://static-text": ("static-text", "text/plain", {"text": "This is the content of the static text resource."}),
                  "test://static-binary": ("static-binary", "image/png", {"blob": PIXELS}),
                  "test://watched-resource": ("watched-resource", "text/plain", {"text": "version 0"})})
TEMPLATES.append(("template-data", "test://template/{id}/data", r"test://template/([^/]+)/data", "application/json",
                  '{{"id":"{0}","templateTest":true,"data":"Data for ID: {0}"}}'.format))
WORDS["arg1"] = ["paris", "park", "party", "prague"]


@prompt()
def test_simple_prompt(call):
    return user("This is a simple prompt for testing.")


@prompt("arg1", "arg2")
def test_prompt_with_arguments(call, arg1, arg2):
    return user(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")


@prompt("resourceUri")
def test_prompt_with_embedded_resource(call, resourceUri):
    return user(embedded(resourceUri, "text/plain", "Embedded resource content for testing."), "Please process the embedded resource above.")


@prompt()
def test_prompt_with_image(call):
    return user(image(), "Please analyze the image above.")


@prompt()
def test_input_required_result_prompt(call):
    return user(f'Context: {named(call.ask({"user_context": form("What context should the prompt use?", {"context": TEXT})})["user_context"], "context")}')
