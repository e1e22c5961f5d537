/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_datatype.h"

#include <stdlib.h>
#include <string.h>

/* Datatypes' numbers are their addresses with the class in the low bits. */
enum { ALIGNMENT = 64 };

_Static_assert(sizeof(ucp_dt_iov_t) == sizeof(struct iovec) &&
		       offsetof(ucp_dt_iov_t, buffer) == offsetof(struct iovec, iov_base) &&
		       offsetof(ucp_dt_iov_t, length) == offsetof(struct iovec, iov_len),
	       "a scattered buffer of UCX's is a vector");

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p)
{
	struct ucx_datatype *datatype;

	if (posix_memalign((void **)&datatype, ALIGNMENT, sizeof *datatype))
		return UCS_ERR_NO_MEMORY;
	datatype->operations = *ops;
	datatype->context = context;
	*datatype_p = (uintptr_t)datatype | UCP_DATATYPE_GENERIC;
	return UCS_OK;
}

static struct ucx_datatype *ucx_datatype_of(ucp_datatype_t datatype)
{
	return (struct ucx_datatype *)(uintptr_t)(datatype & ~(ucp_datatype_t)UCP_DATATYPE_CLASS_MASK);
}

void ucp_dt_destroy(ucp_datatype_t datatype)
{
	if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC)
		free(ucx_datatype_of(datatype));
}

static bool ucx_datatype_bounce_make(struct ucx_bounce *bounce, size_t length, struct iovec *single_p)
{
	bounce->memory = malloc(length ? length : 1);
	*single_p = (struct iovec){bounce->memory, length};
	return bounce->memory != NULL;
}

ucs_status_t ucx_datatype_pack(ucp_datatype_t datatype, const void *buffer, size_t *count, struct iovec *single_p,
			       const struct iovec **segments_p, struct ucx_bounce *bounce)
{
	const struct ucx_datatype *generic = ucx_datatype_of(datatype);
	void *state;
	bool made;

	*bounce = (struct ucx_bounce){0};
	*segments_p = buffer;
	if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV)
		return UCS_OK;
	if ((datatype & UCP_DATATYPE_CLASS_MASK) != UCP_DATATYPE_GENERIC)
		return UCS_ERR_UNSUPPORTED;
	state = generic->operations.start_pack(generic->context, buffer, *count);
	made = ucx_datatype_bounce_make(bounce, generic->operations.packed_size(state), single_p);
	if (made)
		single_p->iov_len = generic->operations.pack(state, 0, bounce->memory, single_p->iov_len);
	generic->operations.finish(state);
	*segments_p = single_p;
	*count = 1;
	return made ? UCS_OK : UCS_ERR_NO_MEMORY;
}

ucs_status_t ucx_datatype_room(ucp_datatype_t datatype, void *buffer, size_t *count, struct iovec *single_p,
			       const struct iovec **segments_p, struct ucx_bounce *bounce)
{
	const struct ucx_datatype *generic = ucx_datatype_of(datatype);

	*bounce = (struct ucx_bounce){0};
	*segments_p = buffer;
	if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV)
		return UCS_OK;
	if ((datatype & UCP_DATATYPE_CLASS_MASK) != UCP_DATATYPE_GENERIC)
		return UCS_ERR_UNSUPPORTED;
	bounce->datatype = generic;
	bounce->state = generic->operations.start_unpack(generic->context, buffer, *count);
	*segments_p = single_p;
	*count = 1;
	if (ucx_datatype_bounce_make(bounce, generic->operations.packed_size(bounce->state), single_p))
		return UCS_OK;
	generic->operations.finish(bounce->state);
	return UCS_ERR_NO_MEMORY;
}

ucs_status_t ucx_datatype_end(struct ucx_bounce *bounce, size_t length, ucs_status_t status)
{
	const struct ucx_datatype *generic = bounce->datatype;

	if (generic) {
		if (status == UCS_OK && length)
			status = generic->operations.unpack(bounce->state, 0, bounce->memory, length);
		generic->operations.finish(bounce->state);
	}
	free(bounce->memory);
	bounce->memory = NULL;
	return status;
}
