/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_datatype.h - datatypes: what of a buffer is a message's data.
 *
 * Contiguous and scattered buffers are taken as they are. For a generic datatype, which the program packs and unpacks
 * itself, there is a bounce buffer for the whole message, and so there is for more pieces than Thole takes at once. The
 * program's functions are called inside its own calls only, never by the caretaker; but a program that says so
 * (option mpi_datatypes) has long messages packed and unpacked part by part while they are under way, in any thread
 * that makes progress, without a bounce buffer.
 */
#ifndef UCX_DATATYPE_H
#define UCX_DATATYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>

#include "base/list.h"
#include "thole.h"

/* What a ucp_datatype_t of the generic class points to. */
struct ucx_datatype {
	ucp_generic_dt_ops_t operations;
	void *context; /* the program's */
};

/* What is packed of an element that began where there was no room for all of it. */
struct ucx_datatype_rest {
	uint64_t offset;
	size_t length; /* 0: nothing is */
	unsigned char bytes[256];
};

/* What a message that goes by parts has in place of a bounce buffer's memory. */
struct ucx_datatype_parts {
	struct thole_layout layout;
	ucs_status_t status; /* of unpacking, */
	bool sends;          /* or it is a send's */
	struct ucx_datatype_rest rest;
};

/* The bounce buffer of one message. A pointer to none, NULL, is that the message is in the program's buffer. */
struct ucx_bounce {
	struct list_node node;               /* among its worker's, while its request is under way */
	const struct ucx_datatype *datatype; /* whose state is to be finished; NULL: it is */
	void *state;                         /* the program's, of packing or unpacking */
	struct ucx_datatype_parts *parts;    /* in its memory; NULL: that is the message's */
	_Alignas(16) unsigned char memory[]; /* as malloc's is: the program packs into it */
};

static inline bool ucx_datatype_is_contiguous(ucp_datatype_t datatype)
{
	return (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_CONTIG;
}

static inline size_t ucx_datatype_length(ucp_datatype_t datatype, size_t count)
{
	return (datatype >> UCP_DATATYPE_SHIFT) * count;
}

/* Bytes in all. */
size_t ucx_datatype_total(const struct iovec *segments, size_t count);

/* A buffer as segments for Thole: contiguous and scattered ones where they are, others in a bounce buffer, packed (a
 * send) or with room (a receive). *single_p stands for what is one segment. `parts`: or as a layout, the bounce's, in
 * place of segments. Errors: NO_MEMORY, UNSUPPORTED. */
ucs_status_t ucx_datatype_pack(ucp_datatype_t datatype, const void *buffer, size_t *count, bool parts,
			       struct iovec *single_p, const struct iovec **segments_p, struct ucx_bounce **bounce_p);
ucs_status_t ucx_datatype_room(ucp_datatype_t datatype, void *buffer, size_t *count, bool parts,
			       struct iovec *single_p, const struct iovec **segments_p, struct ucx_bounce **bounce_p);

/* Whether it goes by parts. */
static inline bool ucx_datatype_has_layout(const struct ucx_bounce *bounce)
{
	return bounce && bounce->parts;
}

/* A receive has ended: unpack its `length` bytes where `status` says that they are there, and give the bounce buffer,
 * which is in no list any more, back; or a send has. NULL: there is none. Returns what the program is told. */
ucs_status_t ucx_datatype_end(struct ucx_bounce *bounce, size_t length, ucs_status_t status);

#endif /* UCX_DATATYPE_H */
