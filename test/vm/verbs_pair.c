/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_pair FROM TO: two adapters of this machine, a reliable queue pair at each, joined to each other; bytes go by
 * send, by write with immediate data, by read and by an atomic addition, and are compared. Says "moved", or what
 * failed.
 *
 * It is over libibverbs alone, so that what fails here is the bed's fault and not Thole's.
 */
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 20000, GID = 1 /* that of the IPv4 address */, PORT = 1 };

/* One end: an adapter, its queue pair, and registered memory. */
struct end {
	struct ibv_context *context;
	struct ibv_pd *domain;
	struct ibv_cq *queue;
	struct ibv_qp *pair;
	struct ibv_mr *region;
	union ibv_gid gid;
	_Alignas(8) unsigned char bytes[BYTES];
};

static void need(int well, const char *what)
{
	if (well)
		return;
	printf("%s failed: %m\n", what);
	exit(1);
}

static void end_open(struct end *end, const char *name)
{
	struct ibv_qp_init_attr wanted = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					  .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
						  .max_recv_sge = 1}};
	struct ibv_device **devices = ibv_get_device_list(NULL);

	need(devices != NULL, "ibv_get_device_list");
	for (int i = 0; devices[i] && !end->context; i++)
		if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
			end->context = ibv_open_device(devices[i]);
	need(end->context != NULL, name);
	ibv_free_device_list(devices);
	need((end->domain = ibv_alloc_pd(end->context)) != NULL, "ibv_alloc_pd");
	need((end->queue = ibv_create_cq(end->context, 32, NULL, NULL, 0)) != NULL, "ibv_create_cq");
	wanted.send_cq = wanted.recv_cq = end->queue;
	need((end->pair = ibv_create_qp(end->domain, &wanted)) != NULL, "ibv_create_qp");
	end->region = ibv_reg_mr(end->domain, end->bytes, BYTES,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_ATOMIC);
	need(end->region != NULL, "ibv_reg_mr");
	need(ibv_query_gid(end->context, PORT, GID, &end->gid) == 0, "ibv_query_gid");
}

static void end_join(struct end *end, const struct end *to)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};

	need(ibv_modify_qp(end->pair, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->pair->qp_num,
				    .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				    .ah_attr = {.is_global = 1, .port_num = PORT,
						.grh = {.dgid = to->gid, .sgid_index = GID, .hop_limit = 64}}};
	need(ibv_modify_qp(end->pair, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				    .max_rd_atomic = 1};
	need(ibv_modify_qp(end->pair, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

/* The next completion of this end. */
static struct ibv_wc end_await(struct end *end, const char *what)
{
	struct ibv_wc done;
	int n;

	while ((n = ibv_poll_cq(end->queue, 1, &done)) == 0)
		;
	need(n == 1, what);
	if (done.status != IBV_WC_SUCCESS) {
		printf("%s: %s\n", what, ibv_wc_status_str(done.status));
		exit(1);
	}
	return done;
}

static void receive(struct end *end)
{
	struct ibv_sge place = {(uintptr_t)end->bytes, BYTES, end->region->lkey};
	struct ibv_recv_wr work = {.sg_list = &place, .num_sge = 1}, *bad;

	need(ibv_post_recv(end->pair, &work, &bad) == 0, "ibv_post_recv");
}

static void post(struct end *end, const struct end *to, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge place = {(uintptr_t)end->bytes, length, end->region->lkey};
	struct ibv_send_wr work = {.sg_list = &place, .num_sge = 1, .opcode = opcode, .imm_data = htobe32(7)}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		work.wr.atomic.remote_addr = (uintptr_t)to->bytes;
		work.wr.atomic.rkey = to->region->rkey;
		work.wr.atomic.compare_add = 5;
	} else {
		work.wr.rdma.remote_addr = (uintptr_t)to->bytes;
		work.wr.rdma.rkey = to->region->rkey;
	}
	need(ibv_post_send(end->pair, &work, &bad) == 0, "ibv_post_send");
}

static void fill(struct end *end, unsigned seed)
{
	for (unsigned i = 0; i < BYTES; i++)
		end->bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static void compare(const struct end *a, const struct end *b, const char *what)
{
	need(memcmp(a->bytes, b->bytes, BYTES) == 0, what);
}

int main(int argc, char **argv)
{
	static struct end one, two;
	uint64_t sum, old;

	if (argc != 3) {
		printf("usage: %s FROM TO\n", argv[0]);
		return 2;
	}
	end_open(&one, argv[1]);
	end_open(&two, argv[2]);
	end_join(&one, &two);
	end_join(&two, &one);

	fill(&one, 1);
	receive(&two);
	post(&one, &two, IBV_WR_SEND, BYTES);
	end_await(&one, "send");
	need(end_await(&two, "receive").byte_len == BYTES, "length of what was sent");
	compare(&one, &two, "bytes sent");

	fill(&one, 2);
	receive(&two);
	post(&one, &two, IBV_WR_RDMA_WRITE_WITH_IMM, BYTES);
	end_await(&one, "write");
	need(be32toh(end_await(&two, "immediate data").imm_data) == 7, "immediate data");
	compare(&one, &two, "bytes written");

	fill(&two, 3);
	post(&one, &two, IBV_WR_RDMA_READ, BYTES);
	end_await(&one, "read");
	compare(&one, &two, "bytes read");

	memcpy(&old, two.bytes, sizeof(old));
	post(&one, &two, IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(old));
	end_await(&one, "fetch and add");
	memcpy(&sum, two.bytes, sizeof(sum));
	need(sum == old + 5 && memcmp(one.bytes, &old, sizeof(old)) == 0, "addition");
	puts("moved");
	return 0;
}
