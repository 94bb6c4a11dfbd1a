#!/usr/bin/env bash
# self.sh [DIR]    runs `dragoman conformance` at Dragoman itself, with servers of every kind behind it; writes JUnit XML to DIR
# (.tmp/junit). Also runs it at clients of the official SDKs, and the official suite at a stdio server.
# Last line: `N passed, N failed`, counted in runs. Exit 0 only if nothing failed. About two minutes.
set -u
. "$(dirname "$0")/lib.sh"
need_packages
node22=$(node_for_suite) || exit 2
dragoman=$(realpath "${DRAGOMAN:-$HERE/../dragoman}")
out=${1:-$HERE/.tmp/junit}
mkdir -p "$out"
passed=0 failed=0

# one NAME ARG...: runs the suite once; prints its output if it failed
one() {
  local name=$1 said; shift
  if said=$("$dragoman" conformance --junit "$out/$name.xml" "$@" 2>&1); then
    passed=$((passed + 1)); printf 'PASS %-16s %s\n' "$name" "$(tail -n 1 <<<"$said")"
  else
    failed=$((failed + 1)); printf 'FAIL %-16s\n%s\n' "$name" "$said"
  fi
}

fronts=(--front 'http://{listen}/mcp' --front 'http://{listen}/sse' --front 'http://{listen}')
serve=("$dragoman" serve --listen '{listen}' --admin off --log-level error)
one urls --intermediary "${fronts[@]}" --jobs 8 -- "${serve[@]}" '{upstream}'
one commands --intermediary "${fronts[@]}" --jobs 8 -- "${serve[@]}" -- '{command}'
one stdio --intermediary --jobs 8 -- "$dragoman" stdio --log-level error '{upstream}'
one official --official --official-command "$node22 $HERE/node_modules/@modelcontextprotocol/conformance/dist/index.js" -- "$dragoman" demo --log-level error
SUITE_CLIENT=v2-modern-http one client-v2-modern --client --face modern-http -- "$node22" "$HERE/clients/suite-client.mjs"
SUITE_CLIENT=v2-legacy-http one client-v2-legacy --client --face legacy-http --expected-failures "$HERE/expected-clients.txt" -- "$node22" "$HERE/clients/suite-client.mjs"
SUITE_CLIENT=v1-http one client-v1 --client --face legacy-http --expected-failures "$HERE/expected-clients.txt" -- "$node22" "$HERE/clients/suite-client.mjs"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
