# common.sh: functions of release.sh and image.sh, which source it in the root of the repository.

# The version: VERSION of the environment, else the tag of this commit, else "devel". Letters, digits, dots, plus and hyphens.
version() {
	v=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || echo devel)}
	case $v in *[!A-Za-z0-9.+-]* | [!A-Za-z0-9]*) echo "VERSION is \"$v\"; fix: write VERSION=v1.2.3" >&2; return 1 ;; esac
	echo "$v"
}

# The time of all files that are made: that of the commit, so that builds are reproducible (reproducible-builds.org).
epoch() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"; }

# sbom BINARY FILE: writes the contents of a binary as CycloneDX JSON: its Go modules with their hashes, and the standard library. The same
# binary gives the same file.
sbom() {
	[ -x "$work/sbom" ] || go -C deploy/check build -buildvcs=false -o "$work/sbom" ./sbom
	"$work/sbom" -version "$VERSION" "$1" >"$2"
}
