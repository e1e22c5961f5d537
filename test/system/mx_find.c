/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_find: how endpoints of MX on another host are found, between two network namespaces.
 *
 *   mx_find CASE
 *
 * Each host has processes of its own (mx_actor.h). Host B is asked, host A asks. Status 77: no right to make
 * namespaces.
 */
#include "../unit/mx_actor.h"
#include "link_pair.h"

#include <netinet/in.h>

#include "mx_notice.h"
#include "mx_place.h"
#include "mx_post.h"

enum { A, B };
enum { OPEN_ID = 3, FREE_ID = 9, KEY = 4711 };
#define NIC_A "020000009801" /* as pair_make has them */
#define NIC_B "020000009802"
#define NIC_NOBODY "0200000098ff"
#define LONG "60000" /* ms; where an answer is sure */
#define SHORT "150"  /* where none comes */

static char hosts[] = "/tmp/thole-mx-find-XXXXXX";

#define CHECK(condition)                                                               \
	do {                                                                           \
		if (!(condition)) {                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                       \
		}                                                                      \
	} while (0)

/* ---- Hosts ----------------------------------------------------------------------------------------- */

static void be_on(unsigned side)
{
	const char *name = side == A ? "hosta" : "hostb";

	pair_enter(side);
	if (unshare(CLONE_NEWUTS) != 0 || sethostname(name, strlen(name)) != 0) {
		perror("sethostname");
		exit(1);
	}
}

static void start(struct actor *actor, unsigned side)
{
	actor_start(actor, be_on, side);
}

static void hosts_write(const char *text)
{
	FILE *file = fopen(hosts, "w");

	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void expect(struct actor *actor, int line, const char *wanted)
{
	if (strcmp(actor->answer, wanted) == 0)
		return;
	fprintf(stderr, "mx_find.c:%d: \"%s\", not \"%s\"\n", line, actor->answer, wanted);
	exit(1);
}

/* Told this, it answers that. */
#define EXPECT(actor, wanted, ...) (actor_tell(actor, __VA_ARGS__), expect(actor, __LINE__, wanted))

/* It is this sooner or later. */
static void await(struct actor *actor, const char *answer, const char *line)
{
	while (strcmp(actor_tell(actor, "%s", line), answer) != 0)
		usleep(1000);
}

static void open_on(struct actor *actor, unsigned id)
{
	EXPECT(actor, "0", "open %u %d", id, KEY);
}

/* a finds what b has open under the number, and b knows a by its address afterwards. */
static void find(struct actor *a, struct actor *b, unsigned id)
{
	char answer[ACTOR_LINE];

	snprintf(answer, sizeof(answer), "0 %d actor-%d-%u", (int)b->pid, (int)b->pid, id);
	EXPECT(a, answer, "ask " NIC_B " %u %d " LONG, id, KEY);
	snprintf(answer, sizeof(answer), NIC_A " %d %d", 1, (int)a->pid);
	EXPECT(b, answer, "who actor-%d-1", (int)a->pid);
}

/* One process on each, A's with endpoint 1 and B's with OPEN_ID. */
static void both_open(struct actor *a, struct actor *b)
{
	open_on(b, OPEN_ID);
	open_on(a, 1);
}

static void both_start(struct actor *a, struct actor *b, const char *group)
{
	start(a, A);
	start(b, B);
	actor_tell(a, "set THOLE_MX_GROUP %s", group);
	actor_tell(b, "set THOLE_MX_GROUP %s", group);
}

static void both_end(struct actor *a, struct actor *b)
{
	CHECK(actor_end(a) == 0);
	CHECK(actor_end(b) == 0);
}

/* ---- Cases ----------------------------------------------------------------------------------------- */

static void boards(void)
{
	struct actor a, c;
	char here[ACTOR_LINE];
	int empty;

	start(&a, A);
	EXPECT(&a, NIC_A " 10.98.0.1 hosta:0", "board");
	CHECK(actor_end(&a) == 0);

	empty = pair_namespace(); /* where only the loopback is */
	CHECK(empty >= 0);
	actor_start(&a, NULL, 0);
	actor_start(&c, NULL, 0);
	strcpy(here, actor_tell(&a, "board"));
	EXPECT(&c, here, "board");
	CHECK(strncmp(here, "02", 2) == 0);
	CHECK(strcmp(here + strlen(here) - 2, ":0") == 0);
	open_on(&a, OPEN_ID);
	EXPECT(&c, "20", "open %d %d", OPEN_ID, KEY);
	open_on(&c, 1);
	CHECK(strncmp(actor_tell(&c, "ask %.12s %d %d " LONG, here, OPEN_ID, KEY), "0 ", 2) == 0);
	both_end(&a, &c);

	CHECK(pair_namespace() >= 0); /* another host */
	actor_start(&c, NULL, 0);
	CHECK(strncmp(actor_tell(&c, "board"), here, 12) != 0);
	CHECK(actor_end(&c) == 0);
}

/* B publishes before A listens, so that A has to ask. */
static void multicast(void)
{
	struct actor a, b;

	both_start(&a, &b, "239.255.86.223");
	both_open(&a, &b);
	EXPECT(&a, "-", "known " NIC_B);
	find(&a, &b, OPEN_ID);
	EXPECT(&a, "10.98.0.2 hostb:0 1", "known " NIC_B);
	await(&b, "10.98.0.1 hosta:0 1", "known " NIC_A);
	EXPECT(&a, "11 0 ", "ask " NIC_B " %d %d " LONG, OPEN_ID, KEY + 1);
	EXPECT(&a, "8 0 ", "ask " NIC_B " %d %d " LONG, FREE_ID, KEY);
	EXPECT(&a, "7 0 ", "ask " NIC_NOBODY " %d %d " SHORT, OPEN_ID, KEY);
	both_end(&a, &b);
}

static void file(void)
{
	struct actor a, b;

	hosts_write("# all\n02:00:00:00:98:02 10.98.0.2 other:0\n02:00:00:00:98:01 10.98.0.1 one\n"
		    "02:00:00:00:98:aa 10.98.0.77 nobody:0\n02:00:00:00:98:bb - frames:0\n");
	both_start(&a, &b, "off");
	both_open(&a, &b);
	find(&a, &b, OPEN_ID);
	EXPECT(&a, "10.98.0.2 other:0 0", "known " NIC_B);
	EXPECT(&a, "11 0 ", "ask " NIC_B " %d %d " LONG, OPEN_ID, KEY + 1);
	EXPECT(&a, "8 0 ", "ask " NIC_B " %d %d " LONG, FREE_ID, KEY);
	EXPECT(&a, "9 0 ", "ask 0200000098aa %d %d " SHORT, OPEN_ID, KEY);
	EXPECT(&a, "9 0 ", "ask 0200000098bb %d %d " LONG, OPEN_ID, KEY); /* there is no way, whatever the time */
	EXPECT(&a, "0 " NIC_B, "name Other");
	both_end(&a, &b);
}

static void nothing(void)
{
	struct actor a, b;

	both_start(&a, &b, "off");
	both_open(&a, &b);
	EXPECT(&a, "7 0 ", "ask " NIC_B " %d %d " SHORT, OPEN_ID, KEY);
	hosts_write("02:00:00:00:98:02 10.98.0.2 hostb:0\n"); /* it helps those that are open already */
	find(&a, &b, OPEN_ID);
	both_end(&a, &b);
}

static void ipv6(void)
{
	struct actor a, b;

	for (unsigned side = 0; side < 2; side++) {
		pair_enter(side);
		pair_run("ip address del 10.98.0.%u/24 dev %s", side + 1, pair_devices[side]);
	}
	hosts_write("02:00:00:00:98:02 fd98::2 hostb:0\n");
	both_start(&a, &b, "239.255.86.223");
	both_open(&a, &b);
	find(&a, &b, OPEN_ID);
	EXPECT(&a, "8 0 ", "ask " NIC_B " %d %d " LONG, FREE_ID, KEY);
	both_end(&a, &b);
}

/* Both ways; and what a program asks for before it opens anything. */
static void names(void)
{
	struct actor a, b;

	both_start(&a, &b, "239.255.86.223");
	open_on(&b, OPEN_ID);
	EXPECT(&a, "0 " NIC_B, "name HOSTB");
	EXPECT(&a, "10.98.0.2 hostb:0 1", "known " NIC_B);
	EXPECT(&a, "28 000000000000", "name hostb:1");
	EXPECT(&a, "28 000000000000", "name hostc");
	EXPECT(&a, "0 " NIC_A, "name hosta");
	CHECK(actor_end(&a) == 0);
	start(&a, A);
	EXPECT(&a, "0 hostb:0", "nic " NIC_B);
	EXPECT(&a, "36 ", "nic " NIC_NOBODY);
	EXPECT(&a, "0 hosta:0", "nic " NIC_A);
	both_end(&a, &b);
}

/* What A says of itself when it opens something reaches every process of B. */
static void everyone(void)
{
	struct actor a, b[3];

	for (unsigned i = 0; i < 3; i++) {
		start(&b[i], B);
		open_on(&b[i], OPEN_ID + i);
		EXPECT(&b[i], "-", "known " NIC_A);
	}
	start(&a, A);
	open_on(&a, 1);
	for (unsigned i = 0; i < 3; i++)
		await(&b[i], "10.98.0.1 hosta:0 1", "known " NIC_A);
	for (unsigned i = 0; i < 3; i++)
		find(&a, &b[i], OPEN_ID + i);
	CHECK(actor_end(&a) == 0);
	for (unsigned i = 0; i < 3; i++)
		CHECK(actor_end(&b[i]) == 0);
}

/* The one of B's processes that answers for the host is stopped, and then killed. */
static void speaker(void)
{
	struct actor a, b[2];

	start(&b[0], B);
	open_on(&b[0], OPEN_ID);
	start(&a, A);
	EXPECT(&a, "0 " NIC_B, "name hostb"); /* it is the only one, and so the one */
	CHECK(actor_end(&a) == 0);
	start(&b[1], B);
	open_on(&b[1], OPEN_ID + 1);
	for (unsigned i = 0; i < 2; i++) {
		kill(b[0].pid, i == 0 ? SIGSTOP : SIGKILL);
		start(&a, A);
		open_on(&a, 1);
		EXPECT(&a, "-", "known " NIC_B);
		find(&a, &b[1], OPEN_ID + 1);
		CHECK(actor_end(&a) == 0);
	}
	CHECK(WIFSIGNALED(actor_end(&b[0])));
	CHECK(actor_end(&b[1]) == 0);
}

/* What A has heard of B's address is no longer right. */
static void moved(void)
{
	struct mxi_settings settings = {.port = 7480, .group = {htonl(0xefff56df)}}; /* the defaults */
	struct mxi_notice notice = {
		.type = MXI_NOTICE_HERE, .from = {.nic_id = 0x020000009802}, .from_name = "hostb:0"};
	struct mxi_board board = {.address = "10.98.0.77"};
	struct mxi_place group;
	struct actor a, b;

	start(&a, A);
	start(&b, B);
	both_open(&a, &b);
	pair_enter(B);
	pair_run("ip address add 10.98.0.77/24 dev %s", pair_devices[B]);
	snprintf(board.interface, sizeof(board.interface), "%s", pair_devices[B]);
	mxi_place_group(&group, &settings);
	CHECK(mxi_post_send(mxi_post_udp(&board, 0), &group, &notice) == 0);
	await(&a, "10.98.0.77 hostb:0 1", "known " NIC_B);
	pair_run("ip address del 10.98.0.77/24 dev %s", pair_devices[B]);
	find(&a, &b, OPEN_ID);
	EXPECT(&a, "10.98.0.2 hostb:0 1", "known " NIC_B);
	both_end(&a, &b);
}

/* A program that is killed is closed, for other hosts too. */
static void killed(void)
{
	struct actor a, b;

	both_start(&a, &b, "239.255.86.223");
	both_open(&a, &b);
	find(&a, &b, OPEN_ID);
	CHECK(WIFSIGNALED(actor_kill(&b)));
	EXPECT(&a, "8 0 ", "ask " NIC_B " %d %d " LONG, OPEN_ID, KEY);
	start(&b, B);
	open_on(&b, OPEN_ID);
	find(&a, &b, OPEN_ID);
	both_end(&a, &b);
}

static void port_taken(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(7480 + 1 + OPEN_ID)};
	struct actor a;
	int fd;

	start(&a, A);
	pair_enter(A);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	EXPECT(&a, "20", "open %d %d", OPEN_ID, KEY); /* MX_BUSY */
	EXPECT(&a, "0", "open %d %d", OPEN_ID + 1, KEY);
	actor_tell(&a, "close");
	close(fd);
	EXPECT(&a, "0", "open %d %d", OPEN_ID, KEY);
	CHECK(actor_end(&a) == 0);
}

/* With frames of MXoE on the wire no UDP leaves a host. */
static void mxoe(void)
{
	struct actor a, b;

	hosts_write("02:00:00:00:98:02 10.98.0.2 hostb:0\n");
	both_start(&a, &b, "239.255.86.223");
	actor_tell(&a, "set THOLE_CODEC mxoe");
	both_open(&a, &b);
	EXPECT(&a, "9 0 ", "ask " NIC_B " %d %d " SHORT, OPEN_ID, KEY);
	EXPECT(&a, "0 " NIC_B, "name hostb");
	EXPECT(&b, "-", "known " NIC_A);
	both_end(&a, &b);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"boards", boards},
	{"multicast", multicast},
	{"file", file},
	{"nothing", nothing},
	{"ipv6", ipv6},
	{"names", names},
	{"everyone", everyone},
	{"speaker", speaker},
	{"moved", moved},
	{"killed", killed},
	{"port-taken", port_taken},
	{"mxoe", mxoe},
};

int main(int argc, char **argv)
{
	int fd = mkstemp(hosts);

	if (fd < 0)
		return 1;
	close(fd);
	unlink(hosts);
	setenv("THOLE_OPTIONS_FILE", "", 1);
	setenv("THOLE_MX_HOSTS", hosts, 1);
	unsetenv("THOLE_MX_GROUP");
	pair_make(1500);
	for (unsigned i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		cases[i].run();
		unlink(hosts);
		return 0;
	}
	fprintf(stderr, "which case?\n");
	return 2;
}
