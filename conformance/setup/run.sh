#!/bin/sh
# run.sh: the real Claude Code, Codex and Gemini CLI read the files that `dragoman setup` has written, and start the dragoman in them.
# They are installed from npm into this folder (760 MB) and run in a home directory of their own, with servers of this machine only.
# Prints a line for each check, and exits with 1 if one fails. Needs Node.js 20 and ./dragoman.
set -u
cd "$(dirname "$0")"
dragoman=$(cd ../.. && pwd)/dragoman
[ -x "$dragoman" ] || { echo "setup: $dragoman is missing: make build" >&2; exit 1; }
npm install --no-audit --no-fund --loglevel=error || exit 1
bin=$PWD/node_modules/.bin
HOME=$(mktemp -d)
trap 'rm -rf "$HOME"' EXIT
export HOME CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1
unset XDG_CONFIG_HOME CODEX_HOME CLAUDE_CONFIG_DIR
mkdir -p "$HOME/.codex" "$HOME/.gemini" "$HOME/work"
cd "$HOME/work" || exit 1

servers() { # TYPE: two servers as the clients have them in JSON
	printf '  "mcpServers": {\n    "one": {%s"command": "%s", "args": ["demo"]},\n    "two": {%s"command": "%s", "args": ["demo"]} // mine\n  }' "$1" "$dragoman" "$1" "$dragoman"
}
printf '# mine\n[mcp_servers.one]\ncommand = "%s"\nargs = ["demo"]\n\n[mcp_servers.two]\ncommand = "%s"\nargs = ["demo"]\n' "$dragoman" "$dragoman" >"$HOME/.codex/config.toml"
printf '{\n  "security": {"folderTrust": {"enabled": false}},\n%s\n}\n' "$(servers '')" >"$HOME/.gemini/settings.json"
printf '{\n%s\n}\n' "$(servers '"type": "stdio", ' | sed 's| // mine||')" >"$HOME/.claude.json"
cp "$HOME/.codex/config.toml" "$HOME/codex.before"
cp "$HOME/.gemini/settings.json" "$HOME/gemini.before"

passed=0 failed=0
check() { # NAME PATTERN COMMAND...: its output matches
	name=$1 pattern=$2
	shift 2
	if out=$(timeout 60 "$@" 2>&1 </dev/null) && printf '%s\n' "$out" | tr '\n' ' ' | grep -qE "$pattern"; then
		passed=$((passed + 1))
		echo "ok    $name"
	else
		failed=$((failed + 1))
		printf 'FAIL  %s: %s\n' "$name" "$out"
	fi
}
for client in claude-code codex gemini; do
	check "$client: both servers behind one entry" "has dragoman; restart" "$dragoman" setup "$client" --all-servers --yes
	check "$client: a second time" "nothing is to be changed" "$dragoman" setup "$client" --all-servers --yes
done
check "Claude Code starts it" "dragoman: .*stdio --config .*Connected" "$bin/claude" mcp list
check "Codex reads it" '"name": "dragoman".*"stdio",[^]]*"--config"' "$bin/codex" mcp list --json
check "Gemini CLI starts it" "dragoman: .*stdio --config .*Connected" "$bin/gemini" mcp list
for client in claude-code codex gemini; do
	check "$client: undo" "dragoman is out of" "$dragoman" setup "$client" --undo --yes
done
check "Codex's file is as it was" "^ *$" cmp "$HOME/codex.before" "$HOME/.codex/config.toml"
check "Gemini's file is as it was" "^ *$" cmp "$HOME/gemini.before" "$HOME/.gemini/settings.json"
# Claude Code has written into its file meanwhile, which stays.
check "Claude Code has its servers again" "one: .*Connected.*two: .*Connected" "$bin/claude" mcp list
check "Claude Code's own changes stay" "userID" cat "$HOME/.claude.json"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
