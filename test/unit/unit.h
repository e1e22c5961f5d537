/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What unit tests share: cmocka with the headers that it wants first, and random numbers
 * from a seed.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

#endif /* UNIT_H */
