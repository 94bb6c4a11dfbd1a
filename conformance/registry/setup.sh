#!/usr/bin/env bash
# setup.sh: builds the official MCP registry that go.mod pins, as .bin/registry; does nothing if it is there. Needs Go, and for the first build the Go
# module proxy.
set -eu
cd "$(dirname "$0")"
cmp -s go.sum .bin/.ready && exit
mkdir -p .bin
CGO_ENABLED=0 go build -trimpath -o .bin/registry github.com/modelcontextprotocol/registry/cmd/registry
cp go.sum .bin/.ready
