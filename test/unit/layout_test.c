/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts: messages whose data the program packs and unpacks. Both functions see each byte once, in order, and neither
 * a byte that is not the message's; whatever is on the other side, and however it gets there.
 */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

/* The program's data: what it packs, or expects to unpack, is known by the message's number. */
struct data {
	struct thole_layout layout;
	uint64_t id, at;       /* at: bytes that were packed or unpacked */
	unsigned packs, unpacks; /* calls */
};

enum { LENGTH = 700001 };

static void data_pack(void *state, uint64_t offset, void *to, size_t length)
{
	struct data *data = state;

	assert_int_equal(offset, data->at);
	assert_in_range(length, 1, data->layout.length - offset);
	for (size_t i = 0; i < length; i++)
		((uint8_t *)to)[i] = pair_byte(data->id, offset + i);
	data->at += length;
	data->packs++;
}

static void data_unpack(void *state, uint64_t offset, const void *from, size_t length)
{
	struct data *data = state;

	assert_int_equal(offset, data->at);
	assert_in_range(length, 1, data->layout.length - offset);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(((const uint8_t *)from)[i], pair_byte(data->id, offset + i));
	data->at += length;
	data->unpacks++;
}

static struct data *data_of(struct data *data, uint64_t id, uint64_t length)
{
	*data = (struct data){.layout = {data_pack, data_unpack, data, length}, .id = id};
	return data;
}

enum side { LAYOUT, MEMORY };

/* One message from a to b, or (own) from b to itself. */
struct transfer {
	enum side from, to;
	uint64_t length, room;
	bool early, own; /* early: it comes before its receive */
	uint32_t order;
	unsigned flags;
};

struct side_of {
	struct data data;
	uint8_t *memory;
	struct thole_request *request;
};

static void transfer_send(struct pair *pair, const struct transfer *transfer, uint64_t id, struct side_of *send)
{
	struct thole_endpoint *endpoint = transfer->own ? pair->b : pair->a;
	uint32_t peer = transfer->own ? pair_peer(pair->b, pair->b) : pair->a_to_b;

	if (transfer->from == LAYOUT)
		assert_int_equal(thole_send_layout(endpoint, peer,
						   &data_of(&send->data, id, transfer->length)->layout, id, 0,
						   transfer->flags, NULL, &send->request),
				 0);
	else
		assert_int_equal(thole_send(endpoint, peer, send->memory, transfer->length, id, 0, transfer->flags,
					    NULL, &send->request),
				 0);
}

static void transfer_receive(struct pair *pair, const struct transfer *transfer, uint64_t id, struct side_of *receive)
{
	if (transfer->to == LAYOUT)
		assert_int_equal(thole_recv_layout(pair->b, THOLE_ANY,
						   &data_of(&receive->data, id, transfer->room)->layout, id,
						   UINT64_MAX, 0, NULL, &receive->request),
				 0);
	else
		assert_int_equal(thole_recv(pair->b, THOLE_ANY, receive->memory, transfer->room, id, UINT64_MAX, 0,
					    NULL, &receive->request),
				 0);
}

static void transfer_make(struct pair *pair, const struct transfer *transfer, uint64_t id)
{
	uint64_t length = transfer->length < transfer->room ? transfer->length : transfer->room;
	struct side_of send = {.memory = pair_filled(id, transfer->length)};
	struct side_of receive = {.memory = malloc(transfer->room + 1)};
	struct thole_completion completion;
	int status;

	if (!transfer->early)
		transfer_receive(pair, transfer, id, &receive);
	transfer_send(pair, transfer, id, &send);
	if (transfer->early) {
		pair_progress(pair, 3);
		transfer_receive(pair, transfer, id, &receive);
	}
	status = transfer->order ? pair_take_turns(pair, receive.request, transfer->order)
				 : pair_finish(pair, pair->b, receive.request, &completion);
	assert_int_equal(status, length < transfer->length ? THOLE_ERR_TRUNCATED : 0);
	assert_int_equal(pair_finish(pair, transfer->own ? pair->b : pair->a, send.request, &completion), 0);
	assert_int_equal(completion.length, transfer->length);
	if (transfer->to == MEMORY)
		pair_check(id, receive.memory, length);
	else
		assert_int_equal(receive.data.at, length);
	if (transfer->from == LAYOUT)
		assert_in_range(send.data.at, length, transfer->length);
	assert_int_equal(pair->a->requests.live + pair->b->requests.live, 0);
	free(send.memory);
	free(receive.memory);
}

static const uint64_t lengths[] = {0, 1, 40, 97, 4096, 65536, 262144, 262145, LENGTH, 1500000};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

/* All lengths, sides, both orders of send and receive, and who has more turns. */
static void transfers(struct pair *pair, bool own)
{
	static const uint32_t orders[] = {0, 0xaaaaaaaa, 0x11111111, 0xfffffffe};
	uint64_t id = 0;

	for (int i = 0; i < LENGTHS; i++)
		for (int k = 0; k < 3 * 2 * 4; k++) {
			struct transfer transfer = {.from = k % 3 ? LAYOUT : MEMORY,
						    .to = k % 3 == 1 ? MEMORY : LAYOUT,
						    .length = lengths[i],
						    .room = lengths[i],
						    .early = k / 3 % 2,
						    .own = own,
						    .order = own ? 0 : orders[k / 6]};

			transfer_make(pair, &transfer, id++);
		}
}

static void layouts__come_in_order_inside_a_node(void **state)
{
	static const char *const bulks[] = {"bulk=auto", "bulk=ring", "bulk=one-copy", "bulk=cooperative",
					    "bulk=direct"};

	(void)state;
	for (int i = 0; i < 5; i++) {
		const char *const options[] = {bulks[i], "network=off", "cooperative_block=16k", "look_again=0", NULL};
		struct pair pair;

		pair_open(&pair, options);
		transfers(&pair, false);
		pair_close(&pair);
	}
}

static void layouts__come_in_order_to_oneself(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, NULL);
	transfers(&pair, true);
	pair_close(&pair);
}

static void layouts__come_in_order_between_hosts(void **state)
{
	static const char *const options[] = {"shm=off", "interface=lo", "link=udp", "close_timeout=10ms", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	transfers(&pair, false);
	pair_close(&pair);
}

static void layouts__come_in_order_where_frames_do_not(void **state)
{
	static const char *const options[] = {"shm=off",	"interface=lo",	   "link=udp",
					      "inject_loss=20", "inject_seed=7", "close_timeout=10ms", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	for (uint64_t i = 0; i < 6; i++)
		transfer_make(&pair,
			      &(struct transfer){.from = MEMORY, .to = LAYOUT, .length = LENGTH, .room = LENGTH}, i);
	assert_true(pair_counter(pair.a, "dropped_injected") + pair_counter(pair.b, "dropped_injected") > 0);
	pair_close(&pair);
}

/* Connected inside a node, nothing is packed before it can go, and both sides work in turns: no part is all of it. */
static void layouts__go_part_by_part(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct data send, receive;
	struct thole_request *sent, *received;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	transfer_make(&pair, &(struct transfer){.length = 8, .room = 8, .from = MEMORY, .to = MEMORY}, 1);
	assert_int_equal(thole_send_layout(pair.a, pair.a_to_b, &data_of(&send, 2, LENGTH)->layout, 2, 0, 0, NULL,
					   &sent),
			 0);
	assert_int_equal(send.packs, 0);
	assert_int_equal(thole_recv_layout(pair.b, pair.b_to_a, &data_of(&receive, 2, LENGTH)->layout, 2, UINT64_MAX,
					   0, NULL, &received),
			 0);
	assert_int_equal(pair_take_turns(&pair, received, 0xaaaaaaaa), 0);
	assert_int_equal(pair_finish(&pair, pair.a, sent, NULL), 0);
	assert_in_range(send.packs, 3, LENGTH / 1024);
	assert_in_range(receive.unpacks, 3, LENGTH / 1024);
	assert_int_equal(pair_counter(pair.b, "bulk_ring"), 1);
	pair_close(&pair);
}

/* To another host, and with THOLE_INJECT, a message is packed in the call that sends it. */
static void layouts__are_packed_at_once_where_they_cannot_wait(void **state)
{
	static const char *const inside[] = {"network=off", NULL};
	static const char *const between[] = {"shm=off", "interface=lo", "link=udp", "close_timeout=10ms", NULL};
	struct data send;
	struct thole_request *sent, *received;
	uint8_t *memory = malloc(LENGTH);
	struct pair pair;

	(void)state;
	for (int i = 0; i < 2; i++) {
		unsigned flags = i ? THOLE_INJECT : 0;

		pair_open(&pair, i ? inside : between);
		assert_int_equal(thole_send_layout(pair.a, pair.a_to_b, &data_of(&send, 3, LENGTH)->layout, 3, 0, flags,
						   NULL, &sent),
				 0);
		assert_int_equal(send.at, LENGTH);
		send.layout = (struct thole_layout){NULL, NULL, NULL, 0}; /* it is the program's again */
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, memory, LENGTH, 3, UINT64_MAX, 0, NULL, &received),
				 0);
		assert_int_equal(pair_finish(&pair, pair.b, received, NULL), 0);
		pair_check(3, memory, LENGTH);
		assert_int_equal(pair_finish(&pair, pair.a, sent, NULL), 0);
		pair_close(&pair);
	}
	free(memory);
}

/* Less room than the message has, and less than one part. */
static void layouts__are_truncated(void **state)
{
	static const char *const inside[] = {"network=off", NULL};
	static const char *const between[] = {"shm=off", "interface=lo", "link=udp", "close_timeout=10ms", NULL};
	static const uint64_t rooms[] = {0, 1, 1000, 100000, LENGTH - 1};
	struct pair pair;

	(void)state;
	for (int network = 0; network < 2; network++) {
		pair_open(&pair, network ? between : inside);
		for (int i = 0; i < 5 * 3 * 2; i++) {
			struct transfer transfer = {.from = i % 3 ? LAYOUT : MEMORY,
						    .to = i % 3 == 1 ? MEMORY : LAYOUT,
						    .length = i / 15 ? LENGTH : 200000,
						    .room = rooms[i / 3 % 5],
						    .early = i / 15};

			if (transfer.room < transfer.length)
				transfer_make(&pair, &transfer, (uint64_t)i);
		}
		pair_close(&pair);
	}
}

/* A synchronous one matches before it ends, also where its data could come unasked. */
static void layouts__are_synchronous(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct data send, receive;
	struct thole_request *sent, *received;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	transfer_make(&pair, &(struct transfer){.length = 8, .room = 8, .from = MEMORY, .to = MEMORY}, 1);
	assert_int_equal(thole_send_layout(pair.a, pair.a_to_b, &data_of(&send, 4, 1000)->layout, 4, 0, THOLE_SYNC,
					   NULL, &sent),
			 0);
	pair_idle(&pair);
	assert_int_equal(thole_test(pair.a, sent, NULL), 0);
	assert_int_equal(send.packs, 0);
	assert_int_equal(thole_recv_layout(pair.b, THOLE_ANY, &data_of(&receive, 4, 1000)->layout, 4, UINT64_MAX, 0,
					   NULL, &received),
			 0);
	assert_int_equal(pair_finish(&pair, pair.b, received, NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, sent, NULL), 0);
	assert_int_equal(receive.at, 1000);
	pair_close(&pair);
}

/* After an operation has ended, however that came, nobody calls its functions. */
static void layouts__are_left_alone_afterwards(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct data send, receive;
	struct thole_request *sent, *received;
	struct thole_completion completion;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	transfer_make(&pair, &(struct transfer){.length = 8, .room = 8, .from = MEMORY, .to = MEMORY}, 1);
	/* A receive that is taken back. */
	assert_int_equal(thole_recv_layout(pair.b, THOLE_ANY, &data_of(&receive, 5, LENGTH)->layout, 5, UINT64_MAX, 0,
					   NULL, &received),
			 0);
	assert_true(thole_cancel(pair.b, received));
	assert_int_equal(pair_finish(&pair, pair.b, received, NULL), THOLE_ERR_CANCELED);
	receive.layout = (struct thole_layout){NULL, NULL, NULL, 0};
	/* A peer that goes amid it: some of it has come by then. */
	assert_int_equal(thole_send_layout(pair.a, pair.a_to_b, &data_of(&send, 5, 5000000)->layout, 5, 0, 0, NULL,
					   &sent),
			 0);
	assert_int_equal(thole_recv_layout(pair.b, THOLE_ANY, &data_of(&receive, 5, 5000000)->layout, 5, UINT64_MAX, 0,
					   NULL, &received),
			 0);
	while (receive.at == 0)
		pair_progress(&pair, 1);
	assert_in_range(receive.at, 1, 5000000 - 1);
	thole_endpoint_close(pair.a);
	send.layout = (struct thole_layout){NULL, NULL, NULL, 0};
	while (!thole_test(pair.b, received, &completion))
		;
	assert_int_not_equal(completion.status, 0);
	assert_int_equal(completion.length, 0);
	thole_endpoint_close(pair.b);
}

static void layouts__are_refused_where_they_make_no_sense(void **state)
{
	struct data data;
	struct thole_request *request;
	struct pair pair;

	(void)state;
	pair_open(&pair, NULL);
	data_of(&data, 6, THOLE_LENGTH_MAX + 1);
	assert_int_equal(thole_send_layout(pair.a, pair.a_to_b, &data.layout, 6, 0, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	assert_non_null(strstr(thole_detail(), "layout"));
	assert_int_equal(thole_recv_layout(pair.a, THOLE_ANY, &data.layout, 6, 0, 0, NULL, &request),
			 THOLE_ERR_ARGUMENT);
	data_of(&data, 6, 100);
	assert_int_equal(thole_recv_layout(pair.a, THOLE_ANY, &data.layout, 6, 0, THOLE_MULTI, NULL, NULL),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_send_layout(pair.a, pair.a_to_b, &data.layout, 6, 0, THOLE_OR_NOT, NULL, &request),
			 THOLE_ERR_AGAIN);
	assert_int_equal(thole_send_layout(pair.a, 77, &data.layout, 6, 0, 0, NULL, &request), THOLE_ERR_NOT_FOUND);
	assert_int_equal(data.packs + data.unpacks, 0);
	assert_int_equal(pair.a->requests.live, 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts__come_in_order_inside_a_node),
		cmocka_unit_test(layouts__come_in_order_to_oneself),
		cmocka_unit_test(layouts__come_in_order_between_hosts),
		cmocka_unit_test(layouts__come_in_order_where_frames_do_not),
		cmocka_unit_test(layouts__go_part_by_part),
		cmocka_unit_test(layouts__are_packed_at_once_where_they_cannot_wait),
		cmocka_unit_test(layouts__are_truncated),
		cmocka_unit_test(layouts__are_synchronous),
		cmocka_unit_test(layouts__are_left_alone_afterwards),
		cmocka_unit_test(layouts__are_refused_where_they_make_no_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
