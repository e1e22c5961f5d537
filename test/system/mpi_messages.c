/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_conform: point to point. Modes, order, wildcards, probe, cancel, truncation, derived datatypes, and a
 * message of more than 4 GiB.
 */
#include "mpi_conform.h"

#include <stdlib.h>
#include <string.h>

static const int sizes[] = {0,    1,     7,     8,     40,    64,    65,     256,    1000,    4096,          8191,
			    8192, 16385, 32768, 65535, 65536, 70001, 131072, 262144, 1000003, (4 << 20) + 13};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), SMALL_SIZES = SIZES - 3 };

/* ---- Modes --------------------------------------------------------------------------------------- */

enum mode {
	MODE_SEND, MODE_SSEND, MODE_BSEND, MODE_RSEND,
	MODE_ISEND, MODE_ISSEND, MODE_IBSEND, MODE_IRSEND,
	MODE_PSEND, MODE_PSSEND, MODE_PBSEND, MODE_PRSEND,
	MODES
};

static MPI_Request send_start(enum mode mode, const void *buffer, int size, int to, int tag)
{
	MPI_Request request = MPI_REQUEST_NULL;
	MPI_Comm comm = MPI_COMM_WORLD;

	switch (mode) {
	case MODE_SEND: MPI_Send(buffer, size, MPI_BYTE, to, tag, comm); break;
	case MODE_SSEND: MPI_Ssend(buffer, size, MPI_BYTE, to, tag, comm); break;
	case MODE_BSEND: MPI_Bsend(buffer, size, MPI_BYTE, to, tag, comm); break;
	case MODE_RSEND: MPI_Rsend(buffer, size, MPI_BYTE, to, tag, comm); break;
	case MODE_ISEND: MPI_Isend(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODE_ISSEND: MPI_Issend(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODE_IBSEND: MPI_Ibsend(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODE_IRSEND: MPI_Irsend(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODE_PSEND: MPI_Send_init(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODE_PSSEND: MPI_Ssend_init(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODE_PBSEND: MPI_Bsend_init(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODE_PRSEND: MPI_Rsend_init(buffer, size, MPI_BYTE, to, tag, comm, &request); break;
	case MODES: break;
	}
	if (mode >= MODE_PSEND)
		MPI_Start(&request);
	return request;
}

/* Tell the rank that sends to me that my receive is posted, and wait until mine is told so. */
static void receive_is_posted(int shift)
{
	MPI_Sendrecv(NULL, 0, MPI_BYTE, left_of(shift), 9999, NULL, 0, MPI_BYTE, right_of(shift), 9999,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void mode_posted(enum mode mode, int size, int shift)
{
	struct area out = area_make((size_t)size), in = area_make((size_t)size);
	MPI_Request send, receive;
	MPI_Status status;
	int count;

	fill(out.bytes, out.length, seed_of(me, right_of(shift), size));
	MPI_Recv_init(in.bytes, size, MPI_BYTE, left_of(shift), mode, MPI_COMM_WORLD, &receive);
	MPI_Start(&receive);
	receive_is_posted(shift);
	send = send_start(mode, out.bytes, size, right_of(shift), mode);
	MPI_Wait(&receive, &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	expect(count == size && status.MPI_SOURCE == left_of(shift) && status.MPI_TAG == (int)mode);
	check(in.bytes, in.length, seed_of(left_of(shift), me, size), "posted receive");
	MPI_Wait(&send, MPI_STATUS_IGNORE);
	if (mode >= MODE_PSEND && !(mode == MODE_PBSEND && stale_bsend)) { /* the same requests again, other bytes */
		fill(out.bytes, out.length, seed_of(me, right_of(shift), size + 1));
		MPI_Start(&receive);
		receive_is_posted(shift);
		MPI_Start(&send);
		MPI_Wait(&send, MPI_STATUS_IGNORE);
		MPI_Wait(&receive, MPI_STATUS_IGNORE);
		check(in.bytes, in.length, seed_of(left_of(shift), me, size + 1), "persistent receive");
	}
	if (mode >= MODE_PSEND)
		MPI_Request_free(&send);
	MPI_Request_free(&receive);
	area_free(&out);
	area_free(&in);
}

static void mode_unexpected(enum mode mode, int size, int shift)
{
	struct area out = area_make((size_t)size), in = area_make((size_t)size);
	MPI_Request send;

	fill(out.bytes, out.length, seed_of(me, right_of(shift), size));
	send = send_start(mode, out.bytes, size, right_of(shift), mode);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Recv(in.bytes, size, MPI_BYTE, left_of(shift), mode, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check(in.bytes, in.length, seed_of(left_of(shift), me, size), "unexpected message");
	MPI_Wait(&send, MPI_STATUS_IGNORE);
	if (mode >= MODE_PSEND)
		MPI_Request_free(&send);
	area_free(&out);
	area_free(&in);
}

static void sendrecv_kinds(int size)
{
	struct area both = area_make((size_t)size);
	MPI_Status status;

	fill(both.bytes, both.length, seed_of(me, right_of(1), size));
	MPI_Sendrecv_replace(both.bytes, size, MPI_BYTE, right_of(1), 1, left_of(1), 1, MPI_COMM_WORLD, &status);
	check(both.bytes, both.length, seed_of(left_of(1), me, size), "sendrecv_replace");
	MPI_Sendrecv(both.bytes, size, MPI_BYTE, MPI_PROC_NULL, 1, both.bytes, size, MPI_BYTE, MPI_PROC_NULL, 1,
		     MPI_COMM_WORLD, &status);
	expect(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
	area_free(&both);
}

bool test_modes(void)
{
	int shifts[] = {0, 1, ranks - 1}, last = small ? SMALL_SIZES : SIZES;
	size_t room = 4 * ((size_t)sizes[last - 1] + MPI_BSEND_OVERHEAD);
	void *buffer = malloc(room);

	MPI_Buffer_attach(buffer, (int)room);
	for (int mode = 0; mode < MODES; mode++) {
		bool ready = mode % 4 == MODE_RSEND, blocks = mode < MODE_ISEND && mode != MODE_BSEND;

		for (int s = 0; s < last; s += small ? 2 : 1)
			for (int k = 0; k < (ranks > 2 ? 3 : ranks); k++) {
				mode_posted((enum mode)mode, sizes[s], shifts[k]);
				if (!ready && !blocks)
					mode_unexpected((enum mode)mode, sizes[s], shifts[k]);
			}
	}
	MPI_Buffer_detach(&buffer, &(int){0});
	free(buffer);
	for (int s = 0; s < last; s++)
		sendrecv_kinds(sizes[s]);
	return true;
}

/* ---- Order --------------------------------------------------------------------------------------- */

enum { TRAIN = 120 };

static int train_size(int number)
{
	static const int cycle[] = {0, 10, 70000, 300, 40000, 5, 9000, 200000, 64};

	return cycle[number % 9] + number;
}

/* Messages of all protocols with one tag: the receives get them in the order in which they were sent. */
bool test_order(void)
{
	static MPI_Request sends[TRAIN], receives[TRAIN];
	static struct area out[TRAIN], in[TRAIN];
	MPI_Status status;
	int count;

	for (int i = 0; i < TRAIN; i++) {
		out[i] = area_make((size_t)train_size(i));
		in[i] = area_make(300000);
		fill(out[i].bytes, out[i].length, seed_of(me, right_of(1), i));
	}
	for (int i = 0; i < TRAIN / 3; i++)
		MPI_Irecv(in[i].bytes, 300000, MPI_BYTE, left_of(1), 5, MPI_COMM_WORLD, &receives[i]);
	for (int i = 0; i < TRAIN; i++)
		MPI_Isend(out[i].bytes, train_size(i), MPI_BYTE, right_of(1), 5, MPI_COMM_WORLD, &sends[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = TRAIN / 3; i < TRAIN; i++)
		MPI_Irecv(in[i].bytes, 300000, MPI_BYTE, i % 2 ? left_of(1) : MPI_ANY_SOURCE, i % 3 ? 5 : MPI_ANY_TAG,
			  MPI_COMM_WORLD, &receives[i]);
	for (int i = TRAIN - 1; i >= 0; i--) {
		MPI_Wait(&receives[i], &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		expect(count == train_size(i));
		check(in[i].bytes, (size_t)count, seed_of(left_of(1), me, i), "message of a train");
		check_same(in[i].bytes + count, in[i].length - (size_t)count, 0x5a, "beyond a message");
	}
	MPI_Waitall(TRAIN, sends, MPI_STATUSES_IGNORE);
	for (int i = 0; i < TRAIN; i++) {
		area_free(&out[i]);
		area_free(&in[i]);
	}
	return true;
}

/* ---- Wildcards ----------------------------------------------------------------------------------- */

enum { CROWD = 24, RANKS_MAX = 64, TAGS = 5, CROWD_BYTES = 100000 };

struct plan {
	int tag, size;
};

static struct plan plan_of(int from, int to, int number)
{
	uint64_t state = seed_of(from, to, number);
	struct plan plan = {.tag = (int)random_below(&state, TAGS)};

	plan.size = (int)random_below(&state, random_below(&state, 4) ? 200 : CROWD_BYTES) + 4;
	return plan;
}

/* Which message this is stands in its first word; it must be the next of its source. */
static void crowd_check(const uint8_t *bytes, const MPI_Status *status, int *last)
{
	struct plan plan;
	int number, count;

	MPI_Get_count(status, MPI_BYTE, &count);
	memcpy(&number, bytes, sizeof(number));
	expect(number > *last && number < CROWD);
	*last = number;
	plan = plan_of(status->MPI_SOURCE, me, number);
	expect(plan.tag == status->MPI_TAG && plan.size == count);
	check(bytes + 4, (size_t)count - 4, seed_of(status->MPI_SOURCE, me, number), "message from anyone");
}

static void crowd_receive(int tag, int count, int *last)
{
	struct area in = area_make(CROWD_BYTES + 4);
	MPI_Status status;

	for (int i = 0; i < count; i++) {
		MPI_Recv(in.bytes, CROWD_BYTES + 4, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
		expect(tag == MPI_ANY_TAG || status.MPI_TAG == tag);
		crowd_check(in.bytes, &status, &last[status.MPI_SOURCE]);
	}
	area_free(&in);
}

bool test_wildcards(void)
{
	struct area *out = malloc((size_t)(ranks * CROWD) * sizeof(*out));
	MPI_Request *sends = malloc((size_t)(ranks * CROWD) * sizeof(MPI_Request));
	int last[RANKS_MAX], tagged = 0;

	expect(ranks <= RANKS_MAX);
	for (int i = 0; i < ranks * CROWD; i++) {
		int to = (me + i) % ranks, number = i / ranks;
		struct plan plan = plan_of(me, to, number);

		out[i] = area_make((size_t)plan.size);
		memcpy(out[i].bytes, &number, sizeof(number));
		fill(out[i].bytes + 4, out[i].length - 4, seed_of(me, to, number));
		MPI_Isend(out[i].bytes, plan.size, MPI_BYTE, to, plan.tag, MPI_COMM_WORLD, &sends[i]);
		tagged += plan_of(to, me, number).tag == 3;
	}
	memset(last, 0xff, sizeof(last));
	crowd_receive(3, tagged, last);
	memset(last, 0xff, sizeof(last));
	crowd_receive(MPI_ANY_TAG, ranks * CROWD - tagged, last);
	MPI_Waitall(ranks * CROWD, sends, MPI_STATUSES_IGNORE);
	for (int i = 0; i < ranks * CROWD; i++)
		area_free(&out[i]);
	free(out);
	free(sends);
	MPI_Barrier(MPI_COMM_WORLD);
	return true;
}

/* ---- Probe --------------------------------------------------------------------------------------- */

/* Two messages with one tag; the first is taken out of matching, the second is received before it. */
static void probe_both(int size, bool blocking)
{
	struct area out[2] = {area_make((size_t)size), area_make((size_t)size)};
	struct area in[2] = {area_make((size_t)size), area_make((size_t)size)};
	MPI_Request sends[2], receive;
	MPI_Message message;
	MPI_Status status;
	int count, found = 0;

	for (int i = 0; i < 2; i++) {
		fill(out[i].bytes, out[i].length, seed_of(me, right_of(1), i));
		MPI_Isend(out[i].bytes, size, MPI_BYTE, right_of(1), 8, MPI_COMM_WORLD, &sends[i]);
	}
	MPI_Probe(left_of(1), MPI_ANY_TAG, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	expect(count == size && status.MPI_TAG == 8 && status.MPI_SOURCE == left_of(1));
	if (blocking)
		MPI_Mprobe(left_of(1), 8, MPI_COMM_WORLD, &message, &status);
	while (!blocking && !found)
		MPI_Improbe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &found, &message, &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	expect(count == size && status.MPI_TAG == 8 && status.MPI_SOURCE == left_of(1));
	for (found = 0; !found;)
		MPI_Iprobe(left_of(1), 8, MPI_COMM_WORLD, &found, &status);
	MPI_Recv(in[1].bytes, size, MPI_BYTE, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &status);
	check(in[1].bytes, in[1].length, seed_of(left_of(1), me, 1), "message behind a probed one");
	if (blocking) {
		MPI_Mrecv(in[0].bytes, size, MPI_BYTE, &message, &status);
	} else {
		MPI_Imrecv(in[0].bytes, size, MPI_BYTE, &message, &receive);
		MPI_Wait(&receive, &status);
	}
	expect(message == MPI_MESSAGE_NULL);
	MPI_Get_count(&status, MPI_BYTE, &count);
	expect(count == size);
	check(in[0].bytes, in[0].length, seed_of(left_of(1), me, 0), "probed message");
	MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 2; i++) {
		area_free(&out[i]);
		area_free(&in[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD); /* the next round's message is not for this round's any source */
}

/* What a probe of anyone finds is what a receive from anyone gets, messages to oneself among them. */
static void probe_anyone(void)
{
	MPI_Request *sends = malloc((size_t)ranks * sizeof(MPI_Request));
	MPI_Status found, got;
	int out[16], in[16], count;

	for (int i = 0; i < 16; i++)
		out[i] = me;
	for (int i = 0; i < ranks; i++)
		MPI_Isend(out, 1 + (me + i) % 16, MPI_INT, i, 11, MPI_COMM_WORLD, &sends[i]);
	for (int i = 0; i < ranks; i++) {
		MPI_Probe(MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &found);
		MPI_Recv(in, 16, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &got);
		MPI_Get_count(&found, MPI_INT, &count);
		expect(found.MPI_SOURCE == got.MPI_SOURCE);
		expect(count == 1 + (got.MPI_SOURCE + me) % 16);
		MPI_Get_count(&got, MPI_INT, &count);
		expect(count == 1 + (got.MPI_SOURCE + me) % 16);
		for (int k = 0; k < count; k++)
			expect(in[k] == got.MPI_SOURCE);
	}
	MPI_Waitall(ranks, sends, MPI_STATUSES_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	free(sends);
}

/* One look finds what lies there: a later message from the same rank has been received. */
static void probe_once(void)
{
	MPI_Request sends[2];
	MPI_Status status;
	int out = me, in, found;

	MPI_Isend(&out, 1, MPI_INT, right_of(1), 12, MPI_COMM_WORLD, &sends[0]);
	MPI_Isend(&out, 1, MPI_INT, right_of(1), 13, MPI_COMM_WORLD, &sends[1]);
	MPI_Recv(&in, 1, MPI_INT, left_of(1), 13, MPI_COMM_WORLD, &status);
	MPI_Iprobe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &found, &status);
	expect(found && status.MPI_SOURCE == left_of(1));
	MPI_Iprobe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &found, &status);
	expect(found && status.MPI_SOURCE == left_of(1));
	MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &status);
	expect(in == left_of(1));
	MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
}

bool test_probe(void)
{
	MPI_Message message;
	MPI_Status status;
	int found;

	for (int s = 0; s < (small ? SMALL_SIZES : SIZES); s++) {
		probe_both(sizes[s], true);
		probe_both(sizes[s], false);
	}
	for (int round = 0; round < (small ? 20 : 200); round++)
		probe_anyone();
	for (int round = 0; round < 20; round++)
		probe_once();
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
	expect(!found);
	MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
	expect(message == MPI_MESSAGE_NO_PROC);
	MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status);
	expect(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);
	return true;
}

/* ---- Cancel -------------------------------------------------------------------------------------- */

static void cancel_receives(int source)
{
	struct area in[3] = {area_make(1000), area_make(1000), area_make(1000)};
	struct area out = area_make(1000);
	MPI_Request receives[3], send;
	MPI_Status status;
	int cancelled;

	for (int i = 0; i < 3; i++)
		MPI_Irecv(in[i].bytes, 1000, MPI_BYTE, source, 21, MPI_COMM_WORLD, &receives[i]);
	for (int i = 0; i < 2; i++) {
		MPI_Cancel(&receives[i]);
		MPI_Wait(&receives[i], &status);
		MPI_Test_cancelled(&status, &cancelled);
		expect(cancelled);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	fill(out.bytes, 1000, seed_of(me, right_of(1), 3));
	MPI_Isend(out.bytes, 1000, MPI_BYTE, right_of(1), 21, MPI_COMM_WORLD, &send);
	MPI_Wait(&receives[2], &status);
	MPI_Test_cancelled(&status, &cancelled);
	expect(!cancelled && status.MPI_SOURCE == left_of(1));
	check(in[2].bytes, 1000, seed_of(left_of(1), me, 3), "receive behind cancelled ones");
	check_same(in[0].bytes, 1000, 0x5a, "cancelled receive");
	check_same(in[1].bytes, 1000, 0x5a, "cancelled receive");
	MPI_Wait(&send, MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 3; i++)
		area_free(&in[i]);
	area_free(&out);
}

/* A receive whose message is here already is too late to cancel: it has the bytes, or the next one gets them. */
static void cancel_late(void)
{
	struct area in = area_make(5000), out = area_make(5000);
	MPI_Request receive, send;
	MPI_Status status;
	int cancelled;

	fill(out.bytes, 5000, seed_of(me, right_of(1), 4));
	MPI_Isend(out.bytes, 5000, MPI_BYTE, right_of(1), 22, MPI_COMM_WORLD, &send);
	MPI_Probe(left_of(1), 22, MPI_COMM_WORLD, &status);
	MPI_Irecv(in.bytes, 5000, MPI_BYTE, left_of(1), 22, MPI_COMM_WORLD, &receive);
	MPI_Cancel(&receive);
	MPI_Wait(&receive, &status);
	MPI_Test_cancelled(&status, &cancelled);
	if (cancelled)
		MPI_Recv(in.bytes, 5000, MPI_BYTE, left_of(1), 22, MPI_COMM_WORLD, &status);
	check(in.bytes, 5000, seed_of(left_of(1), me, 4), "receive that was cancelled late");
	MPI_Wait(&send, MPI_STATUS_IGNORE);
	area_free(&in);
	area_free(&out);
}

bool test_cancel(void)
{
	for (int round = 0; round < (small ? 3 : 20); round++) {
		cancel_receives(left_of(1));
		cancel_receives(MPI_ANY_SOURCE);
		cancel_late();
	}
	return true;
}

/* ---- Truncation ---------------------------------------------------------------------------------- */

static void truncate_one(int size, bool unexpected)
{
	struct area out = area_make((size_t)size), in = area_make((size_t)size);
	MPI_Request send, receive;
	MPI_Status status;
	int class, error, room = size / 2;

	fill(out.bytes, out.length, seed_of(me, right_of(1), size));
	if (!unexpected)
		MPI_Irecv(in.bytes, room, MPI_BYTE, left_of(1), 31, MPI_COMM_WORLD, &receive);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Isend(out.bytes, size, MPI_BYTE, right_of(1), 31, MPI_COMM_WORLD, &send);
	MPI_Barrier(MPI_COMM_WORLD);
	if (unexpected)
		MPI_Irecv(in.bytes, room, MPI_BYTE, left_of(1), 31, MPI_COMM_WORLD, &receive);
	error = MPI_Wait(&receive, &status);
	expect(error != MPI_SUCCESS);
	MPI_Error_class(error, &class);
	expect(class == MPI_ERR_TRUNCATE);
	check_same(in.bytes + room, in.length - (size_t)room, 0x5a, "beyond a truncated receive");
	expect(MPI_Wait(&send, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	/* What comes after is whole. */
	MPI_Sendrecv(out.bytes, size, MPI_BYTE, right_of(1), 31, in.bytes, size, MPI_BYTE, left_of(1), 31,
		     MPI_COMM_WORLD, &status);
	check(in.bytes, in.length, seed_of(left_of(1), me, size), "message after a truncated one");
	area_free(&out);
	area_free(&in);
}

bool test_truncation(void)
{
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int s = 2; s < (small ? SMALL_SIZES : SIZES); s++) {
		truncate_one(sizes[s], false);
		truncate_one(sizes[s], true);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	return true;
}

/* ---- Derived datatypes --------------------------------------------------------------------------- */

enum { RUNS_MAX = 64 };

/* A datatype, and independently of MPI, which bytes of an element it covers. */
struct shape {
	const char *name;
	MPI_Datatype type;
	size_t extent, size;
	int runs;
	struct {
		size_t offset, length;
	} run[RUNS_MAX];
};

struct record {
	char kind;
	double value;
	int list[3];
};

static void shape_run(struct shape *shape, size_t offset, size_t length)
{
	shape->run[shape->runs].offset = offset;
	shape->run[shape->runs++].length = length;
	shape->size += length;
}

static MPI_Datatype record_type(void)
{
	int lengths[] = {1, 1, 3};
	MPI_Aint places[] = {0, offsetof(struct record, value), offsetof(struct record, list)};
	MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, raw, type;

	MPI_Type_create_struct(3, lengths, places, types, &raw);
	MPI_Type_create_resized(raw, 0, sizeof(struct record), &type);
	MPI_Type_free(&raw);
	return type;
}

static void record_runs(struct shape *shape, size_t base)
{
	shape_run(shape, base, 1);
	shape_run(shape, base + offsetof(struct record, value), sizeof(double));
	shape_run(shape, base + offsetof(struct record, list), 3 * sizeof(int));
}

static struct shape shape_vector(void)
{
	struct shape shape = {.name = "vector", .extent = (6 * 5 + 3) * sizeof(int)};

	MPI_Type_vector(7, 3, 5, MPI_INT, &shape.type);
	for (size_t i = 0; i < 7; i++)
		shape_run(&shape, i * 5 * sizeof(int), 3 * sizeof(int));
	return shape;
}

static struct shape shape_indexed(void)
{
	struct shape shape = {.name = "indexed", .extent = 13 * sizeof(short)};
	int lengths[] = {2, 1, 4}, places[] = {0, 5, 9};

	MPI_Type_indexed(3, lengths, places, MPI_SHORT, &shape.type);
	for (size_t i = 0; i < 3; i++)
		shape_run(&shape, (size_t)places[i] * sizeof(short), (size_t)lengths[i] * sizeof(short));
	return shape;
}

static struct shape shape_struct(void)
{
	struct shape shape = {.name = "struct", .type = record_type(), .extent = sizeof(struct record)};

	record_runs(&shape, 0);
	return shape;
}

static struct shape shape_subarray(void)
{
	struct shape shape = {.name = "subarray", .extent = 4 * 5 * 6};
	int whole[] = {4, 5, 6}, part[] = {2, 3, 4}, from[] = {1, 1, 1};

	MPI_Type_create_subarray(3, whole, part, from, MPI_ORDER_C, MPI_BYTE, &shape.type);
	for (size_t x = 1; x < 3; x++)
		for (size_t y = 1; y < 4; y++)
			shape_run(&shape, x * 30 + y * 6 + 1, 4);
	return shape;
}

static struct shape shape_resized(void)
{
	struct shape shape = {.name = "resized", .extent = 16};
	MPI_Datatype raw;

	MPI_Type_contiguous(5, MPI_BYTE, &raw);
	MPI_Type_create_resized(raw, 0, 16, &shape.type);
	MPI_Type_free(&raw);
	shape_run(&shape, 0, 5);
	return shape;
}

static struct shape shape_nested(void)
{
	struct shape shape = {.name = "nested", .extent = 10 * sizeof(struct record)};
	MPI_Datatype record = record_type();

	MPI_Type_vector(3, 2, 4, record, &shape.type);
	MPI_Type_free(&record);
	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < 2; k++)
			record_runs(&shape, (i * 4 + k) * sizeof(struct record));
	return shape;
}

static struct shape shape_wide(void)
{
	struct shape shape = {.name = "wide", .extent = 7 * 4096 + 2048};

	MPI_Type_create_hvector(8, 2048, 4096, MPI_BYTE, &shape.type);
	for (size_t i = 0; i < 8; i++)
		shape_run(&shape, i * 4096, 2048);
	return shape;
}

/* The bytes that count elements cover, in order; or from there back to their places. */
static void shape_copy(const struct shape *shape, size_t count, uint8_t *places, uint8_t *packed, bool back)
{
	for (size_t i = 0; i < count; i++)
		for (int r = 0; r < shape->runs; r++) {
			uint8_t *place = places + i * shape->extent + shape->run[r].offset;

			memcpy(back ? place : packed, back ? packed : place, shape->run[r].length);
			packed += shape->run[r].length;
		}
}

static void exchange(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
		     MPI_Datatype in_type)
{
	MPI_Request requests[2];

	MPI_Irecv(in, in_count, in_type, left_of(1), 41, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, out_count, out_type, right_of(1), 41, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void shape_test(struct shape *shape, size_t count)
{
	size_t spread = count * shape->extent, size = count * shape->size;
	struct area places = area_make(spread), packed = area_make(size), in = area_make(spread),
		    want = area_make(spread);
	int type_size;

	MPI_Type_size(shape->type, &type_size);
	expect((size_t)type_size == shape->size);
	/* Gathered on sending: what arrives are the covered bytes. */
	fill(places.bytes, spread, seed_of(me, right_of(1), 1));
	exchange(places.bytes, (int)count, shape->type, packed.bytes, (int)size, MPI_BYTE);
	fill(want.bytes, spread, seed_of(left_of(1), me, 1));
	shape_copy(shape, count, want.bytes, in.bytes, false);
	expect(memcmp(in.bytes, packed.bytes, size) == 0);
	/* Scattered on receiving, and both: what is not covered stays. */
	for (int both = 0; both < 2; both++) {
		fill(packed.bytes, size, seed_of(me, right_of(1), 2));
		memset(in.bytes, 0x77, spread);
		memset(want.bytes, 0x77, spread);
		shape_copy(shape, count, places.bytes, packed.bytes, true);
		if (both)
			exchange(places.bytes, (int)count, shape->type, in.bytes, (int)count, shape->type);
		else
			exchange(packed.bytes, (int)size, MPI_BYTE, in.bytes, (int)count, shape->type);
		fill(packed.bytes, size, seed_of(left_of(1), me, 2));
		shape_copy(shape, count, want.bytes, packed.bytes, true);
		expect(memcmp(in.bytes, want.bytes, spread) == 0);
	}
	area_free(&places);
	area_free(&packed);
	area_free(&in);
	area_free(&want);
}

bool test_types(void)
{
	struct shape shapes[] = {shape_vector(),  shape_indexed(), shape_struct(), shape_subarray(),
				 shape_resized(), shape_nested(),  shape_wide()};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		size_t most = (small ? 200000 : 3000000) / shapes[i].extent;

		MPI_Type_commit(&shapes[i].type);
		for (size_t count = 1; count <= most; count = count * 5 + 1)
			shape_test(&shapes[i], count);
		MPI_Type_free(&shapes[i].type);
	}
	return true;
}

/* ---- More than 4 GiB ----------------------------------------------------------------------------- */

bool test_huge(void)
{
	enum { BLOCK = (1 << 20) + 3, BLOCKS = 4097 };
	size_t length = (size_t)BLOCK * BLOCKS;
	MPI_Datatype block;
	MPI_Status status;
	int count = 0;

	expect(length > UINT32_MAX);
	MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
	MPI_Type_commit(&block);
	if (me == 0 && ranks > 1) {
		struct area out = area_make(length);

		fill(out.bytes, length, 4711);
		MPI_Send(out.bytes, BLOCKS, block, 1, 51, MPI_COMM_WORLD);
		area_free(&out);
	} else if (me == 1) {
		struct area in = area_make(length);

		MPI_Recv(in.bytes, BLOCKS, block, 0, 51, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, block, &count);
		expect(count == BLOCKS);
		check(in.bytes, length, 4711, "message of more than 4 GiB");
		area_free(&in);
	}
	MPI_Type_free(&block);
	return ranks > 1;
}
