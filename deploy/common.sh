# common.sh: what release.sh and image.sh share; they read it with `.` in the root of the repository.

# VERSION is that of the tag of this commit, or VERSION in the environment; else "devel". Letters, digits, dots, plus and hyphens.
version() {
	v=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || echo devel)}
	case $v in *[!A-Za-z0-9.+-]* | [!A-Za-z0-9]*) echo "VERSION is \"$v\"; fix: write VERSION=v1.2.3" >&2; return 1 ;; esac
	echo "$v"
}

# The time that stands on everything that is made: that of the commit, so that it is the same again (reproducible-builds.org).
epoch() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"; }

# sbom BINARY FILE: what is in a binary, as CycloneDX JSON: its Go modules, with their hashes, and the standard library. It is the same
# again for the same binary.
sbom() {
	[ -x "$work/sbom" ] || go -C deploy/check build -buildvcs=false -o "$work/sbom" ./sbom
	"$work/sbom" -version "$VERSION" "$1" >"$2"
}
