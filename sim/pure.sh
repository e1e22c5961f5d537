#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Pure parts make no system call, read no clock, draw no random number and print nothing: pure.sh LIBRARY
# Of the C library they use what is listed here, and nothing else. (No linker sees that they allocate nothing after
# set-up.)
set -euo pipefail
shopt -s extglob

library=$1
allowed='calloc|free|malloc|memalign|memchr|memcmp|memcpy|memmove|memset|realloc|strlen'
# What compilers, sanitizers and position independent code call on their own.
allowed+='|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__(memcpy|memmove|memset)_chk|__cpu_model|__cpu_indicator_init'
allowed+='|__popcountdi2'
allowed+='|__(asan|ubsan|tsan|sanitizer)_.*|__gcov_.*'
# Folders of src, whole where all in them is pure; each of these names a member at least.
pure=(base_{array,extents,heap,pool,siphash,spare,vector} 'match_*' 'memory_!(driver)' 'message_*'
	transport_datagram_{answer,arrival,block,burst,connection,engine,guard,handover,handshake,kind}
	transport_datagram_{naming_mxoe,naming_native,pull,route,scatter,serve,silence,transmit,transmit_frame}
	'transport_datagram_wire_*' transport_shm_passage
	transport_verbs_{bulk,card,choose,hello,pair,pipeline,plan,records})

defined=$(mktemp) && trap 'rm -f "$defined"' EXIT
nm --defined-only "$library" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$defined"
parts=$(nm -A "$library" | sed -nE 's/.*[:\/]([^:\/]+)\.c\.o:.*/\1/p' | sort -u)
foreign=$(nm -A --undefined-only "$library" | sed -nE 's/.*[:\/]([^:\/]+)\.c\.o: +[Uw] +/\1 uses /p' | sort -u |
	awk 'NR == FNR { ours[$1]; next } !($3 in ours)' "$defined" - | grep -vE " ($allowed)$")

status=0
for name in "${pure[@]}"; do
	members=0
	for part in $parts; do
		# shellcheck disable=SC2053 # a pattern
		[[ $part == $name ]] || continue
		members=1
		! grep "^$part uses " <<<"$foreign" || status=1
	done
	[ $members = 1 ] || { echo "$library has no $name"; status=1; }
done
exit $status
