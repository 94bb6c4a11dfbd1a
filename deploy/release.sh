#!/bin/sh
# release.sh [DIRECTORY]: makes the files of a release in DIRECTORY (dist): for each system an archive, an SBOM, an npm package and a wheel, and
# for Linux deb and rpm; the npm package of the launcher; goproxy/, a module proxy with the source under its published name; a provenance
# statement; and SHA256SUMS of all. Nothing is published or signed (deploy/README.md).
#
#   VERSION   v1.2.3; by default the commit's tag, else "devel"
#   TARGETS   systems, such as "linux/amd64 darwin/arm64"
#   the names in names.sh
#
# The same commit, VERSION, names and Go make the same bytes. Needs Go 1.26.4, Python 3.10, git, and the Go proxy for the tools.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
out=${1:-dist}
. deploy/common.sh
. deploy/names.sh
VERSION=$(version)
SEMVER=$(semver "$VERSION")
SOURCE_DATE_EPOCH=$(epoch)
TARGETS=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
PYTHONDONTWRITEBYTECODE=1
export VERSION SEMVER SOURCE_DATE_EPOCH TARGETS PYTHONDONTWRITEBYTECODE

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
out=$(cd "$out" && pwd)
umask 022
go -C deploy/pages build -trimpath -tags nethttpomithttp2 -buildvcs=false -o "$work/pages" .
tool nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
tool module ./module
tool provenance ./provenance
"$work/pages" "$work/pages.d"

# made FILE...: notes files of the release.
made() {
	printf '%s\n' "$@" >>"$work/files"
	printf '%s\n' "$@" >&2
}

# linux ARCH TREE: makes the deb and the rpm. Their paths differ from those of the unit, which is for /usr/local.
linux() {
	cp -r "$2" "$work/linux-$1"
	gzip -9n "$work/linux-$1"/man/*
	sed -e '2,/^\[Unit\]/{/^#/d}' -e 's|/usr/local/bin/|/usr/bin/|' deploy/systemd/dragoman.service >"$work/linux-$1/dragoman.service"
	find "$work/linux-$1" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
	for packager in deb rpm; do
		zsh=/usr/share/zsh/site-functions
		[ $packager = rpm ] || zsh=/usr/share/zsh/vendor-completions
		mkdir "$work/$packager-$1"
		ARCH=$1 TREE=$work/linux-$1 ZSH=$zsh "$work/nfpm" package --config deploy/linux/nfpm.yaml --packager $packager --target "$work/$packager-$1" >/dev/null
		made "$(ls "$work/$packager-$1")"
		mv "$work/$packager-$1"/* "$out/"
	done
}

for target in $TARGETS; do
	os=${target%/*} arch=${target#*/} name=dragoman-$VERSION-${target%/*}-${target#*/}
	case $os in windows) exe=.exe kind=zip ;; *) exe='' kind=tar.gz ;; esac
	tree=$work/$name
	mkdir -p "$tree"
	deploy/binary.sh "$os" "$arch" "$tree/dragoman$exe"
	cp LICENSE README.md config.toml "$tree/"
	[ "$os" != linux ] || cp deploy/systemd/dragoman.service "$tree/"
	cp -r "$work/pages.d"/* "$tree/"
	sbom "$tree/dragoman$exe" "$tree/dragoman.cdx.json"
	python3 deploy/archive.py "$tree" "$out/$name.$kind"
	cp "$tree/dragoman.cdx.json" "$out/$name.cdx.json"
	made "$name.$kind" "$name.cdx.json"
	made "$(python3 deploy/packages.py npm "$os" "$arch" "$tree" "$out")"
	made "$(python3 deploy/packages.py wheel "$os" "$arch" "$tree" "$out")"
	[ "$os" != linux ] || linux "$arch" "$tree"
done
made "$(python3 deploy/packages.py npm "$tree" "$out")"
"$work/module" -name "$MODULE" -version "v$SEMVER" -time "$SOURCE_DATE_EPOCH" . "$out/goproxy"
for suffix in zip mod info; do made "$(cd "$out" && find goproxy -name "v$SEMVER.$suffix")"; done

# The statement names what it was made from: the commit, if that is what is here, the modules and Go.
set -- -builder "$BUILDER_ID" -type "$BUILD_TYPE" -parameter "version=$VERSION" -parameter "targets=$TARGETS" -parameter "go=$(go env GOVERSION)" \
	-material "$HOMEPAGE/go.mod=$root/go.mod" -material "$HOMEPAGE/go.sum=$root/go.sum"
if git diff --quiet HEAD 2>/dev/null; then set -- "$@" -source "git+$HOMEPAGE=$(git rev-parse HEAD)"
else echo "release.sh: the provenance names no commit, since there is none, or files have changed" >&2; fi
statement=dragoman-$VERSION.provenance.json
# shellcheck disable=SC2046 # no name has spaces
(cd "$out" && "$work/provenance" "$@" $(cat "$work/files") >"$work/$statement")
mv "$work/$statement" "$out/"
made "$statement"
# shellcheck disable=SC2046 # no name has spaces
(cd "$out" && python3 "$root/deploy/archive.py" --sums $(cat "$work/files") >SHA256SUMS)
