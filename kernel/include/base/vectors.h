/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/* As base/vectors.h of the library says. Only AVX2: saving wider registers costs more than they gain. Softirqs are off
 * between the two. */
#ifndef THOLE_KERNEL_VECTORS_H
#define THOLE_KERNEL_VECTORS_H

#include <linux/types.h>
#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#include <asm/fpu/xcr.h>
#include <asm/simd.h>

static inline bool vectors_begin(void)
{
	if (!cpu_feature_enabled(X86_FEATURE_AVX2) || !cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL) ||
	    !may_use_simd())
		return false;
	kernel_fpu_begin();
	return true;
}

static inline void vectors_end(void)
{
	kernel_fpu_end();
}

#define vectors_have(name) (__builtin_strcmp(name, "avx2") == 0)
#else
static inline bool vectors_begin(void)
{
	return false;
}

static inline void vectors_end(void)
{
}
#endif

#endif
