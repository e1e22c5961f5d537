#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Make the wheel: wheel.sh VENVS BUILD OUT
# One for all versions of Python, and by its tag for all systems with glibc 2.34; auditwheel looks whether that is true.
# VENVS has the environments "tool" and "wheel" (venvs.sh), BUILD is kept for the next time, OUT gets the one file.
set -euo pipefail

venvs=$(realpath "$1")
mkdir -p "$2" "$3"
build=$(realpath "$2")
out=$(realpath "$3")
source=$(dirname "$(dirname "$(realpath "$0")")")
export PATH="$venvs/wheel/bin:$PATH"

rm -rf "$build/plain"
rm -f "$out"/thole-*.whl
"$venvs/tool/bin/python" -m pip --python "$venvs/wheel/bin/python" --quiet --disable-pip-version-check wheel --no-deps \
	--no-build-isolation --config-settings=build-dir="$build/meson" --wheel-dir "$build/plain" "$source"
auditwheel repair --plat "manylinux_2_34_$(uname -m)" --wheel-dir "$out" "$build"/plain/thole-*.whl 2>"$build/log" || {
	cat "$build/log" >&2
	exit 1
}
ls "$out"/thole-*.whl
