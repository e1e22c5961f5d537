/* SPDX-License-Identifier: BSD-3-Clause */
/* fi_getinfo: the log names the first hint that cannot be had. */
#include "prov_objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char logged[300]; /* the last line */
static int lines;

void __wrap_prov_core_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *function, int line,
			  const char *format, ...) __attribute__((format(printf, 5, 6)));

void __wrap_prov_core_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *function, int line,
			  const char *format, ...)
{
	va_list args;

	(void)subsystem, (void)function, (void)line;
	assert_true(level == FI_LOG_INFO || level == FI_LOG_WARN);
	va_start(args, format);
	vsnprintf(logged, sizeof logged, format, args);
	va_end(args);
	lines++;
}

static struct fi_tx_attr tx;
static struct fi_rx_attr rx;
static struct fi_ep_attr ep;
static struct fi_domain_attr domain;
static struct fi_fabric_attr fabric;
static struct fi_info hints; /* of the above */

static int setup(void **state)
{
	(void)state;
	tx = (struct fi_tx_attr){0};
	rx = (struct fi_rx_attr){0};
	ep = (struct fi_ep_attr){0};
	domain = (struct fi_domain_attr){0};
	fabric = (struct fi_fabric_attr){0};
	hints = (struct fi_info){
		.tx_attr = &tx, .rx_attr = &rx, .ep_attr = &ep, .domain_attr = &domain, .fabric_attr = &fabric};
	lines = 0;
	logged[0] = '\0';
	return 0;
}

static int ask(const char *node)
{
	struct fi_info *info = NULL;
	int error = prov_info_get(FI_VERSION(1, 17), node, NULL, 0, &hints, &info);

	assert_true((info != NULL) == (error == 0));
	if (info)
		prov_info_free(info);
	return error;
}

static void refused(const char *line)
{
	assert_int_equal(ask(NULL), -FI_ENODATA);
	assert_int_equal(lines, 1);
	assert_string_equal(logged, line);
	setup(NULL);
}

static void hints__that_fit_are_not_spoken_of(void **state)
{
	(void)state;
	domain.name = (char *)"shm"; /* as libfabric's own is called */
	hints.caps = FI_MSG | FI_TAGGED;
	assert_int_equal(ask(NULL), 0);
	assert_int_equal(lines, 0);
}

static void hints__the_first_that_does_not_fit(void **state)
{
	(void)state;
	hints.caps = FI_MSG | FI_HMEM;
	tx.comp_order = 1;
	refused("not with this caps: of 0x800000000002 there is not 0x800000000000");
	hints.addr_format = FI_SOCKADDR_IN;
	refused("not with this addr_format");
	tx.comp_order = 1;
	refused("not with this tx_attr->comp_order: of 0x1 there is not 0x1");
	tx.inject_size = PROV_INJECT_MAX + 1;
	refused("not with this tx_attr->inject_size: 4097, and at most 4096 is possible");
	rx.iov_limit = PROV_SEGMENTS_MAX + 1;
	refused("not with this rx_attr->iov_limit: 65, and at most 64 is possible");
	ep.type = FI_EP_DGRAM;
	refused("not with this ep_attr->type");
	ep.max_order_war_size = SIZE_MAX;
	refused("not with this ep_attr->max_order_war_size: 18446744073709551615, and at most 4096 is possible");
	domain.mr_mode = PROV_MR_BASIC;
	refused("not with this domain_attr->mr_mode: FI_MR_BASIC");
	domain.name = (char *)"eth0";
	refused("not with this domain_attr->name: \"eth0\", and ours is \"thole\"");
	domain.max_ep_srx_ctx = 1;
	refused("not with this domain_attr->max_ep_srx_ctx: 1, and at most 0 is possible");
	fabric.prov_name = (char *)"tcp";
	refused("not with this fabric_attr->prov_name: \"tcp\", and ours is \"thole\"");
}

#define UNIFIED ((enum fi_progress)3) /* FI_PROGRESS_CONTROL_UNIFIED, which libfabric 1 has not */

static void progress__comes_with_access_without_tags(void **state)
{
	static const struct {
		uint64_t caps;
		enum fi_progress asked, answer;
	} rows[] = {
		{FI_RMA, FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO},
		{FI_RMA | FI_MSG, FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO}, /* Open MPI 6 */
		{FI_RMA | FI_MSG, UNIFIED, FI_PROGRESS_AUTO}, /* and with libfabric 2 */
		{FI_RMA | FI_TAGGED, UNIFIED, FI_PROGRESS_MANUAL},
		{FI_RMA | FI_MSG, FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL},
		{FI_RMA | FI_TAGGED, FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL},
		{FI_RMA | FI_TAGGED, FI_PROGRESS_AUTO, FI_PROGRESS_AUTO},
		{0, FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct fi_info *info;

		hints.caps = rows[i].caps;
		domain.data_progress = rows[i].asked;
		assert_int_equal(prov_info_get(FI_VERSION(1, 17), NULL, NULL, 0, &hints, &info), 0);
		assert_int_equal(info->domain_attr->data_progress, rows[i].answer);
		prov_info_free(info);
	}
}

static int refuse; /* a THOLE_ERR_*, with which no endpoint opens; 0: they do */

int __real_thole_endpoint_open(const struct thole_endpoint_attr *attr, struct thole_endpoint **endpoint_p);
int __wrap_thole_endpoint_open(const struct thole_endpoint_attr *attr, struct thole_endpoint **endpoint_p);

int __wrap_thole_endpoint_open(const struct thole_endpoint_attr *attr, struct thole_endpoint **endpoint_p)
{
	return refuse ? refuse : __real_thole_endpoint_open(attr, endpoint_p);
}

/* An address, what is none, and where that cannot be told. */
static void node__is_an_address(void **state)
{
	struct thole_endpoint_attr attr = {0};
	struct thole_endpoint *endpoint;
	struct thole_address address;

	(void)state;
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	thole_endpoint_address(endpoint, &address);
	thole_endpoint_close(endpoint);
	assert_int_equal(ask(address.text), 0);
	assert_int_equal(lines, 0);
	assert_int_equal(ask("host"), -FI_ENODATA);
	assert_string_equal(logged, "not with this node: it is no address of an endpoint");
	refuse = THOLE_ERR_MEMORY;
	assert_int_equal(ask(address.text), -FI_ENOMEM);
	refuse = 0;
}

static bool refuse_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
	return refuse_memory ? NULL : __real_malloc(size);
}

/* Options are read once a process: in a child, which has not done so yet. */
static void option__that_finds_no_memory(void **state)
{
	pid_t child = fork();
	struct fid_domain *opened;
	struct fid_fabric *own;
	struct fi_info *info;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		refuse_memory = true;
		prov_option_read();
		refuse_memory = false;
		assert_int_equal(prov_info_get(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info), 0);
		assert_int_equal(prov_fabric_open(info->fabric_attr, &own, NULL), 0);
		_exit(fi_domain(own, info, &opened, NULL) != -FI_ENOMEM);
	}
	assert_int_equal(child_status(child), 0);
	prov_option_read();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(option__that_finds_no_memory),
		cmocka_unit_test_setup(hints__that_fit_are_not_spoken_of, setup),
		cmocka_unit_test_setup(hints__the_first_that_does_not_fit, setup),
		cmocka_unit_test_setup(progress__comes_with_access_without_tags, setup),
		cmocka_unit_test_setup(node__is_an_address, setup),
	};

	setenv("THOLE_NETWORK", "off", 1);
	return cmocka_run_group_tests_name("prov_info", tests, NULL, NULL);
}
