/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_raw - packets of the mapper (mx_raw.h), and what programs ask about it (mx_internals/).
 *
 * A raw endpoint owns a packet socket on its board's interface that takes MXoE's frames of type
 * "raw" alone, a name that keeps others on this host from the same board, and a queue of sends
 * whose events were not fetched. Its handle is an epoll descriptor over the socket and an eventfd
 * that counts the queue, so that it polls readable for both kinds of event.
 *
 * An Ethernet finds its routes itself and hosts say their names themselves. So what a mapper would
 * tell the board is taken and comes to nothing, and the state of the mapper is the same on all
 * hosts: one network, mapped.
 *
 * Any thread may call anything. The lock is around the queue and its eventfd only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/forked.h"
#include "base/limits.h"
#include "base/lock.h"
#include "mx_board.h"
#include "mx_error.h"
#include "mx_extensions.h"
#include "mx_internals/mx__driver_interface.h"
#include "mx_library.h"
#include "mx_place.h"
#include "mx_post.h"
#include "mx_raw.h"
#include "thole.h"

enum {
	ETHERTYPE = 0x86df, /* of MXoE */
	/* of the packet's type in a frame, behind the Ethernet header and two bytes of peer index */
	TYPE_OFFSET = 16,
	TYPE_RAW = 1,
	SENDS_MAX = 1024,          /* events of sends not fetched: a mapper sends some packets, then looks */
	HANDLE_BOARD = 0x4d580000, /* plus a board's number: a handle that is no descriptor, should somebody close it */
};

struct mx_raw_endpoint {
	struct mxi_board board;
	int packet_fd, name_fd; /* frames, and the claim on the board, */
	struct forked forked;   /* which a child would keep up */
	int event_fd, epoll_fd; /* sends that are done, and both kinds of event */
	struct lock lock;       /* of the ring */
	void *sent[SENDS_MAX];  /* contexts, a ring */
	unsigned first, count;  /* the oldest of it, and how many there are */
	unsigned promised;      /* places of it that sends under way will take */
};

/* ---- Opening --------------------------------------------------------------------------------- */

static mx_return_t mxi_raw_refused(const char *what)
{
	return (mx_return_t)error_set(MX_NO_RESOURCES, "cannot %s: %m", what);
}

/* The name is bound in this network namespace as long as somebody has the descriptor open. */
static mx_return_t mxi_raw_open_name(struct mx_raw_endpoint *raw)
{
	struct mxi_place place;

	mxi_place_raw(&place, raw->board.nic_id);
	raw->name_fd = mxi_post_claim(&place);
	if (raw->name_fd >= 0) {
		forked_add(&raw->forked, &raw->name_fd, 1);
		return MX_SUCCESS;
	}
	if (errno == EADDRINUSE)
		return (mx_return_t)error_set(MX_BUSY,
					      "another program on this host has the raw endpoint of board %" PRIu32,
					      raw->board.number);
	return mxi_raw_refused("bind a Unix socket");
}

/* Only frames of type "raw", and none that is for another host and seen by chance. */
static mx_return_t mxi_raw_set_filter(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OTHERHOST, 2, 0),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TYPE_OFFSET),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TYPE_RAW, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program))
		       ? mxi_raw_refused("filter frames")
		       : MX_SUCCESS;
}

static mx_return_t mxi_raw_open_packets(struct mx_raw_endpoint *raw)
{
	struct sockaddr_ll name = {.sll_family = AF_PACKET,
				   .sll_protocol = htons(ETHERTYPE),
				   .sll_ifindex = (int)if_nametoindex(raw->board.interface)};
	mx_return_t code;

	/* nothing comes until it is bound */
	raw->packet_fd = limits_own(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (raw->packet_fd < 0 && (errno == EPERM || errno == EACCES))
		return (mx_return_t)error_set(MX_NO_PERM, "raw frames need the capability CAP_NET_RAW: run \"setcap "
							  "cap_net_raw+ep PROGRAM\" as root, or run as root");
	if (raw->packet_fd < 0)
		return mxi_raw_refused("make a packet socket");
	code = mxi_raw_set_filter(raw->packet_fd);
	if (code == MX_SUCCESS &&
	    (name.sll_ifindex == 0 || bind(raw->packet_fd, (struct sockaddr *)&name, sizeof(name)) != 0))
		code = mxi_raw_refused("bind a packet socket");
	return code;
}

static int mxi_raw_watch(const struct mx_raw_endpoint *raw, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(raw->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static mx_return_t mxi_raw_open_events(struct mx_raw_endpoint *raw)
{
	raw->event_fd = limits_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
	raw->epoll_fd = limits_own(epoll_create1(EPOLL_CLOEXEC));
	if (raw->event_fd < 0 || raw->epoll_fd < 0 || mxi_raw_watch(raw, raw->event_fd) != 0 ||
	    mxi_raw_watch(raw, raw->packet_fd) != 0)
		return mxi_raw_refused("make descriptors for events");
	return MX_SUCCESS;
}

static void mxi_raw_close_all(struct mx_raw_endpoint *raw)
{
	const int fds[] = {raw->packet_fd, raw->event_fd, raw->epoll_fd};

	forked_remove(&raw->forked);
	forked_close(&raw->name_fd);
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	free(raw);
}

static mx_return_t mxi_raw_open_all(uint32_t board_number, struct mx_raw_endpoint **raw_p)
{
	struct mx_raw_endpoint *raw = calloc(1, sizeof(*raw));
	mx_return_t code;

	if (!raw)
		return (mx_return_t)error_set(MX_NO_RESOURCES, "no memory");
	raw->packet_fd = raw->name_fd = raw->event_fd = raw->epoll_fd = -1;
	code = mxi_board_get(board_number, &raw->board);
	if (code == MX_SUCCESS)
		code = mxi_raw_open_packets(raw);
	if (code == MX_SUCCESS)
		code = mxi_raw_open_name(raw);
	if (code == MX_SUCCESS)
		code = mxi_raw_open_events(raw);
	if (code != MX_SUCCESS) {
		mxi_raw_close_all(raw);
		return code;
	}
	*raw_p = raw;
	return MX_SUCCESS;
}

mx_return_t mx_raw_open_endpoint(uint32_t board_number, mx_param_t *params_array, uint32_t params_count,
				 mx_raw_endpoint_t *endpoint)
{
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_raw_open_endpoint");
	if (params_count && !params_array)
		return mxi_error(NULL, MX_BAD_PARAM_LIST, "mx_raw_open_endpoint: %" PRIu32 " parameters", params_count);
	if (params_count)
		return mxi_error(NULL, MX_BAD_PARAM_NAME,
				 "mx_raw_open_endpoint: raw endpoints have no parameters, key %d",
				 (int)params_array[0].key);
	code = mxi_raw_open_all(board_number, endpoint);
	return code ? mxi_error(NULL, code, "mx_raw_open_endpoint: board %" PRIu32 ": %s", board_number, thole_detail())
		    : MX_SUCCESS;
}

mx_return_t mx_raw_close_endpoint(mx_raw_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_raw_close_endpoint");
	mxi_raw_close_all(endpoint);
	return MX_SUCCESS;
}

mx_endpt_handle_t mx_raw_handle(mx_raw_endpoint_t endpoint)
{
	return endpoint ? endpoint->epoll_fd : MX__INVALID_HANDLE;
}

/* ---- Packets --------------------------------------------------------------------------------- */

static bool mxi_raw_sent_promise(struct mx_raw_endpoint *raw)
{
	bool room;

	lock_take(&raw->lock);
	room = raw->count + raw->promised < SENDS_MAX;
	raw->promised += room;
	lock_leave(&raw->lock);
	return room;
}

static void mxi_raw_sent_push(struct mx_raw_endpoint *raw, void *context)
{
	lock_take(&raw->lock);
	raw->promised--;
	raw->sent[(raw->first + raw->count++) % SENDS_MAX] = context;
	eventfd_write(raw->event_fd, 1); /* still locked: who takes the event takes it from there, too */
	lock_leave(&raw->lock);
}

static bool mxi_raw_sent_pop(struct mx_raw_endpoint *raw, void **context)
{
	eventfd_t one;
	bool some;

	lock_take(&raw->lock);
	some = raw->count > 0;
	if (some) {
		if (context)
			*context = raw->sent[raw->first];
		raw->first = (raw->first + 1) % SENDS_MAX;
		raw->count--;
		eventfd_read(raw->event_fd, &one);
	}
	lock_leave(&raw->lock);
	return some;
}

mx_return_t mx_raw_send(mx_raw_endpoint_t endpoint, uint32_t physical_port, void *route_pointer, uint32_t route_length,
			void *send_buffer, uint32_t buffer_length, void *context)
{
	(void)physical_port, (void)route_pointer, (void)route_length;
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_raw_send");
	if (!send_buffer)
		return mxi_error(NULL, MX_BAD_SEG_MEM, "mx_raw_send: no buffer");
	if (buffer_length <= TYPE_OFFSET || buffer_length > ETH_HLEN + endpoint->board.mtu)
		return mxi_error(NULL, MX_BAD_SEG_CNT,
				 "mx_raw_send: a frame has %d to %" PRIu32 " bytes here, not %" PRIu32, TYPE_OFFSET + 1,
				 ETH_HLEN + endpoint->board.mtu, buffer_length);
	if (!mxi_raw_sent_promise(endpoint))
		return mxi_error(NULL, MX_NO_RESOURCES, "mx_raw_send: %d events were not fetched by mx_raw_next_event",
				 SENDS_MAX);
	/* What the kernel has no room for now, or an interface that is down, is one more way for a
	 * frame to be lost. */
	(void)send(endpoint->packet_fd, send_buffer, buffer_length, 0);
	mxi_raw_sent_push(endpoint, context);
	return MX_SUCCESS;
}

/* A frame that is there; its front, where the buffer is smaller. */
static bool mxi_raw_receive(struct mx_raw_endpoint *raw, void *buffer, uint32_t *bytes)
{
	ssize_t length = recv(raw->packet_fd, buffer, *bytes, 0);

	if (length < 0) /* none; or that the interface went down, which is told once and no event */
		return false;
	*bytes = (uint32_t)length;
	return true;
}

static mx_raw_status_t mxi_raw_next_event(struct mx_raw_endpoint *raw, uint32_t *port, void **context, void *buffer,
					  uint32_t *bytes)
{
	if (mxi_raw_sent_pop(raw, context))
		return MX_RAW_SEND_COMPLETE;
	if (!mxi_raw_receive(raw, buffer, bytes))
		return MX_RAW_NO_EVENT;
	if (port)
		*port = 0;
	return MX_RAW_RECV_COMPLETE;
}

mx_return_t mx_raw_next_event(mx_raw_endpoint_t endpoint, uint32_t *incoming_port, void **context, void *recv_buffer,
			      uint32_t *recv_bytes, uint32_t timeout_ms, mx_raw_status_t *status)
{
	struct epoll_event event;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_raw_next_event");
	if (!recv_buffer || !recv_bytes || !status)
		return mxi_error(NULL, MX_BAD_SEG_MEM, "mx_raw_next_event: a place for the event is missing");
	*status = mxi_raw_next_event(endpoint, incoming_port, context, recv_buffer, recv_bytes);
	if (*status != MX_RAW_NO_EVENT || !timeout_ms)
		return MX_SUCCESS;
	/* A signal ends the wait without an event, and so does another thread that is faster to
	 * take it. */
	if (epoll_wait(endpoint->epoll_fd, &event, 1, timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX) > 0)
		*status = mxi_raw_next_event(endpoint, incoming_port, context, recv_buffer, recv_bytes);
	return MX_SUCCESS;
}

/* ---- What a board is told, and tells --------------------------------------------------------- */

static mx_return_t mxi_raw_taken(const struct mx_raw_endpoint *raw, const char *function)
{
	return raw ? MX_SUCCESS : mxi_error(NULL, MX_BAD_ENDPOINT, "%s", function);
}

mx_return_t mx_raw_num_ports(mx_raw_endpoint_t endpoint, uint32_t *num_ports)
{
	*num_ports = 1;
	return mxi_raw_taken(endpoint, "mx_raw_num_ports");
}

mx_return_t mx_raw_line_speed(mx_raw_endpoint_t endpoint, mx_line_speed_t *speed)
{
	if (endpoint)
		*speed = mxi_board_speed(&endpoint->board);
	return mxi_raw_taken(endpoint, "mx_raw_line_speed");
}

mx_return_t mx_raw_set_route_begin(mx_raw_endpoint_t endpoint)
{
	return mxi_raw_taken(endpoint, "mx_raw_set_route_begin");
}

mx_return_t mx_raw_set_route_end(mx_raw_endpoint_t endpoint)
{
	return mxi_raw_taken(endpoint, "mx_raw_set_route_end");
}

mx_return_t mx_raw_set_route(mx_raw_endpoint_t endpoint, uint64_t destination_id, void *route, uint32_t route_length,
			     uint32_t input_port, uint32_t output_port, mx_host_type_t host_type)
{
	(void)destination_id, (void)route, (void)route_length, (void)input_port, (void)output_port, (void)host_type;
	return mxi_raw_taken(endpoint, "mx_raw_set_route");
}

mx_return_t mx_raw_set_route_mag(mx_raw_endpoint_t endpoint, uint64_t destination_id, void *route,
				 uint32_t route_length, uint32_t input_port, uint32_t output_port,
				 mx_host_type_t host_type, uint32_t mag_id)
{
	(void)destination_id, (void)route, (void)route_length, (void)input_port, (void)output_port, (void)host_type;
	(void)mag_id;
	return mxi_raw_taken(endpoint, "mx_raw_set_route_mag");
}

mx_return_t mx_raw_clear_routes(mx_raw_endpoint_t endpoint, uint64_t destination_id, uint32_t port)
{
	(void)destination_id, (void)port;
	return mxi_raw_taken(endpoint, "mx_raw_clear_routes");
}

mx_return_t mx_raw_remove_peer(mx_raw_endpoint_t endpoint, uint64_t destination_id)
{
	(void)destination_id;
	return mxi_raw_taken(endpoint, "mx_raw_remove_peer");
}

mx_return_t mx_raw_set_map_version(mx_raw_endpoint_t endpoint, uint32_t physical_port, uint64_t mapper_id,
				   uint32_t map_version, uint32_t num_nodes, uint32_t mapping_complete)
{
	(void)physical_port, (void)mapper_id, (void)map_version, (void)num_nodes, (void)mapping_complete;
	return mxi_raw_taken(endpoint, "mx_raw_set_map_version");
}

mx_return_t mx_raw_set_hostname(mx_raw_endpoint_t endpoint, char *hostname)
{
	(void)hostname;
	return mxi_raw_taken(endpoint, "mx_raw_set_hostname");
}

mx_return_t mx_raw_set_peer_name(mx_raw_endpoint_t endpoint, uint64_t nic_id, char *hostname)
{
	(void)nic_id, (void)hostname;
	return mxi_raw_taken(endpoint, "mx_raw_set_peer_name");
}

mx_return_t mx_raw_set_nic_reply_info(mx_raw_endpoint_t endpoint, void *blob, uint32_t size)
{
	(void)blob, (void)size;
	return mxi_raw_taken(endpoint, "mx_raw_set_nic_reply_info");
}

/* ---- The mapper's state ---------------------------------------------------------------------- */

mx_return_t mx_open_board(int board_number, mx_endpt_handle_t *handle)
{
	struct mxi_board board;
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx_open_board");
	code = mxi_board_get((uint32_t)board_number, &board); /* none has one below 0 either */
	if (code)
		return mxi_error(NULL, code, "mx_open_board: board %d: %s", board_number, thole_detail());
	*handle = HANDLE_BOARD + board_number;
	return MX_SUCCESS;
}

mx_return_t mx__get_mapper_state(mx_endpt_handle_t handle, mx_mapper_state_t *state)
{
	struct mxi_board board;
	mx_return_t code;

	if (!mxi_library_initialized())
		return mxi_error(NULL, MX_NOT_INITIALIZED, "mx__get_mapper_state");
	if (!state)
		return mxi_error(NULL, MX_BAD_INFO_VAL, "mx__get_mapper_state: no place for the answer");
	code = handle < HANDLE_BOARD ? (mx_return_t)error_set(MX_BOARD_UNKNOWN, "it is no board's")
				     : mxi_board_get((uint32_t)(handle - HANDLE_BOARD), &board);
	if (code)
		return mxi_error(NULL, code, "mx__get_mapper_state: handle %d: %s", handle, thole_detail());
	/* Programs take two hosts for unreachable from each other unless these agree. */
	memset(state, 0, sizeof(*state));
	state->board_number = board.number;
	state->map_version = 1;
	state->network_configured = 1;
	state->routes_valid = 1;
	return MX_SUCCESS;
}

int mx__regcache_clean(void *ptr, size_t length)
{
	(void)ptr, (void)length;
	return 0;
}
