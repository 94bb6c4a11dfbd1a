#!/usr/bin/env bash
# setup.sh: installs the servers and the Python clients, pinned: npm/node_modules, .venv/ (by uv; 1 is the Python SDK v1, 2 the SDK v2) and
# .bin/ (example servers in Go). Does nothing if the pinned versions are installed. Needs Node.js 20, Python 3.10 with venv, Go, and for an
# installation the package registries.
set -eu
cd "$(dirname "$0")"
UV=0.13.9
need() { command -v "$1" >/dev/null || { echo "servers/setup.sh: $1 is missing: $2" >&2; exit 2; }; }
need npm "install Node.js 20 or later (https://nodejs.org)"
need python3 "install Python 3.10 or later with venv (python3-venv)"
need go "install Go 1.26 or later (https://go.dev/dl)"
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  { echo "servers/setup.sh: Python 3.10 or later with venv is needed (on Debian: python3-venv)" >&2; exit 2; }

if ! cmp -s npm/package-lock.json npm/node_modules/.ready; then
  (cd npm && npm ci --no-audit --no-fund --loglevel=error)
  cp npm/package-lock.json npm/node_modules/.ready
fi

if ! echo "$UV" | cmp -s - .venv/uv/.ready; then
  rm -rf .venv/uv
  python3 -m venv .venv/uv
  .venv/uv/bin/pip install --quiet --disable-pip-version-check "uv==$UV"
  echo "$UV" >.venv/uv/.ready
fi
uv=$PWD/.venv/uv/bin/uv
for sdk in 1 2; do
  cmp -s "python/requirements-$sdk.txt" ".venv/$sdk/.ready" && continue
  rm -rf ".venv/$sdk"
  "$uv" venv --quiet --no-config --python python3 ".venv/$sdk"
  VIRTUAL_ENV=$PWD/.venv/$sdk "$uv" pip sync --quiet --no-config --compile-bytecode "python/requirements-$sdk.txt"
  cp "python/requirements-$sdk.txt" ".venv/$sdk/.ready"
done

# uvx uses a cache of its own, so that the tests need no network.
if ! cmp -s python/uvx.txt .venv/uvx-cache/.ready; then
  UV_CACHE_DIR=$PWD/.venv/uvx-cache "$uv" tool run --quiet --no-config --python python3 --with-requirements python/requirements-2.txt --from "$(cat python/uvx.txt)" mcp-server-time --help >/dev/null
  cp python/uvx.txt .venv/uvx-cache/.ready
fi

if ! cmp -s go/go.sum .bin/.ready; then
  mkdir -p .bin
  (cd go && CGO_ENABLED=0 go build -o ../.bin/mark3labs github.com/mark3labs/mcp-go/examples/everything &&
    CGO_ENABLED=0 go build -o ../.bin/gosdk github.com/modelcontextprotocol/go-sdk/examples/server/everything)
  cp go/go.sum .bin/.ready
fi
