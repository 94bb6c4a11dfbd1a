"""Renders templates of Jinja2: reads {"templates", "jobs"} from standard input, writes a list of texts to standard output."""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # modules in the current folder are not ours

import json  # noqa: E402
import shlex  # noqa: E402

try:
    from jinja2 import DictLoader, StrictUndefined, TemplateError, TemplateNotFound
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    sys.exit("Jinja2 is missing")

work = json.load(sys.stdin)
# The templates see nothing but what they are given: no files, no modules, no attributes of Python's own.
environment = ImmutableSandboxedEnvironment(loader=DictLoader(work["templates"]), undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
environment.filters["sh"] = lambda text: shlex.quote(str(text))
environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=True)
environment.filters["py"] = lambda text: ascii(str(text))
environment.filters["comment"] = lambda text, mark="#": "\n".join(f"{mark} {line}".rstrip() for line in str(text).splitlines())
texts = []
for job in work["jobs"]:
    try:
        texts.append(environment.get_template(job["template"]).render(job["variables"]))
    except TemplateNotFound as error:
        sys.exit(f"{job['template']}: there is no {error.name!r} in the folder of templates")
    except TemplateError as error:
        place = f"{getattr(error, 'name', None) or job['template']}:{getattr(error, 'lineno', None) or ''}".rstrip(":")
        sys.exit(f"{place}: {error.message or type(error).__name__} (tool {job['variables']['tool_name']!r})")
    except Exception as error:  # an expression of the template
        sys.exit(f"{job['template']}: {type(error).__name__}: {error} (tool {job['variables']['tool_name']!r})")
json.dump(texts, sys.stdout)
