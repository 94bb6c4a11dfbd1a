#!/usr/bin/env bash
# run.sh: the extension for Agent Skills (SEP-2640) with software of others. A FastMCP server with skills and a demonstration server without are
# one at an endpoint; FastMCP's client reads and verifies every file there and at the server alone, and the official suite's scenarios of the
# extension must not fail. Needs setup.sh here and above. The last line is `N passed, N failed`. About half a minute.
set -u
. "$(dirname "$0")/../lib.sh"
need_packages
here=$HERE/skills
cmp -s "$here/requirements.txt" "$here/.venv/.ready" || die "run $here/setup.sh first"
node22=$(node_for_suite) || exit 2
dragoman=$(realpath "${DRAGOMAN:-$HERE/../dragoman}")
tmp=$(mktemp -d)
trap 'stop_all; rm -rf "$tmp"' EXIT
passed=0 failed=0

# judge NAME WANTED SAID: SAID must have each line of WANTED.
judge() {
  local line
  while IFS= read -r line; do
    grep -qF -- "$line" <<<"$3" || { failed=$((failed + 1)); printf 'FAIL %s has no %s\n%s\n' "$1" "$line" "$3"; return; }
  done <<<"$2"
  passed=$((passed + 1)); echo "PASS $1"
}

cat >"$tmp/c.toml" <<TOML
listing.skills = "generated"
catalogue.path = "memory"
[upstreams.skilled]
command = ["$here/.venv/bin/python", "$here/server.py", "$here/folders"]
[upstreams.demo]
command = ["$dragoman", "demo", "--log-level", "error"]
TOML
port=$(free_port)
start "$tmp/log" "$dragoman" serve --config "$tmp/c.toml" --listen "127.0.0.1:$port" --admin off --log-level error
wait_port "$port" "$PID" || die "dragoman does not start: $(cat "$tmp/log")"
url=http://127.0.0.1:$port
client() { timeout 60 "$here/.venv/bin/python" "$here/client.py" "$1" 2>&1; }
judge "FastMCP's client at several servers" $'skill://demo/generated/demo/SKILL.md \nskill://skilled/ops/deploy/SKILL.md 2\nskill://skilled/review/SKILL.md 1\nall verified' "$(client "$url/mcp")"
judge "FastMCP's client at the server alone" $'skill://ops/deploy/SKILL.md 2\nskill://review/SKILL.md 1\nall verified' "$(client "$url/servers/skilled/mcp")"
for scenario in enumeration manifest directory; do
  said=$(timeout 60 "$node22" "$HERE/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url/mcp" --scenario "sep-2640-skills-$scenario" \
    --force --spec-version 2026-07-28 -o "$tmp/results" 2>&1)
  judge "the official suite: $scenario" ' 0 failed' "$said"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
