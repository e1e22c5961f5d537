#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install the tool's script under its own name: in the build folder that name is taken by another.
set -eu
mkdir -p "$MESON_INSTALL_DESTDIR_PREFIX/bin"
install -m 755 "$MESON_BUILD_ROOT/python/thole-installed" "$MESON_INSTALL_DESTDIR_PREFIX/bin/thole"
