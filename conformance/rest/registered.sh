#!/usr/bin/env bash
# registered.sh [--short] [--keep]      Schemathesis against the OpenAPI document of the API by which servers are registered
#   No answer may be a server error; status, media type and body of each must be documented; wrong requests must be refused, also without a
#   credential; a server that was removed must be gone. Requests are the bounds of the schemas, random ones, and sequences of them.
#   /events is left out: its answer has no end. No server is reached, nor looked up. That every request is taken which the schema allows is not asked: the configuration may refuse its program or its secrets.
#   --short           as in CI: no random requests, few sequences
#   --keep            keeps the logs of a run that passed
# DRAGOMAN is the binary (default: dragoman at the root of the repository). Last line: `N passed, N failed` (runs).
set -u
. "$(dirname "$0")/rig.sh"
phases=coverage,fuzzing,stateful examples=200
while [[ ${1:-} == --* ]]; do
  case $1 in
    --short) phases=coverage,stateful examples=3 ;;
    --keep) KEEP=yes ;;
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown option $1 (registered.sh --help)" ;;
  esac
  shift
done

port=$(free_port)
KEY=$("$DRAGOMAN" key new op 2>/dev/null) || die "no key can be made"
hash=$(printf %s "$KEY" | "$DRAGOMAN" key hash)
printf 'listen = "127.0.0.1:0"\ncatalogue.path = "%s"\ncatalogue.definitions = "approve"\ndrain_timeout = "1s"\n[admin]\nlisten = "127.0.0.1:%s"\n[aggregator]\ncommands = ["%s"]\nkeys.op = { hashes = ["%s"], role = "operator" }\n' \
  "$RUN/catalogue.db" "$port" "$DRAGOMAN" "$hash" >"$RUN/registered.toml"
# Addresses of registered servers are random: a proxy that is not there, and that may not be used, keeps each of them from being looked up.
start "$RUN/registered.dragoman.log" env HTTP_PROXY=http://127.0.0.1:1 HTTPS_PROXY=http://127.0.0.1:1 NO_PROXY= "$DRAGOMAN" serve --config "$RUN/registered.toml"
wait_port "$port" "$PID" || { cat "$RUN/registered.dragoman.log" >&2; die "Dragoman does not serve"; }
URL=http://127.0.0.1:$port/api/v1/aggregator
curl -fsS -H "X-API-Key: $KEY" "$URL/openapi.json" >"$RUN/openapi.json" || die "there is no document"

verdict document "$REST/.venv/bin/python" -c 'import json, sys
from openapi_spec_validator import validate
validate(json.load(open(sys.argv[1])))' "$RUN/openapi.json"
# try: runs Schemathesis, which writes where it runs.
try() {
  (cd "$RUN" && "$REST/.venv/bin/st" run openapi.json --url "$URL" -H "X-API-Key: $KEY" --phases "$phases" --max-examples "$examples" \
    --exclude-path /events --exclude-checks positive_data_acceptance --generation-deterministic --workers 1 --request-timeout 60 --no-color --continue-on-failure)
}
verdict requests try
verdict alive curl -fsS "http://127.0.0.1:$port/healthz"
finish
