/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * counters: one table of what an endpoint counts. Whatever is dropped, retried, stalled or fallen back from has
 * a row. The values are in the endpoint; only its owner writes them.
 */
#ifndef THOLE_BASE_COUNTERS_H
#define THOLE_BASE_COUNTERS_H

#include <stdint.h>

#define COUNTER_TABLE(ROW) \
	ROW(SENT_EAGER, "sent_eager", "messages sent through a ring without asking the receiver first") \
	ROW(SENT_RENDEZVOUS, "sent_rendezvous", "messages sent as an RTS, and left for the receiver to fetch") \
	ROW(SHM_MESSAGES, "shm_messages", "messages, puts, gets and atomics started to peers of this host") \
	ROW(SHM_BYTES, "shm_bytes", "bytes of these") \
	ROW(NETWORK_MESSAGES, "network_messages", "messages, puts, gets and atomics started to other hosts") \
	ROW(NETWORK_BYTES, "network_bytes", "bytes of these") \
	ROW(VERBS_MESSAGES, "verbs_messages", "messages, puts, gets and atomics started to peers by remote DMA") \
	ROW(VERBS_BYTES, "verbs_bytes", "bytes of these") \
	ROW(RECEIVED, "received", "messages delivered into a receive's buffer") \
	ROW(UNEXPECTED, "unexpected", "messages that arrived before their receive was posted") \
	ROW(UNEXPECTED_BYTES, "unexpected_bytes", "bytes held now for unexpected messages") \
	ROW(UNEXPECTED_HOLDS, "unexpected_holds", "times that unexpected_max made it ask senders for RTS only") \
	ROW(TRUNCATED, "truncated", "messages that were longer than their receive") \
	ROW(BACKLOGGED, "backlogged", "operations that had to wait for room in a ring") \
	ROW(PUTS, "puts", "puts started") \
	ROW(GETS, "gets", "gets started") \
	ROW(ATOMICS, "atomics", "atomic operations started") \
	ROW(REMOTE_ERRORS, "remote_errors", "accesses by peers refused for their key, range or kind") \
	ROW(BULK_RING, "bulk_ring", "bulk fetches through the ring, two overlapped copies") \
	ROW(BULK_ONE_COPY, "bulk_one_copy", "bulk fetches by process_vm_readv alone") \
	ROW(BULK_COOPERATIVE, "bulk_cooperative", "bulk fetches offered to both sides for copying") \
	ROW(BULK_DIRECT, "bulk_direct", "bulk fetches from the sender's memory, which is mapped here") \
	ROW(BULK_BLOCKS_HELPED, "bulk_blocks_helped", "blocks copied here as the sending side") \
	ROW(BULK_BLOCKS_DIRECT, "bulk_blocks_direct", "those of them into memory of the receiver that is mapped here") \
	ROW(BULK_BYTES, "bulk_bytes", "bytes fetched by bulk") \
	ROW(BULK_TAKEN_OVER, "bulk_taken_over", "ring fetches finished by one-copy, the sender being busy") \
	ROW(BULK_FALLBACKS, "bulk_fallbacks", \
	    "fetches continued through the ring, process_vm having been refused or a mapping having ended") \
	ROW(ONE_COPY_REFUSED, "one_copy_refused", "peers that the kernel does not let this process read") \
	ROW(ATTACHED, "attached", "arenas and buffers of peers mapped") \
	ROW(ATTACH_REFUSED, "attach_refused", "those that could not be mapped, or were none") \
	ROW(RING_STALLS, "ring_stalls", "records that found no room in a ring") \
	ROW(LARGE_AREAS, "large_areas", "rings that were given their large area") \
	ROW(LARGE_AREA_REFUSED, "large_area_refused", \
	    "areas that rings did not get for want of memory, or because of bulk_rings_max") \
	ROW(CONNECTS, "connects", "connections made") \
	ROW(CONNECTS_AGAIN, "connects_again", \
	    "tries that ended in another one: a local peer or the kernel had no room, or a greeting was not read") \
	ROW(ACCEPTS, "accepts", "connections accepted") \
	ROW(REFUSED, "refused", "connections refused: another user, version, or a malformed greeting") \
	ROW(BAD_RECORDS, "bad_records", "records dropped because no correct peer writes them") \
	ROW(PEERS_GONE, "peers_gone", "peers that ended or closed") \
	ROW(YIELDS, "yields", "times the core was given to others while waiting") \
	ROW(SLEEPS, "sleeps", "times a waiting call slept") \
	ROW(WAKES_SENT, "wakes_sent", "sleeping peers woken") \
	ROW(FRAMES_SENT, "frames_sent", "frames handed to the network's links") \
	ROW(FRAMES_RAW, "frames_raw", "those of them that were raw Ethernet frames") \
	ROW(FRAMES_DRIVER, "frames_driver", "those of them that were raw Ethernet frames sent by the driver") \
	ROW(FRAMES_RECEIVED, "frames_received", "frames taken from them") \
	ROW(FRAMES_RETRANSMITTED, "frames_retransmitted", "record frames sent again") \
	ROW(FRAMES_DUPLICATE, "frames_duplicate", "frames that had arrived before") \
	ROW(FRAMES_HELD, "frames_held", "record frames that came ahead of a missing one and were kept") \
	ROW(FRAMES_BLOCKED, "frames_blocked", "times a link had no room for a frame to be sent") \
	ROW(FRAMES_EXHAUSTED, "frames_exhausted", \
	    "records that found no memory to be kept until they are acknowledged") \
	ROW(DROPPED_MALFORMED, "dropped_malformed", "frames dropped that no correct peer writes") \
	ROW(DROPPED_SESSION, "dropped_session", "frames dropped for a session that is not this one's") \
	ROW(DROPPED_CHECKSUM, "dropped_checksum", "frames dropped for their checksum") \
	ROW(DROPPED_FORGED, "dropped_forged", \
	    "frames dropped whose tag is wrong or missing: not the peer's, or altered") \
	ROW(DROPPED_REPLAYED, "dropped_replayed", \
	    "frames dropped that somebody sent again, or that came far too late") \
	ROW(DROPPED_STRANGER, "dropped_stranger", \
	    "frames dropped that come from nobody known, or without the job key") \
	ROW(DROPPED_FULL, "dropped_full", "frames dropped for a bound: too many held, or no memory") \
	ROW(DROPPED_INJECTED, "dropped_injected", "frames lost on purpose, by the option inject_loss") \
	ROW(ACKS_SENT, "acks_sent", "acknowledgements sent that found no record to ride on") \
	ROW(PULLS_SENT, "pulls_sent", "blocks of bulk data asked for") \
	ROW(PULLS_AGAIN, "pulls_again", "blocks asked for again, something of them having been lost") \
	ROW(NACKS_SENT, "nacks_sent", "frames answered that what they address does not exist") \
	ROW(NACKS_RECEIVED, "nacks_received", "such answers from peers") \
	ROW(BULK_NETWORK, "bulk_network", "bulk fetches over the network") \
	ROW(BULK_SERVED, "bulk_served", "bytes of bulk data sent over the network") \
	ROW(BULK_HANDED_OVER, "bulk_handed_over", "windows and fetches that were left to the driver") \
	ROW(BULK_TAKEN_BACK, "bulk_taken_back", "of those, what the library had to do itself after all") \
	ROW(DRIVER_SENT, "driver_sent", "bytes of bulk data that the driver has sent") \
	ROW(DRIVER_RECEIVED, "driver_received", "bytes of bulk data that the driver has put in place") \
	ROW(OVERLAP_MISS, "overlap_miss", "frames that came for pages which were not pinned yet: they come again") \
	ROW(BULK_REPAIRS, "bulk_repairs", "bulk frames that landed elsewhere than foreseen and were moved") \
	ROW(BULK_READ, "bulk_read", "bulk fetches read by remote DMA from the sender's registered memory") \
	ROW(BULK_PIPELINE, "bulk_pipeline", "bulk fetches copied through registered memory while the wire is busy") \
	ROW(BULK_CHUNKS, "bulk_chunks", "chunks sent for such fetches of peers") \
	ROW(REGISTERED, "registered", "pieces of memory registered with an adapter") \
	ROW(REGISTER_HITS, "register_hits", "uses of memory that was registered already") \
	ROW(REGISTER_REFUSED, "register_refused", "registrations that an adapter or a limit refused") \
	ROW(QUEUES_MADE, "queues_made", "queue pairs made") \
	ROW(QUEUES_CLOSED, "queues_closed", "queue pairs closed to have room for other peers' queues or records") \
	ROW(SHM_PUTS, "shm_puts", "puts into memory of a process of this host without its help") \
	ROW(SHM_GETS, "shm_gets", "gets from memory of a process of this host without its help") \
	ROW(VERBS_PUTS, "verbs_puts", "puts that adapters did without the peer's process") \
	ROW(VERBS_GETS, "verbs_gets", "gets that adapters did without the peer's process") \
	ROW(VERBS_OVER, "verbs_over", "times records to a peer went over from its queue pair to the network") \
	ROW(QUEUES_BROKEN, "queues_broken", "queue pairs that failed, to peers that go on") \
	ROW(RTT_NS, "rtt_ns", "round trip to the peer heard of last, smoothed, in ns") \
	ROW(LINK_FALLBACKS, "link_fallbacks", "times a peer's frames had to take another link") \
	ROW(FRAME_SHRINKS, "frame_shrinks", "times frames to a peer were made shorter for its path") \
	ROW(PEERS_ASKED_AFTER, "peers_asked_after", "silent peers whose hosts were asked whether they live") \
	ROW(PEERS_STALLED, "peers_stalled", \
	    "peers given up that did answer, while nothing under way got on for peer_timeout") \
	ROW(PEERS_SILENT, "peers_silent", "peers given up after peer_timeout without an answer") \
	ROW(LINK_LOST, "link_lost", "frames that the kernel refused to send, taken for lost on the way") \
	ROW(LINK_OVERFLOWS, "link_overflows", "packets that found a link's receive buffer full") \
	ROW(LINK_TRUNCATED, "link_truncated", "packets dropped that were longer than any frame") \
	ROW(LINK_SEPARATED, "link_separated", \
	    "times frames were sent one by one, the kernel not taking them together") \
	ROW(LINK_COPIED, "link_copied", \
	    "times that payload was copied, since the kernel may not touch its memory") \
	ROW(LINK_UNREACHABLE, "link_unreachable", "answers that a host or network cannot be reached")

#define COUNTER_ID(id, name, help) COUNTER_##id,
enum counter { COUNTER_TABLE(COUNTER_ID) COUNTER_COUNT };
#undef COUNTER_ID

#endif
