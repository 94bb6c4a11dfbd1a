# common.sh: functions of release.sh and image.sh, which source it in the root of the repository. $work is their directory for what is in between.
# shellcheck shell=sh disable=SC2154

# The version: VERSION of the environment, else the tag of this commit, else "devel". Letters, digits, dots, plus and hyphens.
version() {
	v=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || echo devel)}
	case $v in *[!A-Za-z0-9.+-]* | [!A-Za-z0-9]*) echo "VERSION is \"$v\"; fix: write VERSION=v1.2.3" >&2; return 1 ;; esac
	echo "$v"
}

# semver VERSION: the version as packages write it, 1.2.3. What is no version comes before all of them.
semver() {
	case $1 in v[0-9]*.[0-9]*.[0-9]*) echo "${1#v}" ;; *) echo "0.0.0-$1" ;; esac
}

# The time of all files that are made: that of the commit, so that builds are reproducible (reproducible-builds.org).
epoch() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"; }

# tool NAME PACKAGE: builds a tool of deploy/tools, pinned there, as $work/NAME.
tool() { [ -x "$work/$1" ] || GOFLAGS='' go -C deploy/tools build -trimpath -buildvcs=false -o "$work/$1" "$2"; }

# sbom BINARY FILE: writes the contents of a binary as CycloneDX JSON: its Go modules with their hashes, and the standard library. The same
# binary gives the same file.
sbom() {
	tool sbom ./sbom
	"$work/sbom" -version "$VERSION" "$1" >"$2"
}
