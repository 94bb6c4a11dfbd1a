#!/bin/sh
# release.sh: runs for `make released`. Makes a release twice, from two copies of the tree, and compares all files; vets the code for every
# system, and runs the binary for this machine. Figures go to stdout.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export VERSION=v0.0.0-check
deploy/check/copy.sh "$work/one"
git clone -q "$work/one" "$work/two/elsewhere"
"$work/one/deploy/release.sh" "$work/1" 2>/dev/null
"$work/two/elsewhere/deploy/release.sh" "$work/2" 2>/dev/null
diff -r "$work/1" "$work/2" >&2 || { echo "released: the files of the second build differ" >&2; exit 1; }
cd "$work/1"
sha256sum --quiet -c SHA256SUMS
[ "$(wc -l <SHA256SUMS)" = 12 ] || { cat SHA256SUMS >&2; exit 1; }
echo "built twice, in two directories: the same bytes; the checksums are correct"
wc -c ./*
name=dragoman-$VERSION-$(go env GOOS)-$(go env GOARCH)
tar -tzvf "$name.tar.gz"
tar -xzf "$name.tar.gz"
"$name/dragoman" version | tee "$work/version"
grep -q "^dragoman $VERSION (" "$work/version"
cd "$work/one"
for target in linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go vet -trimpath ./...
	echo "go vet: $target"
done
