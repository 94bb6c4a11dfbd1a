#!/bin/sh
# Before a removal, for which deb says "remove" and rpm 0. An upgrade goes on serving.
set -e
case ${1:-} in remove | 0) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] && [ -z "${DPKG_ROOT:-}" ] || exit 0 # not in an image that is being made
systemctl disable --now dragoman.service || true
