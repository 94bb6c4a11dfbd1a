# common.sh: what release.sh and image.sh share; they read it with `.` in the root of the repository.

# VERSION is that of the tag of this commit, or VERSION in the environment; else "devel". Letters, digits, dots, plus and hyphens.
version() {
	v=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || echo devel)}
	case $v in *[!A-Za-z0-9.+-]* | [!A-Za-z0-9]*) echo "VERSION is \"$v\"; fix: write VERSION=v1.2.3" >&2; return 1 ;; esac
	echo "$v"
}

# The time that stands on everything that is made: that of the commit, so that it is the same again (reproducible-builds.org).
epoch() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"; }

# sbom BINARY FILE: what is in a binary, as CycloneDX JSON: its Go modules, with their hashes, and the standard library.
# cyclonedx-gomod is pinned in deploy/check/go.mod. Neither serial number nor time is in it, so that it is the same again.
sbom() {
	go -C deploy/check build -o "$work/cyclonedx-gomod" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	"$work/cyclonedx-gomod" bin -json -std -noserial -notimestamp -output "$2" ${VERSION:+-version "$VERSION"} "$1" 2>"$work/sbom.log" ||
		{ cat "$work/sbom.log" >&2; return 1; }
}
