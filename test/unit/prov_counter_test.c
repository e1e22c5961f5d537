/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: what counts, what does not, and how a wait for them ends. */
#include "prov_objects.h"

#include "prov_counter.h"

static struct prov_counter *counter_open(enum fi_cntr_events events, enum fi_wait_obj wait_obj)
{
	struct fi_cntr_attr attr = {.events = events, .wait_obj = wait_obj};
	struct fid_cntr *fid;

	assert_int_equal(fi_cntr_open(objects.domain, &attr, &fid, NULL), 0);
	return container_of(fid, struct prov_counter, fid);
}

static void counter__counts_ends(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_UNSPEC);
	struct thole_completion well = {.length = 100},
				badly = {.length = 50, .status = THOLE_ERR_PEER};

	(void)state;
	for (int i = 0; i < 3; i++)
		prov_counter_add(counter, &well);
	prov_counter_add(counter, &badly);
	assert_true(fi_cntr_read(&counter->fid) == 3 && fi_cntr_readerr(&counter->fid) == 1);
	assert_int_equal(fi_cntr_add(&counter->fid, 10), 0);
	assert_int_equal(fi_cntr_adderr(&counter->fid, 20), 0);
	assert_true(fi_cntr_read(&counter->fid) == 13 && fi_cntr_readerr(&counter->fid) == 21);
	assert_int_equal(fi_cntr_set(&counter->fid, 4), 0);
	assert_int_equal(fi_cntr_seterr(&counter->fid, 5), 0);
	assert_true(fi_cntr_read(&counter->fid) == 4 && fi_cntr_readerr(&counter->fid) == 5);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void counter__counts_bytes(void **state)
{
	struct prov_counter *counter =
		counter_open((enum fi_cntr_events)PROV_CNTR_EVENTS_BYTES, FI_WAIT_UNSPEC);
	struct thole_completion well = {.length = 100},
				badly = {.length = 50, .status = THOLE_ERR_PEER};

	(void)state;
	prov_counter_add(counter, &well);
	prov_counter_add(counter, &well);
	prov_counter_add(counter, &badly);
	assert_true(fi_cntr_read(&counter->fid) == 200 && fi_cntr_readerr(&counter->fid) == 1);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void wait__ends_as_it_should(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_FD);
	struct thole_completion badly = {.status = THOLE_ERR_PEER};
	int fd = -1;

	(void)state;
	assert_int_equal(fi_cntr_add(&counter->fid, 2), 0);
	assert_int_equal(fi_cntr_wait(&counter->fid, 2, 0), 0);
	assert_int_equal(fi_cntr_wait(&counter->fid, 3, 1), -FI_ETIMEDOUT);
	assert_int_equal(fi_control(&counter->fid.fid, FI_GETWAIT, &fd), 0);
	assert_true(fd >= 0);
	assert_int_equal(prov_counter_trywait(counter), 0);
	assert_true(counter->watch.armed);
	prov_counter_add(counter, &badly); /* wakes who sleeps on the descriptor */
	assert_false(counter->watch.armed);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

/* A program that reads, and only then gets ready to sleep, would sleep on what was counted in between. */
static void trywait__looks_at_what_was_not_read(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_FD);
	struct thole_completion well = {.length = 100}, badly = {.status = THOLE_ERR_PEER};

	(void)state;
	assert_int_equal(fi_cntr_read(&counter->fid), 0);
	assert_int_equal(prov_counter_trywait(counter), 0);
	prov_counter_add(counter, &well);
	assert_int_equal(prov_counter_trywait(counter), -FI_EAGAIN);
	assert_int_equal(fi_cntr_read(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), 0);
	prov_counter_add(counter, &badly);
	assert_int_equal(fi_cntr_read(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), -FI_EAGAIN);
	assert_int_equal(fi_cntr_readerr(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), 0);
	prov_counter_add(counter, &badly);
	assert_int_equal(prov_counter_trywait(counter), -FI_EAGAIN);
	assert_int_equal(fi_cntr_read(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), 0); /* who does not ask for errors is told once */
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void close__waits_for_its_users(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_NONE);

	(void)state;
	counter->users = 1;
	assert_int_equal(fi_close(&counter->fid.fid), -FI_EBUSY);
	assert_int_equal(fi_close(&objects.domain->fid), -FI_EBUSY); /* nor is the domain empty */
	counter->users = 0;
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counter__counts_ends),
		cmocka_unit_test(counter__counts_bytes),
		cmocka_unit_test(wait__ends_as_it_should),
		cmocka_unit_test(trywait__looks_at_what_was_not_read),
		cmocka_unit_test(close__waits_for_its_users),
	};

	return cmocka_run_group_tests_name("prov_counter", tests, objects_setup, objects_teardown);
}
