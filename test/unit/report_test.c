/* SPDX-License-Identifier: BSD-3-Clause */
/* What an endpoint counts stays for whoever made the file, and nothing fails for one that is wrong. */
#include "endpoint/report.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "descriptors.h"
#include "mappings.h"
#include "pair.h"

struct file {
	int fd;
	struct report *report;
	char option[64];
};

static void file_make(struct file *file, size_t size)
{
	file->fd = memfd_create("report", MFD_CLOEXEC);
	assert_true(file->fd >= 0);
	assert_int_equal(ftruncate(file->fd, (off_t)size), 0);
	file->report = mmap(NULL, sizeof(*file->report), PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	assert_ptr_not_equal(file->report, MAP_FAILED);
	snprintf(file->option, sizeof(file->option), "report=/proc/%d/fd/%d", (int)getpid(), file->fd);
}

static void file_end(struct file *file)
{
	munmap(file->report, sizeof(*file->report));
	close(file->fd);
	assert_int_equal(mappings_of("memfd:report"), 0); /* who joined it has left it */
	assert_int_equal(descriptors_of("memfd:report"), 0);
}

static void pair_talk(struct pair *pair, size_t length)
{
	static char data[100000], place[100000];
	struct thole_request *sent, *received;
	struct thole_completion done;

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, place, length, 1, UINT64_MAX, 0, NULL, &received), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, data, length, 1, 0, 0, NULL, &sent), 0);
	while (!thole_test(pair->b, received, &done))
		thole_progress(pair->a);
	while (!thole_test(pair->a, sent, &done))
		thole_progress(pair->b);
}

static void counters__stay_when_the_endpoint_is_gone(void **state)
{
	struct file file;
	struct pair pair;
	uint64_t *of_a;

	(void)state;
	file_make(&file, sizeof(struct report));
	report_init(file.report);
	pair_open(&pair, (const char *const[]){file.option, "network=off", NULL});
	assert_int_equal(file.report->opened, 2);
	assert_int_equal(file.report->news, 2); /* who waits for them hears of each */
	of_a = file.report->places[0];
	assert_ptr_not_equal(pair.a->base.counters, endpoint_of(pair.a)->own_counters);
	pair_talk(&pair, 8);
	pair_talk(&pair, 100000);
	assert_int_equal(of_a[COUNTER_SHM_MESSAGES], 2);
	assert_int_equal(of_a[COUNTER_SHM_BYTES], 100008);
	assert_int_equal(of_a[COUNTER_NETWORK_MESSAGES], 0);
	pair_close(&pair);
	assert_int_equal(of_a[COUNTER_SHM_MESSAGES], 2);
	assert_int_equal(file.report->places[1][COUNTER_RECEIVED], 2);
	assert_int_equal(file.report->failed, 0);
	file_end(&file);
}

static void failure__has_its_reason(void **state)
{
	struct thole_endpoint *endpoint;
	struct thole_endpoint_attr attr = {0};
	struct file file;

	(void)state;
	file_make(&file, sizeof(struct report));
	report_init(file.report);
	attr.options = (const char *const[]){file.option, "shm=off", "network=off", NULL};
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), THOLE_ERR_ARGUMENT);
	assert_int_equal(file.report->failed, 1);
	assert_int_equal(file.report->refused, 1);
	assert_int_equal(file.report->news, 1);
	assert_int_equal(file.report->opened, 0);
	assert_non_null(strstr(file.report->reason, "shm and network are both off"));
	attr.options = (const char *const[]){file.option, "eager_max=banana", NULL};
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), THOLE_ERR_ARGUMENT);
	assert_int_equal(file.report->failed, 2);
	assert_non_null(strstr(file.report->reason, "shm and network are both off"));
	file_end(&file);
}

/* To a peer that has ended before: nobody answers, and the first to say so is heard. */
static int send_to(struct thole_endpoint *endpoint, const struct thole_address *address)
{
	uint32_t peer;

	assert_int_equal(thole_peer(endpoint, address, &peer), 0);
	return thole_send(endpoint, peer, "x", 1, 1, 0, 0, NULL, NULL);
}

static void trouble__of_an_open_endpoint_has_its_sentence(void **state)
{
	struct thole_address ended[2];
	struct file file;
	struct pair pair;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, NULL);

		thole_endpoint_address(endpoint, &ended[i]);
		thole_endpoint_close(endpoint);
	}
	file_make(&file, sizeof(struct report));
	report_init(file.report);
	pair_open(&pair, (const char *const[]){file.option, "network=off", NULL});
	pair_talk(&pair, 8);
	assert_int_equal(file.report->troubled, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(send_to(pair.a, &ended[i]) < 0);
		assert_int_equal(file.report->troubles, i + 1);
		assert_int_equal(file.report->troubled, 1);
		assert_non_null(strstr(file.report->trouble, "no process answers for "));
		assert_non_null(strstr(file.report->trouble, ended[0].text));
	}
	assert_int_equal(file.report->failed, 0);
	pair_close(&pair);
	file_end(&file);
}

static void opens_without(const char *option)
{
	struct thole_endpoint_attr attr = {.options = (const char *const[]){option, NULL}};
	struct thole_endpoint *endpoint;

	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	assert_ptr_equal(endpoint->base.counters, endpoint_of(endpoint)->own_counters);
	assert_null(endpoint_of(endpoint)->report);
	thole_endpoint_close(endpoint);
}

static void file__that_is_wrong_is_left_alone(void **state)
{
	struct file file;

	(void)state;
	opens_without("report=/nowhere/at/all");
	file_make(&file, sizeof(struct report) - 8);
	file.report->magic = REPORT_MAGIC;
	file.report->counters = COUNTER_COUNT;
	opens_without(file.option);
	file_end(&file);
	file_make(&file, sizeof(struct report));
	opens_without(file.option);
	report_init(file.report);
	file.report->counters++; /* of another build */
	opens_without(file.option);
	file.report->counters--;
	file.report->magic++; /* or nothing like it */
	opens_without(file.option);
	assert_int_equal(file.report->joined, 0);
	file_end(&file);
}

/* Its maker's /proc may not be for us: another user namespace, as of a container. The descriptor is inherited. */
static void file__is_found_by_its_descriptor(void **state)
{
	char *beyond, option[80];
	struct file file;

	(void)state;
	file_make(&file, sizeof(struct report));
	report_init(file.report);
	snprintf(option, sizeof(option), "report=/nowhere/fd/%d", file.fd);
	thole_endpoint_close(pair_endpoint(NULL, NULL, (const char *const[]){option, NULL}));
	assert_int_equal(file.report->opened, 1);
	beyond = option + strlen(option);
	strcpy(beyond, "x");
	opens_without(option);
	strcpy(beyond, "/");
	opens_without(option);
	assert_int_equal(file.report->opened, 1);
	file_end(&file);
}

static void places__run_out(void **state)
{
	struct file file;
	struct report *report;
	uint64_t own[COUNTER_COUNT], *last = NULL;

	(void)state;
	file_make(&file, sizeof(struct report));
	report_init(file.report);
	for (int i = 0; i < REPORT_PLACES; i++) {
		uint64_t *place = report_join(strchr(file.option, '=') + 1, own, &report);

		assert_ptr_not_equal(place, own);
		assert_ptr_not_equal(place, last);
		last = place;
		report_leave(report);
	}
	assert_ptr_equal(report_join(strchr(file.option, '=') + 1, own, &report), own);
	report_leave(report);
	file_end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters__stay_when_the_endpoint_is_gone),
		cmocka_unit_test(failure__has_its_reason),
		cmocka_unit_test(trouble__of_an_open_endpoint_has_its_sentence),
		cmocka_unit_test(file__that_is_wrong_is_left_alone),
		cmocka_unit_test(file__is_found_by_its_descriptor),
		cmocka_unit_test(places__run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
