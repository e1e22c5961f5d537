/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alarm: one descriptor that becomes readable when something arrives at any of a link's sockets, but only while it is
 * set.
 *
 * A socket that somebody watches costs whoever sends to it a quarter of a microsecond for each packet, so links are
 * watched only while their owner sleeps: link->ready sets the alarm, the next link->receive clears it.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_ALARM_H
#define THOLE_TRANSPORT_DATAGRAM_ALARM_H

#include <stdbool.h>

struct alarm {
	int fd; /* to be watched by the owner; -1: not open */
	bool set;
};

/* Errors: SYSTEM. */
int alarm_open(struct alarm *alarm);
void alarm_close(struct alarm *alarm);
enum alarm_state {
	ALARM_SET,
	ALARM_RINGS,   /* something is there already, an error to be fetched included */
	ALARM_REFUSED, /* the kernel watches no more (no memory, fs.epoll.max_user_watches): nobody may sleep by it */
};

/* Watch these sockets (-1: none). */
enum alarm_state alarm_set(struct alarm *alarm, const int *sockets, unsigned count);
/* The same sockets, or those of them that are still open. */
void alarm_clear(struct alarm *alarm, const int *sockets, unsigned count);

#endif
