/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the driver in a kernel that injects faults (test/vm/checked.config): of each call the first piece of memory
 * that the kernel asks for is refused, then the second, and so on (of many not each), until there is none left to
 * refuse. The call says ENOMEM or does what it should, the next one without a fault does, and nothing is left of
 * either: no descriptor, no pin, no use of the module. What takes something back never fails.
 *
 *     thole-driver-faults memory [STEP...]     where there are veth pairs va, vb and, of MTU 9000, vc, vd; root
 *     thole-driver-faults copies [STEP...]     the same of copies to and from the program: EFAULT
 *     thole-driver-faults load MODULE          what the module itself asks for when it is loaded, which it is not yet
 *     thole-driver-faults short                from then on, one in a hundred pieces of memory that cannot be waited
 *                                              for is refused to the module: frames are lost, and nothing else
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "driver.h"

enum { PAGES = 40, PORT = 4100, MOST = 2000 /* faults of one call */ };

#define LENGTH (PAGES * PAGE)

static int nth;     /* where a thread says which fault it is to have */
static int refusal; /* the errno of a call that had one */

/* ---- Faults ---------------------------------------------------------------------------------- */

/* Not where guest.py has it. */
#define DEBUGFS "/tmp/thole-faults"
/* Where code is that is not the kernel's own. */
#define MODULES_START "0xffffffffa0000000"
#define MODULES_END "0xffffffffff000000"

static void knob(const char *kind, const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), DEBUGFS "/%s/%s", kind, name);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value) && close(fd) == 0);
}

/* Only what somebody between these addresses has called fails. */
static void knob_callers(const char *kind, const char *start, const char *end)
{
	knob(kind, "stacktrace-depth", "32");
	knob(kind, "require-start", start);
	knob(kind, "require-end", end);
	knob(kind, "verbose", "0");
}

static void knobs_begin(bool memory, bool copies, const char *start, const char *end)
{
	CHECK(mkdir(DEBUGFS, 0700) == 0 || errno == EEXIST);
	CHECK(mount("debugfs", DEBUGFS, "debugfs", 0, NULL) == 0 || errno == EBUSY);
	knob_callers("failslab", memory ? start : "1", memory ? end : "1");
	knob_callers("fail_page_alloc", memory ? start : "1", memory ? end : "1");
	knob_callers("fail_usercopy", copies ? start : "1", copies ? end : "1");
	knob("fail_page_alloc", "ignore-gfp-highmem", "N");
	knob("fail_page_alloc", "min-order", "0");
}

static void faults_begin(bool memory, bool copies, const char *start, const char *end)
{
	knobs_begin(memory, copies, start, end);
	knob("failslab", "ignore-gfp-wait", "N");
	knob("fail_page_alloc", "ignore-gfp-wait", "N");
	nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	CHECK(nth >= 0);
	refusal = copies ? EFAULT : ENOMEM;
}

/* Nobody's in particular. */
static void short_begin(void)
{
	static const char *const kinds[] = {"failslab", "fail_page_alloc"};

	knobs_begin(true, false, MODULES_START, MODULES_END);
	for (unsigned i = 0; i < 2; i++) {
		knob(kinds[i], "ignore-gfp-wait", "Y");
		knob(kinds[i], "times", "-1");
		knob(kinds[i], "probability", "1"); /* a packet asks for many, where it is cut */
	}
}

/* The thread's next fault; 0: none. Saying so may be what fails. */
static void fault_arm(unsigned which)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", which);

	CHECK(pwrite(nth, text, (size_t)length, 0) == length || pwrite(nth, text, (size_t)length, 0) == length);
}

/* Whether it has come. */
static bool fault_came(void)
{
	char text[16] = "";
	bool came = pread(nth, text, sizeof(text) - 1, 0) > 0 && text[0] == '0';

	fault_arm(0);
	return came;
}

/* ---- What steps work with -------------------------------------------------------------------- */

static struct driver driver, other; /* other: a new one for each step that says so */
static unsigned char *memory, *outside, *view;
static struct thole_driver_offer offered;
static struct thole_driver_attach attached;
static struct thole_driver_bind bound;
static struct thole_driver_ether *ether;
static struct thole_driver_events *ring;
static uint32_t region, connection;
static uint64_t transfer;
static int sockets[2];

static int result(long status)
{
	return status < 0 ? -errno : 0;
}

static void nothing(void)
{
}

static void open_other(void)
{
	other = driver_open();
}

static void close_other(void)
{
	CHECK(munmap((void *)other.shared, sizeof(*other.shared)) == 0 && close(other.fd) == 0);
}

static void have_region(void)
{
	region = declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(region != 0);
}

/* Its pages are new ones for who comes next. */
static void lose_region(void)
{
	CHECK(forget(&driver, region) == 0 && madvise(memory, LENGTH, MADV_DONTNEED) == 0);
}

static void have_pinned(void)
{
	struct thole_driver_pin answer;

	have_region();
	CHECK(pin(&driver, region, LENGTH, 0, &answer) == 0);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static int open_run(void)
{
	other.fd = open("/dev/thole", O_RDWR);
	return result(other.fd);
}

static void open_undo(void)
{
	CHECK(close(other.fd) == 0);
}

static void *shown;
static size_t shown_bytes;

static int show(const struct driver *whose, off_t at, size_t bytes, int protection)
{
	shown_bytes = bytes;
	shown = mmap(NULL, bytes, protection, MAP_SHARED, whose->fd, at);
	return shown == MAP_FAILED ? -errno : 0;
}

static void show_undo(void)
{
	CHECK(munmap(shown, shown_bytes) == 0);
}

static void show_close(void)
{
	show_undo();
	close_other();
}

static int shared_run(void)
{
	return show(&other, THOLE_DRIVER_AT_SHARED, sizeof(*other.shared), PROT_READ);
}

static int events_run(void)
{
	return show(&other, THOLE_DRIVER_AT_EVENTS, sizeof(struct thole_driver_events), PROT_READ | PROT_WRITE);
}

static int ways_run(void)
{
	return show(&other, THOLE_DRIVER_AT_WAYS, THOLE_DRIVER_CONNECTIONS * sizeof(struct thole_driver_way),
		    PROT_READ | PROT_WRITE);
}

/* ---- Regions --------------------------------------------------------------------------------- */

static int declare_run(void)
{
	region = declare(&driver, memory, LENGTH, THOLE_DRIVER_WRITE);
	return region ? 0 : -errno;
}

static int vector_run(void)
{
	struct thole_driver_segment segments[THOLE_DRIVER_SEGMENTS];

	for (unsigned i = 0; i < THOLE_DRIVER_SEGMENTS; i++)
		segments[i] = (struct thole_driver_segment){(uintptr_t)memory + i * 64, 8};
	region = declare_vector(&driver, segments, THOLE_DRIVER_SEGMENTS, 0);
	return region ? 0 : -errno;
}

static int pin_run(void)
{
	struct thole_driver_pin answer;
	int status = pin(&driver, region, LENGTH, 0, &answer);

	return status ? status : answer.pinned == PAGES ? 0 : -EIO;
}

static int background_run(void)
{
	struct thole_driver_pin answer;

	return pin(&driver, region, LENGTH, THOLE_DRIVER_BACKGROUND, &answer);
}

static void background_undo(void)
{
	struct pollfd one = {.fd = driver.fd, .events = POLLIN};

	CHECK(poll(&one, 1, -1) == 1);
	ring->read++;
	while (poll(&one, 1, 0) == 1) /* the call that had a fault may have begun it, too */
		ring->read++;
	CHECK(pages_pinned() == PAGES);
	lose_region();
}

static int copy_run(void)
{
	return copy(&driver, region, 3, outside, LENGTH - 5, 0);
}

static int into_run(void)
{
	return copy(&driver, region, 3, outside, LENGTH - 5, THOLE_DRIVER_INTO);
}

static void into_undo(void)
{
	CHECK(memory[2] == 0 && memcmp(memory + 3, outside, LENGTH - 5) == 0 && memory[LENGTH - 2] == 0);
	lose_region();
}

static int forget_run(void)
{
	return forget(&driver, region);
}

static void forget_undo(void)
{
	CHECK(madvise(memory, LENGTH, MADV_DONTNEED) == 0);
}

/* ---- Views ----------------------------------------------------------------------------------- */

static int offer_run(void)
{
	offered = (struct thole_driver_offer){.id = region};
	return result(ioctl(driver.fd, THOLE_DRIVER_OFFER, &offered));
}

static void have_offer(void)
{
	have_region();
	CHECK(offer_run() == 0);
}

static int withdraw_run(void)
{
	return result(ioctl(driver.fd, THOLE_DRIVER_WITHDRAW, (unsigned long)region));
}

static int attach_run(void)
{
	attached = (struct thole_driver_attach){
		.number = offered.number, .flags = THOLE_DRIVER_WRITE, .key = {offered.key[0], offered.key[1]}};
	return result(ioctl(driver.fd, THOLE_DRIVER_ATTACH, &attached));
}

static void attach_undo(void)
{
	CHECK(close(attached.fd) == 0);
	lose_region();
}

static void have_attached(void)
{
	have_offer();
	CHECK(attach_run() == 0);
}

static int view_run(void)
{
	view = mmap(NULL, LENGTH + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, attached.fd, 0);
	return view == MAP_FAILED ? -errno : 0;
}

static void view_undo(void)
{
	CHECK(munmap(view, LENGTH + PAGE) == 0);
	attach_undo();
}

static void have_view(void)
{
	have_attached();
	CHECK(view_run() == 0);
}

static void have_view_filled(void)
{
	have_view();
	memset(memory, 7, LENGTH);
}

static int touch_run(void)
{
	for (size_t page = 0; page <= PAGES; page++)
		*(volatile unsigned char *)(view + page * PAGE + PAGE - 1) += (unsigned char)page;
	return 0;
}

/* Whatever could not be had at once, each access has reached the owner's memory. */
static void touched(unsigned char before)
{
	const struct thole_driver_view *head = (const void *)view;

	CHECK(head->lost == 0 && head->ended == 0);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(memory[page * PAGE + PAGE - 1] == (unsigned char)(before + page + 1));
	view_undo();
}

static void touch_undo(void)
{
	touched(0);
}

static void touch_filled_undo(void)
{
	touched(7);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static int bind_run(void)
{
	return result(ioctl(other.fd, THOLE_DRIVER_BIND, &bound));
}

static void have_other_unbound(void)
{
	open_other();
	bound = (struct thole_driver_bind){
		.interface = if_nametoindex("va"), .ethertype = THOLE_DRIVER_ETHERTYPE, .endpoint = 3};
	CHECK(bound.interface != 0);
}

static void have_bound(void)
{
	have_other_unbound();
	CHECK(bind_run() == 0);
}

static int unbind_run(void)
{
	return result(ioctl(other.fd, THOLE_DRIVER_UNBIND));
}

static int frames_run(void)
{
	return show(&other, THOLE_DRIVER_AT_ETHER, bound.bytes, PROT_READ | PROT_WRITE);
}

static void have_frames(void)
{
	struct thole_driver_frame *frame;

	have_bound();
	CHECK(frames_run() == 0);
	ether = shown;
	frame = (void *)((char *)shown + THOLE_DRIVER_FRAMES_AT + (size_t)bound.place * bound.places_in);
	frame->length = 40;
	mac_of("vb", frame->path);
}

/* Whatever is refused on a frame's way from there is a frame that the interface has lost. */
static int send_run(void)
{
	int sent = ioctl(other.fd, THOLE_DRIVER_SEND, 1ul << 16);

	return sent < 0 ? -errno : sent ? 0 : -refusal;
}

static void send_undo(void)
{
	CHECK(ether->too_long == 0);
	show_close();
}

/* ---- Bulk ------------------------------------------------------------------------------------ */

static int socket_new(uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

static int socket_run(void)
{
	struct thole_driver_socket taken = {.fd = sockets[1], .channel = 1};

	return result(ioctl(other.fd, THOLE_DRIVER_SOCKET, &taken));
}

static int back_run(void)
{
	return result(ioctl(other.fd, THOLE_DRIVER_SOCKET_BACK, (unsigned long)sockets[1]));
}

static void have_socket(void)
{
	open_other();
	CHECK(socket_run() == 0);
}

/* A connection to this address. */
static int connection_ask(struct thole_driver_connection *wanted)
{
	wanted->session = 1;
	wanted->peer_session = 2;
	wanted->index = 3;
	wanted->peer_index = 4;
	return result(ioctl(other.fd, THOLE_DRIVER_CONNECTION, wanted));
}

static int connection_run(void)
{
	struct thole_driver_connection wanted = {.address = {[10] = 255, 255, 127, 0, 0, 1},
						 .records_port = PORT + 9,
						 .bulk_port = PORT + 9,
						 .frame_max = 1400};
	int status = connection_ask(&wanted);

	connection = wanted.id;
	return status;
}

static void have_bound_mxoe(void)
{
	have_other_unbound();
	bound.interface = if_nametoindex("vc");
	bound.ethertype = THOLE_DRIVER_ETHERTYPE_MXOE;
	CHECK(bind_run() == 0);
}

static int connection_mxoe_run(void)
{
	struct thole_driver_connection wanted = {.address = {2, 0, 0, 0, 0, 1},
						 .frame_max = 9000,
						 .codec = THOLE_DRIVER_CODEC_MXOE_JUMBO};

	return connection_ask(&wanted);
}

/* All that a descriptor may have, of which half is what pins and sends in the background. */
static void have_connection(void)
{
	struct thole_driver_socket records = {.fd = sockets[0]};

	have_socket();
	CHECK(ioctl(other.fd, THOLE_DRIVER_SOCKET, &records) == 0 && connection_run() == 0);
	region = declare(&other, memory, LENGTH, THOLE_DRIVER_WRITE);
	CHECK(region != 0);
}

static void lose_connection(void)
{
	close_other();
	CHECK(madvise(memory, LENGTH, MADV_DONTNEED) == 0);
}

static int connection_end_run(void)
{
	return result(ioctl(other.fd, THOLE_DRIVER_CONNECTION_END, (unsigned long)connection));
}

static int window_run(void)
{
	struct thole_driver_window wanted = {
		.window = 7, .length = LENGTH, .connection = connection, .region = region};

	return result(ioctl(other.fd, THOLE_DRIVER_WINDOW, &wanted));
}

static int end_run(unsigned long command, uint64_t name)
{
	struct thole_driver_name named = {.name = name, .connection = connection};

	return result(ioctl(other.fd, command, &named));
}

static void have_window(void)
{
	have_connection();
	CHECK(window_run() == 0);
}

static int window_end_run(void)
{
	return end_run(THOLE_DRIVER_WINDOW_END, 7);
}

static int fetch_run(void)
{
	struct thole_driver_fetch wanted = {.window = 7,
					    .transfer = transfer,
					    .length = LENGTH,
					    .connection = connection,
					    .region = region,
					    .frame = 1200};

	return result(ioctl(other.fd, THOLE_DRIVER_FETCH, &wanted));
}

static void have_no_fetch(void)
{
	have_connection();
	transfer++;
}

static int fetch_end_run(void)
{
	return end_run(THOLE_DRIVER_FETCH_END, transfer);
}

static void have_fetch(void)
{
	have_no_fetch();
	CHECK(fetch_run() == 0);
}

/* A descriptor with something of each kind; its last user goes. */
static void have_all(void)
{
	struct thole_driver_offer offer;
	struct thole_driver_pin answer;

	have_fetch();
	offer = (struct thole_driver_offer){.id = region};
	CHECK(window_run() == 0 && pin(&other, region, LENGTH, 0, &answer) == 0);
	CHECK(ioctl(other.fd, THOLE_DRIVER_OFFER, &offer) == 0);
	bound = (struct thole_driver_bind){
		.interface = if_nametoindex("va"), .ethertype = THOLE_DRIVER_ETHERTYPE, .endpoint = 3};
	CHECK(bind_run() == 0 && munmap((void *)other.shared, sizeof(*other.shared)) == 0);
}

static int close_run(void)
{
	return result(close(other.fd));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

struct step {
	const char *name;
	void (*prepare)(void);
	int (*run)(void); /* 0 or a negative errno; makes no call but the one */
	void (*undo)(void);
	bool ends; /* it takes something back, and never fails for want of memory */
};

static const struct step steps[] = {
	{"open", nothing, open_run, open_undo, false},
	{"shared", open_other, shared_run, show_close, false},
	{"events", open_other, events_run, show_close, false},
	{"ways", open_other, ways_run, show_close, false},
	{"declare", nothing, declare_run, lose_region, false},
	{"vector", nothing, vector_run, lose_region, false},
	{"pin", have_region, pin_run, lose_region, false},
	{"background", have_region, background_run, background_undo, false},
	{"copy", have_region, copy_run, lose_region, false},
	{"into", have_region, into_run, into_undo, false},
	{"forget", have_pinned, forget_run, forget_undo, true},
	{"offer", have_region, offer_run, lose_region, false},
	{"withdraw", have_offer, withdraw_run, lose_region, true},
	{"attach", have_offer, attach_run, attach_undo, false},
	{"view", have_attached, view_run, view_undo, false},
	{"touch", have_view, touch_run, touch_undo, true},
	{"touch_filled", have_view_filled, touch_run, touch_filled_undo, true},
	{"bind", have_other_unbound, bind_run, close_other, false},
	{"unbind", have_bound, unbind_run, close_other, true},
	{"frames", have_bound, frames_run, show_close, false},
	{"send", have_frames, send_run, send_undo, false},
	{"socket", open_other, socket_run, close_other, false},
	{"back", have_socket, back_run, close_other, true},
	{"connection", have_socket, connection_run, close_other, false},
	{"connection_mxoe", have_bound_mxoe, connection_mxoe_run, close_other, false},
	{"connection_end", have_fetch, connection_end_run, lose_connection, true},
	{"window", have_connection, window_run, lose_connection, false},
	{"window_end", have_window, window_end_run, lose_connection, true},
	{"fetch", have_no_fetch, fetch_run, lose_connection, false},
	{"fetch_end", have_fetch, fetch_end_run, lose_connection, true},
	{"close", have_all, close_run, forget_undo, true},
};

static unsigned module_users(void)
{
	FILE *file = fopen("/sys/module/thole/refcnt", "r");
	unsigned users;

	CHECK(file && fscanf(file, "%u", &users) == 1 && fclose(file) == 0);
	return users;
}

/* The first one that is free. */
static int next_number(void)
{
	int fd = open("/dev/null", O_RDONLY);

	CHECK(fd >= 0 && close(fd) == 0);
	return fd;
}

/* Returns whether there was a fault. */
static bool step_once(const struct step *step, unsigned which)
{
	int status;
	bool came;

	step->prepare();
	fault_arm(which);
	status = step->run();
	came = fault_came();
	if (status && (!came || (step->ends && refusal == ENOMEM) || status != -refusal)) {
		printf("%s, fault %u%s: %s\n", step->name, which, came ? "" : ", which has not come",
		       strerror(-status));
		fflush(stdout);
		_exit(1);
	}
	if (status)
		CHECK(step->run() == 0);
	step->undo();
	return came;
}

static void step_all(const struct step *step)
{
	unsigned which, users = module_users();
	int number = next_number();

	for (which = 1; step_once(step, which); which += 1 + which / 64) {
		CHECK(which < MOST && next_number() == number);
		CHECK(driver.shared->locked == 0 && pages_pinned() == 0);
		for (unsigned i = 0; i < 1000 && module_users() != users; i++)
			usleep(1000); /* what goes by itself */
		CHECK(module_users() == users);
	}
	printf("%s %u\n", step->name, which - 1); /* and at most that many faults */
	fflush(stdout);
}

/* ---- Short of memory for a while ------------------------------------------------------------- */

/* Where a function of the module begins, and the one behind it. */
static void find_function(const char *wanted, char *start, char *end, size_t room)
{
	unsigned long at, first = 0, behind = ~0ul;
	char line[256], name[128], owner[64];
	FILE *file;

	for (unsigned look = 0; look < 2; look++) {
		file = fopen("/proc/kallsyms", "r");
		CHECK(file != NULL);
		while (fgets(line, sizeof(line), file)) {
			if (sscanf(line, "%lx %*c %127s %63s", &at, name, owner) != 3 || strcmp(owner, "[thole]") != 0)
				continue;
			if (!look && strcmp(name, wanted) == 0)
				first = at;
			if (look && at > first && at < behind)
				behind = at;
		}
		fclose(file);
	}
	CHECK(first != 0 && behind != ~0ul);
	snprintf(start, room, "0x%lx", first);
	snprintf(end, room, "0x%lx", behind);
}

/* A touch of a view for which there is no memory, as often as that is: it waits, and is not lost. */
static void touch_short(void)
{
	static const char *const kinds[] = {"failslab", "fail_page_alloc"};
	char start[32], end[32], times[16];

	find_function("view_fault", start, end, sizeof(start));
	for (unsigned count = 1; count < 10; count++) {
		have_view();
		snprintf(times, sizeof(times), "%u", count);
		for (unsigned i = 0; i < 2; i++) {
			knob_callers(kinds[i], start, end);
			knob(kinds[i], "times", times);
			knob(kinds[i], "probability", "100");
		}
		touch_run();
		for (unsigned i = 0; i < 2; i++)
			knob(kinds[i], "probability", "0");
		touch_undo();
	}
	printf("touch_short\n");
	fflush(stdout);
}

/* ---- The module ------------------------------------------------------------------------------ */

static int load(const char *path)
{
	int fd = open(path, O_RDONLY), status;

	CHECK(fd >= 0);
	for (unsigned which = 1;; which++) {
		bool came;

		fault_arm(which);
		status = result(syscall(SYS_finit_module, fd, "", 0));
		came = fault_came();
		CHECK(status == 0 || (came && status == -refusal));
		if (!status)
			CHECK(syscall(SYS_delete_module, "thole", 0) == 0);
		if (!came) {
			printf("load %u\n", which - 1);
			return 0;
		}
	}
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	bool wanted = argc == 2;

	for (int i = 2; i < argc; i++)
		wanted |= strcmp(argv[i], name) == 0;
	return wanted;
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	if (strcmp(argv[1], "load") == 0) {
		faults_begin(true, false, MODULES_START, MODULES_END);
		return load(argv[2]);
	}
	if (strcmp(argv[1], "short") == 0) {
		short_begin();
		return 0;
	}
	faults_begin(strcmp(argv[1], "memory") == 0, strcmp(argv[1], "copies") == 0, "0", "0xffffffffffffffff");
	driver = driver_open();
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, driver.fd, THOLE_DRIVER_AT_EVENTS);
	CHECK(ring != MAP_FAILED);
	memory = memory_new(LENGTH);
	outside = memory_new(LENGTH);
	memset(outside, 9, LENGTH);
	for (unsigned i = 0; i < 2; i++)
		sockets[i] = socket_new((uint16_t)(PORT + i));
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		if (is_wanted(steps[i].name, argc, argv))
			step_all(&steps[i]);
	if (refusal == ENOMEM && is_wanted("touch_short", argc, argv))
		touch_short();
	return 0;
}
