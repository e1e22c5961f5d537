/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: order, growth, what goes past the ring, errors in their place, and what is said when memory has
 * run out. */
#include "prov_objects.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "front/yield.h"
#include "prov_cq.h"
#include "thole.h"

static bool refuse; /* memory */

void *__real_memalign(size_t alignment, size_t size);
void *__wrap_memalign(size_t alignment, size_t size);

void *__wrap_memalign(size_t alignment, size_t size)
{
	return refuse ? NULL : __real_memalign(alignment, size);
}

static struct prov_cq *cq_open(enum fi_cq_format format, enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr attr = {.format = format, .wait_obj = wait_obj};
	struct fid_cq *fid;

	assert_int_equal(fi_cq_open(objects.domain, &attr, &fid, NULL), 0);
	return container_of(fid, struct prov_cq, fid);
}

/* Enter one whose context is its number. */
static bool push(struct prov_cq *cq, uintptr_t number)
{
	struct fi_cq_tagged_entry *entry = prov_cq_enter(cq, number + 3);

	if (entry)
		*entry = (struct fi_cq_tagged_entry){
			.op_context = (void *)number, .tag = number + 1, .len = number + 2};
	return entry != NULL;
}

static void push_error(struct prov_cq *cq, uintptr_t number)
{
	struct fi_cq_err_entry error = {
		.op_context = (void *)number, .err = FI_ETRUNC, .prov_errno = THOLE_ERR_TRUNCATED};

	prov_cq_push_error(cq, &error);
}

/* What ends in the queue's next progress: numbers up to 0, negative ones as errors. */
static const int *ending;
static struct prov_cq *ending_at;

int __wrap_thole_progress(struct thole_endpoint *endpoint);
int __wrap_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count);

int __wrap_thole_progress(struct thole_endpoint *endpoint)
{
	(void)endpoint;
	for (; ending && *ending; ending++) {
		if (*ending < 0)
			push_error(ending_at, (uintptr_t)-*ending);
		else
			push(ending_at, (uintptr_t)*ending);
	}
	ending = NULL;
	return 0;
}

int __wrap_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count)
{
	(void)completions, (void)count;
	return __wrap_thole_progress(endpoint);
}

static void ring__keeps_order_while_it_grows(void **state)
{
	struct prov_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fi_cq_tagged_entry entries[100];
	fi_addr_t sources[100];
	uintptr_t next = 0;
	ssize_t count;

	(void)state;
	for (uintptr_t i = 0; i < 200; i++)
		assert_true(push(cq, i));
	assert_int_equal(fi_cq_read(&cq->fid, entries, 100),
			 100); /* so that it does not begin at its front */
	for (uintptr_t i = 200; i < 1000; i++)
		assert_true(push(cq, i));
	for (next = 100; (count = fi_cq_readfrom(&cq->fid, entries, 100, sources)) > 0;
	     next += (uintptr_t)count)
		for (uintptr_t i = 0; i < (uintptr_t)count; i++) {
			assert_ptr_equal(entries[i].op_context, (void *)(next + i));
			assert_true(entries[i].tag == next + i + 1 && sources[i] == next + i + 3);
		}
	assert_int_equal(next, 1000);
	assert_int_equal(count, -FI_EAGAIN);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

/* A reader of a shorter format gets no byte more. */
static void format__is_what_was_asked_for(void **state)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};

	(void)state;
	for (int format = FI_CQ_FORMAT_CONTEXT; format <= FI_CQ_FORMAT_TAGGED; format++) {
		struct prov_cq *cq = cq_open((enum fi_cq_format)format, FI_WAIT_NONE);
		unsigned char bytes[3 * sizeof(struct fi_cq_tagged_entry)];

		memset(bytes, 0xee, sizeof bytes);
		push(cq, 7);
		push(cq, 8);
		assert_int_equal(fi_cq_read(&cq->fid, bytes, 2), 2);
		assert_ptr_equal(*(void **)(void *)(bytes + sizes[format]), (void *)8);
		assert_int_equal(bytes[2 * sizes[format]], 0xee);
		assert_int_not_equal(bytes[2 * sizes[format] - 1], 0xee);
		assert_int_equal(fi_close(&cq->fid.fid), 0);
	}
}

static void error__stands_in_its_place(void **state)
{
	struct prov_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error = {.err_data = &error};

	(void)state;
	assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), -FI_EAGAIN);
	push(cq, 1);
	push_error(cq, 2);
	push_error(cq, 3);
	push(cq, 4);
	assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), -FI_EAGAIN); /* 1 comes first */
	assert_int_equal(fi_cq_read(&cq->fid, entries, 4), 1);
	assert_int_equal(fi_cq_read(&cq->fid, entries, 4), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
	assert_ptr_equal(error.op_context, (void *)2);
	assert_true(error.err == FI_ETRUNC && error.err_data_size == 0);
	assert_ptr_equal(error.err_data, &error); /* the caller's */
	assert_string_equal(fi_cq_strerror(&cq->fid, error.prov_errno, NULL, NULL, 0),
			    thole_strerror(THOLE_ERR_TRUNCATED));
	assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
	assert_ptr_equal(error.op_context, (void *)3);
	assert_int_equal(fi_cq_read(&cq->fid, entries, 4), 1);
	assert_ptr_equal(entries[0].op_context, (void *)4);
	push_error(cq, 5); /* freed with the queue */
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

/* A queue whose progress is as above. */
static struct prov_cq *cq_ending(enum fi_cq_format format, const int *numbers)
{
	static int endpoint; /* stands for one */

	ending_at = cq_open(format, FI_WAIT_NONE);
	ending = numbers;
	assert_int_equal(prov_watch_add(&ending_at->watch, (struct thole_endpoint *)(void *)&endpoint), 0);
	return ending_at;
}

/* Up to count, from one read; the rest of the memory is as it was. */
static void assert_read(struct prov_cq *cq, size_t count, const int *numbers, ssize_t taken)
{
	struct fi_cq_tagged_entry entries[6] = {{.op_context = &entries}};
	fi_addr_t sources[6] = {0};

	entries[taken > 0 ? taken : 0].op_context = &entries;
	assert_int_equal(fi_cq_readfrom(&cq->fid, entries, count, sources), taken);
	for (ssize_t i = 0; i < taken; i++) {
		assert_ptr_equal(entries[i].op_context, (void *)(uintptr_t)numbers[i]);
		assert_int_equal(sources[i], numbers[i] + 3);
	}
	assert_ptr_equal(entries[taken > 0 ? taken : 0].op_context, &entries);
	assert_int_equal(sources[taken > 0 ? taken : 0], 0);
}

static void progress__enters_in_the_readers_memory(void **state)
{
	static const int numbers[] = {1, 2, 3, 4, 5, 0}, late = 6;
	struct prov_cq *cq = cq_ending(FI_CQ_FORMAT_TAGGED, numbers);

	(void)state;
	assert_read(cq, 3, numbers, 3);
	assert_int_equal(cq->tail, 2); /* for which there was no room */
	assert_true(push(cq, 6));      /* after the read */
	assert_read(cq, 2, numbers + 3, 2);
	assert_read(cq, 5, &late, 1);
	assert_read(cq, 5, NULL, -FI_EAGAIN);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

static void progress__keeps_errors_in_their_place(void **state)
{
	static const int numbers[] = {1, 2, -3, 4, 0};
	struct prov_cq *cq = cq_ending(FI_CQ_FORMAT_TAGGED, numbers);
	struct fi_cq_err_entry error = {0};

	(void)state;
	assert_read(cq, 5, numbers, 2);
	assert_read(cq, 5, NULL, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
	assert_ptr_equal(error.op_context, (void *)3);
	assert_read(cq, 5, numbers + 3, 1);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

static void progress__keeps_to_the_format(void **state)
{
	static const int numbers[] = {1, 2, 0};
	struct prov_cq *cq = cq_ending(FI_CQ_FORMAT_CONTEXT, numbers);
	struct fi_cq_entry entries[4] = {{NULL}, {NULL}, {entries}};

	(void)state;
	assert_int_equal(fi_cq_read(&cq->fid, entries, 3), 2);
	assert_ptr_equal(entries[0].op_context, (void *)1);
	assert_ptr_equal(entries[1].op_context, (void *)2);
	assert_ptr_equal(entries[2].op_context, entries);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

static void overrun__is_said_behind_what_is_there(void **state)
{
	struct prov_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fi_cq_tagged_entry entry;
	unsigned pushed = 0, taken = 0;

	(void)state;
	refuse = true;
	while (push(cq, pushed))
		pushed++;
	refuse = false;
	assert_true(pushed > 0);
	for (; fi_cq_read(&cq->fid, &entry, 1) == 1; taken++)
		assert_ptr_equal(entry.op_context, (void *)(uintptr_t)taken);
	assert_int_equal(taken, pushed);
	assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), -FI_EOVERRUN);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

/* A wait that would sleep for the first time, and has no descriptor for that, says so; and sleeps when it has one. */
static void waiting__without_a_descriptor(void **state)
{
	struct prov_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	struct fi_cq_tagged_entry entry;
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), -FI_EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, 1), -FI_EAGAIN);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

static void waiting__ends_by_time_and_by_signal(void **state)
{
	struct prov_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_FD);
	struct prov_cq *other = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct pollfd poller = {.events = POLLIN};
	struct fi_cq_tagged_entry entry;

	(void)state;
	assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, 1), -FI_EAGAIN);
	assert_int_equal(fi_cq_signal(&cq->fid), 0);
	assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1),
			 -FI_EAGAIN); /* would not end else */
	assert_int_equal(prov_cq_trywait(cq), 0);
	assert_int_equal(fi_cq_signal(&cq->fid), 0);
	assert_int_equal(prov_cq_trywait(cq), -FI_EAGAIN);
	assert_int_equal(prov_cq_trywait(cq), 0); /* it was told, and may sleep again */
	/* Another's progress may have taken what would have woken who sleeps, so nobody sleeps for long. */
	assert_int_equal(fi_control(&cq->fid.fid, FI_GETWAIT, &poller.fd), 0);
	assert_int_equal(poll(&poller, 1, 10000), 1);
	do
		assert_int_equal(prov_cq_trywait(cq), 0);
	while (poll(&poller, 1, 0) == 1); /* and anew */
	push(cq, 1);
	assert_int_equal(prov_cq_trywait(cq), -FI_EAGAIN);
	assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), 1);
	assert_int_equal(fi_cq_sread(&other->fid, &entry, 1, NULL, 0), -FI_EOPNOTSUPP);
	cq->users = 1;
	assert_int_equal(fi_close(&cq->fid.fid), -FI_EBUSY);
	cq->users = 0;
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	assert_int_equal(fi_close(&other->fid.fid), 0);
}

/* The MPI library's next yield would keep it from that. */
static void read__says_that_it_has_found(void **state)
{
	struct prov_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fi_cq_tagged_entry entry;

	(void)state;
	yield_spared = true; /* the library's yields come to us */
	assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), -FI_EAGAIN);
	assert_false(yield_found);
	push(cq, 1);
	assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), 1);
	assert_true(yield_found);
	yield_spared = yield_found = false;
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring__keeps_order_while_it_grows),
		cmocka_unit_test(format__is_what_was_asked_for),
		cmocka_unit_test(error__stands_in_its_place),
		cmocka_unit_test(progress__enters_in_the_readers_memory),
		cmocka_unit_test(progress__keeps_errors_in_their_place),
		cmocka_unit_test(progress__keeps_to_the_format),
		cmocka_unit_test(overrun__is_said_behind_what_is_there),
		cmocka_unit_test(waiting__without_a_descriptor),
		cmocka_unit_test(waiting__ends_by_time_and_by_signal),
		cmocka_unit_test(read__says_that_it_has_found),
	};

	return cmocka_run_group_tests_name("prov_cq", tests, objects_setup, objects_teardown);
}
