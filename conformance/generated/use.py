"""use.py FOLDER CALLS: makes calls by a generated Python package; a line of JSON for each: the result, or the error.

CALLS is a file with a list of {"module", "args"}. Arguments become what the function's annotations say, models included.
"""

import ast
import importlib
import inspect
import json
import sys
import typing

from pydantic import TypeAdapter

folder, calls = sys.argv[1:]
sys.path.insert(0, folder)
mcp = importlib.import_module("mcp_clients")
runtime = importlib.import_module("mcp_clients.runtime")


def parameters(function):
    """The names of the function's parameters by those of the arguments that it sends."""
    tree = ast.parse(inspect.getsource(function))
    sent = next(node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    return {key.value: value.id for key, value in zip(sent.keys, sent.values) if key is not None}


def call(client, module, args):
    function = getattr(module, module.__name__.rsplit(".", 1)[-1])
    names = parameters(function)
    hints = typing.get_type_hints(function)
    values = {names.get(name, name): TypeAdapter(sent(hints[names[name]])).validate_python(value) if name in names else value for name, value in args.items()}
    return function(client, **values)


def sent(hint):
    """The type of an argument that is not left out."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not runtime.Omit]
    return typing.Union[tuple(kinds)] if runtime.Omit in typing.get_args(hint) else hint


ANSWERS = {  # those of run.mjs
    "elicitation/create": {"action": "decline"},
    "sampling/createMessage": {"role": "assistant", "model": "none", "content": {"type": "text", "text": "an answer"}},
}

with mcp.Client(on_question=lambda asked: {key: ANSWERS[one["method"]] for key, one in asked.items()}) as client:
    for one in json.load(open(calls)):
        try:
            module = importlib.import_module("mcp_clients." + one["module"])
            print(json.dumps({"result": call(client, module, one["args"]).raw}))
        except mcp.ToolError as error:
            print(json.dumps({"result": error.result or None, "error": error.code, "message": str(error)}))
        except Exception as error:
            print(json.dumps({"broken": f"{type(error).__name__}: {error}"}))
