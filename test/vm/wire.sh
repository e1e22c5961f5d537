# SPDX-License-Identifier: BSD-3-Clause
# Sourced in a guest: a wire with both ends here, va (10.0.0.1) and vb (10.0.0.2), and an adapter for remote DMA at
# each, rxe_va and rxe_vb, or siw_va and siw_vb with wire_cards=siw. Both are in one network namespace, since soft-RoCE
# knows no other before 6.17; so rules send what goes from one to the other out over the wire, which the kernel would
# hand over inside else.
wire_mtu=${wire_mtu:-4200} # so that adapters send 4096 bytes a frame
ip link add va type veth peer name vb
for end in va:1 vb:2; do
	name=${end%:*}
	echo 1 >/proc/sys/net/ipv4/conf/$name/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/$name/rp_filter
	ip link set $name mtu $wire_mtu up
	ip addr add 10.0.0.${end#*:}/24 dev $name
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
ip rule add pref 10 lookup local
ip rule add pref 1 iif lo to 10.0.0.2 lookup 101
ip rule add pref 2 iif lo to 10.0.0.1 lookup 102
ip route add 10.0.0.2/32 dev va src 10.0.0.1 table 101
ip route add 10.0.0.1/32 dev vb src 10.0.0.2 table 102
ip rule del pref 0
wire_cards=${wire_cards:-rxe}
rdma link add ${wire_cards}_va type $wire_cards netdev va &&
	rdma link add ${wire_cards}_vb type $wire_cards netdev vb
