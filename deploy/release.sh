#!/bin/sh
# release.sh [DIRECTORY]: makes the files of a release in DIRECTORY (dist): an archive for each system, an SBOM, and SHA256SUMS of all.
# VERSION=v1.2.3 names it; TARGETS chooses systems, such as "linux/amd64 darwin/arm64". The same commit, VERSION and Go make the same bytes.
# Needs Go 1.26, Python 3, git, and the Go proxy for the tool that makes the SBOM.
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
. deploy/common.sh
VERSION=$(version)
SOURCE_DATE_EPOCH=$(epoch)
export VERSION SOURCE_DATE_EPOCH
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
rm -f "$out/SHA256SUMS"
files=
for target in $targets; do
	os=${target%/*} arch=${target#*/} name=dragoman-$VERSION-${target%/*}-${target#*/}
	case $os in windows) exe=.exe kind=zip ;; *) exe= kind=tar.gz ;; esac
	mkdir -p "$work/$name"
	deploy/binary.sh "$os" "$arch" "$work/$name/dragoman$exe"
	cp LICENSE README.md config.toml "$work/$name/"
	[ "$os" != linux ] || cp deploy/systemd/dragoman.service "$work/$name/"
	python3 deploy/archive.py "$work/$name" "$out/$name.$kind"
	files="$files $name.$kind"
	sbom "$work/$name/dragoman$exe" "$out/$name.cdx.json"
	files="$files $name.cdx.json"
	echo "$name.$kind" >&2
done
# shellcheck disable=SC2086 # word splitting is intended
root=$PWD
(cd "$out" && python3 "$root/deploy/archive.py" --sums $files >SHA256SUMS)
