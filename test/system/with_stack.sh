#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_stack.sh KIB COMMAND...: the command, whose threads have so much stack. The first one has its environment in it,
# so that little of that goes along: HOME does, since without it modules of the system's are asked for it, on it.
# thole.h asks for 64 KiB: half is enough for all but names of MX, and the rest is other libraries'. Status 77: this
# system's pages are too large for such stacks.
kib=$1
shift
[ "$(getconf PAGESIZE)" -le 4096 ] || exit 77
ulimit -s "$kib" || exit
exec env -i "HOME=$HOME" "XDG_CONFIG_HOME=$XDG_CONFIG_HOME" "FI_PROVIDER_PATH=$FI_PROVIDER_PATH" FI_PROVIDER=thole "$@"
