/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_raw.h - packets of the mapper, beside the messages: what the programs that map a Myrinet use.
 * An Ethernet finds its routes itself, so what a mapper does here is to send and to receive.
 *
 * A packet is a whole Ethernet frame of EtherType 0x86DF: a header of 14 bytes, two bytes, the type
 * 1, then what the mapper likes. No others are received. Raw endpoints need CAP_NET_RAW, and a
 * board has one at a time.
 */
#ifndef MX_RAW_H
#define MX_RAW_H

#include "mx_io.h"
#include "myriexpress.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define MX_RAW_POLL_SUPPORTED 1         /* mx_raw_handle may be given to poll */
#define MX_SET_ROUTE_TAKES_MAGID 1      /* there is mx_raw_set_route_mag */
#define MX_HAS_RAW_LINE_SPEED 1         /* there is mx_raw_line_speed */
#define MX_HAS_RAW_SET_NIC_REPLY_INFO 1 /* there is mx_raw_set_nic_reply_info */

/* What mx_raw_next_event found, or that the board is dead, and of what. Thole's boards do not
 * die. */
#define MX_RAW_NO_EVENT 0
#define MX_RAW_SEND_COMPLETE 1
#define MX_RAW_RECV_COMPLETE 2
#define MX_DEAD_RECOVERABLE_SRAM_PARITY_ERROR 10
#define MX_DEAD_SRAM_PARITY_ERROR 11
#define MX_DEAD_WATCHDOG_TIMEOUT 12
#define MX_DEAD_COMMAND_TIMEOUT 13
#define MX_DEAD_ENDPOINT_CLOSE_TIMEOUT 14
#define MX_DEAD_ROUTE_UPDATE_TIMEOUT 15
#define MX_DEAD_PCI_PARITY_ERROR 16
#define MX_DEAD_PCI_MASTER_ABORT 17
typedef int mx_raw_status_t;

typedef struct mx_raw_endpoint *mx_raw_endpoint_t;

typedef enum {
	MX_HOST_GM = 1,
	MX_HOST_XM = 2,
	MX_HOST_MX = 3,
	MX_HOST_MXvM = 4
} mx_host_type_t;

/* Open and close. There are no parameters. Errors: NOT_INITIALIZED, BOARD_UNKNOWN, NO_PERM, BUSY,
 * BAD_PARAM_*, NO_RESOURCES. */
extern mx_return_t mx_raw_open_endpoint(uint32_t board_number, mx_param_t *params_array,
					uint32_t params_count, mx_raw_endpoint_t *endpoint);
extern mx_return_t mx_raw_close_endpoint(mx_raw_endpoint_t endpoint);

/* A descriptor that polls readable when mx_raw_next_event has something. */
extern mx_endpt_handle_t mx_raw_handle(mx_raw_endpoint_t endpoint);

/* Send a frame; the buffer is free when this returns, and an event with the context follows. Frames
 * may be lost, here as anywhere. Port and route are not used. Errors: BAD_ENDPOINT, BAD_SEG_MEM (no
 * buffer), BAD_SEG_CNT (its length), NO_RESOURCES (too many events not fetched). */
extern mx_return_t mx_raw_send(mx_raw_endpoint_t endpoint, uint32_t physical_port,
			       void *route_pointer, uint32_t route_length, void *send_buffer,
			       uint32_t buffer_length, void *context);

/* Wait timeout_ms at most (0: not at all) for the next event. status says which. Of a frame that
 * arrived: incoming_port, and up to *recv_bytes of it, whose number replaces that; of one sent:
 * context. */
extern mx_return_t mx_raw_next_event(mx_raw_endpoint_t endpoint, uint32_t *incoming_port,
				     void **context, void *recv_buffer, uint32_t *recv_bytes,
				     uint32_t timeout_ms, mx_raw_status_t *status);

extern mx_return_t mx_raw_num_ports(mx_raw_endpoint_t endpoint, uint32_t *num_ports);
extern mx_return_t mx_raw_line_speed(mx_raw_endpoint_t endpoint, mx_line_speed_t *speed);

/* Routes, and what the mapper knows: the network finds them itself. These succeed and change
 * nothing. */
extern mx_return_t mx_raw_set_route_begin(mx_raw_endpoint_t endpoint);
extern mx_return_t mx_raw_set_route_end(mx_raw_endpoint_t endpoint);
extern mx_return_t mx_raw_set_route(mx_raw_endpoint_t endpoint, uint64_t destination_id,
				    void *route, uint32_t route_length, uint32_t input_port,
				    uint32_t output_port, mx_host_type_t host_type);
extern mx_return_t mx_raw_set_route_mag(mx_raw_endpoint_t endpoint, uint64_t destination_id,
					void *route, uint32_t route_length, uint32_t input_port,
					uint32_t output_port, mx_host_type_t host_type,
					uint32_t mag_id);
extern mx_return_t mx_raw_clear_routes(mx_raw_endpoint_t endpoint, uint64_t destination_id,
				       uint32_t port);
extern mx_return_t mx_raw_remove_peer(mx_raw_endpoint_t endpoint, uint64_t destination_id);
extern mx_return_t mx_raw_set_map_version(mx_raw_endpoint_t endpoint, uint32_t physical_port,
					  uint64_t mapper_id, uint32_t map_version,
					  uint32_t num_nodes, uint32_t mapping_complete);

/* Names: hosts say their own. These succeed and change nothing. */
extern mx_return_t mx_raw_set_hostname(mx_raw_endpoint_t endpoint, char *hostname);
extern mx_return_t mx_raw_set_peer_name(mx_raw_endpoint_t endpoint, uint64_t nic_id,
					char *hostname);
extern mx_return_t mx_raw_set_nic_reply_info(mx_raw_endpoint_t endpoint, void *blob, uint32_t size);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif /* MX_RAW_H */
