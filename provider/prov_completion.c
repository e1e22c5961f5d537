/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_completion.h"

#include "prov_atomic.h"
#include "prov_core.h"
#include "prov_counter.h"
#include "prov_cq.h"
#include "prov_error.h"
#include "prov_region.h"

enum { UNUSUAL = THOLE_MULTI_END | THOLE_MULTI | PROV_SILENT | PROV_WRAPPED };

static inline fi_addr_t prov_completion_source_of(const struct prov_endpoint *endpoint, uint32_t peer)
{
	uint32_t index;

	if (__builtin_expect(!endpoint->wants_source, 1))
		return FI_ADDR_NOTAVAIL;
	index = prov_map_get(endpoint->sources, peer);
	return index == PROV_NONE ? FI_ADDR_NOTAVAIL : index;
}

static inline void prov_completion_entry_push(struct prov_endpoint *endpoint, const struct prov_sink *sink,
					      const struct thole_completion *completion, void *context, uint64_t flags)
{
	struct prov_cq *cq = sink->cq;
	struct fi_cq_tagged_entry *entry;

	if (__builtin_expect(!cq, 0))
		return;
	entry = prov_cq_enter(cq, prov_completion_source_of(endpoint, completion->peer));
	if (__builtin_expect(!entry, 0))
		return;
	entry->op_context = context;
	entry->flags = flags | (completion->flags & THOLE_IMM ? sink->imm_flag : 0);
	entry->len = completion->length;
	entry->buf = completion->buffer;
	entry->data = completion->imm;
	entry->tag = completion->tag;
	prov_watch_note(&cq->watch);
}

/* Operations whose success nobody would see, and that the user gave no context for, are reported with the endpoint's;
 * if that has none either, then only to the counter and the log, because MPIs take a context for a request of theirs
 * without looking. For all others somebody may be waiting. */
static void prov_completion_error_push(struct prov_endpoint *endpoint, const struct prov_sink *sink,
				       const struct thole_completion *completion, void *context)
{
	struct fi_cq_err_entry error = {0};
	size_t excess = completion->message_length - completion->length;
	bool silent = completion->flags & (PROV_SILENT | THOLE_QUIET);

	error.op_context = context || !silent ? context : endpoint->fid.fid.context;
	error.flags = sink->flags | (completion->flags & THOLE_IMM ? sink->imm_flag : 0);
	if (completion->flags & THOLE_MULTI_END)
		error.flags |= FI_MULTI_RECV;
	error.len = completion->length;
	error.buf = completion->buffer;
	error.data = completion->imm;
	error.tag = completion->tag;
	error.olen = completion->status == THOLE_ERR_TRUNCATED ? excess : 0;
	error.err = prov_error_entry(endpoint->caps, completion->status);
	error.prov_errno = completion->status;
	if (sink->cq && (error.op_context || !silent))
		prov_cq_push_error(sink->cq, &error);
	else
		PROV_WARN(FI_LOG_EP_DATA, "an operation without a context has failed: %s",
			  thole_strerror(completion->status));
}

static void prov_completion_region_count(const struct thole_completion *completion)
{
	const struct prov_region *region = completion->context;

	if (region && region->counter && completion->operation != THOLE_OP_REMOTE_GET)
		prov_counter_add(region->counter, completion);
}

static void prov_completion_unusual_take(struct prov_endpoint *endpoint, const struct prov_sink *sink,
					 const struct thole_completion *completion)
{
	bool ended = completion->flags & THOLE_MULTI_END;
	void *context = completion->context;
	uint64_t flags = sink->flags;

	if (completion->flags & PROV_WRAPPED)
		context = prov_atomic_scatter(context, completion->status);
	if (completion->operation >= THOLE_OP_REMOTE_PUT) {
		prov_completion_region_count(completion);
		if (completion->flags & THOLE_IMM)
			prov_completion_entry_push(endpoint, sink, completion, NULL, flags);
		return;
	}
	if (completion->status) {
		prov_completion_error_push(endpoint, sink, completion, context);
		return;
	}
	if (ended)
		flags |= FI_MULTI_RECV;
	if (ended || !(completion->flags & PROV_SILENT))
		prov_completion_entry_push(endpoint, sink, completion, context, flags);
}

void prov_completion_take(void *arg, const struct thole_completion *completion)
{
	struct prov_endpoint *endpoint = arg;
	const struct prov_sink *sink = prov_endpoint_sink(endpoint, (unsigned)completion->operation, completion->flags);

	if (__builtin_expect(sink->counter != NULL, 0))
		prov_counter_add(sink->counter, completion);
	if (__builtin_expect(completion->status || (completion->flags & UNUSUAL) ||
				     completion->operation >= THOLE_OP_REMOTE_PUT,
			     0))
		prov_completion_unusual_take(endpoint, sink, completion);
	else
		prov_completion_entry_push(endpoint, sink, completion, completion->context, sink->flags);
}

void prov_completion_report(struct prov_endpoint *endpoint, const struct thole_completion *completion)
{
	const struct prov_sink *sink = prov_endpoint_sink(endpoint, (unsigned)completion->operation, completion->flags);

	prov_completion_entry_push(endpoint, sink, completion, completion->context, sink->flags);
}
