#!/usr/bin/env bash
# run.sh: builds and starts the providers, and Dragoman with all of them behind one endpoint, until a signal or until one of them ends. Without
# cargo the provider in Rust is left out. LISTEN and ADMIN are Dragoman's addresses, DRAGOMAN is its binary (default: dragoman at the root of the
# repository).
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dragoman=${DRAGOMAN:-$here/../dragoman}
listen=${LISTEN:-127.0.0.1:8080} admin=${ADMIN:-127.0.0.1:9090}
[ -x "$dragoman" ] || { echo "examples/run.sh: there is no $dragoman; fix: run make build, or set DRAGOMAN" >&2; exit 2; }

providers=(provider-go provider-rust)
if ! command -v cargo >/dev/null; then
  echo "examples/run.sh: cargo is missing: the provider in Go runs alone; fix: install Rust 1.88 or later (https://rustup.rs)" >&2
  providers=(provider-go)
fi
"$here/build.sh" "${providers[@]}"

dir=$(mktemp -d)
running=()
leave() {
  trap '' INT TERM HUP # a second signal must not interrupt the cleanup
  local pid
  for pid in "${running[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$dir"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 0' INT # Ctrl-C is how it ends
trap 'exit 143' TERM

# background COMMAND…: starts COMMAND in a process group of its own, which Ctrl-C does not reach: leave ends it, after Dragoman.
background() {
  set -m
  "$@" </dev/null &
  set +m
  running=("$!" "${running[@]}")
}

# announced LOG: prints the URL in a provider's log; waits ten seconds at most.
announced() {
  local i url
  for ((i = 0; i < 100; i++)); do
    url=$(sed -n 's/.*listening on \(grpc:.*\)/\1/p' "$1")
    [ -z "$url" ] || { echo "$url"; return; }
    sleep 0.1
  done
  echo "examples/run.sh: a provider did not start: $(tail -1 "$1")" >&2
  return 1
}

tried=
for provider in "${providers[@]}"; do
  background "$here/.build/$provider" --listen 127.0.0.1:0 2>"$dir/$provider.log"
  url=$(announced "$dir/$provider.log")
  name=hello-go
  [ "$provider" = provider-go ] || name=hello-rs
  printf '[upstreams.%s]\nurl = "%s"\n' "$name" "$url" >>"$dir/dragoman.toml"
  tried+="    $name is $provider at $url"$'\n'
done
prefix=
[ ${#providers[@]} = 1 ] || prefix=$name. # several servers behind one endpoint: each name begins with its server's

post="curl -s http://$listen/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28'"
meta='"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}'
# call ID TOOL ARGUMENTS [META]: prints a command that calls a tool.
call() {
  printf "    %s -H 'Mcp-Method: tools/call' -H 'Mcp-Name: %s' -d '%s'\n" "$post" "$2" \
    '{"jsonrpc":"2.0","id":'"$1"',"method":"tools/call","params":{"name":"'"$2"'","arguments":'"$3,$meta${4:-}}}}"
}
cat <<TRY

Dragoman is about to serve http://$listen/mcp, until Ctrl-C. Behind it,

$tried
In another terminal, list the tools,

    $post -H 'Mcp-Method: tools/list' -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$meta}}}'

count, with progress,

$(call 2 "${prefix}count.v1" '{"to":3,"pause_ms":300}' ',"progressToken":"p"')

and be asked who you are: the result is the question, which an MCP client shows to its user.

$(call 3 "${prefix}greet.v1" '{}')

TRY
export XDG_STATE_HOME=$dir # what Dragoman keeps is of these providers, whose ports are others the next time
background "$dragoman" serve --config "$dir/dragoman.toml" --listen "$listen" --admin "$admin"
status=0
wait -n || status=$?
echo "examples/run.sh: one of $dragoman ${providers[*]} has ended; the others are ended too" >&2
cat "$dir"/*.log >&2
exit "$status"
