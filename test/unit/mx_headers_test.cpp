// SPDX-License-Identifier: BSD-3-Clause
// MX's headers in C++: that they compile, and that their functions and variables are those of the library.
#include "mx_extensions.h"
#include "mx_internals/mx__driver_interface.h"
#include "mx_internals/mx__fops.h"
#include "mx_io.h"
#include "mx_raw.h"
#include "myriexpress.h"

int main()
{
	uint64_t nic_id = 0;

	if (mx_set_error_handler(MX_ERRORS_RETURN) != MX_ERRORS_ARE_FATAL)
		return 1;
	return mx_board_number_to_nic_id(0, &nic_id) == MX_NOT_INITIALIZED ? 0 : 2;
}
