/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counters: one table of what an endpoint counts. Whatever is dropped, retried, stalled or fallen back from has
 * a row. The values are in the endpoint; only its owner writes them.
 */
#ifndef THOLE_BASE_COUNTERS_H
#define THOLE_BASE_COUNTERS_H

#include <stdint.h>

#define COUNTER_TABLE(ROW) \
	ROW(SENT_EAGER, "sent_eager", "messages sent through a ring without asking the receiver first") \
	ROW(SENT_RENDEZVOUS, "sent_rendezvous", "messages announced and left for the receiver to fetch") \
	ROW(RECEIVED, "received", "messages delivered into a receive's buffer") \
	ROW(UNEXPECTED, "unexpected", "messages that arrived before their receive was posted") \
	ROW(UNEXPECTED_BYTES, "unexpected_bytes", "bytes held now for unexpected messages") \
	ROW(UNEXPECTED_HOLDS, "unexpected_holds", "times the bound unexpected_max made senders announce only") \
	ROW(TRUNCATED, "truncated", "messages that were longer than their receive") \
	ROW(BACKLOGGED, "backlogged", "operations that had to wait for room in a ring") \
	ROW(PUTS, "puts", "puts started") \
	ROW(GETS, "gets", "gets started") \
	ROW(ATOMICS, "atomics", "atomic operations started") \
	ROW(REMOTE_ERRORS, "remote_errors", "accesses by peers refused for their key, range or kind") \
	ROW(BULK_RING, "bulk_ring", "bulk fetches through the ring, two overlapped copies") \
	ROW(BULK_ONE_COPY, "bulk_one_copy", "bulk fetches by process_vm_readv alone") \
	ROW(BULK_COOPERATIVE, "bulk_cooperative", "bulk fetches offered to both sides for copying") \
	ROW(BULK_BLOCKS_HELPED, "bulk_blocks_helped", "blocks copied here as the sending side") \
	ROW(BULK_BYTES, "bulk_bytes", "bytes fetched by bulk") \
	ROW(BULK_TAKEN_OVER, "bulk_taken_over", "ring fetches finished by one-copy, the sender being busy") \
	ROW(BULK_FALLBACKS, "bulk_fallbacks", "fetches continued through the ring, process_vm having been refused") \
	ROW(ONE_COPY_REFUSED, "one_copy_refused", "peers that the kernel does not let this process read") \
	ROW(RING_STALLS, "ring_stalls", "records that found no room in a ring") \
	ROW(LARGE_AREAS, "large_areas", "rings that were given their large area") \
	ROW(LARGE_AREA_REFUSED, "large_area_refused", "rings that could not get it for want of memory") \
	ROW(CONNECTS, "connects", "connections made") \
	ROW(ACCEPTS, "accepts", "connections accepted") \
	ROW(REFUSED, "refused", "connections refused: another user, version, or a malformed greeting") \
	ROW(BAD_RECORDS, "bad_records", "records dropped because no correct peer writes them") \
	ROW(PEERS_GONE, "peers_gone", "peers that ended or closed") \
	ROW(YIELDS, "yields", "times the core was given to others while waiting") \
	ROW(SLEEPS, "sleeps", "times a waiting call slept") \
	ROW(WAKES_SENT, "wakes_sent", "sleeping peers woken")

#define COUNTER_ID(id, name, help) COUNTER_##id,
enum counter { COUNTER_TABLE(COUNTER_ID) COUNTER_COUNT };
#undef COUNTER_ID

#endif
