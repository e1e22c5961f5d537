/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/iwarp.h"

#include "base/error.h"

#ifdef THOLE_HAVE_RDMACM
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/endian.h"
#include "base/list.h"
#include "transport/verbs/rdmacm.h"

enum {
	TOKEN = 16,             /* bytes */
	NAME_VERSION = 1,
	NAME_KIND = 4,          /* of adapter: others' names have less there */
	REQUEST_VERSION = 1,
	BACKLOG = 64,           /* requests that nobody has looked at; the kernel drops more */
	LISTEN_TRIES = 16,      /* ports: rdma_cm does not know which ones are TCP's */
	RESOLVE_MS = 1000,
	EVENTS_AT_ONCE = 32,    /* looked at, of which a stranger may have caused all */
};

/* Big-endian, but for what are only bytes. */
enum name_layout {
	NAME_AT_KIND = 1,
	NAME_AT_PORT = 2,
	NAME_AT_TOKEN = 4,
	NAME_AT_ADDRESS = NAME_AT_TOKEN + TOKEN,
	NAME_BYTES = NAME_AT_ADDRESS + 16,
};

/* What goes with a request. */
enum request_layout {
	REQUEST_AT_TO = 1,
	REQUEST_AT_FROM = REQUEST_AT_TO + TOKEN,
	REQUEST_BYTES = REQUEST_AT_FROM + TOKEN,
};

_Static_assert((int)NAME_BYTES <= (int)NIC_NAME_MAX, "a name fits");

enum tie_state {
	TIE_NEW,
	TIE_EXPECTING, /* the peer is to ask */
	TIE_RESOLVING, /* the kernel looks for the adapter and the way */
	TIE_ASKING,    /* the peer was asked */
	TIE_ANSWERED,  /* it has asked, and was accepted */
	TIE_UP,
	TIE_BROKEN,
};

struct iwarp {
	const struct rdmacm *cm;
	struct iwarp_setup setup;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener; /* NULL: none */
	uint16_t port;               /* its */
	struct list_node ties;
	uint32_t due;                /* ties that wait for the kernel or for the peer */
};

struct iwarp_tie {
	struct list_node node;
	struct iwarp *iwarp;
	void *owner;
	struct rdma_cm_id *id;       /* NULL: none yet */
	uint32_t pair_number;
	uint8_t state;               /* enum tie_state */
	bool stopped;
	bool asked;                  /* id is the peer's request, */
	uint8_t asked_reads, asked_peer_reads; /* and wants so many of ours and of its own */
	uint8_t token[TOKEN], peer[TOKEN];
};

bool iwarp_is_here(void)
{
	return rdmacm_load();
}

/* ---- Addresses ------------------------------------------------------------------------------------------ */

union place {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

static bool address_is_ipv4(const uint8_t address[16])
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(address, ipv4, sizeof(ipv4)) == 0;
}

static void place_set(union place *place, const uint8_t address[16], uint16_t port)
{
	memset(place, 0, sizeof(*place));
	if (address_is_ipv4(address)) {
		place->ipv4.sin_family = AF_INET;
		place->ipv4.sin_port = htons(port);
		memcpy(&place->ipv4.sin_addr, address + 12, 4);
	} else {
		place->ipv6.sin6_family = AF_INET6;
		place->ipv6.sin6_port = htons(port);
		memcpy(&place->ipv6.sin6_addr, address, 16);
	}
}

/* Whether rdma_cm has found the adapter that the pairs are of: it goes by addresses, which others may share. */
static bool id_is_ours(const struct iwarp *iwarp, const struct rdma_cm_id *id)
{
	return id->verbs && strcmp(id->verbs->device->name, iwarp->setup.device) == 0;
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

static struct rdma_cm_id *listener_new(struct iwarp *iwarp)
{
	struct rdma_cm_id *id;
	union place place;
	int reason = ENODEV;

	place_set(&place, iwarp->setup.address, 0);
	if (iwarp->cm->create_id(iwarp->channel, &id, NULL, RDMA_PS_TCP) != 0)
		return NULL;
	if (iwarp->cm->bind_addr(id, &place.any) != 0)
		reason = errno;
	else if (id_is_ours(iwarp, id) && iwarp->cm->listen(id, BACKLOG) == 0)
		return id;
	else if (id_is_ours(iwarp, id))
		reason = errno;
	iwarp->cm->destroy_id(id);
	errno = reason;
	return NULL;
}

static int iwarp_listen(struct iwarp *iwarp)
{
	for (int i = 0; i < LISTEN_TRIES && !iwarp->listener; i++) {
		iwarp->listener = listener_new(iwarp);
		if (!iwarp->listener && errno != EADDRINUSE)
			break;
	}
	if (!iwarp->listener)
		return error_set(THOLE_ERR_SYSTEM, "rdma_cm does not listen for the iWARP adapter %s: %m",
				 iwarp->setup.device);
	iwarp->port = ntohs(iwarp->cm->get_src_port(iwarp->listener));
	return 0;
}

static void iwarp_deafen(struct iwarp *iwarp)
{
	if (iwarp->listener)
		iwarp->cm->destroy_id(iwarp->listener);
	iwarp->listener = NULL;
}

int iwarp_move(struct iwarp *iwarp, const uint8_t address[16])
{
	iwarp_deafen(iwarp);
	memcpy(iwarp->setup.address, address, sizeof(iwarp->setup.address));
	return iwarp_listen(iwarp);
}

void iwarp_close(struct iwarp *iwarp)
{
	if (!iwarp)
		return;
	iwarp_deafen(iwarp);
	if (iwarp->channel)
		iwarp->cm->destroy_event_channel(iwarp->channel);
	free(iwarp);
}

int iwarp_open(const struct iwarp_setup *setup, struct iwarp **iwarp_p)
{
	const struct rdmacm *cm = rdmacm_load();
	struct iwarp *iwarp = cm ? calloc(1, sizeof(*iwarp)) : NULL;
	int error = 0;

	if (!cm)
		return THOLE_ERR_UNSUPPORTED;
	if (!iwarp)
		return error_set(THOLE_ERR_MEMORY, "no memory for an adapter's connections");
	iwarp->cm = cm;
	iwarp->setup = *setup;
	list_init(&iwarp->ties);
	iwarp->channel = cm->create_event_channel();
	if (!iwarp->channel ||
	    fcntl(iwarp->channel->fd, F_SETFL, fcntl(iwarp->channel->fd, F_GETFL) | O_NONBLOCK) != 0)
		error = error_set(THOLE_ERR_SYSTEM,
				  "rdma_cm is not to be had for the iWARP adapter %s: %m; is the module rdma_ucm "
				  "loaded, and /dev/infiniband/rdma_cm permitted?",
				  setup->device);
	if (!error)
		error = iwarp_listen(iwarp);
	if (error)
		iwarp_close(iwarp);
	else
		*iwarp_p = iwarp;
	return error;
}

int iwarp_fd(const struct iwarp *iwarp)
{
	return iwarp->channel->fd;
}

bool iwarp_is_due(const struct iwarp *iwarp)
{
	return iwarp->due > 0;
}

/* ---- Ties ---------------------------------------------------------------------------------------------- */

static void tie_set(struct iwarp_tie *tie, enum tie_state state)
{
	tie->iwarp->due -= tie->state > TIE_NEW && tie->state < TIE_UP;
	tie->state = (uint8_t)state;
	tie->iwarp->due += tie->state > TIE_NEW && tie->state < TIE_UP;
}

static void tie_drop(struct iwarp_tie *tie)
{
	if (tie->id)
		tie->iwarp->cm->destroy_id(tie->id);
	tie->id = NULL;
	tie->asked = false;
}

int iwarp_tie_new(struct iwarp *iwarp, uint32_t pair_number, void *owner, struct iwarp_tie **tie_p,
		   struct nic_name *name_p)
{
	struct iwarp_tie *tie;

	if (!iwarp->listener)
		return error_set(THOLE_ERR_SYSTEM, "the iWARP adapter %s has no listener", iwarp->setup.device);
	tie = calloc(1, sizeof(*tie));
	if (!tie)
		return THOLE_ERR_MEMORY;
	*tie = (struct iwarp_tie){.iwarp = iwarp, .owner = owner, .pair_number = pair_number};
	if (getrandom(tie->token, TOKEN, 0) != TOKEN) {
		free(tie);
		return error_set(THOLE_ERR_SYSTEM, "the kernel has no random bits: %m");
	}
	list_push_back(&iwarp->ties, &tie->node);
	memset(name_p, 0, sizeof(*name_p));
	name_p->length = NAME_BYTES;
	name_p->bytes[0] = NAME_VERSION;
	name_p->bytes[NAME_AT_KIND] = NAME_KIND;
	store_be16(name_p->bytes + NAME_AT_PORT, iwarp->port);
	memcpy(name_p->bytes + NAME_AT_TOKEN, tie->token, TOKEN);
	memcpy(name_p->bytes + NAME_AT_ADDRESS, iwarp->setup.address, sizeof(iwarp->setup.address));
	*tie_p = tie;
	return 0;
}

static uint8_t fewer(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static int tie_ask(struct iwarp_tie *tie)
{
	uint8_t request[REQUEST_BYTES] = {REQUEST_VERSION};
	struct rdma_conn_param param = {
		.private_data = request,
		.private_data_len = sizeof(request),
		.responder_resources = tie->iwarp->setup.peer_reads,
		.initiator_depth = tie->iwarp->setup.reads,
		.srq = 1,
		.qp_num = tie->pair_number,
	};

	memcpy(request + REQUEST_AT_TO, tie->peer, TOKEN);
	memcpy(request + REQUEST_AT_FROM, tie->token, TOKEN);
	tie_set(tie, TIE_ASKING);
	return tie->iwarp->cm->connect(tie->id, &param);
}

static int tie_answer(struct iwarp_tie *tie)
{
	struct rdma_conn_param param = {
		.responder_resources = fewer(tie->asked_peer_reads, tie->iwarp->setup.peer_reads),
		.initiator_depth = fewer(tie->asked_reads, tie->iwarp->setup.reads),
		.srq = 1,
		.qp_num = tie->pair_number,
	};

	tie->asked = false;
	tie_set(tie, TIE_ANSWERED);
	return tie->iwarp->cm->accept(tie->id, &param);
}

/* Who has asked is not whom we were told of, or comes too late. */
static void tie_refuse(struct iwarp_tie *tie)
{
	tie->iwarp->cm->reject(tie->id, NULL, 0);
	tie_drop(tie);
}

static bool name_is_good(const struct iwarp *iwarp, const struct nic_name *name)
{
	return name->length == NAME_BYTES && name->bytes[0] == NAME_VERSION &&
	       name->bytes[NAME_AT_KIND] == NAME_KIND &&
	       address_is_ipv4(name->bytes + NAME_AT_ADDRESS) == address_is_ipv4(iwarp->setup.address);
}

static int tie_resolve(struct iwarp_tie *tie, const struct nic_name *peer)
{
	struct iwarp *iwarp = tie->iwarp;
	union place from, to;

	place_set(&from, iwarp->setup.address, 0);
	place_set(&to, peer->bytes + NAME_AT_ADDRESS, load_be16(peer->bytes + NAME_AT_PORT));
	if (iwarp->cm->create_id(iwarp->channel, &tie->id, tie, RDMA_PS_TCP) != 0) {
		tie->id = NULL;
		return -1;
	}
	tie_set(tie, TIE_RESOLVING);
	return iwarp->cm->resolve_addr(tie->id, &from.any, &to.any, RESOLVE_MS);
}

int iwarp_tie_connect(struct iwarp_tie *tie, const struct nic_name *peer)
{
	const struct iwarp *iwarp = tie->iwarp;
	int order = memcmp(tie->token, peer->bytes + NAME_AT_TOKEN, TOKEN);

	if (!name_is_good(iwarp, peer) || order == 0)
		return error_set(THOLE_ERR_ADDRESS, "the adapter %s and the peer's are of different kinds or networks",
				 iwarp->setup.device);
	if (tie->asked && (order < 0 || memcmp(tie->peer, peer->bytes + NAME_AT_TOKEN, TOKEN) != 0))
		tie_refuse(tie);
	memcpy(tie->peer, peer->bytes + NAME_AT_TOKEN, TOKEN);
	if (order > 0 && !tie->asked) {
		tie_set(tie, TIE_EXPECTING);
		return 0;
	}
	if ((order > 0 ? tie_answer(tie) : tie_resolve(tie, peer)) == 0)
		return 0;
	tie_set(tie, TIE_BROKEN);
	return error_set(THOLE_ERR_SYSTEM, "the adapter %s does not connect to the peer's: %m", iwarp->setup.device);
}

void iwarp_tie_stop(struct iwarp_tie *tie)
{
	tie->stopped = true;
	if (tie->asked)
		tie_refuse(tie);
	if (tie->state < TIE_ASKING) {
		tie_drop(tie);
		tie_set(tie, TIE_BROKEN);
	}
}

bool iwarp_tie_is_over(const struct iwarp_tie *tie)
{
	return tie->state != TIE_ASKING && tie->state != TIE_ANSWERED;
}

void iwarp_tie_free(struct iwarp_tie *tie)
{
	if (!tie)
		return;
	tie_set(tie, TIE_BROKEN);
	tie_drop(tie);
	list_remove(&tie->node);
	free(tie);
}

/* ---- Events --------------------------------------------------------------------------------------------- */

/* As long for each token, so that nobody can feel his way to one. */
static bool token_is(const uint8_t *token, const uint8_t *other)
{
	uint8_t different = 0;

	for (int i = 0; i < TOKEN; i++)
		different |= (uint8_t)(token[i] ^ other[i]);
	return different == 0;
}

/* The tie that may be asked by this token. NULL: none. */
static struct iwarp_tie *tie_find(struct iwarp *iwarp, const uint8_t *token)
{
	struct iwarp_tie *found = NULL;

	for (struct list_node *node = list_first(&iwarp->ties); node; node = list_next(&iwarp->ties, node)) {
		struct iwarp_tie *tie = container_of(node, struct iwarp_tie, node);

		if (token_is(tie->token, token) && tie->state <= TIE_EXPECTING && !tie->id && !tie->stopped)
			found = tie;
	}
	return found;
}

/* Somebody asks: what is his, or a stranger's, is copied already. Returns what to tell of tie_p. */
static enum iwarp_news request_take(struct iwarp *iwarp, struct rdma_cm_id *id, const uint8_t *request,
				    const struct rdma_conn_param *param, struct iwarp_tie **tie_p)
{
	struct iwarp_tie *tie = request[0] == REQUEST_VERSION ? tie_find(iwarp, request + REQUEST_AT_TO) : NULL;

	if (!tie || !id_is_ours(iwarp, id) ||
	    (tie->state == TIE_EXPECTING && !token_is(tie->peer, request + REQUEST_AT_FROM))) {
		iwarp->cm->reject(id, NULL, 0);
		iwarp->cm->destroy_id(id);
		return IWARP_NOTHING;
	}
	*tie_p = tie;
	tie->id = id;
	id->context = tie;
	tie->asked = true;
	tie->asked_reads = param->initiator_depth;
	tie->asked_peer_reads = param->responder_resources;
	memcpy(tie->peer, request + REQUEST_AT_FROM, TOKEN);
	if (tie->state == TIE_EXPECTING && tie_answer(tie) != 0) {
		tie_set(tie, TIE_BROKEN);
		return IWARP_BROKEN;
	}
	return IWARP_NOTHING;
}

static enum iwarp_news tie_fails(struct iwarp_tie *tie)
{
	enum iwarp_news news = tie->state == TIE_BROKEN || tie->stopped ? IWARP_NOTHING : IWARP_BROKEN;

	if (tie->asked) { /* who has asked is gone, and his request with him; others may ask */
		tie_drop(tie);
		return IWARP_NOTHING;
	}
	tie_set(tie, TIE_BROKEN);
	return news;
}

static enum iwarp_news tie_goes_on(struct iwarp_tie *tie, enum rdma_cm_event_type type)
{
	struct iwarp *iwarp = tie->iwarp;
	bool asking = tie->state == TIE_ASKING;

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return id_is_ours(iwarp, tie->id) && iwarp->cm->resolve_route(tie->id, RESOLVE_MS) == 0
			       ? IWARP_NOTHING
			       : tie_fails(tie);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return tie_ask(tie) == 0 ? IWARP_NOTHING : tie_fails(tie);
	case RDMA_CM_EVENT_ESTABLISHED:
		if (tie->state != TIE_ASKING && tie->state != TIE_ANSWERED)
			return IWARP_NOTHING;
		tie_set(tie, TIE_UP);
		return asking && !tie->stopped ? IWARP_CONNECTED : IWARP_NOTHING;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return IWARP_NOTHING;
	default:
		return tie_fails(tie);
	}
}

/* What an event brings. It is given back first: an id is not to be had away while it is not. */
static enum iwarp_news happened(struct iwarp *iwarp, struct rdma_cm_event *event, struct iwarp_tie **tie_p)
{
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;
	struct rdma_conn_param param = event->param.conn;
	uint8_t request[REQUEST_BYTES] = {0};

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST && param.private_data && param.private_data_len >= REQUEST_BYTES)
		memcpy(request, param.private_data, REQUEST_BYTES);
	iwarp->cm->ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		return request_take(iwarp, id, request, &param, tie_p);
	if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		iwarp_deafen(iwarp); /* the device does not go before that has */
		return IWARP_GONE;
	}
	*tie_p = id->context;
	return *tie_p ? tie_goes_on(*tie_p, type) : IWARP_NOTHING;
}

enum iwarp_news iwarp_next(struct iwarp *iwarp, void **owner_p)
{
	struct rdma_cm_event *event;
	struct iwarp_tie *tie = NULL;

	*owner_p = NULL;
	for (int i = 0; i < EVENTS_AT_ONCE && iwarp->cm->get_cm_event(iwarp->channel, &event) == 0; i++) {
		enum iwarp_news news = happened(iwarp, event, &tie);

		if (news == IWARP_NOTHING)
			continue;
		*owner_p = tie ? tie->owner : NULL;
		return news;
	}
	return IWARP_NOTHING;
}

#else

bool iwarp_is_here(void)
{
	error_set(THOLE_ERR_UNSUPPORTED, "this Thole was built without iWARP: build it where <rdma/rdma_cma.h> is "
					 "(Debian: librdmacm-dev; Fedora: rdma-core-devel)");
	return false;
}

int iwarp_open(const struct iwarp_setup *setup, struct iwarp **iwarp_p)
{
	(void)setup, (void)iwarp_p;
	iwarp_is_here();
	return THOLE_ERR_UNSUPPORTED;
}

/* Of what cannot be opened there is nothing. */
void iwarp_close(struct iwarp *iwarp)
{
	(void)iwarp;
}

int iwarp_move(struct iwarp *iwarp, const uint8_t address[16])
{
	(void)iwarp, (void)address;
	return THOLE_ERR_UNSUPPORTED;
}

int iwarp_fd(const struct iwarp *iwarp)
{
	(void)iwarp;
	return -1;
}

bool iwarp_is_due(const struct iwarp *iwarp)
{
	(void)iwarp;
	return false;
}

enum iwarp_news iwarp_next(struct iwarp *iwarp, void **owner_p)
{
	(void)iwarp, (void)owner_p;
	return IWARP_NOTHING;
}

int iwarp_tie_new(struct iwarp *iwarp, uint32_t pair_number, void *owner, struct iwarp_tie **tie_p,
		   struct nic_name *name_p)
{
	(void)iwarp, (void)pair_number, (void)owner, (void)tie_p, (void)name_p;
	return THOLE_ERR_UNSUPPORTED;
}

int iwarp_tie_connect(struct iwarp_tie *tie, const struct nic_name *peer)
{
	(void)tie, (void)peer;
	return THOLE_ERR_UNSUPPORTED;
}

void iwarp_tie_stop(struct iwarp_tie *tie)
{
	(void)tie;
}

bool iwarp_tie_is_over(const struct iwarp_tie *tie)
{
	(void)tie;
	return true;
}

void iwarp_tie_free(struct iwarp_tie *tie)
{
	(void)tie;
}

#endif
