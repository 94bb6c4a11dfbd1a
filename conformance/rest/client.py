"""client.py URL: uses the generated client (demo_client, on PYTHONPATH) with typed arguments and typed answers."""
import pkgutil
import sys
import uuid
from http import HTTPStatus

import demo_client.api.tools
from demo_client import Client, models
from demo_client.api.prompts import get_prompt, list_prompts
from demo_client.api.resources import list_resources
from demo_client.api.service import get_health
from demo_client.api.tools import call_add, call_ask_user, call_echo, call_fail, call_tool, list_tools

client = Client(base_url=sys.argv[1], timeout=60)

listed = list_tools.sync(client=client)
assert isinstance(listed, models.ToolsResponse), listed
names = {t.name for t in listed.tools}
assert {"echo", "add"} <= names, names
operations = {m.name for m in pkgutil.iter_modules(demo_client.api.tools.__path__)}
assert len(operations) == len(names) + 2, operations  # and call_tool, list_tools

health = get_health.sync(client=client)
assert isinstance(health, models.HealthResponse) and health.status == "healthy", health

# Typed arguments, typed result.
total = call_add.sync(client=client, body=models.AddArguments(a=2, b=40))
assert isinstance(total, models.AddResponse) and total.success is True, total
assert isinstance(total.data, models.AddResult) and total.data.structured_content.sum_ == 42, total.data

# The same call by name, with a request_id, which the answer repeats.
request_id = uuid.uuid4()
arguments = models.ToolRequestArguments.from_dict({"message": "grüße"})
answer = call_tool.sync_detailed(client=client, body=models.ToolRequest(tool="echo", arguments=arguments, request_id=request_id))
assert answer.status_code == HTTPStatus.OK and answer.parsed.request_id == request_id, answer
assert answer.parsed.data.content[0]["text"] == call_echo.sync(client=client, body=models.EchoArguments(message="grüße")).data.content[0]["text"]
assert answer.parsed.timestamp.utcoffset().total_seconds() == 0

# An Idempotency-Key: the second answer is the first.
key = str(uuid.uuid4())
twice = [call_add.sync_detailed(client=client, body=models.AddArguments(a=1, b=1), idempotency_key=key) for _ in range(2)]
assert twice[1].headers["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in twice[0].headers, twice

# Errors are typed as well.
wrong = call_tool.sync_detailed(client=client, body=models.ToolRequest(tool="add", arguments=models.ToolRequestArguments.from_dict({"a": "x"})))
assert wrong.status_code == HTTPStatus.BAD_REQUEST and isinstance(wrong.parsed, models.ErrorEnvelope), wrong
assert wrong.parsed.code == models.ErrorCode.INVALID_ARGUMENTS and "/a" in wrong.parsed.error, wrong.parsed
unknown = call_tool.sync_detailed(client=client, body=models.ToolRequest(tool="no_such_tool", arguments=models.ToolRequestArguments()))
assert unknown.status_code == HTTPStatus.NOT_FOUND and unknown.parsed.code == models.ErrorCode.TOOL_NOT_FOUND, unknown
failed = call_fail.sync_detailed(client=client, body=models.FailArguments())
assert failed.status_code == HTTPStatus.INTERNAL_SERVER_ERROR and failed.parsed.code == models.ErrorCode.EXECUTION_ERROR, failed

# A question has a type of its own, and the next call answers it.
asked = call_ask_user.sync(client=client, body=models.AskUserArguments(question="Who?"))
assert isinstance(asked.data, models.InputRequired), asked
key = next(iter(asked.data.input_requests.additional_properties))
request = {"tool": "ask_user", "arguments": {"question": "Who?"}, "input_responses": {key: {"action": "accept", "content": {"name": "Ada"}}}}
if asked.data.request_state:
    request["request_state"] = asked.data.request_state
told = call_tool.sync(client=client, body=models.ToolRequest.from_dict(request))
assert isinstance(told.data, models.ToolResult) and "Ada" in told.data.content[0]["text"], told

assert list_prompts.sync(client=client).data.prompts and list_resources.sync(client=client).data.resources is not None
prompt = list_prompts.sync(client=client).data.prompts[0]
assert get_prompt.sync_detailed(client=client, body=models.PromptRequest(name=prompt["name"])).status_code in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST)
print("all calls were answered as the document says")
