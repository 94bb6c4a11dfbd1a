#!/bin/sh
# image.sh: runs for `make imaged`. Builds the images twice, from two copies of the tree, compares their ids, and runs the one for this
# machine from its root file system. As root on Debian it installs buildah if necessary. Figures go to stdout.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v buildah >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y buildah; } >&2
fi
command -v buildah >/dev/null || { echo "imaged: buildah is missing; nothing was tested" >&2; exit 2; }
most=20000000 # bytes of an image, compressed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The user's images are not touched, and no mounts are needed.
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF="$work/storage.conf" VERSION=v0.0.0-check
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/graph"\nrunroot = "%s/run"\n' "$work" "$work" >"$work/storage.conf"
deploy/check/copy.sh "$work/one"
git clone -q "$work/one" "$work/two/elsewhere"
"$work/one/deploy/image.sh" "$work/1" >"$work/ids.1"
buildah rmi --all --force >/dev/null
"$work/two/elsewhere/deploy/image.sh" "$work/2" >"$work/ids.2"
cat "$work/ids.1"
cmp "$work/ids.1" "$work/ids.2" || { echo "imaged: the images of the second build differ" >&2; cat "$work/ids.2" >&2; exit 1; }
(cd "$work/1" && sha256sum ./*) >"$work/sums.1"
(cd "$work/2" && sha256sum ./*) >"$work/sums.2"
cmp "$work/sums.1" "$work/sums.2" || { diff "$work/sums.1" "$work/sums.2" >&2; exit 1; }
echo "built twice, in two directories: the same ids, archives and SBOMs"
for file in "$work"/1/*.image.tar; do
	packed=$(gzip -9 -c "$file" | wc -c)
	echo "$(basename "$file"): $(wc -c <"$file") bytes, $packed compressed"
	[ "$packed" -le $most ] || { echo "imaged: more than $most bytes, compressed" >&2; exit 1; }
done
python3 deploy/check/rootfs.py "$work/1/dragoman-$VERSION-linux-$(go env GOARCH).image.tar"
