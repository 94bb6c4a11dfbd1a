#!/usr/bin/env bash
# cells.sh [options] [CELL_RE [FACE_RE]]      Dragoman in front of every kind of server, called by every kind of client
#   A cell is an upstream: modern-http legacy-http legacy-stdio modern-stdio legacy-sse dual-http, npm-stdio (a server from npm),
#   legacy-socket (the stdio server behind a TCP socket), and one with tasks of 2025-11-25: tasks-http, and drive-stdio behind
#   `--tasks drive`; supergateway, which sends each message of one stdio server to all its HTTP+SSE sessions; rest, a service of the
#   REST envelope (needs python3); modern-grpc, the modern server as a provider of mcp.provider.v1; and provider-go and provider-rust,
#   the providers of examples/, which are built first (without cargo, provider-rust is left out, except in CI).
#   A face is what calls it: suite@REVISION, the official suite compared with the baseline of the dual fixture; set@REVISION, the
#   suite's frozen requirement set, which must be complete (set+all@REVISION: with Dragoman's `declare = "all"`); or one of our
#   clients (v1-http, v2-modern-stdio …), of which every case must pass.
#   --short           as in CI: one revision of each era, one client of each kind, requirement sets at two servers
#   --merged          the server of each cell is one of three that Dragoman serves as one; no name needs a prefix
#   --results FILE    writes what every client could do at every server to FILE: client, server, feature, result, note; with --merged
#                     appends it, the servers as `merged CELL`
#   --jobs N          how many cells run at once (default 3: they mostly wait)
#   --control         passthrough.mjs instead of Dragoman, where no translation is needed: tests the tests themselves
#   --keep            keeps the logs of a run that passed
# DRAGOMAN is the binary (default: dragoman at the root of the repository); DIFFERS another differs.tsv.
# Writes .tmp/cells.tsv (cell, face, passed, failed, excused, seconds); last line: `N passed, N failed` (pairs of cell and face).
set -u
. "$(dirname "$0")/lib.sh"
need_packages

CELLS="modern-http legacy-http legacy-stdio modern-stdio legacy-sse dual-http npm-stdio legacy-socket tasks-http drive-stdio supergateway rest modern-grpc provider-go provider-rust"
FACES="suite@2025-03-26 suite@2025-06-18 suite@2025-11-25 suite@2026-07-28 set@2025-11-25 set@2026-07-28 set+all@2026-07-28
  v2-modern-http v2-auto-http v2-legacy-http v1-http v1-sse v2-legacy-sse v2-auto-sse v1-stdio v2-legacy-stdio v2-modern-stdio v2-auto-stdio"
SHORT_FACES="suite@2025-11-25 suite@2026-07-28 set@2025-11-25 set@2026-07-28 set+all@2026-07-28 v2-modern-http v1-http v1-sse v2-auto-sse v1-stdio v2-modern-stdio"

NODE=$(command -v node)
EVERYTHING=$HERE/node_modules/@modelcontextprotocol/server-everything/dist/index.js
DRAGOMAN=${DRAGOMAN:-$HERE/../dragoman}
export DIFFERS=${DIFFERS:-$HERE/differs.tsv}
export SUITE_TIMEOUT=${SUITE_TIMEOUT:-120}
control=no keep=no merged=no short=no jobs=3 results=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --short) short=yes FACES=$SHORT_FACES ;;
    --results) results=$(realpath -m "$2"); shift ;;
    --jobs) jobs=$2; shift ;;
    --control) control=yes DRAGOMAN=$HERE/passthrough.mjs DIFFERS=/dev/null ;;
    --keep) keep=yes ;;
    --merged) merged=yes ;;
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown option $1 (cells.sh --help)" ;;
  esac
  shift
done
CELL_RE=${1:-.} FACE_RE=${2:-.}
[ -x "$DRAGOMAN" ] || die "there is no $DRAGOMAN: build it, or set DRAGOMAN"
DRAGOMAN=$(cd "$(dirname "$DRAGOMAN")" && pwd)/$(basename "$DRAGOMAN")

mkdir -p "$HERE/.tmp"
RUN=$(mktemp -d "$HERE/.tmp/run.XXXXXX")
export SUITE_TMP=$RUN
finished=no BUSY=()
leave() {
  trap '' INT TERM HUP # a second signal must not interrupt the cleanup
  local p
  for p in "${BUSY[@]}"; do kill -TERM "$p" 2>/dev/null; done
  for p in "${BUSY[@]}"; do wait "$p" 2>/dev/null; done
  [ $finished = yes ] || rm -rf "$RUN"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# native CELL FACE: whether the pair needs no translation, so that the control can replace Dragoman.
native() {
  case $1:$2 in
    modern-http:suite@2026-07-28 | modern-http:set@2026-07-28 | modern-http:v2-modern-http | modern-http:v2-auto-http) ;;
    legacy-http:suite@2025* | legacy-http:set@2025* | legacy-http:v1-http | legacy-http:v2-legacy-http) ;;
    dual-http:suite@* | dual-http:set@* | dual-http:*-http) ;;
    legacy-sse:*-sse) ;;
    legacy-stdio:v1-stdio | legacy-stdio:v2-legacy-stdio) ;;
    modern-stdio:v2-modern-stdio | modern-stdio:v2-auto-stdio) ;;
    npm-stdio:v1-stdio | npm-stdio:v2-legacy-stdio | drive-stdio:v1-stdio) ;;
    tasks-http:v1-http | tasks-http:v2-legacy-http) ;;
    *) return 1 ;;
  esac
}

# brief CELL FACE: whether the pair is part of a short run: the requirement sets in both directions, and one client of each era at the
# servers with few cases. With --merged: the suite and a client of each era at a server of each, and the other kinds with one client.
brief() {
  if [ $merged = yes ]; then
    case $1:$2 in
      modern-http:suite@2026-* | legacy-http:suite@2025-11-25 | modern-http:*-http | legacy-http:*-http) ;;
      legacy-stdio:v1-stdio | legacy-sse:v1-sse | npm-stdio:v1-http | tasks-http:v1-http) ;;
      *) return 1 ;;
    esac
    return
  fi
  case $1:$2 in
    *:set*@*) [[ $1 == modern-http || $1 == legacy-http ]] ;;
    npm-*:v1-stdio | npm-*:v2-modern-http | tasks-*:v1-http | tasks-*:v2-modern-http | drive-*:v1-http | drive-*:v2-modern-http) ;;
    *-socket:v1-http | *-socket:v2-modern-http | *-socket:v1-stdio) ;;
    supergateway:v1-http | supergateway:v1-sse | supergateway:v2-modern-http) ;;
    rest:v1-http | rest:v1-sse | rest:v2-modern-http | rest:v2-modern-stdio) ;;
    modern-grpc:suite@2025-11-25 | modern-grpc:suite@2026-07-28 | modern-grpc:v1-http | modern-grpc:v2-modern-http | modern-grpc:v1-stdio) ;;
    provider-*:v1-http | provider-*:v2-modern-http | provider-*:v1-stdio) ;;
    legacy-sse:v2-auto-sse) ;;
    npm-* | tasks-* | drive-* | *-socket:* | supergateway:* | rest:* | *-grpc:* | provider-*:* | *:v2-auto-sse) return 1 ;;
    *) ;;
  esac
}

# faces_of CELL: the faces of this run at the cell.
faces_of() {
  local face
  for face in $FACES; do
    [[ $face =~ $FACE_RE ]] || continue
    [[ $1 =~ ^(npm|tasks|drive|provider)-|-socket$|^(rest|supergateway)$ && $face == *@* ]] && continue
    [[ $1 == modern-grpc && $merged == yes ]] && continue # its tools have names for clients by the configuration of the only server
    [[ $1 == provider-* && $merged == yes ]] && continue # its cases compare lists and capabilities, which others would be in
    [[ $1 == supergateway && $face == *-stdio ]] && continue # a Dragoman for each client: none keeps them apart
    [[ $face == set+all@* && $1 != legacy-* ]] && continue # only legacy servers see declared capabilities
    [ $control = no ] || native "$1" "$face" || continue
    [ $short = no ] || brief "$1" "$face" || continue
    echo "$face"
  done
}

# bounded LOG SECONDS COMMAND…: runs a command for SECONDS at most and returns its exit status.
bounded() {
  local log=$1 seconds=$2 status; shift 2
  start "$log" timeout -k 5 "$seconds" "$@"
  wait "$PID"; status=$?
  stop "$PID"
  return "$status"
}

# start_supergateway DIR: sets UPSTREAM and FIXTURE like start_upstream.
start_supergateway() {
  local port
  port=$(free_port)
  start "$1/fixture.log" "$NODE" "$HERE/node_modules/supergateway/dist/index.js" --port "$port" --logLevel none \
    --stdio "'$NODE' '$HERE/fixtures/everything.mjs' --era legacy --transport stdio --state '$1/state'"
  FIXTURE=$PID UPSTREAM=("http://127.0.0.1:$port/sse")
  wait_port "$port" "$FIXTURE"
}

# start_upstream CELL DIR: sets UPSTREAM to the arguments of `serve` or `stdio` for the cell, and FIXTURE to the fixture's pid.
start_upstream() {
  local era=${1%-*} transport=${1#*-} fixture=("$NODE" "$HERE/fixtures/everything.mjs")
  FIXTURE=
  if [ "$1" = npm-stdio ]; then
    UPSTREAM=(-- "$NODE" "$EVERYTHING" stdio)
    return 0
  fi
  case $1 in
    *-grpc)
      start "$2/fixture.log" "$NODE" "$HERE/fixtures/grpc.mjs" --state "$2/state" --config "$2/grpc.toml"
      FIXTURE=$PID UPSTREAM=(--config "$2/grpc.toml")
      [ -n "$(wait_url "$2/fixture.log" "$FIXTURE")" ]; return ;;
    supergateway) start_supergateway "$2"; return ;;
    provider-*)
      "$HERE/../examples/build.sh" "$1" >"$2/fixture.log" 2>&1 || return 1
      start "$2/fixture.log" "$HERE/../examples/.build/$1" --listen 127.0.0.1:0
      FIXTURE=$PID
      UPSTREAM=("$(wait_url "$2/fixture.log" "$FIXTURE")") && [ -n "${UPSTREAM[0]}" ]; return ;;
    drive-*) UPSTREAM=(--tasks drive -- "$NODE" "$HERE/fixtures/tasks.mjs" --transport "$transport" --state "$2/state"); return 0 ;;
    rest) fixture=(python3 "$HERE/rest/service.py") ;;
    tasks-*) fixture=("$NODE" "$HERE/fixtures/tasks.mjs") ;;
    *) fixture+=(--era "$era") ;;
  esac
  if [ "$transport" = socket ]; then fixture=("$NODE" "$HERE/fixtures/socket.mjs" "${fixture[@]}" --transport stdio --state "$2/state")
  elif [ "$1" != rest ]; then fixture+=(--transport "$transport" --state "$2/state"); fi
  if [ "$transport" = stdio ]; then UPSTREAM=(-- "${fixture[@]}"); return 0; fi
  start "$2/fixture.log" "${fixture[@]}"
  FIXTURE=$PID
  UPSTREAM=("$(wait_url "$2/fixture.log" "$FIXTURE")") && [ -n "${UPSTREAM[0]}" ] || return 1
  [ "$1" != rest ] || UPSTREAM+=(--transport rest)
}

# start_proxy LOG ARG…: starts Dragoman with these arguments; sets PROXY to its pid and PORT to its port.
start_proxy() {
  local try log=$1; shift
  for try in 1 2 3; do # another process may take the port between the choice and the start
    PORT=$(free_port)
    start "$log" "$DRAGOMAN" serve --listen "127.0.0.1:$PORT" --admin off "$@"
    PROXY=$PID
    wait_port "$PORT" "$PROXY" && return 0
    stop "$PROXY"
  done
  return 1
}

# configure ARG…: prints the configuration of an upstream with these arguments of `serve`; with --merged, of two others as well, which come
# before and after it in lists. On a busy machine the three may need more than the 5 s that a client waits for them by default.
configure() {
  if [ $merged = yes ]; then
    printf 'names.prefix = "conflict"\nlisting.first_wait = "15s"\n[upstreams.before]\ncommand = ["%s", "%s", "--era", "legacy", "--transport", "stdio", "--other", "before"]\n' "$NODE" "$HERE/fixtures/everything.mjs"
    printf '[upstreams.later]\nurl = "%s"\n' "$LATER"
  fi
  printf '[upstreams.default]\n'
  while [ $# -gt 0 ]; do
    case $1 in
      --) shift; printf 'command = ['; printf '"%s", ' "$@"; printf ']\n'; return ;;
      --*) printf '%s = "%s"\n' "${1#--}" "$2"; shift ;;
      *) printf 'url = "%s"\n' "$1" ;;
    esac
    shift
  done
}

# merge DIR: makes SERVED the arguments for the upstream and two others; sets OTHER to the pid of the one that listens.
merge() {
  export XDG_STATE_HOME=$1/state # where the catalogue is
  start "$1/later.log" "$NODE" "$HERE/fixtures/everything.mjs" --era modern --transport http --other later
  OTHER=$PID
  LATER=$(wait_url "$1/later.log" "$OTHER") && [ -n "$LATER" ] || return 1
  configure "${UPSTREAM[@]}" >"$1/merged.toml"
  SERVED=(--config "$1/merged.toml")
}

# run_official CELL FACE LOG: runs a face of the official suite. For set+all it is at a Dragoman that declares every client capability to the
# upstream, which then also asks questions that a client cannot answer, and gets the protocol's error for them; in differs.tsv this cell is
# CELL+all. With --merged a server from npm is a fourth one; of the names of tools both have `echo`.
run_official() {
  local PROXY='' PORT=$PORT status cell=$1 config=$RUN/$1/official.toml declare=() requirements=()
  [[ $2 != set+all@* ]] || { cell+=+all; declare=(--declare all); }
  [[ $2 != set* ]] || requirements=(--requirements)
  if [ $merged = yes ] || [ "$cell" != "$1" ]; then
    configure "${declare[@]}" "${UPSTREAM[@]}" >"$config"
    [ $merged = no ] || printf '[upstreams.everything]\ncommand = ["%s", "%s", "stdio"]\n' "$NODE" "$EVERYTHING" >>"$config"
    DRAGOMAN_UPSTREAMS_DEFAULT_SPARES=$spares start_proxy "$RUN/$1/official.log" --config "$config" || { echo "FAIL dragoman serve did not open its port" >"$3"; return 1; }
  fi
  bounded "$3" $((SUITE_TIMEOUT + 10)) "$HERE/suite.sh" "http://localhost:$PORT/mcp" "${2#*@}" --cell "$cell" "${requirements[@]}"; status=$?
  [ -z "$PROXY" ] || stop "$PROXY"
  return "$status"
}

# run_face CELL FACE LOG
run_face() {
  local cell=$1 face=$2 log=$3 client=() options=() target=()
  [[ $face != *@* ]] || { run_official "$cell" "$face" "$log"; return; }
  client=("$NODE" "$HERE/clients/${face%%-*}.mjs" --server "$cell" --face "$face" --known "$HERE/known.tsv" --results "$log.tsv" --timeout 20000)
  case $face in
    v2-modern-*) options=(--mode modern --expect modern) ;;
    v2-auto-sse) options=(--mode auto --expect legacy) ;; # this transport is of 2024-11-05
    v2-auto-*) options=(--mode auto --expect modern) ;;
    v2-legacy-*) options=(--mode legacy --expect legacy) ;;
  esac
  case $face in
    *-http) target=("http://127.0.0.1:$PORT/mcp") ;;
    *-sse) options+=(--transport sse); target=("http://127.0.0.1:$PORT/sse") ;;
    *-stdio) target=(-- "$DRAGOMAN" stdio "${SERVED[@]}") ;;
  esac
  case $cell in
    npm-*) options+=(--npm) ;;
    tasks-* | drive-*) options+=(--tasks) ;;
    supergateway) options+=(--broadcast) ;;
    rest) options+=(--rest) ;;
    provider-*) options+=(--provider "$RUN/$cell/fixture.log") ;;
  esac
  [ $merged = no ] || options+=(--merged)
  # A log message of a modern stdio server that two clients share names neither the client nor the call.
  [[ $cell == modern-stdio && $face != *-stdio ]] && options+=(--lossy-logs)
  bounded "$log" 180 "${client[@]}" "${options[@]}" "${target[@]}"
}

# record CELL FACE STATUS SECONDS LOG: writes a line for the table, prints one, and prints what failed.
record() {
  local passed failed excused last
  last=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$5" | tail -1)
  excused=$(sed -n 's/^.*, \([0-9]*\) checks excused by differs.tsv.*$/\1/p' "$5" | tail -1)
  passed=${last%% *} failed=${last#*, } failed=${failed%% *}
  if [ -z "$last" ] || { [ "$3" != 0 ] && [ "$failed" = 0 ]; }; then passed=${passed:-0} failed=1; fi
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$passed" "$failed" "${excused:-0}" "$4" >>"$RUN/$1.cells.tsv"
  [ "${excused:-0}" != 0 ] || excused=
  features "$(server "$1")" "$2" "$passed" "$failed" "${excused:-0}" "$5" >>"$RUN/$1.results.tsv"
  if [ "$failed" = 0 ] && [ "$3" = 0 ]; then
    printf 'PASS %-13s %-18s %3s passed%s, %s s\n' "$1" "$2" "$passed" "${excused:+, $excused checks known to differ}" "$4"
    sed -n 's/^AGAIN/     &/p' "$5"
  else
    printf 'FAIL %-13s %-18s %3s passed, %s failed, %s s\n' "$1" "$2" "$passed" "$failed" "$4"
    if grep -qaE '^(DIFF|STALE|FAIL)' "$5"; then grep -aE '^(DIFF|STALE|FAIL)' "$5" | head -12; else tail -4 "$5"; fi | cut -c1-260 | sed 's/^/     /'
  fi
}

# server CELL: its name in results.
server() { if [ $merged = yes ]; then echo "merged $1"; else echo "$1"; fi; }

# features SERVER FACE PASSED FAILED EXCUSED LOG: prints the lines of --results: client, server, feature, result, note. The result of a feature is
# that of its worst case, or n/a if no case applies.
features() {
  local name result=ok note="$3 of $(($3 + $4)) scenarios"
  case $2 in
    suite@*) name="official suite/server scenarios ${2#*@}" ;;
    set@*) name="official suite/requirements ${2#*@}" ;;
    set+all@*) name="official suite/requirements ${2#*@}, declare = all" ;;
  esac
  if [ -n "${name:-}" ]; then
    [ "$4" = 0 ] || result=fail
    [ "$5" = 0 ] || note+=", $5 checks differ as differs.tsv explains"
    printf 'official suite\t%s\t%s\t%s\t%s\n' "$1" "$name" "$result" "$note"
  elif [ -s "$6.tsv" ]; then
    awk -F'\t' -v OFS='\t' -v client="$2" -v server="$1" '
      BEGIN { rank["n/a"] = 1; rank["ok"] = 2; rank["baseline"] = 3; rank["fail"] = 4 }
      !($2 in best) { order[++count] = $2 }
      rank[$3] > rank[best[$2]] { best[$2] = $3; note[$2] = $3 == "fail" ? $1 ": " $4 : $4 }
      END { for (i = 1; i <= count; i++) print client, server, order[i], best[order[i]], note[order[i]] }' "$6.tsv"
  else
    printf '%s\t%s\tconnection/handshake\tfail\tended without results\n' "$2" "$1"
  fi
}

run_cell() {
  local cell=$1 dir=$RUN/$1 faces face begun log PROXY='' PORT='' problem='' spares=0 OTHER='' LATER=''
  # A call in which the server may ask has a process of its own. The suite waits 600 ms for it, less than Node.js takes to start.
  # A scenario of it counts the questions of one round, and a fresh Node.js process may pause for more than the 8 ms of
  # questions.settle between its first questions.
  [ "$cell" != legacy-stdio ] || { spares=3; export DRAGOMAN_QUESTIONS_SETTLE=50ms; }
  # A question that a client has abandoned keeps the one session that a server that broadcasts gets for half of this.
  [ "$cell" != supergateway ] || export DRAGOMAN_QUESTIONS_LEASE_WAIT=6s
  faces=$(faces_of "$cell")
  [ -n "$faces" ] || return 0
  if [ "$cell" = provider-rust ] && [ -z "${CI:-}" ] && ! command -v cargo >/dev/null; then
    echo "SKIP $cell: cargo is missing: install Rust 1.88 or later (https://rustup.rs)"
    return 0
  fi
  mkdir -p "$dir/state"
  start_upstream "$cell" "$dir" || problem="the fixture did not start"
  SERVED=("${UPSTREAM[@]}")
  if [ -z "$problem" ] && [ $merged = yes ]; then merge "$dir" || problem="the server beside the fixture did not start"; fi
  if [ -z "$problem" ] && grep -qv -- '-stdio$' <<<"$faces"; then
    DRAGOMAN_UPSTREAMS_DEFAULT_SPARES=$spares start_proxy "$dir/dragoman.log" "${SERVED[@]}" || problem="dragoman serve did not open its port"
  fi
  for face in $faces; do
    log=$dir/$face.log begun=$SECONDS
    if [ -n "$problem" ]; then
      echo "FAIL $problem: $(tail -qn 1 "$dir/dragoman.log" "$dir/fixture.log" 2>/dev/null | tr '\n' ' ')" >"$log"
      record "$cell" "$face" 1 0 "$log"
      continue
    fi
    run_face "$cell" "$face" "$log"
    record "$cell" "$face" $? $((SECONDS - begun)) "$log"
  done
  [ -z "$PROXY" ] || stop "$PROXY"
  [ -z "$FIXTURE" ] || stop "$FIXTURE"
  [ -z "$OTHER" ] || stop "$OTHER"
}

# table: faces as rows, cells as columns; `ok N`: all passed (+N: checks excused by differs.tsv), `N bad`: N failed.
table() {
  awk -F'\t' -v cells="$CELLS" -v faces="${FACES//[[:space:]]/ }" '
    { value[$2, $1] = $4 ? $4 " bad" : "ok " $3 ($5 ? "+" $5 : ""); met[$2] = 1; used[$1] = 1 }
    END {
      for (i = split(faces, face, " "); i > 0; i--) if (face[i] in met) name[++rows] = face[i]
      count = split(cells, cell, " "); printf "%-18s", "face \\ upstream"
      for (i = 1; i <= count; i++) if (cell[i] in used) printf " %-13s", cell[i]
      print ""
      for (r = rows; r > 0; r--) {
        printf "%-18s", name[r]
        for (i = 1; i <= count; i++) if (cell[i] in used) printf " %-13s", ((name[r], cell[i]) in value) ? value[name[r], cell[i]] : "-"
        print ""
      }
    }' "$RUN/cells.tsv"
}

# in_order: prints the output of finished cells in the order in which they were started, and removes them from the list.
in_order() {
  while [ ${#BUSY[@]} -gt 0 ] && { [ "${1:-}" = all ] || ! kill -0 "${BUSY[0]}" 2>/dev/null; }; do
    wait "${BUSY[0]}"
    cat "$RUN/${NAMES[0]}.out"
    BUSY=("${BUSY[@]:1}") NAMES=("${NAMES[@]:1}")
  done
}

NAMES=()
stale=0
if [ "$control" = no ] && ! "$HERE/suite.sh" --check-differs "$CELLS legacy-http+all $("$HERE/client-suite.sh" --cells)"; then stale=1; fi
for cell in $CELLS; do
  [[ $cell =~ $CELL_RE ]] || continue
  while in_order; [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  ( trap stop_all EXIT; trap 'exit 143' INT TERM HUP; STARTED=(); run_cell "$cell" ) >"$RUN/$cell.out" 2>&1 &
  BUSY+=($!) NAMES+=("$cell")
done
in_order all
for cell in $CELLS; do cat "$RUN/$cell.cells.tsv" 2>/dev/null; done >"$RUN/cells.tsv"
[ -s "$RUN/cells.tsv" ] || die "no cell and face match '$CELL_RE' '$FACE_RE'"
{ printf 'cell\tface\tpassed\tfailed\texcused\tseconds\n'; cat "$RUN/cells.tsv"; } >"$RUN/table.tsv"
if [ -n "$results" ]; then
  [ $merged = yes ] || printf 'client\tserver\tfeature\tresult\tnote\n' >"$results"
  for cell in $CELLS; do cat "$RUN/$cell.results.tsv" 2>/dev/null; done >>"$results"
fi
pairs_failed=$(awk -F'\t' '$4 != 0' "$RUN/cells.tsv" | wc -l)
pairs_passed=$(($(wc -l <"$RUN/cells.tsv") - pairs_failed))
pairs_failed=$((pairs_failed + stale))
echo
table
mv "$RUN/table.tsv" "$HERE/.tmp/cells.tsv"
echo
finished=yes
if [ "$pairs_failed" = 0 ] && [ $keep = no ]; then rm -rf "$RUN"; else echo "logs: ${RUN#"$HERE"/}"; fi
echo "$SECONDS seconds"
echo "$pairs_passed passed, $pairs_failed failed"
[ "$pairs_failed" = 0 ]
