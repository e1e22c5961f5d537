/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_extensions.h - what MX 1.2 added to myriexpress.h: connecting without waiting, messages that a
 * function of the program takes as they come, requests that are forgotten. The same rules hold.
 */
#ifndef MX_EXTENSIONS_H
#define MX_EXTENSIONS_H

#include "myriexpress.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- Peers ----------------------------------------------------------------------------------- */

#define MX_HAS_ICONNECT_V2 1 /* mx_iconnect has match_info */

/* Start to connect. The request completes with the peer's address in the source of its status;
 * match_info serves mx_test_any alone. Errors: as mx_irecv; completion with ENDPOINT_UNKNOWN,
 * ENDPOINT_UNREACHABLE, ENDPOINT_CLOSED, BAD_KEY, BAD_ENDPOINT, TIMEOUT. */
extern mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id,
			       uint32_t key, uint64_t match_info, void *context,
			       mx_request_t *request);

/* Have nothing to do with a peer any longer: what is under way with it ends with an error, and its
 * address must not be used until it is connected again. The peer is not told. */
extern mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t addr);

/* A pointer of the program's, kept with a peer. At first it is NULL. */
extern mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void *context);
extern mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void **context);

/* As mx_decompose_endpoint_addr, and a number that changes each time somebody opens that
 * endpoint. */
extern mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id,
					       uint32_t *endpoint_id, uint32_t *session_id);

/* ---- Unexpected messages --------------------------------------------------------------------- */

enum mx_unexp_handler_action {
	MX_RECV_CONTINUE = 0, /* the message goes on: to the receive that the handler has started,
				 or into the queue */
	MX_RECV_FINISHED      /* it has been dealt with; nothing of it remains */
};
typedef enum mx_unexp_handler_action mx_unexp_handler_action_t;

/* Called during progress for a message that no receive has asked for, before it is queued.
 * data_if_available is the whole message if it is there already and in one piece, else NULL; it is
 * gone when the handler returns. The handler may start sends and receives; nothing makes progress
 * inside of it, so it must not wait, and it cannot close the endpoint. */
typedef mx_unexp_handler_action_t (*mx_unexp_handler_t)(void *context, mx_endpoint_addr_t source,
							uint64_t match_value, uint32_t length,
							void *data_if_available);

/* Set the handler, or none: NULL. */
extern mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler,
					     void *context);

/* ---- Requests -------------------------------------------------------------------------------- */

/* The request goes on, but is nobody's: nothing will report its completion, and the handle is no
 * more. The data has to stay as long as it would have. */
extern mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request);

/* How long a send or connect may take until it completes with MX_STATUS_TIMEOUT; request NULL: of
 * those to come on this endpoint. 0: for ever. */
extern mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request,
					  uint32_t milli_seconds);

/* Do what there is to do. */
extern mx_return_t mx_progress(mx_endpoint_t endpoint);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif /* MX_EXTENSIONS_H */
