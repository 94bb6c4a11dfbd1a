#!/usr/bin/env bash
# suite.sh URL REVISION [options]        the official suite's server scenarios at URL, compared check by check with a baseline
#   REVISION         2025-03-26 | 2025-06-18 | 2025-11-25 | 2026-07-28
#   --requirements   judges the suite's frozen requirement set of that revision instead: nothing in it may fail or warn
#   --cell NAME      the cell of URL: its differences in differs.tsv are excused, and lines of differs.tsv that it no longer needs fail
#   --save FILE      records a baseline instead of comparing
#   --baseline FILE  compares with FILE instead of baselines/dual.REVISION.json
#   --differs FILE   another differs.tsv (also DIFFERS=FILE)
#   --keep DIR       keeps the suite's raw results in DIR
#   --verbose        prints a line for every scenario, not only for differences
# Use http://localhost:PORT in URL: the suite derives from it which Host headers are the server's own.
# Last line: `N passed, N failed` (scenarios; a stale line counts as failed). Exit 0 only when nothing failed. Ends after SUITE_TIMEOUT seconds (180).
set -u
. "$(dirname "$0")/lib.sh"
need_packages
node22=$(node_for_suite) || exit 2
exec timeout -k 5 "${SUITE_TIMEOUT:-180}" "$node22" "$HERE/suite.mjs" "$@"
