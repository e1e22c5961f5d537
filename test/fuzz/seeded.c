/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seeded: runs of a target from seeds, without a fuzzer.
 *
 *   TARGET-seeded [--runs N] [--seed FIRST]
 *
 * The seeds are numbers from FIRST on, so the default is the same runs each time. A child makes them; the parent says
 * which seed crashed it or hung.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "fuzz.h"

enum { BYTES_MAX = 3000, LIMIT_S = 60 };

static void run(uint64_t seed)
{
	static uint8_t bytes[BYTES_MAX];
	uint64_t state = seed;
	size_t size = 100 + random_next(&state) % (BYTES_MAX - 100);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(random_next(&state) >> 40);
	fuzz_run(bytes, size);
}

/* A whole number from 1 on, and nothing behind it: else nothing might be run, and be well. */
static bool number_parse(const char *option, const char *text, uint64_t *number_p)
{
	char *end;

	errno = 0;
	*number_p = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && *number_p >= 1)
		return true;
	fprintf(stderr, "--%s is a whole number from 1 on\n", option);
	return false;
}

int main(int argc, char **argv)
{
	static const struct option words[] = {{"runs", required_argument, NULL, 'r'},
					      {"seed", required_argument, NULL, 's'},
					      {NULL, 0, NULL, 0}};
	uint64_t runs = 1500, first = 1, *current;
	int option, status;
	pid_t child;

	while ((option = getopt_long(argc, argv, "", words, NULL)) != -1) {
		if (!(option == 'r' && number_parse("runs", optarg, &runs)) &&
		    !(option == 's' && number_parse("seed", optarg, &first)))
			return 2;
	}
	current = mmap(NULL, sizeof(*current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (current == MAP_FAILED)
		return 2;
	child = fork();
	if (child < 0)
		return 2;
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (*current = first; runs > 0; runs--, ++*current) {
			alarm(LIMIT_S);
			run(*current);
		}
		exit(0);
	}
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	fprintf(stderr, "%s --runs 1 --seed %llu: %s %d\n", argv[0], (unsigned long long)*current,
		WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "hung, signal" : "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return 1;
}
