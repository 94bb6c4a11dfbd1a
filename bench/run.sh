#!/bin/sh
# Builds the benchmark, and Dragoman if it is missing, and runs it. Arguments are flags of the benchmark (--help lists them).
# If nginx is missing and the user is root on Debian, its package is unpacked into bench/.tmp: nothing is installed and no service started.
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
	) >&2 || echo "nginx cannot be fetched; its cell is left out" >&2
fi
if [ -z "$nginx" ] && [ -x "$unpacked" ]; then
	if "$unpacked" -v 2>/dev/null; then nginx=$unpacked; else echo "the unpacked nginx does not run on this machine" >&2; fi
fi

# The same for valgrind, if instructions are counted.
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

# The section grpc has programs of its own. A --ghz of the caller is used as it is.
version=v0.93.0
case " $* " in
*grpc*) grpc=yes ;;
*" --sections "* | *" --cells "* | *" --sizes "* | *" --sse "* | *" --limits "* | *" --instructions "* | *" --summarise "* | *" --help "*) grpc= ;;
*) grpc=yes ;;
esac
if [ "$grpc" ]; then
	go -C bench/lab build -o "../.tmp/grpc" ./grpc || { rm -f "$tmp/grpc"; echo "bench/lab/grpc cannot be built; its cells are left out" >&2; }
	case " $* " in *" --ghz "*) ;; *)
		if [ ! -x "$tmp/ghz-$version" ]; then
			echo "fetching ghz" >&2
			GOBIN=$PWD/$tmp go install "github.com/bojand/ghz/cmd/ghz@$version" >&2 && mv "$tmp/ghz" "$tmp/ghz-$version" ||
				echo "ghz cannot be built; its cells are left out" >&2
		fi
		set -- --ghz "$tmp/ghz-$version" "$@"
		;;
	esac
fi

[ -x dragoman ] || CGO_ENABLED=0 go build -trimpath -o dragoman .
CGO_ENABLED=0 go build -o "$tmp/bench" ./bench
exec "$tmp/bench" --nginx "${nginx:-nginx}" "$@"
