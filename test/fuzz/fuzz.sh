#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile a target and what it runs with clang's fuzzer, and let it look for a while: fuzz.sh FOLDER SECONDS [TARGET]
# Targets: hostile (a peer beside a whole endpoint, the default), codec (frames) and engine (frames into live endpoints over the
# simulated network). The folder keeps each target's corpus, so that a later call goes on from it. Status 77: no clang, or it
# has no fuzzer.
set -euo pipefail

folder=$1 seconds=$2 target=${3:-hostile}
root=$(cd "$(dirname "$0")/../.." && pwd)
clang=
for name in clang clang-{21,20,19,18,17,16,15,14}; do
	if command -v "$name" >/dev/null; then clang=$name && break; fi
done
[ -n "$clang" ] || { echo "no clang"; exit 77; }

link=() length=3000
case $target in
hostile)
	mapfile -t sources < <(find "$root/src" -name '*.c' | sort)
	link=(-Wl,--wrap=process_vm_writev) ;;
codec)
	sources=("$root"/src/transport/datagram/wire/*.c)
	length=9300 ;;
engine)
	mapfile -t sources < <(find "$root/src" -name '*.c' | sort)
	for part in network process traffic frames world; do sources+=("$root/sim/$part.c"); done ;;
*) echo "fuzz.sh: no target $target" >&2; exit 2 ;;
esac

flags=(-fsanitize=fuzzer,address -std=gnu11 -D_GNU_SOURCE -O1 -g -fno-strict-aliasing -w)
mkdir -p "$folder/corpus/$target"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return 0; }' >"$folder/probe.c"
"$clang" "${flags[@]}" "$folder/probe.c" -o "$folder/probe" 2>/dev/null || { echo "$clang has no fuzzer"; exit 77; }

"$clang" "${flags[@]}" -I"$root/include" -I"$root/src" "$root/test/fuzz/$target.c" "$root/test/fuzz/fuzzer.c" \
	"${sources[@]}" -o "$folder/$target-fuzzer" -lpthread "${link[@]}"
exec "$folder/$target-fuzzer" -max_total_time="$seconds" -max_len="$length" -len_control=0 -timeout=60 \
	-artifact_prefix="$folder/$target-" -print_final_stats=1 "$folder/corpus/$target"
