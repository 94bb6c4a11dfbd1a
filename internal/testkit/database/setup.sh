#!/usr/bin/env bash
# setup.sh: makes sure that the tests find PostgreSQL. If it is missing, root on Debian and Ubuntu gets its package, without a cluster: the
# tests make their own. Others are told what to do. Exit status 0 only if it is there.
set -euo pipefail

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
