/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_info - what there is to know about boards and counters (mx_get_info), and the names of boards.
 *
 * Owns nothing: boards are looked at when somebody asks, counters are those of the endpoints of
 * this process. info_rows is the one list of what can be asked. A function of it writes its answer,
 * or leaves a sentence (error_set) and returns the error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "mx_board.h"
#include "mx_endpoint.h"
#include "mx_error.h"
#include "mx_library.h"
#include "mx_names.h"
#include "mx_nic.h"
#include "mx_request.h"

enum { PIO_SEND_MAX = 40 }; /* bytes that a record between processes of a host carries itself */

/* The arguments of mx_get_info. */
struct question {
	struct mx_endpoint *endpoint; /* NULL: `in` says which board */
	const void *in;               /* NULL: nothing */
	uint32_t in_length;           /* bytes */
	void *out;                    /* where the answer goes; not aligned */
	uint32_t out_length;          /* bytes */
};

/* ---- Answers --------------------------------------------------------------------------------- */

static mx_return_t mxi_info_check_room(const struct question *question, size_t bytes)
{
	if (question->out_length < bytes)
		return (mx_return_t)error_set(MX_BAD_INFO_LENGTH, "the answer has %zu bytes, the buffer %" PRIu32,
					      bytes, question->out_length);
	return MX_SUCCESS;
}

/* The program's buffer need not be aligned. */
static mx_return_t mxi_info_answer(const struct question *question, const void *data, size_t bytes)
{
	mx_return_t code = mxi_info_check_room(question, bytes);

	if (code == MX_SUCCESS)
		memcpy(question->out, data, bytes);
	return code;
}

static mx_return_t mxi_info_answer_number(const struct question *question, uint32_t number)
{
	return mxi_info_answer(question, &number, sizeof(number));
}

static mx_return_t mxi_info_answer_text(const struct question *question, const char *text)
{
	return mxi_info_answer(question, text, strlen(text) + 1);
}

/* ---- Which board ----------------------------------------------------------------------------- */

static mx_return_t mxi_info_read_number(const struct question *question, uint32_t *number_p)
{
	*number_p = 0;
	if (!question->in)
		return (mx_return_t)error_set(MX_BAD_INFO_VAL,
					      "neither an endpoint nor the number of a board is given");
	if (question->in_length != sizeof(uint32_t) && question->in_length != sizeof(uint8_t))
		return (mx_return_t)error_set(MX_BAD_INFO_LENGTH, "the number of a board has 4 bytes, not %" PRIu32,
					      question->in_length);
	if (question->in_length == sizeof(uint32_t))
		memcpy(number_p, question->in, sizeof(uint32_t));
	else /* not documented by MX, but there are programs that do it */
		*number_p = *(const uint8_t *)question->in;
	return MX_SUCCESS;
}

/* The endpoint's by its NIC id: numbers change when interfaces come and go. */
static mx_return_t mxi_info_find_board(const struct question *question, struct mxi_board *board_p)
{
	uint32_t number;
	mx_return_t code;

	if (question->endpoint) {
		code = mxi_board_find(question->endpoint->entry.nic_id, board_p);
		return code == MX_BOARD_UNKNOWN
			       ? (mx_return_t)error_set(code, "the endpoint's interface is gone")
			       : code;
	}
	code = mxi_info_read_number(question, &number);
	return code == MX_SUCCESS ? mxi_board_get(number, board_p) : code;
}

/* ---- Boards ---------------------------------------------------------------------------------- */

static mx_return_t mxi_info_get_nic_count(const struct question *question)
{
	unsigned count;
	mx_return_t code = mxi_board_list(NULL, 0, &count);

	return code == MX_SUCCESS ? mxi_info_answer_number(question, count) : code;
}

static mx_return_t mxi_info_get_nic_ids(const struct question *question)
{
	struct mxi_board boards[MXI_BOARDS_MAX];
	uint64_t ids[MXI_BOARDS_MAX + 1];
	unsigned count;
	mx_return_t code = mxi_board_list(boards, MXI_BOARDS_MAX, &count);

	if (code != MX_SUCCESS)
		return code;
	if (count > MXI_BOARDS_MAX)
		count = MXI_BOARDS_MAX;
	for (unsigned i = 0; i < count; i++)
		ids[i] = boards[i].nic_id;
	ids[count] = 0;
	return mxi_info_answer(question, ids, (count + 1) * sizeof(*ids));
}

static mx_return_t mxi_info_get_product_code(const struct question *question)
{
	char text[MX_MAX_STR_LEN];

	snprintf(text, sizeof(text), "Thole %s", thole_version());
	return mxi_info_answer_text(question, text);
}

static mx_return_t mxi_info_get_part_number(const struct question *question)
{
	struct mxi_board board;
	mx_return_t code = mxi_info_find_board(question, &board);

	return code == MX_SUCCESS ? mxi_info_answer_text(question, board.interface) : code;
}

static mx_return_t mxi_info_get_serial_number(const struct question *question)
{
	struct mxi_board board;
	mx_return_t code = mxi_info_find_board(question, &board);
	char text[MXI_NIC_TEXT_MAX];

	if (code != MX_SUCCESS)
		return code;
	mxi_nic_text(board.nic_id, text);
	return mxi_info_answer_text(question, text);
}

static mx_return_t mxi_info_get_port_count(const struct question *question)
{
	struct mxi_board board;
	mx_return_t code = mxi_info_find_board(question, &board);

	return code == MX_SUCCESS ? mxi_info_answer_number(question, 1) : code;
}

static mx_return_t mxi_info_get_numa_node(const struct question *question)
{
	struct mxi_board board;
	mx_return_t code = mxi_info_find_board(question, &board);

	return code == MX_SUCCESS
		       ? mxi_info_answer_number(question, (uint32_t)mxi_board_attribute(&board, "device/numa_node", -1))
		       : code;
}

static mx_return_t mxi_info_get_net_type(const struct question *question)
{
	struct mxi_board board;
	mx_return_t code = mxi_info_find_board(question, &board);

	return code == MX_SUCCESS ? mxi_info_answer_number(question, MX_NET_ETHER) : code;
}

static mx_return_t mxi_info_get_line_speed(const struct question *question)
{
	struct mxi_board board;
	mx_return_t code = mxi_info_find_board(question, &board);

	return code == MX_SUCCESS ? mxi_info_answer_number(question, mxi_board_speed(&board)) : code;
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static mx_return_t mxi_info_get_max_endpoints(const struct question *question)
{
	return mxi_info_answer_number(question, MXI_ENDPOINTS);
}

static mx_return_t mxi_info_get_max_requests(const struct question *question)
{
	return mxi_info_answer_number(question, MXI_REQUESTS_MAX);
}

static mx_return_t mxi_info_get_pio_send_max(const struct question *question)
{
	return mxi_info_answer_number(question, PIO_SEND_MAX);
}

static mx_return_t mxi_info_get_copy_send_max(const struct question *question)
{
	uint64_t eager_max = 0;

	thole_option_number(NULL, "eager_max", &eager_max);
	return mxi_info_answer_number(question, (uint32_t)eager_max);
}

/* ---- Counters -------------------------------------------------------------------------------- */

static mx_return_t mxi_info_get_counters_count(const struct question *question)
{
	return mxi_info_answer_number(question, mxi_entry_counters_count());
}

static mx_return_t mxi_info_get_counters_labels(const struct question *question)
{
	unsigned count = mxi_entry_counters_count();
	mx_return_t code = mxi_info_check_room(question, (size_t)count * MX_MAX_STR_LEN);
	struct thole_counter_info counter;
	char *label = question->out;

	if (code != MX_SUCCESS)
		return code;
	memset(label, 0, (size_t)count * MX_MAX_STR_LEN);
	for (unsigned i = 0; i < count && thole_counter_info(i, &counter) == 0; i++, label += MX_MAX_STR_LEN)
		snprintf(label, MX_MAX_STR_LEN, "%s", counter.name);
	return MX_SUCCESS;
}

struct sum {
	uint64_t values[MXI_NOTICE_COUNTERS_MAX];
	uint64_t nic_id; /* whose endpoints are meant */
	unsigned count;  /* of values */
};

static void mxi_info_add_counters(struct mx_endpoint *endpoint, void *arg)
{
	uint64_t values[MXI_NOTICE_COUNTERS_MAX] = {0};
	struct sum *sum = arg;

	if (endpoint->entry.nic_id != sum->nic_id)
		return;
	mxi_endpoint_counters(endpoint, values, sum->count);
	for (unsigned i = 0; i < sum->count; i++)
		sum->values[i] += values[i];
}

static mx_return_t mxi_info_get_counters_values(const struct question *question)
{
	uint32_t low[MXI_NOTICE_COUNTERS_MAX];
	struct sum sum = {.count = mxi_entry_counters_count()};
	struct mxi_board board;
	mx_return_t code;

	if (question->endpoint) {
		mxi_endpoint_counters(question->endpoint, sum.values, sum.count);
	} else {
		code = mxi_info_find_board(question, &board);
		if (code != MX_SUCCESS)
			return code;
		sum.nic_id = board.nic_id;
		mxi_endpoint_each(mxi_info_add_counters, &sum);
	}
	for (unsigned i = 0; i < sum.count; i++)
		low[i] = (uint32_t)sum.values[i];
	return mxi_info_answer(question, low, sum.count * sizeof(*low));
}

/* ---- mx_get_info ----------------------------------------------------------------------------- */

struct info_row {
	const char *name; /* of the key */
	mx_return_t (*get)(const struct question *question);
};

static const struct info_row info_rows[] = {
	[MX_NIC_COUNT] = {"MX_NIC_COUNT", mxi_info_get_nic_count},
	[MX_NIC_IDS] = {"MX_NIC_IDS", mxi_info_get_nic_ids},
	[MX_MAX_NATIVE_ENDPOINTS] = {"MX_MAX_NATIVE_ENDPOINTS", mxi_info_get_max_endpoints},
	[MX_NATIVE_REQUESTS] = {"MX_NATIVE_REQUESTS", mxi_info_get_max_requests},
	[MX_COUNTERS_COUNT] = {"MX_COUNTERS_COUNT", mxi_info_get_counters_count},
	[MX_COUNTERS_LABELS] = {"MX_COUNTERS_LABELS", mxi_info_get_counters_labels},
	[MX_COUNTERS_VALUES] = {"MX_COUNTERS_VALUES", mxi_info_get_counters_values},
	[MX_PRODUCT_CODE] = {"MX_PRODUCT_CODE", mxi_info_get_product_code},
	[MX_PART_NUMBER] = {"MX_PART_NUMBER", mxi_info_get_part_number},
	[MX_SERIAL_NUMBER] = {"MX_SERIAL_NUMBER", mxi_info_get_serial_number},
	[MX_PORT_COUNT] = {"MX_PORT_COUNT", mxi_info_get_port_count},
	[MX_PIO_SEND_MAX] = {"MX_PIO_SEND_MAX", mxi_info_get_pio_send_max},
	[MX_COPY_SEND_MAX] = {"MX_COPY_SEND_MAX", mxi_info_get_copy_send_max},
	[MX_NUMA_NODE] = {"MX_NUMA_NODE", mxi_info_get_numa_node},
	[MX_NET_TYPE] = {"MX_NET_TYPE", mxi_info_get_net_type},
	[MX_LINE_SPEED] = {"MX_LINE_SPEED", mxi_info_get_line_speed},
};

mx_return_t mx_get_info(mx_endpoint_t endpoint, mx_get_info_key_t key, void *in_val, uint32_t in_len, void *out_val,
			uint32_t out_len)
{
	struct question question = {endpoint, in_val, in_len, out_val, out_len};
	size_t row = (size_t)key;
	mx_return_t code;

	if (row >= sizeof(info_rows) / sizeof(*info_rows) || !info_rows[row].get)
		return mxi_error(mxi_endpoint_handler(endpoint), MX_BAD_INFO_KEY, "mx_get_info: key %zu", row);
	if (!mxi_library_initialized())
		return mxi_error(mxi_endpoint_handler(endpoint), MX_NOT_INITIALIZED, "mx_get_info(%s)",
				 info_rows[row].name);
	if (!out_val)
		return mxi_error(mxi_endpoint_handler(endpoint), MX_BAD_INFO_VAL,
				 "mx_get_info(%s): no place for the answer", info_rows[row].name);
	code = info_rows[row].get(&question);
	return code ? mxi_error(mxi_endpoint_handler(endpoint), code, "mx_get_info(%s): %s", info_rows[row].name,
				thole_detail())
		    : MX_SUCCESS;
}

/* ---- Numbers, NIC ids, names ----------------------------------------------------------------- */

mx_return_t mx_board_number_to_nic_id(uint32_t board_number, uint64_t *nic_id)
{
	struct mxi_board board;
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_board_number_to_nic_id");
	code = mxi_board_get(board_number, &board);
	if (code)
		return mxi_error(NULL, code, "mx_board_number_to_nic_id: %s", thole_detail());
	*nic_id = board.nic_id;
	return MX_SUCCESS;
}

mx_return_t mx_nic_id_to_board_number(uint64_t nic_id, uint32_t *board_number)
{
	struct mxi_board board;
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_nic_id_to_board_number");
	code = mxi_board_find(nic_id, &board);
	if (code)
		return mxi_error(NULL, code, "mx_nic_id_to_board_number: %s", thole_detail());
	*board_number = board.number;
	return MX_SUCCESS;
}

mx_return_t mx_hostname_to_nic_id(char *hostname, uint64_t *nic_id)
{
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_hostname_to_nic_id");
	if (!hostname || !nic_id)
		return mxi_error(NULL, MX_BAD_HOSTNAME_ARGS, "mx_hostname_to_nic_id: a pointer is NULL");
	code = mxi_names_to_nic(hostname, nic_id);
	return code ? mxi_error(NULL, code, "mx_hostname_to_nic_id(\"%s\"): %s", hostname, thole_detail()) : MX_SUCCESS;
}

mx_return_t mx_nic_id_to_hostname(uint64_t nic_id, char *hostname)
{
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_nic_id_to_hostname");
	if (!hostname)
		return mxi_error(NULL, MX_BAD_HOSTNAME_ARGS, "mx_nic_id_to_hostname: the pointer is NULL");
	code = mxi_names_of_nic(nic_id, hostname);
	return code ? mxi_error(NULL, code, "mx_nic_id_to_hostname(%012" PRIx64 "): %s", nic_id, thole_detail())
		    : MX_SUCCESS;
}
