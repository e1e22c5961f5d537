#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile the library and the hostile peer with clang's fuzzer, and let it look for a while: fuzz.sh FOLDER SECONDS
# The folder keeps the corpus, so that a later call goes on from it. Status 77: no clang, or it has no fuzzer.
set -euo pipefail

folder=$1 seconds=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
clang=
for name in clang clang-{21,20,19,18,17,16,15,14}; do
	if command -v "$name" >/dev/null; then clang=$name && break; fi
done
[ -n "$clang" ] || { echo "no clang"; exit 77; }

flags=(-fsanitize=fuzzer,address -std=gnu11 -D_GNU_SOURCE -O1 -g -fno-strict-aliasing -w)
mkdir -p "$folder/corpus"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return 0; }' >"$folder/probe.c"
"$clang" "${flags[@]}" "$folder/probe.c" -o "$folder/probe" 2>/dev/null || { echo "$clang has no fuzzer"; exit 77; }

mapfile -t sources < <(find "$root/src" -name '*.c' | sort)
"$clang" "${flags[@]}" -I"$root/include" -I"$root/src" "$root"/test/fuzz/hostile.c "$root"/test/fuzz/hostile_fuzzer.c \
	"${sources[@]}" -o "$folder/hostile-fuzzer" -lpthread -Wl,--wrap=process_vm_writev
exec "$folder/hostile-fuzzer" -max_total_time="$seconds" -max_len=3000 -len_control=0 -timeout=60 \
	-artifact_prefix="$folder/" -print_final_stats=1 "$folder/corpus"
