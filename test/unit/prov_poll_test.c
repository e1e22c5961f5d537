/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll sets: which of a queue and a counter have something, and that a counter is reported once for
 * each change. */
#include "prov_objects.h"

#include <pthread.h>

#include "base/atomic.h"
#include "prov_cq.h"

static struct fid_poll *set;
static struct fid_cq *cq;
static struct fid_cntr *cntr;

static int setup(void **state)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_poll_attr attr = {0};

	(void)state;
	objects_open(&objects);
	assert_int_equal(fi_cq_open(objects.domain, &cq_attr, &cq, &cq), 0);
	assert_int_equal(fi_cntr_open(objects.domain, &cntr_attr, &cntr, &cntr), 0);
	cntr->fid.context = &cntr;
	assert_int_equal(fi_poll_open(objects.domain, &attr, &set), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&set->fid), 0);
	assert_int_equal(fi_close(&cq->fid), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
	objects_close(&objects);
	return 0;
}

static void set__says_who_has_something(void **state)
{
	struct prov_cq *queue = container_of(cq, struct prov_cq, fid);
	void *contexts[2] = {NULL, NULL};

	(void)state;
	assert_int_equal(fi_poll_add(set, &cq->fid, 0), 0);
	assert_int_equal(fi_poll_add(set, &cntr->fid, 0), 0);
	assert_int_equal(fi_poll(set, contexts, 2), 0);
	assert_int_equal(objects_domain(&objects)->polls, 3); /* as if all were read: of a counter its errors, too */
	assert_int_equal(fi_cntr_add(cntr, 1), 0);
	assert_int_equal(fi_poll(set, contexts, 2), 1);
	assert_ptr_equal(contexts[0], &cntr);
	assert_int_equal(fi_poll(set, contexts, 2), 0); /* it was told */
	prov_cq_slot(queue)->error = NULL;
	prov_cq_count(&queue->tail);
	assert_int_equal(fi_cntr_adderr(cntr, 1), 0);
	assert_int_equal(fi_poll(set, contexts, 1), 1); /* for which there is room */
	assert_ptr_equal(contexts[0], &cq);
	assert_int_equal(fi_poll(set, contexts, 2), 2); /* the queue has it still */
	assert_ptr_equal(contexts[1], &cntr);
	assert_int_equal(fi_poll_del(set, &cq->fid, 0), 0);
	assert_int_equal(fi_poll(set, contexts, 2), 0);
	assert_int_equal(fi_poll_del(set, &cq->fid, 0), -FI_EINVAL);
}

static void add__takes_queues_and_counters_alone(void **state)
{
	(void)state;
	assert_int_equal(fi_poll_add(set, &objects.domain->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_poll_add(set, &cq->fid, 1), -FI_EINVAL);
}

static int over; /* the thread has ended */

static void *members_change(void *arg)
{
	enum { TURNS = 2000, MEMBERS = 64 };

	for (int turn = 0; turn < TURNS; turn++) {
		for (int i = 0; i < MEMBERS; i++)
			fi_poll_add(set, &cntr->fid, 0);
		for (int i = 0; i < MEMBERS; i++)
			fi_poll_del(set, &cntr->fid, 0);
	}
	store_release(&over, 1); /* partner: the test */
	return arg;
}

/* The array of members is another one meanwhile. */
static void poll__beside_a_thread_that_changes_members(void **state)
{
	void *contexts[2];
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, members_change, NULL), 0);
	while (!load_acquire(&over)) /* partner: the thread */
		assert_int_equal(fi_poll(set, contexts, 2), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A set that its program has forgotten holds up nothing, and may be closed behind its domain. */
static void close__of_a_domain_that_has_a_set(void **state)
{
	struct fi_poll_attr attr = {0};

	(void)state;
	objects_open(&objects);
	assert_int_equal(fi_poll_open(objects.domain, &attr, &set), 0);
	objects_close(&objects);
	assert_int_equal(fi_close(&set->fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(set__says_who_has_something, setup, teardown),
		cmocka_unit_test_setup_teardown(add__takes_queues_and_counters_alone, setup,
						teardown),
		cmocka_unit_test_setup_teardown(poll__beside_a_thread_that_changes_members, setup, teardown),
		cmocka_unit_test(close__of_a_domain_that_has_a_set),
	};

	return cmocka_run_group_tests_name("prov_poll", tests, NULL, NULL);
}
