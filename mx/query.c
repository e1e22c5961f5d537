/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions for endpoints. Each attempt decides anew where to ask, by what is known then: the name inside this host, the address
 * of the board's host, all hosts at once. Attempts repeat, ever slower, until there is an answer or the deadline; what is lost
 * on the way, or finds a full socket, is so made up for.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "directory_internal.h"
#include "names.h"

enum {
	DOUBT_ATTEMPTS = 3, /* after so many, an address that was heard may be a former one, and all hosts are asked too */
};
static const uint64_t pause_first_ns = 20000000; /* some times what a busy host takes to answer */
static const uint64_t pause_max_ns = 500000000;  /* a host that comes back is seen within this */

/* ---- The end --------------------------------------------------------------------------------------- */

static void query_finish(struct mxi_query *query, mx_status_code_t status)
{
	struct mxi_entry *from = query->from;

	list_remove(&query->node);
	query->status = status;
	store_release(&query->done, 1); /* partner: whoever waits; from here on it is not ours */
	store_release(&from->answers, from->answers + 1); /* the same */
	if (from->wake_fd >= 0)
		eventfd_write(from->wake_fd, 1);
}

static struct mxi_query *query_find(uint64_t token)
{
	struct list_node *node = list_first(&mxi_directory.queries);

	for (; node; node = list_next(&mxi_directory.queries, node))
		if (container_of(node, struct mxi_query, node)->token == token)
			return container_of(node, struct mxi_query, node);
	return NULL;
}

void mxi_queries_answered(const struct mxi_notice *notice)
{
	struct mxi_query *query = query_find(notice->token);

	if (!query) /* it was asked twice, or canceled */
		return;
	query->session = notice->from.session;
	query->address = notice->address;
	query_finish(query, (mx_status_code_t)notice->status);
}

void mxi_queries_refused(const struct mxi_notice *notice)
{
	struct mxi_query *query = notice->type == MXI_NOTICE_CONNECT ? query_find(notice->token) : NULL;

	if (query)
		query_finish(query, MX_STATUS_ENDPOINT_CLOSED);
}

/* ---- Asking ---------------------------------------------------------------------------------------- */

static void notice_question(const struct mxi_query *query, struct mxi_notice *notice)
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
static bool ask_here(const struct mxi_query *query, const struct mxi_notice *question)
{
	struct mxi_place place;
	int error;

	mxi_place_endpoint(&place, query->nic_id, query->endpoint_id);
	error = mxi_post_send(query->from->unix_fd, &place, question);
	return error == 0 || error == EAGAIN || error == ENOBUFS;
}

/* Where does this board's host live? */
static void ask_all(const struct mxi_query *query)
{
	const struct mxi_entry *from = query->from;
	struct mxi_notice notice = {.type = MXI_NOTICE_FIND, .from = {.nic_id = from->nic_id}, .nic_id = query->nic_id};
	struct mxi_place group;

	if (from->udp_fd < 0 || mxi_directory.settings.group.s_addr == 0)
		return;
	memcpy(notice.from_name, from->board.name, sizeof(notice.from_name));
	notice.attempt = (uint8_t)(query->attempts < UINT8_MAX ? query->attempts : UINT8_MAX);
	mxi_place_group(&group, &mxi_directory.settings);
	mxi_post_send(from->udp_fd, &group, &notice);
}

/* Its host, whose address is known. */
static void ask_there(const struct mxi_query *query, const char *address, const struct mxi_notice *question)
{
	const struct mxi_entry *from = query->from;
	uint16_t port = (uint16_t)(mxi_directory.settings.port + 1 + query->endpoint_id);
	struct mxi_place place;

	if (from->udp_fd >= 0 && mxi_place_ip(&place, address, port, &from->board))
		mxi_post_send(from->udp_fd, &place, question); /* what goes wrong is as good as lost */
}

static mx_status_code_t ask_network(struct mxi_query *query, const struct mxi_notice *question)
{
	struct mxi_known known;

	if (!mxi_known_find(query->nic_id, &known)) {
		ask_all(query);
		return MX_STATUS_PENDING;
	}
	if (known.address[0] == '\0') /* frames of MXoE lead there, and nothing else */
		return MX_STATUS_ENDPOINT_UNREACHABLE;
	query->found = true;
	ask_there(query, known.address, question);
	if (known.heard && query->attempts >= DOUBT_ATTEMPTS)
		ask_all(query);
	return MX_STATUS_PENDING;
}

static mx_status_code_t ask_wherever(struct mxi_query *query)
{
	struct mxi_notice question;

	notice_question(query, &question);
	if (ask_here(query, &question)) {
		query->found = true;
		return MX_STATUS_PENDING;
	}
	return mxi_directory_own(query->nic_id) ? MX_STATUS_ENDPOINT_CLOSED : ask_network(query, &question);
}

/* ---- Time ------------------------------------------------------------------------------------------ */

static uint64_t query_due_ns(const struct mxi_query *query)
{
	return query->next_ns < query->deadline_ns ? query->next_ns : query->deadline_ns;
}

/* Returns when it is due again; UINT64_MAX: it is done, and no longer ours. */
static uint64_t query_attempt(struct mxi_query *query, uint64_t now_ns)
{
	mx_status_code_t status = ask_wherever(query);

	if (status != MX_STATUS_PENDING) {
		query_finish(query, status);
		return UINT64_MAX;
	}
	query->attempts++;
	query->pause_ns = query->pause_ns == 0 ? pause_first_ns : 2 * query->pause_ns;
	if (query->pause_ns > pause_max_ns)
		query->pause_ns = pause_max_ns;
	query->next_ns = now_ns + query->pause_ns;
	return query_due_ns(query);
}

static uint64_t query_run(struct mxi_query *query, uint64_t now_ns)
{
	if (query_due_ns(query) > now_ns)
		return query_due_ns(query);
	if (query->deadline_ns > now_ns)
		return query_attempt(query, now_ns);
	query_finish(query, query->found ? MX_STATUS_ENDPOINT_UNREACHABLE : MX_STATUS_ENDPOINT_UNKNOWN);
	return UINT64_MAX;
}

void mxi_queries_run(void)
{
	struct list_node *head = &mxi_directory.queries;
	uint64_t now = clock_now_ns(), earliest = UINT64_MAX, due;

	for (struct list_node *node = list_first(head), *next; node; node = next) {
		next = list_next(head, node);
		due = query_run(container_of(node, struct mxi_query, node), now);
		if (due < earliest)
			earliest = due;
	}
	mxi_directory_alarm(earliest);
}

void mxi_queries_found(uint64_t nic_id)
{
	struct list_node *head = &mxi_directory.queries;
	uint64_t now = clock_now_ns();

	for (struct list_node *node = list_first(head), *next; node; node = next) {
		struct mxi_query *query = container_of(node, struct mxi_query, node);

		next = list_next(head, node);
		if (query->nic_id == nic_id && !query->found)
			query_attempt(query, now); /* the alarm is early enough */
	}
}

/* ---- Beginning ------------------------------------------------------------------------------------- */

/* What only those know who saw the question, so that nobody else can answer it. */
static uint64_t token_new(void)
{
	static uint64_t count;
	uint64_t token;

	if (getrandom(&token, sizeof(token), GRND_NONBLOCK) == sizeof(token))
		return token;
	return clock_now_ns() << 16 ^ ++count; /* the kernel has no random numbers yet */
}

void mxi_directory_ask(struct mxi_query *query)
{
	*query = (struct mxi_query){
		.from = query->from,
		.nic_id = query->nic_id,
		.endpoint_id = query->endpoint_id,
		.key = query->key,
		.deadline_ns = query->deadline_ns,
	};
	list_init(&query->node);
	pthread_mutex_lock(&mxi_directory.mutex);
	query->token = token_new();
	if (query->endpoint_id > MXI_ENDPOINT_ID_MAX) {
		query_finish(query, MX_STATUS_BAD_ENDPOINT);
	} else if (!query->from->published) {
		query_finish(query, MX_STATUS_NO_RESOURCES);
	} else {
		list_push_back(&mxi_directory.queries, &query->node);
		mxi_directory_alarm_by(query_attempt(query, clock_now_ns()));
	}
	pthread_mutex_unlock(&mxi_directory.mutex);
}

bool mxi_directory_cancel(struct mxi_query *query)
{
	bool canceled;

	pthread_mutex_lock(&mxi_directory.mutex);
	canceled = !query->done;
	if (canceled)
		list_remove(&query->node);
	pthread_mutex_unlock(&mxi_directory.mutex);
	return canceled;
}
