/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the driver costs, in instructions: for a guest whose clock goes by the instruction (instructions.h). Prints
 * lines "row NAME VALUE", for bench/driver.py.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "instructions.h"
#include "memory/cache.h"
#include "memory/driver.h"
#include "thole.h"

enum { PAGE = 4096, PAGES = 2048, LENGTH = PAGES * PAGE, FIRST = 32 * PAGE, ROUNDS = 5, HITS = 10000 };

static double instruction_ns; /* how long one takes here */

static double instructions(uint64_t start)
{
	return (double)(clock_now_ns() - start) / instruction_ns;
}

static void least(double *best, double value)
{
	if (*best == 0 || value < *best)
		*best = value;
}

static void check(int error)
{
	if (!error)
		return;
	printf("%s\n", thole_detail());
	exit(1);
}

static uint32_t declare(const struct driver *driver, void *memory, size_t length)
{
	struct iovec segment = {memory, length};
	uint32_t id;

	check(driver_declare(driver, &segment, 1, THOLE_DRIVER_WRITE, &id));
	return id;
}

static void pages(const struct driver *driver, void *memory)
{
	double pin = 0, unpin = 0, whole = 0;
	struct thole_driver_pin state;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t id = declare(driver, memory, LENGTH);
		uint64_t start = clock_now_ns();

		check(driver_pin(driver, id, LENGTH, 0, &state));
		least(&pin, instructions(start) / PAGES);
		start = clock_now_ns();
		driver_forget(driver, id);
		least(&unpin, instructions(start) / PAGES);
		least(&whole, pin + unpin);
	}
	printf("row pin %.0f\nrow unpin %.0f\nrow page %.0f\n", pin, unpin, whole);
}

/* From the call that begins a transfer to its first bytes: with so much pinned before. */
static double first_data(const struct driver *driver, void *memory, uint64_t before)
{
	static char other[PAGE];
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct thole_driver_pin state;
		uint64_t start = clock_now_ns();
		uint32_t id = declare(driver, memory, LENGTH);

		check(driver_pin(driver, id, before, 0, &state));
		check(driver_copy(driver, id, 0, other, PAGE, 0));
		least(&best, instructions(start));
		driver_forget(driver, id);
	}
	return best;
}

static void first(const struct driver *driver, void *memory)
{
	double overlapped = first_data(driver, memory, FIRST), before = first_data(driver, memory, LENGTH);

	printf("row first_overlapped %.0f\nrow first_before %.0f\nrow first_share %.4f\n", overlapped, before,
	       overlapped / before);
}

/* What a transfer from a region that is in the cache costs for that: to take it, ask nothing, and give it back. */
static void cached(struct driver *driver, char *memory)
{
	uint32_t room = 256;
	void *place = malloc(cache_size(room));
	struct cache_entry *entry;
	struct cache cache;
	uint64_t start;

	if (!place)
		exit(1);
	cache_init(&cache, place, room, room, UINT64_MAX);
	cache_serve(&cache, &driver_registrar, driver);
	for (uint32_t i = 0; i < room; i++) {
		check(cache_take(&cache, (uintptr_t)memory + i * PAGE, 8 * PAGE, CACHE_WRITE, &entry));
		cache_give(&cache, entry);
	}
	start = clock_now_ns();
	for (uint32_t i = 0; i < HITS; i++) {
		check(cache_take(&cache, (uintptr_t)memory + i * 97 % room * PAGE, 8 * PAGE, CACHE_WRITE, &entry));
		cache_give(&cache, entry);
	}
	printf("row cached %.0f\n", instructions(start) / HITS);
	if (cache.counts.hits != HITS)
		exit(1);
	cache_fini(&cache);
	free(place);
}

/* A view of a region, in the owner's own process, which is what it costs in another one: making it, the first touch of
 * a run of pages and of all pages, a touch of what is mapped, and its end. */
static void views(const struct driver *driver, char *memory)
{
	struct thole_driver_offer offer = {.id = declare(driver, memory, LENGTH)};
	struct thole_driver_attach attach = {.flags = THOLE_DRIVER_WRITE};
	double make = 0, first = 0, page = 0, mapped = 0, end = 0;

	check(driver_call(driver, THOLE_DRIVER_OFFER, &offer) < 0);
	attach.number = offer.number;
	memcpy(attach.key, offer.key, sizeof(attach.key));
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = clock_now_ns();
		volatile char *view;

		check(driver_call(driver, THOLE_DRIVER_ATTACH, &attach) < 0);
		view = mmap(NULL, PAGE + LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, attach.fd, 0);
		if (view == MAP_FAILED || close(attach.fd) != 0)
			exit(1);
		least(&make, instructions(start));
		for (int pass = 0; pass < 2; pass++) {
			start = clock_now_ns();
			view[PAGE] = 1;
			if (pass == 0)
				least(&first, instructions(start));
			for (int i = 1; i < PAGES; i++)
				view[PAGE + i * PAGE] = 1;
			least(pass == 0 ? &page : &mapped, instructions(start) / PAGES);
		}
		start = clock_now_ns();
		munmap((void *)(uintptr_t)view, PAGE + LENGTH);
		least(&end, instructions(start));
	}
	printf("row view_make %.0f\nrow view_first %.0f\nrow view_page %.0f\nrow view_mapped %.0f\nrow view_end %.0f\n",
	       make, first, page, mapped, end);
	driver_forget(driver, offer.id);
}

int main(void)
{
	char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct driver driver;

	if (memory == MAP_FAILED || madvise(memory, LENGTH, MADV_NOHUGEPAGE) != 0)
		return 1;
	memset(memory, 1, LENGTH);
	check(driver_open(&driver));
	instruction_ns = instructions_each_ns();
	printf("row instruction_ns %.3f\n", instruction_ns);
	pages(&driver, memory);
	first(&driver, memory);
	cached(&driver, memory);
	views(&driver, memory);
	driver_close(&driver);
	return 0;
}
