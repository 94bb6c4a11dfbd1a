#!/usr/bin/env bash
# setup.sh: installs what the servers of servers.tsv need besides conformance/node_modules: the SDKs for Python (conformance/servers/setup.sh)
# with their conformance servers (.python/1 and .python/2), and the conformance servers of the Go SDKs (.bin/). Does nothing if the pinned
# versions are installed. Needs Node.js 20, Python 3.10 with venv, Go, and for an installation the package registries.
set -eu
cd "$(dirname "$0")"
../setup.sh
../servers/setup.sh

if ! cmp -s sdists.txt .python/.ready; then
  rm -rf .python
  mkdir -p .python/down
  grep '^mcp==' sdists.txt | while read -r pin; do
    echo "$pin" >.python/pin
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary mcp --require-hashes -r .python/pin -d .python/down
    version=${pin#mcp==} version=${version%% *}
    mkdir -p ".python/${version%%.*}"
    tar -xzf ".python/down/mcp-$version.tar.gz" -C ".python/${version%%.*}" --strip-components=4 "mcp-$version/examples/servers/everything-server/mcp_everything_server"
  done
  rm -rf .python/down .python/pin
  cp sdists.txt .python/.ready
fi

if ! cmp -s go/go.sum .bin/.ready; then
  mkdir -p .bin
  (cd go && CGO_ENABLED=0 go build -o ../.bin/go-sdk github.com/modelcontextprotocol/go-sdk/conformance/everything-server &&
    CGO_ENABLED=0 go build -o ../.bin/mcp-go github.com/mark3labs/mcp-go/examples/conformance)
  cp go/go.sum .bin/.ready
fi
