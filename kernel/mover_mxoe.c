// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover.h"

#include <linux/etherdevice.h>

#include "base/endian.h"
#include "transport/datagram/wire/mxoe_fields.h"

enum { TYPE_AT = FRAME_LENGTH + FRONT_TYPE_AT };

/* ---- Connections ----------------------------------------------------------------------------- */

static u64 mover_mxoe_key(const u8 *mac, u32 number)
{
	return ether_addr_to_u64(mac) << 8 | number;
}

static int mover_mxoe_check(const struct mover_kind *kind, struct mover *mover,
			    const struct thole_driver_connection *wanted)
{
	static const u8 zeros[16 - ETH_ALEN];
	u32 least = kind->codec->data_head + kind->codec->data;

	if (wanted->mode || wanted->records_port || wanted->bulk_port || wanted->counter ||
	    wanted->session > U32_MAX || wanted->peer_session > U32_MAX || wanted->index > U8_MAX ||
	    wanted->peer_index > U8_MAX || wanted->frame_max < least || wanted->frame_max > U16_MAX ||
	    !is_valid_ether_addr(wanted->address) || memcmp(wanted->address + ETH_ALEN, zeros, sizeof(zeros)))
		return -EINVAL;
	return ether_is(&mover->ether, THOLE_DRIVER_ETHERTYPE_MXOE, wanted->index, least) ? 0 : -ENXIO;
}

static void mover_mxoe_fill(struct mover_connection *connection, const struct thole_driver_connection *wanted)
{
	ether_addr_copy(connection->mac, wanted->address);
	connection->key = mover_mxoe_key(connection->mac, connection->peer_index);
	connection->head = connection->mover->kind->codec->data_head;
}

static bool mover_mxoe_fits(const struct mover_connection *connection, const struct thole_driver_fetch *wanted)
{
	return wanted->frame == connection->mover->kind->codec->data && wanted->offset + wanted->length <= U32_MAX;
}

static void mover_mxoe_name(const struct mover_connection *connection, struct packet *packet)
{
	if (packet->type != PACKET_PULL)
		return; /* others name nobody, or who asked */
	packet->peer_index = READ_ONCE(connection->way->host_index);
	packet->to = connection->peer_index;
	packet->from = connection->index;
	packet->session = connection->peer_session;
	packet_pull_place(&packet->pull);
}

const struct mover_kind mover_mxoe = {
	.codec = &codec_mxoe,
	.counted = true,
	.check = mover_mxoe_check,
	.fill = mover_mxoe_fill,
	.fits = mover_mxoe_fits,
	.name = mover_mxoe_name,
	.data = mover_send_frames,
};

const struct mover_kind mover_mxoe_jumbo = {
	.codec = &codec_mxoe_jumbo,
	.counted = true,
	.check = mover_mxoe_check,
	.fill = mover_mxoe_fill,
	.fits = mover_mxoe_fits,
	.name = mover_mxoe_name,
	.data = mover_send_frames,
};

/* ---- Frames that come ------------------------------------------------------------------------ */

bool mover_mxoe_is_data(const struct mover *mover, const u8 *head, u32 length)
{
	return mover->kind->counted && length > TYPE_AT && head[TYPE_AT] == MXOE_PULL_REPLY;
}

/* A host with MX says so whatever its programs do; who asks for a window that nobody has wants to know just that. */
static void mover_mxoe_refuse(struct mover_connection *connection, const struct packet *pull)
{
	struct packet packet = {
		.type = PACKET_NACK,
		.to = pull->from,
		.from = pull->to,
		.peer_index = MXOE_INDEX_ANY,
		.nack = {.reason = NACK_BAD_WINDOW, .driver = true, .transfer = pull->pull.transfer},
	};

	mover_send_packet(connection, &packet, CHANNEL_RECORDS);
}

/* Under the lock. What too many wait for already is the program's, and what it has no window for. */
static bool mover_mxoe_pull(struct mover *mover, const u8 *head, u32 length, const u8 *from)
{
	struct mover_connection *connection;
	struct packet packet;

	if (mover->kind->codec->decode(&packet, head, length))
		return false;
	connection = mover_find_peer(mover, mover->kind, mover_mxoe_key(from, packet.from), packet.session);
	if (!connection || connection->index != packet.to)
		return false;
	packet.pull.frame = mover->kind->codec->data;
	if (packet.pull.window == MXOE_WINDOW_NONE)
		mover_mxoe_refuse(connection, &packet);
	else if (mover_serve_pull(connection, &packet))
		return false;
	connection->way->heard++;
	return true;
}

static bool mover_mxoe_pull_arrived(struct mover *mover, const struct sk_buff *skb, const u8 *from)
{
	u8 head[PACKET_HEAD_MAX] = {0};
	u32 length = min_t(u32, skb->len, sizeof(head));
	bool ours;

	if (skb_copy_bits(skb, 0, head, length) || head[TYPE_AT] != MXOE_PULL)
		return false;
	mover_lock(mover);
	ours = mover->kind->counted && mover_mxoe_pull(mover, head, length, from);
	mover_unlock(mover);
	if (ours)
		mover_serve_some(mover);
	return ours;
}

bool mover_mxoe_arrived(struct mover *mover, struct sk_buff *skb)
{
	const u8 *from = eth_hdr(skb)->h_source;

	if (skb->pkt_type != PACKET_HOST)
		return false;
	if (!READ_ONCE(mover->kind)->counted)
		return false;
	return mover_mxoe_pull_arrived(mover, skb, from) ||
	       (atomic_read(&mover->fetches) && mover_fetch_frame(mover, skb, from));
}
