#!/usr/bin/env bash
# setup.sh: installs the makers' software at pinned versions: .java/ (Maven Central, compiled by javac), .venv/ (PyPI, by the uv of
# servers/setup.sh), npm/node_modules, and .rust/ (crates.io, compiled by cargo). Does nothing if they are installed; the first time takes
# a minute or two. Needs JDK 17, Maven, Python 3.11 with venv, Node.js 20, Rust 1.88, and for an installation the package registries.
set -eu
cd "$(dirname "$0")"
need() { command -v "$1" >/dev/null || { echo "makers/setup.sh: $1 is missing: $2" >&2; exit 2; }; }
need javac "install a JDK, 17 or later"
need mvn "install Maven"
need python3 "install Python 3.11 or later with venv"
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  { echo "makers/setup.sh: Python 3.11 or later with venv is needed (on Debian: python3-venv)" >&2; exit 2; }
need npm "install Node.js 20 or later"
need cargo "install Rust 1.88 or later (https://rustup.rs)"

# current STAMP FILE…: whether STAMP has the contents of the files; else remember writes it.
current() { cat "${@:2}" | cmp -s - "$1"; }
remember() { cat "${@:2}" >"$1"; }

java() {
  current .java/.ready java/pom.xml java/*.java && return
  rm -rf .java/classes
  current .java/.fetched java/pom.xml || {
    rm -rf .java
    mvn -q -B -f java/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies "-DoutputDirectory=$PWD/.java/lib"
    remember .java/.fetched java/pom.xml
  }
  javac -nowarn -Xlint:none -cp '.java/lib/*' -d .java/classes java/*.java
  remember .java/.ready java/pom.xml java/*.java
}

python() {
  current .venv/.ready python/requirements.txt && return
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
  VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip install --quiet --no-config --compile-bytecode -r python/requirements.txt
  remember .venv/.ready python/requirements.txt
}

node() {
  current npm/node_modules/.ready npm/package-lock.json && return
  (cd npm && npm ci --no-audit --no-fund --loglevel=error)
  remember npm/node_modules/.ready npm/package-lock.json
}

rust() {
  current .rust/.ready rust/Cargo.toml rust/Cargo.lock rust/src/main.rs && return
  cargo build --quiet --locked --manifest-path rust/Cargo.toml --target-dir .rust
  remember .rust/.ready rust/Cargo.toml rust/Cargo.lock rust/src/main.rs
}

java & one=$!
python & two=$!
node & three=$!
rust
wait $one && wait $two && wait $three
