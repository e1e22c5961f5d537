/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_library.h"

#include <stddef.h>

#include "base/atomic.h"
#include "mx_error.h"
#include "myriexpress.h"

static int initialized;

bool mxi_library_initialized(void)
{
	/* a flag of its own: nothing was written before it that one would have to see */
	return load_relaxed(&initialized);
}

mx_return_t mx__init_api(int api)
{
	if (api >> 8 != MX_API >> 8)
		return mxi_error(NULL, MX_BAD_LIB_VERSION,
				 "mx_init: the program was compiled for version 0x%x of MX's interface, "
				 "this library serves 0x%x",
				 (unsigned)api, MX_API);
	return swap_acquire_release(&initialized, 1) ? MX_ALREADY_INITIALIZED : MX_SUCCESS;
}

mx_return_t mx_finalize(void)
{
	if (!swap_acquire_release(&initialized, 0))
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_finalize: mx_init was not called");
	return MX_SUCCESS;
}
