/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_query.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "mx_known.h"
#include "mx_place.h"
#include "mx_post.h"

enum {
	/* after so many, an address that was heard may be a former one, and all hosts are asked too */
	DOUBT_ATTEMPTS = 3,
};
static const uint64_t pause_first_ns = 20000000; /* some times what a busy host takes to answer */
static const uint64_t pause_max_ns = 500000000;  /* a host that comes back is seen within this */

/* ---- The end --------------------------------------------------------------------------------- */

static void mxi_query_finish(struct mxi_query *query, mx_status_code_t status)
{
	struct mxi_entry *from = query->from;

	list_remove(&query->node);
	query->status = status;
	store_release(&query->done, 1);                   /* partner: whoever waits; from here on it is not ours */
	store_release(&from->answers, from->answers + 1); /* the same */
	if (from->wake)
		wake_raise(from->wake);
}

static struct mxi_query *mxi_query_find(const struct list_node *queries, uint64_t token)
{
	struct list_node *node = list_first(queries);

	for (; node; node = list_next(queries, node))
		if (container_of(node, struct mxi_query, node)->token == token)
			return container_of(node, struct mxi_query, node);
	return NULL;
}

void mxi_query_answered(struct list_node *queries, const struct mxi_notice *notice)
{
	struct mxi_query *query = mxi_query_find(queries, notice->token);

	if (!query) /* it was asked twice, or canceled */
		return;
	query->session = notice->from.session;
	query->address = notice->address;
	mxi_query_finish(query, (mx_status_code_t)notice->status);
}

void mxi_query_refused(struct list_node *queries, const struct mxi_notice *notice)
{
	struct mxi_query *query = notice->type == MXI_NOTICE_CONNECT ? mxi_query_find(queries, notice->token) : NULL;

	if (query)
		mxi_query_finish(query, MX_STATUS_ENDPOINT_CLOSED);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void mxi_query_notice_question(const struct mxi_query *query, struct mxi_notice *notice)
{
	const struct mxi_entry *from = query->from;

	*notice = (struct mxi_notice){
		.type = MXI_NOTICE_CONNECT,
		.token = query->token,
		.from = {from->nic_id, from->endpoint_id, from->session},
		.address = from->address,
		.nic_id = query->nic_id,
		.endpoint_id = query->endpoint_id,
		.key = query->key,
	};
}

/* False: nobody of this host has that endpoint. A full socket has somebody behind it. */
static bool mxi_query_ask_here(const struct mxi_query *query, const struct mxi_notice *question)
{
	struct mxi_place place;
	int error;

	mxi_place_endpoint(&place, query->nic_id, query->endpoint_id);
	error = mxi_post_send(query->from->unix_fd, &place, question);
	return error == 0 || error == EAGAIN || error == ENOBUFS;
}

/* Where does this board's host live? */
static void mxi_query_ask_all(const struct mxi_query *query, const struct mxi_settings *settings)
{
	const struct mxi_entry *from = query->from;
	struct mxi_notice notice = {.type = MXI_NOTICE_FIND, .from = {.nic_id = from->nic_id}, .nic_id = query->nic_id};
	struct mxi_place group;

	if (from->udp_fd < 0 || settings->group.s_addr == 0)
		return;
	memcpy(notice.from_name, from->board.name, sizeof(notice.from_name));
	notice.attempt = (uint8_t)(query->attempts < UINT8_MAX ? query->attempts : UINT8_MAX);
	mxi_place_group(&group, settings);
	mxi_post_send(from->udp_fd, &group, &notice);
}

/* Its host, whose address is known. */
static void mxi_query_ask_there(const struct mxi_query *query, const struct mxi_settings *settings, const char *address,
				const struct mxi_notice *question)
{
	const struct mxi_entry *from = query->from;
	uint16_t port = (uint16_t)(settings->port + 1 + query->endpoint_id);
	struct mxi_place place;

	if (from->udp_fd >= 0 && mxi_place_ip(&place, address, port, &from->board))
		mxi_post_send(from->udp_fd, &place, question); /* what goes wrong is as good as lost */
}

static mx_status_code_t mxi_query_ask_network(struct mxi_query *query, const struct mxi_settings *settings,
					      const struct mxi_notice *question)
{
	struct mxi_known known;

	if (!mxi_known_find(query->nic_id, &known)) {
		mxi_query_ask_all(query, settings);
		return MX_STATUS_PENDING;
	}
	if (known.address[0] == '\0') /* frames of MXoE lead there, and nothing else */
		return MX_STATUS_ENDPOINT_UNREACHABLE;
	query->found = true;
	mxi_query_ask_there(query, settings, known.address, question);
	if (known.heard && query->attempts >= DOUBT_ATTEMPTS)
		mxi_query_ask_all(query, settings);
	return MX_STATUS_PENDING;
}

static mx_status_code_t mxi_query_ask_wherever(struct mxi_query *query, const struct mxi_world *world)
{
	struct mxi_notice question;

	mxi_query_notice_question(query, &question);
	if (mxi_query_ask_here(query, &question)) {
		query->found = true;
		return MX_STATUS_PENDING;
	}
	if (mxi_world_board(world, query->nic_id))
		return MX_STATUS_ENDPOINT_CLOSED;
	return mxi_query_ask_network(query, &world->settings, &question);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static uint64_t mxi_query_due_ns(const struct mxi_query *query)
{
	return query->next_ns < query->deadline_ns ? query->next_ns : query->deadline_ns;
}

/* Returns when it is due again; UINT64_MAX: it is done, and no longer ours. */
static uint64_t mxi_query_attempt(struct mxi_query *query, const struct mxi_world *world, uint64_t now_ns)
{
	mx_status_code_t status = mxi_query_ask_wherever(query, world);

	if (status != MX_STATUS_PENDING) {
		mxi_query_finish(query, status);
		return UINT64_MAX;
	}
	query->attempts++;
	query->pause_ns = query->pause_ns == 0 ? pause_first_ns : 2 * query->pause_ns;
	if (query->pause_ns > pause_max_ns)
		query->pause_ns = pause_max_ns;
	query->next_ns = now_ns + query->pause_ns;
	return mxi_query_due_ns(query);
}

static uint64_t mxi_query_turn(struct mxi_query *query, const struct mxi_world *world, uint64_t now_ns)
{
	if (mxi_query_due_ns(query) > now_ns)
		return mxi_query_due_ns(query);
	if (query->deadline_ns > now_ns)
		return mxi_query_attempt(query, world, now_ns);
	mxi_query_finish(query, query->found ? MX_STATUS_ENDPOINT_UNREACHABLE : MX_STATUS_ENDPOINT_UNKNOWN);
	return UINT64_MAX;
}

uint64_t mxi_query_run(struct list_node *queries, const struct mxi_world *world)
{
	uint64_t now = clock_now_ns(), earliest = UINT64_MAX, due;

	for (struct list_node *node = list_first(queries), *next; node; node = next) {
		next = list_next(queries, node);
		due = mxi_query_turn(container_of(node, struct mxi_query, node), world, now);
		if (due < earliest)
			earliest = due;
	}
	return earliest;
}

void mxi_query_found(struct list_node *queries, const struct mxi_world *world, uint64_t nic_id)
{
	uint64_t now = clock_now_ns();

	for (struct list_node *node = list_first(queries), *next; node; node = next) {
		struct mxi_query *query = container_of(node, struct mxi_query, node);

		next = list_next(queries, node);
		if (query->nic_id == nic_id && !query->found)
			mxi_query_attempt(query, world, now); /* the alarm is early enough */
	}
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* What only those know who saw the question, so that nobody else can answer it. */
static uint64_t mxi_query_token_new(void)
{
	static uint64_t count;
	uint64_t token;

	if (getrandom(&token, sizeof(token), GRND_NONBLOCK) == sizeof(token))
		return token;
	return clock_now_ns() << 16 ^ ++count; /* the kernel has no random numbers yet */
}

void mxi_query_init(struct mxi_query *query)
{
	*query = (struct mxi_query){
		.from = query->from,
		.nic_id = query->nic_id,
		.endpoint_id = query->endpoint_id,
		.key = query->key,
		.deadline_ns = query->deadline_ns,
	};
	list_init(&query->node);
}

uint64_t mxi_query_start(struct list_node *queries, struct mxi_query *query, const struct mxi_world *world)
{
	query->token = mxi_query_token_new();
	if (query->endpoint_id > MXI_ENDPOINT_ID_MAX) {
		mxi_query_finish(query, MX_STATUS_BAD_ENDPOINT);
		return UINT64_MAX;
	}
	if (!query->from->published) {
		mxi_query_finish(query, MX_STATUS_NO_RESOURCES);
		return UINT64_MAX;
	}
	list_push_back(queries, &query->node);
	return mxi_query_attempt(query, world, clock_now_ns());
}
