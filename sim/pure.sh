#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Pure parts make no system call, read no clock, draw no random number and print nothing: pure.sh LIBRARY
# Of the C library they use what is listed here, and nothing else. (No linker sees that they allocate nothing after
# set-up.)
set -euo pipefail

library=$1
allowed='aligned_alloc|calloc|free|malloc|memchr|memcmp|memcpy|memmove|memset|realloc|strlen'
# What compilers, sanitizers and position independent code call on their own.
allowed+='|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__(memcpy|memmove|memset)_chk|__cpu_model|__cpu_indicator_init'
allowed+='|__popcountdi2'
allowed+='|__(asan|ubsan|tsan|sanitizer)_.*|__gcov_.*'
pure='base_(array|heap|pool|siphash|vector)|match_match|memory_(area|cache|region)'
pure+='|message_(message|peer|receive|remote|request)'
pure+='|transport_datagram_(answer|arrival|block|burst|connection|engine|guard|handover|handshake|kind'
pure+='|naming_(mxoe|native)|pull|route|scatter|sequence|serve|silence|transmit|transmit_frame|trip'
pure+='|wire_(crc32c|mxoe|native))|transport_verbs_(bulk|card|choose|hello|pair|pipeline|plan|records)'

defined=$(mktemp) && trap 'rm -f "$defined"' EXIT
nm --defined-only "$library" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$defined"
found=$(nm -A --undefined-only "$library" | sed -nE "s/.*[:\/]($pure)\.c\.o: +[Uw] +/\1 /p" | sort -u)
members=$(cut -d' ' -f1 <<<"$found" | sort -u | wc -l)
[ "$members" -ge 20 ] || { echo "only $members pure parts were found in $library"; exit 1; }

status=0
while read -r part symbol; do
	if ! grep -qxF "$symbol" "$defined" && ! grep -qxE "$allowed" <<<"$symbol"; then
		echo "$part uses $symbol"
		status=1
	fi
done <<<"$found"
exit $status
