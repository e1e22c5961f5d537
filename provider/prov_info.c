/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_info.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "prov_address.h"
#include "prov_core.h"
#include "prov_domain.h"
#include "prov_error.h"
#include "prov_fabric.h"
#include "prov_option.h"
#include "thole.h"

#define TX_MESSAGE  FI_SEND
#define RX_MESSAGE  (FI_RECV | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV)
#define TX_ACCESS   (FI_READ | FI_WRITE)
#define RX_ACCESS   (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define TRANSFERS   (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define TX_CAPS     (TRANSFERS | TX_MESSAGE | TX_ACCESS | DOMAIN_CAPS)
#define RX_CAPS     (TRANSFERS | RX_MESSAGE | RX_ACCESS | FI_RMA_EVENT | DOMAIN_CAPS)
#define ALL_CAPS    (TX_CAPS | RX_CAPS)
/* Counting peers' accesses costs them a notice each, so only who asks gets it. */
#define DEFAULT_CAPS (ALL_CAPS & ~FI_RMA_EVENT)

#define TX_FLAGS                                                                                                       \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |                \
	 FI_MATCH_COMPLETE)
#define RX_FLAGS (FI_COMPLETION | FI_MULTI_RECV)

/* thole.h: messages of one source never overtake each other, nor do its atomics. */
#define ATOMIC_ORDER (FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
#define ORDER        (FI_ORDER_SAS | ATOMIC_ORDER)

/* ---- What is asked beyond ----------------------------------------------------------------------------- */

/* These say in the log which hint cannot be had: libfabric has one number for all, and programs say that there is no
 * provider. */
static bool prov_info_is(const char *hint, bool fits)
{
	if (!fits)
		PROV_INFO(FI_LOG_CORE, "not with this %s", hint);
	return fits;
}

static bool prov_info_none_beyond(const char *hint, uint64_t asked, uint64_t supported)
{
	if (asked & ~supported)
		PROV_INFO(FI_LOG_CORE, "not with this %s: of 0x%" PRIx64 " there is not 0x%" PRIx64, hint, asked,
			  asked & ~supported);
	return !(asked & ~supported);
}

static bool prov_info_at_most(const char *hint, uint64_t asked, uint64_t most)
{
	if (asked > most)
		PROV_INFO(FI_LOG_CORE, "not with this %s: %" PRIu64 ", and at most %" PRIu64 " is possible", hint,
			  asked, most);
	return asked <= most;
}

static bool prov_info_name_fits(const char *hint, const char *asked, const char *ours)
{
	if (!asked || !strcasecmp(asked, ours))
		return true;
	PROV_INFO(FI_LOG_CORE, "not with this %s: \"%s\", and ours is \"%s\"", hint, asked, ours);
	return false;
}

static bool prov_info_tx_fits(const struct fi_tx_attr *asked)
{
	return !asked || (prov_info_none_beyond("tx_attr->caps", asked->caps, TX_CAPS) &&
			  prov_info_none_beyond("tx_attr->op_flags", asked->op_flags, TX_FLAGS) &&
			  prov_info_none_beyond("tx_attr->msg_order", asked->msg_order, ORDER) &&
			  prov_info_none_beyond("tx_attr->comp_order", asked->comp_order, 0) &&
			  prov_info_at_most("tx_attr->inject_size", asked->inject_size, PROV_INJECT_MAX) &&
			  prov_info_at_most("tx_attr->iov_limit", asked->iov_limit, PROV_SEGMENTS_MAX) &&
			  prov_info_at_most("tx_attr->rma_iov_limit", asked->rma_iov_limit, 1));
}

static bool prov_info_rx_fits(const struct fi_rx_attr *asked)
{
	return !asked || (prov_info_none_beyond("rx_attr->caps", asked->caps, RX_CAPS) &&
			  prov_info_none_beyond("rx_attr->op_flags", asked->op_flags, RX_FLAGS) &&
			  prov_info_none_beyond("rx_attr->msg_order", asked->msg_order, ORDER) &&
			  prov_info_none_beyond("rx_attr->comp_order", asked->comp_order, 0) &&
			  prov_info_at_most("rx_attr->iov_limit", asked->iov_limit, PROV_SEGMENTS_MAX));
}

static bool prov_info_order_fits(const struct fi_ep_attr *asked)
{
	return prov_info_at_most("ep_attr->max_order_raw_size", asked->max_order_raw_size, THOLE_ATOMIC_BYTES_MAX) &&
	       prov_info_at_most("ep_attr->max_order_war_size", asked->max_order_war_size, THOLE_ATOMIC_BYTES_MAX) &&
	       prov_info_at_most("ep_attr->max_order_waw_size", asked->max_order_waw_size, THOLE_ATOMIC_BYTES_MAX);
}

static bool prov_info_endpoint_fits(const struct fi_ep_attr *asked)
{
	return !asked ||
	       (prov_info_is("ep_attr->type", asked->type == FI_EP_UNSPEC || asked->type == FI_EP_RDM) &&
		prov_info_is("ep_attr->protocol",
			     asked->protocol == FI_PROTO_UNSPEC || asked->protocol == PROV_PROTOCOL) &&
		prov_info_at_most("ep_attr->protocol_version", asked->protocol_version, 1) &&
		prov_info_at_most("ep_attr->max_msg_size", asked->max_msg_size, THOLE_LENGTH_MAX) &&
		prov_info_at_most("ep_attr->tx_ctx_cnt", asked->tx_ctx_cnt, 1) &&
		prov_info_at_most("ep_attr->rx_ctx_cnt", asked->rx_ctx_cnt, 1) &&
		prov_info_at_most("ep_attr->auth_key_size", asked->auth_key_size, 0) && prov_info_order_fits(asked));
}

static bool prov_info_contexts_fit(const struct fi_domain_attr *asked)
{
	return prov_info_at_most("domain_attr->max_ep_tx_ctx", asked->max_ep_tx_ctx, 1) &&
	       prov_info_at_most("domain_attr->max_ep_rx_ctx", asked->max_ep_rx_ctx, 1) &&
	       prov_info_at_most("domain_attr->max_ep_stx_ctx", asked->max_ep_stx_ctx, 0) &&
	       prov_info_at_most("domain_attr->max_ep_srx_ctx", asked->max_ep_srx_ctx, 0);
}

/* Before libfabric 1.5 a mode was asked for as a whole, and "basic" needs keys and addresses of our choice. From then
 * on the bits say what the caller is ready to do, and nothing of it is needed. */
static bool prov_info_memory_fits(const struct fi_domain_attr *asked)
{
	return prov_info_is("domain_attr->mr_mode: FI_MR_BASIC", asked->mr_mode != PROV_MR_BASIC) &&
	       prov_info_at_most("domain_attr->mr_key_size", asked->mr_key_size, sizeof(uint64_t)) &&
	       prov_info_at_most("domain_attr->mr_iov_limit", asked->mr_iov_limit, 1);
}

static bool prov_info_domain_fits(const struct fi_domain_attr *asked)
{
	return !asked ||
	       (prov_info_is("domain_attr->domain",
			     !asked->domain || asked->domain->fid.ops == &prov_fabric_domain_fid_ops) &&
		((asked->name && !strcasecmp(asked->name, "shm")) ||
		 prov_info_name_fits("domain_attr->name", asked->name, "thole")) &&
		prov_info_none_beyond("domain_attr->caps", asked->caps, DOMAIN_CAPS) &&
		prov_info_at_most("domain_attr->threading", asked->threading, FI_THREAD_ENDPOINT) &&
		prov_info_at_most("domain_attr->cq_data_size", asked->cq_data_size, sizeof(uint64_t)) &&
		prov_info_at_most("domain_attr->auth_key_size", asked->auth_key_size, 0) &&
		prov_info_memory_fits(asked) && prov_info_contexts_fit(asked));
}

static bool prov_info_fabric_fits(const struct fi_fabric_attr *asked)
{
	return !asked || (prov_info_is("fabric_attr->fabric",
				       !asked->fabric || asked->fabric->fid.ops == &prov_fabric_fid_ops) &&
			  prov_info_name_fits("fabric_attr->name", asked->name, prov_core_provider.name) &&
			  prov_info_name_fits("fabric_attr->prov_name", asked->prov_name, prov_core_provider.name));
}

/* The far side of puts, gets and atomics makes no calls for them; where there are tags, it does for its messages. Open
 * MPI's one-sided operations on a rank's own memory even wait for others without automatic progress: its component
 * btl/ofi has no tags, and from version 6 on has messages. There it asks for FI_PROGRESS_CONTROL_UNIFIED, which says
 * nothing of the far side, and which libfabric has from 2.0 on. */
static enum fi_progress prov_info_data_progress(const struct fi_info *hints)
{
	enum fi_progress asked = hints && hints->domain_attr ? hints->domain_attr->data_progress : FI_PROGRESS_UNSPEC;

	if (!hints)
		return FI_PROGRESS_MANUAL;
	if (asked == FI_PROGRESS_AUTO || asked == FI_PROGRESS_MANUAL)
		return asked;
	return (hints->caps & (FI_RMA | FI_ATOMIC)) && !(hints->caps & FI_TAGGED) ? FI_PROGRESS_AUTO
										  : FI_PROGRESS_MANUAL;
}

/* Not by an open domain that makes none by itself. */
static bool prov_info_progress_fits(const struct fi_info *hints)
{
	struct fid_domain *open = hints->domain_attr ? hints->domain_attr->domain : NULL;

	return prov_info_is("domain_attr->domain: it makes no progress by itself",
			    !open || prov_info_data_progress(hints) != FI_PROGRESS_AUTO ||
				    container_of(open, struct prov_domain, fid)->thread);
}

static bool prov_info_hints_fit(const struct fi_info *hints)
{
	return !hints || (prov_info_none_beyond("caps", hints->caps, ALL_CAPS) &&
			  prov_info_is("addr_format", hints->addr_format == FI_FORMAT_UNSPEC ||
							      hints->addr_format == PROV_ADDR_FORMAT) &&
			  prov_info_tx_fits(hints->tx_attr) && prov_info_rx_fits(hints->rx_attr) &&
			  prov_info_endpoint_fits(hints->ep_attr) && prov_info_domain_fits(hints->domain_attr) &&
			  prov_info_fabric_fits(hints->fabric_attr) && prov_info_progress_fits(hints));
}

/* ---- Filling in ------------------------------------------------------------------------------ */

/* What was asked for and what it implies: a transfer without a direction means every direction. */
static uint64_t prov_info_caps_answer(const struct fi_info *hints)
{
	uint64_t caps = hints ? hints->caps : 0;

	if (!caps)
		return DEFAULT_CAPS;
	if ((caps & (FI_MSG | FI_TAGGED)) && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if ((caps & (FI_RMA | FI_ATOMIC)) && !(caps & (TX_ACCESS | RX_ACCESS)))
		caps |= TX_ACCESS | RX_ACCESS;
	return caps | DOMAIN_CAPS;
}

static void prov_info_tx_fill(struct fi_tx_attr *tx, const struct fi_tx_attr *asked, uint64_t caps)
{
	tx->caps = (asked && asked->caps ? asked->caps : caps & TX_CAPS) & ~DOMAIN_CAPS;
	tx->op_flags = asked ? asked->op_flags : 0;
	tx->msg_order = asked && asked->msg_order ? asked->msg_order : ORDER;
	tx->inject_size = PROV_INJECT_MAX;
	tx->size = asked && asked->size > PROV_CONTEXTS ? asked->size : PROV_CONTEXTS;
	tx->iov_limit = PROV_SEGMENTS_MAX;
	tx->rma_iov_limit = 1;
}

static void prov_info_rx_fill(struct fi_rx_attr *rx, const struct fi_rx_attr *asked, uint64_t caps)
{
	rx->caps = (asked && asked->caps ? asked->caps : caps & RX_CAPS) & ~DOMAIN_CAPS;
	rx->op_flags = asked ? asked->op_flags : 0;
	rx->msg_order = asked && asked->msg_order ? asked->msg_order : ORDER;
	rx->size = asked && asked->size > PROV_CONTEXTS ? asked->size : PROV_CONTEXTS;
	rx->iov_limit = PROV_SEGMENTS_MAX;
}

static void prov_info_endpoint_fill(struct fi_ep_attr *ep, const struct fi_ep_attr *asked)
{
	ep->type = FI_EP_RDM;
	ep->protocol = PROV_PROTOCOL;
	ep->protocol_version = 1;
	ep->max_msg_size = THOLE_LENGTH_MAX;
	ep->max_order_raw_size = THOLE_ATOMIC_BYTES_MAX;
	ep->max_order_war_size = THOLE_ATOMIC_BYTES_MAX;
	ep->max_order_waw_size = THOLE_ATOMIC_BYTES_MAX;
	ep->mem_tag_format = asked && asked->mem_tag_format ? asked->mem_tag_format : PROV_TAG_FORMAT;
	ep->tx_ctx_cnt = 1;
	ep->rx_ctx_cnt = 1;
}

static void prov_info_domain_choices_fill(struct fi_domain_attr *domain, const struct fi_domain_attr *asked,
					  uint32_t version)
{
	static const struct fi_domain_attr nothing;
	const struct fi_domain_attr *hints = asked ? asked : &nothing;

	domain->domain = hints->domain;
	domain->threading = hints->threading == FI_THREAD_UNSPEC ? FI_THREAD_SAFE : hints->threading;
	domain->control_progress =
		hints->control_progress == FI_PROGRESS_UNSPEC ? FI_PROGRESS_MANUAL : hints->control_progress;
	domain->av_type = hints->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : hints->av_type;
	domain->mr_mode = version < FI_VERSION(1, 5) || hints->mr_mode == PROV_MR_SCALABLE ? PROV_MR_SCALABLE : 0;
}

static void prov_info_domain_fill(struct fi_domain_attr *domain, const struct fi_domain_attr *asked, uint32_t version)
{
	prov_info_domain_choices_fill(domain, asked, version);
	domain->resource_mgmt = FI_RM_ENABLED;
	domain->mr_key_size = sizeof(uint64_t);
	domain->cq_data_size = sizeof(uint64_t);
	domain->cq_cnt = PROV_CONTEXTS;
	domain->ep_cnt = PROV_CONTEXTS;
	domain->tx_ctx_cnt = PROV_CONTEXTS;
	domain->rx_ctx_cnt = PROV_CONTEXTS;
	domain->max_ep_tx_ctx = 1;
	domain->max_ep_rx_ctx = 1;
	domain->cntr_cnt = PROV_CONTEXTS;
	domain->mr_iov_limit = 1;
	domain->caps = DOMAIN_CAPS;
	domain->mr_cnt = 65536;
}

/* With room behind it, because newer cores copy longer structures. */
static void *prov_info_block(size_t size)
{
	return calloc(1, size + PROV_SLACK_BYTES);
}

void prov_info_free(struct fi_info *info)
{
	if (!info)
		return;
	if (info->fabric_attr) {
		free(info->fabric_attr->name);
		free(info->fabric_attr->prov_name);
	}
	if (info->domain_attr)
		free(info->domain_attr->name);
	free(info->fabric_attr);
	free(info->domain_attr);
	free(info->ep_attr);
	free(info->rx_attr);
	free(info->tx_attr);
	free(info->src_addr);
	free(info->dest_addr);
	free(info);
}

/* prov_name is the core's to set: it takes a name that is there for a layer below, and says
 * "thole;thole". */
static bool prov_info_names(struct fi_info *info)
{
	info->fabric_attr->name = strdup(prov_core_provider.name);
	info->domain_attr->name = strdup("thole");
	return info->fabric_attr->name && info->domain_attr->name;
}

static struct fi_info *prov_info_new(void)
{
	struct fi_info *info = prov_info_block(sizeof *info);

	if (!info)
		return NULL;
	info->tx_attr = prov_info_block(sizeof *info->tx_attr);
	info->rx_attr = prov_info_block(sizeof *info->rx_attr);
	info->ep_attr = prov_info_block(sizeof *info->ep_attr);
	info->domain_attr = prov_info_block(sizeof *info->domain_attr);
	info->src_addr = prov_info_block(sizeof(struct prov_address));
	info->fabric_attr = prov_info_block(sizeof *info->fabric_attr);
	if (info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr &&
	    info->src_addr && prov_info_names(info))
		return info;
	prov_info_free(info);
	return NULL;
}

static void prov_info_fill(struct fi_info *info, const struct fi_info *hints, uint32_t version)
{
	info->caps = prov_info_caps_answer(hints);
	info->addr_format = PROV_ADDR_FORMAT;
	info->src_addrlen = sizeof(struct prov_address); /* all zero: chosen at opening */
	prov_info_tx_fill(info->tx_attr, hints ? hints->tx_attr : NULL, info->caps);
	prov_info_rx_fill(info->rx_attr, hints ? hints->rx_attr : NULL, info->caps);
	prov_info_endpoint_fill(info->ep_attr, hints ? hints->ep_attr : NULL);
	prov_info_domain_fill(info->domain_attr, hints ? hints->domain_attr : NULL, version);
	info->domain_attr->data_progress = prov_info_data_progress(hints);
	info->fabric_attr->fabric = hints && hints->fabric_attr ? hints->fabric_attr->fabric : NULL;
	info->fabric_attr->prov_version = prov_core_provider.version;
	info->fabric_attr->api_version = version;
}

/* Where to send: an address that the caller has from fi_getname, as bytes or as its text. */
static int prov_info_destination_set(struct fi_info *info, const void *bytes)
{
	info->dest_addr = prov_info_block(sizeof(struct prov_address));
	if (!info->dest_addr)
		return -FI_ENOMEM;
	memcpy(info->dest_addr, bytes, sizeof(struct prov_address));
	info->dest_addrlen = sizeof(struct prov_address);
	return 0;
}

/* Only an endpoint can tell an address from another text. */
static int prov_info_address_check(const struct prov_address *address)
{
	struct thole_endpoint_attr attr = {.options = prov_option_strings()};
	struct thole_endpoint *endpoint;
	struct thole_address whole;
	uint32_t peer;
	int error = thole_endpoint_open(&attr, &endpoint);

	if (error)
		return prov_error_result(error);
	prov_address_whole(address, &whole);
	error = thole_peer(endpoint, &whole, &peer);
	thole_endpoint_close(endpoint);
	if (error == THOLE_ERR_MEMORY)
		return -FI_ENOMEM;
	return prov_info_is("node: it is no address of an endpoint", !error) ? 0 : -FI_ENODATA;
}

static int prov_info_destination_fill(struct fi_info *info, const struct fi_info *hints, const char *node,
				      uint64_t flags)
{
	struct prov_address address;

	if (node && !(flags & FI_SOURCE)) {
		int error = prov_info_is("node: it is too long", prov_address_read(node, &address))
				    ? prov_info_address_check(&address)
				    : -FI_ENODATA;

		return error ? error : prov_info_destination_set(info, &address);
	}
	if (hints && hints->dest_addr && hints->dest_addrlen == sizeof address)
		return prov_info_destination_set(info, hints->dest_addr);
	return 0;
}

/* Endpoints have no names that a user could choose, so a source node or service is nothing to us. A
 * destination is an endpoint's address; by a host's name we could not find one. */
int prov_info_get(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info_p)
{
	struct fi_info *info;
	int error;

	(void)service;
	*info_p = NULL;
	if (!prov_info_hints_fit(hints))
		return -FI_ENODATA;
	if (!prov_option_native()) {
		PROV_WARN(FI_LOG_CORE, "frames as the option codec has them carry tagged messages "
				       "only, which is too little for libfabric: set it to native");
		return -FI_ENODATA;
	}
	info = prov_info_new();
	if (!info)
		return -FI_ENOMEM;
	prov_info_fill(info, hints, version);
	error = prov_info_destination_fill(info, hints, node, flags);
	if (error) {
		prov_info_free(info);
		return error;
	}
	*info_p = info;
	return 0;
}
