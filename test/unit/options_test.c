/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option table: text to values and back, and which source wins.
 *
 * Each test has a directory of its own as home, and an environment without THOLE_*.
 */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "base/options.h"

#define SIXTY_FOUR "0123456789012345678901234567890123456789012345678901234567890123"

static struct options defaults;
static char home[] = "/tmp/thole-options-XXXXXX";

static int asked; /* how often for a user's home */

int __real_getpwuid_r(uid_t uid, struct passwd *user, char *text, size_t size, struct passwd **user_p);
int __wrap_getpwuid_r(uid_t uid, struct passwd *user, char *text, size_t size, struct passwd **user_p);

int __wrap_getpwuid_r(uid_t uid, struct passwd *user, char *text, size_t size, struct passwd **user_p)
{
	asked++;
	return __real_getpwuid_r(uid, user, text, size, user_p);
}

static void environment_clear(void)
{
	char name[128];

	for (char **variable = environ; *variable;) {
		if (strncmp(*variable, "THOLE_", 6) != 0) {
			variable++;
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*variable, "="), *variable);
		unsetenv(name);
		variable = environ;
	}
}

static int home_make(void **state)
{
	(void)state;
	strcpy(home + strlen(home) - 6, "XXXXXX");
	if (!mkdtemp(home))
		return -1;
	environment_clear();
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", home, 1);
	setenv("THOLE_OPTIONS_FILE", "", 1); /* no file, not even this machine's */
	return options_load(&defaults, NULL);
}

static int entry_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status, (void)type, (void)place;
	return remove(path);
}

static int home_remove(void **state)
{
	(void)state;
	return nftw(home, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Write a file below the test's home, with the directories to it; path is static. */
static const char *file_write(const char *name, const char *text)
{
	static char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", home, name);
	for (char *slash = path + strlen(home) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	return path;
}

static void text_check(const struct options *options, const char *name, const char *expected)
{
	char text[OPTION_TEXT_MAX];

	assert_int_equal(options_get_text(options, name, text, sizeof(text)), 0);
	assert_string_equal(text, expected);
}

static void detail_check(const char *part)
{
	if (!strstr(thole_detail(), part))
		fail_msg("\"%s\" is not in \"%s\"", part, thole_detail());
}

/* What the defaults are is the table's business, that they are what an endpoint gets is tested
 * here. */
static void load__defaults(void **state)
{
	struct thole_option_info info;
	struct options options;
	char path[OPTIONS_PATH_MAX];

	(void)state;
	assert_int_equal(options_load(&options, NULL), 0);
	assert_string_equal(options.warning, "");
	assert_string_equal(options_origin_text(&options, "spin", path), "default");
	for (unsigned i = 0; thole_option_info(i, &info) == 0; i++) {
		text_check(&options, info.name, info.fallback);
		assert_string_equal(info.value, info.fallback);
	}
	assert_int_equal(options.progress_thread, 0);
	assert_int_equal(options.bulk, OPTION_BULK_AUTO);
	assert_int_equal(options.one_copy, 1);
}

/* A row's own texts must be good: the default is accepted as it stands, and comes out as it went
 * in. */
static void table__each_row_is_sound(void **state)
{
	struct thole_option_info info;
	struct options options;
	unsigned count = 0;

	(void)state;
	for (; thole_option_info(count, &info) == 0; count++) {
		assert_int_equal(options_load(&options, NULL), 0);
		assert_int_equal(options_set(&options, info.name, info.fallback, false), 0);
		text_check(&options, info.name, info.value);
		assert_true(strlen(info.help) > 10);
		assert_true(strlen(info.name) < 32);
		assert_string_equal(strstr(info.origin, "/job_key") ? "key" : "default",
				    strcmp(info.kind, "key") == 0 ? "key" : "default");
		if (strcmp(info.kind, "choice") == 0)
			assert_non_null(strchr(info.choices, ','));
		else if (strcmp(info.kind, "text") == 0)
			assert_true(info.min == 0 && info.max == 0 && info.choices[0] == '\0');
		else
			assert_true(info.min < info.max && info.choices[0] == '\0');
	}
	assert_int_equal(count, OPTIONS_COUNT);
	assert_int_equal(thole_option_info(count, &info), THOLE_ERR_NOT_FOUND);
	assert_int_equal(thole_option_info(0, NULL), THOLE_ERR_ARGUMENT);
}

static void set__numbers_and_units(void **state)
{
	static const struct {
		const char *name, *text;
		uint64_t value;
		const char *back;
	} good[] = {
		{"eager_max", "0", 0, "0"},
		{"eager_max", "1", 1, "1"},
		{"eager_max", "1025", 1025, "1025"},
		{"eager_max", "1K", 1024, "1k"},
		{"eager_max", "64 KiB", 65536, "64k"},
		{"eager_max", "1m", 1 << 20, "1m"},
		{"eager_max", "1048576", 1 << 20, "1m"},
		{"eager_max", "12b", 12, "12"},
		{"eager_max", "0x10", 16, "16"},
		{"ethertype", "0x88B5", 0x88b5, "34997"},
		{"unexpected_max", "3g", UINT64_C(3) << 30, "3g"},
		{"unexpected_max", "1t", UINT64_C(1) << 40, "1024g"},
		{"sends_max", "16m", 16 << 20, "16777216"},
		{"sends_max", "1000", 1000, "1000"},
		{"spin", "0", 0, "0"},
		{"spin", "1500", 1500, "1500ns"},
		{"spin", "1500us", 1500000, "1500us"},
		{"spin", "2000 us", 2000000, "2ms"},
		{"spin", "10s", UINT64_C(10000000000), "10s"},
		{"progress_thread", "yes", 1, "on"},
		{"progress_thread", "ON", 1, "on"},
		{"progress_thread", "1", 1, "on"},
		{"progress_thread", "true", 1, "on"},
		{"one_copy", "off", 0, "off"},
		{"one_copy", "No", 0, "off"},
		{"one_copy", "0", 0, "off"},
		{"one_copy", "false", 0, "off"},
		{"yield", "always", OPTION_YIELD_ALWAYS, "always"},
		{"yield", "never", OPTION_YIELD_NEVER, "never"},
		{"bulk", "ring", OPTION_BULK_RING, "ring"},
		{"bulk", "One-Copy", OPTION_BULK_ONE_COPY, "one-copy"},
		{"bulk", "cooperative", OPTION_BULK_COOPERATIVE, "cooperative"},
	};
	struct options options;

	(void)state;
	assert_int_equal(options_load(&options, NULL), 0);
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct options before = options;

		assert_int_equal(options_set(&options, good[i].name, good[i].text, false), 0);
		text_check(&options, good[i].name, good[i].back);
		/* What it prints it reads. */
		assert_int_equal(options_set(&before, good[i].name, good[i].back, false), 0);
		text_check(&before, good[i].name, good[i].back);
	}
	assert_int_equal(options_set(&options, "eager_max", "64 KiB", true), 0);
	assert_int_equal(options.eager_max, 65536);
	assert_int_equal(options_set(&options, "spin", "1500us", true), 0);
	assert_int_equal(options.spin, 1500000);
	assert_int_equal(options.bulk, OPTION_BULK_COOPERATIVE);
	assert_int_equal(options.yield, OPTION_YIELD_NEVER);
}

static void set__bad_values(void **state)
{
	static const char *const bad[][2] = {
		{"eager_max", ""},
		{"eager_max", "k"},
		{"eager_max", "-1"},
		{"eager_max", "+1"},
		{"eager_max", "0x"},
		{"eager_max", "0x10k"},
		{"eager_max", "0xfffffffffffffffff"}, /* 17 digits */
		{"ethertype", "0x10000"},
		{"job_key", "x"},
		{"job_key", ""},
		{"host", SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR}, /* 256 bytes */
		{"eager_max", "1.5k"},
		{"eager_max", "1kk"},
		{"eager_max", "1us"},
		{"eager_max", "1025k"},
		{"eager_max", "18446744073709551616"}, /* 2^64 */
		{"eager_max", "18014398509481984k"},   /* 2^64 */
		{"unexpected_max", "63k"},
		{"unexpected_max", "2t"},
		{"spin", "11s"},
		{"spin", "1k"},
		{"sends_max", "0"},
		{"progress_thread", "2"},
		{"progress_thread", "onn"},
		{"progress_thread", ""},
		{"yield", "auto,always"},
		{"yield", "aut"},
		{"yield", ""},
		{"bulk", "1"},
	};
	struct options options, before;

	(void)state;
	assert_int_equal(options_load(&options, NULL), 0);
	before = options;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(options_set(&options, bad[i][0], bad[i][1], false),
				 THOLE_ERR_ARGUMENT);
		detail_check(bad[i][0]);
		assert_memory_equal(&options, &before, sizeof(options));
	}
	assert_int_equal(options_set(&options, "eager_max", NULL, false), THOLE_ERR_ARGUMENT);
}

static void set__errors_say_what_is_allowed(void **state)
{
	struct options options;
	char text[4];

	(void)state;
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_equal(options_set(&options, "eager_max", "2m", false), THOLE_ERR_ARGUMENT);
	detail_check("option eager_max: \"2m\" must be a size (number, or number with k, m or g) "
		     "from 0 to 1m;"
		     " the default is ");
	assert_int_equal(options_set(&options, "yield", "x", false), THOLE_ERR_ARGUMENT);
	assert_string_equal(
		thole_detail(),
		"option yield: \"x\" must be one of auto,always,never; the default is auto");
	assert_int_equal(options_set(&options, "one_copy", "x", false), THOLE_ERR_ARGUMENT);
	detail_check("on or off");
	assert_int_equal(options_set(&options, "spin", "x", false), THOLE_ERR_ARGUMENT);
	detail_check("from 0 to 10s");
	assert_int_equal(options_set(&options, "eager", "1", false), THOLE_ERR_NOT_FOUND);
	detail_check("\"eager\"");
	assert_int_equal(options_set(&options, NULL, "1", false), THOLE_ERR_NOT_FOUND);
	assert_int_equal(options_set(&options, "bulk_ring", "1m", true), THOLE_ERR_BUSY);
	detail_check("\"bulk_ring=1m\"");
	assert_int_equal(options.bulk_ring, defaults.bulk_ring);
	assert_int_equal(options_set(&options, "bulk_ring", "1m", false), 0);
	assert_int_equal(options.bulk_ring, 1 << 20);
	assert_int_equal(options_set(&options, "eager_max", "32k", false), 0);
	assert_int_equal(options_get_text(&options, "eager", text, sizeof(text)),
			 THOLE_ERR_NOT_FOUND);
	assert_int_equal(options_get_text(&options, "eager_max", text, 3), THOLE_ERR_ARGUMENT);
	assert_int_equal(options_get_text(&options, "eager_max", NULL, 100), THOLE_ERR_ARGUMENT);
	assert_int_equal(options_get_text(&options, "eager_max", text, 4), 0);
	assert_string_equal(text, "32k");
}

static void set__text(void **state)
{
	char longest[OPTION_TEXT_MAX];
	struct options options;

	(void)state;
	memset(longest, 'h', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(options_load(&options, (const char *const[]){"host=a b=c", NULL}), 0);
	assert_string_equal(options.host, "a b=c");
	text_check(&options, "host", "a b=c");
	assert_int_equal(options_set(&options, "host", longest, false), 0);
	assert_string_equal(options.host, longest);
	text_check(&options, "host", longest);
	assert_int_equal(options_set(&options, "host", "", false), 0);
	text_check(&options, "host", "");
	assert_int_equal(options.interface[0], '\0'); /* its neighbour */
	assert_int_equal(options_set(&options, "host", "x", true), THOLE_ERR_BUSY);
}

/* No way of asking shows a key, and no error repeats it. */
static void key__is_never_shown(void **state)
{
	struct thole_option_info info;
	struct options options;
	char text[OPTION_TEXT_MAX];
	bool seen = false;

	(void)state;
	setenv("THOLE_JOB_KEY", "18446744073709551557", 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_true(options.job_key == UINT64_MAX - 58);
	assert_int_equal(options_get_text(&options, "job_key", text, sizeof(text)), 0);
	assert_string_equal(text, "hidden");
	for (unsigned i = 0; thole_option_info(i, &info) == 0; i++) {
		assert_null(strstr(info.value, "5515"));
		if (strcmp(info.name, "job_key") != 0)
			continue;
		seen = true;
		assert_string_equal(info.kind, "key");
		assert_string_equal(info.value, "hidden");
		assert_string_equal(info.origin, "environment");
	}
	assert_true(seen);
	assert_int_equal(options_set(&options, "job_key", "0xFEDCBA9876543210", false), 0);
	assert_true(options.job_key == 0xfedcba9876543210);
	setenv("THOLE_JOB_KEY", "secret-5515", 1);
	assert_int_equal(options_load(&options, NULL), THOLE_ERR_ARGUMENT);
	detail_check("job_key");
	assert_null(strstr(thole_detail(), "5515"));
	assert_int_equal(options_set(&options, "job_key", "5515", true), THOLE_ERR_BUSY);
	assert_null(strstr(thole_detail(), "5515"));
	assert_int_equal(options_load(&options, (const char *const[]){"job_key=secret-5515", NULL}),
			 THOLE_ERR_ARGUMENT);
	assert_null(strstr(thole_detail(), "5515"));
}

static void key__is_the_users(void **state)
{
	struct options first, again, other;
	char path[OPTIONS_PATH_MAX], text[OPTIONS_PATH_MAX];

	(void)state;
	assert_int_equal(options_load(&first, NULL), 0);
	assert_true(first.job_key == 0); /* nothing is made, nor read, before it is needed */
	snprintf(path, sizeof(path), "%s/.config/thole/job_key", home);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(options_key(&first), 0);
	assert_true(first.job_key != 0);
	assert_int_equal(access(path, F_OK), 0);
	text_check(&first, "job_key", "file");
	assert_string_equal(options_origin_text(&first, "job_key", text), path);
	assert_int_equal(options_load(&again, (const char *const[]){"job_key=FILE", NULL}), 0);
	assert_int_equal(options_key(&again), 0);
	assert_true(again.job_key == first.job_key);
	/* Another folder, another key. Who has one need not be known to whatever says what homes there are. */
	snprintf(path, sizeof(path), "%s/config", home);
	setenv("XDG_CONFIG_HOME", path, 1);
	unsetenv("HOME");
	asked = 0;
	assert_int_equal(options_load(&other, NULL), 0);
	assert_int_equal(options_key(&other), 0);
	assert_int_equal(asked, 0);
	assert_true(other.job_key != 0 && other.job_key != first.job_key);
	strcat(path, "/thole/job_key");
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(options_key(&other), THOLE_ERR_ACCESS);
	detail_check(path);
}

static void key__of_a_home_that_is_asked_for(void **state)
{
	struct options options;
	char path[OPTIONS_PATH_MAX];

	(void)state;
	unsetenv("HOME");
	asked = 0;
	assert_int_equal(options_load(&options, NULL), 0);
	assert_non_null(options_origin_text(&options, "job_key", path));
	assert_true(asked > 0);
}

static void key__by_choice(void **state)
{
	static const char *const none[] = {"job_key=none", "job_key=0"}, *const others[] = {"7", "none"};
	struct options options;
	char folder[64];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(options_load(&options, (const char *const[]){none[i], NULL}), 0);
		assert_int_equal(options_key(&options), 0);
		assert_true(options.job_key == 0);
		text_check(&options, "job_key", "0");
		/* The last word counts. */
		assert_int_equal(options_set(&options, "job_key", "file", false), 0);
		assert_int_equal(options_set(&options, "job_key", others[i], false), 0);
		assert_int_equal(options_key(&options), 0);
		assert_true(options.job_key == (i ? 0 : 7));
	}
	snprintf(folder, sizeof(folder), "%s/.config", home);
	assert_int_equal(access(folder, F_OK), -1);
}

/* As sudo may leave it: root's key does not go to the user's home. And somebody without one. */
static void key__of_a_home_that_is_anothers(void **state)
{
	struct options options;
	char path[OPTIONS_PATH_MAX];
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(options_load(&options, NULL), 0);
	assert_non_null(strstr(options_origin_text(&options, "job_key", path), home));
	assert_int_equal(chown(home, 65534, 65534), 0);
	assert_null(strstr(options_origin_text(&options, "job_key", path), home));
	if (fork() == 0)
		_exit(setuid(54321) != 0 || options_key(&options) != THOLE_ERR_NOT_FOUND ||
		      !strstr(thole_detail(), "54321"));
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

static void defaults__look_at_nothing_outside(void **state)
{
	struct options options;

	(void)state;
	setenv("THOLE_OPTIONS_FILE", file_write("options", "spin = 1us\n"), 1);
	setenv("THOLE_EAGER_MAX", "1", 1);
	assert_int_equal(options_defaults(&options, (const char *const[]){"multi_min=5", NULL}), 0);
	assert_int_equal(options.spin, defaults.spin);
	assert_int_equal(options.eager_max, defaults.eager_max);
	assert_int_equal(options.multi_min, 5);
	assert_int_equal(options_defaults(&options, (const char *const[]){"nonsense=5", NULL}), THOLE_ERR_ARGUMENT);
}

static void load__later_sources_win(void **state)
{
	static const char *const strings[] = {"bulk_piece=8k", NULL};
	struct options options;
	char path[OPTIONS_PATH_MAX];
	const char *file;

	(void)state;
	file = file_write("my-options", "# written by hand\n"
					"eager_max=4k\n"
					"  multi_min = 1k   # a comment\r\n"
					"\n"
					"spin=1us\n"
					"spin=2us\n"
					"bulk_piece=2k");
	setenv("THOLE_OPTIONS_FILE", file, 1);
	setenv("THOLE_MULTI_MIN", "2k", 1);
	setenv("THOLE_BULK_PIECE", "4k", 1);
	setenv("THOLE_SENDS_MAX", "", 1); /* as good as not set */
	assert_int_equal(options_load(&options, strings), 0);
	assert_string_equal(options.warning, "");
	assert_int_equal(options.eager_max, 4096);
	assert_int_equal(options.spin, 2000);
	assert_int_equal(options.multi_min, 2048);
	assert_int_equal(options.bulk_piece, 8192);
	assert_int_equal(options.sends_max, defaults.sends_max);
	assert_string_equal(options_origin_text(&options, "eager_max", path), file);
	assert_string_equal(options_origin_text(&options, "multi_min", path), "environment");
	assert_string_equal(options_origin_text(&options, "bulk_piece", path), "open");
	assert_string_equal(options_origin_text(&options, "sends_max", path), "default");
	assert_int_equal(options_set(&options, "bulk_piece", "16k", true), 0);
	assert_string_equal(options_origin_text(&options, "bulk_piece", path), "set");
	assert_string_equal(options_origin_text(&options, "none", path), "");
}

/* Nobody fills the rings of those who wait for a core, unless he is told to. */
static void load__asks_sooner_where_ranks_share_cores(void **state)
{
	static const char *const wanted[] = {"eager_max=256k", NULL}, *const less[] = {"eager_max=16k", NULL};
	struct options options;

	(void)state;
	setenv("MPI_LOCALNRANKS", "1", 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_false(host_oversubscribed(options.local_ranks));
	text_check(&options, "eager_max", "256k");
	setenv("MPI_LOCALNRANKS", "100000", 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_true(host_oversubscribed(options.local_ranks));
	text_check(&options, "eager_max", "64k");
	assert_int_equal(options_load(&options, wanted), 0);
	text_check(&options, "eager_max", "256k");
	assert_int_equal(options_load(&options, less), 0);
	text_check(&options, "eager_max", "16k");
	unsetenv("MPI_LOCALNRANKS");
}

/* All that launchers may have said; tests may be started by one. */
static void launcher_clear(void)
{
	static const char *const names[] = {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE",
					    "PMI_LOCAL_SIZE",  "PALS_LOCAL_SIZE",
					    "SLURM_NODEID",    "SLURM_STEP_TASKS_PER_NODE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

static uint64_t launched(const char *tasks, const char *node)
{
	struct options options;

	launcher_clear();
	if (tasks)
		setenv("SLURM_STEP_TASKS_PER_NODE", tasks, 1);
	if (node)
		setenv("SLURM_NODEID", node, 1);
	assert_int_equal(options_load(&options, NULL), 0);
	launcher_clear();
	return options.local_ranks;
}

/* Slurm tells of all nodes. What is not of its form says nothing, and is no error. */
static void load__ranks_of_slurms_node(void **state)
{
	(void)state;
	assert_int_equal(launched("4(x2),3", "0"), 4);
	assert_int_equal(launched("4(x2),3", "1"), 4);
	assert_int_equal(launched("4(x2),3", "2"), 3);
	assert_int_equal(launched("4(x2),3", "3"), 0);
	assert_int_equal(launched("5,64(x3)", "3"), 64);
	assert_int_equal(launched("8", "0"), 8);
	assert_int_equal(launched("8,1", "1"), 0);
	assert_int_equal(launched("8", NULL), 0);
	assert_int_equal(launched(NULL, "0"), 0);
	for (int i = 0; i < 10; i++) {
		static const char *const odd[] = {"",  "x",   "-4",	"4(x2", "4(x0),3",
						  "4;3", "4(y2),3", "4,", ",4", "99999999999999999999"};

		assert_int_equal(launched(odd[i], "1"), 0);
	}
	for (int i = 0; i < 3; i++) {
		static const char *const odd[] = {"", "-1", "1x"};

		assert_int_equal(launched("4(x9)", odd[i]), 0);
	}
}

/* A launcher that Slurm starts on each host, with one task there, knows better. */
static void load__ranks_as_the_nearest_launcher_says(void **state)
{
	struct options options;

	(void)state;
	setenv("SLURM_STEP_TASKS_PER_NODE", "1(x4)", 1);
	setenv("SLURM_NODEID", "2", 1);
	setenv("PALS_LOCAL_SIZE", "12", 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_equal(options.local_ranks, 12);
	setenv("MPI_LOCALNRANKS", "24", 1);
	unsetenv("PALS_LOCAL_SIZE");
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_equal(options.local_ranks, 24);
	launcher_clear();
}

enum { RANKS = 24, OTHER = 65534 };

/* The status of a process that has more rights than its user. */
static int privileged_status(void)
{
	struct options options;

	if (!getauxval(AT_SECURE))
		return 77;
	if (options_load(&options, NULL) != 0)
		return 2;
	return options.local_ranks == RANKS && options.progress_thread == 0 ? 0 : 1;
}

/* It takes no options from its environment, but a number that its launcher has told. */
static void load__ranks_of_privileged_programs(void **state)
{
	char command[512];
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(command, sizeof(command),
		 "cd %s && chmod 755 . && cp /proc/%d/exe copy && chown %d copy && chmod 4755 copy && "
		 "MPI_LOCALNRANKS=%d THOLE_PROGRESS_THREAD=on ./copy privileged",
		 home, (int)getpid(), OTHER, RANKS);
	status = system(command);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* no file there gives rights */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void load__user_file_in_its_places(void **state)
{
	struct thole_option_info info;
	struct options options;
	char xdg[256];
	const char *file;

	(void)state;
	unsetenv("THOLE_OPTIONS_FILE");
	file = file_write(".config/thole/options", "multi_min=77\n");
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_equal(options.multi_min, 77);
	assert_int_equal(thole_option_info(OPTION_INDEX_multi_min, &info), 0);
	assert_string_equal(info.value, "77");
	assert_int_not_equal(options.multi_min, defaults.multi_min);
	assert_string_equal(info.origin, file);
	snprintf(xdg, sizeof(xdg), "%s/xdg", home);
	setenv("XDG_CONFIG_HOME", xdg, 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_not_equal(options.multi_min, 77);
	file_write("xdg/thole/options", "multi_min=78\n");
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_equal(options.multi_min, 78);
	setenv("THOLE_OPTIONS_FILE", "", 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_equal(options.multi_min, defaults.multi_min);
}

static void load__unknown_names_are_skipped_with_a_warning(void **state)
{
	struct options options;

	(void)state;
	setenv("THOLE_OPTIONS_FILE", file_write("o", "from_the_future = 3\nspin=3us\n"), 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_int_equal(options.spin, 3000);
	assert_non_null(strstr(options.warning, "from_the_future"));
	assert_non_null(strstr(options.warning, home));
	setenv("THOLE_OPTIONS_FILE", "", 1);
	setenv("THOLE_EAGERMAX", "3", 1);
	assert_int_equal(options_load(&options, NULL), 0);
	assert_non_null(strstr(options.warning, "THOLE_EAGERMAX"));
}

static void load__bad_values_fail_and_the_rest_is_good(void **state)
{
	static const char *const strings[] = {"multi_min=5", NULL};
	struct options options;

	(void)state;
	setenv("THOLE_OPTIONS_FILE", file_write("o", "\neager_max = 2m\nspin=3us\nyield=x\n"), 1);
	assert_int_equal(options_load(&options, strings), THOLE_ERR_ARGUMENT);
	detail_check("/o, line 2: option eager_max: \"2m\" must be");
	assert_int_equal(options.eager_max, defaults.eager_max);
	assert_int_equal(options.spin, 3000);
	assert_int_equal(options.multi_min, 5);
	setenv("THOLE_OPTIONS_FILE", file_write("o", "spin 3us\n"), 1);
	assert_int_equal(options_load(&options, NULL), THOLE_ERR_ARGUMENT);
	detail_check("/o, line 1: \"spin 3us\" is not of the form name = value");
	setenv("THOLE_OPTIONS_FILE", "", 1);
	setenv("THOLE_SPIN", "11s", 1);
	assert_int_equal(options_load(&options, NULL), THOLE_ERR_ARGUMENT);
	detail_check("environment, THOLE_SPIN: option spin: \"11s\" must be");
	assert_int_equal(options.spin, defaults.spin);
}

static void load__bad_strings(void **state)
{
	static const char *const bad[] = {"spin",  "=1",      "",         "nothing=1",
					  "spin=", "spin=-1", "spin =1us"};
	struct options options;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const strings[] = {"eager_max=1", bad[i], "multi_min=2", NULL};

		assert_int_equal(options_load(&options, strings), THOLE_ERR_ARGUMENT);
		assert_int_equal(options.eager_max, 1);
		assert_int_equal(options.multi_min, 2);
		assert_int_equal(options.spin, defaults.spin);
	}
}

static void load__named_file_must_be_readable(void **state)
{
	static char large[80000];
	struct options options;

	(void)state;
	setenv("THOLE_OPTIONS_FILE", "/nonexistent/options", 1);
	assert_int_equal(options_load(&options, NULL), THOLE_ERR_ARGUMENT);
	detail_check("/nonexistent/options cannot be read: No such file or directory");
	setenv("THOLE_OPTIONS_FILE", home, 1);
	assert_int_equal(options_load(&options, NULL), THOLE_ERR_ARGUMENT);
	memset(large, '\n', sizeof(large) - 1);
	setenv("THOLE_OPTIONS_FILE", file_write("large", large), 1);
	assert_int_equal(options_load(&options, NULL), THOLE_ERR_ARGUMENT);
	detail_check("File too large");
	assert_int_equal(options.spin, defaults.spin);
}

static void number__is_what_the_text_says(void **state)
{
	char text[OPTION_TEXT_MAX];
	uint64_t number = 0;

	(void)state;
	setenv("THOLE_EAGER_MAX", "48k", 1);
	setenv("THOLE_BULK", "ring", 1);
	setenv("THOLE_SPIN", "3us", 1);
	assert_int_equal(thole_option_number(NULL, "eager_max", &number), 0);
	assert_int_equal(number, 48 * 1024);
	assert_int_equal(thole_option_number(NULL, "spin", &number), 0);
	assert_int_equal(number, 3000);
	assert_int_equal(thole_option_number(NULL, "bulk", &number), 0);
	assert_int_equal(number, OPTION_BULK_RING);
	assert_int_equal(thole_option_get(NULL, "eager_max", text, sizeof(text)), 0);
	assert_string_equal(text, "48k");
	assert_int_equal(thole_option_number(NULL, "mx_hosts", &number), THOLE_ERR_ARGUMENT);
	detail_check("option mx_hosts is no number");
	assert_int_equal(thole_option_number(NULL, "job_key", &number), THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_option_number(NULL, "no_such", &number), THOLE_ERR_NOT_FOUND);
	unsetenv("THOLE_EAGER_MAX");
	unsetenv("THOLE_BULK");
	unsetenv("THOLE_SPIN");
}

/* What is asked for behind the last row, or is nothing that there is, is said so. */
static void check__what_there_is_none_of(void **state)
{
	struct thole_endpoint_attr attr = {.threads = (enum thole_threads)(THOLE_THREAD_SAFE + 1)};
	struct thole_capability capability;
	struct thole_interface_info interface;
	struct thole_counter_info counter;
	struct thole_endpoint *endpoint;

	(void)state;
	assert_int_equal(thole_counter_info(9999, &counter), THOLE_ERR_NOT_FOUND);
	detail_check("counter number 9999: there are ");
	assert_int_equal(thole_capability(9999, &capability), THOLE_ERR_NOT_FOUND);
	detail_check("capability number 9999: there are ");
	assert_int_equal(thole_interface_info(9999, &interface), THOLE_ERR_NOT_FOUND);
	detail_check("interface number 9999: there are ");
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), THOLE_ERR_ARGUMENT);
	detail_check("threads is 2");
}

static void check__says_what_opening_would(void **state)
{
	(void)state;
	assert_int_equal(thole_options_check(NULL), 0);
	assert_int_equal(thole_options_check((const char *const[]){"eager_max=8k", "bulk=ring", NULL}), 0);
	assert_int_equal(thole_options_check((const char *const[]){"eager_max=banana", NULL}), THOLE_ERR_ARGUMENT);
	assert_non_null(strstr(thole_detail(), "option eager_max: \"banana\" must be a size"));
	assert_int_equal(thole_options_check((const char *const[]){"job_kye=4711", NULL}), THOLE_ERR_ARGUMENT);
	detail_check("\"job_kye\" names no option"); /* whose value is nobody's to see */
	assert_int_equal(thole_options_check((const char *const[]){"no_such=1", NULL}), THOLE_ERR_ARGUMENT);
	assert_non_null(strstr(thole_detail(), "thole info options"));
	setenv("THOLE_SPIN", "5 apples", 1);
	assert_int_equal(thole_options_check(NULL), THOLE_ERR_ARGUMENT);
	assert_non_null(strstr(thole_detail(), "environment, THOLE_SPIN: "));
	unsetenv("THOLE_SPIN");
	setenv("THOLE_PREFIX", "/opt/thole", 1);
	assert_int_equal(thole_options_check(NULL), 0);
	setenv("THOLE_PREFIXES", "/opt/thole", 1);
	assert_int_equal(thole_options_check((const char *const[]){"eager_max=8k", NULL}), 1);
	assert_non_null(strstr(thole_detail(), "environment: skipped \"THOLE_PREFIXES\", which is no option of Thole"));
	assert_int_equal(thole_options_check((const char *const[]){"eager_max=banana", NULL}), THOLE_ERR_ARGUMENT);
	unsetenv("THOLE_PREFIXES");
	unsetenv("THOLE_PREFIX");
}

int main(int argc, char **argv)
{
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, home_make, home_remove)
	const struct CMUnitTest tests[] = {
		WITH_HOME(load__defaults),
		WITH_HOME(table__each_row_is_sound),
		WITH_HOME(set__numbers_and_units),
		WITH_HOME(set__bad_values),
		WITH_HOME(set__errors_say_what_is_allowed),
		WITH_HOME(set__text),
		WITH_HOME(key__is_never_shown),
		WITH_HOME(key__is_the_users),
		WITH_HOME(key__of_a_home_that_is_asked_for),
		WITH_HOME(key__by_choice),
		WITH_HOME(key__of_a_home_that_is_anothers),
		WITH_HOME(defaults__look_at_nothing_outside),
		WITH_HOME(load__later_sources_win),
		WITH_HOME(load__asks_sooner_where_ranks_share_cores),
		WITH_HOME(load__ranks_of_slurms_node),
		WITH_HOME(load__ranks_as_the_nearest_launcher_says),
		WITH_HOME(load__ranks_of_privileged_programs),
		WITH_HOME(load__user_file_in_its_places),
		WITH_HOME(load__unknown_names_are_skipped_with_a_warning),
		WITH_HOME(load__bad_values_fail_and_the_rest_is_good),
		WITH_HOME(load__bad_strings),
		WITH_HOME(load__named_file_must_be_readable),
		WITH_HOME(number__is_what_the_text_says),
		WITH_HOME(check__says_what_opening_would),
		WITH_HOME(check__what_there_is_none_of),
	};

	if (argc > 1 && strcmp(argv[1], "privileged") == 0)
		return privileged_status();
	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
