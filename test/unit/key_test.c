/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's job key: made once however many want it at once, believed only where nobody else can have read or written
 * it.
 *
 * link is replaced (by the linker's --wrap): it may be refused, as by file systems without links.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/key.h"
#include "descriptors.h"
#include "thole.h"

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);

static int link_error;
static const char *before_link; /* what somebody else is the first to write */
static char folder[] = "/tmp/thole-key-XXXXXX", path[64];

int __wrap_link(const char *from, const char *to)
{
	if (before_link) {
		FILE *file = fopen(to, "w");

		assert_non_null(file);
		assert_int_equal(fchmod(fileno(file), 0600), 0);
		assert_true(fputs(before_link, file) >= 0);
		assert_int_equal(fclose(file), 0);
	}
	if (!link_error)
		return __real_link(from, to);
	errno = link_error;
	return -1;
}

static int folder_make(void **state)
{
	(void)state;
	link_error = 0;
	before_link = NULL;
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/a/b/job_key", folder);
	return 0;
}

static int entry_remove(const char *name, const struct stat *status, int type, struct FTW *place)
{
	(void)status, (void)type, (void)place;
	return remove(name);
}

static int folder_remove(void **state)
{
	(void)state;
	return nftw(folder, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static int files;

static int entry_count(const char *name, const struct stat *status, int type, struct FTW *place)
{
	(void)name, (void)status, (void)place;
	files += type == FTW_F;
	return 0;
}

/* Nothing lies about but the key. */
static void alone_check(void)
{
	files = 0;
	assert_int_equal(nftw(folder, entry_count, 8, FTW_PHYS), 0);
	assert_int_equal(files, 1);
}

static void key_write(const char *text, mode_t mode)
{
	uint64_t key;
	FILE *file;

	if (access(path, F_OK) != 0)
		assert_int_equal(key_load(path, &key), 0); /* for its folders */
	(void)unlink(path); /* who is not root cannot write one of mode 0400 */
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void refused_check(int expected, const char *part)
{
	uint64_t key = 77;

	assert_int_equal(key_load(path, &key), expected);
	if (!strstr(thole_detail(), part) || !strstr(thole_detail(), path))
		fail_msg("\"%s\" does not say \"%s\" of %s", thole_detail(), part, path);
}

static void make__once(void **state)
{
	uint64_t first = 0, again = 0;
	struct stat status;
	mode_t mask = umask(0);

	(void)state;
	assert_int_equal(key_load(path, &first), 0);
	umask(mask);
	assert_true(first != 0);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0700);
	path[strlen(path)] = '/';
	assert_int_equal(key_load(path, &again), 0);
	assert_true(first == again);
	alone_check();
	/* Another home has another. */
	strcpy(path + strlen(path) - strlen("job_key"), "other");
	assert_int_equal(key_load(path, &again), 0);
	assert_true(first != again);
}

static void make__without_links(void **state)
{
	static const int errors[] = {EPERM, EOPNOTSUPP};
	uint64_t first, again;

	(void)state;
	for (int i = 0; i < 2; i++) {
		link_error = errors[i];
		(void)unlink(path);
		assert_int_equal(key_load(path, &first), 0);
		assert_int_equal(key_load(path, &again), 0);
		assert_true(first == again);
		alone_check();
	}
	link_error = EIO;
	(void)unlink(path);
	refused_check(THOLE_ERR_SYSTEM, "cannot be made");
}

/* Whoever is first makes the key of all, with links and without. */
static void make__another_is_first(void **state)
{
	uint64_t key;

	(void)state;
	before_link = "4711";
	for (int i = 0; i < 2; i++) {
		link_error = i ? EPERM : 0;
		(void)unlink(path);
		assert_int_equal(key_load(path, &key), 0);
		assert_true(key == 4711);
		alone_check();
	}
}

/* Whatever modes a user's files have as a rule; and no descriptor stays. */
static void make__whatever_the_mask(void **state)
{
	int before = descriptors_open();
	struct stat status;
	uint64_t key;
	mode_t mask;

	(void)state;
	assert_int_equal(key_load(path, &key), 0); /* the folders, too */
	assert_int_equal(unlink(path), 0);
	mask = umask(0777);
	assert_int_equal(key_load(path, &key), 0);
	umask(mask);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(descriptors_open(), before);
}

static pthread_barrier_t start;

static void *loader(void *key_p)
{
	pthread_barrier_wait(&start);
	return key_load(path, key_p) == 0 ? NULL : key_p;
}

static void make__by_many_at_once(void **state)
{
	enum { MANY = 16 };
	pthread_t threads[MANY];
	uint64_t keys[MANY];
	void *failed;

	(void)state;
	for (int turn = 0; turn < 50; turn++) {
		(void)unlink(path);
		pthread_barrier_init(&start, NULL, MANY);
		for (int i = 0; i < MANY; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, loader, &keys[i]), 0);
		for (int i = 0; i < MANY; i++) {
			assert_int_equal(pthread_join(threads[i], &failed), 0);
			assert_null(failed);
			assert_true(keys[i] == keys[0]);
		}
		alone_check();
	}
}

static void make__impossible(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/proc/self/thole/job_key");
	refused_check(THOLE_ERR_SYSTEM, "job_key");
}

static void read__what_users_write(void **state)
{
	uint64_t key;

	(void)state;
	key_write("12345\n", 0600);
	assert_int_equal(key_load(path, &key), 0);
	assert_true(key == 12345);
	key_write("0xFEDCBA9876543210", 0400);
	assert_int_equal(key_load(path, &key), 0);
	assert_true(key == 0xfedcba9876543210);
	key_write("010\r\n", 0600);
	assert_int_equal(key_load(path, &key), 0);
	assert_true(key == 10);
}

static void refused__what_is_no_key(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"0\n",
		"0x0",
		"x",
		"0x",
		"-5",
		"12 34",
		" 5",
		"18446744073709551616",
		"0x1ffffffffffffffff",
		"none",
		/* whose first bytes would be a number */
		"000000000000000000000000000000000000000000000000000000000001234567890",
		"1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		key_write(texts[i], 0600);
		refused_check(THOLE_ERR_ARGUMENT, "64 bits");
	}
}

static void refused__what_others_can_have_read(void **state)
{
	static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0666};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		key_write("5\n", modes[i]);
		refused_check(THOLE_ERR_ACCESS, "open to others");
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	refused_check(THOLE_ERR_ACCESS, "no file");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* and nobody waits for a writer */
	refused_check(THOLE_ERR_ACCESS, "no file");
}

static void refused__what_is_anothers(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	key_write("5\n", 0600);
	assert_int_equal(chown(path, 65534, 65534), 0);
	refused_check(THOLE_ERR_ACCESS, "belongs to user 65534");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(make__once, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(make__without_links, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(make__another_is_first, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(make__whatever_the_mask, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(make__by_many_at_once, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(make__impossible, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(read__what_users_write, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(refused__what_is_no_key, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(refused__what_others_can_have_read, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(refused__what_is_anothers, folder_make, folder_remove),
	};

	return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
