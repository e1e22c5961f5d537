# SPDX-License-Identifier: BSD-3-Clause
"""Small faults that the tests have to notice (mutants.py): each replaces a text that its file has exactly once.

By itself it says which of these texts are not there any more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]


class Fault(NamedTuple):
    name: str
    file: str
    old: str
    new: str


ANSWER = "src/transport/datagram/answer.c"
SHARED = "src/transport/shm/shared.c"
YIELD = "front/yield.c"
HEAP_OF_MPI = "provider/prov_heap.c"
IMPORT = "front/import.c"
IWARP = "src/transport/verbs/iwarp.c"
ARRIVAL = "src/transport/datagram/arrival.c"
RESPONDER = "src/transport/datagram/responder.c"
UDP_HOLD = "src/transport/datagram/udp_hold.c"
BLOCK = "src/transport/datagram/block.c"
CONNECTION = "src/transport/datagram/connection.c"
ENGINE = "src/transport/datagram/engine.c"
HANDOVER = "src/transport/datagram/handover.c"
HANDSHAKE = "src/transport/datagram/handshake.c"
SCATTER = "src/transport/datagram/scatter.c"
NAMING_MXOE = "src/transport/datagram/naming_mxoe.c"
NAMING_NATIVE = "src/transport/datagram/naming_native.c"
MOVER_DRIVER = "src/transport/datagram/mover_driver.c"
PULL = "src/transport/datagram/pull.c"
ROUTE = "src/transport/datagram/route.c"
SERVE = "src/transport/datagram/serve.c"
SILENCE = "src/transport/datagram/silence.c"
TRANSMIT = "src/transport/datagram/transmit.c"
TRANSMIT_FRAME = "src/transport/datagram/transmit_frame.c"
BURST = "src/transport/datagram/burst.c"
UDP_SEND = "src/transport/datagram/udp_send.c"
NATIVE = "src/transport/datagram/wire/native.c"
NATIVE_FIELDS = "src/transport/datagram/wire/native.fields"
ATTENDANCE = "src/base/attendance.h"
CHOOSE = "src/transport/shm/choose.c"
CONNECT = "src/transport/shm/connect.c"
DISCARD = "src/base/discard.c"
LIMITS = "src/base/limits.c"
SEGMENT = "src/transport/shm/segment.c"
RING = "src/transport/shm/ring.c"
PLACE = "src/transport/shm/place.c"
SPARE = "src/base/spare.c"
PASSAGE = "src/transport/shm/passage.c"
FETCH = "src/transport/shm/fetch.c"
SHM_SERVE = "src/transport/shm/serve.c"
BYTES = "src/base/bytes.c"
SHM = "src/transport/shm/shm.c"
HOST = "src/base/host.c"
MATCH = "src/match/match.c"
AREA = "src/memory/area.c"
CACHE = "src/memory/cache.c"
REGION = "src/memory/region.c"
MATCH_H = "src/match/match.h"
SCI = "sim/sci.c"
CONTENTION = "src/endpoint/contention.h"
COPY = "src/transport/shm/copy.c"
DOOR = "src/transport/shm/door.c"
GUARD = "src/transport/datagram/guard.c"
KEY = "src/base/key.c"
PATIENCE = "src/endpoint/patience.h"
RECEIVE = "src/message/receive.c"
OPTIONS = "src/base/options.c"
CADENCE = "src/endpoint/cadence.h"
TAKES = "src/transport/shm/takes.h"
WAIT = "src/endpoint/wait.c"
TURN = "src/endpoint/turn.c"
TURN_H = "src/endpoint/turn.h"
SLEEP = "src/endpoint/sleep.c"
STAND_IN = "src/endpoint/stand_in.c"
BIASED = "src/base/biased.c"
BIASED_H = "src/base/biased.h"
CARETAKER = "front/caretaker.c"
CHARGE = "front/charge.h"
MESSAGE = "src/message/message.c"
MEMORY = "src/message/memory.c"
DECLARED = "src/memory/declared.c"
DRIVER = "src/memory/driver.c"
REMOTE = "src/message/remote.c"
PEER = "src/message/peer.c"
REQUEST = "src/message/request.c"

FAULTS = [
    # ---- Others' descriptors
    Fault(
        "descriptors of others are closed by who waits",
        DISCARD,
        'if (thread_start(&thread, "thole-discard", discard_run, &discard) == 0) {',
        "if (false) {",
    ),
    Fault(
        "the thread that closes last has no table of its own",
        DISCARD,
        "syscall(SYS_close_range, discard->highest + 1, ~0u, CLOSE_RANGE_UNSHARE) != 0",
        "false",
    ),
    Fault(
        "a message without bytes is the end",
        DISCARD,
        "if (header.msg_controllen == 0)",
        "if (true)",
    ),
    Fault(
        "whatever came as a descriptor is closed at once",
        DISCARD,
        "received ? discard_is_file(fds[i])",
        "received ? true",
    ),
    Fault(
        "who waits at a listener is closed along with it",
        CONNECT,
        "\tif (listener_drain(fd))\n\t\tclose(fd);\n\telse\n\t\tdiscard_received(&fd, 1);\n",
        "\tclose(fd);\n",
    ),
    Fault(
        "for more than one descriptor there is no room",
        CONNECT,
        "char bytes[CMSG_SPACE(DISCARD_RIGHTS_MAX * sizeof(int))];",
        "char bytes[CMSG_SPACE(sizeof(int))];",
    ),
    Fault(
        "a name that is taken takes messages",
        "mx/mx_post.c",
        "\tif (fd >= 0)\n\t\tshutdown(fd, SHUT_RD);\n",
        "",
    ),
    # ---- What nothing noticed for long
    Fault(
        "who sleeps by half an alarm",
        "src/transport/datagram/alarm.c",
        "\t\t\talarm_clear(alarm, sockets, i);\n",
        "",
    ),
    Fault(
        "who cannot set an alarm sleeps",
        "src/transport/datagram/link_udp.c",
        "return state == ALARM_REFUSED;",
        "return false;",
    ),
    Fault(
        "a thread that answers for nobody stays",
        RESPONDER,
        "\tending = service_idle();\n\tpthread_mutex_unlock(&lock);\n\tservice_end(ending);\n\treturn added;",
        "\tending = NULL;\n\tpthread_mutex_unlock(&lock);\n\tservice_end(ending);\n\treturn added;",
    ),
    Fault(
        "who has ended still sends",
        ARRIVAL,
        "\tconnection->in.ack_now = connection->in.tell = connection->in.ask = false;\n\tarrival_quiet(connection);\n",
        "\tconnection->in.ack_now = false;\n",
    ),
    Fault(
        "a lease is taken while pieces of the last one are there",
        PLACE,
        "\tif (lent->live > 0)\n\t\treturn false;\n",
        "",
    ),
    Fault(
        "half of a token gets a question in",
        RESPONDER,
        "(uint32_t)token, 0, 1)",
        "(uint32_t)token, 0, 0)",
    ),
    Fault(
        "a question without a number has an answer",
        RESPONDER,
        "length != QUESTION_BYTES || number == 0",
        "length != QUESTION_BYTES",
    ),
    Fault(
        "a question is given up at once for another",
        "src/transport/datagram/liveness.c",
        "\t\tif (now_ns - oldest->since_ns < QUESTION_NS_MIN)\n\t\t\treturn NULL;\n",
        "",
    ),
    Fault(
        "a run is stamped by one key over two epochs",
        GUARD,
        "run > 1 && (counter + run - 1) >> GUARD_EPOCH_BITS == counter >> GUARD_EPOCH_BITS ? run : 1",
        "run > 1 ? run : 1",
    ),
    Fault(
        "of several events the descriptor tells of one",
        "provider/prov_eq.c",
        "\tif (list_empty(&eq->events))\n\t\tprov_eq_event_drop(eq);\n",
        "\tprov_eq_event_drop(eq);\n",
    ),
    Fault(
        "a closed endpoint's descriptor is still watched",
        "provider/prov_watch.c",
        "\t\t\tepoll_ctl(watch->epoll, EPOLL_CTL_DEL, thole_fd(endpoint), NULL);\n",
        "\t\t\t(void)0;\n",
    ),
    Fault(
        "a result has any number of places",
        "provider/prov_atomic.c",
        "atomic->result.count > PROV_SEGMENTS_MAX || ",
        "",
    ),
    Fault(
        "what is sent behind a flush counts for it",
        "ucx/ucx_flush.c",
        "request->order < flush->order &&",
        "true &&",
    ),
    Fault(
        "a text fills its place, and its NUL the next",
        "mx/mx_notice.c",
        "if (length >= size) {",
        "if (length > size) {",
    ),
    Fault(
        "what a peer asks for again is done as often",
        SHM_SERVE,
        "\tserve_supersede(peer, window);\n",
        "",
    ),
    Fault(
        "nobody is woken for a raw send that is done",
        "mx/mx_raw.c",
        "\teventfd_write(raw->event_fd, 1); /* still locked",
        "\t/* still locked",
    ),
    # ---- What was sent gets there
    Fault(
        "a visitor has nobody fence",
        BIASED,
        "syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 &&",
        "true &&",
    ),
    Fault(
        "a visitor comes in where the owner is",
        BIASED,
        "!load_acquire(&biased->inside)) /* partner: biased_leave */",
        "true)",
    ),
    Fault(
        "the owner comes in where a visitor is",
        BIASED_H,
        "return __builtin_expect(!load_acquire(&biased->wanted), 1);",
        "return true;",
    ),
    Fault(
        "nobody tends what the caretaker knows",
        CARETAKER,
        "if (charge->endpoints[i] && thole_tend(charge->endpoints[i]) == 1)",
        "if (false)",
    ),
    Fault(
        "what a child has is tended by nobody, and counted as if",
        CARETAKER,
        "node)->tended = false;",
        "node)->tended = true;",
    ),
    Fault(
        "the caretaker does not know a domain",
        "provider/prov_fabric.c",
        "caretaker_add(&domain->charge);",
        ";",
    ),
    Fault(
        "what is sent and waits for room is not tended",
        STAND_IN,
        "return !endpoint_drained(endpoint) || endpoint_moves_alone(endpoint);",
        "return endpoint_moves_alone(endpoint);",
    ),
    Fault(
        "what the driver would move waits until the program calls",
        STAND_IN,
        "return !endpoint_drained(endpoint) || endpoint_moves_alone(endpoint);",
        "return !endpoint_drained(endpoint);",
    ),
    Fault(
        "whatever is awaited is tended, though nothing moves it meanwhile",
        "src/transport/datagram/handover.c",
        "return moves && !handover_is_barred(engine);",
        "return moves || !handover_is_barred(engine);",
    ),
    Fault(
        "a sleeping event loop is robbed of what should wake it",
        STAND_IN,
        "if (tending && (!endpoint_is_armed(endpoint) || endpoint_has_started(endpoint))",
        "if (tending",
    ),
    Fault(
        "the progress thread robs a sleeping event loop of what should wake it",
        STAND_IN,
        "\t\tif (endpoint_is_armed(endpoint)) {",
        "\t\tif (0) {",
    ),
    Fault(
        "an event loop sleeps on what the progress thread has handled",
        SLEEP,
        "if (whole->beside || ",
        "if (",
    ),
    Fault(
        "sci: a control block does not end with the remote page",
        SCI,
        "\t\tpiece = contiguous(remote->pages, remote->user, model->list_runs, to, piece);\n",
        "",
    ),
    Fault(
        "sci: an address loses its highest bit",
        SCI,
        "bit < count * SCI_ADDRESS_BITS; bit++)\n\t\tif",
        "bit < count * SCI_ADDRESS_BITS - 1; bit++)\n\t\tif",
    ),
    Fault(
        "sci: a table that is full leaves entries behind",
        SCI,
        "\t\t\t\ttable_put(host, remote->entries[i]);\n",
        "\t\t\t\t;\n",
    ),
    # ---- Frames that come, and go, together
    Fault(
        "a frame that comes twice in one packet is taken twice",
        NAMING_NATIVE,
        "packet->counter > before->counter + before->behind)));",
        "true)));",
    ),
    Fault(
        "frames that come together are taken again",
        NAMING_NATIVE,
        "\t\tguard_seen(connection->guard, all.judged, all.count);\n",
        "\t\tguard_seen(connection->guard, all.judged, 1);\n",
    ),
    Fault(
        "frames that come together are not judged",
        NAMING_NATIVE,
        " ||\n\t    connection_judge(connection, all.judged, all.count) != GUARD_FINE)\n",
        ")\n",
    ),
    Fault(
        "only the first acknowledgement of a packet is heeded",
        ENGINE,
        "if (!before || packet->ack != before->ack || packet->credit != before->credit)",
        "if (!before)",
    ),
    Fault(
        "frames that lie behind each other go as one",
        UDP_SEND,
        "\tif (first->msg_iovlen == 1 && first->msg_controllen == 0)\n",
        "\tif (first->msg_iovlen == 1)\n",
    ),
    Fault(
        "what a lane does not remember is not told",
        UDP_SEND,
        "\tif (count > 1 ? length != socket->segment : ",
        "\tif (count > 1 ? socket->segment == 0 : ",
    ),
    Fault(
        "one frame that is longer than a lane remembers is cut",
        UDP_SEND,
        "socket->segment > 0 && length > socket->segment)",
        "false)",
    ),
    Fault(
        "a lane remembers what comes later in a burst",
        UDP_SEND,
        "\tif (message == 0 && count > 1 && length > socket->segment",
        "\tif (count > 1 && length > socket->segment",
    ),
    Fault(
        "what a lane remembers stays when it refuses a packet",
        UDP_SEND,
        "\tif (socket->segment == 0)\n\t\treturn false;",
        "\tif (socket->segment < UINT16_MAX)\n\t\treturn false;",
    ),
    Fault(
        "what a lane remembers ends packets of many frames when it is refused",
        UDP_SEND,
        "if (udp->out.frames[0] > 1 && socket->segment == 0)",
        "if (udp->out.frames[0] > 1)",
    ),
    Fault(
        "a lane that refused a packet remembers again",
        UDP_SEND,
        "\tsocket->segment = 0;\n\tsocket->forgets = true;",
        "\tsocket->segment = 0;",
    ),
    Fault(
        "a lane is open though the driver has the link's other sockets alone",
        "src/transport/datagram/udp_lane.c",
        "\t\terror = udp_driver_socket(udp, lane);",
        "\t\t(void)udp_driver_socket(udp, lane);",
    ),
    Fault(
        "a train is never free again",
        TRANSMIT_FRAME,
        "\tif (train->live == 0)\n\t\tpool_put",
        "\tif (train->live == UINT32_MAX)\n\t\tpool_put",
    ),
    Fault(
        "a run of which some frames have arrived is there as a whole",
        TRANSMIT,
        "if (ack - frame->sequence < frame->count)",
        "if (false)",
    ),
    Fault(
        "a frame that is to show how long they may be goes in a packet of several",
        UDP_SEND,
        "length == 0 || frames[0].probe ||",
        "length == 0 ||",
    ),
    Fault(
        "frames stay as short as what was answered first",
        HANDSHAKE,
        "if (size < before)",
        "if (false)",
    ),
    Fault(
        "after 2^31 short records the next ones pass for followers of a long one",
        TRANSMIT,
        "if (sequence_after(ack, connection->out.wide_end) > 0)",
        "if (false)",
    ),
    Fault(
        "no RTS waits for others",
        TRANSMIT,
        "transmit_kept(connection) > PATIENT_FRAMES &&",
        "false &&",
    ),
    Fault(
        "who posts many sends is asked again before it can answer",
        "src/transport/datagram/pull.c",
        "now_ns - connection->silence.heard_ns < PULL_PROBE_NS &&",
        "false &&",
    ),
    Fault(
        "a run is sent as a whole, whatever the window",
        TRANSMIT,
        "run->count > smaller(room, count))",
        "false)",
    ),
    Fault(
        "a run of which some frames are held is held as a whole",
        TRANSMIT,
        "\t\tif (same < frame->count)\n",
        "\t\tif (false)\n",
    ),
    Fault(
        "a run of which a link took some frames goes again as a whole",
        TRANSMIT,
        "taken ? transmit_frame_split(run, taken) : run;",
        "run;\n\n\t(void)taken;",
    ),
    Fault(
        "frames of a record lie apart",
        TRANSMIT,
        "\tcut.many = left > WIDE_FRAMES * cut.most;\n",
        "\tcut.many = false;\n",
    ),
    Fault(
        "a piece like the one before has its number",
        "src/transport/datagram/wire/native.c",
        "\t\tstore_be32(head + RECORD_SEQUENCE_AT, (uint32_t)number);\n",
        "\t\t(void)number;\n",
    ),
    Fault(
        "DATA like the one before has its offset",
        "src/transport/datagram/wire/native.c",
        "\tstore_be64(at + 4, transfer << PLACE_OFFSET_BITS | offset);\n}\n\n#include",
        "\tstore_be64(at + 4, transfer << PLACE_OFFSET_BITS);\n\t(void)offset;\n}\n\n#include",
    ),
    Fault(
        "DATA of another transfer is taken for the same",
        "src/transport/datagram/wire/native.c",
        "if (transfer != packet->data.transfer || length",
        "if (length",
    ),
    Fault(
        "of frames that are counted together, the first is",
        "src/transport/datagram/block.c",
        "block->missing &= ~(block_mask(count) << index);",
        "block->missing &= ~(UINT64_C(1) << index);",
    ),
    Fault(
        "pieces that come together are taken in any order",
        ARRIVAL,
        "run->packet.sequence == connection->in.next && ",
        "",
    ),
    Fault(
        "pieces that come together need not be each behind the one before",
        "src/transport/datagram/wire/native.c",
        "\t\t    load_be32(frame + RECORD_SEQUENCE_AT) != sequence + count + 1 ||\n",
        "",
    ),
    Fault(
        "the short frame of a record is its last, wherever its packet ends",
        TRANSMIT,
        "cut.before = transmit_packet_left(connection, cut.most) - 1;",
        "cut.before = UINT32_MAX;",
    ),
    Fault(
        "each packet of a message ends with a short frame",
        TRANSMIT,
        "left / room > (left - last) / room ?",
        "true ?",
    ),
    Fault(
        "what may be sent is sent, though it is no packet",
        TRANSMIT,
        "return room < all && all <= due &&",
        "return false && room < all && all <= due &&",
    ),
    Fault(
        "of a run's counters only the first is remembered",
        GUARD,
        "frames[i].counter, frames[i].behind);",
        "frames[i].counter, 0);",
    ),
    Fault(
        "of a run only the first tag is compared",
        GUARD,
        "length, stride, run->behind);",
        "length, stride, 1);",
    ),
    Fault(
        "the last of a run's frames is as long as the others",
        BURST,
        "burst->frames[burst->count - 1].head_length = last;",
        ";",
    ),
    Fault(
        "whoever asks for short messages gets long ones unasked",
        ENGINE,
        "options->net_eager_max < ENGINE_PIECE_MAX || ",
        "",
    ),
    Fault(
        "what is left of a long message goes at once, among others",
        ENGINE,
        "(left <= ENGINE_PIECE_MAX && !list_empty(&connection->out.unacked))",
        "!list_empty(&connection->out.unacked)",
    ),
    # ---- Links
    Fault(
        "a link that is left is still used",
        ROUTE,
        "\troute->frame_max = 0;\n\troute->left = true;\n",
        "\troute->left = true;\n",
    ),
    Fault(
        "a fetch under way goes on in frames that do not pass any more",
        ROUTE,
        "\t\tif (link == connection->routes.use[LINK_BULK])\n\t\t\tpull_narrow(connection);\n",
        "",
    ),
    Fault(
        "a fetch that begins anew has frames as long as before",
        PULL,
        "\tfetch->blocks.frame = fetch_frame(fetch->connection);\n\tblock_fetch_begin",
        "\tblock_fetch_begin",
    ),
    Fault(
        "a path that gets narrower is not known by the port of DATA",
        ENGINE,
        " || memcmp(&route->bulk, to, sizeof(*to)) == 0",
        "",
    ),
    Fault(
        "the peer is not told that frames get shorter",
        HANDSHAKE,
        "\tif (connection->route[link].narrow)\n\t\tpacket.connect.seen = connection->route[link].frame_max;\n",
        "",
    ),
    Fault(
        "the peer is told once that frames get shorter",
        ROUTE,
        "\tif (!route->narrow &&\n\t    (!route->known",
        "\tif ((!route->narrow || route->tries > 0) &&\n\t    (!route->known",
    ),
    Fault(
        "the peer is told that frames get shorter when it knows",
        ROUTE,
        "\tif (route->narrow) /* it knows */\n\t\troute->try_ns = 0;\n\troute->narrow = false;\n",
        "",
    ),
    Fault(
        "a CONNECT of before says how long frames are",
        ROUTE,
        "(unsigned)(number - route->newest) % ROUTE_NUMBERS >= ROUTE_NUMBERS / 2",
        "false",
    ),
    Fault(
        "a peer may have as many frames under way as it says",
        TRANSMIT,
        "smaller(packet->credit ? packet->credit : codec->credit_unsaid, codec->ahead_max)",
        "packet->credit ? packet->credit : codec->credit_unsaid",
    ),
    Fault(
        "the link by which there was a short answer is not tried with longer frames",
        ROUTE,
        "(link == connection->routes.use[LINK_BULK] && !connection->handshake.answered)",
        "link == connection->routes.use[LINK_BULK]",
    ),
    Fault(
        "a probe of a length goes as fragments",
        UDP_SEND,
        "!udp->too_long || frames[taken].probe ||",
        "!udp->too_long ||",
    ),
    Fault(
        "without a descriptor no frame is known to pass",
        "src/transport/datagram/link_udp.c",
        "(error && error != THOLE_ERR_SYSTEM)",
        "error",
    ),
    Fault(
        "an option mtu that no frame has is taken",
        "src/transport/datagram/datagram.c",
        "|| options->mtu >= ENGINE_FRAME_MIN)",
        "|| options->mtu >= 1)",
    ),
    Fault(
        "an ACCEPT shows of any link that it works",
        ROUTE,
        "number % ENGINE_LINKS_MAX == link && ago",
        "ago",
    ),
    Fault(
        "an ACCEPT from before a link was left shows that it works again",
        ROUTE,
        "(route->asked + ROUTE_NUMBERS_OUT) % ROUTE_NUMBERS",
        "route->asked",
    ),
    Fault(
        "an ACCEPT that says nothing new speaks for a link",
        ROUTE,
        "seen <= route->frame_max)\n\t\treturn;\n\troute->frame_max",
        "seen < route->frame_max)\n\t\treturn;\n\troute->frame_max",
    ),
    Fault("a link that was left is never tried again", ROUTE, "\t\tif (route->left) {\n", "\t\tif (false) {\n"),
    Fault(
        "links are preferred in the order in which they were opened",
        ENGINE,
        "for (; at > 0 && engine->links[order[at - 1]]->calls->rank[use] > rank; at--)",
        "for (; false; at--)",
    ),
    Fault(
        "DATA that was asked for aside comes by the usual link",
        ROUTE,
        "return aside && connection->route[heard].known ? heard : route_usual(connection);",
        "return route_usual(connection);",
    ),
    Fault(
        "repetitions of a frame go by one other link alone",
        ROUTE,
        "return count > 0 ? others[turn % count] : usual;",
        "return count > 0 ? others[0] : usual;",
    ),
    Fault(
        "the last link that works is left",
        ROUTE,
        "if (route->frame_max == 0 || connection->routes.working < 2)",
        "if (route->frame_max == 0)",
    ),
    Fault(
        "losses are held against the link that is used now",
        TRANSMIT,
        "if (connection->routes.working < 2 || frame->link != usual)",
        "if (connection->routes.working < 2)",
    ),
    Fault(
        "PULLs for DATA by another link than usual go by that of records",
        PULL,
        "connection->routes.use[connection->routes.aside ? LINK_BULK : LINK_RECORDS];",
        "connection->routes.use[LINK_RECORDS];",
    ),
    Fault(
        "a silent peer is asked by one link alone",
        ARRIVAL,
        "if (i != link && connection->route[i].frame_max > 0)",
        "if (false)",
    ),
    # ---- Records over frames
    Fault(
        "an acknowledgement beyond what was sent is taken",
        TRANSMIT,
        "if (sequence_after(ack, connection->out.next) > 0)",
        "if (false)",
    ),
    Fault(
        "time-outs of records do not double",
        TRANSMIT,
        "\tif (connection->out.backoff < 16)\n\t\tconnection->out.backoff++;\n",
        "",
    ),
    Fault(
        "the window of records has no bound",
        TRANSMIT,
        "connection->out.window = smaller(connection->out.window + acked, connection->engine->codec->unacked_max);",
        "connection->out.window += acked;",
    ),
    Fault(
        "frames that were lost together are as many losses",
        TRANSMIT,
        "frame->sent_ns > route->lost_ns)",
        "frame->sent_ns > 0)",
    ),
    Fault(
        "an answer that is too soon speaks against a link",
        TRANSMIT,
        "ns >= connection->out.trip.least_ns && ns <= LINK_TRIP_NS",
        "ns <= LINK_TRIP_NS",
    ),
    Fault(
        "credit is ignored",
        TRANSMIT,
        "return large ? smaller(connection->out.window, connection->out.credit) : connection->out.credit;",
        "return large ? connection->out.window : 256;",
    ),
    Fault(
        "the window of records does not shrink when frames are lost",
        TRANSMIT,
        "out->window = out->window > least + lost * LOSS_FRAMES ? out->window - lost * LOSS_FRAMES : least;",
        "(void)least;",
    ),
    Fault(
        "the window of records does not shrink when an acknowledgement is late",
        TRANSMIT,
        "\tconnection->out.window = transmit_window_least(connection->engine->codec);\n\tfor (; node && node",
        "\tfor (; node && node",
    ),
    Fault(
        "frames far ahead are held",
        ARRIVAL,
        "if ((uint32_t)ahead > engine->codec->ahead_max)",
        "if (false)",
    ),
    Fault(
        "a duplicate is delivered twice",
        ARRIVAL,
        "if (ahead < 0 || (ahead == 0 && packet->message.fragment < connection->in.fragment)) {",
        "if (ahead < -1 || (ahead == 0 && packet->message.fragment < connection->in.fragment)) {",
    ),
    Fault(
        "a frame that is held already is held again",
        ARRIVAL,
        "if (after == 0 && before->fragment == packet->message.fragment) {",
        "if (false) {",
    ),
    Fault(
        "a selective acknowledgement is off by one",
        TRANSMIT,
        "return ahead > 0 && ahead <= 64 && (held >> (ahead - 1) & 1);",
        "return ahead > 0 && ahead <= 63 && (held >> ahead & 1);",
    ),
    Fault(
        "a duplicate is not acknowledged",
        ARRIVAL,
        "\t\tengine_count(engine, COUNTER_FRAMES_DUPLICATE);\n\t\tarrival_owe(connection, true);\n",
        "\t\tengine_count(engine, COUNTER_FRAMES_DUPLICATE);\n",
    ),
    Fault(
        "who was asked once is asked for ever",
        ENGINE,
        "transmit_kept(connection) > 1 ||",
        "transmit_kept(connection) > 0 ||",
    ),
    Fault(
        "a record that found no frame leaves some behind",
        TRANSMIT,
        "\t\t\ttransmit_take_back(connection, first);\n",
        "",
    ),
    Fault(
        "a peer's acknowledgement is not looked at in a PULL",
        ENGINE,
        "\t\ttransmit_acked(connection, packet);\n\t\tserve_pull_arrived(",
        "\t\tserve_pull_arrived(",
    ),
    Fault(
        "what is held is not handed over",
        ARRIVAL,
        "\tif (!list_empty(&connection->in.held))\n\t\tarrival_drain(connection);\n",
        "",
    ),
    Fault(
        "the frame behind a gap is said to be held one too far",
        ARRIVAL,
        "packet.acked.held |= UINT64_C(1) << (ahead - 1);",
        "packet.acked.held |= UINT64_C(1) << (ahead & 63);",
    ),
    Fault(
        "credit is not shared by senders",
        ARRIVAL,
        "uint64_t share = room / (engine->senders ? engine->senders : 1);",
        "uint64_t share = room;",
    ),
    Fault(
        "who is quiet keeps a share of the credit",
        ARRIVAL,
        "if (now_ns - connection->silence.heard_ns >= QUIET_NS)\n\t\t\tarrival_quiet(connection);",
        "if (now_ns - connection->silence.heard_ns >= QUIET_NS)\n\t\t\t;",
    ),
    Fault(
        "frames that are held have no bound over all connections",
        ARRIVAL,
        " && engine->held < ENGINE_REORDER_TOTAL &&",
        " &&",
    ),
    Fault(
        "an acknowledgement that waited is not sent",
        ARRIVAL,
        "\t\tconnection->in.ack_ns = 0;\n\t\tconnection->in.ack_now = true;\n",
        "\t\tconnection->in.ack_ns = 0;\n",
    ),
    Fault(
        "a message of full fragments has one more",
        ARRIVAL,
        "packet->message.total <= ((uint64_t)packet->message.fragment + 1) * codec->fragment;",
        "packet->message.total < ((uint64_t)packet->message.fragment + 1) * codec->fragment;",
    ),
    Fault(
        "what was never sent is acknowledged",
        TRANSMIT,
        "if (sequence_after(frame->sequence, ack) >= 0 || frame->sent_ns == 0)",
        "if (sequence_after(frame->sequence, ack) >= 0)",
    ),
    Fault(
        "an RTS tells another host where memory is",
        TRANSMIT,
        "packet.message.record.arg[1] = 0; /* where",
        "; /* where",
    ),
    Fault(
        "no credit is none for ever",
        TRANSMIT,
        "smaller(packet->credit ? packet->credit : codec->credit_unsaid, ",
        "smaller(packet->credit, ",
    ),
    Fault(
        "what has arrived is still under way",
        TRANSMIT,
        "\t\ttransmit_frame_in(connection, frame);\n\t\tacked += frame->count;\n",
        "\t\tacked += frame->count;\n",
    ),
    # ---- Bulk over frames
    Fault(
        "a fetch that is taken back keeps its name",
        PULL,
        "\tfetch_name(fetch);\n\tfetch->blocks.frame = fetch_frame(fetch->",
        "\tfetch->blocks.frame = fetch_frame(fetch->",
    ),
    Fault(
        "a mover that does not get on keeps what it has",
        HANDOVER,
        "now_ns - handover->heard_ns >= handover_patience(connection)",
        "false",
    ),
    Fault(
        "a window that nobody serves stays handed over",
        HANDOVER,
        "if (++offer->repeats < HANDOVER_REPEATS || now_ns",
        "if (true || now_ns",
    ),
    Fault(
        "a window stays handed over when its request has ended",
        HANDOVER,
        "\thandover->mover->calls->withdraw(handover->mover, handover->id, offer->name);\n",
        "",
    ),
    Fault(
        "what was refused waits for a time-out",
        BLOCK,
        "if (block->fetch == fetch && block->refused)",
        "if (false)",
    ),
    Fault(
        "the engine leaves to a mover what that does not answer",
        HANDOVER,
        " ||\n\t    connection->handover->mover->keeps)",
        ")",
    ),
    Fault(
        "who pulls by a mover is not heard",
        HANDOVER,
        "(handover->mover->keeps && !list_empty(&handover->offers))",
        "false",
    ),
    Fault(
        "a mover does not know who may ask whether we are there",
        NAMING_MXOE,
        "\thandover_opened(connection);\n",
        "\t(void)connection;\n",
    ),
    Fault(
        "a mover gets a transfer's name of ours",
        HANDOVER,
        ".transfer = engine->naming->transfer(engine, pull_id(engine, fetch)),",
        ".transfer = pull_id(engine, fetch),",
    ),
    Fault(
        "a mover is not told of a host's new index",
        NAMING_MXOE,
        "\tif (connection->handover)\n\t\tarrival_tell(connection);\n",
        "",
    ),
    Fault(
        "the bound of a pulled range is missed by 8 bytes",
        ANSWER,
        "pull->length > window_length - pull->offset)",
        "pull->length > window_length - pull->offset + 8)",
    ),
    Fault(
        "where a pulled range begins is not checked",
        ANSWER,
        "pull->offset > window_length || pull->length > window_length - pull->offset)",
        "pull->length > window_length)",
    ),
    Fault(
        "an answer's last step may go around",
        ANSWER,
        "*at_p = at + step;",
        "*at_p = at + answer->frame;",
    ),
    Fault(
        "DATA may have any length",
        BLOCK,
        "length != (left < fetch->frame - start ? left : fetch->frame - start)) {",
        "length > (left < fetch->frame - start ? left : fetch->frame - start)) {",
    ),
    Fault(
        "DATA that is here already counts again",
        BLOCK,
        "\tif (!(block->missing >> *index_p & 1))\n\t\treturn NULL;\n",
        "",
    ),
    Fault(
        "DATA that came in one piece is where it belongs before it is judged",
        SCATTER,
        "(struct iovec){at + block->fetch->head, length};",
        "(struct iovec){place, length};",
    ),
    Fault(
        "DATA that came in one piece stays there",
        SCATTER,
        "\t\t\tscatter_land(scatter, frames, runs[i].behind + 1u);\n",
        "",
    ),
    Fault(
        "of DATA that came in one piece tags are looked for where heads are by themselves",
        SCATTER,
        "scatter->whole ? scatter->frame : sizeof(scatter->heads[0]);",
        "sizeof(scatter->heads[0]);",
    ),
    Fault(
        "the slower way to read DATA is used",
        SCATTER,
        "scatter->cost[true] < scatter->cost[false]",
        "scatter->cost[true] > scatter->cost[false]",
    ),
    Fault(
        "of halves one has all frames but one",
        TRANSMIT,
        "/ room / 2 + 1) * room - more;",
        "/ room) * room - more;",
    ),
    Fault(
        "what is no answer goes in halves, too",
        ENGINE,
        "connection->in.next != connection->out.heard",
        "true",
    ),
    Fault(
        "as much credit as for long packets, when none stay any more",
        UDP_HOLD,
        "offset < 0 ? 0 : udp->cached",
        "udp->cached",
    ),
    Fault(
        "of bulk as much stays as of records",
        UDP_HOLD,
        "udp->hold / UDP_HOLD_BULK",
        "udp->hold",
    ),
    Fault(
        "DATA lands for another session",
        SCATTER,
        "packet->session == connection->session &&",
        "true &&",
    ),
    Fault(
        "DATA lands at another offset",
        SCATTER,
        "packet->data.offset == block->offset + (uint64_t)scatter->frame_index[slot] * block->fetch->frame &&\n",
        "true &&\n",
    ),
    Fault(
        "DATA lands at another offset, behind a frame that is right",
        SCATTER,
        "packet->data.offset == offset && packet->counter == counter;",
        "packet->counter == counter;",
    ),
    Fault(
        "of DATA that came together counters are not compared",
        SCATTER,
        "packet->data.offset == offset && packet->counter == counter;",
        "packet->data.offset == offset;",
    ),
    Fault(
        "late frames of a run that lie apart are looked for behind each other",
        GUARD,
        "(uint8_t *)parts[0].iov_base + stride;",
        "(uint8_t *)parts[0].iov_base + length;",
    ),
    Fault(
        "all frames of a block but the first have the payload of the second",
        "src/transport/datagram/serve.c",
        "count--, offset += length, bytes",
        "count--, bytes",
    ),
    Fault(
        "DATA lands whatever its tag says",
        SCATTER,
        "\tif (connection_judge(connection, runs, count) != GUARD_FINE)\n\t\treturn 0;\n",
        "",
    ),
    Fault(
        "DATA of another version is taken",
        NATIVE,
        "frame[HEAD_VERSION_AT] != NATIVE_VERSION ||",
        "",
    ),
    Fault(
        "a CONNECT says another number for the next",
        NATIVE_FIELDS,
        "  84  u32      connect.next       connect.next  ",
        "  84  u32      connect.next       connect.index  ",
    ),
    Fault(
        "what a CONNECT saw and how long it is have changed places",
        NATIVE_FIELDS,
        "  88  u16      connect.seen       connect.seen  ",
        "  88  u16      connect.seen       connect.size  ",
    ),
    Fault(
        "time-outs of pulls do not double",
        BLOCK,
        "\tif (peer->backoff < 16)\n\t\tpeer->backoff++;\n",
        "",
    ),
    Fault(
        "what arrives does not end the doubling",
        BLOCK,
        "\tpeer->backoff = 0; /* there is a way",
        "\t/* there is a way",
    ),
    Fault(
        "the window of pulls has no bound",
        BLOCK,
        "peer->window = peer->window + bytes < most ? peer->window + bytes : most;",
        "peer->window += bytes + 0 * most;",
    ),
    Fault(
        "the window of pulls does not shrink",
        BLOCK,
        "peer->window -= PULL_LOSS * lost;",
        ";",
    ),
    Fault(
        "blocks that are late keep the credit",
        BLOCK,
        "\t\tif (!poll)\n\t\t\tblock_late(block);\n",
        "",
    ),
    Fault(
        "a transfer of another connection is taken",
        PULL,
        "return fetch && fetch->connection == connection ? fetch : NULL;",
        "return fetch;",
    ),
    Fault(
        "a frame of DATA may begin anywhere",
        BLOCK,
        "if ((start != 0 && offset != block->offset) ||\n\t    length",
        "if (length",
    ),
    Fault(
        "of a credit of a few bytes no part is asked for",
        BLOCK,
        "(blocks->outstanding_max + PULL_SHARE - 1) / PULL_SHARE",
        "blocks->outstanding_max / PULL_SHARE",
    ),
    Fault(
        "a mover is told the credit of the engine's last PULL",
        HANDOVER,
        ".credit = pull_credit(engine),",
        ".credit = engine->blocks.outstanding_max,",
    ),
    Fault(
        "the credit of a late block is given back twice",
        BLOCK,
        "\tif (!block->late)\n\t\tblocks->outstanding -= block->length;\n\tpeer->outstanding",
        "\tblocks->outstanding -= block->length;\n\tpeer->outstanding",
    ),
    Fault(
        "PULLs that wait have no bound",
        SERVE,
        "serve = connection->serves < SERVES_MAX ? pool_get(&engine->serves) : NULL;",
        "serve = pool_get(&engine->serves);",
    ),
    Fault(
        "a PULL that waits is queued again",
        SERVE,
        "if (serve_is_known(connection, pull)) {",
        "if (false) {",
    ),
    Fault(
        "what the link did not take is left out",
        SERVE,
        "answer->done = starts[taken];",
        "answer->done = end;",
    ),
    # ---- Connections
    Fault(
        "the proof of an ACCEPT is not checked",
        HANDSHAKE,
        "if (!engine->naming->knows(engine, packet) || connect->seen > engine->frame_max ||",
        "if (connect->seen > engine->frame_max ||",
    ),
    Fault(
        "the proof of a CONNECT is not checked",
        HANDSHAKE,
        "if (!engine->naming->knows(engine, packet) || packet->connect.session == 0) {",
        "if (packet->connect.session == 0) {",
    ),
    Fault(
        "where a CONNECT comes from is not checked",
        NAMING_NATIVE,
        "if (packet->type == PACKET_CONNECT && !native_is_from(connection, &packet->connect, link, from))",
        "if (false)",
    ),
    Fault(
        "a CLOSE does not wait for records that it overtook",
        HANDSHAKE,
        "if (handshake_is_closed(connection)) {",
        "if (true) {",
    ),
    Fault(
        "a second session of a peer is taken",
        NAMING_NATIVE,
        "if (connection->peer_session && connection->peer_session != connect->session)",
        "if (false)",
    ),
    Fault(
        "a NACK of any session ends the peer",
        NAMING_NATIVE,
        " || !native_nack_names(connection, nack))",
        ")",
    ),
    Fault(
        "a NACK need not prove the key",
        NAMING_NATIVE,
        "if (proven || (!connection->peer_session && nack->reason != NACK_BAD_WINDOW))",
        "if (true)",
    ),
    Fault(
        "a CONNECT opens a connection before its sender has answered",
        NAMING_NATIVE,
        "\tnative_learn_links(connection, connect);\n\treturn true;",
        "\tnative_learn_links(connection, connect);\n\tconnection_open(connection);\n\treturn true;",
    ),
    Fault(
        "a CONNECT for another endpoint is answered",
        NAMING_NATIVE,
        "if (packet->connect.target == engine->owner->parts.endpoint)",
        "if (true)",
    ),
    Fault(
        "a session may be 0",
        HANDSHAKE,
        " || packet->connect.session == 0) {",
        ") {",
    ),
    Fault(
        "an ACCEPT may have seen longer frames than there are",
        HANDSHAKE,
        " || connect->seen > engine->frame_max ||",
        " ||",
    ),
    Fault(
        "an ACCEPT may have no session",
        HANDSHAKE,
        "(connect->session != 0) != welcome) {",
        "false) {",
    ),
    Fault(
        "a CONNECT proves that its sender has read the ACCEPT",
        HANDSHAKE,
        "if (packet->session == connection->session)\n\t\thandshake_proven(connection);",
        "handshake_proven(connection);",
    ),
    Fault(
        "CONNECTs are not sent less and less often",
        HANDSHAKE,
        "\t\twait_ns *= 2;\n",
        "\t\t;\n",
    ),
    Fault(
        "CONNECTs do not get shorter",
        HANDSHAKE,
        "uint32_t step = steps[attempt < HANDSHAKE_SHORTEST ? attempt : HANDSHAKE_SHORTEST];",
        "uint32_t step = steps[0 * attempt];",
    ),
    Fault(
        "the option mtu is ignored",
        HANDSHAKE,
        "if (option && most > option)",
        "if (false)",
    ),
    Fault(
        "a CLOSE waits for ever for records before it",
        HANDSHAKE,
        "if (!complete && connection->handshake.closing_ns > connection->engine->now_ns)",
        "if (!complete)",
    ),
    Fault(
        "a CLOSE says one record too few",
        HANDSHAKE,
        "packet.sequence = connection->out.next;\n\t\tarrival_report",
        "packet.sequence = connection->out.next - 1;\n\t\tarrival_report",
    ),
    Fault(
        "an index is enough to find a connection",
        CONNECTION,
        " && connection->session == session\n",
        "\n",
    ),
    Fault(
        "a timer is never set earlier",
        CONNECTION,
        "if (connection->timer.place && when_ns >= connection->timer.key)",
        "if (connection->timer.place)",
    ),
    Fault(
        "a connection that ends keeps the frames that it holds",
        CONNECTION,
        "\tarrival_end(connection);\n",
        "",
    ),
    Fault(
        "a tag is taken where none was agreed on",
        CONNECTION,
        "return flags & (PACKET_TAGGED | PACKET_SEALED) ? GUARD_FORGED : GUARD_FINE;",
        "return flags && false ? GUARD_FORGED : GUARD_FINE;",
    ),
    Fault(
        "a refusal ends a connection that was answered",
        NAMING_NATIVE,
        "\tif (connection->handshake.answered)\n\t\treturn; /* somebody else is saying so */\n",
        "",
    ),
    Fault(
        "strangers are answered as often as they send",
        NAMING_NATIVE,
        "\tif (engine->now_ns - engine->nack_ns < NACK_NS + (uint64_t)engine->connections.live * NACK_LOOK_NS)\n"
        "\t\treturn;\n",
        "",
    ),
    Fault(
        "a session that lives is said to have ended where a frame names another index",
        NAMING_NATIVE,
        "\tif (!native_lives(engine, packet->session))\n",
        "",
    ),
    Fault(
        "a CONNECT that proves nothing is refused with a proof",
        NAMING_NATIVE,
        "\tif (refused->type != PACKET_CONNECT || native_knows(engine, refused))\n",
        "",
    ),
    Fault(
        "a NACK of a session of ours that the peer has not ends a connection",
        NAMING_NATIVE,
        "\t\treturn peers;\n",
        "\t\treturn ours || peers;\n",
    ),
    Fault(
        "an ACCEPT that comes again is a sign of life",
        CONNECTION,
        "\tif (!fresh) /* what has opened it may be a copy of what has opened it before */\n\t\treturn;\n"
        "\tconnection->silence.heard_ns = connection->engine->now_ns;\n",
        "\tconnection->silence.heard_ns = connection->engine->now_ns;\n\tif (!fresh)\n\t\treturn;\n",
    ),
    Fault(
        "zeros behind a CONNECT show that longer frames pass",
        NAMING_NATIVE,
        "\tif (length > packet->connect.size)\n\t\tlength = packet->connect.size;\n",
        "",
    ),
    Fault(
        "an endpoint that has answered may be another one",
        NAMING_NATIVE,
        "ours && !(connection->state == CONNECTION_OPEN && connection->handshake.answered)",
        "ours",
    ),
    Fault(
        "a NACK may be longer than what it answers",
        NAMING_NATIVE,
        "\tif (length < engine->codec->nack)\n\t\treturn;\n",
        "",
    ),
    Fault(
        "who sends and does not read is taken to be stalled",
        SILENCE,
        "	if (!connection->silence.answered)\n		waited_ns = 0;\n",
        "",
    ),
    Fault(
        "who is asked whether he reads says it by a record, which says nothing of that",
        ENGINE,
        "		connection->in.tell |= (packet->flags & PACKET_ANSWER) != 0;\n",
        "",
    ),
    Fault(
        "who stalls is not asked whether he reads",
        SILENCE,
        "	if (!(fed && taken) && connection->state == CONNECTION_OPEN)\n		engine->naming->ask(connection);\n",
        "",
    ),
    Fault(
        "a peer that says nothing is waited for without an end",
        SILENCE,
        "if (connection->silence.total_ns >= patience_ns) {",
        "if (false) {",
    ),
    Fault(
        "a peer whose process answers is given up all the same",
        SILENCE,
        "\tif (verdict == LINK_ALIVE && !handshake_is_foreign(connection))\n"
        "\t\tconnection->silence.total_ns = 0;\n\telse if",
        "\tif",
    ),
    Fault(
        "who is only waited for is not asked",
        SILENCE,
        "connection->in.held_count > 0 || connection->silence.awaited ||",
        "connection->in.held_count > 0 ||",
    ),
    Fault(
        "records that are never acknowledged are no reason",
        SILENCE,
        "return connection->silence.unfed_ns >= patience_ns || connection->silence.untaken_ns >= patience_ns;",
        "return connection->silence.unfed_ns >= patience_ns;",
    ),
    Fault(
        "mxoe: a NACK of nothing that was sent ends the peer",
        NAMING_MXOE,
        "\tif ((connection->handshake.connect_ns && !connection->handshake.answered && packet->sequence == 0) ||\n"
        "\t    transmit_is_out(connection, packet->sequence))\n"
        "",
        "\tif (true)\n",
    ),
    Fault(
        "mxoe: a window's former use is served",
        NAMING_MXOE,
        "return window->connection == connection && id >> 8 == window->sequence ?",
        "return window->connection == connection ?",
    ),
    Fault(
        "mxoe: records of an earlier time are taken",
        NAMING_MXOE,
        "(packet->sequence ^ sequence_narrow(engine->codec, packet->sequence)) != connection->in.epoch) {",
        "false) {",
    ),
    Fault(
        "mxoe: acknowledgements of an earlier time are taken",
        NAMING_MXOE,
        "if ((packet->ack ^ sequence_narrow(codec, packet->ack)) != connection->out.epoch ||\n"
        "\t    connection->out.credit",
        "if (connection->out.credit",
    ),
    Fault(
        "mxoe: a refusal of one key refuses the next",
        NAMING_MXOE,
        " || connect->attempt != connection->names.connect_sequence)",
        ")",
    ),
    Fault(
        "mxoe: DATA may come from anywhere",
        NAMING_MXOE,
        "connection->state == CONNECTION_OPEN &&\n"
        "\t\t\t       memcmp(&connection->route[link->index].records, from, sizeof(*from)) == 0\n"
        "",
        "connection->state == CONNECTION_OPEN\n",
    ),
    Fault(
        "mxoe: what is too much is taken",
        NAMING_MXOE,
        "if (__builtin_expect(mxoe_unwanted(connection, packet), 0)) {",
        "if (false) {",
    ),
    # ---- What keeps strangers out
    Fault(
        "a tag of the wrong kind will do",
        GUARD,
        "\tif (!tag_is_due(guard, frame, length))\n\t\treturn GUARD_FORGED;\n",
        "\tif (!(frame->flags & (PACKET_TAGGED | PACKET_SEALED)))\n\t\treturn GUARD_FORGED;\n",
    ),
    Fault(
        "nobody is told which keys' turn it is",
        GUARD,
        "if (guard->in.epoch == UINT64_MAX || guard->in.epoch < epoch)",
        "if (guard->in.epoch == UINT64_MAX)",
    ),
    Fault(
        "a frame may come again",
        GUARD,
        "if (frame->counter == 0 || !window_is_new(window_of(guard, frame), frame->counter))",
        "if (frame->counter == 0)",
    ),
    Fault(
        "the window of counters forgets to forget",
        GUARD,
        "\t\twindow->seen[++from % words] = 0;",
        "\t\t++from;",
    ),
    Fault(
        "both directions have one key",
        GUARD,
        "way_begin(&guard->in, mode, job_key, peer, own);",
        "way_begin(&guard->in, mode, job_key, own, peer);",
    ),
    Fault(
        "a counter is used twice",
        GUARD,
        "frames += run, count -= run, counter += run) {",
        "frames += run, count -= run) {",
    ),
    Fault(
        "the frames of a run have one counter",
        GUARD,
        "PACKET_FRONT, counter + i);",
        "PACKET_FRONT, counter);",
    ),
    Fault(
        "the last byte of a tag is not compared",
        GUARD,
        "difference |= shorts->was[i] ^ right[i];",
        "difference |= (shorts->was[i] ^ right[i]) >> 8;",
    ),
    Fault(
        "the last byte of a single frame's tag is not compared",
        GUARD,
        "return make || was == right;",
        "return make || (was ^ right) >> 8 == 0;",
    ),
    Fault(
        "of tags that are made at once one length is taken for all",
        GUARD,
        "(end != shorts->length || shorts->count == SHORTS_MAX))",
        "(shorts->count == SHORTS_MAX))",
    ),
    Fault(
        "tags of two keys are made with the later one",
        GUARD,
        "\t\t\tshorts_end(&shorts); /* with the key that was */\n",
        "",
    ),
    Fault(
        "a lower integrity is agreed on",
        NAMING_NATIVE,
        "connect->integrity > engine->integrity",
        "connect->integrity < engine->integrity",
    ),
    Fault(
        "a key file that others can read is taken",
        KEY,
        "if (status->st_mode & (S_IRWXG | S_IRWXO))",
        "if (false)",
    ),
    Fault(
        "a key file of somebody else is taken",
        KEY,
        "if (status->st_uid != geteuid())",
        "if (false)",
    ),
    Fault(
        "packets of an adapter stay in their socket",
        "src/transport/datagram/link_udp.c",
        "if (interface->inside)",
        "if (interface)",
    ),
    Fault(
        "what is held is read again",
        UDP_HOLD,
        "(holds ? MSG_PEEK : 0)",
        "0",
    ),
    Fault(
        "what is taken out unread moves no offset",
        UDP_HOLD,
        "MSG_DONTWAIT | MSG_TRUNC",
        "MSG_DONTWAIT",
    ),
    Fault(
        "packets that came together are taken for held",
        "src/transport/datagram/udp_receive.c",
        "\tudp_hold_heed(udp, index, in->messages[received - 1].msg_len);",
        "\tfor (int i = 0; i < received; i++)\n\t\tudp_hold_heed(udp, index, in->messages[i].msg_len);",
    ),
    Fault(
        "packets that were read stay for ever",
        UDP_HOLD,
        "socket->held > 0 && (socket->held_bytes > bytes || socket->held > UDP_HOLD_PACKETS)",
        "false",
    ),
    Fault(
        "short packets are held, too",
        UDP_HOLD,
        "if (socket->shorts > UDP_HOLD_SHORTS)",
        "if (false)",
    ),
    Fault(
        "what was read wakes who sleeps",
        "src/transport/datagram/link_udp.c",
        "\t\tudp_hold_end(udp, i);\n",
        "\t\t;\n",
    ),
    Fault(
        "that a peer is gone is believed before what it sent is read",
        "src/transport/datagram/udp_receive.c",
        "\t\t\tframes += udp_drain(udp, i, UDP_HEED_POLLS);\n",
        "\t\t\tframes += 0;\n",
    ),
    Fault(
        "that a peer is gone is believed before other links are polled",
        "src/transport/datagram/silence.c",
        "bool more = silence->refused_polls == 1 || silence",
        "bool more = silence",
    ),
    Fault(
        "that a peer is gone is believed after one poll of other links",
        "src/transport/datagram/silence.c",
        "silence->refused_polls == 1 || silence->heard_ns >= silence->checked_ns;",
        "silence->refused_polls == 1;",
    ),
    Fault(
        "that a peer is gone is not believed while it is heard",
        "src/transport/datagram/silence.c",
        "if (more && silence->refused_polls < REFUSED_POLLS) {",
        "if (more) {",
    ),
    # ---- Waiting
    Fault(
        "looking again in vain costs nothing",
        PATIENCE,
        "\tpatience->account -= polls < patience->account ? polls : patience->account;\n",
        "",
    ),
    Fault(
        "who computes is polled again for",
        PATIENCE,
        "if (away_ns >= PATIENCE_WAITING_NS || !patience_trusts(patience))",
        "if (!patience_trusts(patience))",
    ),
    Fault(
        "polls that are only counted hide the one that yields",
        WAIT,
        "\tif (endpoint_shares(endpoint))\n\t\tplain =",
        "\tif (endpoint->base.simulated)\n\t\tplain =",
    ),
    Fault(
        "polls that are only counted hide those that read the clock",
        WAIT,
        "plain = whole->cadence.left;",
        "plain = CADENCE_POLLS_MAX;",
    ),
    Fault(
        "fi_compare_atomic takes operations that compare nothing",
        "provider/prov_atomic.c",
        "size_t size = prov_atomic_family_size(atomic->type, atomic->op, family);",
        "size_t size = family == 1 ? 0 : prov_atomic_element_size(atomic->type, atomic->op);",
    ),
    Fault(
        "who was away once is polled again for as long as something comes",
        PATIENCE,
        "patience->watched = patience->trust == 0;",
        "patience->watched = false;",
    ),
    Fault(
        "who is away each time is watched as often as ever",
        PATIENCE,
        "patience->trusts < PATIENCE_TRUST_MAX ? 2 * patience->trusts : PATIENCE_TRUST_MAX;",
        "PATIENCE_TRUST_MIN;",
    ),
    Fault(
        "a thread that computed has lost its core",
        CONTENTION,
        " &&\n\t       2 * (usage->run_ns - contention->usage.run_ns) < now_ns - contention->asked_ns",
        "",
    ),
    Fault(
        "a thread that slept by itself has lost its core",
        CONTENTION,
        "usage->taken - contention->usage.taken > usage->left - contention->usage.left &&\n\t       ",
        "",
    ),
    Fault(
        "sleeps of ours are taken for the caller's",
        WAIT,
        "\t\t\tif (last)\n\t\t\t\tendpoint_awake(endpoint);\n",
        "",
    ),
    Fault(
        "sleeps that were bought are never too old",
        CONTENTION,
        "\tcontention->sleeps = 0;\n\treturn true;",
        "\treturn false;",
    ),
    Fault(
        "after sleeps that became too old those before are taken for the caller's",
        WAIT,
        "\tendpoint_awake(endpoint);\n\treturn true;\n",
        "\treturn true;\n",
    ),
    Fault(
        "who cannot sleep keeps its sleeps for good",
        WAIT,
        "\telse\n\t\tendpoint_forgets(endpoint, now_ns);\n",
        "",
    ),
    Fault(
        "who shares its lock with threads looks again, and sleeps, with it",
        CHARGE,
        "\t\treturn thole_poll(endpoint, NULL, 0);\n",
        "\t\treturn thole_progress(endpoint);\n",
    ),
    Fault(
        "who has sleeps yields no more, though it takes none",
        WAIT,
        "\treturn endpoint_shares(endpoint) &&\n",
        "\treturn endpoint_shares(endpoint) && !contention_sleeps(&endpoint_of(endpoint)->contention) &&\n",
    ),
    Fault(
        "a thread is judged by what it did before the endpoint looked",
        CONTENTION,
        "return contention->asked_ns > 0 && pthread_equal(",
        "return pthread_equal(",
    ),
    Fault(
        "a thread is judged by what another one did",
        CONTENTION,
        " && pthread_equal(contention->usage.thread, usage->thread);",
        ";",
    ),
    Fault(
        "who is asked about is not remembered",
        WAIT,
        ",\n\t\t\t\t\t   .thread = pthread_self()};",
        "};",
    ),
    Fault(
        "a sleep of another thread's counts for this one",
        CONTENTION,
        "\tif (contention_knows(contention, usage))\n\t\tcontention->usage.left",
        "\tcontention->usage.left",
    ),
    Fault(
        "sleeps are bought though much comes",
        CONTENTION,
        "if (found - contention->found >= CONTENTION_MANY)",
        "if (false)",
    ),
    Fault(
        "who waits for long yields for good",
        WAIT,
        "contention_yielded(&whole->contention, now_ns, cadence_waited(&whole->cadence), whole->calls);",
        ";",
    ),
    Fault(
        "who waits for long sleeps once",
        CONTENTION,
        "\tif (contention->until_found)\n\t\treturn false;\n",
        "",
    ),
    Fault(
        "who has waited for long sleeps after that, too",
        CONTENTION,
        "contention->until_found && found != contention->waits_found",
        "false",
    ),
    Fault(
        "what was found does not end a wait",
        CADENCE,
        "if (cadence->found != found || cadence->waits_ns == 0) {",
        "if (cadence->waits_ns == 0) {",
    ),
    Fault(
        "who waits for long forgets strangers",
        CONTENTION,
        ">= CONTENTION_LONG_NS && contention->sleeps == 0) {",
        ">= CONTENTION_LONG_NS) {",
    ),
    Fault(
        "sleeps that strangers have bought end with what is found",
        CONTENTION,
        "\tcontention->until_found = false;\n",
        "",
    ),
    Fault(
        "who is to yield always sleeps",
        WAIT,
        "if (yields && endpoint->base.options.yield == OPTION_YIELD_AUTO &&",
        "if (yields &&",
    ),
    Fault(
        "who waits for long at one of its endpoints sleeps for the others",
        "src/endpoint/wait.c",
        " && endpoint_is_only_one(whole))",
        ")",
    ),
    Fault(
        "an endpoint by which nothing comes counts as used",
        WAIT,
        "\tif (whole->used || whole->calls == 0)\n",
        "\tif (whole->used)\n",
    ),
    Fault(
        "an endpoint that is closed counts as used",
        "src/endpoint/endpoint.c",
        "\t\tadd_relaxed(&thole_endpoints_used, -(uint32_t)endpoint_of(endpoint)->used);\n",
        "",
    ),
    Fault(
        "an endpoint that something comes by as it is closed counts as used",
        "src/endpoint/endpoint.c",
        "\t\twhile (!endpoint_drain(endpoint))\n\t\t\t;\n"
        "\t\tadd_relaxed(&thole_endpoints_used, -(uint32_t)endpoint_of(endpoint)->used);\n",
        "\t\tadd_relaxed(&thole_endpoints_used, -(uint32_t)endpoint_of(endpoint)->used);\n"
        "\t\twhile (!endpoint_drain(endpoint))\n\t\t\t;\n",
    ),
    Fault(
        "endpoints of the parent count as used in a child",
        "src/endpoint/endpoint.c",
        "\tstore_relaxed(&thole_endpoints_used, 0);\n",
        "",
    ),
    Fault(
        "peers that have its core are strangers",
        CONTENTION,
        "if (!lost || usage->among_peers || contention->sleeps > 0)",
        "if (!lost || contention->sleeps > 0)",
    ),
    Fault(
        "where nobody knows how many want a core they are peers",
        WAIT,
        "\tif (runnable == 0)\n\t\treturn false;",
        "\tif (runnable == 0)\n\t\treturn true;",
    ),
    Fault(
        "strangers are taken for this thread",
        WAIT,
        "others = runnable - 1;",
        "others = runnable > 2 ? runnable - 2 : 0;",
    ),
    Fault(
        "peers that sleep want a core",
        SHM,
        "return link->out.segment && load_relaxed(&link->out.segment->wake) == 0;",
        "return link->out.segment;",
    ),
    Fault(
        "a process with two endpoints wants two cores",
        SHM,
        "shm_is_awake(link) && shm_is_first(shm, i);",
        "shm_is_awake(link);",
    ),
    Fault(
        "processes of other namespaces are one",
        SHM,
        "i < index && pid > 0; i++)",
        "i < index; i++)",
    ),
    Fault(
        "this process wants a core beside itself",
        SHM,
        "link->pid != self && shm_is_awake(link)",
        "shm_is_awake(link)",
    ),
    Fault(
        "threads that there are want a core",
        HOST,
        "%u/",
        "%*u/%u",
    ),
    Fault(
        "who computes is made to sleep",
        WAIT,
        "if (contention_is_back(contention, start_ns) || contention_waits(contention, clock_thread_ns())) {",
        "if (true) {",
    ),
    Fault(
        "beside strangers the kernel is asked about each answer",
        WAIT,
        "contention_is_back(contention, start_ns) || ",
        "",
    ),
    Fault(
        "beside strangers the kernel is asked after each answer",
        WAIT,
        "\tif (n == 0)\n\t\tcontention_told(",
        "\tcontention_told(",
    ),
    # ---- Rings
    Fault(
        "memory is published while it is lent",
        RING,
        "\tif (ring_is_lent(&shm_link(ring->peer)->out))\n\t\treturn;\n",
        "",
    ),
    Fault(
        "credit is taken before the record is handled",
        RING,
        "\tring->next++; /* first, so that what is handled now cannot be handled twice */\n",
        "\tring_handled(ring, &shm_link(peer)->out, record->credit);\n\tring->next++;\n",
    ),
    Fault(
        "a consumer may claim more than was produced",
        "src/transport/shm/shm.h",
        "if (consumed - ring->consumed > ring->produced - ring->consumed)",
        "if (false)",
    ),
    Fault(
        "a payload's place is not checked",
        RING,
        "place > size || record->bytes > size - place)",
        "place > size)",
    ),
    Fault(
        "a record of two slots needs room for one",
        RING,
        "return __builtin_expect(ring->produced - ring->reclaimed + slots <= RING_SLOTS, 1) ||\n"
        "\t       ring_make_room(ring, slots);",
        "return __builtin_expect(ring->produced - ring->reclaimed + 1 <= RING_SLOTS, 1) || ring_make_room(ring, 1);",
    ),
    Fault(
        "a short message of two slots needs room for one",
        RING,
        "first - ring->reclaimed + slots > RING_SLOTS",
        "first - ring->reclaimed + 1 > RING_SLOTS",
    ),
    Fault(
        "a place is taken back each time its slot is free",
        PLACE,
        "\t\t\tplaced->area = 0;\n",
        "",
    ),
    Fault(
        "a send that is to be complete at once or not at all is begun",
        "src/message/send.c",
        "flags & THOLE_OR_NOT ?",
        "0 ?",
    ),
    Fault(
        "the windows that a peer asks for are those of a dialogue",
        RING,
        "peer->rendezvous_row = (uint8_t)pace;",
        "peer->rendezvous_row = 0;",
    ),
    Fault(
        "vectors miss the bytes before the first whole one",
        BYTES,
        "\t_mm256_storeu_si256(to, _mm256_loadu_si256(from));\n",
        "",
    ),
    Fault(
        "steps leave out the rest",
        BYTES,
        "\t\tmemcpy(out, in, BYTES_STEP);\n\tmemcpy(out, in, length);\n",
        "\t\tmemcpy(out, in, BYTES_STEP);\n",
    ),
    Fault(
        "vectors leave out the rest",
        BYTES,
        "\t\t_mm256_store_si256((void *)(out + 96), d);\n\t}\n\tmemcpy(out, in, length);\n",
        "\t\t_mm256_store_si256((void *)(out + 96), d);\n\t}\n",
    ),
    Fault(
        "the area for bulk is as long as the ring",
        SEGMENT,
        "BULK_AREA_RINGS = 2,",
        "BULK_AREA_RINGS = 1,",
    ),
    Fault(
        "a stream that walks goes back to the front",
        PLACE,
        "if (!onward || area->size - area->head < bytes)",
        "if (true)",
    ),
    Fault(
        "a way is taken though it is no better",
        PASSAGE,
        "passage->line_ps[way] < line_ps - line_ps / PASSAGE_BETTER;",
        "true;",
    ),
    Fault(
        "the last way that is better is taken", PASSAGE, "passage_is_better(passage, way, best))", "passage->line_ps[way])"
    ),
    Fault(
        "each stream is tried past the caches", PASSAGE, "passage->line_ps[PASSAGE_STAYS] >= PASSAGE_PAST_PS;", "true;"
    ),
    Fault("a way is tried that such messages may not take", PASSAGE, "(ways & 1u << way) && ", ""),
    Fault("nobody waits for walking to become better", PASSAGE, "PASSAGE_WALKS_TRIES;\n}", "1;\n}"),
    Fault(
        "walking is waited for where it is far from better",
        PASSAGE,
        "passage->line_ps[PASSAGE_WALKS] / 5 * 2 <= passage->line_ps[PASSAGE_STAYS]",
        "true",
    ),
    Fault("a way is timed before it has settled", PASSAGE, "\t\tpassage->left = payloads;\n", "\t\t;\n"),
    Fault(
        "where a way is not to be had the round goes on",
        PASSAGE,
        "\tpassage_end(passage);\n}\n\nstatic void passage_sample",
        "}\n\nstatic void passage_sample",
    ),
    Fault("a stretch that was disturbed counts", PASSAGE, "\treturn second;", "\treturn passage->samples[4];"),
    Fault("a change does not shorten the rest", PASSAGE, "best != passage->best || ", ""),
    Fault("rounds are as often as at first", PASSAGE, "\t\tpassage->rest *= 2;\n", "\t\t;\n"),
    Fault("no reader keeps its cache clean", PLACE, "(way == PASSAGE_WALKS_ONCE ? (uint32_t)PLACE_ONCE : 0)", "0"),
    Fault(
        "the rest of a copy past the caches is forgotten",
        BYTES,
        "#endif\n\tmemcpy(out, in, length);\n}\n\nstatic void bytes_copy_whole(",
        "#endif\n}\n\nstatic void bytes_copy_whole(",
    ),
    Fault("answers are timed as streams are", PLACE, "if (!link->streaming || length <= ", "if (length <= "),
    Fault("any number of peers has a longer area", PLACE, " && shm->walks < WALKS_MAX)", ")"),
    Fault(
        "the area for streams lies over that for bulk",
        SEGMENT,
        "(1 + BULK_AREA_RINGS) * (uint64_t)large",
        "BULK_AREA_RINGS * (uint64_t)large",
    ),
    Fault(
        "what is put at the end of an area may lie over the oldest",
        PLACE,
        "\t\tif (area->tail - area->head <= bytes)\n\t\t\treturn -1;\n",
        "",
    ),
    Fault(
        "what begins an area anew may lie over the oldest",
        PLACE,
        "else if (area->tail > bytes)",
        "else if (true)",
    ),
    Fault(
        "what lies nowhere is memory to answer in",
        RING,
        "if (record->length == RECORD_EXTERNAL && payload)",
        "if (record->length == RECORD_EXTERNAL)",
    ),
    Fault(
        "a record may be longer than its slots",
        RING,
        "\tif (record->length != RECORD_EXTERNAL)\n\t\treturn NULL;\n",
        "",
    ),
    Fault(
        "two slots are joined one word too early",
        RING,
        "(copy_pair){first[4], second[1]}",
        "(copy_pair){first[4], second[0]}",
    ),
    Fault(
        "each message after the first ends what was learnt of a turn",
        RING,
        "\tif (link->turn == 0)\n\t\treturn; /* it was one before */\n",
        "",
    ),
    Fault(
        "a short message goes to the oldest receive whatever is screened",
        RECEIVE,
        "endpoint->screened != 0 || !oldest",
        "!oldest",
    ),
    Fault(
        "a plain message goes to a tagged receive",
        RECEIVE,
        "(RECORD_MORE | RECORD_SYNC | RECORD_PLAIN)) ||",
        "(RECORD_MORE | RECORD_SYNC)) ||",
    ),
    Fault(
        "an indexed receive is taken out of its list alone",
        RECEIVE,
        "!oldest || oldest->home != MATCH_HOME_NONE",
        "!oldest",
    ),
    Fault(
        "a receive does not see what is unexpected",
        RECEIVE,
        "match->message_count > 0 || ",
        "",
    ),
    Fault(
        "a receive of plain messages is posted among the tagged ones",
        RECEIVE,
        "(flags & (THOLE_PLAIN | THOLE_MULTI)) ||",
        "(flags & THOLE_MULTI) ||",
    ),
    Fault(
        "memory is lent of which its owner was told that it is free",
        RING,
        "\tring->bytes = 0;\n\tring->run_start = ring->run_end = 0;\n",
        "\tring->bytes = 0;\n",
    ),
    # ---- Who comes to the door
    Fault(
        "who waits at a listener without descriptors waits for ever",
        CONNECT,
        "\t\t\t\tconnect_turn_away(owner, errno);\n",
        "\t\t\t\t(void)connect_turn_away;\n",
    ),
    Fault(
        "connections take the program's descriptors",
        LIMITS,
        "if ((rlim_t)fd < limit.rlim_cur / 2)",
        "if ((rlim_t)fd < limit.rlim_cur)",
    ),
    Fault(
        "what an endpoint does without is this thread's last failure",
        "src/endpoint/endpoint.c",
        "error_restore(kept); /* what is done without */",
        "(void)kept;",
    ),
    Fault(
        "a question for a capability is this thread's last failure",
        "src/endpoint/capability.c",
        "\terror_restore(kept);\n",
        "",
    ),
    Fault(
        "what a program lets go of a shared heap's block stays what it was",
        "heap/heap.c",
        "(advice == MADV_DONTNEED || advice == MADV_FREE)",
        "advice == MADV_FREE",
    ),
    Fault(
        "what a program lets go after a fork is what it was before",
        "src/base/arena.c",
        "retired_clear(arena, address, whole);",
        "madvise(address, whole, MADV_DONTNEED);",
    ),
    Fault(
        "a thread that waits does not hear of what another's probe takes in",
        "mx/mx_poll.c",
        "THOLE_LOOK, &message",
        "0, &message",
    ),
    Fault(
        "a probe that only looks makes progress",
        "src/endpoint/poll.c",
        " || (flags & THOLE_LOOK)",
        "",
    ),
    Fault(
        "under a lower limit of data a child has no blocks",
        "src/base/arena.c",
        "limit.rlim_cur < limit.rlim_max",
        "limit.rlim_cur > limit.rlim_max",
    ),
    Fault(
        "a fork leaves the limit of data raised",
        "src/base/arena.c",
        "\t\tsetrlimit(RLIMIT_DATA, &limit);\n",
        "",
    ),
    Fault(
        "another allocator is asked for the length of the C library's blocks",
        "heap/heap.c",
        "dlsym(library, \"malloc_usable_size\")",
        "dlsym(RTLD_NEXT, \"malloc_usable_size\")",
    ),
    Fault(
        "a board that is not there is unknown without a sentence",
        "mx/mx_open.c",
        "return mxi_board_unknown(i);",
        "return MX_BOARD_UNKNOWN;",
    ),
    Fault(
        "the value of a misspelt key is told",
        "src/base/options.c",
        "length < QUOTE_MAX ? (int)length : QUOTE_MAX, string",
        "QUOTE_MAX, string",
    ),
    Fault(
        "a handler that forks amid an allocation waits for itself",
        "src/base/arena.c",
        "\tif (load_relaxed(&holder) == pthread_self())\n\t\treturn;\n",
        "",
    ),
    Fault(
        "what goes on in the child of a handler's fork reaches the parent's memory",
        "src/base/arena.c",
        "\tfor (int i = 0; i < ARENAS_MAX; i++) {\n\t\tchild_close(&arenas[i]);\n",
        "\tfor (int i = 0; i < ARENAS_MAX; i++) {\n\t\tif (!amid)\n\t\t\tchild_close(&arenas[i]);\n",
    ),
    Fault(
        "a descriptor is the program's standard error",
        LIMITS,
        "if (fd < 0 || fd > STDERR_FILENO)",
        "if (fd < 0 || fd > STDOUT_FILENO)",
    ),
    Fault(
        "where no other number is left a descriptor is a standard stream",
        LIMITS,
        "\tclose(fd);\n\terrno = error;\n\treturn own;",
        "\tif (own < 0)\n\t\treturn fd;\n\tclose(fd);\n\terrno = error;\n\treturn own;",
    ),
    Fault(
        "what a program without standard output prints goes to a peer",
        "src/transport/datagram/link_udp.c",
        "limits_own(socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))",
        "socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)",
    ),
    Fault(
        "a file that may not be so long ends in a signal",
        LIMITS,
        "errno = EFBIG;\n\treturn false;",
        "return true;",
    ),
    Fault(
        "who sends to a peer that has ended loses what it wrote",
        CONNECT,
        "if (link->in.segment && ring_ready(&link->in)) {",
        "if (false) {",
    ),
    Fault(
        "a greeting that was not read yet ends with its sender",
        CONNECT,
        "\t\tconnect_accept_all(owner, clock_now_ns());\n",
        "\t\t;\n",
    ),
    Fault(
        "records of a peer that is gone are called wrong",
        MESSAGE,
        "if (peer->base.gone) /* since a record before this one, of the same burst */\n\t\treturn;",
        "if (peer->base.gone) {\n\t\tmessage_bad(peer);\n\t\treturn;\n\t}",
    ),
    Fault(
        "ranks in containers have no report",
        "src/endpoint/report.c",
        "if (fd >= 0 || !number)",
        "if (fd >= 0 || number)",
    ),
    Fault(
        "why there is no endpoint is told at the end only",
        "src/endpoint/report.c",
        "\t\tatomic_store(&report->refused, 1);\n\t\treport_tell(report);\n",
        "",
    ),
    Fault(
        "nobody hears why a peer could not be connected to",
        MESSAGE,
        "\tif (error)\n\t\ttransport_trouble(",
        "\tif (!error)\n\t\ttransport_trouble(",
    ),
    Fault(
        "another user's process is let in",
        CONNECT,
        "credentials.uid != shm->opened_by)",
        "false)",
    ),
    Fault(
        "who has another user since opening knows nobody any more",
        CONNECT,
        " && credentials.uid != shm->opened_by)",
        ")",
    ),
    Fault(
        "a greeting may be for another endpoint",
        CONNECT,
        " ||\n\t    greeting->to != owner->parts.endpoint)",
        ")",
    ),
    Fault(
        "a second greeting of a peer is taken",
        CONNECT,
        "\tif (link->in.segment)\n\t\treturn THOLE_ERR_PROTOCOL;",
        "\tif (false)\n\t\treturn THOLE_ERR_PROTOCOL;",
    ),
    Fault(
        "somebody else may greet for the one who listens",
        CONNECT,
        "if (link->connected && link->pid != watch->pid) /*",
        "if (false) /*",
    ),
    Fault(
        "who never says who he is may stay",
        CONNECT,
        "if (now_ns - watch->since_ns > GREETING_NS_MAX)",
        "if (false)",
    ),
    Fault(
        "a segment may get shorter while it is mapped",
        SEGMENT,
        "(seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW) &&",
        "(seals & F_SEAL_GROW) &&",
    ),
    Fault(
        "a segment may be shorter than what is in it",
        SEGMENT,
        "status.st_size < SEGMENT_BASE + PAGE || ",
        "",
    ),
    Fault(
        "a segment of another version is taken",
        SEGMENT,
        "if (segment->magic != SEGMENT_MAGIC || segment->version != SEGMENT_VERSION || first",
        "if (segment->magic != SEGMENT_MAGIC || first",
    ),
    # ---- Bulk in shared memory
    Fault(
        "what is lent is written by its owner",
        PLACE,
        "if (ring->areas[AREA_BULK].size && !ring->bulk_lent) {",
        "if (ring->areas[AREA_BULK].size) {",
    ),
    Fault(
        "memory is lent that the peer does not have in its cache",
        PLACE,
        "|| !ring->bulk_own || ring->bulk_lent",
        "|| ring->bulk_lent",
    ),
    Fault("memory is lent for a stream", FETCH, "if (!pace_streams(fetch_pace(fetch)) && ring_lend", "if (ring_lend"),
    Fault("what was lent is never over", FETCH, "|| record->imm + length == link->lease_end))", "))"),
    Fault(
        "a sender whose send has ended keeps what it was lent",
        SHM_SERVE,
        "if (!serve->help && serve->lent_size)",
        "if (0)",
    ),
    Fault("anything may be lent", SHM_SERVE, "place >= offsetof(struct segment, small) && size", "size"),
    Fault("more may be lent than there is", SHM_SERVE, " &&\n\t       place + size <= link->in.size", ""),
    Fault("what is lent may have no room for a piece", SHM_SERVE, "size >= LENT_PIECES * 64", "size > 0"),
    Fault(
        "a send whose memory is its caller's again is offered as an RTS",
        MESSAGE,
        "(request->owned_data || !(request->flags & THOLE_INJECT)) &&",
        "true &&",
    ),
    Fault(
        "an access is done again by records to who is gone",
        REMOTE,
        "if (status == THOLE_ERR_AGAIN && request->peer->base.gone) {",
        "if (0) {",
    ),
    Fault("a buffer for many waits for who is gone", RECEIVE, "\t\tif (gone) {", "\t\tif (0) {"),
    Fault("events are handled for ever", TURN, "turn < EVENT_TURNS && count", "count"),
    Fault(
        "who has armed and computes is left to itself by the progress thread",
        STAND_IN,
        "return thread->looks < BESIDE_LOOP_LOOKS;",
        "return true;",
    ),
    Fault(
        "what is sent after arming is left to a loop that was not told",
        STAND_IN,
        "if (tending && (!endpoint_is_armed(endpoint) || endpoint_has_started(endpoint))",
        "if (tending && !endpoint_is_armed(endpoint)",
    ),
    Fault(
        "an event loop that is slow to wake sleeps on, since another was there first",
        STAND_IN,
        "\t\tendpoint_rouse(&endpoint->base, 0);\n\t\twhole->armed_at = whole->roused ? ",
        "\t\twhole->armed_at = 1 ? ",
    ),
    Fault(
        "the progress thread keeps the lock for ever",
        STAND_IN,
        "for (int i = 0; i < TEND_POLLS && n > 0; i++)",
        "while (n > 0)",
    ),
    Fault("pieces of bulk in lent memory are not reported as consumed", RING, "if (bulk || !lent)", "if (!lent)"),
    Fault("what has come of a message is not held until its rest is here", RING, "return ring->tries > 0 &&", "return 0 &&"),
    Fault(
        "what has come of a message is held for ever",
        RING,
        "!ring->held || ring->polls >= PUBLISH_POLLS_AMID",
        "!ring->held",
    ),
    Fault(
        "an answer borrows for a part of it",
        PLACE,
        "back->borrowed = back->run_end - back->run_start >= whole;",
        "back->borrowed = true;",
    ),
    Fault(
        "an area of messages that cross does not start again at its front",
        PLACE,
        "if (area->live > 0 && area->tail > enough)",
        "if (area->live == UINT32_MAX)",
    ),
    Fault(
        "what records have told is told again",
        RING,
        "ring->handled - ring->credited >= PUBLISH_SLOTS",
        "ring->handled - ring->published >= PUBLISH_SLOTS",
    ),
    Fault(
        "what records have told still counts as owed",
        RING,
        "\tring->bytes = 0;\n\tring->run_start",
        "\tring->run_start",
    ),
    Fault(
        "a poll goes on behind a message of a dialogue",
        RING,
        "ring->ended = ring->alone ? piece :",
        "ring->ended = ring->alone ? false :",
    ),
    Fault(
        "a poll ends with each piece of a long message without a receive",
        RING,
        "if (ring->left == 0)\n\t\tring->ended",
        "if (!more)\n\t\tring->ended",
    ),
    Fault(
        "the first of several short messages ends a poll",
        RING,
        "link->turns_several = link->turn > 1;",
        "link->turns_several = false;",
    ),
    Fault(
        "a poll of a stream goes on where messages have no receive",
        RING,
        ": !peer->owner->up->expected(peer, ring->tag);",
        ": false;",
    ),
    Fault(
        "long blocks go back to the kernel each time",
        SPARE,
        "spare->class == SPARE_CLASSES ||",
        "spare->class <= SPARE_CLASSES ||",
    ),
    Fault(
        "any number of spare blocks is kept",
        SPARE,
        "spare_length(spare->class) > SPARE_KEPT_MAX",
        "spare_length(spare->class) > 2 * SPARE_KEPT_MAX",
    ),
    Fault(
        "a block that was kept counts for good",
        SPARE,
        "\t\tspares->bytes -= spare_length(class);\n",
        "",
    ),
    Fault(
        "who polls a lock waits for those who do not come",
        "src/base/lock.c",
        "\tif (missed >= MISSES && lock_try(lock))\n\t\treturn true;\n",
        "",
    ),
    Fault(
        "who polls a lock takes it before those who wait",
        "src/base/lock.h",
        "load_relaxed(&lock->waiting) == 0 && lock_try(lock), 1) || lock_miss",
        "lock_try(lock), 1) || lock_miss",
    ),
    Fault(
        "a thread steps in beside a program that polls",
        ATTENDANCE,
        "made == 0 || made * ATTENDANCE_GAP_NS < since_ns",
        "made == 0 || made * ATTENDANCE_GAP_NS <= since_ns",
    ),
    Fault(
        "a thread looks for ever as often beside a program that polls",
        ATTENDANCE,
        "\t\tattendance->nap_ns *= 2;\n",
        "\t\tattendance->nap_ns *= 1;\n",
    ),
    Fault(
        "a thread sleeps as long beside a program that went away and came back",
        ATTENDANCE,
        "\t\tattendance->nap_ns = 0;\n",
        "\t\treturn 0;\n",
    ),
    Fault(
        "reading a queue is no poll",
        "provider/prov_cq.c",
        "\tprov_domain_polled(cq->domain);\n",
        "",
    ),
    Fault(
        "a domain's thread never leaves the program alone",
        "provider/prov_thread.c",
        "if (!load_relaxed(&thread->steps_in) && prov_thread_naps(thread))",
        "if (false && prov_thread_naps(thread))",
    ),
    Fault(
        "a domain's thread leaves programs alone that share cores",
        "provider/prov_thread.c",
        "if (!load_relaxed(&thread->steps_in) && prov_thread_naps(thread))",
        "if (prov_thread_naps(thread))",
    ),
    Fault(
        "asking a set is no poll",
        "provider/prov_poll.c",
        "\tprov_domain_polled(cq->domain);\n",
        "",
    ),
    Fault(
        "reading a counter is no poll",
        "provider/prov_counter.c",
        "\tprov_domain_polled(counter->domain);\n",
        "",
    ),
    Fault(
        "what passes before the first of many is the program's",
        CHOOSE,
        "uint64_t sends = shm->sends > 1 ? shm->sends : 1;",
        "uint64_t sends = 1;",
    ),
    Fault(
        "what was sent before the last message counts for the next",
        CHOOSE,
        "\tshm->sends = 0;\n",
        "",
    ),
    Fault(
        "long messages that are sent are not counted",
        RING,
        "\t\tshm_of(peer->owner)->sends++;\n",
        "",
    ),
    Fault(
        "where messages cross each side learns for itself",
        CHOOSE,
        "return peer->owner->parts.endpoint < peer->parts.endpoint;",
        "return true;",
    ),
    Fault(
        "in a dialogue each side learns for itself",
        CHOOSE,
        "if (choose_leads(peer) || pace == PACE_STREAM ||",
        "if (choose_leads(peer) || !pace_crosses(pace) ||",
    ),
    Fault(
        "who leads a dialogue is followed before it knows",
        CHOOSE,
        "load_relaxed(&segment->learnt_classes) & eager_bits(peer)",
        "eager_bits(peer)",
    ),
    Fault(
        "the first message of a trial counts",
        CHOOSE,
        "if (costs->row <= row_length(pace, class) / 2)",
        "if (0)",
    ),
    Fault(
        "who sends to itself waits for the receive",
        RECEIVE,
        "	if (transport_is_own(&peer->base))\n		unexpected_fetch(unexpected);\n	else\n",
        "",
    ),
    Fault(
        "what an endpoint sends to itself goes by a transport",
        MESSAGE,
        "if (!transport_is_own(&peer->base) || !message_fetch_own(request))",
        "",
    ),
    Fault(
        "an endpoint sends itself two copies of what is long enough for one",
        CHOOSE,
        "return ~(class_bit(EAGER_CLASS_MIN_OWN) - 1);",
        "return ~eager_bits(peer);",
    ),
    Fault(
        "a vector is copied without an end",
        "src/base/vector.c",
        "		if (piece > length - offset)\n			piece = length - offset;\n",
        "",
    ),
    Fault(
        "a synchronous message is fetched before it has a receive",
        RECEIVE,
        " && !(unexpected->record.flags & RECORD_SYNC) &&",
        " &&",
    ),
    Fault(
        "a message of any length is fetched before it has a receive",
        RECEIVE,
        "total <= peer->endpoint->base.options.eager_max;",
        "total > 0;",
    ),
    Fault(
        "what a peer by MXoE sends synchronously is fetched before it has a receive",
        RECEIVE,
        "!peer->limits.messages_only && total > 0",
        "total > 0",
    ),
    Fault(
        "who sends before it receives waits for ever",
        TURN,
        "		unexpected_fetch_asking(endpoint);\n",
        "		;\n",
    ),
    Fault(
        "who sleeps fetches nothing",
        TURN,
        "	if (endpoint_is_asked(endpoint) && longest > QUIET_NS)\n",
        "	if (0)\n",
    ),
    Fault(
        "what may have its receive soon is fetched though other messages come",
        TURN,
        "if (whole->idle == 0 || whole->idle < whole->quiet_idle || seen != whole->quiet_seen ||\n",
        "if (whole->quiet_ns == 0 ||\n",
    ),
    Fault(
        "what may have its receive soon is fetched though a message is under way",
        TURN,
        " && !endpoint->fetching;",
        ";",
    ),
    Fault(
        "all that may have receives soon is fetched at once",
        RECEIVE,
        "		if (taken > 0 && taken + length > endpoint->base.options.eager_max)\n			return;\n",
        "",
    ),
    Fault(
        "what could not be fetched is tried for ever",
        RECEIVE,
        "	list_remove(&unexpected->asking_node);\n	request = request_new",
        "	request = request_new",
    ),
    Fault(
        "of long messages that cross one is a trial",
        CHOOSE,
        "return pace_crosses(pace) ? ROW_LONG : 1;",
        "return 1;",
    ),
    Fault(
        "of two long messages that are under way at once each counts by itself",
        CHOOSE,
        "return pace_crosses(pace) ? RUN_LONG : 1;",
        "return 1;",
    ),
    Fault(
        "of a stream only the last that was timed counts",
        CHOOSE,
        "if (cost->samples < 2)",
        "if (cost->samples < 3)",
    ),
    Fault(
        "at first a way is tried however dear it is",
        CHOOSE,
        "(soon ? TRIAL_SHARE_SOON : TRIAL_SHARE)",
        "(soon ? 0 : TRIAL_SHARE)",
    ),
    Fault(
        "where messages cross nobody follows who learns",
        CHOOSE,
        "\tchoose_follow(peer, pace);\n",
        "",
    ),
    Fault(
        "of messages that cross one copy of two counts",
        CHOOSE,
        "most_ns + (way == COST_RING ? 2 * took_ns",
        "most_ns + (0 ? 2 * took_ns",
    ),
    Fault(
        "what passes before a message counts for nothing",
        CHOOSE,
        ": took_ns) : took_ns + gap_ns;",
        ": took_ns) : took_ns;",
    ),
    Fault(
        "of a row that is in place at once each message counts by itself",
        CHOOSE,
        "uint32_t run = run_length(pace, class);",
        "uint32_t run = 1;",
    ),
    Fault(
        "of long messages that cross each side takes its own way",
        CHOOSE,
        "\tif (pace_crosses(pace))\n\t\treturn choose_wanted(peer, pace) & class_bit(class) ? copy : BULK_RING;\n",
        "",
    ),
    Fault(
        "long messages that cross are not direct without a right to read",
        CHOOSE,
        "wanted & ~eager_bits(peer)",
        "0",
    ),
    Fault(
        "long messages go unasked where there are more ranks than cores",
        OPTIONS,
        "\t\toptions->eager_max = EAGER_MAX_OVERSUBSCRIBED;\n",
        "\t\t;\n",
    ),
    Fault(
        "what a user wants of eager_max does not count where there are more ranks than cores",
        OPTIONS,
        "options_oversubscribed(options) && options->origin[OPTION_INDEX_eager_max] == OPTION_FROM_DEFAULT &&\n",
        "options_oversubscribed(options) &&\n",
    ),
    Fault(
        "a sender is to help to copy whose core this one has",
        CHOOSE,
        "pace_crosses(pace) || peer->core_shared || peer->owner->oversubscribed",
        "pace_crosses(pace) || peer->owner->oversubscribed",
    ),
    Fault(
        "senders are to help to copy where there are more ranks than cores",
        CHOOSE,
        "pace_crosses(pace) || peer->core_shared || peer->owner->oversubscribed",
        "pace_crosses(pace) || peer->core_shared",
    ),
    Fault(
        "who sends helps to copy what crosses",
        CHOOSE,
        "choose_alone(peer, pace) ? BULK_ONE_COPY : BULK_COOPERATIVE",
        "BULK_COOPERATIVE",
    ),
    Fault(
        "short messages are read one by one",
        FETCH,
        "if (count < 2)",
        "if (count < 100)",
    ),
    Fault(
        "of several that are read at once, what was asked for is taken for read",
        FETCH,
        "left = bytes = copy_read_several(link, parts, count);",
        "left = copy_read_several(link, parts, count) ? bytes : 0;",
    ),
    Fault(
        "several are read from whoever has the pid",
        COPY,
        "size < (ssize_t)sizeof(cookie.value) || !copy_is_proven(link, &cookie)",
        "size < (ssize_t)sizeof(cookie.value)",
    ),
    Fault(
        "what was read is trusted although its process may have ended",
        COPY,
        "if (spared && !life_goes_on(link)) {",
        "if (0) {",
    ),
    Fault(
        "several that were read are trusted although their process may have ended",
        COPY,
        "size > 0 && life_goes_on(link) ?",
        "size > 0 ?",
    ),
    Fault(
        "a peer without a cookie has proven itself",
        COPY,
        "return cookie->address && cookie->value",
        "return cookie->value",
    ),
    Fault(
        "the cookie is always read",
        COPY,
        "spared = spared && life_goes_on(link);",
        "spared = false;",
    ),
    Fault(
        "a thread of which the kernel knows nothing says that it goes on",
        "src/transport/shm/life.c",
        "return syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head;",
        "return syscall(SYS_get_robust_list, 0, &head, &size) == 0;",
    ),
    Fault(
        "a peer's page may be a plain file",
        "src/transport/shm/life.c",
        "!segment_is_safe(fd) || ",
        "",
    ),
    Fault(
        "a peer's page may have holes",
        "src/transport/shm/life.c",
        " || limits_allocate(fd, 0, LIFE_SIZE) != 0)",
        ")",
    ),
    Fault(
        "a peer's page may be longer",
        "src/transport/shm/life.c",
        "status.st_size != LIFE_SIZE",
        "status.st_size < LIFE_SIZE",
    ),
    Fault(
        "of each announcement of a page a mapping stays",
        "src/transport/shm/life.c",
        "link->life || peer->gone",
        "peer->gone",
    ),
    Fault(
        "a page whose word lies nowhere stays mapped",
        "src/transport/shm/life.c",
        "\t\tmunmap((void *)(uintptr_t)other, LIFE_SIZE);\n",
        "",
    ),
    Fault(
        "a peer's page stays mapped behind its end",
        "src/transport/shm/life.c",
        "\t\tmunmap((void *)(uintptr_t)link->life_page, LIFE_SIZE);",
        "\t\t;",
    ),
    Fault(
        "any message with a descriptor announces a page",
        "src/transport/shm/life.c",
        "if (announcement.magic != LIFE_MAGIC)\n\t\treturn false;",
        ";",
    ),
    Fault(
        "an announcement of a page may be longer",
        "src/transport/shm/life.c",
        "if (size != sizeof(announcement))",
        "if (size < sizeof(announcement))",
    ),
    Fault(
        "a peer's page is looked at although one_copy is off",
        "src/transport/shm/life.c",
        " || !peer->owner->options.one_copy)",
        ")",
    ),
    Fault(
        "a page of a peer's may get holes",
        "src/transport/shm/life.c",
        "(fcntl(fd, F_GET_SEALS) & LIFE_SEALS) != LIFE_SEALS ||",
        "",
    ),
    Fault(
        "a peer's word lies anywhere",
        "src/transport/shm/life.c",
        "if (word_at % sizeof(uint32_t) || word_at > LIFE_SIZE - sizeof(uint32_t)) {",
        "if (0) {",
    ),
    Fault(
        "a peer may write to a process's own page",
        "src/transport/shm/life.c",
        "F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL",
        "F_SEAL_GROW | F_SEAL_SEAL",
    ),
    Fault(
        "nobody tells of a process that ends",
        "src/transport/shm/life.c",
        "PTHREAD_MUTEX_ROBUST)",
        "PTHREAD_MUTEX_STALLED)",
    ),
    Fault(
        "a process whose thread has ended goes on",
        "src/transport/shm/life.c",
        "return (word & FUTEX_TID_MASK) != 0 && !(word & FUTEX_OWNER_DIED);",
        "return word != 0;",
    ),
    Fault(
        "a message that is not fetched yet does not cross",
        RING,
        "sent->asked ? !sent->taken : ",
        "",
    ),
    Fault(
        "a message that is fetched crosses",
        RING,
        "link->longs[i].taken |=",
        "link->longs[i].asked |=",
    ),
    Fault(
        "where messages crossed a long row the one way is taken to cross",
        RING,
        "link->crossed_several && link->turn < 2 * link->turn_before",
        "link->crossed_several",
    ),
    Fault(
        "short messages that come are taken to cross for ever",
        RING,
        "link->crossed > 0, 0) && !is_long",
        "link->crossed > 0, 0) && 0",
    ),
    Fault(
        "an RTS does not say that it crosses",
        RING,
        "if (record->kind == RECORD_RTS)\n\t\tring_cross(peer, record);\n\telse if (",
        "if (",
    ),
    Fault(
        "a poll goes on behind a short message of a dialogue",
        RING,
        "ring->ended = !(record->flags & RECORD_STREAM);",
        "ring->ended = false;",
    ),
    Fault(
        "a poll ends with each short message of a stream",
        RING,
        "ring->ended = !(record->flags & RECORD_STREAM);",
        "ring->ended = true;",
    ),
    Fault(
        "a poll ends with each message of a stream",
        RING,
        "ring->alone = !(record->flags & RECORD_STREAM);",
        "ring->alone = true;",
    ),
    Fault(
        "messages that cross go in pieces of a dialogue",
        RING,
        "link->crossed = ring_stays(link->crossed, ring_is_untaken(",
        "link->crossed = ring_stays(link->crossed, 0 && ring_is_untaken(",
    ),
    Fault(
        "of messages that crossed once all are said to cross",
        RING,
        "return crossed ? CROSSED_STAYS : stays > 0 ? stays - 1 : 0;",
        "return crossed ? CROSSED_STAYS : stays;",
    ),
    Fault(
        "windows that cross are dialogues",
        RING,
        "ring_stays(link->crossed_several, ring_is_untaken(",
        "ring_stays(link->crossed_several, 0 && ring_is_untaken(",
    ),
    Fault(
        "messages that cross one by one are streams",
        RING,
        "ring_is_untaken(link, &link->longs[1], unhandled)",
        "ring_is_untaken(link, &link->longs[0], unhandled)",
    ),
    Fault(
        "long messages that cross are read before they are written",
        SHM_SERVE,
        "shm_fetches(link) ? BULK_SHARE_CROSSED",
        "false ? BULK_SHARE_CROSSED",
    ),
    Fault(
        "a fetch that goes another way stays among those of the former",
        FETCH,
        "\tlist_remove(&fetch->node);\n\tfetch->method = (uint8_t)method;\n\tfetch_queue(fetch);",
        "\tfetch->method = (uint8_t)method;",
    ),
    Fault(
        "copies from a lost peer are not left",
        FETCH,
        "while ((node = list_first(&link->copies)))",
        "while ((node = NULL))",
    ),
    Fault(
        "a pull that was taken over is counted on",
        FETCH,
        "\tfetch->pulled = false;\n\tlink->pulling--;",
        "\tfetch->pulled = false;",
    ),
    Fault("what is dear is tried as often as what is not", CHOOSE, "return wanted < least ?", "return 1 ?"),
    Fault(
        "every message is timed",
        CHOOSE,
        "class > ROW_CLASS_MAX || (row - 1) / RUN % TIMED_ROW == 1",
        "true",
    ),
    Fault(
        "a stream's time does not begin where the message before it ended",
        CHOOSE,
        "if (!start_ns && pace != PACE_DIALOGUE && cost_is_due(",
        "if (0 && cost_is_due(",
    ),
    Fault("every message of a dialogue is judged", CHOOSE, "\tcosts->plain = plain;\n", "\tcosts->plain = 0;\n"),
    Fault(
        "messages that say nothing are not before a trial",
        CHOOSE,
        "\tcosts->waited += plain;\n",
        "",
    ),
    Fault(
        "who follows is not told of another wish",
        CHOOSE,
        "link->led_wants[pace] == wants && link->led_learnt == learnt",
        "link->led_learnt == learnt",
    ),
    Fault("a message of one record does not count for choosing", CHOOSE, "if (sample->left > 0)", "if (length == 0)"),
    Fault(
        "a stream has the pieces of a dialogue",
        SHM,
        "link->streaming || link->crossed ? PIECE_STREAM : piece_alone",
        "piece_alone",
    ),
    Fault(
        "the first piece is as long as the others",
        SHM,
        "uint32_t piece = PIECE_FIRST;",
        "uint32_t piece = PIECE_MOST;",
    ),
    Fault(
        "the pieces of a dialogue are all alike",
        SHM,
        "sent >= piece && piece < PIECE_MOST;",
        "sent >= piece && piece < PIECE_FIRST;",
    ),
    Fault(
        "12 KiB are two pieces",
        SHM,
        "if (sent + left <= PIECE_WHOLE)",
        "if (false)",
    ),
    Fault(
        "of two pieces the first one is longer",
        SHM,
        "if (sent + left <= 2 * PIECE_OVERLAP)",
        "if (false)",
    ),
    Fault(
        "a short rest is a piece",
        SHM,
        "return left <= piece + PIECE_MORE ? (uint32_t)left : piece;",
        "return piece;",
    ),
    Fault(
        "the first of many messages is of a dialogue",
        RING,
        "if (link->turns_long)",
        "if (0)",
    ),
    Fault(
        "an answer of its own makes a stream of a dialogue",
        RING,
        "link->turns_long = link->turn >= TURN_LONG",
        "link->turns_long |= link->turn >= TURN_LONG",
    ),
    Fault(
        "an offer is not given back",
        FETCH,
        "\tif (fetch->offer >= 0)\n\t\tlink->offers_used &= ~(1u << fetch->offer);\n",
        "",
    ),
    Fault("the sequence of a claim is not checked", SHM_SERVE, "claim.sequence != serve->id || ", ""),
    Fault(
        "the sender's blocks are not waited for",
        FETCH,
        "\treturn *done_p == back || failed;",
        "\t*done_p = back;\n\treturn true;",
    ),
    Fault(
        "a copy of another program's memory is taken",
        COPY,
        "if (!spared && !copy_is_proven(link, &cookie))",
        "if (false)",
    ),
    Fault(
        "a late writer finds the door open",
        DOOR,
        "\tmprotect(link->door, page_size(), PROT_READ);\n",
        "",
    ),
    Fault("a forked child inherits the door", DOOR, "\tmadvise(page, size, MADV_DONTFORK);\n", ""),
    Fault(
        "a sender may claim more blocks than there are",
        FETCH,
        " || claim.back > fetch->blocks - front)",
        ")",
    ),
    Fault(
        "data for a fetch before this one is taken",
        FETCH,
        "fetch->generation != (uint32_t)(record->tag >> 32) || ",
        "",
    ),
    Fault(
        "data of another peer is taken",
        FETCH,
        " || fetch->peer != peer ||\n",
        " ||\n",
    ),
    Fault(
        "data may go beyond its window",
        FETCH,
        "if (record->imm != fetch->offset || length > fetch->end - fetch->offset) {",
        "if (record->imm != fetch->offset) {",
    ),
    Fault(
        "data may come in any order",
        FETCH,
        "if (record->imm != fetch->offset || length",
        "if (length",
    ),
    Fault(
        "a peer may ask for more than a window has",
        SHM_SERVE,
        " &&\n\t    record->arg[1] <= vector->length - record->arg[0])",
        ")",
    ),
    Fault(
        "an offer may be any",
        SHM_SERVE,
        "index >= OFFERS || ",
        "",
    ),
    Fault(
        "an offer may be longer than its window",
        SHM_SERVE,
        "length == 0 || length > vector->length || ",
        "length == 0 || ",
    ),
    Fault(
        "what the sender could not write is missing",
        FETCH,
        "\tif (done == back)\n\t\tfetch_end(fetch, 0);",
        "\tif (true)\n\t\tfetch_end(fetch, 0);",
    ),
    Fault(
        "what was read of a send that had ended is a success",
        FETCH,
        "return load_relaxed(&shm_link(fetch->peer)->in.segment->withdrawn);",
        "return false;",
    ),
    Fault(
        "the slower way is taken",
        CHOOSE,
        "best = copy->mean_ns < ring->mean_ns ?",
        "best = copy->mean_ns > ring->mean_ns ?",
    ),
    Fault(
        "the slower way is never tried again",
        CHOOSE,
        "if (++costs->waited < cost_interval(",
        "if (++costs->waited > 0 || cost_interval(",
    ),
    # ---- Matching
    Fault(
        "a withdrawn receive is indexed later",
        MATCH_H,
        "\tif (match->unindexed == &receive->posted)\n\t\tmatch->unindexed = receive->posted.next;\n",
        "",
    ),
    Fault(
        "messages behind the first are not indexed",
        MATCH_H,
        "\t\tmatch_message_index(match, message);",
        "\t\t;",
    ),
    Fault(
        "the oldest of several receives is not preferred",
        MATCH,
        "if (!oldest || receive->order < oldest->order)",
        "if (!oldest || receive->order > oldest->order)",
    ),
    Fault(
        "a search ends at a key that was moved",
        MATCH,
        "if (((at - home) & last) < ((at - hole) & last))",
        "if (((at - home) & last) <= ((at - hole) & last))",
    ),
    Fault(
        "receives without a class come last",
        MATCH,
        "if (other && other->order < receive->order)",
        "if (other)",
    ),
    Fault(
        "any source and one source are of one class",
        MATCH,
        "return class->mask == mask && class->any == any;",
        "return class->mask == mask;",
    ),
    Fault(
        "the second with a key is lost with the first",
        MATCH,
        "\tif (slot->first == node)\n\t\tslot->first = node->next;\n",
        "",
    ),
    Fault(
        "those with one key are in no order",
        MATCH,
        "list_push_back(table->slots[at].first, node);",
        "list_push_front(table->slots[at].first, node);",
    ),
    Fault(
        "a short list is searched from its third on",
        MATCH,
        "struct list_node *node = match->receives.next->next;",
        "struct list_node *node = match->receives.next->next->next;",
    ),
    Fault(
        "a message that finds no room in an index is not found",
        MATCH,
        "\t\t\tmessage_class_drop(match, number);\n\t\t\tmatch->refused = true;\n\t\t}\n",
        "\t\t\tmatch->refused = true;\n\t\t}\n",
    ),
    Fault(
        "a search for any source looks for the message's",
        MATCH,
        "class->any ? MATCH_ANY : source);\n\t\tstruct match_receive",
        "source);\n\t\tstruct match_receive",
    ),
    # ---- Regions of memory
    Fault(
        "a lock does not split the area at its end",
        AREA,
        "\t\t\tif (table->areas[at].end > end)\n\t\t\t\tarea_split(table, at, end);\n",
        "",
    ),
    Fault(
        "a lock that finds too little room is put in by half",
        AREA,
        "if (more > table->room - table->count)",
        "if (more > table->room - table->count + 1)",
    ),
    Fault(
        "what is locked again counts as new",
        AREA,
        "\t\tif (first < start) { /* a gap */\n\t\t\t*fresh_p += start - first;",
        "\t\tif (first < start) { /* a gap */\n\t\t\t*fresh_p += end - first;",
    ),
    Fault(
        "a run of a mapping that is gone counts as pinned",
        REGION,
        "run->generation != region->generation || ",
        "",
    ),
    Fault(
        "a run goes on into the next segment",
        REGION,
        ".pages = pages < left ? pages : left,",
        ".pages = pages,",
    ),
    Fault(
        "bytes in the page behind those that are pinned may be used",
        REGION,
        "return last.page < region->pinned;",
        "return last.page <= region->pinned;",
    ),
    Fault(
        "a segment that ends within a page has too few pages",
        REGION,
        "page_of(region, segment->address + (segment->length - 1))",
        "page_of(region, segment->address) + page_of(region, segment->length - 1)",
    ),
    Fault(
        "a registration is used though the mapping has changed",
        CACHE,
        "if (entry && entry_right(entry)) {",
        "if (entry) {",
    ),
    Fault(
        "a registration for reading serves who writes",
        CACHE,
        " || (access & ~entry->access)))",
        "))",
    ),
    Fault(
        "a registration without a monitor is kept",
        CACHE,
        "\tif (!entry->listed) {\n",
        "\tif (!entry->listed && entry->word) {\n",
    ),
    Fault(
        "a registration that is wrong goes while it is in use",
        CACHE,
        "\tif (entry->uses)\n\t\treturn;\n\tidle_remove",
        "\tidle_remove",
    ),
    Fault(
        "the most recently used registration goes first",
        CACHE,
        "struct cache_entry *entry = cache->idle.newer;\n\n\tif",
        "struct cache_entry *entry = cache->idle.older;\n\n\tif",
    ),
    Fault(
        "an error of one registration costs all others",
        CACHE,
        "while (status == CACHE_FULL && cache_evict(cache));",
        "while (status && cache_evict(cache));",
    ),
    Fault(
        "a driver of another version is used",
        DRIVER,
        "if (version == THOLE_DRIVER_VERSION)",
        "if (version >= THOLE_DRIVER_VERSION)",
    ),
    Fault(
        "what the driver keeps right by itself may be written to without having been declared so",
        DRIVER,
        "entry->access & CACHE_WRITE ? THOLE_DRIVER_WRITE : 0, &id);",
        "0, &id);",
    ),
    Fault(
        "a forked child keeps the regions of its parent alive",
        DRIVER,
        "\t(void)madvise(page, sizeof(*driver->shared), MADV_DONTFORK); /* else a child keeps the regions alive */\n",
        "",
    ),
    Fault(
        "a driver's page is mapped whole before its version is known",
        DRIVER,
        "sizeof(page->version), PROT_READ,",
        "sizeof(*page), PROT_READ,",
    ),
    Fault(
        "a window that is withdrawn is not ended in the driver",
        MOVER_DRIVER,
        "driver_end(mover, connection, window, false);",
        "driver_end(mover, connection, window, true);",
    ),
    Fault(
        "a pinned region of an id that was used is pinned again and again",
        MOVER_DRIVER,
        "self->pinned[held->region] = generation + 1;",
        "self->pinned[held->region] = state.generation + 1;",
    ),
    Fault(
        "a region of which a worker has pinned a part counts as pinned",
        MOVER_DRIVER,
        "pinned.pinned == self->pages[event->cookie]",
        "pinned.status == 0",
    ),
    Fault(
        "a window's region is given back before the driver has forgotten the window",
        MOVER_DRIVER,
        "\tdriver_call(self->driver, fetch ? THOLE_DRIVER_FETCH_END : THOLE_DRIVER_WINDOW_END, &name);\n"
        "\tif (held)\n\t\theld_give(self, held);\n",
        "\tif (held)\n\t\theld_give(self, held);\n"
        "\tdriver_call(self->driver, fetch ? THOLE_DRIVER_FETCH_END : THOLE_DRIVER_WINDOW_END, &name);\n",
    ),
    Fault(
        "the end of a fetch that was refused leaves its region",
        MOVER_DRIVER,
        "\theld_give(self, held);\n\treturn status;",
        "\treturn status;",
    ),
    Fault(
        "what lies over the end of a declared segment counts as in it",
        DECLARED,
        "length <= segment->length - into",
        "length <= segment->length",
    ),
    Fault(
        "memory that is declared to be read serves who writes",
        DECLARED,
        " && (segment->written || !written)) {",
        ") {",
    ),
    Fault(
        "a lock that cannot be pinned counts",
        MEMORY,
        "} else if (lock->count == 0) {\n",
        "} else if (false) {\n",
    ),
    Fault(
        "a lock of what is locked already pins nothing",
        MEMORY,
        "\tif (lock->id)\n\t\treturn driver_pin(driver, lock->id, lock->length, 0, &pin);\n",
        "\tif (lock->id)\n\t\treturn 0;\n",
    ),
    Fault(
        "the first unlock ends all locks of a range",
        MEMORY,
        "\tif (--lock->count)\n\t\treturn;\n",
        "\t--lock->count;\n",
    ),
    # ---- Messages
    Fault(
        "a dropped message's sender is not let go",
        RECEIVE,
        "message_finish(unexpected->peer, record->arg[2], 0, unexpected_total(unexpected));",
        ";",
    ),
    Fault(
        "a synchronous send is let go before its message is matched",
        RECEIVE,
        "\tunexpected->status = 0;\n",
        "\tunexpected->status = 0;\n\tif (record->flags & RECORD_SYNC)\n\t\t"
        "message_finish(peer, record->arg[2], 0, 0);\n",
    ),
    Fault(
        "what is to arrive ends with its receive",
        RECEIVE,
        "\telse if (record->flags & RECORD_NOTIFY)\n\t\tunexpected_answer(unexpected);\n",
        "",
    ),
    Fault(
        "what is to arrive is answered twice",
        RECEIVE,
        "\trecord->flags &= (uint8_t)~RECORD_ARRIVED;\n",
        "",
    ),
    Fault(
        "what is to arrive goes in pieces, though it is seen only of one when all is here",
        MESSAGE,
        "if (!request->head_sent && (request->flags & THOLE_ARRIVED) && (request->record.flags & RECORD_SYNC) &&",
        "if (request->endpoint->base.simulated &&",
    ),
    Fault(
        "a short window is in use until somebody looks at the end of its send",
        "src/message/upcalls.c",
        "return request && request->state != REQUEST_DONE && request->state != REQUEST_QUEUED;",
        "return request;",
    ),
    Fault(
        "a get is reported before it was read",
        REMOTE,
        "\tif (message_is_eager(peer, bytes)) {\n",
        "\tif (request->notify)\n"
        "\t\tremote_notify(peer, THOLE_OP_REMOTE_GET, region->context, region->key, memory, bytes, NULL);\n"
        "\trequest->notify = false;\n"
        "\tif (message_is_eager(peer, bytes)) {\n",
    ),
    Fault(
        "a get is reported that was not read",
        REMOTE,
        "\tif (!status && request->notify)\n\t\tremote_notify(request->peer, THOLE_OP_REMOTE_GET",
        "\tif (request->notify)\n\t\tremote_notify(request->peer, THOLE_OP_REMOTE_GET",
    ),
    Fault(
        "nobody looks for a peer that a receive alone waits for",
        RECEIVE,
        "\tendpoint->awaits = true;\n\ttransport_rouse",
        "\ttransport_rouse",
    ),
    Fault(
        "who sleeps looks for no peer that a receive alone waits for",
        TURN,
        "uint64_t longest = endpoint_await_left(endpoint);",
        "uint64_t longest = UINT64_MAX;",
    ),
    Fault(
        "a peer that a receive alone waits for is looked for once",
        TURN,
        "\tendpoint_of(endpoint)->await_ns = 0;\n",
        "\tendpoint_of(endpoint)->await_ns = UINT64_MAX;\n",
    ),
    Fault(
        "who has connected to us is connected to for a receive alone",
        PEER,
        "\t       !(transport->watched && transport->watched(&peer->base)) &&\n",
        "",
    ),
    Fault(
        "whoever has connected to us by the network is connected to for a receive alone",
        "src/transport/datagram/datagram.c",
        "\t.watched = datagram_watched,\n",
        "",
    ),
    Fault(
        "a local peer is taken to be gone that may yet come to its place",
        PEER,
        " &&\n\t       !(attach_is_near(peer) && peer->base.parts.network[0] == ADDRESS_MXOE)",
        "",
    ),
    Fault(
        "what is to arrive goes in several frames, of which the first is answered",
        MESSAGE,
        "(!transport->record_max || length <= transport->record_max(&peer->base))",
        "true",
    ),
    Fault(
        "what is to arrive and is synchronous goes in pieces, of which the first is answered",
        MESSAGE,
        "if (!request->head_sent && (request->flags & THOLE_ARRIVED) && (request->record.flags & RECORD_SYNC) &&",
        "if (!request->head_sent && (request->record.flags & RECORD_NOTIFY) &&",
    ),
    Fault(
        "pieces that may find no room are sent in one call",
        "src/message/send.c",
        "if (!transport->fits || !transport->fits(&peer->base, vector->length))",
        "if (!transport->fits)",
    ),
    Fault(
        "pieces are taken to fit that are short since there is no area",
        "src/transport/shm/place.c",
        " || ring_piece_max(ring) < PIECE_MOST + PIECE_MORE)",
        ")",
    ),
    Fault(
        "the pieces of a dialogue are a request",
        "src/message/send.c",
        "if (!transport->fits || !transport->fits(&peer->base, vector->length))",
        "if (vector->length > 0)",
    ),
    Fault(
        "of what is to arrive no copy is made, where it may be fetched and its buffer is used again",
        "src/message/send.c",
        "(!eager || (answer && (flags & THOLE_ARRIVED) &&",
        "(!eager || (false &&",
    ),
    Fault(
        "what is to arrive takes the short way, which waits for nothing",
        "src/message/send.c",
        "if ((flags & (THOLE_SYNC | THOLE_ARRIVED)) || !peer ||",
        "if ((flags & THOLE_SYNC) || !peer ||",
    ),
    Fault(
        "an MPI's sends wait for a trip, since it wants its puts to have arrived",
        "provider/prov_flags.c",
        "endpoint->tx_flags & meant);",
        "endpoint->tx_flags);",
    ),
    Fault(
        "a send of which less was fetched is a success",
        MESSAGE,
        "return !status && bytes < request->vector.length ? THOLE_ERR_TRUNCATED : status;",
        "return status;",
    ),
    Fault(
        "an unknown status is a success",
        MESSAGE,
        "return status <= 0 && status > -THOLE_ERR_COUNT ? status : THOLE_ERR_PROTOCOL;",
        "return status <= 0 && status > -THOLE_ERR_COUNT ? status : 0;",
    ),
    Fault("a truncated receive is a success", RECEIVE, "\t\tstatus = THOLE_ERR_TRUNCATED;\n", ""),
    Fault(
        "an RTS' window has no bound",
        RECEIVE,
        "window.length > THOLE_LENGTH_MAX ||\n",
        "\n",
    ),
    Fault(
        "the bound of unexpected bytes holds nobody back",
        RECEIVE,
        "endpoint->base.counters[COUNTER_UNEXPECTED_BYTES] > endpoint->base.options.unexpected_max) {",
        "false) {",
    ),
    Fault(
        "an eager message may be of any length",
        RECEIVE,
        "if (record->length != RECORD_EXTERNAL || total < length || total > EAGER_TOTAL_MAX)",
        "if (record->length != RECORD_EXTERNAL || total > EAGER_TOTAL_MAX)",
    ),
    Fault(
        "a message overtakes those that are to be screened",
        RECEIVE,
        "\tif (__builtin_expect(peer->endpoint->screened != 0, 0))\n\t\treturn NULL; /* behind",
        "\t/* behind",
    ),
    Fault(
        "a buffer for many stays to its last byte",
        RECEIVE,
        "if (room == 0 || room < endpoint->base.options.multi_min) {",
        "if (room == 0) {",
    ),
    Fault(
        "more is fetched than there is room for",
        RECEIVE,
        "\telse if (request->vector.length < window.length)\n\t\twindow.length = request->vector.length;\n",
        "",
    ),
    Fault(
        "a buffer that is given up is free while messages come into it",
        REQUEST,
        "\t\tif (receive->parts > 0)\n\t\t\treturn; /*",
        "\t\t/*",
    ),
    Fault(
        "a piece may be longer than what is left",
        MESSAGE,
        "if (length == 0 || length > peer->stream.left) {",
        "if (length == 0) {",
    ),
    Fault(
        "another record may come between the pieces of a message",
        MESSAGE,
        "if (peer->stream.left > 0 && kind != RECORD_PIECE) {",
        "if (false) {",
    ),
    Fault(
        "a peer reaches beyond a region",
        REMOTE,
        " || length > region->length - offset)",
        ")",
    ),
    Fault(
        "a peer needs no right to a region",
        REMOTE,
        "else if ((region->access & access) != access)",
        "else if (false)",
    ),
    Fault(
        "an answer may have any length",
        REMOTE,
        "} else if (expects_data && total == request->vector.length && total >= length) {",
        "} else if (expects_data) {",
    ),
    Fault(
        "operands may have any length",
        REMOTE,
        "bytes != (op == THOLE_READ ? 0 : atomic_compares(op) ? 2 * length : length)) {",
        "false) {",
    ),
    Fault(
        "an operation that failed has a length",
        REQUEST,
        "\tif (request->status && request->status != THOLE_ERR_TRUNCATED)\n\t\tlength = 0;\n",
        "",
    ),
    Fault(
        "a vector of more than an address space is a short one",
        REQUEST,
        "if (__builtin_add_overflow(length, segments[i].iov_len, &length))",
        "if (__builtin_add_overflow(length, segments[i].iov_len, &length) && false)",
    ),
    Fault(
        "a buffer for many is free with each of its parts",
        REQUEST,
        "if (--parent->parts == 0 && parent->retired) {",
        "if (--parent->parts == 0) {",
    ),
    Fault(
        "what was sent to a peer that is lost waits for ever",
        PEER,
        "\tpeer_fail_list(&peer->pending, status);\n",
        "",
    ),
    Fault(
        "who attaches memory of a peer that is lost waits for ever",
        PEER,
        "request->operation <= THOLE_OP_REMOTE_ATOMIC)",
        "request->operation <= THOLE_OP_ATTACH)",
    ),
    Fault(
        "receives from a peer that is lost wait for ever",
        PEER,
        "\tif (!peer->screened) /*",
        "\tif (false) /*",
    ),
    Fault(
        "what is new overtakes what waits",
        PEER,
        "list_push_back(&peer->backlog, &request->node);",
        "list_push_front(&peer->backlog, &request->node);",
    ),
    # ---- The provider
    Fault(
        "a map forgets what it had when it grows",
        "provider/prov_map.c",
        "memset(map->values + old, 0xff, (count - old) * sizeof map->values[0]);",
        "memset(map->values, 0xff, count * sizeof map->values[0]);",
    ),
    Fault(
        "a peer that has closed is a cancel to MPIs",
        "provider/prov_error.c",
        "if (status == THOLE_ERR_CLOSED && !(caps & FI_TAGGED))",
        "if (status == THOLE_ERR_CLOSED)",
    ),
    Fault(
        "a used up buffer is as quiet as its messages",
        "provider/prov_flags.c",
        "? PROV_SILENT",
        "? (unsigned)THOLE_QUIET",
    ),
    Fault(
        "what has failed counts as if it had not",
        "provider/prov_counter.c",
        "add_acquire_release(&counter->errors, 1);",
        "add_acquire_release(&counter->value, 1);",
    ),
    Fault(
        "a program may sleep on a counter that has counted",
        "provider/prov_counter.c",
        "if (!error && prov_counter_has_news(counter))",
        "if (prov_counter_has_news(counter) && false)",
    ),
    Fault(
        "a signal is told for ever to who sleeps by itself",
        "provider/prov_cq.c",
        "prov_cq_signaled(cq) ? -FI_EAGAIN : prov_cq_arm(cq)",
        "prov_cq_arm(cq)",
    ),
    Fault(
        "a queue's error overtakes entries",
        "provider/prov_cq.c",
        "if (cq->head != cq->tail && cq->slots[cq->head & cq->mask].error) {\n"
        "\t\tstruct prov_cq_slot *slot = &cq->slots[cq->head & cq->mask];",
        "if (cq->head != cq->tail && cq->slots[(cq->tail - 1) & cq->mask].error) {\n"
        "\t\tstruct prov_cq_slot *slot = &cq->slots[(cq->tail - 1) & cq->mask];",
    ),
    Fault(
        "a queue that grows begins at its front",
        "provider/prov_cq.c",
        "slots[i & (2 * size - 1)] = cq->slots[i & cq->mask];",
        "slots[i - cq->head] = cq->slots[i & cq->mask];",
    ),
    Fault(
        "what ends behind an error overtakes it",
        "provider/prov_cq.c",
        "\tcq->room = 0; /* what follows waits behind it */\n",
        "",
    ),
    Fault(
        "what ends after a read goes to its memory",
        "provider/prov_cq.c",
        "\tcq->room = 0;\n\treturn",
        "\treturn",
    ),
    Fault(
        "entries of short formats are entered whole",
        "provider/prov_cq.c",
        "cq->entry_size == sizeof *cq->to ? count : 0",
        "count",
    ),
    Fault(
        "slots are used again though their payloads are still counted",
        PLACE,
        "\tring_take_back(ring);\n\tif (ring->produced - ring->reclaimed + slots > RING_SLOTS)\n",
        "\tring->reclaimed = ring->consumed;\n\tif (ring->produced - ring->reclaimed + slots > RING_SLOTS)\n",
    ),
    Fault(
        "an event queue is closed though it is in use",
        "provider/prov_eq.c",
        "if (prov_users_any(&eq->users))",
        "if (false)",
    ),
    Fault(
        "an address that is removed leaves its peer behind",
        "provider/prov_av.c",
        "endpoint->peers->values[index] = PROV_NONE;",
        "",
    ),
    Fault(
        "a receive's source is the entry that came last",
        "provider/prov_av.c",
        "if (!error && prov_map_get(endpoint->sources, peer) == PROV_NONE)",
        "if (!error)",
    ),
    Fault(
        "a name is written where there is too little room",
        "provider/prov_name.c",
        "if (room < sizeof address || !bytes)",
        "if (!bytes)",
    ),
    Fault(
        "a silent failure without a context is entered",
        "provider/prov_completion.c",
        "if (sink->cq && (error.op_context || !silent))",
        "if (sink->cq)",
    ),
    Fault(
        "a failure without a context is entered nowhere",
        "provider/prov_completion.c",
        "if (sink->cq && (error.op_context || !silent))",
        "if (sink->cq && error.op_context)",
    ),
    Fault(
        "a put is told with the context of a region that has ended",
        "src/message/remote.c",
        "return region && region->context == request->context ? request->context : NULL;",
        "return region || request ? request->context : NULL;",
    ),
    Fault(
        "a view of what is offered no more counts as whole",
        "src/memory/driver.h",
        " && !load_acquire(&view->head->ended);",
        ";",
    ),
    Fault(
        "the descriptor of a view stays open",
        "src/memory/driver.c",
        "\tclose(attach.fd);\n",
        "",
    ),
    Fault(
        "each view may be written",
        "src/memory/driver.c",
        "attach.flags & THOLE_DRIVER_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;",
        "PROT_READ | PROT_WRITE;",
    ),
    Fault(
        "a put changes what lies behind it",
        REMOTE,
        "static void remote_put_done(struct thole_request *request, int status)\n{\n",
        "static void remote_put_done(struct thole_request *request, int status)\n{\n"
        "\tif (!status)\n\t\t((char *)request->segment.iov_base)[request->vector.length] = 1;\n",
    ),
    Fault(
        "a put is changed by the next one of another peer",
        REMOTE,
        "static void remote_put_done(struct thole_request *request, int status)\n{\n",
        "static void remote_put_done(struct thole_request *request, int status)\n{\n"
        "\tstatic struct thole_request last;\n\n"
        "\tif (last.peer != request->peer && last.endpoint == request->endpoint && last.vector.length)\n"
        "\t\t*(char *)last.segment.iov_base ^= 1;\n"
        "\tlast = *request;\n"
        "\tlast.vector.length = status ? 0 : last.vector.length;\n",
    ),
    Fault(
        "an atomic that is not at a region's begin is applied twice",
        REMOTE,
        "\tif (!status && (region->access & THOLE_NOTIFY))\n\t\tremote_notify(peer, fetch",
        "\tif (!status && record->arg[3])\n"
        "\t\tatomics_apply(op, type, memory, operands, operands + length, NULL, count);\n"
        "\tif (!status && (region->access & THOLE_NOTIFY))\n\t\tremote_notify(peer, fetch",
    ),
    Fault(
        "a peer's atomic with a result is counted as one without",
        "src/message/remote.c",
        "fetch ? THOLE_OP_REMOTE_ATOMIC_FETCH : THOLE_OP_REMOTE_ATOMIC",
        "THOLE_OP_REMOTE_ATOMIC",
    ),
    Fault(
        "peers' atomics with a result are counted nowhere",
        "provider/prov_binding.c",
        "	{FI_REMOTE_READ, THOLE_OP_REMOTE_ATOMIC_FETCH},\n",
        "",
    ),
    Fault(
        "peers' reads are counted as writes",
        "provider/prov_completion.c",
        " && completion->operation != THOLE_OP_REMOTE_GET)",
        ")",
    ),
    Fault(
        "a poll set reports a counter for ever",
        "provider/prov_poll.c",
        "member->seen = now;",
        "",
    ),
    Fault(
        "an endpoint that is opened later misses regions",
        "provider/prov_region.c",
        "int error = prov_region_expose(region, endpoint, slot);\n\n\t\tif (!error)\n\t\t\terror = prov_region_watch",
        "int error = 0;\n\n\t\tif (!error)\n\t\t\terror = prov_region_watch",
    ),
    Fault(
        "an event wakes who sleeps once more",
        "provider/prov_watch.c",
        "while (read(watch->event, &ignored, sizeof ignored) > 0)\n\t\t;",
        "(void)ignored;",
    ),
    Fault(
        "a slice that is over ends all sleeps in calls",
        "provider/prov_watch.c",
        "if (watch->timer >= 0 && read(",
        "if (0 && read(",
    ),
    Fault(
        "a counter that is bound late hears of nothing",
        "provider/prov_binding.c",
        "\tif (endpoint->enabled)\n\t\tprov_flags_settle(endpoint);\n",
        "",
    ),
    Fault(
        "tags made side by side are not those made one by one",
        "src/base/siphash_lanes.h",
        "v[1] = (v[1] << 17 | v[1] >> 47) ^ v[2];",
        "v[1] = (v[1] << 16 | v[1] >> 48) ^ v[2];",
    ),
    Fault(
        "words turned by a new order of their parts are not turned",
        "src/base/siphash.c",
        "QUAD_ORDER(quad_halves, a, 1, 0, 3, 2, 5, 4, 7, 6)",
        "QUAD_ORDER(quad_halves, a, 1, 0, 3, 2, 5, 4, 6, 7)",
    ),
    Fault(
        "fewer tags than there are lanes are made of the first text alone",
        "src/base/siphash.c",
        "side[i] = texts[i < count ? i : 0];",
        "side[i] = texts[0];",
    ),
    Fault(
        "a freed extent forgets its neighbour behind",
        "src/base/extents.c",
        "\t\textent_remove(extents, after);\n\t\textent.length += tags[after].length;\n",
        "\t\textent.length += tags[after].length;\n",
    ),
    Fault(
        "a child finds the list of descriptors locked",
        "src/base/forked.c",
        "pthread_atfork(forked_lock, forked_unlock, forked_child);",
        "pthread_atfork(NULL, NULL, NULL);",
    ),
    Fault(
        "a child finds the responders locked",
        "src/transport/datagram/responder.c",
        "pthread_atfork(before_fork, after_fork, in_child);",
        "pthread_atfork(NULL, NULL, NULL);",
    ),
    Fault(
        "a child finds MX's known hosts locked",
        "mx/mx_known.c",
        "pthread_atfork(mxi_known_lock, mxi_known_unlock, mxi_known_unlock);",
        "pthread_atfork(NULL, NULL, NULL);",
    ),
    Fault(
        "a child finds MX's tick locked",
        "mx/mx_tick.c",
        "pthread_atfork(NULL, NULL, mxi_tick_fork_child);",
        "pthread_atfork(NULL, NULL, NULL);",
    ),
    Fault(
        "a raw send is told of only after its event may be taken",
        "mx/mx_raw.c",
        "eventfd_write(raw->event_fd, 1); /* still locked: who takes the event takes it from there, too */\n"
        "\tlock_leave(&raw->lock);",
        "lock_leave(&raw->lock);\n\teventfd_write(raw->event_fd, 1);",
    ),
    Fault(
        "another program's port ends the search for any MX endpoint",
        "mx/mx_directory.c",
        "return MX_BUSY; /* who wants",
        "return MX_NO_RESOURCES; /* who wants",
    ),
    Fault(
        "mx_connect finds a peer that is gone",
        "mx/mx_connecting.c",
        "if (!error && mxi_peer_is_gone(",
        "if (error && mxi_peer_is_gone(",
    ),
    Fault(
        "mx_connect's end is a result that any call may take",
        "mx/mx_connect.c",
        "mxi_request_new(endpoint, MXI_CONNECT_CALL,",
        "mxi_request_new(endpoint, MXI_CONNECT,",
    ),
    Fault(
        "a receive through UCX takes any tag",
        "ucx/ucx_tag.c",
        "wanted.mask, 0, request, NULL);\n\telse\n\t\terror = ucx_tag_recv",
        "0, 0, request, NULL);\n\telse\n\t\terror = ucx_tag_recv",
    ),
    Fault(
        "a send that is complete at once says so, and is reported, too",
        "src/message/send.c",
        "\t\t*error_p = 1;\n\telse if",
        "\t\t*error_p = 1;\n\tif",
    ),
    Fault(
        "a synchronous send through UCX does not wait",
        "ucx/ucx_tag.c",
        "return ucx_tag_send_plain(ep, buffer, count, tag, datatype, cb, THOLE_SYNC);",
        "return ucx_tag_send_plain(ep, buffer, count, tag, datatype, cb, 0);",
    ),
    Fault(
        "a small send at once or not at all goes",
        "ucx/ucx_tag.c",
        "(UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL))) {",
        "UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {",
    ),
    Fault(
        "a receive at once or not at all is posted",
        "ucx/ucx_call.h",
        "if (__builtin_expect(param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, 0) || !charge_try",
        "if (!charge_try",
    ),
    Fault(
        "a synchronous send at once or not at all goes",
        "ucx/ucx_call.h",
        "if (__builtin_expect(param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, 0))\n",
        "if (false)\n",
    ),
    Fault(
        "UCX's caller is called for what ended at once",
        "ucx/ucx_tag.c",
        "bool quiet = !(param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL);",
        "bool quiet = false;",
    ),
    Fault(
        "a receive of a message that is there says nothing of it",
        "ucx/ucx_tag.c",
        "*param->recv_info.tag_info = request->info;",
        ";",
    ),
    Fault(
        "a request of UCX's that was freed calls back",
        "ucx/ucx_request.c",
        "ucx_request_release(ucx_request_of(shown), UCX_CALLBACK);",
        "ucx_request_release(ucx_request_of(shown), 0);",
    ),
    Fault(
        "a request of UCX's that is under way is given back at once",
        "ucx/ucx_request.c",
        "\tif (!(request->flags & UCX_ENDED))\n\t\tstore_relaxed(",
        "\tif (false)\n\t\tstore_relaxed(",
    ),
    Fault(
        "a program's part of a request is not prepared",
        "ucx/ucx_request.c",
        "context->request_init(ucx_request_shown(pool_at(&worker->requests, i)));",
        ";",
    ),
    Fault(
        "a program's part of a request is not cleaned up",
        "ucx/ucx_request.c",
        "context->request_cleanup(ucx_request_shown(request));",
        ";",
    ),
    Fault(
        "a flush does not count the sends under way",
        "ucx/ucx_flush.c",
        "\tif (!left)\n\t\treturn NULL;",
        "\tif (left)\n\t\treturn NULL;",
    ),
    Fault(
        "a flush waits for sends that began after it",
        "ucx/ucx_flush.c",
        "--flush->left",
        "flush->left",
    ),
    Fault(
        "a flush waits for what waits for its receive",
        "ucx/ucx_send.c",
        "if (!(thole_flags & THOLE_SYNC) && length <= worker->unasked_max)",
        "if (!(thole_flags & THOLE_SYNC))",
    ),
    Fault(
        "a flush waits for synchronous sends",
        "ucx/ucx_send.c",
        "if (!(thole_flags & THOLE_SYNC) && length <= worker->unasked_max)",
        "if (length <= worker->unasked_max)",
    ),
    Fault(
        "a flush waits for no send",
        "ucx/ucx_send.c",
        "if (!(thole_flags & THOLE_SYNC) && length <= worker->unasked_max)",
        "if (false)",
    ),
    Fault(
        "UCX's program is told what a message too long left, not how long it was",
        "ucx/ucx_worker.c",
        "request->info.length = completion->message_length;",
        "request->info.length = completion->length;",
    ),
    Fault(
        "more pieces than Thole takes at once are refused",
        "ucx/ucx_datatype.c",
        "datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV && count <= THOLE_SEGMENTS_MAX",
        "datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV",
    ),
    Fault(
        "UCX's program hears of a peer that has gone only when it sends",
        "ucx/ucx_endpoint.c",
        "error = thole_recv(endpoint->thole, endpoint->peer, NULL, 0, 0, 0, THOLE_PLAIN, &endpoint->watch, NULL);",
        "error = 0;",
    ),
    Fault(
        "UCX's program hears of a peer that was never there only when it sends",
        "ucx/ucx_endpoint.c",
        "\tif (endpoint->watching)\n\t\tucx_endpoint_connect(",
        "\tif (false)\n\t\tucx_endpoint_connect(",
    ),
    Fault(
        "UCX's program does not hear of a peer that a send cannot reach",
        "ucx/ucx_send.c",
        "\t\t\tucx_endpoint_refused(endpoint, status);\n",
        "\t\t\t;\n",
    ),
    Fault(
        "a send that fails in its call leaves UCX's program's request under way",
        "ucx/ucx_call.h",
        "\tstore_release(&request->flags, request->flags | UCX_ENDED); /* partner: ucx_request_has_ended */\n",
        "",
    ),
    Fault(
        "a receive with UCX's program's request that did not begin says nothing of it",
        "ucx/ucx_tag.c",
        "!(ucx_request_of(request)->flags & UCX_STARTING) ? UCS_OK",
        "true ? UCS_OK",
    ),
    Fault(
        "UCX's program hears of its sends before it hears that the peer has gone",
        "ucx/ucx_endpoint.c",
        "\tucx_request_end_first(&endpoint->watch);\n",
        "\tucx_request_end(&endpoint->watch);\n",
    ),
    Fault(
        "a flush does not say that what it waited for is lost",
        "ucx/ucx_flush.c",
        "\t\t\tflush->status = request->status;\n",
        "\t\t\t;\n",
    ),
    Fault(
        "an endpoint whose peer has gone is flushed",
        "ucx/ucx_flush.c",
        "endpoint && endpoint->failed != UCS_OK",
        "false",
    ),
    Fault(
        "closing by force leaves under way what has not left",
        "ucx/ucx_endpoint.c",
        "\telse\n\t\tucx_endpoint_cancel(endpoint);\n",
        "",
    ),
    Fault(
        "an error handler is called of an endpoint of another mode",
        "ucx/ucx_endpoint.c",
        "params->err_mode != UCP_ERR_HANDLING_MODE_PEER ||",
        "",
    ),
    Fault(
        "UCX's settings are refused",
        "ucx/ucx_context.c",
        "return UCS_OK; /* passed over",
        "return UCS_ERR_NO_ELEM; /* passed over",
    ),
    Fault(
        "an address of another UCX is read beyond its end",
        "ucx/ucx_endpoint.c",
        '"%.*s", THOLE_ADDRESS_MAX - 1, (const char *)params->address',
        '"%s", (const char *)params->address',
    ),
    Fault(
        "a worker of threads that take turns is said to be for several at once",
        "ucx/ucx_worker.c",
        "attr->thread_mode = worker->thread_mode;",
        "attr->thread_mode = worker->charge.safe ? UCS_THREAD_MODE_MULTI : UCS_THREAD_MODE_SINGLE;",
    ),
    Fault(
        "a request of UCX's counts as under way in its callback",
        "ucx/ucx_request.c",
        "ucx_request_show(request, request->flags | UCX_TELLING);",
        "request->flags |= UCX_TELLING;",
    ),
    Fault(
        "what a callback has begun in its request's memory is shown as ended",
        "ucx/ucx_request.c",
        "\tucx_request_call_inside(&copy, ucx_request_shown(request));\n",
        "\tucx_request_call_inside(&copy, ucx_request_shown(request));\n\tucx_request_show(request, copy.flags);\n",
    ),
    Fault(
        "who sleeps at an endpoint of MX is not told what another thread has found there",
        "mx/mx_progress.c",
        "\tthole_poll(endpoint->thole, NULL, 0);\n\tmxi_sleep_event(endpoint);\n",
        "\tthole_poll(endpoint->thole, NULL, 0);\n",
    ),
    Fault(
        "what a generic datatype received is not unpacked",
        "ucx/ucx_datatype.c",
        "if (status == UCS_OK) /*",
        "if (false) /*",
    ),
    Fault(
        "the end of an empty message of a generic datatype is not told",
        "ucx/ucx_datatype.c",
        "if (status == UCS_OK) /*",
        "if (status == UCS_OK && length) /*",
    ),
    Fault(
        "nothing is packed by a program that has nothing to pack",
        "ucx/ucx_datatype.c",
        "if (made && single_p->iov_len > 0)",
        "if (made)",
    ),
    Fault(
        "what UCX's program has named has another name",
        "ucx/ucx_state.h",
        "\tif (given)\n",
        "\tif (false)\n",
    ),
    Fault(
        "all that UCX's program has not named has one name",
        "ucx/ucx_state.h",
        '"thole-%p", owner);',
        '"thole%s", owner ? "" : "");',
    ),
    Fault(
        "an endpoint of UCX's that names no peer is said to be beyond Thole",
        "ucx/ucx_endpoint.c",
        ": UCS_ERR_INVALID_PARAM;",
        ": UCS_ERR_UNSUPPORTED;",
    ),
    Fault(
        "a generic datatype's state is left open",
        "ucx/ucx_datatype.c",
        "\t\tgeneric->operations.finish(bounce->state);\n\t}",
        "\t}",
    ),
    Fault(
        "features that Thole has not are promised to UCX's programs",
        "ucx/ucx_context.c",
        "return !(features & ~messages) || features == (messages | UCP_FEATURE_RMA);",
        "return true;",
    ),
    Fault(
        "MPICH, which has another way for its windows, is refused",
        "ucx/ucx_context.c",
        "return !(features & ~messages) || features == (messages | UCP_FEATURE_RMA);",
        "return !(features & ~messages);",
    ),
    Fault(
        "an active message meets receives with tags",
        "ucx/ucx_am.c",
        "THOLE_PLAIN | THOLE_INJECT);\n\t}\n\terror",
        "THOLE_INJECT);\n\t}\n\terror",
    ),
    Fault(
        "the data of a long active message comes from any peer",
        "ucx/ucx_am.c",
        "thole_recv(worker->thole, ahead->peer, message->memory",
        "thole_recv(worker->thole, THOLE_ANY, message->memory",
    ),
    Fault(
        "handlers of active messages are called side by side",
        "ucx/ucx_am.c",
        "queue->telling ? NULL : list_first(&queue->arriving);",
        "list_first(&queue->arriving);",
    ),
    Fault(
        "a handler is called before all of its message is here",
        "ucx/ucx_am.c",
        "message && message->state >= AM_HERE ? message : NULL;",
        "message && message->state >= AM_COMING ? message : NULL;",
    ),
    Fault(
        "data that a program keeps goes with its handler",
        "ucx/ucx_am.c",
        "if (!keeps || message->released) {",
        "if (true) {",
    ),
    Fault(
        "data that is given back inside its handler stays",
        "ucx/ucx_am.c",
        "if (!keeps || message->released) {",
        "if (!keeps) {",
    ),
    Fault(
        "the header of a long active message is lost",
        "ucx/ucx_am.c",
        "message->header_length = ahead->header_length;",
        "message->header_length = 0;",
    ),
    Fault(
        "an active message that nobody handles stops those behind it",
        "ucx/ucx_am.c",
        "if (id < queue->handler_count)\n",
        "if (true)\n",
    ),
    Fault(
        "the data of an active message lies over its header",
        "ucx/ucx_am.c",
        "memcpy(memory + length - header_length, header, header_length);",
        "memcpy(memory, header, header_length);",
    ),
    Fault(
        "after as many active messages as may wait none is received",
        "ucx/ucx_am.c",
        "\t\tqueue->waiting--;\n\t\tqueue->telling = message;",
        "\t\tqueue->telling = message;",
    ),
    Fault(
        "an endpoint's watch takes active messages",
        "ucx/ucx_endpoint.c",
        "if (endpoint->worker->context->am)\n",
        "if (false)\n",
    ),
    Fault(
        "a program that is to keep more of an active message than there is room for is told nothing",
        "ucx/ucx_am.c",
        "done < message->length ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK",
        "UCS_OK",
    ),
    Fault(
        "what ended in a cancel waits for progress",
        "ucx/ucx_request.c",
        "ucx_request_cancel(ucx_request_of(shown));",
        ";",
    ),
    Fault(
        "an active message is taken back though its beginning has left",
        "ucx/ucx_request.c",
        "if (request->flags & UCX_FOLLOWS && (",
        "if (false && (",
    ),
    Fault(
        "closing by force takes back the beginning of an active message alone",
        "ucx/ucx_endpoint.c",
        "if (!(request->flags & UCX_AHEAD)) /*",
        "if (true) /*",
    ),
    Fault(
        "data of an active message is waited for that failed in its call",
        "ucx/ucx_send.c",
        "if (failed && (!ahead ||",
        "if (false && (!ahead ||",
    ),
    Fault(
        "UCX's program does not hear of a peer that is lost for an unusual reason",
        "ucx/ucx_endpoint.c",
        "\tdefault: /* whatever it was, the peer is lost by it */\n",
        "\t\tbreak;\n\tcase UCS_ERR_ENDPOINT_TIMEOUT:\n\tcase UCS_ERR_CONNECTION_RESET:\n",
    ),
    Fault(
        "a message of another interface's ends the watch of UCX's endpoint",
        "ucx/ucx_endpoint.c",
        "if (!endpoint->closed && ucx_endpoint_post(",
        "if (false && ucx_endpoint_post(",
    ),
    Fault(
        "memory that ends is taken for the loss of UCX's peer",
        "ucx/ucx_endpoint.c",
        "if (!ucx_endpoint_is_of_peer(ucx_error_status(error)))\n\t\treturn error;",
        "if (false)\n\t\treturn error;",
    ),
    Fault(
        "a peer of UCX's is watched no more after memory has ended",
        "ucx/ucx_endpoint.c",
        "ucx_endpoint_call(endpoint, ucx_endpoint_watch_on, UCS_OK); /* again,",
        "(void)0; /* again,",
    ),
    Fault(
        "data of an active message ends in its call that is not to",
        "ucx/ucx_am.c",
        "if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)\n",
        "if (false)\n",
    ),
    Fault(
        "who asks for data of an active message is called as a sender",
        "ucx/ucx_request.c",
        "else if (request->flags & UCX_AM)\n",
        "else if (false)\n",
    ),
    Fault(
        "an empty active message is not said to be the handler's to keep",
        "ucx/ucx_am.c",
        "message->length > 0 || handler->keeps_empty;",
        "message->length > 0;",
    ),
    Fault(
        "data of active messages is aligned as we like it",
        "ucx/ucx_am.c",
        "worker->am.alignment = alignment > ALIGNMENT ? alignment : ALIGNMENT;",
        "worker->am.alignment = ALIGNMENT;",
    ),
    Fault(
        "an alignment that is none is taken",
        "ucx/ucx_am.c",
        "if (alignment & (alignment - 1))\n",
        "if (false)\n",
    ),
    Fault(
        "who shares its worker of UCX's with threads is told of no progress",
        "src/endpoint/poll.c",
        "return count ? (int)n : handled;",
        "return (int)n;",
    ),
    Fault(
        "who gives a request of ucp_request_alloc back does not wait for its callback",
        "ucx/ucx_request.c",
        "if (container_of(node, struct ucx_request_calling, node)->request == request)\n",
        "if (false)\n",
    ),
    Fault(
        "a child finds the caretaker locked",
        CARETAKER,
        "begun = pthread_atfork(caretaker_lock, caretaker_unlock, caretaker_child) == 0;",
        "begun = pthread_atfork(NULL, NULL, NULL) == 0;",
    ),
    Fault(
        "an extent behind one that has pages is clean",
        "src/base/extents.c",
        "extent.kind = tags[extent.at - 1].kind == EXTENT_KEPT ? EXTENT_KEPT : extent.kind;",
        ";",
    ),
    Fault(
        "a stretched extent takes all that is free behind it",
        "src/base/extents.c",
        "(void)extent_split(extents, after, more);",
        "extent_remove(extents, after);",
    ),
    Fault(
        "freed memory is said to be zeros",
        "src/base/arena.c",
        "arena_give(arena, at, length, EXTENT_KEPT);",
        "arena_give(arena, at, length, EXTENT_CLEAN);",
    ),
    Fault(
        "long freed extents keep their pages",
        "src/base/arena.c",
        "\t    arena_punch(arena, extent.at, extent.length))\n",
        "\t    false)\n",
    ),
    Fault(
        "a forked child believes that it still forks",
        "src/base/arena.c",
        "\tif (amid)\n\t\treturn;\n\tstore_relaxed(&forker, 0);\n",
        "\tif (amid)\n\t\treturn;\n",
    ),
    Fault(
        "a fork handler that allocates is not known to fork",
        "src/base/arena.c",
        "if (current || arena_forks() || refused)\n\t\treturn current && !arena_forks();",
        "if (current || refused)\n\t\treturn current;",
    ),
    Fault(
        "fork leaves an arena shared",
        "src/base/arena.c",
        "\tif (current && (current->blocks > 0 || current->extents.kept > 0))\n\t\tarena_retire(current);\n",
        "",
    ),
    Fault(
        "a retired arena does not say so",
        "src/base/arena.c",
        "store_relaxed(&arena->header->retired, 1);",
        "",
    ),
    Fault(
        "what a child still has is given back",
        "src/base/arena.c",
        "\tif (fcntl(children.file.fd, F_ADD_SEALS, F_SEAL_WRITE) != 0)\n\t\treturn false;\n",
        "",
    ),
    Fault(
        "what no child has is not given back",
        "src/base/arena.c",
        "if (extents_kind(extents, at) == EXTENT_NONE)\n",
        "if (0)\n",
    ),
    Fault(
        "a bare child writes into its parent's blocks",
        "src/base/arena.c",
        "if (memory == address && madvise(memory, length, MADV_DONTFORK) == 0) {",
        "if (memory == address) {",
    ),
    Fault(
        "a withdrawn page is the memfd's until it is written",
        "src/base/arena.c",
        "__atomic_fetch_add((char *)begin, 0, __ATOMIC_RELAXED);",
        ";",
    ),
    Fault(
        "RLIMIT_FSIZE is not looked at",
        "src/base/arena.c",
        "return !limit_is_set(RLIMIT_FSIZE) && ",
        "return ",
    ),
    Fault(
        "a file that the program has in place of an arena's is taken for it",
        "src/base/arena.c",
        "status.st_dev == file->device &&\n\t       status.st_ino == file->inode;",
        "true;",
    ),
    Fault(
        "a file that the program has in place of an arena's is sent to a peer",
        "src/transport/shm/attach.c",
        " || !arena_file_is(&place.file))",
        ")",
    ),
    Fault(
        "an arena that can be cut short is mapped",
        "src/transport/shm/attach.c",
        "return segment_is_safe(fd) && ",
        "return ",
    ),
    Fault(
        "a retired arena is still used",
        "src/transport/shm/attach.c",
        "\tif (load_acquire(&attachment_header(attachment)->retired)) {",
        "\tif (0) {",
    ),
    Fault(
        "the header of an arena counts as memory",
        "src/transport/shm/attach.c",
        "\tif (at < HEADER)\n"
        "\t\treturn NULL;\n",
        "",
    ),
    Fault(
        "a stopped sender's mapping is not withdrawn",
        FETCH,
        "\tfetch_unshare(fetch);\n",
        "",
    ),
    Fault(
        "mapped memory is handed over though one_copy is off",
        "src/transport/shm/attach.c",
        "if (vector->count != 1 || !link->connected || !peer->owner->options.one_copy)",
        "if (vector->count != 1 || !link->connected)",
    ),
    Fault(
        "calloc takes freed memory for zeros",
        "heap/heap.c",
        "return zero ? block : memset(block, 0, whole);",
        "return block;",
    ),
    Fault(
        "realloc forgets what was there",
        "heap/heap.c",
        "\tif (moved && had > 0)\n\t\tmemcpy(moved, old, had < size ? had : size);\n",
        "",
    ),
    Fault(
        "a library does not look for the preloaded one's arenas",
        "src/base/blocks.c",
        "found = preloaded ? preloaded() : NULL;",
        "found = NULL;",
    ),
    Fault(
        "what comes by a network that rests leaves it at rest",
        "src/transport/datagram/datagram.c",
        "if (n > 0)\n\t\tdatagram_stir(datagram);",
        "if (n > 0)\n\t\tdatagram->quiet = 0;",
    ),
    Fault(
        "a network rests where there are no rings",
        "src/transport/datagram/datagram.c",
        "return owner->locals > 0 ? QUIET_POLLS : UINT32_MAX;",
        "return QUIET_POLLS;",
    ),
    Fault(
        "a network rests though only some of its peers go by adapters",
        "src/transport/verbs/pair.c",
        "\tbool counted = !pair->dead && (pair->way == WAY_QUEUE || pair->heard);\n",
        "\tbool counted = !pair->dead;\n",
    ),
    Fault(
        "a copy in steps forgets its end",
        "src/base/bytes.c",
        "in += BYTES_STEP)\n\t\tmemcpy(out, in, BYTES_STEP);\n\tmemcpy(out, in, length);",
        "in += BYTES_STEP)\n\t\tmemcpy(out, in, BYTES_STEP);",
    ),
    Fault(
        "what is copied to where another core read is a byte short",
        "src/base/bytes.c",
        "length < BYTES_MOVE_MIN && !is_slow(to, from))\n\t\tbytes_move(to, from, length);",
        "length < BYTES_MOVE_MIN && !is_slow(to, from))\n\t\tbytes_move(to, from, length - 1);",
    ),
    Fault(
        "of several rings the same are polled each time",
        SHM,
        "\tshm->turn = end < shm->in_count ? end : 0;\n",
        "",
    ),
    Fault(
        "what is owed to one of several producers is never told",
        SHM,
        "\tif (!list_empty(&shm->owing))\n\t\tshm_publish_late(shm);\n",
        "",
    ),
    Fault("a ring may begin behind its end", SEGMENT, " || first >= RING_SLOTS", ""),
    Fault(
        "a ring that ends is still owed something",
        SHM,
        "\t\t\tshm_settle(shm->in[i].ring);\n\t\telse\n",
        "\t\t\t;\n\t\telse\n",
    ),
    Fault(
        "who waits for a peer of the same core is made to wait",
        "src/endpoint/wait.c",
        "return peer->transport == transports[TRANSPORT_SHM] && !peer->core_shared;",
        "return peer->transport == transports[TRANSPORT_SHM];",
    ),
    Fault(
        "behind a message's first piece a stream begins",
        "src/transport/shm/ring.c",
        "\tif (more)\n\t\treturn;\n\tlink->turn++;",
        "\tlink->turn++;",
    ),
    Fault(
        "chunks grow beyond their cap",
        "src/transport/verbs/plan.c",
        "\tif (walk->size > cap)\n\t\twalk->size = cap;\n",
        "",
    ),
    Fault(
        "hellos of other versions are heard",
        "src/transport/verbs/hello.c",
        "bytes[0] != HELLO_VERSION || ",
        "",
    ),
    Fault(
        "a queue whose receives are shorter than records is taken",
        "src/transport/verbs/pair.c",
        "hello.frame_max >= pair->card->setup.slot - CARD_FRONT)",
        "hello.frame_max > sizeof(struct head))",
    ),
    Fault(
        "who talks has maintenance as often as who waits",
        CADENCE,
        "(since_ns >= waiting_ns && cadence_waited(cadence) >= waiting_ns)",
        "since_ns >= waiting_ns",
    ),
    Fault(
        "a way to copy that is as fast is voted for",
        TAKES,
        " + takes->least_ns[false] / TAKES_GAIN < takes->least_ns[false];",
        " < takes->least_ns[false];",
    ),
    Fault(
        "one vote is enough for a way to copy",
        TAKES,
        "takes->now = takes->votes >= TAKES_VOTES;",
        "takes->now = takes->votes > 0;",
    ),
    Fault(
        "a way to copy that was faster once stays the rule",
        TAKES,
        "\telse if (!faster && takes->votes > 0)\n\t\ttakes->votes--;\n",
        "",
    ),
    Fault(
        "ballots on copies are as frequent as at first",
        TAKES,
        "takes->ballots < TAKES_BALLOTS ? TAKES_SOON : TAKES_REST;",
        "TAKES_SOON;",
    ),
    Fault(
        "what met the other way's lines counts in a ballot on copies",
        TAKES,
        "takes->left <= TAKES_PART - TAKES_SKIP && took_ns",
        "took_ns",
    ),
    Fault(
        "payloads of streams count in a ballot on copies",
        RING,
        "length <= BYTES_STEP || (record->flags & RECORD_STREAM)",
        "length <= BYTES_STEP",
    ),
    Fault(
        "the last bytes of what is taken are not copied",
        "src/base/bytes.c",
        "\tmemcpy(out, in, length);\n}\n#else",
        "\tmemcpy(out, in, length & ~(size_t)1);\n}\n#else",
    ),
    Fault(
        "who talks has no maintenance",
        CADENCE,
        "since_ns >= CADENCE_MAINTAIN_NS || (",
        "(",
    ),
    Fault(
        "quick polls read the clock as often as slow ones",
        CADENCE,
        "\t\tcadence->polls *= 2;",
        "\t\t;",
    ),
    Fault(
        "polls that have become slow read the clock as rarely",
        CADENCE,
        "\t\tcadence->polls = CADENCE_POLLS_MIN;",
        "\t\t;",
    ),
    Fault(
        "polls that are skipped count twice",
        CADENCE,
        "cadence->left -= polls;",
        "(void)cadence, (void)polls;",
    ),
    Fault(
        "who is back at once is timed as often as others",
        PATIENCE,
        "back ? PATIENCE_REST_BACK : PATIENCE_REST_MAX",
        "PATIENCE_REST_MAX",
    ),
    Fault(
        "who waits for nothing is asked at each poll",
        PATIENCE,
        "\tif (patience->rest == 0)\n\t\treturn polls;\n",
        "",
    ),
    Fault(
        "a call that waits reads no clock of its own",
        WAIT,
        "cadence->read_ns == seen_ns && turn % CADENCE_POLLS_MAX != 0)",
        "cadence->read_ns == seen_ns)",
    ),
    Fault(
        "who is near is taken for far",
        "src/transport/shm/ring.c",
        "if (away_ns > here_ns + FAR_NS)",
        "if (away_ns + FAR_NS > here_ns)",
    ),
    Fault(
        "who was far once stays it",
        "src/transport/shm/ring.c",
        "return far > 0 ? far - 1 : far;",
        "return far;",
    ),
    Fault(
        "maintenance comes as often where ranks share a core",
        CADENCE,
        "shared ? CADENCE_WAITING_SHARED_NS : CADENCE_WAITING_NS",
        "CADENCE_WAITING_NS",
    ),
    Fault(
        "who has backpressure sends no data by an adapter himself",
        "src/transport/verbs/verbs.c",
        "pair_of(peer)->rts_only ? 0",
        "peer->owner->backpressure ? 0",
    ),
    Fault(
        "backpressure is told by an adapter when credit is",
        "src/transport/verbs/records.c",
        "\tpair->tell_at = 0;\n",
        "",
    ),
    Fault(
        "backpressure is over with the first message that goes without its front",
        "src/transport/verbs/records.c",
        "(front->head.flags & HEAD_BACKPRESSURE) | ",
        "",
    ),
    Fault(
        "whose queue gave way is not asked again whether it is connected",
        "src/transport/verbs/pair.c",
        " || pair_is_awaited(pair))",
        ")",
    ),
    Fault(
        "queues grow with the number of peers",
        "src/transport/verbs/pair.c",
        "\tif (card->queue_count >= card->setup.queues)\n\t\treturn THOLE_ERR_AGAIN;\n",
        "",
    ),
    Fault(
        "a window that ends stays lent",
        "src/transport/verbs/bulk.c",
        "\t\tlend_end(pair, container_of(node, struct verbs_lend, node));\n\twhile ((node = find(&pair->serves",
        "\t\tlist_remove(node);\n\twhile ((node = find(&pair->serves",
    ),
    Fault(
        "who has lost a peer tells it that it has closed",
        "src/transport/verbs/pair.c",
        "{.flags = HELLO_LOST, .share = 1}",
        "{.flags = HELLO_ENDED, .share = 1}",
    ),
    Fault(
        "a fetch goes before those that wait for bays",
        "src/transport/verbs/bulk.c",
        "list_empty(&fetch->pair->card->hungry) && ",
        "",
    ),
    Fault(
        "a fetch that one bay is enough for goes before one that waits for several",
        "src/transport/verbs/bulk.c",
        " && status != THOLE_ERR_MEMORY &&",
        " &&",
    ),
    Fault(
        "a queue gives way before its peer could use it",
        "src/transport/verbs/pair.c",
        "return !pair->proven && pair->card->now_ns",
        "return false && pair->card->now_ns",
    ),
    Fault(
        "a peer that computes has all bays",
        "src/transport/verbs/pipeline.c",
        "if (pair->blind > 0 &&",
        "if (false &&",
    ),
    Fault(
        "bays to send from go to the first pairs alone",
        "src/transport/verbs/card.c",
        "\tif (starved)\n\t\tcard_turn_from(card, starved);\n",
        "\t(void)card_turn_from;\n",
    ),
    Fault(
        "a sender with few slots does not say so",
        "src/transport/verbs/records.c",
        "\t\thead->flags |= HEAD_SOON;\n",
        "\t\thead->flags |= 0;\n",
    ),
    Fault(
        "each message of a slow stream has a note of its own",
        "src/transport/verbs/card.h",
        "CARD_OWED = 100000000, ",
        "CARD_OWED = 20000, ",
    ),
    Fault(
        "a peer alone may send as little as one of many",
        "src/transport/verbs/card.c",
        "(parts < setup->queues ? parts : setup->queues)",
        "setup->queues",
    ),
    Fault(
        "who closes waits for what it could ask for",
        "src/transport/verbs/records.c",
        "\t\tnote_post(pair, HEAD_SOON);\n",
        "",
    ),
    Fault(
        "records by the queue do not wait for those by the connection",
        "src/transport/verbs/pair.c",
        "\tpair->behind = pair->way == WAY_NETWORK;\n",
        "",
    ),
    Fault(
        "who waits for an answer to what went by the queue watches nobody",
        "src/transport/verbs/verbs.c",
        "\t\tdatagram_transport.watch(peer);\n",
        "\t\t(void)peer;\n",
    ),
    Fault(
        "a transfer begins anew with the next queue",
        "src/transport/verbs/pipeline.c",
        "\tplan_begin(&fetch->walk, &plan, fetch->at, fetch->length);\n",
        "\tfetch->at = 0;\n\tplan_begin(&fetch->walk, &plan, fetch->at, fetch->length);\n",
    ),
    Fault(
        "what is kept without a monitor does not follow its mapping",
        "src/transport/verbs/card.c",
        "\t*access |= NIC_ACCESS_PAGED;\n",
        "\t(void)access;\n",
    ),
    Fault(
        "a short record of any flags is taken",
        "src/transport/verbs/records.c",
        "may = HEAD_SOON | (RECORD_IMM | RECORD_PLAIN) << HEAD_RECORD_FLAGS,",
        "may = HEAD_SOON | 0xff << HEAD_RECORD_FLAGS,",
    ),
    Fault(
        "a short record that is longer than a record is said to have its payload",
        "src/transport/verbs/records.c",
        "head->length <= RECORD_INLINE_MAX ? head->length : RECORD_EXTERNAL;",
        "head->length <= RECORD_INLINE_MAX ? head->length : RECORD_INLINE_MAX;",
    ),
    Fault(
        "a message that is waited for goes as a short record",
        "src/transport/verbs/records.c",
        "\t       !(record->flags & ~(RECORD_IMM | RECORD_PLAIN));",
        "\t       !(record->flags & ~(RECORD_IMM | RECORD_PLAIN | RECORD_MORE));",
    ),
    Fault(
        "page faults are used of an adapter that has none",
        "src/transport/verbs/port.h",
        "use && port->paging ? NIC_CAN_PAGE_FAULT : 0",
        "use ? NIC_CAN_PAGE_FAULT : 0",
    ),
    Fault(
        "page faults make no registration last",
        "src/transport/verbs/card.h",
        "return card->carrier->watch || card->nic->limits.can & NIC_CAN_PAGE_FAULT;",
        "return card->carrier->watch;",
    ),
    Fault(
        "silent works are not over with the next one",
        "src/transport/verbs/pair.c",
        "1 + (id >> WORK_SILENT_SHIFT & WORK_SILENT)",
        "1 + (id >> WORK_SILENT_SHIFT & 0)",
    ),
    Fault(
        "a chunk without immediate data is not told of",
        "src/transport/verbs/pipeline.c",
        "\tif (!imm)\n\t\trecords_tell_chunk(pair);\n",
        "",
    ),
    Fault(
        "a bay's old flags are taken for a new chunk's",
        "src/transport/verbs/pipeline.c",
        "return (uint64_t)id << 32 | (chunk + 1);",
        "return (uint64_t)id << 32 | 1;",
    ),
    Fault(
        "what a sender without flags has written stays where flags are",
        "src/transport/verbs/pipeline.c",
        "if (pipeline_flags(card) && !fetch->walk.plan.flags)",
        "if (pipeline_flags(card) && !fetch->bay_count)",
    ),
    Fault(
        "a cap is as if the fetcher's adapter had sent the chunks",
        "src/transport/verbs/pipeline.c",
        "fetch->length, pipeline_longest(pair, plan.flags), &plan",
        "fetch->length, pipeline_longest(pair, pipeline_flags(card)), &plan",
    ),
    Fault(
        "a first chunk goes to who has asked for another layout",
        "src/transport/verbs/pipeline.c",
        " && serve->walk.plan.flags == pipeline_flags(card);",
        ";",
    ),
    Fault(
        "one peer's cap is another's",
        "src/transport/verbs/choose.c",
        "if (cap > longest) /* it",
        "if (cap > 2 * longest) /* it",
    ),
    Fault(
        "a window is lent as often as it is asked for",
        "src/transport/verbs/bulk.c",
        "if (address && !lend) /* once",
        "if (address) /* once",
    ),
    Fault(
        "a window is handed over whether its peer is told of it or not",
        "src/transport/datagram/transmit.c",
        "\t\t\treturn THOLE_ERR_AGAIN;\n\t}\n\tif (length == 0 && record->length",
        "\t\t\treturn THOLE_ERR_AGAIN;\n\t\thandover_note(connection, &packet.message.record);\n\t}\n"
        "\tif (length == 0 && record->length",
    ),
    Fault(
        "words between adapters take a backlog from those that wait for room",
        "src/transport/verbs/verbs.c",
        "\tpeer->stalled = stalled; /*",
        "\tpeer->stalled = false; /*",
    ),
    Fault(
        "a try for a queue is never given up",
        "src/transport/verbs/verbs.c",
        "\telse\n\t\tpair_give_up(pair);\n",
        "",
    ),
    Fault(
        "windows that end by the connection stay lent",
        "src/transport/verbs/verbs.c",
        "\t\tbulk_verbs_window_end(pair_of(peer), id);",
        "\t\t(void)id;",
    ),
    Fault(
        "a mover keeps windows that end by a queue",
        "src/transport/verbs/verbs.c",
        "\t\tdatagram_transport.window_end(peer, id);",
        "\t\t(void)id;",
    ),
    Fault(
        "offers of windows that end by the connection are kept",
        "src/transport/verbs/verbs.c",
        "\t\tbulk_verbs_offer_end(pair, record->tag);",
        "\t\t(void)pair;",
    ),
    Fault(
        "a transfer of a queue that is over goes on by the next one",
        "src/transport/verbs/records.c",
        "\t\tif (queue)\n\t\t\tbulk_verbs_record",
        "\t\tif (pair)\n\t\t\tbulk_verbs_record",
    ),
    Fault(
        "who is given up as a queue still says hello",
        "src/transport/verbs/pair.c",
        "\tpair->state = PAIR_IDLE;\n\tpair->say_ns = UINT64_MAX;\n",
        "\tpair->state = PAIR_IDLE;\n",
    ),
    Fault(
        "a region that is exposed no more is still reached",
        "src/transport/verbs/access.c",
        "\tif (export)\n\t\texport_withdraw(card, export);",
        "\t(void)export;",
    ),
    Fault(
        "a region whose mapping has changed is still reached",
        "src/transport/verbs/access.c",
        "\t\tif (__atomic_load_n(export->word, __ATOMIC_ACQUIRE) != export->generation)\n\t\t\texport_withdraw",
        "\t\tif (!export->word)\n\t\t\texport_withdraw",
    ),
    Fault(
        "puts and gets end with their queue",
        "src/transport/verbs/access.c",
        "pair->dead ? gone : THOLE_ERR_AGAIN",
        "pair->dead ? gone : 0",
    ),
    Fault(
        "puts and gets by the kernel go to regions that have ended",
        "src/transport/shm/access.c",
        "	if (grant && grant_is_old(link, grant)) {",
        "	if (false) {",
    ),
    Fault(
        "who is about to reach into a region does not look whether it has ended",
        "src/transport/shm/access.c",
        "if (load_acquire(&segment->withdrawals) == withdrawals)",
        "if (withdrawals != NO_REGION)",
    ),
    Fault(
        "the end of a region is not said",
        "src/transport/shm/access.c",
        "store_release(&link->in.segment->withdrawals, link->in.segment->withdrawals + 1);",
        "store_release(&link->in.segment->withdrawals, link->in.segment->withdrawals);",
    ),
    Fault(
        "the end of a region does not wait for who is in it",
        "src/transport/shm/access.c",
        "if (!load_acquire(&link->in.segment->accessing) || !connect_lives(link->peer)) {",
        "if (link) {",
    ),
    Fault(
        "who stays in a region that ends finds the door open",
        "src/transport/shm/access.c",
        "	door_shut(link, now_ns);\n	return door_is_left(",
        "	return link || door_is_left(",
    ),
    Fault(
        "who was shut out is made offers, whose way in cannot be written",
        "src/transport/shm/door.c",
        "if (link->shut_ns)\n		return 0;",
        "if (!link)\n		return 0;",
    ),
    Fault(
        "who stays in a region that ends goes on to write where it is mapped",
        "src/transport/shm/access.c",
        "if (shared && access_is_late(link, now_ns)) {",
        "if (!shared && access_is_late(link, now_ns)) {",
    ),
    Fault(
        "what was freed is touched as its region is withdrawn",
        "src/base/arena.c",
        "if (extents_kind(&arena->extents, at) == EXTENT_USED) /* else",
        "if (arena->retired) /* else",
    ),
    Fault(
        "a peer of another PID namespace counts as ended",
        "src/transport/shm/connect.c",
        "return connection_lasts(link);",
        "return false;",
    ),
    Fault(
        "a peer of another PID namespace never ends",
        "src/transport/shm/connect.c",
        "link->ended |= link->pid <= 0;",
        "link->ended |= link->pid < 0;",
    ),
    Fault(
        "a greeting that the kernel holds back ends its peer",
        "src/transport/shm/connect.c",
        "if (errno == ETOOMANYREFS)",
        "if (errno == 0)",
    ),
    Fault(
        "who gave up waiting for a greeting is lost",
        "src/transport/shm/connect.c",
        "if (link->connecting && errno == EPIPE) {",
        "if (!link->connecting && errno == EPIPE) {",
    ),
    Fault(
        "who reads a region that has ended meanwhile takes that for what it asked for",
        "src/transport/shm/access.c",
        "if (!error && !row->put && !access_has_read(link, row->withdrawals))",
        "if (!error && row->put && !access_has_read(link, row->withdrawals))",
    ),
    Fault(
        "who was shut out is let in for puts again",
        "src/transport/shm/access.c",
        "else if (access && owner->options.one_copy && !link->shut_ns)",
        "else if (access && owner->options.one_copy)",
    ),
    Fault(
        "a region that is not there when it is asked for is never asked for again",
        "src/transport/shm/access.c",
        "if (record->imm == NO_REGION) {",
        "if (record->length != RECORD_EXTERNAL) {",
    ),
    Fault(
        "what is begun beside a sleeper waits for its next poll",
        "src/transport/shm/bulk.h",
        "\ttransport_rouse(shm->owner, 0);\n",
        "",
    ),
    Fault(
        "what is sent beside a sleeper waits for its next poll",
        "src/transport/datagram/connection.c",
        "\t\tlist_push_back(&connection->engine->dirty, &connection->dirty_node);\n"
        "\ttransport_rouse(connection->engine->owner, 0);\n",
        "\t\tlist_push_back(&connection->engine->dirty, &connection->dirty_node);\n",
    ),
    Fault(
        "who was woken for another thread's calls finds the descriptor readable for long",
        "src/endpoint/timer.c",
        "\t\tendpoint_timer(endpoint, 0);\n",
        "\t\t;\n",
    ),
    Fault(
        "gets of a row are made as puts",
        "src/transport/shm/access.c",
        "	       row->put == access->put && row->withdrawals",
        "	       row->withdrawals",
    ),
    Fault(
        "each put by the kernel is a call of its own",
        "src/transport/shm/access.c",
        "if (link->row->bytes >= ACCESS_BYTES)",
        "if (link->row->bytes)",
    ),
    Fault(
        "the kernel's refusal of a put is forgotten",
        "src/transport/shm/access.c",
        "			copy_refused(peer);",
        "			(void)peer;",
    ),
    Fault(
        "puts whose memory is the caller's again are made from there",
        "src/message/remote.c",
        "	return request_own_data(request);\n}\n\n/* Start a put or get",
        "	return 0;\n}\n\n/* Start a put or get",
    ),
    Fault(
        "regions whose owner is told of each access are reached without it",
        "src/message/remote.c",
        "*access_p = region->access & THOLE_NOTIFY ? 0 : region->access",
        "*access_p = region->access",
    ),
    Fault(
        "puts of a program that computes wait for its next call",
        "src/transport/shm/shm.c",
        "	return list_empty(&shm->accessing);",
        "	return shm != NULL;",
    ),
    Fault(
        "who ends before it is heard of is heard no more",
        SHM,
        "	if (shm_ends_unheard(shm))\n		connect_accept_all(owner, now_ns);\n",
        "	(void)now_ns;\n	(void)shm_ends_unheard;\n",
    ),
    Fault(
        "a connection lasts as long as a child has a copy",
        DISCARD,
        "	shutdown(fd, SHUT_RDWR);\n	if (setsockopt",
        "	shutdown(fd, SHUT_RD);\n	if (setsockopt",
    ),
    Fault(
        "a child listens for its parent",
        CONNECT,
        "	forked_add(&watch->forked, &watch->fd, 1);\n",
        "	(void)forked_add;\n",
    ),
    Fault(
        "a child has the connections that came to its parent",
        CONNECT,
        "	forked_add(&watch->forked, &watch->fd, 1);\n",
        "	if (command == EPOLL_CTL_ADD)\n		forked_add(&watch->forked, &watch->fd, 1);\n",
    ),
    Fault(
        "who is dead when his process is to be watched lives for ever",
        CONNECT,
        "	if (fd < 0 && errno == ESRCH)\n		return false;\n",
        "",
    ),
    Fault(
        "an event loop sleeps on though another thread has looked",
        SLEEP,
        "\t\tendpoint_rouse(&endpoint->base, clock_now_ns() + LOOP_SLEEP_NS);\n",
        "",
    ),
    Fault(
        "an event loop takes back what is to wake another thread's",
        SLEEP,
        "\tif (whole->loops_until_ns == 0 && !another)\n",
        "\tif (whole->loops_until_ns == 0 || !another)\n",
    ),
    Fault(
        "event loops of several threads keep each other awake",
        SLEEP,
        "\tif (whole->roused && whole->rouse_ns <= now_ns)\n\t\tendpoint_roused(endpoint);\n",
        "",
    ),
    Fault(
        "an event loop is forgotten as another thread does not sleep after all",
        SLEEP,
        "if (longest == 0 && endpoint_wakes_another(whole)) {",
        "if (0) {",
    ),
    Fault(
        "an event loop that is alone again still wakes for others",
        SLEEP,
        "\telse if (now_ns >= whole->loops_until_ns)\n\t\twhole->loops_until_ns = 0;\n",
        "",
    ),
    Fault(
        "who tends takes an event loop's wake-up",
        STAND_IN,
        "\tendpoint_leave(endpoint);\n\treturn tending;",
        "\tendpoint_unlock(endpoint);\n\treturn tending;",
    ),
    Fault(
        "who drains takes an event loop's wake-up",
        STAND_IN,
        "\tendpoint_leave(endpoint);\n\treturn over;",
        "\tendpoint_unlock(endpoint);\n\treturn over;",
    ),
    Fault(
        "the progress thread comes round all the time while an event loop does not come",
        STAND_IN,
        "if (longest > 0 && rousing)",
        "if (longest > 0 && rousing && !thread)",
    ),
    Fault(
        "an event loop hears late of what the progress thread has found",
        STAND_IN,
        "clock_now_ns());\n\t\tendpoint_leave(endpoint);\n\t\tif (longest",
        "clock_now_ns());\n\t\tendpoint_unlock(endpoint);\n\t\tif (longest",
    ),
    Fault(
        "others take back what is to wake an event loop",
        "src/endpoint/timer.c",
        "\tif (endpoint_wakes_another(whole))\n\t\treturn;\n",
        "",
    ),
    Fault(
        "who waits beside an event loop that does not come never sleeps",
        SLEEP,
        " && !endpoint_is_rousing(endpoint, now_ns)) {",
        ") {",
    ),
    Fault(
        "an event loop that is to be woken soon is woken late",
        "src/endpoint/timer.c",
        "\tif (whole->roused && whole->rouse_ns <= when_ns)\n\t\treturn;\n",
        "",
    ),
    Fault(
        "an event loop hears late of what another thread has found",
        "src/endpoint/sleep.c",
        "	bool found = whole->calls != whole->armed_calls;\n",
        "	bool found = false;\n",
    ),
    Fault(
        "an event loop is roused by its own thread",
        "src/endpoint/sleep.c",
        "		whole->armed = false;\n	} else if",
        "	} else if",
    ),
    Fault(
        "what is put off is lost as its endpoint closes",
        "src/transport/shm/access.c",
        "	access_make_all(shm_of(owner));\n	access_close_all",
        "	access_close_all",
    ),
    Fault(
        "an access that was taken back is made by the target, too",
        "src/transport/shm/access.c",
        "	    !asked_claim(link->in.segment, record->imm, ASKED_TARGET))",
        "	    (!asked_claim(link->in.segment, record->imm, ASKED_TARGET) && record->imm == 0))",
    ),
    Fault(
        "an access that the target has claimed is taken back",
        "src/transport/shm/access.c",
        "if (!access || !asked_claim(link->out.segment, number, ASKED_ORIGIN))",
        "if (!access || (!asked_claim(link->out.segment, number, ASKED_ORIGIN) && number == 0))",
    ),
    Fault(
        "short accesses wait for a target that does not come",
        "src/transport/shm/access.c",
        "|| ++link->asked_turns < ACCESS_ASK_TURNS)",
        "|| ++link->asked_turns > 0)",
    ),
    Fault(
        "who sleeps goes on to wait for a target that does not come",
        "src/transport/shm/access.c",
        "struct shm_peer, active)->asked_turns = ACCESS_ASK_TURNS;",
        "struct shm_peer, active)->asked_turns = 0;",
    ),
    Fault(
        "a target that did not come is asked again and again",
        "src/transport/shm/access.c",
        "	link->absent = true;",
        "	link->absent = false;",
    ),
    Fault(
        "a target that did not come once is never asked again",
        "src/transport/shm/access.c",
        "- link->asked_end) < 0)",
        "- link->asked_end) < INT64_MAX)",
    ),
    Fault(
        "what a peer asks to be put reaches beyond the region",
        "src/transport/shm/access.c",
        "	    offset > memory_p->iov_len || length > memory_p->iov_len - offset)",
        "	    offset > memory_p->iov_len)",
    ),
    Fault(
        "a peer's put is made where the region allows none",
        "src/transport/shm/access.c",
        "&access) || !(access & needed) ||\n	    offset > memory_p->iov_len",
        "&access) || access > needed + 8 ||\n	    offset > memory_p->iov_len",
    ),
    Fault(
        "of a get that was asked for any length is taken",
        "src/transport/shm/access.c",
        "} else if (length != (access->put ? 0 : access->vector->length)) {",
        "} else if (length > access->vector->length) {",
    ),
    Fault(
        "what is private is taken for shared",
        SHARED,
        "|| rights[3] != 's'",
        "",
    ),
    Fault(
        "another file of this length is taken for the region's",
        SHARED,
        "&& extent->inode == file->inode;",
        ";",
    ),
    Fault(
        "a peer's arena is mapped, which a fork would take away",
        SHARED,
        " || arena_is_near((void *)(uintptr_t)address)",
        "",
    ),
    Fault(
        "a mapping for reading is taken to write",
        SHARED,
        " || (search->write && !extent->write)",
        "",
    ),
    Fault(
        "a peer of another version is waited for for ever",
        SILENCE,
        " && !handshake_is_foreign(connection))",
        ")",
    ),
    Fault(
        "a peer of another version is not told of it",
        HANDSHAKE,
        "type != PACKET_CONNECT || length < engine->codec->nack",
        "type == PACKET_CONNECT || length < engine->codec->nack",
    ),
    Fault(
        "who waits for a peer that was turned away is not told",
        CONNECT,
        "\t\tif (socket_credentials(shm, fd, &pid) == 0)\n\t\t\tgreeting_lost(",
        "\t\tif (socket_credentials(shm, fd, &pid) != 0)\n\t\t\tgreeting_lost(",
    ),
    Fault(
        "a greeting of another version is refused without a word",
        CONNECT,
        "\tgreeting_tell_version(owner, &greeting);\n",
        "\t(void)greeting_tell_version;\n",
    ),
    Fault(
        "what its owner may only read is written where it is mapped here",
        SHARED,
        ".length = length, .write = write};",
        ".length = length};",
    ),
    Fault(
        "what lies behind a file's end is mapped",
        SHARED,
        " || !mapping_is_whole(mapping + before, length)",
        "",
    ),
    Fault(
        "what is mapped begins with its page",
        SHARED,
        "mapping + before, made.write};",
        "mapping, made.write};",
    ),
    Fault(
        "children have mappings of regions",
        SHARED,
        "	madvise(mapping, before + length, MADV_DONTFORK);\n",
        "",
    ),
    Fault(
        "files on a disk count as memory",
        SHARED,
        """"/dev/shm/", """,
        """"/dev/shm/", "/", """,
    ),
    Fault(
        "mappings of regions that ended stay",
        "src/transport/shm/access.c",
        "	if (node && link->out.segment && grant_is_old(",
        "	if (false && grant_is_old(",
    ),
    Fault(
        "mappings of regions outlive their endpoint",
        "src/transport/shm/access.c",
        "		grants_clear(&link->grants, &shm->grants);\n		free(",
        "		free(",
    ),
    Fault(
        "a region that is mapped is reached by the kernel",
        "src/transport/shm/access.c",
        "	bool shared = grant->here.mapping && (",
        "	bool shared = false && (",
    ),
    Fault(
        "a put into an arena that a fork took away is not made again",
        "src/transport/shm/access.c",
        "	if (!shared && !attach_is_current(peer, address, length, access->put, memory))",
        "	if (false)",
    ),
    Fault(
        "who has others at its core spares its yields",
        YIELD,
        "	if (yield_others_ran(self))\n		self->made = YIELD_STAYS;\n	return result;",
        "	return result;",
    ),
    Fault(
        "yields are made for once where others go on running",
        YIELD,
        "if (self->calls % YIELD_AGAIN == 0 && yield_others_ran(self))",
        "if (false)",
    ),
    Fault(
        "a switch of the kernel's own counts as another's turn",
        YIELD,
        "	yield_others_ran(self); /* switches that were no yield's do not count */\n",
        "",
    ),
    Fault(
        "yields are spared although a second thread may wait for a lock",
        YIELD,
        "	if (__atomic_load_n(&several, __ATOMIC_RELAXED))",
        "	if (false)",
    ),
    Fault(
        "ranks that share cores spare their yields",
        YIELD,
        "	if (!job_oversubscribed(endpoint) && !thole_option_get(",
        "	if (!thole_option_get(",
    ),
    Fault(
        "who waits by UCX's interface is not seen to",
        "ucx/ucx_worker.c",
        "	yield_look();\n",
        "",
    ),
    Fault(
        "yields of an MPICH that goes by UCX's interface are all made",
        "ucx/ucx_worker.c",
        "	yield_spare_if_told(worker->thole);\n",
        "",
    ),
    Fault(
        "a death is told before the launcher can see it",
        "src/message/peer.c",
        "		endpoint->base.died(&endpoint->base);\n",
        "		;\n",
    ),
    Fault(
        "a launcher has its time for whatever is lost",
        "src/message/peer.c",
        "	if (status == THOLE_ERR_PEER && endpoint->base.died)",
        "	if (endpoint->base.died)",
    ),
    Fault(
        "a launcher has its time for each process that dies",
        "src/endpoint/endpoint.c",
        "	owner->died = NULL;\n",
        "",
    ),
    Fault(
        "processes wait for a launcher that there is not",
        "src/endpoint/endpoint.c",
        "	if (options->local_ranks)\n",
        "	if (endpoint)\n",
    ),
    Fault(
        "a launcher that gets its time later has none",
        "src/endpoint/endpoint.c",
        "	if (owner->options.launcher_grace == 0)\n		return;\n",
        "",
    ),
    Fault(
        "a launcher has its time until the next signal",
        "src/base/clock.h",
        "while (nanosleep(&left, &left) != 0 && errno == EINTR)\n",
        "while (nanosleep(&left, &left) == EINTR)\n",
    ),
    Fault(
        "who closes waits for a launcher",
        "src/endpoint/endpoint.c",
        "	endpoint->base.died = NULL; /* nobody is told any more */\n",
        "",
    ),
    Fault(
        "who sleeps while others have its core keeps its other endpoints from getting on",
        "src/endpoint/wait.c",
        "(alone ? CONTENTION_SLEEP_NS : CONTENTION_SLEEP_BESIDE_NS)",
        "CONTENTION_SLEEP_NS",
    ),
    Fault(
        "everybody's yields are taken over",
        IMPORT,
        "	if (!import_is_mpich(info->dlpi_name))",
        "	if (false)",
    ),
    Fault(
        "imports are written where the linker has forbidden it",
        IMPORT,
        "	if (sealed && mprotect(",
        "	if (false && mprotect(",
    ),
    Fault(
        "imports that are not called by the linker's table stay",
        IMPORT,
        "(kind == IMPORT_CALL || kind == IMPORT_DATA)",
        "kind == IMPORT_CALL",
    ),
    Fault(
        "all blocks of the MPI library are shared",
        HEAP_OF_MPI,
        "length >= heap_least ? blocks()",
        "length > 0 ? blocks()",
    ),
    Fault(
        "blocks of an arena are given to the C library",
        HEAP_OF_MPI,
        "	if (!arena_is_near(block) || !blocks()->free(block))",
        "	if (true)",
    ),
    Fault(
        "a block that moves forgets what was in it",
        HEAP_OF_MPI,
        "		memcpy(other, block, length < had ? length : had);",
        "		other = other;",
    ),
    Fault(
        "a block that moves stays where it was, too",
        HEAP_OF_MPI,
        "	if (other || length == 0)\n		prov_heap_free(block);",
        "	if (length == 0)\n		prov_heap_free(block);",
    ),
    Fault(
        "memory of MPICH's windows is its own",
        "provider/prov_ep.c",
        "		prov_heap_share(least);",
        "		(void)least;",
    ),
    Fault(
        "accesses reach beyond regions",
        "src/transport/grants.c",
        " || access->offset > grant->length || length > grant->length - access->offset)",
        ")",
    ),
    Fault(
        "queues in use are closed before anything has gone by them",
        "src/transport/verbs/pair.c",
        "== PAIR_OPEN && card->now_ns - pair->open_ns < CARD_HELD",
        "== PAIR_OPEN && !pair->queue",
    ),
    Fault(
        "who looks after what was sent has peers say at once what they handled",
        STAND_IN,
        "\ttending = endpoint_tending(endpoint);\n\tif (tending",
        "\tendpoint_hasten(endpoint);\n\ttending = endpoint_tending(endpoint);\n\tif (tending",
    ),
    Fault(
        "the wire is taken for as slow as a read that waits for pages",
        "src/transport/verbs/bulk.c",
        "if (fetch->way == CHOOSE_PIPELINE || fetch->reused)",
        "if (fetch->way)",
    ),
    Fault(
        "a record that an adapter had no room for keeps its number",
        "src/transport/verbs/records.c",
        "\tpair->next--;\n\thead_unsaid",
        "\thead_unsaid",
    ),
    Fault(
        "a queue that refuses the same record each time is made again and again",
        "src/transport/verbs/card.h",
        "\t\tif (pair->state == PAIR_OPEN)\n\t\t\tpair_fails(pair);\n\t\tpair_break(pair);",
        "\t\tpair_break(pair);",
    ),
    Fault(
        "a queue that has refused a record is used on",
        "src/transport/verbs/card.h",
        "if (status == THOLE_ERR_SYSTEM) { /*",
        "if (status > 0) { /*",
    ),
    Fault(
        "each record asks for news while slots are few",
        "src/transport/verbs/records.c",
        "first >= pair->asked &&",
        "",
    ),
    Fault(
        "a sender asks for what its peer says by itself",
        "src/transport/verbs/records.c",
        " && slot->number - first < share_worth(pair->granted - first);",
        " && pair->granted > first;",
    ),
    Fault(
        "notes come when half of the share is used",
        "src/transport/verbs/records.c",
        "(share < 8 ? share > 0 : share / 4)",
        "(share < 8 ? share > 0 : share / 2)",
    ),
    Fault(
        "who finds no room waits until somebody looks",
        MESSAGE,
        "\tif (peer->backlog_count)\n\t\tmessage_look(peer);",
        "\tif (peer->backlog_count)\n\t\t(void)message_look;",
    ),
    Fault(
        "who finds no room looks once, and the link was not polled",
        MESSAGE,
        "turn < LOOK_TURNS && peer->backlog_count",
        "turn < 1 && peer->backlog_count",
    ),
    Fault(
        "an answer that was lost with its queue is waited for",
        "src/transport/verbs/bulk.c",
        "fetch->state == FETCH_PULLED || fetch->state == FETCH_ASKED",
        "fetch->state == FETCH_PULLED",
    ),
    Fault(
        "a read that found no room in its queue is not tried again",
        "src/transport/verbs/bulk.c",
        "if (pair->unread && pair_has_room(pair))",
        "if (pair->unread && pair->dead)",
    ),
    Fault(
        "a registration is taken for right whatever its monitor says",
        "src/transport/verbs/bulk.c",
        "\tif (entry->word)\n\t\tentry->generation",
        "\tif (entry->word)\n\t\tentry->word = &entry->generation, entry->generation",
    ),
    Fault(
        "a record that comes again may get longer",
        "src/transport/verbs/verbs.c",
        "whole != pair->gathered_whole",
        "whole > WORD_RECORD_MAX",
    ),
    Fault(
        "a thread that is cancelled in a wait leaves the lock taken",
        "src/base/thread.h",
        "pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);",
        "pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);",
    ),
    Fault(
        "a thread that sleeps for long cannot be cancelled",
        "src/endpoint/sleep.c",
        "pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);",
        "pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);",
    ),
    Fault(
        "a thread that is cancelled leaves one behind that uses its stack",
        "src/base/discard.c",
        "cancellable = thread_keep();",
        "cancellable = PTHREAD_CANCEL_ENABLE;",
    ),
    Fault(
        "who drains an endpoint waits for longer than closing it takes",
        "src/endpoint/endpoint.c",
        "now_ns - whole->draining_ns >= endpoint->base.options.close_timeout",
        "now_ns - whole->draining_ns > UINT64_MAX / 2",
    ),
    Fault(
        "endpoints of a domain wait while another one is closed",
        "provider/prov_ep.c",
        "thole_poll(domain->charge.endpoints[slot], NULL, 0);",
        "continue;",
    ),
    Fault(
        "MX endpoints of a process wait while another one is closed",
        "mx/mx_open.c",
        "mxi_endpoint_each(mxi_open_poll, NULL);",
        "continue;",
    ),
    Fault(
        "a signal ends the allocation of shared memory",
        LIMITS,
        "sigfillset(&all);",
        "sigemptyset(&all);",
    ),
    Fault(
        "memory of a peer may be of huge pages",
        "src/transport/shm/segment.c",
        "system.f_type == TMPFS_MAGIC",
        "system.f_type != 0",
    ),
    Fault(
        "words come by a queue, too",
        "src/transport/verbs/records.c",
        "\treturn record->kind != RECORD_CARD &&\n",
        "\treturn record->kind != RECORD_NONE &&\n",
    ),
    Fault(
        "chunks may land in no bay",
        "src/transport/verbs/bulk.c",
        "\treturn serve->bay_count > 0;\n",
        "\treturn true;\n",
    ),
    Fault(
        "a window is pulled as often as a peer likes",
        "src/transport/verbs/bulk.c",
        "\tif (former) /* nobody",
        "\tif (former && !vector) /* nobody",
    ),
    Fault(
        "a peer ends what an adapter is at",
        "src/transport/verbs/bulk.c",
        "if (fetch && (fetch->state == FETCH_ASKED || fetch->state == FETCH_PULLED))",
        "if (fetch)",
    ),
    Fault(
        "a peer has all receives held for it",
        "src/transport/verbs/records.c",
        "\tif (number >= pair->promised) {",
        "\tif (number > UINT64_MAX / 2) {",
    ),
    Fault(
        "the last cap is kept whatever was measured",
        "src/transport/verbs/choose.c",
        "if (means[i].samples && means[best].samples && means[i].ns < means[best].ns)",
        "if (means[i].samples && !means[best].samples)",
    ),
    Fault(
        "a first chunk that took too long to copy stays so long",
        "src/transport/verbs/choose.c",
        "\tif (busy)\n\t\ttrip_ns -= trip_ns / (early ? 4 : 8);\n\telse if (ns > trip_ns)",
        "\tif (ns > trip_ns)",
    ),
    Fault(
        "a name that is no option goes unsaid",
        "src/base/options.c",
        "\treturn error || !values.warning[0] ? error : ",
        "\tif (error || values.warning[0])\n\t\treturn error;\n\treturn !values.warning[0] ? 0 : ",
    ),
    Fault(
        "a region is exposed for what nobody knows",
        REMOTE,
        "\tif (access & ~known)\n",
        "\tif (access & known & ~known)\n",
    ),
    Fault(
        "an adapter's hint is taken for right whatever was seen",
        "src/transport/verbs/choose.c",
        "return hint - hint / 6 <= seen && seen <= hint + hint / 6 ? hint : seen;",
        "return hint ? hint : seen;",
    ),
    Fault(
        "receives that a library refuses amid a list are taken for posted",
        "src/transport/verbs/nic_verbs.c",
        "\t\tcount = (unsigned)(bad - works); /* those before it were taken */",
        "\t\tcount += 0 * (unsigned)(bad - works);",
    ),
    Fault(
        "receives that a library has taken before it refused are free",
        "src/transport/verbs/nic_verbs.c",
        "\t\tcount = (unsigned)(bad - works); /* those before it were taken */",
        "\t\treturn 0 * (unsigned)(bad - works);",
    ),
    Fault(
        "a pair with the number of one that may have completions is taken",
        "src/transport/verbs/nic_verbs.c",
        "\tif (queue_find(verbs, queue->pair_number)) {",
        "\tif (queue_find(verbs, queue->pair_number + 1)) {",
    ),
    Fault(
        "a reason that the library returns is looked for in errno",
        "src/transport/verbs/qp.c",
        "\t\terrno = error;\n\treturn error;",
        "\t\treturn error;\n\treturn error;",
    ),
    Fault(
        "a port's new address is told to nobody",
        "src/transport/verbs/nic_verbs.c",
        "\tif (context_renew(&verbs->context))",
        "\tif (context_renew(&verbs->context) && 0)",
    ),
    Fault(
        "an address that comes again is not taken again",
        "src/transport/verbs/port.c",
        "\tconst uint8_t *const wanted[GIDS_WANTED] = {asked, port->gid};",
        "\tconst uint8_t *const wanted[GIDS_WANTED] = {port->gid, asked};",
    ),
    Fault(
        "the address of now is as good as any other one",
        "src/transport/verbs/port.c",
        "\t\t\treturn GID_WANTED - i;",
        "\t\t\treturn i ? 1 : GID_WANTED;",
    ),
    Fault(
        "the descriptors of a device that is gone keep everybody awake",
        "src/transport/verbs/nic_verbs.c",
        "\tcontext_unwatch(&verbs->context);\n",
        "",
    ),
    Fault(
        "a device that is gone is armed",
        "src/transport/verbs/nic_verbs.c",
        "\tif (!verbs->gone && !completions_arm(verbs))",
        "\tif (!completions_arm(verbs))",
    ),
    Fault(
        "what a queue that never opened has to send again keeps its pair busy",
        "src/transport/verbs/pair.c",
        "pair->connected = pair->heard = pair->again = false;",
        "pair->connected = pair->heard = false;",
    ),
    Fault(
        "a port of ours that needs a global header gets none",
        "src/transport/verbs/qp.c",
        "port->kind != PORT_INFINIBAND || port->global ||",
        "port->kind != PORT_INFINIBAND ||",
    ),
    Fault(
        "a peer's port that needs a global header gets none",
        "src/transport/verbs/qp.c",
        "\tbytes[NAME_AT_FLAGS] = port->global ? NAME_GLOBAL : 0;\n",
        "",
    ),
    Fault(
        "all packets have a global header",
        "src/transport/verbs/qp.c",
        "port->kind != PORT_INFINIBAND || port->global ||",
        "port->kind != PORT_NONE || port->global ||",
    ),
    Fault(
        "a port that needs a global header no more is as before",
        "src/transport/verbs/port.c",
        "\t    now.global == port->global &&\n",
        "",
    ),
    Fault(
        "a read that an iWARP adapter refuses is tried again",
        "src/transport/verbs/bulk.c",
        " || (status && card->nic->limits.can & NIC_LATE))",
        ")",
    ),
    Fault(
        "what a peer that goes over has lent is read",
        "src/transport/verbs/verbs.c",
        "\t\tbulk_verbs_offers_end(pair);\n",
        "",
    ),
    Fault(
        "receives that records wait in have no bound",
        "src/transport/verbs/records.c",
        "\tif (card->held_count <= card->setup.receives / 4 * 3)\n",
        "\tif (card->held_count > 0)\n",
    ),
    Fault(
        "a peer alone may not have as many wait as it was granted",
        "src/transport/verbs/records.c",
        "card->setup.receives / 4 * 3)\n\t\treturn;\n\tfor",
        "card->setup.receives / 4)\n\t\treturn;\n\tfor",
    ),
    Fault(
        "records may wait for ever",
        "src/transport/verbs/pair.c",
        "\trecords_hold_turn(pair);\n",
        "",
    ),
    Fault(
        "who holds receives for too long is seen when something else is due",
        "src/transport/verbs/pair.c",
        "\tif (records_hold_ns(pair) < deadline_ns)\n\t\tdeadline_ns = records_hold_ns(pair);\n",
        "",
    ),
    Fault(
        "receives that wait no more are counted",
        "src/transport/verbs/records.c",
        "if (--pair->card->held_count == 0)",
        "if (pair->card->held_count == 0)",
    ),
    Fault(
        "what a pair received last is lost with it",
        "src/transport/verbs/nic_verbs.c",
        "\t\tif (queue->last_receive != last)\n\t\t\treturn; /* what it has received up to that comes first */\n",
        "\t\t(void)last;\n",
    ),
    Fault(
        "a pair that takes no more does not wait for what it has received",
        "src/transport/verbs/nic_verbs.c",
        "\t\tqueue->verbs->came = 0; /* those that it has are there, and come first */\n",
        "",
    ),
    Fault(
        "a completion queue that cannot be read is an empty one",
        "src/transport/verbs/nic_verbs.c",
        "\tif (n < 0)\n\t\tnic_verbs_lose(verbs);\n",
        "",
    ),
    Fault(
        "a pair that is not destroyed is as if it were",
        "src/transport/verbs/nic_verbs.c",
        "\t\tif (!qp_destroy(&verbs->context, queue->pair))",
        "\t\tif (!qp_destroy(&verbs->context, queue->pair) && queue->verbs->gone)",
    ),
    Fault(
        "that a device is gone is lost among other events",
        "src/transport/verbs/nic_verbs.c",
        "\tif (verbs->gone && event != NIC_EVENT_GONE)\n\t\treturn; /* that was the last one */\n",
        "",
    ),
    Fault(
        "how the port is, is lost among other events",
        "src/transport/verbs/nic_verbs.c",
        "\tverbs->events[1] = port;\n",
        "\tverbs->events[1] = NIC_EVENT_DOWN;\n",
    ),
    Fault(
        "what a pair takes inline is what was asked for",
        "src/transport/verbs/qp.c",
        "\t\t*inline_p = wanted.cap.max_inline_data;\n",
        "\t\t(void)inline_p;\n",
    ),
    Fault(
        "an adapter that takes nothing inline is used",
        "src/transport/verbs/card.c",
        "nic->limits.inline_max < sizeof(struct head)",
        "nic->limits.inline_max < 1",
    ),
    Fault(
        "a queue that cannot be connected is made anew at once",
        "src/transport/verbs/pair.c",
        "\t\tpair->refused = true;\n",
        "",
    ),
    Fault(
        "what was said beside by a queue that is given up asks for the next one",
        "src/transport/verbs/verbs.c",
        "pair->way == WAY_QUEUE || !list_empty(&pair->sent))\n\t\tover_begin(pair);",
        "pair->way == WAY_QUEUE)\n\t\tover_begin(pair);",
    ),
    Fault(
        "an address beyond what a queue pair can name is chosen",
        "src/transport/verbs/port.c",
        " && i <= UINT8_MAX; i++)",
        "; i++)",
    ),
    Fault(
        "receives that the adapter refuses are lost",
        "src/transport/verbs/card.c",
        "\t\tcard->empty_count -= taken;",
        "\t\tcard->empty_count -= n;",
    ),
    Fault(
        "receives that the adapter refuses wait for one that is filled",
        "src/transport/verbs/card.c",
        "\tif (card->empty_count > 0 && card->empty_count >= card->empty_most)",
        "\tif (card->empty_count > card->setup.receives)",
    ),
    Fault(
        "what was posted to a new queue is posted again",
        "src/transport/verbs/records.c",
        "\t\tpair->again_at = slot->number + 1;",
        "\t\tpair->again_at = 0;",
    ),
    Fault(
        "a new queue gets only what the one before did not have",
        "src/transport/verbs/pair.c",
        "\tpair->again_at = 0;\n",
        "",
    ),
    Fault(
        "a tiny message has its word beside it",
        "src/transport/verbs/records.c",
        "\treturn slot->length - sizeof(struct head_short) < sizeof(struct head) - sizeof(uint32_t);\n",
        "\treturn slot->length == 0;\n",
    ),
    Fault(
        "what is as long as a head goes as a tiny message",
        "src/transport/verbs/records.c",
        "sizeof(struct head_short) < sizeof(struct head) - sizeof(uint32_t);",
        "sizeof(struct head_short) <= sizeof(struct head) - sizeof(uint32_t);",
    ),
    Fault(
        "a peer alone has half of the receives",
        "src/transport/verbs/card.c",
        "\t\tcard->share = setup->receives / 4 * 3;",
        "\t\tcard->share = setup->receives / 2;",
    ),
    Fault(
        "notes that small slots bring may find no receive, though none waits for one",
        "src/transport/verbs/card.c",
        "\tsetup->small = 0; /*",
        "\tsetup->small += 0; /*",
    ),
    Fault(
        "what does not go inline is sent from memory that is not registered",
        "src/transport/verbs/card.c",
        "card->small_most = most < CARD_SMALL ? most : CARD_SMALL;",
        "card->small_most = CARD_SMALL;",
    ),
    Fault(
        "short messages take slots of long ones",
        "src/transport/verbs/records.c",
        "\treturn bytes <= card->small_most ? &card->small : &card->large;",
        "\treturn bytes == 0 ? &card->small : &card->large;",
    ),
    Fault(
        "what waits for the word of who died waits for ever",
        "src/transport/verbs/pair.c",
        " && (pair_is_needed(pair) || pair->held);",
        " && pair_is_needed(pair);",
    ),
    Fault(
        "a message on a new queue may go without its front",
        "src/transport/verbs/records.c",
        "\tpair->like_out = UINT64_MAX;\n",
        "",
    ),
    Fault(
        "a message is like one with another tag",
        "src/transport/verbs/records.c",
        " && front->tag == before->tag",
        " && front->tag + 1",
    ),
    Fault(
        "a message is like one of other flags",
        "src/transport/verbs/records.c",
        "(front->head.flags & ~HEAD_SOON) == before->head.flags",
        "front->head.flags",
    ),
    Fault(
        "a message without a front has the number of the one before",
        "src/transport/verbs/records.c",
        "\tfront->head.number++;\n",
        "",
    ),
    Fault(
        "a message without a front asks for nothing",
        "src/transport/verbs/records.c",
        "(word >> WORD_SOON ? HEAD_SOON : 0)",
        "0",
    ),
    Fault(
        "a message without a front says that what was never sent was handled",
        "src/transport/verbs/records.c",
        " || payload > UINT16_MAX || handled > pair->next)",
        " || payload > UINT16_MAX)",
    ),
    Fault(
        "who sends looks for no room before there is none",
        "src/message/send.c",
        "if (__builtin_expect(endpoint->base.tight, 0))",
        "if (__builtin_expect(endpoint->base.tight, 0) && !buffer)",
    ),
    Fault(
        "nobody looks for credit before there is none",
        "src/transport/verbs/records.c",
        "slot->number >= pair->few_at || ",
        "",
    ),
    Fault(
        "nobody looks for ended works before a queue is full of them",
        "src/transport/verbs/records.c",
        " || pair->works >= card->works_few)",
        ")",
    ),
    Fault(
        "what adapters deliver is looked after as if they did not",
        "src/transport/verbs/card.c",
        "\treturn list_empty(&card->due);\n",
        "\treturn false;\n",
    ),
    Fault(
        "what needs another queue is left to the adapter",
        "src/transport/verbs/card.c",
        "\t\tif (!pair->dead && pair->state != PAIR_OPEN && !list_empty(&pair->sent))\n\t\t\treturn false;\n",
        "",
    ),
    Fault(
        "a message that is held begins where all others do",
        "src/transport/verbs/card.c",
        "\t\tmemcpy(slot, &at, sizeof(at));",
        "\t\tmemcpy(slot, &(uint32_t){CARD_FRONT}, sizeof(at));",
    ),
    Fault(
        "a send with immediate data is one without",
        "src/transport/verbs/nic_verbs.c",
        "NIC_RECEIVE_IMM : NIC_RECEIVE_WORD;",
        "NIC_RECEIVE_IMM : NIC_RECEIVE;",
    ),
    Fault(
        "a request by a token that is not ours is taken",
        IWARP,
        "\t\tif (token_is(tie->token, token) && tie->state",
        "\t\tif (tie->state",
    ),
    Fault(
        "who is refused stays",
        IWARP,
        "\t\tiwarp->cm->reject(id, NULL, 0);\n\t\tiwarp->cm->destroy_id(id);\n",
        "\t\tiwarp->cm->reject(id, NULL, 0);\n",
    ),
    Fault(
        "a request waits for a queue of which another waits already",
        IWARP,
        " && tie->state <= TIE_EXPECTING && !tie->id && !tie->stopped",
        " && tie->state <= TIE_EXPECTING && !tie->stopped",
    ),
    Fault(
        "whoever has asked is connected to, whoever the peer is",
        IWARP,
        "\tif (tie->asked && (order < 0 || memcmp(tie->peer, peer->bytes + NAME_AT_TOKEN, TOKEN) != 0))\n",
        "\tif (tie->asked && order < 0)\n",
    ),
    Fault(
        "who was asked is told to speak first, too",
        IWARP,
        "\t\treturn asking && !tie->stopped ?",
        "\t\treturn !tie->stopped ?",
    ),
    Fault(
        "a tie is of whichever adapter its address leads to",
        IWARP,
        "\t\treturn id_is_ours(iwarp, tie->id) && iwarp",
        "\t\treturn iwarp",
    ),
    Fault(
        "strangers are looked at for as long as they come",
        IWARP,
        "i < EVENTS_AT_ONCE && iwarp->cm->get",
        "iwarp->cm->get",
    ),
    Fault(
        "a pair is destroyed while the kernel is at its tie",
        "src/transport/verbs/nic_verbs.c",
        "\tif (queue_tied_ns(queue, now_ns) > 0)\n\t\treturn false;\n",
        "",
    ),
    Fault(
        "what a read brings may not be written by an iWARP peer",
        "src/transport/verbs/context.c",
        "\t\ttheirs |= IBV_ACCESS_REMOTE_WRITE; /* what",
        "\t\ttheirs |= 0; /* what",
    ),
    Fault(
        "siw is trusted to tell of works in order",
        "src/transport/verbs/nic_verbs.c",
        "\t\tif (!posted->done && !over)\n\t\t\treturn;\n",
        "",
    ),
    Fault(
        "a pair that fails by itself is not told of",
        "src/transport/verbs/nic_verbs.c",
        "\t\tqueue_tell(queue, QUEUE_BROKEN);\n\t}\n}\n\n/* Who told",
        "\t\tqueue->state = QUEUE_BROKEN;\n\t}\n}\n\n/* Who told",
    ),
    Fault(
        "a queue is open before it is tied",
        "src/transport/verbs/pair.c",
        "\tif (hello->mate == pair->round && pair->tied)",
        "\tif (hello->mate == pair->round)",
    ),
    Fault(
        "what was granted may find no receive, though none waits for one",
        "src/transport/verbs/card.c",
        "if (!card_waits(card)) {\n\t\tcard->share =",
        "if (false) {\n\t\tcard->share =",
    ),
    Fault(
        "a peer that had no room is tried again by each poll",
        TRANSMIT,
        "peer->stalled = connection != NULL; /* the backlog keeps it */",
        "peer->stalled = false;",
    ),
    Fault(
        "mxoe: an RTS that found no memory keeps its window",
        TRANSMIT,
        "\t\t\tif (record->kind == RECORD_RTS)\n"
        "\t\t\t\tengine->naming->window_back(connection, packet.message.record.arg[2]);\n",
        "",
    ),
    Fault(
        "a time-out sends a frame again that no acknowledgement can tell of",
        TRANSMIT,
        "else if (frame->sequence - oldest->sequence <= 64)",
        "else if (frame->sequence - oldest->sequence <= 65)",
    ),
    Fault(
        "a timer goes on for a fetch that has ended",
        BLOCK,
        "\tfetch_unlist(fetch);\n"
        "\tif (list_empty(&peer->blocks))\n"
        "\t\tpeer->timeout_ns = 0;\n",
        "\tfetch_unlist(fetch);\n",
    ),
    Fault(
        "a CONNECT that comes later leads DATA elsewhere",
        ROUTE,
        "if (!route->heard && connect->bulk_port) {",
        "if (connect->bulk_port) {",
    ),
    Fault(
        "a link that was left works again once frames are shorter",
        ROUTE,
        "if (route->frame_max <= frame_max)",
        "if (route->frame_max == frame_max)",
    ),
    Fault(
        "what a link lost before it was shown to work counts",
        ROUTE,
        "\troute->left = false;\n"
        "\troute->lost_in_row = 0;\n",
        "\troute->left = false;\n",
    ),
    Fault(
        "a record of ours swallows what is to be told of backpressure",
        ARRIVAL,
        "connection->in.ack_now && (connection->in.held_count > 0 || connection->in.tell);",
        "connection->in.ack_now && connection->in.held_count > 0;",
    ),
    Fault(
        "a CLOSE behind records that never came is one in good order",
        HANDSHAKE,
        "complete ? THOLE_ERR_CLOSED : THOLE_ERR_PEER",
        "THOLE_ERR_CLOSED",
    ),
    Fault(
        "an address without an end is inserted",
        "provider/prov_av.c",
        "address->text[0] && !address->text[sizeof address->text - 1]",
        "address->text[0]",
    ),
    Fault(
        "looking an address up writes beyond the caller's room",
        "provider/prov_av.c",
        "size_t length = *length_p < sizeof(struct thole_address) ? *length_p : sizeof(struct thole_address);",
        "size_t length = sizeof(struct thole_address);",
    ),
    Fault(
        "reallocarray takes a product that has overflowed",
        "heap/heap.c",
        "\tif (!__builtin_mul_overflow(count, size, &whole))\n"
        "\t\treturn realloc(old, whole);\n"
        "\terrno = ENOMEM;\n"
        "\treturn NULL;",
        "\twhole = count * size;\n"
        "\treturn realloc(old, whole);",
    ),
    Fault(
        "realloc that found no memory frees what was there",
        "heap/heap.c",
        "\t\tif (!moved && size > 0)\n"
        "\t\t\treturn NULL;\n",
        "",
    ),
    Fault(
        "an answer without a proof will do",
        "src/transport/datagram/liveness.c",
        " &&\n"
        "\t       load_be64(bytes + ANSWER_PROOF_AT) ==\n"
        "\t\t       responder_proof(question->key, question->endpoint, question->number);",
        ";",
    ),
    Fault(
        "an answer of another number will do",
        "src/transport/datagram/liveness.c",
        "length == ANSWER_BYTES && load_be64(bytes) == question->number &&",
        "length == ANSWER_BYTES &&",
    ),
    Fault(
        "that a host refuses the question is not heard",
        "src/transport/datagram/liveness.c",
        "\t\tif (length < 0 && errno == ECONNREFUSED)\n"
        "\t\t\treturn LINK_GONE;\n",
        "",
    ),
    Fault(
        "a connection to a host that is asked no more stays",
        "src/transport/datagram/liveness.c",
        "\tstream_close(question);\n"
        "\tclose(question->datagram);",
        "\tclose(question->datagram);",
    ),
    Fault(
        "a question that is asked no more keeps its socket",
        "src/transport/datagram/liveness.c",
        "\tstream_close(question);\n"
        "\tclose(question->datagram);",
        "\tstream_close(question);",
    ),
    Fault(
        "the last question takes no place of one that has ended",
        "src/transport/datagram/liveness.c",
        "\t*question = liveness->questions[--liveness->count];",
        "\tliveness->count--;",
    ),
    Fault(
        "a question is said in each turn",
        "src/transport/datagram/liveness.c",
        "now_ns - question->asked_ns < QUESTION_AGAIN_NS",
        "now_ns != question->asked_ns",
    ),
    Fault(
        "that a host held its port is believed for ever",
        "src/transport/datagram/liveness.c",
        "\tif (verdict == LINK_UNKNOWN && question->held_ns &&\n"
        "\t    now_ns - question->held_ns < QUESTION_FRESH_MS * UINT64_C(1000000))",
        "\tif (verdict == LINK_UNKNOWN && question->held_ns)",
    ),
    Fault(
        "who lets a connection go had no port",
        "src/transport/datagram/liveness.c",
        "if (error == 0 || error == ECONNRESET)",
        "if (error == 0)",
    ),
    Fault(
        "a connection whose host answers no more says that it holds its port",
        "src/transport/datagram/liveness.c",
        "\t\tif (stream_is_fresh(question))\n"
        "\t\t\tquestion->held_ns = now_ns;",
        "\t\tquestion->held_ns = now_ns;",
    ),
    Fault(
        "a question that was answered is asked on",
        "src/transport/datagram/liveness.c",
        "if (verdict == LINK_ALIVE || verdict == LINK_GONE)",
        "if (verdict == LINK_GONE)",
    ),
    Fault(
        "a question has no number",
        "src/transport/datagram/liveness.c",
        "\tstore_be64(bytes + QUESTION_NUMBER_AT, question->number);\n",
        "",
    ),
    Fault(
        "a question may be too short",
        RESPONDER,
        "if (length != QUESTION_BYTES || number == 0)",
        "if (length < 0 || number == 0)",
    ),
    Fault(
        "next door to a privileged port is no reason for another one",
        RESPONDER,
        "return error == EADDRINUSE || error == EACCES ? THOLE_ERR_BUSY : THOLE_ERR_SYSTEM;",
        "return error == EADDRINUSE ? THOLE_ERR_BUSY : THOLE_ERR_SYSTEM;",
    ),
    Fault(
        "a responder that is closed is still looked at",
        RESPONDER,
        "\tlist_remove(&responder->node);\n"
        "\tfor (unsigned i = 0; i < RESPONDER_SOCKETS && service; i++)",
        "\tfor (unsigned i = 0; i < RESPONDER_SOCKETS && service; i++)",
    ),
    Fault(
        "connections of who asks are closed in good order",
        RESPONDER,
        "\t\tsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));\n",
        "",
    ),
    Fault(
        "a responder that cannot be opened leaves a socket",
        RESPONDER,
        "\tfor (unsigned i = 0; i < RESPONDER_SOCKETS && responder->forked.fds; i++)\n"
        "\t\tforked_close(&responder->fds[i]);",
        "\tfor (unsigned i = 0; i < 1 && responder->forked.fds; i++)\n"
        "\t\tforked_close(&responder->fds[i]);",
    ),
    Fault(
        "connections of who asks are let wait",
        RESPONDER,
        "\t\tanswer(container_of(node, struct responder, node));\n"
        "\t\tlet_go(container_of(node, struct responder, node));",
        "\t\tanswer(container_of(node, struct responder, node));",
    ),
    Fault(
        "one of a process's endpoints is answered for",
        RESPONDER,
        "node = list_next(&responders, node)) {",
        "node = NULL) {",
    ),
    Fault(
        "a thread whose sleep was interrupted ends",
        RESPONDER,
        "return errno == EINTR;",
        "return false;",
    ),
    Fault(
        "behind the last counter of all are more",
        GUARD,
        "left > 0; left -= some, counter += some) {",
        "counter <= newest; left -= some, counter += some) {",
    ),
    Fault(
        "a counter may be 0",
        GUARD,
        "if (frame->counter == 0 || !window_is_new",
        "if (!window_is_new",
    ),
    Fault(
        "a run over two epochs is judged by one key",
        GUARD,
        "\t       run->counter >> GUARD_EPOCH_BITS == guard->in.epoch &&\n"
        "\t       (run->counter + run->behind) >> GUARD_EPOCH_BITS == guard->in.epoch;",
        "\t       run->counter >> GUARD_EPOCH_BITS == guard->in.epoch;",
    ),
    Fault(
        "what a program maps behind an arena's end is the arena's",
        "src/base/arena.c",
        "offset < (uint64_t)arenas[i].extents.top * ARENA_GRANULE",
        "offset < arenas[i].size",
    ),
    Fault(
        "who has mapped an arena reads its memfd behind its end",
        "src/transport/shm/attach.c",
        "\tif (end > attachment->size)\n"
        "\t\tend = attachment->size;\n"
        "\treturn at < end",
        "\tend = attachment->size;\n"
        "\treturn at < end",
    ),
    Fault(
        "an arena may say that it is longer than its memfd",
        "src/transport/shm/attach.c",
        "\tif (end > attachment->size)\n"
        "\t\tend = attachment->size;\n",
        "",
    ),
    Fault(
        "an arena does not say how long it has become",
        "src/base/arena.c",
        "\tstore_relaxed(&arena->header->end, (uint64_t)top * ARENA_GRANULE);\n",
        "",
    ),
    Fault(
        "an arena of free blocks keeps its place after a fork",
        "src/base/arena.c",
        "\tif (arena->blocks == 0)\n"
        "\t\tarena_drop(arena);\n"
        "\tcurrent = NULL;",
        "\tcurrent = NULL;",
    ),
    Fault(
        "two arenas may have one range",
        "src/base/arena.c",
        "if (!arena_overlaps(arena) && arena_map(arena, 0, 1))",
        "if (arena_map(arena, 0, 1))",
    ),
    Fault(
        "a child's free changes errno",
        "src/base/arena.c",
        "\terrno = error; /* as free keeps it */\n",
        "",
    ),
    Fault(
        "a child keeps what tells that there are children",
        "src/base/arena.c",
        "\tif (children_have_file())\n"
        "\t\tclose(children.file.fd);\n"
        "\tchildren.file.fd = -1;\n"
        "\tchildren.page = NULL;\n"
        "\tcurrent",
        "\tchildren.file.fd = -1;\n"
        "\tchildren.page = NULL;\n"
        "\tcurrent",
    ),
    Fault(
        "the key file stays open",
        KEY,
        "\terror = key_read(path, fd, key_p);\n"
        "\tclose(fd);",
        "\terror = key_read(path, fd, key_p);",
    ),
    Fault(
        "a user's umask decides who reads the key",
        KEY,
        "fchmod(fd, 0600) == 0 && write",
        "write",
    ),
    Fault(
        "who makes the key second makes it anew, where there are no links",
        KEY,
        "RENAME_NOREPLACE) == 0",
        "0) == 0",
    ),
    Fault(
        "of a long key file the beginning counts",
        KEY,
        "size < 0 || size > KEY_BYTES_MAX ||",
        "size < 0 ||",
    ),
    Fault(
        "the soft limit goes beyond the hard one",
        LIMITS,
        "limit.rlim_max / 2 > limit.rlim_cur ? 2 * limit.rlim_cur : limit.rlim_max",
        "2 * limit.rlim_cur",
    ),
    Fault(
        "signals stay blocked once a file has its pages",
        LIMITS,
        "\tpthread_sigmask(SIG_SETMASK, &before, NULL);\n",
        "",
    ),
    Fault(
        "mxoe: a window may have the id of none",
        NAMING_MXOE,
        "\t\tif ((at | (uint32_t)window->sequence << 8) == MXOE_WINDOW_NONE)\n"
        "\t\t\twindow->sequence++;\n",
        "",
    ),
    Fault(
        "mxoe: a long name has no end",
        NAMING_MXOE,
        "length = length < PACKET_NAME_MAX - 1 ? length : PACKET_NAME_MAX - 1;",
        "length = length < PACKET_NAME_MAX ? length : PACKET_NAME_MAX;",
    ),
    Fault(
        "mxoe: a query's magic is not given back",
        NAMING_MXOE,
        ".host = {.index = MXOE_HOST_INDEX, .magic = asked->host.magic}};",
        ".host = {.index = MXOE_HOST_INDEX, .magic = MXOE_QUERY_MAGIC}};",
    ),
    Fault(
        "mxoe: who meets a peer again asks by the key of all",
        NAMING_MXOE,
        "\tif (former->handshake.answered)\n"
        "\t\tconnection->names.key = former->names.key;\n",
        "",
    ),
    Fault(
        "mxoe: who meets a peer again forgets its index",
        NAMING_MXOE,
        "\tconnection->names.host_index = former->names.host_index;\n",
        "",
    ),
    Fault(
        "mxoe: a PULL acknowledges",
        NAMING_MXOE,
        "\t    connection->out.credit == 0 || packet->type == PACKET_PULL)",
        "\t    connection->out.credit == 0)",
    ),
    Fault(
        "mxoe: an answer to somebody before us is heard",
        NAMING_MXOE,
        "return connection && packet->connect.echo == connection->session ? connection : NULL;",
        "return connection;",
    ),
    Fault(
        "mxoe: whoever refuses our key is lost, though it has connected to us",
        NAMING_MXOE,
        "\tif (!connection->peer_session) {\n"
        "\t\tconnection_lost(connection, THOLE_ERR_ACCESS);\n"
        "\t\treturn;\n"
        "\t}\n",
        "\tconnection_lost(connection, THOLE_ERR_ACCESS);\n"
        "\treturn;\n",
    ),
    Fault(
        "mxoe: each connect asks anew",
        NAMING_MXOE,
        "\tif (connection->handshake.answered || asked)\n"
        "\t\treturn 0;",
        "\tif (connection->handshake.answered)\n"
        "\t\treturn 0;",
    ),
    Fault(
        "mxoe: another key waits as long as the one before",
        NAMING_MXOE,
        "\tconnection->handshake.attempt = 0;\n"
        "\thandshake_ask(connection);",
        "\thandshake_ask(connection);",
    ),
    Fault(
        "mxoe: who is in is asked again",
        NAMING_MXOE,
        "\tif (connection->handshake.answered || asked)\n"
        "\t\treturn 0;",
        "\tif (asked)\n"
        "\t\treturn 0;",
    ),
    Fault(
        "mxoe: who refuses the window of nobody says nothing",
        NAMING_MXOE,
        "\t\tconnection->silence.heard_ns = engine->now_ns;\n\t\tconnection->silence.answered",
        "\t\tconnection->silence.answered",
    ),
    Fault(
        "mxoe: a refusal does not say what of",
        NAMING_MXOE,
        "packet.nack.driver ? refused->pull.transfer : 0;",
        "0;",
    ),
    Fault(
        "who is lost is let in again",
        HANDSHAKE,
        "\tif (connection->state == CONNECTION_DEAD) {\n"
        "\t\tnaming->refuse(engine, link, from, packet, NACK_CLOSED);\n"
        "\t\treturn NULL;\n"
        "\t}\n",
        "",
    ),
    Fault(
        "a CLOSE acknowledges nothing",
        HANDSHAKE,
        "\t\tarrival_report(connection, &packet);\n",
        "",
    ),
    Fault(
        "whose host cannot be asked is given up as soon as any",
        SILENCE,
        "verdict == LINK_HELD || verdict == LINK_UNASKED",
        "verdict == LINK_HELD",
    ),
    Fault(
        "a peer that is heard of again is asked after on",
        SILENCE,
        "heard_ns > connection->silence.checked_ns) {\n"
        "\t\tsilence_ask_no_more(connection);\n",
        "heard_ns > connection->silence.checked_ns) {\n",
    ),
    Fault(
        "that a peer said nothing is not told",
        SILENCE,
        "\t\tconnection->peer->silent = true;\n",
        "",
    ),
    Fault(
        "a peer that is lost is asked after on",
        SILENCE,
        "\tsilence_ask_no_more(connection);\n"
        "\tconnection->silence.checked_ns = 0;\n"
        "\tconnection->silence.awaited = false;",
        "\tconnection->silence.checked_ns = 0;\n"
        "\tconnection->silence.awaited = false;",
    ),
    Fault(
        "a refusal does not say of what transfer",
        NAMING_NATIVE,
        "\tpacket.nack.transfer = pull->pull.transfer;\n",
        "",
    ),
    Fault(
        "a CONNECT that comes twice makes its connection's keys anew",
        NAMING_NATIVE,
        "engine->key == 0 || mode == GUARD_OFF || connection->peer_session)",
        "engine->key == 0 || mode == GUARD_OFF)",
    ),
    Fault(
        "a NACK is believed from anywhere",
        NAMING_NATIVE,
        "\tmemcpy(text + 24, from->bytes, sizeof(from->bytes));",
        "\tmemset(text + 24, 0, sizeof(from->bytes));",
    ),
    Fault(
        "a NACK's proof does not cover its transfer",
        NAMING_NATIVE,
        "\tstore_be64(text + 8, nack->transfer);",
        "\tstore_be64(text + 8, 0);",
    ),
    Fault(
        "a connection that ends stays counted",
        CONNECTION,
        "\tif (connection->state != CONNECTION_NEW)\n"
        "\t\tengine->open--;\n",
        "",
    ),
    Fault(
        "a pull may reach beyond its window",
        "src/transport/verbs/bulk.c",
        "record->arg[2] > vector->length || record->arg[0] >= record->arg[2] ||",
        "record->arg[0] >= record->arg[2] ||",
    ),
    Fault(
        "a pull may begin behind its end",
        "src/transport/verbs/bulk.c",
        "record->arg[0] >= record->arg[2] ||",
        "",
    ),
    Fault(
        "chunks may be longer than bays",
        "src/transport/verbs/bulk.c",
        " ||\n"
        "\t    plan_room(&plan, plan_longest(&plan)) >\n"
        "\t\t    (pair->theirs.bay < card->setup.bay ? pair->theirs.bay : card->setup.bay)) {",
        ") {",
    ),
    Fault(
        "chunks may be longer than the bays they come from",
        "src/transport/verbs/bulk.c",
        "(pair->theirs.bay < card->setup.bay ? pair->theirs.bay : card->setup.bay)",
        "pair->theirs.bay",
    ),
    Fault(
        "chunks may be longer than the bays they go to",
        "src/transport/verbs/bulk.c",
        "(pair->theirs.bay < card->setup.bay ? pair->theirs.bay : card->setup.bay)",
        "card->setup.bay",
    ),
    Fault(
        "memory that an adapter refuses stays watched",
        "src/transport/verbs/bulk.c",
        "\t\tif (entry->word)\n"
        "\t\t\tcard_unwatch(card, registration->watch);\n"
        "\t\ttransport_count(card->owner, COUNTER_REGISTER_REFUSED);",
        "\t\ttransport_count(card->owner, COUNTER_REGISTER_REFUSED);",
    ),
    Fault(
        "memory that is registered no more stays watched",
        "src/transport/verbs/bulk.c",
        "\tif (entry->word)\n"
        "\t\tcard_unwatch(card, registration->watch);\n"
        "\tfree(registration);\n"
        "}",
        "\tfree(registration);\n"
        "}",
    ),
    Fault(
        "a peer may have handled what was not sent",
        "src/transport/verbs/records.c",
        " &&\n"
        "\t       number_near(pair->next, head->handled) <= pair->next;",
        ";",
    ),
    Fault(
        "a record is as long as its head says",
        "src/transport/verbs/records.c",
        "head_bytes(head) + head->length == length && ",
        "",
    ),
    Fault(
        "a record without a front needs none before it",
        "src/transport/verbs/records.c",
        "if (!front->head.flags || payload",
        "if (payload",
    ),
    Fault(
        "a record may come before its turn",
        "src/transport/verbs/records.c",
        "\t\tif (number > pair->expected)\n"
        "\t\t\ttransport_bad(pair->peer);\n"
        "\t\treturn false;",
        "\t\treturn false;",
    ),
    Fault(
        "a record may be longer than a record",
        "src/transport/verbs/records.c",
        "(record->length <= RECORD_INLINE_MAX && head->length == 0)",
        "head->length == 0",
    ),
    Fault(
        "senders are held back until the last byte of what is unexpected is free",
        RECEIVE,
        "< endpoint->base.options.unexpected_max / 2) {",
        "== 0) {",
    ),
    Fault(
        "a buffer for many that is used up still counts as posted",
        RECEIVE,
        "\t\t\tmatch_withdraw(&endpoint->match[parent->queue], &parent->match);\n"
        "\t\t\tendpoint->multi_posted--;",
        "\t\t\tmatch_withdraw(&endpoint->match[parent->queue], &parent->match);",
    ),
    Fault(
        "nobody hears that a quiet buffer for many is free",
        REQUEST,
        " && !request->status && !(request->flags & THOLE_MULTI_END)) {",
        " && !request->status) {",
    ),
    Fault(
        "a buffer for many that is given up still counts as posted",
        REQUEST,
        "\t\tif (receive->flags & THOLE_MULTI)\n\t\t\tendpoint->multi_posted--;\n",
        "",
    ),
    Fault(
        "a buffer for many takes messages after one that it could not take",
        RECEIVE,
        "\t\trequest_give_up(request, THOLE_ERR_MEMORY);\n",
        "\t\treturn NULL;\n",
    ),
    Fault(
        "a buffer for many is posted behind what it could not take",
        RECEIVE,
        "\t\t\trequest_give_up(parent, THOLE_ERR_MEMORY);\n",
        "",
    ),
    Fault(
        "an offer that there is no memory to remember is passed over",
        RECEIVE,
        "\tunexpected = unexpected_new(peer, record);\n"
        "\tif (!unexpected) {\n"
        "\t\tpeer_lost(peer, THOLE_ERR_MEMORY);\n"
        "\t\treturn;\n"
        "\t}",
        "\tunexpected = unexpected_new(peer, record);\n"
        "\tif (!unexpected)\n"
        "\t\treturn;",
    ),
    Fault(
        "a get ends with the word that a message was taken",
        MESSAGE,
        "\tif (!request || request->state != REQUEST_WAITING ||\n"
        "\t    (request->record.kind != RECORD_EAGER && request->record.kind != RECORD_RTS &&\n"
        "\t     request->record.kind != RECORD_REPLY)) {",
        "\tif (!request || request->state != REQUEST_WAITING) {",
    ),
    Fault(
        "one send more waits than may",
        MESSAGE,
        "\tif (peer->backlog_count >= endpoint->base.options.sends_max)",
        "\tif (peer->backlog_count > endpoint->base.options.sends_max)",
    ),
    Fault(
        "what is owed comes between the pieces of a message",
        MESSAGE,
        "\tif (!peer->backlog_count && peer->base.transport->push(&peer->base, record, NULL, 0, 0) == 0) {",
        "\tif (peer->base.transport->push(&peer->base, record, NULL, 0, 0) == 0) {",
    ),
    Fault(
        "a row of pieces is taken whose last is longer than what is left",
        MESSAGE,
        "if (length == 0 || last == 0 || bytes > peer->stream.left) {",
        "if (length == 0 || last == 0 || bytes - last > peer->stream.left) {",
    ),
    Fault(
        "a get from a mapped region that ended meanwhile is a success",
        "src/transport/shm/access.c",
        "\tif (!access->put && !access_has_read(link, grant->number))\n"
        "\t\treturn false;\n",
        "",
    ),
    Fault(
        "an answer to an older question is taken for the newest",
        "src/transport/shm/access.c",
        "if (!access || link->asked_number - record->tag >= ASKED) {",
        "if (!access) {",
    ),
    Fault(
        "what a target that has ended was asked to make is waited for",
        "src/transport/shm/access.c",
        "\t\t\taccess_made(link->asked[i], peer->gone_status);\n",
        "\t\t\t(void)peer;\n",
    ),
    Fault(
        "what was put off to a target that has ended is waited for",
        "src/transport/shm/access.c",
        "\t\taccess_made(container_of(node, struct transport_access, node), peer->gone_status);\n"
        "\tfree(link->row);",
        "\t\tlist_remove(node);\n"
        "\tfree(link->row);",
    ),
    Fault(
        "what was put off to a target that has ended counts as made",
        "src/transport/shm/access.c",
        "\t\taccess_made(container_of(node, struct transport_access, node), peer->gone_status);\n"
        "\tfree(link->row);",
        "\t\taccess_made(container_of(node, struct transport_access, node), 0);\n"
        "\tfree(link->row);",
    ),
    Fault(
        "who waits for a counter sleeps over what was just counted",
        "provider/prov_counter.c",
        "\tif (load_relaxed(&counter->value) != seen || load_relaxed(&counter->errors) != errors)\n"
        "\t\terror = -FI_EAGAIN;\n",
        "",
    ),
    Fault(
        "who waits for a counter goes on to wait after an error",
        "provider/prov_counter.c",
        "\t\tif (load_relaxed(&counter->errors) != errors)\n"
        "\t\t\treturn -FI_EAVAIL;\n",
        "",
    ),
    Fault(
        "who sleeps on a counter does not hear that it is set",
        "provider/prov_counter.c",
        "\tstore_relaxed(&prov_counter_of(fid)->value, value);\n"
        "\tprov_counter_wake(prov_counter_of(fid));",
        "\tstore_relaxed(&prov_counter_of(fid)->value, value);",
    ),
    Fault(
        "who sleeps on a counter does not hear that its errors are set",
        "provider/prov_counter.c",
        "\tstore_relaxed(&prov_counter_of(fid)->errors, value);\n"
        "\tprov_counter_wake(prov_counter_of(fid));",
        "\tstore_relaxed(&prov_counter_of(fid)->errors, value);",
    ),
    Fault(
        "a program may sleep though something is to be handled",
        "provider/prov_watch.c",
        "error = prov_error_result(thole_arm(watch->endpoints[i]));",
        "(void)thole_arm(watch->endpoints[i]);",
    ),
    Fault(
        "an endpoint that is bound after the descriptor was made wakes nobody",
        "provider/prov_watch.c",
        "return watch->epoll < 0 ? 0 : prov_watch_epoll_add(watch->epoll, thole_fd(endpoint));",
        "return 0;",
    ),
    Fault(
        "a queue that is closed leaves its timer open",
        "provider/prov_watch.c",
        "\tif (watch->timer >= 0)\n"
        "\t\tclose(watch->timer);\n"
        "\tfree(watch->endpoints);",
        "\tfree(watch->endpoints);",
    ),
    Fault(
        "a number that is given again still counts as free",
        "provider/prov_av.c",
        "\telse\n"
        "\t\tav->free_count--;\n"
        "\tav->addresses",
        "\tav->addresses",
    ),
    Fault(
        "fewer elements are compared than there are operands",
        "provider/prov_atomic.c",
        "(atomic->compare.count && prov_atomic_parts_elements(&atomic->compare) != elements)",
        "false",
    ),
    Fault(
        "an atomic may have any number of elements",
        "provider/prov_atomic.c",
        "!elements || elements > THOLE_ATOMIC_BYTES_MAX / size ||",
        "!elements ||",
    ),
    Fault(
        "an atomic that has failed has a result",
        "provider/prov_atomic.c",
        "i < scatter->count && !failed",
        "i < scatter->count",
    ),
    Fault(
        "a result in several places makes an entry that nobody wants",
        "provider/prov_atomic.c",
        "flags = (flags & ~(unsigned)THOLE_QUIET) | PROV_SILENT;",
        "flags = flags & ~(unsigned)THOLE_QUIET;",
    ),
    Fault(
        "a failure does not say that a buffer for many is used up",
        "provider/prov_completion.c",
        "\tif (completion->flags & THOLE_MULTI_END)\n"
        "\t\terror.flags |= FI_MULTI_RECV;\n",
        "",
    ),
    Fault(
        "what a canceled connect has asked for is still awaited",
        "mx/mx_ending.c",
        "\tif (request->query)\n"
        "\t\treturn mxi_connecting_cancel(request);\n",
        "",
    ),
    Fault(
        "posix_memalign changes errno",
        "heap/heap.c",
        "\tmemory = memalign(alignment, size);\n"
        "\terrno = error;",
        "\tmemory = memalign(alignment, size);\n"
        "\t(void)error;",
    ),
    Fault(
        "pvalloc gives less than whole pages",
        "heap/heap.c",
        "return memalign(page, whole & ~(page - 1));",
        "return memalign(page, size);",
    ),
    Fault(
        "any context claims the first message that is claimed",
        "provider/prov_message.c",
        "\t\tif (endpoint->claims[i].context != context)\n"
        "\t\t\tcontinue;\n",
        "",
    ),
    Fault(
        "a claimed message is lost as its receive is refused",
        "provider/prov_message.c",
        "\tif (error)\n"
        "\t\tprov_message_claim_keep(endpoint, &claim);\n"
        "\telse if",
        "\tif",
    ),
    Fault(
        "a receive in several places takes any tag",
        "provider/prov_message.c",
        "thole_recvv(endpoint->thole, peer, iov, count, tag, ~ignore, flags",
        "thole_recvv(endpoint->thole, peer, iov, count, tag, ignore, flags",
    ),
    Fault(
        "what is injected may have any length",
        "provider/prov_message.c",
        "\tif (__builtin_expect(length > PROV_INJECT_MAX, 0))\n"
        "\t\treturn -FI_EINVAL;\n",
        "",
    ),
    Fault(
        "a message from several places has no data of its own",
        "provider/prov_message.c",
        "iov, count, tag, data, flags, context,\n"
        "\t\t\t    NULL);",
        "iov, count, tag, 0, flags, context,\n"
        "\t\t\t    NULL);",
    ),
    Fault(
        "who sends what is claimed and thrown away waits for ever",
        "provider/prov_message.c",
        "\t\terror = thole_message_drop(endpoint->thole, claim.message);\n"
        "\telse",
        "\t\terror = 0;\n"
        "\telse",
    ),
    Fault(
        "a right to read a region is one to write to it",
        "provider/prov_region.c",
        "\t\tthole |= THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC;",
        "\t\tthole |= THOLE_ACCESS_GET | THOLE_ACCESS_PUT | THOLE_ACCESS_ATOMIC;",
    ),
    Fault(
        "an endpoint does not know which rest of a buffer is too little",
        "provider/prov_ep.c",
        "\terror = prov_error_result(thole_option_set(endpoint->thole, \"multi_min\", text));",
        "\terror = 0;",
    ),
    Fault(
        "a message that is cut short has no data",
        "provider/prov_completion.c",
        "\terror.data = completion->imm;\n",
        "",
    ),
    Fault(
        "an address that never was is looked for behind all others",
        "provider/prov_av.c",
        "\treturn index < av->count && av->addresses[index].text[0];",
        "\treturn av->addresses[index].text[0];",
    ),
    Fault(
        "who connects is not told that a listener has room again",
        CONNECT,
        "\t\telse\n"
        "\t\t\towner->up->connected(link->peer, 0);",
        "",
    ),
    Fault(
        "a listener that has room again is tried for ever",
        CONNECT,
        "\t\tlink->connecting = false;\n"
        "\t\tshm->connecting--;",
        "\t\tlink->connecting = false;",
    ),
    Fault(
        "a table fills up before it grows",
        MATCH,
        "if (table->keys >= table->size / 2)",
        "if (table->keys + 1 >= table->size)",
    ),
    Fault(
        "what a class that is dropped had fills its table for good",
        MATCH,
        "\ttable->keys = 0;\n",
        "",
    ),
    Fault(
        "where memory is refused each search tries to make an index",
        MATCH,
        "\t\t\tmatch->refused = true;\n"
        "\t\t\treturn MATCH_CLASSES;",
        "\t\t\treturn MATCH_CLASSES;",
    ),
    Fault(
        "an index that was paid for once is made anew for each search",
        MATCH,
        "\tmatch->debt = 0;\n",
        "",
    ),
    Fault(
        "after memory was refused once an index has to be paid for",
        MATCH,
        "\tmatch->refused = false;\n",
        "",
    ),
    Fault(
        "tags that differ in their high bits have one hash",
        MATCH,
        "(uint32_t)((uint64_t)product >> 32 ^ (uint64_t)(product >> 64))",
        "(uint32_t)((uint64_t)product >> 32)",
    ),
    Fault(
        "a cache of one place has no hash",
        CACHE,
        "uint32_t log2 = 1;",
        "uint32_t log2 = 0;",
    ),
    Fault(
        "a registration whose mapping has changed counts as there",
        CACHE,
        "\treturn entry && entry_right(entry);\n"
        "}",
        "\treturn entry;\n"
        "}",
    ),
    Fault(
        "a registration without a monitor has the one of who was in its place",
        CACHE,
        "\t*entry = (struct cache_entry){.address = address, .length = length, .access = access, .uses = 1};\n",
        "\tentry->address = address, entry->length = length, entry->access = access, entry->uses = 1;\n",
    ),
    Fault(
        "each opening of the driver leaves a mapping",
        DRIVER,
        "\tmunmap((void *)(uintptr_t)page, sizeof(page->version));\n",
        "",
    ),
    Fault(
        "a driver that is closed stays mapped",
        DRIVER,
        "\t\tmunmap((void *)(uintptr_t)driver->shared, sizeof(*driver->shared));",
        "\t\t(void)driver;",
    ),
    Fault(
        "a driver that is closed has a page",
        DRIVER,
        "\tdriver->shared = NULL;\n",
        "",
    ),
    Fault(
        "regions that the cache drops stay in the driver",
        DRIVER,
        "\tdriver_forget(arg, (uint32_t)entry->handle);",
        "\t(void)arg, (void)entry;",
    ),
    Fault(
        "nothing needs a page in front of the region",
        REGION,
        "\tif (length == 0)\n"
        "\t\treturn true;\n",
        "",
    ),
    Fault(
        "an endpoint that is closed leaves its timer open",
        "src/endpoint/endpoint.c",
        "\tif (endpoint_of(endpoint)->timer_fd >= 0)\n"
        "\t\tclose(endpoint_of(endpoint)->timer_fd);\n",
        "",
    ),
    Fault(
        "an endpoint that is closed leaves its descriptor open",
        "src/endpoint/endpoint.c",
        "\tif (endpoint->base.wait_fd >= 0)\n"
        "\t\tclose(endpoint->base.wait_fd);\n",
        "",
    ),
    Fault(
        "an endpoint that is closed leaves its report mapped",
        "src/endpoint/endpoint.c",
        "\treport_leave(endpoint_of(endpoint)->report);\n",
        "",
    ),
    Fault(
        "peers know how tags are hashed",
        "src/endpoint/endpoint.c",
        "\t\tmatch_salt(&endpoint->match[queue], salt);\n",
        "",
    ),
    Fault(
        "an endpoint that cannot be opened leaves open what it had opened",
        "src/endpoint/endpoint.c",
        "\tif (error) {\n"
        "\t\tendpoint_close_transports(endpoint);\n"
        "\t\tendpoint_free(endpoint);",
        "\tif (error) {\n"
        "\t\tendpoint_free(endpoint);",
    ),
    Fault(
        "a program of one thread and its progress thread have no lock",
        "src/endpoint/endpoint.c",
        "endpoint->safe = attr->threads == THOLE_THREAD_SAFE || options->progress_thread;",
        "endpoint->safe = attr->threads == THOLE_THREAD_SAFE;",
    ),
    Fault(
        "a buffer for small messages has large ones awaited",
        "src/endpoint/endpoint.c",
        "endpoint->requests.live <= endpoint->multi_posted",
        "endpoint->requests.live == 0",
    ),
    Fault(
        "more counters are written than there are",
        "src/endpoint/endpoint.c",
        "(count < COUNTER_COUNT ? count : COUNTER_COUNT)",
        "count",
    ),
    Fault(
        "what only opening looks at is changed in an open endpoint",
        "src/endpoint/endpoint.c",
        "options_set(&endpoint->base.options, name, value, true)",
        "options_set(&endpoint->base.options, name, value, false)",
    ),
    Fault(
        "who yields keeps the lock",
        WAIT,
        "\tendpoint_unlock(endpoint);\n"
        "\tsched_yield();\n"
        "\tendpoint_lock(endpoint);",
        "\tsched_yield();",
    ),
    Fault(
        "ranks that share a core by chance never yield",
        WAIT,
        "return endpoint->base.oversubscribed || endpoint->base.core_shared;",
        "return endpoint->base.oversubscribed;",
    ),
    Fault(
        "polls in vain are paid for as if they had found something",
        WAIT,
        "\tif (n > 0)\n"
        "\t\tpatience_paid(patience, now_ns, made);\n"
        "\telse",
        "\tif (n >= 0)\n"
        "\t\tpatience_paid(patience, now_ns, made);\n"
        "\telse",
    ),
    Fault(
        "who looks once polls for a while",
        WAIT,
        "if (timeout_ns != 0 && cadence->read_ns == seen_ns",
        "if (cadence->read_ns == seen_ns",
    ),
    Fault(
        "who waits and spins keeps the lock",
        WAIT,
        "\tendpoint_leave(endpoint);\n"
        "\tcpu_pause();\n"
        "\tthread_test(cancellable);\n"
        "\tendpoint_lock(endpoint);",
        "\tcpu_pause();",
    ),
    Fault(
        "who spins before a sleep keeps the lock",
        WAIT,
        "\t\tendpoint_let_others(endpoint, turn++, cancellable);\n",
        "",
    ),
    Fault(
        "the request that wait_any collects stays in its place",
        WAIT,
        "\trequests[any.index] = NULL;\n",
        "",
    ),
    Fault(
        "wait_any looks at requests that are not there",
        WAIT,
        "\t\tif (any->requests[any->index] && request_is_done",
        "\t\tif (request_is_done",
    ),
    Fault(
        "wait_any waits for none at all",
        WAIT,
        "\tif (present == 0)\n"
        '\t\treturn error_set(THOLE_ERR_ARGUMENT, "all %zu requests are NULL", count);\n',
        "",
    ),
    Fault(
        "who sleeps keeps the lock",
        SLEEP,
        "\t\tendpoint_leave(endpoint);\n"
        "\t\tdescriptor_sleep(endpoint->base.wait_fd, longest);\n"
        "\t\tendpoint_lock(endpoint);",
        "\t\tdescriptor_sleep(endpoint->base.wait_fd, longest);",
    ),
    Fault(
        "a large message that is sent after arming is left to a loop that was not told",
        SLEEP,
        "counters[COUNTER_SENT_RENDEZVOUS] + ",
        "",
    ),
    Fault(
        "a put after arming is left to a loop that was not told",
        SLEEP,
        "counters[COUNTER_PUTS] +",
        "",
    ),
    Fault(
        "a get after arming is left to a loop that was not told",
        SLEEP,
        "\t       counters[COUNTER_GETS] + ",
        "\t       ",
    ),
    Fault(
        "an atomic operation after arming is left to a loop that was not told",
        SLEEP,
        " + counters[COUNTER_ATOMICS]",
        "",
    ),
    Fault(
        "only the last transport keeps an endpoint awake",
        TURN,
        "longest = most < longest ? most : longest;",
        "longest = most;",
    ),
    Fault(
        "who is always busy hears of no new connection",
        TURN,
        "\tif (whole->calls % MAINTAIN_CALLS == 0)\n",
        "\tif (endpoint->base.simulated)\n",
    ),
    Fault(
        "who has local messages coming is deaf to a network that rests",
        TURN,
        "\telse if (endpoint->base.resting && cadence_looks(",
        "\telse if (endpoint->base.simulated && cadence_looks(",
    ),
    Fault(
        "a network that rests is looked at as often as the clock is read",
        CADENCE,
        "\tif (now_ns - cadence->looked_ns < CADENCE_LOOK_NS)\n\t\treturn false;\n",
        "",
    ),
    Fault(
        "a test makes no progress",
        "src/endpoint/poll.c",
        "\tif (request->state != REQUEST_DONE)\n"
        "\t\tendpoint_progress(endpoint);\n",
        "",
    ),
    Fault(
        "a peek makes no progress",
        "src/endpoint/poll.c",
        "\tif (list_empty(&endpoint->done))\n"
        "\t\tendpoint_progress(endpoint);\n",
        "",
    ),
    Fault(
        "a poll makes no progress",
        "src/endpoint/poll.c",
        "\thandled = endpoint_progress(endpoint);\n",
        "\thandled = 0;\n",
    ),
    Fault(
        "a poll takes more completions than there is room for",
        "src/endpoint/poll.c",
        "while (n < count && ",
        "while (n <= count && ",
    ),
    Fault(
        "a probe makes no progress",
        "src/endpoint/poll.c",
        "\tif (unexpected || (flags & THOLE_LOOK) || endpoint_progress(endpoint) == 0)\n"
        "\t\treturn unexpected;",
        "\tif (unexpected)\n"
        "\t\treturn unexpected;",
    ),
    Fault(
        "a probe does not look at what its progress has brought",
        "src/endpoint/poll.c",
        "\treturn receive_find(endpoint, source, tag, mask, flags);\n"
        "}",
        "\treturn NULL;\n"
        "}",
    ),
    Fault(
        "a report of another kind is written to",
        "src/endpoint/report.c",
        "report->magic != REPORT_MAGIC || ",
        "",
    ),
    Fault(
        "a failure that is told leaves its report mapped",
        "src/endpoint/report.c",
        "\treport_leave(report);\n"
        "}",
        "}",
    ),
    Fault(
        "a report of another build stays mapped",
        "src/endpoint/report.c",
        "\t\tmunmap(report, sizeof(*report));\n"
        "\t\treturn NULL;",
        "\t\treturn NULL;",
    ),
    Fault(
        "nobody hears that an endpoint is open",
        "src/endpoint/report.c",
        "\tatomic_fetch_add(&report->opened, 1);\n"
        "\treport_tell(report);",
        "\tatomic_fetch_add(&report->opened, 1);",
    ),
    Fault(
        "what is said of a transfer with bytes of its own is believed",
        "src/transport/verbs/bulk.c",
        "\tif (record->length != RECORD_EXTERNAL) {\n"
        "\t\ttransport_bad(pair->peer);\n"
        "\t\treturn;\n"
        "\t}\n",
        "",
    ),
    Fault(
        "what another thread's call completes at once wakes no event loop",
        "src/message/request.c",
        "\tif (endpoint->loop_awaits)\n\t\ttransport_rouse(&endpoint->base, 0);\n",
        "",
    ),
    Fault(
        "an event loop sleeps over what is complete",
        "src/endpoint/sleep.c",
        "if (whole->beside || !list_empty(&endpoint->queue))",
        "if (whole->beside)",
    ),
    Fault(
        "an event loop rouses itself by what it finds",
        "src/endpoint/poll.c",
        "\tendpoint->loop_awaits = false;\n",
        "",
    ),
    Fault(
        "a queue that breaks again and again is made anew for ever",
        "src/transport/verbs/verbs.c",
        "\tif (pair->failed && pair->fails >= FAILS_MOST)\n",
        "\tif (pair->failed && pair->fails == 0)\n",
    ),
    Fault(
        "queues that break with something done are given up",
        "src/transport/verbs/pair.c",
        "done == pair->fails_at ? pair->fails + 1 : 1;",
        "pair->fails + 1;",
    ),
    Fault(
        "a queue that breaks each time is tried as often as others",
        "src/transport/verbs/verbs.c",
        "\t\tif (pair->fails < FAILS_MOST) /*",
        "\t\tif (1) /*",
    ),
    Fault(
        "what comes by queues hides that nothing goes by them",
        "src/transport/verbs/pair.c",
        "(pair_is_needed(pair) ? 0 : pair->expected)",
        "pair->expected",
    ),
    Fault(
        "queues that break with something received are given up",
        "src/transport/verbs/pair.c",
        "(pair_is_needed(pair) ? 0 : pair->expected)",
        "0",
    ),
    Fault(
        "a peer that cannot be reached has queues made as others' stop",
        "src/transport/verbs/pair.c",
        "if (pair->state == PAIR_WAITING && !pair->refused &&",
        "if (pair->state == PAIR_WAITING &&",
    ),
    Fault(
        "a read that the own adapter fails is tried again for ever",
        "src/transport/verbs/bulk.c",
        "status == THOLE_ERR_ACCESS || status == THOLE_ERR_SYSTEM || ",
        "status == THOLE_ERR_ACCESS || ",
    ),
    Fault(
        "a read that the own adapter does not take is tried again for ever",
        "src/transport/verbs/bulk.c",
        "\tif (status == THOLE_ERR_SYSTEM)\n\t\tfetch->there.address = 0;",
        "\tif (0)\n\t\tfetch->there.address = 0;",
    ),
    Fault(
        "a loop whose thread has ended keeps others from sleeping",
        "src/endpoint/timer.c",
        "if (!loop_has_ended(whole, now_ns))",
        "if (!loop_has_ended(whole, 0))",
    ),
    Fault(
        "a loop whose thread lives is forgotten as it does not come",
        "src/base/thread.c",
        "return tgkill(getpid(), thread, 0) != 0 && errno == ESRCH;",
        "return thread != 0;",
    ),
    Fault(
        "a loop whose thread has ended has no time to come",
        "src/endpoint/timer.c",
        "now_ns > whole->roused_ns + LOOP_COMES_NS && ",
        "now_ns > 0 && ",
    ),
    Fault(
        "what a pair has said of its last receive before it is stopped is forgotten",
        "src/transport/verbs/nic_verbs.c",
        "queue->last_receive |= queue",
        "queue->last_receive = queue",
    ),
    Fault(
        "whatever a queue is not to be had for closes another peer's",
        "src/transport/verbs/pair.c",
        "\t\tif (error == THOLE_ERR_AGAIN || error == THOLE_ERR_MEMORY) /*",
        "\t\tif (error) /*",
    ),
    Fault(
        "no other peer's queue is closed where an adapter has no room",
        "src/transport/verbs/pair.c",
        "if (error == THOLE_ERR_AGAIN || error == THOLE_ERR_MEMORY) /*",
        "if (error == THOLE_ERR_AGAIN) /*",
    ),
    Fault(
        "a bound for pairs of a group of processes is no lack of room",
        "src/transport/verbs/nic_verbs.c",
        "reason == EAGAIN || ",
        "",
    ),
    Fault(
        "a network by which a word is awaited is looked at now and then",
        "src/transport/datagram/datagram.c",
        "datagram->owner->resting || datagram->owner->word_awaited || ",
        "datagram->owner->resting || ",
    ),
    Fault(
        "a network by which a word is awaited rests",
        "src/transport/datagram/datagram.c",
        "\t    !owner->word_awaited && engine",
        "\t    engine",
    ),
    Fault(
        "a network that rests is not looked at for a word",
        "src/transport/verbs/records.c",
        "\t\ttransport_set_polled(card->owner, TRANSPORT_DATAGRAM, true);",
        "\t\t(void)card;",
    ),
    Fault(
        "a network is looked at all the time since a word was awaited",
        "src/transport/verbs/records.c",
        "\t\tpair->card->owner->word_awaited = false;",
        "\t\t(void)pair;",
    ),
    Fault(
        "a pair whose queue is begun beside a sleeper waits for it",
        "src/transport/verbs/card.c",
        "\tif (!pair->card->turns)\n\t\ttransport_rouse(pair->card->owner, 0);\n",
        "",
    ),
    Fault(
        "what a pair has to do in time beside a sleeper is late",
        "src/transport/verbs/card.h",
        "\tif (!card->turns)\n\t\ttransport_rouse(card->owner, when_ns);\n",
        "",
    ),
    Fault(
        "what a card finds rouses its own thread",
        "src/transport/verbs/card.c",
        "\tcard->turns = true;\n\tif (exact)",
        "\tif (exact)",
    ),
    Fault(
        "nobody sleeps while the kernel holds up a pair that stops",
        "src/transport/verbs/nic_verbs.c",
        "\treturn stopping_longest(verbs);\n",
        "\treturn list_empty(&verbs->stopping) ? stopping_longest(verbs) : 0;\n",
    ),
    Fault(
        "who waits for a pair that stops sleeps over what its adapter says late",
        "src/transport/verbs/nic_verbs.c",
        "\treturn stopping_longest(verbs);\n",
        "\t(void)stopping_longest;\n\treturn UINT64_MAX;\n",
    ),
    Fault(
        "what a record that finds no room was to say is forgotten",
        "src/transport/verbs/records.c",
        "\tif (owed_ns != UINT64_MAX)\n\t\trecords_owe(pair, pair->card->now_ns);\n",
        "\t(void)owed_ns;\n",
    ),
    Fault(
        "what a record that finds no room was to ask is forgotten",
        "src/transport/verbs/records.c",
        "\tif (head->flags & HEAD_SOON)\n\t\tpair->asked = records_first(pair);\n",
        "\t(void)head;\n",
    ),
]


def misplaced(faults: list[Fault]) -> list[str]:
    """What is wrong with faults whose text is not there once."""
    paths = {fault.file: TOP / fault.file for fault in faults}
    texts = {name: path.read_text() if path.is_file() else "" for name, path in paths.items()}
    return [
        f"{fault.name}: {fault.file} has the text that this fault replaces {texts[fault.file].count(fault.old)} times, "
        "not once: bring test/mutants/faults.py up to date"
        for fault in faults
        if texts[fault.file].count(fault.old) != 1
    ]


if __name__ == "__main__":
    complaints = misplaced(FAULTS)
    print("\n".join(complaints) or f"{len(FAULTS)} faults, each with its text")
    sys.exit(1 if complaints else 0)
