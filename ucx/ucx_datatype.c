/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_datatype.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "thole.h"

enum {
	ALIGNMENT = 64,            /* datatypes' numbers are their addresses with the class in the low bits */
	/* From here on a bounce buffer is memory that peers map; its pages stay for the next one's when it is freed. */
	BOUNCE_SHARED = 64 * 1024,
	/* By parts there is none; what is shorter is as quick or quicker packed first. */
	PARTS_MIN = 32 * 1024,
};

_Static_assert(sizeof(ucp_dt_iov_t) == sizeof(struct iovec) &&
		       offsetof(ucp_dt_iov_t, buffer) == offsetof(struct iovec, iov_base) &&
		       offsetof(ucp_dt_iov_t, length) == offsetof(struct iovec, iov_len),
	       "a scattered buffer of UCX's is a vector");

size_t ucx_datatype_total(const struct iovec *segments, size_t count)
{
	size_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += segments[i].iov_len;
	return total;
}

/* ---- Many pieces ------------------------------------------------------------------------------------ */

/* A scattered buffer as a generic datatype, packed and unpacked as a whole. */
struct ucx_datatype_pieces {
	const struct iovec *segments; /* the program's, which stay until the message has ended */
	size_t count;
};

static void *ucx_datatype_pieces_unpacked(void *unused, void *buffer, size_t count)
{
	struct ucx_datatype_pieces *pieces = malloc(sizeof *pieces);

	(void)unused;
	if (pieces)
		*pieces = (struct ucx_datatype_pieces){buffer, count};
	return pieces;
}

static void *ucx_datatype_pieces_packed(void *unused, const void *buffer, size_t count)
{
	return ucx_datatype_pieces_unpacked(unused, (void *)(uintptr_t)buffer, count);
}

static size_t ucx_datatype_pieces_size(void *state)
{
	const struct ucx_datatype_pieces *pieces = state;

	/* Where there was no memory for the state there shall be none for the message. */
	return pieces ? ucx_datatype_total(pieces->segments, pieces->count) : PTRDIFF_MAX;
}

static size_t ucx_datatype_pieces_pack(void *state, size_t offset, void *to, size_t room)
{
	const struct ucx_datatype_pieces *pieces = state;
	unsigned char *place = to;

	(void)offset;
	for (size_t i = 0; i < pieces->count; i++)
		if (pieces->segments[i].iov_len > 0)
			place = mempcpy(place, pieces->segments[i].iov_base, pieces->segments[i].iov_len);
	return room;
}

static ucs_status_t ucx_datatype_pieces_unpack(void *state, size_t offset, const void *from, size_t length)
{
	const struct ucx_datatype_pieces *pieces = state;
	const unsigned char *place = from;

	(void)offset;
	for (size_t i = 0; i < pieces->count && length > 0; i++) {
		const struct iovec *segment = &pieces->segments[i];
		size_t part = segment->iov_len < length ? segment->iov_len : length;

		if (part > 0)
			memcpy(segment->iov_base, place, part);
		place += part;
		length -= part;
	}
	return UCS_OK;
}

static const struct ucx_datatype ucx_datatype_of_pieces = {
	.operations = {
		.start_pack = ucx_datatype_pieces_packed,
		.start_unpack = ucx_datatype_pieces_unpacked,
		.packed_size = ucx_datatype_pieces_size,
		.pack = ucx_datatype_pieces_pack,
		.unpack = ucx_datatype_pieces_unpack,
		.finish = free,
	},
};

/* ---- Generic ones ----------------------------------------------------------------------------------- */

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p)
{
	struct ucx_datatype *datatype = memalign(ALIGNMENT, sizeof *datatype);

	if (!datatype)
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

static struct ucx_bounce *ucx_datatype_bounce_make(size_t length, struct iovec *single_p)
{
	void *memory = NULL;
	struct ucx_bounce *bounce;

	if (length < BOUNCE_SHARED)
		memory = malloc(sizeof *bounce + length);
	else if (length < PTRDIFF_MAX)
		thole_alloc(sizeof *bounce + length, &memory);
	bounce = memory;
	if (!bounce)
		return NULL;
	list_init(&bounce->node);
	bounce->datatype = NULL;
	bounce->parts = NULL;
	*single_p = (struct iovec){bounce->memory, length};
	return bounce;
}

/* ---- Part by part ----------------------------------------------------------------------------------- */

/* The program's function packs whole elements. Of one that is cut the end is kept for the next part. */
static void ucx_datatype_pack_part(void *arg, uint64_t offset, void *to, size_t length)
{
	struct ucx_bounce *bounce = arg;
	struct ucx_datatype_rest *rest = &bounce->parts->rest;
	unsigned char *place = to;
	size_t packed;

	for (; length > 0; offset += packed, place += packed, length -= packed) {
		if (offset - rest->offset < rest->length) {
			size_t at = offset - rest->offset;

			packed = rest->length - at < length ? rest->length - at : length;
			memcpy(place, rest->bytes + at, packed);
			continue;
		}
		packed = bounce->datatype->operations.pack(bounce->state, offset, place, length);
		if (packed > 0)
			continue;
		rest->offset = offset;
		rest->length = bounce->parts->layout.length - offset;
		if (rest->length > sizeof rest->bytes)
			rest->length = sizeof rest->bytes;
		rest->length = bounce->datatype->operations.pack(bounce->state, offset, rest->bytes, rest->length);
		if (rest->length > 0)
			continue;
		memset(place, 0, length); /* it packs no more: no correct one does that */
		return;
	}
}

static void ucx_datatype_unpack_part(void *arg, uint64_t offset, const void *from, size_t length)
{
	struct ucx_bounce *bounce = arg;
	ucs_status_t status = bounce->datatype->operations.unpack(bounce->state, offset, from, length);

	if (status != UCS_OK)
		bounce->parts->status = status;
}

static struct ucx_bounce *ucx_datatype_parts_make(const struct ucx_datatype *packer, void *state, size_t length,
						  bool sends)
{
	struct ucx_bounce *bounce = malloc(sizeof *bounce + sizeof *bounce->parts);

	if (!bounce)
		return NULL;
	list_init(&bounce->node);
	bounce->datatype = packer;
	bounce->state = state;
	bounce->parts = (struct ucx_datatype_parts *)(void *)bounce->memory;
	bounce->parts->layout =
		(struct thole_layout){ucx_datatype_pack_part, ucx_datatype_unpack_part, bounce, length};
	bounce->parts->status = UCS_OK;
	bounce->parts->sends = sends;
	bounce->parts->rest.length = 0;
	return bounce;
}

/* Whether a message of this datatype goes so. */
static bool ucx_datatype_goes_by_parts(ucp_datatype_t datatype, size_t length)
{
	return (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC && length >= PARTS_MIN &&
	       length <= THOLE_LENGTH_MAX;
}

/* Who packs and unpacks it; NULL: nobody does. */
static const struct ucx_datatype *ucx_datatype_packer(ucp_datatype_t datatype)
{
	switch (datatype & UCP_DATATYPE_CLASS_MASK) {
	case UCP_DATATYPE_IOV:
		return &ucx_datatype_of_pieces;
	case UCP_DATATYPE_GENERIC:
		return ucx_datatype_of(datatype);
	default:
		return NULL;
	}
}

static bool ucx_datatype_is_vector(ucp_datatype_t datatype, size_t count)
{
	return (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV && count <= THOLE_SEGMENTS_MAX;
}

/* What needs no bounce buffer: contiguous and scattered ones, the latter as they are. */
static bool ucx_datatype_in_place(ucp_datatype_t datatype, const void *buffer, size_t *count, struct iovec *single_p,
				  const struct iovec **segments_p)
{
	*segments_p = buffer;
	if (!ucx_datatype_is_contiguous(datatype))
		return ucx_datatype_is_vector(datatype, *count);
	*single_p = (struct iovec){(void *)(uintptr_t)buffer, ucx_datatype_length(datatype, *count)};
	*segments_p = single_p;
	*count = 1;
	return true;
}

ucs_status_t ucx_datatype_pack(ucp_datatype_t datatype, const void *buffer, size_t *count, bool parts,
			       struct iovec *single_p, const struct iovec **segments_p, struct ucx_bounce **bounce_p)
{
	const struct ucx_datatype *packer = ucx_datatype_packer(datatype);
	struct ucx_bounce *bounce;
	size_t length;
	void *state;

	*bounce_p = NULL;
	if (ucx_datatype_in_place(datatype, buffer, count, single_p, segments_p))
		return UCS_OK;
	if (!packer)
		return UCS_ERR_UNSUPPORTED;
	state = packer->operations.start_pack(packer->context, buffer, *count);
	length = packer->operations.packed_size(state);
	*segments_p = single_p;
	*count = 1;
	if (parts && ucx_datatype_goes_by_parts(datatype, length)) {
		*bounce_p = ucx_datatype_parts_make(packer, state, length, true);
		if (*bounce_p)
			return UCS_OK;
	}
	bounce = ucx_datatype_bounce_make(length, single_p);
	if (bounce && single_p->iov_len > 0)
		single_p->iov_len = packer->operations.pack(state, 0, bounce->memory, single_p->iov_len);
	packer->operations.finish(state);
	*bounce_p = bounce;
	return bounce ? UCS_OK : UCS_ERR_NO_MEMORY;
}

ucs_status_t ucx_datatype_room(ucp_datatype_t datatype, void *buffer, size_t *count, bool parts,
			       struct iovec *single_p, const struct iovec **segments_p, struct ucx_bounce **bounce_p)
{
	const struct ucx_datatype *packer = ucx_datatype_packer(datatype);
	size_t length;
	void *state;

	*bounce_p = NULL;
	if (ucx_datatype_in_place(datatype, buffer, count, single_p, segments_p))
		return UCS_OK;
	if (!packer)
		return UCS_ERR_UNSUPPORTED;
	state = packer->operations.start_unpack(packer->context, buffer, *count);
	length = packer->operations.packed_size(state);
	*segments_p = single_p;
	*count = 1;
	if (parts && ucx_datatype_goes_by_parts(datatype, length))
		*bounce_p = ucx_datatype_parts_make(packer, state, length, false);
	else
		*bounce_p = ucx_datatype_bounce_make(length, single_p);
	if (!*bounce_p) {
		packer->operations.finish(state);
		return UCS_ERR_NO_MEMORY;
	}
	(*bounce_p)->datatype = packer;
	(*bounce_p)->state = state;
	return UCS_OK;
}

/* All of a message has come that is to be unpacked, or was by parts; or of a send that went by parts. Unpacking is also
 * called for an empty message, as with UCX. */
static ucs_status_t ucx_datatype_ended(struct ucx_bounce *bounce, size_t length)
{
	if (ucx_datatype_has_layout(bounce) && (length > 0 || bounce->parts->sends))
		return bounce->parts->status;
	return bounce->datatype->operations.unpack(bounce->state, 0, bounce->memory, length);
}

ucs_status_t ucx_datatype_end(struct ucx_bounce *bounce, size_t length, ucs_status_t status)
{
	const struct ucx_datatype *generic = bounce ? bounce->datatype : NULL;

	if (generic) {
		if (status == UCS_OK)
			status = ucx_datatype_ended(bounce, length);
		generic->operations.finish(bounce->state);
	}
	thole_free(bounce);
	return status;
}
