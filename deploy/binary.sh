#!/bin/sh
# binary.sh OS ARCH FILE: builds one static binary of Dragoman for a release, without symbols, paths or build id, for GOOS=OS and GOARCH=ARCH.
# VERSION is its version; by default that of the tag, or one made from the commit. The same commit and Go version make the same bytes on
# every machine. Needs Go 1.26.
set -eu
[ $# = 3 ] || { echo "usage: [VERSION=v1.2.3] binary.sh OS ARCH FILE" >&2; exit 2; }
command -v go >/dev/null || { echo "binary.sh: go is missing: install Go 1.26 or later (https://go.dev/dl)" >&2; exit 1; }
case $3 in /*) file=$3 ;; *) file=$PWD/$3 ;; esac
cd "$(dirname "$0")/.."

vcs=auto
git rev-parse --git-dir >/dev/null 2>&1 || vcs=false # no git, no repository, or another owner
flags="-s -w -buildid="
[ -z "${VERSION:-}" ] || flags="$flags -X dragoman/internal/app.released=$VERSION"
# Other variables of the environment would change the bytes. HTTP/2 is left out: net/http is used for spans only, over HTTP/1.1. So
# are the traces of requests that gRPC keeps for a debug page: with them the linker keeps two megabytes that nobody uses.
CGO_ENABLED=0 GOOS=$1 GOARCH=$2 GOFLAGS='' GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' GOFIPS140=off GOWORK=off \
	go build -trimpath -tags nethttpomithttp2,grpcnotrace -buildvcs=$vcs -mod=readonly -ldflags "$flags" -o "$file" .
