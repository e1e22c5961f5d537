/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * completion.c - what Thole reports becomes a queue entry, a count, or both.
 *
 * Called by Thole from inside any call on the endpoint, so under the domain's lock; it must not
 * call Thole. The first half is the path of every message and has one branch for everything
 * unusual.
 */
#include <string.h>

#include "provider.h"

enum { UNUSUAL = THOLE_MULTI_END | THOLE_MULTI | PROV_SILENT | PROV_WRAPPED };

static inline fi_addr_t source_of(const struct prov_endpoint *endpoint, uint32_t peer)
{
	uint32_t index;

	if (prov_likely(!endpoint->wants_source))
		return FI_ADDR_NOTAVAIL;
	index = prov_map_get(endpoint->sources, peer);
	return index == PROV_NONE ? FI_ADDR_NOTAVAIL : index;
}

static inline void entry_push(struct prov_endpoint *endpoint, const struct prov_sink *sink,
			      const struct thole_completion *completion, void *context,
			      uint64_t flags)
{
	struct prov_cq *cq = sink->cq;
	struct prov_cq_slot *slot;

	if (prov_unlikely(!cq))
		return;
	slot = prov_cq_slot(cq);
	if (prov_unlikely(!slot))
		return;
	slot->entry.op_context = context;
	slot->entry.flags = flags | (completion->flags & THOLE_IMM ? sink->imm_flag : 0);
	slot->entry.len = completion->length;
	slot->entry.buf = completion->buffer;
	slot->entry.data = completion->imm;
	slot->entry.tag = completion->tag;
	slot->error = NULL;
	slot->source = source_of(endpoint, completion->peer);
	prov_cq_count(&cq->tail);
	prov_watch_note(&cq->watch);
}

/* Operations that the user gave no context for are reported with the endpoint's; if that has none
 * either, then only to the counter and the log, because MPIs take a context for a request of theirs
 * without looking. */
static void error_push(struct prov_endpoint *endpoint, const struct prov_sink *sink,
		       const struct thole_completion *completion, void *context)
{
	struct fi_cq_err_entry error = {0};
	size_t excess = completion->message_length - completion->length;

	error.op_context = context ? context : endpoint->fid.fid.context;
	error.flags = sink->flags | (completion->flags & THOLE_IMM ? sink->imm_flag : 0);
	if (completion->flags & THOLE_MULTI_END)
		error.flags |= FI_MULTI_RECV;
	error.len = completion->length;
	error.buf = completion->buffer;
	error.data = completion->imm;
	error.tag = completion->tag;
	error.olen = completion->status == THOLE_ERR_TRUNCATED ? excess : 0;
	error.err = prov_error_entry(endpoint, completion->status);
	error.prov_errno = completion->status;
	if (sink->cq && error.op_context)
		prov_cq_push_error(sink->cq, &error);
	else
		PROV_WARN(FI_LOG_EP_DATA, "an operation without a context has failed: %s",
			  thole_strerror(completion->status));
}

static void region_count(const struct thole_completion *completion)
{
	const struct prov_region *region = completion->context;

	if (region && region->counter && completion->operation != THOLE_OP_REMOTE_GET)
		prov_counter_add(region->counter, completion);
}

static void unusual_take(struct prov_endpoint *endpoint, const struct prov_sink *sink,
			 const struct thole_completion *completion)
{
	bool ended = completion->flags & THOLE_MULTI_END;
	void *context = completion->context;
	uint64_t flags = sink->flags;

	if (completion->flags & PROV_WRAPPED)
		context = prov_scatter_finish(context, completion->status);
	if (completion->operation >= THOLE_OP_REMOTE_PUT) {
		region_count(completion);
		if (completion->flags & THOLE_IMM)
			entry_push(endpoint, sink, completion, NULL, flags);
		return;
	}
	if (completion->status) {
		error_push(endpoint, sink, completion, context);
		return;
	}
	if (ended)
		flags |= FI_MULTI_RECV;
	if (ended || !(completion->flags & PROV_SILENT))
		entry_push(endpoint, sink, completion, context, flags);
}

void prov_completion_take(void *arg, const struct thole_completion *completion)
{
	struct prov_endpoint *endpoint = arg;
	const struct prov_sink *sink = &endpoint->sinks[prov_sink_index(
		(unsigned)completion->operation, completion->flags)];

	if (prov_unlikely(sink->counter != NULL))
		prov_counter_add(sink->counter, completion);
	if (prov_unlikely(completion->status || (completion->flags & UNUSUAL) ||
			  completion->operation >= THOLE_OP_REMOTE_PUT))
		unusual_take(endpoint, sink, completion);
	else
		entry_push(endpoint, sink, completion, completion->context, sink->flags);
}

/* A report of our own (a peek): always an entry, never a count. */
void prov_completion_report(struct prov_endpoint *endpoint,
			    const struct thole_completion *completion)
{
	const struct prov_sink *sink = &endpoint->sinks[prov_sink_index(
		(unsigned)completion->operation, completion->flags)];

	entry_push(endpoint, sink, completion, completion->context, sink->flags);
}
