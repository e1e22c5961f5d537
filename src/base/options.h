/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one table of options, and an endpoint's values of them.
 *
 * Owns every look at the environment and at configuration files that the library takes. To add an
 * option is to add a row here, and for a choice an enum in the order of its names; all else
 * follows from the row.
 *
 * Sources, the later ones winning:
 *   the default; /etc/thole/options; $XDG_CONFIG_HOME/thole/options or ~/.config/thole/options;
 *   or instead of both files the one that THOLE_OPTIONS_FILE names, none if that is empty; the
 *   environment, THOLE_EAGER_MAX for eager_max; the strings given at opening; options_set.
 * A file has lines "name = value"; what follows # is a comment. A name that a file or the
 * environment has and the table has not is skipped with a warning, since it may be meant for
 * another version; a bad value is an error.
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/option_text.h"
#include "thole.h"

/* The values of the choices, in the order of their names in the table. */
enum option_yield { OPTION_YIELD_AUTO, OPTION_YIELD_ALWAYS, OPTION_YIELD_NEVER };
enum option_bulk {
	OPTION_BULK_AUTO,
	OPTION_BULK_RING,
	OPTION_BULK_ONE_COPY,
	OPTION_BULK_COOPERATIVE,
	OPTION_BULK_DIRECT
};
enum option_network { OPTION_NETWORK_AUTO, OPTION_NETWORK_ON, OPTION_NETWORK_OFF };
enum option_link { OPTION_LINK_AUTO, OPTION_LINK_UDP, OPTION_LINK_RAW, OPTION_LINK_BOTH, OPTION_LINK_DRIVER };
enum option_integrity { OPTION_INTEGRITY_AUTO, OPTION_INTEGRITY_OFF, OPTION_INTEGRITY_HEAD, OPTION_INTEGRITY_FULL };
enum option_verbs_paging { OPTION_VERBS_PAGING_AUTO, OPTION_VERBS_PAGING_OFF, OPTION_VERBS_PAGING_ON };
enum option_verbs { OPTION_VERBS_AUTO, OPTION_VERBS_OFF, OPTION_VERBS_REQUIRED };
enum option_driver { OPTION_DRIVER_AUTO, OPTION_DRIVER_OFF, OPTION_DRIVER_REQUIRED };
enum option_pin { OPTION_PIN_OVERLAPPED, OPTION_PIN_BEFORE, OPTION_PIN_KEPT, OPTION_PIN_NEVER };
enum option_codec { OPTION_CODEC_NATIVE, OPTION_CODEC_MXOE, OPTION_CODEC_MXOE_JUMBO };

/* row(name, kind, default, min, max, may it change while the endpoint is open, choices, help).
 * The default is text as a user would write it; min and max are for numbers. */
#define OPTION_KIB(count) ((count)*UINT64_C(1024))
#define OPTION_MIB(count) ((count)*UINT64_C(1048576))
#define OPTION_GIB(count) ((count)*UINT64_C(1073741824))
#define OPTION_SECONDS(count) ((count)*UINT64_C(1000000000))
/* clang-format off */
#define OPTION_TABLE(row)									\
	row(eager_max, OPTION_BYTES, "256k", 0, OPTION_MIB(1), true, "",				\
	    "largest message sent without asking the receiver first; with bulk=auto perhaps fewer, and "	\
	    "by default no more than 64k where there are more ranks than cores")			\
	row(unexpected_max, OPTION_BYTES, "64m", OPTION_KIB(64), OPTION_GIB(1024), true, "",	\
	    "memory for messages that arrive before their receives are posted")			\
	row(sends_max, OPTION_COUNT_OF, "65536", 1, OPTION_MIB(16), true, "",			\
	    "sends to one peer that may be under way before THOLE_ERR_AGAIN")			\
	row(multi_min, OPTION_BYTES, "64", 0, OPTION_GIB(1), true, "",				\
	    "a multi-receive buffer with less room than this is given back")			\
	row(spin, OPTION_NS, "50us", 0, OPTION_SECONDS(10), true, "",				\
	    "how long a wait polls before it sleeps")				\
	row(look_again, OPTION_COUNT_OF, "100", 0, OPTION_MIB(1), true, "",				\
	    "most polls of the rings before a caller that was seen to gain by it is told that there is nothing") \
	row(look_again_shared, OPTION_COUNT_OF, "0", 0, OPTION_MIB(1), true, "",		\
	    "the same where processes share cores; callers that yield by themselves want 0")	\
	row(local_ranks, OPTION_COUNT_OF, "0", 0, OPTION_MIB(1), false, "",			\
	    "processes of the job on this host, 0: not known; launchers tell it, srun too")		\
	row(launcher_grace, OPTION_NS, "1s", 0, OPTION_SECONDS(60), true, "",			\
	    "where a launcher told local_ranks: how long it has to end the job before a process's death is told") \
	row(yield, OPTION_CHOICE, "auto", 0, 0, true, "auto,always,never",			\
	    "give the core to others while waiting; auto: if more processes than cores wait")	\
	row(mpi_yield, OPTION_CHOICE, "keep", 0, 0, false, "keep,spare",			\
	    "sched_yield where the MPI library calls it, as MPICH does; spare: if others want the core") \
	row(mpi_memory, OPTION_CHOICE, "keep", 0, 0, false, "keep,shared",			\
	    "what the MPI library allocates from 4 KiB on, as MPICH does windows; shared: peers map it")	\
	row(mpi_datatypes, OPTION_CHOICE, "whole", 0, 0, false, "whole,parts",			\
	    "how UCX's interface packs long messages of datatypes; parts: as they go, in any thread")	\
	row(progress_thread, OPTION_BOOL, "off", 0, 1, false, "",				\
	    "a thread of the endpoint's own makes progress while the program computes")		\
	row(bulk, OPTION_CHOICE, "auto", 0, 0, true, "auto,ring,one-copy,cooperative,direct",		\
	    "how large messages move inside a node; auto: as was seen to be fastest")		\
	row(bulk_ring, OPTION_BYTES, "512k", OPTION_KIB(64), OPTION_MIB(16), false, "",		\
	    "ring for the pieces of large messages where they move through shared memory")	\
	row(bulk_rings_max, OPTION_BYTES, "0", 0, OPTION_GIB(1024), false, "",			\
	    "shared memory for such rings to all peers; 0: of 64 peers, and all local_ranks a quarter of the host's") \
	row(bulk_piece, OPTION_BYTES, "16k", OPTION_KIB(1), OPTION_KIB(256), true, "",		\
	    "piece of a large message that moves through the ring at once")			\
	row(cooperative_block, OPTION_BYTES, "512k", OPTION_KIB(4), OPTION_GIB(1), true, "",	\
	    "block that either side claims at once when both copy a large message")		\
	row(one_copy, OPTION_BOOL, "on", 0, 1, true, "",					\
	    "copy large messages directly between processes where the kernel permits it")	\
	row(shared_heap_min, OPTION_BYTES, "128k", OPTION_KIB(64), OPTION_GIB(1024), false, "",	\
	    "thole run --shared-heap: allocations of so much or more are memory that peers map")	\
	row(close_timeout, OPTION_NS, "1s", 0, OPTION_SECONDS(3600), true, "",			\
	    "how long closing waits until peers have what was sent, and then for who is copying")	\
	row(ptracer, OPTION_BOOL, "on", 0, 1, false, "",					\
	    "let processes of the same user read this one's memory where Yama restricts it")	\
	row(shm, OPTION_BOOL, "on", 0, 1, false, "",						\
	    "shared memory between processes of a host; off: the network between these too")	\
	row(network, OPTION_CHOICE, "auto", 0, 0, false, "auto,on,off",				\
	    "reach other hosts; auto: where a socket can be had, on, or with a codec: else opening fails")	\
	row(link, OPTION_CHOICE, "auto", 0, 0, false, "auto,udp,raw,both,driver",		\
	    "how frames leave this host; auto: UDP, and raw Ethernet frames where permitted, with up to 16 "	\
	    "local_ranks, or by the driver")									\
	row(interface, OPTION_TEXT, "", 0, 0, false, "",					\
	    "network interface to use, by name or by address; none: as routes say")		\
	row(host, OPTION_TEXT, "", 0, 0, false, "",						\
	    "name of this host; processes whose names are equal share memory; none: found out")	\
	row(job_key, OPTION_KEY, "file", 0, UINT64_MAX, false, "",					\
	    "number that both ends of a connection between hosts must know; file: the user's own; none: no key") \
	row(integrity, OPTION_CHOICE, "auto", 0, 0, false, "auto,off,head,full",		\
	    "what of frames a keyed tag covers; auto: head with a job key, as peers ask for more, "	\
	    "beside adapters for remote DMA, whose frames have none; head, full: without adapters")	\
	row(codec, OPTION_CHOICE, "native", 0, 0, false, "native,mxoe,mxoe-jumbo",		\
	    "what frames look like; mxoe: as those of MX and Open-MX, over raw frames")		\
	row(number, OPTION_COUNT_OF, "256", 0, 256, false, "",					\
	    "number of an mxoe endpoint on its interface, 256: the first that is free")		\
	row(board_name, OPTION_TEXT, "", 0, 0, false, "",					\
	    "what hosts with MX are told that this interface is called; none: the host's name and :0")	\
	row(ethertype, OPTION_COUNT_OF, "34997", 1536, 65535, false, "",			\
	    "EtherType of raw frames of the native codec; 34997 is 0x88b5")			\
	row(mtu, OPTION_BYTES, "0", 0, 9216, false, "",						\
	    "longest frame, headers not counted, from 548 on; 0: as the path to a peer allows")	\
	row(checksum, OPTION_BOOL, "off", 0, 1, false, "",					\
	    "frames of the native codec carry a CRC32C of their own, both ways; one side is enough")	\
	row(peer_timeout, OPTION_NS, "10s", OPTION_SECONDS(1) / 10, OPTION_SECONDS(3600), true, "",	\
	    "how long a silent peer of another host is waited for before it counts as gone")	\
	row(net_eager_max, OPTION_BYTES, "64k", 0, OPTION_MIB(1), true, "",			\
	    "eager_max between hosts, if it is less")						\
	row(net_eager_alone, OPTION_BYTES, "256k", 0, OPTION_MIB(1), true, "",			\
	    "the same where nothing else is on its way to a peer, if that is more, and both "	\
	    "eager_max and net_eager_max are 64k or more")					\
	row(net_window, OPTION_BYTES, "0", 0, OPTION_GIB(1), false, "",				\
	    "bulk data asked for and not here, of all peers, 0: as receive buffers allow")	\
	row(net_hold, OPTION_BYTES, "1m", 0, OPTION_MIB(16), false, "",				\
	    "between namespaces of a machine UDP packets of so much stay in the kernel after they were "	\
	    "read, so that the next ones are not made of memory that a core's cache still has, if their "	\
	    "buffers are four times as long; of bulk data a quarter of it; 0: none")	\
	row(verbs, OPTION_CHOICE, "auto", 0, 0, false, "auto,off,required",			\
	    "adapters for remote DMA between hosts that both have one; auto: none that processors play; "	\
	    "required: else opening fails")								\
	row(verbs_device, OPTION_TEXT, "", 0, 0, false, "",					\
	    "adapter for remote DMA, such as mlx5_0; none: the one at the interface, else the fastest")	\
	row(verbs_paging, OPTION_CHOICE, "auto", 0, 0, false, "auto,off,on",			\
	    "memory stays registered by the adapter's page faults (ODP) where there is no driver; "	\
	    "auto: but for soft-RoCE, which reaches wrong bytes where they do not begin a page")	\
	row(driver, OPTION_CHOICE, "auto", 0, 0, false, "auto,off,required",			\
	    "the kernel driver; auto: used where /dev/thole can be opened; required: else opening fails")	\
	row(pin, OPTION_CHOICE, "overlapped", 0, 0, true, "overlapped,before,kept,never",	\
	    "large messages by the driver: pages are pinned while they move; all before and unpinned after; "	\
	    "all before and kept; never, so that the driver moves none")			\
	row(pin_first, OPTION_BYTES, "128k", 0, OPTION_GIB(1), true, "",			\
	    "with pin=overlapped, so much is pinned before a message is asked for or offered")	\
	row(pin_cache, OPTION_COUNT_OF, "256", 0, 4000, false, "",				\
	    "regions that stay pinned after their messages for the next ones, but with pin=before; 0: none")	\
	row(mx_hosts, OPTION_TEXT, "/etc/thole/mx-hosts", 0, 0, false, "",			\
	    "file of other hosts' boards for MX programs, a line each: MAC, IP address, name")	\
	row(mx_port, OPTION_COUNT_OF, "7480", 1, 65279, false, "",				\
	    "UDP port by which hosts find MX endpoints; the 256 after it are the endpoints'")	\
	row(mx_group, OPTION_TEXT, "239.255.86.223", 0, 0, false, "",				\
	    "IPv4 multicast group by which MX programs find other hosts, off: by mx_hosts only")	\
	row(report, OPTION_TEXT, "", 0, 0, false, "",						\
	    "file of thole-rank in which endpoints keep their counters; none: in their own memory")	\
	row(inject_loss, OPTION_COUNT_OF, "0", 0, 500, true, "",				\
	    "frames of 1000 that are thrown away on purpose, for tests")			\
	row(inject_seed, OPTION_COUNT_OF, "1", 0, UINT64_MAX, false, "",			\
	    "which frames inject_loss throws away")
/* clang-format on */

#define OPTION_ENUM(name, ...) OPTION_INDEX_##name,
enum { OPTION_TABLE(OPTION_ENUM) OPTIONS_COUNT };
#undef OPTION_ENUM

enum option_origin {
	OPTION_FROM_DEFAULT,
	OPTION_FROM_SYSTEM_FILE, /* /etc/thole/options */
	OPTION_FROM_USER_FILE,   /* the user's, or the one that THOLE_OPTIONS_FILE names */
	OPTION_FROM_ENVIRONMENT,
	OPTION_FROM_OPEN, /* a string given at opening */
	OPTION_FROM_SET   /* options_set */
};

enum {
	OPTIONS_WARNING_MAX = 256, /* bytes of the warning, its NUL included */
	OPTIONS_PATH_MAX = 1024    /* bytes of a file's path, its NUL included */
};

struct options {
/* Per row a uint64_t (bytes, nanoseconds, a count, 0 or 1, the enum of a choice, a key) or a text. */
#define OPTION_FIELD_OPTION_BYTES(name) uint64_t name;
#define OPTION_FIELD_OPTION_NS(name) uint64_t name;
#define OPTION_FIELD_OPTION_COUNT_OF(name) uint64_t name;
#define OPTION_FIELD_OPTION_BOOL(name) uint64_t name;
#define OPTION_FIELD_OPTION_CHOICE(name) uint64_t name;
#define OPTION_FIELD_OPTION_KEY(name) uint64_t name;
#define OPTION_FIELD_OPTION_TEXT(name) char name[OPTION_TEXT_MAX];
#define OPTION_FIELD(name, kind, ...) OPTION_FIELD_##kind(name)
	OPTION_TABLE(OPTION_FIELD)
#undef OPTION_FIELD
	bool key_is_file;                  /* job_key is to be read from the user's file (options_key) */
	uint8_t origin[OPTIONS_COUNT];     /* enum option_origin */
	char warning[OPTIONS_WARNING_MAX]; /* about the first name that was skipped, or "" */
};

/* Fill from all sources; strings is NULL or "name=value" texts ended by NULL. Where it returns
 * THOLE_ERR_ARGUMENT (a string with an unknown name, a bad value anywhere, a named file that
 * cannot be read) or THOLE_ERR_MEMORY, every option still has the last good value that it was
 * given. */
int options_load(struct options *options, const char *const *strings);

/* The same of the defaults and the strings alone: nothing outside the process matters. */
int options_defaults(struct options *options, const char *const *strings);

/* Where job_key is the user's file, read it, having made it if there is none: $XDG_CONFIG_HOME/thole/job_key or
 * ~/.config/thole/job_key. A home that belongs to another user (sudo may leave one so), or of which only the
 * environment of a program with more rights than its caller tells, is not taken: then it is the one that the system
 * has of this user. Errors: as key_load; NOT_FOUND (there is no home). */
int options_key(struct options *options);

/* Set one from text. running: the endpoint is open. THOLE_ERR_NOT_FOUND, THOLE_ERR_ARGUMENT,
 * THOLE_ERR_BUSY. */
int options_set(struct options *options, const char *name, const char *value, bool running);

/* One as text that options_set accepts, but that a key is "hidden" where one was given. THOLE_ERR_NOT_FOUND,
 * THOLE_ERR_ARGUMENT (size is too small). */
int options_get_text(const struct options *options, const char *name, char *value, size_t size);

/* One as a number, of a choice its place. THOLE_ERR_NOT_FOUND, THOLE_ERR_ARGUMENT (it is a text or a key). */
int options_get_number(const struct options *options, const char *name, uint64_t *value_p);

/* Where a value is from, in words: "default", a file's path (of a key too, if it is the file's), "environment",
 * "open", "set"; "" for no such option. path has room for a path, and may be what is returned. */
const char *options_origin_text(const struct options *options, const char *name,
				char path[OPTIONS_PATH_MAX]);

#endif /* BASE_OPTIONS_H */
