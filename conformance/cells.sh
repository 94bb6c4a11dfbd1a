#!/usr/bin/env bash
# cells.sh [options] [CELL_RE [FACE_RE]]      Dragoman in front of every kind of server, met by every kind of client
#   A cell is an upstream: modern-http legacy-http legacy-stdio modern-stdio legacy-sse dual-http, and npm-stdio (a server from npm).
#   A face is what meets it: suite@REVISION, the official suite compared with the baseline of the dual fixture, or one of our
#   clients (v1-http, v2-modern-stdio …), whose every case must pass.
#   --short           what CI runs: one revision of each era, one client of each kind
#   --questions       also the client cases in which the server asks something; they are left out until they can pass
#   --subscriptions   the client cases about change notifications also where eras or transports differ; likewise
#   --control         passthrough.mjs instead of Dragoman, with all cases, where no translation is needed: tests the tests
#   --keep            keeps the logs of a run that passed
# DRAGOMAN is the binary (default: dragoman at the root of the repository); LATER another later.tsv.
# Writes .tmp/cells.tsv (cell, face, passed, failed, excused, seconds); last line: `N passed, N failed` (pairs of cell and face).
set -u
. "$(dirname "$0")/lib.sh"
need_packages

CELLS="modern-http legacy-http legacy-stdio modern-stdio legacy-sse dual-http npm-stdio"
FACES="suite@2025-03-26 suite@2025-06-18 suite@2025-11-25 suite@2026-07-28
  v2-modern-http v2-auto-http v2-legacy-http v1-http v1-sse v2-legacy-sse v1-stdio v2-legacy-stdio v2-modern-stdio v2-auto-stdio"
SHORT_FACES="suite@2025-11-25 suite@2026-07-28 v2-modern-http v1-http v1-sse v1-stdio v2-modern-stdio"

NODE=$(command -v node)
DRAGOMAN=${DRAGOMAN:-$HERE/../dragoman}
export LATER=${LATER:-$HERE/later.tsv}
export SUITE_TIMEOUT=${SUITE_TIMEOUT:-120}
control=no keep=no omit=(--no-questions --no-subscriptions)
omit_flag() { local o kept=(); for o in "${omit[@]}"; do [ "$o" = "$1" ] || kept+=("$o"); done; omit=("${kept[@]}"); }
while [[ ${1:-} == --* ]]; do
  case $1 in
    --short) FACES=$SHORT_FACES ;;
    --questions) omit_flag --no-questions ;;
    --subscriptions) omit_flag --no-subscriptions ;;
    --control) control=yes omit=() DRAGOMAN=$HERE/passthrough.mjs LATER=/dev/null ;;
    --keep) keep=yes ;;
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown option $1 (cells.sh --help)" ;;
  esac
  shift
done
CELL_RE=${1:-.} FACE_RE=${2:-.}
[ -x "$DRAGOMAN" ] || die "$DRAGOMAN is not there: build it, or set DRAGOMAN"
DRAGOMAN=$(cd "$(dirname "$DRAGOMAN")" && pwd)/$(basename "$DRAGOMAN")

mkdir -p "$HERE/.tmp"
RUN=$(mktemp -d "$HERE/.tmp/run.XXXXXX")
export SUITE_TMP=$RUN
finished=no pairs_passed=0 pairs_failed=0
leave() {
  trap '' INT TERM HUP # a second signal must not cut the tidying short
  stop_all
  [ $finished = yes ] || rm -rf "$RUN"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# native CELL FACE: whether the pair needs no translation: there the control can stand in for Dragoman.
native() {
  case $1:$2 in
    modern-http:suite@2026-07-28 | modern-http:v2-modern-http | modern-http:v2-auto-http) ;;
    legacy-http:suite@2025* | legacy-http:v1-http | legacy-http:v2-legacy-http) ;;
    dual-http:suite@* | dual-http:*-http) ;;
    legacy-sse:*-sse) ;;
    legacy-stdio:v1-stdio | legacy-stdio:v2-legacy-stdio) ;;
    modern-stdio:v2-modern-stdio | modern-stdio:v2-auto-stdio) ;;
    npm-stdio:v1-stdio | npm-stdio:v2-legacy-stdio) ;;
    *) return 1 ;;
  esac
}

# faces_of CELL: the faces that this run wants there.
faces_of() {
  local face
  for face in $FACES; do
    [[ $face =~ $FACE_RE ]] || continue
    [[ $1 == npm-* && $face == suite@* ]] && continue
    [ $control = no ] || native "$1" "$face" || continue
    echo "$face"
  done
}

# bounded LOG SECONDS COMMAND…: runs a command to its end or for SECONDS at most; its exit status is the command's.
bounded() {
  local log=$1 seconds=$2 status; shift 2
  start "$log" timeout -k 5 "$seconds" "$@"
  wait "$PID"; status=$?
  stop "$PID"
  return "$status"
}

# start_upstream CELL DIR: leaves what follows `serve` or `stdio` on Dragoman's command line in UPSTREAM, and the fixture's pid in FIXTURE.
start_upstream() {
  local era=${1%-*} transport=${1#*-} fixture=("$NODE" "$HERE/fixtures/everything.mjs")
  FIXTURE=
  if [ "$1" = npm-stdio ]; then
    UPSTREAM=(-- "$NODE" "$HERE/node_modules/@modelcontextprotocol/server-everything/dist/index.js" stdio)
    return 0
  fi
  fixture+=(--era "$era" --transport "$transport" --state "$2/state")
  if [ "$transport" = stdio ]; then UPSTREAM=(-- "${fixture[@]}"); return 0; fi
  start "$2/fixture.log" "${fixture[@]}"
  FIXTURE=$PID
  UPSTREAM=("$(wait_url "$2/fixture.log" "$FIXTURE")") && [ -n "${UPSTREAM[0]}" ]
}

# start_proxy DIR: starts Dragoman in front of UPSTREAM; leaves its pid in PROXY and its port in PORT.
start_proxy() {
  local try
  for try in 1 2 3; do # another process may take the port between the choice and the start
    PORT=$(free_port)
    start "$1/dragoman.log" "$DRAGOMAN" serve --listen "127.0.0.1:$PORT" --admin off "${UPSTREAM[@]}"
    PROXY=$PID
    wait_port "$PORT" "$PROXY" && return 0
    stop "$PROXY"
  done
  return 1
}

# run_face CELL FACE LOG
run_face() {
  local cell=$1 face=$2 log=$3 o client=() options=() target=()
  if [[ $face == suite@* ]]; then
    bounded "$log" $((SUITE_TIMEOUT + 10)) "$HERE/suite.sh" "http://localhost:$PORT/mcp" "${face#suite@}" --cell "$cell"
    return
  fi
  client=("$NODE" "$HERE/clients/${face%%-*}.mjs")
  case $face in
    v2-modern-*) options=(--mode modern --expect modern) ;;
    v2-auto-*) options=(--mode auto --expect modern) ;;
    v2-legacy-*) options=(--mode legacy --expect legacy) ;;
  esac
  case $face in
    *-http) target=("http://127.0.0.1:$PORT/mcp") ;;
    *-sse) options+=(--transport sse); target=("http://127.0.0.1:$PORT/sse") ;;
    *-stdio) target=(-- "$DRAGOMAN" stdio "${UPSTREAM[@]}") ;;
  esac
  [[ $cell == npm-* ]] && options+=(--basic)
  # On a modern stdio server that two clients share, a log message says neither whose it is nor of which call.
  [[ $cell == modern-stdio && $face != *-stdio ]] && options+=(--lossy-logs)
  for o in "${omit[@]}"; do
    [[ $o == --no-subscriptions ]] && native "$cell" "$face" && continue # they pass where nothing is translated
    options+=("$o")
  done
  bounded "$log" 100 "${client[@]}" "${options[@]}" "${target[@]}"
}

# record CELL FACE STATUS SECONDS LOG: one line for the table, one for the reader, and what failed.
record() {
  local passed failed excused last
  last=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$5" | tail -1)
  excused=$(sed -n 's/^.*, \([0-9]*\) checks excused by later.tsv.*$/\1/p' "$5" | tail -1)
  passed=${last%% *} failed=${last#*, } failed=${failed%% *}
  if [ -z "$last" ] || { [ "$3" != 0 ] && [ "$failed" = 0 ]; }; then passed=${passed:-0} failed=1; fi
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$passed" "$failed" "${excused:-0}" "$4" >>"$RUN/cells.tsv"
  [ "${excused:-0}" != 0 ] || excused=
  if [ "$failed" = 0 ] && [ "$3" = 0 ]; then
    pairs_passed=$((pairs_passed + 1))
    printf 'PASS %-13s %-17s %3s passed%s, %s s\n' "$1" "$2" "$passed" "${excused:+, $excused checks for later}" "$4"
  else
    pairs_failed=$((pairs_failed + 1))
    printf 'FAIL %-13s %-17s %3s passed, %s failed, %s s\n' "$1" "$2" "$passed" "$failed" "$4"
    if grep -qaE '^(DIFF|STALE|FAIL)' "$5"; then grep -aE '^(DIFF|STALE|FAIL)' "$5" | head -12; else tail -4 "$5"; fi | cut -c1-260 | sed 's/^/     /'
  fi
}

run_cell() {
  local cell=$1 dir=$RUN/$1 faces face begun log PROXY='' PORT='' problem=''
  faces=$(faces_of "$cell")
  [ -n "$faces" ] || return 0
  mkdir -p "$dir/state"
  start_upstream "$cell" "$dir" || problem="the fixture did not start"
  if [ -z "$problem" ] && grep -qv -- '-stdio$' <<<"$faces"; then start_proxy "$dir" || problem="dragoman serve did not open its port"; fi
  for face in $faces; do
    log=$dir/$face.log begun=$SECONDS
    if [ -n "$problem" ]; then
      echo "FAIL $problem: $(tail -1 "$dir/dragoman.log" "$dir/fixture.log" 2>/dev/null | tr '\n' ' ')" >"$log"
      record "$cell" "$face" 1 0 "$log"
      continue
    fi
    run_face "$cell" "$face" "$log"
    record "$cell" "$face" $? $((SECONDS - begun)) "$log"
  done
  [ -z "$PROXY" ] || stop "$PROXY"
  [ -z "$FIXTURE" ] || stop "$FIXTURE"
}

# table: faces down, cells across; `ok N`: all passed (+N: that many checks excused by later.tsv), `N bad`: N failed.
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

: >"$RUN/cells.tsv"
if [ "$control" = no ] && ! "$HERE/suite.sh" --check-later "$CELLS"; then pairs_failed=$((pairs_failed + 1)); fi
for cell in $CELLS; do [[ $cell =~ $CELL_RE ]] && run_cell "$cell"; done
[ $((pairs_passed + pairs_failed)) -gt 0 ] || die "no cell and face match '$CELL_RE' '$FACE_RE'"
{ printf 'cell\tface\tpassed\tfailed\texcused\tseconds\n'; cat "$RUN/cells.tsv"; } >"$RUN/table.tsv"
echo
table
mv "$RUN/table.tsv" "$HERE/.tmp/cells.tsv"
echo
finished=yes
if [ "$pairs_failed" = 0 ] && [ $keep = no ]; then rm -rf "$RUN"; else echo "logs: ${RUN#"$HERE"/}"; fi
echo "$SECONDS seconds"
echo "$pairs_passed passed, $pairs_failed failed"
[ "$pairs_failed" = 0 ]
