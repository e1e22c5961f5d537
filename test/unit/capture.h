/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture: frames of real hosts, as test/data/captures keeps them, with their payloads filled in again. The README
 * there says how payloads follow from the rest.
 *
 * It looks at bytes itself and uses no codec, since codecs are tested with it.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/endian.h"

enum {
	CAPTURE_FRAMES_MAX = 1000,
	CAPTURE_FRAME_MAX = 9000,
	CAPTURE_ETHERNET = 14,
	CAPTURE_PULLS_MAX = 128,
};

struct capture_frame {
	uint32_t number; /* from 1, as in Wireshark */
	uint64_t time_ns; /* since the first */
	unsigned from;   /* 1 or 2: the host that sent it; 0: another */
	bool broadcast;
	bool dropped;    /* it never arrived */
	size_t length;   /* with the Ethernet header, and padding as on the wire */
	uint8_t bytes[CAPTURE_FRAME_MAX];
};

struct capture {
	bool jumbo;
	uint32_t seed;
	unsigned count;
	struct capture_frame *frames;
};

static const struct capture_file {
	const char *name;
	bool jumbo;
	uint32_t seed;
} capture_files[] = {
	{"openmx-jumbo", true, 1}, {"openmx-mxwire", false, 2}, {"lossy-jumbo", true, 3},
	{"probes-jumbo", true, 4}, {"extra-jumbo", true, 6},    {"blocked-jumbo", true, 8},
};

enum { CAPTURE_FILES = sizeof(capture_files) / sizeof(capture_files[0]) };

/* Byte i of message m. */
static inline uint8_t capture_byte(uint32_t seed, uint32_t message, uint32_t i)
{
	return (uint8_t)((i * UINT32_C(0x9e3779b1) + seed * UINT32_C(0x85ebca6b) + message * UINT32_C(0xc2b2ae35)) >>
			 24);
}

/* The message whose match information this is. */
static inline uint32_t capture_message(uint64_t match)
{
	return (uint32_t)(match >> 32) & 0xffff;
}

static inline void capture_fill(uint8_t *to, uint32_t length, uint32_t seed, uint32_t message, uint32_t offset)
{
	for (uint32_t i = 0; i < length; i++)
		to[i] = capture_byte(seed, message, offset + i);
}

/* Which message a window shows and a pull fetches: by the hosts and endpoints and the window's two numbers, and by
 * the hosts and the puller's handle and magic. */
struct capture_link {
	uint8_t key[16];
	uint32_t message;
};

struct capture_links {
	struct capture_link links[CAPTURE_PULLS_MAX];
	unsigned count;
};

static inline void capture_link(struct capture_links *links, const uint8_t key[16], uint32_t message)
{
	struct capture_link *link = &links->links[links->count++ % CAPTURE_PULLS_MAX];

	memcpy(link->key, key, sizeof(link->key));
	link->message = message;
}

/* The latest one counts, since numbers come back. */
static inline uint32_t capture_linked(const struct capture_links *links, const uint8_t key[16])
{
	unsigned oldest = links->count > CAPTURE_PULLS_MAX ? links->count - CAPTURE_PULLS_MAX : 0;

	for (unsigned i = links->count; i > oldest; i--) {
		const struct capture_link *link = &links->links[(i - 1) % CAPTURE_PULLS_MAX];

		if (memcmp(link->key, key, sizeof(link->key)) == 0)
			return link->message;
	}
	return 0;
}

enum { CAPTURE_MEDIUM = 39, CAPTURE_RENDEZVOUS = 40, CAPTURE_PULL = 41, CAPTURE_PULL_REPLY = 42 };

/* Remember what a frame says of windows and pulls, and fill in its payload if it was cut. */
static inline void capture_complete(struct capture *capture, struct capture_frame *frame, bool cut,
				    struct capture_links *windows, struct capture_links *pulls)
{
	uint8_t *body = frame->bytes + CAPTURE_ETHERNET + 2, key[16] = {0};
	const uint8_t *to = frame->bytes, *from = to + 6;

	if (body[0] == CAPTURE_RENDEZVOUS) {
		key[0] = from[5], key[1] = body[2], key[2] = to[5], key[3] = body[1];
		key[4] = body[28], key[5] = body[29];
		capture_link(windows, key, capture_message(load_be64(body + 12)));
	} else if (body[0] == CAPTURE_PULL) {
		key[0] = to[5], key[1] = body[1], key[2] = from[5], key[3] = body[2];
		key[4] = capture->jumbo ? body[15] : body[12];
		key[5] = capture->jumbo ? body[16] : body[13];
		uint32_t message = capture_linked(windows, key);

		memset(key, 0, sizeof(key));
		key[0] = from[5];
		memcpy(key + 8, body + (capture->jumbo ? 24 : 16), 8);
		capture_link(pulls, key, message);
	} else if (cut && body[0] == CAPTURE_MEDIUM) {
		capture_fill(body + 32, load_be16(body + 24), capture->seed, capture_message(load_be64(body + 12)),
			     body[26] * (capture->jumbo ? 8192u : 4096u));
	} else if (cut && body[0] == CAPTURE_PULL_REPLY) {
		key[0] = to[5];
		memcpy(key + 8, body + 8, 8);
		capture_fill(body + 16, load_be16(body + 2), capture->seed, capture_linked(pulls, key),
			     load_be32(body + 4));
	}
}

static inline unsigned capture_host(const uint8_t mac[6])
{
	static const uint8_t hosts[5] = {0x52, 0x54, 0x00, 0x12, 0x34};

	return memcmp(mac, hosts, sizeof(hosts)) == 0 && mac[5] <= 2 ? mac[5] : 0;
}

static inline bool capture_numbers(FILE *file, uint32_t *numbers, size_t count)
{
	if (fread(numbers, sizeof(*numbers), count, file) != count)
		return false;
	for (size_t i = 0; i < count; i++)
		numbers[i] = le32toh(numbers[i]);
	return true;
}

/* The next frame of a pcap file of little-endian numbers and microseconds. */
static inline bool capture_read(FILE *file, struct capture_frame *frame, uint64_t *time_ns_p, bool *cut_p)
{
	uint32_t head[4]; /* seconds, microseconds, bytes kept, bytes caught */

	if (!capture_numbers(file, head, 4) || head[2] > head[3] || head[3] > CAPTURE_FRAME_MAX ||
	    head[2] < CAPTURE_ETHERNET + 2 + 16 || fread(frame->bytes, head[2], 1, file) != 1)
		return false;
	*time_ns_p = head[0] * UINT64_C(1000000000) + head[1] * UINT64_C(1000);
	*cut_p = head[2] < head[3];
	frame->length = head[3];
	frame->from = capture_host(frame->bytes + 6);
	frame->broadcast = frame->bytes[0] == 0xff;
	return true;
}

static inline void capture_drops(struct capture *capture, const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned number;

	while (file && fscanf(file, "%u", &number) == 1)
		if (number > 0 && number <= capture->count)
			capture->frames[number - 1].dropped = true;
	if (file)
		fclose(file);
}

static inline void capture_free(struct capture *capture)
{
	free(capture->frames);
	*capture = (struct capture){0};
}

/* Load a capture with all its payloads. False: the file is missing or no capture. */
static inline bool capture_load(struct capture *capture, const struct capture_file *which, const char *folder)
{
	struct capture_links *windows = calloc(2, sizeof(*windows));
	char path[4096];
	uint32_t head[6]; /* magic, version, zone, accuracy, length of frames, kind of link */
	uint64_t first_ns = 0, time_ns;
	bool cut;
	FILE *file;

	*capture = (struct capture){.jumbo = which->jumbo, .seed = which->seed};
	capture->frames = calloc(CAPTURE_FRAMES_MAX, sizeof(*capture->frames));
	snprintf(path, sizeof(path), "%s/%s.pcap", folder, which->name);
	file = fopen(path, "rb");
	if (file && windows && capture->frames && capture_numbers(file, head, 6) && head[0] == 0xa1b2c3d4) {
		while (capture->count < CAPTURE_FRAMES_MAX &&
		       capture_read(file, &capture->frames[capture->count], &time_ns, &cut)) {
			struct capture_frame *frame = &capture->frames[capture->count++];

			first_ns = capture->count == 1 ? time_ns : first_ns;
			frame->number = capture->count;
			frame->time_ns = time_ns - first_ns;
			capture_complete(capture, frame, cut, windows, windows + 1);
		}
	}
	if (file)
		fclose(file);
	free(windows);
	snprintf(path, sizeof(path), "%s/%s.drops", folder, which->name);
	capture_drops(capture, path);
	if (capture->count == 0)
		capture_free(capture);
	return capture->count > 0;
}

#endif /* CAPTURE_H */
