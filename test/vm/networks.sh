# SPDX-License-Identifier: BSD-3-Clause
# Sourced in a guest: four networks, named 0 to 3, with an interface v0 each, on one bridge. Ranks enter them by the
# variable RANKS_NETWORKS (test/system/ranks.h). MTU: of them.
ip link add bridge0 type bridge mcast_snooping 0
ip link set bridge0 up
for network in 0 1 2 3; do
	ip netns add $network
	ip link add v0 mtu ${MTU:-1500} netns $network type veth peer name p$network mtu ${MTU:-1500}
	ip link set p$network master bridge0 up
	ip -n $network link set lo up
	ip -n $network addr add 10.9.0.$((network + 1))/24 dev v0
	ip -n $network link set v0 up
done
export RANKS_NETWORKS=4 THOLE_INTERFACE=v0
