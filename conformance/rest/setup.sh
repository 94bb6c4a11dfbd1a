#!/usr/bin/env bash
# setup.sh: installs Schemathesis, a client generator and a validator of OpenAPI documents, pinned, into .venv. Does nothing if the versions
# of requirements.txt are installed. Needs Python 3.10 with venv, and for an installation the package registry.
set -eu
cd "$(dirname "$0")"
cmp -s requirements.txt .venv/.ready && exit 0
command -v python3 >/dev/null ||
  { echo "rest/setup.sh: python3 is missing: install Python 3.10 or later with venv (python3-venv)" >&2; exit 2; }
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  { echo "rest/setup.sh: Python 3.10 or later with venv is needed (on Debian: python3-venv)" >&2; exit 2; }
rm -rf .venv
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement requirements.txt
.venv/bin/pip check --quiet --disable-pip-version-check
cp requirements.txt .venv/.ready
