#!/bin/sh
# copy.sh DIRECTORY: copies the tree, without ignored files, and commits it in a repository of its own, so that a build there has a revision
# and is not affected by later edits.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p "$1"
git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar --files-from - -cf - | tar -xf - -C "$1"
cd "$1"
export GIT_AUTHOR_NAME=check GIT_AUTHOR_EMAIL=check@example.com GIT_AUTHOR_DATE='2026-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=check GIT_COMMITTER_EMAIL=check@example.com GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
git init -q
git add -A
git commit -q -m check
