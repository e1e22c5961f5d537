/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of mpi_conform share: who this rank is, patterns that a reader can foretell, and how a
 * check fails. A rank that finds something wrong says what and where, and ends the whole job.
 */
#ifndef MPI_CONFORM_H
#define MPI_CONFORM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GUARD = 64 }; /* bytes on both sides of a buffer that nobody may write */

extern int me, ranks;
extern bool small;               /* many ranks on few cores: less of everything */
extern bool stale_bsend;         /* this MPI's persistent buffered sends send the first bytes again */
extern bool swap_fails;          /* it has compare-and-swap only on another rank's created window */
extern bool dynamic_hangs;       /* two ranks that put into dynamic windows of each other wait forever */
extern const char *program_path; /* to spawn this program again */

/* A buffer of length bytes with guards around it. */
struct area {
	uint8_t *bytes;
	size_t length;
};

struct area area_make(size_t length);
void area_free(struct area *area); /* checks the guards */

/* Byte i of a pattern depends on (seed, i) alone. */
void fill(void *buffer, size_t length, uint64_t seed);
void check(const void *buffer, size_t length, uint64_t seed, const char *what);
/* Everything has one value: what must not have been written. */
void check_same(const void *buffer, size_t length, uint8_t value, const char *what);

uint64_t seed_of(int from, int to, int number);
uint64_t next_random(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t limit);

void expect_at(bool holds, const char *file, int line, const char *what);
#define expect(condition) expect_at((condition), __FILE__, __LINE__, #condition)

static inline int right_of(int shift)
{
	return (me + shift) % ranks;
}

static inline int left_of(int shift)
{
	return (me - shift % ranks + ranks) % ranks;
}

/* Groups of checks. Each is called by all ranks, and returns false if this MPI cannot do it. */
bool test_modes(void);
bool test_order(void);
bool test_wildcards(void);
bool test_probe(void);
bool test_cancel(void);
bool test_truncation(void);
bool test_types(void);
bool test_collectives(void);
bool test_nonblocking_collectives(void);
bool test_onesided(void);
bool test_threads(void);
bool test_spawn(void);
bool test_huge(void);
void spawned_child(MPI_Comm parent);

#endif
