/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: what has to be bound before they are enabled, what may be bound then, and their
 * options. */
#include "prov_objects.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "prov_endpoint.h"

enum { CHILD_LIMIT_S = 20 }; /* until it is taken to hang */

static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *cq;

static int setup(void **state)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};

	(void)state;
	setenv("THOLE_MULTI_MIN", "1k", 1);
	objects_open(&objects);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	assert_int_equal(fi_av_open(objects.domain, &av_attr, &av, NULL), 0);
	assert_int_equal(fi_cq_open(objects.domain, &cq_attr, &cq, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&av->fid), 0); /* which an open endpoint would not let go */
	assert_int_equal(fi_close(&cq->fid), 0);
	objects_close(&objects);
	unsetenv("THOLE_MULTI_MIN");
	return 0;
}

static void enable__needs_a_vector_and_a_queue(void **state)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;

	(void)state;
	assert_int_equal(ep->ops->rx_size_left(ep), -FI_EOPBADSTATE);
	assert_int_equal(fi_enable(ep), -FI_ENOAV);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), -FI_EINVAL); /* there is one */
	assert_int_equal(fi_enable(ep), -FI_ENOCQ);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, 0), -FI_EBADFLAGS);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_RECV), -FI_EINVAL);
	assert_int_equal(fi_enable(ep), 0);
	assert_true(ep->ops->rx_size_left(ep) > 0);
	assert_int_equal(fi_enable(ep), -FI_EOPBADSTATE);
	assert_int_equal(fi_close(&cq->fid), -FI_EBUSY);
	/* Counters may come later. */
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_RECV), -FI_EOPBADSTATE);
	assert_int_equal(fi_cntr_open(objects.domain, &attr, &cntr, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &cntr->fid, FI_SEND), 0);
	assert_int_equal(prov_endpoint_of(ep)->inject_flags, THOLE_INJECT | PROV_SILENT);
	assert_int_equal(fi_ep_bind(ep, &cntr->fid, FI_SEND), -FI_EINVAL);
	assert_int_equal(fi_close(&cntr->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
}

/* A counter that cannot be bound to all that was asked for is bound to nothing. */
static void bind__all_or_nothing(void **state)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *one, *other;

	(void)state;
	assert_int_equal(fi_cntr_open(objects.domain, &attr, &one, NULL), 0);
	assert_int_equal(fi_cntr_open(objects.domain, &attr, &other, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &one->fid, FI_WRITE), 0);
	assert_int_equal(fi_ep_bind(ep, &other->fid, FI_SEND | FI_WRITE), -FI_EINVAL);
	assert_int_equal(fi_close(&other->fid), 0);
	assert_int_equal(fi_close(&one->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&one->fid), 0);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
}

static void option__multi_min_is_bytes(void **state)
{
	size_t value = 0, length = sizeof value;
	uint64_t told = 0;

	(void)state;
	assert_int_equal(
		fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length), 0);
	assert_int_equal(value, 1024); /* 1k */
	value = 2000;
	assert_int_equal(
		fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof value),
		0);
	value = 0;
	assert_int_equal(
		fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length), 0);
	assert_int_equal(value, 2000);
	assert_int_equal(thole_option_number(prov_endpoint_of(ep)->thole, "multi_min", &told), 0);
	assert_int_equal(told, 2000); /* who does it knows */
	length = sizeof value - 1;
	assert_int_equal(
		fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length),
		-FI_ETOOSMALL);
}

static void option__limits_may_be_wished_smaller(void **state)
{
	size_t value = 100, length = sizeof value;

	(void)state;
	assert_int_equal(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, PROV_OPT_INJECT_MSG_SIZE, &value,
				   sizeof value),
			 0);
	assert_int_equal(
		fi_getopt(&ep->fid, FI_OPT_ENDPOINT, PROV_OPT_INJECT_MSG_SIZE, &value, &length), 0);
	assert_int_equal(value, PROV_INJECT_MAX);
	value = PROV_INJECT_MAX + 1;
	assert_int_equal(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, PROV_OPT_INJECT_MSG_SIZE, &value,
				   sizeof value),
			 -FI_EINVAL);
	assert_int_equal(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 9999, &value, sizeof value),
			 -FI_ENOPROTOOPT);
	assert_int_equal(fi_setopt(&ep->fid, 9999, FI_OPT_MIN_MULTI_RECV, &value, sizeof value),
			 -FI_ENOPROTOOPT);
}

static void operation_flags__of_one_direction(void **state)
{
	uint64_t flags = FI_TRANSMIT | FI_MATCH_COMPLETE;

	(void)state;
	assert_int_equal(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), 0);
	assert_int_equal(prov_endpoint_of(ep)->send_flags, THOLE_SYNC);
	flags = FI_TRANSMIT;
	assert_int_equal(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), 0);
	assert_true(flags == FI_MATCH_COMPLETE);
	flags = FI_TRANSMIT | FI_RECV;
	assert_int_equal(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
	assert_int_equal(fi_cancel(&ep->fid, &flags), -FI_ENOENT); /* nothing has this context */
}

static const void *watched; /* a block; NULL: none, */
static bool freed;          /* and it was freed */

void __real_free(void *block);
void __wrap_free(void *block);

void __wrap_free(void *block)
{
	freed |= block && block == watched;
	__real_free(block);
}

/* A result in two places, from a peer that never answers. */
static void close__frees_what_is_under_way(void **state)
{
	struct objects others;
	struct prov_endpoint *endpoint = prov_endpoint_of(ep);
	uint64_t words[2] = {1, 1}, results[2];
	struct fi_ioc operand = {words, 2}, places[2] = {{&results[0], 1}, {&results[1], 1}};
	char name[64];
	size_t length = sizeof name;
	struct fid_ep *other;
	fi_addr_t addr;

	(void)state;
	objects_open(&others);
	assert_int_equal(fi_endpoint(others.domain, others.info, &other, NULL), 0);
	assert_int_equal(fi_getname(&other->fid, name, &length), 0);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(ep), 0);
	assert_int_equal(fi_av_insert(av, name, 1, &addr, 0, NULL), 1);
	assert_int_equal(
		fi_fetch_atomicv(ep, &operand, NULL, 1, places, NULL, 2, addr, 0, 1, FI_UINT64, FI_SUM, NULL), 0);
	watched = list_first(&endpoint->scatters);
	assert_non_null(watched);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_true(freed);
	watched = NULL;
	assert_int_equal(fi_close(&other->fid), 0);
	objects_close(&others);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
}

/* One endpoint at a time is for one thread; of several each may be another thread's. */
static void second__makes_the_domain_safe(void **state)
{
	struct prov_domain *domain = objects_domain(&objects);
	struct fid_ep *second;

	(void)state;
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	assert_false(domain->charge.safe);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &second, NULL), 0);
	assert_true(domain->charge.safe);
	assert_int_equal(fi_close(&second->fid), 0);
}

/* ---- Forks ------------------------------------------------------------------------------------------- */

/* All that a program may have, in a domain that makes progress by itself. */
struct all {
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	char memory[64];
};

static void all_open(struct all *all)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};

	objects.info->domain_attr->data_progress = FI_PROGRESS_AUTO;
	assert_int_equal(fi_domain(objects.fabric, objects.info, &all->domain, NULL), 0);
	assert_int_equal(fi_endpoint(all->domain, objects.info, &all->ep, NULL), 0);
	assert_int_equal(fi_av_open(all->domain, &av_attr, &all->av, NULL), 0);
	assert_int_equal(fi_cq_open(all->domain, &cq_attr, &all->cq, NULL), 0);
	assert_int_equal(fi_cntr_open(all->domain, &cntr_attr, &all->cntr, NULL), 0);
	assert_int_equal(fi_ep_bind(all->ep, &all->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(all->ep, &all->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(all->ep, &all->cntr->fid, FI_SEND), 0);
	assert_int_equal(fi_enable(all->ep), 0);
	assert_int_equal(fi_mr_reg(all->domain, all->memory, sizeof all->memory, FI_REMOTE_WRITE, 0, 0, 0, &all->mr,
				   NULL), 0);
}

static bool in_child;

/* Threads are not in a child. */
int __real_pthread_join(pthread_t thread, void **result_p);
int __wrap_pthread_join(pthread_t thread, void **result_p);

int __wrap_pthread_join(pthread_t thread, void **result_p)
{
	if (in_child)
		_exit(100);
	return __real_pthread_join(thread, result_p);
}

/* Nor is the memory in which peers are told that they were given access. */
void __real_thole_unexpose(struct thole_endpoint *endpoint, struct thole_region *region);
void __wrap_thole_unexpose(struct thole_endpoint *endpoint, struct thole_region *region);

void __wrap_thole_unexpose(struct thole_endpoint *endpoint, struct thole_region *region)
{
	if (in_child)
		_exit(101);
	__real_thole_unexpose(endpoint, region);
}

/* 0: all was closed. */
static int all_close(struct all *all)
{
	struct fid *const fids[] = {&all->ep->fid, &all->mr->fid, &all->cntr->fid, &all->cq->fid, &all->av->fid,
				    &all->domain->fid};

	for (int i = 0; i < 6; i++)
		if (fi_close(fids[i]))
			return i + 1;
	return 0;
}

/* Another thread is amid a call when the child is made, as one that polls nearly always is. The child can close what it
 * has, and what the parent has stays as it is. */
static void close__in_a_child_of_one_who_is_inside(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct prov_domain *domain;
	struct all all;
	pid_t child;
	int epoll;

	(void)state;
	all_open(&all);
	domain = container_of(all.domain, struct prov_domain, fid);
	assert_int_equal(fi_control(&all.cq->fid, FI_GETWAIT, &epoll), 0);
	prov_domain_lock(domain);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		alarm(CHILD_LIMIT_S);
		in_child = true;
		_exit(all_close(&all));
	}
	prov_domain_unlock(domain);
	assert_int_equal(child_status(child), 0);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, thole_fd(prov_endpoint_of(all.ep)->thole), &event), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(all_close(&all), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(enable__needs_a_vector_and_a_queue, setup,
						teardown),
		cmocka_unit_test_setup_teardown(bind__all_or_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(option__multi_min_is_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(option__limits_may_be_wished_smaller, setup,
						teardown),
		cmocka_unit_test_setup_teardown(operation_flags__of_one_direction, setup, teardown),
		cmocka_unit_test_setup_teardown(close__frees_what_is_under_way, setup, teardown),
		cmocka_unit_test_setup_teardown(second__makes_the_domain_safe, setup, teardown),
		cmocka_unit_test_setup_teardown(close__in_a_child_of_one_who_is_inside, setup, teardown),
	};

	return cmocka_run_group_tests_name("prov_ep", tests, NULL, NULL);
}
