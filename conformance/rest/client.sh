#!/usr/bin/env bash
# client.sh [--keep]      a Python client generated from the OpenAPI document of a Dragoman calls the built-in demo server
#   openapi-python-client generates it; client.py uses it unchanged.
# DRAGOMAN is the binary (default: dragoman at the root of the repository). Last line: `N passed, N failed`.
set -u
. "$(dirname "$0")/rig.sh"
while [[ ${1:-} == --* ]]; do
  case $1 in
    --keep) KEEP=yes ;;
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown option $1 (client.sh --help)" ;;
  esac
  shift
done
# Warnings of the generator are failures: it leaves out what it cannot generate.
generate() {
  (cd "$RUN" && PATH=$REST/.venv/bin:$PATH openapi-python-client generate --url "$URL/openapi.json" --meta none --output-path "$RUN/demo_client" --fail-on-warning)
}
serve error
verdict generate generate
verdict calls env PYTHONPATH="$RUN" "$REST/.venv/bin/python" "$REST/client.py" "$URL"
finish
