/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the values of options come from, and setting and asking for one; see options.h.
 *
 * The only file of the library that looks at the environment or at configuration files.
 */
#include "base/options.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/host.h"
#include "base/key.h"
#include "base/limits.h"
#include "base/option_text.h"

enum {
	EAGER_MAX_OVERSUBSCRIBED = 64 * 1024, /* by default, where there are more ranks than cores */
	FILE_BYTES_MAX = 65536, /* a larger file is not one of ours */
	QUOTE_MAX = 64          /* characters of somebody's text that an error repeats */
};
static const char system_path[] = "/etc/thole/options";
static const char environment_prefix[] = "THOLE_";
static const char file_variable[] = "THOLE_OPTIONS_FILE";
static const char *const no_options[] = {"PREFIX"}; /* what the tool hands on behind the prefix */

#define OPTION_ROW(name, kind, fallback, min, max, running, choices, help) \
	{#name, kind, fallback, min, max, running, choices, help, offsetof(struct options, name)},
static const struct option_row rows[OPTIONS_COUNT] = {OPTION_TABLE(OPTION_ROW)};
#undef OPTION_ROW

static uint64_t *value_of(struct options *options, const struct option_row *row)
{
	return (uint64_t *)(void *)((char *)options + row->offset);
}

static const struct option_row *row_find(const char *name, size_t length)
{
	for (unsigned i = 0; i < OPTIONS_COUNT; i++)
		if (strncasecmp(rows[i].name, name, length) == 0 && rows[i].name[length] == '\0')
			return &rows[i];
	return NULL;
}

static void value_print(const struct options *options, const struct option_row *row, char text[OPTION_TEXT_MAX])
{
	const uint64_t *value = value_of((struct options *)(uintptr_t)options, row);

	if (row->kind == OPTION_TEXT)
		memcpy(text, value, OPTION_TEXT_MAX);
	else if (row->kind == OPTION_KEY && options->key_is_file)
		strcpy(text, OPTION_KEY_FILE);
	else
		option_text_print(row, *value, text);
}

/* Parse and set, whatever the source; the error says what and what else, and the caller where. */
static int row_set(struct options *options, const struct option_row *row, const char *text,
		   enum option_origin origin)
{
	char allowed[192];
	uint64_t value = 0;

	if (!option_text_parse(row, text, &value)) {
		option_text_allowed(row, allowed, sizeof(allowed));
		return error_set(THOLE_ERR_ARGUMENT,
				 "option %s: \"%.*s\" must be %s; the default is %s", row->name,
				 QUOTE_MAX, row->kind == OPTION_KEY ? "(hidden)" : text, allowed,
				 *row->fallback ? row->fallback : "none");
	}
	if (row->kind == OPTION_TEXT)
		strcpy((char *)value_of(options, row), text);
	else
		*value_of(options, row) = value;
	if (row->kind == OPTION_KEY)
		options->key_is_file = strcasecmp(text, OPTION_KEY_FILE) == 0;
	options->origin[row - rows] = (uint8_t)origin;
	return 0;
}

/* ---- Sources ------------------------------------------------------------------------------- */

/* The first error of a load, while the rest of it goes on. */
struct load {
	struct options *options;
	int status;
	char detail[ERROR_DETAIL_MAX];
};

static void load_result(struct load *load, int status)
{
	if (status == 0 || load->status != 0)
		return;
	load->status = status;
	snprintf(load->detail, sizeof(load->detail), "%s", thole_detail());
}

static void warn_unknown(struct options *options, const char *where, const char *name,
			 size_t length)
{
	if (options->warning[0] == '\0')
		snprintf(options->warning, sizeof(options->warning),
			 "%.120s: skipped \"%.*s\", which is no option of Thole %s; thole info options lists them",
			 where, length > QUOTE_MAX ? QUOTE_MAX : (int)length, name, thole_version());
}

static char *trim(char *text)
{
	static const char blanks[] = " \t\r\n\v\f";
	size_t length;

	text += strspn(text, blanks);
	length = strlen(text);
	while (length > 0 && strchr(blanks, text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

static int line_load(struct options *options, const char *path, unsigned number, char *line,
		     enum option_origin origin)
{
	const struct option_row *row;
	char *equals, *name;

	line[strcspn(line, "#")] = '\0';
	name = trim(line);
	if (*name == '\0')
		return 0;
	equals = strchr(name, '=');
	if (!equals)
		return error_set(THOLE_ERR_ARGUMENT,
				 "%s, line %u: \"%.*s\" is not of the form name = value", path,
				 number, QUOTE_MAX, name);
	*equals = '\0';
	name = trim(name);
	row = row_find(name, strlen(name));
	if (!row) {
		warn_unknown(options, path, name, strlen(name));
		return 0;
	}
	if (row_set(options, row, trim(equals + 1), origin) != 0)
		return error_prefix(THOLE_ERR_ARGUMENT, "%s, line %u: ", path, number);
	return 0;
}

/* All of a regular file of at most FILE_BYTES_MAX as a NUL-terminated text to free; or NULL, and
 * errno. */
static char *file_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	struct stat status;
	ssize_t got = 0;
	size_t length = 0;
	int error;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) != 0)
		goto failed;
	errno = EINVAL;
	if (!S_ISREG(status.st_mode))
		goto failed;
	text = malloc(FILE_BYTES_MAX + 1);
	if (!text)
		goto failed;
	while (length <= FILE_BYTES_MAX && ((got = read(fd, text + length, FILE_BYTES_MAX + 1 - length)) > 0 ||
					    (got < 0 && errno == EINTR)))
		length += got > 0 ? (size_t)got : 0;
	if (got < 0)
		goto failed;
	errno = EFBIG;
	if (length > FILE_BYTES_MAX)
		goto failed;
	close(fd);
	text[length] = '\0';
	return text;
failed:
	error = errno;
	free(text);
	close(fd);
	errno = error;
	return NULL;
}

/* A missing file is fine unless somebody asked for that very one. */
static void file_load(struct load *load, const char *path, enum option_origin origin, bool asked)
{
	char *text = file_read(path), remedy[LIMITS_REMEDY_MAX];
	unsigned number = 1;
	char *end;

	if (!text) {
		if (limits_caused(errno))
			load_result(load, error_set(THOLE_ERR_SYSTEM, "options file %s cannot be read: %m%s", path,
						    limits_remedy(errno, remedy)));
		else if (asked || (errno != ENOENT && errno != ENOTDIR && errno != EACCES))
			load_result(load, error_set(THOLE_ERR_ARGUMENT,
						    "options file %s cannot be read: %m; repair "
						    "it, or set %s to "
						    "another or to nothing",
						    path, file_variable));
		return;
	}
	for (char *line = text; line; line = end, number++) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		load_result(load, line_load(load->options, path, number, line, origin));
	}
	free(text);
}

/* The path of the user's own file; false if there is none to be had. */
static bool user_path(char path[OPTIONS_PATH_MAX])
{
	const char *config = secure_getenv("XDG_CONFIG_HOME");
	const char *home = secure_getenv("HOME");
	int length = -1;

	/* The XDG specification has relative paths ignored. */
	if (config && config[0] == '/')
		length = snprintf(path, OPTIONS_PATH_MAX, "%s/thole/options", config);
	else if (home && home[0] == '/')
		length = snprintf(path, OPTIONS_PATH_MAX, "%s/.config/thole/options", home);
	return length > 0 && length < OPTIONS_PATH_MAX;
}

static void files_load(struct load *load)
{
	const char *named = secure_getenv(file_variable);
	char path[OPTIONS_PATH_MAX];

	if (named) {
		if (*named)
			file_load(load, named, OPTION_FROM_USER_FILE, true);
		return;
	}
	file_load(load, system_path, OPTION_FROM_SYSTEM_FILE, false);
	if (user_path(path))
		file_load(load, path, OPTION_FROM_USER_FILE, false);
}

/* One "THOLE_NAME=value" of the environment. An empty value is as good as none. */
static void variable_load(struct load *load, const char *variable)
{
	const char *equals = strchr(variable, '=');
	const char *name = variable + sizeof(environment_prefix) - 1;
	const struct option_row *row;

	if (!equals || equals[1] == '\0' || equals < name)
		return;
	for (size_t i = 0; i < sizeof(no_options) / sizeof(no_options[0]); i++)
		if (strlen(no_options[i]) == (size_t)(equals - name) &&
		    strncmp(name, no_options[i], (size_t)(equals - name)) == 0)
			return;
	row = row_find(name, (size_t)(equals - name));
	if (!row)
		warn_unknown(load->options, "environment", variable, (size_t)(equals - variable));
	else if (row_set(load->options, row, equals + 1, OPTION_FROM_ENVIRONMENT) != 0)
		load_result(load, error_prefix(THOLE_ERR_ARGUMENT, "environment, %.*s: ",
					       (int)(equals - variable), variable));
}

/* A launcher's number of this host's ranks. Not ours, so nothing odd in it is the user's mistake. */
static void ranks_load(struct load *load, const char *ranks)
{
	char variable[OPTION_TEXT_MAX];

	if (!ranks || !*ranks || strspn(ranks, "0123456789") != strlen(ranks) || strlen(ranks) > 6)
		return;
	snprintf(variable, sizeof(variable), "%sLOCAL_RANKS=%s", environment_prefix, ranks);
	variable_load(load, variable);
}

/* Slurm tells of all nodes, as in "8(x2),4", and which of them this is. One task may be a shell, or what starts all
 * ranks of the node: that says nothing. */
static void slurm_load(struct load *load)
{
	const char *tasks = getenv("SLURM_STEP_TASKS_PER_NODE"), *node = getenv("SLURM_NODEID");
	unsigned before;
	int used = 0;

	if (!tasks || !node || sscanf(node, "%u%n", &before, &used) != 1 || node[used])
		return;
	for (;;) {
		unsigned ranks, nodes = 1;
		char text[16];

		if (sscanf(tasks, "%u%n", &ranks, &used) != 1)
			return;
		tasks += used;
		used = 0;
		if (*tasks == '(' && (sscanf(tasks, "(x%u)%n", &nodes, &used) != 1 || !used))
			return;
		tasks += used;
		if (*tasks && *tasks != ',')
			return;
		if (before < nodes) {
			snprintf(text, sizeof(text), "%u", ranks);
			ranks_load(load, ranks > 1 ? text : NULL);
			return;
		}
		before -= nodes;
		tasks += *tasks == ',';
	}
}

/* What launchers call local_ranks: Hydra of MPICH and Intel MPI, Open MPI, PMI of Cray's MPI, PALS. srun may have
 * started them, once on each host. A program with more rights than its user hears it too: a number does no harm. */
static void launcher_load(struct load *load)
{
	static const char *const names[] = {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_LOCAL_SIZE",
					    "PALS_LOCAL_SIZE"};

	slurm_load(load);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ranks_load(load, getenv(names[i]));
}

static void environment_load(struct load *load)
{
	launcher_load(load);
	if (getauxval(AT_SECURE) || !environ)
		return;
	for (char **variable = environ; *variable; variable++)
		if (strncmp(*variable, environment_prefix, sizeof(environment_prefix) - 1) == 0 &&
		    strncmp(*variable, file_variable, sizeof(file_variable) - 1) != 0)
			variable_load(load, *variable);
}

static int string_load(struct options *options, const char *string)
{
	size_t length = strcspn(string, "=");
	const struct option_row *row = row_find(string, length);

	if (string[length] == '\0')
		return error_set(THOLE_ERR_ARGUMENT,
				 "option string \"%.*s\" is not of the form name=value", QUOTE_MAX,
				 string);
	if (!row)
		return error_set(
			THOLE_ERR_ARGUMENT,
			"option string \"%.*s\" names no option of Thole %s; thole info options lists them",
			length < QUOTE_MAX ? (int)length : QUOTE_MAX, string, thole_version()); /* it may be a key's */
	return row_set(options, row, string + length + 1, OPTION_FROM_OPEN);
}

static int sources_load(struct options *options, bool outside, const char *const *strings)
{
	struct load load = {.options = options};

	memset(options, 0, sizeof(*options));
	for (unsigned i = 0; i < OPTIONS_COUNT; i++)
		load_result(&load,
			    row_set(options, &rows[i], rows[i].fallback, OPTION_FROM_DEFAULT));
	if (outside) {
		files_load(&load);
		environment_load(&load);
	}
	for (; strings && *strings; strings++)
		load_result(&load, string_load(options, *strings));
	return load.status ? error_set(load.status, "%s", load.detail) : 0;
}

/* A long message that nobody has asked for fills the ring of who waits for a core, so its sender waits, too, and what
 * is behind it; unless its user wants that. */
static void eager_max_lessen(struct options *options)
{
	if (options->origin[OPTION_INDEX_eager_max] == OPTION_FROM_DEFAULT &&
	    options->eager_max > EAGER_MAX_OVERSUBSCRIBED && host_oversubscribed(options->local_ranks))
		options->eager_max = EAGER_MAX_OVERSUBSCRIBED;
}

int options_load(struct options *options, const char *const *strings)
{
	int error = sources_load(options, true, strings);

	eager_max_lessen(options);
	return error;
}

int options_defaults(struct options *options, const char *const *strings)
{
	return sources_load(options, false, strings);
}

/* ---- The user's job key ----------------------------------------------------------------------------- */

/* A folder of this process's user, or one that is not there yet. */
static bool folder_is_ours(const char *folder)
{
	struct stat status;

	return folder && folder[0] == '/' && (stat(folder, &status) != 0 || status.st_uid == geteuid());
}

static bool key_path(char path[OPTIONS_PATH_MAX])
{
	const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
	struct passwd user, *found = NULL;
	char text[4096];
	int length = -1;

	if (folder_is_ours(config)) {
		length = snprintf(path, OPTIONS_PATH_MAX, "%s/thole/job_key", config);
		return length > 0 && length < OPTIONS_PATH_MAX;
	}
	if (!folder_is_ours(home) && getpwuid_r(geteuid(), &user, text, sizeof(text), &found) == 0 && found)
		home = found->pw_dir;
	if (folder_is_ours(home))
		length = snprintf(path, OPTIONS_PATH_MAX, "%s/.config/thole/job_key", home);
	return length > 0 && length < OPTIONS_PATH_MAX;
}

int options_key(struct options *options)
{
	char path[OPTIONS_PATH_MAX];

	if (!options->key_is_file)
		return 0;
	if (!key_path(path))
		return error_set(
			THOLE_ERR_NOT_FOUND,
			"there is no job key, since user %u has no home where a file of it could be: set "
			"the option job_key to a number that the whole job is given (thole run does), or to none",
			geteuid());
	return key_load(path, &options->job_key);
}

/* ---- One option ---------------------------------------------------------------------------- */

static const struct option_row *row_need(const char *name)
{
	const struct option_row *row = name ? row_find(name, strlen(name)) : NULL;

	if (!row)
		error_set(THOLE_ERR_NOT_FOUND,
			  "\"%.*s\" is no option of Thole %s; thole info options lists them", QUOTE_MAX,
			  name ? name : "(null)", thole_version());
	return row;
}

int options_set(struct options *options, const char *name, const char *value, bool running)
{
	const struct option_row *row = row_need(name);

	if (!row)
		return THOLE_ERR_NOT_FOUND;
	if (!value)
		return error_set(THOLE_ERR_ARGUMENT, "option %s: the value is NULL", row->name);
	if (running && !row->running)
		return error_set(
			THOLE_ERR_BUSY,
			"option %s cannot change while the endpoint is open; give \"%s=%.*s\" when "
			"opening it",
			row->name, row->name, QUOTE_MAX, row->kind == OPTION_KEY ? "..." : value);
	return row_set(options, row, value, OPTION_FROM_SET);
}

int options_get_text(const struct options *options, const char *name, char *value, size_t size)
{
	const struct option_row *row = row_need(name);
	char text[OPTION_TEXT_MAX];

	if (!row)
		return THOLE_ERR_NOT_FOUND;
	value_print(options, row, text);
	if (!value || strlen(text) >= size)
		return error_set(THOLE_ERR_ARGUMENT,
				 "option %s: its value \"%s\" takes %zu bytes, the buffer has %zu; "
				 "%d are always enough",
				 row->name, text, strlen(text) + 1, value ? size : 0,
				 OPTION_TEXT_MAX);
	strcpy(value, text);
	return 0;
}

int options_get_number(const struct options *options, const char *name, uint64_t *value_p)
{
	const struct option_row *row = row_need(name);

	if (!row)
		return THOLE_ERR_NOT_FOUND;
	if (row->kind == OPTION_TEXT || row->kind == OPTION_KEY)
		return error_set(THOLE_ERR_ARGUMENT, "option %s is no number; thole_option_get has it as text",
				 row->name);
	*value_p = *value_of((struct options *)(uintptr_t)options, row);
	return 0;
}

const char *options_origin_text(const struct options *options, const char *name,
				char path[OPTIONS_PATH_MAX])
{
	const struct option_row *row = row_need(name);
	const char *named = secure_getenv(file_variable);

	if (!row)
		return "";
	if (row->kind == OPTION_KEY && options->key_is_file)
		return key_path(path) ? path : "no home";
	switch ((enum option_origin)options->origin[row - rows]) {
	case OPTION_FROM_DEFAULT:
		return "default";
	case OPTION_FROM_SYSTEM_FILE:
		return system_path;
	case OPTION_FROM_USER_FILE:
		if (named && strlen(named) < OPTIONS_PATH_MAX)
			return strcpy(path, named);
		return user_path(path) ? path : "file";
	case OPTION_FROM_ENVIRONMENT:
		return "environment";
	case OPTION_FROM_OPEN:
		return "open";
	case OPTION_FROM_SET:
		return "set";
	}
	return "";
}

int thole_option_info(unsigned index, struct thole_option_info *info_p)
{
	static _Thread_local char value[OPTION_TEXT_MAX];
	static _Thread_local char path[OPTIONS_PATH_MAX];
	static const char *const kinds[] = {
		[OPTION_BYTES] = "bytes", [OPTION_NS] = "ns",         [OPTION_COUNT_OF] = "count",
		[OPTION_BOOL] = "bool",   [OPTION_CHOICE] = "choice", [OPTION_TEXT] = "text",
		[OPTION_KEY] = "key",
	};
	static _Thread_local struct options options;
	static _Thread_local unsigned next;
	const struct option_row *row;

	if (index >= OPTIONS_COUNT || !info_p)
		return error_set(index >= OPTIONS_COUNT ? THOLE_ERR_NOT_FOUND : THOLE_ERR_ARGUMENT,
				 "option number %u: there are %d, and the result must not be NULL",
				 index, (int)OPTIONS_COUNT);
	row = &rows[index];
	/* A walk over all options reads the files once. A bad value somewhere makes opening fail with the reason; what
	 * is asked here are the good ones. */
	if (index == 0 || index != next)
		(void)options_load(&options, NULL);
	next = index + 1;
	value_print(&options, row, value);
	*info_p = (struct thole_option_info){
		.name = row->name,
		.kind = kinds[row->kind],
		.value = value,
		.fallback = row->fallback,
		.origin = options_origin_text(&options, row->name, path),
		.choices = row->choices,
		.min = row->min,
		.max = row->max,
		.help = row->help,
	};
	return 0;
}

int thole_options_check(const char *const *options)
{
	struct options values;
	int error = options_load(&values, options);

	return error || !values.warning[0] ? error : error_set(1, "%s", values.warning);
}
