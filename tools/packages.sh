#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Install the system packages that a purpose needs and that are missing: packages.sh build|test|bench|install|vm
# Says nothing and needs no privilege where all are there.
set -euo pipefail

case "${1:-}" in
build) wanted=(gcc libc6-dev pkg-config libfabric-dev libucx-dev python3 python3-venv ca-certificates
	iproute2 libibverbs-dev librdmacm-dev) ;;
test) wanted=(gcc libc6-dev pkg-config libfabric-dev libucx-dev python3 python3-venv ca-certificates
	libcmocka-dev libseccomp-dev libibverbs-dev librdmacm-dev openmpi-bin libopenmpi-dev mpich libmpich-dev gfortran
	iproute2 procps strace clang libclang-rt-dev tshark munge slurmctld slurmd slurm-client) ;;
bench) wanted=(openmpi-bin libopenmpi-dev hpcc) ;;
vm) wanted=(qemu-system-x86 make gcc zstd iproute2 libibverbs-dev librdmacm-dev ibverbs-providers) ;;
install) wanted=(python3-rich python3-matplotlib) ;;
*) echo "usage: $0 build|test|bench|install|vm" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	# Another distribution: meson says what it misses, with better names than we could.
	exit 0
fi

missing=()
for package in "${wanted[@]}"; do
	state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "thole: packages are missing and there is no sudo; as root: apt-get install ${missing[*]}" >&2
		exit 2
	fi
	as_root=(sudo)
fi
echo "installing system packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0 "$@" \
		</dev/null >>"$log" 2>&1
}
# The lists may be missing or old: update only if the first try fails.
if ! apt install --no-install-recommends "${missing[@]}"; then
	if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
		tail -n 20 "$log" >&2
		echo "thole: apt-get could not install: ${missing[*]}; mend that and start again" >&2
		exit 2
	fi
fi
