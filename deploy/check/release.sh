#!/bin/sh
# release.sh: runs for `make released`. Makes a release twice, from two copies of the tree, and compares all files; compares the checksums with
# the files and with the provenance, vets the code for every system, and runs the binary for this machine. TARGETS chooses systems, of which this
# machine's is one. Figures go to stdout.
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
find . -type f ! -name SHA256SUMS ! -name list | sed 's|^\./||' | LC_ALL=C sort >"$work/files"
cut -c 67- SHA256SUMS | cmp - "$work/files" || { echo "released: the checksums are not those of all files" >&2; exit 1; }
python3 - "dragoman-$VERSION.provenance.json" <<'E'
import json, sys
sums = dict(reversed(line.split()) for line in open("SHA256SUMS"))
del sums[sys.argv[1]]
statement = json.load(open(sys.argv[1]))
subjects = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
assert subjects == sums, subjects.items() ^ sums.items()
assert "gitCommit" in statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"], statement["predicate"]
E
echo "built twice, in two directories: the same bytes; checksums and provenance are of all $(wc -l <"$work/files") files"
# shellcheck disable=SC2046 # no name has spaces
wc -c $(cat "$work/files")
name=dragoman-$VERSION-$(go env GOOS)-$(go env GOARCH)
tar -tzvf "$name.tar.gz" | grep -v /man/
tar -xzf "$name.tar.gz"
"$name/dragoman" version | tee "$work/version"
grep -q "^dragoman $VERSION (" "$work/version"
cd "$work/one"
for target in linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go vet -trimpath ./...
	echo "go vet: $target"
done
