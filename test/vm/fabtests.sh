#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One of libfabric's own tests between two guests:
#
#     fabtests.sh serve PROGRAM WORDS...      its server; says `listening` when a client can find it
#     fabtests.sh AGENT HOST PROGRAM WORDS... starts that on HOST by AGENT, and runs the client; names the test if one
#                                             end fails, with what both said last
limit_s=250
port=0BB8 # 3000, in hexadecimal: where fabtests exchange addresses out of band

serve() {
	timeout "$limit_s" "$@" -E &
	until grep -q ":$port .* 0A " /proc/net/tcp /proc/net/tcp6 || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
	echo listening
	wait $!
}

if [ "$1" = serve ]; then
	serve "${@:2}"
	exit
fi
agent=$1 host=$2
shift 2
said=$(mktemp -d)
$agent "$host" "$0 serve $*" >"$said/server" 2>&1 &
until grep -q listening "$said/server" || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
timeout "$limit_s" "$@" -E "$host" >"$said/client" 2>&1
client=$?
wait $!
server=$?
grep -h 'counter ' "$said"/*
echo "$SECONDS s: $*"
[ $client = 0 ] && [ $server = 0 ] && exit
echo "failed: $*: $server at the server, $client at the client"
tail -n 20 "$said/server" "$said/client"
