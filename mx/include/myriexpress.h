/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * myriexpress.h - Myrinet Express (MX), API 0x301, as Thole serves it.
 *
 * Names, values and layouts are those of MX 1.2, so that programs written for it compile, and
 * programs built with it run. MX is the interface of Myricom; the text here, and what stands behind
 * it, is Thole's.
 *
 *   board     an Ethernet interface of this host, numbered from 0; its NIC id is its MAC address,
 *             first byte highest
 *   endpoint  a place that messages are sent from and arrive at: a board and an endpoint id
 *   address   another endpoint, as mx_connect or a received message gives it; valid for one local
 *             endpoint
 *   request   an operation under way; ended by the call that reports its completion, which frees it
 *
 * What holds everywhere:
 *  - Functions return MX_SUCCESS or an error. An error goes to the error handler first, and what
 *    the handler returns is what the function returns. The handler that is set at first ends the
 *    process: mx_set_error_handler.
 *  - How an operation itself ended is in the code of its mx_status_t, not in what the function
 *    returns.
 *  - result, where there is one, says whether what was asked for is the case: 1, or 0. Only then is
 *    a status filled.
 *  - Timeouts are in milliseconds; MX_INFINITE (0) never ends. A wait that ends by its timeout
 *    returns MX_SUCCESS with result 0.
 *  - Matching is that of message and receive in the order of both: a receive takes the first
 *    message for which (message's match_info & match_mask) == match_info. Match information that
 *    has bits outside of its mask is refused with MX_BAD_MATCH_MASK.
 *  - Any thread may call any function, except that closing an endpoint must be the last call on it.
 *  - Messages make progress inside calls, and, less swiftly, while the program is elsewhere.
 */
#ifndef MYRIEXPRESS_H
#define MYRIEXPRESS_H

#include <inttypes.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define MX_API 0x301 /* of this header: major times 256 plus minor */

/* ---- Results --------------------------------------------------------------------------------- */

enum mx_return_code {
	MX_SUCCESS = 0,
	MX_BAD_BAD_BAD = 1,            /* what should not be possible has happened */
	MX_FAILURE = 2,
	MX_ALREADY_INITIALIZED = 3,    /* mx_init a second time; the library remains usable */
	MX_NOT_INITIALIZED = 4,        /* mx_init was not called, or mx_finalize was */
	MX_NO_DEV = 5,                 /* no device */
	MX_NO_DRIVER = 6,              /* no driver */
	MX_NO_PERM = 7,                /* the kernel does not permit it to this process */
	MX_BOARD_UNKNOWN = 8,          /* this host has no board of this number or NIC id */
	MX_BAD_ENDPOINT = 9,           /* not an open endpoint */
	MX_BAD_SEG_LIST = 10,          /* no list of segments, but their count is not 0 */
	MX_BAD_SEG_MEM = 11,           /* a segment is not memory of this process */
	MX_BAD_SEG_CNT = 12,           /* more than MX_MAX_SEGMENTS */
	MX_BAD_REQUEST = 13,           /* not a request, or not one that this can be asked about */
	MX_BAD_MATCH_MASK = 14,        /* match information outside of the mask, or a mask that is
					  not allowed */
	MX_NO_RESOURCES = 15,          /* memory, descriptors or endpoints have run out */
	MX_BAD_ADDR_LIST = 16,         /* of MX's collective operations, which no MX 1.2 has */
	MX_BAD_ADDR_COUNT = 17,        /* the same */
	MX_BAD_ROOT = 18,              /* the same */
	MX_NOT_COMPLETED = 19,         /* an operation is not complete yet */
	MX_BUSY = 20,                  /* taken by another */
	MX_BAD_INFO_KEY = 21,          /* mx_get_info: no such key */
	MX_BAD_INFO_VAL = 22,          /* mx_get_info: a pointer that must not be NULL is, or what
					  it points at is wrong */
	MX_BAD_NIC = 23,               /* not a NIC id */
	MX_BAD_PARAM_LIST = 24,        /* no list of parameters, but their count is not 0 */
	MX_BAD_PARAM_NAME = 25,        /* a parameter has an unknown key */
	MX_BAD_PARAM_VAL = 26,         /* a parameter has a value that is not allowed */
	MX_BAD_HOSTNAME_ARGS = 27,     /* mx_hostname_to_nic_id: an argument is not valid */
	MX_HOST_NOT_FOUND = 28,        /* no host of this name */
	MX_REQUEST_PENDING = 29,       /* not buffered yet */
	MX_TIMEOUT = 30,               /* the time given has passed */
	MX_NO_MATCH = 31,              /* no message that matches */
	MX_BAD_ENDPOINT_ID = 32,       /* an endpoint id beyond those that a board has */
	MX_CONNECTION_FAILED = 33,     /* nobody has the endpoint open */
	MX_BAD_CONNECTION_KEY = 34,    /* the endpoint was opened with another key */
	MX_BAD_INFO_LENGTH = 35,       /* mx_get_info: a buffer is too small */
	MX_NIC_NOT_FOUND = 36,         /* no host of this NIC id is known */
	MX_BAD_KERNEL_VERSION = 37,    /* the driver has another version */
	MX_BAD_LIB_VERSION = 38,       /* the program was compiled for an MX that this library does
					  not serve */
	MX_NIC_DEAD = 39,              /* the board has failed */
	MX_CANCEL_NOT_SUPPORTED = 40,  /* this kind of request cannot be canceled */
	MX_CLOSE_IN_HANDLER = 41,      /* mx_close_endpoint inside of the endpoint's handler of
					  unexpected messages */
	MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK = 42, /* a mask that has some of the context id's bits,
						     but not all */
	MX_NOT_SUPPORTED_WITH_CONTEXT_ID = 43     /* cannot be done while the endpoint has context
						     ids */
};
typedef enum mx_return_code mx_return_t;

enum mx_status_code {
	MX_STATUS_SUCCESS = 0,
	MX_STATUS_PENDING = 1,              /* not complete yet */
	MX_STATUS_BUFFERED = 2,             /* the same, but the buffer is free again */
	MX_STATUS_REJECTED = 3,             /* it failed */
	MX_STATUS_TIMEOUT = 4,              /* its time has passed: mx_set_request_timeout */
	MX_STATUS_TRUNCATED = 5,            /* the message was longer than the buffer; the front of
					       it is there */
	MX_STATUS_CANCELLED = 6,
	MX_STATUS_ENDPOINT_UNKNOWN = 7,     /* no host of this NIC id is known */
	MX_STATUS_ENDPOINT_CLOSED = 8,      /* nobody has the endpoint open, or no longer */
	MX_STATUS_ENDPOINT_UNREACHABLE = 9, /* its host is silent */
	MX_STATUS_BAD_SESSION = 10,         /* another than the one connected to has the endpoint
					       open now */
	MX_STATUS_BAD_KEY = 11,             /* mx_iconnect: the endpoint was opened with another
					       key */
	MX_STATUS_BAD_ENDPOINT = 12,        /* an endpoint id beyond those that the peer's board
					       has */
	MX_STATUS_BAD_RDMAWIN = 13,         /* the sender withdrew a large message while it was
					       fetched */
	MX_STATUS_ABORTED = 14,             /* the peer gave up */
	MX_STATUS_EVENTQ_FULL = 15,         /* never given to a program */
	MX_STATUS_NO_RESOURCES = 16         /* memory has run out */
};
typedef enum mx_status_code mx_status_code_t;

/* A phrase for a code. Never NULL, for any value; constant. */
extern const char *mx_strerror(mx_return_t return_code);
extern const char *mx_strstatus(mx_status_code_t status);

/* ---- Types ----------------------------------------------------------------------------------- */

#define MX_MAX_STR_LEN 128     /* bytes of a string that mx_get_info gives, its NUL included */
#define MX_MAX_HOSTNAME_LEN 80 /* of a board's name, its NUL included */
#define MX_MAX_SEGMENTS 256    /* of a send or receive */
#define MX_SIZEOF_ADDR 16
#define MX_CONTEXT_ID_BITS_MAX 16

#define MX_ANY_NIC 0xffffffffU      /* as board number: any that is there */
#define MX_ANY_ENDPOINT 0xffffffffU /* as endpoint id of mx_open_endpoint: any that is free */
#define MX_INFINITE 0               /* as timeout */
#define MX_MATCH_MASK_NONE (~(uint64_t)0) /* as match mask: no bit is masked out, so that all have
					     to be equal */

/* The halves of a uint64_t, for printing it with two "%x". */
#define MX_U32(x) ((sizeof(x) == 8) ? ((uint32_t)((uint64_t)(x) >> 32)) : ((void)(x), (uint32_t)0))
#define MX_L32(x) ((uint32_t)(x))

typedef struct mx_endpoint *mx_endpoint_t;
typedef union mx_request *mx_request_t;

/* Another endpoint. What is in it is Thole's; copies are as good as the original. Zeroed, it is
 * nobody. */
typedef struct {
	uint64_t stuff[MX_SIZEOF_ADDR / sizeof(uint64_t)];
} mx_endpoint_addr_t;

typedef void *mx_segment_ptr_t;

typedef struct {
	mx_segment_ptr_t segment_ptr;
	uint32_t segment_length; /* bytes */
} mx_segment_t;

/* How an operation ended. */
typedef struct mx_status {
	mx_status_code_t code;
	mx_endpoint_addr_t source; /* receive, probe: the sender; send, connect: the other
				      endpoint */
	uint64_t match_info;       /* receive, probe: the message's; else as the operation was given
				      it */
	uint32_t msg_length;       /* bytes of the message */
	uint32_t xfer_length;      /* of them moved; of a send it says nothing about the receiver's
				      buffer */
	void *context;             /* as the operation was given it */
} mx_status_t;

/* ---- Library --------------------------------------------------------------------------------- */

/* Before anything else, except mx_set_error_handler, mx_strerror and mx_strstatus. Errors:
 * BAD_LIB_VERSION. A second call changes nothing and returns ALREADY_INITIALIZED, without a
 * handler's being asked; one mx_finalize then still ends all. */
#define mx_init() mx__init_api(MX_API)
extern mx_return_t mx__init_api(int api);

/* An endpoint that is still open remains so until it is closed; no other can be opened. Errors:
 * NOT_INITIALIZED. */
extern mx_return_t mx_finalize(void);

/* Is given a sentence about what was done and the code of the error, and returns what the function
 * that found the error shall return. str lives until it returns. It must not call MX. */
typedef mx_return_t (*mx_error_handler_t)(char *str, mx_return_t ret);

extern const mx_error_handler_t MX_ERRORS_ARE_FATAL; /* prints both on stderr and exits; the one set
							at first */
extern const mx_error_handler_t MX_ERRORS_RETURN;    /* returns the code */

/* Set the handler of all endpoints that were not opened with one of their own; NULL is
 * MX_ERRORS_ARE_FATAL. Returns the former. May be called before mx_init. */
extern mx_error_handler_t mx_set_error_handler(mx_error_handler_t handler);

/* ---- Boards and names ------------------------------------------------------------------------ */

/* Between a board of this host and its number. Errors: BOARD_UNKNOWN, NOT_INITIALIZED. */
extern mx_return_t mx_board_number_to_nic_id(uint32_t board_number, uint64_t *nic_id);
extern mx_return_t mx_nic_id_to_board_number(uint64_t nic_id, uint32_t *board_number);

/* Between any host's board and its name, "host:0"; without ":0" it is the host's first. The first
 * may ask other hosts and take a while; the second knows who was seen or is in the hosts file, and
 * writes MX_MAX_HOSTNAME_LEN bytes at most. Errors: HOST_NOT_FOUND, NIC_NOT_FOUND,
 * BAD_HOSTNAME_ARGS (NULL), NOT_INITIALIZED. */
extern mx_return_t mx_hostname_to_nic_id(char *hostname, uint64_t *nic_id);
extern mx_return_t mx_nic_id_to_hostname(uint64_t nic_id, char *hostname);

enum mx_net_type {
	MX_NET_MYRI,
	MX_NET_ETHER
};

typedef enum mx_line_speed {
	MX_SPEED_2G,
	MX_SPEED_10G,
	MX_SPEED_OPEN_MX /* whatever the Ethernet has */
} mx_line_speed_t;

#define MX_HAS_NET_TYPE /* there are MX_NET_TYPE and MX_LINE_SPEED */

/* What mx_get_info tells, and as what. "Of the board": the endpoint's, or where that is NULL the
 * one whose number, a uint32_t, in_val points at. */
enum mx_get_info_key {
	MX_NIC_COUNT = 1,            /* uint32_t: boards of this host */
	MX_NIC_IDS = 2,              /* uint64_t each and a 0 behind them: their NIC ids, in the
					order of their numbers */
	MX_MAX_NATIVE_ENDPOINTS = 3, /* uint32_t: endpoints that a board has; their ids are less */
	MX_NATIVE_REQUESTS = 4,      /* uint32_t: requests that an endpoint can have under way */
	MX_COUNTERS_COUNT = 5,       /* uint32_t: how many counters there are */
	MX_COUNTERS_LABELS = 6,      /* char[MX_MAX_STR_LEN] each: their names */
	MX_COUNTERS_VALUES = 7,      /* uint32_t each, the low bits: the endpoint's, or of all of
					this process on the board */
	MX_PRODUCT_CODE = 8,         /* text: "Thole" and its version */
	MX_PART_NUMBER = 9,          /* text: the name of the board's interface */
	MX_SERIAL_NUMBER = 10,       /* text: the board's MAC address, "02:00:00:00:00:01" */
	MX_PORT_COUNT = 11,          /* uint32_t: of the board; 1 */
	MX_PIO_SEND_MAX = 12,        /* uint32_t: bytes of the longest message that is sent at its
					fastest */
	MX_COPY_SEND_MAX = 13,       /* uint32_t: of the longest that is copied when sent, and
					complete at once */
	MX_NUMA_NODE = 14,           /* uint32_t: of the board; all bits set where none is nearer */
	MX_NET_TYPE = 15,            /* uint32_t: enum mx_net_type of the board */
	MX_LINE_SPEED = 16           /* uint32_t: enum mx_line_speed of the board */
};
typedef enum mx_get_info_key mx_get_info_key_t;

/* Errors: BAD_INFO_KEY, BAD_INFO_VAL (out_val is NULL, or in_val where a board is needed),
 * BAD_INFO_LENGTH (out_len is too small, or in_len is not a number's), BOARD_UNKNOWN,
 * NOT_INITIALIZED. */
extern mx_return_t mx_get_info(mx_endpoint_t endpoint, mx_get_info_key_t key, void *in_val,
			       uint32_t in_len, void *out_val, uint32_t out_len);

/* ---- Endpoints ------------------------------------------------------------------------------- */

enum mx_param_key {
	MX_PARAM_ERROR_HANDLER = 0,    /* error_handler: of this endpoint, instead of the
					  process's */
	MX_PARAM_UNEXP_QUEUE_MAX = 1,  /* unexp_queue_max: bytes of messages to keep that no receive
					  has asked for */
	MX_PARAM_CONTEXT_ID = 2        /* context_id: these bits of the match information make
					  queues of their own */
};
typedef enum mx_param_key mx_param_key_t;

typedef struct {
	mx_param_key_t key;
	union {
		mx_error_handler_t error_handler;
		uint32_t unexp_queue_max;
		struct {
			uint8_t bits;  /* how many, up to MX_CONTEXT_ID_BITS_MAX */
			uint8_t shift; /* of the lowest of them */
		} context_id;
	} val;
} mx_param_t;

/* Open an endpoint: others connect to the board's NIC id, this endpoint id and this key. Errors:
 * NOT_INITIALIZED, BOARD_UNKNOWN, BAD_ENDPOINT_ID, BUSY (this host has it open, or its port is
 * another program's), BAD_PARAM_*, NO_RESOURCES. */
extern mx_return_t mx_open_endpoint(uint32_t board_number, uint32_t endpoint_id,
				    uint32_t endpoint_key, mx_param_t *params_array,
				    uint32_t params_count, mx_endpoint_t *endpoint);

/* Close it: requests that are under way are dropped, but what was reported as sent still goes out.
 * Errors: BAD_ENDPOINT, CLOSE_IN_HANDLER. */
extern mx_return_t mx_close_endpoint(mx_endpoint_t endpoint);

/* The endpoint's own address. An endpoint may send to itself. */
extern mx_return_t mx_get_endpoint_addr(mx_endpoint_t endpoint, mx_endpoint_addr_t *endpoint_addr);

/* Find an endpoint and make its address, which then is good for sending. Errors: TIMEOUT,
 * CONNECTION_FAILED, BAD_CONNECTION_KEY, BAD_ENDPOINT_ID, NIC_NOT_FOUND. mx_iconnect
 * (mx_extensions.h) does not wait. */
extern mx_return_t mx_connect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id,
			      uint32_t key, uint32_t timeout, mx_endpoint_addr_t *addr);

/* Whose address it is; a pointer that is NULL is left out. */
extern mx_return_t mx_decompose_endpoint_addr(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id,
					      uint32_t *endpoint_id);

/* End the waits of all threads in mx_wait, mx_wait_any, mx_peek and mx_probe on this endpoint, as
 * if by timeout. */
extern mx_return_t mx_wakeup(mx_endpoint_t endpoint);

/* Between the two no unexpected-message handler runs, none is running when the first returns, and
 * nothing of the endpoint makes progress. They do not nest. */
extern mx_return_t mx_disable_progression(mx_endpoint_t endpoint);
extern mx_return_t mx_reenable_progression(mx_endpoint_t endpoint);

/* ---- Messages -------------------------------------------------------------------------------- */

/* Start a send of the segments, in their order, as one message; of a list that is NULL with count 0
 * an empty one. Never blocks. The list is copied, the data has to stay until completion. mx_issend
 * completes only when a receive has matched it. Errors: BAD_SEG_CNT, BAD_SEG_LIST, BAD_ENDPOINT,
 * NO_RESOURCES. */
extern mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments_list,
			    uint32_t segments_count, mx_endpoint_addr_t dest_endpoint,
			    uint64_t match_info, void *context, mx_request_t *request);
extern mx_return_t mx_issend(mx_endpoint_t endpoint, mx_segment_t *segments_list,
			     uint32_t segments_count, mx_endpoint_addr_t dest_endpoint,
			     uint64_t match_info, void *context, mx_request_t *request);

/* Start a receive, from anybody. A longer message fills the buffer and ends with
 * MX_STATUS_TRUNCATED. Errors: as mx_isend, and BAD_MATCH_MASK,
 * BAD_MATCHING_FOR_CONTEXT_ID_MASK. */
extern mx_return_t mx_irecv(mx_endpoint_t endpoint, mx_segment_t *segments_list,
			    uint32_t segments_count, uint64_t match_info, uint64_t match_mask,
			    void *context, mx_request_t *request);

/* Take back a receive that has no message yet: result 1, and the request is freed without a
 * completion. Else 0, and it completes as if nothing had been said. A connect too can be taken
 * back. Errors: CANCEL_NOT_SUPPORTED (of a send). */
extern mx_return_t mx_cancel(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result);

/* Is there a message that a receive with these would get? It stays. Errors: as mx_irecv. */
extern mx_return_t mx_iprobe(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask,
			     mx_status_t *status, uint32_t *result);
extern mx_return_t mx_probe(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info,
			    uint64_t match_mask, mx_status_t *status, uint32_t *result);

/* ---- Completion ------------------------------------------------------------------------------ */

/* Is this request complete? Then status is filled and the request freed. */
extern mx_return_t mx_test(mx_endpoint_t endpoint, mx_request_t *request, mx_status_t *status,
			   uint32_t *result);
extern mx_return_t mx_wait(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout,
			   mx_status_t *status, uint32_t *result);

/* The same for the oldest completion whose match information agrees. Errors: as mx_irecv. */
extern mx_return_t mx_test_any(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask,
			       mx_status_t *status, uint32_t *result);
extern mx_return_t mx_wait_any(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info,
			       uint64_t match_mask, mx_status_t *status, uint32_t *result);

/* A request that is complete, oldest first, whatever its context id; it remains to be tested. */
extern mx_return_t mx_ipeek(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result);
extern mx_return_t mx_peek(mx_endpoint_t endpoint, uint32_t timeout, mx_request_t *request,
			   uint32_t *result);

/* Is a send's buffer free again, though the send may not be complete? Errors: BAD_REQUEST (it is
 * not a send). */
extern mx_return_t mx_ibuffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result);

/* The context that a request was given. */
extern mx_return_t mx_context(mx_request_t *request, void **context);

/* Called during progress with the match information and the length of a message that no receive has
 * asked for; a receive that it starts gets the message. Of an older MX: mx_register_unexp_handler
 * (mx_extensions.h) can do more, and replaces it. */
typedef void (*mx_matching_callback_t)(void *context, uint64_t match_value, int length);
extern mx_return_t mx_register_unexp_callback(mx_endpoint_t endpoint,
					      mx_matching_callback_t callback, void *context);

/* ---- What is declared, but was never served by MX 1.2 ---------------------------------------- */

/* These fail: MX_FAILURE. */
extern mx_return_t mx_iput(mx_endpoint_t endpoint, void *local_addr, uint32_t length,
			   mx_endpoint_addr_t dest_endpoint, uint64_t remote_addr, void *context,
			   mx_request_t *request);
extern mx_return_t mx_iget(mx_endpoint_t endpoint, void *local_addr, uint32_t length,
			   mx_endpoint_addr_t dest_endpoint, uint64_t remote_addr, void *context,
			   mx_request_t *request);
extern mx_return_t mx_buffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout,
			       uint32_t *result);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif /* MYRIEXPRESS_H */
