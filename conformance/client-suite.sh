#!/usr/bin/env bash
# client-suite.sh [options] [CLIENT_RE [REVISION_RE]]      the official suite's client mode: a client, Dragoman, the suite's mock server
#   The suite starts a mock server for each scenario and judges the requests that it gets; here they are what Dragoman sends for one of
#   our clients. If client and mock are of different eras, Dragoman must send what a native client sends. All scenarios but
#   authorization, at 2025-06-18, 2025-11-25 and 2026-07-28; every check must be as in the run without Dragoman (baselines/client-*).
#   A mock of 2026-07-28 judges every request, including the `initialize` by which Dragoman probes for a legacy era when a legacy client
#   connects; so Dragoman is configured for a modern server there.
#   --short           as in CI: three clients over HTTP, at the newest revision of each era
#   --results FILE    appends its lines to FILE (see cells.sh)
#   --save            records the baselines instead, by running each client without Dragoman
#   --cells           prints the names of this script's cells in differs.tsv
# DRAGOMAN is the binary (default: dragoman at the root of the repository). Last line: `N passed, N failed` (pairs of client and revision).
set -u
. "$(dirname "$0")/lib.sh"

CLIENTS="v2-modern-http v2-legacy-http v1-http v1-sse v2-modern-stdio v1-stdio"
REVISIONS="2025-06-18 2025-11-25 2026-07-28"
DRAGOMAN=${DRAGOMAN:-$HERE/../dragoman}
results= save=no
while [[ ${1:-} == --* ]]; do
  case $1 in
    --short) CLIENTS="v2-modern-http v2-legacy-http v1-http" REVISIONS="2025-11-25 2026-07-28" ;;
    --results) results=$(realpath -m "$2"); shift ;;
    --save) save=yes ;;
    --cells) for client in $CLIENTS; do printf 'client:%s ' "$client"; done; exit 0 ;;
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown option $1 (client-suite.sh --help)" ;;
  esac
  shift
done
CLIENT_RE=${1:-.} REVISION_RE=${2:-.}
need_packages
node22=$(node_for_suite) || exit 2
mkdir -p "$HERE/.tmp"
RUN=$(mktemp -d "$HERE/.tmp/clients.XXXXXX")
export SUITE_TMP=$RUN
leave() { trap '' INT TERM HUP; stop_all; rm -rf "$RUN"; }
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# suite LOG OPTIONS…: runs client-suite.mjs, at most two minutes.
suite() {
  local log=$1 status; shift
  start "$log" timeout -k 5 120 "$node22" "$HERE/client-suite.mjs" "$@"
  wait "$PID"; status=$?
  stop "$PID"
  return "$status"
}

if [ $save = yes ]; then
  for pair in v2-legacy-http:2025-06-18 v2-legacy-http:2025-11-25 v2-modern-http:2026-07-28 v1-http:2025-06-18 v1-http:2025-11-25; do
    client=${pair%:*} revision=${pair#*:}
    suite "$RUN/log" --client "$client" --revision "$revision" --save "$HERE/baselines/client-${client%%-*}.$revision.json"
    echo "$client $revision"; cat "$RUN/log"
  done
  exit 0
fi

[ -x "$DRAGOMAN" ] || die "there is no $DRAGOMAN: build it, or set DRAGOMAN"
DRAGOMAN=$(cd "$(dirname "$DRAGOMAN")" && pwd)/$(basename "$DRAGOMAN")
pairs_passed=0 pairs_failed=0
for client in $CLIENTS; do
  [[ $client =~ $CLIENT_RE ]] || continue
  for revision in $REVISIONS; do
    [[ $revision =~ $REVISION_RE ]] || continue
    begun=$SECONDS log=$RUN/$client.$revision.log
    era=()
    [[ $revision = 2026* && $client != *-modern-* ]] && era=(--era modern)
    suite "$log" --client "$client" --revision "$revision" --dragoman "$DRAGOMAN" "${era[@]}"; status=$?
    last=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1)
    excused=$(sed -n 's/^.*, \([0-9]*\) checks excused by differs.tsv.*$/\1/p' "$log" | tail -1)
    word=PASS result=ok note="${last:-it ended without a result}"
    if [ "$status" != 0 ] || [ -z "$last" ]; then word=FAIL result=fail; fi
    [ "${excused:-0}" = 0 ] || note+=", $excused checks differ as differs.tsv explains"
    printf '%s %-16s at a mock of %s  %s, %s s\n' $word "$client" "$revision" "$note" $((SECONDS - begun))
    if [ $word = FAIL ]; then
      pairs_failed=$((pairs_failed + 1))
      { grep -aE '^(DIFF|STALE|FAIL)' "$log" || tail -4 "$log"; } | head -12 | cut -c1-300 | sed 's/^/     /'
    else pairs_passed=$((pairs_passed + 1)); fi
    [ -z "$results" ] || printf '%s\tsuite mock %s\tofficial suite/client scenarios %s\t%s\t%s\n' "$client" "$revision" "$revision" $result "$note" >>"$results"
  done
done
echo "$SECONDS seconds"
[ $((pairs_passed + pairs_failed)) -gt 0 ] || die "no client and revision match '$CLIENT_RE' '$REVISION_RE'"
echo "$pairs_passed passed, $pairs_failed failed"
[ "$pairs_failed" = 0 ]
