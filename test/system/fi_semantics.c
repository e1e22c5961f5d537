/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fi_semantics.c - what MPIs rely on in a libfabric provider, each point by itself, between two
 * processes.
 *
 *   fi_semantics [name ...]     all tests, or the named ones
 *
 * Each test opens its own pair, because what is bound to an endpoint is part of what is tested.
 */
#include <pthread.h>

#include "fi_pair.h"

static char contexts[64]; /* addresses to tell operations by */

static void fill(unsigned char *bytes, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

static bool filled(const unsigned char *bytes, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != (unsigned char)(seed + i * 7 + (i >> 8)))
			return false;
	return true;
}

/* Sends with tag and data in both directions, eager and large; source, length, tag and data arrive.
 */
static void test_tagged(void)
{
	static const size_t sizes[] = {0, 1, 8, 100, 4096, 40000, 65536, 1000000, 5000000};
	struct pair_attr attr = {.cq_flags = 0};
	struct pair pair;

	pair_open(&pair, &attr);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		unsigned char *out = malloc(sizes[i] + 1), *in = calloc(1, sizes[i] + 1);
		int left = 2;

		CHECK(out && in);
		fill(out, sizes[i], (unsigned)pair_rank + (unsigned)i);
		CHECK_EQUAL(fi_trecv(pair.ep, in, sizes[i], NULL, pair.other, 100 + i, 0, contexts),
			    0);
		CHECK_EQUAL(fi_tsenddata(pair.ep, out, sizes[i], NULL, 7000 + i, pair.other,
					 100 + i, contexts + 1),
			    0);
		while (left) {
			struct fi_cq_tagged_entry entry;
			fi_addr_t source = 12345;
			ssize_t count = fi_cq_readfrom(pair.cq, &entry, 1, &source);

			if (count == -FI_EAGAIN)
				continue;
			CHECK_EQUAL(count, 1);
			left--;
			if (entry.op_context == contexts + 1) {
				CHECK_EQUAL(entry.flags, FI_SEND | FI_TAGGED);
				continue;
			}
			CHECK(entry.op_context == contexts);
			CHECK_EQUAL(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
			CHECK_EQUAL(entry.len, sizes[i]);
			CHECK_EQUAL(entry.tag, 100 + i);
			CHECK_EQUAL(entry.data, 7000 + i);
			CHECK_EQUAL(source, pair.other);
			CHECK(filled(in, sizes[i], 1 - (unsigned)pair_rank + (unsigned)i));
		}
		free(out);
		free(in);
	}
	pair_shut(&pair);
}

/* A message in several places is the same as one in one, its data and its tag too; and what fi_inject takes has a
 * bound. */
static void test_vectors(void)
{
	struct pair_attr attr = {.cq_flags = 0};
	unsigned char out[300], in[300] = {0}, other = 0;
	struct iovec parts[2] = {{out, 100}, {out + 100, 200}}, room[2] = {{in, 7}, {in + 7, 293}};
	struct fi_msg_tagged message = {
		.msg_iov = parts, .iov_count = 2, .tag = 5, .data = 99, .context = contexts + 2};
	static unsigned char much[1 << 20];
	struct pair pair;

	pair_open(&pair, &attr);
	fill(out, sizeof out, 3);
	message.addr = pair.self;
	CHECK_EQUAL(fi_trecvv(pair.ep, room, NULL, 2, pair.self, 5, 0, contexts + 1), 0);
	CHECK_EQUAL(fi_tinject(pair.ep, "x", 1, pair.self, 4), 0);
	CHECK_EQUAL(fi_tsendmsg(pair.ep, &message, FI_REMOTE_CQ_DATA), 0);
	for (int left = 2; left; left--) {
		struct fi_cq_tagged_entry entry;
		ssize_t count;

		do
			count = fi_cq_read(pair.cq, &entry, 1);
		while (count == -FI_EAGAIN);
		CHECK_EQUAL(count, 1);
		if (entry.op_context == contexts + 2)
			continue;
		CHECK(entry.op_context == contexts + 1);
		CHECK_EQUAL(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
		CHECK(entry.len == 300 && entry.tag == 5 && entry.data == 99);
	}
	CHECK(filled(in, sizeof in, 3));
	CHECK_EQUAL(fi_trecv(pair.ep, &other, 1, NULL, pair.self, 4, 0, contexts), 0);
	pair_take(&pair, contexts);
	CHECK_EQUAL(other, 'x');
	CHECK_EQUAL(fi_tinject(pair.ep, much, pair.info->tx_attr->inject_size, pair.self, 6), 0);
	CHECK_EQUAL(fi_tinject(pair.ep, much, pair.info->tx_attr->inject_size + 1, pair.self, 6), -FI_EINVAL);
	pair_shut(&pair);
}

/* Plain messages are a world of their own; vectors; a message to oneself. */
static void test_plain(void)
{
	struct pair_attr attr = {.cq_flags = 0};
	struct pair pair;
	unsigned char out[300], in[300] = {0}, tagged[300] = {0};
	struct iovec parts[3] = {{out, 100}, {out + 100, 0}, {out + 100, 200}};
	struct iovec room[2] = {{in, 7}, {in + 7, 293}};

	pair_open(&pair, &attr);
	fill(out, sizeof out, 3);
	CHECK_EQUAL(
		fi_trecv(pair.ep, tagged, sizeof tagged, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, contexts),
		0);
	CHECK_EQUAL(fi_recvv(pair.ep, room, NULL, 2, pair.self, contexts + 1), 0);
	CHECK_EQUAL(fi_sendv(pair.ep, parts, NULL, 3, pair.self, contexts + 2), 0);
	for (int left = 2; left; left--) {
		struct fi_cq_tagged_entry entry;
		ssize_t count;

		do
			count = fi_cq_read(pair.cq, &entry, 1);
		while (count == -FI_EAGAIN);
		CHECK_EQUAL(count, 1);
		if (entry.op_context == contexts + 2) {
			CHECK_EQUAL(entry.flags, FI_SEND | FI_MSG);
			continue;
		}
		CHECK(entry.op_context == contexts + 1);
		CHECK_EQUAL(entry.flags, FI_RECV | FI_MSG);
		CHECK_EQUAL(entry.len, 300);
	}
	CHECK(filled(in, sizeof in, 3));
	pair_expect_nothing(&pair);
	CHECK_EQUAL(fi_cancel(&pair.ep->fid, contexts), 0);
	CHECK_EQUAL(pair_take_error(&pair, contexts).err, FI_ECANCELED);
	pair_shut(&pair);
}

/* Inject calls never make an entry but are counted; nor does a send without FI_COMPLETION under
 * selective completion. */
static void test_silence(void)
{
	struct pair_attr attr = {
		.cq_flags = FI_SELECTIVE_COMPLETION, .counters = true, .tx_flags = FI_COMPLETION};
	struct pair pair;
	unsigned char byte = 1, in[8];
	void *seen[3];
	struct iovec segment = {&byte, 1};
	struct fi_msg_tagged quiet = {.msg_iov = &segment, .iov_count = 1, .tag = 1};

	pair_open(&pair, &attr);
	quiet.addr = pair.other;
	for (int i = 0; i < 6; i++) {
		struct iovec room = {&in[i], 1};
		struct fi_msg_tagged receive = {.msg_iov = &room,
						.iov_count = 1,
						.tag = 1,
						.context = &contexts[i],
						.addr = FI_ADDR_UNSPEC};

		CHECK_EQUAL(fi_trecvmsg(pair.ep, &receive, i == 5 ? FI_COMPLETION : 0), 0);
	}
	CHECK_EQUAL(fi_tinject(pair.ep, &byte, 1, pair.other, 1), 0);
	CHECK_EQUAL(fi_tinjectdata(pair.ep, &byte, 1, 5, pair.other, 1), 0);
	CHECK_EQUAL(fi_tsendmsg(pair.ep, &quiet, 0), 0);
	CHECK_EQUAL(fi_tsendmsg(pair.ep, &quiet, FI_INJECT), 0);
	quiet.context = contexts + 10;
	CHECK_EQUAL(fi_tsendmsg(pair.ep, &quiet, FI_INJECT | FI_COMPLETION), 0);
	CHECK_EQUAL(fi_tsend(pair.ep, &byte, 1, NULL, pair.other, 1, contexts + 11), 0);
	for (int i = 0; i < 3;
	     i++) { /* the two sends' that were to say so, and the sixth receive's */
		struct fi_cq_tagged_entry entry;
		ssize_t count;

		do
			count = fi_cq_read(pair.cq, &entry, 1);
		while (count == -FI_EAGAIN);
		CHECK_EQUAL(count, 1);
		CHECK(entry.op_context == contexts + 10 || entry.op_context == contexts + 11 ||
		      entry.op_context == contexts + 5);
		for (int k = 0; k < i; k++)
			CHECK(entry.op_context != seen[k]);
		seen[i] = entry.op_context;
	}
	CHECK_EQUAL(fi_cntr_wait(pair.received, 6, 10000), 0);
	CHECK_EQUAL(fi_cntr_wait(pair.sent, 6, 10000), 0);
	pair_expect_nothing(&pair);
	CHECK_EQUAL(fi_cntr_read(pair.sent), 6);
	CHECK_EQUAL(fi_cntr_read(pair.received), 6);
	CHECK_EQUAL(fi_cntr_readerr(pair.sent), 0);
	CHECK_EQUAL(fi_cntr_wait(pair.sent, 7, 0), -FI_ETIMEDOUT);
	pair_shut(&pair);
}

/* A send with FI_DELIVERY_COMPLETE ends when its message is at the other, without a receive there, and not before the
 * other has made progress, which nobody else makes for who has no region. */
static void test_delivery(void)
{
	static const size_t sizes[] = {1, 100, 4000, 30000};
	struct pair_attr attr = {.cq_flags = 0};
	static unsigned char bytes[30000];
	struct pair pair;

	pair_open(&pair, &attr);
	CHECK_EQUAL(fi_close(&pair.mr->fid), 0);
	pair.mr = NULL;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct iovec segment = {bytes, sizes[i]};
		struct fi_msg_tagged message = {.msg_iov = &segment, .iov_count = 1, .addr = pair.other, .tag = i,
						.context = contexts};

		pair_barrier(&pair);
		fill(bytes, sizes[i], (unsigned)i);
		if (pair_rank == 0) {
			CHECK_EQUAL(fi_tsendmsg(pair.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
			pair_expect_nothing(&pair);
			CHECK(send(pair_socket, "g", 1, 0) == 1);
			CHECK_EQUAL(pair_take(&pair, contexts).flags, FI_SEND | FI_TAGGED);
			pair_barrier(&pair);
		} else {
			unsigned char go;

			CHECK(recv(pair_socket, &go, 1, 0) == 1 && go == 'g'); /* until then without progress */
			pair_barrier(&pair);
			memset(bytes, 0, sizeof bytes);
			CHECK_EQUAL(fi_trecv(pair.ep, bytes, sizeof bytes, NULL, pair.other, i, 0, contexts), 0);
			CHECK_EQUAL(pair_take(&pair, contexts).len, sizes[i]);
			CHECK(filled(bytes, sizes[i], (unsigned)i));
		}
	}
	pair_shut(&pair);
}

static void peek(struct pair *pair, uint64_t tag, uint64_t flags, void *context)
{
	struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = context};

	CHECK_EQUAL(fi_trecvmsg(pair->ep, &message, flags | FI_COMPLETION), 0);
}

static struct fi_cq_tagged_entry peek_until(struct pair *pair, uint64_t tag, uint64_t flags,
					    void *context)
{
	for (;;) {
		struct fi_cq_err_entry error = {0};
		struct fi_cq_tagged_entry entry;
		ssize_t count;

		peek(pair, tag, flags, context);
		count = fi_cq_read(pair->cq, &entry, 1);
		if (count == 1) {
			CHECK(entry.op_context == context);
			return entry;
		}
		CHECK_EQUAL(count, -FI_EAVAIL);
		CHECK_EQUAL(fi_cq_readerr(pair->cq, &error, 0), 1);
		CHECK_EQUAL(error.err, FI_ENOMSG);
		CHECK(error.op_context == context);
	}
}

/* A look that finds nothing returns 0 and puts FI_ENOMSG into the queue; claims; discards. */
static void test_peek(void)
{
	struct pair_attr attr = {.cq_flags = FI_SELECTIVE_COMPLETION,
				 .tx_flags = FI_COMPLETION,
				 .rx_flags = FI_COMPLETION};
	static unsigned char big[200000], in[200000];
	struct pair pair;

	pair_open(&pair, &attr);
	if (pair_rank == 0) {
		struct iovec part = {big, sizeof big - 1};
		struct fi_msg_tagged waits = {
			.msg_iov = &part, .iov_count = 1, .addr = pair.other, .tag = 4, .context = contexts};

		fill(big, sizeof big, 9);
		CHECK_EQUAL(fi_tinjectdata(pair.ep, big, 16, 77, pair.other, 1), 0);
		CHECK_EQUAL(fi_tsend(pair.ep, big, sizeof big, NULL, pair.other, 2, contexts), 0);
		CHECK_EQUAL(fi_tinject(pair.ep, big, 3, pair.other, 3), 0);
		CHECK_EQUAL(fi_tsendmsg(pair.ep, &waits, FI_MATCH_COMPLETE | FI_COMPLETION), 0);
		pair_take(&pair, contexts);
		pair_take(&pair, contexts); /* of the one that is thrown away, too */
	} else {
		struct iovec room = {in, sizeof in}, endless[2] = {{in, SIZE_MAX}, {in, 2}};
		struct fi_msg_tagged claim = {
			.msg_iov = &room, .iov_count = 1, .context = contexts + 2};
		struct fi_cq_tagged_entry entry;

		peek(&pair, 999, FI_PEEK, contexts);
		CHECK_EQUAL(pair_take_error(&pair, contexts).err, FI_ENOMSG);
		entry = peek_until(&pair, 1, FI_PEEK, contexts + 1);
		CHECK_EQUAL(entry.len, 16);
		CHECK_EQUAL(entry.tag, 1);
		CHECK_EQUAL(entry.data, 77);
		CHECK_EQUAL(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
		entry = peek_until(&pair, 2, FI_PEEK | FI_CLAIM, contexts + 2);
		CHECK_EQUAL(entry.len, sizeof big);
		peek(&pair, 2, FI_PEEK, contexts + 3); /* it is out of matching */
		CHECK_EQUAL(pair_take_error(&pair, contexts + 3).err, FI_ENOMSG);
		peek_until(&pair, 4, FI_PEEK | FI_CLAIM, contexts + 5); /* several are, and each by its context */
		claim.context = contexts + 5;
		CHECK_EQUAL(fi_trecvmsg(pair.ep, &claim, FI_CLAIM | FI_DISCARD | FI_COMPLETION), 0);
		CHECK_EQUAL(pair_take(&pair, contexts + 5).len, sizeof big - 1);
		CHECK(fi_trecvmsg(pair.ep, &claim, FI_CLAIM | FI_COMPLETION) < 0);
		claim.context = contexts + 2;
		claim.iov_count = 2000;
		CHECK(fi_trecvmsg(pair.ep, &claim, FI_CLAIM | FI_COMPLETION) < 0);
		claim.iov_count = 2;
		claim.msg_iov = endless;
		CHECK(fi_trecvmsg(pair.ep, &claim, FI_CLAIM | FI_COMPLETION) < 0);
		claim.iov_count = 1; /* what was refused is still claimed */
		claim.msg_iov = &room;
		CHECK_EQUAL(fi_trecvmsg(pair.ep, &claim, FI_CLAIM | FI_COMPLETION), 0);
		entry = pair_take(&pair, contexts + 2);
		CHECK_EQUAL(entry.len, sizeof big);
		CHECK(filled(in, sizeof in, 9));
		peek_until(&pair, 3, FI_PEEK | FI_DISCARD, contexts + 4);
		peek(&pair, 3, FI_PEEK, contexts + 4);
		CHECK_EQUAL(pair_take_error(&pair, contexts + 4).err, FI_ENOMSG);
		CHECK_EQUAL(fi_trecv(pair.ep, in, 16, NULL, pair.other, 1, 0, contexts + 6), 0);
		CHECK_EQUAL(pair_take(&pair, contexts + 6).len, 16);
	}
	pair_shut(&pair);
}

/* A message that is too long: the front arrives, and the error entry says all about it. */
static void test_truncation(void)
{
	struct pair_attr attr = {.counters = true};
	static unsigned char big[100000], in[1000];
	struct pair pair;

	pair_open(&pair, &attr);
	for (size_t size = 2000; size <= sizeof big; size += 98000) {
		if (pair_rank == 0) {
			fill(big, size, 4);
			CHECK_EQUAL(
				fi_tsenddata(pair.ep, big, size, NULL, 99, pair.other, 6, contexts),
				0);
			pair_take(&pair, contexts);
		} else {
			struct fi_cq_err_entry error;

			CHECK_EQUAL(fi_trecv(pair.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 0, 15,
					     contexts + 1),
				    0);
			error = pair_take_error(&pair, contexts + 1);
			CHECK_EQUAL(error.err, FI_ETRUNC);
			CHECK_EQUAL(error.len, sizeof in);
			CHECK_EQUAL(error.olen, size - sizeof in);
			CHECK_EQUAL(error.tag, 6);
			CHECK_EQUAL(error.data, 99);
			CHECK(error.flags & FI_REMOTE_CQ_DATA);
			CHECK(filled(in, sizeof in, 4));
			CHECK_EQUAL(error.err_data_size, 0);
		}
	}
	if (pair_rank == 1) {
		CHECK_EQUAL(fi_cntr_read(pair.received), 0);
		CHECK_EQUAL(fi_cntr_readerr(pair.received), 2);
	}
	pair_shut(&pair);
}

/* A receive for one source is not matched by another's message; one that is canceled says so, and a
 * second time not. */
static void test_directed_and_cancel(void)
{
	struct pair_attr attr = {.cq_flags = 0};
	unsigned char a = 1, b = 2, in[2] = {0};
	struct pair pair;

	pair_open(&pair, &attr);
	CHECK_EQUAL(fi_trecv(pair.ep, &in[0], 1, NULL, pair.other, 5, 0, contexts), 0);
	CHECK_EQUAL(fi_trecv(pair.ep, &in[1], 1, NULL, pair.self, 5, 0, contexts + 1), 0);
	CHECK_EQUAL(fi_tinject(pair.ep, &a, 1, pair.self, 5), 0);
	pair_take(&pair, contexts + 1);
	pair_barrier(&pair);
	CHECK_EQUAL(fi_tinject(pair.ep, &b, 1, pair.other, 5), 0);
	pair_take(&pair, contexts);
	CHECK_EQUAL(in[0], 2);
	CHECK_EQUAL(in[1], 1);
	CHECK(fi_cancel(&pair.ep->fid, contexts) < 0);
	CHECK_EQUAL(fi_trecv(pair.ep, &in[0], 1, NULL, 12345, 5, 0, contexts), -FI_EINVAL);
	CHECK_EQUAL(fi_tinject(pair.ep, &b, 1, 12345, 5), -FI_EINVAL);
	pair_shut(&pair);
}

/* One buffer takes message after message, and its last entry says that it is free. */
static void test_multi_recv(void)
{
	enum { MESSAGES = 40, SIZE = 100, MIN = 150 };
	struct pair_attr attr = {.caps = FI_MULTI_RECV};
	static unsigned char room[2][2000];
	unsigned char out[SIZE];
	struct pair pair;
	size_t min = MIN, got = 0, length = sizeof got;

	pair_open(&pair, &attr);
	CHECK_EQUAL(
		fi_setopt(&pair.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof min),
		0);
	CHECK_EQUAL(fi_getopt(&pair.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &got, &length),
		    0);
	CHECK_EQUAL(got, MIN);
	for (int i = 0; i < 2 && pair_rank; i++) {
		struct iovec segment = {room[i], sizeof room[i]};
		struct fi_msg message = {.msg_iov = &segment,
					 .iov_count = 1,
					 .addr = FI_ADDR_UNSPEC,
					 .context = room[i]};

		CHECK_EQUAL(fi_recvmsg(pair.ep, &message, FI_MULTI_RECV | FI_COMPLETION), 0);
	}
	pair_barrier(&pair);
	for (unsigned i = 0; i < MESSAGES && !pair_rank; i++) {
		fill(out, sizeof out, i);
		CHECK_EQUAL(fi_inject(pair.ep, out, sizeof out, pair.other), 0);
	}
	for (unsigned i = 0, ended = 0; pair_rank && ended < 2; i++) {
		struct fi_cq_tagged_entry entry;
		ssize_t count;

		do
			count = fi_cq_read(pair.cq, &entry, 1);
		while (count == -FI_EAGAIN);
		CHECK_EQUAL(count, 1);
		CHECK(entry.op_context == room[ended]);
		CHECK_EQUAL(entry.len, SIZE);
		CHECK((unsigned char *)entry.buf >= room[ended] &&
		      (unsigned char *)entry.buf + SIZE <= room[ended] + sizeof room[ended]);
		CHECK(filled(entry.buf, SIZE, i));
		ended += !!(entry.flags & FI_MULTI_RECV);
	}
	pair_shut(&pair);
}

/* Writes, reads and inject writes; one count each, when the data is there; and what may not be
 * done. */
static void test_access(void)
{
	struct pair_attr attr = {
		.counters = true, .cq_flags = FI_SELECTIVE_COMPLETION, .caps = FI_RMA_EVENT};
	static unsigned char out[300000], in[300000];
	struct iovec segment = {out, sizeof out};
	struct fi_rma_iov remote = {.addr = 1000, .len = sizeof out, .key = REGION_KEY};
	struct fi_msg_rma message = {.msg_iov = &segment,
				     .iov_count = 1,
				     .rma_iov = &remote,
				     .rma_iov_count = 1,
				     .context = contexts};
	struct pair pair;
	struct fid_mr *twice;

	pair_open(&pair, &attr);
	message.addr = pair.other;
	fill(out, sizeof out, (unsigned)pair_rank + 20);
	CHECK_EQUAL(fi_inject_write(pair.ep, out, 64, pair.other, 0, REGION_KEY), 0);
	CHECK_EQUAL(fi_writemsg(pair.ep, &message, FI_DELIVERY_COMPLETE), 0);
	CHECK_EQUAL(fi_cntr_wait(pair.accessed, 2, 10000), 0);
	CHECK_EQUAL(
		fi_read(pair.ep, in, sizeof in, NULL, pair.other, 1000, REGION_KEY, contexts + 1),
		0);
	CHECK_EQUAL(fi_cntr_wait(pair.accessed, 3, 10000), 0);
	CHECK(filled(in, sizeof in, (unsigned)pair_rank + 20));
	CHECK_EQUAL(fi_cntr_wait(pair.written, 2, 10000), 0);
	CHECK(filled(pair.region, 64, 1 - (unsigned)pair_rank + 20));
	CHECK(filled(pair.region + 1000, sizeof out, 1 - (unsigned)pair_rank + 20));
	pair_expect_nothing(&pair);
	pair_barrier(&pair);
	CHECK_EQUAL(fi_cntr_read(pair.accessed), 3);
	CHECK_EQUAL(fi_cntr_read(pair.written), 2);
	pair_barrier(&pair); /* before the other's next write can be counted */
	remote.addr = 5;
	segment.iov_len = 8;
	CHECK_EQUAL(fi_writemsg(pair.ep, &message, FI_COMPLETION), 0);
	CHECK_EQUAL(pair_take(&pair, contexts).flags, FI_WRITE | FI_RMA);
	remote.key = 0x999;
	CHECK_EQUAL(fi_writemsg(pair.ep, &message, FI_COMPLETION), 0);
	CHECK_EQUAL(pair_take_error(&pair, contexts).err, FI_ENOKEY);
	CHECK_EQUAL(fi_cntr_readerr(pair.accessed), 1);
	CHECK(fi_mr_reg(pair.domain, out, 8, FI_REMOTE_READ, 0, REGION_KEY, 0, &twice, NULL) < 0);
	pair_shut(&pair);
}

/* Counters that are bound to an endpoint which is enabled already count from then on, where nothing makes a queue
 * entry; nothing else can be bound so late, nor a second counter. */
static void test_late_counters(void)
{
	struct pair_attr attr = {.cq_flags = FI_SELECTIVE_COMPLETION, .caps = FI_RMA_EVENT};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	static unsigned char in[64];
	struct pair pair;
	struct fid_cq *cq;

	pair_open(&pair, &attr);
	pair.sent = pair_counter(&pair, FI_SEND);
	pair.received = pair_counter(&pair, FI_RECV);
	pair.accessed = pair_counter(&pair, FI_READ | FI_WRITE);
	pair.written = pair_counter(&pair, FI_REMOTE_WRITE);
	CHECK_EQUAL(fi_ep_bind(pair.ep, &pair.sent->fid, FI_SEND), -FI_EINVAL);
	CHECK_EQUAL(fi_cq_open(pair.domain, &cq_attr, &cq, NULL), 0);
	CHECK_EQUAL(fi_ep_bind(pair.ep, &cq->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
	CHECK_EQUAL(fi_ep_bind(pair.ep, &pair.av->fid, 0), -FI_EOPBADSTATE);
	CHECK_EQUAL(fi_close(&cq->fid), 0);
	pair_barrier(&pair); /* both have bound theirs */
	CHECK_EQUAL(fi_recv(pair.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, contexts), 0);
	CHECK_EQUAL(fi_inject(pair.ep, "late", 4, pair.other), 0);
	CHECK_EQUAL(fi_write(pair.ep, "later", 5, NULL, pair.other, 8, REGION_KEY, contexts), 0);
	CHECK_EQUAL(fi_inject_write(pair.ep, "last", 4, pair.other, 0, REGION_KEY), 0);
	CHECK_EQUAL(fi_read(pair.ep, in + 32, 8, NULL, pair.other, 0, REGION_KEY, contexts), 0);
	CHECK_EQUAL(fi_cntr_wait(pair.accessed, 3, 10000), 0);
	CHECK_EQUAL(fi_cntr_wait(pair.sent, 1, 10000), 0);
	CHECK_EQUAL(fi_cntr_wait(pair.received, 1, 10000), 0);
	CHECK_EQUAL(fi_cntr_wait(pair.written, 2, 10000), 0);
	CHECK(!memcmp(in, "late", 4) && !memcmp(pair.region, "last", 4) && !memcmp(pair.region + 8, "later", 5));
	pair_expect_nothing(&pair);
	pair_shut(&pair);
}

/* What is under way to a peer that closes its endpoint in good order: the error that runtimes without tags tolerate at
 * their exit, and for MPIs, which take that one for a cancel of their own, the one of a peer that has died. */
static void test_closed_peer(void)
{
	const struct {
		uint64_t without;
		int error;
	} rows[] = {{FI_TAGGED, FI_ECANCELED}, {0, FI_ECONNRESET}};
	static unsigned char out[300000];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct pair_attr attr = {.without = rows[i].without, .progress = FI_PROGRESS_MANUAL};
		struct pair pair;
		char mark = 'm';

		pair_open(&pair, &attr);
		if (pair_rank == 0) {
			CHECK_EQUAL(fi_write(pair.ep, out, sizeof out, NULL, pair.other, 0, REGION_KEY, contexts), 0);
			CHECK_EQUAL(fi_recv(pair.ep, out, 8, NULL, pair.other, contexts + 1), 0);
		}
		pair_exchange(&mark, &mark, 1); /* rank 1 makes no progress any more */
		if (pair_rank == 0) {
			CHECK_EQUAL(pair_take_error(&pair, contexts).err, rows[i].error);
			CHECK_EQUAL(pair_take_error(&pair, contexts + 1).err, rows[i].error);
		} else {
			CHECK_EQUAL(fi_close(&pair.ep->fid), 0);
			pair.ep = NULL;
		}
		pair_shut(&pair);
	}
}

static struct fi_cq_err_entry peek_until_gone(struct pair *pair, const struct fi_msg_tagged *message, uint64_t flags)
{
	struct fi_cq_err_entry error;

	do {
		CHECK_EQUAL(fi_trecvmsg(pair->ep, message, flags), 0);
		error = pair_take_error(pair, message->context);
	} while (error.err == FI_ENOMSG);
	return error;
}

/* A look for what a peer that has gone could have sent says so at last, where nothing of it is left that fits. */
static void test_peek_closed_peer(void)
{
	struct pair_attr attr = {.cq_flags = 0};
	struct fi_cq_err_entry error;
	struct fi_msg_tagged message = {.tag = 2, .context = contexts};
	struct pair pair;

	pair_open(&pair, &attr);
	message.addr = pair.other;
	if (pair_rank == 1) {
		CHECK_EQUAL(fi_tinject(pair.ep, "left", 4, pair.other, 1), 0);
		CHECK_EQUAL(fi_close(&pair.ep->fid), 0);
		pair.ep = NULL;
	} else {
		error = peek_until_gone(&pair, &message, FI_PEEK);
		CHECK_EQUAL(error.err, FI_ECONNRESET);
		CHECK_EQUAL(error.tag, 2);
		CHECK_EQUAL(peek_until_gone(&pair, &message, FI_PEEK | FI_CLAIM).err, FI_ECONNRESET);
		message.tag = 1;
		CHECK_EQUAL(fi_trecvmsg(pair.ep, &message, FI_PEEK | FI_DISCARD), 0);
		CHECK_EQUAL(pair_take(&pair, contexts).len, 4);
		message.addr = FI_ADDR_UNSPEC; /* others may send */
		CHECK_EQUAL(fi_trecvmsg(pair.ep, &message, FI_PEEK), 0);
		CHECK_EQUAL(pair_take_error(&pair, contexts).err, FI_ENOMSG);
	}
	pair_shut(&pair);
}

/* A write with data makes an entry at the peer, which has no context. */
static void test_write_data(void)
{
	struct pair_attr attr = {.cq_flags = 0};
	unsigned char out[8] = "7654321";
	struct pair pair;

	pair_open(&pair, &attr);
	if (pair_rank == 0) {
		CHECK_EQUAL(fi_writedata(pair.ep, out, 8, NULL, 4711, pair.other, 16, REGION_KEY,
					 contexts),
			    0);
		CHECK_EQUAL(pair_take(&pair, contexts).flags, FI_WRITE | FI_RMA);
	} else {
		struct fi_cq_tagged_entry entry = pair_take(&pair, NULL);

		CHECK_EQUAL(entry.flags, FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA);
		CHECK_EQUAL(entry.data, 4711);
		CHECK_EQUAL(entry.len, 8);
		CHECK(!memcmp(pair.region + 16, out, 8));
	}
	pair_shut(&pair);
}

/* Atomics of both sides on one place add up; results and comparisons, in one piece and in several.
 */
static void test_atomics(void)
{
	enum { ROUNDS = 1000, PLACES = 65 };
	struct pair_attr attr = {.cq_flags = 0};
	static uint64_t many[PLACES];
	struct fi_ioc places[PLACES], whole[1] = {{many, PLACES}};
	uint64_t one = 1, was = 0, operands[3] = {10, 20, 30}, compares[3] = {0, 5, 0},
		 results[3] = {9, 9, 9};
	struct fi_ioc from[2] = {{operands, 1}, {operands + 1, 2}}, with[1] = {{compares, 3}};
	struct fi_ioc into[3] = {{results + 2, 1}, {results + 1, 1}, {results, 1}};
	struct pair pair;
	uint64_t *words;
	size_t count = 0;
	fi_addr_t home;

	pair_open(&pair, &attr);
	words = (uint64_t *)(void *)pair.region;
	home = pair_rank ? pair.other : pair.self;
	CHECK_EQUAL(fi_atomicvalid(pair.ep, FI_UINT64, FI_SUM, &count), 0);
	CHECK(count >= 3);
	CHECK(fi_atomicvalid(pair.ep, FI_DOUBLE, FI_BXOR, &count) < 0);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQUAL(fi_atomic(pair.ep, &one, 1, NULL, home, 8, REGION_KEY, FI_UINT64,
				      FI_SUM, contexts),
			    0);
		CHECK_EQUAL(pair_take(&pair, contexts).flags, FI_ATOMIC | FI_WRITE);
	}
	pair_barrier(&pair);
	CHECK_EQUAL(fi_fetch_atomic(pair.ep, NULL, 1, NULL, &was, NULL, home, 8, REGION_KEY,
				    FI_UINT64, FI_ATOMIC_READ, contexts + 1),
		    0);
	CHECK_EQUAL(pair_take(&pair, contexts + 1).flags, FI_ATOMIC | FI_READ);
	CHECK_EQUAL(was, 2 * ROUNDS);
	pair_barrier(&pair);
	if (pair_rank == 0) {
		memset(words + 8, 0, 24);
		CHECK_EQUAL(fi_compare_atomicv(pair.ep, from, NULL, 2, with, NULL, 1, into, NULL, 3,
					       pair.self, 64, REGION_KEY, FI_UINT64, FI_CSWAP,
					       contexts + 2),
			    0);
		pair_take(&pair, contexts + 2);
		CHECK(words[8] == 10 && words[9] == 0 && words[10] == 30);
		CHECK(results[0] == 0 && results[1] == 0 && results[2] == 0);
	}
	/* What there is not in a family is refused by its calls as by fi_query_atomic. */
	CHECK_EQUAL(fi_compare_atomic(pair.ep, &one, 1, NULL, &one, NULL, &was, NULL, home, 8, REGION_KEY, FI_UINT64,
				      FI_SUM, contexts),
		    -FI_EOPNOTSUPP);
	CHECK_EQUAL(fi_fetch_atomic(pair.ep, &one, 1, NULL, &was, NULL, home, 8, REGION_KEY, FI_UINT64, FI_CSWAP,
				    contexts),
		    -FI_EOPNOTSUPP);
	CHECK_EQUAL(fi_atomic(pair.ep, &one, 1, NULL, home, 8, REGION_KEY, FI_UINT64, FI_ATOMIC_READ, contexts),
		    -FI_EOPNOTSUPP);
	for (int i = 0; i < PLACES; i++)
		places[i] = (struct fi_ioc){many + i, 1};
	CHECK_EQUAL(fi_fetch_atomicv(pair.ep, whole, NULL, 1, places, NULL, PLACES, home, 0, REGION_KEY, FI_UINT64,
				     FI_SUM, contexts),
		    -FI_EINVAL); /* one more than iov_limit says */
	CHECK_EQUAL(fi_atomicv(pair.ep, places, NULL, PLACES, home, 0, REGION_KEY, FI_UINT64, FI_SUM, contexts),
		    -FI_EINVAL);
	pair_shut(&pair);
}

/* What cannot be made is refused or fails, and nobody's memory changes; a result in several places is there without an
 * entry, too. */
static void test_atomic_places(void)
{
	enum { MOST = 512 }; /* elements, as fi_atomicvalid says */
	struct pair_attr attr = {.cq_flags = FI_SELECTIVE_COMPLETION, .tx_flags = FI_COMPLETION};
	static uint64_t many[64 * MOST];
	uint64_t operands[2] = {10, 20}, compares[2] = {0, 0}, results[2] = {9, 9};
	struct fi_ioc from[2] = {{operands, 1}, {operands + 1, 1}}, with[1] = {{compares, 1}};
	struct fi_ioc into[2] = {{results + 1, 1}, {results, 1}};
	struct fi_ioc long_from[2] = {{many, 32 * MOST}, {many + 32 * MOST, 32 * MOST}};
	struct fi_rma_ioc home = {.addr = 64, .count = 2, .key = REGION_KEY};
	struct fi_msg_atomic message = {.msg_iov = from,
					.iov_count = 2,
					.rma_iov = &home,
					.rma_iov_count = 1,
					.datatype = FI_UINT64,
					.op = FI_SUM,
					.context = contexts + 1};
	struct pair pair;
	uint64_t *words;
	size_t count = 0;

	pair_open(&pair, &attr);
	CHECK_EQUAL(fi_atomicvalid(pair.ep, FI_UINT64, FI_SUM, &count), 0);
	CHECK_EQUAL(count, MOST);
	words = (uint64_t *)(void *)pair.region;
	memset(words + 8, 0, 16);
	message.addr = pair.self;
	CHECK_EQUAL(fi_compare_atomicv(pair.ep, from, NULL, 2, with, NULL, 1, into, NULL, 2, pair.self, 64, REGION_KEY,
				       FI_UINT64, FI_CSWAP, contexts),
		    -FI_EINVAL); /* one with which nothing is compared */
	CHECK_EQUAL(fi_atomicv(pair.ep, long_from, NULL, 2, pair.self, 0, REGION_KEY, FI_UINT64, FI_SUM, contexts),
		    -FI_EINVAL);
	CHECK_EQUAL(fi_fetch_atomicv(pair.ep, from, NULL, 2, into, NULL, 2, pair.self, 64, REGION_KEY + 77, FI_UINT64,
				     FI_SUM, contexts),
		    0);
	pair_take_error(&pair, contexts);
	CHECK(results[0] == 9 && results[1] == 9 && words[8] == 0 && words[9] == 0);
	words[8] = 1;
	words[9] = 2;
	CHECK_EQUAL(fi_fetch_atomicmsg(pair.ep, &message, into, NULL, 2, 0), 0);
	while (__atomic_load_n(&results[0], __ATOMIC_RELAXED) == 9)
		pair_expect_nothing(&pair);
	pair_expect_nothing(&pair);
	CHECK(results[1] == 1 && results[0] == 2 && words[8] == 11 && words[9] == 22);
	pair_shut(&pair);
}

/* What a peer's accesses are counted as: atomics with a result are reads. */
static void test_remote_counters(void)
{
	struct pair_attr attr = {.counters = true, .caps = FI_RMA_EVENT};
	uint64_t word = 0, was = 0;
	struct fid_cntr *looked;
	struct pair pair;

	pair_open(&pair, &attr);
	looked = pair_counter(&pair, FI_REMOTE_READ);
	pair_barrier(&pair);
	CHECK_EQUAL(fi_write(pair.ep, &word, 8, NULL, pair.other, 0, REGION_KEY, contexts), 0);
	pair_take(&pair, contexts);
	CHECK_EQUAL(fi_atomic(pair.ep, &word, 1, NULL, pair.other, 0, REGION_KEY, FI_UINT64, FI_SUM,
			      contexts),
		    0);
	pair_take(&pair, contexts);
	CHECK_EQUAL(fi_read(pair.ep, &was, 8, NULL, pair.other, 0, REGION_KEY, contexts), 0);
	pair_take(&pair, contexts);
	CHECK_EQUAL(fi_fetch_atomic(pair.ep, &word, 1, NULL, &was, NULL, pair.other, 0, REGION_KEY,
				    FI_UINT64, FI_SUM, contexts),
		    0);
	pair_take(&pair, contexts);
	CHECK_EQUAL(fi_compare_atomic(pair.ep, &word, 1, NULL, &word, NULL, &was, NULL, pair.other,
				      0, REGION_KEY, FI_UINT64, FI_CSWAP, contexts),
		    0);
	pair_take(&pair, contexts);
	pair_barrier(&pair);
	CHECK_EQUAL(fi_cntr_read(pair.written), 2);
	CHECK_EQUAL(fi_cntr_read(looked), 3);
	pair_barrier(&pair);
	CHECK_EQUAL(fi_close(&pair.ep->fid), 0);
	CHECK_EQUAL(fi_close(&looked->fid), 0);
	pair.ep = NULL;
	pair_shut(&pair);
}

/* Each kind of question to a process that has never sent anything to the one that asks. */
static void test_one_way(int kind)
{
	struct pair_attr attr = {.cq_flags = 0};
	struct pair pair;
	uint64_t word = 5, was = 0, in = 0;
	struct iovec segment = {&word, sizeof word};
	struct fi_msg_tagged message = {
		.msg_iov = &segment, .iov_count = 1, .tag = 1, .context = contexts};

	pair_open(&pair, &attr);
	message.addr = pair.other;
	if (pair_rank == 1)
		CHECK_EQUAL(fi_trecv(pair.ep, &in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, contexts + 1), 0);
	if (pair_rank == 0) {
		ssize_t error = kind == 0   ? fi_read(pair.ep, &was, 8, NULL, pair.other, 0,
						      REGION_KEY, contexts)
				: kind == 1 ? fi_fetch_atomic(pair.ep, &word, 1, NULL, &was, NULL,
							      pair.other, 0, REGION_KEY, FI_UINT64,
							      FI_SUM, contexts)
				: kind == 2 ? fi_tsendmsg(pair.ep, &message, FI_MATCH_COMPLETE)
					    : fi_write(pair.ep, &word, 8, NULL, pair.other, 0,
						       REGION_KEY, contexts);

		CHECK_EQUAL(error, 0);
		pair_take(&pair, contexts);
	}
	pair_shut(&pair);
}

static void test_one_way_read(void)
{
	test_one_way(0);
}

static void test_one_way_atomic(void)
{
	test_one_way(1);
}

static void test_one_way_match(void)
{
	test_one_way(2);
}

static void test_one_way_write(void)
{
	test_one_way(3);
}

/* Sleeping in a read until a message comes, until a time has passed, and until another calls; a
 * descriptor. */
static void test_sleep(void)
{
	struct pair_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_tagged_entry entry;
	struct pollfd poller = {.events = POLLIN};
	unsigned char byte = 0;
	struct pair pair;
	struct fid *fids[1];

	pair_open(&pair, &attr);
	fids[0] = &pair.cq->fid;
	CHECK_EQUAL(fi_control(&pair.cq->fid, FI_GETWAIT, &poller.fd), 0);
	CHECK_EQUAL(fi_cq_sread(pair.cq, &entry, 1, NULL, 20), -FI_EAGAIN);
	CHECK_EQUAL(fi_cq_signal(pair.cq), 0);
	CHECK_EQUAL(fi_cq_sread(pair.cq, &entry, 1, NULL, -1), -FI_EAGAIN);
	CHECK_EQUAL(fi_trecv(pair.ep, &byte, 1, NULL, pair.other, 1, 0, contexts), 0);
	if (pair_rank == 0) {
		usleep(20000);
		byte = 42;
		CHECK_EQUAL(fi_tinject(pair.ep, &byte, 1, pair.other, 1), 0);
		byte = 0;
	}
	CHECK_EQUAL(fi_cq_sread(pair.cq, &entry, 1, NULL, -1), 1);
	CHECK(entry.op_context == contexts && byte == 42);
	if (pair_rank == 1)
		CHECK_EQUAL(fi_tinject(pair.ep, &byte, 1, pair.other, 1), 0);
	/* What is entered by a call of our own, after we were told to sleep, must wake us too. */
	CHECK_EQUAL(fi_trecv(pair.ep, &byte, 1, NULL, pair.self, 2, 0, contexts + 1), 0);
	while (fi_trywait(pair.fabric, fids, 1))
		CHECK_EQUAL(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
	CHECK_EQUAL(fi_tsend(pair.ep, &byte, 1, NULL, pair.self, 2, contexts + 2), 0);
	CHECK_EQUAL(poll(&poller, 1, 10000), 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(fi_cq_sread(pair.cq, &entry, 1, NULL, -1), 1);
	pair_shut(&pair);
}

/* Who sleeps on a descriptor hears of its message, though another thread's look has taken the one before, which it did
 * not wait for, and with that what wakes it. */
static void test_sleep_beside(void)
{
	struct pair_attr attr = {
		.wait_obj = FI_WAIT_FD, .threading = FI_THREAD_SAFE, .counters = true};
	struct pollfd poller = {.events = POLLIN};
	struct fi_cq_tagged_entry entry;
	unsigned char byte = 0;
	struct pair pair;
	struct fid *fids[1];
	char mark = 0;

	pair_open(&pair, &attr);
	fids[0] = &pair.cq->fid;
	CHECK_EQUAL(fi_control(&pair.cq->fid, FI_GETWAIT, &poller.fd), 0);
	for (uint64_t tag = 2; pair_rank == 0 && tag > 0; tag--) {
		CHECK(recv(pair_socket, &mark, 1, 0) == 1);
		CHECK_EQUAL(fi_tinject(pair.ep, &byte, 1, pair.other, tag), 0);
		CHECK(send(pair_socket, &mark, 1, 0) == 1);
	}
	if (pair_rank == 1) {
		CHECK_EQUAL(fi_trecv(pair.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, contexts), 0);
		while (fi_trywait(pair.fabric, fids, 1))
			CHECK_EQUAL(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
		for (int i = 0; i < 2; i++) {
			CHECK(send(pair_socket, &mark, 1, 0) == 1);
			CHECK(recv(pair_socket, &mark, 1, 0) == 1);
			for (int look = 0; look < 20000 && i == 0; look++)
				fi_cntr_read(pair.sent);
		}
		CHECK_EQUAL(poll(&poller, 1, 10000), 1);
		pair_take(&pair, contexts);
		CHECK_EQUAL(fi_trecv(pair.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 2, 0, contexts), 0);
		pair_take(&pair, contexts);
	}
	pair_shut(&pair);
}

enum { THREADS = 4, THREAD_ROUNDS = 300 };

struct talker {
	struct pair *pair;
	uint64_t tag;
	int left; /* completions that are still to come; taken off by whichever thread reads them */
};

/* Whoever reads the queue gets everybody's completions. */
static void talker_read(struct talker *talker)
{
	struct fi_cq_tagged_entry entries[4];
	ssize_t count = fi_cq_read(talker->pair->cq, entries, 4);

	CHECK(count > 0 || count == -FI_EAGAIN);
	for (ssize_t i = 0; i < count; i++)
		__atomic_sub_fetch(&((struct talker *)entries[i].op_context)->left, 1,
				   __ATOMIC_RELEASE);
}

static void *talker_run(void *arg)
{
	struct talker *talker = arg;
	struct pair *pair = talker->pair;

	for (unsigned round = 0; round < THREAD_ROUNDS; round++) {
		uint64_t out[64] = {talker->tag, round}, in[64] = {0};

		__atomic_store_n(&talker->left, 2, __ATOMIC_RELEASE);
		CHECK_EQUAL(fi_trecv(pair->ep, in, sizeof in, NULL, pair->other, talker->tag, 0,
				     talker),
			    0);
		while (fi_tsend(pair->ep, out, sizeof out, NULL, pair->other, talker->tag,
				talker) == -FI_EAGAIN)
			talker_read(talker);
		while (__atomic_load_n(&talker->left, __ATOMIC_ACQUIRE))
			talker_read(talker);
		CHECK(in[0] == talker->tag && in[1] == round);
	}
	return NULL;
}

/* Many threads use one endpoint and one queue. */
static void test_threads(void)
{
	struct pair_attr attr = {.threading = FI_THREAD_SAFE};
	struct talker talkers[THREADS];
	pthread_t threads[THREADS];
	struct pair pair;

	pair_open(&pair, &attr);
	for (unsigned i = 0; i < THREADS; i++) {
		talkers[i] = (struct talker){.pair = &pair, .tag = i};
		CHECK_EQUAL(pthread_create(&threads[i], NULL, talker_run, &talkers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	pair_shut(&pair);
}

static void *cancelled_in_a_read(void *arg)
{
	struct fi_cq_tagged_entry entry;
	struct pair *pair = arg;

	pthread_cancel(pthread_self());
	fi_cq_sread(pair->cq, &entry, 1, NULL, -1);
	return NULL;
}

static void *cancelled_in_a_count(void *arg)
{
	struct pair *pair = arg;

	pthread_cancel(pthread_self());
	fi_cntr_wait(pair->received, 1, -1);
	return NULL;
}

/* A thread that is cancelled while it waits leaves what others need. */
static void test_cancelled_threads(void)
{
	struct pair_attr attr = {.wait_obj = FI_WAIT_FD, .threading = FI_THREAD_SAFE, .counters = true};
	void *(*const runs[])(void *) = {cancelled_in_a_read, cancelled_in_a_count};
	struct pair pair;

	pair_open(&pair, &attr);
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		void *result;

		CHECK_EQUAL(pthread_create(&thread, NULL, runs[i], &pair), 0);
		CHECK_EQUAL(pthread_join(thread, &result), 0);
		CHECK(result == PTHREAD_CANCELED);
		pair_expect_nothing(&pair);
	}
	pair_shut(&pair);
}

/* With automatic progress a peer's write is applied while this process calls nothing. */
static void automatic(const struct pair_attr *attr)
{
	static unsigned char out[500000];
	char done, name[NAME_BYTES];
	struct pair pair;

	pair_open(&pair, attr);
	CHECK_EQUAL(pair.info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	fill(out, sizeof out, 8);
	if (pair_rank == 0) {
		CHECK_EQUAL(fi_write(pair.ep, out, sizeof out, NULL, pair.other, 0, REGION_KEY,
				     contexts),
			    0);
		pair_take(&pair, contexts);
		CHECK(send(pair_socket, "d", 1, 0) == 1);
	} else {
		CHECK(recv(pair_socket, &done, 1, 0) == 1); /* no call of libfabric until then */
		/* What the progress thread wrote came before this by way of the other process, which no sanitizer sees.
		 * So take the lock that the thread had; this makes no progress. */
		CHECK_EQUAL(fi_av_lookup(pair.av, pair.self, name, &(size_t){sizeof name}), 0);
		CHECK(filled(pair.region, sizeof out, 8));
	}
	pair_shut(&pair);
}

static void test_automatic(void)
{
	automatic(&(struct pair_attr){.progress = FI_PROGRESS_AUTO, .threading = FI_THREAD_SAFE});
}

/* Who puts and gets without tags, with messages or without, has it unasked, but not against its will. */
static void test_automatic_access(void)
{
	struct pair_attr manual = {.progress = FI_PROGRESS_MANUAL, .without = FI_TAGGED};
	struct fi_info *info = pair_info(&manual);

	CHECK_EQUAL(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	fi_freeinfo(info);
	automatic(&(struct pair_attr){.without = FI_TAGGED});
	automatic(&(struct pair_attr){.without = FI_TAGGED | FI_MSG | FI_DIRECTED_RECV});
}

/* Names and addresses: lengths, a too small buffer, look-up, removal, what is no address. */
static void test_names(void)
{
	struct pair_attr attr = {.cq_flags = 0};
	char name[64] = {0}, looked[64] = {0}, bad[NAME_BYTES] = "nonsense";
	size_t length = 0, room = sizeof looked;
	unsigned char byte = 3;
	struct pair pair;
	fi_addr_t again, none;

	pair_open(&pair, &attr);
	CHECK_EQUAL(fi_getname(&pair.ep->fid, NULL, &length), -FI_ETOOSMALL);
	CHECK_EQUAL(length, NAME_BYTES);
	CHECK_EQUAL(fi_getname(&pair.ep->fid, name, &length), 0);
	CHECK_EQUAL(fi_av_lookup(pair.av, pair.self, looked, &room), 0);
	CHECK(room == NAME_BYTES && !memcmp(name, looked, NAME_BYTES));
	CHECK_EQUAL(fi_av_insert(pair.av, bad, 1, &none, 0, NULL), 0);
	CHECK_EQUAL(none, FI_ADDR_NOTAVAIL);
	CHECK_EQUAL(fi_av_remove(pair.av, &pair.self, 1, 0), 0);
	CHECK(fi_av_lookup(pair.av, pair.self, looked, &room) < 0);
	CHECK_EQUAL(fi_tinject(pair.ep, &byte, 1, pair.self, 1), -FI_EINVAL);
	CHECK_EQUAL(fi_av_insert(pair.av, name, 1, &again, 0, NULL), 1);
	CHECK_EQUAL(fi_trecv(pair.ep, &byte, 1, NULL, again, 1, 0, contexts), 0);
	CHECK_EQUAL(fi_tinject(pair.ep, &byte, 1, again, 1), 0);
	pair_take(&pair, contexts);
	pair_shut(&pair);
}

static int ask(void (*change)(struct fi_info *hints))
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int error;

	CHECK(hints);
	hints->fabric_attr->prov_name = strdup("thole");
	hints->ep_attr->type = FI_EP_RDM;
	change(hints);
	error = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return error;
}

static void ask_nothing(struct fi_info *hints)
{
	hints->caps = 0;
}
static void ask_device(struct fi_info *hints)
{
	hints->caps = FI_MSG | FI_HMEM;
}
static void ask_stream(struct fi_info *hints)
{
	hints->ep_attr->type = FI_EP_MSG;
}
static void ask_datagram(struct fi_info *hints)
{
	hints->ep_attr->type = FI_EP_DGRAM;
}
static void ask_inject(struct fi_info *hints)
{
	hints->tx_attr->inject_size = 1 << 20;
}
static void ask_format(struct fi_info *hints)
{
	hints->addr_format = FI_SOCKADDR_IN;
}
static void ask_order(struct fi_info *hints)
{
	hints->tx_attr->comp_order = 1;
}
static void ask_commit(struct fi_info *hints)
{
	hints->tx_attr->op_flags = FI_COMMIT_COMPLETE;
}
static void ask_mpi(struct fi_info *hints)
{
	hints->caps = FI_MSG | FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->mr_mode =
		FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	hints->domain_attr->cq_data_size = 4;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
}

/* What cannot be had is refused when it is asked for. */
static void test_hints(void)
{
	static const struct {
		void (*change)(struct fi_info *hints);
		int error;
	} rows[] = {
		{ask_nothing, 0},
		{ask_mpi, 0},
		{ask_device, -FI_ENODATA},
		{ask_stream, -FI_ENODATA},
		{ask_datagram, -FI_ENODATA},
		{ask_inject, -FI_ENODATA},
		{ask_format, -FI_ENODATA},
		{ask_order, -FI_ENODATA},
		{ask_commit, -FI_ENODATA},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		CHECK_EQUAL(ask(rows[i].change), rows[i].error);
}

/* Frames of another codec carry too little. Options are read once, so a process that has not done so
 * yet has to ask: this comes before all other tests. */
static void test_codec(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		setenv("FI_THOLE_CODEC", "mxoe", 1);
		_exit(ask(ask_nothing) != -FI_ENODATA);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
}

/* Endpoints of one domain share queue, vector and regions, those too that were registered before
 * the endpoint. */
static void test_siblings(void)
{
	struct pair_attr attr = {.cq_flags = 0};
	char mine[NAME_BYTES], theirs[NAME_BYTES];
	size_t length = sizeof mine;
	unsigned char out = 17, in = 0;
	struct fid_ep *second;
	struct pair pair;
	fi_addr_t other;

	pair_open(&pair, &attr);
	CHECK_EQUAL(fi_endpoint(pair.domain, pair.info, &second, NULL), 0);
	CHECK_EQUAL(fi_ep_bind(second, &pair.av->fid, 0), 0);
	CHECK_EQUAL(fi_ep_bind(second, &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	CHECK_EQUAL(fi_enable(second), 0);
	CHECK_EQUAL(fi_getname(&second->fid, mine, &length), 0);
	pair_exchange(mine, theirs, sizeof mine);
	CHECK_EQUAL(fi_av_insert(pair.av, theirs, 1, &other, 0, NULL), 1);
	CHECK_EQUAL(fi_trecv(second, &in, 1, NULL, other, 3, 0, contexts), 0);
	pair_barrier(&pair);
	CHECK_EQUAL(fi_tinject(second, &out, 1, other, 3), 0);
	pair_take(&pair, contexts);
	CHECK_EQUAL(in, 17);
	CHECK_EQUAL(fi_write(pair.ep, &out, 1, NULL, other, 9, REGION_KEY, contexts + 1), 0);
	pair_take(&pair, contexts + 1);
	pair_barrier(&pair);
	CHECK_EQUAL(pair.region[9], 17);
	CHECK_EQUAL(fi_close(&pair.cq->fid), -FI_EBUSY);
	CHECK_EQUAL(fi_close(&second->fid), 0);
	pair_shut(&pair);
}

/* An endpoint is closed while what it has sent waits for others of its domain, here and there: these take it
 * meanwhile. */
static void test_siblings_closing(void)
{
	enum { MESSAGES = 1000 };
	struct pair_attr attr = {.cq_flags = 0};
	struct fid_ep *second;
	unsigned out = 0;
	struct pair pair;

	pair_open(&pair, &attr);
	CHECK_EQUAL(fi_endpoint(pair.domain, pair.info, &second, NULL), 0);
	CHECK_EQUAL(fi_ep_bind(second, &pair.av->fid, 0), 0);
	CHECK_EQUAL(fi_ep_bind(second, &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	CHECK_EQUAL(fi_enable(second), 0);
	for (unsigned i = 0; i < 2 * MESSAGES; i++)
		CHECK_EQUAL(fi_trecv(pair.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, i % 2, 0, contexts), 0);
	pair_barrier(&pair);
	for (unsigned i = 0; i < 2 * MESSAGES; i++)
		CHECK_EQUAL(fi_tinject(second, &out, 0, i % 2 ? pair.other : pair.self, i % 2), 0);
	CHECK_EQUAL(fi_close(&second->fid), 0);
	for (unsigned i = 0; i < 2 * MESSAGES; i++)
		pair_take(&pair, contexts);
	pair_shut(&pair);
}

/* More completions than any queue was asked to hold. */
static void test_overflow(void)
{
	enum { MESSAGES = 5000 };
	struct pair_attr attr = {.cq_flags = 0};
	static unsigned in[MESSAGES];
	struct pair pair;

	pair_open(&pair, &attr);
	for (unsigned i = 0; i < MESSAGES; i++)
		CHECK_EQUAL(fi_trecv(pair.ep, &in[i], sizeof in[i], NULL, pair.self, i, 0, &in[i]),
			    0);
	for (unsigned i = 0; i < MESSAGES; i++)
		while (fi_tinject(pair.ep, &i, sizeof i, pair.self, i))
			fi_cq_read(pair.cq, NULL, 0);
	for (unsigned i = 0; i < MESSAGES; i++)
		CHECK_EQUAL(pair_take(&pair, &in[i]).tag, i);
	for (unsigned i = 0; i < MESSAGES; i++)
		CHECK_EQUAL(in[i], i);
	pair_shut(&pair);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"codec", test_codec},
	{"hints", test_hints},
	{"tagged", test_tagged},
	{"plain", test_plain},
	{"vectors", test_vectors},
	{"silence", test_silence},
	{"delivery", test_delivery},
	{"peek", test_peek},
	{"truncation", test_truncation},
	{"directed", test_directed_and_cancel},
	{"multi_recv", test_multi_recv},
	{"access", test_access},
	{"late_counters", test_late_counters},
	{"closed_peer", test_closed_peer},
	{"peek_closed_peer", test_peek_closed_peer},
	{"write_data", test_write_data},
	{"atomics", test_atomics},
	{"atomic_places", test_atomic_places},
	{"remote_counters", test_remote_counters},
	{"one_way_read", test_one_way_read},
	{"one_way_atomic", test_one_way_atomic},
	{"one_way_match", test_one_way_match},
	{"one_way_write", test_one_way_write},
	{"sleep", test_sleep},
	{"sleep-beside", test_sleep_beside},
	{"threads", test_threads},
	{"cancelled_threads", test_cancelled_threads},
	{"automatic", test_automatic},
	{"automatic_access", test_automatic_access},
	{"names", test_names},
	{"siblings", test_siblings},
	{"siblings_closing", test_siblings_closing},
	{"overflow", test_overflow},
};

static bool wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

/* Each test in two new processes' place: rank 1 is forked before libfabric is touched. */
int main(int argc, char **argv)
{
	int sockets[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) {
		perror("socketpair");
		return 1;
	}
	child = fork();
	pair_rank = child == 0;
	pair_process = pair_rank ? getppid() : child;
	alarm(100); /* a test that hangs must not outlive the one that waits for it */
	pair_socket = sockets[pair_rank];
	close(sockets[1 - pair_rank]);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		if (!wanted(argc, argv, tests[i].name))
			continue;
		if (!pair_rank)
			fprintf(stderr, "%s\n", tests[i].name);
		tests[i].run();
	}
	if (pair_rank)
		return 0;
	return waitpid(child, &status, 0) != child || status;
}
