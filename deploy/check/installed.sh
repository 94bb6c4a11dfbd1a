#!/bin/sh
# installed.sh [--short]: runs for `make installed`, and with --short for `make packed`, a part of `make test`. Makes a release for this machine,
# and installs it in every way (installed.py). In full it writes deploy/INSTALLED.md. As root on Debian it installs what it needs.
set -eu
cd "$(dirname "$0")/../.."
[ "$(uname -s)" = Linux ] || { echo "installed: only Linux shows which processes are left; nothing was tested"; exit 0; }
need=rpm
[ "${1:-}" = --short ] || need="rpm debootstrap"
for tool in $need; do
	command -v "$tool" >/dev/null && continue
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y "$tool"; } >&2
	else
		echo "installed: $tool is missing; fix: install it (on Debian: apt-get install $tool)" >&2
		exit 2
	fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
VERSION=v0.0.0-check TARGETS=linux/$(go env GOARCH) deploy/release.sh "$work/dist" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
[ "${1:-}" = --short ] || set -- --table deploy/INSTALLED.md
python3 deploy/check/installed.py "$@" "$work/dist"
