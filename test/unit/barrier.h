/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.h - memory that its program may use, and the kernel for it may not: pages that a handler of SIGSEGV's gives
 * free at their first touch, as those have who want to know what is touched (checkpoints, collectors of garbage).
 *
 * Owns one such piece of memory at a time, and the handler while there is one.
 */
#ifndef UNIT_BARRIER_H
#define UNIT_BARRIER_H

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

static struct {
	uint8_t *memory;
	size_t bytes, page; /* of all, of one */
	volatile size_t touched; /* pages, since it was raised last */
	struct sigaction before;
} barrier;

static void barrier_touched(int signal, siginfo_t *info, void *context)
{
	size_t at = (size_t)((uint8_t *)info->si_addr - barrier.memory);

	(void)signal, (void)context;
	if (at >= barrier.bytes ||
	    mprotect(barrier.memory + at / barrier.page * barrier.page, barrier.page, PROT_READ | PROT_WRITE) != 0)
		_exit(99); /* no fault of the barrier's */
	barrier.touched++;
}

/* Whole pages, as many as `length` needs. */
static inline uint8_t *barrier_open(size_t length)
{
	struct sigaction action = {.sa_sigaction = barrier_touched, .sa_flags = SA_SIGINFO};

	barrier.page = (size_t)getpagesize();
	barrier.bytes = (length + barrier.page - 1) / barrier.page * barrier.page;
	barrier.memory = mmap(NULL, barrier.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(barrier.memory, MAP_FAILED);
	memset(barrier.memory, 0, barrier.bytes);
	assert_int_equal(sigaction(SIGSEGV, &action, &barrier.before), 0);
	return barrier.memory;
}

/* From now on all pages are `allowed` alone, PROT_READ or PROT_NONE, until they are touched otherwise. */
static inline void barrier_raise(int allowed)
{
	barrier.touched = 0;
	assert_int_equal(mprotect(barrier.memory, barrier.bytes, allowed), 0);
}

static inline void barrier_close(void)
{
	assert_int_equal(sigaction(SIGSEGV, &barrier.before, NULL), 0);
	munmap(barrier.memory, barrier.bytes);
}

#endif /* UNIT_BARRIER_H */
