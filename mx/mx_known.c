/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_known.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/thread.h"
#include "mx_nic.h"
#include "mx_place.h"
#include "mx_setting.h"

enum {
	LINE_MAX_BYTES = 512, /* of the file; a longer one is wrong, and its rest too */
};

struct table {
	struct mxi_known *rows; /* its own; NULL: none */
	uint32_t count, room;   /* rows in use, and how many there is memory for */
};

/* Which contents of the file were read. */
struct edition {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed; /* its inode */
};

static struct {
	pthread_mutex_t mutex;                                /* of all that follows */
	sigset_t signals;                                     /* of who has it */
	bool begun;                                           /* path is set, for good */
	char path[sizeof(((struct mxi_settings *)0)->hosts)]; /* of the file; "": none */
	struct edition edition;                               /* that was read last; all zero: none */
	struct table file, heard;                             /* what the file says, what other hosts have told */
	unsigned oldest;                /* of those heard, the next to make room once they are MXI_KNOWN_MAX */
	char trouble[ERROR_DETAIL_MAX]; /* with the file */
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- Lines ----------------------------------------------------------------------------------- */

/* As "host:0", also where the number is left out. False: it is too long, or has what no name
 * has. */
static bool mxi_known_name_complete(const char *text, char name[MX_MAX_HOSTNAME_LEN])
{
	const char *colon = strrchr(text, ':');

	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	if (colon && (colon == text || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1)))
		return false;
	return *text && snprintf(name, MX_MAX_HOSTNAME_LEN, "%s%s", text, colon ? "" : ":0") < MX_MAX_HOSTNAME_LEN;
}

static bool mxi_known_address_check(const char *text)
{
	static const struct mxi_board anywhere;
	struct mxi_place place;

	return mxi_place_ip(&place, text, 0, &anywhere);
}

int mxi_known_line(char *line, struct mxi_known *known_p)
{
	static const char blanks[] = " \t\r\n";
	char *rest, *nic, *address, *name;

	line[strcspn(line, "#")] = '\0';
	nic = strtok_r(line, blanks, &rest);
	if (!nic)
		return 0;
	address = strtok_r(NULL, blanks, &rest);
	name = address ? strtok_r(NULL, blanks, &rest) : NULL;
	if (!name || strtok_r(NULL, blanks, &rest))
		return error_set(THOLE_ERR_ARGUMENT, "three words are wanted: MAC, IP address or -, name");
	*known_p = (struct mxi_known){0};
	if (!mxi_nic_parse(nic, &known_p->nic_id) || known_p->nic_id == 0)
		return error_set(THOLE_ERR_ARGUMENT, "\"%.40s\" is no MAC, as 02:83:00:00:00:01 is", nic);
	if (strcmp(address, "-") != 0) {
		if (!mxi_known_address_check(address))
			return error_set(THOLE_ERR_ARGUMENT, "\"%.60s\" is neither an IP address nor -", address);
		snprintf(known_p->address, sizeof(known_p->address), "%s", address);
	}
	if (!mxi_known_name_complete(name, known_p->name))
		return error_set(THOLE_ERR_ARGUMENT,
				 "\"%.90s\" is no name of a board, as host1:0 is, of at most %d characters", name,
				 MX_MAX_HOSTNAME_LEN - 1);
	return 1;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static struct mxi_known *mxi_known_table_find(const struct table *table, uint64_t nic_id)
{
	for (unsigned i = 0; i < table->count; i++)
		if (table->rows[i].nic_id == nic_id)
			return &table->rows[i];
	return NULL;
}

/* One more row; NULL: there are as many as there may be, or there is no memory. */
static struct mxi_known *mxi_known_table_add(struct table *table)
{
	struct mxi_known *rows;

	if (table->count == MXI_KNOWN_MAX)
		return NULL;
	rows = array_reserve(table->rows, &table->room, table->count + 1, sizeof(*rows));
	if (!rows)
		return NULL;
	table->rows = rows;
	return &table->rows[table->count++];
}

/* ---- The file -------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void mxi_known_trouble_set(const char *format, ...)
{
	va_list arguments;

	if (known.trouble[0] != '\0') /* the first is told */
		return;
	va_start(arguments, format);
	vsnprintf(known.trouble, sizeof(known.trouble), format, arguments);
	va_end(arguments);
}

/* 0, or errno: there is no memory. What is wrong with the line is no error of this kind. */
static int mxi_known_line_read(struct table *table, char *line, unsigned number)
{
	struct mxi_known read, *row;
	int status = mxi_known_line(line, &read);

	if (status < 0)
		mxi_known_trouble_set("%s, line %u: %s; it is skipped", known.path, number, thole_detail());
	if (status <= 0)
		return 0;
	if (mxi_known_table_find(table, read.nic_id)) {
		mxi_known_trouble_set("%s, line %u: the MAC stands in an earlier line too; this one is skipped",
				      known.path, number);
		return 0;
	}
	if (table->count == MXI_KNOWN_MAX) {
		mxi_known_trouble_set("%s, line %u: no room; at most %d boards are taken", known.path, number,
				      MXI_KNOWN_MAX);
		return 0;
	}
	row = mxi_known_table_add(table);
	if (!row)
		return ENOMEM;
	*row = read;
	return 0;
}

/* All of it takes the place of what was read before, or nothing does: 0, or errno. */
static int mxi_known_file_read(FILE *file)
{
	struct table table = {0};
	char line[LINE_MAX_BYTES];
	int error = 0;

	for (unsigned number = 1; !error && fgets(line, sizeof(line), file); number++)
		error = mxi_known_line_read(&table, line, number);
	if (!error && ferror(file))
		error = errno;
	if (error) {
		free(table.rows);
		return error;
	}
	free(known.file.rows);
	known.file = table;
	return 0;
}

static int mxi_known_file_open_read(void)
{
	FILE *file = fopen(known.path, "re");
	int error = file ? mxi_known_file_read(file) : errno;

	if (file)
		fclose(file);
	return error;
}

static bool mxi_known_edition_same(const struct edition *one, const struct edition *other)
{
	return one->device == other->device && one->inode == other->inode && one->size == other->size &&
	       one->changed.tv_sec == other->changed.tv_sec && one->changed.tv_nsec == other->changed.tv_nsec;
}

static void mxi_known_file_forget(void)
{
	known.file.count = 0;
	known.edition = (struct edition){0};
	known.trouble[0] = '\0';
}

/* Read the file if it is another than the one that was read. */
static void mxi_known_file_poll(void)
{
	struct stat status;
	struct edition now;
	int error = 0;

	if (known.path[0] == '\0' || stat(known.path, &status) != 0) {
		mxi_known_file_forget();
		return;
	}
	now = (struct edition){status.st_dev, status.st_ino, status.st_size, status.st_ctim};
	if (mxi_known_edition_same(&now, &known.edition))
		return;
	known.trouble[0] = '\0';
	if (S_ISREG(status.st_mode))
		error = mxi_known_file_open_read();
	else
		mxi_known_trouble_set("%s cannot be read: it is no file", known.path);
	if (error)
		mxi_known_trouble_set("%s cannot be read: %s", known.path, strerror(error));
	if (!limits_caused(error)) /* else the next look may find what it takes */
		known.edition = now;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static void mxi_known_lock(void)
{
	thread_lock(&known.mutex, &known.signals);
}

static void mxi_known_unlock(void)
{
	thread_unlock(&known.mutex, &known.signals);
}

/* A fork waits until nobody is inside, so that the child has whole tables: from when the library is loaded, or one that
 * is made amid the first call would find the lock taken for ever. */
__attribute__((constructor(MXI_KNOWN_FIRST))) static void mxi_known_begin(void)
{
	pthread_atfork(mxi_known_lock, mxi_known_unlock, mxi_known_unlock);
}

/* Take the lock, with the file as it is now. */
static void mxi_known_enter(void)
{
	struct mxi_settings settings;

	mxi_known_lock();
	if (!known.begun) {
		known.begun = mxi_setting_load(&settings) == 0; /* else it may say otherwise next time */
		strcpy(known.path, settings.hosts);
	}
	mxi_known_file_poll();
}

bool mxi_known_find(uint64_t nic_id, struct mxi_known *known_p)
{
	const struct mxi_known *row;

	mxi_known_enter();
	row = mxi_known_table_find(&known.file, nic_id);
	if (!row)
		row = mxi_known_table_find(&known.heard, nic_id);
	if (row)
		*known_p = *row;
	mxi_known_unlock();
	return row != NULL;
}

unsigned mxi_known_list(struct mxi_known *list, unsigned room)
{
	unsigned count = 0;

	mxi_known_enter();
	for (unsigned i = 0; i < known.file.count; i++, count++)
		if (count < room)
			list[count] = known.file.rows[i];
	for (unsigned i = 0; i < known.heard.count; i++) {
		if (mxi_known_table_find(&known.file, known.heard.rows[i].nic_id))
			continue;
		if (count < room)
			list[count] = known.heard.rows[i];
		count++;
	}
	mxi_known_unlock();
	return count;
}

void mxi_known_heard(uint64_t nic_id, const char *name, const char *address)
{
	struct mxi_known *row;

	mxi_known_enter();
	row = mxi_known_table_find(&known.heard, nic_id);
	if (!row)
		row = mxi_known_table_add(&known.heard);
	if (!row && known.heard.count == MXI_KNOWN_MAX)
		row = &known.heard.rows[known.oldest++ % MXI_KNOWN_MAX];
	if (row) {
		*row = (struct mxi_known){.nic_id = nic_id, .heard = true};
		snprintf(row->name, sizeof(row->name), "%s", name);
		snprintf(row->address, sizeof(row->address), "%s", address);
	}
	mxi_known_unlock();
}

void mxi_known_trouble(char *text, size_t size)
{
	mxi_known_enter();
	snprintf(text, size, "%s", known.trouble);
	mxi_known_unlock();
}
