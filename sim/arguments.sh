#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The simulator says so where it is asked for no history, or for none that it knows: arguments.sh THOLE-SIM
set -euo pipefail

sim=$1
status=0

refused() {
	local ended=0

	"$sim" "$@" >/dev/null 2>&1 || ended=$?
	[ $ended = 2 ] || { echo "thole-sim $*: it ended with status $ended, not 2"; status=1; }
}

for name in seed seeds size; do
	for number in '' many 0 -1 +1 ' 1' 1e4 1.5 10x 0x10 18446744073709551616; do
		refused --scenario stream "--$name" "$number"
	done
done
refused --scenario stream --size 4294967297
refused --scenario stream --links 2
refused --scenario stream 100
refused --scenario none

ran=$("$sim" --scenario links --seed 18446744073709551615 --seeds 2)
[[ $ran == *", 2 seeds from 18446744073709551615: "[1-9]*" ok" ]] || { echo "$ran"; status=1; }
exit $status
