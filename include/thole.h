/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * thole.h - message passing between processes of a cluster of ordinary Linux machines.
 *
 * This is all of Thole's own interface. Its libfabric provider is written on it.
 *
 *   endpoint  a place that messages are sent from and arrive at; owns everything below
 *   address   an endpoint's printable name, to be handed around by any means
 *   peer      an endpoint's small-integer handle for an address; connection happens on first use
 *   request   an operation under way
 *   region    memory that peers may put to, get from and operate on atomically
 *
 * What holds everywhere:
 *  - A function that returns int returns 0 (or a documented non-negative value) for success and one
 *    negative THOLE_ERR_* for failure. Nothing prints, aborts or raises a signal. thole_detail()
 *    explains the calling thread's last failure in a sentence.
 *  - Pointers and handles are valid, and not NULL unless it is said that they may be. Flags that mean nothing to a
 *    call are ignored.
 *  - Sizes are bytes, times are nanoseconds, and outputs are the last parameters, ending in _p.
 *  - Match order is MPI's: of two messages from one source that both match a receive, the one that was
 *    sent first is received first, whatever their sizes and protocols; of two receives that both
 *    match a message, the one that was posted first gets it.
 *  - Communication makes progress only inside calls that say so ("progresses"), unless the option
 *    progress_thread is on. thole_tend is for those who make none for long.
 *  - Threads: an endpoint opened with THOLE_THREAD_SINGLE is used by one thread at a time; with
 *    THOLE_THREAD_SAFE any thread may call anything, except that thole_endpoint_close is the last
 *    call. Different endpoints are independent. thole_wait, thole_wait_any and thole_sleep are points of cancellation
 *    (pthread_cancel); a thread that may be inside another call must not be cancelled. After fork() a child must
 *    not use the parent's endpoints, and nobody takes it for its parent, however long it lives. What it has of them is
 *    not theirs: thole_endpoint_close does nothing there. A thread that calls Thole needs 64 KiB of stack for
 *    that, besides what the program has on it.
 *  - The network: an endpoint that can reach other hosts adds a thread to the process, one for all endpoints. It
 *    sleeps until a peer asks whether the process lives, and moves no messages. Peers must have the same job key to
 *    connect (option job_key).
 *  - Where an MPI launcher has started the process, the call that sees a peer dead, the first one, holds it for a
 *    second (option launcher_grace): meanwhile the launcher ends the job, and says how the peer ended.
 */
#ifndef THOLE_H
#define THOLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THOLE_VERSION_MAJOR 0
#define THOLE_VERSION_MINOR 1
#define THOLE_VERSION_PATCH 0

#if defined(__GNUC__)
#define THOLE_API __attribute__((visibility("default")))
#else
#define THOLE_API
#endif

/* ---- Errors ---------------------------------------------------------------------------------- */

enum thole_error {
	THOLE_OK = 0,
	THOLE_ERR_ARGUMENT = -1,    /* a parameter is out of its documented range */
	THOLE_ERR_MEMORY = -2,      /* the process or the kernel is out of memory */
	THOLE_ERR_AGAIN = -3,       /* a bound is reached; progress and try again */
	THOLE_ERR_TIMEOUT = -4,     /* the time given has passed */
	THOLE_ERR_TRUNCATED = -5,   /* the message was longer than the buffer; the front was delivered */
	THOLE_ERR_CANCELED = -6,    /* thole_cancel ended the request */
	THOLE_ERR_PEER = -7,        /* the peer's process has ended, or its host is silent */
	THOLE_ERR_ADDRESS = -8,     /* not a Thole address, or one that cannot be reached from here */
	THOLE_ERR_KEY = -9,         /* the peer has no region with this key, or the key is taken */
	THOLE_ERR_RANGE = -10,      /* the access goes beyond the region */
	/* the region does not allow this kind of access, or the peer has another key; opening: no right */
	THOLE_ERR_ACCESS = -11,
	/* a buffer given is not mapped memory, as the kernel found; short payload is copied here: SIGSEGV */
	THOLE_ERR_FAULT = -12,
	/* this operation does not exist for these parameters, or the integrity asked for cannot be had */
	THOLE_ERR_UNSUPPORTED = -13,
	THOLE_ERR_NOT_FOUND = -14,  /* no such option, counter, request or message */
	THOLE_ERR_BUSY = -15,       /* cannot be changed or closed while in use */
	THOLE_ERR_SYSTEM = -16,     /* the kernel refused a system call; thole_detail() names it */
	THOLE_ERR_PROTOCOL = -17,   /* the peer speaks another version, or wrote what no peer may */
	THOLE_ERR_CLOSED = -18,     /* the peer has closed its endpoint in good order, with this still to be done */
	THOLE_ERR_COUNT = 19        /* one more than the largest magnitude above */
};

/* A short English phrase for a THOLE_ERR_* code. Never NULL, for any code. Thread-safe. */
THOLE_API const char *thole_strerror(int error);

/* A sentence about the last failure of a call made by this thread: what was wrong with which thing, and
 * the remedy where there is one. "" if there was none. Valid until this thread's next failing call. TIMEOUT and
 * thole_arm's AGAIN, which say all, leave it as it is, and so does the status of a completion. */
THOLE_API const char *thole_detail(void);

/* "0.1.0"; the library's version, which may differ from the header's. */
THOLE_API const char *thole_version(void);

/* ---- Endpoints ------------------------------------------------------------------------------- */

struct thole_endpoint;
struct thole_request;
struct thole_region;
struct thole_message;

#define THOLE_ADDRESS_MAX 56 /* bytes of an address, its terminating NUL included */

/* A printable, NUL-terminated name of an endpoint, all bytes after the NUL zero, so that memcmp compares
 * addresses. Unique over hosts, and but with codec=mxoe over time. Send it to peers by any out-of-band means. */
struct thole_address {
	char text[THOLE_ADDRESS_MAX];
};

enum thole_threads {
	THOLE_THREAD_SINGLE = 0, /* one thread at a time uses the endpoint */
	THOLE_THREAD_SAFE = 1    /* any number of threads use it */
};

/* What an operation was; in completions. */
enum thole_operation {
	THOLE_OP_SEND = 1,
	THOLE_OP_RECEIVE,
	THOLE_OP_PUT,
	THOLE_OP_GET,
	THOLE_OP_ATOMIC,        /* thole_atomic without a result */
	THOLE_OP_ATOMIC_FETCH,  /* thole_atomic with a result */
	THOLE_OP_CONNECT,
	THOLE_OP_REMOTE_PUT,    /* a peer's put arrived (with THOLE_IMM, or in a THOLE_NOTIFY region) */
	THOLE_OP_REMOTE_GET,    /* a peer has read a THOLE_NOTIFY region */
	THOLE_OP_REMOTE_ATOMIC, /* a peer's atomic was applied to a THOLE_NOTIFY region */
	THOLE_OP_REMOTE_ATOMIC_FETCH, /* the same, of one with a result */
	THOLE_OP_ATTACH
};

/* How an operation ended. Whatever the status, its memory is the caller's again: no peer writes there any more, and
 * no peer takes what it may still read there for the message. */
struct thole_completion {
	void *context;         /* as given when the operation was started (for REMOTE_*: the region's) */
	uint64_t tag;          /* receive: the message's tag; REMOTE_*: the region's key */
	uint64_t imm;          /* the sender's immediate data if flags has THOLE_IMM, else 0 */
	/* bytes delivered (receive) or asked for (others; of THOLE_OP_ATOMIC 0); 0 where it failed but for TRUNCATED */
	size_t length;
	size_t message_length; /* receive: the message's whole length; more than length if truncated */
	void *buffer;          /* receive: where the data is; with THOLE_MULTI a place inside the buffer */
	uint32_t peer;         /* the other side; for a receive, the source */
	uint32_t flags;        /* the operation's flags, with THOLE_IMM, THOLE_MULTI_END as they apply */
	int32_t operation;     /* enum thole_operation */
	int32_t status;        /* 0 or THOLE_ERR_*, for thole_strerror */
};

/* Called for each completion of an operation that was started with request_p NULL, from inside the call that completes
 * it: progress, or a call that starts an operation (which makes progress where it finds no room), cancels it, or gives
 * a message back to matching.
 * It may record the completion and must not call Thole. */
typedef void thole_complete_fn(void *arg, const struct thole_completion *completion);

struct thole_endpoint_attr {
	enum thole_threads threads;
	const char *const *options;   /* NULL, or "name=value" strings ended by NULL; see thole_option_info */
	thole_complete_fn *complete;  /* NULL: completions without a request are kept for thole_poll */
	void *complete_arg;
};

/* Open an endpoint. attr NULL means all defaults. Opening measures nothing that takes over a
 * millisecond and needs no privilege. The first one of a user whose option job_key is "file" makes that file.
 * Thread-safe. Errors: ARGUMENT (threads, an unknown option, a value out of range), MEMORY, SYSTEM (no sockets, memfd),
 * BUSY (another endpoint has the option's number); where the network is needed (network=on, shm=off, a codec other
 * than native) also NOT_FOUND (no such interface, or no home for the job key's file), ADDRESS (it has none, or is too
 * narrow for the codec), ACCESS (no raw frames, or the job key's file belongs to others or is open to them),
 * UNSUPPORTED (integrity=full without libcrypto). */
THOLE_API int thole_endpoint_open(const struct thole_endpoint_attr *attr, struct thole_endpoint **endpoint_p);

/* Close it. It drains first: messages that were reported complete still reach their peers, for which it waits up to
 * the option close_timeout. It drops everything else pending; open handles become invalid, and regions are closed.
 * When it returns, no peer writes into this process's memory any more. So it waits for a peer that is copying into a
 * receive's memory: where the copy has not begun (its process is stopped), for close_timeout once more, and then shuts
 * it out; where the kernel is copying for it, until that ends or the peer's process does.
 * Always succeeds; NULL is ignored. */
THOLE_API void thole_endpoint_close(struct thole_endpoint *endpoint);

/* A step towards closing, for who has several endpoints: their peers may be each other, or wait for one of them, and
 * while thole_endpoint_close waits the others stand still. Progresses, and asks peers to say at once what they have.
 * Returns 1 when thole_endpoint_close has nothing more to wait for: what was reported complete has reached its peers,
 * or the option close_timeout is over since the first call, in which each pause between two calls, as of a process that
 * is stopped, counts for an eighth at most. Else 0: make progress with the others, and call again. */
THOLE_API int thole_drain(struct thole_endpoint *endpoint);

/* The endpoint's own address. Thread-safe. */
THOLE_API void thole_endpoint_address(const struct thole_endpoint *endpoint, struct thole_address *address_p);

/* ---- Peers ----------------------------------------------------------------------------------- */

#define THOLE_ANY UINT32_MAX /* as the source of a receive or probe: any peer */

/* The handle of an address: the same for the same address each time, counted from 0, valid until the endpoint
 * closes. It only looks it up: the first send, or thole_connect, connects. An endpoint's own address works (by
 * shared memory, or where that is off by UDP). A peer that sends first gets a handle too, which this function then
 * returns for it.
 * With the option codec=mxoe an endpoint is named by the text "mxoe:MAC/NUMBER", as in "mxoe:52:54:00:12:34:01/1", on
 * hosts with MX or Open-MX as with Thole. An endpoint in the place of one that is gone has the same address, and gets
 * another handle. Errors: ADDRESS (malformed), MEMORY. An address that cannot be reached ends its first operation
 * with ADDRESS or PEER; one with another job key with ACCESS, one with another version of Thole with PROTOCOL. */
THOLE_API int thole_peer(struct thole_endpoint *endpoint, const struct thole_address *address, uint32_t *peer_p);

/* The address behind a handle. Errors: NOT_FOUND. */
THOLE_API int thole_peer_address(struct thole_endpoint *endpoint, uint32_t peer, struct thole_address *address_p);

/* Connect to a peer now, and not at the first send. Completes with 0 when it is connected, perhaps before returning;
 * with ACCESS where the peer has another job key, or refuses the key; with UNSUPPORTED where one side asks for an
 * integrity that the other cannot have; with PROTOCOL where it has another version of Thole, after the option
 * peer_timeout; with PEER where there is no such endpoint, or nothing is heard of it for as long. Inside a host a peer
 * of another version is lost later, by its answer. thole_cancel and thole_cancel_context end the waiting and leave the
 * peer as it is.
 * key: with codec=mxoe, in its low 32 bits, what the peer wants to hear, that is its own option job_key (0 unless it
 * was set to a number). It holds for this peer, and for who comes in its place; without this call it is our own
 * job_key. Between endpoints of one host, and with the native codec, where both sides prove the job key, it is
 * ignored. A peer that has refused a key is gone, unless it has connected to us; thole_peer then gives another
 * handle, to try again with. Errors: NOT_FOUND (peer), AGAIN, MEMORY, PEER, ACCESS, ADDRESS and PROTOCOL (as
 * thole_send: what is known at once). */
THOLE_API int thole_connect(struct thole_endpoint *endpoint, uint32_t peer, uint64_t key, void *context,
			    struct thole_request **request_p);

/* How a peer is reached now. Strings are constant. */
struct thole_peer_info {
	const char *transport;     /* "shm", "network", "verbs", or "none": nothing leads there */
	const char *state;         /* "new" (nothing was sent to it), "connecting", "connected", "gone" */
	/* why it is gone: "closed" (its endpoint), "ended" (it has, or was never there), "silent", "refused" (a key),
	 * "failed"; else "" */
	const char *reason;
	/* of small messages: "ring", "udp", "raw", "driver", "verbs"; "" while not connected */
	const char *records;
	const char *bulk;          /* of large ones: "memory" (directly between processes), or as records */
	uint64_t rtt_ns;           /* smoothed round trip over the network; 0: not measured */
	uint64_t frames_sent;      /* records' frames, over the network, to this peer */
	uint64_t retransmitted;    /* frames sent again */
	/* bytes of a frame on the path, without Ethernet, IP and UDP headers; 0: no network */
	uint32_t frame_max;
	/* mxoe: number that its endpoint has drawn; 0: not known. Of our own address: ours */
	uint32_t session;
};

/* Errors: NOT_FOUND. */
THOLE_API int thole_peer_info(struct thole_endpoint *endpoint, uint32_t peer, struct thole_peer_info *info_p);

/* ---- Messages -------------------------------------------------------------------------------- */

enum thole_flags {
	THOLE_SYNC = 1 << 0,      /* send: complete only when a receive has matched it (MPI_Ssend) */
	THOLE_INJECT = 1 << 1,    /* send, put, atomic: the buffer may be reused when the call returns */
	THOLE_IMM = 1 << 2,       /* imm is carried to the receiver; in a completion: imm is there */
	THOLE_PLAIN = 1 << 3,     /* use the queue of plain messages, whose tags are ignored, instead of the
				     tagged one; the two never match each other */
	THOLE_MULTI = 1 << 4,     /* receive: the buffer takes message after message, each with a completion
				     of its own, those of a peer in their order, until less than the option
				     multi_min is left */
	THOLE_MULTI_END = 1 << 5, /* in a completion: this THOLE_MULTI buffer is no longer in use */
	THOLE_QUIET = 1 << 6,     /* no completion if the operation succeeds, but that with THOLE_MULTI_END */
	THOLE_DISCARD = 1 << 7,   /* probe: drop the message found */
	THOLE_AT_ONCE = 1 << 8,   /* send without a request: where it is complete when the call returns, that may
				     return 1, and then there is no completion */
	THOLE_OR_NOT = 1 << 9,    /* send with THOLE_AT_ONCE: else, and of a vector, nothing is sent, and the call
				     returns AGAIN */
	THOLE_ARRIVED = 1 << 10,  /* send: complete only when all of it is in the memory of the receiver's process,
				     matched or not, so that the sender's may end */
	THOLE_LOOK = 1 << 11,     /* probe: among what has arrived already, without progress */
	THOLE_USER_SHIFT = 24     /* bits 24 to 31 are the caller's, and come back in the completion */
};

enum {
	THOLE_SEGMENTS_MAX = 1024 /* segments of a vector send or receive */
};
#define THOLE_LENGTH_MAX ((uint64_t)1 << 40) /* bytes of a message */

/*
 * Start a tagged send of length bytes at buffer, or of a vector's segments in order. Never blocks;
 * progresses only as far as needed to hand a small message over. The vector itself is copied; the
 * data must stay as it is until completion, unless THOLE_INJECT.
 *
 * request_p NULL: the completion goes to the endpoint's completion function, or to thole_poll; else
 * *request_p is set to a handle for thole_test and its kin, which free it.
 * Completion means that the buffer is free again and the message has been handed to the transport or
 * to the receiver (small: it is in memory shared with the receiver, or kept here until a receiver on another host has
 * it); with THOLE_SYNC, that it matched; with THOLE_ARRIVED, that the receiver, which has to make progress for that,
 * has said so: of a message longer than this endpoint's option eager_max, or while the receiver keeps more than
 * unexpected_max, only when a receive has matched it; with both, that it matched and all of it is there. To a host
 * with MX, where nothing says so, THOLE_ARRIVED has no meaning.
 * Returns 0, or 1 as THOLE_AT_ONCE has it.
 *
 * Errors: ARGUMENT (length, segments), NOT_FOUND (peer), AGAIN (too many sends under way to this
 * peer, option sends_max; or THOLE_OR_NOT has it), MEMORY; what is known of a peer that is gone: PEER,
 * CLOSED, ACCESS, ADDRESS, PROTOCOL.
 * Eager and rendezvous: MPICH-PM/CLUMP, section 2.2; what fetches a large message: section 4.
 */
THOLE_API int thole_send(struct thole_endpoint *endpoint, uint32_t peer, const void *buffer, size_t length,
			 uint64_t tag, uint64_t imm, unsigned flags, void *context,
			 struct thole_request **request_p);
THOLE_API int thole_sendv(struct thole_endpoint *endpoint, uint32_t peer, const struct iovec *segments,
			  size_t count, uint64_t tag, uint64_t imm, unsigned flags, void *context,
			  struct thole_request **request_p);

/*
 * Start a receive of the first message from source (or THOLE_ANY) for which ((its tag ^ tag) & mask) == 0.
 * With THOLE_PLAIN, tag and mask are ignored. A longer message ends with TRUNCATED and the buffer filled.
 * Errors: ARGUMENT, NOT_FOUND (source), MEMORY, PEER or CLOSED (that source is gone and nothing of it is left);
 * ACCESS, ADDRESS, PROTOCOL and UNSUPPORTED (it was never there, as of thole_connect).
 */
THOLE_API int thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length,
			 uint64_t tag, uint64_t mask, unsigned flags, void *context,
			 struct thole_request **request_p);
THOLE_API int thole_recvv(struct thole_endpoint *endpoint, uint32_t source, const struct iovec *segments,
			  size_t count, uint64_t tag, uint64_t mask, unsigned flags, void *context,
			  struct thole_request **request_p);

/*
 * The data of a message as its program alone can read or write it, such as one of an MPI datatype: `length` bytes in
 * all, of which pack copies those from offset on to `to`, and unpack those from `from`. Either is called for each byte
 * once, from the front; but if the transfer ends early, for some not at all, and a peer that breaks the protocol can
 * have pack called for any of these bytes, in any order. They are called inside any function of this endpoint that
 * makes progress, in whichever thread that is, its progress thread and whoever calls thole_tend among them, with the
 * endpoint's lock held: they may not call Thole.
 */
struct thole_layout {
	void (*pack)(void *state, uint64_t offset, void *to, size_t length);         /* of a send */
	void (*unpack)(void *state, uint64_t offset, const void *from, size_t length); /* of a receive */
	void *state;
	uint64_t length;
};

/*
 * As thole_send and thole_recv, of such data: part by part while the other side takes it, or gives it, inside a host
 * (a send with THOLE_INJECT: as a whole, at once). To other hosts it is packed when it is sent, as a whole, for which
 * there has to be memory, and from them unpacked as it comes or as a whole. The layout, and what its state stands for,
 * stay as they are until completion; after that neither function is called.
 * The completion's buffer says nothing. Errors: as those; ARGUMENT also for more than THOLE_LENGTH_MAX bytes, and of a
 * receive with THOLE_MULTI; of one that had matched when there was no memory, the completion says MEMORY. A send with
 * THOLE_OR_NOT is always refused.
 * Copies that overlap: "NewMadeleine", the superpipeline; here both are the program's own.
 */
THOLE_API int thole_send_layout(struct thole_endpoint *endpoint, uint32_t peer, const struct thole_layout *layout,
				uint64_t tag, uint64_t imm, unsigned flags, void *context,
				struct thole_request **request_p);
THOLE_API int thole_recv_layout(struct thole_endpoint *endpoint, uint32_t source, const struct thole_layout *layout,
				uint64_t tag, uint64_t mask, unsigned flags, void *context,
				struct thole_request **request_p);

/* Look for a message that a receive with these parameters would get now; progresses if there is none. Returns 1 and
 * fills *completion_p (tag, imm, message_length, peer) if there is one, else 0.
 * flags: THOLE_PLAIN; THOLE_DISCARD drops it; THOLE_LOOK. */
THOLE_API int thole_probe(struct thole_endpoint *endpoint, uint32_t source, uint64_t tag, uint64_t mask,
			  unsigned flags, struct thole_completion *completion_p);

/* The same, and take the message out of matching (MPI_Mprobe). It must be given to thole_message_recv or
 * thole_message_drop, once. Errors of thole_message_recv: ARGUMENT (segments), MEMORY; the message is then still to be
 * given. */
THOLE_API int thole_message_probe(struct thole_endpoint *endpoint, uint32_t source, uint64_t tag, uint64_t mask,
				  unsigned flags, struct thole_completion *completion_p,
				  struct thole_message **message_p);
THOLE_API int thole_message_recv(struct thole_endpoint *endpoint, struct thole_message *message,
				 const struct iovec *segments, size_t count, unsigned flags, void *context,
				 struct thole_request **request_p);
THOLE_API int thole_message_drop(struct thole_endpoint *endpoint, struct thole_message *message);

/* Screening: the caller sees messages before they become unexpected. While it is on, a message that no posted
 * receive matches waits for thole_screen_next, and whatever arrives behind it waits too, so that nothing overtakes.
 * Receives, probes and waits do not see what waits there: after each progress, and before sleeping, call
 * thole_screen_next until it returns 0. When it is turned off, all that waits is matched in order, or, if a message is
 * taken out just then, once that has been given back. It is off at first. Returns 0. */
THOLE_API int thole_screen(struct thole_endpoint *endpoint, int on);

/* Offer the messages that wait to the posted receives, oldest first, up to one that none matches. That one is taken
 * out: returns 1 and fills *completion_p as a probe does, with THOLE_PLAIN in flags where it is plain. Else returns 0.
 * Does not progress. *data_p is the message's data, valid until it is given back; NULL if it is not all here
 * (only its RTS, or a part), or there is none. The message must be given to thole_message_recv, thole_message_drop or
 * thole_message_keep, once. Until then all that arrives waits; of several that are out, give the oldest back first. */
THOLE_API int thole_screen_next(struct thole_endpoint *endpoint, struct thole_completion *completion_p,
				const void **data_p, struct thole_message **message_p);

/* Put a message that was taken out (thole_screen_next, thole_message_probe) into matching as if it arrived now: it
 * goes to the posted receive that matches it, else behind all unexpected messages. Returns 0. */
THOLE_API int thole_message_keep(struct thole_endpoint *endpoint, struct thole_message *message);

/* Cancel. A receive that has not matched ends with CANCELED. Anything further along completes as if
 * it had not been called. Returns 1 if it was canceled, 0 if it is too late; either way the request is
 * still to be tested. A send can be canceled only while nothing of it has left. */
THOLE_API int thole_cancel(struct thole_endpoint *endpoint, struct thole_request *request);

/* The same for the oldest operation with this context that has no request handle. Returns 1, or 0 where
 * there is none that can be canceled. Takes time proportional to the operations pending. */
THOLE_API int thole_cancel_context(struct thole_endpoint *endpoint, const void *context);

/* ---- Completion ------------------------------------------------------------------------------ */

/* Progress everything once. Returns how many events were handled. */
THOLE_API int thole_progress(struct thole_endpoint *endpoint);

/* Progress, then say whether a request is complete: 1 (the handle is freed, *completion_p filled unless
 * NULL) or 0. The operation's own error is in completion_p->status. */
THOLE_API int thole_test(struct thole_endpoint *endpoint, struct thole_request *request,
			 struct thole_completion *completion_p);

/* Progress until the request is complete or timeout_ns has passed (negative: for ever): spins first, yielding
 * where others want the core, then sleeps. Returns 0, or TIMEOUT and leaves the request. */
THOLE_API int thole_wait(struct thole_endpoint *endpoint, struct thole_request *request, int64_t timeout_ns,
			 struct thole_completion *completion_p);

/* The same for the first of count requests to complete; NULL entries are skipped. The completed entry is freed
 * and set to NULL. Errors: TIMEOUT, ARGUMENT (all are NULL). */
THOLE_API int thole_wait_any(struct thole_endpoint *endpoint, struct thole_request **requests, size_t count,
			     int64_t timeout_ns, size_t *index_p, struct thole_completion *completion_p);

/* A request that is complete but not yet tested, oldest first; progresses. Returns 1 and sets *request_p, or 0. */
THOLE_API int thole_peek(struct thole_endpoint *endpoint, struct thole_request **request_p);

/* Progress, then take up to count completions of operations that have no request handle, where the endpoint
 * has no completion function. Returns how many; with count 0, how many events progress has handled, as thole_progress,
 * but this never looks again, nor sleeps. */
THOLE_API int thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count);

/* Sleep until something arrives that progress would handle, or timeout_ns has passed (negative: for ever).
 * Returns 0 or TIMEOUT; may return 0 for nothing. Progresses. */
THOLE_API int thole_sleep(struct thole_endpoint *endpoint, int64_t timeout_ns);

/* For whoever looks after an endpoint while its user does something else: a thread or a timer that keeps the
 * endpoint's thread rules. Messages that were reported complete may still wait for room at the peer, for a connection,
 * or for word that they were not lost; this makes progress for them. It does so, too, while regions are exposed, since
 * peers may access these while the program computes, and their first access, at least, needs an answer. Where the
 * kernel driver moves large messages while the program computes, it also does so for requests that are not complete,
 * so that receives are matched and the driver begins. It does nothing where there are none of these, or while an event
 * loop sleeps on thole_fd, and neither looks several times nor yields or sleeps as thole_progress may. Returns 0 where
 * nothing is under way any more: some looks a second are enough for regions; 2 where all that is goes by adapters, for
 * which they are enough as well; else 1, as when a peer wanted something of a region. */
THOLE_API int thole_tend(struct thole_endpoint *endpoint);

/* For an event loop: a file descriptor that becomes readable when there is something to progress, provided that
 * thole_arm returned 0 just before. thole_arm returns AGAIN while there is something already, as a completion for
 * thole_poll. What other threads begin while the loop sleeps makes it readable, too, where there is something to do for
 * it, and what they complete at once; so do their calls that progress, within a millisecond. Several threads may run
 * such loops on one endpoint; each wakes every millisecond then. */
THOLE_API int thole_fd(struct thole_endpoint *endpoint);
THOLE_API int thole_arm(struct thole_endpoint *endpoint);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Memory of length bytes, aligned to 64, for buffers of large messages: where it has 64 KiB or more, peers of this
 * host to whom an endpoint of this process sends from it, or from whom it receives into it, map it, and copy without
 * the kernel. Belongs to no endpoint. These peers can then read and write all memory that is allocated so, as they
 * could by process_vm_readv and process_vm_writev. A child of fork has a copy, and blocks that are there at a fork are
 * not mapped by peers any more; nor are they what io_uring, an adapter or a GPU has registered of them before. What
 * cannot be had so (see docs/SHM.md) is ordinary memory. Peers do not see what the program maps over a part of it, nor
 * heed how it is protected: memory that it has altered so is not for messages (thole run --shared-heap takes care of
 * that).
 * Thread-safe. Errors: MEMORY. */
THOLE_API int thole_alloc(size_t length, void **memory_p);

/* Give it back: once no operation uses it. NULL is ignored. Thread-safe. */
THOLE_API void thole_free(void *memory);

/* Memory may be declared: named once, so that the kernel driver, where the endpoint has it (option driver), pins it
 * when it is used and unpins it when its mapping changes. Sends and receives do so by themselves with what they use; a
 * declared region serves all that lies in it. Without the driver nothing is ever pinned, but declaring succeeds, and
 * locks count. After Goglin's Decoupling Memory Pinning, section 3.1, and for locks the SCI paper, section 2 (figure 2:
 * locks nest and overlap, each page is pinned once). */
struct thole_memory;

enum { THOLE_DECLARE_MAX = 256 }; /* segments of one declared region */

/* Declare segments as one region. Touches none of them: memory that is not there is declared without an error, and
 * fails when it is used. access: what is done with it: THOLE_ACCESS_GET, it is read; THOLE_ACCESS_PUT, written, too.
 * Errors: ARGUMENT (none, too many, an empty segment), FAULT (not addresses of a process), MEMORY, AGAIN (the endpoint
 * has 4095 regions; forget some). */
THOLE_API int thole_declare(struct thole_endpoint *endpoint, const struct iovec *segments, size_t count,
			    unsigned access, struct thole_memory **memory_p);

/* Take a declaration back, and unpin: once no operation uses it. NULL is ignored. Closing the endpoint forgets all. */
THOLE_API void thole_forget(struct thole_endpoint *endpoint, struct thole_memory *memory);

/* Pin length bytes at address now, and keep them pinned, until thole_unlock has been called as often with the same
 * range. Ranges may overlap in any way. What is locked counts against RLIMIT_MEMLOCK, each page once, and is not
 * unpinned for other memory; but it is when its mapping changes, until it is locked once more. Errors: ARGUMENT, FAULT
 * (no such memory), MEMORY (the limit does not allow it), AGAIN (as thole_declare; or the mapping goes on changing).
 * Where it fails there is no such lock more than before. */
THOLE_API int thole_lock(struct thole_endpoint *endpoint, void *address, size_t length);

/* Take back one lock. Errors: NOT_FOUND (none was taken of exactly this range). */
THOLE_API int thole_unlock(struct thole_endpoint *endpoint, void *address, size_t length);

struct thole_memory_info {
	uint64_t length;        /* bytes declared */
	uint64_t locked;        /* bytes that have a lock, each once; of the whole endpoint only */
	uint64_t pages;         /* of the region; 0: not known */
	uint64_t pinned;        /* pages that are pinned now; of the endpoint each once, those of its transfers too */
	uint64_t invalidations; /* times that pins went since the mapping changed, or of a region for any reason */
	int driver;             /* 1: the driver has it; 0: there is none, and nothing is pinned */
};

/* What of a declared region, or (NULL) of all memory of the endpoint, is pinned now. Errors: none that a correct
 * program meets. */
THOLE_API int thole_memory_info(struct thole_endpoint *endpoint, const struct thole_memory *memory,
				struct thole_memory_info *info_p);

/* ---- Put, get, atomics ----------------------------------------------------------------------- */

enum thole_access {
	THOLE_ACCESS_PUT = 1 << 0,
	THOLE_ACCESS_GET = 1 << 1,
	THOLE_ACCESS_ATOMIC = 1 << 2, /* with PUT: operations; with GET: reading; most need both */
	THOLE_NOTIFY = 1 << 3,        /* a REMOTE_* completion here for each access by a peer, but by thole_attach */
	THOLE_ACCESS_ATTACH = 1 << 4  /* with GET: peers of this host may map it, with PUT too also for writing */
};

/* Expose length bytes at base (NULL and SIZE_MAX: the whole address space) to peers, under a key of the caller's
 * choice. Peers address it by offset from base. It is declared (as by thole_declare), so nothing is pinned yet:
 * export of arbitrary user memory, after the SCI paper, section 3. Its mapping stays as it is while peers may access
 * it: an adapter for remote DMA may reach it. What of it is not mapped, as in the whole address space, peers must leave
 * alone: their access may be this process's own, with a fault's signal. Errors: ARGUMENT (access), KEY (in use),
 * MEMORY. */
THOLE_API int thole_expose(struct thole_endpoint *endpoint, void *base, size_t length, unsigned access,
			   uint64_t key, void *context, struct thole_region **region_p);

/* End the exposure: later accesses get KEY. The caller makes sure that no access is under way: such ones go on until
 * they are complete, and what says so here has no context. */
THOLE_API void thole_unexpose(struct thole_endpoint *endpoint, struct thole_region *region);

/* Copy to, or from, a peer's region. A put's completion means that the data is in the peer's memory. Before that it may
 * be written more than once, where an adapter or the kernel fails: a target that sees it come by looking at its memory
 * must not write there until it knows from the origin that the put is complete, or is told so by THOLE_IMM or
 * THOLE_NOTIFY. Operations to one peer are started in order and may complete in any. A send after a put may arrive
 * before it: wait for the put first. Progress at the peer is needed for the first access to a region, and for others
 * but where the kernel or an adapter reaches it. A put with THOLE_IMM makes a REMOTE_PUT completion at the peer.
 * Errors: as thole_send; completion with KEY, RANGE, ACCESS, FAULT, PEER, CLOSED. */
THOLE_API int thole_put(struct thole_endpoint *endpoint, uint32_t peer, const struct iovec *segments, size_t count,
			uint64_t key, uint64_t offset, uint64_t imm, unsigned flags, void *context,
			struct thole_request **request_p);
THOLE_API int thole_get(struct thole_endpoint *endpoint, uint32_t peer, const struct iovec *segments, size_t count,
			uint64_t key, uint64_t offset, unsigned flags, void *context,
			struct thole_request **request_p);

/* Map length bytes at offset of a region of a peer of this host, for loads and, with write not 0, for stores (SCI's
 * programmed I/O). The completion's buffer is where they are. The region has been exposed with THOLE_ACCESS_ATTACH, and
 * both sides have the driver (`thole info`); what is seen are whole pages. Loads and stores reach what the peer has at
 * these addresses at the time, also after it maps other memory there. Once it ends the exposure, unmaps the memory or
 * dies, they reach nothing, and there is no signal: see thole_attached. A child of fork has no such memory, and the
 * kernel does no direct I/O with it. Progress at the peer is needed until completion. Errors: ARGUMENT; UNSUPPORTED (no
 * driver here, or another host); completion with UNSUPPORTED (no driver there, or too large a region), KEY, RANGE,
 * ACCESS (also: another user), MEMORY, SYSTEM (no descriptor is left), PEER, CLOSED. */
THOLE_API int thole_attach(struct thole_endpoint *endpoint, uint32_t peer, uint64_t key, uint64_t offset, size_t length,
			   int write, void *context, struct thole_request **request_p);

/* Whether all loads and stores there so far have reached the peer's memory: 1 or 0. 0 stays 0: attach again. */
THOLE_API int thole_attached(struct thole_endpoint *endpoint, const void *memory);

/* Unmap what thole_attach has mapped. Closing the endpoint does that, too. What is none is ignored. */
THOLE_API void thole_detach(struct thole_endpoint *endpoint, void *memory);

enum thole_type {
	THOLE_INT8, THOLE_UINT8, THOLE_INT16, THOLE_UINT16, THOLE_INT32, THOLE_UINT32, THOLE_INT64,
	THOLE_UINT64, THOLE_FLOAT, THOLE_DOUBLE, THOLE_FLOAT_COMPLEX, THOLE_DOUBLE_COMPLEX,
	THOLE_LONG_DOUBLE, THOLE_LONG_DOUBLE_COMPLEX, THOLE_INT128, THOLE_UINT128, THOLE_TYPE_COUNT
};

enum thole_atomic_op {
	THOLE_MIN, THOLE_MAX, THOLE_SUM, THOLE_PROD, THOLE_LOR, THOLE_LAND, THOLE_BOR, THOLE_BAND, THOLE_LXOR,
	THOLE_BXOR, THOLE_READ, THOLE_WRITE, THOLE_CSWAP, THOLE_CSWAP_NE, THOLE_CSWAP_LE, THOLE_CSWAP_LT,
	THOLE_CSWAP_GE, THOLE_CSWAP_GT, THOLE_MSWAP, THOLE_DIFF, THOLE_ATOMIC_OP_COUNT
};

enum { THOLE_ATOMIC_BYTES_MAX = 4096 }; /* count times the type's size, of one atomic operation */

struct thole_atomic {
	enum thole_atomic_op op;
	enum thole_type type;
	size_t count;        /* elements */
	const void *operand; /* count elements; NULL for THOLE_READ */
	const void *compare; /* count elements, for THOLE_CSWAP* and THOLE_MSWAP, else NULL */
	void *result;        /* where the former values go; NULL if they are not wanted */
	uint64_t key;
	uint64_t offset;     /* a multiple of the element's alignment in the peer's memory */
};

/* Bytes of one element; 0 if the operation does not exist for the type. */
THOLE_API size_t thole_atomic_size(enum thole_atomic_op op, enum thole_type type);

/* Apply an operation to each element of a peer's region, each atomically towards all other thole_atomic
 * on that memory through the same process. Operand and compare are copied before the call returns; result
 * stays the operation's until completion. Atomics from one source to one peer are applied in order. Errors: as
 * thole_put; UNSUPPORTED (operation and type), ARGUMENT (no element, over THOLE_ATOMIC_BYTES_MAX, no compare where one
 * is needed); completion also with ARGUMENT (offset). */
THOLE_API int thole_atomic(struct thole_endpoint *endpoint, uint32_t peer, const struct thole_atomic *atomic,
			   unsigned flags, void *context, struct thole_request **request_p);

/* ---- Options, counters, host ----------------------------------------------------------------- */

struct thole_option_info {
	const char *name;     /* e.g. "eager_max"; the environment variable is THOLE_EAGER_MAX */
	const char *kind;     /* "bytes", "ns", "count", "bool", "choice", "text", "key" */
	/* what an endpoint opened now would use; of a key "hidden", "file" (the user's), or "0": none */
	const char *value;
	const char *fallback; /* the default */
	const char *origin;   /* "default", "environment", "file" or the file's path */
	const char *choices;  /* of a choice, separated by commas; else "" */
	uint64_t min, max;    /* of a number */
	const char *help;     /* one line */
};

/* Option number index, counted from 0. Errors: NOT_FOUND after the last. A walk from 0 on reads files
 * and environment once, at its beginning; else each call does. The strings live until this thread's next call of it.
 * Sizes take the suffixes k, m, g (powers of 1024), times ns, us, ms, s. */
THOLE_API int thole_option_info(unsigned index, struct thole_option_info *info_p);

/* What opening an endpoint with these strings (NULL: none) would say of them, and of the options that the environment
 * and files set; nothing is opened. Errors: ARGUMENT, with thole_detail() saying which value, from where, and what it
 * may be. 1 where all is well but a name of the environment or a file, which is no option of this version and is
 * skipped; thole_detail() says which. */
THOLE_API int thole_options_check(const char *const *options);

/* An open endpoint's value of an option, as text; set it where that is possible while it runs. Asked for with endpoint
 * NULL, it is the value that an endpoint opened now would use.
 * Errors: NOT_FOUND, ARGUMENT (the value, or a too small buffer), BUSY (only before opening). */
THOLE_API int thole_option_get(struct thole_endpoint *endpoint, const char *name, char *value, size_t size);
THOLE_API int thole_option_set(struct thole_endpoint *endpoint, const char *name, const char *value);

/* The same as a number: bytes, nanoseconds, a count, 1 or 0 of a switch, of a choice its place among the choices,
 * counted from 0. Errors: NOT_FOUND, ARGUMENT (the option is a text or a key). */
THOLE_API int thole_option_number(struct thole_endpoint *endpoint, const char *name, uint64_t *value_p);

struct thole_counter_info {
	const char *name;
	const char *help;
};

/* Counter number index, counted from 0. Errors: NOT_FOUND after the last. */
THOLE_API int thole_counter_info(unsigned index, struct thole_counter_info *info_p);

/* The first count counters of an endpoint. Values only grow, or say how much there is now, as the help says.
 * Returns how many there are. */
THOLE_API int thole_counters(struct thole_endpoint *endpoint, uint64_t *values, size_t count);

struct thole_capability {
	const char *name;  /* e.g. "process_vm_readv" */
	int available;     /* 1 or 0 */
	const char *use;   /* what Thole does with it */
	const char *why;   /* if not available: the reason, and how to allow it; else "" */
};

/* What this host's kernel permits to this process, probed now. Errors: NOT_FOUND after the last. Strings as above. */
THOLE_API int thole_capability(unsigned index, struct thole_capability *capability_p);

/* Of this host: the same number in all processes of one boot of a kernel and one network namespace, which are those
 * that can share memory here, and most likely no other host's. Two processes that compare it know whether they are
 * neighbours before they have an endpoint each. Thread-safe. */
THOLE_API uint64_t thole_host_id(void);

struct thole_interface_info {
	const char *name;    /* e.g. "eth0" */
	const char *address; /* IPv4, else IPv6, without the length of its network; "": none */
	const char *mac;     /* "02:00:00:00:00:01"; "": it is not Ethernet */
	uint32_t mtu;        /* bytes */
	int up;              /* 1: it is switched on and has a carrier */
	int chosen;          /* 1: endpoints use it unless the option interface says otherwise */
	const char *links;   /* that it gives to this process: "", "udp", "udp,raw", "udp,driver", ... */
	const char *better;  /* what would be faster, and how: a sentence a line; or "" */
};

struct thole_adapter_info {
	const char *name;    /* e.g. "mlx5_0/1": adapter and port */
	const char *kind;    /* "InfiniBand", "RoCE v1", "RoCE v2", "iWARP"; "": it has no address */
	const char *address; /* its GID, of an IPv4 address that; "": none */
	const char *can;     /* e.g. "read,atomic,paging": paging: what is registered may be moved and swapped */
	uint32_t mtu;        /* bytes of a packet */
	uint32_t rate;       /* Mbit/s; 0: not known */
	int up;              /* 1: its port is active */
	int software;        /* 1: processors play it, which is slower than a network without */
	const char *better;  /* what would be faster, and how: a sentence a line; or "" */
};

/* Port number index of this host's adapters for remote DMA, counted from 0, as it is now. Strings as above. Errors:
 * NOT_FOUND after the last, UNSUPPORTED (there is no rdma-core: thole_detail says what to install), MEMORY. */
THOLE_API int thole_adapter_info(unsigned index, struct thole_adapter_info *info_p);

/* What it takes to register length bytes of memory with that port's adapter, and to end that, in nanoseconds: the best
 * of some tries. Errors: as above, ARGUMENT (length 0), MEMORY (a limit of locked memory, too), ACCESS, SYSTEM. */
THOLE_API int thole_adapter_registering(unsigned index, size_t length, uint64_t *ns_p);

/* Network interface number index of this network namespace, counted from 0, as it is now. Strings as above. Errors:
 * NOT_FOUND after the last, MEMORY, SYSTEM. */
THOLE_API int thole_interface_info(unsigned index, struct thole_interface_info *info_p);

/* A host that speaks MXoE: with MX, with Open-MX, or with endpoints whose option codec is mxoe. */
struct thole_mxoe_host {
	char mac[18];     /* of its interface: "02:00:00:00:00:01" */
	char name[80];    /* as it calls the board there: "host:0" */
	uint64_t trip_ns; /* from our question to its answer */
};

/* Ask which hosts speak MXoE on an interface (by name or address; NULL or "": as routes say): all that answer within
 * wait_ns (each says once a second that it is there); or, if `wanted` is the MAC or the name of one, until that one
 * has. Returns how many there are, of which the first `room` are filled in. It sends and receives raw frames, and
 * needs no endpoint. Errors: NOT_FOUND, ADDRESS, ACCESS, MEMORY, SYSTEM. */
THOLE_API int thole_mxoe_hosts(const char *interface, const char *wanted, uint64_t wait_ns,
			       struct thole_mxoe_host *hosts, unsigned room);

/* The address of an endpoint that MXoE names by the MAC of its interface and a number, with Thole or without:
 * "mxoe:MAC/NUMBER". */
THOLE_API void thole_mxoe_address(const uint8_t mac[6], uint8_t number, struct thole_address *address_p);

/* The reverse, of such an address in any writing that thole_peer takes. Errors: ADDRESS (it is none, or of another
 * kind). */
THOLE_API int thole_mxoe_parts(const struct thole_address *address, uint8_t mac_p[6], uint8_t *number_p);

#ifdef __cplusplus
}
#endif
#endif /* THOLE_H */
