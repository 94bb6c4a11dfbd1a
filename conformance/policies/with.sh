#!/usr/bin/env bash
# with.sh [--anonymous] COMMAND…      runs one of the conformance scripts with every policy on
#   with.sh conformance/cells.sh --short        what passes without policies must pass with them
#   --anonymous      for clients that cannot send a credential: connections from this machine need none. Everything else stays on.
# DRAGOMAN is the binary (default: dragoman at the root of the repository). The scripts run a wrapper of it (./dragoman), which
# adds policies.env and upstream.toml; clients on Node.js send an API key (credential.mjs). First the script checks that the policies are
# on: a request without a key must be refused.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../lib.sh"
POLICIES=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in --help | '') sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
anonymous=never
if [ "$1" = --anonymous ]; then anonymous=loopback; shift; fi
[ $# -gt 0 ] || die "no command (with.sh --help)"
binary=${DRAGOMAN:-$POLICIES/../../dragoman}
[ -x "$binary" ] || die "there is no $binary: build it, or set DRAGOMAN"
binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")
TEMPORARY=$(mktemp -d)
child=
leave() {
  trap '' INT TERM HUP
  [ -z "$child" ] || { kill -TERM "$child" 2>/dev/null; wait "$child" 2>/dev/null; }
  stop_all
  rm -rf "$TEMPORARY"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

POLICIES_KEY=$("$binary" key new suite 2>"$TEMPORARY/said") || die "no key: $(cat "$TEMPORARY/said")"
printf '[suite]\nhashes = ["%s"]\n' "$("$binary" key hash <<<"$POLICIES_KEY" 2>/dev/null | grep -om1 'sha256:[0-9a-f]*')" >"$TEMPORARY/keys.toml"
node -e '
  const { publicKey } = require("crypto").generateKeyPairSync("ec", { namedCurve: "P-256" });
  console.log(JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1", alg: "ES256", use: "sig" }] }))' >"$TEMPORARY/jwks.json"

export DRAGOMAN=$POLICIES/dragoman POLICIES_DRAGOMAN=$binary POLICIES_TMP=$TEMPORARY POLICIES_KEY
export POLICIES_ANONYMOUS=$anonymous

start "$TEMPORARY/permit.log" node "$POLICIES/permit.mjs"
POLICIES_HOOK=$(wait_url "$TEMPORARY/permit.log" "$PID") || die "the decision point does not start: $(cat "$TEMPORARY/permit.log")"
export POLICIES_HOOK

# Requests without a key must be refused, and results asked about.
port=$(free_port)
start "$TEMPORARY/canary.log" "$DRAGOMAN" serve --listen "127.0.0.1:$port" --admin off -- "$binary" demo
wait_port "$port" "$PID" || { cat "$TEMPORARY/canary.log" >&2; die "Dragoman does not serve with these policies"; }
status() { curl -s -o /dev/null -w '%{http_code}' "$@" "http://127.0.0.1:$port/tools"; }
bare=$(status) forged=$(status -H 'X-API-Key: dgm_wrong') known=$(status -H "Authorization: Bearer $POLICIES_KEY")
case $anonymous in never) want="401 401 200" ;; *) want="200 401 200" ;; esac
[ "$bare $forged $known" = "$want" ] || { cat "$TEMPORARY/canary.log" >&2; die "status without a key, with a wrong key, with the key: $bare $forged $known, want $want"; }
curl -s -o /dev/null -H "Authorization: Bearer $POLICIES_KEY" -H 'Content-Type: application/json' -d '{"message":"hi"}' "http://127.0.0.1:$port/tools/echo"
[ "$(curl -s "$POLICIES_HOOK")" = 1 ] || { cat "$TEMPORARY/canary.log" >&2; die "the decision point was asked about $(curl -s "$POLICIES_HOOK") results, want 1"; }
stop "$PID"

[ $anonymous = loopback ] || export NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }--import=$POLICIES/credential.mjs"
"$@" &
child=$!
wait "$child"; code=$?
child=
exit $code
