#!/bin/sh
# Builds the test of rolling restarts and runs it. Arguments are its flags (--help lists them).
# If HAProxy is missing and the user is root on Debian, its package and dependencies are unpacked into bench/.tmp: nothing is installed and no
# service started.
set -eu
cd "$(dirname "$0")/../../.."
tmp=bench/.tmp
mkdir -p "$tmp"
haproxy=$(command -v haproxy || true)
unpacked=$tmp/haproxy/usr/sbin/haproxy
if [ -z "$haproxy" ] && [ ! -x "$unpacked" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
	echo "fetching haproxy" >&2
	(
		cd "$tmp"
		get() { apt-get -qq download haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1; }
		get 2>/dev/null || { apt-get -qq update && get; }
		for deb in haproxy_*.deb liblua5.3-0_*.deb libopentracing*.deb; do dpkg-deb -x "$deb" haproxy; rm -f "$deb"; done
	) >&2 || echo "haproxy cannot be fetched" >&2
fi
if [ -z "$haproxy" ] && [ -x "$unpacked" ]; then
	lib=$(cd "$tmp/haproxy" && pwd)/usr/lib/$(uname -m)-linux-gnu
	export LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	"$unpacked" -v >/dev/null && haproxy=$unpacked
fi
[ -n "$haproxy" ] || { echo "rolling: there is no haproxy; install it (apt-get install haproxy)" >&2; exit 1; }
go -C bench/lab build -o "$PWD/$tmp/rolling" ./rolling
exec "$tmp/rolling" --haproxy "$haproxy" "$@"
