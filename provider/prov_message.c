/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_message.h"

#include <stdlib.h>
#include <string.h>

#include "prov_completion.h"
#include "prov_cq.h"
#include "prov_endpoint.h"
#include "prov_error.h"
#include "prov_flags.h"

/* ---- Sends ----------------------------------------------------------------------------------- */

static inline ssize_t prov_message_send(struct fid_ep *fid, const void *buffer, size_t length, fi_addr_t to,
					uint64_t tag, uint64_t data, unsigned flags, void *context)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	int error;

	prov_domain_lock(endpoint->domain);
	endpoint->domain->posted = true;
	error = thole_send(endpoint->thole, prov_map_get(endpoint->peers, to), buffer, length, tag, data, flags,
			   context, NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

static inline ssize_t prov_message_inject(struct fid_ep *fid, const void *buffer, size_t length, fi_addr_t to,
					  uint64_t tag, uint64_t data, unsigned flags)
{
	if (__builtin_expect(length > PROV_INJECT_MAX, 0))
		return -FI_EINVAL;
	return prov_message_send(fid, buffer, length, to, tag, data, flags | prov_endpoint_of(fid)->inject_flags, NULL);
}

static ssize_t prov_message_sendv(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t to, uint64_t tag,
				  uint64_t data, unsigned flags, void *context)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	int error;

	if (count > PROV_SEGMENTS_MAX)
		return -FI_EINVAL;
	if (count <= 1)
		return prov_message_send(fid, count ? iov->iov_base : NULL, count ? iov->iov_len : 0, to, tag, data,
					 flags, context);
	prov_domain_lock(endpoint->domain);
	error = thole_sendv(endpoint->thole, prov_map_get(endpoint->peers, to), iov, count, tag, data, flags, context,
			    NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

static unsigned prov_message_flags(struct fid_ep *fid, uint64_t flags)
{
	return prov_flags_send(prov_endpoint_of(fid), THOLE_OP_SEND, flags);
}

/* ---- Receives -------------------------------------------------------------------------------- */

/* Which peer a receive is for. Where the user did not ask for FI_DIRECTED_RECV the address has no
 * meaning. */
static inline bool prov_message_source_find(const struct prov_endpoint *endpoint, fi_addr_t from, uint32_t *peer_p)
{
	*peer_p = THOLE_ANY;
	if (from == FI_ADDR_UNSPEC || !endpoint->directed)
		return true;
	*peer_p = prov_map_get(endpoint->peers, from);
	return *peer_p != PROV_NONE;
}

static inline ssize_t prov_message_recv(struct fid_ep *fid, void *buffer, size_t length, fi_addr_t from, uint64_t tag,
					uint64_t ignore, unsigned flags, void *context)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	uint32_t peer;
	int error = THOLE_ERR_ARGUMENT;

	prov_domain_lock(endpoint->domain);
	endpoint->domain->posted = true;
	if (__builtin_expect(prov_message_source_find(endpoint, from, &peer), 1))
		error = thole_recv(endpoint->thole, peer, buffer, length, tag, ~ignore, flags, context, NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

static ssize_t prov_message_recvv(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t from,
				  uint64_t tag, uint64_t ignore, unsigned flags, void *context)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	uint32_t peer;
	int error = THOLE_ERR_ARGUMENT;

	if (count > PROV_SEGMENTS_MAX)
		return -FI_EINVAL;
	if (count <= 1)
		return prov_message_recv(fid, count ? iov->iov_base : NULL, count ? iov->iov_len : 0, from, tag, ignore,
					 flags, context);
	prov_domain_lock(endpoint->domain);
	if (prov_message_source_find(endpoint, from, &peer))
		error = thole_recvv(endpoint->thole, peer, iov, count, tag, ~ignore, flags, context, NULL);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

/* ---- Looking at what has arrived ----------------------------------------------------------------
 * A look ends at once, but says so through the queue, and "nothing there" is an error entry there.
 * A message that is claimed waits in the endpoint's list until a receive or a discard with the same
 * context. */

static void prov_message_peek_found(struct prov_endpoint *endpoint, const struct fi_msg_tagged *message,
				    const struct thole_completion *found, unsigned plain)
{
	struct thole_completion report = *found;

	report.context = message->context;
	report.operation = THOLE_OP_RECEIVE;
	report.length = found->message_length;
	report.flags = plain | (found->flags & THOLE_IMM);
	report.status = 0;
	report.buffer = NULL;
	prov_completion_report(endpoint, &report);
}

/* Of so many looks in vain one asks whether the source is gone: it takes a fifth as long as the look. Who looks at
 * several by turns comes to each of them so, but if these are as many. */
enum { LOOKS = 61 };

/* Why nothing will come any more from a source that has nothing left here, as a receive would say; 0: it may. */
static int prov_message_source_gone(struct prov_endpoint *endpoint, const struct fi_msg_tagged *message, uint32_t peer,
				    unsigned plain)
{
	struct thole_peer_info info;

	if (peer == THOLE_ANY || ++endpoint->looks % LOOKS || thole_peer_info(endpoint->thole, peer, &info) ||
	    strcmp(info.state, "gone"))
		return 0;
	return thole_recv(endpoint->thole, peer, NULL, 0, message->tag, ~message->ignore, plain, NULL, NULL);
}

/* status: why there will be none, or NOT_FOUND. */
static void prov_message_peek_missed(struct prov_endpoint *endpoint, const struct fi_msg_tagged *message,
				     unsigned plain, int status)
{
	const struct prov_sink *sink = prov_endpoint_sink(endpoint, THOLE_OP_RECEIVE, plain);
	struct fi_cq_err_entry error = {0};

	error.op_context = message->context;
	error.flags = sink->flags;
	error.tag = message->tag;
	error.err = status == THOLE_ERR_NOT_FOUND ? FI_ENOMSG : prov_error_entry(endpoint->caps, status);
	error.prov_errno = status;
	if (sink->cq)
		prov_cq_push_error(sink->cq, &error);
}

static int prov_message_claim_reserve(struct prov_endpoint *endpoint)
{
	struct prov_claim *claims = realloc(endpoint->claims, (endpoint->claim_count + 1) * sizeof *claims);

	if (!claims)
		return THOLE_ERR_MEMORY;
	endpoint->claims = claims;
	return 0;
}

/* There is room for it. */
static void prov_message_claim_keep(struct prov_endpoint *endpoint, const struct prov_claim *claim)
{
	endpoint->claims[endpoint->claim_count++] = *claim;
}

static bool prov_message_claim_take(struct prov_endpoint *endpoint, void *context, struct prov_claim *claim_p)
{
	for (size_t i = 0; i < endpoint->claim_count; i++) {
		if (endpoint->claims[i].context != context)
			continue;
		*claim_p = endpoint->claims[i];
		endpoint->claims[i] = endpoint->claims[--endpoint->claim_count];
		return true;
	}
	return false;
}

static int prov_message_peek(struct prov_endpoint *endpoint, const struct fi_msg_tagged *message, uint64_t flags,
			     uint32_t peer, unsigned plain)
{
	unsigned probe_flags = plain | (flags & FI_DISCARD ? (unsigned)THOLE_DISCARD : 0);
	struct thole_completion found = {0};
	struct thole_message *claimed;
	int count, gone = 0;
	bool early = peer == THOLE_ANY && !(flags & FI_CLAIM) && endpoint->domain->posted && !endpoint->peeked;

	/* MPICH carries messages of a rank to itself, and for any source asks there first. What was
	 * sent there is found only after its progress; a peek that was answered before that would
	 * name a message that is not the one which a receive gets next. A rank that sends to itself
	 * usually sends to others too. So a peek behind something posted, before a queue was read,
	 * finds nothing; the next one looks. */
	if (early) {
		endpoint->peeked = true;
		prov_message_peek_missed(endpoint, message, plain, THOLE_ERR_NOT_FOUND);
		return 0;
	}
	if (flags & FI_CLAIM) {
		count = prov_message_claim_reserve(endpoint);
		if (!count)
			count = thole_message_probe(endpoint->thole, peer, message->tag, ~message->ignore, plain,
						    &found, &claimed);
		if (count == 1)
			prov_message_claim_keep(endpoint, &(struct prov_claim){message->context, claimed, found});
	} else {
		count = thole_probe(endpoint->thole, peer, message->tag, ~message->ignore, probe_flags, &found);
	}
	if (count == 1)
		prov_message_peek_found(endpoint, message, &found, plain);
	else if (!count)
		gone = prov_message_source_gone(endpoint, message, peer, plain);
	if (!count)
		prov_message_peek_missed(endpoint, message, plain, gone ? gone : THOLE_ERR_NOT_FOUND);
	endpoint->peeked = false;
	return count < 0 ? count : 0;
}

static int prov_message_claimed(struct prov_endpoint *endpoint, const struct fi_msg_tagged *message, uint64_t flags,
				unsigned plain)
{
	struct prov_claim claim;
	int error;

	if ((!(flags & FI_DISCARD) && message->iov_count > PROV_SEGMENTS_MAX) ||
	    !prov_message_claim_take(endpoint, message->context, &claim))
		return THOLE_ERR_ARGUMENT;
	if (flags & FI_DISCARD)
		error = thole_message_drop(endpoint->thole, claim.message);
	else
		error = thole_message_recv(endpoint->thole, claim.message, message->msg_iov, message->iov_count,
					   prov_flags_recv(endpoint, plain, flags), message->context, NULL);
	if (error)
		prov_message_claim_keep(endpoint, &claim);
	else if (flags & FI_DISCARD)
		prov_message_peek_found(endpoint, message, &claim.completion, plain);
	return error;
}

static ssize_t prov_message_poll(struct fid_ep *fid, const struct fi_msg_tagged *message, uint64_t flags,
				 unsigned plain)
{
	struct prov_endpoint *endpoint = prov_endpoint_of(fid);
	uint32_t peer;
	int error = THOLE_ERR_ARGUMENT;

	prov_domain_lock(endpoint->domain);
	if (!(flags & FI_PEEK))
		error = prov_message_claimed(endpoint, message, flags, plain);
	else if (prov_message_source_find(endpoint, message->addr, &peer))
		error = prov_message_peek(endpoint, message, flags, peer, plain);
	prov_domain_unlock(endpoint->domain);
	return prov_error_result(error);
}

static ssize_t prov_message_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *message, uint64_t flags,
				    unsigned plain)
{
	if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return prov_message_poll(fid, message, flags, plain);
	return prov_message_recvv(fid, message->msg_iov, message->iov_count, message->addr, message->tag,
				  message->ignore, prov_flags_recv(prov_endpoint_of(fid), plain, flags),
				  message->context);
}

/* ---- The table of tagged calls --------------------------------------------------------------- */

static ssize_t prov_message_tagged_recv(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from,
					uint64_t tag, uint64_t ignore, void *context)
{
	(void)desc;
	return prov_message_recv(ep, buffer, length, from, tag, ignore, prov_endpoint_of(ep)->recv_flags, context);
}

static ssize_t prov_message_tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
					 fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	(void)desc;
	return prov_message_recvv(ep, iov, count, from, tag, ignore, prov_endpoint_of(ep)->recv_flags, context);
}

static ssize_t prov_message_tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *message, uint64_t flags)
{
	return prov_message_recvmsg(ep, message, flags, 0);
}

static ssize_t prov_message_tagged_send(struct fid_ep *ep, const void *buffer, size_t length, void *desc, fi_addr_t to,
					uint64_t tag, void *context)
{
	(void)desc;
	return prov_message_send(ep, buffer, length, to, tag, 0, prov_endpoint_of(ep)->send_flags, context);
}

static ssize_t prov_message_tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
					 fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return prov_message_sendv(ep, iov, count, to, tag, 0, prov_endpoint_of(ep)->send_flags, context);
}

static ssize_t prov_message_tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *message, uint64_t flags)
{
	return prov_message_sendv(ep, message->msg_iov, message->iov_count, message->addr, message->tag, message->data,
				  prov_message_flags(ep, flags), message->context);
}

static ssize_t prov_message_tagged_inject(struct fid_ep *ep, const void *buffer, size_t length, fi_addr_t to,
					  uint64_t tag)
{
	return prov_message_inject(ep, buffer, length, to, tag, 0, 0);
}

static ssize_t prov_message_tagged_senddata(struct fid_ep *ep, const void *buffer, size_t length, void *desc,
					    uint64_t data, fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return prov_message_send(ep, buffer, length, to, tag, data, prov_endpoint_of(ep)->send_flags | THOLE_IMM,
				 context);
}

static ssize_t prov_message_tagged_injectdata(struct fid_ep *ep, const void *buffer, size_t length, uint64_t data,
					      fi_addr_t to, uint64_t tag)
{
	return prov_message_inject(ep, buffer, length, to, tag, data, THOLE_IMM);
}

struct fi_ops_tagged prov_message_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = prov_message_tagged_recv,
	.recvv = prov_message_tagged_recvv,
	.recvmsg = prov_message_tagged_recvmsg,
	.send = prov_message_tagged_send,
	.sendv = prov_message_tagged_sendv,
	.sendmsg = prov_message_tagged_sendmsg,
	.inject = prov_message_tagged_inject,
	.senddata = prov_message_tagged_senddata,
	.injectdata = prov_message_tagged_injectdata,
};

/* ---- The table of plain calls ---------------------------------------------------------------- */

static ssize_t prov_message_plain_recv(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from,
				       void *context)
{
	(void)desc;
	return prov_message_recv(ep, buffer, length, from, 0, 0, prov_endpoint_of(ep)->plain_recv_flags, context);
}

static ssize_t prov_message_plain_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
					fi_addr_t from, void *context)
{
	(void)desc;
	return prov_message_recvv(ep, iov, count, from, 0, 0, prov_endpoint_of(ep)->plain_recv_flags, context);
}

static struct fi_msg_tagged prov_message_plain_message(const struct fi_msg *message)
{
	return (struct fi_msg_tagged){
		.msg_iov = message->msg_iov,
		.iov_count = message->iov_count,
		.addr = message->addr,
		.context = message->context,
		.data = message->data,
	};
}

static ssize_t prov_message_plain_recvmsg(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
	struct fi_msg_tagged tagged = prov_message_plain_message(message);

	return prov_message_recvmsg(ep, &tagged, flags, THOLE_PLAIN);
}

static ssize_t prov_message_plain_send(struct fid_ep *ep, const void *buffer, size_t length, void *desc, fi_addr_t to,
				       void *context)
{
	(void)desc;
	return prov_message_send(ep, buffer, length, to, 0, 0, prov_endpoint_of(ep)->send_flags | THOLE_PLAIN, context);
}

static ssize_t prov_message_plain_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
					fi_addr_t to, void *context)
{
	(void)desc;
	return prov_message_sendv(ep, iov, count, to, 0, 0, prov_endpoint_of(ep)->send_flags | THOLE_PLAIN, context);
}

static ssize_t prov_message_plain_sendmsg(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
	return prov_message_sendv(ep, message->msg_iov, message->iov_count, message->addr, 0, message->data,
				  prov_message_flags(ep, flags) | THOLE_PLAIN, message->context);
}

static ssize_t prov_message_plain_inject(struct fid_ep *ep, const void *buffer, size_t length, fi_addr_t to)
{
	return prov_message_inject(ep, buffer, length, to, 0, 0, THOLE_PLAIN);
}

static ssize_t prov_message_plain_senddata(struct fid_ep *ep, const void *buffer, size_t length, void *desc,
					   uint64_t data, fi_addr_t to, void *context)
{
	(void)desc;
	return prov_message_send(ep, buffer, length, to, 0, data,
				 prov_endpoint_of(ep)->send_flags | THOLE_IMM | THOLE_PLAIN, context);
}

static ssize_t prov_message_plain_injectdata(struct fid_ep *ep, const void *buffer, size_t length, uint64_t data,
					     fi_addr_t to)
{
	return prov_message_inject(ep, buffer, length, to, 0, data, THOLE_IMM | THOLE_PLAIN);
}

struct fi_ops_msg prov_message_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = prov_message_plain_recv,
	.recvv = prov_message_plain_recvv,
	.recvmsg = prov_message_plain_recvmsg,
	.send = prov_message_plain_send,
	.sendv = prov_message_plain_sendv,
	.sendmsg = prov_message_plain_sendmsg,
	.inject = prov_message_plain_inject,
	.senddata = prov_message_plain_senddata,
	.injectdata = prov_message_plain_injectdata,
};
