#!/usr/bin/env bash
# chain.sh PORT UPSTREAM…      the envelope both ways: one Dragoman is the REST service in front of UPSTREAM (arguments of `dragoman serve`: a
#   URL, or -- and a command), another one makes an MCP server of that service, at 127.0.0.1:PORT
#   Exits, with both, on SIGTERM or when one of them exits. DRAGOMAN is the binary.
set -u
. "$(dirname "$0")/../lib.sh"
DRAGOMAN=${DRAGOMAN:-$HERE/../dragoman}
[ -x "$DRAGOMAN" ] || die "there is no $DRAGOMAN: build it, or set DRAGOMAN"
[ $# -ge 2 ] || die "usage: chain.sh PORT UPSTREAM…"
port=$1; shift
trap 'stop_all; exit 0' INT TERM HUP
trap stop_all EXIT
middle=$(free_port)
DRAGOMAN_REST_CAPABILITIES=elicitation,sampling,roots start /dev/stderr "$DRAGOMAN" serve --listen "127.0.0.1:$middle" --admin off "$@"
wait_port "$middle" "$PID" || die "the first Dragoman does not serve"
for ((i = 0; i < 100; i++)); do # a service that still probes its server is unavailable
  curl -fsS "http://127.0.0.1:$middle/health" >/dev/null 2>&1 && break
  sleep 0.1
done
start /dev/stderr "$DRAGOMAN" serve --listen "127.0.0.1:$port" --admin off --transport rest "http://127.0.0.1:$middle"
wait -n
