/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and NIC ids: the file of hosts and its lines, what was heard, this host's own boards, and those that a search
 * finds. Nothing goes over a network: what asks one is answered here. */
#include "atfork.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#include "mx_known.h"
#include "mx_names.h"
#include "mx_nic.h"
#include "mx_notice.h"
#include "thole.h"

static char path[] = "/tmp/thole-mx-hosts-XXXXXX";

static int setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	setenv("THOLE_OPTIONS_FILE", "", 1);
	setenv("THOLE_MX_HOSTS", path, 1);
	setenv("THOLE_MX_GROUP", "off", 1);
	return fd < 0 || close(fd) != 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

/* Another file in its place, as editors make it. */
static void file_write(const char *text)
{
	char other[sizeof(path) + 4];
	FILE *file;

	snprintf(other, sizeof(other), "%s.new", path);
	file = fopen(other, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(rename(other, path), 0);
}

/* ---- Words ----------------------------------------------------------------------------------------- */

static void nic__is_read_in_its_spellings(void **state)
{
	static const char *const good[] = {"02:83:00:ab:CD:01", "0x028300abcd01", "0X028300ABCD01", "028300abcd01"};
	static const char *const bad[] = {"",
					  "02",
					  "02:83:00:ab:cd",
					  "02:83:00:ab:cd:01:02",
					  "0283:00abcd011",
					  ":028300abcd01",
					  "028300abcd01:",
					  "02::8300abcd01",
					  "0:28300abcd01",
					  "02:83:00:ab:cd:0g",
					  "02-83-00-ab-cd-01",
					  "028300abcd01 "};
	uint64_t nic_id;

	(void)state;
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(mxi_nic_parse(good[i], &nic_id));
		assert_true(nic_id == 0x028300abcd01);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (mxi_nic_parse(bad[i], &nic_id))
			fail_msg("\"%s\" is taken for a NIC id", bad[i]);
}

static int line(const char *text, struct mxi_known *known)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	return mxi_known_line(copy, known);
}

static void line__is_read(void **state)
{
	struct mxi_known known;

	(void)state;
	assert_int_equal(line("02:83:00:00:00:01 10.83.0.1 host1:0\n", &known), 1);
	assert_true(known.nic_id == 0x028300000001 && !known.heard);
	assert_string_equal(known.address, "10.83.0.1");
	assert_string_equal(known.name, "host1:0");
	assert_int_equal(line("\t02:83:00:00:00:02   fd83::2 Host2 # the second\r\n", &known), 1);
	assert_string_equal(known.address, "fd83::2");
	assert_string_equal(known.name, "Host2:0");
	assert_int_equal(line("02:83:00:00:00:03 - host3:12", &known), 1);
	assert_string_equal(known.address, "");
	assert_string_equal(known.name, "host3:12");
}

static void line__may_say_nothing(void **state)
{
	struct mxi_known known;

	(void)state;
	assert_int_equal(line("", &known), 0);
	assert_int_equal(line(" \t \n", &known), 0);
	assert_int_equal(line("# 02:83:00:00:00:01 10.83.0.1 host1:0\n", &known), 0);
}

static void line__that_is_wrong_says_how(void **state)
{
	static const struct {
		const char *text, *said;
	} lines[] = {
		{"02:83:00:00:00:01", "three words"},
		{"02:83:00:00:00:01 10.83.0.1", "three words"},
		{"02:83:00:00:00:01 10.83.0.1 # host1", "three words"},
		{"02:83:00:00:00:01 10.83.0.1 host1:0 host2:0", "three words"},
		{"02:83:00:00:00 10.83.0.1 host1:0", "\"02:83:00:00:00\" is no MAC"},
		{"00:00:00:00:00:00 10.83.0.1 host1:0", "is no MAC"},
		{"02:83:00:00:00:01 10.83.0.256 host1:0", "\"10.83.0.256\""},
		{"02:83:00:00:00:01 host1 host1:0", "\"host1\" is neither"},
		{"02:83:00:00:00:01 10.83.0.1 host1:", "\"host1:\" is no name"},
		{"02:83:00:00:00:01 10.83.0.1 :0", "\":0\" is no name"},
		{"02:83:00:00:00:01 10.83.0.1 host1:one", "is no name"},
		{"02:83:00:00:00:01 10.83.0.1 h\xc3\xb6st:0", "is no name"},
	};
	struct mxi_known known;
	char text[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(line(lines[i].text, &known), THOLE_ERR_ARGUMENT);
		if (!strstr(thole_detail(), lines[i].said))
			fail_msg("\"%s\": \"%s\"", lines[i].text, thole_detail());
	}
	memset(text, 'n', sizeof(text));
	memcpy(text, "02:83:00:00:00:01 - ", 20);
	text[20 + MX_MAX_HOSTNAME_LEN - 2] = '\0'; /* with ":0" it is one too long */
	assert_int_equal(line(text, &known), THOLE_ERR_ARGUMENT);
	text[20 + MX_MAX_HOSTNAME_LEN - 3] = '\0';
	assert_int_equal(line(text, &known), 1);
}

/* ---- The file -------------------------------------------------------------------------------------- */

static void file__is_read_again_when_it_changes(void **state)
{
	struct mxi_known known, list[4];
	char trouble[512];

	(void)state;
	file_write("# hosts\n02:83:00:00:00:01 10.83.0.1 host1:0\n\n02:83:00:00:00:02 - host2\n");
	assert_true(mxi_known_find(0x028300000001, &known));
	assert_string_equal(known.address, "10.83.0.1");
	assert_int_equal(mxi_known_list(NULL, 0), 2);
	assert_int_equal(mxi_known_list(list, 4), 2);
	assert_string_equal(list[1].name, "host2:0");
	mxi_known_trouble(trouble, sizeof(trouble));
	assert_string_equal(trouble, "");
	file_write("02:83:00:00:00:01 10.83.0.9 host1:0\n");
	assert_true(mxi_known_find(0x028300000001, &known));
	assert_string_equal(known.address, "10.83.0.9");
	assert_false(mxi_known_find(0x028300000002, &known));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mxi_known_list(list, 4), 0);
}

static void file__with_bad_lines_gives_the_good_ones(void **state)
{
	char trouble[512], text[2048];
	struct mxi_known known;

	(void)state;
	strcpy(text,
	       "nonsense\n02:83:00:00:00:01 10.83.0.1 host1:0\nmore nonsense\n02:83:00:00:00:01 10.83.0.2 again:0\n#");
	memset(text + strlen(text), 'x', 1000); /* a line that is longer than any */
	strcpy(text + 1000, " \n02:83:00:00:00:02 10.83.0.2 host2:0"); /* and one without an end */
	file_write(text);
	assert_true(mxi_known_find(0x028300000001, &known));
	assert_string_equal(known.name, "host1:0");
	assert_true(mxi_known_find(0x028300000002, &known));
	mxi_known_trouble(trouble, sizeof(trouble));
	assert_non_null(strstr(trouble, ", line 1: three words"));
	assert_memory_equal(trouble, path, strlen(path));
}

static void file__that_cannot_be_read_says_so(void **state)
{
	char trouble[512];

	(void)state;
	file_write("02:83:00:00:00:01 10.83.0.1 host1:0\n");
	assert_int_equal(mxi_known_list(NULL, 0), 1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(mxi_known_list(NULL, 0), 1); /* what was read counts on */
	mxi_known_trouble(trouble, sizeof(trouble));
	assert_non_null(strstr(trouble, "it is no file"));
	assert_int_equal(rmdir(path), 0);
}

static bool no_memory; /* for rows */

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
	return no_memory ? NULL : __real_realloc(old, size);
}

/* No descriptor beyond those that are open; or again as many as before. */
static void descriptors_refuse(bool refuse)
{
	static struct rlimit before;
	struct rlimit none;

	if (refuse)
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, refuse ? &none : &before), 0);
}

/* That it could not be read once is not what it says. */
static void file__is_read_once_there_is_room(void **state)
{
	struct mxi_known known;
	char trouble[512];

	(void)state;
	assert_int_equal(mxi_known_list(NULL, 0), 0); /* there is none */
	file_write("02:83:00:00:00:01 10.83.0.1 host1:0\n");
	descriptors_refuse(true);
	assert_false(mxi_known_find(0x028300000001, &known));
	mxi_known_trouble(trouble, sizeof(trouble));
	descriptors_refuse(false);
	assert_non_null(strstr(trouble, "cannot be read: Too many open files"));
	assert_true(mxi_known_find(0x028300000001, &known));
	file_write("02:83:00:00:00:01 10.83.0.1 host1:0\n02:83:00:00:00:02 - host2\n");
	no_memory = true;
	assert_int_equal(mxi_known_list(NULL, 0), 1); /* what was read counts on */
	mxi_known_trouble(trouble, sizeof(trouble));
	no_memory = false;
	assert_non_null(strstr(trouble, "cannot be read: Cannot allocate memory"));
	assert_int_equal(mxi_known_list(NULL, 0), 2);
	mxi_known_trouble(trouble, sizeof(trouble));
	assert_string_equal(trouble, "");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mxi_known_list(NULL, 0), 0);
}

/* Nor is where it is what is said while the file of options cannot be read. In a process that has not looked yet. */
static void file__is_where_the_options_say(void **state)
{
	char options[] = "/tmp/thole-mx-options-XXXXXX";
	int fd = mkstemp(options);
	struct mxi_known known;
	pid_t child;

	(void)state;
	file_write("02:83:00:00:00:01 10.83.0.1 host1:0\n");
	assert_true(fd >= 0 && dprintf(fd, "mx_hosts = %s\n", path) > 0);
	close(fd);
	child = fork();
	if (child == 0) {
		setenv("THOLE_OPTIONS_FILE", options, 1);
		unsetenv("THOLE_MX_HOSTS");
		descriptors_refuse(true);
		mxi_known_list(NULL, 0);
		descriptors_refuse(false);
		_exit(mxi_known_find(0x028300000001, &known) ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
	assert_int_equal(unlink(options), 0);
}

/* ---- Names ----------------------------------------------------------------------------------------- */

static void name__is_found_whatever_its_case(void **state)
{
	char name[MX_MAX_HOSTNAME_LEN];
	uint64_t nic_id = 0;

	(void)state;
	file_write("02:83:00:00:00:01 10.83.0.1 Host1:0\n02:83:00:00:00:11 10.84.0.1 host1:1\n");
	assert_int_equal(mxi_names_to_nic("hOST1", &nic_id), MX_SUCCESS);
	assert_true(nic_id == 0x028300000001);
	assert_int_equal(mxi_names_to_nic("host1:1", &nic_id), MX_SUCCESS);
	assert_true(nic_id == 0x028300000011);
	assert_int_equal(mxi_names_of_nic(0x028300000001, name), MX_SUCCESS);
	assert_string_equal(name, "Host1:0");
}

static void name__that_nobody_has_is_not_found(void **state)
{
	char name[MX_MAX_HOSTNAME_LEN], longest[2 * MX_MAX_HOSTNAME_LEN];
	uint64_t nic_id = 17;

	(void)state;
	memset(longest, 'n', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(mxi_names_to_nic("host1:2", &nic_id), MX_HOST_NOT_FOUND);
	assert_non_null(strstr(thole_detail(), "host1:2"));
	assert_int_equal(mxi_names_to_nic("", &nic_id), MX_HOST_NOT_FOUND);
	assert_int_equal(mxi_names_to_nic(longest, &nic_id), MX_HOST_NOT_FOUND);
	assert_true(nic_id == 17);
	assert_int_equal(mxi_names_of_nic(0x028300000077, name), MX_NIC_NOT_FOUND);
	assert_non_null(strstr(thole_detail(), "028300000077"));
	assert_int_equal(mxi_names_of_nic(0, name), MX_NIC_NOT_FOUND);
}

static void own_boards__have_names(void **state)
{
	struct mxi_board boards[MXI_BOARDS_MAX], board;
	unsigned count;
	char name[MX_MAX_HOSTNAME_LEN], host[65];
	uint64_t nic_id;

	(void)state;
	assert_int_equal(mxi_board_list(boards, MXI_BOARDS_MAX, &count), MX_SUCCESS);
	assert_in_range(count, 1, MXI_BOARDS_MAX);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(boards[i].number, i);
		assert_true(boards[i].nic_id != 0 && boards[i].nic_id >> 48 == 0 && boards[i].mtu > 0);
		assert_int_equal(mxi_names_to_nic(boards[i].name, &nic_id), MX_SUCCESS);
		assert_true(nic_id == boards[i].nic_id);
		assert_int_equal(mxi_names_of_nic(boards[i].nic_id, name), MX_SUCCESS);
		assert_string_equal(name, boards[i].name);
		assert_true(mxi_board_find(nic_id, &board) == MX_SUCCESS && board.number == i);
		assert_true(mxi_board_get(i, &board) == MX_SUCCESS && board.nic_id == nic_id);
	}
	assert_int_equal(gethostname(host, sizeof(host)), 0);
	assert_int_equal(mxi_names_to_nic(host, &nic_id), MX_SUCCESS);
	assert_true(nic_id == boards[0].nic_id);
	assert_int_equal(mxi_board_get(count, &board), MX_BOARD_UNKNOWN);
	assert_int_equal(mxi_board_find(0x028300000077, &board), MX_BOARD_UNKNOWN);
}

/* ---- What was heard -------------------------------------------------------------------------------- */

static void heard__is_known_but_the_file_wins(void **state)
{
	struct mxi_known known;
	uint64_t nic_id;

	(void)state;
	file_write("02:83:00:00:00:01 10.83.0.1 host1:0\n");
	mxi_known_heard(0x028300000001, "liar:0", "10.9.9.9");
	mxi_known_heard(0x028300000005, "host5:0", "10.83.0.5");
	assert_true(mxi_known_find(0x028300000001, &known) && !known.heard);
	assert_string_equal(known.address, "10.83.0.1");
	assert_true(mxi_known_find(0x028300000005, &known) && known.heard);
	assert_string_equal(known.address, "10.83.0.5");
	assert_int_equal(mxi_known_list(NULL, 0), 2);
	assert_int_equal(mxi_names_to_nic("host5", &nic_id), MX_SUCCESS);
	assert_true(nic_id == 0x028300000005);
	mxi_known_heard(0x028300000005, "host5:0", "10.83.0.6"); /* it has moved */
	assert_true(mxi_known_find(0x028300000005, &known));
	assert_string_equal(known.address, "10.83.0.6");
	assert_int_equal(mxi_known_list(NULL, 0), 2);
}

static void heard__is_bounded_and_forgets_the_first(void **state)
{
	struct mxi_known known;

	(void)state;
	file_write("");
	for (uint64_t i = 0; i < MXI_KNOWN_MAX + 10; i++)
		mxi_known_heard(0x020000000000 + i, "many:0", "10.1.1.1");
	assert_int_equal(mxi_known_list(NULL, 0), MXI_KNOWN_MAX);
	assert_false(mxi_known_find(0x020000000000, &known));
	assert_true(mxi_known_find(0x020000000000 + MXI_KNOWN_MAX + 9, &known));
}

/* ---- Searches -------------------------------------------------------------------------------------- */

static struct {
	bool on;          /* there is a board on the loopback whose network is asked */
	int errnum;       /* of its sockets; 0: there are some */
	unsigned answers; /* that each question has at once, the last of them for host7 */
	time_t away_s;    /* so long the asking thread has had no core since */
} asked;

int __real_thole_interface_info(unsigned index, struct thole_interface_info *info_p);
int __wrap_thole_interface_info(unsigned index, struct thole_interface_info *info_p);
int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);

int __wrap_thole_interface_info(unsigned index, struct thole_interface_info *info_p)
{
	if (!asked.on)
		return __real_thole_interface_info(index, info_p);
	if (index > 0)
		return error_set(THOLE_ERR_NOT_FOUND, "there are no more");
	*info_p = (struct thole_interface_info){
		.name = "lo", .address = "127.0.0.1", .mac = "02:83:00:00:00:0f", .mtu = 1500, .up = 1, .chosen = 1};
	return 0;
}

int __wrap_socket(int family, int type, int protocol)
{
	if (!asked.on || !asked.errnum)
		return __real_socket(family, type, protocol);
	errno = asked.errnum;
	return -1;
}

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
ssize_t __real_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int error = __real_clock_gettime(clock, time);

	time->tv_sec += asked.away_s;
	return error;
}

/* A question to the group. */
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	struct mxi_notice here = {.type = MXI_NOTICE_HERE, .from_name = "host7:0"};
	uint8_t answer[MXI_NOTICE_BYTES_MAX];
	struct sockaddr_in asker;
	socklen_t asker_size = sizeof(asker);

	(void)bytes, (void)flags, (void)to, (void)size;
	assert_int_equal(getsockname(fd, (struct sockaddr *)&asker, &asker_size), 0);
	for (unsigned left = asked.answers; left > 0; left--) {
		size_t answer_length;

		here.from.nic_id = 0x028300000007 + left - 1;
		here.from_name[0] = left == 1 ? 'h' : 'H';
		here.from_name[1] = left == 1 ? 'o' : '-';
		answer_length = mxi_notice_encode(&here, answer);
		assert_int_equal(__real_sendto(fd, answer, answer_length, 0, (struct sockaddr *)&asker, asker_size),
				 answer_length);
	}
	asked.away_s += asked.answers > 0;
	return (ssize_t)length;
}

static int setup_asked(void **state)
{
	(void)state;
	setenv("THOLE_MX_GROUP", "239.255.86.223", 1);
	asked.on = true;
	asked.errnum = 0;
	asked.answers = 0;
	return 0;
}

static int teardown_asked(void **state)
{
	(void)state;
	setenv("THOLE_MX_GROUP", "off", 1);
	asked.on = false;
	return 0;
}

/* Who cannot ask does not know that there is none. */
static void search__without_descriptors(void **state)
{
	char name[MX_MAX_HOSTNAME_LEN];
	uint64_t nic_id = 17;

	(void)state;
	asked.errnum = EMFILE;
	assert_int_equal(mxi_names_to_nic("host7", &nic_id), MX_NO_RESOURCES);
	assert_non_null(strstr(thole_detail(), "cannot ask the network of lo"));
	assert_int_equal(mxi_names_of_nic(0x028300000007, name), MX_NO_RESOURCES);
	asked.errnum = EADDRNOTAVAIL; /* there is no such network */
	assert_int_equal(mxi_names_to_nic("host7", &nic_id), MX_HOST_NOT_FOUND);
	assert_true(nic_id == 17);
}

/* It looks at the clock only then: what was sent in time is there. */
static void search__by_who_had_no_core_meanwhile(void **state)
{
	uint64_t nic_id = 0;

	(void)state;
	asked.answers = 3;
	assert_int_equal(mxi_names_to_nic("host7", &nic_id), MX_SUCCESS);
	assert_true(nic_id == 0x028300000007);
}

static void look(void)
{
	mxi_known_list(NULL, 0);
}

/* The first in this program, so that the table is used for the first time. */
static void fork__amid_the_first_look(void **state)
{
	(void)state;
	atfork_try(look);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file__is_where_the_options_say),
		cmocka_unit_test(fork__amid_the_first_look),
		cmocka_unit_test(nic__is_read_in_its_spellings),
		cmocka_unit_test(line__is_read),
		cmocka_unit_test(line__may_say_nothing),
		cmocka_unit_test(line__that_is_wrong_says_how),
		cmocka_unit_test(file__is_read_again_when_it_changes),
		cmocka_unit_test(file__with_bad_lines_gives_the_good_ones),
		cmocka_unit_test(file__that_cannot_be_read_says_so),
		cmocka_unit_test(file__is_read_once_there_is_room),
		cmocka_unit_test(name__is_found_whatever_its_case),
		cmocka_unit_test(name__that_nobody_has_is_not_found),
		cmocka_unit_test(own_boards__have_names),
		cmocka_unit_test(heard__is_known_but_the_file_wins),
		cmocka_unit_test(heard__is_bounded_and_forgets_the_first),
		cmocka_unit_test_setup_teardown(search__without_descriptors, setup_asked, teardown_asked),
		cmocka_unit_test_setup_teardown(search__by_who_had_no_core_meanwhile, setup_asked, teardown_asked),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
