/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * key: the user's job key, in a file that only he can read. Whoever needs it first makes it.
 *
 * Owns how the file is read, judged and made; where it is, base/options.c says.
 */
#ifndef THOLE_BASE_KEY_H
#define THOLE_BASE_KEY_H

#include <stdint.h>

/* The key in the file at path, an absolute one, which is made with its folders if there is none. Never 0. However many
 * processes do so at once, all get the same. Errors: ACCESS (the file is another user's, or open to others), ARGUMENT
 * (it holds no key), SYSTEM (it cannot be made or read). */
int key_load(const char *path, uint64_t *key_p);

#endif /* THOLE_BASE_KEY_H */
