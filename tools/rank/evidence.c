/* SPDX-License-Identifier: BSD-3-Clause */
#include "evidence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint/report.h"

static const char provider_file[] = "libthole-fi.so";
static const char ucx_file[] = "libucp.so.0";
static const char provider_path[] = "FI_PROVIDER_PATH";

/* ---- What a rank was started with ------------------------------------------------------------- */

static bool variable_is_whole(const char *expected, char reason[REASON_MAX])
{
	char name[128];
	size_t length = strcspn(expected, "=");
	const char *value;

	snprintf(name, sizeof(name), "%.*s", (int)length, expected);
	value = getenv(name);
	if (!value)
		snprintf(reason, REASON_MAX, "the launcher did not hand it the variable %s", name);
	else if (expected[length] && strcmp(value, expected + length + 1) != 0)
		snprintf(reason, REASON_MAX, "%s is %.200s there, not %s", name, value, expected + length + 1);
	else
		return true;
	return false;
}

static bool file_is_there(const char *name, const char *folders, char reason[REASON_MAX])
{
	char path[PATH_MAX];

	for (const char *folder = folders; folder && *folder;
	     folder += strcspn(folder, ":"), folder += *folder == ':') {
		snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(folder, ":"), folder, name);
		if (access(path, R_OK) == 0)
			return true;
	}
	snprintf(reason, REASON_MAX, "its host has no %s in %.500s", name, folders ? folders : "any folder");
	return false;
}

bool environment_is_whole(char **expected, const char *ucx_folders, char reason[REASON_MAX])
{
	bool by_fabric = !ucx_folders;

	for (; *expected; expected++) {
		if (!variable_is_whole(*expected, reason))
			return false;
		by_fabric |= strcmp(*expected, provider_path) == 0;
	}
	return by_fabric ? file_is_there(provider_file, getenv(provider_path), reason)
			 : file_is_there(ucx_file, ucx_folders, reason);
}

void program_reason(const char *program, int error, char reason[REASON_MAX])
{
	bool searched = !strchr(program, '/');

	if (error == ENOENT && (searched || access(program, F_OK) != 0))
		snprintf(reason, REASON_MAX, "%.300s was not found%s", program, searched ? " in its PATH" : "");
	else if (error == ENOENT)
		snprintf(reason, REASON_MAX,
			 "%.300s cannot be run: what its first line names, or its loader, is missing", program);
	else
		snprintf(reason, REASON_MAX, "%.300s cannot be run: %s", program, strerror(error));
}

/* ---- What it has loaded ----------------------------------------------------------------------- */

/* Whether a file that is mapped, as a library for UCX, is Thole's. */
static bool library_is_ours(const struct evidence *evidence, const char *mapped)
{
	char path[PATH_MAX], real[PATH_MAX];

	for (const char *folder = evidence->folders; *folder;
	     folder += strcspn(folder, ":"), folder += *folder == ':') {
		snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(folder, ":"), folder, ucx_file);
		if (realpath(path, real) && strcmp(real, mapped) == 0)
			return true;
	}
	return false;
}

static void evidence_library(struct evidence *evidence, const char *mapped)
{
	if (library_is_ours(evidence, mapped))
		evidence->library = true;
	else
		snprintf(evidence->ucx, sizeof(evidence->ucx), "%s", mapped);
}

/* One line of a process's map of memory. */
static void evidence_line(struct evidence *evidence, char *line)
{
	char *path = strchr(line, '/'), *name;

	if (!path)
		return;
	path[strcspn(path, "\n")] = '\0';
	name = strrchr(path, '/') + 1;
	if (strncmp(name, provider_file, sizeof(provider_file) - 1) == 0)
		evidence->provider = true;
	else if (evidence->folders && strncmp(name, "libucp.so", 9) == 0)
		evidence_library(evidence, path);
	else if (strncmp(name, "libfabric", 9) == 0)
		snprintf(evidence->fabric, sizeof(evidence->fabric), "%s", path);
	else if (strncmp(name, "libmpi.so", 9) == 0 || strncmp(name, "libmpich.so", 11) == 0)
		snprintf(evidence->mpi, sizeof(evidence->mpi), "%s", path);
}

void evidence_take(struct evidence *evidence, pid_t process)
{
	char path[64], line[PATH_MAX + 128];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)process);
	maps = fopen(path, "re");
	if (!maps)
		return;
	while (fgets(line, sizeof(line), maps))
		evidence_line(evidence, line);
	fclose(maps);
}

void evidence_ucx(const struct evidence *evidence, char reason[REASON_MAX])
{
	snprintf(reason, REASON_MAX,
		 "it loaded %.240s, UCX's own library, where Thole's was to be; whatever sets LD_LIBRARY_PATH anew (a "
		 "script, -x, a module) has to leave %.240s in front, or use --through libfabric",
		 evidence->ucx, evidence->folders);
}

void evidence_reason(const struct evidence *evidence, const struct report *report, const char *program,
		     char reason[REASON_MAX])
{
	if (report->failed)
		snprintf(reason, REASON_MAX, "no endpoint could be opened: %.*s", REPORT_REASON_MAX - 1,
			 report->reason);
	else if (evidence->provider)
		snprintf(reason, REASON_MAX,
			 "it loaded Thole's provider, but opened no endpoint: its MPI went another way, or it ended "
			 "first");
	else if (*evidence->ucx)
		evidence_ucx(evidence, reason);
	else if (evidence->library)
		snprintf(reason, REASON_MAX,
			 "it loaded Thole's library for UCX, but opened no endpoint: its MPI went another way, or it "
			 "ended first");
	else if (*evidence->fabric || *evidence->mpi)
		snprintf(reason, REASON_MAX, "it loaded %.300s, which did not load Thole's provider, or it ended first",
			 *evidence->fabric ? evidence->fabric : evidence->mpi);
	else
		snprintf(reason, REASON_MAX, "%.300s was not seen to load an MPI", program);
}
