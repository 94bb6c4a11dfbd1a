# Functions of the scripts in this directory: a Dragoman in front of the built-in demo server. To be sourced.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
REST=$HERE/rest
"$REST/setup.sh" || exit 2
DRAGOMAN=${DRAGOMAN:-$HERE/../dragoman}
[ -x "$DRAGOMAN" ] || die "there is no $DRAGOMAN: build it, or set DRAGOMAN"
DRAGOMAN=$(cd "$(dirname "$DRAGOMAN")" && pwd)/$(basename "$DRAGOMAN")
mkdir -p "$HERE/.tmp"
RUN=$(mktemp -d "$HERE/.tmp/rest.XXXXXX")
KEEP=no
leave() { # keeps the logs of a failed run, and those of --keep
  local status=$?
  trap '' INT TERM HUP
  stop_all
  if [ $status = 0 ] && [ $KEEP = no ]; then rm -rf "$RUN"; else echo "logs: $RUN"; fi
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# serve TOOL_ERROR: starts Dragoman in front of its demo server; URL is its address.
serve() {
  local port; port=$(free_port)
  printf 'listen = "127.0.0.1:%s"\n[admin]\nlisten = "off"\n[rest]\ntool_error = "%s"\n[upstreams.demo]\ncommand = ["%s", "demo"]\n' \
    "$port" "$1" "$DRAGOMAN" >"$RUN/$1.toml"
  start "$RUN/$1.dragoman.log" "$DRAGOMAN" serve --config "$RUN/$1.toml"
  wait_port "$port" "$PID" || { cat "$RUN/$1.dragoman.log" >&2; die "Dragoman does not serve"; }
  URL=http://127.0.0.1:$port
}

passed=0 failed=0
# verdict NAME COMMAND…: runs a part, counts it, and prints its log if it failed.
verdict() {
  local name=$1 from=$SECONDS; shift
  if "$@" >"$RUN/$name.log" 2>&1; then
    passed=$((passed + 1)); printf 'ok    %-24s %s s\n' "$name" $((SECONDS - from))
  else
    failed=$((failed + 1)); printf 'FAIL  %-24s %s s\n' "$name" $((SECONDS - from)); tail -n 100 "$RUN/$name.log" | cut -c1-500
  fi
}

# finish: prints the last line and returns the exit status.
finish() { echo "$passed passed, $failed failed"; [ "$failed" = 0 ]; }
