/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_verbs over a libibverbs that is made up here: it takes what it is told to, gives what the test puts into it, and
 * remembers what it was asked for. What real ones do is shown in guests; this one refuses.
 */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm_fake.h"
#include "thole.h"
#include "transport/verbs/card.h"
#include "transport/verbs/ibverbs.h"
#include "transport/verbs/port.h"
#include "unit.h"

enum { RECEIVES = 40, WORKS = 8, LIST = 64, PAIRS = 8 };

static struct {
	struct ibv_context context;
	struct ibv_device device;
	struct ibv_pd domain;
	struct ibv_comp_channel channel;
	struct ibv_cq completions;
	struct ibv_srq receives;
	struct ibv_mr region;
	struct ibv_qp pairs[PAIRS];
	unsigned pair_count;
	uint32_t pair_number;          /* of the next pair; 0: counted */
	struct ibv_wc wc[LIST];        /* what is to be polled */
	unsigned wc_first, wc_count;
	struct ibv_async_event events[LIST];
	unsigned event_first, event_count;
	unsigned receives_before;      /* so many come just before a pair is said to take no more */
	bool lid_moves;                /* at each event that says so */
	unsigned room;                 /* for receives; what is posted lessens it */
	uint64_t posted[LIST];         /* wr_ids of receives */
	unsigned posted_count;
	struct ibv_send_wr sent[LIST];
	unsigned sent_count;
	int send_error;
	int modify_error[IBV_QPS_ERR + 1]; /* returned, by the state that is asked for, and not left in errno */
	int poll_error, arm_error, destroy_error;
	unsigned destroyed, left;      /* pairs, and what was to be polled as the last one was */
	int entries;                   /* of the completion queue */
	int works;                     /* that a pair takes */
	bool large;                    /* it has more of everything than anybody asks for */
	int begin_mask;                /* what of a pair was set first */
	int access;                    /* that memory was last registered with */
	int gids;                      /* in the table; the last one is the address, */
	bool off;                      /* which is not there, */
	bool link;                     /* and the first one that of its link */
	bool infiniband;               /* it has but one, InfiniBand's */
	uint16_t keys[3];              /* of its partitions; 0: there are no more */
	uint16_t partition;            /* that a pair was put into, by its place */
	uint8_t flags;                 /* of the port */
	uint16_t lid;
	uint8_t address;               /* its last byte */
	struct ibv_qp_attr listening;  /* what a pair was told to */
} fake;

static int no_pair;       /* an errno: it gives none */
static uint32_t inline_most = UINT32_MAX; /* bytes that its pairs take inline, whatever is asked for */

/* ---- What libibverbs has ----------------------------------------------------------------------------------- */

static struct ibv_device *devices[] = {&fake.device, NULL};

static struct ibv_device **fake_devices(int *count)
{
	if (count)
		*count = 1;
	return devices;
}

static void fake_devices_free(struct ibv_device **list)
{
	assert_ptr_equal(list, devices);
}

static const char *fake_name(struct ibv_device *device)
{
	return device->name;
}

static int fake_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = 0;

	assert_ptr_equal(cq, &fake.completions);
	if (fake.poll_error)
		return fake.poll_error;
	while (n < max && fake.wc_first < fake.wc_count)
		wc[n++] = fake.wc[fake.wc_first++];
	return n;
}

static int fake_arm(struct ibv_cq *cq, int solicited)
{
	(void)cq, (void)solicited;
	return fake.arm_error;
}

static int fake_receive(struct ibv_srq *srq, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	assert_ptr_equal(srq, &fake.receives);
	for (; work; work = work->next) {
		if (fake.room == 0) {
			*bad = work;
			return ENOMEM;
		}
		fake.room--;
		fake.posted[fake.posted_count++ % LIST] = work->wr_id;
	}
	return 0;
}

static int fake_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = work;
	if (fake.send_error)
		return fake.send_error;
	fake.sent[fake.sent_count++ % LIST] = *work;
	return 0;
}

static struct ibv_context *fake_open(struct ibv_device *device)
{
	assert_ptr_equal(device, &fake.device);
	fake.context.ops.poll_cq = fake_poll;
	fake.context.ops.req_notify_cq = fake_arm;
	fake.context.ops.post_srq_recv = fake_receive;
	fake.context.ops.post_send = fake_send;
	fake.context.async_fd = eventfd(0, EFD_CLOEXEC);
	fake.context.cmd_fd = -1;
	return &fake.context;
}

static int fake_close(struct ibv_context *context)
{
	close(context->async_fd);
	return 0;
}

static int fake_query(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){.phys_port_cnt = 1, .max_qp = 4, .max_qp_wr = fake.works, .max_cqe = 1000,
					 .max_srq_wr = RECEIVES, .max_sge = 8, .max_qp_rd_atom = 4,
					 .max_qp_init_rd_atom = 4};
	if (fake.large)
		attr->max_qp = attr->max_qp_wr = attr->max_cqe = attr->max_srq_wr = 1 << 20;
	return 0;
}

static int fake_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *whole = (void *)attr;

	(void)context;
	assert_int_equal(port, 1);
	whole->state = IBV_PORT_ACTIVE;
	whole->lid = fake.lid;
	whole->gid_tbl_len = fake.gids;
	whole->flags = fake.flags;
	whole->pkey_tbl_len = 3;
	whole->active_mtu = whole->max_mtu = IBV_MTU_1024;
	return 0;
}

static int fake_gid(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		    uint32_t flags, size_t size)
{
	(void)context, (void)port, (void)flags, (void)size;
	*entry = (struct ibv_gid_entry){.gid_index = index, .gid_type = IBV_GID_TYPE_ROCE_V2};
	if (fake.infiniband) {
		entry->gid_type = IBV_GID_TYPE_IB;
		memcpy(entry->gid.raw, (uint8_t[]){0xfe, 0x80, [15] = 7}, 16);
		return 0;
	}
	if (fake.link && index == 0) {
		memcpy(entry->gid.raw, (uint8_t[]){0xfe, 0x80, [15] = 1}, 16);
		return 0;
	}
	if (fake.off || (int)index != fake.gids - 1)
		return ENODATA;
	memcpy(entry->gid.raw, (uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, fake.address}, 16);
	return 0;
}

static int fake_key(struct ibv_context *context, uint8_t port, int index, uint16_t *key)
{
	(void)context, (void)port;
	assert_in_range(index, 0, 2);
	*key = htobe16(fake.keys[index]);
	return fake.keys[index] ? 0 : -1;
}

static struct ibv_pd *fake_domain(struct ibv_context *context)
{
	(void)context;
	return &fake.domain;
}

static struct ibv_mr *fake_register(struct ibv_pd *domain, void *base, size_t length, int access)
{
	(void)domain, (void)base, (void)length;
	fake.access = access;
	return &fake.region;
}

static struct ibv_comp_channel *fake_channel(struct ibv_context *context)
{
	fake.channel = (struct ibv_comp_channel){.context = context, .fd = eventfd(0, EFD_CLOEXEC)};
	return &fake.channel;
}

static int fake_channel_end(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	return 0;
}

static struct ibv_cq *fake_completions(struct ibv_context *context, int entries, void *arg,
				       struct ibv_comp_channel *channel, int vector)
{
	(void)arg, (void)channel, (void)vector;
	fake.entries = entries;
	fake.completions.context = context;
	return &fake.completions;
}

static int fake_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **arg)
{
	(void)channel, (void)cq, (void)arg;
	return -1;
}

static struct ibv_srq *fake_receives(struct ibv_pd *domain, struct ibv_srq_init_attr *attr)
{
	(void)domain;
	fake.receives.context = &fake.context;
	fake.room = attr->attr.max_wr;
	return &fake.receives;
}

static struct ibv_qp *fake_pair(struct ibv_pd *domain, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *pair = &fake.pairs[fake.pair_count++ % PAIRS];

	(void)domain;
	if (no_pair) {
		errno = no_pair;
		return NULL;
	}
	if (attr->cap.max_inline_data > inline_most)
		attr->cap.max_inline_data = inline_most;
	*pair = (struct ibv_qp){.context = &fake.context, .qp_context = attr->qp_context,
				.qp_num = fake.pair_number ? fake.pair_number : 100 + fake.pair_count};
	return pair;
}

static int fake_modify(struct ibv_qp *pair, struct ibv_qp_attr *attr, int mask)
{
	errno = 0;
	if (!fake.modify_error[attr->qp_state])
		pair->state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_INIT)
		fake.begin_mask = mask, fake.partition = attr->pkey_index;
	if (attr->qp_state == IBV_QPS_RTR)
		fake.listening = *attr;
	return fake.modify_error[attr->qp_state];
}

static int fake_pair_end(struct ibv_qp *pair)
{
	(void)pair;
	fake.destroyed++;
	fake.left = fake.wc_count - fake.wc_first;
	return fake.destroy_error;
}

/* The n-th receive that was posted has come. */
static void receive_fill(unsigned n, uint32_t pair_number)
{
	fake.room++;
	fake.wc[fake.wc_count++] = (struct ibv_wc){.wr_id = fake.posted[n], .opcode = IBV_WC_RECV,
						   .qp_num = pair_number, .byte_len = 5};
}

static int fake_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	if (fake.event_first == fake.event_count)
		return -1;
	*event = fake.events[fake.event_first++];
	for (; event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED && fake.receives_before; fake.receives_before--)
		receive_fill(fake.receives_before - 1, event->element.qp->qp_num);
	fake.lid = (uint16_t)(fake.lid + (fake.lid_moves && event->event_type == IBV_EVENT_LID_CHANGE));
	return 0;
}

static int fake_nothing(void *thing)
{
	(void)thing;
	return 0;
}

/* ---- How it is found --------------------------------------------------------------------------------------- */

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlopen(const char *name, int flags)
{
	(void)flags;
	if (strcmp(name, "librdmacm.so.1") == 0)
		return &cm;
	assert_string_equal(name, "libibverbs.so.1");
	return &fake;
}

void *__wrap_dlsym(void *handle, const char *name)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} symbols[] = {
#define FAKE(name, function) {"ibv_" #name, (void (*)(void))(function)}
		FAKE(get_device_list, fake_devices), FAKE(free_device_list, fake_devices_free),
		FAKE(get_device_name, fake_name), FAKE(open_device, fake_open), FAKE(close_device, fake_close),
		FAKE(query_device, fake_query), FAKE(query_port, fake_query_port), FAKE(query_pkey, fake_key),
		FAKE(alloc_pd, fake_domain), FAKE(reg_mr, fake_register),
		FAKE(create_comp_channel, fake_channel), FAKE(destroy_comp_channel, fake_channel_end),
		FAKE(create_cq, fake_completions), FAKE(get_cq_event, fake_cq_event),
		FAKE(create_srq, fake_receives), FAKE(create_qp, fake_pair), FAKE(modify_qp, fake_modify),
		FAKE(destroy_qp, fake_pair_end), FAKE(get_async_event, fake_event),
		{"_ibv_query_gid_ex", (void (*)(void))fake_gid},
#undef FAKE
	};
	void (*function)(void) = (void (*)(void))fake_nothing;
	void *found = NULL;

	if (handle == &cm)
		return cm_symbol(name);
	assert_ptr_equal(handle, &fake);
	if (strcmp(name, "ibv_query_qp_data_in_order") == 0)
		return NULL;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		if (strcmp(symbols[i].name, name) == 0)
			function = symbols[i].function;
	memcpy(&found, &function, sizeof(found));
	return found;
}

/* ---- An adapter --------------------------------------------------------------------------------------------- */

static struct nic *nic;

static void begin_kind(enum port_kind kind)
{
	struct port port = {.device = "fake0", .number = 1, .kind = kind, .mtu_code = IBV_MTU_1024, .reads = 4,
			    .gid = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .gid_index = 2, .software = true,
			    .limits = {.can = NIC_CAN_IMM | NIC_CAN_READ, .queues = 4, .works = WORKS, .reads = 4,
				       .receives = RECEIVES, .segments = 8, .mtu = 1024}};

	memset(&fake, 0, sizeof(fake));
	memset(&cm, 0, sizeof(cm));
	cm.found = &fake.context;
	strcpy(fake.device.name, "fake0");
	fake.context.device = &fake.device;
	fake.works = WORKS;
	fake.gids = 3;
	fake.address = 1;
	assert_int_equal(nic_verbs_open(&port, &nic), 0);
}

static int begin(void **state)
{
	(void)state;
	begin_kind(PORT_ROCE2);
	return 0;
}

static int begin_iwarp(void **state)
{
	(void)state;
	begin_kind(PORT_IWARP);
	return 0;
}

static int end(void **state)
{
	(void)state;
	nic->calls->close(nic);
	return 0;
}

static struct nic_queue *queue_new(uint32_t number, struct nic_name *name_p)
{
	struct nic_queue *queue;

	assert_int_equal(nic->calls->queue_new(nic, number, &queue, name_p), 0);
	return queue;
}

static struct nic_queue *queue_connected(uint32_t number)
{
	struct nic_name name;
	struct nic_queue *queue = queue_new(number, &name);

	assert_int_equal(nic->calls->queue_connect(queue, &name), 0);
	return queue;
}

static unsigned poll_all(struct nic_completion *completions, unsigned max)
{
	unsigned total = 0, n;

	while ((n = nic->calls->poll(nic, completions + total, max - total)) > 0)
		total += n;
	return total;
}

/* Until it is freed; what comes meanwhile is of no interest. */
static void queue_stopped(struct nic_queue *queue)
{
	struct nic_completion completion;

	while (nic->calls->poll(nic, &completion, 1) == 0 || completion.operation != NIC_STOPPED)
		;
	nic->calls->queue_free(queue);
}

static void queue_end(struct nic_queue *queue)
{
	nic->calls->queue_stop(queue);
	queue_stopped(queue);
}

static unsigned receives_post(uint64_t first, unsigned count)
{
	struct nic_segment segments[NIC_RECEIVES_MAX] = {0};
	uint64_t ids[NIC_RECEIVES_MAX];

	for (unsigned i = 0; i < count; i++)
		ids[i] = first + i;
	return nic->calls->post_receives(nic, segments, ids, count);
}

/* Of those that the library refuses amid a list, the ones before are posted, and the rest are free: each comes back by
 * its own id, once, and there is room for as many as before. */
static void test_receives_in_part(void **state)
{
	struct nic_completion completions[RECEIVES];

	(void)state;
	fake.room = 5;
	assert_int_equal(receives_post(10, 12), 5);
	assert_int_equal(receives_post(15, 3), 0);
	for (unsigned i = 0; i < 5; i++)
		receive_fill(i, 0);
	assert_int_equal(poll_all(completions, RECEIVES), 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(completions[i].id, 10 + i);
	fake.room = RECEIVES + 10; /* the library has more than it was asked for: nobody posts more than that */
	fake.posted_count = fake.wc_first = fake.wc_count = 0;
	for (unsigned i = 0; i < RECEIVES; i += 8)
		assert_int_equal(receives_post(100 + i, 8), 8);
	assert_int_equal(receives_post(200, 8), 0);
	for (unsigned i = 0; i < RECEIVES; i++)
		receive_fill(i, 0);
	assert_int_equal(poll_all(completions, RECEIVES), RECEIVES);
	for (unsigned i = 0; i < RECEIVES; i++)
		assert_int_equal(completions[i].id, 100 + i);
}

/* Which of three ways something has come by, and its word. */
static void test_words(void **state)
{
	const struct {
		enum ibv_wc_opcode opcode;
		unsigned flags;
		enum nic_operation operation;
		uint32_t imm;
	} cases[] = {{IBV_WC_RECV, 0, NIC_RECEIVE, 0},
		     {IBV_WC_RECV, IBV_WC_WITH_IMM, NIC_RECEIVE_WORD, 0x01020304},
		     {IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, NIC_RECEIVE_IMM, 0x01020304}};
	struct nic_completion completions[3];

	(void)state;
	assert_int_equal(receives_post(0, 3), 3);
	for (unsigned i = 0; i < 3; i++) {
		receive_fill(i, 0);
		fake.wc[i].opcode = cases[i].opcode;
		fake.wc[i].wc_flags = cases[i].flags;
		fake.wc[i].imm_data = htobe32(0x01020304);
	}
	assert_int_equal(poll_all(completions, 3), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(completions[i].operation, cases[i].operation);
		assert_int_equal(completions[i].imm, cases[i].imm);
		assert_int_equal(completions[i].length, 5);
	}
}

/* A work that is refused leaves nothing behind: the next one takes its place. */
static void test_work_refused(void **state)
{
	struct nic_work work = {.operation = NIC_SEND, .id = 7};
	struct nic_queue *queue = queue_connected(3);
	struct nic_completion completion;

	(void)state;
	fake.send_error = ENOMEM;
	for (int i = 0; i < 2 * WORKS; i++)
		assert_int_equal(nic->calls->post(queue, &work), THOLE_ERR_AGAIN);
	fake.send_error = EINVAL;
	assert_int_equal(nic->calls->post(queue, &work), THOLE_ERR_SYSTEM);
	fake.send_error = 0;
	work.id = 8;
	assert_int_equal(nic->calls->post(queue, &work), 0);
	fake.wc[fake.wc_count++] = (struct ibv_wc){.wr_id = fake.sent[0].wr_id};
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.id, 8);
	assert_int_equal(completion.queue, 3);
	queue_end(queue);
}

/* What the adapter tells of before a read in front of it is done waits for that; then all come, in order, and no more
 * at a time than there is room for. So do silent ones, which have no completion of their own. */
static void test_overtaken(void **state)
{
	struct nic_work read = {.operation = NIC_READ, .id = 1}, send = {.operation = NIC_SEND};
	struct nic_queue *queue = queue_connected(3);
	struct nic_completion completions[WORKS];

	(void)state;
	assert_int_equal(nic->calls->post(queue, &read), 0);
	for (unsigned i = 1; i < WORKS; i++) {
		send.id = 1 + i;
		send.flags = i == 2 ? NIC_POST_SILENT : 0;
		assert_int_equal(nic->calls->post(queue, &send), 0);
	}
	for (unsigned i = WORKS - 1; i > 0; i--)
		if (i != 2)
			fake.wc[fake.wc_count++] = (struct ibv_wc){.wr_id = fake.sent[i].wr_id};
	assert_int_equal(nic->calls->poll(nic, completions, WORKS), 0);
	assert_int_equal(nic->calls->post(queue, &send), THOLE_ERR_AGAIN);
	fake.wc[fake.wc_count++] = (struct ibv_wc){.wr_id = fake.sent[0].wr_id};
	assert_int_equal(receives_post(50, 1), 1);
	receive_fill(0, fake.pairs[1].qp_num);
	assert_int_equal(nic->calls->poll(nic, completions, 3), 3); /* the receive has room */
	assert_int_equal(completions[0].operation, NIC_READ);
	assert_int_equal(completions[1].id, 2);
	assert_int_equal(completions[2].id, 50);
	assert_true(nic->calls->arm(nic) == 0);
	assert_int_equal(poll_all(completions, WORKS), WORKS - 3);
	for (unsigned i = 0; i < WORKS - 3; i++)
		assert_int_equal(completions[i].id, 4 + i);
	assert_int_equal(nic->calls->post(queue, &send), 0);
	queue_end(queue);
}

/* A pair whose number is that of one that was destroyed, and may have completions still, is not taken. */
static void test_number_again(void **state)
{
	struct nic_work work = {.operation = NIC_SEND, .id = 7};
	struct nic_queue *first, *second;
	struct nic_completion completion;
	struct nic_name name;

	(void)state;
	fake.pair_number = 77;
	first = queue_connected(1);
	assert_int_equal(nic->calls->post(first, &work), 0);
	assert_int_equal(nic->calls->queue_new(nic, 2, &second, &name), THOLE_ERR_AGAIN);
	queue_end(first);
	second = queue_new(2, &name);
	assert_int_equal(nic->calls->queue_connect(second, &name), 0);
	assert_int_equal(nic->calls->post(second, &work), 0);
	fake.wc[fake.wc_count++] = (struct ibv_wc){.wr_id = fake.sent[1].wr_id};
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.queue, 2);
	queue_end(second);
}

/* That an adapter, or a group of processes, has no more pairs is told from what else it gives none for. */
static void test_no_pair(void **state)
{
	static const int full[] = {ENOMEM, EAGAIN, ENOSPC, EMFILE};
	struct nic_queue *queue;
	struct nic_name name;

	(void)state;
	for (size_t i = 0; i < sizeof(full) / sizeof(*full); i++) {
		no_pair = full[i];
		assert_int_equal(nic->calls->queue_new(nic, 1, &queue, &name), THOLE_ERR_MEMORY);
	}
	no_pair = EINVAL;
	assert_int_equal(nic->calls->queue_new(nic, 1, &queue, &name), THOLE_ERR_SYSTEM);
	no_pair = 0;
}

/* The library's reason is what it returns: it need not be in errno. */
static void test_connect_refused(void **state)
{
	struct nic_name name;
	struct nic_queue *queue = queue_new(1, &name), *other;

	(void)state;
	fake.modify_error[IBV_QPS_RTR] = ENETUNREACH;
	assert_int_equal(nic->calls->queue_connect(queue, &name), THOLE_ERR_ADDRESS);
	fake.modify_error[IBV_QPS_RTR] = 0;
	fake.modify_error[IBV_QPS_RTS] = EIO;
	assert_int_equal(nic->calls->queue_connect(queue, &name), THOLE_ERR_SYSTEM);
	assert_non_null(strstr(thole_detail(), strerror(EIO)));
	fake.modify_error[IBV_QPS_INIT] = ENOMEM;
	fake.destroyed = 0;
	assert_int_equal(nic->calls->queue_new(nic, 2, &other, &name), THOLE_ERR_MEMORY);
	assert_int_equal(fake.destroyed, 1);
	queue_end(queue);
}

/* Some adapters take any wish for one pair, and say what that has become. */
static void test_inline(void **state)
{
	static const uint32_t most[] = {UINT32_MAX, 64, 0};

	for (int i = 0; i < 3; i++) {
		end(state);
		inline_most = most[i];
		begin(state);
		assert_int_equal(nic->limits.inline_max, i ? most[i] : 512);
	}
	inline_most = UINT32_MAX;
}

static void event(enum ibv_event_type type, int port)
{
	fake.events[fake.event_count++] = (struct ibv_async_event){.event_type = type, .element.port_num = port};
}

static enum nic_event next_event(void)
{
	return nic->calls->event(nic);
}

static void test_events(void **state)
{
	(void)state;
	event(IBV_EVENT_PORT_ERR, 2); /* another port's */
	event(IBV_EVENT_PORT_ERR, 1);
	event(IBV_EVENT_PORT_ACTIVE, 1);
	event(IBV_EVENT_SM_CHANGE, 1);
	event(IBV_EVENT_DEVICE_FATAL, 0);
	event(IBV_EVENT_CQ_ERR, 0); /* it is gone already */
	assert_int_equal(next_event(), NIC_EVENT_DOWN);
	assert_int_equal(next_event(), NIC_EVENT_UP);
	assert_int_equal(next_event(), NIC_EVENT_GONE);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
}

static bool is_readable(void)
{
	struct pollfd waiting = {.fd = nic->fd, .events = POLLIN};

	return poll(&waiting, 1, 0) != 0;
}

/* The kernel says for ever that there is something with a device that is gone, which cannot be armed any more: nobody
 * is kept awake by that. */
static void test_gone_sleeps(void **state)
{
	(void)state;
	event(IBV_EVENT_DEVICE_FATAL, 0);
	assert_int_equal(eventfd_write(fake.context.async_fd, 1), 0);
	assert_true(is_readable());
	assert_int_equal(next_event(), NIC_EVENT_GONE);
	assert_int_equal(eventfd_write(fake.channel.fd, 1), 0);
	fake.arm_error = EIO;
	assert_false(is_readable());
	assert_true(nic->calls->arm(nic) > 0);
}

/* By a completion queue or a shared receive queue that has failed nothing comes any more, whatever queues are made. */
static void test_queue_fails(void **state)
{
	(void)state;
	event(IBV_EVENT_SRQ_ERR, 0);
	assert_int_equal(next_event(), NIC_EVENT_GONE);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
}

static void test_poll_fails(void **state)
{
	struct nic_completion completion;

	(void)state;
	fake.poll_error = -2;
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	assert_true(nic->calls->arm(nic) == 0); /* nobody sleeps over it */
	assert_int_equal(next_event(), NIC_EVENT_GONE);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
}

static void test_pair_stays(void **state)
{
	(void)state;
	fake.destroy_error = EBUSY;
	queue_end(queue_connected(1));
	assert_int_equal(next_event(), NIC_EVENT_GONE);
}

/* A work of a queue has ended, by whose like the completion queue is never empty. Returns whether this is what is told
 * of another one. */
static bool busy_poll(struct nic_queue *busy, unsigned number, enum nic_operation wanted)
{
	struct nic_work work = {.operation = NIC_SEND, .id = 7};
	struct nic_completion completion;

	assert_int_equal(nic->calls->post(busy, &work), 0);
	fake.wc_first = 0;
	fake.wc_count = 1;
	fake.wc[0] = (struct ibv_wc){.wr_id = fake.sent[(fake.sent_count - 1) % LIST].wr_id};
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	if (completion.queue != number)
		return false;
	assert_int_equal(completion.operation, wanted);
	return true;
}

/* Where there are always completions of others, it is told all the same that a queue has failed, behind as many as may
 * have been there before, and it stops. */
static void test_never_empty(void **state)
{
	struct nic_queue *busy = queue_connected(3), *queue = queue_connected(4);
	unsigned most = RECEIVES + 4 * WORKS, polls = 0;

	(void)state;
	fake.events[fake.event_count++] = (struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL,
								   .element.qp = &fake.pairs[2]};
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	while (!busy_poll(busy, 4, NIC_BROKEN))
		assert_in_range(++polls, 0, 2 * most);
	assert_in_range(polls, most - 1, 2 * most);
	while (nic->calls->poll(nic, &(struct nic_completion){0}, 1) > 0)
		;
	nic->calls->queue_stop(queue);
	usleep(30000); /* the adapter need not say more */
	for (polls = 0; !busy_poll(busy, 4, NIC_STOPPED);)
		assert_in_range(++polls, 0, 4 * most);
	nic->calls->queue_free(queue);
	while (nic->calls->poll(nic, &(struct nic_completion){0}, 1) > 0)
		;
	queue_end(busy);
}

/* What is queued is bounded, and that the device is gone is never lost. */
static void test_events_flood(void **state)
{
	unsigned n = 0;
	enum nic_event got, last = NIC_EVENT_NONE;

	(void)state;
	for (int i = 0; i < 40; i++)
		event(i % 2 ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1);
	event(IBV_EVENT_DEVICE_FATAL, 0);
	event(IBV_EVENT_PORT_ERR, 1);
	for (; (got = next_event()) != NIC_EVENT_NONE; n++)
		last = got;
	assert_in_range(n, 1, 16);
	assert_int_equal(last, NIC_EVENT_GONE);
}

/* However often a port was down and up while nobody asked, the last that is said of it is what it is. */
static void test_events_flood__port(void **state)
{
	enum nic_event got, last = NIC_EVENT_NONE;

	(void)state;
	for (int count = 1; count < 40; count++) {
		fake.event_first = fake.event_count = 0;
		for (int i = 0; i < count; i++)
			event(i % 2 ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1);
		fake.lid_moves = true;
		for (int i = 0; i < 20; i++) /* so many that they are joined as only these have come since */
			event(IBV_EVENT_LID_CHANGE, 1);
		last = NIC_EVENT_NONE;
		while ((got = next_event()) != NIC_EVENT_NONE)
			last = got == NIC_EVENT_LOST ? last : got;
		assert_int_equal(last, count % 2 ? NIC_EVENT_DOWN : NIC_EVENT_UP);
	}
}

/* A port's address stands elsewhere, is another one, or is there no more: queues are made anew with the one that is,
 * and are left as they are where nothing has changed. */
static void test_address_changes(void **state)
{
	struct nic_name before, after;
	struct nic_queue *queue;

	(void)state;
	queue_end(queue_new(1, &before));
	event(IBV_EVENT_GID_CHANGE, 1);
	event(IBV_EVENT_PORT_ACTIVE, 1);
	assert_int_equal(next_event(), NIC_EVENT_UP);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	fake.gids = 5;
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_LOST);
	queue_end(queue_connected(1));
	assert_int_equal(fake.listening.ah_attr.grh.sgid_index, 4);
	fake.address = 9;
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_LOST);
	queue = queue_new(1, &after);
	assert_int_equal(after.bytes[31], 9);
	queue_end(queue);
	fake.lid = 33;
	event(IBV_EVENT_LID_CHANGE, 2);
	event(IBV_EVENT_LID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_LOST);
	fake.gids = 300; /* a queue pair's index of it has one byte */
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
}

/* An address that goes and comes again is taken again: the link's, which there was meanwhile, reaches no peer that has
 * only this one. */
static void test_address_again(void **state)
{
	struct nic_name name;

	(void)state;
	fake.link = fake.off = true;
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_LOST);
	queue_end(queue_new(1, &name));
	assert_int_equal(name.bytes[16], 0xfe);
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	fake.off = false;
	fake.address = 9; /* which nobody has asked for */
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	fake.address = 1;
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_LOST);
	queue_end(queue_new(1, &name));
	assert_int_equal(name.bytes[28], 10);
	event(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
}

/* Opened as it is found. */
static void begin_found(uint8_t flags)
{
	struct port *list;
	unsigned count;

	end(NULL);
	fake.infiniband = true;
	fake.flags = flags;
	fake.lid = 5;
	assert_int_equal(port_list(NULL, &list, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(list->kind, PORT_INFINIBAND);
	assert_int_equal(port_open(list, &nic), 0);
	free(list);
}

/* InfiniBand's packets have a global header where a port at either end asks for it: guests that share one. */
static void test_global(void **state)
{
	struct nic_name names[2]; /* by whether theirs does */
	struct nic_queue *queue;

	(void)state;
	for (int ours = 0; ours < 2; ours++) {
		begin_found(ours ? IBV_QPF_GRH_REQUIRED : 0);
		queue_end(queue_new(1, &names[ours]));
	}
	for (int i = 0; i < 4; i++) {
		begin_found(i & 1 ? IBV_QPF_GRH_REQUIRED : 0);
		queue = queue_new(1, &(struct nic_name){0});
		assert_int_equal(nic->calls->queue_connect(queue, &names[i >> 1]), 0);
		assert_int_equal(fake.listening.ah_attr.is_global, i > 0);
		queue_end(queue);
	}
	fake.flags = 0; /* a subnet manager may change its mind */
	event(IBV_EVENT_CLIENT_REREGISTER, 1);
	assert_int_equal(next_event(), NIC_EVENT_LOST);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
}

/* Of InfiniBand's partitions a queue is in one that its port is a full member of, if there is any; which one that is
 * may change. */
static void test_partition(void **state)
{
	static const struct {
		uint16_t keys[3];
		uint16_t partition;
		bool limited;
	} cases[] = {{{0xffff}, 0, false}, {{0x7fff, 0x8001}, 1, false}, {{0xffff, 0x8001}, 0, false},
		     {{0x7fff, 0, 0x8001}, 2, false}, {{0x7fff, 0x0001}, 0, true}};
	struct thole_adapter_info info;
	struct nic_name name;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		memcpy(fake.keys, cases[i].keys, sizeof(fake.keys));
		begin_found(0);
		queue_end(queue_new(1, &name));
		assert_int_equal(fake.partition, cases[i].partition);
		assert_int_equal(thole_adapter_info(0, &info), 0);
		assert_int_equal(strstr(info.better, "full member of no partition") != NULL, cases[i].limited);
	}
	event(IBV_EVENT_PKEY_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	memcpy(fake.keys, cases[1].keys, sizeof(fake.keys));
	event(IBV_EVENT_PKEY_CHANGE, 1);
	assert_int_equal(next_event(), NIC_EVENT_LOST);
	queue_end(queue_new(1, &name));
	assert_int_equal(fake.partition, 1);
}

/* There is room for what a card uses of an adapter that has much more, with the receives that strict credit has beside,
 * and for little more: it is locked memory. */
static void test_room(void **state)
{
	struct card_setup setup;
	uint32_t receives, most;

	(void)state;
	fake.large = true;
	begin_found(0);
	card_setup_default(&setup);
	receives = setup.receives + setup.slots + setup.bays + NIC_RECEIVES_MAX;
	assert_int_equal(nic->limits.queues, setup.queues);
	assert_in_range(nic->limits.receives, receives, receives + receives / 4);
	most = nic->limits.receives + setup.queues * nic->limits.works;
	assert_int_equal(fake.entries, most);
	assert_in_range(fake.room, receives, receives + receives / 4);
}

/* Works are counted in 32 bits, and lie in a ring: its places stay the same ones when the count begins anew. */
static void test_works(void **state)
{
	static const int most[][2] = {{100, 64}, {64, 64}, {127, 64}, {128, 128}, {5, 4}, {1 << 20, 128}};

	(void)state;
	for (size_t i = 0; i < sizeof(most) / sizeof(*most); i++) {
		fake.works = most[i][0];
		begin_found(0);
		assert_int_equal(nic->limits.works, most[i][1]);
	}
}

/* So many receives of another pair come, one after the other. */
static void others_come(unsigned count)
{
	struct nic_completion completion;

	for (unsigned i = 0; i < count; i++) {
		fake.posted_count = fake.wc_first = fake.wc_count = 0;
		assert_int_equal(receives_post(100, 1), 1);
		receive_fill(0, 0);
		assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	}
}

/* The pair that was made last takes no more receives. */
static void last_receive_said(void)
{
	fake.events[fake.event_count++] = (struct ibv_async_event){
		.event_type = IBV_EVENT_QP_LAST_WQE_REACHED, .element.qp = &fake.pairs[(fake.pair_count - 1) % PAIRS]};
}

/* Until a queue has stopped, or for a while; returns what came last. */
static struct nic_completion stop_wait(unsigned polls)
{
	struct nic_completion completion = {0};

	for (unsigned i = 0; i < polls && completion.operation != NIC_STOPPED; i++)
		(void)nic->calls->poll(nic, &completion, 1);
	return completion;
}

/* What a pair received last is polled before it is destroyed, with which a library forgets it: also what has come only
 * just when it is said that there is no more, and whoever has heard that. */
static void test_last_receives(void **state)
{
	enum { LAST = 3 };
	struct nic_completion completions[LAST + 1];

	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		struct nic_queue *queue = queue_connected(4);

		nic->calls->queue_stop(queue);
		if (asked)
			others_come(RECEIVES + 4 * WORKS - 1);
		fake.posted_count = fake.wc_first = fake.wc_count = fake.event_first = fake.event_count = 0;
		assert_int_equal(receives_post(10, LAST), LAST);
		fake.receives_before = LAST;
		last_receive_said();
		if (asked)
			assert_int_equal(next_event(), NIC_EVENT_NONE);
		for (unsigned n = 0; n <= LAST;)
			n += nic->calls->poll(nic, completions + n, 1);
		assert_int_equal(fake.left, 0);
		for (unsigned n = 0; n < LAST; n++)
			assert_int_equal(completions[n].operation, NIC_RECEIVE);
		assert_int_equal(completions[LAST].operation, NIC_STOPPED);
		nic->calls->queue_free(queue);
	}
}

/* A pair that has broken by itself may have said so before it is stopped: it does not do so again, and is not waited
 * for. */
static void test_last_receives__before(void **state)
{
	struct nic_queue *queue = queue_connected(4);
	struct ibv_qp *pair = &fake.pairs[(fake.pair_count - 1) % PAIRS];
	struct nic_completion completion = {0};

	(void)state;
	fake.events[fake.event_count++] = (struct ibv_async_event){.event_type = IBV_EVENT_QP_ACCESS_ERR,
								   .element.qp = pair};
	fake.events[fake.event_count++] = (struct ibv_async_event){.event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
								   .element.qp = pair};
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.operation, NIC_BROKEN);
	nic->calls->queue_stop(queue);
	for (int i = 0; i < 10 && completion.operation != NIC_STOPPED; i++)
		(void)nic->calls->poll(nic, &completion, 1);
	assert_int_equal(completion.operation, NIC_STOPPED);
	nic->calls->queue_free(queue);
}

/* One that takes what the peer sends, and then came to nothing, has had receives as others. */
static void test_last_receives__half(void **state)
{
	struct nic_name name;
	struct nic_queue *queue = queue_new(4, &name);
	struct nic_completion completions[2];

	(void)state;
	fake.modify_error[IBV_QPS_RTS] = EIO;
	assert_int_equal(nic->calls->queue_connect(queue, &name), THOLE_ERR_SYSTEM);
	nic->calls->queue_stop(queue);
	assert_int_equal(receives_post(10, 1), 1);
	fake.receives_before = 1;
	last_receive_said();
	for (unsigned n = 0; n < 2;)
		n += nic->calls->poll(nic, completions + n, 1);
	assert_int_equal(fake.left, 0);
	assert_int_equal(completions[0].operation, NIC_RECEIVE);
	assert_int_equal(completions[1].operation, NIC_STOPPED);
	nic->calls->queue_free(queue);
}

/* One that never took anything has none: its stop waits for nothing. */
static void test_last_receives__none(void **state)
{
	struct nic_name name;
	struct nic_queue *queue = queue_new(4, &name);

	(void)state;
	fake.modify_error[IBV_QPS_RTR] = ENETUNREACH;
	assert_int_equal(nic->calls->queue_connect(queue, &name), THOLE_ERR_ADDRESS);
	nic->calls->queue_stop(queue);
	assert_int_equal(stop_wait(10).operation, NIC_STOPPED);
	nic->calls->queue_free(queue);
}

/* Nothing ever says of a silent work that it was done: it is not waited for when its queue stops. */
static void test_stop__silent(void **state)
{
	struct nic_work loud = {.operation = NIC_SEND, .id = 7};
	struct nic_work silent = {.operation = NIC_SEND, .flags = NIC_POST_SILENT, .id = 8};
	struct nic_queue *queue = queue_connected(4);
	struct nic_completion completion;

	(void)state;
	assert_int_equal(nic->calls->post(queue, &loud), 0);
	assert_int_equal(nic->calls->post(queue, &silent), 0);
	assert_int_equal(nic->calls->post(queue, &silent), 0);
	assert_false(fake.sent[2].send_flags & IBV_SEND_SIGNALED);
	fake.wc[fake.wc_count++] = (struct ibv_wc){.wr_id = fake.sent[0].wr_id};
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	nic->calls->queue_stop(queue);
	last_receive_said();
	assert_int_equal(stop_wait(10).operation, NIC_STOPPED);
	nic->calls->queue_free(queue);
}

/* One that is not silent is waited for, also behind such, and has its own word. */
static void test_stop__loud(void **state)
{
	struct nic_work loud = {.operation = NIC_SEND, .id = 7};
	struct nic_work silent = {.operation = NIC_SEND, .flags = NIC_POST_SILENT, .id = 8};
	struct nic_queue *queue = queue_connected(4);
	struct nic_completion completion;

	(void)state;
	assert_int_equal(nic->calls->post(queue, &silent), 0);
	assert_int_equal(nic->calls->post(queue, &loud), 0);
	fake.destroyed = 0;
	nic->calls->queue_stop(queue);
	last_receive_said();
	assert_int_equal(stop_wait(10).operation, 0);
	assert_int_equal(fake.destroyed, 0);
	fake.wc[fake.wc_count++] = (struct ibv_wc){.wr_id = fake.sent[1].wr_id}; /* it was done just before */
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.id, 7);
	assert_int_equal(completion.status, 0);
	assert_int_equal(stop_wait(10).operation, NIC_STOPPED);
	nic->calls->queue_free(queue);
}

/* ---- iWARP ------------------------------------------------------------------------------------------------- */

static uint8_t request[33]; /* of the peer's */

/* A queue that waits to be asked by a peer, or has asked it: by whose token is the higher one. */
static struct nic_queue *queue_tying(bool asks)
{
	struct nic_name name;
	struct nic_queue *queue = queue_new(3, &name);

	memset(request, 0, sizeof(request));
	request[0] = 1;
	memcpy(request + 1, name.bytes + 4, 16);
	memset(name.bytes + 4, asks ? 0xff : 0, 16);
	assert_int_equal(nic->calls->queue_connect(queue, &name), 0);
	return queue;
}

/* Nothing is posted to a queue before its tie is up, which its owner is told; and its end is known without a work. */
static void test_tie(void **state)
{
	struct nic_work send = {.operation = NIC_SEND, .id = 7};
	struct nic_queue *queue = queue_tying(true);
	struct nic_completion completion;

	(void)state;
	assert_int_equal(fake.begin_mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(nic->calls->post(queue, &send), THOLE_ERR_PEER);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	cm_say(RDMA_CM_EVENT_ROUTE_RESOLVED, cm.id);
	cm_say(RDMA_CM_EVENT_ESTABLISHED, cm.id);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.operation, NIC_CONNECTED);
	assert_int_equal(completion.queue, 3);
	assert_int_equal(cm.param.qp_num, fake.pairs[1].qp_num); /* the first one was a try */
	cm_say(RDMA_CM_EVENT_DISCONNECTED, cm.id);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	assert_true(nic->calls->arm(nic) == 0);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.operation, NIC_BROKEN);
	assert_int_equal(completion.status, THOLE_ERR_PEER);
	assert_int_equal(nic->calls->post(queue, &send), THOLE_ERR_PEER);
	queue_end(queue);
	assert_int_equal(cm.ids, 1); /* the listener */
}

/* The other end may speak when something has come. */
static void test_tie__asked(void **state)
{
	struct nic_work send = {.operation = NIC_SEND, .id = 7};
	struct nic_queue *queue = queue_tying(false);
	struct nic_completion completion;

	(void)state;
	assert_int_equal(receives_post(10, 1), 1);
	cm_ask(request, sizeof(request));
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	assert_int_equal(cm.accepts, 1);
	cm_say(RDMA_CM_EVENT_ESTABLISHED, cm.id);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	assert_int_equal(nic->calls->post(queue, &send), THOLE_ERR_PEER);
	receive_fill(0, fake.pairs[1].qp_num);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.operation, NIC_RECEIVE);
	assert_int_equal(nic->calls->post(queue, &send), 0);
	queue_end(queue);
}

/* A pair is destroyed when the kernel has done with its tie, which it holds. */
static void test_tie__stopped(void **state)
{
	struct nic_queue *queue = queue_tying(true);
	struct nic_completion completion;

	(void)state;
	cm_say(RDMA_CM_EVENT_ROUTE_RESOLVED, cm.id);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	fake.destroyed = 0;
	nic->calls->queue_stop(queue);
	usleep(250000); /* longer than a pair is waited for */
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	assert_int_equal(fake.destroyed, 0);
	assert_in_range(nic->calls->arm(nic), 1, 15000000000); /* the kernel says so, or it takes too long */
	cm_say(RDMA_CM_EVENT_REJECTED, cm.id);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	assert_int_equal(nic->calls->arm(nic), 0); /* the adapter says it to who polls */
	while (nic->calls->poll(nic, &completion, 1) == 0)
		;
	assert_int_equal(completion.operation, NIC_STOPPED);
	assert_int_equal(fake.destroyed, 1);
	assert_int_equal(cm.ids, 1);
	nic->calls->queue_free(queue);
}

/* Who waits for the kernel holds up nobody: another queue stops meanwhile. */
static void test_tie__stopped_beside(void **state)
{
	struct nic_queue *asking = queue_tying(true), *other;
	struct nic_completion completion = {0};
	struct nic_name name;

	(void)state;
	cm_say(RDMA_CM_EVENT_ROUTE_RESOLVED, cm.id);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 0);
	other = queue_new(4, &name);
	nic->calls->queue_stop(asking);
	nic->calls->queue_stop(other);
	for (int i = 0; i < 100 && completion.operation != NIC_STOPPED; i++)
		(void)nic->calls->poll(nic, &completion, 1);
	assert_int_equal(completion.operation, NIC_STOPPED);
	assert_int_equal(completion.queue, 4);
	nic->calls->queue_free(other);
	cm_say(RDMA_CM_EVENT_REJECTED, cm.id);
	queue_stopped(asking);
}

/* What reads write to is what peers may write, for such an adapter; and no more than that. */
static void test_sinks(void **state)
{
	struct nic_memory memory;
	bool iwarp = cm.listens > 0;

	(void)state;
	assert_int_equal(nic->calls->register_memory(nic, &memory, 1, NIC_ACCESS_WRITE, &memory), 0);
	assert_int_equal(fake.access, IBV_ACCESS_LOCAL_WRITE | (iwarp ? IBV_ACCESS_REMOTE_WRITE : 0));
	assert_int_equal(nic->calls->register_memory(nic, &memory, 1, NIC_ACCESS_PEER_READ, &memory), 0);
	assert_int_equal(fake.access, IBV_ACCESS_REMOTE_READ);
}

/* The device is gone for ties, too. */
static void test_tie__removed(void **state)
{
	(void)state;
	cm_say(RDMA_CM_EVENT_DEVICE_REMOVAL, cm.id);
	assert_int_equal(next_event(), NIC_EVENT_GONE);
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	assert_int_equal(cm.ids, 0);
}

/* An event says that a pair has failed of which nothing is under way: its owner is told, whatever adapter it is. */
static void test_pair_fails(void **state)
{
	struct nic_queue *queue = queue_connected(4);
	struct nic_completion completion;

	(void)state;
	fake.events[fake.event_count++] = (struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL,
								   .element.qp = &fake.pairs[1]};
	assert_int_equal(next_event(), NIC_EVENT_NONE);
	assert_int_equal(nic->calls->poll(nic, &completion, 1), 1);
	assert_int_equal(completion.operation, NIC_BROKEN);
	assert_int_equal(completion.queue, 4);
	queue_end(queue);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define IWARP(name) cmocka_unit_test_setup_teardown(name, begin_iwarp, end)
	const struct CMUnitTest tests[] = {
		CASE(test_receives_in_part), CASE(test_words), CASE(test_work_refused), CASE(test_overtaken),
		CASE(test_number_again),
		CASE(test_no_pair), CASE(test_connect_refused), CASE(test_inline),
		CASE(test_events), CASE(test_gone_sleeps), CASE(test_queue_fails), CASE(test_poll_fails),
		CASE(test_pair_stays), CASE(test_events_flood), CASE(test_events_flood__port),
		CASE(test_last_receives), CASE(test_last_receives__before), CASE(test_last_receives__half),
		CASE(test_last_receives__none), CASE(test_stop__silent),
		CASE(test_stop__loud), CASE(test_room), CASE(test_works), CASE(test_partition), CASE(test_global),
		CASE(test_address_changes), CASE(test_address_again),
		CASE(test_pair_fails),
		CASE(test_sinks), IWARP(test_sinks), IWARP(test_tie), IWARP(test_tie__asked),
		IWARP(test_tie__stopped), IWARP(test_tie__stopped_beside), IWARP(test_tie__removed),
		CASE(test_never_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
