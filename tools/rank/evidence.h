/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * evidence: why a program that was to use Thole does not. What its rank was started with, that it cannot be run, and
 * what of an MPI its process is seen to have loaded. It guesses nothing: where nothing was seen, it says that.
 */
#ifndef RANK_EVIDENCE_H
#define RANK_EVIDENCE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct report;

enum { REASON_MAX = 768 }; /* bytes of a reason, its NUL included: a path and a sentence */

struct evidence {
	const char *folders; /* of Thole's library for UCX, ":" between them; NULL: UCX's does not matter */
	char mpi[PATH_MAX], fabric[PATH_MAX], ucx[PATH_MAX]; /* files that are mapped, or ""; ucx: not Thole's */
	bool provider, library; /* Thole's are: that for libfabric, that for UCX */
};

/* Whether a rank has what it needs: expected are NAME or NAME=VALUE, ended by NULL; ucx_folders, unless NULL, where our
 * library for UCX is, which is enough for a rank to whom no provider's folder is told. False: reason says what is
 * missing. */
bool environment_is_whole(char **expected, const char *ucx_folders, char reason[REASON_MAX]);

/* Why a program cannot be run, as errno says. */
void program_reason(const char *program, int error, char reason[REASON_MAX]);

/* Look at what a process has mapped by now. */
void evidence_take(struct evidence *evidence, pid_t process);

/* Of one that has taken another library for UCX (ucx) than Thole's: what to do. */
void evidence_ucx(const struct evidence *evidence, char reason[REASON_MAX]);

/* What that and the report say about a program that has no endpoint. */
void evidence_reason(const struct evidence *evidence, const struct report *report, const char *program,
		     char reason[REASON_MAX]);

#endif
