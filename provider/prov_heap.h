/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_heap.h - memory that the MPI library allocates for windows and packed messages, as memory that peers map.
 *
 * MPICH takes what MPI_Win_allocate gives from malloc where its ranks count as remote to each other, and so the kernel
 * has to make each access. With the option mpi_memory=shared the MPI library's large blocks come from an arena
 * (base/arena.h), as all of the program's would with `thole run --shared-heap`: whatever is in one is copied to and
 * from by peers of the host as they are by its own shared memory. So do messages that it packs, which it takes from
 * aligned_alloc or posix_memalign; and the pages of a freed block stay for the next one, while the C library would give
 * them back each time.
 *
 * What always holds: a block goes back where it came from, whoever allocated it and whenever. Only the MPI library's
 * calls come here, so only what it allocates and frees itself is in an arena.
 */
#ifndef PROV_HEAP_H
#define PROV_HEAP_H

/* Bytes of a block that is shared, at least. A put to a window of 8 KiB takes a tenth of the kernel's time then. */
enum { PROV_HEAP_LEAST = 4096 };

/* Take over the MPI library's malloc, realloc and free, aligned_alloc and posix_memalign. Any number of times. */
void prov_heap_share(void);

#endif
