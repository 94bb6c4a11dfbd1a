#!/usr/bin/env bash
# schemathesis.sh [--short] [--keep]      Schemathesis against the OpenAPI document of a Dragoman in front of the built-in demo server
#   No answer may be a server error, and status, media type and body of each must be documented. Requests are the document's
#   examples, the bounds of its schemas, and (not with --short) random ones, valid and invalid.
#   A tool's own failure is answered with 500 by default. So the first run has rest.tool_error = "data", where no 500 is allowed;
#   the second has "error", where only a 500 with the tool's result is allowed (checks.py).
#   --short           as in CI: no random requests
#   --keep            keeps the logs of a run that passed
# DRAGOMAN is the binary (default: dragoman at the root of the repository). Last line: `N passed, N failed` (runs).
set -u
. "$(dirname "$0")/rig.sh"
phases=examples,coverage,fuzzing
without=(--exclude-path /tools/slow --exclude-path /tools/progress) # they wait as long as the request says
while [[ ${1:-} == --* ]]; do
  case $1 in
    --short) phases=examples,coverage without=(--exclude-path /tools/slow) ;;
    --keep) KEEP=yes ;;
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown option $1 (schemathesis.sh --help)" ;;
  esac
  shift
done
conforms=status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance

# try CHECKS PHASES: runs Schemathesis, with the same requests each time. With several workers the parser of Python 3.11 may fail.
try() {
  (cd "$RUN" && SCHEMATHESIS_HOOKS=checks PYTHONPATH=$REST "$REST/.venv/bin/st" run "$URL/openapi.json" --url "$URL" \
    --checks "$1" --phases "$2" --max-examples 20 --generation-deterministic --workers 1 --request-timeout 60 --no-color \
    "${without[@]}" --continue-on-failure)
}

serve data
data=$URL
verdict document "$REST/.venv/bin/python" -c 'import json, sys, urllib.request
from openapi_spec_validator import validate
validate(json.load(urllib.request.urlopen(sys.argv[1])))' "$URL/openapi.json"
verdict data try "not_a_server_error,$conforms" "$phases"
serve error
verdict error try "failures_of_tools_only,$conforms" "${phases/,coverage/}"
URL=$data
verdict alive curl -fsS "$URL/health"
finish
