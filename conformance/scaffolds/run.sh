#!/usr/bin/env bash
# run.sh [--short] [LANGUAGE…]    fresh projects of `dragoman new server`, in a temporary folder: make check and make run, dragoman conformance
# over stdio, HTTP and HTTP+SSE with the official suite, load with rate limits, overload, and SIGTERM under load.
# --short leaves out the official suite, overload and most of stdio, keeps what is installed below .tmp/scaffolds, and has 3 s of load in place of
# ten minutes.
# Failures of conformance that are expected, and why: scaffolds/LANGUAGE.txt and scaffolds/official.txt.
# Last line: `N passed, N failed`. Exit 0 only if nothing failed. LOAD=SECONDS sets the time of load.
set -u
. "$(dirname "$0")/../lib.sh"
SCAFFOLDS=$HERE/scaffolds
dragoman=$(realpath "${DRAGOMAN:-$HERE/../dragoman}")
short='' load=${LOAD:-600} langs=()
for arg; do case $arg in --short) short=1 load=${LOAD:-3};; *) langs+=("$arg");; esac; done
[ ${#langs[@]} -gt 0 ] || langs=(python typescript)
[ -n "$short" ] || need_packages
work=$(mktemp -d)
trap 'stop_all; rm -rf "$work"' EXIT
export MCP_BEARER_TOKEN=a-token-of-this-run-only
passed=0 failed=0

# one NAME COMMAND…: runs a part; prints the end of its output, and all of it if it failed
one() {
  local name=$1 begin=$SECONDS said; shift
  if said=$("$@" 2>&1); then
    passed=$((passed + 1)); printf 'PASS %-20s %3ds  %s\n' "$name" $((SECONDS - begin)) "$(tail -n 1 <<<"$said")"
  else
    failed=$((failed + 1)); printf 'FAIL %-20s %3ds\n%s\n' "$name" $((SECONDS - begin)) "$said"
  fi
}

# command LANGUAGE: prints the command of the project in the working directory
command_of() { case $1 in python) echo ".venv/bin/python -m scaffolded";; typescript) echo "node dist/src/main.js";; esac; }

# serve LANGUAGE RATE BURST: starts the project over HTTP; sets PID and url
serve() {
  local port words; port=$(free_port); words=$(command_of "$1")
  url=http://127.0.0.1:$port
  cd "$work/$1/scaffolded" || return 1
  # shellcheck disable=SC2086
  MCP_TRANSPORT_TYPE=HTTP MCP_HTTP_PORT=$port MCP_RATE_LIMIT_PER_MINUTE=$2 MCP_RATE_LIMIT_BURST=$3 MCP_LOG_LEVEL=ERROR start "$work/$1/log" $words
  cd "$HERE" || return 1
  wait_port "$port" "$PID" || { cat "$work/$1/log"; return 1; }
}

fresh() {
  local kept=$work/$1
  mkdir -p "$kept"
  if [ -n "$short" ]; then # installed at the same path as the last time
    kept=$HERE/.tmp/scaffolds/$1 && mkdir -p "$kept" && ln -s "$kept/scaffolded" "$work/$1/scaffolded" || return 1
    rm -rf "$kept"/{tools,a*a} && for tools in .venv .mypy_cache node_modules; do [ ! -e "$kept/scaffolded/$tools" ] || { mkdir -p "$kept/tools" && mv "$kept/scaffolded/$tools" "$kept/tools/"; } || return 1; done
    rm -rf "$kept/scaffolded"
  fi
  cd "$kept" || return 1
  "$dragoman" new server scaffolded --lang "$1" --description 'Quotes " and \ too.' >/dev/null && "$dragoman" new server "$(printf 'a%.0s' {1..64})" --lang "$1" >/dev/null || return 1
  [ ! -e tools ] || mv tools/.[a-z]* tools/[a-z]* scaffolded/ 2>/dev/null
  # What is installed is what is pinned: it is not installed again.
  if [ -n "$short" ] && cat scaffolded/{requirements.txt,pyproject.toml,package-lock.json} 2>/dev/null | cmp -s - pinned; then
    touch scaffolded/{.venv/installed,node_modules/.installed} 2>/dev/null
  fi
  make -C scaffolded check || return 1
  cat scaffolded/{requirements.txt,pyproject.toml,package-lock.json} >pinned 2>/dev/null
  cd a*a || return 1
  case $1 in # a name of any length leaves the project formatted
    python) ../scaffolded/.venv/bin/ruff format --check . && ../scaffolded/.venv/bin/ruff check .;;
    typescript) ln -s ../scaffolded/node_modules node_modules && npx --no-install prettier --check . && { [ -n "$short" ] || npx --no-install eslint .; };;
  esac
}

# runs LANGUAGE: make run serves stdin, and ends with it
runs() {
  local answers
  answers=$(cat <<'LINES' | make --no-print-directory -sC "$work/$1/scaffolded" run 2>/dev/null
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
LINES
  )
  [ "$(grep -c '"jsonrpc":"2.0"' <<<"$answers")" = 2 ] && grep -q fetch_url <<<"$answers" && echo 'two answers'
}

stdio() {
  local words; words=$(command_of "$1")
  cd "$work/$1/scaffolded" || return 1
  # shellcheck disable=SC2086
  "$dragoman" conformance ${short:+--only 'lists.*' --revision 2026-07-28} --timeout 30s --expected-failures "$work/$1/expected.stdio" -- $words
}

web() {
  local official=() node22
  if [ -n "$short" ]; then official=(--revision 2026-07-28 --revision 2025-11-25); else
    node22=$(node_for_suite) || return 1
    official=(--official --official-command "$node22 $HERE/node_modules/@modelcontextprotocol/conformance/dist/index.js")
  fi
  "$dragoman" conformance "${official[@]}" --expected-failures "$work/$1/expected.http" --header "Authorization: Bearer $MCP_BEARER_TOKEN" "${url/127.0.0.1/localhost}/mcp" "${url/127.0.0.1/localhost}/mcp/sse"
}

# language LANGUAGE: all parts of one language
language() {
  local lang=$1
  trap stop_all EXIT
  one "$lang check" fresh "$lang"
  one "$lang run" runs "$lang"
  # A line that nothing needs fails. What is expected of faces and revisions that are left out is therefore left out too.
  grep -v '@[a-z]*-stdio' "$SCAFFOLDS/$lang.txt" >"$work/$lang/expected.http"
  grep '@[a-z]*-stdio' "$SCAFFOLDS/$lang.txt" >"$work/$lang/expected.stdio"
  if [ -n "$short" ]; then sed -i '/@2025-03-26/d' "$work/$lang"/expected.*; else cat "$SCAFFOLDS/official.txt" >>"$work/$lang/expected.http"; fi
  one "$lang stdio" stdio "$lang"
  if serve "$lang" 100000000 1000000; then
    one "$lang http" web "$lang"
    [ -n "$short" ] || one "$lang overload" node "$SCAFFOLDS/load.mjs" "$url/mcp" overload
    one "$lang shutdown" node "$SCAFFOLDS/load.mjs" "$url/mcp" shutdown 0 "$PID"
    stop "$PID"
  else failed=$((failed + 1)); echo "FAIL $lang does not serve"; fi
  if serve "$lang" 1200 50; then
    one "$lang load" node "$SCAFFOLDS/load.mjs" "$url/mcp" rate "$load" "$PID"
    stop "$PID"
  else failed=$((failed + 1)); echo "FAIL $lang does not serve"; fi
  echo "$passed $failed" >"$work/$lang.counts"
}

# The short form runs the languages at once; the whole one measures them one by one.
pids=()
for lang in "${langs[@]}"; do
  if [ -n "$short" ]; then language "$lang" >"$work/$lang.out" 2>&1 & pids+=($!); else (language "$lang"); fi
done
[ ${#pids[@]} = 0 ] || { wait "${pids[@]}"; cat "$work"/*.out; }
for lang in "${langs[@]}"; do
  read -r p f <"$work/$lang.counts" || f=1
  passed=$((passed + ${p:-0})) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
