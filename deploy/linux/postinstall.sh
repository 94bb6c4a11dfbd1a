#!/bin/sh
# After an installation or upgrade, of deb and rpm. The service starts when somebody has enabled it, since it needs a configuration first.
set -e
[ -d /run/systemd/system ] && [ -z "${DPKG_ROOT:-}" ] || exit 0 # not in an image that is being made
systemctl daemon-reload || true
systemctl try-restart dragoman.service || true
