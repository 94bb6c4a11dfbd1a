#!/usr/bin/env bash
# setup.sh: builds the servers that go.mod pins, and unpacks Debian's etcd with the sources of the same version, all into .bin. Nothing is
# installed. Does nothing if they are there. Needs Go, apt-get and dpkg-deb; without the last two etcd is left out, except in CI.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p .bin

fetch_etcd() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "grpc/setup.sh: apt-get and dpkg-deb are needed for etcd" >&2; return 1; }
  local debian=(etcd-server golang-etcd-server-dev golang-github-gogo-protobuf-dev)
  rm -rf .bin/debian
  mkdir .bin/debian
  (
    cd .bin/debian
    apt-get -qq download "${debian[@]}" 2>/dev/null || { apt-get -qq update && apt-get -qq download "${debian[@]}"; }
    for package in *.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x --wildcards --no-anchored usr/bin/etcd gogoproto/gogo.proto 'go.etcd.io/*.proto' 2>/dev/null || true; done
    rm ./*.deb
    [[ $(./usr/bin/etcd --version) == *'Version: 3.4.23'$'\n'* ]] || { echo "grpc/setup.sh: the tests are written for etcd 3.4.23 (Debian 12)" >&2; exit 1; }
    touch .ready
  ) || return 1
}

if [ ! -f .bin/debian/.ready ]; then
  fetch_etcd || { [ -z "${CI:-}" ] || exit 2; echo "grpc/setup.sh: etcd is left out" >&2; }
fi
CGO_ENABLED=0 go build -o .bin/ ./reflected ./otlp ./definitions
CGO_ENABLED=0 go build -o .bin/route_guide google.golang.org/grpc/examples/route_guide/server
