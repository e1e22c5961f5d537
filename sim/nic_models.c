/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_models: what adapters and their machines cost, as data. */
#include <string.h>

#include "nic.h"

#define KIB 1024u
#define MIB (1024u * 1024u)
#define ALL UINT64_MAX

#define COMMON_LIMITS \
	.queues = 64, .works = 256, .reads = 16, .receives = 1024, .segments = 4, .inline_max = 220, \
	.length_max = 1u << 31, .registered_max = UINT64_MAX

/* A card of 100 Gbit/s in a server of today: registration as UCX assumes it (16 us and 0.06 ns a byte). */
#define COSTS_100G \
	.register_ns = 16000, .register_page_ns = 246, .copy = {{ALL, 11000}}, .overhead_ns = 150, .poll_ns = 50, \
	.gap_ns = 20, .latency_ns = 1000, .rate = 12000, .piece = 4096, .retry_ns = 10000, .timeout_ns = 1000000
#define LIMITS_100G .mtu = 4096, .latency_ns = 1000, .rate = 12000, COMMON_LIMITS

const struct nic_model nic_models[] = {
	/*
	 * Denis, A High-Performance Superpipeline Protocol for InfiniBand, section 2: registration 68 us and 200 ns
	 * a page (20 GB/s); with it 91% of the wire's bandwidth is left, so that is 1.98 GB/s; with a copy 57%, so one
	 * of what is in no cache makes 2.62 GB/s. C0 is 8 to 16 KB, so the latency is 2 us. The caches' rates are in
	 * a figure only: these are what such a processor does (Xeon X3440).
	 */
	{
		.name = "ib-ddr",
		.about = "ConnectX DDR, Xeon X3440: Denis 2011, cluster graphene",
		.limits = {.can = NIC_CAN_WAIT | NIC_CAN_IMM | NIC_CAN_READ | NIC_CAN_ATOMIC | NIC_ORDERED, .mtu = 2048,
			   .latency_ns = 2000, .rate = 1980, COMMON_LIMITS},
		.register_ns = 68000,
		.register_page_ns = 200,
		.copy = {{32 * KIB, 9000}, {256 * KIB, 7000}, {8 * MIB, 5000}, {ALL, 2620}},
		.overhead_ns = 100,
		.poll_ns = 50,
		.gap_ns = 100,
		.latency_ns = 2000,
		.rate = 1980,
		.piece = 2048,
		.retry_ns = 10000,
		.timeout_ns = 1000000,
	},
	/* The same paper, cluster infini: QDR, 3.2 GB/s behind PCI Express 2.0; registration is "of the same order of
	 * magnitude". */
	{
		.name = "ib-qdr",
		.about = "ConnectX2 QDR, Xeon X5570: Denis 2011, cluster infini",
		.limits = {.can = NIC_CAN_WAIT | NIC_CAN_IMM | NIC_CAN_READ | NIC_CAN_ATOMIC | NIC_ORDERED, .mtu = 2048,
			   .latency_ns = 1500, .rate = 3200, COMMON_LIMITS},
		.register_ns = 68000,
		.register_page_ns = 200,
		.copy = {{32 * KIB, 11000}, {256 * KIB, 8000}, {8 * MIB, 6000}, {ALL, 4200}},
		.overhead_ns = 100,
		.poll_ns = 50,
		.gap_ns = 100,
		.latency_ns = 1500,
		.rate = 3200,
		.piece = 2048,
		.retry_ns = 10000,
		.timeout_ns = 1000000,
	},
	{
		.name = "100g",
		.about = "100 Gbit/s, a server of the 2020s",
		.limits = {.can = NIC_CAN_WAIT | NIC_CAN_IMM | NIC_CAN_READ | NIC_CAN_ATOMIC, LIMITS_100G},
		COSTS_100G,
	},
	/* The same without immediate data, as iWARP is (RFC 5040), where one end speaks first and a send that finds no
	 * receive ends all. */
	{
		.name = "iwarp",
		.about = "100g without immediate data and atomics",
		.limits = {.can = NIC_CAN_READ | NIC_LATE, LIMITS_100G},
		COSTS_100G,
	},
	/* The same with page faults (ODP). One takes some 200 us, most of it in the card's firmware (Lesokhin et al.,
	 * Page Fault Support for Network Controllers, 2017). */
	{
		.name = "odp",
		.about = "100g that finds pages by itself",
		.limits = {.can = NIC_CAN_WAIT | NIC_CAN_IMM | NIC_CAN_READ | NIC_CAN_ATOMIC | NIC_CAN_PAGE_FAULT,
			   LIMITS_100G},
		COSTS_100G,
		.fault_ns = 200000,
	},
	{.name = NULL},
};

const struct nic_model *nic_model_find(const char *name)
{
	for (const struct nic_model *model = nic_models; model->name; model++)
		if (strcmp(model->name, name) == 0)
			return model;
	return NULL;
}

uint64_t nic_model_copy_ns(const struct nic_model *model, uint64_t bytes, uint64_t whole)
{
	const struct nic_level *level = model->copy;

	while (level->bytes < whole && level < model->copy + NIC_LEVELS - 1 && level[1].rate)
		level++;
	return bytes * 1000 / level->rate;
}

uint64_t nic_model_register_ns(const struct nic_model *model, uint64_t bytes)
{
	return model->register_ns + (bytes + 4095) / 4096 * model->register_page_ns;
}

uint64_t nic_model_wire_ns(const struct nic_model *model, uint64_t bytes)
{
	return bytes * 1000 / model->rate;
}
