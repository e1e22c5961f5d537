/* SPDX-License-Identifier: BSD-3-Clause */
/* The caretaker knows each domain: what was sent gets there though its sender does not call any more. */
#include "prov_objects.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/atomic.h"

enum { MESSAGES = 1000, LIMIT_S = 60 }; /* more than any ring holds; and until something is taken to hang */

/* An endpoint in a domain of its own, as another process's would be. */
struct side {
	struct objects objects;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
};

static void side_open(struct side *side, enum fi_threading threading)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 2 * MESSAGES};

	objects_open(&side->objects);
	if (threading != FI_THREAD_DOMAIN) {
		assert_int_equal(fi_close(&side->objects.domain->fid), 0);
		side->objects.info->domain_attr->threading = threading;
		assert_int_equal(fi_domain(side->objects.fabric, side->objects.info, &side->objects.domain, NULL), 0);
	}
	assert_int_equal(fi_endpoint(side->objects.domain, side->objects.info, &side->ep, NULL), 0);
	assert_int_equal(fi_av_open(side->objects.domain, &av_attr, &side->av, NULL), 0);
	assert_int_equal(fi_cq_open(side->objects.domain, &cq_attr, &side->cq, NULL), 0);
	assert_int_equal(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(side->ep), 0);
}

static void side_close(struct side *side)
{
	assert_int_equal(fi_close(&side->ep->fid), 0);
	assert_int_equal(fi_close(&side->av->fid), 0);
	assert_int_equal(fi_close(&side->cq->fid), 0);
	objects_close(&side->objects);
}

static fi_addr_t side_meet(struct side *side, struct side *other)
{
	char name[256];
	size_t length = sizeof name;
	fi_addr_t address;

	assert_int_equal(fi_getname(&other->ep->fid, name, &length), 0);
	assert_int_equal(fi_av_insert(side->av, name, 1, &address, 0, NULL), 1);
	return address;
}

/* Read so many completions of the side's, with no call of another one. */
static void side_receive(struct side *side, int count)
{
	struct fi_cq_tagged_entry entries[16];
	time_t end = time(NULL) + LIMIT_S;

	while (count > 0) {
		ssize_t n = fi_cq_read(side->cq, entries, 16);

		assert_true(n >= 0 || n == -FI_EAGAIN);
		count -= n > 0 ? (int)n : 0;
		if (time(NULL) >= end)
			fail_msg("%d messages did not come", count);
	}
}

/* One sends all and calls nothing any more; the other one gets all. */
static void leave(enum fi_threading threading)
{
	struct side from, to;
	fi_addr_t address;
	char in[MESSAGES];

	side_open(&from, threading);
	side_open(&to, FI_THREAD_DOMAIN);
	address = side_meet(&from, &to);
	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(fi_trecv(to.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 0, ~UINT64_C(0), &in[i]), 0);
	for (int i = 0; i < MESSAGES; i++) {
		char out = (char)i;

		assert_int_equal(fi_tinject(from.ep, &out, 1, address, 0), 0);
	}
	side_receive(&to, MESSAGES);
	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(in[i], (char)i);
	side_close(&from);
	side_close(&to);
}

static void send__and_leave(void **state)
{
	(void)state;
	leave(FI_THREAD_DOMAIN);
}

/* Where several threads share a domain there is a lock, and the caretaker takes it. */
static void send__and_leave_shared(void **state)
{
	(void)state;
	leave(FI_THREAD_SAFE);
}

/* ---- Closing while another thread closes ---------------------------------------------------------------- */

static struct prov_domain *closing; /* NULL: nobody looks */
static unsigned users;              /* of it, while a descriptor of a queue's was closed */
static int closed;                  /* it is, by the other thread */
static pthread_t closer;

static void *close_domain(void *arg)
{
	struct fid *fid = arg;

	while (fi_close(fid) == -FI_EBUSY)
		sched_yield();
	store_release(&closed, 1); /* partner: __wrap_thole_endpoint_close */
	return NULL;
}

void __real_thole_endpoint_close(struct thole_endpoint *endpoint);
void __wrap_thole_endpoint_close(struct thole_endpoint *endpoint);

void __wrap_thole_endpoint_close(struct thole_endpoint *endpoint)
{
	if (closing) {
		assert_int_equal(pthread_create(&closer, NULL, close_domain, &closing->fid.fid), 0);
		/* partner: close_domain */
		while (!load_acquire(&closed) && load_relaxed(&closing->charge.lock.waiting) == 0)
			sched_yield();
		assert_false(load_relaxed(&closed));
	}
	__real_thole_endpoint_close(endpoint);
}

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	if (closing)
		users = closing->users;
	return __real_close(fd);
}

/* The domain is in use until nothing of it is touched any more. */
static void close__of_a_domain_while_another_thread_closes_what_is_in_it(void **state)
{
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
	struct fid_domain *domain;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	struct fid_cq *cq;

	(void)state;
	objects_open(&objects);
	objects.info->domain_attr->threading = FI_THREAD_SAFE;
	assert_int_equal(fi_domain(objects.fabric, objects.info, &domain, NULL), 0);
	assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_cntr_open(domain, &cntr_attr, &cntr, NULL), 0);
	assert_int_equal(fi_endpoint(domain, objects.info, &ep, NULL), 0);
	closing = container_of(domain, struct prov_domain, fid);
	assert_int_equal(fi_close(&cq->fid), 0);
	assert_int_equal(users, 3);
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(users, 2);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(pthread_join(closer, NULL), 0);
	closing = NULL;
	objects_close(&objects);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send__and_leave),
		cmocka_unit_test(send__and_leave_shared),
		cmocka_unit_test(close__of_a_domain_while_another_thread_closes_what_is_in_it),
	};

	if (!biased_prepare())
		return 77; /* membarrier is refused here */
	setenv("THOLE_NETWORK", "off", 1);
	return cmocka_run_group_tests_name("prov_fabric", tests, NULL, NULL);
}
