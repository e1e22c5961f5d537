#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile a target and what it runs with clang's fuzzer, and let it look for a while: fuzz.sh FOLDER SECONDS [TARGET]
# Targets: hostile (a peer beside a whole endpoint, the default), codec (frames) and engine (frames into live endpoints
# over the simulated network). The folder keeps each target's corpus, so that a later call goes on from it, and the
# library that all of them are linked with, until a source changes. Status 77: no clang, or it has no fuzzer.
set -euo pipefail

folder=$1 seconds=$2 target=${3:-hostile}
root=$(cd "$(dirname "$0")/../.." && pwd)
clang=
for name in clang clang-{21,20,19,18,17,16,15,14}; do
	if command -v "$name" >/dev/null; then clang=$name && break; fi
done
[ -n "$clang" ] || { echo "no clang"; exit 77; }

own=("$root/test/fuzz/$target.c" "$root/test/fuzz/fuzzer.c") link=() length=3000
case $target in
hostile) link=(-Wl,--wrap=process_vm_readv -Wl,--wrap=process_vm_writev) ;;
codec) length=9300 ;;
engine)
	for part in carrier exposed frames mover network nic nic_models op process settle traffic world; do
		own+=("$root/sim/$part.c")
	done ;;
*) echo "fuzz.sh: no target $target" >&2; exit 2 ;;
esac

flags=(-fsanitize=fuzzer,address -std=gnu11 -D_GNU_SOURCE -O1 -g1 -fno-strict-aliasing -w)
flags+=("-I$root/include" "-I$root/src" "-I$root/kernel" "-I$folder/made")
mkdir -p "$folder/corpus/$target"
made=$(mktemp -d "$folder/made.XXXXXX")
trap 'rm -rf "$made"' EXIT
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return 0; }' >"$made/probe.c"
"$clang" "${flags[@]}" "$made/probe.c" -o "$made/probe" 2>/dev/null || { echo "$clang has no fuzzer"; exit 77; }

# Calls may go on side by side, of one target, too: one of them compiles the library, on all processors, and the others
# wait; and nobody writes to a program that another runs.
library=$folder/fuzzed.a
exec {lock}>"$folder/lock"
flock "$lock"
sources=("$root/src" "$root/include" '(' -name '*.[ch]' -o -name '*.fields' ')')
if [ ! -e "$library" ] || [ -n "$(find "${sources[@]}" -newer "$library" -print -quit)" ]; then
	mkdir -p "$folder/made/transport/datagram/wire"
	for fields in "$root"/src/transport/datagram/wire/*.fields; do
		python3 "$root/tools/fields.py" header "$fields" \
			>"$folder/made/transport/datagram/wire/$(basename "$fields" .fields)_fields.h"
	done
	find "$root/src" -name '*.c' | while read -r source; do
		printf '%s\0' "$source" -o "$made/${source//\//_}.o"
	done | xargs -0 -n 3 -P "$(nproc)" "$clang" "${flags[@]}" -c
	ar rc "$made/library" "$made"/*.o
	mv "$made/library" "$library"
fi
exec {lock}>&-

"$clang" "${flags[@]}" "${own[@]}" "$library" -o "$made/fuzzer" -lpthread "${link[@]}"
mv "$made/fuzzer" "$folder/$target-fuzzer"
rm -r "$made"
exec "$folder/$target-fuzzer" -max_total_time="$seconds" -max_len="$length" -len_control=0 -timeout=60 \
	-artifact_prefix="$folder/$target-" -print_final_stats=1 "$folder/corpus/$target"
