/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: exposed on every endpoint of the domain, those that come later too, and each key
 * once. */
#include "prov_objects.h"

#include "prov_region.h"
#include "watches.h"

static char memory[64];
static int reg(uint64_t access, uint64_t key, struct fid_mr **mr_p)
{
	return fi_mr_reg(objects.domain, memory, sizeof memory, access, 0, key, 0, mr_p, NULL);
}

static bool is_exposed(struct fid_mr *mr, size_t slot)
{
	struct prov_region *region = container_of(mr, struct prov_region, fid);

	return slot < region->exposed_count && region->exposed[slot];
}

static void region__is_on_all_endpoints(void **state)
{
	struct fid_ep *first, *second;
	struct fid_mr *early, *late;

	(void)state;
	assert_int_equal(reg(FI_REMOTE_READ | FI_REMOTE_WRITE, 1, &early), 0);
	assert_int_equal(fi_mr_key(early), 1);
	assert_false(is_exposed(early, 0));
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &first, NULL), 0);
	assert_true(is_exposed(early, 0));
	assert_int_equal(reg(FI_REMOTE_READ, 2, &late), 0);
	assert_true(is_exposed(late, 0));
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &second, NULL), 0);
	assert_true(is_exposed(early, 1) && is_exposed(late, 1));
	assert_int_equal(fi_close(&first->fid), 0);
	assert_false(is_exposed(early, 0) || is_exposed(late, 0));
	assert_true(is_exposed(early, 1));
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &first, NULL),
			 0); /* in its place */
	assert_true(is_exposed(early, 0) && is_exposed(late, 0));
	assert_int_equal(fi_close(&late->fid), 0);
	assert_int_equal(reg(FI_REMOTE_READ, 2, &late), 0); /* whose key is free again */
	assert_int_equal(fi_close(&late->fid), 0);
	assert_int_equal(fi_close(&early->fid), 0);
	assert_int_equal(fi_close(&first->fid), 0);
	assert_int_equal(fi_close(&second->fid), 0);
}

/* A right to read is none to write, nor the other way round. */
static void region__may_be_used_as_it_was_registered_for(void **state)
{
	static const struct {
		uint64_t access;
		unsigned thole;
	} rows[] = {{FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0},
		    {FI_REMOTE_READ, THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC},
		    {FI_REMOTE_WRITE, THOLE_ACCESS_PUT | THOLE_ACCESS_ATOMIC},
		    {FI_REMOTE_READ | FI_REMOTE_WRITE, THOLE_ACCESS_GET | THOLE_ACCESS_PUT | THOLE_ACCESS_ATOMIC}};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct fid_mr *mr;

		assert_int_equal(reg(rows[i].access, 1, &mr), 0);
		assert_int_equal(container_of(mr, struct prov_region, fid)->access, rows[i].thole);
		assert_int_equal(fi_close(&mr->fid), 0);
	}
}

static void key__is_taken_once(void **state)
{
	struct fid_mr *one, *local, *another;
	struct fid_ep *ep;

	(void)state;
	assert_int_equal(reg(FI_REMOTE_WRITE, 5, &one), 0);
	assert_int_equal(reg(FI_REMOTE_READ, 5, &another), -FI_ENOKEY);
	assert_int_equal(reg(FI_SEND | FI_RECV, 5, &local), 0); /* which peers do not see */
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	assert_false(is_exposed(local, 0));
	assert_int_equal(reg(FI_REMOTE_READ, 5, &another), -FI_ENOKEY);
	assert_int_equal(fi_close(&objects.domain->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&local->fid), 0);
	assert_int_equal(fi_close(&one->fid), 0);
}

/* Who did not ask for FI_RMA_EVENT gets no notices, which a counter would need. */
static void counter__needs_notices(void **state)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(fi_cntr_open(objects.domain, &attr, &cntr, NULL), 0);
	assert_int_equal(reg(FI_REMOTE_WRITE, 1, &mr), 0);
	assert_false(container_of(mr, struct prov_region, fid)->access & THOLE_NOTIFY);
	assert_int_equal(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	assert_int_equal(fi_close(&mr->fid), 0);
	objects_domain(&objects)->rma_event = true;
	assert_int_equal(reg(FI_REMOTE_WRITE, 1, &mr), 0);
	assert_true(container_of(mr, struct prov_region, fid)->access & THOLE_NOTIFY);
	assert_int_equal(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ), -FI_EINVAL);
	assert_int_equal(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE),
			 -FI_EINVAL); /* one is enough */
	assert_int_equal(fi_close(&cntr->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
}

/* A counter that cannot watch the endpoints is not the region's, and may be once it can. */
static void counter__that_cannot_watch(void **state)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	struct fid_mr *mr;

	(void)state;
	objects_domain(&objects)->rma_event = true;
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	assert_int_equal(reg(FI_REMOTE_WRITE, 1, &mr), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_cntr_open(objects.domain, &attr, &cntr, NULL), 0);
		refusing = container_of(cntr, struct prov_counter, fid)->watch.wake.epoll;
		assert_int_equal(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), -ENOSPC);
		refusing = -1;
		assert_null(container_of(mr, struct prov_region, fid)->counter);
		if (i)
			assert_int_equal(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
		assert_int_equal(fi_close(&cntr->fid), i ? -FI_EBUSY : 0);
	}
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
}

/* A region's counter is fed by all endpoints; it outlives each of them, and the region. */
static void counter__forgets_endpoints(void **state)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_ep *first, *second;
	struct prov_counter *counter;
	struct fid_cntr *cntr;
	struct fid_mr *mr;

	(void)state;
	objects_domain(&objects)->rma_event = true;
	assert_int_equal(fi_cntr_open(objects.domain, &attr, &cntr, NULL), 0);
	counter = container_of(cntr, struct prov_counter, fid);
	assert_int_equal(reg(FI_REMOTE_WRITE, 1, &mr), 0);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &first, NULL), 0);
	assert_int_equal(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &second, NULL), 0);
	assert_int_equal(counter->watch.count, 2);
	assert_int_equal(fi_close(&first->fid), 0);
	assert_int_equal(counter->watch.count, 1);
	assert_int_equal(fi_cntr_read(cntr), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&second->fid), 0);
	assert_int_equal(counter->watch.count, 0);
	assert_int_equal(fi_cntr_read(cntr), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
}

/* Also where there was an endpoint before, and is none now. */
static void key__is_taken_once_without_endpoints(void **state)
{
	struct fid_mr *one, *another;
	struct fid_ep *ep;

	(void)state;
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(reg(FI_REMOTE_WRITE, 5, &one), 0);
	assert_int_equal(reg(FI_REMOTE_READ, 5, &another), -FI_ENOKEY);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&one->fid), 0);
}

static void reg__of_one_piece_of_memory(void **state)
{
	struct iovec two[2] = {{memory, 8}, {memory + 8, 8}};
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(fi_mr_regv(objects.domain, two, 2, FI_REMOTE_READ, 0, 1, 0, &mr, NULL),
			 -FI_EINVAL);
	assert_int_equal(fi_mr_regv(objects.domain, two, 1, FI_REMOTE_READ, 4, 1, 0, &mr, NULL),
			 -FI_EINVAL);
	assert_int_equal(fi_mr_regv(objects.domain, two, 1, FI_REMOTE_READ, 0, 1, 0, &mr, NULL), 0);
	assert_int_equal(container_of(mr, struct prov_region, fid)->length, 8);
	assert_int_equal(fi_close(&mr->fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(region__is_on_all_endpoints, objects_setup, objects_teardown),
		cmocka_unit_test_setup_teardown(region__may_be_used_as_it_was_registered_for, objects_setup,
						objects_teardown),
		cmocka_unit_test_setup_teardown(key__is_taken_once, objects_setup, objects_teardown),
		cmocka_unit_test_setup_teardown(counter__needs_notices, objects_setup, objects_teardown),
		cmocka_unit_test_setup_teardown(counter__that_cannot_watch, objects_setup, objects_teardown),
		cmocka_unit_test_setup_teardown(counter__forgets_endpoints, objects_setup, objects_teardown),
		cmocka_unit_test_setup_teardown(key__is_taken_once_without_endpoints, objects_setup, objects_teardown),
		cmocka_unit_test_setup_teardown(reg__of_one_piece_of_memory, objects_setup, objects_teardown),
	};

	return cmocka_run_group_tests_name("prov_region", tests, NULL, NULL);
}
