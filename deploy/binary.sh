#!/bin/sh
# binary.sh OS ARCH FILE: builds one static binary of Dragoman as it is released, without symbols, paths or build id, for GOOS=OS and
# GOARCH=ARCH. VERSION is what it says of itself; without it the repository's tag, or a version made from the commit. The same commit
# and the same Go make the same bytes, on whatever machine. Needs Go 1.26.
set -eu
[ $# = 3 ] || { echo "usage: [VERSION=v1.2.3] binary.sh OS ARCH FILE" >&2; exit 2; }
command -v go >/dev/null || { echo "binary.sh: go is missing: install Go 1.26 or later (https://go.dev/dl)" >&2; exit 1; }
case $3 in /*) file=$3 ;; *) file=$PWD/$3 ;; esac
cd "$(dirname "$0")/.."

vcs=auto
git rev-parse --git-dir >/dev/null 2>&1 || vcs=false # no git, no repository, somebody else's files
flags="-s -w -buildid="
[ -z "${VERSION:-}" ] || flags="$flags -X dragoman/internal/app.released=$VERSION"
# What else may stand in the environment would change the bytes. HTTP/2 is left out: net/http sends spans here, by HTTP/1.1, and nothing else.
CGO_ENABLED=0 GOOS=$1 GOARCH=$2 GOFLAGS='' GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' GOFIPS140=off GOWORK=off \
	go build -trimpath -tags nethttpomithttp2 -buildvcs=$vcs -mod=readonly -ldflags "$flags" -o "$file" .
