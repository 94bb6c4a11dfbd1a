#!/usr/bin/env bash
# setup.sh: installs the packages of package-lock.json into conformance/node_modules. Does nothing if they are installed.
set -eu
cd "$(dirname "$0")"
command -v node >/dev/null || { echo "setup.sh: node is missing: install Node.js 20 or later (https://nodejs.org)" >&2; exit 2; }
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 20 ] || { echo "setup.sh: Node.js $(node --version) is too old: 20 or later is needed" >&2; exit 2; }
command -v npm >/dev/null || { echo "setup.sh: npm is missing: it comes with Node.js" >&2; exit 2; }
if cmp -s package-lock.json node_modules/.ready; then exit 0; fi
npm ci --no-audit --no-fund --loglevel=error
cp package-lock.json node_modules/.ready
