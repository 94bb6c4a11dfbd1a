#!/usr/bin/env bash
# setup.sh: installs what judges and calls generated code, pinned: node_modules/ and .venv/. Does nothing if the pinned versions are installed. Needs
# Node.js 20, Python 3.10 with venv, and for an installation the package registries. The servers are those of ../servers, the clients those of ../setup.sh.
set -eu
cd "$(dirname "$0")"
if ! cmp -s package-lock.json node_modules/.ready; then
  npm ci --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.ready
fi
if ! cmp -s requirements.txt .venv/.ready; then
  python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    { echo "generated/setup.sh: Python 3.10 or later with venv is needed (on Debian: python3-venv)" >&2; exit 2; }
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt
  cp requirements.txt .venv/.ready
fi
