#!/usr/bin/env bash
# setup.sh: installs FastMCP, whose client and server have the extension for Agent Skills, pinned, into .venv. Does nothing if that version is
# installed. Needs Python 3.10 with venv, and for an installation the package registry.
set -euo pipefail
cd "$(dirname "$0")"
cmp -s requirements.txt .venv/.ready && exit 0
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  { echo "skills/setup.sh: Python 3.10 or later with venv is needed (on Debian: python3-venv)" >&2; exit 2; }
rm -rf .venv
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement requirements.txt
cp requirements.txt .venv/.ready
