#!/bin/sh
# Runs the Go benchmarks of this tree and of another revision in turn, and compares them with benchstat.
#
#   bench/micro.sh [--against REVISION] [--count N] [--time T] [--bench REGEXP] [PACKAGE...]
#
# REVISION is by default the last tag, or without tags the twentieth commit before this one. PACKAGE is a directory, such as proxy/wire; by
# default all with benchmarks in both trees, except bench and conformance. N is 8 by default: fewer are not significant.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da # pinned, so that its results do not change by themselves

against= count=8 time=100ms bench=.
while [ $# -gt 0 ]; do
	case $1 in
	--against) against=$2; shift 2 ;;
	--count) count=$2; shift 2 ;;
	--time) time=$2; shift 2 ;;
	--bench) bench=$2; shift 2 ;;
	--help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
	-*) echo "micro: there is no $1; see --help" >&2; exit 2 ;;
	*) break ;;
	esac
done
if [ -z "$against" ]; then
	against=$(git describe --tags --abbrev=0 2>/dev/null || git rev-parse --verify --quiet HEAD~20 || git rev-list --max-parents=0 HEAD | tail -1)
fi
commit=$(git rev-parse --verify --quiet "$against^{commit}") || {
	echo "micro: there is no revision $against" >&2
	exit 2
}

tmp=$root/bench/.tmp/micro
mkdir -p "$tmp"
tmp=$(mktemp -d "$tmp/XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
mkdir "$tmp/tree" "$tmp/old" "$tmp/new"
git archive "$commit" | tar -x -C "$tmp/tree"

# benchmarks ROOT: the directories with benchmarks below it.
benchmarks() {
	(cd "$1" && find . \( -name node_modules -o -name '.?*' -o -path ./bench -o -path ./conformance -o -path ./deploy \) -prune -o -name '*_test.go' -print |
		xargs grep -l '^func Benchmark' | sed 's,/[^/]*$,,; s,^\./,,' | sort -u)
}
if [ $# -eq 0 ]; then
	benchmarks "$root" >"$tmp/here"
	benchmarks "$tmp/tree" >"$tmp/there"
	# shellcheck disable=SC2046 # word splitting is intended
	set -- $(comm -12 "$tmp/here" "$tmp/there")
	only=$(comm -23 "$tmp/here" "$tmp/there" | tr '\n' ' ')
	[ -z "$only" ] || echo "micro: without benchmarks at $against: $only" >&2
fi

export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
for package; do
	name=$(echo "$package" | tr / _)
	go test -trimpath -c -o "$tmp/new/$name" "./$package"
	(cd "$tmp/tree" && go test -trimpath -c -o "$tmp/old/$name" "./$package")
	for which in old new; do # a package without tests makes no program
		[ -x "$tmp/$which/$name" ] || { echo "micro: $package has no tests" >&2; exit 2; }
	done
done

# once WHICH PACKAGE runs the benchmarks of a package once.
once() {
	case $1 in old) at=$tmp/tree ;; *) at=$root ;; esac
	(cd "$at/$2" && "$tmp/$1/$(echo "$2" | tr / _)" -test.run '^$' -test.bench "$bench" -test.benchmem -test.benchtime "$time") >>"$tmp/$1.txt"
}
round=1
while [ "$round" -le "$count" ]; do
	echo "micro: round $round of $count" >&2
	for package; do
		if [ $((round % 2)) = 0 ]; then
			once old "$package"
			once new "$package"
		else
			once new "$package"
			once old "$package"
		fi
	done
	round=$((round + 1))
done
cd "$tmp" # benchstat prints the names of the files
mv old.txt "$(echo "$against" | cut -c1-12 | tr / _)"
mv new.txt here
GOFLAGS='' go run "$benchstat" "$(echo "$against" | cut -c1-12 | tr / _)" here
