/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each layout is said once: the same walk over the fields writes them and reads them.
 */
#include "mx_notice.h"

#include <string.h>

#include "base/endian.h"

enum { LENGTH_AT = 6 }; /* of the field with the datagram's length */

/* Where a walk is. Once something does not fit it stays bad and moves no more. */
struct walk {
	uint8_t *at;  /* the next field */
	size_t left;  /* bytes from there to the end */
	bool reading; /* fields are read; else written */
	bool bad;     /* it is over, and what it did is nothing */
};

static bool mxi_notice_walk_over(struct walk *walk, size_t bytes)
{
	walk->bad = walk->bad || walk->left < bytes;
	return !walk->bad;
}

static void mxi_notice_walk_advance(struct walk *walk, size_t bytes)
{
	walk->at += bytes;
	walk->left -= bytes;
}

static void mxi_notice_field_u8(struct walk *walk, uint8_t *value)
{
	if (!mxi_notice_walk_over(walk, sizeof(*value)))
		return;
	if (walk->reading)
		*value = *walk->at;
	else
		*walk->at = *value;
	mxi_notice_walk_advance(walk, sizeof(*value));
}

static void mxi_notice_field_u16(struct walk *walk, uint16_t *value)
{
	if (!mxi_notice_walk_over(walk, sizeof(*value)))
		return;
	if (walk->reading)
		*value = load_be16(walk->at);
	else
		store_be16(walk->at, *value);
	mxi_notice_walk_advance(walk, sizeof(*value));
}

static void mxi_notice_field_u32(struct walk *walk, uint32_t *value)
{
	if (!mxi_notice_walk_over(walk, sizeof(*value)))
		return;
	if (walk->reading)
		*value = load_be32(walk->at);
	else
		store_be32(walk->at, *value);
	mxi_notice_walk_advance(walk, sizeof(*value));
}

static void mxi_notice_field_u64(struct walk *walk, uint64_t *value)
{
	if (!mxi_notice_walk_over(walk, sizeof(*value)))
		return;
	if (walk->reading)
		*value = load_be64(walk->at);
	else
		store_be64(walk->at, *value);
	mxi_notice_walk_advance(walk, sizeof(*value));
}

static bool mxi_notice_visible(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return true;
}

/* size: bytes at text, for its NUL too. What follows a text that was read is zero. */
static void mxi_notice_field_text(struct walk *walk, char *text, size_t size, bool any)
{
	uint8_t length = walk->reading ? 0 : (uint8_t)strnlen(text, size - 1);

	mxi_notice_field_u8(walk, &length);
	if (!mxi_notice_walk_over(walk, length))
		return;
	if (length >= size) {
		walk->bad = true;
		return;
	}
	if (walk->reading) {
		memcpy(text, walk->at, length);
		memset(text + length, 0, size - length);
	} else {
		memcpy(walk->at, text, length);
	}
	mxi_notice_walk_advance(walk, length);
	walk->bad = walk->bad || memchr(text, '\0', length) || (!any && !mxi_notice_visible(text, length));
}

static void mxi_notice_field_name(struct walk *walk, char name[MX_MAX_HOSTNAME_LEN])
{
	mxi_notice_field_text(walk, name, MX_MAX_HOSTNAME_LEN, false);
}

static void mxi_notice_field_address(struct walk *walk, struct thole_address *address)
{
	mxi_notice_field_text(walk, address->text, sizeof(address->text), false);
}

static void mxi_notice_field_counters(struct walk *walk, struct mxi_notice *notice)
{
	mxi_notice_field_u16(walk, &notice->count);
	if (notice->count > MXI_NOTICE_COUNTERS_MAX)
		walk->bad = true;
	for (unsigned i = 0; !walk->bad && i < notice->count; i++)
		mxi_notice_field_u64(walk, &notice->counters[i]);
}

static void mxi_notice_field_identity(struct walk *walk, struct mxi_identity *identity)
{
	mxi_notice_field_u64(walk, &identity->nic_id);
	mxi_notice_field_u32(walk, &identity->endpoint_id);
	mxi_notice_field_u32(walk, &identity->session);
}

static void mxi_notice_walk_status_answer(struct walk *walk, struct mxi_notice *notice)
{
	mxi_notice_field_u64(walk, &notice->token);
	mxi_notice_field_identity(walk, &notice->from);
	mxi_notice_field_u32(walk, &notice->pid);
	mxi_notice_field_text(walk, notice->command, sizeof(notice->command), true);
	mxi_notice_field_address(walk, &notice->address);
	mxi_notice_field_u32(walk, &notice->dropped);
	mxi_notice_field_counters(walk, notice);
}

static void mxi_notice_walk_body(struct walk *walk, struct mxi_notice *notice)
{
	switch (notice->type) {
	case MXI_NOTICE_FIND:
		mxi_notice_field_u64(walk, &notice->from.nic_id);
		mxi_notice_field_name(walk, notice->from_name);
		mxi_notice_field_u64(walk, &notice->nic_id);
		mxi_notice_field_name(walk, notice->name);
		mxi_notice_field_u8(walk, &notice->attempt);
		return;
	case MXI_NOTICE_HERE:
		mxi_notice_field_u64(walk, &notice->from.nic_id);
		mxi_notice_field_name(walk, notice->from_name);
		return;
	case MXI_NOTICE_CONNECT:
		mxi_notice_field_u64(walk, &notice->token);
		mxi_notice_field_identity(walk, &notice->from);
		mxi_notice_field_address(walk, &notice->address);
		mxi_notice_field_u64(walk, &notice->nic_id);
		mxi_notice_field_u32(walk, &notice->endpoint_id);
		mxi_notice_field_u32(walk, &notice->key);
		return;
	case MXI_NOTICE_ANSWER:
		mxi_notice_field_u64(walk, &notice->token);
		mxi_notice_field_u32(walk, &notice->status);
		mxi_notice_field_u32(walk, &notice->from.session);
		mxi_notice_field_address(walk, &notice->address);
		return;
	case MXI_NOTICE_STATUS:
		mxi_notice_field_u64(walk, &notice->token);
		return;
	case MXI_NOTICE_STATUS_ANSWER:
		mxi_notice_walk_status_answer(walk, notice);
		return;
	}
	walk->bad = true;
}

static void mxi_notice_walk_head(struct walk *walk, struct mxi_notice *notice, uint16_t *length)
{
	uint32_t magic = MXI_NOTICE_MAGIC;
	uint8_t version = MXI_NOTICE_VERSION, type = (uint8_t)notice->type;

	mxi_notice_field_u32(walk, &magic);
	mxi_notice_field_u8(walk, &version);
	mxi_notice_field_u8(walk, &type);
	mxi_notice_field_u16(walk, length);
	walk->bad = walk->bad || magic != MXI_NOTICE_MAGIC || version != MXI_NOTICE_VERSION;
	notice->type = (enum mxi_notice_type)type;
}

size_t mxi_notice_encode(const struct mxi_notice *notice, uint8_t bytes[MXI_NOTICE_BYTES_MAX])
{
	struct walk walk = {.at = bytes, .left = MXI_NOTICE_BYTES_MAX};
	struct mxi_notice copy = *notice; /* a walk that writes changes nothing, but could */
	uint16_t length = 0;

	mxi_notice_walk_head(&walk, &copy, &length);
	mxi_notice_walk_body(&walk, &copy);
	if (walk.bad)
		return 0;
	length = (uint16_t)(walk.at - bytes);
	store_be16(bytes + LENGTH_AT, length);
	return length;
}

/* What a layout alone does not say. */
static bool mxi_notice_plausible(const struct mxi_notice *notice)
{
	switch (notice->type) {
	case MXI_NOTICE_FIND:
		return (notice->nic_id == 0 || notice->name[0] == '\0') &&
		       (notice->from.nic_id == 0) == (notice->from_name[0] == '\0');
	case MXI_NOTICE_HERE:
		return notice->from.nic_id != 0 && notice->from_name[0] != '\0';
	case MXI_NOTICE_CONNECT:
		return notice->address.text[0] != '\0';
	case MXI_NOTICE_ANSWER:
		return notice->status <= MX_STATUS_NO_RESOURCES &&
		       (notice->status == MX_STATUS_SUCCESS) == (notice->address.text[0] != '\0');
	case MXI_NOTICE_STATUS:
	case MXI_NOTICE_STATUS_ANSWER:
		break;
	}
	return true;
}

bool mxi_notice_decode(const uint8_t *bytes, size_t length, struct mxi_notice *notice)
{
	struct walk walk = {.at = (uint8_t *)(uintptr_t)bytes, .left = length, .reading = true};
	uint16_t said = 0;

	memset(notice, 0, sizeof(*notice));
	mxi_notice_walk_head(&walk, notice, &said);
	mxi_notice_walk_body(&walk, notice);
	return !walk.bad && walk.left == 0 && said == length && mxi_notice_plausible(notice);
}
