/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * costs: what a processor and its kernel take, as the simulator's programs are told it: "pin=384,copy=24576:150913", as
 * lab/costs.py writes what bench/machine_costs.c has measured. So the papers' figures are had for any machine.
 *
 * Owns the names and their units. What is not named costs nothing; a program asks for those that it needs.
 */
#ifndef THOLE_SIM_COSTS_H
#define THOLE_SIM_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "nic.h"

/* Nanoseconds, a page's picoseconds; rates are bytes in a microsecond. */
struct costs {
	uint64_t pin, pin_page;
	uint64_t unpin, unpin_page;
	uint64_t call;       /* of the kernel */
	uint64_t wake;       /* from sending a short message to a process that sleeps until that has it */
	uint64_t move;       /* the rate of a move by the kernel into another process, */
	uint64_t block;      /* and what a piece takes beside, */
	uint64_t scattered;  /* more, where this side's pages lie anywhere, */
	uint64_t unaligned;  /* more, where the piece is not aligned */
	struct nic_level copy[NIC_LEVELS];
};

/* False: a name is not known, or a number is none. */
bool costs_parse(const char *words, struct costs *costs);
/* If the first argument is --costs, the second says them, and both are taken away; *there_p: whether that is so. A
 * program that is told nonsense ends. */
struct costs costs_argument(int *argc_p, char ***argv_p, bool *there_p);

#endif
