#!/usr/bin/env bash
# build.sh [PROVIDER…]: builds providers, or all of them, into .build/. The first time takes a minute or two for provider-rust, whose
# crates are fetched from crates.io. Needs Go 1.26 for provider-go and Rust 1.88 for provider-rust.
set -eu
cd "$(dirname "$0")"
need() { command -v "$1" >/dev/null || { echo "examples/build.sh: $1 is missing: $2" >&2; exit 2; }; }
[ $# -gt 0 ] || set -- provider-go provider-rust
mkdir -p .build
for provider; do
  case $provider in
    provider-go)
      need go "install Go 1.26 or later (https://go.dev/dl)"
      CGO_ENABLED=0 go build -trimpath -o .build/provider-go ./provider-go
      ;;
    provider-rust)
      need cargo "install Rust 1.88 or later (https://rustup.rs)"
      cargo build --quiet --locked --manifest-path provider-rust/Cargo.toml --target-dir .build/rust
      ln -sf rust/debug/provider-rust .build/provider-rust
      ;;
    *) echo "examples/build.sh: there is no provider $provider; fix: name provider-go or provider-rust" >&2; exit 2 ;;
  esac
done
