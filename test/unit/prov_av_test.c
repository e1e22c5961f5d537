/* SPDX-License-Identifier: BSD-3-Clause */
/* Address vectors: which fi_addr_t an address gets, and what endpoints learn of it, before and
 * after they are bound. */
#include "prov_objects.h"

#include <string.h>

#include "prov_address.h"
#include "prov_av.h"
#include "prov_endpoint.h"
#include "prov_eq.h"

static struct fid_ep *fids[2];
static struct prov_endpoint *one, *two;
static struct prov_address names[2]; /* of both */

static int setup(void **state)
{
	(void)state;
	objects_open(&objects);
	for (int i = 0; i < 2; i++) {
		size_t length = sizeof names[i];

		assert_int_equal(fi_endpoint(objects.domain, objects.info, &fids[i], NULL), 0);
		assert_int_equal(fi_getname(&fids[i]->fid, &names[i], &length), 0);
	}
	one = prov_endpoint_of(fids[0]);
	two = prov_endpoint_of(fids[1]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_close(&fids[i]->fid), 0);
	objects_close(&objects);
	return 0;
}

static struct fid_av *av_open(uint64_t flags)
{
	struct fi_av_attr attr = {.type = FI_AV_UNSPEC, .flags = flags};
	struct fid_av *av;

	assert_int_equal(fi_av_open(objects.domain, &attr, &av, NULL), 0);
	assert_int_equal(attr.type, FI_AV_TABLE);
	return av;
}

static void av_close(struct fid_av *av)
{
	struct prov_av *own = container_of(av, struct prov_av, fid);

	prov_av_detach(own, one);
	prov_av_detach(own, two);
	assert_int_equal(fi_close(&av->fid), 0);
}

/* Which of Thole's peers an endpoint takes an fi_addr_t for, and the way back. */
static uint32_t peer_of(const struct prov_endpoint *endpoint, fi_addr_t fi_addr)
{
	return prov_map_get(endpoint->peers, fi_addr);
}

static void insert__counts_from_zero(void **state)
{
	struct fid_av *av = av_open(0);
	fi_addr_t addrs[2] = {77, 77};
	struct prov_address back;
	size_t length = sizeof back;

	(void)state;
	assert_int_equal(prov_av_attach(container_of(av, struct prov_av, fid), one), 0);
	assert_int_equal(fi_av_insert(av, names, 2, addrs, 0, NULL), 2);
	assert_true(addrs[0] == 0 && addrs[1] == 1);
	assert_true(peer_of(one, 0) != PROV_NONE && peer_of(one, 1) != PROV_NONE &&
		    peer_of(one, 0) != peer_of(one, 1));
	assert_int_equal(prov_map_get(one->sources, peer_of(one, 1)), 1);
	assert_int_equal(fi_av_lookup(av, 1, &back, &length), 0);
	assert_memory_equal(&back, &names[1], sizeof back);
	assert_int_equal(fi_av_lookup(av, 2, &back, &length), -FI_EINVAL);
	/* Who is bound later learns of both. */
	assert_int_equal(prov_av_attach(container_of(av, struct prov_av, fid), two), 0);
	assert_int_equal(prov_map_get(two->sources, peer_of(two, 1)), 1);
	assert_int_equal(fi_close(&av->fid), -FI_EBUSY);
	av_close(av);
}

/* A caller with little room has as much as fits, and the length of all. */
static void lookup__keeps_to_its_room(void **state)
{
	struct fid_av *av = av_open(0);
	char bytes[sizeof(struct prov_address)];
	size_t length = 4;

	(void)state;
	memset(bytes, 'x', sizeof bytes);
	assert_int_equal(fi_av_insert(av, names, 1, NULL, 0, NULL), 1);
	assert_int_equal(fi_av_lookup(av, 0, bytes, &length), 0);
	assert_int_equal(length, sizeof bytes);
	assert_memory_equal(bytes, names[0].text, 4);
	for (size_t i = 4; i < sizeof bytes; i++)
		assert_int_equal(bytes[i], 'x');
	av_close(av);
}

/* Nothing is no address: it stands for an entry that is free. */
static void insert__takes_no_nothing(void **state)
{
	static const struct prov_address nothing;
	struct fid_av *av = av_open(0);

	(void)state;
	assert_int_equal(fi_av_insert(av, &nothing, 1, NULL, 0, NULL), 0);
	av_close(av);
}

/* As the tool, logs and thole.h have it. */
static void text__is_that_of_thole(void **state)
{
	struct fid_av *av = av_open(0);
	struct prov_address back;
	struct thole_address whole;
	char text[2 * sizeof whole];
	size_t length = sizeof text;
	fi_addr_t addr;

	(void)state;
	thole_endpoint_address(one->thole, &whole);
	assert_string_equal(fi_av_straddr(av, &names[0], text, &length), whole.text);
	assert_int_equal(length, strlen(whole.text) + 1);
	assert_int_equal(fi_av_insertsvc(av, text, NULL, &addr, 0, NULL), 1);
	length = sizeof back;
	assert_int_equal(fi_av_lookup(av, addr, &back, &length), 0);
	assert_int_equal(length, sizeof back);
	assert_memory_equal(&back, &names[0], sizeof back);
	av_close(av);
}

static void remove__frees_the_number(void **state)
{
	struct fid_av *av = av_open(0);
	fi_addr_t addrs[2], again = 77, gone = 0, never = (fi_addr_t)1 << 40;
	uint32_t peer;

	(void)state;
	assert_int_equal(prov_av_attach(container_of(av, struct prov_av, fid), one), 0);
	assert_int_equal(fi_av_insert(av, names, 2, addrs, 0, NULL), 2);
	peer = peer_of(one, 0);
	assert_int_equal(fi_av_remove(av, &gone, 1, 0), 0);
	assert_true(peer_of(one, 0) == PROV_NONE && prov_map_get(one->sources, peer) == PROV_NONE);
	assert_int_equal(fi_av_remove(av, &gone, 1, 0), -FI_EINVAL);
	assert_int_equal(fi_av_remove(av, &never, 1, 0), -FI_EINVAL);
	assert_int_equal(fi_av_insert(av, &names[0], 1, &again, 0, NULL), 1);
	assert_int_equal(again, 0);
	assert_true(peer_of(one, 0) == peer);
	assert_int_equal(container_of(av, struct prov_av, fid)->free_count, 0); /* else memory behind all is searched */
	assert_int_equal(fi_av_insert(av, &names[0], 1, &again, 0, NULL), 1);
	assert_int_equal(again, 2);
	av_close(av);
}

/* A receive's source is the entry that came first, and, when that is gone, the other. */
static void twins__share_a_peer(void **state)
{
	struct fid_av *av = av_open(0);
	fi_addr_t addrs[2], first = 0;
	uint32_t peer;

	(void)state;
	assert_int_equal(prov_av_attach(container_of(av, struct prov_av, fid), one), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_av_insert(av, &names[1], 1, &addrs[i], 0, NULL), 1);
	peer = peer_of(one, 0);
	assert_true(addrs[1] == 1 && peer_of(one, 1) == peer);
	assert_int_equal(prov_map_get(one->sources, peer), 0);
	assert_int_equal(fi_av_remove(av, &first, 1, 0), 0);
	assert_int_equal(prov_map_get(one->sources, peer), 1);
	assert_true(peer_of(one, 1) == peer);
	av_close(av);
}

/* Thousands of peers that leave: the table is not searched for a twin of each. What it would be taken for is put
 * there. */
static void twins__are_not_looked_for_where_none_is(void **state)
{
	struct fid_av *av = av_open(0);
	fi_addr_t addrs[2], last = 1;
	uint32_t peer;

	(void)state;
	assert_int_equal(prov_av_attach(container_of(av, struct prov_av, fid), one), 0);
	assert_int_equal(fi_av_insert(av, names, 2, addrs, 0, NULL), 2);
	peer = peer_of(one, 1);
	assert_int_equal(prov_map_get(one->entries, peer), 1);
	one->peers->values[5] = peer;
	assert_int_equal(fi_av_remove(av, &last, 1, 0), 0);
	one->peers->values[5] = PROV_NONE;
	assert_int_equal(prov_map_get(one->sources, peer), PROV_NONE);
	assert_int_equal(prov_map_get(one->entries, peer), 0);
	/* Of three entries two are left, and then one. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_av_insert(av, &names[1], 1, &last, 0, NULL), 1);
	for (fi_addr_t i = 1; i < 4; i++) {
		assert_int_equal(prov_map_get(one->sources, peer), i);
		assert_int_equal(fi_av_remove(av, &i, 1, 0), 0);
	}
	assert_int_equal(prov_map_get(one->sources, peer), PROV_NONE);
	av_close(av);
}

/* Numbers that are free are given again from the lowest on, and those below are not looked at once more: what looks
 * free is put there. */
static void insert__goes_on_where_it_was(void **state)
{
	struct fid_av *av = av_open(0);
	struct prov_av *own = container_of(av, struct prov_av, fid);
	const fi_addr_t again[] = {3, 4, 6};
	fi_addr_t gone[] = {6, 3, 4}, addr;

	(void)state;
	for (int i = 0; i < 8; i++)
		assert_int_equal(fi_av_insert(av, &names[0], 1, &addr, 0, NULL), 1);
	assert_int_equal(fi_av_remove(av, gone, 3, 0), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(fi_av_insert(av, &names[0], 1, &addr, 0, NULL), 1);
		assert_int_equal(addr, again[i]);
		own->addresses[1].text[0] = '\0';
	}
	prov_address_whole(&names[0], &own->addresses[1]);
	assert_int_equal(fi_av_remove(av, &gone[1], 1, 0), 0); /* below where it was */
	assert_int_equal(fi_av_insert(av, &names[0], 1, &addr, 0, NULL), 1);
	assert_int_equal(addr, 3);
	assert_int_equal(fi_av_insert(av, &names[0], 1, &addr, 0, NULL), 1);
	assert_int_equal(addr, 8);
	av_close(av);
}

static void refused__are_told_one_by_one(void **state)
{
	struct prov_address mixed[3] = {names[0], {"no address"}, names[1]};
	struct fid_av *av = av_open(0);
	fi_addr_t addrs[3];
	int errors[3];

	(void)state;
	assert_int_equal(prov_av_attach(container_of(av, struct prov_av, fid), one), 0);
	assert_int_equal(fi_av_insert(av, mixed, 3, addrs, FI_SYNC_ERR, errors), 2);
	assert_true(addrs[0] == 0 && addrs[1] == FI_ADDR_NOTAVAIL &&
		    addrs[2] == 1); /* whose number is free again */
	assert_true(errors[0] == 0 && errors[1] == FI_EINVAL && errors[2] == 0);
	memset(&mixed[1], '?', sizeof mixed[1]); /* as long as one */
	assert_int_equal(fi_av_insert(av, &mixed[1], 1, addrs, 0, NULL), 0);
	assert_int_equal(fi_av_insertsvc(av, NULL, NULL, addrs, 0, NULL), -FI_EINVAL);
	av_close(av);
}

static bool refuse; /* memory */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	return refuse ? NULL : __real_calloc(count, size);
}

/* Nothing is inserted that nobody would hear of. */
static void events__that_find_no_memory(void **state)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fid_av *av = av_open(FI_EVENT);
	struct fid_eq *eq;

	(void)state;
	assert_int_equal(fi_eq_open(objects.fabric, &attr, &eq, NULL), 0);
	assert_int_equal(fi_av_bind(av, &eq->fid, 0), 0);
	refuse = true;
	assert_int_equal(fi_av_insert(av, names, 2, NULL, 0, NULL), -FI_ENOMEM);
	refuse = false;
	assert_int_equal(container_of(av, struct prov_av, fid)->count, 0);
	av_close(av);
	assert_int_equal(fi_close(&eq->fid), 0);
}

static void events__report_insertions(void **state)
{
	struct prov_address mixed[2] = {names[0], {"no address"}};
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fi_eq_err_entry error = {0};
	struct fid_av *av = av_open(FI_EVENT);
	struct fi_eq_entry entry;
	struct fid_eq *eq;
	fi_addr_t addrs[2];
	uint32_t number;

	(void)state;
	assert_int_equal(prov_av_attach(container_of(av, struct prov_av, fid), one), 0);
	assert_int_equal(fi_av_insert(av, mixed, 2, addrs, 0, NULL), -FI_ENOEQ);
	assert_int_equal(fi_eq_open(objects.fabric, &attr, &eq, NULL), 0);
	assert_int_equal(fi_av_bind(av, &eq->fid, 0), 0);
	assert_int_equal(fi_close(&eq->fid), -FI_EBUSY);
	assert_int_equal(fi_av_insert(av, mixed, 2, addrs, 0, &addrs), 0);
	assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof error);
	assert_true(error.data == 1 && error.err == FI_EINVAL && error.context == &addrs);
	assert_int_equal(fi_eq_read(eq, &number, &entry, sizeof entry, 0), sizeof entry);
	assert_true(number == FI_AV_COMPLETE && entry.data == 1 && entry.fid == &av->fid);
	av_close(av);
	assert_int_equal(fi_close(&eq->fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(insert__counts_from_zero, setup, teardown),
		cmocka_unit_test_setup_teardown(lookup__keeps_to_its_room, setup, teardown),
		cmocka_unit_test_setup_teardown(insert__takes_no_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(text__is_that_of_thole, setup, teardown),
		cmocka_unit_test_setup_teardown(remove__frees_the_number, setup, teardown),
		cmocka_unit_test_setup_teardown(twins__share_a_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(twins__are_not_looked_for_where_none_is, setup, teardown),
		cmocka_unit_test_setup_teardown(insert__goes_on_where_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(refused__are_told_one_by_one, setup, teardown),
		cmocka_unit_test_setup_teardown(events__that_find_no_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(events__report_insertions, setup, teardown),
	};

	return cmocka_run_group_tests_name("prov_av", tests, NULL, NULL);
}
