#!/bin/sh
# Builds the benchmark and runs it; arguments are its flags (--help lists them).
# Where there is no nginx, root on a Debian system gets its package unpacked into
# bench/.tmp: nothing is installed, and no service is started.
set -eu
cd "$(dirname "$0")/.."
tmp=bench/.tmp
mkdir -p "$tmp"

nginx=$(command -v nginx || true)
unpacked=$tmp/nginx/usr/sbin/nginx
if [ -z "$nginx" ] && [ ! -x "$unpacked" ] && [ "$(id -u)" = 0 ] &&
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
	echo "fetching nginx" >&2
	(
		cd "$tmp"
		apt-get -qq download nginx 2>/dev/null || { apt-get -qq update && apt-get -qq download nginx; }
		dpkg-deb -x nginx_*.deb nginx
		rm -f nginx_*.deb
	) >&2 || echo "nginx cannot be fetched; its cells are left out" >&2
fi
if [ -z "$nginx" ] && [ -x "$unpacked" ]; then
	if "$unpacked" -v 2>/dev/null; then nginx=$unpacked; else echo "the unpacked nginx does not run here" >&2; fi
fi

go build -o "$tmp/bench" ./bench
exec "$tmp/bench" --nginx "${nginx:-nginx}" "$@"
