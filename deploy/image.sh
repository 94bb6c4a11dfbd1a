#!/bin/sh
# image.sh [DIRECTORY]: builds the container image with buildah, or else docker, for each of ARCHS ("amd64 arm64"), and writes it to
# DIRECTORY (dist) as an archive for `docker load` and `podman load`, with its SBOM. It prints the id of each. The compiler runs on this
# machine for every architecture, so nothing is emulated or pulled. The same commit, VERSION, Go and certificates make the same image.
#
#   VERSION   v1.2.3, also the image's tag; by default the commit's tag, else "devel"
#   IMAGE     the image's name; by default dragoman
#   CA_FILE   root certificates of the image, PEM; by default the system's
#   PUSH=yes  pushes IMAGE:VERSION, all architectures under one name, to the registry that IMAGE names (with buildah);
#             PUSH_FLAGS are flags of `buildah manifest push`, such as --authfile
#
# Needs Go 1.26.4, Python 3, buildah or docker, and for buildah root or a user with subordinate ids (subuid). Installs nothing.
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
. deploy/common.sh
VERSION=$(version)
SOURCE_DATE_EPOCH=$(epoch)
export VERSION SOURCE_DATE_EPOCH
image=${IMAGE:-dragoman}
archs=${ARCHS:-amd64 arm64}

if command -v buildah >/dev/null; then tool=buildah
elif docker info >/dev/null 2>&1; then tool=docker
else echo "image.sh: neither buildah nor a docker daemon was found; fix: install one (on Debian: apt-get install buildah)" >&2; exit 1; fi
ca=${CA_FILE:-}
for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
	[ -n "$ca" ] || [ ! -r "$file" ] || ca=$file
done
[ -r "$ca" ] || { echo "image.sh: no root certificates were found; fix: set CA_FILE to a PEM file" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
umask 022 # file modes are part of the image

# tree ARCH: makes the root file system, with the time of the commit.
tree() {
	root=$work/context/$1
	mkdir -p "$root/usr/local/bin" "$root/etc/ssl/certs"
	deploy/binary.sh linux "$1" "$root/usr/local/bin/dragoman"
	cp "$ca" "$root/etc/ssl/certs/ca-certificates.crt"
	chmod 644 "$root/etc/ssl/certs/ca-certificates.crt"
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# build ARCH: builds the image $image:$VERSION-ARCH, in Docker's format because OCI's has no HEALTHCHECK.
build() {
	created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
	set -- --platform "linux/$1" --build-arg "VERSION=$VERSION" --build-arg "REVISION=$revision" --build-arg "CREATED=$created" \
		--file deploy/image/Containerfile.binary --tag "$image:$VERSION-$1"
	case $tool in
	buildah) buildah build --quiet --format docker --layers=false --timestamp "$SOURCE_DATE_EPOCH" "$@" "$work/context" >/dev/null ;;
	docker) docker build --quiet --provenance=false --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" "$@" "$work/context" >/dev/null ;;
	esac
}

for arch in $archs; do
	name=$image:$VERSION-$arch file=$out/dragoman-$VERSION-linux-$arch.image.tar
	tree "$arch"
	build "$arch"
	rm -f "$file"
	case $tool in
	buildah)
		# buildah writes the random name of its working container to the image, which archive.py removes.
		buildah push --quiet "$name" "docker-archive:$work/$arch.tar:$image:$VERSION"
		id=$(python3 deploy/archive.py --image "$work/$arch.tar" "$file")
		buildah rmi "$name" >/dev/null ;;
	docker)
		docker save --output "$file" "$name"
		id=$(docker image inspect --format '{{.Id}}' "$name") ;;
	esac
	sbom "$work/context/$arch/usr/local/bin/dragoman" "$out/dragoman-$VERSION-linux-$arch.image.cdx.json"
	echo "$name $id"
done

[ -n "${PUSH:-}" ] || exit 0
[ $tool = buildah ] || { echo "image.sh: PUSH needs buildah" >&2; exit 1; }
list=localhost/dragoman-release # local to this machine
buildah manifest rm $list >/dev/null 2>&1 || true # left by a failed run
buildah manifest create $list >/dev/null
for arch in $archs; do
	id=$(buildah pull --quiet "docker-archive:$out/dragoman-$VERSION-linux-$arch.image.tar" 2>/dev/null)
	buildah manifest add $list "$id" >/dev/null
done
# shellcheck disable=SC2086 # word splitting is intended
buildah manifest push --quiet --all ${PUSH_FLAGS:-} $list "docker://$image:$VERSION"
buildah manifest rm $list >/dev/null
