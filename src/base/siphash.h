/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * siphash: SipHash-2-4 (Aumasson and Bernstein), a short keyed digest: who does not know the key cannot foresee it,
 * however many digests of other texts are known. Pure.
 */
#ifndef THOLE_BASE_SIPHASH_H
#define THOLE_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* The key is two words: the first and the second 8 bytes of the definition's, little-endian. */
uint64_t siphash(const uint64_t key[2], const void *bytes, size_t length);
/* The same of `count` texts that are of one length: with the processor's vectors, if it has wide ones, in a fraction
 * of the time. */
void siphash_many(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length, uint64_t *digests);

#endif
