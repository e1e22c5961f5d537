/* SPDX-License-Identifier: BSD-3-Clause */
/* What was sent gets there though its sender does not call any more. */
#include "front/caretaker.h"

#include "atfork.h"
#include "pair.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

static bool no_thread;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return no_thread ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

enum { MESSAGES = 1000, LIMIT_S = 60 }; /* more than any ring holds; and until something is taken to hang */

static const char *const near[] = {"network=off", NULL};

/* A front end with one endpoint. */
struct front {
	struct charge charge;
	struct thole_endpoint *endpoint;
};

static bool front_open_tended(struct front *front, bool safe, bool tend)
{
	*front = (struct front){.charge = {.safe = safe, .endpoints = &front->endpoint, .endpoint_count = 1}};
	front->endpoint = pair_endpoint(NULL, NULL, near);
	return caretaker_add(&front->charge, tend);
}

static void front_open(struct front *front, bool safe)
{
	assert_true(front_open_tended(front, safe, true));
}

/* While there is no thread to be had. */
static void front_open_alone(struct front *front)
{
	no_thread = true;
	assert_false(front_open_tended(front, false, true));
	no_thread = false;
	assert_false(front->charge.tended);
}

static void front_close(struct front *front)
{
	caretaker_remove(&front->charge);
	thole_endpoint_close(front->endpoint);
}

/* One, which is open, sends all and calls nothing any more; the other one gets all. */
static void leave_open(struct front *from)
{
	struct thole_endpoint *to = pair_endpoint(NULL, NULL, near);
	struct thole_completion completions[16];
	time_t end = time(NULL) + LIMIT_S;
	char in[MESSAGES];
	uint32_t peer;

	charge_enter(&from->charge);
	peer = pair_peer(from->endpoint, to);
	charge_leave(&from->charge);
	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(thole_recv(to, THOLE_ANY, &in[i], 1, 0, ~UINT64_C(0), 0, NULL, NULL), 0);
	for (int i = 0; i < MESSAGES; i++) {
		char out = (char)i;

		charge_enter(&from->charge);
		assert_int_equal(thole_send(from->endpoint, peer, &out, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
		charge_leave(&from->charge);
	}
	for (int got = 0; got < MESSAGES; got += thole_poll(to, completions, 16))
		if (time(NULL) >= end)
			fail_msg("%d of %d messages came", got, MESSAGES);
	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(in[i], (char)i);
	thole_endpoint_close(to);
}

static void leave(bool safe, bool share)
{
	struct front from;

	front_open(&from, safe);
	if (share)
		caretaker_share(&from.charge);
	assert_int_equal(from.charge.safe, safe || share);
	leave_open(&from);
	front_close(&from);
}

static void send__and_leave(void **state)
{
	(void)state;
	leave(false, false);
}

/* Where several threads come there is a lock, and the caretaker takes it, */
static void send__and_leave_shared(void **state)
{
	(void)state;
	leave(true, false);
}

/* also where that is said only later. */
static void send__and_leave_shared_since(void **state)
{
	(void)state;
	leave(false, true);
}

/* One for which there was no thread just then is looked after when the next one is, or when that is asked for. */
static void add__is_made_up_for(void **state)
{
	struct front first, second, none;

	(void)state;
	front_open_alone(&first);
	assert_false(front_open_tended(&none, false, false));
	front_open(&second, false);
	assert_true(first.charge.tended);
	assert_false(none.charge.tended);
	front_close(&second);
	leave_open(&first);
	front_close(&first);
	front_open_alone(&first);
	no_thread = true;
	caretaker_again();
	no_thread = false;
	assert_false(first.charge.tended);
	caretaker_again();
	assert_true(first.charge.tended);
	assert_false(none.charge.tended);
	leave_open(&first);
	front_close(&first);
	front_open_alone(&first);
	front_close(&first);
	caretaker_again();
	front_close(&none);
}

/* But not in a child. */
static void fork__makes_up_for_nothing(void **state)
{
	struct front front;
	pid_t child;

	(void)state;
	front_open_alone(&front);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		caretaker_again();
		_exit(front.charge.tended);
	}
	assert_int_equal(child_status(child), 0);
	caretaker_again();
	assert_true(front.charge.tended);
	front_close(&front);
}

/* A child's copy is looked after by nobody, and can be closed; what it opens itself has its own caretaker. */
static void fork__leaves_the_caretaker_behind(void **state)
{
	struct front front;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it permits no threads in a child */
#endif
	front_open(&front, false);
	assert_true(front.charge.tended);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (front.charge.tended)
			_exit(1);
		caretaker_remove(&front.charge);
		leave(false, false);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
	front_close(&front);
}

/* Who was inside stays there for good in a child. */
static void fork__leaves_no_lock(void **state)
{
	static const struct {
		bool safe, tend;
	} charges[] = {{true, true}, {true, false}, {false, false}};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct front front;
		pid_t child;

		front_open_tended(&front, charges[i].safe, charges[i].tend);
		if (charges[i].safe)
			lock_take(&front.charge.lock);
		else
			assert_true(biased_visit(&front.charge.biased)); /* as the caretaker does */
		child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			alarm(LIMIT_S);
			charge_enter(&front.charge);
			_exit(front.charge.tended || !front.charge.inherited);
		}
		assert_int_equal(child_status(child), 0);
		if (charges[i].safe)
			lock_leave(&front.charge.lock);
		else
			biased_part(&front.charge.biased);
		front_close(&front);
	}
}

/* ---- Sharing amid a visit -------------------------------------------------------------------------------- */

static struct charge *visited; /* NULL: nobody looks */
static int inside, left;       /* the caretaker is in it, and was */
static bool shared_inside;     /* it was made another one meanwhile */

int __real_thole_tend(struct thole_endpoint *endpoint);
int __wrap_thole_tend(struct thole_endpoint *endpoint);

int __wrap_thole_tend(struct thole_endpoint *endpoint)
{
	const struct charge *charge = load_acquire(&visited); /* partner: share__waits_for_the_caretaker */

	if (charge && !load_relaxed(&inside)) {
		store_release(&inside, 1); /* partner: share__waits_for_the_caretaker */
		for (int i = 0; i < 50 && !charge->safe; i++)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		shared_inside = charge->safe;
		store_release(&left, 1); /* partner: share__waits_for_the_caretaker */
	}
	return __real_thole_tend(endpoint);
}

/* It would leave another lock than the one that it has entered. */
static void share__waits_for_the_caretaker(void **state)
{
	struct front front;

	(void)state;
	front_open(&front, false);
	store_release(&visited, &front.charge); /* partner: __wrap_thole_tend */
	while (!load_acquire(&inside)) /* partner: __wrap_thole_tend */
		sched_yield();
	caretaker_share(&front.charge);
	while (!load_acquire(&left)) /* partner: __wrap_thole_tend */
		sched_yield();
	assert_false(shared_inside);
	front_close(&front);
}

static void open_one(void)
{
	struct front front;

	front_open(&front, false);
	front_close(&front);
}

/* The first in this program, so that the caretaker is used for the first time. */
static void fork__amid_the_first(void **state)
{
	(void)state;
	atfork_try(open_one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork__amid_the_first),
		cmocka_unit_test(send__and_leave),
		cmocka_unit_test(send__and_leave_shared),
		cmocka_unit_test(send__and_leave_shared_since),
		cmocka_unit_test(share__waits_for_the_caretaker),
		cmocka_unit_test(add__is_made_up_for),
		cmocka_unit_test(fork__makes_up_for_nothing),
		cmocka_unit_test(fork__leaves_the_caretaker_behind),
		cmocka_unit_test(fork__leaves_no_lock),
	};

	if (!biased_prepare())
		return 77; /* membarrier is refused here */
	return cmocka_run_group_tests_name("caretaker", tests, NULL, NULL);
}
