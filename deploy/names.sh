# names.sh: the names under which a release is published. Nothing is published yet. Change them here, or set them in the environment;
# shellcheck shell=sh
# documents name those written here, which a test checks.

: "${NPM_NAME:=dragoman-mcp}"                                   # of the npm package; NAME-linux-x64 and so on are its binaries
: "${PYPI_NAME:=dragoman-mcp}"                                  # of the Python package
: "${LINUX_NAME:=dragoman}"                                     # of the deb and rpm packages
: "${MAINTAINER:=The Dragoman authors <dragoman@example.com>}"  # of the deb and rpm packages
: "${MODULE:=example.com/dragoman}"                             # of the Go module; its last element is the command's name
: "${HOMEPAGE:=https://example.com/dragoman}"                   # in all packages
: "${BUILDER_ID:=https://example.com/dragoman/builder}"         # who builds, in the provenance (SLSA: builder.id, a URI)
: "${BUILD_TYPE:=https://example.com/dragoman/release/v1}"      # how: what release.sh does (SLSA: buildType, a URI)
export NPM_NAME PYPI_NAME LINUX_NAME MAINTAINER MODULE HOMEPAGE BUILDER_ID BUILD_TYPE
