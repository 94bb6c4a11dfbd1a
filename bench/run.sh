#!/bin/sh
# Builds the benchmark, and Dragoman where there is none, and runs it; arguments are its flags (--help lists them).
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

# Likewise valgrind, where instructions are to be counted.
case " $* " in *" --instructions "* | *" --instructions="*)
	if ! command -v valgrind >/dev/null; then
		if [ ! -x "$tmp/valgrind/usr/bin/valgrind" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
			echo "fetching valgrind" >&2
			(
				cd "$tmp"
				apt-get -qq download valgrind 2>/dev/null || { apt-get -qq update && apt-get -qq download valgrind; }
				dpkg-deb -x valgrind_*.deb valgrind
				rm -f valgrind_*.deb
			) >&2 || true
		fi
		PATH=$PATH:$PWD/$tmp/valgrind/usr/bin
		VALGRIND_LIB=$PWD/$tmp/valgrind/usr/libexec/valgrind
		export PATH VALGRIND_LIB
	fi
	;;
esac

[ -x dragoman ] || CGO_ENABLED=0 go build -trimpath -o dragoman .
CGO_ENABLED=0 go build -o "$tmp/bench" ./bench
exec "$tmp/bench" --nginx "${nginx:-nginx}" "$@"
