/* SPDX-License-Identifier: BSD-3-Clause */
/* The intrusive list. */
#include "unit.h"

#include "base/list.h"

struct member {
	char before;
	struct list_node node;
};

static void list__members_in_order_both_ways(void **state)
{
	struct list_node head;
	struct member members[3];

	(void)state;
	list_init(&head);
	assert_true(list_empty(&head));
	assert_null(list_first(&head));
	assert_null(list_next(&head, &head));
	list_push_back(&head, &members[1].node);
	list_push_back(&head, &members[2].node);
	list_push_front(&head, &members[0].node);
	assert_false(list_empty(&head));
	assert_ptr_equal(container_of(list_first(&head), struct member, node), &members[0]);
	assert_ptr_equal(list_next(&head, &members[0].node), &members[1].node);
	assert_ptr_equal(list_next(&head, &members[1].node), &members[2].node);
	assert_null(list_next(&head, &members[2].node));
	assert_ptr_equal(head.prev, &members[2].node);
	assert_ptr_equal(members[2].node.prev, &members[1].node);
	assert_ptr_equal(members[0].node.prev, &head);
}

static void remove__first_middle_last_and_again(void **state)
{
	struct list_node head, nodes[5];

	(void)state;
	list_init(&head);
	for (int i = 0; i < 5; i++)
		list_push_back(&head, &nodes[i]);
	list_remove(&nodes[2]);
	list_remove(&nodes[2]);
	list_unlink(&nodes[0]);
	list_remove(&nodes[4]);
	assert_ptr_equal(list_first(&head), &nodes[1]);
	assert_ptr_equal(list_next(&head, &nodes[1]), &nodes[3]);
	assert_null(list_next(&head, &nodes[3]));
	assert_true(list_empty(&nodes[2]));
	list_remove(&nodes[1]);
	list_remove(&nodes[3]);
	assert_true(list_empty(&head));
	assert_ptr_equal(head.prev, &head);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list__members_in_order_both_ways),
		cmocka_unit_test(remove__first_middle_last_and_again),
	};

	return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
