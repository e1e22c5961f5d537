/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * screen: messages that their receiver looks at before they are matched.
 *
 * A message to be screened is in the endpoint's list `screen` or handed out, and in no match queue. Messages in the
 * list are newer than all in the queues.
 */
#include "message/internal.h"
#include "message/message.h"

/* Into matching, as if it arrived now and nothing were screened. */
static void unexpected_match(struct thole_message *unexpected)
{
	unexpected->screened = false;
	if (!unexpected_offer(unexpected))
		match_store(&unexpected->peer->endpoint->match[unexpected->queue], &unexpected->match);
}

/* A message of the peer that was screened is where it belongs. Receives from a peer that is gone wait for its last. */
static void screen_left(struct peer *peer)
{
	peer->endpoint->screened--;
	if (--peer->screened == 0 && peer->base.gone)
		peer_fail_receives(peer);
}

/* The oldest message to be screened, out of the list; or NULL. */
static struct thole_message *screen_take(struct thole_endpoint *endpoint)
{
	struct list_node *node = list_first(&endpoint->screen);

	if (!node)
		return NULL;
	list_unlink(node);
	return container_of(node, struct thole_message, node);
}

static void screen_end(struct thole_endpoint *endpoint)
{
	struct thole_message *unexpected;

	while ((unexpected = screen_take(endpoint))) {
		struct peer *peer = unexpected->peer;

		unexpected_match(unexpected);
		screen_left(peer);
	}
	endpoint->screening = SCREENING_OFF;
}

void screen_back(struct peer *peer)
{
	struct thole_endpoint *endpoint;

	if (!peer)
		return;
	endpoint = peer->endpoint;
	endpoint->screen_out--;
	screen_left(peer);
	if (endpoint->screen_out == 0 && endpoint->screening == SCREENING_ENDS)
		screen_end(endpoint);
}

int thole_screen(struct thole_endpoint *endpoint, int on)
{
	endpoint_lock(endpoint);
	if (on)
		endpoint->screening = SCREENING_ON;
	else if (endpoint->screen_out > 0)
		endpoint->screening = SCREENING_ENDS;
	else
		screen_end(endpoint);
	endpoint_unlock(endpoint);
	return 0;
}

/* The oldest message that no receive matches, handed out; or NULL. */
static struct thole_message *screen_next(struct thole_endpoint *endpoint)
{
	struct thole_message *unexpected;

	while (endpoint->screening == SCREENING_ON && (unexpected = screen_take(endpoint))) {
		struct peer *peer = unexpected->peer;

		if (!unexpected_offer(unexpected)) {
			unexpected->screened = true;
			endpoint->screen_out++;
			return unexpected;
		}
		screen_left(peer);
	}
	return NULL;
}

int thole_screen_next(struct thole_endpoint *endpoint, struct thole_completion *completion_p, const void **data_p,
		      struct thole_message **message_p)
{
	struct thole_message *unexpected;

	endpoint_lock(endpoint);
	unexpected = screen_next(endpoint);
	if (unexpected) {
		unexpected_describe(unexpected, completion_p);
		*data_p = unexpected->length > 0 && unexpected->arrived == unexpected->length ? unexpected->data : NULL;
		*message_p = unexpected;
	}
	endpoint_unlock(endpoint);
	return unexpected != NULL;
}

static int message_back(struct thole_endpoint *endpoint, struct thole_message *message,
			void (*end)(struct thole_message *unexpected))
{
	struct peer *screened;

	endpoint_lock(endpoint);
	screened = unexpected_screened(message);
	end(message);
	screen_back(screened);
	endpoint_unlock(endpoint);
	return 0;
}

int thole_message_drop(struct thole_endpoint *endpoint, struct thole_message *message)
{
	return message_back(endpoint, message, unexpected_drop);
}

int thole_message_keep(struct thole_endpoint *endpoint, struct thole_message *message)
{
	return message_back(endpoint, message, unexpected_match);
}
